package account

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// Actor is who administers: a signed-in administrator or the operator at the
// command line. It goes into the audit rows.
type Actor struct {
	Sub       string // empty for the operator
	Name      string // handle, or "operator"
	Address   string
	RequestID string
}

// Operator is the actor of the command line.
func Operator() Actor { return Actor{Name: "operator"} }

// ActorOf is the signed-in user of a request behind RequireSession or RequireAdmin.
func ActorOf(r *http.Request) Actor {
	u := IdentityFrom(r.Context()).User
	return Actor{Sub: u.Sub, Name: u.Handle, Address: web.ClientAddress(r), RequestID: web.RequestID(r.Context())}
}

// Audit makes the audit row of an act. detail never has a secret or a code.
func (a Actor) Audit(at time.Time, action, target, detail string) Audit {
	return Audit{At: at, Actor: a.Name, Action: action, Target: target, Detail: detail, Address: a.Address, RequestID: a.RequestID}
}

// Administration is what administrators and the operator do to the accounts of
// others. Its errors are those of the Store and the ones named at each method.
type Administration struct {
	store Store
	clock func() time.Time
}

// NewAdministration makes one; now may be nil for time.Now.
func NewAdministration(store Store, now func() time.Time) *Administration {
	if now == nil {
		now = time.Now
	}
	return &Administration{store, now}
}

// Administration shares the store and the clock of the service.
func (s *Service) Administration() *Administration { return NewAdministration(s.store, s.clock) }

// Now is the current time in whole UTC seconds.
func (a *Administration) Now() time.Time { return a.clock().UTC().Truncate(time.Second) }

// User finds a user by a handle in any case; ErrUserNotFound, also for what
// cannot be a handle. Blanks around it are not forgiven as they are at a
// sign-in: what follows may delete a user.
func (a *Administration) User(ctx context.Context, named string) (User, error) {
	h, err := CanonicalHandle(named)
	if err != nil || strings.TrimSpace(named) != named {
		return User{}, ErrUserNotFound
	}
	return a.store.UserByHandle(ctx, h)
}

// Users lists users; see UserStore.
func (a *Administration) Users(ctx context.Context, q UserQuery) (users []User, next string, err error) {
	return a.store.Users(ctx, q)
}

// Access is where a user is signed in and which applications they let in.
type Access struct {
	Sessions []Session // newest first
	Apps     []App
}

// Access returns the live sessions of a user and the applications.
func (a *Administration) Access(ctx context.Context, u User) (out Access, err error) {
	if out.Sessions, err = a.Sessions(ctx, u); err == nil {
		out.Apps, err = a.store.Apps(ctx, u.Sub, a.Now())
	}
	return out, err
}

// Sessions lists all live sessions of a user, newest first.
func (a *Administration) Sessions(ctx context.Context, u User) ([]Session, error) {
	return a.store.Sessions(ctx, u.Sub, a.Now())
}

// EndSession signs a user out of one browser. ErrSessionNotFound.
func (a *Administration) EndSession(ctx context.Context, by Actor, u User, id string) error {
	if !isSessionID(id) { // nor fit for the audit log
		return ErrSessionNotFound
	}
	_, err := a.store.RevokeSessions(ctx, u.Sub, id, a.Now(), by.Audit(a.Now(), "user.end_session", u.Handle, id))
	return web.Noted(ctx, "session_ended", err)
}

// EndSessions signs a user out everywhere and says of how many browsers.
func (a *Administration) EndSessions(ctx context.Context, by Actor, u User) (int, error) {
	n, err := a.store.RevokeSessions(ctx, u.Sub, "", a.Now(), by.Audit(a.Now(), "user.end_sessions", u.Handle, ""))
	return n, web.Noted(ctx, "sessions_ended", err)
}

// Settings reads the settings as they are stored, past every cache.
func (a *Administration) Settings(ctx context.Context) (Settings, error) {
	return a.store.Settings(ctx)
}

// AuditLog returns audit rows, newest first, older than the id before.
func (a *Administration) AuditLog(ctx context.Context, before int64, limit int) ([]Audit, error) {
	return a.store.Audit(ctx, before, limit)
}

// Suspend shuts a user out at once. ErrOwnAccount, ErrLastAdmin, ErrInvalidText.
func (a *Administration) Suspend(ctx context.Context, by Actor, u User, reason string) error {
	reason, err := CheckReason(reason)
	if err != nil {
		return err
	}
	if by.Sub == u.Sub {
		return ErrOwnAccount
	}
	err = a.store.Suspend(ctx, u.Sub, reason, a.Now(), by.Audit(a.Now(), "user.suspend", u.Handle, reason))
	return web.Noted(ctx, "user_suspended", err)
}

// Unsuspend lets a user sign in again; what was ended stays ended.
func (a *Administration) Unsuspend(ctx context.Context, by Actor, u User) error {
	err := a.store.Unsuspend(ctx, u.Sub, a.Now(), by.Audit(a.Now(), "user.unsuspend", u.Handle, ""))
	return web.Noted(ctx, "user_unsuspended", err)
}

// Delete removes a user's personal data; the handle stays taken. ErrOwnAccount
// (one's own account is deleted with its password), ErrLastAdmin.
func (a *Administration) Delete(ctx context.Context, by Actor, u User) error {
	if by.Sub == u.Sub {
		return ErrOwnAccount
	}
	err := a.store.DeleteUser(ctx, u.Sub, a.Now(), by.Audit(a.Now(), "user.delete", u.Handle, ""))
	return web.Noted(ctx, "user_deleted", err)
}

// SetFlags turns the named access flags on or off and returns those that are
// on. ErrUnknownFlag for a name that the settings do not have; a flag that the
// settings have lost can still be taken from a user. ErrLastAdmin.
func (a *Administration) SetFlags(ctx context.Context, by Actor, u User, flags map[string]bool) ([]string, error) {
	settings, err := a.Settings(ctx)
	if err != nil {
		return nil, err
	}
	words := make([]string, 0, len(flags))
	for name, on := range flags {
		if !slices.Contains(settings.Flags, name) && (on || !u.Has(name)) {
			return nil, ErrUnknownFlag
		}
		words = append(words, name+map[bool]string{true: "=on", false: "=off"}[on])
	}
	if len(words) == 0 {
		return u.Flags, nil
	}
	slices.Sort(words)
	now, err := a.store.SetFlags(ctx, u.Sub, flags, settings.SignOutOnFlagLoss, a.Now(), by.Audit(a.Now(), "user.flags", u.Handle, strings.Join(words, " ")))
	return now, web.Noted(ctx, "user_flags", err)
}

// IssueResetCode makes a password reset code; it voids the one before. The
// code is in the result alone.
func (a *Administration) IssueResetCode(ctx context.Context, by Actor, u User) (ResetCode, error) {
	c := NewResetCode(a.Now())
	err := a.store.CreateResetCode(ctx, u.Sub, c.Hash, c.ExpiresAt, a.Now(), by.Audit(a.Now(), "user.reset_code", u.Handle, ""))
	return c, web.Noted(ctx, "reset_issued", err)
}

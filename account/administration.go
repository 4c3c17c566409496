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
	return ActorFor(r, IdentityFrom(r.Context()).User)
}

// ActorFor is a user who has proved in the request who they are.
func ActorFor(r *http.Request, u User) Actor {
	return Actor{Sub: u.Sub, Name: u.Handle, Address: web.ClientAddress(r), RequestID: web.RequestID(r.Context())}
}

// Audit makes the audit row of an act. detail never has a secret or a code.
func (a Actor) Audit(at time.Time, action, target, detail string) Audit {
	return Audit{At: at, Actor: a.Name, Action: action, Target: target, Detail: detail, Address: a.Address, RequestID: a.RequestID}
}

// Own makes the audit row of what a user does with their own account.
func (a Actor) Own(at time.Time, action, detail string) Audit {
	return a.Audit(at, action, a.Name, detail)
}

// Administration is what administrators and the operator do to the accounts of
// others. Its errors are those of the Store and the ones named at each method.
type Administration struct {
	store Store
	clock func() time.Time
	mail  bool // whether users are told
}

// NewAdministration makes one; now may be nil for time.Now.
func NewAdministration(store Store, now func() time.Time) *Administration {
	if now == nil {
		now = time.Now
	}
	return &Administration{store: store, clock: now}
}

// Administration shares the store and the clock of the service.
func (s *Service) Administration() *Administration {
	return NewAdministration(s.store, s.clock).WithMail(s.MailEnabled())
}

// WithMail sets whether users are told by mail of what is done to their accounts.
func (a *Administration) WithMail(enabled bool) *Administration {
	a.mail = enabled
	return a
}

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

// CountUsers counts users; see UserStore.
func (a *Administration) CountUsers(ctx context.Context, q UserQuery) (n int, exact bool, err error) {
	return a.store.CountUsers(ctx, q)
}

// HS256Sessions counts the live sessions that the shared secret has signed.
func (a *Administration) HS256Sessions(ctx context.Context) (int, error) {
	n, _, err := a.store.HS256Sessions(ctx, a.Now())
	return n, err
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
	err := a.store.EndSession(ctx, u.Sub, id, a.Now(), by.Audit(a.Now(), "user.end_session", u.Handle, id))
	return web.Noted(ctx, "session_ended", err)
}

// EndSessions signs a user out everywhere and says of how many browsers.
func (a *Administration) EndSessions(ctx context.Context, by Actor, u User) (int, error) {
	n, err := a.store.EndOtherSessions(ctx, u.Sub, "", a.Now(), by.Audit(a.Now(), "user.end_sessions", u.Handle, ""))
	return n, web.Noted(ctx, "sessions_ended", err)
}

// Settings reads the settings as they are stored, past every cache.
func (a *Administration) Settings(ctx context.Context) (Settings, error) {
	return a.store.Settings(ctx)
}

// Factors tells what second factors a user has.
func (a *Administration) Factors(ctx context.Context, u User) (Factors, error) {
	return a.store.Factors(ctx, u.Sub)
}

// AuditLog returns audit rows, newest first.
func (a *Administration) AuditLog(ctx context.Context, q AuditQuery) ([]Audit, error) {
	return a.store.AuditLog(ctx, q)
}

// Record adds a row to the audit log.
func (a *Administration) Record(ctx context.Context, row Audit) error {
	return a.store.Record(ctx, row, 0)
}

// auditPage is how many rows EachAudit reads at once.
const auditPage = 500

// EachAudit calls do with all audit rows that q selects, newest first, which are read page
// by page.
func (a *Administration) EachAudit(ctx context.Context, q AuditQuery, do func(Audit) error) error {
	for q.Limit = auditPage; ; {
		page, err := a.store.AuditLog(ctx, q)
		if err != nil {
			return err
		}
		for _, row := range page {
			if err := do(row); err != nil {
				return err
			}
			q.Before = row.ID
		}
		if len(page) < q.Limit {
			return nil
		}
	}
}

// SignIns counts the sign-ins of each of so many days (UTC) up to today.
func (a *Administration) SignIns(ctx context.Context, days int) ([]int, error) {
	return a.store.SignIns(ctx, a.Now().AddDate(0, 0, 1-days), days)
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
	err = a.store.Suspend(ctx, u.Sub, reason, a.Now(), by.Audit(a.Now(), "user.suspend", u.Handle, reason).with(a.notices(ctx, u, MailSuspended, "reason", reason)...))
	return web.Noted(ctx, "user_suspended", err)
}

// Unsuspend lets a user sign in again; what was ended stays ended.
func (a *Administration) Unsuspend(ctx context.Context, by Actor, u User) error {
	err := a.store.Unsuspend(ctx, u.Sub, a.Now(), by.Audit(a.Now(), "user.unsuspend", u.Handle, "").with(a.notices(ctx, u, MailUnsuspended)...))
	return web.Noted(ctx, "user_unsuspended", err)
}

// Delete removes a user's personal data; the handle stays taken. ErrOwnAccount
// (one's own account is deleted with its password), ErrLastAdmin.
func (a *Administration) Delete(ctx context.Context, by Actor, u User) error {
	if by.Sub == u.Sub {
		return ErrOwnAccount
	}
	err := a.store.DeleteUser(ctx, u.Sub, a.Now(), by.Audit(a.Now(), "user.delete", u.Handle, "").with(a.notices(ctx, u, MailDeleted)...))
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

// ResetFactors removes all second factors of a user who has lost them; all sessions end.
func (a *Administration) ResetFactors(ctx context.Context, by Actor, u User) error {
	row := by.Audit(a.Now(), "user.reset_factors", u.Handle, "")
	row.Mails = a.notices(ctx, u, MailFactorsReset)
	return web.Noted(ctx, "factors_reset", a.store.ResetFactors(ctx, u.Sub, a.Now(), row))
}

package account

import (
	"context"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// Administration has the operations of administrators and the operator on accounts of others. Its
// errors are those of the Store and the ones named at each method.
type Administration struct {
	store Store
	clock func() time.Time
	mail  bool // whether users are told
}

// NewAdministration returns an Administration. A nil now means time.Now.
func NewAdministration(store Store, now func() time.Time) *Administration {
	if now == nil {
		now = time.Now
	}
	return &Administration{store: store, clock: now}
}

// Administration returns an Administration with the store and the clock of the service.
func (s *Service) Administration() *Administration {
	return NewAdministration(s.store, s.clock).WithMail(s.MailEnabled())
}

// WithMail sets whether users are notified by mail of changes to their accounts.
func (a *Administration) WithMail(enabled bool) *Administration {
	a.mail = enabled
	return a
}

// Now returns the current time in whole UTC seconds.
func (a *Administration) Now() time.Time { return a.clock().UTC().Truncate(time.Second) }

// User finds a user by a handle in any case. ErrUserNotFound, also for text that cannot be a
// handle. Unlike at a sign-in, surrounding blanks and other dots are refused: what follows may delete
// a user.
func (a *Administration) User(ctx context.Context, named string) (User, error) {
	h, err := CanonicalHandle(named)
	if err != nil || strings.TrimSpace(named) != named {
		return User{}, ErrUserNotFound
	}
	u, err := a.store.UserByHandle(ctx, h)
	if err == nil && u.Handle != h {
		return User{}, ErrUserNotFound.With("There is no user {typed}. Did you mean {handle}?", "typed", h, "handle", u.Handle)
	}
	return u, err
}

// Users lists users: see UserStore.
func (a *Administration) Users(ctx context.Context, q UserQuery) (users []User, next string, err error) {
	return a.store.Users(ctx, q)
}

// CountUsers counts users: see UserStore.
func (a *Administration) CountUsers(ctx context.Context, q UserQuery) (n int, exact bool, err error) {
	return a.store.CountUsers(ctx, q)
}

// HS256Sessions counts the live sessions whose tokens are signed with the shared secret.
func (a *Administration) HS256Sessions(ctx context.Context) (int, error) {
	n, _, err := a.store.HS256Sessions(ctx, a.Now())
	return n, err
}

// Access lists the live sessions of a user, the applications that the user gave access, and the passkeys.
type Access struct {
	Sessions []Session // newest first
	Apps     []App
	Passkeys []Passkey
}

// Access returns the live sessions, the applications and the passkeys of a user.
func (a *Administration) Access(ctx context.Context, u User) (out Access, err error) {
	if out.Sessions, err = a.Sessions(ctx, u); err == nil {
		out.Apps, err = a.store.Apps(ctx, u.Sub, a.Now())
	}
	if err == nil {
		out.Passkeys, err = a.store.Passkeys(ctx, u.Sub)
	}
	return out, err
}

// Sessions lists all live sessions of a user, newest first.
func (a *Administration) Sessions(ctx context.Context, u User) ([]Session, error) {
	return a.store.Sessions(ctx, u.Sub, a.Now())
}

// EndSession signs a user out of one browser. ErrSessionNotFound.
func (a *Administration) EndSession(ctx context.Context, by Caller, u User, id string) error {
	row, err := a.begin(ctx, by, EndUserSession, u, id)
	if err != nil {
		return err
	}
	if !IsSessionID(id) { // nor fit for the audit log
		return ErrSessionNotFound
	}
	return web.Noted(ctx, "session_ended", a.store.EndSession(ctx, u.Sub, id, a.Now(), row))
}

// EndSessions signs a user out everywhere, of applications too, and returns the number of sessions.
func (a *Administration) EndSessions(ctx context.Context, by Caller, u User) (int, error) {
	row, err := a.begin(ctx, by, EndUserSessions, u, "")
	if err != nil {
		return 0, err
	}
	n, err := a.store.EndSessions(ctx, u.Sub, a.Now(), row)
	return n, web.Noted(ctx, "sessions_ended", err)
}

// Settings reads the stored settings, past every cache.
func (a *Administration) Settings(ctx context.Context) (Settings, error) {
	return a.store.Settings(ctx)
}

// Factors returns the second factors of a user.
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

// EachAudit calls do with all audit rows that q selects, newest first. It reads them page by page.
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

// Suspend locks a user out at once. The audit log has the reason, and the mail to the user too if
// tell is set. ErrOwnAccount, ErrLastAdmin, ErrInvalidText.
func (a *Administration) Suspend(ctx context.Context, by Caller, u User, reason string, tell bool) error {
	return a.suspend(ctx, by, []User{u}, reason, tell)
}

// Unsuspend lets a user sign in again. What the suspension ended does not come back.
func (a *Administration) Unsuspend(ctx context.Context, by Caller, u User) error {
	row, err := a.begin(ctx, by, Unsuspend, u, "")
	if err != nil {
		return err
	}
	return web.Noted(ctx, "user_unsuspended", a.store.Unsuspend(ctx, u.Sub, a.Now(), row))
}

// Unlock forgets the failed sign-ins of a user, who can try again wherever they were refused.
func (a *Administration) Unlock(ctx context.Context, by Caller, u User) error {
	row, err := a.begin(ctx, by, UnlockUser, u, "")
	if err != nil {
		return err
	}
	return web.Noted(ctx, "user_unlocked", a.store.UnlockUser(ctx, u.Sub, a.Now(), row))
}

// Delete removes a user's personal data. The handle stays taken. ErrOwnAccount (people delete their
// own account with their password), ErrLastAdmin.
func (a *Administration) Delete(ctx context.Context, by Caller, u User) error {
	row, err := a.begin(ctx, by, DeleteUser, u, "")
	switch {
	case err != nil:
		return err
	case by.User.Sub == u.Sub:
		return ErrOwnAccount
	}
	return web.Noted(ctx, "user_deleted", a.store.DeleteUser(ctx, u.Sub, a.Now(), row))
}

// SetFlags changes the named access flags and their ends and returns those that are on. A flag that is no
// longer in the settings can still be turned off. ErrUnknownFlag, ErrLastAdmin, ErrEndPast.
func (a *Administration) SetFlags(ctx context.Context, by Caller, u User, flags FlagChange) ([]string, error) {
	after, err := a.setFlags(ctx, by, []User{u}, flags)
	if err != nil || len(flags) == 0 {
		return u.Flags, err
	}
	return after[u.Sub], nil
}

// IssueResetCode creates a password reset code and voids the previous one. Only the result has the
// code. ErrOwnAccount: people change their own password with the current one.
func (a *Administration) IssueResetCode(ctx context.Context, by Caller, u User) (ResetCode, error) {
	row, err := a.begin(ctx, by, IssueResetCode, u, "")
	switch {
	case err != nil:
		return ResetCode{}, err
	case by.User.Sub == u.Sub:
		return ResetCode{}, ErrOwnAccount
	}
	c := NewResetCode(a.Now())
	return c, web.Noted(ctx, "reset_issued", a.store.CreateResetCode(ctx, u.Sub, c.Hash, c.ExpiresAt, a.Now(), row))
}

// ResetFactors removes all second factors of a user who lost them. All sessions end. ErrOwnAccount.
func (a *Administration) ResetFactors(ctx context.Context, by Caller, u User) error {
	row, err := a.begin(ctx, by, ResetFactors, u, "")
	switch {
	case err != nil:
		return err
	case by.User.Sub == u.Sub:
		return ErrOwnAccount
	}
	return web.Noted(ctx, "factors_reset", a.store.ResetFactors(ctx, u.Sub, a.Now(), row))
}

// Amend changes a user and returns the result; see UserChange.Apply. The audit row names what
// changed, without values; there is no row if nothing changed. ErrEmailTaken. ErrOwnAccount for the
// caller's own address, which has to be proven.
func (a *Administration) Amend(ctx context.Context, by Caller, u User, c UserChange) (User, error) {
	row, err := a.begin(ctx, by, AmendUser, u, c.changed(u), "by", "administrator")
	if err != nil || row.Detail == "" {
		return u, err
	}
	v, err := a.store.Settings(ctx)
	if err == nil {
		err = c.undeclared(v.Attributes)
	}
	if err != nil {
		return u, err
	}
	told := row.Mails
	u, err = a.store.ChangeUser(ctx, u.Sub, func(u *User) error {
		before := *u
		row.Detail = c.changed(before)
		if err := c.Apply(u); err != nil {
			return err
		}
		row.Mails = told
		switch same := u.Email == before.Email && u.EmailVerified == before.EmailVerified; {
		case same:
			row.Mails = nil
		case by.User.Sub == u.Sub:
			return ErrOwnAccount
		}
		return nil // it cannot be undone: see Audit.KeepEmail
	}, a.Now(), &row)
	return u, web.Noted(ctx, "user_amended", err)
}

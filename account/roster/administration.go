// Package roster is what administrators and the operator do with the accounts of others: one or many at once,
// imports and pasted lists, invites of all and requests to join. The rules and the acts are in package account,
// the pages and endpoints in package admin.
package roster

import (
	"context"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// Administration has the operations of administrators and the operator on accounts of others. Its
// errors are those of the Store and the ones named at each method.
type Administration struct {
	account.Base
}

// NewAdministration returns an Administration without mail. A nil now means time.Now.
func NewAdministration(store account.Store, now func() time.Time) *Administration {
	return &Administration{account.NewBase(store, now)}
}

// Of returns the Administration with the store and the clock of a service.
func Of(b account.Base) *Administration { return &Administration{b} }

// WithMail sets whether users are notified by mail of changes to their accounts.
func (a *Administration) WithMail(enabled bool) *Administration {
	return &Administration{a.Base.WithMail(enabled)}
}

// User finds a user by a handle in any case. ErrUserNotFound, also for text that cannot be a
// handle. Unlike at a sign-in, surrounding blanks and other dots are refused: what follows may delete
// a user.
func (a *Administration) User(ctx context.Context, named string) (account.User, error) {
	h, err := account.CanonicalHandle(named)
	if err != nil || strings.TrimSpace(named) != named {
		return account.User{}, account.ErrUserNotFound
	}
	u, err := a.Store().UserByHandle(ctx, h)
	if err == nil && u.Handle != h {
		return account.User{}, account.ErrUserNotFound.With("Nobody has the user name {typed}. Did you mean {handle}?",
			"typed", h, "handle", u.Handle)
	}
	return u, err
}

// Users lists users: see UserStore.
func (a *Administration) Users(
	ctx context.Context, q account.UserQuery,
) (users []account.User, next string, err error) {
	if q, err = a.demanding(ctx, q); err != nil {
		return nil, "", err
	}
	return a.Store().Users(ctx, q)
}

// CountUsers lists and counts users: see UserStore.
func (a *Administration) CountUsers(ctx context.Context, q account.UserQuery) (p account.UserPage, err error) {
	if q, err = a.demanding(ctx, q); err != nil {
		return p, err
	}
	return a.Store().CountUsers(ctx, q)
}

// demanding returns a query with what NoSecondFactor depends on.
func (a *Administration) demanding(ctx context.Context, q account.UserQuery) (account.UserQuery, error) {
	if !q.NoSecondFactor {
		return q, nil
	}
	settings, err := a.Settings(ctx)
	q.Demanding = strings.Join(settings.SecondFactorFlags, " ")
	return q, err
}

// HS256Sessions counts the live sessions whose tokens are signed with the shared secret.
func (a *Administration) HS256Sessions(ctx context.Context) (int, error) {
	n, _, err := a.Store().HS256Sessions(ctx, a.Now())
	return n, err
}

// access lists the live sessions of a user, the applications that the user gave access, and the passkeys.
type access struct {
	Sessions []account.Session // newest first
	Apps     []account.App
	Passkeys []account.Passkey
}

// access returns the live sessions, the applications and the passkeys of a user.
func (a *Administration) Access(ctx context.Context, u account.User) (out access, err error) {
	if out.Sessions, err = a.Sessions(ctx, u); err == nil {
		out.Apps, err = a.Store().Apps(ctx, u.Sub, a.Now())
	}
	if err == nil {
		out.Passkeys, err = a.Store().Passkeys(ctx, u.Sub)
	}
	return out, err
}

// Sessions lists all live sessions of a user, newest first.
func (a *Administration) Sessions(ctx context.Context, u account.User) ([]account.Session, error) {
	return a.Store().Sessions(ctx, u.Sub, a.Now())
}

// EndSession signs a user out of one browser. ErrSessionNotFound.
func (a *Administration) EndSession(ctx context.Context, by account.Caller, u account.User, id string) error {
	row, err := a.Begin(ctx, by, account.EndUserSession, u, id)
	if err != nil {
		return err
	}
	return web.Noted(ctx, "session_ended", a.Store().EndSession(ctx, u.Sub, id, a.Now(), row))
}

// EndSessions signs a user out everywhere, of applications too, and returns the number of sessions. It voids what
// also.Void names and removes the recent factors in also.Remove; with one, it disowns the password, which made it
// possible to add it.
func (a *Administration) EndSessions(
	ctx context.Context, by account.Caller, u account.User, also account.Keep,
) (int, error) {
	row, err := a.Begin(ctx, by, account.EndUserSessions, u, "")
	if err != nil {
		return 0, err
	}
	row = row.Keeping(account.Keep{Void: also.Void, Remove: also.Remove})
	row.Ends.Password = len(also.Remove) > 0 && !u.Passwordless()
	n, err := a.Store().EndSessions(ctx, u.Sub, a.Now(), row)
	return n, web.Noted(ctx, "sessions_ended", err)
}

// Settings reads the stored settings, past every cache.
func (a *Administration) Settings(ctx context.Context) (account.Settings, error) {
	return a.Store().Settings(ctx)
}

// Factors returns the second factors of a user.
func (a *Administration) Factors(ctx context.Context, u account.User) (account.Factors, error) {
	return a.Store().Factors(ctx, u.Sub)
}

// RecentFactors lists what EndSessions may remove.
func (a *Administration) RecentFactors(ctx context.Context, u account.User) ([]account.MadeFactor, error) {
	return a.Store().RecentFactors(ctx, u.Sub, "", a.Now())
}

// AuditLog returns audit rows, newest first.
func (a *Administration) AuditLog(ctx context.Context, q account.AuditQuery) ([]account.Audit, error) {
	return a.Store().AuditLog(ctx, q)
}

// Record adds a row to the audit log.
func (a *Administration) Record(ctx context.Context, row account.Audit) error {
	return a.Store().Record(ctx, row, 0)
}

// exportPage is how many rows EachUser and EachAudit read at once.
const exportPage = 500

// EachUser calls do with all users that q selects, in its order. It reads them page by page.
func (a *Administration) EachUser(ctx context.Context, q account.UserQuery, do func(account.User) error) error {
	for q.Limit = exportPage; ; {
		page, next, err := a.Store().Users(ctx, q)
		if err != nil {
			return err
		}
		for _, u := range page {
			if err := do(u); err != nil {
				return err
			}
		}
		if q.After = next; next == "" {
			return nil
		}
	}
}

// EachAudit calls do with all audit rows that q selects, newest first. It reads them page by page.
func (a *Administration) EachAudit(ctx context.Context, q account.AuditQuery, do func(account.Audit) error) error {
	for q.Limit = exportPage; ; {
		page, err := a.Store().AuditLog(ctx, q)
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
	return a.Store().SignIns(ctx, a.Now().AddDate(0, 0, 1-days), days)
}

// Suspend does Suspending to a user.
func (a *Administration) Suspend(
	ctx context.Context, by account.Caller, u account.User, reason string, tell bool,
) error {
	return a.change(ctx, by, a.Suspending(reason, tell), u)
}

// Unsuspend lets a user sign in again. What the suspension ended does not come back.
func (a *Administration) Unsuspend(ctx context.Context, by account.Caller, u account.User) error {
	row, err := a.Begin(ctx, by, account.Unsuspend, u, "")
	if err == nil && u.Has(account.FlagAdmin) { // the store mails it if they were suspended
		var told []account.Mail
		told, err = a.NewAdministrator(ctx, by.Name, u)
		row = row.With(told...)
	}
	if err != nil {
		return err
	}
	return web.Noted(ctx, "user_unsuspended", a.Store().Unsuspend(ctx, u.Sub, a.Now(), row))
}

// Unlock forgets the failed sign-ins of a user, who can try again wherever they were refused.
func (a *Administration) Unlock(ctx context.Context, by account.Caller, u account.User) error {
	row, err := a.Begin(ctx, by, account.UnlockUser, u, "")
	if err != nil {
		return err
	}
	return web.Noted(ctx, "user_unlocked", a.Store().UnlockUser(ctx, u.Sub, a.Now(), row))
}

// Delete removes a user's personal data. The handle stays taken. ErrOwnAccount (people delete their
// own account with their password), ErrLastAdmin.
func (a *Administration) Delete(ctx context.Context, by account.Caller, u account.User) error {
	row, err := a.Begin(ctx, by, account.DeleteUser, u, "")
	switch {
	case err != nil:
		return err
	case by.User.Sub == u.Sub:
		return account.ErrOwnAccount
	}
	return web.Noted(ctx, "user_deleted", a.Store().DeleteUser(ctx, u.Sub, a.Now(), row))
}

// SetFlags does Flagging to a user and returns the flags that are on.
func (a *Administration) SetFlags(
	ctx context.Context, by account.Caller, u account.User, flags account.FlagChange,
) ([]string, error) {
	if len(flags) == 0 {
		return u.Flags, a.Allow(by, account.SetFlags)
	}
	c := a.Flagging(ctx, flags)
	if err := a.change(ctx, by, c, u); err != nil {
		return u.Flags, err
	}
	return c.after[u.Sub], nil
}

// IssueResetCode creates a password reset code and voids the previous one. Only the result has the
// code. ErrOwnAccount: people change their own password with the current one.
func (a *Administration) IssueResetCode(
	ctx context.Context, by account.Caller, u account.User,
) (account.ResetCode, error) {
	row, err := a.Begin(ctx, by, account.IssueResetCode, u, "")
	switch {
	case err != nil:
		return account.ResetCode{}, err
	case by.User.Sub == u.Sub:
		return account.ResetCode{}, account.ErrOwnAccount
	}
	c := account.NewResetCode(a.Now())
	return c, web.Noted(ctx, "reset_issued", a.Store().CreateResetCode(ctx, u.Sub, c.Hash, c.ExpiresAt, a.Now(), row))
}

// ResetFactors removes all second factors of a user who lost them. All sessions end. ErrOwnAccount.
func (a *Administration) ResetFactors(ctx context.Context, by account.Caller, u account.User) error {
	row, err := a.Begin(ctx, by, account.ResetFactors, u, "")
	switch {
	case err != nil:
		return err
	case by.User.Sub == u.Sub:
		return account.ErrOwnAccount
	}
	return web.Noted(ctx, "factors_reset", a.Store().ResetFactors(ctx, u.Sub, a.Now(), row))
}

// Amend changes a user and returns the result; see UserChange.Apply. The audit row names what
// Changed, without values; there is no row if nothing changed. ErrEmailTaken. ErrOwnAccount for the
// caller's own address, which has to be proven.
func (a *Administration) Amend(
	ctx context.Context, by account.Caller, u account.User, c account.UserChange,
) (account.User, error) {
	row, err := a.Begin(ctx, by, account.AmendUser, u, c.Changed(u), "by", "administrator")
	if err != nil || row.Detail == "" {
		return u, err
	}
	v, err := a.Store().Settings(ctx)
	if err == nil {
		err = c.Undeclared(v.Attributes)
	}
	if err != nil {
		return u, err
	}
	told := row.Mails
	u, err = a.Store().ChangeUser(ctx, u.Sub, func(u *account.User) error {
		before := *u
		row.Detail = c.Changed(before)
		if err := c.Apply(u); err != nil {
			return err
		}
		row.Mails = told
		switch same := u.Email == before.Email && u.EmailVerified == before.EmailVerified; {
		case same:
			row.Mails = nil
		case by.User.Sub == u.Sub:
			return account.ErrOwnAccount
		}
		return nil // it cannot be undone: see Audit.KeepEmail
	}, a.Now(), &row)
	return u, web.Noted(ctx, "user_amended", err)
}

// SetEnd does EndingAt to a user.
func (a *Administration) SetEnd(ctx context.Context, by account.Caller, u account.User, ends time.Time) error {
	return a.change(ctx, by, a.EndingAt(ends), u)
}

// MailState returns the state of the outbox.
func (a *Administration) MailState(ctx context.Context) (account.MailState, error) {
	return a.Store().MailState(ctx)
}

// SendTestMail mails the caller's own address, at most once a minute. ErrInvalidEmail if there is none.
func (a *Administration) SendTestMail(ctx context.Context, by account.Caller) error {
	row, err := a.Begin(ctx, by, account.TestMail, by.User, "")
	if err == nil && by.User.Email == "" {
		err = account.ErrInvalidEmail
	}
	if err != nil {
		return err
	}
	row = row.With(account.UserMail(ctx, by.User, by.User.Email, account.MailTest, a.Now()))
	return a.Store().Record(ctx, row, time.Minute)
}

// CloseNextSteps hides the steps after init.
func (a *Administration) CloseNextSteps(ctx context.Context, by account.Caller) error {
	row, err := a.Begin(ctx, by, account.CloseNextSteps, account.User{Handle: "settings"}, "")
	if err == nil {
		_, err = a.Store().AmendSettings(ctx, func(v *account.Settings) (changed string, err error) {
			if v.NextSteps {
				v.NextSteps, changed = false, "next_steps"
			}
			return changed, nil
		}, row)
	}
	return err
}

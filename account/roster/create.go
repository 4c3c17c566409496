package roster

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
)

// Create adds a user without an invite. The problems of NewUser.Check,
// ErrWeakPassword, ErrHandleTaken, ErrEmailTaken, ErrRegistrationFull.
func (a *Administration) Create(
	ctx context.Context, by account.Caller, h *password.Hasher, n account.NewUser,
) (account.User, error) {
	u, row, most, err := a.newUser(ctx, by, h, n)
	if err != nil {
		return account.User{}, err
	}
	return u, a.add(ctx, u, account.ResetCode{}, most, row)
}

// add stores a user. ErrRegistrationFull if there would be more than most users (0: no limit).
func (a *Administration) add(
	ctx context.Context, u account.User, c account.ResetCode, most int, row account.Audit,
) error {
	err := a.Store().AddUser(ctx, u, c, most, row)
	if errors.Is(err, account.ErrRegistrationFull) {
		there, failed := a.Store().CountUsers(ctx, account.UserQuery{Limit: 1})
		err = cmp.Or(failed, error(tooManyUsers{there.Total + 1, most}))
	}
	return err
}

// newUser returns a user to be stored, with the audit row and how many users there may be (0: no limit).
func (a *Administration) newUser(
	ctx context.Context, by account.Caller, h *password.Hasher, n account.NewUser,
) (u account.User, row account.Audit, most int, err error) {
	if err := a.Allow(by, account.AddUser); err != nil {
		return u, row, 0, err
	}
	settings, err := a.Settings(ctx)
	if err == nil {
		n.Language = settings.LanguageFor(ctx)
		u, err = account.CreateUser(ctx, h, settings, n, a.Now())
	}
	if err == nil {
		row, err = a.Begin(ctx, by, account.AddUser, u,
			strings.TrimSpace(account.Unusual(u.Flags, settings.DefaultFlags)))
	}
	if err == nil && u.Has(account.FlagAdmin) {
		row.Mails, err = a.NewAdministrator(ctx, by.Name, u)
	}
	return u, row, settings.MaxUsers, err
}

// Add adds a user without an invite and without a password, with a reset code to set one. If mail
// is on and the user has an address, the code is created later for a mail, and the result has none.
// Setting the password with that code verifies the address. The problems of NewUser.Check,
// ErrHandleTaken, ErrEmailTaken, ErrRegistrationFull.
func (a *Administration) Add(
	ctx context.Context, by account.Caller, n account.NewUser,
) (account.User, account.ResetCode, error) {
	u, row, most, err := a.newUser(ctx, by, nil, n)
	if err != nil {
		return account.User{}, account.ResetCode{}, err
	}
	c := account.ResetCode{}
	if a.MailEnabled() && u.Email != "" {
		m := a.welcome(ctx, by, u)
		m.Data["app"] = n.App
		row = row.With(m)
	} else {
		c = account.NewWelcomeCode(a.Now())
	}
	err = a.add(ctx, u, c, most, row)
	return u, c, web.Noted(ctx, "user_created", err)
}

// welcome returns the mail with the link to choose a password.
func (a *Administration) welcome(ctx context.Context, by account.Caller, u account.User) account.Mail {
	m := account.UserMail(ctx, u, u.Email, account.MailWelcome, a.Now(), "by", by.Name)
	m.Session = by.Session.ID
	return m
}

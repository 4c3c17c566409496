package roster

import (
	"context"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
)

// Create adds a user without an invite. The problems of NewUser.Check,
// ErrWeakPassword, ErrHandleTaken, ErrEmailTaken.
func (a *Administration) Create(
	ctx context.Context, by account.Caller, h *password.Hasher, n account.NewUser,
) (account.User, error) {
	u, row, err := a.newUser(ctx, by, h, n)
	if err != nil {
		return account.User{}, err
	}
	return u, a.Store().CreateUser(ctx, u, row)
}

// newUser returns a user to be stored, with the audit row.
func (a *Administration) newUser(
	ctx context.Context, by account.Caller, h *password.Hasher, n account.NewUser,
) (account.User, account.Audit, error) {
	u, row := account.User{}, account.Audit{}
	if err := a.Allow(by, account.AddUser); err != nil {
		return u, row, err
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
	return u, row, err
}

// Add adds a user without an invite and without a password, with a reset code to set one. If mail
// is on and the user has an address, the code is created later for a mail, and the result has none.
// Setting the password with that code verifies the address. The problems of NewUser.Check,
// ErrHandleTaken, ErrEmailTaken.
func (a *Administration) Add(
	ctx context.Context, by account.Caller, n account.NewUser,
) (account.User, account.ResetCode, error) {
	u, row, err := a.newUser(ctx, by, nil, n)
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
	err = a.Store().AddUser(ctx, u, c, row)
	return u, c, web.Noted(ctx, "user_created", err)
}

// welcome returns the mail with the link to choose a password.
func (a *Administration) welcome(ctx context.Context, by account.Caller, u account.User) account.Mail {
	m := account.UserMail(ctx, u, u.Email, account.MailWelcome, a.Now(), "by", by.Name)
	m.Session = by.Session.ID
	return m
}

package letter

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// composeForgot finds the account and queues a MailReset. The mail goes only to a verified address,
// because a mistyped address belongs to a stranger, and only so often that no mailbox is filled. An
// account that never had a password counts as owned by the address that it was created for.
func (p *Post) composeForgot(ctx context.Context, m account.Mail, _ *templates.Language) (templates.Mail, error) {
	u, err := p.accounts.UserNamed(ctx, m.Data["name"])
	if err != nil {
		return templates.Mail{}, err
	}
	if u.Sub == "" || u.Suspended() || u.Email == "" || !u.EmailVerified && u.PasswordHash != "" {
		return templates.Mail{}, errMailPointless
	}
	if wait, err := p.accounts.Limits().Take(ctx, web.LimitMail, "reset:"+u.Sub); err != nil || wait > 0 {
		return templates.Mail{}, cmp.Or(err, errMailPointless)
	}
	reset := account.UserMail(templates.WithLanguage(ctx, templates.PickLanguage(m.Language)), u, u.Email,
		account.MailReset, p.accounts.Now(), "continue", m.Data["continue"])
	if err := p.store.QueueMail(ctx, reset, p.accounts.Now()); err != nil {
		return templates.Mail{}, err
	}
	return templates.Mail{}, errMailPointless // the MailReset is queued
}

// drawMailedReset creates the reset code of a mail to a user and voids that of an earlier attempt
// to send it.
func (p *Post) drawMailedReset(
	ctx context.Context, m account.Mail, lifetime time.Duration,
) (account.User, account.ResetCode, error) {
	c := account.NewResetCode(p.accounts.Now())
	c.ExpiresAt = p.accounts.Now().Add(lifetime)
	u, err := p.store.UserBySub(ctx, m.Sub)
	if err == nil {
		err = p.store.CreateMailedResetCode(ctx, m.ID, u.Sub, m.Address, c.Hash, c.ExpiresAt, p.accounts.Now())
	}
	if errors.Is(err, account.ErrUserNotFound) {
		err = errMailPointless
	}
	return u, c, err
}

func (p *Post) composeReset(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	if u, err := p.store.UserBySub(ctx, m.Sub); err == nil && u.Passwordless() {
		return p.composeRecovery(u, l), nil
	}
	u, c, err := p.drawMailedReset(ctx, m, account.MailedResetLifetime)
	if err != nil {
		return templates.Mail{}, err
	}
	address := p.accounts.ResetURL(u.Handle, c) + "&" + account.MailedField + "=1"
	if next := m.Data["continue"]; next != "" {
		address += "&" + url.Values{"continue": {next}}.Encode()
	}
	return templates.Mail{
		Subject: l.Text("Set a new password"),
		Paragraphs: []string{l.Text("Someone asked to reset the password of your account @{handle}. If this was you, "+
			"open the link.", "handle", u.Handle)},
		Link: &templates.MailLink{
			Label: l.Text("Set a new password"), URL: address,
		},
		Notes: []string{
			l.Text("The link works once, until {time}.", "time", p.clock(m, l, c.ExpiresAt)),
			l.Text("If this wasn’t you, ignore this email. Your password does not change."),
		},
		Reason: recipientReason(l, u.Handle),
	}, nil
}

// composeRecovery composes the mail about a forgotten password to a user who has none.
func (p *Post) composeRecovery(u account.User, l *templates.Language) templates.Mail {
	return templates.Mail{
		Subject: l.Text("Get back into your account"),
		Paragraphs: []string{
			l.Text("Someone asked to reset the password of your account @{handle}. It has no password: you sign in "+
				"with a passkey.", "handle", u.Handle),
			l.Text("If you have lost your passkeys, open the link and enter a recovery code. If you have no recovery " +
				"code, ask an administrator."),
		},
		Link: &templates.MailLink{
			Label: l.Text("Use a recovery code"),
			URL:   p.accounts.Web().URL("/recover/?" + url.Values{"handle": {u.Handle}}.Encode()),
		},
		Notes:  []string{l.Text("If this wasn’t you, ignore this email. Nothing changes.")},
		Reason: recipientReason(l, u.Handle),
	}
}

// composeWelcome composes the mail to a user whom an administrator added, unless the user has a
// password by now.
func (p *Post) composeWelcome(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	u, c, err := p.drawMailedReset(ctx, m, account.ResetCodeLifetime)
	if err == nil && u.PasswordHash != "" {
		err = errMailPointless
	}
	if err != nil {
		return templates.Mail{}, err
	}
	texts := []any{"by", m.Data["by"], "handle", u.Handle, "instance", p.accounts.InstanceName()}
	return templates.Mail{
		Subject: l.Text("Your new account: {instance}", texts...),
		Paragraphs: []string{
			l.Text("@{by} created the account @{handle} for you at “{instance}”. Open the link and choose a password.",
				texts...),
		},
		Link: &templates.MailLink{Label: l.Text("Choose a password"), URL: p.accounts.ResetURL(u.Handle, c)},
		Notes: []string{
			l.Text("The link works once, until {time}.", "time", p.clock(m, l, c.ExpiresAt)),
			l.Text("To get a new link later, select “Forgot your password?” on the sign-in page."),
		},
		Reason: recipientReason(l, u.Handle),
	}, nil
}

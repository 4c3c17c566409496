package letter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// composeForgot finds the account and queues a MailReset. The mail goes only to a verified address,
// because a mistyped address belongs to a stranger, and only so often that no mailbox is filled. An
// account that never had a password counts as owned by the address that it was created for: it is welcomed
// again. Where nobody has verified an address, that mail is about all such accounts with it.
func (p *Post) composeForgot(ctx context.Context, m account.Mail, _ *templates.Language) (templates.Mail, error) {
	u, err := p.accounts.UserNamed(ctx, m.Data["name"])
	if err != nil {
		return templates.Mail{}, err
	}
	if u.Sub == "" {
		added, err := p.store.NewUsersByEmail(ctx, m.Data["name"])
		if err != nil {
			return templates.Mail{}, err
		}
		if len(added) > 0 {
			u = added[0]
		}
	}
	if u.Email == "" || !u.EmailVerified && u.PasswordHash != "" {
		return templates.Mail{}, errMailPointless
	}
	if wait, err := p.accounts.Limits().Take(ctx, web.LimitMail, "reset:"+u.Sub); err != nil || wait > 0 {
		return templates.Mail{}, cmp.Or(err, errMailPointless)
	}
	kind := account.MailReset
	if u.PasswordHash == "" {
		kind = account.MailWelcome
	}
	reset := account.UserMail(templates.WithLanguage(ctx, templates.PickLanguage(m.Language)), u, u.Email,
		kind, p.accounts.Now(), "continue", m.Data["continue"], "asked", "true")
	if err := p.store.QueueMail(ctx, reset, p.accounts.Now()); err != nil {
		return templates.Mail{}, err
	}
	return templates.Mail{}, fmt.Errorf("%w: the mail with the link is queued", errMailPointless)
}

// drawMailedReset creates the reset code of a mail to a user and voids that of an earlier attempt
// to send it.
func (p *Post) drawMailedReset(
	ctx context.Context, m account.Mail, sub string, lifetime time.Duration,
) (account.User, account.ResetCode, error) {
	c := account.NewResetCode(p.accounts.Now())
	c.ExpiresAt = p.accounts.Now().Add(lifetime)
	u, err := p.store.UserBySub(ctx, sub)
	if err == nil {
		err = p.store.CreateMailedResetCode(ctx, m.ID, u.Sub, m.Address, c.Hash, c.ExpiresAt, p.accounts.Now())
	}
	if errors.Is(err, account.ErrUserNotFound) {
		err = errMailPointless
	}
	return u, c, err
}

// resetURL returns the link to choose a password, which leads back to where the person came from.
func (p *Post) resetURL(m account.Mail, u account.User, c account.ResetCode) string {
	address := p.accounts.ResetURL(u.Handle, c)
	if next := m.Data["continue"]; next != "" {
		address += "&" + url.Values{"continue": {next}}.Encode()
	}
	return account.LeadingTo(address, m.Data["app"])
}

func (p *Post) composeReset(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	if u, err := p.store.UserBySub(ctx, m.Sub); err == nil && u.Passwordless() {
		return p.composeRecovery(u, l), nil
	}
	u, c, err := p.drawMailedReset(ctx, m, m.Sub, account.MailedResetLifetime)
	if err != nil {
		return templates.Mail{}, err
	}
	address := p.resetURL(m, u, c) + "&" + person.MailedField + "=1"
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
// password by now. If its reader asked, it is about every account that waits for its first password with the address.
func (p *Post) composeWelcome(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	subs := []string{m.Sub}
	if m.Data["asked"] != "" {
		added, err := p.store.NewUsersByEmail(ctx, m.Address)
		if err != nil {
			return templates.Mail{}, err
		}
		for _, u := range added {
			if u.Sub != m.Sub && u.Email == m.Address {
				subs = append(subs, u.Sub)
			}
		}
	}
	var links []templates.MailLink
	var expires time.Time
	for _, sub := range subs {
		u, c, err := p.drawMailedReset(ctx, m, sub, account.WelcomeLifetime)
		if errors.Is(err, errMailPointless) || err == nil && u.PasswordHash != "" {
			continue
		}
		if err != nil {
			return templates.Mail{}, err
		}
		links, expires = append(links, templates.MailLink{Label: "@" + u.Handle, URL: p.resetURL(m, u, c)}), c.ExpiresAt
	}
	if len(links) == 0 {
		return templates.Mail{}, errMailPointless
	}
	texts := []any{"handle", strings.TrimPrefix(links[0].Label, "@"), "instance", p.accounts.InstanceName()}
	out := templates.Mail{
		Subject: l.Text("Welcome: {instance}", texts...),
		Notes: []string{
			l.Text("The link works once, until {time}.", "time", p.clock(m, l, expires)),
			l.Text("To get a new link later, select “Forgot your password?” on the sign-in page."),
		},
		Reason: recipientReason(l, m.Data["handle"]),
	}
	if len(links) > 1 {
		out.Paragraphs = []string{l.Text("Welcome to “{instance}”. Several accounts have this address. Open the "+
			"link of each of yours to choose a password, or add a passkey.", texts...)}
		out.More = links
		return out, nil
	}
	out.Paragraphs = []string{l.Text("Welcome to “{instance}”. You are @{handle}. Open the link to choose a "+
		"password, or add a passkey.", texts...)}
	out.Link = &templates.MailLink{Label: l.Text("Choose a password"), URL: links[0].URL}
	return out, nil
}

package account

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// MailInviteLink mails the link of an invite that is for certain addresses to one of them. Whoever joins by that link
// has proven the address; the code, which everybody in the team has, proves nothing.
func (s *Service) MailInviteLink(ctx context.Context, c Caller, code, email string) error {
	if err := s.Allow(c, MailInviteLink); err != nil {
		return err
	}
	if !s.MailEnabled() {
		return s.WithContact(ctx, ErrMailOff, mailOffContact)
	}
	_, i, err := s.mayRegister(ctx, c, code)
	if err != nil {
		return err
	}
	email, err = joiningAddress(email)
	if err == nil && !i.Admits(email) {
		err = ErrInvalidEmail.With("This invite is for addresses of {domain}.", "domain", i.Domain)
		if strings.Contains(i.Domain, "@") { // which is nobody else's business
			err = ErrInvalidEmail.With("This invite is for another address.")
		}
	}
	if err != nil {
		return err
	}
	wait, err := s.limits.Take(ctx, web.LimitForgot, c.Address)
	if err == nil && wait == 0 {
		wait, err = s.limits.Take(ctx, web.LimitMail, "invite:"+strings.ToLower(email))
	}
	if err != nil || wait > 0 {
		return cmp.Or(err, web.RateLimited(wait))
	}
	return s.store.QueueMail(ctx, Mail{Kind: MailInvite, Sub: i.CreatedBy, Address: email,
		Language: templates.LanguageOf(ctx).Tag(), Data: map[string]string{"invite": i.hash(), "asked": "true"}}, s.Now())
}

// joiningAddress returns the address of somebody who wants to join.
func joiningAddress(typed string) (string, error) {
	email, err := CheckEmail(typed)
	if err == nil && email == "" {
		err = ErrInvalidEmail
	}
	return email, err
}

// mailedInvite finds the open invite that a mail is about. errMailPointless if there is none.
func (s *Service) mailedInvite(ctx context.Context, m Mail) (invite Invite, by User, err error) {
	if m.Sub != "" {
		by, err = s.store.UserBySub(ctx, m.Sub)
		if errors.Is(err, ErrUserNotFound) || err == nil && by.Suspended() {
			err = errMailPointless
		}
		if err != nil {
			return invite, by, err
		}
	}
	err = s.eachInvite(ctx, by, func(i Invite) error {
		if i.hash() == m.Data["invite"] {
			invite = i
			return errFound
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return invite, by, err
	}
	if !invite.Open(s.Now()) { // or not found
		return invite, by, errMailPointless
	}
	return invite, by, nil
}

// composeHaveAccount composes the mail to somebody who asks to join, and has an account.
func (s *Service) composeHaveAccount(l *templates.Language, u User) templates.Mail {
	texts := []any{"handle", u.Handle, "instance", s.InstanceName()}
	return templates.Mail{
		Subject: l.Text("You have an account at {instance}", texts...),
		Paragraphs: []string{l.Text("Somebody asked to join {instance} with this address. You have an account already: "+
			"@{handle}. “Forgot your password?” on the sign-in page lets you in again.", texts...)},
		Link:   &templates.MailLink{Label: l.Text("Sign in"), URL: s.site.URL("/login/")},
		Notes:  []string{l.Text("If that was not you, ignore this mail: nothing changes.")},
		Reason: recipientReason(l, u.Handle),
	}
}

package account

import (
	"cmp"
	"context"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// MailedResetLifetime is how long a reset code works that came by mail.
const MailedResetLifetime = time.Hour

// mailOffContact is ErrMailOff where the administrators have said how to reach them.
const mailOffContact templates.Text = "This service sends no mail. Ask an administrator of your community. Contact: {contact}"

// ForgotPassword notes that somebody has forgotten the password of an account. It looks
// nobody up, so that neither the answer nor its time reports whether there is such an
// account: that is done when mails are sent.
func (s *Service) ForgotPassword(ctx context.Context, c Caller, typed string) error {
	if !s.MailEnabled() {
		return s.withContact(ctx, ErrMailOff, mailOffContact)
	}
	if err := s.limits.Count(ctx, web.LimitKey{Name: web.LimitForgot, Key: c.Address}); err != nil {
		return err
	}
	name, ok := accountName(typed)
	if !ok {
		return nil
	}
	web.Note(ctx, "password_forgotten")
	return s.store.QueueMail(ctx, Mail{Kind: MailForgot, Language: templates.LanguageOf(ctx).Tag(), Data: map[string]string{"name": name}}, s.now())
}

// accountName is what can name an account: a handle or an address. What else people
// enter by mistake is not kept.
func accountName(typed string) (string, bool) {
	typed = withoutAt(typed)
	if h, err := CanonicalHandle(typed); err == nil {
		return h, true
	}
	email, err := CheckEmail(typed)
	return email, err == nil && email != ""
}

// composeForgot finds out whose account it is, and sends them a MailReset: to a verified
// address alone, for one that was mistyped belongs to a stranger, and so often that
// nobody's mailbox is filled. An account that has never had a password is still that of the address
// that it was made for.
func (s *Service) composeForgot(ctx context.Context, m Mail, _ *templates.Language) (templates.Mail, error) {
	u, err := s.userNamed(ctx, m.Data["name"])
	if err != nil {
		return templates.Mail{}, err
	}
	if u.Sub == "" || u.Suspended() || u.Email == "" || !u.EmailVerified && u.PasswordHash != "" {
		return templates.Mail{}, errMailPointless
	}
	if wait, err := s.limits.Take(ctx, web.LimitMail, "reset:"+u.Sub); err != nil || wait > 0 {
		return templates.Mail{}, cmp.Or(err, errMailPointless)
	}
	reset := userMail(templates.WithLanguage(ctx, templates.PickLanguage(m.Language)), u, u.Email, MailReset, s.now())
	if err := s.store.QueueMail(ctx, reset, s.now()); err != nil {
		return templates.Mail{}, err
	}
	return templates.Mail{}, errMailPointless // what was asked for is under way
}

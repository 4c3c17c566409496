package account

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// MailedResetLifetime is the lifetime of a reset code that was mailed.
const MailedResetLifetime = time.Hour

// maxMailed bounds a continuation in the link of a mail: programs cut or break very long ones.
const maxMailed = 1500

// mailOffContact is the text of ErrMailOff with the contact of the administrators.
const mailOffContact templates.Text = "This service does not send email. Ask an administrator of your club. Contact: " +
	"{contact}"

// ForgotPassword queues the mail for a forgotten password. It does not look up the account, so
// neither the response nor its time reveals whether the account exists. The lookup happens when
// mails are sent.
//
// The link in the mail leads back to a continuation of the sign-in page, "" for none.
func (s *Service) ForgotPassword(ctx context.Context, c Caller, typed, continuation string) error {
	if !s.MailEnabled() {
		return s.WithContact(ctx, ErrMailOff, mailOffContact)
	}
	s.noteAccount(ctx, User{}, typed)
	if err := s.limits.Count(ctx, web.LimitKey{Name: web.LimitForgot, Key: c.Address}); err != nil {
		return err
	}
	name, ok := AccountName(typed)
	if !ok {
		return nil
	}
	data := map[string]string{"name": name}
	if continuation != "" && len(continuation) <= maxMailed {
		data["continue"] = continuation
	}
	web.Note(ctx, "password_forgotten")
	return s.store.QueueMail(ctx,
		Mail{Kind: MailForgot, Language: templates.LanguageOf(ctx).Tag(),
			Data: data}, s.Now())
}

// AccountName returns the handle or address that was typed. Other text, which people may enter by
// mistake, is not stored.
func AccountName(typed string) (string, bool) {
	typed = withoutAt(typed)
	if h, err := CanonicalHandle(typed); err == nil {
		return h, true
	}
	email, err := CheckEmail(typed)
	return email, err == nil && email != ""
}

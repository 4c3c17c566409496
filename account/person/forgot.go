package person

import (
	"context"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

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
func (s *Service) ForgotPassword(ctx context.Context, c account.Caller, typed, continuation string) error {
	if !s.MailEnabled() {
		return s.WithContact(ctx, account.ErrMailOff, mailOffContact)
	}
	s.noteAccount(ctx, account.User{}, typed)
	if err := s.Limits().Count(ctx, web.LimitKey{Name: web.LimitForgot, Key: c.Address}); err != nil {
		return err
	}
	name, ok := AccountName(typed)
	if !ok {
		return nil
	}
	data := map[string]string{"name": name}
	if len(continuation) <= maxMailed {
		data["continue"] = continuation
	}
	web.Note(ctx, "password_forgotten")
	return s.Store().QueueMail(ctx,
		account.Mail{Kind: account.MailForgot, Language: templates.LanguageOf(ctx).Tag(),
			Data: data}, s.Now())
}

// AccountName returns the handle or address that was typed. Other text, which people may enter by
// mistake, is not stored.
func AccountName(typed string) (string, bool) {
	typed = withoutAt(typed)
	if h, err := account.CanonicalHandle(typed); err == nil {
		return h, true
	}
	email, err := account.CheckEmail(typed)
	return email, err == nil && email != ""
}

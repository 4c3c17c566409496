package account

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// MailedResetLifetime is how long a reset code works that came by mail.
const MailedResetLifetime = time.Hour

// mailOffContact is ErrMailOff where the administrators have said how to reach them.
const mailOffContact templates.Text = "This service sends no mail. Ask an administrator of your community. Contact: {contact}"

// ForgotPassword notes that somebody has forgotten the password of an account. It looks
// nobody up, so that neither the answer nor its time tells whether there is such an
// account: that is done when mails are sent.
func (s *Service) ForgotPassword(r *http.Request, typed string) error {
	ctx := r.Context()
	if !s.MailEnabled() {
		return s.withContact(ctx, ErrMailOff, mailOffContact)
	}
	if wait, err := s.limits.Take(ctx, web.LimitForgot, web.ClientAddress(r)); err != nil || wait > 0 {
		if err == nil {
			err = web.RateLimited(wait)
		}
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
// nobody's mailbox is filled.
func (s *Service) composeForgot(ctx context.Context, m Mail, _ *templates.Language) (templates.Mail, error) {
	u, err := s.userNamed(ctx, m.Data["name"])
	if err != nil {
		return templates.Mail{}, err
	}
	if u.Sub == "" || u.Suspended() || u.Email == "" || !u.EmailVerified {
		return templates.Mail{}, errMailPointless
	}
	wait, err := s.limits.Take(ctx, web.LimitMail, "reset:"+u.Sub)
	if err != nil || wait > 0 {
		if err == nil {
			err = errMailPointless
		}
		return templates.Mail{}, err
	}
	reset := userMail(templates.WithLanguage(ctx, templates.PickLanguage(m.Language)), u, u.Email, MailReset, s.now())
	if err := s.store.QueueMail(ctx, reset, s.now()); err != nil {
		return templates.Mail{}, err
	}
	return templates.Mail{}, errMailPointless // what was asked for is under way
}

func (s *Service) apiForgotPassword(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Handle string `json:"handle"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := s.ForgotPassword(r, in.Handle); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// forgotPage shows the form. Without mail it says whom to ask.
func (s *Service) forgotPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page := templates.ForgotPassword{}
	page.Continue, _ = s.continuation(r, q)
	page.Handle, _ = accountName(q.Get("handle"))
	return s.showForgot(w, r, http.StatusOK, page)
}

func (s *Service) showForgot(w http.ResponseWriter, r *http.Request, status int, page templates.ForgotPassword) error {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	page.MailOff, page.Contact = !s.MailEnabled(), settings.Contact
	s.Show(w, r, status, page)
	return nil
}

func (s *Service) forgotForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	typed := r.PostForm.Get("handle")
	page := templates.ForgotPassword{Handle: cut(typed, 254)}
	page.Continue, _ = s.continuation(r, r.PostForm)
	err := s.ForgotPassword(r, typed)
	if err == nil {
		page.Sent = true
		return s.showForgot(w, r, http.StatusOK, page)
	}
	if errors.Is(err, ErrMailOff) {
		return s.showForgot(w, r, http.StatusOK, page)
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page.Error, page.ErrorCode = p.Detail, p.Code
	return s.showForgot(w, r, p.Status, page)
}

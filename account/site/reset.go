package site

import (
	"errors"
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Site) apiResetPassword(w http.ResponseWriter, r *http.Request) error {
	var in account.Reset
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	out, err := s.ResetPassword(r.Context(), s.Caller(r), in)
	s.setCookies(w, out)
	if errors.Is(err, account.ErrInvalidResetCode) {
		return s.WithContact(r.Context(), account.ErrInvalidResetCode,
			"The user name and the code do not match, or the code was used or has expired. Ask an administrator for "+
				"a new code. Contact: {contact}")
	} else if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// resetPage shows the form, filled in from the link, or that the link is spent.
func (s *Site) resetPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page := templates.ResetPassword{Code: account.CanonicalCode(q.Get("code"), account.ResetCodeLength),
		Mailed: q.Has(account.MailedField)}
	page.Continue, _ = s.continuation(w, r, q)
	if h, err := account.CanonicalHandle(q.Get("handle")); err == nil {
		page.Handle = h
	}
	if page.Handle == "" || page.Code == "" {
		return s.showReset(w, r, http.StatusOK, page)
	}
	valid, err := s.ResetCodeValid(r.Context(), page.Handle, page.Code)
	if err != nil {
		return err
	}
	page.Linked = true
	if !valid {
		page.ErrorCode = account.ErrInvalidResetCode.Code
		return s.showReset(w, r, account.ErrInvalidResetCode.Status, page)
	}
	return s.showReset(w, r, http.StatusOK, page)
}

func (s *Site) showReset(w http.ResponseWriter, r *http.Request, status int, page templates.ResetPassword) error {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	page.MinPassword, page.Contact, page.Mail = settings.MinPassword, settings.Contact, s.MailEnabled()
	s.Show(w, r, status, page)
	return nil
}

func (s *Site) resetForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	f := r.PostForm
	next, application := s.continuation(w, r, f)
	in := account.Reset{Handle: f.Get("handle"), Code: f.Get("code"), Password: f.Get("password")}
	out, err := s.ResetPassword(r.Context(), s.Caller(r), in)
	s.setCookies(w, out)
	if err == nil {
		u, page := out.User, templates.ResetPassword{Done: true, Continue: next, ClientName: application.Name}
		if page.Factors, err = s.WaysIn(r.Context(), u); err != nil {
			return err
		}
		if u.Email != "" && !u.EmailVerified && !u.EmailChangedAt.IsZero() {
			page.Unverified = account.MaskedEmail(u.Email)
		}
		return s.showReset(w, r, http.StatusOK, page)
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	return s.showReset(w, r, p.Status, templates.ResetPassword{
		Handle: text.Cut(in.Handle, maxShown), Code: text.Cut(in.Code, maxShown), FieldErrors: p.ByField(),
		Mailed: f.Has(account.MailedField), Linked: f.Has("linked"), Error: p.Detail, ErrorCode: p.Code, Continue: next,
	})
}

func (s *Site) apiForgotPassword(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Handle string `json:"handle"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := s.ForgotPassword(r.Context(), s.Caller(r), in.Handle, ""); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// forgotPage shows the form, or if mail is off, the contact.
func (s *Site) forgotPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page := templates.ForgotPassword{}
	page.Continue, _ = s.continuation(w, r, q)
	page.Handle, _ = account.AccountName(q.Get("handle"))
	return s.showForgot(w, r, http.StatusOK, page)
}

func (s *Site) showForgot(w http.ResponseWriter, r *http.Request, status int, page templates.ForgotPassword) error {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	page.MailOff, page.Contact = !s.MailEnabled(), settings.Contact
	s.Show(w, r, status, page)
	return nil
}

func (s *Site) forgotForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	typed := r.PostForm.Get("handle")
	page := templates.ForgotPassword{Handle: text.Cut(typed, 254)}
	next, application := s.continuation(w, r, r.PostForm)
	page.Continue = next
	if application.Device {
		next = "" // anybody can have the mail sent: it must not lead a person to somebody else's device
	}
	err := s.ForgotPassword(r.Context(), s.Caller(r), typed, next)
	if err == nil {
		page.Sent = true
		return s.showForgot(w, r, http.StatusOK, page)
	}
	if errors.Is(err, account.ErrMailOff) {
		return s.showForgot(w, r, http.StatusOK, page)
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page.Error, page.ErrorCode = p.Detail, p.Code
	return s.showForgot(w, r, p.Status, page)
}

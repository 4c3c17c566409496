package site

import (
	"errors"
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Site) apiResetPassword(w http.ResponseWriter, r *http.Request, in person.Reset) error {
	out, err := s.ResetPassword(r.Context(), s.Caller(r), in)
	s.setCookies(w, out.SignedIn)
	if errors.Is(err, account.ErrInvalidResetCode) {
		return s.WithContact(r.Context(), account.ErrInvalidResetCode,
			"The user name and the code do not match, or the code was used or has expired. Ask an administrator for "+
				"a new code. Contact: {contact}")
	} else if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// apiResetFactors lists the factors that the reset may remove.
func (s *Site) apiResetFactors(w http.ResponseWriter, r *http.Request, in struct {
	Handle string `json:"handle"`
	Code   string `json:"code"`
}) error {
	list, err := s.RecentFactorsByCode(r.Context(), person.Reset{Handle: in.Handle, Code: in.Code})
	return web.Answer(w, http.StatusOK, map[string][]account.MadeFactor{"recent_factors": list}, err)
}

// apiBeginWelcome returns a challenge for the passkey of somebody who has been added and has no password yet.
func (s *Site) apiBeginWelcome(w http.ResponseWriter, r *http.Request, in struct {
	Handle string `json:"handle"`
	Code   string `json:"code"`
}) error {
	c := s.Caller(r)
	c.Browser.Passkey = s.givePasskeyCookie(w, c.Browser.Passkey)
	begun, err := s.passkeys.BeginWelcome(r.Context(), c, in.Handle, in.Code)
	return web.Answer(w, http.StatusOK, begun, err)
}

// resetPage shows the form, filled in from the link, or that the link is spent.
func (s *Site) resetPage(w http.ResponseWriter, r *http.Request) error {
	q := mailedQuery(r)
	page := templates.ResetPassword{Code: account.CanonicalCode(q.Get("code"), account.ResetCodeLength),
		Mailed: q.Has(person.MailedField)}
	page.Continue, _ = s.continuation(w, r, q)
	s.keepApp(w, r)
	if h, err := account.CanonicalHandle(withoutMark(q.Get("handle"))); err == nil {
		page.Handle = h
	}
	if page.Handle == "" || page.Code == "" {
		return s.showReset(w, r, http.StatusOK, page)
	}
	valid, first, err := s.ResetCodeValid(r.Context(), page.Handle, page.Code)
	if err != nil {
		return err
	}
	page.Linked, page.Welcome = true, first
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
	if err = s.listRecent(r, &page); err != nil {
		return err
	}
	page.Passkeys = page.Welcome && s.passkeys.PasskeysUnavailable() == nil
	page.MinPassword, page.Contact, page.Mail = settings.MinPassword, settings.Contact, s.MailEnabled()
	s.Show(w, r, status, page)
	return nil
}

// listRecent adds the factors that the reset may remove, for a right code.
func (s *Site) listRecent(r *http.Request, page *templates.ResetPassword) error {
	if page.Done || page.Handle == "" || page.Code == "" {
		return nil
	}
	list, err := s.RecentFactorsByCode(r.Context(), person.Reset{Handle: page.Handle, Code: page.Code})
	if errors.Is(err, account.ErrInvalidResetCode) {
		return nil
	}
	page.Recent = templates.RecentFactors{Rows: account.FactorRowsOf(list), Remove: kept(r).Remove}
	return err
}

func (s *Site) resetForm(w http.ResponseWriter, r *http.Request) error {
	f := r.PostForm
	next, application := s.continuation(w, r, f)
	in := person.Reset{Handle: f.Get("handle"), Code: f.Get("code"), Password: f.Get("password")}
	in.Remove = kept(r).Remove
	if !f.Has("listed") { // a code was typed: nobody has seen the list
		page := templates.ResetPassword{Handle: in.Handle, Code: in.Code, Mailed: f.Has(person.MailedField),
			Linked: true, Continue: next}
		if err := s.listRecent(r, &page); err != nil {
			return err
		}
		if len(page.Recent.Rows) > 0 {
			return s.showReset(w, r, http.StatusOK, page)
		}
	}
	in.Enter, in.Shared = f.Has("welcome"), f.Has("shared_computer")
	made, _ := passkeyInForm(r)
	out, err := s.passkeys.Reset(r.Context(), s.Caller(r), in, made)
	s.enter(w, out.SignedIn)
	switch {
	case err == nil && out.Codes != nil:
		s.Show(w, r, http.StatusOK, templates.RecoveryCodes{Codes: out.Codes, First: true, Passwordless: true,
			Application: application.Name, Continue: next})
		return nil
	case err == nil && out.Session.ID != "" && next == "":
		return s.Redirect(w, r, "/account/welcome")
	case err == nil && out.Session.ID != "":
		return s.afterSignIn(w, r, out.User, next)
	case err == nil:
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
	signals, err := s.passkeys.ForgetPasskey(r.Context(), made.Credential)
	if err != nil {
		return err
	}
	answer := templates.NewAnswer(templates.LanguageOf(r.Context()), "", p.Detail, p.Code, p.ByField())
	return s.showReset(w, r, p.Status, templates.ResetPassword{
		Welcome: in.Enter, Shared: in.Shared, Signals: signals,
		Handle: text.Cut(in.Handle, maxShown), Code: text.Cut(in.Code, maxShown), FieldErrors: p.ByField(),
		Mailed: f.Has(person.MailedField), Linked: f.Has("linked"), Error: answer.Error, ErrorCode: p.Code,
		Continue: next,
	})
}

func (s *Site) apiForgotPassword(w http.ResponseWriter, r *http.Request, in struct {
	Handle string `json:"handle"`
}) error {
	return web.Answer(w, http.StatusOK, okAnswer{OK: true}, s.ForgotPassword(r.Context(), s.Caller(r), in.Handle, ""))
}

// forgotPage shows the form, or if mail is off, the contact.
func (s *Site) forgotPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page := templates.ForgotPassword{}
	page.Continue, _ = s.continuation(w, r, q)
	page.Handle, _ = person.AccountName(q.Get("handle"))
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
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page.Error, page.ErrorCode = p.Detail, p.Code
	return s.showForgot(w, r, p.Status, page)
}

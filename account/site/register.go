package site

import (
	"errors"
	"net/http"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

type registered struct {
	OK     bool   `json:"ok"`
	Handle string `json:"handle"`
	// RecoveryCodes come with a passkey.
	RecoveryCodes []string `json:"recovery_codes,omitempty"`
}

func (s *Site) apiRegister(w http.ResponseWriter, r *http.Request, in struct {
	person.Registration
	passkeyAnswer
}) error {
	out, err := s.passkeys.Register(r.Context(), s.Caller(r), in.Registration, in.answered())
	if err != nil {
		return err
	}
	s.setCookies(w, out.SignedIn)
	return web.WriteJSON(w, http.StatusCreated,
		registered{OK: true, Handle: out.User.Handle, RecoveryCodes: out.Codes})
}

// apiBeginRegister returns a challenge for the passkey of a new member.
func (s *Site) apiBeginRegister(w http.ResponseWriter, r *http.Request, in person.Registration) error {
	c := s.Caller(r)
	c.Browser.Passkey = s.givePasskeyCookie(w, c.Browser.Passkey)
	begun, err := s.passkeys.BeginRegisterPasskey(r.Context(), c, in)
	return web.Answer(w, http.StatusOK, begun, err)
}

// addressForm mails the link of an invite that is for certain addresses.
func (s *Site) addressForm(w http.ResponseWriter, r *http.Request) error {
	page := templates.Join{Code: text.Cut(r.PostForm.Get("code"), 256), Email: text.Cut(r.PostForm.Get("email"), 256)}
	page.Continue, _ = s.continuation(w, r, r.PostForm)
	return s.answerJoin(w, r, page, s.MailInviteLink(r.Context(), s.Caller(r), page.Code, r.PostForm.Get("email")))
}

// joinPage leads to the form of people without an invite, which is at /register/.
func (s *Site) joinPage(w http.ResponseWriter, r *http.Request) error {
	s.keepApp(w, r)
	return s.Redirect(w, r, "/register/")
}

func (s *Site) joinForm(w http.ResponseWriter, r *http.Request) error {
	f := r.PostForm
	page := templates.Join{Visitor: text.Cut(f.Get("name"), 128), Email: text.Cut(f.Get("email"), 256),
		Reason: text.Cut(f.Get("reason"), 512)}
	page.Continue, _ = s.continuation(w, r, f)
	in := account.JoinRequest{Name: f.Get("name"), Email: f.Get("email"), Reason: f.Get("reason"), App: s.keptApp(r)}
	var err error
	page.Later, err = s.AskToJoin(r.Context(), s.Caller(r), in)
	return s.answerJoin(w, r, page, err)
}

func (s *Site) apiJoin(w http.ResponseWriter, r *http.Request, in struct {
	Name   string `json:"name"`
	Email  string `json:"email"`
	Reason string `json:"reason"`
	App    string `json:"app"`
}) error {
	_, err := s.AskToJoin(r.Context(), s.Caller(r),
		account.JoinRequest{Name: in.Name, Email: in.Email, Reason: in.Reason, App: in.App})
	return web.Answer(w, http.StatusAccepted, okAnswer{OK: true}, err)
}

// answerJoin shows the page with what came of its form.
func (s *Site) answerJoin(w http.ResponseWriter, r *http.Request, page templates.Join, cause error) error {
	if cause == nil {
		page.Sent = true
		return s.showJoin(w, r, http.StatusOK, page)
	}
	p, err := web.Refusal(w, r, cause)
	if err != nil {
		return err
	}
	page.ErrorCode, page.FieldErrors = p.Code, p.ByField()
	page.Error = templates.NewAnswer(templates.LanguageOf(r.Context()), "", p.Detail, p.Code, page.FieldErrors).Error
	return s.showJoin(w, r, p.Status, page)
}

func (s *Site) showJoin(w http.ResponseWriter, r *http.Request, status int, page templates.Join) error {
	if id, err := s.Current(r); err == nil {
		page.SignedInAs = id.User.Handle
	}
	s.Show(w, r, status, page)
	return nil
}

func (s *Site) apiRegisterAddress(w http.ResponseWriter, r *http.Request, in struct {
	Code  string `json:"code"`
	Email string `json:"email"`
}) error {
	err := s.MailInviteLink(r.Context(), s.Caller(r), in.Code, in.Email)
	return web.Answer(w, http.StatusAccepted, okAnswer{OK: true}, err)
}

// registerPage shows the form, with the code of an invite link filled in and the inviter. An
// address over its limit learns nothing about unknown ones.
func (s *Site) registerPage(w http.ResponseWriter, r *http.Request) error {
	q := mailedQuery(r)
	page := templates.Register{Code: text.Cut(withoutMark(q.Get("code")), 256)}
	page.Continue, _ = s.continuation(w, r, q)
	s.keepApp(w, r)
	if page.Code == "" && !q.Has("code") {
		settings, err := s.Settings(r.Context())
		if err != nil {
			return err
		}
		if settings.Registration == account.RegistrationRequest && s.MailEnabled() {
			return s.showJoin(w, r, http.StatusOK, templates.Join{Continue: page.Continue})
		}
	}
	if page.Code == "" {
		return s.showRegister(w, r, http.StatusOK, page)
	}
	status := http.StatusOK
	var i account.Invite
	var err error
	if web.FromOtherSite(r) {
		i, err = s.LinkedInvite(r.Context(), page.Code)
	} else {
		i, err = s.OpenInvite(r.Context(), s.Caller(r), page.Code)
	}
	switch {
	case err == nil:
		page.Code, page.InvitedBy, page.Note, page.Linked = i.Shown(), i.Inviter, i.Note, true
		mailed := withoutMark(q.Get("mailed"))
		if page.Email = s.InvitedAddress(i, mailed); page.Email != "" {
			page.Mailed, page.Fixed = mailed, i.Domain != ""
			page.DisplayName = s.InvitedName(i, page.Mailed)
			if page.SharedAddress, err = s.SharedAddress(r.Context(), i, page.Email); err != nil {
				return err
			}
			if page.Handle, err = s.ProposeHandle(r.Context(), "", page.DisplayName); err != nil {
				return err
			}
		} else if i.Domain != "" {
			return s.showJoin(w, r, http.StatusOK, templates.Join{Code: i.Shown(), Continue: page.Continue})
		}
	case errors.Is(err, account.ErrInvalidInvite):
		page.Linked = true
		p, err := web.Refusal(w, r, err)
		if err != nil {
			return err
		}
		status, page.Error, page.ErrorCode = p.Status, p.Detail, p.Code
	case !errors.Is(err, web.ErrRateLimited):
		return err
	}
	return s.showRegister(w, r, status, page)
}

func (s *Site) showRegister(w http.ResponseWriter, r *http.Request, status int, page templates.Register) error {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	if id, err := s.Current(r); err == nil {
		page.SignedInAs = id.User.Handle
	}
	page.MinPassword, page.Contact = settings.MinPassword, settings.Contact
	page.Passkeys = s.passkeys.PasskeysUnavailable() == nil
	if settings.Registration == account.RegistrationClosed && !page.Closed {
		// Without a form the code does not matter.
		status, page = http.StatusOK, templates.Register{Closed: true, Continue: page.Continue,
			SignedInAs: page.SignedInAs}
	}
	s.Show(w, r, status, page)
	return nil
}

func (s *Site) registerForm(w http.ResponseWriter, r *http.Request) error {
	f := r.PostForm
	next, application := s.continuation(w, r, f)
	in := person.Registration{Code: f.Get("code"), Handle: f.Get("handle"), Password: f.Get("password"),
		DisplayName: f.Get("display_name"), Email: f.Get("email"), Mailed: f.Get("mailed"),
		Shared: f.Has("shared_computer")}
	made, _ := passkeyInForm(r)
	out, cause := s.passkeys.Register(r.Context(), s.Caller(r), in, made)
	if cause == nil {
		s.enter(w, out.SignedIn)
		if out.Codes != nil {
			s.Show(w, r, http.StatusOK, templates.RecoveryCodes{Codes: out.Codes, First: true, Passwordless: true,
				Application: application.Name, Continue: next})
			return nil
		}
		if next == "" {
			return s.Redirect(w, r, "/account/welcome")
		}
		return s.afterSignIn(w, r, out.User, next)
	}
	p, err := web.Refusal(w, r, cause)
	if err != nil {
		return err
	}
	page := templates.Register{
		Code: text.Cut(in.Code, maxShown), Handle: text.Cut(in.Handle, maxShown),
		DisplayName: text.Cut(in.DisplayName, maxShown), Email: text.Cut(in.Email, maxShown),
		Mailed: text.Cut(in.Mailed, 1024), Continue: next,
		ErrorCode: p.Code, Closed: errors.Is(cause, account.ErrRegistrationFull),
		FieldErrors: p.ByField(), Shared: in.Shared, Fixed: f.Has("fixed"),
		SharedAddress: f.Has("shared_address"),
		Linked:        f.Has("linked") && !errors.Is(cause, account.ErrInvalidInvite),
	}
	if page.Signals, err = s.passkeys.ForgetPasskey(r.Context(), made.Credential); err != nil {
		return err
	}
	// On a phone the browser scrolls to the field, so the error is shown there too.
	switch {
	case errors.Is(cause, account.ErrInvalidInvite):
		page.FieldErrors["code"] = p.Detail
	case errors.Is(cause, account.ErrHandleTaken):
		page.FieldErrors["handle"] = p.Detail
		err = s.proposeHandle(r, &page, "This user name is taken. @{free} is free.")
	case strings.TrimSpace(in.Handle) == "" && page.FieldErrors["handle"] != "":
		err = s.proposeHandle(r, &page, "Do you like @{free}? You cannot change it later.")
	}
	if err != nil {
		return err
	}
	page.Error = templates.NewAnswer(templates.LanguageOf(r.Context()), "", p.Detail, p.Code, page.FieldErrors).Error
	return s.showRegister(w, r, p.Status, page)
}

// proposeHandle puts a free handle into the form, with a text that has {free}, if there is one.
func (s *Site) proposeHandle(r *http.Request, page *templates.Register, form templates.Text) error {
	free, err := s.ProposeHandle(r.Context(), page.Handle, page.DisplayName)
	if err == nil && free != "" {
		page.Handle = free
		page.FieldErrors["handle"] = templates.LanguageOf(r.Context()).Text(form, "free", free)
	}
	return err
}

package account

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

type registered struct {
	OK     bool   `json:"ok"`
	Handle string `json:"handle"`
}

func (s *Service) apiRegister(w http.ResponseWriter, r *http.Request) error {
	var in Registration
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	out, err := s.Register(r.Context(), s.Caller(r), in)
	if err != nil {
		return err
	}
	s.setCookies(w, out)
	return web.WriteJSON(w, http.StatusCreated, registered{OK: true, Handle: out.User.Handle})
}

// registerPage shows the form, with the code of an invite link filled in and the inviter. An
// address over its limit learns nothing about codes.
func (s *Service) registerPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page := templates.Register{Code: text.Cut(q.Get("code"), 64)}
	page.Continue, _ = s.continuation(w, r, q)
	if page.Code == "" {
		return s.showRegister(w, r, http.StatusOK, page)
	}
	status := http.StatusOK
	i, err := s.openInvite(r.Context(), s.Caller(r), page.Code)
	switch {
	case err == nil:
		page.Code, page.InvitedBy, page.Note = i.Shown(), i.Inviter, i.Note
	case errors.Is(err, ErrInvalidInvite):
		status, page.Error, page.ErrorCode = ErrInvalidInvite.Status,
			ErrInvalidInvite.In(templates.LanguageOf(r.Context())).Detail, ErrInvalidInvite.Code
	case !errors.Is(err, web.ErrRateLimited):
		return err
	}
	return s.showRegister(w, r, status, page)
}

func (s *Service) showRegister(w http.ResponseWriter, r *http.Request, status int, page templates.Register) error {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	if id, err := s.Current(r); err == nil {
		page.SignedInAs = id.User.Handle
	}
	page.MinPassword = settings.MinPassword
	if settings.Registration == RegistrationClosed && !page.Closed {
		// Without a form the code does not matter.
		status, page = http.StatusOK, templates.Register{Closed: true, Continue: page.Continue}
	}
	s.Show(w, r, status, page)
	return nil
}

func (s *Service) registerForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	f := r.PostForm
	next, _ := s.continuation(w, r, f)
	in := Registration{Code: f.Get("code"), Handle: f.Get("handle"), Password: f.Get("password"),
		DisplayName: f.Get("display_name"), Email: f.Get("email")}
	out, cause := s.Register(r.Context(), s.Caller(r), in)
	if cause == nil {
		s.setCookies(w, out)
		return s.afterSignIn(w, r, out.User, next)
	}
	p, err := web.Refusal(w, r, cause)
	if err != nil {
		return err
	}
	page := templates.Register{
		Code: text.Cut(in.Code, 64), Handle: text.Cut(in.Handle, 64), DisplayName: text.Cut(in.DisplayName, 64),
		Email: text.Cut(in.Email, 256), Continue: next,
		Error: p.Detail, ErrorCode: p.Code, Closed: errors.Is(cause, ErrRegistrationFull),
		FieldErrors: map[string]string{},
	}
	// On a phone the browser scrolls to the field, so the error is shown there too.
	switch {
	case errors.Is(cause, ErrInvalidInvite):
		page.FieldErrors["code"] = p.Detail
	case errors.Is(cause, ErrHandleTaken):
		page.FieldErrors["handle"] = p.Detail
	}
	for _, e := range p.Errors {
		page.FieldErrors[strings.TrimPrefix(e.Pointer, "/")] = string(e.Detail)
	}
	return s.showRegister(w, r, p.Status, page)
}

type inviteList struct {
	Invites   web.List `json:"invites"`   // there may be many
	Remaining *int     `json:"remaining"` // null: no limit
}

type inviteCreated struct {
	OK        bool      `json:"ok"`
	Code      string    `json:"code"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *Service) apiInvites(w http.ResponseWriter, r *http.Request) error {
	u := IdentityFrom(r.Context()).User
	remaining, err := s.invitesLeft(r.Context(), u)
	if err != nil {
		return err
	}
	out := inviteList{Invites: s.listInvites(r.Context(), u, func(i Invite) any { return s.inviteEntry(i) })}
	if remaining >= 0 {
		out.Remaining = &remaining
	}
	return web.StreamJSON(w, s.clock, out)
}

func (s *Service) apiCreateInvite(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Note  string `json:"note"`
		Email string `json:"email"`
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	i, err := s.CreateInvite(r.Context(), s.Caller(r), in.Note, in.Email)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusCreated,
		inviteCreated{OK: true, Code: i.Shown(), URL: s.InviteURL(i), ExpiresAt: i.ExpiresAt})
}

func (s *Service) inviteForm(_ http.ResponseWriter, r *http.Request) error {
	_, err := s.CreateInvite(r.Context(), s.Caller(r), r.PostForm.Get("note"), r.PostForm.Get("email"))
	return err
}

func (s *Service) deleteInvite(_ http.ResponseWriter, r *http.Request) error {
	return s.DeleteInvite(r.Context(), s.Caller(r), parameter(r, "code"))
}

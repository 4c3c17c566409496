package account

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Registration is what a new member enters.
type Registration struct {
	Code        string `json:"code"`
	Handle      string `json:"handle"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name"`
	Email       string `json:"email"` // stored as not verified
}

// Register redeems an invite, creates the user and signs the browser in.
func (s *Service) Register(w http.ResponseWriter, r *http.Request, in Registration) (User, error) {
	u, err := s.register(w, r, in)
	if err != nil {
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, web.ErrRateLimited) {
			web.Note(r.Context(), "register_refused")
		}
		return User{}, err
	}
	web.NoteUser(r.Context(), u.Sub)
	web.Note(r.Context(), "registered")
	return u, nil
}

func (s *Service) register(w http.ResponseWriter, r *http.Request, in Registration) (User, error) {
	ctx := r.Context()
	settings, err := s.Settings(ctx)
	if err != nil {
		return User{}, err
	}
	if settings.Registration == RegistrationClosed {
		return User{}, ErrRegistrationFull
	}
	// The invite first: without a good one nothing is said about handles.
	invite, err := s.openInvite(r, in.Code)
	if err != nil {
		return User{}, err
	}
	u, err := CreateUser(ctx, s.hasher, settings, NewUser{Handle: in.Handle, DisplayName: in.DisplayName, Email: in.Email, Password: in.Password}, s.now())
	if err != nil {
		return User{}, err
	}
	u.LastLoginAt = u.CreatedAt
	row, secrets := s.newSession(u.Sub, r, MethodPassword)
	a := ActorFor(r, u).Own(s.now(), "user.register", invitedBy(invite)).with(s.askVerification(ctx, &u)...)
	if err := s.store.Register(ctx, invite.Code, u, row, settings.MaxUsers, s.now(), a); err != nil {
		return User{}, fmt.Errorf("register: %w", err)
	}
	if _, err := s.endSessions(r, ""); err != nil {
		return User{}, err
	}
	s.rememberDevice(w, r, u.Sub)
	return u, s.setCookies(w, u, row, secrets)
}

// invitedBy says in the audit log who let somebody in.
func invitedBy(i Invite) string { return "invited by " + cmp.Or(i.Inviter, Operator().Name) }

type registered struct {
	OK     bool   `json:"ok"`
	Handle string `json:"handle"`
}

func (s *Service) apiRegister(w http.ResponseWriter, r *http.Request) error {
	var in Registration
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	u, err := s.Register(w, r, in)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusCreated, registered{OK: true, Handle: u.Handle})
}

// registerPage shows the form, with the code of an invite link filled in and who
// invites. An address that has guessed too much is told nothing about codes.
func (s *Service) registerPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page := templates.Register{Code: cut(q.Get("code"), 64)}
	page.Continue, _ = s.continuation(r, q)
	if page.Code == "" {
		return s.showRegister(w, r, http.StatusOK, page)
	}
	status := http.StatusOK
	i, err := s.openInvite(r, page.Code)
	switch {
	case err == nil:
		page.Code, page.InvitedBy, page.Note = i.Shown(), i.Inviter, i.Note
	case errors.Is(err, ErrInvalidInvite):
		status, page.Error, page.ErrorCode = ErrInvalidInvite.Status, ErrInvalidInvite.In(templates.LanguageOf(r.Context())).Detail, ErrInvalidInvite.Code
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
	page.MinPassword = settings.MinPassword
	if settings.Registration == RegistrationClosed && !page.Closed {
		// Without a form there is nothing to say about its code.
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
	next, _ := s.continuation(r, f)
	in := Registration{Code: f.Get("code"), Handle: f.Get("handle"), Password: f.Get("password"), DisplayName: f.Get("display_name"), Email: f.Get("email")}
	_, cause := s.Register(w, r, in)
	if cause == nil {
		return s.afterSignIn(w, r, next)
	}
	p, err := web.Refusal(w, r, cause)
	if err != nil {
		return err
	}
	page := templates.Register{
		Code: cut(in.Code, 64), Handle: cut(in.Handle, 64), DisplayName: cut(in.DisplayName, 64), Email: cut(in.Email, 256), Continue: next,
		Error: p.Detail, ErrorCode: p.Code, Closed: errors.Is(cause, ErrRegistrationFull), FieldErrors: map[string]string{},
	}
	// The form is longer than a phone, and a browser opens it at the field: what is
	// wrong stands there too.
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

package account

import (
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Service) mountRegister(m *mux.Router) {
	s.Handle(m, "/api/register", web.Methods{"POST": s.apiRegister})
	s.Handle(m, "/register/", web.Methods{"GET": s.registerPage, "POST": s.registerForm})
}

type registered struct {
	OK     bool   `json:"ok"`
	Handle string `json:"handle"`
}

func (s *Service) apiRegister(w http.ResponseWriter, r *http.Request) {
	var in Registration
	if err := web.ReadJSON(w, r, &in); err != nil {
		s.Fail(w, r, err)
		return
	}
	u, err := s.Register(w, r, in)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusCreated, registered{OK: true, Handle: u.Handle})
}

// registerPage shows the form, with the code of an invite link filled in.
func (s *Service) registerPage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	page := templates.Register{Code: cut(q.Get("code"), 64), Continue: continuation(q)}
	status := http.StatusOK
	if page.Code != "" {
		err := s.describeInvite(r, &page)
		p, known := web.ProblemOf(err)
		switch {
		case err == nil:
		case known && p.Code == "invalid_invite":
			status, page.Error, page.ErrorCode = p.Status, p.Detail, p.Code
		case !errors.Is(err, web.ErrRateLimited):
			s.Fail(w, r, err)
			return
		}
	}
	s.showRegister(w, r, status, page)
}

// describeInvite fills in who invites. An address that has guessed too much is
// told nothing about codes.
func (s *Service) describeInvite(r *http.Request, page *templates.Register) error {
	i, err := s.openInvite(r, page.Code)
	if err != nil {
		return err
	}
	page.Code, page.InvitedBy, page.Note = i.Shown(), i.Inviter, i.Note
	return nil
}

func (s *Service) showRegister(w http.ResponseWriter, r *http.Request, status int, page templates.Register) {
	settings, err := s.Settings(r.Context())
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	page.MinPassword = settings.MinPassword
	if settings.Registration == RegistrationClosed && !page.Closed {
		// Without a form there is nothing to say about its code.
		status, page = http.StatusOK, templates.Register{Closed: true, Continue: page.Continue}
	}
	s.Show(w, r, status, page)
}

// registerFields are the fields that a refusal is about. The form is longer than a
// phone, and a browser opens it at the field: what is wrong stands there too.
var registerFields = map[string]string{
	"invalid_invite": "code", "invalid_handle": "handle", "handle_taken": "handle", "invalid_display_name": "display_name", "invalid_email": "email",
	"weak_password": "password",
}

func (s *Service) registerForm(w http.ResponseWriter, r *http.Request) {
	if err := web.ReadForm(w, r); err != nil {
		s.Fail(w, r, err)
		return
	}
	f, next := r.PostForm, continuation(r.PostForm)
	in := Registration{Code: f.Get("code"), Handle: f.Get("handle"), Password: f.Get("password"), DisplayName: f.Get("display_name"), Email: f.Get("email")}
	_, err := s.Register(w, r, in)
	if err == nil {
		http.Redirect(w, r, s.afterSignIn(next), http.StatusSeeOther)
		return
	}
	p, known := web.ProblemOf(err)
	if !known || p.Status == http.StatusServiceUnavailable {
		s.Fail(w, r, err)
		return
	}
	web.NoteDefault(r.Context(), p.Code)
	p.SetRetryAfter(w)
	page := templates.Register{
		Code: cut(in.Code, 64), Handle: cut(in.Handle, 64), DisplayName: cut(in.DisplayName, 64), Email: cut(in.Email, 256), Continue: next,
		Error: p.Detail, ErrorCode: p.Code, Closed: errors.Is(err, ErrRegistrationFull),
	}
	if field := registerFields[p.Code]; field != "" {
		page.FieldErrors = map[string]string{field: p.Detail}
	}
	s.showRegister(w, r, p.Status, page)
}

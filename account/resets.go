package account

import (
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Service) mountResets(m *mux.Router) {
	s.Handle(m, "/api/auth/reset-password", web.Methods{"POST": s.apiResetPassword})
	s.Handle(m, "/reset-password/", web.Methods{"GET": s.resetPage, "POST": s.resetForm})
	s.Handle(m, "/.well-known/change-password", web.Methods{"GET": s.changePassword})
}

func (s *Service) apiResetPassword(w http.ResponseWriter, r *http.Request) {
	var in Reset
	if err := web.ReadJSON(w, r, &in); err != nil {
		s.Fail(w, r, err)
		return
	}
	if err := s.ResetPassword(r, in); err != nil {
		if errors.Is(err, ErrInvalidResetCode) {
			err = s.withContact(r.Context(), ErrInvalidResetCode)
		}
		s.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// resetPage shows the form, filled in from the link. It says nothing about the
// code: looking is not an attempt.
func (s *Service) resetPage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	page := templates.ResetPassword{Code: canonicalCode(q.Get("code"), resetCodeLength), Continue: continuation(q)}
	if h, err := CanonicalHandle(q.Get("handle")); err == nil {
		page.Handle = h
	}
	s.showReset(w, r, http.StatusOK, page)
}

func (s *Service) showReset(w http.ResponseWriter, r *http.Request, status int, page templates.ResetPassword) {
	settings, err := s.Settings(r.Context())
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	page.MinPassword, page.Contact = settings.MinPassword, settings.Contact
	s.Show(w, r, status, page)
}

func (s *Service) resetForm(w http.ResponseWriter, r *http.Request) {
	if err := web.ReadForm(w, r); err != nil {
		s.Fail(w, r, err)
		return
	}
	f, next := r.PostForm, continuation(r.PostForm)
	in := Reset{Handle: f.Get("handle"), Code: f.Get("code"), Password: f.Get("password")}
	err := s.ResetPassword(r, in)
	if err == nil {
		s.showReset(w, r, http.StatusOK, templates.ResetPassword{Done: true, Continue: next})
		return
	}
	p, known := web.ProblemOf(err)
	if !known || p.Status == http.StatusServiceUnavailable {
		s.Fail(w, r, err)
		return
	}
	web.NoteDefault(r.Context(), p.Code)
	p.SetRetryAfter(w)
	s.showReset(w, r, p.Status, templates.ResetPassword{
		Handle: cut(in.Handle, 64), Code: cut(in.Code, 64), Error: p.Detail, ErrorCode: p.Code, Continue: next,
	})
}

// changePassword is where password managers look for the form (W3C "A
// Well-Known URL for Changing Passwords").
func (s *Service) changePassword(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, s.Path("/account/#password"), http.StatusSeeOther)
}

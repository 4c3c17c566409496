package site

import (
	"errors"
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Site) apiLogout(w http.ResponseWriter, r *http.Request) error {
	return web.Answer(w, http.StatusOK, okAnswer{OK: true}, s.SignOutBrowser(w, r, ""))
}

func (s *Site) logoutPage(w http.ResponseWriter, r *http.Request) error {
	id, err := s.SessionToEnd(r.Context(), s.sessionCookies(r))
	if err != nil && !errors.Is(err, account.ErrNotAuthenticated) {
		return err
	}
	page := templates.Logout{}
	if id != nil {
		page.SignedIn, page.Handle = true, id.User.Handle
	}
	s.Show(w, r, http.StatusOK, page)
	return nil
}

func (s *Site) logoutForm(w http.ResponseWriter, r *http.Request) error {
	id, err := s.SessionToEnd(r.Context(), s.sessionCookies(r))
	if err == nil || errors.Is(err, account.ErrNotAuthenticated) {
		err = s.SignOutBrowser(w, r, "") // even without a session: other applications may still accept the cookie
	}
	switch {
	case err != nil:
		return err
	case id == nil:
		s.Show(w, r, http.StatusOK, templates.Logout{})
	default:
		s.Show(w, r, http.StatusOK, templates.SignedOut{})
	}
	return nil
}

package admin

import (
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func (s *Service) showSettings(w http.ResponseWriter, r *http.Request) {
	v, err := s.office.Settings(r.Context())
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, v)
}

// putSettings changes the members that the body has; the others stay.
func (s *Service) putSettings(w http.ResponseWriter, r *http.Request) {
	in := account.SettingsChange{}
	if err := web.ReadJSON(w, r, &in); err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	v, err := s.accounts.ChangeSettings(r.Context(), account.ActorOf(r), in)
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, v)
}

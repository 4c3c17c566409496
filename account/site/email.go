package site

import (
	"net/http"

	"github.com/cairn-id/cairn/account/web"
)

func (s *Site) sendVerification(_ http.ResponseWriter, r *http.Request) error {
	return s.SendVerification(r.Context(), s.Caller(r))
}

func (s *Site) cancelEmail(_ http.ResponseWriter, r *http.Request) error {
	return s.CancelEmail(r.Context(), s.Caller(r))
}

func (s *Site) apiVerifyEmail(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Code string `json:"code"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := s.VerifyByCode(r.Context(), s.Caller(r), in.Code); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

func (s *Site) verifyForm(_ http.ResponseWriter, r *http.Request) error {
	return s.VerifyByCode(r.Context(), s.Caller(r), r.PostForm.Get("code"))
}

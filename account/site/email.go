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

func (s *Site) apiVerifyEmail(w http.ResponseWriter, r *http.Request, in struct {
	Code string `json:"code"`
}) error {
	return web.Answer(w, http.StatusOK, okAnswer{OK: true}, s.VerifyByCode(r.Context(), s.Caller(r), in.Code))
}

func (s *Site) verifyForm(_ http.ResponseWriter, r *http.Request) error {
	return s.VerifyByCode(r.Context(), s.Caller(r), r.PostForm.Get("code"))
}

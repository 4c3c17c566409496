package site

import (
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func (s *Site) apiPutPassword(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Current string   `json:"current_password"`
		New     string   `json:"new_password"`
		Void    []string `json:"void_given"`
		Remove  []string `json:"remove_factors"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	out, err := s.ChangePassword(r.Context(), s.Caller(r), in.Current, in.New,
		account.Keep{Void: in.Void, Remove: in.Remove})
	if err != nil {
		return err
	}
	s.setCookies(w, out)
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

func (s *Site) passwordForm(w http.ResponseWriter, r *http.Request) error {
	out, err := s.ChangePassword(r.Context(), s.Caller(r), r.PostForm.Get("current_password"),
		r.PostForm.Get("new_password"), kept(r))
	s.setCookies(w, out)
	return err
}

func (s *Site) removePassword(r *http.Request, keep account.Keep) error {
	return s.RemovePassword(r.Context(), s.Caller(r), keep)
}

// changePasswordPage redirects password managers to the form (W3C, A Well-Known URL for Changing
// Passwords).
func (s *Site) changePasswordPage(w http.ResponseWriter, r *http.Request) error {
	return s.Redirect(w, r, "/account/security#password")
}

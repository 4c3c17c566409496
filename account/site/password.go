package site

import (
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Site) apiPutPassword(w http.ResponseWriter, r *http.Request, in struct {
	Current string   `json:"current_password"`
	New     string   `json:"new_password"`
	Void    []string `json:"void_given"`
	Remove  []string `json:"remove_factors"`
	Step    *bool    `json:"second_step"` // of an account without a password; null: true
}) error {
	out, err := s.ChangePassword(r.Context(), s.Caller(r), in.Current, in.New,
		account.Keep{Void: in.Void, Remove: in.Remove, NoSecondStep: in.Step != nil && !*in.Step})
	if err != nil {
		return err
	}
	s.setCookies(w, out)
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

func (s *Site) passwordForm(w http.ResponseWriter, r *http.Request) error {
	keep := kept(r)
	keep.NoSecondStep = r.PostForm.Has("asks_second_step") && !r.PostForm.Has("second_step")
	out, err := s.ChangePassword(r.Context(), s.Caller(r), r.PostForm.Get("current_password"),
		r.PostForm.Get("new_password"), keep)
	s.setCookies(w, out)
	return err
}

func (s *Site) apiRemovePassword(w http.ResponseWriter, r *http.Request) error {
	var keep account.Keep
	if err := web.ReadOptionalJSON(w, r, &keep); err != nil {
		return err
	}
	out, err := s.RemovePassword(r.Context(), s.Caller(r), keep)
	if err != nil {
		return err
	}
	s.setCookies(w, out.SignedIn)
	if out.Codes == nil {
		return web.NoContent(w, nil)
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]string{"recovery_codes": out.Codes})
}

func (s *Site) removePasswordForm(w http.ResponseWriter, r *http.Request) error {
	out, err := s.RemovePassword(r.Context(), s.Caller(r), kept(r))
	s.setCookies(w, out.SignedIn)
	if err != nil || out.Codes == nil {
		return err
	}
	return s.showCodes(w, r, templates.RecoveryCodes{Codes: out.Codes, Passwordless: true})
}

// changePasswordPage redirects password managers to the form (W3C, A Well-Known URL for Changing
// Passwords).
func (s *Site) changePasswordPage(w http.ResponseWriter, r *http.Request) error {
	return s.Redirect(w, r, "/account/security#password")
}

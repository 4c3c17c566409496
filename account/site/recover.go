package site

import (
	"net/http"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Site) apiRecover(w http.ResponseWriter, r *http.Request, in struct {
	Handle string `json:"handle"`
	Code   string `json:"code"`
	Shared bool   `json:"shared_computer"`
}) error {
	c := s.Caller(r)
	c.Shared = in.Shared
	out, err := s.Recover(r.Context(), c, in.Handle, in.Code)
	return s.answerSignedIn(w, r, out, err)
}

// recoverPage is for people who have no password and have lost their passkeys. A mail leads here with
// the handle.
func (s *Site) recoverPage(w http.ResponseWriter, r *http.Request) error {
	return s.showRecover(w, r, http.StatusOK, templates.Recover{Handle: text.Cut(r.URL.Query().Get("handle"), 64)})
}

func (s *Site) showRecover(w http.ResponseWriter, r *http.Request, status int, page templates.Recover) error {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	page.Contact, page.Mail = settings.Contact, s.MailEnabled()
	if page.Continue == "" {
		page.Continue, _ = s.continuation(w, r, r.URL.Query())
	}
	s.Show(w, r, status, page)
	return nil
}

func (s *Site) recoverForm(w http.ResponseWriter, r *http.Request) error {
	next, _ := s.continuation(w, r, r.PostForm)
	handle := text.Cut(r.PostForm.Get("handle"), 254)
	c := s.Caller(r)
	c.Shared = r.PostForm.Has("shared_computer")
	out, cause := s.Recover(r.Context(), c, handle, text.Cut(r.PostForm.Get("code"), 100))
	if cause == nil {
		s.enter(w, out)
		return s.afterRecovery(w, r, out.User, next)
	}
	p, err := web.Refusal(w, r, s.withAdminContact(r.Context(), cause))
	if err != nil {
		return err
	}
	return s.showRecover(w, r, p.Status,
		templates.Recover{Handle: handle, Shared: c.Shared, Continue: next, Error: p.Detail, ErrorCode: p.Code})
}

package site

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// findLinked returns the page and the act of a sealed link.
type findLinked func(ctx context.Context, c account.Caller, sealed string) (person.Linked, error)

// withoutMark removes what readers of mails take for the end of a link.
func withoutMark(sealed string) string { return strings.TrimRight(sealed, "\t\r\n .,;:!=>)]\"'") }

// followLink shows the page of a link, and runs its act when the button is pressed.
func (s *Site) followLink(purpose string, find findLinked) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		sealed := r.URL.Query().Get("link")
		if r.Method == http.MethodPost {
			if err := web.ReadForm(w, r); err != nil {
				return err
			}
			sealed = r.PostForm.Get("link")
		}
		sealed = withoutMark(sealed)
		c := s.Caller(r)
		switch id, err := s.Current(r); {
		case err == nil:
			c = c.In(id.User, id.Session)
		case !errors.Is(err, account.ErrNotAuthenticated):
			return err
		}
		status := http.StatusOK
		l, err := find(r.Context(), c, sealed)
		if err == nil && r.Method == http.MethodPost && !l.Page.Done {
			err = l.Do(&l.Page)
			l.Page.Done = true
		}
		if err != nil {
			p, err := web.Refusal(w, r, err)
			if err != nil {
				return err
			}
			l.Page, status = templates.LinkPage{Error: p.Detail, ErrorCode: p.Code}, p.Status
		}
		settings, err := s.Settings(r.Context())
		if err != nil {
			return err
		}
		l.Page.Name, l.Page.Link = purpose, sealed
		l.Page.MinPassword, l.Page.Contact = settings.MinPassword, settings.Contact
		s.Show(w, r, status, l.Page)
		return nil
	}
}

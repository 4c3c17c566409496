package site

import (
	"context"
	"errors"
	"net/http"
	"net/url"
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

// mailedQuery returns the query of a link in a mail. Of HTML a reader may leave &amp; for &, and of quoted-printable
// =3D for =, which the length of a code tells from a code that begins so.
func mailedQuery(r *http.Request) url.Values {
	q, _ := url.ParseQuery(strings.ReplaceAll(r.URL.RawQuery, "&amp;", "&"))
	code := q.Get("code")
	whole := account.CanonicalInviteCode(code) + account.CanonicalCode(code, account.ResetCodeLength)
	if whole != "" || !strings.HasPrefix(code+q.Get("link"), "3D") {
		return q
	}
	for _, values := range q {
		values[0] = strings.TrimPrefix(values[0], "3D")
	}
	return q
}

// followLink shows the page of a link, and runs its act when the button is pressed.
func (s *Site) followLink(purpose string, find findLinked) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		sealed := mailedQuery(r).Get("link")
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

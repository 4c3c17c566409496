package site

import (
	"cmp"
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Site) apiApps(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Store().Apps(r.Context(), IdentityFrom(r.Context()).User.Sub, s.Now())
	return web.Answer(w, http.StatusOK, map[string][]entry.App{"apps": entry.Apps(list)}, err)
}

func (s *Site) removeApp(_ http.ResponseWriter, r *http.Request) error {
	return s.RemoveApp(r.Context(), s.Caller(r), parameter(r, "client_id"))
}

// removeAppForm is removeApp after a question that names the application.
func (s *Site) removeAppForm(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Store().Apps(r.Context(), IdentityFrom(r.Context()).User.Sub, s.Now())
	if err != nil {
		return err
	}
	for _, app := range list {
		if app.ClientID == parameter(r, "client_id") {
			err = s.Asked(r, account.RemoveApp, "app", cmp.Or(app.ClientName, app.ClientID))
		}
	}
	if err != nil {
		return err
	}
	return s.removeApp(w, r)
}

func (s *Site) appsPage(r *http.Request, m templates.Member) (templates.Page, error) {
	apps, err := s.AppsFor(r.Context(), IdentityFrom(r.Context()).User)
	if err != nil {
		return nil, err
	}
	page := templates.AccountApps{Member: m, Apps: entry.AppRows(apps)}
	for i := range page.Apps {
		if s.scopeTexts != nil {
			page.Apps[i].Sees = s.scopeTexts(r.Context(), page.Apps[i].Scopes)
		}
	}
	return page, nil
}

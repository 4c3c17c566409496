package admin

import (
	"net/http"
	"slices"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Service) listJoinRequests(w http.ResponseWriter, r *http.Request) error {
	list, err := s.users.JoinRequests(r.Context())
	return web.Answer(w, http.StatusOK, struct {
		Requests []account.JoinRequest `json:"requests"`
	}{list}, err)
}

// acceptJoin accepts the request in the path, with the note and the application in an optional body.
func (s *Service) acceptJoin(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Note string  `json:"note"`
		App  *string `json:"app"`
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	return web.NoContent(w, s.users.AcceptJoin(r.Context(), s.accounts.Caller(r), mux.Vars(r)["id"], in.Note, in.App))
}

// refuseJoin refuses the request in the path, with the note in an optional body.
func (s *Service) refuseJoin(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Note string `json:"note"`
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	return web.NoContent(w, s.users.RefuseJoin(r.Context(), s.accounts.Caller(r), mux.Vars(r)["id"], in.Note))
}

// joinForm decides the request in the field id: the buttons are welcome and refuse.
func (s *Service) joinForm(w http.ResponseWriter, r *http.Request) error {
	by, f := s.accounts.Caller(r), r.PostForm
	err := s.users.Allow(by, account.AcceptJoin)
	if err != nil {
		return err
	}
	var notice string
	switch f.Get("decision") {
	case "welcome":
		var app *string // without the field: that of the request
		if f.Has("app") {
			chosen := text.Cut(f.Get("app"), account.MaxClientID)
			app = &chosen
		}
		notice, err = "join-accepted", s.users.AcceptJoin(r.Context(), by, f.Get("id"), f.Get("note"), app)
	case "refuse":
		notice, err = "join-refused", s.users.RefuseJoin(r.Context(), by, f.Get("id"), f.Get("note"))
	default:
		return web.BadRequest("The decision must be welcome or refuse.")
	}
	if err == nil {
		return s.accounts.Redirect(w, r, "/admin/invites?notice="+notice+"#requests")
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page := templates.AdminInvites{Answer: templates.Answer{Section: "requests", Error: p.Detail, ErrorCode: p.Code},
		Refused: f.Get("id"), Note: text.Cut(f.Get("note"), 256), App: text.Cut(f.Get("app"), account.MaxClientID)}
	return s.showInvitesPage(w, r, p.Status, "", page)
}

// joinRequests adds the requests to the page of invites.
func (s *Service) joinRequests(r *http.Request, page *templates.AdminInvites) error {
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	apps, err := s.accounts.AppsFor(r.Context(), site.IdentityFrom(r.Context()).User)
	if err != nil {
		return err
	}
	list, err := s.users.JoinRequests(r.Context())
	page.Asking = settings.Registration == account.RegistrationRequest || len(list) > 0
	for _, j := range list {
		row := templates.JoinRow{ID: j.ID, Name: j.Name, Email: j.Email, Reason: j.Reason, AskedAt: j.AskedAt,
			App: j.App, Apps: entry.WithHome(apps)}
		if j.ID == page.Refused {
			row.Note, row.App = page.Note, page.App
		}
		chosen := func(app templates.AppRow) bool { return app.ClientID == row.App }
		if row.App != "" && !slices.ContainsFunc(row.Apps, chosen) {
			row.Apps = append(row.Apps, templates.AppRow{ClientID: row.App})
		}
		page.Requests = append(page.Requests, row)
	}
	return err
}

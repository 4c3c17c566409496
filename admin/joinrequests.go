package admin

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
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

// decideJoin decides the request in the path, with the note in an optional body.
func (s *Service) decideJoin(accept bool) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var in struct {
			Note string `json:"note"`
		}
		if err := web.ReadOptionalJSON(w, r, &in); err != nil {
			return err
		}
		return web.NoContent(w, s.decide(r, accept, mux.Vars(r)["id"], in.Note))
	}
}

func (s *Service) decide(r *http.Request, accept bool, id, note string) error {
	by := s.accounts.Caller(r)
	if accept {
		return s.users.AcceptJoin(r.Context(), by, id, note)
	}
	return s.users.RefuseJoin(r.Context(), by, id, note)
}

// joinForm decides the request in the field id: the buttons are welcome and refuse.
func (s *Service) joinForm(w http.ResponseWriter, r *http.Request) error {
	if err := s.users.Allow(s.accounts.Caller(r), account.AcceptJoin); err != nil {
		return err
	}
	f := r.PostForm
	accept := f.Get("decision") == "welcome"
	if !accept && f.Get("decision") != "refuse" {
		return web.BadRequest("The decision must be welcome or refuse.")
	}
	err := s.decide(r, accept, f.Get("id"), f.Get("note"))
	if err == nil {
		notice := "join-refused"
		if accept {
			notice = "join-accepted"
		}
		return s.accounts.Redirect(w, r, "/admin/invites?notice="+notice+"#requests")
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page := templates.AdminInvites{Answer: templates.Answer{Section: "requests", Error: p.Detail, ErrorCode: p.Code},
		Refused: f.Get("id"), Note: text.Cut(f.Get("note"), 256)}
	return s.showInvitesPage(w, r, p.Status, "", page)
}

// joinRequests adds the requests to the page of invites.
func (s *Service) joinRequests(r *http.Request, page *templates.AdminInvites) error {
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	list, err := s.users.JoinRequests(r.Context())
	page.Asking = settings.Registration == account.RegistrationRequest || len(list) > 0
	for _, j := range list {
		row := templates.JoinRow{ID: j.ID, Name: j.Name, Email: j.Email, Reason: j.Reason, AskedAt: j.AskedAt}
		if j.ID == page.Refused {
			row.Note = page.Note
		}
		page.Requests = append(page.Requests, row)
	}
	return err
}

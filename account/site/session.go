package site

import (
	"net/http"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// latestSessions is how many sessions pages show at first.
const latestSessions = 20

// ShownSessions returns the sessions that a page shows: the latest, or as many as possible if the
// query asks for all. more reports whether there are others.
func ShownSessions(r *http.Request, list []account.Session) (shown []account.Session, more bool) {
	if len(list) <= latestSessions || r.URL.Query().Get("sessions") == "all" {
		return list, false
	}
	return list[:latestSessions], true
}

type sessionList struct {
	Sessions []entry.Session `json:"sessions"` // newest first
}

func (s *Site) apiSessions(w http.ResponseWriter, r *http.Request) error {
	id := IdentityFrom(r.Context())
	list, err := s.Store().Sessions(r.Context(), id.User.Sub, s.Now())
	if err != nil {
		return err
	}
	keys, err := s.Store().Passkeys(r.Context(), id.User.Sub)
	return web.Answer(w, http.StatusOK, sessionList{entry.Sessions(list, id.Session.ID, keys)}, err)
}

// endOwnSession ends a session of the signed-in user, which may be the current one.
func (s *Site) endOwnSession(w http.ResponseWriter, r *http.Request) error {
	c, id := s.Caller(r), parameter(r, "id")
	err := s.EndSession(r.Context(), c, id)
	if err == nil && id == c.Session.ID {
		s.clearCookies(w)
	}
	return err
}

// apiEndOthers ends the other sessions, and keeps the access of the applications in keep_apps. What void_given
// names is void.
func (s *Site) apiEndOthers(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		KeepApps []string `json:"keep_apps"`
		Void     []string `json:"void_given"`
		Remove   []string `json:"remove_factors"`
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	keep := account.Keep{Apps: in.KeepApps, Void: in.Void, Remove: in.Remove}
	out, err := s.EndOtherSessions(r.Context(), s.Caller(r), keep)
	s.setCookies(w, out)
	return web.NoContent(w, err)
}

// endOthersForm is apiEndOthers for a form, which first lists what ends.
func (s *Site) endOthersForm(w http.ResponseWriter, r *http.Request) error {
	if err := s.Asked(r, account.EndOtherSessions); err != nil {
		return err
	}
	out, err := s.EndOtherSessions(r.Context(), s.Caller(r), kept(r))
	s.setCookies(w, out)
	return err
}

// endsWithOthers lists what ends with the other sessions, and what the form of the request keeps of it.
// With optional the sessions may be kept too.
func (s *Site) endsWithOthers(r *http.Request, optional bool) (*templates.Ends, error) {
	id, keep := IdentityFrom(r.Context()), kept(r)
	made, err := s.Store().MadeByOthers(r.Context(), id.User.Sub, id.Session.ID, s.Now())
	if err != nil {
		return nil, err
	}
	recent, err := s.RecentFactorRows(r.Context(), id.User, id.Session.ID)
	return &templates.Ends{Sessions: made.Sessions, Invites: made.Invites, Apps: entry.AppRows(made.Apps),
		Optional: optional, KeepSessions: keep.Sessions, KeepApps: keep.Apps,
		Given:  templates.Given{Names: account.GivenNames(made.Given), Void: keep.Void},
		Recent: templates.RecentFactors{Rows: recent, Remove: keep.Remove}}, err
}

func (s *Site) devicesPage(r *http.Request, m templates.Member) (templates.Page, error) {
	id := IdentityFrom(r.Context())
	live, err := s.Store().Sessions(r.Context(), id.User.Sub, s.Now())
	if err != nil {
		return nil, err
	}
	sessions, more := ShownSessions(r, live)
	if !slices.ContainsFunc(sessions, func(n account.Session) bool { return n.ID == id.Session.ID }) {
		sessions = append(sessions, id.Session) // people look for the one they use
	}
	keys, err := s.Store().Passkeys(r.Context(), id.User.Sub)
	rows := entry.SessionRows(sessions, id.Session.ID, keys)
	return templates.AccountDevices{Member: m, Sessions: rows, MoreSessions: more}, err
}

package account

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// SessionEntry is a session as lists show it, to its user and to administrators.
type SessionEntry struct {
	ID         string    `json:"id"`
	Current    bool      `json:"current"` // the one that asks
	Device     string    `json:"device"`  // a short name from the User-Agent, or empty
	UserAgent  string    `json:"user_agent"`
	Address    string    `json:"address"`
	CreatedAt  time.Time `json:"created_at"`
	AuthTime   time.Time `json:"auth_time"`
	LastSeenAt time.Time `json:"last_seen_at"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// SessionEntries describes sessions; current is the id of the one that asks.
func SessionEntries(list []Session, current string) []SessionEntry {
	out := make([]SessionEntry, 0, len(list))
	for _, s := range list {
		out = append(out, SessionEntry{
			ID: s.ID, Current: s.ID == current, Device: Device(s.UserAgent), UserAgent: s.UserAgent, Address: s.Address,
			CreatedAt: s.CreatedAt.UTC(), AuthTime: s.AuthTime.UTC(), LastSeenAt: s.LastSeenAt.UTC(), ExpiresAt: s.ExpiresAt.UTC(),
		})
	}
	return out
}

// SessionRows is SessionEntries for pages.
func SessionRows(list []Session, current string) []templates.SessionRow {
	out := make([]templates.SessionRow, 0, len(list))
	for _, s := range list {
		out = append(out, templates.SessionRow{
			ID: s.ID, Current: s.ID == current, Device: Device(s.UserAgent), Address: s.Address,
			CreatedAt: s.CreatedAt, LastSeenAt: s.LastSeenAt, ExpiresAt: s.ExpiresAt,
		})
	}
	return out
}

const (
	sessionPage    = 50 // sessions a page of the API
	latestSessions = 20 // sessions that pages show at first
)

// listSessions lists live sessions; more tells whether there are others after them.
func listSessions(ctx context.Context, st SessionStore, q SessionQuery, now time.Time) (list []Session, more bool, err error) {
	limit := q.Limit
	q.Limit++ // one more than asked for tells whether there is a next page
	list, err = st.Sessions(ctx, q, now)
	if err != nil {
		return nil, false, fmt.Errorf("list sessions: %w", err)
	}
	if more = len(list) > limit; more {
		list = list[:limit]
	}
	return list, more, nil
}

// everySession lists all live sessions of a user, page by page.
func everySession(ctx context.Context, st SessionStore, sub string, now time.Time) ([]Session, error) {
	all := []Session{}
	for q := (SessionQuery{Sub: sub, Limit: sessionPage}); ; {
		list, more, err := listSessions(ctx, st, q, now)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
		if !more {
			return all, nil
		}
		q.After = list[len(list)-1].place()
	}
}

// shownSessions are those that a page shows: the latest, or with all as many as a user
// has; more tells whether there are others.
func shownSessions(ctx context.Context, st SessionStore, sub string, all bool, now time.Time) (list []Session, more bool, err error) {
	q := SessionQuery{Sub: sub, Limit: latestSessions}
	if all {
		q.Limit = MaxSessions
	}
	list, more, err = listSessions(ctx, st, q, now)
	return list, more && !all, err
}

// AllSessions tells whether the address of a page asks for all sessions.
func AllSessions(r *http.Request) bool { return r.URL.Query().Get("sessions") == "all" }

func (s Session) place() SessionPlace { return SessionPlace{s.CreatedAt, s.ID} }

// cursor is the cursor of the page after a place.
func (p SessionPlace) cursor() string {
	return Cursor(strconv.FormatInt(p.CreatedAt.Unix(), 10) + "." + p.ID)
}

// readSessionPlace reads a cursor; no cursor is the zero place.
func readSessionPlace(r *http.Request) (SessionPlace, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return SessionPlace{}, ErrInvalidCursor
	}
	key, err := ReadCursor(q)
	if err != nil || key == "" {
		return SessionPlace{}, err
	}
	at, id, _ := strings.Cut(key, ".")
	seconds, err := strconv.ParseInt(at, 10, 64)
	p := SessionPlace{time.Unix(seconds, 0).UTC(), id}
	if err != nil || !isSessionID(id) || p.cursor() != q.Get("cursor") {
		return SessionPlace{}, ErrInvalidCursor
	}
	return p, nil
}

// isSessionID spares a query for what is no id of ours.
func isSessionID(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }

type sessionList struct {
	Sessions   []SessionEntry `json:"sessions"`
	NextCursor *string        `json:"next_cursor"` // null: the last page
}

func (s *Service) apiSessions(w http.ResponseWriter, r *http.Request) {
	id := IdentityFrom(r.Context())
	after, err := readSessionPlace(r)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	list, more, err := listSessions(r.Context(), s.store, SessionQuery{Sub: id.User.Sub, After: after, Limit: sessionPage}, s.now())
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	out := sessionList{Sessions: SessionEntries(list, id.Session.ID)}
	if more {
		next := list[len(list)-1].place().cursor()
		out.NextCursor = &next
	}
	web.WriteJSON(w, http.StatusOK, out)
}

func (s *Service) apiEndSession(w http.ResponseWriter, r *http.Request) {
	if err := s.endOwnSession(w, r, mux.Vars(r)["id"]); err != nil {
		s.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// endOwnSession ends a session of the signed-in user, perhaps the one that asks.
func (s *Service) endOwnSession(w http.ResponseWriter, r *http.Request, sid string) error {
	id := IdentityFrom(r.Context())
	if !isSessionID(sid) {
		return ErrSessionNotFound
	}
	if err := s.store.EndSession(r.Context(), id.User.Sub, sid, s.now()); err != nil {
		return fmt.Errorf("end own session: %w", err)
	}
	if sid == id.Session.ID {
		s.clearCookies(w)
	}
	web.Note(r.Context(), "session_ended")
	return nil
}

func (s *Service) apiEndOtherSessions(w http.ResponseWriter, r *http.Request) {
	err := web.ReadOptionalJSON(w, r, &struct{}{})
	if err == nil {
		err = s.endOtherSessions(r)
	}
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) endOtherSessions(r *http.Request) error {
	id := IdentityFrom(r.Context())
	if _, err := s.store.EndOtherSessions(r.Context(), id.User.Sub, id.Session.ID, s.now()); err != nil {
		return fmt.Errorf("end other sessions: %w", err)
	}
	web.Note(r.Context(), "sessions_ended")
	return nil
}

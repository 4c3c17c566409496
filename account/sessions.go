package account

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

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

func (s *Service) sessionsOf(ctx context.Context, sub string) ([]Session, error) {
	list, err := s.store.Sessions(ctx, sub, s.now())
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	s.visits.show(list)
	return list, nil
}

func (s *Service) apiSessions(w http.ResponseWriter, r *http.Request) {
	id := IdentityFrom(r.Context())
	list, err := s.sessionsOf(r.Context(), id.User.Sub)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	WriteJSON(w, http.StatusOK, map[string][]SessionEntry{"sessions": SessionEntries(list, id.Session.ID)})
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
	if len(sid) != 36 || uuid.Validate(sid) != nil { // not one of ours: spare the query
		return ErrSessionNotFound
	}
	if err := s.store.EndSession(r.Context(), id.User.Sub, sid, s.now()); err != nil {
		return fmt.Errorf("end own session: %w", err)
	}
	if sid == id.Session.ID {
		s.clearCookies(w)
	}
	Note(r.Context(), "session_ended")
	return nil
}

func (s *Service) apiEndOtherSessions(w http.ResponseWriter, r *http.Request) {
	err := ReadOptionalJSON(w, r, &struct{}{})
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
	Note(r.Context(), "sessions_ended")
	return nil
}

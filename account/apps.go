package account

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// AppEntry is an application with access to a user's account, as lists show it.
type AppEntry struct {
	ClientID   string     `json:"client_id"`
	ClientName string     `json:"client_name"`
	Scopes     []string   `json:"scopes"`
	GrantedAt  time.Time  `json:"granted_at"`
	LastUsedAt *time.Time `json:"last_used_at"` // null: never
}

// AppEntries describes applications.
func AppEntries(list []App) []AppEntry {
	out := make([]AppEntry, 0, len(list))
	for _, a := range list {
		scopes := a.Scopes
		if scopes == nil {
			scopes = []string{}
		}
		out = append(out, AppEntry{ClientID: a.ClientID, ClientName: a.ClientName, Scopes: scopes, GrantedAt: a.GrantedAt.UTC(), LastUsedAt: TimeOrNull(a.LastUsedAt)})
	}
	return out
}

// AppRows is AppEntries for pages.
func AppRows(list []App) []templates.AppRow {
	out := make([]templates.AppRow, 0, len(list))
	for _, a := range list {
		out = append(out, templates.AppRow{ClientID: a.ClientID, Name: a.ClientName, Scopes: a.Scopes, GrantedAt: a.GrantedAt})
	}
	return out
}

func (s *Service) appsOf(ctx context.Context, sub string) ([]App, error) {
	list, err := s.store.Apps(ctx, sub, s.now())
	if err != nil {
		return nil, fmt.Errorf("list applications: %w", err)
	}
	return list, nil
}

func (s *Service) apiApps(w http.ResponseWriter, r *http.Request) {
	list, err := s.appsOf(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string][]AppEntry{"apps": AppEntries(list)})
}

func (s *Service) apiRemoveApp(w http.ResponseWriter, r *http.Request) {
	if err := s.removeApp(r, mux.Vars(r)["client_id"]); err != nil {
		s.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) removeApp(r *http.Request, clientID string) error {
	// Only what can be an id reaches the database: PostgreSQL fails on NUL.
	if clientID == "" || len(clientID) > 256 || cut(clientID, 256) != clientID {
		return ErrAppNotFound
	}
	if err := s.store.RemoveApp(r.Context(), IdentityFrom(r.Context()).User.Sub, clientID, s.now()); err != nil {
		return fmt.Errorf("remove application: %w", err)
	}
	web.Note(r.Context(), "app_removed")
	return nil
}

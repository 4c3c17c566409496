package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// clientEntry is a client as the list shows it.
type clientEntry struct {
	ID           string    `json:"client_id"`
	Name         string    `json:"client_name"`
	Public       bool      `json:"public"`
	RedirectURIs []string  `json:"redirect_uris"`
	Scopes       []string  `json:"scopes"`
	RequireFlag  *string   `json:"require_flag"` // null: open to all members
	Trusted      bool      `json:"trusted"`
	CreatedAt    time.Time `json:"created_at"`
}

func (s *Service) listClients(w http.ResponseWriter, r *http.Request) error {
	list, err := s.clients.Clients(r.Context())
	if err != nil {
		return fmt.Errorf("list clients: %w", err)
	}
	out := make([]clientEntry, 0, len(list))
	for _, c := range list {
		out = append(out, clientEntry{
			ID: c.ID, Name: c.Name, Public: c.Public, RedirectURIs: append([]string{}, c.RedirectURIs...), Scopes: append([]string{}, c.Scopes...),
			RequireFlag: account.TextOrNull(c.RequireFlag), Trusted: c.Trusted, CreatedAt: c.CreatedAt.UTC(),
		})
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]clientEntry{"clients": out})
}

// auditEntry is an administrative act.
type auditEntry struct {
	ID        int64     `json:"id"`
	At        time.Time `json:"at"`
	Actor     string    `json:"actor"` // handle, or "operator"
	Action    string    `json:"action"`
	Target    string    `json:"target"`
	Detail    string    `json:"detail"`
	Address   string    `json:"address"`
	RequestID string    `json:"request_id"`
}

type auditList struct {
	Events     []auditEntry `json:"events"`      // newest first
	NextCursor *string      `json:"next_cursor"` // null: the last page
}

func (s *Service) listAudit(w http.ResponseWriter, r *http.Request) error {
	p, err := readPage(r)
	var before int64
	if err == nil && p.key != "" {
		if before, err = strconv.ParseInt(p.key, 10, 64); err != nil || before < 1 || strconv.FormatInt(before, 10) != p.key {
			err = account.ErrInvalidCursor
		}
	}
	if err != nil {
		return err
	}
	rows, err := s.users.AuditLog(r.Context(), before, p.limit+1)
	if err != nil {
		return err
	}
	out := auditList{Events: make([]auditEntry, 0, len(rows))}
	if len(rows) > p.limit {
		rows = rows[:p.limit]
		out.NextCursor = account.TextOrNull(web.Cursor(strconv.FormatInt(rows[p.limit-1].ID, 10)))
	}
	for _, a := range rows {
		out.Events = append(out.Events, auditEntry{a.ID, a.At.UTC(), a.Actor, a.Action, a.Target, a.Detail, a.Address, a.RequestID})
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

func (s *Service) showSettings(w http.ResponseWriter, r *http.Request) error {
	v, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, v)
}

// putSettings changes the members that the body has; the others stay.
func (s *Service) putSettings(w http.ResponseWriter, r *http.Request) error {
	var in account.SettingsChange
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	v, err := s.accounts.ChangeSettings(r.Context(), account.ActorOf(r), in)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, v)
}

package admin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

type clientEntry struct {
	ID           string    `json:"client_id"`
	Name         string    `json:"client_name"`
	Public       bool      `json:"public"`
	RedirectURIs []string  `json:"redirect_uris"`
	Scopes       []string  `json:"scopes"`
	RequireFlag  *string   `json:"require_flag"` // null: open to all members; several: with "or" or "and"
	RequireACR   *string   `json:"require_acr"`  // null: a password is enough
	Trusted      bool      `json:"trusted"`
	CreatedAt    time.Time `json:"created_at"`
	Claims       []string  `json:"claims,omitempty"`
}

func (s *Service) listClients(w http.ResponseWriter, r *http.Request) error {
	list, err := s.options.Applications(r.Context())
	if err != nil {
		return fmt.Errorf("list clients: %w", err)
	}
	out := make([]clientEntry, 0, len(list))
	for _, c := range list {
		out = append(out, clientEntry{
			ID: c.ID, Name: c.Name, Public: c.Public,
			RedirectURIs: append([]string{}, c.RedirectURIs...), Scopes: append([]string{}, c.Scopes...),
			RequireFlag: web.TextOrNull(c.RequiredFlags()), RequireACR: web.TextOrNull(c.RequireACR),
			Trusted: c.Trusted, CreatedAt: c.CreatedAt.UTC(), Claims: c.Claims,
		})
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]clientEntry{"clients": out})
}

func (s *Service) applicationsPage(w http.ResponseWriter, r *http.Request) error {
	page, err := templates.AdminApplications{}, error(nil)
	if page.Applications, err = s.options.Applications(r.Context()); err != nil {
		return err
	}
	if page.APIs, err = s.options.APIs(r.Context()); err != nil {
		return err
	}
	s.accounts.Show(w, r, http.StatusOK, page)
	return nil
}

package admin

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

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
	number, err := refusedNumber(r)
	if err != nil {
		return err
	}
	page := templates.AdminApplications{Number: number}
	if page.Refused, err = s.options.RefusedSignIns(r.Context()); err != nil {
		return err
	}
	if page.Applications, err = s.options.Applications(r.Context()); err != nil {
		return err
	}
	if page.APIs, err = s.options.APIs(r.Context()); err != nil {
		return err
	}
	s.accounts.Show(w, r, http.StatusOK, page)
	return nil
}

// refusedNumber reads the number in the query of which request ids begin, "" for all.
func refusedNumber(r *http.Request) (string, error) {
	typed := r.URL.Query()["number"]
	number := strings.TrimSpace(strings.Join(typed, ""))
	switch {
	case len(typed) > 1:
		return "", web.Repeated("number")
	case utf8.RuneCountInString(number) > maxNumber:
		return "", web.BadRequest("Enter the number that the page with the error shows.")
	}
	return number, nil
}

// maxNumber is the length of the longest request id.
const maxNumber = 64

type refusedEntry struct {
	ClientID  *string   `json:"client_id"` // null: no registered client
	RequestID string    `json:"request_id"`
	Reason    string    `json:"reason"`
	SignedIn  bool      `json:"signed_in"`
	RefusedAt time.Time `json:"refused_at"`
	Sentence  string    `json:"sentence"`
	Command   *string   `json:"command"`
}

// listRefused lists the last refused sign-ins, or those whose request id begins with the number.
func (s *Service) listRefused(w http.ResponseWriter, r *http.Request) error {
	page, err := templates.AdminApplications{}, error(nil)
	if page.Number, err = refusedNumber(r); err != nil {
		return err
	}
	if page.Refused, err = s.options.RefusedSignIns(r.Context()); err != nil {
		return err
	}
	out := []refusedEntry{}
	for _, n := range page.Found() {
		out = append(out, refusedEntry{
			ClientID: web.TextOrNull(n.ClientID), RequestID: n.RequestID, Reason: n.Reason, SignedIn: n.SignedIn,
			RefusedAt: n.RefusedAt.UTC(), Command: web.TextOrNull(n.Command()),
			Sentence: templates.LanguageOf(r.Context()).Text(n.Sentence()),
		})
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]refusedEntry{"refused_sign_ins": out})
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type allowClientCommand struct {
	databaseFlags
	output
	URL    string   `arg:"" optional:"" help:"https URL of a client's description, or of all below it if it ends in /*. Without a URL, list those allowed."`
	Scope  []string `placeholder:"SCOPE" help:"Scope that they may request. Repeatable. Default: openid, profile, email and offline_access."`
	API    []string `name:"api" sep:"none" placeholder:"URI" help:"An API that they may use. Repeatable."`
	Remove bool     `help:"No longer allow the URL, and remove its clients with their consents and tokens."`
	Yes    bool     `help:"With --remove: do not ask."`
}

// Help implements kong.HelpProvider.
func (*allowClientCommand) Help() string {
	return `Agents and programs that nobody registers by hand use the URL of their description as their client_id
(Client ID Metadata Document). To allow one of them, all of a host, and to end that:

  cairn client allow https://agent.example.com/client.json --api https://api.example.org
  cairn client allow 'https://agents.example.com/*'
  cairn client allow --remove 'https://agents.example.com/*'`
}

// allowanceRow is an allowance as the command prints it.
type allowanceRow struct {
	URL       string   `json:"url"`
	Scopes    []string `json:"scopes"`
	APIs      []string `json:"apis"`
	CreatedAt string   `json:"created_at"`
}

func allowanceRowOf(a provider.Allowance) allowanceRow {
	return allowanceRow{a.URL, listed(a.Scopes), listed(a.APIs), a.CreatedAt.Format(time.RFC3339)}
}

// Run lists, adds or removes.
func (c *allowClientCommand) Run(p *program) error {
	changes := len(c.Scope) > 0 || len(c.API) > 0
	switch {
	case c.URL == "" && (changes || c.Remove):
		return usageError{"give the URL; see cairn client allow --help"}
	case c.Remove && changes:
		return usageError{"--remove takes neither --scope nor --api"}
	}
	return c.withStore(p, func(st *store.Store) error {
		switch {
		case c.URL == "":
			return c.show(p, st)
		case c.Remove:
			return c.remove(p, st)
		}
		a := provider.Allowance{
			URL: c.URL, Scopes: c.Scope, APIs: c.API, CreatedAt: time.Now().UTC().Truncate(time.Second),
		}
		if len(a.Scopes) == 0 {
			a.Scopes = []string{"openid", "profile", "email", "offline_access"}
		} else if !slices.Contains(a.Scopes, "openid") {
			a.Scopes = append([]string{"openid"}, a.Scopes...)
		}
		detail := strings.Join(slices.Concat(a.Scopes, a.APIs), " ")
		if err := st.AllowClients(p.ctx, a, operator(account.AllowClients, a.URL, detail)); err != nil {
			var broken *provider.RegistrationError
			if errors.As(err, &broken) {
				flags := map[string]string{"url": "the URL", "scopes": "--scope", "apis": "--api"}
				return usageError{broken.Describe(flags[broken.Member])}
			}
			return err
		}
		return c.print(p, a.URL, allowanceRowOf(a), pairs{
			{"allowed", a.URL}, {"scopes", strings.Join(a.Scopes, " ")}, {"APIs", strings.Join(a.APIs, " ")},
		})
	})
}

func (c *allowClientCommand) show(p *program, st *store.Store) error {
	all, err := st.Allowances(p.ctx)
	if err != nil {
		return err
	}
	out := c.list(p, "URL", "SCOPES", "APIS", "CREATED")
	for _, a := range all {
		r := allowanceRowOf(a)
		row := []string{r.URL, strings.Join(r.Scopes, " "), strings.Join(r.APIs, " "), r.CreatedAt}
		if err := out.add(r.URL, r, row...); err != nil {
			return err
		}
	}
	return out.end()
}

func (c *allowClientCommand) remove(p *program, st *store.Store) error {
	question := fmt.Sprintf("No longer allow %s, and remove its clients with their consents and tokens?", c.URL)
	if err := confirm(p, c.Yes, question); err != nil {
		return err
	}
	removed, err := st.DisallowClients(p.ctx, c.URL, operator(account.DisallowClients, c.URL, ""))
	if errors.Is(err, provider.ErrClientNotFound) {
		return fmt.Errorf("%q is not allowed: cairn client allow lists the allowed URLs", c.URL)
	}
	if err != nil {
		return err
	}
	return c.print(p, c.URL, map[string]any{"url": c.URL, "removed": true, "clients": removed},
		pairs{{"no longer allowed", c.URL}, {"removed clients", strings.Join(removed, " ")}})
}

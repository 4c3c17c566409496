package register

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type allowClientCommand struct {
	cli.DatabaseFlags
	cli.Output
	URL    string   `arg:"" optional:"" help:"https URL of a client's description, or of all below it if it ends in /*. Without a URL, list those allowed."`
	Scope  []string `placeholder:"SCOPE" help:"Scope that they may request. Repeatable. Default: openid, profile, email and offline_access."`
	API    []string `name:"api" sep:"none" placeholder:"URI" help:"An API that they may use. Repeatable."`
	Remove bool     `help:"No longer allow the URL, and remove its clients with their consents and tokens."`
	Yes    bool     `help:"Do not ask before something is removed."`

	AddScope    []string `placeholder:"SCOPE" help:"Add a scope. Repeatable."`
	RemoveScope []string `placeholder:"SCOPE" help:"Remove a scope. Repeatable."`
	AddAPI      []string `name:"add-api" sep:"none" placeholder:"URI" help:"Add an API. Repeatable."`
	RemoveAPI   []string `name:"remove-api" sep:"none" placeholder:"URI" help:"Remove an API. Repeatable."`
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
	return allowanceRow{a.URL, cli.Listed(a.Scopes), cli.Listed(a.APIs), a.CreatedAt.Format(time.RFC3339)}
}

// Run lists, adds or removes.
func (c *allowClientCommand) Run(p *cli.Program) error {
	scopes := listEdit{"-scope", c.AddScope, c.RemoveScope, false}
	apis := listEdit{"-api", c.AddAPI, c.RemoveAPI, false}
	changes := len(c.Scope) > 0 || len(c.API) > 0 || scopes.given() || apis.given()
	switch {
	case c.URL == "" && (changes || c.Remove):
		return cli.UsageError("give the URL; see cairn client allow --help")
	case c.Remove && changes:
		return cli.UsageError("--remove takes neither --scope nor --api")
	}
	err := errors.Join(scopes.eitherOr(len(c.Scope) > 0), apis.eitherOr(len(c.API) > 0))
	if err != nil {
		return cli.UsageError(err.Error())
	}
	return c.WithStore(p, func(st *store.Store) error {
		switch {
		case c.URL == "":
			return c.show(p, st)
		case c.Remove:
			return c.remove(p, st)
		}
		now := time.Now()
		a, err := c.allowance(p, st, now)
		if err != nil {
			return err
		}
		before := a
		replaced := []replacement{{"scope", a.Scopes, c.Scope}, {"api", a.APIs, c.API}}
		if a.Scopes, err = scopes.apply(a.Scopes); err != nil {
			return err
		}
		if a.APIs, err = apis.apply(a.APIs); err != nil {
			return err
		}
		if len(c.Scope) > 0 {
			a.Scopes = c.Scope
		}
		if len(c.API) > 0 {
			a.APIs = c.API
		}
		if err := confirmReplacements(p, c.Yes, replaced...); err != nil {
			return err
		}
		a.Scopes = withOpenID(a.Scopes)
		err = ifUnchanged(p, st, "allowance "+a.URL, func(tx *store.Store) (bool, error) {
			found, err := c.allowance(p, tx, now)
			return reflect.DeepEqual(before, found), err
		}, func(tx *store.Store) error { return tx.AllowClients(p.Ctx, a, allowAudit(a)) })
		if err != nil {
			flags := map[string]string{"url": "the URL", "scopes": "--scope", "apis": "--api"}
			return inFlags(err, func(member string) string { return flags[member] })
		}
		return c.Print(p, a.URL, allowanceRowOf(a), cli.Pairs{
			{"allowed", a.URL}, {"scopes", strings.Join(a.Scopes, " ")}, {"APIs", strings.Join(a.APIs, " ")},
		})
	})
}

// withOpenID returns the scopes of an allowance, of which openid always is one.
func withOpenID(scopes []string) []string {
	if slices.Contains(scopes, "openid") {
		return scopes
	}
	return append([]string{"openid"}, scopes...)
}

// allowAudit returns the row of the audit log for an allowance.
func allowAudit(a provider.Allowance) account.Audit {
	return cli.Operator(account.AllowClients, a.URL, strings.Join(slices.Concat(a.Scopes, a.APIs), " "))
}

// allowance returns the allowance of the URL as it is, or a new one with the scopes of most applications.
func (c *allowClientCommand) allowance(p *cli.Program, st *store.Store, now time.Time) (provider.Allowance, error) {
	all, err := st.Allowances(p.Ctx)
	if i := slices.IndexFunc(all, func(a provider.Allowance) bool { return a.URL == c.URL }); i >= 0 {
		return all[i], err
	}
	a := newAllowance(c.URL, now)
	if len(c.Scope) > 0 {
		a.Scopes = nil
	}
	return a, err
}

// newAllowance returns an allowance with the scopes of most applications.
func newAllowance(url string, now time.Time) provider.Allowance {
	return provider.Allowance{
		URL: url, Scopes: []string{"openid", "profile", "email", "offline_access"},
		CreatedAt: now.UTC().Truncate(time.Second),
	}
}

func (c *allowClientCommand) show(p *cli.Program, st *store.Store) error {
	all, err := st.Allowances(p.Ctx)
	if err != nil {
		return err
	}
	out := c.List(p, "URL", "SCOPES", "APIS", "CREATED")
	for _, a := range all {
		r := allowanceRowOf(a)
		row := []string{r.URL, strings.Join(r.Scopes, " "), strings.Join(r.APIs, " "), r.CreatedAt}
		out.Add(r.URL, r, row...)
	}
	return out.End()
}

func (c *allowClientCommand) remove(p *cli.Program, st *store.Store) error {
	question := fmt.Sprintf("No longer allow %s, and remove its clients with their consents and tokens?", c.URL)
	if err := cli.Confirm(p, c.Yes, question); err != nil {
		return err
	}
	removed, err := st.DisallowClients(p.Ctx, c.URL, cli.Operator(account.DisallowClients, c.URL, ""))
	if errors.Is(err, provider.ErrClientNotFound) {
		return fmt.Errorf("%q is not allowed: cairn client allow lists the allowed URLs", c.URL)
	}
	if err != nil {
		return err
	}
	return c.Print(p, c.URL, map[string]any{"url": c.URL, "removed": true, "clients": removed},
		cli.Pairs{{"no longer allowed", c.URL}, {"removed clients", strings.Join(removed, " ")}})
}

package register

import (
	"cmp"
	"context"
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
	URL string `arg:"" optional:""`
	allowanceUpdate
	Disallow bool `name:"remove" help:"No longer allow the URL, and remove its clients with their consents and tokens."`
	Yes      bool `help:"Do not ask before something is removed."`
}

// allowanceOptions are the flags that set the lists of an allowance.
type allowanceOptions struct {
	Scopes []string `name:"scope" sep:"none" commas:"" placeholder:"SCOPE"`
	APIs   []string `name:"api" sep:"none" placeholder:"URI" help:"An API that they may use. Repeatable."`
}

type allowanceLists struct {
	Scopes []string `name:"scope" sep:"none" commas:"" placeholder:"SCOPE" help:"${verb} a scope. Repeatable."`
	APIs   []string `name:"api" sep:"none" placeholder:"URI" help:"${verb} an API. Repeatable."`
}

// allowanceUpdate holds what of an allowance can be updated.
type allowanceUpdate struct {
	allowanceOptions
	Add    allowanceLists `embed:"" prefix:"add-" set:"verb=Add"`
	Remove allowanceLists `embed:"" prefix:"remove-" set:"verb=Remove"`
}

var allowanceKind = kind[provider.Allowance]{
	noun:  "allowance",
	of:    func(a *provider.Allowance) about { return about{a.URL, "", a.Managed, nil} },
	added: account.AllowClients, updated: account.AllowClients, removed: account.DisallowClients,
	flag: func(member string) string {
		return memberFlag[provider.Allowance, allowanceOptions](member, map[string]string{"url": "the URL"})
	},
	fields: allowanceFields, check: (*provider.Allowance).Check, create: allow, update: allow,
	all: func(st *store.Store, ctx context.Context) (all []*provider.Allowance, err error) {
		values, err := st.Allowances(ctx)
		for _, a := range values {
			all = append(all, &a)
		}
		return all, err
	},
}

func allow(st *store.Store, ctx context.Context, a *provider.Allowance, audit account.Audit) error {
	audit.Detail = strings.Join(slices.Concat(a.Scopes, a.APIs), " ")
	return st.AllowClients(ctx, *a, audit)
}

// Run lists, adds or removes.
func (c *allowClientCommand) Run(p *cli.Program) error {
	changes := !reflect.ValueOf(c.allowanceUpdate).IsZero()
	switch {
	case c.URL == "" && (changes || c.Disallow):
		return cli.UsageError("give the URL; see cairn client allow --help")
	case c.Disallow && changes:
		return cli.UsageError("--remove takes neither --scope nor --api")
	}
	return c.WithStore(p, func(st *store.Store) error {
		all, err := allowanceKind.all(st, p.Ctx)
		switch {
		case err != nil:
			return err
		case c.URL == "":
			return c.show(p, all)
		case c.Disallow:
			return c.remove(p, st)
		}
		before := allowanceKind.in(all, c.URL)
		a := *cmp.Or(before, newAllowance(c.URL, time.Now()))
		replaced, err := editLists(&a, &c.allowanceOptions, c.Add, c.Remove)
		if err != nil {
			return err
		}
		assign(&a, c.allowanceOptions)
		a.Scopes, a.APIs = withOpenID(a.Scopes), cli.Listed(a.APIs)
		if err := allowanceKind.change(p, st, c.Yes, before, &a, replaced); err != nil {
			return inFlags(err, allowanceKind.flag)
		}
		return c.Print(p, a.URL, a, cli.Pairs{
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

// newAllowance returns an allowance with the scopes of most applications.
func newAllowance(url string, now time.Time) *provider.Allowance {
	return &provider.Allowance{
		URL: url, Scopes: []string{"openid", "profile", "email", "offline_access"},
		CreatedAt: now.UTC().Truncate(time.Second),
	}
}

func (c *allowClientCommand) show(p *cli.Program, all []*provider.Allowance) error {
	out := c.List(p, "URL", "SCOPES", "APIS", "CREATED")
	for _, a := range all {
		a.APIs = cli.Listed(a.APIs)
		created := a.CreatedAt.Format(time.RFC3339)
		out.Add(a.URL, a, a.URL, strings.Join(a.Scopes, " "), strings.Join(a.APIs, " "), created)
	}
	return out.End()
}

func (c *allowClientCommand) remove(p *cli.Program, st *store.Store) error {
	question := fmt.Sprintf("No longer allow %s, and remove its clients with their consents and tokens?", c.URL)
	if err := cli.Confirm(p, c.Yes, question); err != nil {
		return err
	}
	removed, err := st.DisallowClients(p.Ctx, c.URL, allowanceKind.audit(account.DisallowClients, c.URL))
	if errors.Is(err, provider.ErrClientNotFound) {
		return fmt.Errorf("%q is not allowed: cairn client allow lists the allowed URLs", c.URL)
	}
	if err != nil {
		return err
	}
	return c.Print(p, c.URL, map[string]any{"url": c.URL, "removed": true, "clients": removed},
		cli.Pairs{{"no longer allowed", c.URL}, {"removed clients", strings.Join(removed, " ")}})
}

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

type APICommand struct {
	Add          addAPICommand                       `cmd:""`
	List         listAPICommand                      `cmd:"" reads:""`
	Show         showCommand[oneAPI, provider.API]   `cmd:"" reads:""`
	Update       updateAPICommand                    `cmd:""`
	RotateSecret rotateAPICommand                    `cmd:""`
	Remove       removeCommand[oneAPI, provider.API] `cmd:""`
}

// oneAPI holds the flags and the argument of a command about one API.
type oneAPI struct {
	cli.DatabaseFlags
	URI string `arg:"" ids:"api" help:"URI of the API."`
}

func (c oneAPI) which() (cli.DatabaseFlags, string, kind[provider.API]) {
	return c.DatabaseFlags, c.URI, apiKind
}

var apiKind = kind[provider.API]{
	noun: "API", member: "resource", none: provider.ErrAPINotFound,
	of:   func(a *provider.API) about { return about{a.URI, a.Name, a.Managed, &a.Secrets} },
	flag: apiFlag, fields: apiFields, print: printAPI, check: (*provider.API).Check,
	added: account.RegisterAPI, updated: account.UpdateAPI, renewed: account.RenewAPI, removed: account.RemoveAPI,
	all: (*store.Store).APIs, create: (*store.Store).CreateAPI, update: (*store.Store).UpdateAPI,
	remove: (*store.Store).RemoveAPI, rotate: (*store.Store).RotateAPISecret,
}

// apiOptions are the flags that api add and api update share. An option that is not given leaves the
// field unchanged; a list replaces the previous one.
type apiOptions struct {
	Scopes     []string    `name:"scope" sep:"none" placeholder:"NAME=SENTENCE"`
	Token      *string     `enum:"jwt,opaque" placeholder:"KIND"`
	Lifetime   *cli.Period `placeholder:"DURATION"`
	Algorithm  *string     `name:"alg" enum:"RS256,ES256,EdDSA" placeholder:"ALG"`
	Clients    []string    `name:"client" sep:"none" placeholder:"ID" ids:"client"`
	AllClients *bool       `negatable:""`
	Claims     []string    `name:"claim" sep:"none" placeholder:"NAME=VALUE"`
}

// apiScopes reads the values of a flag such as --scope.
func apiScopes(flag string, values []string) (scopes []provider.APIScope, err error) {
	for _, text := range values {
		name, sentence, ok := strings.Cut(text, "=")
		if !ok {
			return nil, cli.Usagef("--%s %q: write NAME=SENTENCE, such as 'trails.read=See your trails'", flag, text)
		}
		scopes = append(scopes, provider.APIScope{Name: name, Sentence: strings.TrimSpace(sentence)})
	}
	return scopes, nil
}

// nonEmpty returns the given entries; none for an empty value, which clears a list.
func nonEmpty(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
}

// apply sets the given fields of the API.
func (o *apiOptions) apply(a *provider.API) error {
	if _, err := apiScopes("scope", nonEmpty(o.Scopes)); err != nil {
		return err
	}
	assign(a, *o)
	if o.Token != nil {
		a.Opaque = *o.Token == "opaque"
	}
	switch {
	case o.Clients != nil && o.AllClients == nil:
		a.AllClients = false
	case o.Clients == nil && a.AllClients:
		a.Clients = nil
	}
	return nil
}

// apiFlag returns the flag that sets a member of a registration.
func apiFlag(member string) string {
	return memberFlag[provider.API, apiOptions](member, map[string]string{"resource": "the URI", "name": "--name"})
}

// apiDocument is an API as the commands print it.
type apiDocument struct {
	URI        string              `json:"resource"`
	Name       string              `json:"name"`
	ID         string              `json:"introspection_id"`
	Secret     string              `json:"introspection_secret,omitempty"`
	Scopes     []provider.APIScope `json:"scopes"`
	Token      string              `json:"token"`
	Lifetime   int                 `json:"lifetime_seconds"`
	Algorithm  string              `json:"alg,omitempty"`
	AllClients bool                `json:"all_clients"`
	Clients    []string            `json:"clients"`
	Claims     []string            `json:"claims,omitempty"`
	Managed    bool                `json:"managed,omitempty"`
	CreatedAt  string              `json:"created_at"`
}

func apiDocumentOf(a *provider.API, secret string) apiDocument {
	d := apiDocument{
		URI: a.URI, Name: a.Name, ID: a.ID, Secret: secret,
		Scopes: cli.Listed(a.Scopes), Token: "jwt", Lifetime: int(a.Lifetime / time.Second), Algorithm: a.Algorithm,
		AllClients: a.AllClients, Clients: cli.Listed(a.Clients), CreatedAt: a.CreatedAt.Format(time.RFC3339),
		Claims: a.Claims, Managed: a.Managed,
	}
	if a.Opaque {
		d.Token = "opaque"
	}
	return d
}

func (d apiDocument) clients() string {
	switch {
	case d.AllClients:
		return "all"
	case len(d.Clients) == 0:
		return "none"
	}
	return strings.Join(d.Clients, " ")
}

// printAPI prints all of an API; secret is a new one, or empty.
func printAPI(p *cli.Program, o cli.Output, a *provider.API, secret string) error {
	d := apiDocumentOf(a, secret)
	labels := cli.Pairs{
		{"URI", d.URI}, {"name", d.Name}, {"introspection id", d.ID}, {"introspection secret", cli.OnlyNow(secret)},
		{"tokens", d.Token}, {"lifetime", cli.Period(a.Lifetime).String()}, {"signed with", d.Algorithm},
		{"clients", d.clients()},
		{"managed", managedText(d.Managed)},
	}
	for _, rule := range d.Claims {
		labels = append(labels, [2]string{"claim", rule})
	}
	for _, s := range d.Scopes {
		labels = append(labels, [2]string{"scope", s.Name + "  " + s.Sentence})
	}
	return o.Print(p, d.URI, d, append(labels, [2]string{"registered", d.CreatedAt}))
}

// warnOfAPI warns the operator about a registration that is risky, or that no client can use.
func warnOfAPI(p *cli.Program, a *provider.API) {
	warn(p, a.Warnings())
	if !a.AllClients && len(a.Clients) == 0 {
		warn(p, []string{"no client may use it yet: cairn api update " + a.URI + " --add-client ID lets one"})
	}
}

type addAPICommand struct {
	cli.DatabaseFlags
	cli.Output
	apiOptions
	URI  string `arg:"" help:"URI of the API, in requests (resource) and tokens (aud): https://api.example.org."`
	Name string `required:"" placeholder:"NAME" help:"Name that users see on the consent page."`
}

// Run registers the API and prints its secret.
func (c *addAPICommand) Run(p *cli.Program) error {
	a, secret := provider.NewAPI(c.URI, c.Name, time.Now())
	return c.WithStore(p, func(st *store.Store) error {
		err := errors.Join(c.apply(a), checkFlags(p, st, provider.Client{Claims: nonEmpty(c.Claims)}))
		if err == nil {
			err = st.CreateAPI(p.Ctx, a, apiKind.audit(account.RegisterAPI, a.URI))
		}
		if errors.Is(err, provider.ErrAPIExists) {
			return fmt.Errorf("an API %s exists already: cairn api update changes it", a.URI)
		}
		if err != nil {
			return inFlags(err, apiFlag)
		}
		warnOfAPI(p, a)
		return printAPI(p, c.Output, a, secret)
	})
}

type listAPICommand struct {
	cli.DatabaseFlags
	cli.Output
}

// Run lists the APIs in the order of their URIs.
func (c *listAPICommand) Run(p *cli.Program) error {
	return c.WithStore(p, func(st *store.Store) error {
		all, err := st.APIs(p.Ctx)
		if err != nil {
			return err
		}
		out := c.List(p, "URI", "NAME", "TOKENS", "SCOPES", "CLIENTS", "CREATED")
		for _, a := range all {
			d := apiDocumentOf(a, "")
			var scopes []string
			for _, s := range d.Scopes {
				scopes = append(scopes, s.Name)
			}
			out.Add(d.URI, d, d.URI, d.Name, d.Token, strings.Join(scopes, " "), d.clients(), d.CreatedAt)
		}
		return out.End()
	})
}

type updateAPICommand struct {
	oneAPI
	cli.Output
	apiUpdate
	Yes bool `help:"Do not ask before entries of a list are removed."`
}

// apiUpdate holds the fields of an API that can be updated.
type apiUpdate struct {
	//lint:ignore SA5008 kong has a tag set for each variable
	apiOptions `set:"new=" set:"list=Replaces the list; --add-… and --remove-… change it; empty clears it."`

	Name *string `help:"Name that users see on the consent page."`
	//lint:ignore SA5008 kong has a tag set for each variable
	Add apiLists `embed:"" prefix:"add-" set:"verb=Add" set:"entry=NAME=SENTENCE" set:"more=, or change its sentence"`
	//lint:ignore SA5008 kong has a tag set for each variable
	Remove apiLists `embed:"" prefix:"remove-" set:"verb=Remove" set:"entry=NAME"`
}

// edit applies the flags that change single entries of the lists, and returns the lists that others replace.
func (c *apiUpdate) edit(a *provider.API) ([]replacement, error) {
	clients := listEdit{"-client", c.Add.Clients, c.Remove.Clients, false}
	if err := clients.eitherOr(c.AllClients != nil); err != nil {
		return nil, err
	}
	if clients.given() && a.AllClients {
		return nil, cli.UsageError("every client may use this API: --client names those that still may")
	}
	if _, err := apiScopes("add-scope", c.Add.Scopes); err != nil {
		return nil, err
	}
	replaced, err := editLists(a, &c.apiOptions, c.Add, c.Remove)
	for i, r := range replaced {
		if r.flag == "client" && a.AllClients {
			replaced[i].old = []string{"every client that is not named"}
		}
	}
	return replaced, err
}

// Run updates the given fields. Tokens issued before remain valid.
func (c *updateAPICommand) Run(p *cli.Program) error {
	if reflect.ValueOf(c.apiUpdate).IsZero() {
		return cli.UsageError("no field to update is given; see cairn api update --help")
	}
	return with(p, c.oneAPI, func(st *store.Store, k kind[provider.API], a *provider.API) error {
		before, given := *a, provider.Client{Claims: nonEmpty(slices.Concat(c.Claims, c.Add.Claims))}
		replaced, err := c.edit(a)
		if err != nil {
			return err
		}
		set(&a.Name, c.Name)
		if err := errors.Join(c.apply(a), checkFlags(p, st, given)); err != nil {
			return err
		}
		if err := k.change(p, st, c.Yes, &before, a, replaced); err != nil {
			return err
		}
		warnOfAPI(p, a)
		return printAPI(p, c.Output, a, "")
	})
}

type rotateAPICommand struct {
	oneAPI
	cli.Output
	Overlap cli.Period `placeholder:"DURATION" default:"0s"`
	Now     bool       `help:"End at once a secret that still works because of an earlier --overlap."`
}

// Run gives the API a new secret and prints it once. With -q it prints only the secret.
func (c *rotateAPICommand) Run(p *cli.Program) error {
	return with(p, c.oneAPI, func(st *store.Store, k kind[provider.API], a *provider.API) error {
		secret, err := k.renew(p, st, a.URI, c.Overlap, c.Now)
		if errors.Is(err, provider.ErrSecretOverlap) && len(a.Secrets) > 1 {
			return fmt.Errorf("the previous secret works until %s, and an API has at most two: "+
				"wait until then, or end it with --now", a.Secrets[1].ExpiresAt.Format(time.RFC3339))
		}
		if err != nil {
			return err
		}
		if c.Quiet {
			fmt.Fprintln(p.Stdout, secret)
			return nil
		}
		return printAPI(p, c.Output, a, secret)
	})
}

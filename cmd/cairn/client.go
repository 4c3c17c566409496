package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/provider"
)

type clientCommand struct {
	Add  addClientCommand  `cmd:"" help:"Register a client; its secret is printed once."`
	List listClientCommand `cmd:"" help:"List the clients."`
}

type addClientCommand struct {
	databaseFlags
	Format                string   `name:"output" short:"o" enum:"table,json,env" default:"table" help:"table, json or env (a block to paste into the application's environment)."`
	Quiet                 bool     `short:"q" help:"Print the id only (a confidential client's secret is then never shown)."`
	Name                  string   `arg:"" help:"Name that users see on the consent page."`
	RedirectURI           []string `required:"" sep:"none" placeholder:"URI" help:"Where answers may be sent, compared exactly. Repeatable."`
	ID                    string   `placeholder:"ID" help:"Client id; generated if not given."`
	Public                bool     `help:"A client that cannot keep a secret (browser, phone, command line): PKCE is required."`
	Scope                 []string `placeholder:"SCOPE" help:"Scopes it may ask for; all if not given. Repeatable."`
	AuthMethod            string   `enum:"any,client_secret_basic,client_secret_post" default:"any" help:"How it authenticates: any, client_secret_basic or client_secret_post."`
	RequirePKCE           bool     `name:"require-pkce" help:"Refuse requests without a code challenge."`
	RequireFlag           string   `placeholder:"FLAG" help:"Let only users with this access flag in."`
	Trusted               bool     `help:"First party: no consent page."`
	IDTokenClaims         bool     `name:"id-token-claims" help:"Put profile claims into the ID token too."`
	AllowInsecureRedirect bool     `help:"Accept http redirect URIs beyond this machine, on a network you trust."`
	Issuer                string   `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Issuer to print with -o env."`
}

var clientIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Run checks everything before it writes anything.
func (c *addClientCommand) Run(p *program) error {
	client, secret, err := c.client()
	if err != nil {
		return err
	}
	st, err := openDatabase(p.ctx, c.Database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	if client.RequireFlag != "" {
		settings, err := st.Settings(p.ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(settings.Flags, client.RequireFlag) {
			return fmt.Errorf("--require-flag: there is no flag %q here: an administrator adds flags in the settings", client.RequireFlag)
		}
	}
	if err := st.CreateClient(p.ctx, client); err != nil {
		if errors.Is(err, provider.ErrClientExists) {
			return fmt.Errorf("--id: a client %s exists already: choose another id", client.ID)
		}
		return err
	}
	return c.report(p.stdout, client, secret)
}

// client makes the client and its secret from the flags.
func (c *addClientCommand) client() (*provider.Client, string, error) {
	name, err := account.CheckDisplayName(c.Name)
	if err != nil {
		return nil, "", usageError{"the name has 1 to 60 characters and no control characters"}
	}
	out := &provider.Client{
		ID: c.ID, Name: name, Scopes: c.Scope, AuthMethod: c.AuthMethod, RequirePKCE: c.RequirePKCE || c.Public, RequireFlag: c.RequireFlag,
		Trusted: c.Trusted, IDTokenClaims: c.IDTokenClaims, AllowInsecureRedirect: c.AllowInsecureRedirect, CreatedAt: time.Now().UTC().Truncate(time.Second),
	}
	if out.ID == "" {
		out.ID = randomText(12)
	}
	if !clientIDForm.MatchString(out.ID) {
		return nil, "", usageError{"--id: 1 to 64 letters, digits, - or _"}
	}
	if strings.EqualFold(out.ID, session.Audience) {
		// Its ID tokens would be session cookies.
		return nil, "", usageError{fmt.Sprintf("--id: %q is the audience of the session cookie and cannot be a client: choose another id", out.ID)}
	}
	for _, uri := range c.RedirectURI {
		if err := provider.CheckRedirectURI(uri, c.AllowInsecureRedirect); err != nil {
			return nil, "", usageError{fmt.Sprintf("--redirect-uri %q: %s", uri, err)}
		}
		if !slices.Contains(out.RedirectURIs, uri) {
			out.RedirectURIs = append(out.RedirectURIs, uri)
		}
	}
	if len(out.Scopes) == 0 {
		out.Scopes = slices.Clone(provider.Scopes)
	}
	for _, s := range out.Scopes {
		if !slices.Contains(provider.Scopes, s) {
			return nil, "", usageError{fmt.Sprintf("--scope %q: the scopes are %s", s, strings.Join(provider.Scopes, ", "))}
		}
	}
	if !slices.Contains(out.Scopes, "openid") {
		out.Scopes = append([]string{"openid"}, out.Scopes...)
	}
	if c.RequireFlag != "" && account.CheckFlag(c.RequireFlag) != nil {
		return nil, "", usageError{"--require-flag: a flag is a letter a-z and up to 31 of a-z, 0-9, - and _"}
	}
	if c.Public {
		if c.AuthMethod != provider.AuthAny {
			return nil, "", usageError{"--public and --auth-method exclude one another: a public client has no secret"}
		}
		out.AuthMethod = provider.AuthNone
		return out, "", nil
	}
	secret := randomText(32)
	out.Secrets = []provider.ClientSecret{{Hash: provider.HashSecret(secret), CreatedAt: out.CreatedAt}}
	return out, secret, nil
}

// randomText is n random bytes in base64url: nothing in it needs escaping.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// clientRow is a client as the commands print it.
type clientRow struct {
	ID           string   `json:"client_id"`
	Secret       string   `json:"client_secret,omitempty"`
	Name         string   `json:"client_name"`
	Public       bool     `json:"public"`
	RedirectURIs []string `json:"redirect_uris"`
	Scopes       []string `json:"scopes"`
	AuthMethod   string   `json:"token_endpoint_auth_method"`
	RequirePKCE  bool     `json:"require_pkce"`
	RequireFlag  string   `json:"require_flag,omitempty"`
	Trusted      bool     `json:"trusted"`
	CreatedAt    string   `json:"created_at"`
}

func rowOf(c *provider.Client, secret string) clientRow {
	return clientRow{
		ID: c.ID, Secret: secret, Name: c.Name, Public: c.IsPublic(), RedirectURIs: c.RedirectURIs, Scopes: c.Scopes, AuthMethod: c.AuthMethod,
		RequirePKCE: c.NeedsPKCE(), RequireFlag: c.RequireFlag, Trusted: c.Trusted, CreatedAt: c.CreatedAt.Format(time.RFC3339),
	}
}

func (c *addClientCommand) report(w io.Writer, client *provider.Client, secret string) error {
	switch {
	case c.Quiet:
		fmt.Fprintln(w, client.ID)
		return nil
	case c.Format == "json":
		return writeJSON(w, rowOf(client, secret))
	case c.Format == "env":
		fmt.Fprintf(w, "OIDC_ISSUER=%s\nOIDC_CLIENT_ID=%s\n", c.Issuer, client.ID)
		if secret != "" {
			fmt.Fprintf(w, "OIDC_CLIENT_SECRET=%s\n", secret)
		}
		fmt.Fprintf(w, "OIDC_REDIRECT_URI=%s\nOIDC_SCOPES=%q\n", client.RedirectURIs[0], strings.Join(client.Scopes, " "))
		return nil
	}
	shown := secret
	if shown != "" {
		shown += "   (shown only now)"
	}
	return writePairs(w, [][2]string{
		{"client id", client.ID}, {"client secret", shown}, {"name", client.Name},
		{"redirect URIs", strings.Join(client.RedirectURIs, " ")}, {"scopes", strings.Join(client.Scopes, " ")},
	})
}

type listClientCommand struct {
	databaseFlags
	output
}

// Run lists clients in the order of their names, without secrets.
func (c *listClientCommand) Run(p *program) error {
	st, err := openDatabase(p.ctx, c.Database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	clients, err := st.Clients(p.ctx)
	if err != nil {
		return err
	}
	rows := make([]clientRow, 0, len(clients))
	for _, client := range clients {
		rows = append(rows, rowOf(client, ""))
	}
	switch {
	case c.Quiet:
		for _, r := range rows {
			fmt.Fprintln(p.stdout, r.ID)
		}
		return nil
	case c.Format == "json":
		return writeJSON(p.stdout, rows)
	}
	table := make([][]string, 0, len(rows))
	for _, r := range rows {
		kind := "confidential"
		if r.Public {
			kind = "public"
		}
		table = append(table, []string{r.ID, r.Name, kind, strings.Join(r.RedirectURIs, " "), r.CreatedAt})
	}
	return writeTable(p.stdout, []string{"CLIENT ID", "NAME", "KIND", "REDIRECT URIS", "CREATED"}, table)
}

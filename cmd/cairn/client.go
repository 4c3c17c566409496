package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type clientCommand struct {
	Add          addClientCommand    `cmd:"" help:"Register a client; its secret is printed once."`
	List         listClientCommand   `cmd:"" help:"List the clients."`
	Show         showClientCommand   `cmd:"" help:"Show a client's registration, without secrets."`
	Update       updateClientCommand `cmd:"" help:"Update the given fields of a client."`
	RotateSecret rotateSecretCommand `cmd:"" name:"rotate-secret" help:"Give a client a new secret, which is printed once."`
	Remove       removeClientCommand `cmd:"" help:"Remove a client with its consents and tokens."`
}

// withClient opens the database and finds the client that a command is about.
func withClient(p *program, database, id string, do func(*store.Store, *provider.Client) error) error {
	st, err := openDatabase(p.ctx, database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	c, err := st.Client(p.ctx, id)
	if errors.Is(err, provider.ErrClientNotFound) {
		return fmt.Errorf("there is no client %q: cairn client list shows them", id)
	}
	if err != nil {
		return err
	}
	return do(st, c)
}

// clientRow is a client as the commands print it. The names are those of
// RFC 7591 and of the logout specifications where these have one.
type clientRow struct {
	ID                     string              `json:"client_id"`
	Secret                 string              `json:"client_secret,omitempty"`
	Name                   string              `json:"client_name"`
	Public                 bool                `json:"public"`
	RedirectURIs           []string            `json:"redirect_uris"`
	PostLogoutRedirectURIs []string            `json:"post_logout_redirect_uris"`
	BackchannelLogoutURI   string              `json:"backchannel_logout_uri,omitempty"`
	BackchannelPrivate     bool                `json:"allow_private_backchannel"`
	Scopes                 []string            `json:"scopes"`
	AuthMethod             string              `json:"token_endpoint_auth_method"`
	JWKS                   *jose.JSONWebKeySet `json:"jwks,omitempty"`
	RequirePKCE            bool                `json:"require_pkce"`
	RequireFlag            string              `json:"require_flag,omitempty"`
	Groups                 []string            `json:"groups,omitempty"` // absent: all flags but admin
	RefreshGrace           int                 `json:"refresh_grace_seconds"`
	ClientCredentials      bool                `json:"client_credentials"`
	Trusted                bool                `json:"trusted"`
	IDTokenClaims          bool                `json:"id_token_claims"`
	AllowInsecureRedirect  bool                `json:"allow_insecure_redirect"`
	Secrets                []secretRow         `json:"secrets"`
	CreatedAt              string              `json:"created_at"`
}

// secretRow is when a secret is valid, never what it is.
type secretRow struct {
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at,omitempty"`
}

func rowOf(c *provider.Client, secret string) clientRow {
	row := clientRow{
		ID: c.ID, Secret: secret, Name: c.Name, Public: c.IsPublic(), RedirectURIs: listed(c.RedirectURIs), PostLogoutRedirectURIs: listed(c.PostLogoutRedirectURIs),
		BackchannelLogoutURI: c.BackchannelLogoutURI, BackchannelPrivate: c.BackchannelPrivate, Scopes: listed(c.Scopes), AuthMethod: c.AuthMethod,
		RequirePKCE: c.NeedsPKCE(), RequireFlag: c.RequireFlag, Groups: c.Groups, RefreshGrace: int(c.RefreshGrace / time.Second), ClientCredentials: c.ClientCredentials,
		Trusted: c.Trusted, IDTokenClaims: c.IDTokenClaims, AllowInsecureRedirect: c.AllowInsecureRedirect, JWKS: c.Keys(), Secrets: []secretRow{}, CreatedAt: c.CreatedAt.Format(time.RFC3339),
	}
	for _, s := range c.Secrets {
		r := secretRow{CreatedAt: s.CreatedAt.Format(time.RFC3339)}
		if !s.ExpiresAt.IsZero() {
			r.ExpiresAt = s.ExpiresAt.Format(time.RFC3339)
		}
		row.Secrets = append(row.Secrets, r)
	}
	return row
}

// listed makes an empty list of nothing, so that JSON has [] and not null.
func listed(s []string) []string { return append([]string{}, s...) }

// writeClient prints a client in full; secret is the new one, or empty.
func writeClient(w io.Writer, c *provider.Client, secret string) error {
	kind := "confidential"
	if c.IsPublic() {
		kind = "public"
	}
	if secret != "" {
		secret += "   (shown only now)"
	}
	pairs := [][2]string{
		{"client id", c.ID}, {"client secret", secret}, {"name", c.Name}, {"kind", kind}, {"authentication", c.AuthMethod},
		{"redirect URIs", strings.Join(c.RedirectURIs, " ")}, {"post-logout URIs", strings.Join(c.PostLogoutRedirectURIs, " ")},
		{"back-channel URI", c.BackchannelLogoutURI}, {"scopes", strings.Join(c.Scopes, " ")}, {"required flag", c.RequireFlag},
		{"groups", groupNames(c.Groups)},
	}
	if c.RefreshGrace > 0 {
		pairs = append(pairs, [2]string{"refresh grace", c.RefreshGrace.String()})
	}
	var options []string
	for name, on := range map[string]bool{
		"PKCE required": c.NeedsPKCE(), "trusted": c.Trusted, "claims in the ID token": c.IDTokenClaims, "client_credentials": c.ClientCredentials,
		"http redirects allowed": c.AllowInsecureRedirect, "private back-channel allowed": c.BackchannelPrivate,
	} {
		if on {
			options = append(options, name)
		}
	}
	pairs = append(pairs, [2]string{"options", sortedText(options)}, [2]string{"keys", keyNames(c)})
	for _, s := range c.Secrets {
		text := "from " + s.CreatedAt.Format(time.RFC3339)
		if !s.ExpiresAt.IsZero() {
			text += " until " + s.ExpiresAt.Format(time.RFC3339)
		}
		pairs = append(pairs, [2]string{"secret", text})
	}
	return writePairs(w, append(pairs, [2]string{"registered", c.CreatedAt.Format(time.RFC3339)}))
}

// groupNames are the flags that the groups claim may name.
func groupNames(groups []string) string {
	if len(groups) == 0 {
		return "all but admin"
	}
	return strings.Join(groups, " ")
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
		table = append(table, []string{r.ID, r.Name, kind, groupNames(r.Groups), strings.Join(r.RedirectURIs, " "), r.CreatedAt})
	}
	return writeTable(p.stdout, []string{"CLIENT ID", "NAME", "KIND", "GROUPS", "REDIRECT URIS", "CREATED"}, table)
}

type showClientCommand struct {
	databaseFlags
	output
	ID string `arg:"" help:"Client id."`
}

// Run shows one client; what authenticates it is never among it.
func (c *showClientCommand) Run(p *program) error {
	return withClient(p, c.Database, c.ID, func(_ *store.Store, client *provider.Client) error {
		return c.reportClient(p, client)
	})
}

// reportClient prints a client after show and update.
func (o output) reportClient(p *program, client *provider.Client) error {
	switch {
	case o.Quiet:
		fmt.Fprintln(p.stdout, client.ID)
		return nil
	case o.Format == "json":
		return writeJSON(p.stdout, rowOf(client, ""))
	}
	return writeClient(p.stdout, client, "")
}

// Package register has the commands that register applications, APIs and allowances, and the settings.
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

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type ClientCommand struct {
	Add          addClientCommand                          `cmd:""`
	List         listClientCommand                         `cmd:"" reads:""`
	Show         showCommand[oneClient, provider.Client]   `cmd:"" reads:""`
	Update       updateClientCommand                       `cmd:""`
	RotateSecret rotateSecretCommand                       `cmd:""`
	Remove       removeCommand[oneClient, provider.Client] `cmd:""`
	Apps         appsClientCommand                         `cmd:"" reads:""`
	Allow        allowClientCommand                        `cmd:""`
}

// oneClient holds the flags and the argument of a command about one client.
type oneClient struct {
	cli.DatabaseFlags
	ID string `arg:"" ids:"client" help:"Client id."`
}

func (c oneClient) which() (cli.DatabaseFlags, string, kind[provider.Client]) {
	return c.DatabaseFlags, c.ID, clientKind
}

var clientKind = kind[provider.Client]{
	noun: "client", member: "client_id", removal: " with its consents and tokens", none: provider.ErrClientNotFound,
	of:   func(c *provider.Client) about { return about{c.ID, c.Name, c.Managed, &c.Secrets} },
	flag: clientFlag, fields: clientFields, print: printClient, check: (*provider.Client).Check, target: "client:",
	added: account.RegisterClient, updated: account.UpdateClient, renewed: account.RenewClient,
	removed: account.RemoveClient, all: (*store.Store).Clients, create: (*store.Store).CreateClient,
	update: (*store.Store).UpdateClient, remove: (*store.Store).RemoveClient,
	rotate: func(
		st *store.Store, ctx context.Context, id string, s provider.ClientSecret, until time.Time, _ bool,
		audit account.Audit,
	) error {
		return st.RotateClientSecret(ctx, id, s.Hash, s.CreatedAt, until, audit)
	},
}

// clientOptions are the flags that client add and client update share. A flag sets the field of its
// name in provider.Client: see assign. client update has other words in help.txt for ${new=…} and ${list=…}.
type clientOptions struct {
	RedirectURIs           []string `name:"redirect-uri" sep:"none" placeholder:"URI"`
	PostLogoutRedirectURIs []string `name:"post-logout-redirect-uri" sep:"none" placeholder:"URI"`
	BackchannelLogoutURI   *string  `name:"backchannel-logout-uri" placeholder:"URI"`
	BackchannelPrivate     *bool    `name:"allow-private-backchannel" negatable:""`

	Public     *bool    `negatable:""`
	Scopes     []string `name:"scope" sep:"none" commas:"" placeholder:"SCOPE"`
	AuthMethod *string  `enum:"any,client_secret_basic,client_secret_post,private_key_jwt" placeholder:"METHOD"`
	JWKSFile   *string  `name:"jwks-file" placeholder:"FILE"`

	RequirePKCE          *bool       `name:"require-pkce" negatable:""`
	RequireFlags         []string    `name:"require-flag" sep:"none" commas:"" placeholder:"FLAG"`
	RequireAll           *bool       `name:"require-all" negatable:""`
	RequireACR           *string     `name:"require-acr" once:"" enum:"2,phr," placeholder:"CLASS"`
	RequireVerifiedEmail *bool       `name:"require-verified-email" negatable:""`
	RefreshGrace         *cli.Period `name:"refresh-grace" placeholder:"DURATION"`
	AccessLifetime       *cli.Period `name:"access-token-lifetime" placeholder:"DURATION"`
	RefreshLifetime      *cli.Period `name:"refresh-token-lifetime" placeholder:"DURATION"`
	RefreshMaxLifetime   *cli.Period `name:"refresh-token-max-lifetime" placeholder:"DURATION"`
	ClientCredentials    *bool       `name:"client-credentials" negatable:""`
	DeviceGrant          *bool       `name:"device" negatable:""`
	Profile              *string     `name:"profile" enum:"fapi2," placeholder:"PROFILE"`
	DPoPBound            *bool       `name:"dpop" negatable:""`
	Trusted              *bool       `negatable:""`
	IDTokenAlg           *string     `name:"id-token-alg" enum:"RS256,ES256,EdDSA" placeholder:"ALG"`
	IDTokenClaims        *bool       `name:"id-token-claims" negatable:""`
	OptionalScopes       []string    `name:"optional-scope" sep:"none" commas:"" placeholder:"SCOPE"`
	HomeURI              *string     `name:"home-uri" placeholder:"URL"`
	InitiateLoginURI     *string     `name:"initiate-login-uri" placeholder:"URL"`
	LogoFile             *string     `placeholder:"FILE"`
	Groups               []string    `name:"group" sep:"none" commas:"" placeholder:"FLAG"`
	Claims               []string    `name:"claim" sep:"none" placeholder:"NAME=VALUE"`
	ClaimIn              []string    `name:"claim-in" sep:"none" commas:"" placeholder:"PLACE"`

	AllowInsecureRedirect *bool `name:"allow-insecure-redirect" negatable:""`
}

// apply sets the given fields of the client. The store checks the registration.
func (o *clientOptions) apply(p *cli.Program, st *store.Store, c *provider.Client, read fileReader) error {
	o.applyProfile(c)
	public := c.IsPublic()
	set(&public, o.Public)
	if public && o.AuthMethod != nil {
		return cli.UsageError("--public and --auth-method exclude each other: a public client has no secret")
	}
	switch {
	case public:
		c.AuthMethod = provider.AuthNone
	case c.IsPublic():
		c.AuthMethod = provider.AuthAny
	}
	assign(c, *o)
	c.RequireAll = c.RequireAll && (len(c.RequireFlags) > 0 || o.RequireAll != nil) // of no flags, unless it is said so
	c.Normalize()
	if err := o.applyFiles(read, c); err != nil {
		return err
	}
	var given provider.Client
	assign(&given, *o)
	return checkFlags(p, st, given)
}

// checkFlags checks that the settings have what new lists and rules of a registration need.
func checkFlags(p *cli.Program, st *store.Store, given provider.Client) error {
	if len(given.Groups)+len(given.RequireFlags)+len(given.Claims) == 0 {
		return nil
	}
	settings, err := st.Settings(p.Ctx)
	if err != nil {
		return err
	}
	return given.CheckFlags(settings)
}

// applyProfile sets the fields that a profile requires and that no flag sets.
func (o *clientOptions) applyProfile(c *provider.Client) {
	if o.Profile == nil || *o.Profile == "" {
		return
	}
	if o.IDTokenAlg == nil && c.IDTokenAlgorithm() == string(jose.RS256) {
		c.IDTokenAlg = string(jose.ES256)
	}
	if o.AuthMethod == nil && o.Public == nil {
		c.AuthMethod = provider.AuthJWT
	}
}

// fileReader reads a file that a flag names, up to a limit in bytes.
type fileReader func(file string, limit int64) ([]byte, error)

// Limits of the files of a key set, of which no accepted one is as large, and of a secret, in bytes.
const maxKeySetFile, maxSecretFile = 64 << 10, 4096

// applyFiles reads the key set and the logo. Only private_key_jwt has keys.
func (o *clientOptions) applyFiles(read fileReader, c *provider.Client) error {
	switch {
	case c.AuthMethod != provider.AuthJWT && o.JWKSFile != nil:
		return cli.UsageError("--jwks-file: only for a client that authenticates with private_key_jwt")
	case c.AuthMethod != provider.AuthJWT:
		c.JWKS = nil
	case o.JWKSFile != nil:
		raw, err := read(*o.JWKSFile, maxKeySetFile)
		if err != nil {
			return fmt.Errorf("--jwks-file: %w: give the file with the client's public key set (JSON)", err)
		}
		if c.JWKS, err = provider.CheckClientKeys(raw); err != nil {
			return cli.Usagef("--jwks-file %s: %s", *o.JWKSFile, err)
		}
	}
	if o.LogoFile == nil {
		return nil
	}
	if c.Logo = (account.Picture{}); *o.LogoFile == "" {
		return nil
	}
	file, err := read(*o.LogoFile, account.MaxLogo+1)
	if err != nil {
		return fmt.Errorf("--logo-file: %w: give a PNG or WebP of at most 64 KiB", err)
	}
	if c.Logo, err = account.NewPicture(file); err != nil {
		return cli.UsageError("--logo-file " + *o.LogoFile +
			": give a PNG or WebP of at most 64 KiB and 1024 pixels a side")
	}
	return nil
}

// clientFlag returns the flag that sets a member of a registration.
func clientFlag(member string) string {
	return memberFlag[provider.Client, clientOptions](member,
		map[string]string{"client_id": "--id", "client_name": "the name", "jwks": "--jwks-file"})
}

type addClientCommand struct {
	cli.DatabaseFlags
	secretOutput `set:"app= and in the settings of --app"`
	clientOptions
	Quiet      bool   `short:"q" help:"Print only the id (a confidential client's secret is then never shown)."`
	Name       string `arg:"" optional:""`
	App        string `name:"app" placeholder:"APP"`
	URL        string `name:"url" placeholder:"URL" help:"Address of the application, with --app."`
	ID         string `placeholder:"ID" help:"Client id; generated if not given."`
	SecretFile string `name:"secret-file" placeholder:"FILE"`
}

// Run registers the client and prints its secret.
func (c *addClientCommand) Run(p *cli.Program) error {
	settings, err := c.fromRecipe(p)
	if err != nil {
		return err
	}
	client, secret := provider.NewClient(c.ID, c.Name, time.Now()), ""
	return c.WithStore(p, func(st *store.Store) error {
		if err := c.apply(p, st, client, p.ReadOwned); err != nil {
			return inFlags(err, clientFlag)
		}
		given, err := secretKeys{SecretFile: c.SecretFile}.read(p, p.ReadOwned, client.AuthMethod, client.CreatedAt)
		switch {
		case err != nil:
			return err
		case given != nil:
			client.Secrets = []provider.ClientSecret{*given}
		case client.HasSecret():
			client.Secrets = make([]provider.ClientSecret, 1)
			secret, client.Secrets[0] = provider.NewSecret(client.CreatedAt)
		}
		err = st.CreateClient(p.Ctx, client, clientKind.audit(account.RegisterClient, client.ID))
		if errors.Is(err, provider.ErrClientExists) {
			return fmt.Errorf("--id: the client %s exists already: choose another id", client.ID)
		}
		if err != nil {
			return inFlags(err, clientFlag)
		}
		warn(p, client.Warnings())
		if c.Quiet {
			fmt.Fprintln(p.Stdout, client.ID)
			return nil
		}
		err = c.print(p, client, secret)
		if err == nil && c.Format == "table" {
			fmt.Fprint(p.Stdout, settings)
		}
		return err
	})
}

// read returns the secret that an operator has chosen for a way to authenticate, or nil: that of a hash, or the first
// line of a file. Others may be able to read it: the application does, and files of containers are open to all.
func (k secretKeys) read(
	p *cli.Program, read fileReader, method string, now time.Time,
) (s *provider.ClientSecret, err error) {
	flag := "--secret-file"
	if k.SecretFile == "" {
		flag = "--secret-hash"
	}
	wrong := func(reason any) (*provider.ClientSecret, error) { return nil, cli.Usagef("%s: %s", flag, reason) }
	switch {
	case k.SecretFile+k.SecretHash == "":
		return nil, nil
	case k.SecretFile != "" && k.SecretHash != "":
		return nil, cli.UsageError("give --secret-file or --secret-hash, not both")
	case method == provider.AuthNone || method == provider.AuthJWT:
		return wrong("only for a client that authenticates with a secret")
	case k.SecretHash != "":
		s, err := provider.ParseSecretHash(k.SecretHash, now)
		if err != nil {
			return wrong(err)
		}
		return &s, nil
	}
	text, err := read(k.SecretFile, maxSecretFile)
	if err != nil {
		return wrong(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimRight(line, "\r")
	given, err := provider.GivenSecret(line, now)
	if err != nil {
		return wrong(err)
	}
	if method != provider.AuthPost && provider.NeedsEncoding(line) {
		fmt.Fprintf(p.Stderr, "cairn: %s %s: this secret has characters that HTTP Basic must carry percent-encoded "+
			"(RFC 6749 section 2.3.1), and some applications send them as they are, which is refused as "+
			"secret_not_encoded: openssl rand -hex 32 has none\n", flag, k.SecretFile)
	}
	return &given, nil
}

// warn prints warnings about a registration.
func warn(p *cli.Program, texts []string) {
	for _, text := range texts {
		fmt.Fprintln(p.Stderr, "cairn: "+text)
	}
}

// secretOutput are the flags of a command that prints a client's secret.
type secretOutput struct {
	Format string `name:"output" short:"o" enum:"table,json,env" default:"table"`
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Issuer to print with -o env${app=}."`
}

// print prints a client with its new secret, which is never shown again.
func (o secretOutput) print(p *cli.Program, c *provider.Client, secret string) error {
	if o.Format != "env" {
		return printClient(p, cli.Output{Format: o.Format}, c, secret)
	}
	// Only the scopes that most applications use: each further one asks people for more on the
	// consent page.
	scopes := []string{"openid", "profile", "email", "offline_access"}
	scopes = slices.DeleteFunc(scopes, func(s string) bool { return !slices.Contains(c.Scopes, s) })
	fmt.Fprintf(p.Stdout, "OIDC_ISSUER=%s\nOIDC_CLIENT_ID=%s\n", o.Issuer, c.ID)
	if secret != "" {
		fmt.Fprintf(p.Stdout, "OIDC_CLIENT_SECRET=%s\n", secret)
	}
	if len(c.RedirectURIs) > 0 {
		fmt.Fprintf(p.Stdout, "OIDC_REDIRECT_URI=%s\n", c.RedirectURIs[0])
	}
	fmt.Fprintf(p.Stdout, "OIDC_SCOPES=%q\n", strings.Join(scopes, " "))
	if c.RequireACR != "" {
		fmt.Fprintf(p.Stdout, "OIDC_ACR_VALUES=%s\n", c.RequireACR)
	}
	return nil
}

// clientDocument is a client as the commands print it: some members differ from those of the domain.
type clientDocument struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	Public bool   `json:"public"`
	provider.Client
	RefreshGrace       int    `json:"refresh_grace_seconds"`
	AccessLifetime     int    `json:"access_token_lifetime_seconds,omitempty"`
	RefreshLifetime    int    `json:"refresh_token_lifetime_seconds,omitempty"`
	RefreshMaxLifetime int    `json:"refresh_token_max_lifetime_seconds,omitempty"`
	Logo               string `json:"logo,omitempty"` // hash of the stored picture
}

// clientDocumentOf returns the document of a client; secret is a new one, or empty.
func clientDocumentOf(c *provider.Client, secret string) clientDocument {
	d := clientDocument{
		ID: c.ID, Secret: secret, Public: c.IsPublic(), Client: *c, RefreshGrace: int(c.RefreshGrace / time.Second),
		Logo:               c.Logo.Hash,
		AccessLifetime:     int(c.AccessLifetime / time.Second),
		RefreshLifetime:    int(c.RefreshLifetime / time.Second),
		RefreshMaxLifetime: int(c.RefreshMaxLifetime / time.Second),
	}
	d.RequirePKCE, d.IDTokenAlg, d.Secrets = c.NeedsPKCE(), c.IDTokenAlgorithm(), cli.Listed(c.Secrets)
	for _, list := range []*[]string{&d.RedirectURIs, &d.PostLogoutRedirectURIs, &d.Scopes} {
		*list = cli.Listed(*list)
	}
	return d
}

func (d clientDocument) kind() string {
	switch {
	case d.Document:
		return "own description"
	case d.Public:
		return "public"
	}
	return "confidential"
}

// groupNames returns the flags that the groups claim may contain.
func (d clientDocument) groupNames() string {
	if len(d.Groups) == 0 {
		return "all but admin"
	}
	return strings.Join(d.Groups, " ")
}

// lifetime returns the text of a duration; empty for 0, which is the default.
func lifetime(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return cli.Period(d).String()
}

// printClient prints all of a client; secret is a new one, or empty.
func printClient(p *cli.Program, o cli.Output, c *provider.Client, secret string) error {
	r := clientDocumentOf(c, secret)
	var options []string
	for _, option := range []struct {
		name string
		on   bool
	}{
		{"PKCE required", r.RequirePKCE}, {"verified email required", r.RequireVerifiedEmail},
		{"claims in the ID token", r.IDTokenClaims},
		{"client_credentials", r.ClientCredentials}, {"device grant", r.DeviceGrant}, {"DPoP required", r.DPoPBound},
		{"http redirects allowed", r.AllowInsecureRedirect},
		{"private back-channel allowed", r.BackchannelPrivate}, {"trusted", r.Trusted},
	} {
		if option.on {
			options = append(options, option.name)
		}
	}
	var keys []string
	for _, k := range c.Keys() {
		keys = append(keys, cmp.Or(k.KeyID, "a key without a kid"))
	}
	labels := cli.Pairs{
		{"client id", r.ID}, {"client secret", cli.OnlyNow(secret)}, {"name", r.Name}, {"kind", r.kind()},
		{"authentication", r.AuthMethod}, {"redirect URIs", strings.Join(r.RedirectURIs, " ")},
		{"post-logout URIs", strings.Join(r.PostLogoutRedirectURIs, " ")},
		{"back-channel URI", r.BackchannelLogoutURI}, {"scopes", strings.Join(r.Scopes, " ")},
		{"required flag", c.RequiredFlags()}, {"required acr", r.RequireACR},
		{"profile", r.Profile}, {"optional scopes", strings.Join(r.OptionalScopes, " ")}, {"home URI", r.HomeURI},
		{"login URI", r.InitiateLoginURI},
		{"claims in", strings.Join(r.ClaimIn, " ")},
		{"logo", r.Logo}, {"groups", r.groupNames()}, {"ID tokens", r.IDTokenAlg},
		{"refresh grace", lifetime(c.RefreshGrace)},
		{"access tokens", lifetime(c.AccessLifetime)}, {"refresh tokens", lifetime(c.RefreshLifetime)},
		{"refresh until", lifetime(c.RefreshMaxLifetime)},
		{"options", strings.Join(options, ", ")}, {"keys", strings.Join(keys, ", ")},
		{"managed", managedText(c.Managed)},
	}
	for _, rule := range r.Claims {
		labels = append(labels, [2]string{"claim", rule})
	}
	for _, s := range r.Secrets {
		text := "from " + s.CreatedAt.Format(time.RFC3339)
		if !s.ExpiresAt.IsZero() {
			text += " until " + s.ExpiresAt.Format(time.RFC3339)
		}
		labels = append(labels, [2]string{"secret", text})
	}
	return o.Print(p, r.ID, r, append(labels, [2]string{"registered", r.CreatedAt.Format(time.RFC3339)}))
}

// managedText says of a registration whether apply --prune may remove it.
func managedText(managed bool) string {
	if managed {
		return "registered by cairn apply"
	}
	return ""
}

type listClientCommand struct {
	cli.DatabaseFlags
	cli.KeyFlags
	cli.Output
}

// Run lists clients in the order of their names, without secrets.
func (c *listClientCommand) Run(p *cli.Program) error {
	return c.WithStore(p, func(st *store.Store) error {
		clients, err := st.Clients(p.Ctx)
		if err != nil {
			return err
		}
		// Without keys OpenID Connect is off. This system user may also lack the permission to read them.
		if keys, err := config.LoadSigningKeys(c.PrivateKeyFile, c.AdditionalKeyFiles); err == nil && len(keys) > 0 {
			for _, client := range provider.CheckKeys(clients, keys) {
				fmt.Fprintf(p.Stderr, "cairn: no key signs the ID tokens (%s) of the client %s: name one with "+
					"--additional-key-file, or give the client another --id-token-alg\n", client.IDTokenAlg, client.ID)
			}
		}
		out := c.List(p, "CLIENT ID", "NAME", "KIND", "GROUPS", "REDIRECT URIS", "CREATED")
		for _, client := range clients {
			r := clientDocumentOf(client, "")
			redirects, created := strings.Join(r.RedirectURIs, " "), r.CreatedAt.Format(time.RFC3339)
			out.Add(r.ID, r, r.ID, r.Name, r.kind(), r.groupNames(), redirects, created)
		}
		return out.End()
	})
}

type updateClientCommand struct {
	oneClient
	cli.Output
	clientUpdate
	Yes bool `help:"Do not ask before entries of a list are removed."`
}

// clientUpdate holds the fields of a client that can be updated.
type clientUpdate struct {
	//lint:ignore SA5008 kong has a tag set for each variable
	clientOptions `set:"new=" set:"list=Replaces the list; --add-… and --remove-… change it; empty clears it."`

	Name   *string     `help:"Name that users see on the consent page."`
	Add    clientLists `embed:"" prefix:"add-" set:"verb=Add"`
	Remove clientLists `embed:"" prefix:"remove-" set:"verb=Remove"`
}

// Run updates the given fields. Secrets and tokens are unchanged.
func (c *updateClientCommand) Run(p *cli.Program) error {
	if reflect.ValueOf(c.clientUpdate).IsZero() {
		return cli.UsageError("no field to update is given; see cairn client update --help")
	}
	return with(p, c.oneClient, func(st *store.Store, k kind[provider.Client], client *provider.Client) error {
		if client.Document {
			return cli.UsageError("this client publishes its own description: cairn client allow says what it may do")
		}
		before := *client
		replaced, err := editLists(client, &c.clientOptions, c.Add, c.Remove)
		if err != nil {
			return err
		}
		set(&client.Name, c.Name)
		if err := c.apply(p, st, client, p.ReadOwned); err != nil {
			return err
		}
		if len(client.RequireFlags) == 0 {
			replaced = append(replaced, replacement{old: before.RequireFlags})
		}
		if err := k.change(p, st, c.Yes, &before, client, replaced); err != nil {
			return err
		}
		warn(p, client.Warnings())
		if !client.HasSecret() {
			client.Secrets = nil
		} else if !before.HasSecret() {
			const format = "cairn: the client needs a secret now: cairn client rotate-secret %s gives it one\n"
			fmt.Fprintf(p.Stderr, format, client.ID)
		}
		return printClient(p, c.Output, client, "")
	})
}

type rotateSecretCommand struct {
	oneClient
	secretOutput
	Quiet   bool       `short:"q" help:"Print the secret only."`
	Overlap cli.Period `placeholder:"DURATION" default:"0s"`
}

// Run gives the client a new secret, which is printed once.
func (c *rotateSecretCommand) Run(p *cli.Program) error {
	return with(p, c.oneClient, func(st *store.Store, k kind[provider.Client], client *provider.Client) error {
		if !client.HasSecret() {
			return fmt.Errorf("the client %s authenticates with %s and has no secret", client.ID, client.AuthMethod)
		}
		secret, err := k.renew(p, st, client.ID, c.Overlap, false)
		if err != nil {
			return err
		}
		// From here on the secret must be printed, even if the rest fails.
		if c.Quiet {
			fmt.Fprintln(p.Stdout, secret)
			return nil
		}
		if updated, err := st.Client(p.Ctx, client.ID); err == nil {
			client = updated
		}
		return c.print(p, client, secret)
	})
}

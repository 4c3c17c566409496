package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

// clientOptions are what client add and client update have in common. What is
// nil was not given and stays as it is; a list that is given replaces the one before.
type clientOptions struct {
	RedirectURI             []string `sep:"none" placeholder:"URI" help:"Where answers may be sent, compared exactly. Repeatable."`
	PostLogoutRedirectURI   []string `sep:"none" placeholder:"URI" help:"Where the browser may be sent after signing out, compared exactly. Repeatable."`
	BackchannelLogoutURI    *string  `placeholder:"URI" help:"Where logout tokens are sent when a session ends."`
	AllowPrivateBackchannel *bool    `negatable:"" help:"Send logout tokens to addresses of private networks and of this machine too."`
	Public                  *bool    `negatable:"" help:"A client that cannot keep a secret (browser, phone, command line): PKCE is required."`
	Scope                   []string `placeholder:"SCOPE" help:"Scopes it may ask for; all if not given. Repeatable."`
	AuthMethod              *string  `enum:"any,client_secret_basic,client_secret_post,private_key_jwt" placeholder:"METHOD" help:"How it authenticates: any (client_secret_basic or client_secret_post), one of these two, or private_key_jwt."`
	JWKSFile                *string  `name:"jwks-file" placeholder:"FILE" help:"Public keys of a client that authenticates with private_key_jwt (JSON Web Key Set), - for standard input."`
	RequirePKCE             *bool    `name:"require-pkce" negatable:"" help:"Refuse requests without a code challenge."`
	RequireFlag             *string  `placeholder:"FLAG" help:"Let only users with this access flag in."`
	RefreshGrace            *period  `placeholder:"DURATION" help:"How long a used refresh token still works, for a client that sends refreshes in parallel: 0s to 60s."`
	ClientCredentials       *bool    `negatable:"" help:"Let it ask for tokens for itself (client_credentials)."`
	Trusted                 *bool    `negatable:"" help:"First party: no consent page."`
	IDTokenClaims           *bool    `name:"id-token-claims" negatable:"" help:"Put profile claims into the ID token too."`
	AllowInsecureRedirect   *bool    `negatable:"" help:"Accept http redirect URIs beyond this machine, on a network you trust."`
}

// period is a duration as people write it: 30s, 12h, or days as 7d.
type period time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *period) UnmarshalText(b []byte) error {
	if days, ok := strings.CutSuffix(string(b), "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			*d = period(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 || v%time.Second != 0 {
		return errors.New("a duration is written as 30s, 12h or 7d, in whole seconds")
	}
	*d = period(v)
	return nil
}

// apply puts what was given over the client.
func (o *clientOptions) apply(p *program, c *provider.Client) error {
	set(&c.AllowInsecureRedirect, o.AllowInsecureRedirect)
	set(&c.RequirePKCE, o.RequirePKCE)
	set(&c.RequireFlag, o.RequireFlag)
	set(&c.Trusted, o.Trusted)
	set(&c.IDTokenClaims, o.IDTokenClaims)
	set(&c.ClientCredentials, o.ClientCredentials)
	set(&c.BackchannelLogoutURI, o.BackchannelLogoutURI)
	set(&c.BackchannelPrivate, o.AllowPrivateBackchannel)
	if o.RefreshGrace != nil {
		c.RefreshGrace = time.Duration(*o.RefreshGrace)
	}
	if len(o.RedirectURI) > 0 {
		c.RedirectURIs = distinct(o.RedirectURI)
	}
	if len(o.PostLogoutRedirectURI) > 0 {
		c.PostLogoutRedirectURIs = distinct(o.PostLogoutRedirectURI)
	}
	if len(o.Scope) > 0 {
		c.Scopes = distinct(o.Scope)
	}
	return o.applyAuthentication(p, c)
}

// applyAuthentication decides how the client proves who it is. The keys belong
// to private_key_jwt and go with it.
func (o *clientOptions) applyAuthentication(p *program, c *provider.Client) error {
	public := c.IsPublic()
	set(&public, o.Public)
	if public && o.AuthMethod != nil {
		return usageError{"--public and --auth-method exclude one another: a public client has no secret"}
	}
	switch {
	case public:
		c.AuthMethod = provider.AuthNone
	case o.AuthMethod != nil:
		c.AuthMethod = *o.AuthMethod
	case c.IsPublic():
		c.AuthMethod = provider.AuthAny
	}
	if c.AuthMethod != provider.AuthJWT {
		if o.JWKSFile != nil {
			return usageError{"--jwks-file is for a client with --auth-method private_key_jwt"}
		}
		c.JWKS = nil
		return nil
	}
	if o.JWKSFile == nil {
		return nil
	}
	raw, err := readKeySet(p, *o.JWKSFile)
	if err != nil {
		return err
	}
	if c.JWKS, err = provider.CheckClientKeys(raw); err != nil {
		return usageError{fmt.Sprintf("--jwks-file %s: %s", *o.JWKSFile, err)}
	}
	return nil
}

// maxKeySetFile is more than any key set that is accepted, in bytes.
const maxKeySetFile = 64 << 10

func readKeySet(p *program, file string) ([]byte, error) {
	r := p.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--jwks-file: %w: give the file with the client's public key set (JSON)", err)
		}
		defer func() { _ = f.Close() }()
		r = f
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxKeySetFile))
	if err != nil {
		return nil, fmt.Errorf("--jwks-file: %w", err)
	}
	return raw, nil
}

// checkClient holds a whole client to the rules, whatever was changed of it: an
// option may make what was registered before wrong.
func checkClient(c *provider.Client) error {
	if len(c.RedirectURIs) == 0 && !c.ClientCredentials {
		return usageError{"--redirect-uri is needed: where the application receives its answers"}
	}
	for _, uri := range c.RedirectURIs {
		if err := provider.CheckRedirectURI(uri, c.AllowInsecureRedirect); err != nil {
			return usageError{fmt.Sprintf("--redirect-uri %q: %s", uri, err)}
		}
	}
	for _, uri := range c.PostLogoutRedirectURIs {
		if err := provider.CheckRedirectURI(uri, c.AllowInsecureRedirect); err != nil {
			return usageError{fmt.Sprintf("--post-logout-redirect-uri %q: %s", uri, err)}
		}
	}
	if c.BackchannelLogoutURI != "" {
		if err := provider.CheckBackchannelLogoutURI(c.BackchannelLogoutURI, c.BackchannelPrivate); err != nil {
			return usageError{fmt.Sprintf("--backchannel-logout-uri %q: %s", c.BackchannelLogoutURI, err)}
		}
	}
	for _, s := range c.Scopes {
		if !slices.Contains(provider.Scopes, s) {
			return usageError{fmt.Sprintf("--scope %q: the scopes are %s", s, strings.Join(provider.Scopes, ", "))}
		}
	}
	if !slices.Contains(c.Scopes, "openid") {
		c.Scopes = append([]string{"openid"}, c.Scopes...)
	}
	switch {
	case c.RequireFlag != "" && account.CheckFlag(c.RequireFlag) != nil:
		return usageError{"--require-flag: a flag is a letter a-z and up to 31 of a-z, 0-9, - and _"}
	case c.RefreshGrace > provider.MaxRefreshGrace:
		return usageError{fmt.Sprintf("--refresh-grace: at most %s", provider.MaxRefreshGrace)}
	case c.RefreshGrace > 0 && c.IsPublic():
		return usageError{"--refresh-grace is for confidential clients: without a secret a stolen refresh token would work twice"}
	case c.ClientCredentials && c.IsPublic():
		return usageError{"--client-credentials is for confidential clients: anybody could ask in the name of a public one"}
	case c.AuthMethod == provider.AuthJWT && len(c.JWKS) == 0:
		return usageError{"--jwks-file is needed with private_key_jwt: the client's public keys"}
	}
	return nil
}

// checkRequiredFlag refuses a flag that nobody can have.
func checkRequiredFlag(p *program, st *store.Store, c *provider.Client) error {
	if c.RequireFlag == "" {
		return nil
	}
	settings, err := st.Settings(p.ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(settings.Flags, c.RequireFlag) {
		return fmt.Errorf("--require-flag: there is no flag %q here: an administrator adds flags in the settings", c.RequireFlag)
	}
	return nil
}

// clientKeys reads the keys that were checked when they were registered.
func clientKeys(c *provider.Client) *jose.JSONWebKeySet {
	var set jose.JSONWebKeySet
	if json.Unmarshal(c.JWKS, &set) != nil {
		return nil
	}
	return &set
}

// keyNames lists a client's keys by their kid.
func keyNames(c *provider.Client) string {
	set := clientKeys(c)
	if len(c.JWKS) == 0 || set == nil {
		return ""
	}
	var names []string
	for _, k := range set.Keys {
		name := k.KeyID
		if name == "" {
			name = "one without a kid"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// set puts a given value in place.
func set[T any](at *T, given *T) {
	if given != nil {
		*at = *given
	}
}

func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func sortedText(list []string) string {
	slices.Sort(list)
	return strings.Join(list, ", ")
}

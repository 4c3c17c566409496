package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

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
	IDTokenClaims           *bool    `name:"id-token-claims" negatable:"" help:"Put the claims of the granted scopes into the ID token too (--no-id-token-claims: only userinfo has them). On for a new client."`
	Group                   []string `placeholder:"FLAG" help:"A flag that its groups claim may name, exactly those given; all but admin if none is. Repeatable."`
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
		c.RedirectURIs = o.RedirectURI
	}
	if len(o.PostLogoutRedirectURI) > 0 {
		c.PostLogoutRedirectURIs = o.PostLogoutRedirectURI
	}
	if len(o.Scope) > 0 {
		c.Scopes = o.Scope
	}
	if len(o.Group) > 0 {
		c.Groups = o.Group
	}
	c.Normalize()
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
	if o.JWKSFile == nil {
		if c.AuthMethod != provider.AuthJWT {
			c.JWKS = nil
		}
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

// memberFlags are the flags that set the members of a registration.
var memberFlags = map[string]string{
	"client_id": "--id", "client_name": "the name", "redirect_uris": "--redirect-uri", "post_logout_redirect_uris": "--post-logout-redirect-uri",
	"backchannel_logout_uri": "--backchannel-logout-uri", "scopes": "--scope", "require_flag": "--require-flag", "groups": "--group",
	"token_endpoint_auth_method": "--auth-method", "jwks": "--jwks-file", "refresh_grace": "--refresh-grace", "client_credentials": "--client-credentials",
}

// inFlags names the flag where a registration breaks a rule.
func inFlags(err error) error {
	var broken *provider.RegistrationError
	if errors.As(err, &broken) {
		return usageError{broken.Describe(memberFlags[broken.Member])}
	}
	return err
}

// checkFlags refuses flags that nobody can have.
func (o *clientOptions) checkFlags(p *program, st *store.Store, c *provider.Client) error {
	if len(o.Group) == 0 && o.RequireFlag == nil {
		return nil
	}
	settings, err := st.Settings(p.ctx)
	if err != nil {
		return err
	}
	return inFlags(c.CheckFlags(settings.Flags))
}

// keyNames lists a client's keys by their kid.
func keyNames(c *provider.Client) string {
	set := c.Keys()
	if set == nil {
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

func sortedText(list []string) string {
	slices.Sort(list)
	return strings.Join(list, ", ")
}

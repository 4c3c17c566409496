package provider

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
)

// Client authentication methods (RFC 7591 section 2). AuthAny accepts basic and
// post side by side, which is what relying parties in the wild need.
const (
	AuthAny   = "any"
	AuthBasic = "client_secret_basic"
	AuthPost  = "client_secret_post"
	AuthNone  = "none"
	AuthJWT   = "private_key_jwt"
)

// Scopes that exist, in the order of the consent page.
var Scopes = []string{"openid", "profile", "email", "address", "phone", "groups", "offline_access"}

// Client is a relying party, registered by the operator. It implements
// fosite.Client, fosite.ResponseModeClient and fosite.ClientWithSecretRotation.
type Client struct {
	ID                    string
	Name                  string
	Secrets               []ClientSecret // valid ones, newest first; none for a public client
	RedirectURIs          []string
	Scopes                []string
	AuthMethod            string // one of the Auth constants; AuthNone is a public client
	RequirePKCE           bool
	RequireFlag           string   // access flag that a user needs, or empty
	Trusted               bool     // first party: no consent page
	IDTokenClaims         bool     // claims of the granted scopes in the ID token too
	Groups                []string // flags that the groups claim may name; none: all but admin
	AllowInsecureRedirect bool     // http redirect URIs beyond the loopback
	ClientCredentials     bool     // may use the client_credentials grant, for itself
	JWKS                  []byte   // public keys (RFC 7517 set, JSON) for private_key_jwt; never fetched
	// RefreshGrace is how long a rotated refresh token still works, for clients
	// that send parallel refreshes; at most MaxRefreshGrace, 0 is strict.
	RefreshGrace           time.Duration
	PostLogoutRedirectURIs []string
	BackchannelLogoutURI   string // empty: no back-channel logout
	// BackchannelPrivate lets the logout token go to a private or loopback
	// address; the operator opens it per client.
	BackchannelPrivate bool
	CreatedAt          time.Time
}

// NewClient is a registration with the defaults: a confidential client that may
// ask for every scope and finds the claims of the granted ones in its ID tokens. An empty
// id is replaced by a random one.
func NewClient(id, name string, now time.Time) *Client {
	if id == "" {
		id = randomText(12)
	}
	return &Client{
		ID: id, Name: name, Scopes: slices.Clone(Scopes), AuthMethod: AuthAny, IDTokenClaims: true, CreatedAt: now.UTC().Truncate(time.Second),
	}
}

// MaxSecretOverlap bounds how long a secret works beside its successor.
const MaxSecretOverlap = 30 * 24 * time.Hour

// MaxRefreshGrace bounds Client.RefreshGrace.
const MaxRefreshGrace = time.Minute

// ClientSecret is the SHA-256 of a generated secret of 256 bits.
type ClientSecret struct {
	Hash      []byte
	CreatedAt time.Time
	ExpiresAt time.Time // zero: does not expire
}

// NewSecret makes a client secret of 256 bits, which is shown once, and what is
// stored of it.
func NewSecret(now time.Time) (secret string, stored ClientSecret) {
	secret = randomText(32)
	return secret, ClientSecret{Hash: HashSecret(secret), CreatedAt: now.UTC().Truncate(time.Second)}
}

// randomText is n random bytes in base64url: nothing in it needs escaping.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// HasSecret tells whether the client authenticates with a secret.
func (c *Client) HasSecret() bool { return c.AuthMethod != AuthNone && c.AuthMethod != AuthJWT }

// Keys are the public keys of a client with private_key_jwt, nil where there are
// none.
func (c *Client) Keys() *jose.JSONWebKeySet {
	var set jose.JSONWebKeySet
	if len(c.JWKS) == 0 || json.Unmarshal(c.JWKS, &set) != nil {
		return nil
	}
	return &set
}

// GroupsOf are the flags of a user that the client is told of: what makes
// somebody an administrator here is no business of an application unless the operator says so.
func (c *Client) GroupsOf(u account.User) []string {
	return slices.DeleteFunc(slices.Clone(u.Flags), func(flag string) bool {
		if len(c.Groups) == 0 {
			return flag == account.FlagAdmin
		}
		return !slices.Contains(c.Groups, flag)
	})
}

// NeedsPKCE tells whether an authorization request without a code challenge is
// refused: always for public clients (RFC 9700 section 2.1.1).
func (c *Client) NeedsPKCE() bool { return c.RequirePKCE || c.IsPublic() }

// GetID implements fosite.Client, like the methods below.
func (c *Client) GetID() string { return c.ID }

// GetHashedSecret returns the newest secret's hash.
func (c *Client) GetHashedSecret() []byte {
	if len(c.Secrets) == 0 {
		return nil
	}
	return c.Secrets[0].Hash
}

// GetRotatedHashes returns the others, valid until their overlap ends.
func (c *Client) GetRotatedHashes() [][]byte {
	var out [][]byte
	for _, s := range c.Secrets[min(1, len(c.Secrets)):] {
		out = append(out, s.Hash)
	}
	return out
}

// GetRedirectURIs returns the registered redirect URIs.
func (c *Client) GetRedirectURIs() []string { return c.RedirectURIs }

// GetGrantTypes returns authorization_code, refresh_token with offline_access,
// and client_credentials where the client is registered for it.
func (c *Client) GetGrantTypes() fosite.Arguments {
	types := fosite.Arguments{"authorization_code"}
	if slices.Contains(c.Scopes, "offline_access") {
		types = append(types, "refresh_token")
	}
	if c.ClientCredentials && !c.IsPublic() {
		types = append(types, "client_credentials")
	}
	return types
}

// GetResponseTypes returns code alone.
func (c *Client) GetResponseTypes() fosite.Arguments { return fosite.Arguments{"code"} }

// GetScopes returns the scopes the client may ask for.
func (c *Client) GetScopes() fosite.Arguments { return c.Scopes }

// IsPublic tells whether the client has no secret.
func (c *Client) IsPublic() bool { return c.AuthMethod == AuthNone }

// GetAudience returns none: access tokens are for this service alone.
func (c *Client) GetAudience() fosite.Arguments { return nil }

// GetResponseModes lists query and form_post.
func (c *Client) GetResponseModes() []fosite.ResponseModeType {
	return []fosite.ResponseModeType{fosite.ResponseModeDefault, fosite.ResponseModeQuery, fosite.ResponseModeFormPost}
}

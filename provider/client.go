package provider

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// Client authentication methods (RFC 7591 section 2). AuthAny accepts both basic and post,
// because relying parties differ.
const (
	AuthAny   = "any"
	AuthBasic = "client_secret_basic"
	AuthPost  = "client_secret_post"
	AuthNone  = "none"
	AuthJWT   = "private_key_jwt"
)

// Client is a relying party, registered by the operator. The tags name its members as RFC 7591 and the
// logout specifications do where these define them.
type Client struct {
	ID       string `json:"client_id"`
	Name     string `json:"client_name"`
	Document bool   `json:"client_id_metadata_document,omitempty"` // the id is its URL

	RedirectURIs           []string `json:"redirect_uris"`
	PostLogoutRedirectURIs []string `json:"post_logout_redirect_uris"`
	BackchannelLogoutURI   string   `json:"backchannel_logout_uri,omitempty"` // empty: no back-channel logout
	// BackchannelPrivate allows logout tokens to go to a private or loopback address.
	BackchannelPrivate bool            `json:"allow_private_backchannel"`
	Scopes             []string        `json:"scopes"`
	AuthMethod         string          `json:"token_endpoint_auth_method"` // an Auth constant
	JWKS               json.RawMessage `json:"jwks,omitempty"`             // of private_key_jwt
	RequirePKCE        bool            `json:"require_pkce"`
	// RequireFlags are access flags of which a user needs one or, with RequireAll, all. Empty: none.
	RequireFlags []string `json:"require_flags,omitempty"`
	RequireAll   bool     `json:"require_all,omitempty"`
	RequireACR   string   `json:"require_acr,omitempty"` // "2", "phr" or empty
	// RequireVerifiedEmail lets in only users whose address is verified.
	RequireVerifiedEmail bool     `json:"require_verified_email,omitempty"`
	OptionalScopes       []string `json:"optional_scopes,omitempty"` // that a user may decline
	HomeURI              string   `json:"client_uri,omitempty"`      // its web page, or empty
	// InitiateLoginURI is where it begins a sign-in (OpenID Connect Core section 4), or empty.
	InitiateLoginURI string          `json:"initiate_login_uri,omitempty"`
	Logo             account.Picture `json:"logo,omitzero"`    // read without a PNG
	Groups           []string        `json:"groups,omitempty"` // empty: all but admin
	// Claims are rules for claims of its own: see ownclaims.go. ClaimIn says where these are: id_token,
	// userinfo, access_token. Empty: where the claims of scopes are.
	Claims  []string `json:"claims,omitempty"`
	ClaimIn []string `json:"claim_in,omitempty"`
	// RefreshGrace is how long a rotated refresh token still works, for clients that send
	// parallel refreshes. It is at most maxRefreshGrace; 0 is strict.
	RefreshGrace time.Duration `json:"refresh_grace_seconds"`
	// Lifetimes of its tokens in whole seconds; 0: the usual ones, and no end of a chain of refreshes.
	AccessLifetime        time.Duration  `json:"access_token_lifetime_seconds,omitempty"`
	RefreshLifetime       time.Duration  `json:"refresh_token_lifetime_seconds,omitempty"`     // since its last use
	RefreshMaxLifetime    time.Duration  `json:"refresh_token_max_lifetime_seconds,omitempty"` // since it was allowed
	ClientCredentials     bool           `json:"client_credentials"`                           // may use that grant
	DeviceGrant           bool           `json:"device_grant"`                                 // may use it (RFC 8628)
	Profile               string         `json:"profile,omitempty"`                            // ProfileFAPI2, or empty
	DPoPBound             bool           `json:"dpop_bound_access_tokens,omitempty"`           // RFC 9449 section 5.2
	Trusted               bool           `json:"trusted"`                                      // no consent page
	IDTokenAlg            string         `json:"id_token_signed_response_alg"`                 // empty is RS256
	IDTokenClaims         bool           `json:"id_token_claims"`                              // not at userinfo only
	AllowInsecureRedirect bool           `json:"allow_insecure_redirect"`                      // http beyond loopback
	Secrets               []ClientSecret `json:"secrets"`                                      // valid, newest first
	CreatedAt             time.Time      `json:"created_at"`
	Managed               bool           `json:"managed,omitempty"` // registered by an apply, which may remove it

	// APIs lists the URIs of the APIs that the Allowance of a client with a Document permits; clients
	// are stored without it.
	APIs []string `json:"-"`
}

// Changes returns the members in which two registrations, two Clients or two APIs, differ, for the
// audit log: a switch with what it is now, of all others only the name.
func Changes[T Client | API | Allowance](from, to *T) (names []string) {
	old, now := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	for i, f := range reflect.VisibleFields(now.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		a, b := old.Field(i), now.Field(i)
		switch none := b.Kind() == reflect.Slice && a.Len()+b.Len() == 0; {
		case name == "-" || none || reflect.DeepEqual(a.Interface(), b.Interface()):
		case name == "secrets" || name == "created_at": // not of the registration
		case b.Kind() != reflect.Bool:
			names = append(names, name)
		case b.Bool():
			names = append(names, name+"=on")
		default:
			names = append(names, name+"=off")
		}
	}
	return names
}

// NewClient returns a registration with the defaults: a confidential client that may request
// every scope and gets the claims of the granted scopes in its ID tokens. An empty id is replaced
// by a random one.
func NewClient(id, name string, now time.Time) *Client {
	if id == "" {
		id = randomText(12)
	}
	return &Client{
		ID: id, Name: name, Scopes: slices.Clone(Scopes), AuthMethod: AuthAny, IDTokenClaims: true,
		CreatedAt: now.UTC().Truncate(time.Second),
	}
}

// MaxSecretOverlap bounds how long a secret works beside its successor.
const MaxSecretOverlap = 30 * 24 * time.Hour

// maxRefreshGrace bounds Client.RefreshGrace.
const maxRefreshGrace = time.Minute

// ClientSecret is the SHA-256 of a generated secret of 256 bits.
type ClientSecret struct {
	Hash      []byte    `json:"-"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: does not expire
}

// NewSecret returns a client secret of 256 bits, which is shown once, and its stored form.
func NewSecret(now time.Time) (secret string, stored ClientSecret) {
	secret = randomText(32)
	return secret, ClientSecret{Hash: account.HashSecret(secret), CreatedAt: now.UTC().Truncate(time.Second)}
}

// randomText returns n random bytes in base64url, which never needs escaping.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// IDTokenAlgorithm returns the signing algorithm of the client's ID tokens and logout tokens.
func (c *Client) IDTokenAlgorithm() string { return cmp.Or(c.IDTokenAlg, string(jose.RS256)) }

// HasSecret reports whether the client authenticates with a secret.
func (c *Client) HasSecret() bool { return c.AuthMethod != AuthNone && c.AuthMethod != AuthJWT }

// Keys returns the public keys of a client with private_key_jwt, or nil.
func (c *Client) Keys() []jose.JSONWebKey {
	var set jose.JSONWebKeySet
	_ = json.Unmarshal(c.JWKS, &set) // Check has read it, if there is one
	return set.Keys
}

// groupsOf returns the flags of a user that the client gets as groups. Unless the operator
// configures it, applications are not told who is an administrator here.
func (c *Client) groupsOf(u account.User) []string {
	return slices.DeleteFunc(slices.Clone(u.Flags), func(flag string) bool {
		if len(c.Groups) == 0 {
			return flag == account.FlagAdmin
		}
		return !slices.Contains(c.Groups, flag)
	})
}

// NeedsPKCE reports whether authorization requests without a code challenge are refused, as
// always for public clients (RFC 9700 section 2.1.1).
func (c *Client) NeedsPKCE() bool { return c.RequirePKCE || c.IsPublic() || c.isFAPI() }

func (c *Client) grantTypes() []string {
	types := []string{"authorization_code"}
	if slices.Contains(c.Scopes, "offline_access") {
		types = append(types, "refresh_token")
	}
	if c.DeviceGrant {
		types = append(types, grantTypeDevice)
	}
	if c.ClientCredentials && !c.IsPublic() {
		types = append(types, "client_credentials")
	}
	return types
}

// inGrace reports whether a refresh token rotated at the given time still works. Without a grace
// it never does, even if clocks differ.
func (c *Client) inGrace(rotated, now time.Time) bool {
	return c.RefreshGrace > 0 && rotated.After(now.Add(-c.RefreshGrace))
}

// shownName returns the name for people.
func (c *Client) shownName() string { return cmp.Or(c.Name, c.ID) }

// IsPublic reports whether the client does not authenticate.
func (c *Client) IsPublic() bool { return c.AuthMethod == AuthNone }

// RegistrationError names the member of a client's registration that breaks a rule, and how to
// fix it.
type RegistrationError struct {
	Member string // its name in what client show -o json prints (RFC 7591 section 2 where that has one)
	Value  string // the offending value of a member with several; may be empty
	Reason string
}

// Error implements error.
func (e *RegistrationError) Error() string {
	return e.Describe(e.Member)
}

// Refusal marks the type: see storageRefusal.
func (e *RegistrationError) Refusal() {}

// uriUser matches what a URI may have before its host, which does not belong in a log.
var uriUser = regexp.MustCompile("(?s)//.*@")

// Describe returns the error text with another name for the member.
func (e *RegistrationError) Describe(member string) string {
	if e.Value != "" {
		return fmt.Sprintf("%s %q: %s", member, uriUser.ReplaceAllString(e.Value, "//...@"), e.Reason)
	}
	return member + ": " + e.Reason
}

// Normalize brings a registration into the form that is checked and stored: a trimmed name, lists
// without duplicates, and openid among the scopes.
func (c *Client) Normalize() {
	if name, err := account.CheckDisplayName(c.Name); err == nil {
		c.Name = name
	}
	if !slices.Contains(c.Scopes, "openid") {
		c.Scopes = append([]string{"openid"}, c.Scopes...)
	}
	for _, list := range []*[]string{
		&c.RedirectURIs, &c.PostLogoutRedirectURIs, &c.Scopes, &c.Groups, &c.OptionalScopes, &c.Claims, &c.ClaimIn,
		&c.RequireFlags,
	} {
		var distinct []string
		for _, s := range *list {
			if !slices.Contains(distinct, s) {
				distinct = append(distinct, s)
			}
		}
		*list = distinct
	}
}

var clientIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Check validates the whole registration. The store calls it on every write. The error is a
// *RegistrationError.
func (c *Client) Check() error {
	if c.Document {
		if err := c.checkDocument(); err != nil {
			return err
		}
	}
	for _, check := range []func() error{
		c.checkName, c.checkURIs, c.checkScopes, c.checkAuthentication, c.checkTokens, c.checkProfile,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) checkName() error {
	if !c.Document && !clientIDForm.MatchString(c.ID) {
		return &RegistrationError{"client_id", "", "1 to 64 letters, digits, - or _"}
	}
	if strings.EqualFold(c.ID, account.SessionAudience) {
		// Its ID tokens would be valid session cookies.
		return &RegistrationError{"client_id", c.ID,
			"this is the audience of the session cookie and cannot be a client: choose another id"}
	}
	if name, err := account.CheckDisplayName(c.Name); err != nil || name != c.Name {
		return &RegistrationError{"client_name", "",
			"1 to 60 characters, without control characters, and no space at its ends"}
	}
	return nil
}

func (c *Client) checkURIs() error {
	if len(c.RedirectURIs) == 0 && !c.ClientCredentials && !c.DeviceGrant {
		return &RegistrationError{"redirect_uris", "",
			"at least one is needed: where the application receives its answers"}
	}
	for _, uri := range c.RedirectURIs {
		err := CheckRedirectURI(uri, c.AllowInsecureRedirect)
		if e, ok := errors.AsType[*insecureURI](err); ok && c.Document {
			err = errors.New(e.reason)
		}
		if err != nil {
			return &RegistrationError{"redirect_uris", uri, err.Error()}
		}
	}
	for _, uri := range c.PostLogoutRedirectURIs {
		if err := checkPostLogoutURI(uri, c.AllowInsecureRedirect); err != nil {
			return &RegistrationError{"post_logout_redirect_uris", uri, err.Error()}
		}
	}
	if c.HomeURI != "" {
		if err := checkHomeURI("home URI", c.HomeURI, c.AllowInsecureRedirect); err != nil {
			return &RegistrationError{"client_uri", c.HomeURI, err.Error()}
		}
	}
	if c.InitiateLoginURI != "" {
		if err := checkHomeURI("login URI", c.InitiateLoginURI, c.AllowInsecureRedirect); err != nil {
			return &RegistrationError{"initiate_login_uri", c.InitiateLoginURI, err.Error()}
		}
	}
	if c.BackchannelLogoutURI != "" {
		if err := CheckBackchannelLogoutURI(c.BackchannelLogoutURI, c.BackchannelPrivate); err != nil {
			return &RegistrationError{"backchannel_logout_uri", c.BackchannelLogoutURI, err.Error()}
		}
	}
	return nil
}

func (c *Client) checkScopes() error {
	for _, s := range c.Scopes {
		if !slices.Contains(Scopes, s) {
			return &RegistrationError{"scopes", s, "the scopes are " + strings.Join(Scopes, ", ")}
		}
	}
	for _, s := range c.OptionalScopes {
		// The store knows whether another one is of an API.
		if s == "openid" || slices.Contains(Scopes, s) && !slices.Contains(c.Scopes, s) {
			return &RegistrationError{"optional_scopes", s,
				"only scopes of the client and of APIs can be optional, and openid cannot"}
		}
	}
	const form = "a permission is a letter a-z and up to 31 of a-z, 0-9, - and _"
	for _, f := range c.RequireFlags {
		if account.CheckFlag(f) != nil {
			return &RegistrationError{"require_flags", f, form}
		}
	}
	if c.RequireAll && len(c.RequireFlags) == 0 {
		return &RegistrationError{"require_all", "",
			"there is no required flag: name those that people need all of, or turn it off"}
	}
	for _, place := range c.ClaimIn {
		if !slices.Contains([]string{claimInIDToken, claimInUserInfo, claimInAccessToken}, place) {
			return &RegistrationError{"claim_in", place, "the places are id_token, userinfo and access_token"}
		}
	}
	if err := checkClaimRules(c.Claims); err != nil {
		return err
	}
	if !slices.Contains([]string{"", account.ACRTwoFactors, account.ACRPhishingResistant}, c.RequireACR) {
		return &RegistrationError{"require_acr", c.RequireACR, "the classes are 2 (two factors) and phr (a passkey)"}
	}
	for _, f := range c.Groups {
		if account.CheckFlag(f) != nil {
			return &RegistrationError{"groups", f, form}
		}
	}
	return nil
}

func (c *Client) checkAuthentication() error {
	methods := []string{AuthAny, AuthBasic, AuthPost, AuthNone, AuthJWT}
	switch {
	case !slices.Contains(methods, c.AuthMethod):
		reason := "the methods are " + strings.Join(methods, ", ")
		return &RegistrationError{"token_endpoint_auth_method", c.AuthMethod, reason}
	case c.AuthMethod == AuthJWT && len(c.JWKS) == 0:
		return &RegistrationError{"jwks", "", "the client's public keys are needed with private_key_jwt"}
	}
	if len(c.JWKS) > 0 {
		if _, err := CheckClientKeys(c.JWKS); err != nil {
			return &RegistrationError{"jwks", "", err.Error()}
		}
	}
	return nil
}

func (c *Client) checkTokens() error {
	switch {
	case !slices.Contains(signingAlgorithms, jose.SignatureAlgorithm(c.IDTokenAlgorithm())):
		const reason = "the algorithms are RS256, ES256 and EdDSA"
		return &RegistrationError{"id_token_signed_response_alg", c.IDTokenAlg, reason}
	case !within(c.AccessLifetime, minAccessLifetime, MaxAPILifetime):
		return &RegistrationError{"access_token_lifetime_seconds", "", "5m to 24h, or 0s for the usual hour"}
	case !within(c.RefreshLifetime, minRefreshLifetime, maxRefreshLifetime):
		return &RegistrationError{"refresh_token_lifetime_seconds", "", "1d to 90d, or 0s for the usual 30 days"}
	case !within(c.RefreshMaxLifetime, c.refreshLifetime(), maxRefreshChain):
		return &RegistrationError{"refresh_token_max_lifetime_seconds", "",
			"at most 365d, and not less than the lifetime of a refresh token, or 0s for no end"}
	case !within(c.RefreshGrace, 0, maxRefreshGrace):
		return &RegistrationError{"refresh_grace_seconds", "",
			fmt.Sprintf("whole seconds, at most %s", maxRefreshGrace)}
	case c.RefreshGrace > 0 && c.IsPublic():
		return &RegistrationError{"refresh_grace_seconds", "",
			"only for confidential clients: without a secret a stolen refresh token would work twice"}
	case c.ClientCredentials && c.IsPublic():
		return &RegistrationError{"client_credentials", "",
			"only for confidential clients: anyone could ask in the name of a public one"}
	}
	return nil
}

const (
	minAccessLifetime  = 5 * time.Minute
	minRefreshLifetime = 24 * time.Hour
	maxRefreshLifetime = 90 * 24 * time.Hour
	maxRefreshChain    = 365 * 24 * time.Hour
)

// within reports whether a lifetime is in whole seconds and between two others, or 0.
func within(d, low, high time.Duration) bool {
	return d == 0 || d >= low && d <= high && d%time.Second == 0
}

// accessLifetime returns how long an access token lives, unless an API has it shorter.
func (c *Client) accessLifetime() time.Duration { return cmp.Or(c.AccessLifetime, AccessTokenLifetime) }

func (c *Client) refreshLifetime() time.Duration {
	return cmp.Or(c.RefreshLifetime, refreshTokenLifetime)
}

// refreshUntil returns when a refresh token of a grant ends that should live until then.
func (c *Client) refreshUntil(then time.Time, g *Grant) time.Time {
	last := g.CreatedAt.Add(c.RefreshMaxLifetime)
	if c.RefreshMaxLifetime == 0 || then.Before(last) {
		return then
	}
	return last
}

// CheckFlags checks that the settings have the flags and attributes of the registration. The error is a
// *RegistrationError.
func (c *Client) CheckFlags(v account.Settings) error {
	unknown := func(f string) bool { return !slices.Contains(v.Flags, f) }
	if i := slices.IndexFunc(c.Groups, unknown); i >= 0 {
		return &RegistrationError{"groups", "", fmt.Sprintf(noSuchFlag, c.Groups[i])}
	}
	if i := slices.IndexFunc(c.RequireFlags, unknown); i >= 0 {
		return &RegistrationError{"require_flags", "", fmt.Sprintf(noSuchFlag, c.RequireFlags[i])}
	}
	return checkClaims(c.Claims, v)
}

// admits reports whether a user has the flags that the client requires.
func (c *Client) admits(u account.User) bool {
	return account.HasFlags(u, c.RequireFlags, c.RequireAll)
}

// lacksEmail reports whether a user needs a verified address first.
func (c *Client) lacksEmail(u account.User) bool { return c.RequireVerifiedEmail && !u.EmailVerified }

// Demands returns what the client requires of its users, to be compared.
func (c *Client) Demands() string {
	return fmt.Sprint(c.RequireFlags, c.RequireAll, c.RequireACR, c.RequireVerifiedEmail)
}

// RequiredFlags names the flags that the client requires, for messages.
func (c *Client) RequiredFlags() string {
	if c.RequireAll {
		return strings.Join(c.RequireFlags, " and ")
	}
	return strings.Join(c.RequireFlags, " or ")
}

// Warnings returns advice about a registration that is valid but risky.
func (c *Client) Warnings() []string {
	var out []string
	for _, uri := range c.RedirectURIs {
		if c.anyPortOfLocalhost(uri) {
			out = append(out, uri+" matches any port of localhost, a name that can resolve to another address: "+
				"http://127.0.0.1 and http://[::1] cannot (RFC 8252 section 8.3)")
		}
	}
	return append(out, c.ClaimWarnings()...)
}

// ClaimWarnings returns those of Warnings that are about the client's own claims.
func (c *Client) ClaimWarnings() []string { return claimWarnings(c.Claims) }

// clientTTL is how long changes by another process (the command line) may go unnoticed.
const clientTTL = 5 * time.Second

// client returns a client or ErrClientNotFound, and names it in the log line. Unknown ids are not cached, so that a new
// client works at once.
func (rs *rules) client(ctx context.Context, id string) (*Client, error) {
	find := rs.clients.GetFresh
	if strings.HasPrefix(id, "https://") {
		find = rs.documentClient
	}
	c, err := find(ctx, id)
	if err == nil {
		web.NoteClient(ctx, id)
	}
	return c, err
}

package provider

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// Bounds of the lifetime of an API's access tokens.
const (
	minAPILifetime = time.Minute
	MaxAPILifetime = 24 * time.Hour
)

// API is a protected resource of another application (RFC 8707), registered by the operator.
type API struct {
	URI      string         `json:"resource"` // its name in resource and aud
	Name     string         `json:"name"`
	ID       string         `json:"-"` // authenticates it at introspection
	Secrets  []ClientSecret `json:"-"`
	Scopes   []APIScope     `json:"scopes"`
	Opaque   bool           `json:"opaque"`   // its access tokens are opaque, not JWTs
	Lifetime time.Duration  `json:"lifetime"` // of its access tokens, whole seconds
	// Algorithm signs its JWTs: RS256, ES256 or EdDSA. Empty means ES256 if there is a key for
	// it, else RS256.
	Algorithm  string    `json:"alg"`
	Claims     []string  `json:"claims"` // rules for claims of its tokens: see ownclaims.go
	AllClients bool      `json:"all_clients"`
	Clients    []string  `json:"clients"` // ids of the clients that may use it, unless AllClients
	CreatedAt  time.Time `json:"-"`
	Managed    bool      `json:"managed,omitempty"` // registered by an apply, which may remove it
}

// APIScope is a scope of one API, with its sentence on the consent page.
type APIScope struct {
	Name     string `json:"name"`
	Sentence string `json:"sentence"`
}

// Errors of what changes an API.
var (
	ErrAPINotFound = storageRefusal("API not found")
	ErrAPIExists   = storageRefusal("API registered already")
	// ErrSecretOverlap: an API has at most two secrets, and the previous one still works.
	ErrSecretOverlap = storageRefusal("the previous secret still works")
)

// NewAPI returns a registration with the defaults, and its secret, which is shown once.
func NewAPI(uri, name string, now time.Time) (a *API, secret string) {
	secret, stored := NewSecret(now)
	return &API{
		URI: uri, Name: name, ID: "api-" + randomText(12), Secrets: []ClientSecret{stored},
		Lifetime: AccessTokenLifetime, CreatedAt: now.UTC().Truncate(time.Second),
	}, secret
}

var apiScopeForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$`)

// Check validates the registration. The error is a *RegistrationError.
func (a *API) Check() error {
	wrong := func(member, value, reason string, args ...any) error {
		return &RegistrationError{member, value, fmt.Sprintf(reason, args...)}
	}
	u, err := checkURI("URI of an API", a.URI, "\\<>\"{}|^`")
	switch {
	case err != nil:
		return wrong("resource", a.URI, "%s", err)
	case !slices.Contains([]string{"https", "http", "urn"}, u.Scheme) || u.Scheme != "urn" && u.Host == "":
		return wrong("resource", a.URI, "not an https, http or urn URI such as https://api.example.org")
	case u.RawQuery != "" || u.ForceQuery:
		return wrong("resource", a.URI, "an API URI has no query: remove ? and what follows (RFC 8707 section 2)")
	}
	if name, err := account.CheckDisplayName(a.Name); err != nil || name != a.Name {
		return wrong("name", "", "1 to 60 characters, without control characters, and no space at its ends")
	}
	for i, s := range a.Scopes {
		sentence, err := account.CheckDisplayName(s.Sentence)
		switch {
		case !apiScopeForm.MatchString(s.Name) || strings.Contains(s.Name, "://"):
			return wrong("scopes", s.Name, "1 to 64 letters, digits and . _ : / -, and not an address")
		case slices.Contains(Scopes, s.Name):
			return wrong("scopes", s.Name, "this is a scope of OpenID Connect: choose another name")
		case slices.ContainsFunc(a.Scopes[:i], func(o APIScope) bool { return o.Name == s.Name }):
			return wrong("scopes", s.Name, "it is given twice")
		case err != nil || sentence != s.Sentence:
			const reason = "its sentence needs 1 to 60 characters, without control characters, and no space at its ends"
			return wrong("scopes", s.Name, reason)
		}
	}
	switch {
	case a.Lifetime < minAPILifetime || a.Lifetime > MaxAPILifetime || a.Lifetime%time.Second != 0:
		return wrong("lifetime", "", "whole seconds, from one minute to 24 hours")
	case a.Algorithm != "" && !slices.Contains(signingAlgorithms, jose.SignatureAlgorithm(a.Algorithm)):
		return wrong("alg", a.Algorithm, "the algorithms are RS256, ES256 and EdDSA")
	case a.AllClients && len(a.Clients) > 0:
		return wrong("clients", "", "name clients or let all in, not both")
	}
	return checkClaimRules(a.Claims)
}

// Warnings returns what is allowed, but dangerous, in the words of the command's flags.
func (a *API) Warnings() []string { return claimWarnings(a.Claims) }

// Admits reports whether a client may request tokens for the API. AllClients does not include
// clients that bring their own description.
func (a *API) Admits(c *Client) bool {
	return a.AllClients && !c.Document || slices.Contains(a.Clients, c.ID) || slices.Contains(c.APIs, a.URI)
}

func (a *API) hasScope(name string) bool {
	return slices.ContainsFunc(a.Scopes, func(s APIScope) bool { return s.Name == name })
}

// apis is a list of the registered APIs that a client may use.
type apis []*API

func (list apis) find(uri string) *API {
	if i := slices.IndexFunc(list, func(a *API) bool { return a.URI == uri }); i >= 0 {
		return list[i]
	}
	return nil
}

// owner returns the API that defines the scope, or nil.
func (list apis) owner(scope string) *API {
	if i := slices.IndexFunc(list, func(a *API) bool { return a.hasScope(scope) }); i >= 0 {
		return list[i]
	}
	return nil
}

// uses returns the URIs of the APIs that are named or that a scope implies, in the order of the
// list.
func (list apis) uses(resources, scopes []string) (uris []string) {
	for _, a := range list {
		if slices.Contains(resources, a.URI) || slices.ContainsFunc(scopes, a.hasScope) {
			uris = append(uris, a.URI)
		}
	}
	return uris
}

func (rs *rules) apisOf(ctx context.Context, c *Client) (apis, error) {
	all, err := rs.apis.GetFresh(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("read APIs: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(all), func(a *API) bool { return !a.Admits(c) }), nil
}

type accessTarget struct {
	apis     apis     // empty: userinfo only
	scopes   []string // of this token
	narrowed bool     // scopes differ from those of the grant
	audience []string // empty: userinfo only
	lifetime time.Duration
	jkt      string // thumbprint of the key that it is bound to, empty for a bearer token
}

// target returns the target of an access token for the grant: the APIs of the grant, or the
// subset that resource and, at a refresh, scope name (RFC 8707 section 2.2). APIs that were
// removed or that the client may no longer use are skipped.
func (p *Provider) target(ctx context.Context, form url.Values, x *exchange, g *Grant) (*accessTarget, error) {
	t := &accessTarget{scopes: x.client.scopesLeft(g), lifetime: x.client.accessLifetime(), jkt: x.jkt}
	var asked []string
	if form.Get("grant_type") == "refresh_token" {
		asked = strings.Fields(form.Get("scope"))
	}
	if len(asked) > 0 {
		t.scopes = intersect(t.scopes, asked) // each scope once
		t.narrowed = !slices.Equal(t.scopes, g.Scopes)
	}
	if len(g.Resources) == 0 {
		if len(form["resource"]) > 0 {
			return nil, errInvalidTarget
		}
		return t, nil
	}
	usable, err := p.apisOf(ctx, x.client)
	if err != nil {
		return nil, err
	}
	requested := g.Resources
	if len(asked) > 0 {
		requested = usable.uses(nil, asked)
	}
	if named := form["resource"]; len(named) > 0 {
		if slices.ContainsFunc(named, func(uri string) bool {
			return !slices.Contains(g.Resources, uri) || usable.find(uri) == nil
		}) {
			return nil, errInvalidTarget
		}
		requested = named
	}
	for _, a := range usable {
		if slices.Contains(requested, a.URI) && slices.Contains(g.Resources, a.URI) {
			t.apis = append(t.apis, a)
		}
	}
	t.scopes = slices.DeleteFunc(slices.Clone(t.scopes), func(s string) bool {
		return !slices.Contains(Scopes, s) && t.apis.owner(s) == nil
	})
	t.narrowed = !slices.Equal(t.scopes, g.Scopes)
	return t, p.setAudience(t, x.client)
}

// setAudience sets the audience and the lifetime of a token for APIs, and checks that a key can
// sign it. With the scope openid the token is for userinfo too (RFC 9068 section 3).
func (p *Provider) setAudience(t *accessTarget, c *Client) error {
	if len(t.apis) == 0 {
		return nil
	}
	t.lifetime = cmp.Or(c.AccessLifetime, MaxAPILifetime)
	for _, a := range t.apis {
		t.audience = append(t.audience, a.URI)
		t.lifetime = min(t.lifetime, a.Lifetime)
	}
	if slices.Contains(t.scopes, "openid") {
		t.audience = append(t.audience, p.userinfoURI())
	}
	if t.opaque() {
		return nil
	}
	_, err := p.accessTokens.signerFor(t)
	return err
}

func (p *Provider) userinfoURI() string { return p.issuer + "/oauth2/userinfo" }

// opaque reports whether the token is opaque, so that APIs must introspect it.
func (t *accessTarget) opaque() bool {
	return len(t.apis) == 0 || slices.ContainsFunc(t.apis, func(a *API) bool { return a.Opaque })
}

func (t *accessTarget) stored(signature string, now time.Time) Token {
	return Token{
		Signature: signature, Expires: now.Add(t.lifetime), Audience: t.audience,
		Narrowed: t.narrowed, Scopes: t.scopes, JKT: t.jkt,
	}
}

// accessTokenSigner signs and verifies JWT access tokens (RFC 9068).
type accessTokenSigner struct {
	issuer string
	signers
	public []jose.JSONWebKey
}

const accessTokenType = "at+jwt"

// signerFor returns the signer for the algorithm of the first API.
func (s *accessTokenSigner) signerFor(t *accessTarget) (jose.Signer, error) {
	algorithm := t.apis[0].Algorithm
	if algorithm == "" {
		algorithm = string(jose.ES256)
		if s.signers[algorithm] == nil {
			algorithm = string(jose.RS256)
		}
	}
	if signer := s.signers[algorithm]; signer != nil {
		return signer, nil
	}
	return nil, fmt.Errorf("API %s, %s: %w", t.apis[0].URI, algorithm, errNoKey)
}

// sign makes the access token of a grant. id becomes the jti, which finds the token again.
func (s *accessTokenSigner) sign(
	t *accessTarget, g *Grant, c *Client, u account.User, id string, now time.Time,
) (string, error) {
	claims := map[string]any{
		"iss": s.issuer, "sub": g.ClientID, "aud": jwt.Audience(t.audience), "client_id": g.ClientID, "jti": id,
		"iat": now.Unix(), "exp": now.Add(t.lifetime).Unix(), "scope": strings.Join(t.scopes, " "),
		"status": account.StatusClaim(s.issuer, g.StatusList, g.StatusIndex),
	}
	if g.Sub != "" {
		claims["sub"], claims["auth_time"] = g.Sub, g.AuthTime.Unix()
		claims["acr"], claims["amr"] = g.class(), g.methods()
		if slices.Contains(t.scopes, "groups") {
			claims["groups"] = append([]string{}, c.groupsOf(u)...)
		}
	}
	for name, v := range t.apis.ownClaims(u, c, g) {
		if claims[name] == nil {
			claims[name] = v
		}
	}
	if len(t.audience) == 1 {
		claims["aud"] = t.audience[0]
	}
	if t.jkt != "" {
		claims["cnf"] = confirmation(t.jkt)
	}
	signer, err := s.signerFor(t)
	if err != nil {
		return "", err
	}
	return signed(signer, claims, "access token")
}

// id returns the jti of a genuine JWT access token, of any age, and "" for anything else.
func (s *accessTokenSigner) id(token string) string {
	t, err := jwt.ParseSigned(token, signingAlgorithms)
	if err != nil || t.Headers[0].ExtraHeaders[jose.HeaderType] != accessTokenType {
		return ""
	}
	for _, k := range s.public {
		var c jwt.Claims
		if t.Headers[0].KeyID == k.KeyID && t.Claims(k.Key, &c) == nil && c.Issuer == s.issuer {
			return c.ID
		}
	}
	return ""
}

// introspector returns the API whose id and secret the request presents, or nil if the id is not
// an API's.
func (p *Provider) introspector(r *http.Request) (*API, error) {
	given, err := presentedCredentials(r, r.PostForm)
	if err != nil {
		return nil, err
	}
	all, err := p.apis.GetFresh(r.Context(), "")
	if err != nil {
		return nil, fmt.Errorf("read APIs: %w", err)
	}
	i := slices.IndexFunc(all, func(a *API) bool { return a.ID == given.id })
	if i < 0 {
		return nil, nil
	}
	web.NoteClient(r.Context(), given.id)
	if why := given.fault(all[i].Secrets, p.clock()); why != "" {
		return nil, errInvalidClient.because(why, "")
	}
	return all[i], nil
}

// Package provider is the OpenID Connect provider: discovery, key set,
// authorization, pushed requests, token, userinfo, revocation, introspection and
// logout endpoints, on fosite as request and grant state machine.
//
// What fosite does not do, or does wrongly, is done here: prompts, consent,
// error pages, the iss parameter, ID tokens, bearer tokens at userinfo. Who a
// request comes from is package account's business; how grants are stored is
// package store's (Storage).
package provider

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/mux"
	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
	"github.com/ory/fosite/handler/openid"
	"github.com/ory/fosite/handler/pkce"
	"github.com/ory/fosite/token/hmac"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// Lifetimes of what the provider gives out.
const (
	CodeLifetime         = time.Minute
	AccessTokenLifetime  = time.Hour
	RefreshTokenLifetime = 30 * 24 * time.Hour // sliding: each rotation starts it anew
	IDTokenLifetime      = time.Hour
)

// Options are what a Provider is made of. All but Limits, Logouts, Pushed,
// Assertions, Now and Log are required.
type Options struct {
	Accounts *account.Service
	Storage  Storage
	Issuer   string
	Keys     []jose.JSONWebKey // the first signs, all are published
	Secret   []byte            // installation secret, at least 32 bytes; never the shared HS256 secret
	Limits   *web.Limits
	Logouts  LogoutOutbox // nil: no back-channel logout
	// Pushed and Assertions may be nil: no pushed requests, no private_key_jwt.
	Pushed     PushedRequests
	Assertions Assertions
	Now        func() time.Time
	Log        *slog.Logger
}

// Provider serves the OpenID Connect endpoints. Safe for concurrent use.
type Provider struct {
	accounts   *account.Service
	storage    Storage
	clients    *clientCache
	fosite     *fosite.Fosite
	tokens     tokenStrategy
	issuer     string
	idTokens   *idTokenSigner
	seal       *sealer
	limits     *web.Limits
	logouts    *LogoutSender
	pushed     PushedRequests
	assertions Assertions
	clock      func() time.Time
	log        *slog.Logger
}

// New makes a Provider.
func New(o Options) (*Provider, error) {
	if len(o.Keys) == 0 {
		return nil, errors.New("the provider needs a private key")
	}
	if len(o.Secret) < 32 {
		return nil, errors.New("the installation secret is shorter than 32 bytes")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	p := &Provider{
		accounts: o.Accounts, storage: o.Storage, clients: newClientCache(o.Storage, o.Now), issuer: o.Issuer,
		limits: o.Limits, pushed: o.Pushed, assertions: o.Assertions, clock: o.Now, log: o.Log,
	}
	var err error
	if p.idTokens, err = newIDTokenSigner(o.Issuer, o.Keys, o.Now); err != nil {
		return nil, err
	}
	if p.seal, err = newSealer(o.Secret, o.Now); err != nil {
		return nil, err
	}
	if o.Logouts != nil {
		if p.logouts, err = newLogoutSender(o, p.clients); err != nil {
			return nil, err
		}
	}
	// fosite uses the first 32 bytes only: exactly that many, and of a key that
	// nothing else uses.
	global, err := hkdf.Key(sha256.New, o.Secret, nil, "cairn oauth2 tokens", 32)
	if err != nil {
		return nil, fmt.Errorf("derive token key: %w", err)
	}
	config := p.config(global)
	p.tokens = tokenStrategy{oauth2.NewHMACSHAStrategyUnPrefixed(&hmac.HMACStrategy{Config: config}, config)}
	p.wire(config)
	p.fosite = fosite.NewOAuth2Provider(p.clients, config)
	return p, nil
}

// config sets every field that fosite would otherwise fill in lazily, which
// is a data race.
func (p *Provider) config(global []byte) *fosite.Config {
	return &fosite.Config{
		AccessTokenLifespan: AccessTokenLifetime, RefreshTokenLifespan: RefreshTokenLifetime, AuthorizeCodeLifespan: CodeLifetime,
		IDTokenLifespan: IDTokenLifetime, VerifiableCredentialsNonceLifespan: time.Minute,
		IDTokenIssuer: p.issuer, AccessTokenIssuer: p.issuer, TokenURL: p.issuer + "/oauth2/token",
		HashCost: 12, ClientSecretsHasher: secretHasher{}, ClientAuthenticationStrategy: p.authenticateClient,
		DisableRefreshTokenValidation: true, SendDebugMessagesToClients: false,
		ScopeStrategy: fosite.ExactScopeStrategy, AudienceMatchingStrategy: fosite.ExactAudienceMatchingStrategy,
		EnforcePKCE: false, EnforcePKCEForPublicClients: true, EnablePKCEPlainChallengeMethod: false,
		AllowedPromptValues: []string{"none", "login", "consent", "select_account"},
		JWKSFetcherStrategy: noKeyFetch{}, TokenEntropy: 32, MinParameterEntropy: 1,
		RedirectSecureChecker: secureRedirect, RefreshTokenScopes: []string{"offline_access"},
		OmitRedirectScopeParam: true, GrantTypeJWTBearerMaxDuration: time.Minute,
		ResponseModeHandlerExtension: &fosite.DefaultResponseModeHandler{}, MessageCatalog: nil,
		FormPostHTMLTemplate: fosite.DefaultFormPostTemplate, HTTPClient: noFetch(),
		// A literal: fosite appends to it at every request, so its capacity must
		// be its length.
		SanitationWhiteList: []string{"redirect_uri", "code_challenge", "code_challenge_method", "nonce"},
		GlobalSecret:        global, RotatedGlobalSecrets: [][]byte{}, HMACHasher: sha512.New512_256,
		PushedAuthorizeRequestURIPrefix: "urn:ietf:params:oauth:request_uri:", PushedAuthorizeContextLifespan: time.Minute,
	}
}

// wire lists the handlers. The order matters: the code before what needs it.
func (p *Provider) wire(c *fosite.Config) {
	helper := &openid.IDTokenHandleHelper{IDTokenStrategy: p.idTokens}
	code := &oauth2.AuthorizeExplicitGrantHandler{
		AccessTokenStrategy: p.tokens, RefreshTokenStrategy: p.tokens, AuthorizeCodeStrategy: p.tokens,
		CoreStorage: reuseGuard{p.storage}, TokenRevocationStorage: reuseGuard{p.storage}, Config: c,
	}
	oidc := &openid.OpenIDConnectExplicitHandler{
		OpenIDConnectRequestStorage:   p.storage,
		OpenIDConnectRequestValidator: openid.NewOpenIDConnectRequestValidator(nil, c),
		IDTokenHandleHelper:           helper, Config: c,
	}
	proof := &pkce.Handler{AuthorizeCodeStrategy: p.tokens, Storage: p.storage, Config: c}
	refresh := &oauth2.RefreshTokenGrantHandler{
		AccessTokenStrategy: p.tokens, RefreshTokenStrategy: p.tokens, TokenRevocationStorage: reuseGuard{p.storage}, Config: c,
	}
	c.AuthorizeEndpointHandlers = fosite.AuthorizeEndpointHandlers{code, oidc, proof}
	c.TokenEndpointHandlers = fosite.TokenEndpointHandlers{
		code, oidc, proof, refresh, &openid.OpenIDConnectRefreshHandler{IDTokenHandleHelper: helper, Config: c},
		clientCredentials{tokens: p.tokens, storage: p.storage, now: p.clock},
	}
	c.TokenIntrospectionHandlers = fosite.TokenIntrospectionHandlers{}
	c.RevocationHandlers = fosite.RevocationHandlers{}
	c.PushedAuthorizeEndpointHandlers = fosite.PushedAuthorizeEndpointHandlers{}
}

// Mount registers the endpoints on the router of the base path.
func (p *Provider) Mount(m *mux.Router) {
	a := p.accounts
	a.NameApplications(p.applicationName)
	p.mountMetadata(m)
	a.Handle(m, "/oauth2/authorize", web.Methods{"GET": p.notHead(p.authorize), "POST": p.authorize})
	a.Handle(m, "/oauth2/consent", web.Methods{"GET": p.consentPage, "POST": p.consentForm})
	a.Handle(m, "/oauth2/logout", web.Methods{"GET": p.notHead(p.endSession), "POST": p.endSession})
	m.HandleFunc("/oauth2/token", p.token)
	m.HandleFunc("/oauth2/userinfo", p.userinfo)
	m.HandleFunc("/oauth2/revoke", p.revoke)
	m.HandleFunc("/oauth2/introspect", p.introspect)
	if p.pushed != nil {
		m.HandleFunc("/oauth2/par", p.pushRequest)
	}
}

// notHead refuses HEAD where a GET spends something: a code or a pushed
// request is issued, a session ends. Programs that check links send it.
func (p *Provider) notHead(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Allow", "GET, POST")
			p.accounts.WriteProblem(w, r, web.NewProblem(http.StatusMethodNotAllowed, "method_not_allowed", "This address does not answer to the method of the request."))
			return
		}
		h(w, r)
	}
}

// MountDisabled answers the endpoints of an installation without a private
// key: 404 that says how to turn them on.
func MountDisabled(m *mux.Router, a *account.Service) {
	h := func(w http.ResponseWriter, r *http.Request) {
		a.WriteProblem(w, r, web.NewProblem(http.StatusNotFound, "oidc_disabled",
			"OpenID Connect is off here. The operator turns it on with a private key: cairn keys generate FILE, then the line private-key-file: FILE in cairn.yaml (or SERVICE_OIDC_PRIVATE_KEY_FILE=FILE) and a restart."))
	}
	for _, path := range []string{
		"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/jwks.json",
		"/oauth2/authorize", "/oauth2/consent", "/oauth2/logout", "/oauth2/token", "/oauth2/userinfo", "/oauth2/revoke", "/oauth2/introspect", "/oauth2/par",
	} {
		m.HandleFunc(path, h)
	}
}

// now is the current time in whole UTC seconds.
func (p *Provider) now() time.Time { return p.clock().UTC().Truncate(time.Second) }

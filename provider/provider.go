// Package provider is the OpenID Connect provider: the endpoints for discovery, key set,
// authorization, pushed requests, token, userinfo, revocation, introspection and logout. It uses
// fosite as the state machine for requests and grants.
//
// The package implements what fosite lacks or does wrongly: prompts, consent, error pages, the
// iss parameter, ID tokens, bearer tokens at userinfo. Package account identifies the user of a
// request; package store implements Storage.
package provider

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
)

// Lifetimes of codes and tokens.
const (
	codeLifetime         = time.Minute
	AccessTokenLifetime  = time.Hour
	refreshTokenLifetime = 30 * 24 * time.Hour // sliding: each rotation restarts it
	idTokenLifetime      = time.Hour
)

// Options configures a Provider. All fields but Signer, Limits and DocumentRoots are required.
type Options struct {
	Accounts *site.Site
	Storage  Storage
	Issuer   string
	Keys     []jose.JSONWebKey // the first private one of each algorithm signs, RS256 comes first; all are published
	Signer   jose.OpaqueSigner // signs in place of the first key; nil: the key itself
	Secret   []byte            // installation secret, at least 32 bytes; never the shared HS256 secret
	Limits   *web.Limits
	// RequirePushed refuses authorization requests that were not pushed (RFC 9126 section 5,
	// require_pushed_authorization_requests).
	RequirePushed bool
	Now           func() time.Time
	Log           *slog.Logger
	// DocumentRoots is for tests: descriptions of clients may come from private addresses with
	// certificates of these roots.
	DocumentRoots *x509.CertPool
}

// Provider serves the OpenID Connect endpoints. Safe for concurrent use.
type Provider struct {
	rules
	accounts *site.Site
	fositeEngine
	idTokens     *idTokenSigner
	accessTokens *accessTokenSigner
	seal         *web.Sealer
	limits       *web.Limits
	logouts      *logoutSender
}

// rules check authorization requests. Explain has them without a Provider: they need neither
// private keys nor the accounts of a request.
type rules struct {
	storage       Storage
	issuer        string
	public        []jose.JSONWebKey // all keys
	requirePushed bool
	needsFactor   func(context.Context, account.User) (bool, error) // by the settings
	clock         func() time.Time
	log           *slog.Logger

	clients    *web.Cache[*Client]
	apis       *web.Cache[apis]
	allowances *web.Cache[[]Allowance]
	documents  *documents
}

func newRules(o Options, needsFactor func(context.Context, account.User) (bool, error)) rules {
	rs := rules{
		storage: o.Storage, issuer: o.Issuer, requirePushed: o.RequirePushed, needsFactor: needsFactor,
		clock: o.Now, log: o.Log,
	}
	for _, k := range o.Keys {
		rs.public = append(rs.public, k.Public())
	}
	rs.clients = web.NewCache(clientTTL, o.Now, o.Storage.Client)
	rs.apis = web.NewCache(clientTTL, o.Now, func(ctx context.Context, _ string) (apis, error) {
		return o.Storage.APIs(ctx)
	})
	rs.allowances = web.NewCache(clientTTL, o.Now, func(ctx context.Context, _ string) ([]Allowance, error) {
		return o.Storage.Allowances(ctx)
	})
	rs.documents = newDocuments(o.Now, o.Log, o.DocumentRoots)
	return rs
}

// Purposes of sealed values. See sealLifetimes.
const (
	purposeContinue = "continue"         // an authorization request on its way through login or consent
	purposeForm     = "consent form"     // proves that the consent form was shown to this session
	purposeChoice   = "account choice"   // proves that the sign-in page offered this session's account
	purposeDecision = "consent decision" // carries the user's decision back to authorize
	purposeLogout   = "logout"           // proves that the sign-out page was shown to this session
	purposeNonce    = "dpop nonce"       // when the nonce for a DPoP proof was issued
)

// A page may be left open, so requests live on: see authorization.stale. The form of the sign-out page
// names its session and works as long as it.
const pageLifetime = 30 * 24 * time.Hour

var sealLifetimes = map[string]time.Duration{
	purposeContinue: pageLifetime, purposeForm: requestLifetime, purposeChoice: pageLifetime,
	purposeDecision: 2 * time.Minute,
	purposeLogout:   pageLifetime, purposeNonce: nonceLifetime,
}

// New returns a Provider.
func New(o Options) (*Provider, error) {
	p := &Provider{rules: newRules(o, o.Accounts.NeedsSecondFactor), accounts: o.Accounts, limits: o.Limits}
	var err error
	if p.idTokens, err = newIDTokenSigner(o.Issuer, o.Keys, o.Signer, p.now); err != nil {
		return nil, err
	}
	accessSigners, err := newSigners(accessTokenType, o.Keys, o.Signer)
	if err != nil {
		return nil, err
	}
	p.accessTokens = &accessTokenSigner{o.Issuer, accessSigners, p.public}
	if p.seal, err = web.NewSealer(o.Secret, sealLifetimes, o.Now); err != nil {
		return nil, err
	}
	if p.logouts, err = p.newLogoutSender(o.Keys, o.Signer); err != nil {
		return nil, err
	}
	return p, p.newFosite(o.Secret)
}

// Mount registers the endpoints on the router of the base path.
func (p *Provider) Mount(m *mux.Router) {
	a := p.accounts
	a.NameApplications(p.application)
	a.OfferAccount(p.sealChoice)
	a.DescribeScopes(p.scopeTexts)
	p.mountMetadata(m)
	browser := p.forBrowsers
	authorize := browser(keepOpener(p.authorize))
	a.Handle(m, "/oauth2/authorize", web.Methods{"GET": p.notHead(authorize), "POST": authorize})
	a.Handle(m, "/oauth2/consent", web.Methods{
		"GET":  browser(keepOpener(p.consenting(p.consentPage))),
		"POST": browser(keepOpener(p.consenting(p.consentForm))),
	})
	a.Handle(m, site.SelectPath, web.Methods{"POST": browser(keepOpener(p.selectForm))})
	a.Handle(m, "/oauth2/logout", web.Methods{"GET": p.notHead(browser(p.endSession)), "POST": browser(p.logoutForm)})
	a.Handle(m, "/device", web.Methods{"GET": browser(p.devicePage), "POST": browser(p.deviceForm)})
	m.HandleFunc("/oauth2/userinfo", p.forClients(p.userinfo))
	m.HandleFunc("/oauth2/token", p.clientEndpoint(checkGrantType, p.token))
	m.HandleFunc("/oauth2/revoke", p.clientEndpoint(nil, p.revoke))
	m.HandleFunc("/oauth2/introspect", p.formEndpoint(p.introspect))
	m.HandleFunc(deviceAuthorizationPath, p.clientEndpoint(nil, p.deviceAuthorization))
	m.HandleFunc("/oauth2/par", p.clientEndpoint(nil, p.pushRequest))
}

func keepOpener(h web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		web.KeepOpener(w)
		return h(w, r)
	}
}

// notHead refuses HEAD where GET has side effects: it issues a code, spends a pushed request or
// ends a session. Link checkers send HEAD.
func (p *Provider) notHead(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Allow", "GET, POST")
			p.accounts.WriteProblem(w, r, web.NewProblem(http.StatusMethodNotAllowed, "method_not_allowed",
				"This address does not support the method of the request."))
			return
		}
		h(w, r)
	}
}

// MountDisabled answers the endpoints of an installation without a private key with a 404 that
// says how to enable them.
func MountDisabled(m *mux.Router, a *site.Site) {
	h := func(w http.ResponseWriter, r *http.Request) {
		a.WriteProblem(w, r, web.NewProblem(http.StatusNotFound, "oidc_disabled",
			"OpenID Connect is turned off. To turn it on, the operator makes a private key with cairn keys generate "+
				"FILE, adds the line private-key-file: FILE to cairn.yaml (or sets "+
				"SERVICE_OIDC_PRIVATE_KEY_FILE=FILE) and restarts the service."))
	}
	for _, path := range []string{
		"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/jwks.json",
		webFingerPath,
		"/oauth2/authorize", "/oauth2/consent", site.SelectPath, "/oauth2/logout", "/oauth2/token", "/oauth2/userinfo",
		"/oauth2/revoke", "/oauth2/introspect", "/oauth2/par", "/oauth2/device_authorization", "/device",
	} {
		m.HandleFunc(path, h)
	}
}

// now returns the current time in whole UTC seconds.
func (rs *rules) now() time.Time { return rs.clock().UTC().Truncate(time.Second) }

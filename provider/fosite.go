package provider

import (
	"context"
	"crypto/hkdf"
	stdhmac "crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
	"github.com/ory/fosite/handler/openid"
	"github.com/ory/fosite/handler/pkce"
	"github.com/ory/fosite/storage"
	"github.com/ory/fosite/token/hmac"
	"github.com/ory/fosite/token/jwt"

	"github.com/cairn-id/cairn/account"
)

// This file holds every line that fosite wants: the rest of the package knows
// clients, grants and its own errors. fosite issues codes (newCode) and tokens
// (exchangeToken); everything that it decides wrongly was decided before.

// fositeEngine is fosite, wired.
type fositeEngine struct {
	fosite *fosite.Fosite
	tokens tokenStrategy
}

// newFosite wires the handlers directly. The order matters: the code before what
// needs it.
func (p *Provider) newFosite(secret []byte) error {
	// fosite uses the first 32 bytes only: exactly that many, and of a key that
	// nothing else uses.
	global, err := hkdf.Key(sha256.New, secret, nil, "cairn oauth2 tokens", 32)
	if err != nil {
		return fmt.Errorf("derive token key: %w", err)
	}
	c := fositeConfig(p.issuer, global)
	p.tokens = newTokenStrategy(c)
	p.tokens.jwts, p.tokens.now = p.accessTokens, p.now
	st := fositeStorage{p.storage, p.now}
	helper := &openid.IDTokenHandleHelper{IDTokenStrategy: idTokenStrategy{p.idTokens}}
	code := &oauth2.AuthorizeExplicitGrantHandler{
		AccessTokenStrategy: p.tokens, RefreshTokenStrategy: p.tokens, AuthorizeCodeStrategy: p.tokens, CoreStorage: st, TokenRevocationStorage: st, Config: c,
	}
	oidc := &openid.OpenIDConnectExplicitHandler{
		OpenIDConnectRequestStorage: st, OpenIDConnectRequestValidator: openid.NewOpenIDConnectRequestValidator(nil, c), IDTokenHandleHelper: helper, Config: c,
	}
	proof := &pkce.Handler{AuthorizeCodeStrategy: p.tokens, Storage: st, Config: c}
	refresh := &oauth2.RefreshTokenGrantHandler{AccessTokenStrategy: p.tokens, RefreshTokenStrategy: p.tokens, TokenRevocationStorage: st, Config: c}
	// At authorize the other two would judge once more what checkRequest has judged, of a
	// request that newCode has made: the challenge and the nonce are in the grant.
	c.AuthorizeEndpointHandlers = fosite.AuthorizeEndpointHandlers{code}
	c.TokenEndpointHandlers = fosite.TokenEndpointHandlers{code, oidc, proof, refresh, &openid.OpenIDConnectRefreshHandler{IDTokenHandleHelper: helper, Config: c}}
	p.fosite = fosite.NewOAuth2Provider(st, c)
	return nil
}

// fositeConfig sets every field that fosite would otherwise fill in lazily, which
// is a data race.
func fositeConfig(issuer string, global []byte) *fosite.Config {
	return &fosite.Config{
		AccessTokenLifespan: AccessTokenLifetime, RefreshTokenLifespan: RefreshTokenLifetime, AuthorizeCodeLifespan: CodeLifetime,
		IDTokenLifespan: IDTokenLifetime, VerifiableCredentialsNonceLifespan: time.Minute,
		IDTokenIssuer: issuer, AccessTokenIssuer: issuer, TokenURL: issuer + "/oauth2/token",
		HashCost: 12, ClientSecretsHasher: noHasher{}, ClientAuthenticationStrategy: authenticatedClient,
		DisableRefreshTokenValidation: true, SendDebugMessagesToClients: false,
		ScopeStrategy: registeredScope, AudienceMatchingStrategy: fosite.ExactAudienceMatchingStrategy,
		EnforcePKCE: false, EnforcePKCEForPublicClients: true, EnablePKCEPlainChallengeMethod: false,
		AllowedPromptValues: knownPrompts, JWKSFetcherStrategy: noKeyFetch{}, TokenEntropy: 32, MinParameterEntropy: 1,
		RedirectSecureChecker:  func(context.Context, *url.URL) bool { return true }, // Client.Check did it at registration
		RefreshTokenScopes:     []string{"offline_access"},
		OmitRedirectScopeParam: true, GrantTypeJWTBearerMaxDuration: time.Minute,
		ResponseModeHandlerExtension: &fosite.DefaultResponseModeHandler{}, MessageCatalog: nil,
		FormPostHTMLTemplate: fosite.DefaultFormPostTemplate, HTTPClient: noFetch(),
		// A literal: fosite appends to it at every request, so its capacity must
		// be its length.
		SanitationWhiteList: []string{"redirect_uri", "code_challenge", "code_challenge_method"},
		GlobalSecret:        global, RotatedGlobalSecrets: [][]byte{}, HMACHasher: sha512.New512_256,
		PushedAuthorizeRequestURIPrefix: requestURIPrefix, PushedAuthorizeContextLifespan: PushedRequestLifetime,
		TokenIntrospectionHandlers: fosite.TokenIntrospectionHandlers{}, RevocationHandlers: fosite.RevocationHandlers{},
		PushedAuthorizeEndpointHandlers: fosite.PushedAuthorizeEndpointHandlers{},
	}
}

// registeredScope is the fosite.ScopeStrategy. An API's scope is judged at each use by target.
func registeredScope(registered []string, scope string) bool {
	return slices.Contains(registered, scope) || !slices.Contains(Scopes, scope)
}

// newCode lets fosite make and store the code of a grant. It sees a canonical
// request: what it decides wrongly (prompt, max_age, state, unknown scopes) was
// decided by decide.
func (p *Provider) newCode(ctx context.Context, c *Client, g *Grant) (string, error) {
	form := url.Values{"client_id": {c.ID}, "redirect_uri": {g.RedirectURI}, "response_type": {"code"}, "scope": {strings.Join(g.Scopes, " ")}}
	// The only redirect URI is the one that was proven to be the client's: fosite's
	// comparison knows no port of localhost.
	proven := *c
	proven.RedirectURIs = []string{g.RedirectURI}
	ctx = withExchange(ctx, &exchange{client: &proven})
	ar, err := p.fosite.NewAuthorizeRequest(ctx, &http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: form.Encode()}, Form: form, Header: http.Header{}})
	if err != nil && !errors.Is(err, fosite.ErrInvalidState) { // its last check; state is not its business here
		return "", err
	}
	for _, s := range g.Scopes {
		ar.GrantScope(s)
	}
	resp, err := p.fosite.NewAuthorizeResponse(ctx, ar, &grantSession{grant: g})
	if err != nil {
		return "", err
	}
	return resp.GetCode(), nil
}

// exchangeToken lets fosite check a code or a refresh token and issue what it is
// exchanged for. allowed judges the grant in between and says who its user is.
func (p *Provider) exchangeToken(r *http.Request, allowed func(*Grant) (account.User, error)) (map[string]any, error) {
	access, err := p.fosite.NewAccessRequest(r.Context(), r, &grantSession{grant: &Grant{}})
	if err != nil {
		return nil, err
	}
	x, session := exchangeFrom(r.Context()), sessionOf(access)
	session.algorithm = x.client.IDTokenAlgorithm()
	if x.user, err = allowed(session.grant); err != nil {
		return nil, err
	}
	resp, err := p.fosite.NewAccessResponse(r.Context(), access)
	if err != nil {
		return nil, err
	}
	resp.SetExpiresIn(x.target.lifetime) // fosite's is a second short
	resp.SetTokenType(tokenType(x.target.jkt))
	resp.SetScopes(x.target.scopes)
	if x.kept {
		resp.SetExtra("refresh_token", r.PostForm.Get("refresh_token"))
	}
	return resp.ToMap(), nil
}

// oauthErrorOf is the answer to an error of fosite, of the storage or of ours (RFC 6749
// section 5.2).
func oauthErrorOf(err error, refresh bool) *oauthError {
	var own *oauthError
	if errors.As(err, &own) {
		return own
	}
	switch {
	case errors.Is(err, account.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return errUnavailable
	case errors.Is(err, ErrSpent), errors.Is(err, fosite.ErrInvalidatedAuthorizeCode),
		errors.Is(err, fosite.ErrInvalidRequest) && refresh, // a token that is none
		errors.Is(err, fosite.ErrScopeNotGranted), errors.Is(err, fosite.ErrInvalidTokenFormat), errors.Is(err, fosite.ErrTokenSignatureMismatch), errors.Is(err, fosite.ErrTokenExpired):
		return errInvalidGrant
	}
	e := fosite.ErrorToRFC6749Error(err)
	for _, own := range []*oauthError{errInvalidRequest, errInvalidGrant, errUnauthorizedClient, errInvalidScope} {
		if e.ErrorField == own.code && e.CodeField < http.StatusInternalServerError {
			return own
		}
	}
	return errServer
}

// exchange is one request to the token endpoint, from one call of fosite to the
// next.
type exchange struct {
	client *Client       // who has authenticated
	user   account.User  // whose grant it is, once allowed
	target *accessTarget // of the access token, once allowed
	jkt    string        // thumbprint of the key of the DPoP proof, empty without one
	kept   bool          // the refresh token stays the same (FAPI 2.0 section 5.3.2.1)
	bound  string        // thumbprint that the refresh token is bound to, or empty

	polled  bool          // the code is a device's: it polls, so a second use is no sign of a thief
	code    *Grant        // of the code: read once, though fosite asks four times
	session *grantSession // of the code: one object for all who ask

	// spend is what the transaction of fosite does when it is committed, with the tokens
	// issued since.
	spend  func(context.Context, []Token) error
	issued []Token

	revoked    bool  // the grant was revoked before this request, or by it
	reused     bool  // a code or refresh token came a second time
	revocation error // what kept its grant from being revoked
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeFrom is never nil; outside of a token request it is empty.
func exchangeFrom(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// authenticatedClient is the fosite.ClientAuthenticationStrategy: the client was
// authenticated before (clientauth.go).
func authenticatedClient(ctx context.Context, _ *http.Request, _ url.Values) (fosite.Client, error) {
	c := exchangeFrom(ctx).client
	if c == nil {
		return nil, errInvalidClient
	}
	return fositeClient{c}, nil
}

// fositeClient is a Client as fosite sees it.
type fositeClient struct{ *Client }

var _ fosite.ResponseModeClient = fositeClient{}

func (c fositeClient) GetID() string                      { return c.ID }
func (c fositeClient) GetHashedSecret() []byte            { return nil }
func (c fositeClient) GetRedirectURIs() []string          { return c.RedirectURIs }
func (c fositeClient) GetGrantTypes() fosite.Arguments    { return c.grantTypes() }
func (c fositeClient) GetResponseTypes() fosite.Arguments { return fosite.Arguments{"code"} }
func (c fositeClient) GetScopes() fosite.Arguments        { return c.Scopes }
func (c fositeClient) GetAudience() fosite.Arguments      { return nil } // fosite has no part in it (target)
func (c fositeClient) GetResponseModes() []fosite.ResponseModeType {
	return []fosite.ResponseModeType{fosite.ResponseModeDefault, fosite.ResponseModeQuery, fosite.ResponseModeFormPost}
}

// grantSession is a Grant as fosite sees it.
type grantSession struct {
	grant                         *Grant
	accessExpires, refreshExpires time.Time
	claims                        jwt.IDTokenClaims // fosite writes at_hash here
	algorithm                     string            // of the ID token
}

var _ openid.Session = (*grantSession)(nil)

func sessionOf(r fosite.Requester) *grantSession {
	s, _ := r.GetSession().(*grantSession)
	return s
}

func (s *grantSession) expires(key fosite.TokenType) *time.Time {
	switch key {
	case fosite.AuthorizeCode:
		return &s.grant.CodeExpires
	case fosite.AccessToken:
		return &s.accessExpires
	case fosite.RefreshToken:
		return &s.refreshExpires
	}
	return new(time.Time)
}

// SetExpiresAt implements fosite.Session. Times are whole seconds.
func (s *grantSession) SetExpiresAt(key fosite.TokenType, exp time.Time) {
	*s.expires(key) = exp.UTC().Truncate(time.Second)
}

func (s *grantSession) GetExpiresAt(key fosite.TokenType) time.Time { return *s.expires(key) }
func (s *grantSession) GetUsername() string                         { return "" }
func (s *grantSession) GetSubject() string                          { return s.grant.Sub }

// IDTokenHeaders implements openid.Session. fosite takes the hash of at_hash from the number
// in alg; EdDSA has none, and with Ed25519 it is SHA-512 (OpenID Connect Token Hash Algorithms).
func (s *grantSession) IDTokenHeaders() *jwt.Headers {
	h := &jwt.Headers{}
	if s.algorithm == string(jose.EdDSA) {
		h.Add("alg", "HS512")
	}
	return h
}

// Clone implements fosite.Session.
func (s *grantSession) Clone() fosite.Session {
	c := *s
	return &c
}

// IDTokenClaims implements openid.Session. fosite requires a subject there and compares
// the times, which decide has done.
func (s *grantSession) IDTokenClaims() *jwt.IDTokenClaims {
	s.claims.Subject, s.claims.AuthTime, s.claims.RequestedAt = s.grant.Sub, s.grant.AuthTime, s.grant.AuthTime
	return &s.claims
}

// idTokenStrategy makes ID tokens in place of fosite's strategy, which has no kid, adds
// the unregistered claim rat and refuses short nonces after the code is spent.
type idTokenStrategy struct{ *idTokenSigner }

// GenerateIDToken implements openid.OpenIDConnectTokenStrategy. A refreshed ID token has
// no nonce; what the refresh request sends under that name is not ours.
func (s idTokenStrategy) GenerateIDToken(ctx context.Context, _ time.Duration, r fosite.Requester) (string, error) {
	x, session := exchangeFrom(ctx), sessionOf(r)
	if x.client == nil || session == nil || session.grant.Sub == "" {
		return "", errors.New("grant without a client or a subject")
	}
	g := *session.grant
	if ar, ok := r.(fosite.AccessRequester); ok && ar.GetGrantTypes().ExactOne("refresh_token") {
		g.Nonce = ""
	}
	return s.sign(x.client, idTokenClaims(s.issuer, x.user, x.client, &g, session.claims.AccessTokenHash, s.now()))
}

// tokenStrategy makes and checks codes and tokens: 32 random bytes, a dot and
// their HMAC, each in base64url. It gives the signature, by which all of them are
// looked up, only of what this service made and only as it was written.
//
// fosite's own gives it of any text with a dot. With that, a stranger's text
// reaches the database; another first half with a known signature is taken for a
// second use and ends the owner's grant; and the texts that decode to the same
// bytes (unused bits, line ends) all are the token.
type tokenStrategy struct {
	*oauth2.HMACSHAStrategyUnPrefixed
	macs *sync.Pool // of HMACs with the key: to make one takes as long as to use it
	jwts *accessTokenSigner
	now  func() time.Time
}

func newTokenStrategy(c *fosite.Config) tokenStrategy {
	return tokenStrategy{
		HMACSHAStrategyUnPrefixed: oauth2.NewHMACSHAStrategyUnPrefixed(&hmac.HMACStrategy{Config: c}, c),
		macs:                      &sync.Pool{New: func() any { return stdhmac.New(c.HMACHasher, c.GlobalSecret) }},
	}
}

var _ oauth2.CoreStrategy = tokenStrategy{}

// GenerateAccessToken implements oauth2.AccessTokenStrategy: a JWT for the APIs that want one.
func (s tokenStrategy) GenerateAccessToken(ctx context.Context, r fosite.Requester) (token, signature string, err error) {
	x := exchangeFrom(ctx)
	if x.target == nil || x.target.opaque() {
		return s.HMACSHAStrategyUnPrefixed.GenerateAccessToken(ctx, r)
	}
	id := rand.Text()
	token, err = s.jwts.sign(x.target, sessionOf(r).grant, x.client, x.user, id, s.now())
	return token, id, err
}

// AccessTokenSignature implements oauth2.AccessTokenStrategy; empty for what is
// no token.
func (s tokenStrategy) AccessTokenSignature(ctx context.Context, token string) string {
	return s.signature(ctx, token)
}

// RefreshTokenSignature implements oauth2.RefreshTokenStrategy.
func (s tokenStrategy) RefreshTokenSignature(ctx context.Context, token string) string {
	return s.signature(ctx, token)
}

// AuthorizeCodeSignature implements oauth2.AuthorizeCodeStrategy.
func (s tokenStrategy) AuthorizeCodeSignature(ctx context.Context, token string) string {
	return s.signature(ctx, token)
}

func (s tokenStrategy) signature(_ context.Context, token string) string {
	key, signature, _ := strings.Cut(token, ".")
	random, ok := decodeToken(key)
	signed, ok2 := decodeToken(signature)
	if !ok || !ok2 {
		return ""
	}
	if !stdhmac.Equal(s.mac(random[:]), signed[:]) {
		return ""
	}
	return signature
}

func (s tokenStrategy) mac(message []byte) []byte {
	mac, _ := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write(message)
	return mac.Sum(nil)
}

var strictBase64 = base64.RawURLEncoding.Strict()

// decodeToken decodes the base64url of 32 bytes, only as it is written here. The decoder
// alone skips line ends even when it is strict.
func decodeToken(s string) (b [32]byte, ok bool) {
	if len(s) != strictBase64.EncodedLen(len(b)) || strings.ContainsAny(s, "\r\n") {
		return b, false
	}
	n, err := strictBase64.Decode(b[:], []byte(s))
	return b, err == nil && n == len(b)
}

// fositeStorage is the storage of fosite on top of a GrantStore. Its transaction
// collects the tokens and is one call of the GrantStore when fosite commits it.
type fositeStorage struct {
	grants GrantStore
	now    func() time.Time
}

// The helpers of fosite only assert types at run time: without BeginTX they would
// silently do without a transaction.
var _ interface {
	fosite.Storage
	oauth2.CoreStorage
	oauth2.TokenRevocationStorage
	openid.OpenIDConnectRequestStorage
	pkce.PKCERequestStorage
	storage.Transactional
} = fositeStorage{}

var errNotUsed = errors.New("fosite has no part in this")

func (fositeStorage) GetClient(ctx context.Context, id string) (fosite.Client, error) {
	if c := exchangeFrom(ctx).client; c != nil && c.ID == id {
		return fositeClient{c}, nil
	}
	return nil, fosite.ErrNotFound
}

func (fositeStorage) ClientAssertionJWTValid(context.Context, string) error { return errNotUsed }
func (fositeStorage) SetClientAssertionJWT(context.Context, string, time.Time) error {
	return errNotUsed
}

// CreateAuthorizeCodeSession stores the grant with its code in one row, with the
// challenge and the nonce.
func (s fositeStorage) CreateAuthorizeCodeSession(ctx context.Context, signature string, r fosite.Requester) error {
	g := sessionOf(r).grant
	id, err := newGrantID()
	if err != nil {
		return err
	}
	g.ID, g.CodeSignature, g.CreatedAt = id, signature, r.GetRequestedAt().UTC()
	return s.grants.CreateGrant(ctx, g)
}

// newGrantID is in the order of time (RFC 9562 section 5.7), so that a database adds it at the end of its
// indexes.
func newGrantID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make id of grant: %w", err)
	}
	return id.String(), nil
}

// code finds the grant of a code that was issued to the client of the request. That of
// another is not found: who presents it could else end the owner's grant.
func (s fositeStorage) code(ctx context.Context, signature string) (*Grant, *fosite.Request, error) {
	x := exchangeFrom(ctx)
	if x.code == nil || x.code.CodeSignature != signature {
		g, err := s.grants.GrantOfCode(ctx, signature)
		if err != nil {
			return nil, nil, notFound(err)
		}
		x.code, x.session = g, &grantSession{grant: g}
	}
	r, err := x.request(x.session)
	return x.code, r, err
}

// request is a stored grant as fosite wants it.
func (x *exchange) request(s *grantSession) (*fosite.Request, error) {
	g := s.grant
	if x.client == nil || x.client.ID != g.ClientID {
		return nil, fosite.ErrNotFound
	}
	form := url.Values{"redirect_uri": {g.RedirectURI}}
	if g.CodeChallenge != "" {
		form.Set("code_challenge", g.CodeChallenge)
		form.Set("code_challenge_method", "S256")
	}
	return &fosite.Request{
		ID: g.ID, RequestedAt: g.CreatedAt, Client: fositeClient{x.client}, RequestedScope: slices.Clone(g.Scopes), GrantedScope: slices.Clone(g.Scopes), Form: form,
		Session: s, RequestedAudience: fosite.Arguments{}, GrantedAudience: fosite.Arguments{},
	}, nil
}

func notFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fosite.ErrNotFound
	}
	return err
}

// GetAuthorizeCodeSession returns a used code together with the error: fosite revokes
// its grant then. What was revoked before is no second use.
func (s fositeStorage) GetAuthorizeCodeSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	g, r, err := s.code(ctx, signature)
	if err != nil {
		return nil, err
	}
	if g.Revoked {
		exchangeFrom(ctx).revoked = true
	}
	if x := exchangeFrom(ctx); x.polled && g.CodeUsed {
		return nil, fosite.ErrNotFound
	}
	if g.Revoked || g.CodeUsed {
		return r, fosite.ErrInvalidatedAuthorizeCode
	}
	return r, nil
}

// GetPKCERequestSession does not find a code without a challenge.
func (s fositeStorage) GetPKCERequestSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	g, r, err := s.code(ctx, signature)
	if err != nil {
		return nil, err
	}
	if g.CodeChallenge == "" {
		return nil, fosite.ErrNotFound
	}
	return r, nil
}

// GetOpenIDConnectSession gets the whole code, and is called when it was just spent. It
// finds nothing without the scope openid.
func (s fositeStorage) GetOpenIDConnectSession(ctx context.Context, code string, _ fosite.Requester) (fosite.Requester, error) {
	_, signature, _ := strings.Cut(code, ".")
	g, r, err := s.code(ctx, signature)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(g.Scopes, "openid") {
		return nil, fosite.ErrNotFound
	}
	return r, nil
}

// GetRefreshTokenSession returns a rotated or revoked token together with the error:
// fosite revokes its grant then.
func (s fositeStorage) GetRefreshTokenSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	t, err := s.grants.Token(ctx, signature)
	if err != nil {
		return nil, notFound(err)
	}
	x := exchangeFrom(ctx)
	r, err := x.request(&grantSession{grant: t.Grant, refreshExpires: t.Expires})
	if err != nil || !t.Refresh {
		return nil, fosite.ErrNotFound
	}
	x.bound, x.kept = t.JKT, x.client.isFAPI()
	if t.Grant.Revoked {
		x.revoked = true
	}
	if t.Grant.Revoked || !t.Rotated.IsZero() && !x.client.inGrace(t.Rotated, s.now()) {
		return r, fosite.ErrInactiveToken
	}
	return r, nil
}

// DeletePKCERequestSession does nothing: fosite calls it before the verifier is
// checked, and a second try would find no challenge.
func (fositeStorage) DeletePKCERequestSession(context.Context, string) error { return nil }

// What else came with the code, or went with its grant.

func (fositeStorage) CreatePKCERequestSession(context.Context, string, fosite.Requester) error {
	return nil
}
func (fositeStorage) CreateOpenIDConnectSession(context.Context, string, fosite.Requester) error {
	return nil
}
func (fositeStorage) DeleteOpenIDConnectSession(context.Context, string) error { return nil }
func (fositeStorage) DeleteAccessTokenSession(context.Context, string) error   { return nil }
func (fositeStorage) DeleteRefreshTokenSession(context.Context, string) error  { return nil }
func (fositeStorage) GetAccessTokenSession(context.Context, string, fosite.Session) (fosite.Requester, error) {
	return nil, errNotUsed
}

// BeginTX implements storage.Transactional.
func (fositeStorage) BeginTX(ctx context.Context) (context.Context, error) {
	x := exchangeFrom(ctx)
	x.spend, x.issued = func(context.Context, []Token) error { return nil }, nil
	return ctx, nil
}

// InvalidateAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage.
func (s fositeStorage) InvalidateAuthorizeCodeSession(ctx context.Context, signature string) error {
	g, _, err := s.code(ctx, signature)
	if err != nil {
		return err
	}
	return exchangeFrom(ctx).collect(func(ctx context.Context, issued []Token) error {
		g.CodeUsed = true // kept for the ID token, but no longer as an unused code
		return s.grants.SpendCode(ctx, g.ID, issued)
	})
}

// RotateRefreshToken implements oauth2.RefreshTokenStorage.
func (s fositeStorage) RotateRefreshToken(ctx context.Context, grantID, signature string) error {
	x := exchangeFrom(ctx)
	return x.collect(func(ctx context.Context, issued []Token) error {
		if x.kept {
			return s.grants.KeepRefreshToken(ctx, grantID, signature, s.now().Add(RefreshTokenLifetime), issued)
		}
		return s.grants.RotateRefreshToken(ctx, grantID, signature, issued)
	})
}

// CreateAccessTokenSession implements oauth2.AccessTokenStorage.
func (s fositeStorage) CreateAccessTokenSession(ctx context.Context, signature string, _ fosite.Requester) error {
	x := exchangeFrom(ctx)
	return x.collect(nil, x.target.stored(signature, s.now()))
}

// CreateRefreshTokenSession implements oauth2.RefreshTokenStorage.
func (fositeStorage) CreateRefreshTokenSession(ctx context.Context, signature, _ string, r fosite.Requester) error {
	x, t := exchangeFrom(ctx), Token{Signature: signature, Refresh: true, Expires: sessionOf(r).refreshExpires}
	if x.kept {
		return nil
	}
	if x.client.IsPublic() { // others authenticate (RFC 9449 section 5)
		t.JKT = x.jkt
	}
	return x.collect(nil, t)
}

// collect notes what the open transaction is to do.
func (x *exchange) collect(spend func(context.Context, []Token) error, issued ...Token) error {
	if x.spend == nil {
		return errors.New("nothing is stored outside of a transaction")
	}
	if spend != nil {
		x.spend = spend
	}
	x.issued = append(x.issued, issued...)
	return nil
}

// Commit implements storage.Transactional.
func (fositeStorage) Commit(ctx context.Context) error {
	x := exchangeFrom(ctx)
	if x.spend == nil {
		return errors.New("no open transaction")
	}
	err := x.spend(ctx, x.issued)
	x.spend, x.issued = nil, nil
	if errors.Is(err, ErrSpent) && !errors.Is(err, ErrGrantRevoked) {
		x.reused = true // at the same time as the first use
	}
	return err
}

// Rollback implements storage.Transactional, also after a failed Commit.
func (fositeStorage) Rollback(ctx context.Context) error {
	x := exchangeFrom(ctx)
	x.spend, x.issued = nil, nil
	return nil
}

// RevokeAccessToken and RevokeRefreshToken are how fosite ends the grant of a code or
// refresh token that comes a second time. It drops the error of the first after a code
// and answers invalid_grant while the tokens live; revocation keeps it for the token
// endpoint. What was revoked before needs no second revocation and is no second use.
func (s fositeStorage) RevokeAccessToken(ctx context.Context, grantID string) error {
	x := exchangeFrom(ctx)
	if x.revoked {
		return nil
	}
	x.reused = true
	err := s.grants.RevokeGrant(ctx, grantID, s.now())
	if x.revoked = err == nil; err != nil {
		x.revocation = err
	}
	return err
}

// RevokeRefreshToken is RevokeAccessToken.
func (s fositeStorage) RevokeRefreshToken(ctx context.Context, grantID string) error {
	return s.RevokeAccessToken(ctx, grantID)
}

// noHasher, noKeyFetch and noFetch stand where fosite would compare secrets (with
// bcrypt), keep a cache of fetched key sets, which alone is 650 KB, and fetch what a
// request names. Nothing of ours reaches them.
type noHasher struct{ fosite.Hasher }

type noKeyFetch struct{ fosite.JWKSFetcherStrategy }

func noFetch() *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.RetryMax, c.Logger = 0, nil
	c.HTTPClient = &http.Client{Transport: refuse{}, Timeout: time.Second}
	return c
}

type refuse struct{}

func (refuse) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("the provider fetches nothing")
}

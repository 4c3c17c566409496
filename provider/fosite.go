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

// This file contains all code for fosite. The rest of the package deals with clients, grants and
// its own errors. fosite issues codes (newCode) and tokens (exchangeToken), after the package has
// decided everything that fosite decides wrongly.

type fositeEngine struct {
	fosite *fosite.Fosite
	tokens tokenStrategy
}

// newFosite connects fosite's handlers. Their order matters: the code handler comes before those
// that depend on it.
func (p *Provider) newFosite(secret []byte) error {
	// fosite uses only the first 32 bytes, so the key is exactly that long. Nothing else uses it.
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
		AccessTokenStrategy: p.tokens, RefreshTokenStrategy: p.tokens, AuthorizeCodeStrategy: p.tokens,
		CoreStorage: st, TokenRevocationStorage: st, Config: c,
	}
	oidc := &openid.OpenIDConnectExplicitHandler{
		OpenIDConnectRequestStorage: st, IDTokenHandleHelper: helper, Config: c,
		OpenIDConnectRequestValidator: openid.NewOpenIDConnectRequestValidator(nil, c),
	}
	proof := &pkce.Handler{AuthorizeCodeStrategy: p.tokens, Storage: st, Config: c}
	refresh := &oauth2.RefreshTokenGrantHandler{
		AccessTokenStrategy: p.tokens, RefreshTokenStrategy: p.tokens, TokenRevocationStorage: st, Config: c,
	}
	oidcRefresh := &openid.OpenIDConnectRefreshHandler{IDTokenHandleHelper: helper, Config: c}
	// The authorization endpoint needs only the code handler: checkRequest has checked what the
	// others would check, and the grant has the challenge and the nonce.
	c.AuthorizeEndpointHandlers = fosite.AuthorizeEndpointHandlers{code}
	c.TokenEndpointHandlers = fosite.TokenEndpointHandlers{code, oidc, proof, refresh, oidcRefresh}
	p.fosite = fosite.NewOAuth2Provider(st, c)
	return nil
}

// fositeConfig sets every field that fosite would otherwise set lazily, which is a data race.
func fositeConfig(issuer string, global []byte) *fosite.Config {
	return &fosite.Config{
		AccessTokenLifespan: AccessTokenLifetime, RefreshTokenLifespan: RefreshTokenLifetime,
		AuthorizeCodeLifespan: CodeLifetime, IDTokenLifespan: IDTokenLifetime,
		VerifiableCredentialsNonceLifespan: time.Minute,
		IDTokenIssuer:                      issuer, AccessTokenIssuer: issuer, TokenURL: issuer + "/oauth2/token",
		HashCost: 12, ClientSecretsHasher: noHasher{}, ClientAuthenticationStrategy: authenticatedClient,
		DisableRefreshTokenValidation: true, SendDebugMessagesToClients: false,
		ScopeStrategy: registeredScope, AudienceMatchingStrategy: fosite.ExactAudienceMatchingStrategy,
		EnforcePKCE: false, EnforcePKCEForPublicClients: true, EnablePKCEPlainChallengeMethod: false,
		AllowedPromptValues: knownPrompts, JWKSFetcherStrategy: noKeyFetch{}, TokenEntropy: 32, MinParameterEntropy: 1,
		RedirectSecureChecker:  func(context.Context, *url.URL) bool { return true }, // checked by Client.Check
		RefreshTokenScopes:     []string{"offline_access"},
		OmitRedirectScopeParam: true, GrantTypeJWTBearerMaxDuration: time.Minute,
		ResponseModeHandlerExtension: &fosite.DefaultResponseModeHandler{}, MessageCatalog: nil,
		FormPostHTMLTemplate: fosite.DefaultFormPostTemplate, HTTPClient: noFetch(),
		// fosite appends to this slice at every request, so its capacity must equal its length:
		// use a literal.
		SanitationWhiteList: []string{"redirect_uri", "code_challenge", "code_challenge_method"},
		GlobalSecret:        global, RotatedGlobalSecrets: [][]byte{}, HMACHasher: sha512.New512_256,
		PushedAuthorizeRequestURIPrefix: requestURIPrefix, PushedAuthorizeContextLifespan: PushedRequestLifetime,
		TokenIntrospectionHandlers:      fosite.TokenIntrospectionHandlers{},
		RevocationHandlers:              fosite.RevocationHandlers{},
		PushedAuthorizeEndpointHandlers: fosite.PushedAuthorizeEndpointHandlers{},
	}
}

// registeredScope is the fosite.ScopeStrategy. target checks API scopes at each use.
func registeredScope(registered []string, scope string) bool {
	return slices.Contains(registered, scope) || !slices.Contains(Scopes, scope)
}

// newCode lets fosite make and store the code of a grant, with a canonical request: decide has
// handled what fosite decides wrongly (prompt, max_age, state, unknown scopes).
func (p *Provider) newCode(ctx context.Context, c *Client, g *Grant) (string, error) {
	form := url.Values{
		"client_id": {c.ID}, "redirect_uri": {g.RedirectURI}, "response_type": {"code"},
		"scope": {strings.Join(g.Scopes, " ")},
	}
	// Only the proven redirect URI is given: fosite's comparison does not support ports of localhost.
	proven := *c
	proven.RedirectURIs = []string{g.RedirectURI}
	ctx = withExchange(ctx, &exchange{client: &proven})
	ar, err := p.fosite.NewAuthorizeRequest(ctx, &http.Request{
		Method: http.MethodGet, URL: &url.URL{RawQuery: form.Encode()}, Form: form, Header: http.Header{},
	})
	if err != nil && !errors.Is(err, fosite.ErrInvalidState) { // its last check; answer adds the state
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

// exchangeToken lets fosite check a code or refresh token and issue the new tokens. In between,
// allowed checks the grant and returns its user.
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
	resp.SetExpiresIn(x.target.lifetime) // fosite's value is a second less
	resp.SetTokenType(tokenType(x.target.jkt))
	resp.SetScopes(x.target.scopes)
	if x.kept {
		resp.SetExtra("refresh_token", r.PostForm.Get("refresh_token"))
	}
	return resp.ToMap(), nil
}

// oauthErrorOf maps an error of fosite, of the storage or of this package to a response (RFC 6749
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
		errors.Is(err, fosite.ErrInvalidRequest) && refresh, // not a valid token
		errors.Is(err, fosite.ErrScopeNotGranted), errors.Is(err, fosite.ErrInvalidTokenFormat),
		errors.Is(err, fosite.ErrTokenSignatureMismatch), errors.Is(err, fosite.ErrTokenExpired):
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

// exchange is the state of one request to the token endpoint between calls of fosite.
type exchange struct {
	client *Client       // the authenticated client
	user   account.User  // of the grant, once allowed
	target *accessTarget // of the access token, once allowed
	jkt    string        // thumbprint of the key of the DPoP proof, empty without one
	kept   bool          // the refresh token stays the same (FAPI 2.0 section 5.3.2.1)
	bound  string        // thumbprint that the refresh token is bound to, or empty

	polled  bool          // the code is a device's: devices poll, so a second use does not indicate theft
	code    *Grant        // of the code: read once, although fosite asks four times
	session *grantSession // of the code: shared by all handlers

	// spend runs when fosite commits its transaction, with the tokens issued since.
	spend  func(context.Context, []Token) error
	issued []Token

	revoked    bool  // the grant was revoked before this request, or by it
	reused     bool  // a code or refresh token came a second time
	revocation error // why revoking its grant failed
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeFrom never returns nil. Outside of a token request the exchange is empty.
func exchangeFrom(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// authenticatedClient is the fosite.ClientAuthenticationStrategy. It returns the client that
// clientauth.go authenticated.
func authenticatedClient(ctx context.Context, _ *http.Request, _ url.Values) (fosite.Client, error) {
	c := exchangeFrom(ctx).client
	if c == nil {
		return nil, errInvalidClient
	}
	return fositeClient{c}, nil
}

// fositeClient adapts Client to fosite.
type fositeClient struct{ *Client }

var _ fosite.ResponseModeClient = fositeClient{}

func (c fositeClient) GetID() string                      { return c.ID }
func (c fositeClient) GetHashedSecret() []byte            { return nil }
func (c fositeClient) GetRedirectURIs() []string          { return c.RedirectURIs }
func (c fositeClient) GetGrantTypes() fosite.Arguments    { return c.grantTypes() }
func (c fositeClient) GetResponseTypes() fosite.Arguments { return fosite.Arguments{"code"} }
func (c fositeClient) GetScopes() fosite.Arguments        { return c.Scopes }
func (c fositeClient) GetAudience() fosite.Arguments      { return nil } // handled by target
func (c fositeClient) GetResponseModes() []fosite.ResponseModeType {
	return []fosite.ResponseModeType{fosite.ResponseModeDefault, fosite.ResponseModeQuery, fosite.ResponseModeFormPost}
}

// grantSession adapts Grant to fosite.
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

// IDTokenHeaders implements openid.Session. fosite derives the hash of at_hash from the number in
// alg. EdDSA has none; with Ed25519 the hash is SHA-512 (OpenID Connect Token Hash Algorithms).
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

// IDTokenClaims implements openid.Session. fosite requires a subject there and compares the times
// again, although decide did.
func (s *grantSession) IDTokenClaims() *jwt.IDTokenClaims {
	s.claims.Subject, s.claims.AuthTime, s.claims.RequestedAt = s.grant.Sub, s.grant.AuthTime, s.grant.AuthTime
	return &s.claims
}

// idTokenStrategy replaces fosite's strategy, which sets no kid, adds the unregistered claim rat
// and refuses short nonces after the code is spent.
type idTokenStrategy struct{ *idTokenSigner }

// GenerateIDToken implements openid.OpenIDConnectTokenStrategy. A refreshed ID token has no
// nonce; a nonce parameter of the refresh request is ignored.
func (s idTokenStrategy) GenerateIDToken(ctx context.Context, _ time.Duration, r fosite.Requester) (string, error) {
	x, session := exchangeFrom(ctx), sessionOf(r)
	if x.client == nil || session == nil || session.grant.Sub == "" {
		return "", errors.New("grant without a client or a subject")
	}
	g := *session.grant
	if ar, ok := r.(fosite.AccessRequester); ok && ar.GetGrantTypes().ExactOne("refresh_token") {
		g.Nonce = ""
	}
	claims := idTokenClaims(s.issuer, x.user, x.client, &g, session.claims.AccessTokenHash, s.now())
	return s.sign(x.client, claims)
}

// tokenStrategy makes and verifies codes and tokens: 32 random bytes, a dot and their HMAC, each
// in base64url. The signature, which is the key in the database, is returned only for genuine
// tokens in their canonical encoding.
//
// fosite's own strategy returns it for any text with a dot. Then arbitrary input reaches the
// database; another first half with a known signature counts as a second use and ends the owner's
// grant; and all texts that decode to the same bytes (unused bits, line ends) are valid tokens.
type tokenStrategy struct {
	*oauth2.HMACSHAStrategyUnPrefixed
	macs *sync.Pool // of HMACs with the key: making one takes as long as using it
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

// GenerateAccessToken implements oauth2.AccessTokenStrategy. It makes a JWT unless the target is
// opaque.
func (s tokenStrategy) GenerateAccessToken(ctx context.Context, r fosite.Requester) (token, id string, err error) {
	x := exchangeFrom(ctx)
	if x.target == nil || x.target.opaque() {
		return s.HMACSHAStrategyUnPrefixed.GenerateAccessToken(ctx, r)
	}
	id = rand.Text()
	token, err = s.jwts.sign(x.target, sessionOf(r).grant, x.client, x.user, id, s.now())
	return token, id, err
}

// AccessTokenSignature implements oauth2.AccessTokenStrategy. It returns "" for an invalid token.
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

// decodeToken decodes the canonical base64url of 32 bytes. Even a strict decoder skips line ends.
func decodeToken(s string) (b [32]byte, ok bool) {
	if len(s) != strictBase64.EncodedLen(len(b)) || strings.ContainsAny(s, "\r\n") {
		return b, false
	}
	n, err := strictBase64.Decode(b[:], []byte(s))
	return b, err == nil && n == len(b)
}

// fositeStorage implements fosite's storage on a GrantStore. Its transaction collects the tokens,
// and committing it is one call of the GrantStore.
type fositeStorage struct {
	grants GrantStore
	now    func() time.Time
}

// fosite's helpers assert types only at run time: without BeginTX they would silently work
// without a transaction.
var _ interface {
	fosite.Storage
	oauth2.CoreStorage
	oauth2.TokenRevocationStorage
	openid.OpenIDConnectRequestStorage
	pkce.PKCERequestStorage
	storage.Transactional
} = fositeStorage{}

var errNotUsed = errors.New("fosite does not do this here")

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

// CreateAuthorizeCodeSession stores the grant with its code, challenge and nonce in one row.
func (s fositeStorage) CreateAuthorizeCodeSession(ctx context.Context, signature string, r fosite.Requester) error {
	g := sessionOf(r).grant
	id, err := newGrantID()
	if err != nil {
		return err
	}
	g.ID, g.CodeSignature, g.CreatedAt = id, signature, r.GetRequestedAt().UTC()
	return s.grants.CreateGrant(ctx, g)
}

// newGrantID returns an id that sorts by time (RFC 9562 section 5.7), so that databases append to
// their indexes.
func newGrantID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make id of grant: %w", err)
	}
	return id.String(), nil
}

// code returns the grant of a code of the request's client. Another client's code is not found;
// otherwise presenting it would end the owner's grant.
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
		ID: g.ID, RequestedAt: g.CreatedAt, Client: fositeClient{x.client}, Session: s, Form: form,
		RequestedScope: slices.Clone(g.Scopes), GrantedScope: slices.Clone(g.Scopes),
		RequestedAudience: fosite.Arguments{}, GrantedAudience: fosite.Arguments{},
	}, nil
}

func notFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fosite.ErrNotFound
	}
	return err
}

// GetAuthorizeCodeSession returns a used code together with the error, and fosite then revokes
// its grant. A code of a revoked grant does not count as a second use.
func (s fositeStorage) GetAuthorizeCodeSession(
	ctx context.Context, signature string, _ fosite.Session,
) (fosite.Requester, error) {
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

// GetPKCERequestSession returns ErrNotFound for a code without a challenge.
func (s fositeStorage) GetPKCERequestSession(
	ctx context.Context, signature string, _ fosite.Session,
) (fosite.Requester, error) {
	g, r, err := s.code(ctx, signature)
	if err != nil {
		return nil, err
	}
	if g.CodeChallenge == "" {
		return nil, fosite.ErrNotFound
	}
	return r, nil
}

// GetOpenIDConnectSession receives the whole code, just after it was spent. Without the scope
// openid it returns ErrNotFound.
func (s fositeStorage) GetOpenIDConnectSession(
	ctx context.Context, code string, _ fosite.Requester,
) (fosite.Requester, error) {
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

// GetRefreshTokenSession returns a rotated or revoked token together with the error, and fosite
// then revokes its grant.
func (s fositeStorage) GetRefreshTokenSession(
	ctx context.Context, signature string, _ fosite.Session,
) (fosite.Requester, error) {
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

// DeletePKCERequestSession does nothing: fosite calls it before it checks the verifier, and a
// second attempt would find no challenge.
func (fositeStorage) DeletePKCERequestSession(context.Context, string) error { return nil }

// The following are stored with the code or deleted with its grant.

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
		x.reused = true // concurrently with the first use
	}
	return err
}

// Rollback implements storage.Transactional, also after a failed Commit.
func (fositeStorage) Rollback(ctx context.Context) error {
	x := exchangeFrom(ctx)
	x.spend, x.issued = nil, nil
	return nil
}

// RevokeAccessToken is called by fosite, like RevokeRefreshToken, to end the grant of a code or
// refresh token that is used a second time. After a code, fosite drops the first error and
// answers invalid_grant while the tokens still work, so the error is kept in revocation for the
// token endpoint. A grant that is already revoked needs no second revocation and does not count
// as a second use.
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

// RevokeRefreshToken revokes the grant like RevokeAccessToken.
func (s fositeStorage) RevokeRefreshToken(ctx context.Context, grantID string) error {
	return s.RevokeAccessToken(ctx, grantID)
}

// noHasher, noKeyFetch and noFetch replace the parts of fosite that compare secrets (with
// bcrypt), cache fetched key sets (650 KB) and fetch URLs of a request. No request reaches them.
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

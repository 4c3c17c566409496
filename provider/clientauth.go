package provider

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// clientEndpoint wraps the endpoints that clients call (token, revocation, introspection, pushed
// requests). It checks the method and the rate limit, reads the form and authenticates the client
// before it calls serve. check, which may be nil, refuses a form before authentication.
func (p *Provider) clientEndpoint(
	check func(url.Values) error, serve func(http.ResponseWriter, *http.Request, *Client) error,
) http.HandlerFunc {
	return p.formEndpoint(func(w http.ResponseWriter, r *http.Request) error {
		if check != nil {
			if err := check(r.PostForm); err != nil {
				return err
			}
		}
		c, err := p.authenticateClient(r, r.PostForm)
		if err != nil {
			return err
		}
		return serve(w, r, c)
	})
}

// formEndpoint is clientEndpoint without the authentication.
func (p *Provider) formEndpoint(serve web.Handler) http.HandlerFunc {
	return p.forClients(func(w http.ResponseWriter, r *http.Request) error {
		err := p.readClientRequest(w, r)
		if err == nil {
			err = serve(w, r)
		}
		if err != nil {
			p.nameClient(r, oauthErrorOf(err))
		}
		return err
	})
}

// nameClient names the client in the log of a request that was refused before its authentication. A client that
// describes itself is not looked up: that could fetch.
func (p *Provider) nameClient(r *http.Request, e *oauthError) {
	id := r.PostForm.Get("client_id")
	if user, _, ok := r.BasicAuth(); ok {
		id, _ = url.QueryUnescape(user)
	}
	useless := e.status >= http.StatusInternalServerError || e.reason == tooMany || e.reason == clientUnknown
	if !useless && !strings.HasPrefix(id, "https://") {
		_, _ = p.client(r.Context(), id)
	}
}

func (p *Provider) readClientRequest(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return errMethod
	}
	wait, err := p.limits.Take(r.Context(), web.LimitToken, web.ClientAddress(r))
	if err != nil {
		return err
	}
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		return errSlowDown
	}
	return readClientForm(w, r)
}

// readClientForm reads a form without repeated parameters.
func readClientForm(w http.ResponseWriter, r *http.Request) error {
	mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mt != "application/x-www-form-urlencoded" || r.Header.Get("Content-Encoding") != "" {
		return errInvalidRequest.because(badForm, "The parameters must be a form in the body, "+
			"Content-Type: application/x-www-form-urlencoded: not JSON, and not in the query.")
	}
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
	if err := r.ParseForm(); err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return errInvalidRequest.because(tooLarge, "The body is too large.").
				with(http.StatusRequestEntityTooLarge)
		}
		return errInvalidRequest.because(badForm, "The body or the query is not a form: check its percent-encoding.")
	}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		if len(r.PostForm[name]) > 1 && name != "resource" { // RFC 6749 section 3.2
			return errInvalidRequest.about(repeated, name, "It is given more than once (RFC 6749 section 3.2).")
		}
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	// Credentials in a URL end up in logs and histories.
	query := r.URL.Query()
	for _, name := range []string{
		"client_secret", "client_assertion", "code", "refresh_token", "code_verifier", "access_token", "token",
	} {
		if query.Has(name) {
			return errInvalidRequest.about(inQuery, name, "It must be in the body, not in the query.")
		}
	}
	return nil
}

// authenticateClient authenticates the client of a request (RFC 6749 section 2.3): by basic or
// post, or only one of them if so registered; by a signed assertion for private_key_jwt; by the
// id alone for public clients. It refuses several methods at once. A failed authentication is
// errInvalidClient with the reason for the log; other errors come from the database.
func (p *Provider) authenticateClient(r *http.Request, form url.Values) (*Client, error) {
	ctx := r.Context()
	if form.Get("client_assertion") != "" {
		return p.authenticateAssertion(ctx, r, form)
	}
	given, err := presentedCredentials(r, form)
	if err != nil {
		return nil, err
	}
	c, err := p.client(ctx, given.id)
	if errors.Is(err, ErrClientNotFound) {
		return nil, errInvalidClient
	}
	if err != nil {
		return nil, err
	}
	why := given.fault(c.Secrets, p.clock())
	switch {
	case c.IsPublic() && given.sent == "": // x/oauth2 sends Basic with an empty secret while it probes
		return c, nil
	case c.IsPublic():
		why = publicSecret
	case given.method == AuthNone:
		why = noSecret
	case c.AuthMethod != AuthAny && c.AuthMethod != given.method:
		why = authMethod
	case why == "":
		return c, nil
	}
	return nil, errInvalidClient.because(why, "")
}

// fault returns why the credentials do not have one of the valid secrets, or "".
func (g credentials) fault(valid []ClientSecret, now time.Time) reason {
	switch {
	case matchesAny(valid, g.secret, now):
		return ""
	case matchesAny(valid, g.sent, now):
		return secretNotEncoded
	case g.sent == "":
		return noSecret
	case g.secret == "":
		return authMalformed
	case strings.TrimSpace(g.secret) != g.secret:
		return secretLineEnd
	}
	return wrongSecret
}

// matchesAny reports whether secret is one of the stored ones and has not expired.
func matchesAny(valid []ClientSecret, secret string, now time.Time) bool {
	return slices.ContainsFunc(valid, func(s ClientSecret) bool {
		return (s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt)) && s.matches(secret)
	})
}

// matches compares in constant time. An empty secret or an empty hash never matches.
func (s ClientSecret) matches(secret string) bool {
	return secret != "" && subtle.ConstantTimeCompare(s.Hash, account.HashSecret(secret)) == 1
}

// credentials are what a request presents, unverified.
type credentials struct {
	id, method string
	secret     string // empty if it cannot be decoded
	sent       string // the secret before it was decoded
}

// presentedCredentials reads the credentials of the request, unverified. The id and secret of
// Basic are form-urlencoded (RFC 6749 section 2.3.1).
func presentedCredentials(r *http.Request, form url.Values) (credentials, error) {
	header := r.Header.Values("Authorization")
	if len(header) == 0 {
		given := credentials{id: form.Get("client_id"), method: AuthPost, secret: form.Get("client_secret")}
		if given.sent = given.secret; given.secret == "" {
			given.method = AuthNone
		}
		return given, nil
	}
	refused := func(why reason) (credentials, error) {
		return credentials{}, errInvalidClient.because(why, "")
	}
	if len(header) > 1 {
		return refused(authTwice)
	}
	scheme, encoded, _ := strings.Cut(header[0], " ")
	credential, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || !strings.EqualFold(scheme, "Basic") {
		return refused(authMalformed)
	}
	// Some clients without a secret leave out the colon too.
	user, pass, _ := strings.Cut(string(credential), ":")
	given := credentials{method: AuthBasic, sent: pass}
	if given.id, err = url.QueryUnescape(user); err != nil {
		return refused(authMalformed)
	}
	if given.secret, err = url.QueryUnescape(pass); err != nil {
		given.secret = ""
	}
	switch other := form.Get("client_id"); {
	case form.Get("client_secret") != "":
		return refused(authTwice)
	case other != "" && other != given.id:
		return refused(authDiffers)
	}
	return given, nil
}

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	maxAssertion  = 8 << 10 // bytes
	maxJTI        = 256     // bytes
	// assertionLifetime is how far ahead exp may be. It bounds the use of a stolen assertion.
	assertionLifetime = 5 * time.Minute
	// assertionSkew is how far the client's clock may be ahead of ours.
	assertionSkew = 30 * time.Second
)

// authenticateAssertion implements private_key_jwt (RFC 7523 section 3, OpenID Connect Core
// section 9).
func (p *Provider) authenticateAssertion(ctx context.Context, r *http.Request, form url.Values) (*Client, error) {
	refused := func(why error) (*Client, error) {
		return nil, fmt.Errorf("%w: %w", errInvalidClient.because(badAssertion, ""), why)
	}
	if form.Get("client_secret") != "" || len(r.Header.Values("Authorization")) > 0 {
		return nil, errInvalidClient.because(authTwice, "")
	}
	if form.Get("client_assertion_type") != assertionType {
		return refused(errors.New("no assertion"))
	}
	t, claims, aud, err := readAssertion(form.Get("client_assertion"))
	if err != nil {
		return refused(err)
	}
	id := claims.Issuer
	if claims.Subject != id || form.Get("client_id") != "" && form.Get("client_id") != id {
		return refused(errors.New("iss, sub and client_id differ"))
	}
	c, err := p.client(ctx, id)
	if err != nil && !errors.Is(err, ErrClientNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, errInvalidClient
	}
	if c.AuthMethod != AuthJWT {
		return nil, errInvalidClient.because(authMethod, "")
	}
	key, ok := c.keyFor(t.Headers[0].KeyID, t.Headers[0].Algorithm)
	if !ok {
		return refused(errors.New("no key fits, or several"))
	}
	if err := t.Claims(key, &jwt.Claims{}); err != nil {
		return refused(fmt.Errorf("verify assertion: %w", err))
	}
	if err = p.checkAssertion(claims, aud); err == nil && c.isFAPI() {
		err = p.checkFAPIAssertion(t.Headers[0].Algorithm, aud)
	}
	if err != nil {
		return refused(err)
	}
	// Only valid assertions are stored.
	err = p.storage.SpendAssertion(ctx, c.ID, claims.ID, claims.Expiry.Time().UTC())
	if errors.Is(err, ErrSpent) {
		return nil, errInvalidClient.because(usedAssertion, "")
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// readAssertion reads the claims without verifying them. It also returns aud if it is a string,
// because jwt.Claims does not distinguish that from a list of one.
func readAssertion(raw string) (*jwt.JSONWebToken, jwt.Claims, string, error) {
	var c jwt.Claims
	var audience struct {
		Aud any `json:"aud"`
	}
	if len(raw) > maxAssertion || strings.Count(raw, ".") != 2 {
		return nil, c, "", errors.New("not a token")
	}
	t, err := jwt.ParseSigned(raw, assertionAlgorithms)
	if err != nil {
		return nil, c, "", fmt.Errorf("read assertion: %w", err)
	}
	if err := t.UnsafeClaimsWithoutVerification(&c, &audience); err != nil {
		return nil, c, "", fmt.Errorf("read assertion: %w", err)
	}
	aud, _ := audience.Aud.(string)
	return t, c, aud, nil
}

// checkAssertion checks the claims by RFC 7523 section 3. The only audience must be the issuer or
// the token endpoint, at every endpoint: an assertion that another server accepts too could have
// been sent to us by that server.
func (p *Provider) checkAssertion(c jwt.Claims, aud string) error {
	if aud != p.issuer && aud != p.issuer+"/oauth2/token" {
		return errors.New("aud is not one string, the issuer or the token endpoint")
	}
	if c.ID == "" || len(c.ID) > maxJTI {
		return errors.New("no jti, or a long one")
	}
	now := p.clock()
	latest := now.Add(assertionLifetime + assertionSkew)
	if c.Expiry == nil || !now.Before(c.Expiry.Time()) || c.Expiry.Time().After(latest) {
		return errors.New("exp is missing, past or too far ahead")
	}
	if c.NotBefore != nil && c.NotBefore.Time().After(now.Add(assertionSkew)) {
		return errors.New("nbf is ahead")
	}
	if c.IssuedAt == nil {
		return nil
	}
	issuedAt := c.IssuedAt.Time()
	if issuedAt.After(now.Add(assertionSkew)) || c.Expiry.Time().Sub(issuedAt) > assertionLifetime+assertionSkew {
		return errors.New("iat is ahead, or the assertion lives too long")
	}
	return nil
}

const (
	maxClientKeySet = 32 << 10 // bytes
	maxClientKeys   = 16
	maxKeyID        = 128 // bytes
)

var assertionAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// CheckClientKeys validates the key set of a client (RFC 7517 section 5): 1 to 16 public
// signature keys, RSA of 2048 to 4096 bits, P-256 or Ed25519, without duplicate kids. It returns
// the set to store, without ignored members. The error says what to change.
func CheckClientKeys(raw []byte) ([]byte, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if len(raw) > maxClientKeySet {
		return nil, errors.New("the key set is larger than 32 KiB")
	}
	if err := json.Unmarshal(raw, &set); err != nil || len(set.Keys) == 0 {
		return nil, errors.New("not a key set: " +
			`a JSON object {"keys": [...]} with at least one key is needed (RFC 7517)`)
	}
	if len(set.Keys) > maxClientKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxClientKeys)
	}
	kept := jose.JSONWebKeySet{}
	for i, member := range set.Keys {
		err := checkKeyMembers(member)
		var k jose.JSONWebKey
		if err == nil {
			k, err = readClientKey(member)
		}
		if err != nil {
			return nil, fmt.Errorf("key %d of the set: %w", i+1, err)
		}
		if slices.ContainsFunc(kept.Keys, func(other jose.JSONWebKey) bool { return other.KeyID == k.KeyID }) {
			return nil, fmt.Errorf("key %d of the set: another key has the same kid", i+1)
		}
		kept.Keys = append(kept.Keys, k)
	}
	out, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("encode key set: %w", err)
	}
	return out, nil
}

// privateMembers lists the members of RFC 7518 section 6 that occur only in private and symmetric
// keys.
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// checkKeyMembers checks what go-jose ignores: remains of a private key, and key_ops.
func checkKeyMembers(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return errors.New("not a key that can be read")
	}
	for _, name := range privateMembers {
		if _, there := members[name]; there {
			return errors.New("a private or symmetric key: only the public half belongs here, " +
				"and of a new pair, because this one has been copied")
		}
	}
	if ops, there := members["key_ops"]; there {
		var list []string
		if _ = json.Unmarshal(ops, &list); !slices.Contains(list, "verify") {
			return errors.New("its key_ops do not have verify")
		}
	}
	return nil
}

// readClientKey reads one key of a set. The error says what is wrong with it.
func readClientKey(raw []byte) (jose.JSONWebKey, error) {
	var k jose.JSONWebKey
	if err := json.Unmarshal(raw, &k); err != nil {
		return k, errors.New("not a key that can be read")
	}
	if !k.IsPublic() {
		return k, errors.New("a private or symmetric key: only the public half belongs here")
	}
	algorithms := keyAlgorithms(k.Key)
	switch {
	case algorithms == nil:
		return k, errors.New("neither RSA of 2048 to 4096 bits nor P-256 nor Ed25519")
	case len(k.KeyID) > maxKeyID || strings.ContainsFunc(k.KeyID, func(r rune) bool { return r < ' ' || r > '~' }):
		return k, fmt.Errorf("its kid has more than %d characters, or characters other than printable ASCII", maxKeyID)
	case k.Use != "" && k.Use != "sig":
		return k, errors.New("its use is not sig")
	case k.Algorithm != "" && !slices.Contains(algorithms, jose.SignatureAlgorithm(k.Algorithm)):
		return k, fmt.Errorf("its alg is not one of %v", algorithms)
	}
	return jose.JSONWebKey{Key: k.Key, KeyID: k.KeyID, Algorithm: k.Algorithm, Use: "sig"}, nil
}

// keyAlgorithms returns the algorithms that a key can verify, or nil if the key is not accepted.
func keyAlgorithms(key any) []jose.SignatureAlgorithm {
	switch k := key.(type) {
	case *rsa.PublicKey:
		// An even exponent or modulus is not RSA. go-jose has refused an exponent of 1 and more than 4096 bits.
		if k.N.BitLen() >= 2048 && k.E%2 == 1 && k.N.Bit(0) == 1 {
			return []jose.SignatureAlgorithm{jose.RS256, jose.PS256}
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return []jose.SignatureAlgorithm{jose.ES256}
		}
	case ed25519.PublicKey: // go-jose has refused points of small order
		return []jose.SignatureAlgorithm{jose.EdDSA}
	}
	return nil
}

// fitsAlgorithm reports whether a key may verify signatures of an algorithm.
func fitsAlgorithm(k jose.JSONWebKey, alg string) bool {
	return (k.Algorithm == "" || k.Algorithm == alg) &&
		slices.Contains(keyAlgorithms(k.Key), jose.SignatureAlgorithm(alg))
}

// keyFor returns the one key of the client that fits the header of an assertion. A kid must
// match; without one, a single key must fit. Unreadable keys are ignored.
func (c *Client) keyFor(kid, alg string) (any, bool) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(c.JWKS, &set) != nil {
		return nil, false
	}
	var found []any
	for _, member := range set.Keys {
		k, err := readClientKey(member)
		if err != nil || kid != "" && k.KeyID != kid || !fitsAlgorithm(k, alg) {
			continue
		}
		found = append(found, k.Key)
	}
	if len(found) != 1 {
		return nil, false
	}
	return found[0], true
}

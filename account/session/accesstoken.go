package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AccessToken holds the claims of a verified access token for an API (RFC 9068). Times are UTC, in
// whole seconds.
type AccessToken struct {
	Subject  string   // sub: the stable, opaque id of the user, or ClientID where a client asked for itself
	ClientID string   // client_id: the application that got the token
	Scopes   []string // scope: what it may do; ask HasScope
	Audience []string // aud: the APIs that it is for
	Groups   []string // groups: as at the time of issue, where the scope groups was granted
	ACR      string   // acr: the class of the sign-in, as Claims.ACR
	AMR      []string // amr: the methods of the sign-in (RFC 8176)

	AuthTime  time.Time // auth_time: when the user proved who they are; zero where a client asked for itself
	IssuedAt  time.Time // iat
	ExpiresAt time.Time // exp

	ID           string     // jti
	Confirmation string     // cnf.jkt: the thumbprint of the key that it is bound to (RFC 9449), "" for a bearer token
	Status       *StatusRef // the place of its grant in the issuer's status list; nil if the token has none
}

// HasScope reports whether the token has a scope.
func (t AccessToken) HasScope(scope string) bool { return slices.Contains(t.Scopes, scope) }

// AccessTokenVerifier verifies the access tokens for one API. Its fields are set before the first use
// and not changed afterwards; then all methods may be called from many goroutines.
type AccessTokenVerifier struct {
	// Issuer is Cairn's base URL, byte for byte as in its discovery document.
	Issuer string

	// Audience is the URI of the API, byte for byte as registered with cairn api add. It has to be
	// among the audiences of a token.
	Audience string

	// Keys are the issuer's public keys. The shared secret never signs access tokens.
	Keys KeySet

	// Status reports which grants have ended since the token was issued. If it is nil, a token is
	// accepted until it expires. If it is set, a token without a reference into a status list is
	// refused.
	Status StatusChecker

	// Proof checks the DPoP proof of a request (RFC 9449 section 4.3): its signature, that the
	// thumbprint of its key is t.Confirmation, its htm, htu, iat and jti, and that ath is the hash of
	// token. Nil refuses every token that is bound to a key.
	Proof func(r *http.Request, token string, t AccessToken) error

	Now    func() time.Time // the clock; nil means time.Now
	Leeway time.Duration    // as Verifier.Leeway
}

// Check reports a setting with which the verifier would refuse every token. Call it at start; Verify
// fails with the same error.
func (v *AccessTokenVerifier) Check() error {
	switch {
	case v == nil:
		return errors.New("session: there is no verifier")
	case v.Audience == "":
		return errors.New("session: the verifier has no audience: set it to the URI of the API")
	case v.Keys == nil:
		return errors.New("session: the verifier has no keys: set them, for access tokens are never signed with the " +
			"secret")
	}
	return v.rules().Check()
}

// rules returns the rules that access tokens share with session tokens.
func (v *AccessTokenVerifier) rules() *Verifier {
	return &Verifier{Issuer: v.Issuer, Keys: v.Keys, Status: v.Status, Now: v.Now, Leeway: v.Leeway}
}

const (
	accessTokenType = "at+jwt"
	maxAccessToken  = 16 << 10 // bytes; those for many APIs and with many groups are long
)

// Verify returns the claims of an access token. The errors are those of Verifier.Verify; a session
// token or an ID token is ErrInvalid. If Proof is set, tokens that are bound to a key are accepted:
// compare Confirmation with the key of the proof, as VerifyRequest does.
func (v *AccessTokenVerifier) Verify(ctx context.Context, token string) (AccessToken, error) {
	if err := v.Check(); err != nil {
		return AccessToken{}, err
	}
	rules := v.rules()
	payload, _, err := rules.verifySignature(ctx, token, accessTokenType, maxAccessToken)
	if err != nil {
		return AccessToken{}, err
	}
	c, err := rules.commonClaims(payload)
	if err != nil {
		return AccessToken{}, err
	}
	t := AccessToken{Subject: c.Subject, Groups: c.Groups, ACR: c.ACR, AMR: c.AMR, ID: c.ID, Status: c.Status}
	if err := t.read(payload); err != nil {
		return AccessToken{}, err
	}
	switch {
	case !slices.Contains(t.Audience, v.Audience):
		return AccessToken{}, invalid("another audience")
	case t.Confirmation != "" && v.Proof == nil:
		return AccessToken{}, invalid("bound to a key, and proofs are not checked here")
	}
	if c, err = rules.inForce(c, payload); err != nil {
		return AccessToken{}, err
	}
	t.AuthTime, t.IssuedAt, t.ExpiresAt = c.AuthTime, c.IssuedAt, c.ExpiresAt
	if err := rules.notRevoked(ctx, c); err != nil {
		return AccessToken{}, err
	}
	return t, nil
}

// read reads the claims that session tokens do not have.
func (t *AccessToken) read(m map[string]any) error {
	var ok bool
	if t.ClientID, _ = m["client_id"].(string); t.ClientID == "" {
		return invalid("client_id is missing or not a string")
	}
	scope, ok := m["scope"].(string)
	if !ok && m["scope"] != nil {
		return invalid("scope is not a string")
	}
	t.Scopes = strings.Fields(scope)
	if one, single := m["aud"].(string); single {
		t.Audience = []string{one}
	} else if t.Audience, ok = stringList(m["aud"]); !ok {
		return invalid("aud is not a string or an array of strings")
	}
	if value, there := m["cnf"]; there {
		// A token that is bound in an unknown way is not a bearer token either.
		cnf, _ := value.(map[string]any)
		if t.Confirmation, _ = cnf["jkt"].(string); t.Confirmation == "" || len(cnf) != 1 {
			return invalid("cnf is not the thumbprint of a key")
		}
	}
	return nil
}

// VerifyRequest verifies the access token of the header Authorization. ErrNoToken if there is none.
// A token that is bound to a key requires the scheme DPoP and a proof, any other the scheme Bearer.
func (v *AccessTokenVerifier) VerifyRequest(r *http.Request) (AccessToken, error) {
	values := r.Header.Values("Authorization")
	if len(values) > 1 {
		return AccessToken{}, invalid("several Authorization headers")
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	bound := strings.EqualFold(scheme, "DPoP")
	if !bound && !strings.EqualFold(scheme, "Bearer") {
		return AccessToken{}, ErrNoToken
	}
	token = strings.Trim(token, " ")
	t, err := v.Verify(r.Context(), token)
	switch {
	case err != nil:
		return AccessToken{}, err
	case bound != (t.Confirmation != ""):
		return AccessToken{}, invalid("bound tokens take the scheme DPoP, others Bearer")
	case bound:
		if err := v.Proof(r, token, t); err != nil {
			return AccessToken{}, fmt.Errorf("%w: proof: %w", ErrInvalid, err)
		}
	}
	return t, nil
}

type accessTokenKey struct{}

// AccessTokenFromContext returns the token that RequireScopes has put into the context, and reports
// whether there is one.
func AccessTokenFromContext(ctx context.Context) (AccessToken, bool) {
	t, ok := ctx.Value(accessTokenKey{}).(AccessToken)
	return t, ok
}

// RequireScopes serves requests with a valid access token that has all of the scopes, with the
// token in the context. Others are answered with application/problem+json and WWW-Authenticate (RFC
// 6750 section 3): 401, 403 insufficient_scope, or 503 and 500 as in Middleware.
func (v *AccessTokenVerifier) RequireScopes(scopes ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t, err := v.VerifyRequest(r)
			if err == nil && slices.ContainsFunc(scopes, func(s string) bool { return !t.HasScope(s) }) {
				err = errInsufficientScope
			}
			if err != nil {
				v.refuse(w, err, scopes)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accessTokenKey{}, t)))
		})
	}
}

var errInsufficientScope = errors.New("session: insufficient scope")

func (v *AccessTokenVerifier) refuse(w http.ResponseWriter, err error, scopes []string) {
	status, code, detail := http.StatusUnauthorized, "invalid_token", "The access token is not valid here."
	switch {
	case errors.Is(err, ErrKeysUnavailable), errors.Is(err, ErrStatusUnavailable):
		status, code = http.StatusServiceUnavailable, "temporarily_unavailable"
		detail = "The access token cannot be checked right now. Try again soon."
		w.Header().Set("Retry-After", "10")
	case errors.Is(err, errInsufficientScope):
		status, code, detail = http.StatusForbidden, "insufficient_scope", "The access token lacks a scope."
	case errors.Is(err, ErrExpired):
		detail = "The access token has expired."
	case errors.Is(err, ErrNoToken):
		code, detail = "not_authenticated", "Send an access token."
	case !errors.Is(err, ErrInvalid):
		status, code, detail = http.StatusInternalServerError, "internal_error",
			"Access tokens are not set up in this API."
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		challenge := " realm=" + strconv.Quote(v.Audience)
		if !errors.Is(err, ErrNoToken) {
			challenge += `, error="` + code + `", error_description="` + detail + `"`
		}
		if len(scopes) > 0 && code != "invalid_token" {
			challenge += ", scope=" + strconv.Quote(strings.Join(scopes, " "))
		}
		w.Header().Set("WWW-Authenticate", "Bearer"+challenge)
		if v.Proof != nil {
			w.Header().Add("WWW-Authenticate", "DPoP"+challenge+`, algs="ES256 EdDSA PS256 RS256"`)
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	writeProblem(w, status, code, detail)
}

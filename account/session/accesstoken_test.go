package session_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/store/storetest/assert"
	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

const api = "https://api.example.org"

var ecKey = sync.OnceValue(func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
})

var edKey = sync.OnceValue(func() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) })

// accessVerifier has the issuer's three keys, under three kids.
func accessVerifier() *session.AccessTokenVerifier {
	keys := session.NewStaticKeySet(publicJWK(rsaKey(), kid), jose.JSONWebKey{Key: ecKey(), KeyID: "ec", Use: "sig",
		Algorithm: "ES256"}, jose.JSONWebKey{Key: edKey(), KeyID: "ed"})
	return &session.AccessTokenVerifier{Issuer: issuer, Audience: api, Keys: keys,
		Now: func() time.Time { return clock }}
}

func accessPayload() map[string]any {
	now := clock.Unix()
	return map[string]any{
		"iss": issuer, "sub": "sub-of-ada", "aud": []string{api, issuer + "/oauth2/userinfo"}, "client_id": "app", "scope": "openid trails.read", "iat": now, "exp": now + 3600,
		"jti": "jti", "auth_time": now - 60, "acr": "2", "amr": []string{"pwd", "otp"}, "groups": []string{"activity"}, "status": statusClaim(7, issuer+"/oauth2/status/1"),
	}
}

// sign makes a token as go-jose does, with a header of any type.
func sign(alg jose.SignatureAlgorithm, key any, id, typ string, payload map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		panic(err)
	}
	jws, err := signer.Sign([]byte(toJSON(payload)))
	if err != nil {
		panic(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

func esToken(payload map[string]any) string {
	return sign(jose.ES256, ecKey(), "ec", "at+jwt", payload)
}

func TestAccessTokenIsVerified(t *testing.T) {
	v := accessVerifier()
	want := session.AccessToken{
		Subject: "sub-of-ada", ClientID: "app", Scopes: []string{"openid", "trails.read"}, Audience: []string{api, issuer + "/oauth2/userinfo"},
		Groups: []string{"activity"}, ACR: "2", AMR: []string{"pwd", "otp"}, AuthTime: clock.Add(-time.Minute).UTC(), IssuedAt: clock.UTC(), ExpiresAt: clock.Add(time.Hour).UTC(),
		ID: "jti", Status: &session.StatusRef{Index: 7, URI: issuer + "/oauth2/status/1"},
	}
	for what, token := range map[string]string{
		"ES256": esToken(accessPayload()), "EdDSA": sign(jose.EdDSA, edKey(), "ed", "at+jwt", accessPayload()), "RS256": sign(jose.RS256, rsaKey(), kid, "at+jwt", accessPayload()),
		"media type": sign(jose.ES256, ecKey(), "ec", "Application/AT+JWT", accessPayload()),
	} {
		got, err := v.Verify(t.Context(), token)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", what, err, diff)
		}
	}
	if !want.HasScope("trails.read") || want.HasScope("trails") {
		t.Error("HasScope compares parts")
	}
	own := map[string]any{"iss": issuer, "sub": "app", "client_id": "app", "aud": api, "iat": clock.Unix(), "exp": clock.Unix() + 60, "jti": "1"}
	if got, err := v.Verify(t.Context(), esToken(own)); err != nil || got.Subject != "app" || !got.AuthTime.IsZero() || len(got.Scopes) > 0 {
		t.Errorf("a client's own: %+v, %v", got, err)
	}
}

// No kind of token passes as another, and no key is taken for one of another algorithm.
func TestOnlyAnAccessTokenForThisAPIPasses(t *testing.T) {
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	with := func(name string, value any) string { return esToken(changed(accessPayload(), name, value)) }
	genuine := esToken(accessPayload())
	cookieLike := changed(changed(good(), "aud", api), "client_id", "app")
	for what, token := range map[string]string{
		"session":            rsToken(good()),
		"session for it":     rsToken(cookieLike),
		"ID token":           sign(jose.ES256, ecKey(), "ec", "JWT", accessPayload()),
		"logout token":       sign(jose.ES256, ecKey(), "ec", "logout+jwt", accessPayload()),
		"without a type":     forge(map[string]any{"alg": "RS256", "kid": kid}, accessPayload(), byRSA(rsaKey())),
		"another media type": sign(jose.ES256, ecKey(), "ec", "application/application/at+jwt", accessPayload()),
		"the shared secret":  forge(map[string]any{"alg": "HS256", "typ": "at+jwt", "kid": kid}, accessPayload(), byHMAC(secret)),
		"none":               forge(map[string]any{"alg": "none", "typ": "at+jwt", "kid": "ec"}, accessPayload(), func(string) []byte { return nil }),
		"the public key as secret": forge(map[string]any{"alg": "HS256", "typ": "at+jwt", "kid": "ed"}, accessPayload(),
			byHMAC(edKey().Public().(ed25519.PublicKey))),
		"another's key":          sign(jose.ES256, foreign, "ec", "at+jwt", accessPayload()),
		"PS256":                  sign(jose.PS256, rsaKey(), kid, "at+jwt", accessPayload()),
		"ES256 by an RSA kid":    sign(jose.ES256, ecKey(), kid, "at+jwt", accessPayload()),
		"EdDSA by an EC kid":     sign(jose.EdDSA, edKey(), "ec", "at+jwt", accessPayload()),
		"RS256 by an EC kid":     sign(jose.RS256, rsaKey(), "ec", "at+jwt", accessPayload()),
		"no kid":                 sign(jose.ES256, ecKey(), "", "at+jwt", accessPayload()),
		"changed":                genuine[:len(genuine)-6] + "AAAAAA",
		"another issuer":         with("iss", issuer+"/"),
		"another API":            with("aud", api+"/"),
		"userinfo alone":         with("aud", issuer+"/oauth2/userinfo"),
		"no aud":                 with("aud", nil),
		"aud of a number":        with("aud", []any{api, 1}),
		"no client":              with("client_id", nil),
		"no subject":             with("sub", ""),
		"no jti":                 with("jti", nil),
		"list of scopes":         with("scope", []string{"trails.read"}),
		"not yet valid":          with("nbf", clock.Unix()+31),
		"issued in the future":   with("iat", clock.Unix()+31),
		"without exp":            with("exp", nil),
		"bound to a key":         with("cnf", map[string]any{"jkt": "thumbprint"}),
		"bound to a certificate": with("cnf", map[string]any{"x5t#S256": "thumbprint"}),
		"too long":               with("groups", strings.Repeat("x", 16<<10)),
	} {
		if _, err := accessVerifier().Verify(t.Context(), token); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	expired := changed(changed(accessPayload(), "iat", clock.Unix()-3630), "exp", clock.Unix()-30)
	if _, err := accessVerifier().Verify(t.Context(), esToken(expired)); !errors.Is(err, session.ErrExpired) {
		t.Errorf("expired: %v", err)
	}
	if _, err := accessVerifier().Verify(t.Context(), esToken(changed(expired, "aud", "x"))); errors.Is(err, session.ErrExpired) {
		t.Error("expired says that a token was good")
	}
	// A session, signed with a key that sessions are not signed with, and an access token with all that a session has.
	v := verifier()
	v.Keys = accessVerifier().Keys
	mustVerify(t, v, rsToken(good()))
	both := changed(changed(good(), "client_id", "app"), "aud", session.Audience)
	for _, token := range []string{sign(jose.ES256, ecKey(), "ec", "JWT", good()), sign(jose.EdDSA, edKey(), "ed", "JWT", good()), sign(jose.RS256, rsaKey(), kid, "at+jwt", both), forge(rsHeader(), good(), func(string) []byte { return make([]byte, 64) })} {
		mustRefuse(t, v, token)
	}
}

func TestEndedGrantIsSeenInTheStatusList(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := newServer()
		v := accessVerifier()
		v.Now = nil
		payload := changed(changed(changed(accessPayload(), "iat", time.Now().Unix()), "exp", time.Now().Unix()+3600), "auth_time", time.Now().Unix())
		keys := session.NewStaticKeySet(publicJWK(rsaKey(), kid))
		lists := session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: issuer, Keys: keys,
			Client: &http.Client{Transport: s}})
		defer lists.Close()
		v.Status = lists
		if _, err := v.Verify(t.Context(), esToken(payload)); err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.revoked = []int{7} })
		time.Sleep(61 * time.Second)
		_, _ = v.Verify(t.Context(), esToken(payload)) // renews the copy in the background
		time.Sleep(time.Second)
		if _, err := v.Verify(t.Context(), esToken(payload)); !errors.Is(err, session.ErrRevoked) {
			t.Errorf("revoked: %v", err)
		}
		if _, err := v.Verify(t.Context(), esToken(changed(payload, "status", nil))); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("without a place in the list: %v", err)
		}
		s.fail(refused)
		if _, err := v.Verify(t.Context(), esToken(changed(payload, "status", statusClaim(7, issuer+"/oauth2/status/2")))); !errors.Is(err, session.ErrStatusUnavailable) {
			t.Errorf("a list that cannot be had: %v", err)
		}
	})
}

func TestAPIAnswersAsRFC6750Has(t *testing.T) {
	thumbprint := map[string]any{"jkt": "thumbprint"}
	bound := esToken(changed(accessPayload(), "cnf", thumbprint))
	proof := func(r *http.Request, token string, at session.AccessToken) error {
		if r.Header.Get("DPoP") != at.Confirmation+token {
			return errors.New("another key")
		}
		return nil
	}
	realm := ` realm="` + api + `"`
	invalid := realm + `, error="invalid_token", error_description="The access token is not valid here."`
	for what, c := range map[string]struct {
		authorization []string
		proof         func(*http.Request, string, session.AccessToken) error
		status        int
		challenge     string
	}{
		"good":                 {[]string{"bearer " + esToken(accessPayload())}, nil, 200, ""},
		"without":              {nil, nil, 401, "Bearer" + realm + `, scope="trails.read"`},
		"another scheme":       {[]string{"Basic YTpi"}, nil, 401, "Bearer" + realm + `, scope="trails.read"`},
		"without, none needed": {nil, nil, 401, "Bearer" + realm},
		"not a token":          {[]string{"Bearer x"}, nil, 401, "Bearer" + invalid},
		"expired":              {[]string{"Bearer " + esToken(changed(changed(accessPayload(), "iat", clock.Unix()-60), "exp", clock.Unix()-30))}, nil, 401, "Bearer" + strings.Replace(invalid, "is not valid here", "has expired", 1)},
		"two":                  {[]string{"Bearer " + esToken(accessPayload()), "Bearer " + esToken(accessPayload())}, nil, 401, "Bearer" + invalid},
		"without the scope":    {[]string{"Bearer " + esToken(changed(accessPayload(), "scope", "openid"))}, nil, 403, "Bearer" + realm + `, error="insufficient_scope", error_description="The access token lacks a scope.", scope="trails.read"`},
		"bound, unknown here":  {[]string{"DPoP " + bound}, nil, 401, "Bearer" + invalid},
		"bound, with a proof":  {[]string{"DPoP " + bound}, proof, 200, ""},
		"bound, as Bearer":     {[]string{"Bearer " + bound}, proof, 401, "Bearer" + invalid},
		"bound to two":         {[]string{"DPoP " + esToken(changed(accessPayload(), "cnf", map[string]any{"jkt": "thumbprint", "x5t#S256": "x"}))}, func(*http.Request, string, session.AccessToken) error { return nil }, 401, "Bearer" + invalid},
		"unbound, as DPoP":     {[]string{"DPoP " + esToken(accessPayload())}, proof, 401, "Bearer" + invalid},
		"with another's proof": {[]string{"DPoP " + esToken(changed(accessPayload(), "cnf", map[string]any{"jkt": "another"}))}, proof, 401, "Bearer" + invalid},
	} {
		v := accessVerifier()
		v.Proof = c.proof
		app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got, ok := session.AccessTokenFromContext(r.Context()); !ok || got.Subject != "sub-of-ada" {
				t.Errorf("%s: %+v", what, got)
			}
		})
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/?access_token="+esToken(accessPayload()), nil)
		for _, value := range c.authorization {
			r.Header.Add("Authorization", value)
		}
		r.Header.Set("DPoP", "thumbprint"+bound)
		scopes := []string{"trails.read"}
		if what == "without, none needed" {
			scopes = nil
		}
		v.RequireScopes(scopes...)(app).ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("WWW-Authenticate") != c.challenge || c.status != 200 && w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %s", what, w.Code, w.Header(), w.Body)
		}
		if all := w.Header().Values("WWW-Authenticate"); c.status == 401 && (c.proof != nil) != (len(all) == 2 && strings.HasPrefix(all[1], "DPoP ")) {
			t.Errorf("%s: %q", what, all)
		}
	}
	away := accessVerifier()
	away.Status = checker(func(session.StatusRef) (bool, error) { return false, session.ErrStatusUnavailable })
	for says, v := range map[string]*session.AccessTokenVerifier{
		"no verifier": nil, "no audience": {Issuer: issuer, Keys: away.Keys}, "verifier has no keys": {Issuer: issuer, Audience: api},
		"keys unavailable": {Issuer: issuer, Audience: api, Keys: ownKeySet{err: session.ErrKeysUnavailable}}, "status unavailable": away,
	} {
		status := 500
		if strings.HasSuffix(says, "unavailable") {
			status = 503
		}
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+esToken(accessPayload()))
		if v.RequireScopes()(http.NotFoundHandler()).ServeHTTP(w, r); w.Code != status || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %d %v", says, w.Code, w.Header())
		}
		_, err := v.Verify(t.Context(), esToken(accessPayload()))
		assert.Has(t, says, err.Error(), says)
	}
}

package session_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

const (
	issuer = "https://id.example.org"
	kid    = "key-1"
)

var (
	secret = []byte("correct horse battery staple, thirty-two and more")
	clock  = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey { return newRSA(2048) })
	otherKey = sync.OnceValue(func() *rsa.PrivateKey { return newRSA(2048) })
)

func newRSA(bits int) *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return k
}

func publicJWK(k *rsa.PrivateKey, id string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: &k.PublicKey, KeyID: id, Use: "sig", Algorithm: "RS256"}
}

// verifier believes both kinds of tokens, at the test's clock.
func verifier() *session.Verifier {
	return &session.Verifier{
		Issuer: issuer, Secret: secret, Keys: session.NewStaticKeySet(publicJWK(rsaKey(), kid)), Now: func() time.Time { return clock },
	}
}

// good is the payload of a genuine token issued at the clock.
func good() map[string]any { return payload(issuer, clock, 7) }

// payload is that of a genuine token whose place in the first list is index.
func payload(issuer string, now time.Time, index int) map[string]any {
	return map[string]any{
		"iss": issuer, "sub": "u_7Q", "aud": session.Audience,
		"iat": now.Unix(), "exp": now.Add(session.Lifetime).Unix(), "auth_time": now.Add(-time.Minute).Unix(),
		"amr": []string{"pwd", "otp", "mfa"}, "acr": "2", "jti": "t_1", "sid": "s_1",
		"preferred_username": "ada", "name": "Ada L.", "groups": []string{"activity", "admin"},
		"status": statusClaim(index, issuer+"/oauth2/status/1"),
	}
}

func statusClaim(index, uri any) map[string]any {
	return map[string]any{"status_list": map[string]any{"idx": index, "uri": uri}}
}

// with returns the genuine payload with one claim changed; nil as a bare value removes it.
func with(name string, value any) map[string]any { return changed(good(), name, value) }

func changed(m map[string]any, name string, value any) map[string]any {
	m = maps.Clone(m)
	if m[name] = value; value == nil {
		delete(m, name)
	}
	return m
}

func toJSON(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// forge assembles any token, however wrong: header and payload are JSON text or
// something to marshal.
func forge(header, payload any, sign func(input string) []byte) string {
	input := b64(toJSON(header)) + "." + b64(toJSON(payload))
	return input + "." + b64(string(sign(input)))
}

func byHMAC(key []byte) func(string) []byte {
	return func(input string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(input))
		return m.Sum(nil)
	}
}

func byRSA(key *rsa.PrivateKey) func(string) []byte {
	return func(input string) []byte {
		sum := sha256.Sum256([]byte(input))
		sig, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		return sig
	}
}

func hsHeader() map[string]any { return map[string]any{"alg": "HS256", "typ": "JWT"} }
func rsHeader() map[string]any { return map[string]any{"alg": "RS256", "typ": "JWT", "kid": kid} }

func hsToken(payload any) string { return forge(hsHeader(), payload, byHMAC(secret)) }
func rsToken(payload any) string { return forge(rsHeader(), payload, byRSA(rsaKey())) }

// expiredToken ran out a second before the leeway's end.
func expiredToken() string {
	p := with("exp", clock.Unix()-31)
	p["iat"], p["auth_time"] = clock.Unix()-100, clock.Unix()-100
	return hsToken(p)
}

// mustRefuse asks that a token is refused as invalid, that no claims come with the
// refusal, and that its text holds no part of the token.
func mustRefuse(t *testing.T, v *session.Verifier, token string) error {
	t.Helper()
	c, err := v.Verify(t.Context(), token)
	if !errors.Is(err, session.ErrInvalid) || c.Subject != "" || c.Issuer != "" {
		t.Fatalf("%.80q: claims %+v, error %v", token, c, err)
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) >= 6 && strings.Contains(err.Error(), part) {
			t.Fatalf("error %q holds a part of the token", err)
		}
	}
	return err
}

func mustVerify(t *testing.T, v *session.Verifier, token string) session.Claims {
	t.Helper()
	c, err := v.Verify(t.Context(), token)
	if err != nil {
		t.Errorf("%.80q: %v", token, err)
	}
	return c
}

package provider

import (
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

func newHintSigner(t testing.TB) (*idTokenSigner, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	jwk := jose.JSONWebKey{Key: key, KeyID: "kid", Algorithm: "RS256", Use: "sig"}
	s, err := newIDTokenSigner("https://id.example.org", jwk, []jose.JSONWebKey{jwk}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	genuine, err := jwt.Signed(s.signer).Claims(map[string]any{"iss": "https://id.example.org", "sub": "ada", "aud": "app", "exp": 1}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return s, genuine
}

// Anything sent as id_token_hint: no panic, and only what this
// service has signed is one.
func FuzzNothingButOurOwnTokenIsAHint(f *testing.F) {
	s, genuine := newHintSigner(f)
	header, rest, _ := strings.Cut(genuine, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	seeds := []string{genuine, "", "..", "a.b.c", header + "." + payload + ".", payload + "." + header + "." + signature, strings.Repeat(".", 9000), `{"payload":"x"}`, "e30.e30.e30"}
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		c, err := s.hint(in)
		if err == nil && (in != genuine || c.Subject != "ada") {
			t.Errorf("%.80q is a hint", in)
		}
		if in == genuine && err != nil {
			t.Errorf("the genuine hint: %v", err)
		}
	})
}

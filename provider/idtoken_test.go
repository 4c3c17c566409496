package provider

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

func newHintRules(t testing.TB) (*rules, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	keys := []jose.JSONWebKey{{Key: key, KeyID: "kid", Algorithm: "RS256", Use: "sig"}}
	all, err := newSigners("JWT", append(keys, jose.JSONWebKey{Key: key, KeyID: "later", Algorithm: "RS256"}), nil) // the first one signs
	must(t, err)
	genuine, err := jwt.Signed(all["RS256"]).Claims(map[string]any{"iss": "https://id.example.org", "sub": "ada", "aud": "app", "exp": 1}).Serialize()
	must(t, err)
	return &rules{issuer: "https://id.example.org", public: []jose.JSONWebKey{keys[0].Public()}}, genuine
}

// Anything sent as id_token_hint: no panic, and only what this
// service has signed is one.
func FuzzNothingButOurOwnTokenIsAHint(f *testing.F) {
	s, genuine := newHintRules(f)
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

// The key decides the algorithm (RFC 8725 section 3.1): what names a key of ours and is signed in another way is no hint.
func TestHintHasTheAlgorithmOfItsKey(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	keys := []jose.JSONWebKey{{Key: rs, KeyID: "r", Algorithm: "RS256"}, {Key: ec, KeyID: "e", Algorithm: "ES256"}, {Key: ed, KeyID: "d", Algorithm: "EdDSA"}}
	s := &rules{issuer: "https://id.example.org"}
	for _, k := range keys {
		s.public = append(s.public, k.Public())
	}
	public, err := x509.MarshalPKIXPublicKey(&rs.PublicKey)
	must(t, err)
	for _, c := range []struct {
		alg jose.SignatureAlgorithm
		kid string
		key any
		ok  bool
	}{
		{"RS256", "r", rs, true}, {"ES256", "e", ec, true}, {"EdDSA", "d", ed, true},
		{"ES256", "r", ec, false}, {"RS256", "e", rs, false}, {"EdDSA", "e", ed, false}, {"ES256", "d", ec, false},
		{"PS256", "r", rs, false}, {"RS512", "r", rs, false}, {"HS256", "r", public, false}, {"HS256", "d", []byte(ed.Public().(ed25519.PublicKey)), false}, {"ES256", "x", ec, false},
	} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: c.alg, Key: jose.JSONWebKey{Key: c.key, KeyID: c.kid}},
			nil)
		must(t, err)
		hint, err := jwt.Signed(signer).Claims(map[string]any{"iss": "https://id.example.org", "sub": "ada", "aud": "app"}).Serialize()
		must(t, err)
		if _, err := s.hint(hint); (err == nil) != c.ok {
			t.Errorf("%s as %s: %v", c.alg, c.kid, err)
		}
	}
}

// A client of an algorithm gets no tokens from a key that only verifies earlier ones.
func TestPublicKeySignsForNoClient(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	private := jose.JSONWebKey{Key: key, Algorithm: "ES256"}
	clients, apis := []*Client{{IDTokenAlg: "ES256"}}, []*API{{Algorithm: "ES256"}, {}, {Algorithm: "EdDSA", Opaque: true}}
	for _, c := range []struct {
		key     jose.JSONWebKey
		without int
	}{{private, 0}, {private.Public(), 1}} {
		keys := []jose.JSONWebKey{c.key}
		same(t, "clients without a key", len(CheckKeys(clients, keys)), c.without)
		same(t, "APIs without a key", len(CheckAPIKeys(apis, keys)), c.without)
	}
}

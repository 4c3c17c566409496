package libcrypto_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/cmd/cairn/internal/libcrypto"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

func newKey(t testing.TB, bits int) jose.JSONWebKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	must(t, err)
	return jose.JSONWebKey{Key: key, KeyID: "k-1", Algorithm: string(jose.RS256), Use: "sig"}
}

func newSigner(t testing.TB, key jose.JSONWebKey) *libcrypto.Signer {
	t.Helper()
	s, err := libcrypto.New(key)
	if err != nil {
		if out, _ := exec.Command("/sbin/ldconfig", "-p").Output(); strings.Contains(string(out), "libcrypto.so.3") && !strings.Contains(err.Error(), "built without") {
			t.Fatalf("the library is here: %v", err)
		}
		t.Skip(err)
	}
	return s
}

// PKCS#1 v1.5 is deterministic, so there is one right signature.
func TestSignaturesAreThoseOfTheStandardLibrary(t *testing.T) {
	for _, bits := range []int{2048, 3072, 4096} {
		key := newKey(t, bits)
		s := newSigner(t, key)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for n := range 16 {
					payload := bytes.Repeat([]byte{byte(i)}, n*100)
					sum := sha256.Sum256(payload)
					want, err := rsa.SignPKCS1v15(nil, key.Key.(*rsa.PrivateKey), crypto.SHA256, sum[:])
					if got, err2 := s.SignPayload(payload, jose.RS256); err != nil || err2 != nil ||
						!bytes.Equal(got, want) {
						t.Errorf("%d bits, %d bytes: %v %v", bits, len(payload), err, err2)
					}
				}
			})
		}
		all.Wait()
	}
}

// A token is the same, byte for byte, whoever signs it: kid and alg in the header too.
func TestTokensAreThoseOfTheGoSigner(t *testing.T) {
	key := newKey(t, 2048)
	sign := func(with any) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: with}, (&jose.SignerOptions{}).WithType("JWT"))
		must(t, err)
		text, err := jwt.Signed(signer).Claims(jwt.Claims{Subject: "ada", Expiry: jwt.NewNumericDate(time.Unix(1<<31, 0))}).Serialize()
		must(t, err)
		return text
	}
	same(t, "sign", sign(newSigner(t, key)), sign(key))
}

func TestOnlyRSAPrivateKeysAndRS256(t *testing.T) {
	key := newKey(t, 2048)
	s := newSigner(t, key)
	if !s.Public().IsPublic() || s.Public().KeyID != "k-1" {
		t.Error(s.Public())
	}
	if _, err := s.SignPayload([]byte("x"), jose.PS256); err == nil {
		t.Error("PS256 was signed")
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	for _, k := range []jose.JSONWebKey{key.Public(), {Key: ec}, {}} {
		if _, err := libcrypto.New(k); err == nil {
			t.Errorf("a signer of %T", k.Key)
		}
	}
}

// BenchmarkToken builds and signs a token with each signer.
func BenchmarkToken(b *testing.B) {
	key := newKey(b, 2048)
	for name, with := range map[string]any{"go": key, "libcrypto": newSigner(b, key)} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: with}, (&jose.SignerOptions{}).WithType("JWT"))
		must(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := jwt.Signed(signer).Claims(map[string]any{"iss": "https://id.example.org", "sub": "ada", "exp": 1 << 31}).Serialize(); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

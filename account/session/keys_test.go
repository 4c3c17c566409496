package session_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

// countingKeySet counts how often it is asked.
type countingKeySet struct {
	session.KeySet
	asked int
}

func (s *countingKeySet) Key(ctx context.Context, id string) (*jose.JSONWebKey, error) {
	s.asked++
	return s.KeySet.Key(ctx, id)
}

// ownKeySet answers every kid the same, as a careless KeySet would.
type ownKeySet struct {
	key *jose.JSONWebKey
	err error
}

func (s ownKeySet) Key(context.Context, string) (*jose.JSONWebKey, error) { return s.key, s.err }

func wantKey(t *testing.T, set session.KeySet, id string, want error) {
	t.Helper()
	k, err := set.Key(t.Context(), id)
	if want == nil && (err != nil || k == nil || k.KeyID != id) || want != nil && (!errors.Is(err, want) || k != nil) {
		t.Errorf("key %q: %v, %v; want %v", id, k, err, want)
	}
}

func TestStaticKeySetHasStrongPublicKeysAlone(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	set := session.NewStaticKeySet(
		jose.JSONWebKey{Key: p384, KeyID: "P-384"}, jose.JSONWebKey{Key: (*ecdsa.PublicKey)(nil), KeyID: "nil EC"}, jose.JSONWebKey{Key: ed25519.PublicKey{1}, KeyID: "short"},
		jose.JSONWebKey{Key: ecKey(), KeyID: "ES384", Algorithm: "ES384"}, jose.JSONWebKey{Key: ecKey(), KeyID: "RS256", Algorithm: "RS256"}, jose.JSONWebKey{Key: ecKey(), KeyID: "P-256"}, jose.JSONWebKey{Key: edKey(), KeyID: "Ed25519", Algorithm: "EdDSA"},
		jose.JSONWebKey{Key: secret, KeyID: "oct"}, jose.JSONWebKey{KeyID: "none"},
		jose.JSONWebKey{Key: (*rsa.PublicKey)(nil), KeyID: "nil"}, jose.JSONWebKey{Key: &rsa.PublicKey{}, KeyID: "blank"}, jose.JSONWebKey{Key: &ecdsa.PublicKey{Curve: elliptic.P256()}, KeyID: "blank EC"},
		jose.JSONWebKey{Key: &rsa.PublicKey{N: rsaKey().N, E: 1}, KeyID: "E 1"}, jose.JSONWebKey{Key: &rsa.PublicKey{N: rsaKey().N, E: 4}, KeyID: "E 4"}, jose.JSONWebKey{Key: &rsa.PublicKey{N: new(big.Int).Lsh(rsaKey().N, 14337), E: 3}, KeyID: "huge"},
		jose.JSONWebKey{Key: rsaKey(), KeyID: kid, Use: "sig", Algorithm: "RS256"}, publicJWK(otherKey(), kid), jose.JSONWebKey{Key: otherKey()},
	)
	for _, id := range []string{"P-384", "nil EC", "short", "ES384", "RS256", "oct", "none", "nil", "blank", "blank EC", "E 1", "E 4", "huge", "", "KEY-1"} {
		wantKey(t, set, id, session.ErrUnknownKey)
	}
	for _, id := range []string{"P-256", "Ed25519"} {
		if wantKey(t, set, id, nil); !t.Failed() {
			if k, _ := set.Key(t.Context(), id); !k.IsPublic() {
				t.Errorf("%s is not public", id)
			}
		}
	}
	k, err := set.Key(t.Context(), kid)
	if err != nil || !k.IsPublic() || !k.Key.(*rsa.PublicKey).Equal(rsaKey().Public()) || k.Use != "sig" || k.Algorithm != "RS256" {
		t.Fatalf("of two keys with one kid the first counts, its public part: %+v, %v", k, err)
	}
	k.Key = nil // the caller's copy, not the set's
	v := verifier()
	v.Keys = set
	mustVerify(t, v, rsToken(good()))
	sum, err := (&jose.JSONWebKey{Key: &otherKey().PublicKey}).Thumbprint(crypto.SHA256)
	must(t, err)
	wantKey(t, set, b64(string(sum)), nil)
}

// As a security module gives it: its type is nobody else's.
func TestStaticKeySetTakesThePublicHalfOfAnySigner(t *testing.T) {
	set := session.NewStaticKeySet(jose.JSONWebKey{Key: struct{ crypto.Signer }{rsaKey()}, KeyID: kid})
	wantKey(t, set, kid, nil)
	if k, err := set.Key(t.Context(), kid); err == nil && !k.IsPublic() {
		t.Error("the key is not public")
	}
}

func TestWeakOrForeignKeysAreRefused(t *testing.T) {
	weak, strong := newRSA(1024), rsaKey()
	for name, jwk := range map[string]jose.JSONWebKey{
		"1024 bits": {Key: &weak.PublicKey, KeyID: kid}, "for encryption": {Key: &strong.PublicKey, KeyID: kid, Use: "enc"}, "for PS256": {Key: &strong.PublicKey, KeyID: kid, Algorithm: "PS256"},
		"symmetric": {Key: secret, KeyID: kid}, "under another kid": {Key: &strong.PublicKey, KeyID: "key-2"}, "private": {Key: strong, KeyID: kid + "x"},
	} {
		t.Run(name, func(t *testing.T) {
			signer := strong
			if name == "1024 bits" {
				signer = weak
			}
			for _, keys := range []session.KeySet{session.NewStaticKeySet(jwk, publicJWK(otherKey(), "key-9")), ownKeySet{key: &jwk}} {
				v := verifier()
				v.Keys = keys
				mustRefuse(t, v, forge(rsHeader(), good(), byRSA(signer)))
				mustRefuse(t, v, forge(rsHeader(), good(), byHMAC(secret)))
			}
		})
	}
}

func TestKeySetErrorsSayWhoIsToBlame(t *testing.T) {
	v := verifier()
	for _, tt := range []struct {
		err         error
		unavailable bool
	}{{session.ErrUnknownKey, false}, {nil, false}, {session.ErrKeysUnavailable, true}, {errors.New("disk on fire"), true}, {context.Canceled, true}} {
		v.Keys = ownKeySet{err: tt.err}
		_, err := v.Verify(t.Context(), rsToken(good()))
		if errors.Is(err, session.ErrInvalid) == tt.unavailable ||
			errors.Is(err, session.ErrUnknownKey) == tt.unavailable ||
			errors.Is(err, session.ErrKeysUnavailable) != tt.unavailable || tt.unavailable && !errors.Is(err, tt.err) {
			t.Errorf("%v: got %v", tt.err, err)
		}
		mustVerify(t, v, hsToken(good()))
	}
}

func TestKeyThatIsKnownNeedsNoNetwork(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := newServer()
		set := s.keySet()
		s.wantRequests(t, 0, 0)
		s.latency = time.Second
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() { wantKey(t, set, kid, nil) })
		}
		// One who gives up leaves the fetch to the others.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if k, err := set.Key(ctx, kid); !errors.Is(err, session.ErrKeysUnavailable) ||
			!errors.Is(err, context.Canceled) || k != nil {
			t.Errorf("with an ended context: %v, %v", k, err)
		}
		wg.Wait()
		s.fail(refused)
		time.Sleep(10*time.Minute - 2*time.Second)
		wantKey(t, set, kid, nil)
		s.wantRequests(t, 1, 1)
	})
}

// However many kids a stranger makes up, and however the fetches end, two begin 10 s apart.
func TestUnknownKeysCauseFewFetches(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := newServer()
		set := s.keySet()
		flood := func(want error) {
			var wg sync.WaitGroup
			for i := range 500 {
				wg.Go(func() { wantKey(t, set, fmt.Sprintf("unknown-%d", i), want) })
			}
			wg.Wait()
		}
		s.fail(refused)
		flood(session.ErrKeysUnavailable)
		s.fail(nil)
		time.Sleep(10*time.Second - 1)
		flood(session.ErrKeysUnavailable)
		time.Sleep(time.Nanosecond)
		flood(session.ErrUnknownKey)
		wantKey(t, set, kid, nil)
		s.publish(publicJWK(rsaKey(), "key-2"))
		wantKey(t, set, "key-2", session.ErrUnknownKey)
		time.Sleep(10 * time.Second)
		wantKey(t, set, "key-2", nil) // the new one is found, and the old one forgotten
		wantKey(t, set, kid, session.ErrUnknownKey)
		s.wantRequests(t, 3, 3)
	})
}

// An operator leaves a leaked key out of the key set. It is believed for MaxAge under steady use, and for
// twice that where it is used now and then.
func TestWithdrawnKeyIsForgotten(t *testing.T) {
	for _, quiet := range []time.Duration{10 * time.Minute, 20*time.Minute - 1, 20 * time.Minute, 24 * time.Hour} {
		inBubble(t, fmt.Sprint(quiet), func(t *testing.T) {
			s := newServer()
			set := s.keySet()
			wantKey(t, set, kid, nil)
			s.publish(publicJWK(rsaKey(), "key-2"))
			s.latency = time.Second
			time.Sleep(quiet)
			if quiet < 20*time.Minute {
				for range 100 {
					wantKey(t, set, kid, nil) // nobody waits for the renewal in the background
				}
				wantKey(t, set, "key-2", nil)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := set.Key(gone, kid); err == nil {
				t.Error("hanging up early is a way past the wait")
			}
			wantKey(t, set, kid, session.ErrUnknownKey)
			s.wantRequests(t, 2, 2)
		})
	}
}

// The next key has been published for long, so nothing but the signature of the lists tells that it replaces one.
func TestKeySetIsFetchedAgainWhenTheSignerChanges(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := newServer()
		s.publish(publicJWK(rsaKey(), kid), publicJWK(rsaKey(), "key-2"))
		o, set := s.options(), s.keySet()
		o.Keys = set
		lists := session.NewRemoteStatusList(o)
		passes(t, lists, 99)
		s.publish(publicJWK(rsaKey(), "key-2"))
		s.set(func() { s.signer = "key-2" })
		s.revoke(7)
		use(t, lists, time.Minute)
		wantKey(t, set, kid, session.ErrUnknownKey)
	})
}

// An issuer that does not answer signs no user out, and makes one request wait, not each.
func TestLastKeysServeWhileTheIssuerIsAway(t *testing.T) {
	private := toJSON(jose.JSONWebKey{Key: rsaKey(), KeyID: "private", Use: "sig", Algorithm: "RS256"})
	goodSet := toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), kid)}})
	away := map[string]func(*http.Request) (*http.Response, error){
		"refused": refused, "hanging": hanging, "error": answering(http.NotFound),
		"elsewhere": answering(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/", http.StatusFound)
		}),
		"without TLS": answering(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://id.example.org/jwks", http.StatusFound)
		}),
		"in a circle": answering(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/jwks", http.StatusFound) }),
	}
	for name, body := range map[string]string{
		"oversized": goodSet + strings.Repeat(" ", 256<<10), "blank": "", "HTML": "<!doctype html><h1>Sign in</h1>", "no keys": `{"keys":[]}`, "no member": `{}`, "null": `null`, "cut": goodSet[:len(goodSet)-2],
		"two documents": goodSet + goodSet, "only weak": `{"keys":[` + toJSON(publicJWK(newRSA(1024), "weak")) + `]}`, "only symmetric": `{"keys":[{"kty":"oct","kid":"oct","use":"sig","k":"` + b64(string(secret)) + `"}]}`,
		"only private": `{"keys":[` + private + `]}`, "only encryption": strings.ReplaceAll(goodSet, `"sig"`, `"enc"`), "without use": strings.ReplaceAll(goodSet, `"use":"sig",`, ``),
		"for PS256": strings.ReplaceAll(goodSet, `"RS256"`, `"PS256"`), "without kid": strings.ReplaceAll(goodSet, `"key-1"`, `""`), "odd kid": strings.ReplaceAll(goodSet, `"key-1"`, `"../x"`),
	} {
		away[name] = answering(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
	}
	for name, answer := range away {
		inBubble(t, name, func(t *testing.T) {
			s := newServer()
			s.fail(answer)
			set := s.keySet()
			for _, id := range []string{kid, "weak", "oct", "private", "../x", ""} {
				wantKey(t, set, id, session.ErrKeysUnavailable)
			}
			s.wantRequests(t, 1, 4) // with redirects
			s.fail(nil)
			time.Sleep(10 * time.Second)
			wantKey(t, set, kid, nil)
			s.fail(answer)
			waited := 0
			for range 60 {
				time.Sleep(time.Minute)
				begin := time.Now()
				if wantKey(t, set, kid, nil); time.Since(begin) > 0 {
					waited++
				}
			}
			if waited > 1 {
				t.Errorf("%d of 60 visitors waited", waited)
			}
			wantKey(t, set, "key-2", session.ErrKeysUnavailable) // a kid that may be new
			s.fail(nil)
			s.publish(publicJWK(rsaKey(), "key-2"))
			time.Sleep(24 * time.Hour)
			wantKey(t, set, kid, session.ErrUnknownKey) // a failure of long ago is no excuse
		})
	}
}

func TestOneBadKeyDoesNotSpoilTheOthers(t *testing.T) {
	s := newServer()
	s.fail(answering(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/jwks" {
			http.Redirect(w, r, "/keys", http.StatusMovedPermanently) // on the same host
			return
		}
		fmt.Fprint(w, `{"x":1,"keys":[null,1,{},{"kty":"ZZ","kid":"zz"},{"kty":"RSA","kid":"short","use":"sig","n":"AQAB","e":"AQAB"},`+
			toJSON(publicJWK(rsaKey(), kid))+`,`+toJSON(publicJWK(otherKey(), kid))+`,`+toJSON(publicJWK(otherKey(), "key-2"))+`]}`)
	}))
	v := verifier()
	v.Keys = s.keySet()
	mustVerify(t, v, rsToken(good()))
	wantKey(t, v.Keys, "key-2", nil)
	wantKey(t, v.Keys, "zz", session.ErrUnknownKey)
	wantKey(t, v.Keys, "short", session.ErrUnknownKey)
	// The client's own rule for redirects still counts.
	client := &http.Client{Transport: s,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	wantKey(t, session.NewRemoteKeySet(issuer+"/jwks", session.RemoteOptions{Client: client}), kid, session.ErrKeysUnavailable)
}

func TestErrorOmitsThePasswordOfAURL(t *testing.T) {
	for _, url := range []string{"", "::", "file:///etc/passwd", "http://u:hunter2@[::1/jwks", "http://u:hunter2@127.0.0.1:1/jwks"} {
		_, err := session.NewRemoteKeySet(url, session.RemoteOptions{}).Key(t.Context(), kid)
		if !errors.Is(err, session.ErrKeysUnavailable) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

//go:build unix

package httpd

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// A thousand visitors at once, or a stranger with invented kids, cost the issuer
// one request.
func TestRPVerifyNeverFloodsTheIssuer(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		f := startEvilIssuer(t)
		f.serveList(1)
		v := p.verifier(t, "keys", f.settings("keys"))
		for i, got := range v.at(f.now, slices.Repeat([]string{f.cookie(nil)}, 40)...) {
			if got.Claims == nil {
				t.Errorf("visitor %d: %s, %s", i, got, got.reason())
			}
		}
		wantAsked := func(what string, keys, lists int) {
			t.Helper()
			if asked := f.requests(); asked["/.well-known/jwks.json"] != keys || asked["/oauth2/status/1"] != lists {
				t.Errorf("%s: %v, want %d for the keys and %d for the list", what, asked, keys, lists)
			}
		}
		wantAsked("40 visitors", 1, 1)

		invented := make([]string, 40)
		for i := range invented {
			invented[i] = f.sign(jose.RS256, jose.JSONWebKey{Key: f.other.Key, KeyID: fmt.Sprintf("kid-%d", i)}, "JWT", f.claims(nil), nil)
		}
		for _, c := range []struct{ second, keys int }{{4, 1}, {6, 2}, {10, 2}, {12, 3}} {
			for i, got := range v.at(f.now.Add(time.Duration(c.second)*time.Second), invented...) {
				if got.Refused == nil {
					t.Errorf("invented kid %d: %s", i, got)
				}
			}
			wantAsked(fmt.Sprintf("invented kids, second %d", c.second), c.keys, 1)
		}
		v.want("a good cookie among them", "accepted", f.now.Add(13*time.Second), f.cookie(nil))
		wantAsked("a good cookie among them", 3, 1)
	})
}

// A new key counts within seconds, a key that is no longer published within ten
// minutes, and an issuer that is away signs nobody out.
func TestRPVerifyNeverMissesAChangeOfKeys(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		f, elsewhere := startEvilIssuer(t), startEvilIssuer(t)
		next := jose.JSONWebKey{Key: f.other.Key, KeyID: "next", Use: "sig", Algorithm: "RS256"}
		old, fresh := f.cookie(nil), f.sign(jose.RS256, next, "JWT", f.claims(nil), nil)
		after := func(seconds int) time.Time { return f.now.Add(time.Duration(seconds) * time.Second) }
		listOf := func(key jose.JSONWebKey) {
			f.answer("/oauth2/status/1", text(f.sign(jose.RS256, key, "statuslist+jwt", f.listClaims(1, nil, nil), nil)))
		}
		keys := func(h http.HandlerFunc) { f.answer("/.well-known/jwks.json", h) }
		listOf(f.key)
		v := p.verifier(t, "keys", f.settings("keys"))

		elsewhere.answer("/keys", elsewhere.publish(next))
		oct := jose.JSONWebKey{Key: []byte("a-shared-secret-that-was-published"), KeyID: f.key.KeyID, Use: "sig", Algorithm: "RS256"}
		encryption := jose.JSONWebKey{Key: f.key.Key, KeyID: f.key.KeyID, Use: "enc", Algorithm: "RS256"}
		for i, answer := range []http.HandlerFunc{
			http.NotFound, http.RedirectHandler(elsewhere.URL+"/keys", http.StatusFound).ServeHTTP, text("{}"), text(`{"keys":[]}`), text("no keys"),
			f.publish(oct), f.publish(encryption), func(w http.ResponseWriter, r *http.Request) { endless(w, r) },
		} {
			keys(answer)
			v.want("no keys yet", "unavailable", after(6*i), old)
			v.want("no keys yet", "unavailable", after(6*i), fresh)
		}
		if asked := elsewhere.requests(); len(asked) > 0 {
			t.Errorf("another origin was asked: %v", asked)
		}

		keys(f.publish(f.key))
		v.want("the key", "accepted", after(60), old)
		v.want("the next key, not published", "refused", after(66), fresh)
		keys(f.publish(f.key, next))
		v.want("the next key, published", "accepted", after(72), fresh)
		v.want("the key beside it", "accepted", after(72), old)

		listOf(next)
		keys(f.publish(next))
		v.want("the key left out, within ten minutes", "accepted", after(72+599), old)
		v.want("the key left out", "refused", after(72+601), old)
		keys(http.NotFound)
		v.want("the issuer away", "accepted", after(72+2*601), fresh)
		v.want("the issuer away, an unknown key", "unavailable", after(72+2*601), old)
	})
}

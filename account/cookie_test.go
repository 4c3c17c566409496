package account_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account"
)

var testKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func withKey(o *account.Options) {
	o.Keys = []jose.JSONWebKey{{Key: testKey(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}
}

func withDomain(o *account.Options) {
	o.Issuer, o.CookieName, o.CookieDomain, o.LoginCookieName = "https://id.example.org", "__Secure-cairn_session", "example.org", "__Host-cairn_login"
}

func TestCookieAttributes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*account.Options)
		want   map[string]string // name to domain
		secure bool
	}{
		{"plain http on loopback", func(*account.Options) {}, map[string]string{"cairn_session": ""}, false},
		{"https", func(o *account.Options) {
			o.Issuer, o.CookieName = "https://id.example.org", "__Host-cairn_session"
		}, map[string]string{"__Host-cairn_session": ""}, true},
		{"https with a domain", withDomain, map[string]string{"__Secure-cairn_session": "example.org", "__Host-cairn_login": ""}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.change)
			w.addUser("ada")
			b := w.browser()
			check := func(set []*http.Cookie, gone bool) {
				t.Helper()
				if len(set) != len(tt.want) {
					t.Fatalf("cookies %v", set)
				}
				for _, c := range set {
					domain, ok := tt.want[c.Name]
					wantAge := 2592000
					if gone {
						wantAge = -1
					}
					if !ok || c.Domain != domain || c.Path != "/" || !c.HttpOnly || c.Secure != tt.secure || c.SameSite != http.SameSiteLaxMode || c.MaxAge != wantAge {
						t.Errorf("cookie %+v", c)
					}
					if n := len(c.Raw); n > 4096 {
						t.Errorf("%d bytes", n)
					}
				}
			}
			check(b.login("ada", password).is(200).set, false)
			if !b.isSignedIn() {
				t.Fatal("not signed in")
			}
			check(b.call("POST", "/api/auth/logout", nil).is(200).set, true)
		})
	}
}

func claimsOf(t testing.TB, token string) map[string]any {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTokenSaysWhatTheContractSaysAndNoMore(t *testing.T) {
	w := newWorld(t)
	u := w.addUser("ada", account.FlagActivity, account.FlagAdmin)
	token := w.signedIn("ada").cookies["cairn_session"]
	c := claimsOf(t, token)
	names := []string{}
	for k := range c {
		names = append(names, k)
	}
	slices.Sort(names)
	if got, want := strings.Join(names, " "), "acr amr aud auth_time exp groups iat iss jti name preferred_username sid status sub"; got != want {
		t.Errorf("claims %s, want %s", got, want)
	}
	if c["sub"] != u.Sub || c["sub"] == "ada" || c["aud"] != "activity" || c["iss"] != "http://localhost:4040" || c["preferred_username"] != "ada" {
		t.Errorf("claims %v", c)
	}
	if life := c["exp"].(float64) - c["iat"].(float64); life != 2592000 {
		t.Errorf("lives %v s", life)
	}
	if got, _ := json.Marshal(c["groups"]); string(got) != `["activity","admin"]` {
		t.Errorf("groups %s", got)
	}
}

// forged makes a token with the shared secret, as every application that
// verifies cookies could.
func forged(t *testing.T, key any, alg jose.SignatureAlgorithm, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTheSharedSecretAloneOpensNothing(t *testing.T) {
	for name, options := range map[string]func(*account.Options){"one cookie": func(*account.Options) {}, "two cookies": withDomain} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options)
			w.addUser("ada", account.FlagAdmin)
			b := w.signedIn("ada")
			cookie := "cairn_session"
			if name == "two cookies" {
				cookie = "__Secure-cairn_session"
			}
			c := claimsOf(t, b.cookies[cookie])
			change := func(name string, v any) map[string]any {
				m := map[string]any{}
				for k, old := range c {
					m[k] = old
				}
				m[name] = v
				return m
			}
			w.addUser("eve")
			eve := w.user("eve")
			for what, claims := range map[string]map[string]any{
				"another jti": change("jti", "AAAAAAAAAAAAAAAAAAAAAAAAAA"), "another sid": change("sid", "00000000-0000-4000-8000-000000000000"),
				"another user": change("sub", eve.Sub), "blank sid": change("sid", ""), "later": change("exp", c["exp"].(float64)+1),
			} {
				thief := w.browser()
				thief.cookies[cookie] = forged(t, sharedSecret, jose.HS256, claims)
				if what == "later" && name == "one cookie" {
					continue // the same jti: only a holder of the cookie knows it
				}
				if thief.isSignedIn() {
					t.Errorf("%s: a forged token is a session", what)
				}
			}
			if name == "two cookies" {
				// Even the genuine shared cookie only identifies elsewhere.
				thief := w.browser()
				thief.cookies[cookie] = b.cookies[cookie]
				if thief.isSignedIn() {
					t.Error("the shared cookie opened the service")
				}
			}
		})
	}
}

func TestOldCookiesOutliveTheChangeToRS256(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	old := w.signedIn("ada")
	w.start(withKey)
	if !old.isSignedIn() {
		t.Fatal("the HS256 cookie died")
	}
	fresh := w.signedIn("ada")
	header, err := base64.RawURLEncoding.DecodeString(strings.Split(fresh.cookies["cairn_session"], ".")[0])
	if err != nil || !strings.Contains(string(header), `"RS256"`) || !strings.Contains(string(header), `"k1"`) {
		t.Errorf("header %s", header)
	}
	if !fresh.isSignedIn() {
		t.Error("the RS256 cookie does not work")
	}
	// The public key is no HMAC key.
	thief := w.browser()
	thief.cookies["cairn_session"] = forged(t, testKey().N.Bytes(), jose.HS256, claimsOf(t, fresh.cookies["cairn_session"]))
	if thief.isSignedIn() {
		t.Error("an HS256 token made with the public key is a session")
	}
	w.clock.Advance(31 * 24 * time.Hour)
	if old.isSignedIn() || fresh.isSignedIn() {
		t.Error("an expired cookie is a session")
	}
}

func TestPlantedCookiesNeitherFixASessionNorHideOne(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("eve")
	eve := w.signedIn("eve")
	victim := w.browser()
	victim.cookies["cairn_session"] = eve.cookies["cairn_session"]
	victim.login("ada", password).is(200)
	if victim.cookies["cairn_session"] == eve.cookies["cairn_session"] {
		t.Fatal("the planted cookie stayed")
	}
	if eve.isSignedIn() {
		t.Error("the session that the cookie was taken from still lives beside the new one")
	}
	first := victim.cookies["cairn_session"]
	victim.login("ada", password).is(200)
	if victim.cookies["cairn_session"] == first {
		t.Error("two sign-ins gave one token")
	}
	stale := w.browser()
	stale.cookies["cairn_session"] = first
	if stale.isSignedIn() {
		t.Error("the token before the fresh sign-in still works")
	}
	// Cookies of the same name before the genuine one, some of them junk.
	genuine := victim.cookies["cairn_session"]
	w.browser().send("GET", "/api/me", "", "", "Cookie", "cairn_session=junk; cairn_session="+first+"; cairn_session="+genuine).is(200)
	w.browser().send("GET", "/api/me", "", "", "Cookie", "cairn_session="+strings.Repeat("junk; cairn_session=", 300)+genuine).is(401)
}

func TestSessionDiesWithItsUser(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	w.suspend("ada")
	if b.isSignedIn() {
		t.Fatal("a suspended user is signed in")
	}
	if err := w.service.Administration().Unsuspend(t.Context(), account.Operator(), w.user("ada")); err != nil {
		t.Fatal(err)
	}
	if b.isSignedIn() {
		t.Error("lifting the suspension revived a session")
	}
	again := w.signedIn("ada")
	if err := w.service.Administration().Delete(t.Context(), account.Operator(), w.user("ada")); err != nil {
		t.Fatal(err)
	}
	if again.isSignedIn() {
		t.Error("a deleted user is signed in")
	}
	again.login("ada", password).is(401, "invalid_credentials")
}

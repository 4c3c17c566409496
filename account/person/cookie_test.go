package person_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/store/accounttest"
)

var testKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func withKey(o *accounttest.Options) {
	o.Keys = []jose.JSONWebKey{{Key: testKey(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}
}

func withDomain(o *accounttest.Options) {
	o.Issuer, o.CookieName, o.CookieDomain, o.LoginCookieName = "https://id.example.org", "__Secure-cairn_session", "example.org", "__Host-cairn_login"
}

func TestCookieAttributes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*accounttest.Options)
		want   map[string]string // name to domain
		secure bool
	}{
		{"plain http on loopback", func(*accounttest.Options) {}, map[string]string{"cairn_session": ""}, false},
		{"https", func(o *accounttest.Options) {
			o.Issuer, o.CookieName = "https://id.example.org", "__Host-cairn_session"
		}, map[string]string{"__Host-cairn_session": ""}, true},
		{"https with a domain", withDomain, map[string]string{"__Secure-cairn_session": "example.org", "__Host-cairn_login": ""}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := accounttest.New(t, tt.change)
			w.AddUser("ada")
			b := w.Browser()
			check := func(set []*http.Cookie, gone bool) {
				t.Helper()
				set = slices.DeleteFunc(set, func(c *http.Cookie) bool { return strings.HasSuffix(c.Name, "cairn_device") })
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
			check(b.Login("ada", password).Is(200).SetCookies, false)
			if !b.IsSignedIn() {
				t.Fatal("not signed in")
			}
			check(b.Call("POST", "/api/auth/logout", nil).Is(200).SetCookies, true)
		})
	}
}

func claimsOf(t testing.TB, token string) (claims map[string]any) {
	t.Helper()
	must(t, browser.Part(token, 1, &claims))
	return claims
}

func TestTokenSaysWhatTheContractSaysAndNoMore(t *testing.T) {
	w := accounttest.New(t)
	u := w.AddUser("ada", account.FlagActivity, account.FlagAdmin)
	token := w.SignedIn("ada").Cookies["cairn_session"]
	c := claimsOf(t, token)
	names := []string{}
	for k := range c {
		names = append(names, k)
	}
	slices.Sort(names)
	same(t, "claims",
		strings.Join(names, " "), "acr amr aud auth_time exp groups iat iss jti name preferred_username sid status sub")
	if c["sub"] != u.Sub || c["sub"] == "ada" || c["aud"] != "activity" || c["iss"] != "http://localhost:4040" || c["preferred_username"] != "ada" {
		t.Errorf("claims %v", c)
	}
	same(t, "lives, s", c["exp"].(float64)-c["iat"].(float64), 2592000)
	if got, _ := json.Marshal(c["groups"]); string(got) != `["activity","admin"]` {
		t.Errorf("groups %s", got)
	}
}

// forged makes a token with the shared secret, as every application that
// verifies cookies could.
func forged(t *testing.T, key any, alg jose.SignatureAlgorithm, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	must(t, err)
	token, err := jwt.Signed(s).Claims(claims).Serialize()
	must(t, err)
	return token
}

func TestTheSharedSecretAloneOpensNothing(t *testing.T) {
	for name, options := range map[string]func(*accounttest.Options){"one cookie": func(*accounttest.Options) {}, "two cookies": withDomain} {
		t.Run(name, func(t *testing.T) {
			w := accounttest.New(t, options)
			b := w.Member("ada", account.FlagAdmin)
			cookie := "cairn_session"
			if name == "two cookies" {
				cookie = "__Secure-cairn_session"
			}
			c := claimsOf(t, b.Cookies[cookie])
			change := func(name string, v any) map[string]any {
				m := map[string]any{}
				for k, old := range c {
					m[k] = old
				}
				m[name] = v
				return m
			}
			w.AddUser("eve")
			eve := w.User("eve")
			for what, claims := range map[string]map[string]any{
				"another jti": change("jti", "AAAAAAAAAAAAAAAAAAAAAAAAAA"), "another sid": change("sid", "00000000-0000-4000-8000-000000000000"),
				"another user": change("sub", eve.Sub), "blank sid": change("sid", ""), "later": change("exp", c["exp"].(float64)+1),
			} {
				thief := w.Browser()
				thief.Cookies[cookie] = forged(t, accounttest.Secret, jose.HS256, claims)
				if what == "later" && name == "one cookie" {
					continue // the same jti: only a holder of the cookie knows it
				}
				if thief.IsSignedIn() {
					t.Errorf("%s: a forged token is a session", what)
				}
			}
			if name == "two cookies" {
				// Even the genuine shared cookie only identifies elsewhere.
				thief := w.Browser()
				thief.Cookies[cookie] = b.Cookies[cookie]
				if thief.IsSignedIn() {
					t.Error("the shared cookie opened the service")
				}
			}
		})
	}
}

func TestOldCookiesOutliveTheChangeToRS256(t *testing.T) {
	w, old := accounttest.SignedIn(t, "ada")
	w.Start(withKey)
	if !old.IsSignedIn() {
		t.Fatal("the HS256 cookie died")
	}
	fresh := w.SignedIn("ada")
	header, err := base64.RawURLEncoding.DecodeString(strings.Split(fresh.Cookies["cairn_session"], ".")[0])
	if err != nil || !strings.Contains(string(header), `"RS256"`) || !strings.Contains(string(header), `"k1"`) {
		t.Errorf("header %s", header)
	}
	if !fresh.IsSignedIn() {
		t.Error("the RS256 cookie does not work")
	}
	// The public key is no HMAC key.
	thief := w.Browser()
	thief.Cookies["cairn_session"] = forged(t, testKey().N.Bytes(), jose.HS256, claimsOf(t, fresh.Cookies["cairn_session"]))
	if thief.IsSignedIn() {
		t.Error("an HS256 token made with the public key is a session")
	}
	w.Clock.Advance(31 * 24 * time.Hour)
	if old.IsSignedIn() || fresh.IsSignedIn() {
		t.Error("an expired cookie is a session")
	}
}

func TestPlantedCookiesNeitherFixASessionNorHideOne(t *testing.T) {
	w := accounttest.With(t, "ada", "eve")
	eve := w.SignedIn("eve")
	victim := w.Browser()
	victim.Cookies["cairn_session"] = eve.Cookies["cairn_session"]
	victim.Login("ada", password).Is(200)
	if victim.Cookies["cairn_session"] == eve.Cookies["cairn_session"] {
		t.Fatal("the planted cookie stayed")
	}
	if eve.IsSignedIn() {
		t.Error("the session that the cookie was taken from still lives beside the new one")
	}
	first := victim.Cookies["cairn_session"]
	victim.Login("ada", password).Is(200)
	if victim.Cookies["cairn_session"] == first {
		t.Error("two sign-ins gave one token")
	}
	stale := w.Browser()
	stale.Cookies["cairn_session"] = first
	if stale.IsSignedIn() {
		t.Error("the token before the fresh sign-in still works")
	}
	// Cookies of the same name before the genuine one, some of them junk.
	genuine := victim.Cookies["cairn_session"]
	w.Browser().Send("GET", "/api/me", "", "", "Cookie", "cairn_session=junk; cairn_session="+first+"; cairn_session="+genuine).Is(200)
	w.Browser().Send("GET", "/api/me", "", "", "Cookie", "cairn_session="+strings.Repeat("junk; cairn_session=", 300)+genuine).Is(401)
	made := "" // by a holder of the secret: each costs a look
	for i := range 9 {
		w.Browser().Send("GET", "/api/me", "", "", "Cookie", made+"cairn_session="+genuine).Is(200 + 201*(i/8))
		another := with(claimsOf(t, genuine), "jti", fmt.Sprint(i))
		made += "cairn_session=" + forged(t, accounttest.Secret, jose.HS256, another) + "; "
	}
}

func TestSessionDiesWithItsUser(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	w.Suspend("ada")
	if b.IsSignedIn() {
		t.Fatal("a suspended user is signed in")
	}
	must(t, w.Administration().Unsuspend(t.Context(), account.Operator(), w.User("ada")))
	if b.IsSignedIn() {
		t.Error("lifting the suspension revived a session")
	}
	again := w.SignedIn("ada")
	must(t, w.Administration().Delete(t.Context(), account.Operator(), w.User("ada")))
	if again.IsSignedIn() {
		t.Error("a deleted user is signed in")
	}
	again.Login("ada", password).Is(401, "invalid_credentials")
}

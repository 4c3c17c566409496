package account_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

// Other applications may still go by what the browser has.
func TestSigningOutNeverLeavesTheTokenOutOfTheList(t *testing.T) {
	t.Run("retired", func(t *testing.T) {
		w := newWorld(t)
		w.addUser("ada")
		out, in := w.signedIn("ada"), w.signedIn("ada")
		tokens := []string{out.cookies["cairn_session"], in.cookies["cairn_session"]}
		w.start(withKey)
		if err := w.store.SetHS256Until(t.Context(), w.clock.Now(), account.Audit{At: w.clock.Now(), Action: "keys.migrate"}); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(time.Minute)
		if out.isSignedIn() {
			t.Error("refused before the date")
		}
		out.call("POST", "/api/auth/logout", nil).is(200)
		in.login("ada", password).is(200)
		for i, token := range tokens {
			if statusBit(w, token) != 1 {
				t.Errorf("token %d is not in the list", i)
			}
		}
	})
	t.Run("without the host's cookie", func(t *testing.T) {
		w := newWorld(t, withDomain)
		w.addUser("ada")
		w.addUser("bob")
		out, in, bystander := w.signedIn("ada"), w.signedIn("ada"), w.signedIn("ada")
		const shared = "__Secure-cairn_session"
		tokens := []string{out.cookies[shared], in.cookies[shared], bystander.cookies[shared]}
		for _, b := range []*browser{out, in} {
			delete(b.cookies, "__Host-cairn_login")
		}
		out.call("POST", "/api/auth/logout", nil).is(200)
		in.login("bob", password).is(200)
		if len(out.cookies) != 0 {
			t.Errorf("cookies %v", out.cookies)
		}
		for i, want := range []int{1, 1, 0} {
			if got := statusBit(w, tokens[i]); got != want {
				t.Errorf("token %d: status %d, want %d", i, got, want)
			}
		}
	})
	t.Run("several", func(t *testing.T) {
		w := newWorld(t)
		w.addUser("ada")
		w.addUser("eve")
		const name = "cairn_session"
		dead, ada, eve := w.signedIn("ada"), w.signedIn("ada"), w.signedIn("eve")
		tokens := []string{dead.cookies[name], ada.cookies[name], eve.cookies[name]}
		dead.call("POST", "/api/auth/logout", nil).is(200)
		header := ""
		for _, token := range tokens {
			header += name + "=" + token + "; "
		}
		planted := w.browser()
		if got := planted.send("GET", "/api/me", "", "", "Cookie", header).is(200).json()["handle"]; got != "ada" {
			t.Errorf("signed in as %v beside a dead cookie", got)
		}
		planted.send("POST", "/api/auth/logout", "application/json", "{}", "Cookie", header).is(200)
		for i, token := range tokens {
			if statusBit(w, token) != 1 {
				t.Errorf("token %d is not in the list", i)
			}
		}
	})
	t.Run("of two hosts' cookies", func(t *testing.T) {
		w := newWorld(t, withDomain)
		w.addUser("ada")
		const login, shared = "__Host-cairn_login", "__Secure-cairn_session"
		out, other, dead := w.signedIn("ada"), w.signedIn("ada"), w.signedIn("ada")
		tokens := []string{out.cookies[shared], other.cookies[shared]}
		dead.call("POST", "/api/auth/logout", nil).is(200)
		mixed := w.browser()
		mixed.cookies[login], mixed.cookies[shared] = out.cookies[login], other.cookies[shared]
		mixed.call("POST", "/api/auth/logout", nil).is(200)
		for i, token := range tokens {
			if statusBit(w, token) != 1 {
				t.Errorf("token %d is not in the list", i)
			}
		}
	})
	t.Run("forged", func(t *testing.T) {
		w := newWorld(t, withDomain)
		w.addUser("ada")
		ada := w.signedIn("ada")
		const shared = "__Secure-cairn_session"
		claims := claimsOf(t, ada.cookies[shared])
		claims["jti"] = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
		stranger := w.browser()
		stranger.cookies[shared] = forged(t, sharedSecret, "HS256", claims)
		stranger.call("POST", "/api/auth/logout", nil).is(200)
		if !ada.isSignedIn() || statusBit(w, ada.cookies[shared]) != 0 {
			t.Error("a holder of the secret signs others out")
		}
	})
}

// The hint of one user is no reason to end what the browser has of another.
func TestSignOutOfOneUserNeverEndsTheSessionOfAnother(t *testing.T) {
	w := newWorld(t, withDomain)
	w.addUser("ada")
	w.addUser("eve")
	const shared = "__Secure-cairn_session"
	token := w.signedIn("ada").cookies[shared]
	for _, c := range []struct {
		handle string
		bit    int
	}{{"eve", 0}, {"ada", 1}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/oauth2/logout", nil)
		r.AddCookie(&http.Cookie{Name: shared, Value: token})
		out := httptest.NewRecorder()
		if err := w.service.SignOut(out, r, w.user(c.handle).Sub); err != nil {
			t.Fatal(err)
		}
		if got := statusBit(w, token); got != c.bit || len(out.Result().Cookies()) == 0 { //nolint:bodyclose // a recorder's
			t.Errorf("%s: bit %d", c.handle, got)
		}
	}
}

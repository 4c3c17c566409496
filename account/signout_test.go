package account_test

import (
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

package account_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

func sessionIDs(b *browser) (current string, others []string) {
	b.w.t.Helper()
	for _, s := range b.call("GET", "/api/me/sessions", nil).is(200).json()["sessions"].([]any) {
		m := s.(map[string]any)
		if m["current"] == true {
			current = m["id"].(string)
		} else {
			others = append(others, m["id"].(string))
		}
	}
	return current, others
}

func TestSessionsAreEndedByTheirOwnerAlone(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("eve")
	here, there, eve := w.signedIn("ada"), w.signedIn("ada"), w.signedIn("eve")
	current, others := sessionIDs(here)
	if current == "" || len(others) != 1 {
		t.Fatalf("%q %v", current, others)
	}
	here.call("GET", "/api/me/sessions", nil).hides(here.cookies["cairn_session"])
	for _, id := range []string{current, others[0]} {
		eve.call("DELETE", "/api/me/sessions/"+id, nil).is(404, "session_not_found")
		w.browser().call("DELETE", "/api/me/sessions/"+id, nil).is(401, "not_authenticated")
	}
	for _, invalid := range []string{"x", "%00", "%25", "00000000-0000-4000-8000-000000000000", "%7B" + others[0] + "%7D", "urn:uuid:" + others[0]} {
		here.call("DELETE", "/api/me/sessions/"+invalid, nil).is(404, "session_not_found")
	}
	if !there.isSignedIn() || !here.isSignedIn() {
		t.Fatal("a refused request ended a session")
	}
	a := here.call("DELETE", "/api/me/sessions/"+others[0], nil).is(204)
	if there.isSignedIn() || !here.isSignedIn() || len(a.set) != 0 {
		t.Error("the wrong session ended")
	}
	here.call("DELETE", "/api/me/sessions/"+others[0], nil).is(404)
	copied := here.clone()
	if a := here.call("DELETE", "/api/me/sessions/"+current, nil).is(204); len(a.set) != 1 || a.set[0].MaxAge >= 0 {
		t.Errorf("cookies %v", a.set)
	}
	if copied.isSignedIn() {
		t.Error("the ended session still works")
	}
}

func TestEndOthersKeepsThisOne(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("eve")
	here, there, eve := w.signedIn("ada"), w.signedIn("ada"), w.signedIn("eve")
	here.call("POST", "/api/me/sessions/end-others", nil).is(204)
	if !here.isSignedIn() || there.isSignedIn() || !eve.isSignedIn() {
		t.Errorf("%v %v %v", here.isSignedIn(), there.isSignedIn(), eve.isSignedIn())
	}
	w.browser().call("POST", "/api/me/sessions/end-others", nil).is(401)
}

func TestSessionsAreToldApart(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.browserAt("2001:db8:1:2:3:4:5:6")
	b.send("POST", "/api/auth/login", "application/json", `{"handle":"ada","password":"`+password+`"}`,
		"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0").is(200)
	w.clock.Advance(2 * time.Minute)
	s := b.call("GET", "/api/me/sessions", nil).json()["sessions"].([]any)[0].(map[string]any)
	if s["device"] != "Firefox on Linux" || s["current"] != true {
		t.Errorf("%v", s)
	}
	if s["last_seen_at"] != w.clock.Now().Format(time.RFC3339) {
		t.Errorf("last seen %v, now %v", s["last_seen_at"], w.clock.Now())
	}
}

// Other applications may still go by what the browser has.
func TestSignOutPutsTheTokenIntoTheList(t *testing.T) {
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
func TestSignOutEndsOnlyTheUsersOwnSession(t *testing.T) {
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
		if err := w.service.SignOutBrowser(out, r, w.user(c.handle).Sub); err != nil {
			t.Fatal(err)
		}
		if got := statusBit(w, token); got != c.bit || len(out.Result().Cookies()) == 0 { //nolint:bodyclose // a recorder's
			t.Errorf("%s: bit %d", c.handle, got)
		}
	}
}

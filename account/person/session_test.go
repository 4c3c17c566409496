package person_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/store/accounttest"
)

// A proof is fresh for a while, and one of a clock that was ahead is not.
func TestProofIsFreshForAWhile(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	multi := []string{account.MethodMultiFactor}
	for _, c := range []struct {
		age    time.Duration
		factor bool
		amr    []string
		want   bool
	}{
		{0, false, nil, true}, {account.FreshFor, false, nil, true}, {account.FreshFor + time.Second, false, nil, false},
		{-time.Minute, false, nil, true}, {-account.FreshFor - time.Second, false, nil, false},
		{0, true, nil, false}, {0, true, multi, true},
	} {
		caller := account.Caller{User: account.User{SecondFactor: c.factor}, Session: account.Session{ID: "id", ConfirmedAt: now.Add(-c.age), AMR: c.amr}}
		same(t, fmt.Sprintf("%+v", c), caller.Fresh(now), c.want)
	}
}

func TestSessionsAreEndedByTheirOwnerAlone(t *testing.T) {
	w := accounttest.With(t, "ada", "eve")
	here, there, eve := w.SignedIn("ada"), w.SignedIn("ada"), w.SignedIn("eve")
	current, others := here.SessionIDs()
	if current == "" || len(others) != 1 {
		t.Fatalf("%q %v", current, others)
	}
	here.Call("GET", "/api/me/sessions", nil).Hides(here.Cookies["cairn_session"])
	for _, id := range []string{current, others[0]} {
		eve.Call("DELETE", "/api/me/sessions/"+id, nil).Is(404, "session_not_found")
		w.Browser().Call("DELETE", "/api/me/sessions/"+id, nil).Is(401, "not_authenticated")
	}
	for _, invalid := range []string{"x", "%00", "%25", "00000000-0000-4000-8000-000000000000", "%7B" + others[0] + "%7D", "urn:uuid:" + others[0]} {
		here.Call("DELETE", "/api/me/sessions/"+invalid, nil).Is(404, "session_not_found")
	}
	if !there.IsSignedIn() || !here.IsSignedIn() {
		t.Fatal("a refused request ended a session")
	}
	a := here.Call("DELETE", "/api/me/sessions/"+others[0], nil).Is(204)
	if there.IsSignedIn() || !here.IsSignedIn() || len(a.SetCookies) != 0 {
		t.Error("the wrong session ended")
	}
	here.Call("DELETE", "/api/me/sessions/"+others[0], nil).Is(404)
	copied := here.Clone()
	if a := here.Call("DELETE", "/api/me/sessions/"+current, nil).Is(204); len(a.SetCookies) != 1 || a.SetCookies[0].MaxAge >= 0 {
		t.Errorf("cookies %v", a.SetCookies)
	}
	if copied.IsSignedIn() {
		t.Error("the ended session still works")
	}
}

func TestEndOthersKeepsThisOne(t *testing.T) {
	w := accounttest.With(t, "ada", "eve")
	here, there, eve := w.SignedIn("ada"), w.SignedIn("ada"), w.SignedIn("eve")
	here.Call("POST", "/api/me/sessions/end-others", nil).Is(204)
	if !here.IsSignedIn() || there.IsSignedIn() || !eve.IsSignedIn() {
		t.Errorf("%v %v %v", here.IsSignedIn(), there.IsSignedIn(), eve.IsSignedIn())
	}
	w.Browser().Call("POST", "/api/me/sessions/end-others", nil).Is(401)
}

func TestSessionsAreToldApart(t *testing.T) {
	w := accounttest.With(t, "ada")
	b := w.BrowserAt("2001:db8:1:2:3:4:5:6")
	b.Send("POST", "/api/auth/login", "application/json", `{"handle":"ada","password":"`+password+`"}`,
		"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0").Is(200)
	w.Clock.Advance(2 * time.Minute)
	s := b.Call("GET", "/api/me/sessions", nil).JSON()["sessions"].([]any)[0].(map[string]any)
	if s["device"] != "Firefox on Linux" || s["current"] != true {
		t.Errorf("%v", s)
	}
	for range 2 { // what was seen and is not written yet, and then what is written and later
		s := b.Call("GET", "/api/me/sessions", nil).JSON()["sessions"].([]any)[0].(map[string]any)
		if s["last_seen_at"] != w.Clock.Now().Format(time.RFC3339) {
			t.Errorf("last seen %v, now %v", s["last_seen_at"], w.Clock.Now())
		}
		w.Clock.Advance(30 * time.Second)
		b.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(200)
	}
}

// Other applications may still go by what the browser has.
func TestSignOutPutsTheTokenIntoTheList(t *testing.T) {
	t.Run("retired", func(t *testing.T) {
		w := accounttest.With(t, "ada")
		out, in := w.SignedIn("ada"), w.SignedIn("ada")
		tokens := []string{out.Cookies["cairn_session"], in.Cookies["cairn_session"]}
		w.Start(withKey)
		must(t, w.Store.SetHS256Until(t.Context(), w.Clock.Now(), account.Audit{At: w.Clock.Now(), Action: "keys.migrate"}))
		w.Clock.Advance(time.Minute)
		if out.IsSignedIn() {
			t.Error("refused before the date")
		}
		out.Call("POST", "/api/auth/logout", nil).Is(200)
		in.Login("ada", password).Is(200)
		if claimsOf(t, in.Cookies["cairn_session"])["sid"] == claimsOf(t, tokens[1])["sid"] {
			t.Error("what a retired token names goes on")
		}
		for i, token := range tokens {
			same(t, fmt.Sprintf("token %d is not in the list", i), statusBit(w, token), 1)
		}
	})
	t.Run("without the host's cookie", func(t *testing.T) {
		w := accounttest.New(t, withDomain)
		w.AddUser("ada")
		w.AddUser("bob")
		out, in, bystander, again := w.SignedIn("ada"), w.SignedIn("ada"), w.SignedIn("ada"), w.SignedIn("ada")
		const shared = "__Secure-cairn_session"
		tokens := []string{out.Cookies[shared], in.Cookies[shared], bystander.Cookies[shared], again.Cookies[shared]}
		for _, b := range []*accounttest.Browser{out, in, again} {
			delete(b.Cookies, "__Host-cairn_login")
		}
		out.Call("POST", "/api/auth/logout", nil).Is(200)
		in.Login("bob", password).Is(200)
		again.Login("ada", password).Is(200)
		if claimsOf(t, again.Cookies[shared])["sid"] == claimsOf(t, tokens[3])["sid"] {
			t.Error("the shared cookie alone keeps its session")
		}
		if delete(out.Cookies, "__Host-cairn_device"); len(out.Cookies) != 0 {
			t.Errorf("cookies %v", out.Cookies)
		}
		for i, want := range []int{1, 1, 0, 1} {
			same(t, fmt.Sprintf("token %d: status", i), statusBit(w, tokens[i]), want)
		}
	})
	t.Run("several", func(t *testing.T) {
		w := accounttest.With(t, "ada", "eve")
		const name = "cairn_session"
		dead, ada, eve := w.SignedIn("ada"), w.SignedIn("ada"), w.SignedIn("eve")
		tokens := []string{dead.Cookies[name], ada.Cookies[name], eve.Cookies[name]}
		dead.Call("POST", "/api/auth/logout", nil).Is(200)
		header := ""
		for _, token := range tokens {
			header += name + "=" + token + "; "
		}
		planted := w.Browser()
		same(t, "signed in as beside a dead cookie",
			planted.Send("GET", "/api/me", "", "", "Cookie", header).Is(200).JSON()["handle"], "ada")
		planted.Send("POST", "/api/auth/logout", "application/json", "{}", "Cookie", header).Is(200)
		for i, token := range tokens {
			same(t, fmt.Sprintf("token %d is not in the list", i), statusBit(w, token), 1)
		}
	})
	t.Run("of two hosts' cookies", func(t *testing.T) {
		w := accounttest.New(t, withDomain)
		w.AddUser("ada")
		const login, shared = "__Host-cairn_login", "__Secure-cairn_session"
		out, other, dead := w.SignedIn("ada"), w.SignedIn("ada"), w.SignedIn("ada")
		tokens := []string{out.Cookies[shared], other.Cookies[shared]}
		dead.Clone().Call("POST", "/api/auth/logout", nil).Is(200)
		cookies := login + "=" + dead.Cookies[login]
		for _, b := range []*accounttest.Browser{out, w.Member("eve")} {
			cookies += "; " + login + "=" + b.Cookies[login]
		}
		w.Browser().Send("GET", "/api/me", "", "", "Cookie", cookies).Is(200).Shows(`"handle":"ada"`) // the first that lives
		mixed := w.Browser()
		mixed.Cookies[login], mixed.Cookies[shared] = out.Cookies[login], other.Cookies[shared]
		mixed.Call("POST", "/api/auth/logout", nil).Is(200)
		for i, token := range tokens {
			same(t, fmt.Sprintf("token %d is not in the list", i), statusBit(w, token), 1)
		}
	})
	t.Run("forged", func(t *testing.T) {
		w := accounttest.New(t, withDomain)
		ada := w.Member("ada")
		const shared = "__Secure-cairn_session"
		claims := claimsOf(t, ada.Cookies[shared])
		claims["jti"] = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
		stranger := w.Browser()
		stranger.Cookies[shared] = forged(t, accounttest.Secret, "HS256", claims)
		stranger.Call("POST", "/api/auth/logout", nil).Is(200)
		if !ada.IsSignedIn() || statusBit(w, ada.Cookies[shared]) != 0 {
			t.Error("a holder of the secret signs others out")
		}
	})
}

// A copy of either cookie from before a new password opens nothing.
func TestNewPasswordReplacesBothCookies(t *testing.T) {
	w := accounttest.New(t, withDomain)
	w.AddUser("ada")
	b, thief := w.SignedIn("ada"), w.Browser()
	const login, shared = "__Host-cairn_login", "__Secure-cairn_session"
	thief.Cookies[login], thief.Cookies[shared] = b.Cookies[login], b.Cookies[shared]
	in := map[string]string{"current_password": password, "new_password": "another of 3 hills"}
	b.Call("PUT", "/api/me/password", in).Is(200)
	if !b.IsSignedIn() || statusBit(w, b.Cookies[shared]) != 0 {
		t.Error("the browser is signed out")
	}
	if thief.IsSignedIn() || statusBit(w, thief.Cookies[shared]) != 1 {
		t.Error("the copy is signed in")
	}
}

// The hint of one user is no reason to end what the browser has of another.
func TestSignOutEndsOnlyTheUsersOwnSession(t *testing.T) {
	w := accounttest.New(t, withDomain)
	w.AddUser("ada")
	w.AddUser("eve")
	const shared = "__Secure-cairn_session"
	token := w.SignedIn("ada").Cookies[shared]
	for _, c := range []struct {
		handle string
		bit    int
	}{{"eve", 0}, {"ada", 1}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/oauth2/logout", nil)
		r.AddCookie(&http.Cookie{Name: shared, Value: token})
		out := httptest.NewRecorder()
		must(t, w.Service.SignOutBrowser(out, r, w.User(c.handle).Sub))
		//nolint:bodyclose // a recorder's
		if got := statusBit(w, token); got != c.bit || len(out.Result().Cookies()) == 0 {
			t.Errorf("%s: bit %d", c.handle, got)
		}
	}
}

// Nobody gets the token of a session that stays behind an error.
func TestTokenThatIsTooLongLeavesNoSession(t *testing.T) {
	w := accounttest.New(t)
	u := w.AddUser("ada")
	b := w.SignedIn("ada")
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("flag-with-a-long-name-%d", i))
	}
	long := func(v *account.Settings) (string, error) { v.Flags = append(v.Flags, names...); return "flags", nil }
	row := account.Operator().Audit(w.Clock.Now(), account.UpdateSettings, "settings", "")
	if _, err := w.Store.AmendSettings(t.Context(), long, row); err != nil {
		t.Fatal(err)
	}
	flags := account.FlagChange{}
	for _, name := range names {
		flags[name] = account.FlagState{On: true}
	}
	if _, err := w.Administration().SetFlags(t.Context(), account.Operator(), u, flags); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(time.Minute) // the settings are read again
	before, err := w.Store.Sessions(t.Context(), u.Sub, w.Clock.Now())
	must(t, err)
	w.Browser().Login("ada", password).Is(500)
	b.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(500)
	after, err := w.Store.Sessions(t.Context(), u.Sub, w.Clock.Now())
	if err != nil || len(after) != len(before) {
		t.Errorf("%d sessions, before %d: %v", len(after), len(before), err)
	}
	if !b.IsSignedIn() {
		t.Error("the session of before has ended")
	}
}

// A passkey of somebody else proves nothing of who gave the password, or is signed in.
func TestProofOfAnotherIsRefused(t *testing.T) {
	w := accounttest.With(t, "ada", "eve")
	id, err := w.Service.Identify(t.Context(), account.Browser{Tokens: []string{w.SignedIn("ada").Cookies["cairn_session"]}})
	must(t, err)
	c, eves := account.Caller{User: id.User, Session: id.Session}, person.ProvenByPasskey(w.User("eve"), account.Passkey{})
	_, step, _ := w.Service.PendingSignIn(t.Context(), c)
	_, confirmed := w.Service.ConfirmProven(t.Context(), c, eves)
	_, stepped := w.Service.SecondStepProven(t.Context(), c, c.User, step, eves)
	if !errors.Is(confirmed, account.ErrInvalidPasskey) || !errors.Is(stepped, account.ErrInvalidPasskey) {
		t.Errorf("confirmed: %v, signed in: %v", confirmed, stepped)
	}
}

// The oldest goes, of the browser that has most, of the hand that has most.
func TestSurplusIsTheOldestOfTheLargest(t *testing.T) {
	at := func(id, address string, mark int64) account.Session {
		s := account.Session{ID: id, Address: address}
		if mark > 0 {
			s.KnownSince = time.Unix(mark, 0)
		}
		return s
	}
	for _, tt := range []struct {
		list []account.Session
		want []string
	}{
		{[]account.Session{at("other", "b", 0), at("old", "a", 0), at("new", "a", 0)}, []string{"old", "new"}},
		// Two sessions of one browser are more than three browsers at one address.
		{[]account.Session{at("a1", "a", 1), at("a2", "a", 2), at("a3", "a", 3), at("c1", "c", 9), at("c2", "c", 9)}, []string{"c1", "c2"}},
		{[]account.Session{at("once", "a", 1), at("first", "a", 2), at("second", "a", 2)}, []string{"first", "second"}},
		// Of more than a household has, the oldest goes.
		{[]account.Session{at("a1", "a", 1), at("b", "b", 9), at("a2", "a", 2), at("a3", "a", 3), at("a4", "a", 4), at("a5", "a", 5), at("a6", "a", 6)}, []string{"a1", "a2"}},
		// Without a mark, a browser came with its session.
		{[]account.Session{at("old", "a", 3), at("known", "b", 5), {ID: "new", Address: "c", CreatedAt: time.Unix(7, 0)}}, []string{"new", "known"}},
	} {
		sameList(t, "Surplus", account.Surplus(tt.list, 2), tt.want)
	}
}

// Somebody who knows the password cannot push the owner's sessions out by signing in again and again.
func TestSurplusSessionsAreOfWhoMadeThem(t *testing.T) {
	const home, away = "198.51.100.1", "203.0.113.7"
	for _, tt := range []struct {
		name string
		next func(w *accounttest.World, last *accounttest.Browser, i int) *accounttest.Browser
	}{
		{"at one address", func(w *accounttest.World, _ *accounttest.Browser, _ int) *accounttest.Browser {
			return w.BrowserAt(away)
		}},
		{"at the owner's address", func(w *accounttest.World, _ *accounttest.Browser, _ int) *accounttest.Browser {
			return w.BrowserAt(home)
		}},
		{"each at an address of its own", func(w *accounttest.World, _ *accounttest.Browser, i int) *accounttest.Browser {
			return w.BrowserAt(fmt.Sprintf("203.0.113.%d", i+1))
		}},
		{"each in a network of one customer", func(w *accounttest.World, _ *accounttest.Browser, i int) *accounttest.Browser {
			return w.BrowserAt(fmt.Sprintf("2001:db8:0:%x::1", i))
		}},
		{"one browser at many addresses", func(w *accounttest.World, last *accounttest.Browser, i int) *accounttest.Browser {
			b := w.BrowserAt(fmt.Sprintf("203.0.113.%d", i+1))
			if last != nil {
				b.Cookies["cairn_device"] = last.Cookies["cairn_device"]
			}
			return b
		}},
		{"many browsers twice", func(w *accounttest.World, last *accounttest.Browser, i int) *accounttest.Browser {
			b := w.BrowserAt(away)
			if i%2 == 1 {
				b.Cookies["cairn_device"] = last.Cookies["cairn_device"]
			}
			return b
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := accounttest.With(t, "ada")
			laptop, phone := w.BrowserAt(home), w.BrowserAt("192.0.2.1")
			phone.Login("ada", password).Is(200)
			laptop.Login("ada", password).Is(200)
			laptop.Call("POST", "/api/auth/logout", nil).Is(200)
			laptop.Login("ada", password).Is(200) // with the mark of its first sign-in
			tablet := w.BrowserAt(home)
			w.Clock.Advance(time.Minute)
			tablet.Login("ada", password).Is(200)
			tablet.Call("POST", "/api/auth/logout", nil).Is(200)
			tablet.Login("ada", password).Is(200)
			var last *accounttest.Browser
			tries := 0
			try := func() {
				w.Clock.Advance(2 * time.Minute)
				last = tt.next(w, last, tries)
				last.Login("ada", password).Is(200)
				tries++
			}
			for range account.MaxSessions + 15 {
				try()
			}
			unseen := w.BrowserAt("192.0.2.99")
			unseen.Login("ada", password).Is(200)
			for range 5 {
				try()
			}
			for name, b := range map[string]*accounttest.Browser{
				"laptop": laptop, "phone": phone, "tablet": tablet, "new browser": unseen, "last": last,
			} {
				if !b.IsSignedIn() {
					t.Errorf("the %s is not signed in", name)
				}
			}
			_, others := laptop.SessionIDs()
			same(t, "others", len(others), account.MaxSessions-1)
		})
	}
}

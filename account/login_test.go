package account_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func TestUnknownHandleAndWrongPasswordAreOneAnswer(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("sus")
	w.suspend("sus")
	want := w.browser().login("ada", "wrong password here").is(401, "invalid_credentials").body
	for _, in := range [][2]string{
		{"nobody", "wrong password here"}, {"", ""}, {"ada", ""}, {"", password}, {"Ada%", password}, {"ada' OR '1'='1", password},
		{strings.Repeat("a", 300), password}, {"sus", "wrong password here"}, {"*", "*"}, {"\u202eada", password}, {"ada", strings.Repeat("x", 2000)},
	} {
		if got := w.browser().login(in[0], in[1]).is(401, "invalid_credentials").body; got != want {
			t.Errorf("%.30q: %s, want %s", in[0], got, want)
		}
	}
}

func TestSuspensionIsToldOnlyToWhoKnowsThePassword(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.suspend("ada")
	a := w.browser().login("ada", password).is(403, "account_suspended")
	if len(a.set) != 0 {
		t.Errorf("a suspended user got cookies: %v", a.set)
	}
}

func TestPasswordsAreNeitherCutNorFolded(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("0123456789abcde ", 7) + "the end of 128ab" // 128 runes
	hash, err := w.hasher.Hash(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	u := w.addUser("ada")
	if err := w.store.ChangePassword(t.Context(), u.Sub, u.PasswordHash, hash, "", w.clock.Now(), account.Operator().Audit(w.clock.Now(), "password.change", u.Handle, "")); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{long[:72], long[:72] + "DIFFERENT", long[:127], long + "x", strings.ToUpper(long), " " + long, long + " ", long + "\x00", long[:64] + "\x00" + long[65:]} {
		raw := w.browser().login("ada", wrong)
		if raw.status == 200 {
			t.Errorf("signed in with %.20q… of %d bytes", wrong, len(wrong))
		}
	}
	w.browser().login("ada", long).is(200)
	w.browser().login(" ADA ", long).is(200) // the handle, not the password, is folded
}

func TestLoginAnswersAreNotCached(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada", account.FlagActivity)
	a := w.browser().login("ada", password).is(200)
	if a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", a.header.Get("Cache-Control"))
	}
	if got, want := strings.TrimSpace(a.body), `{"ok":true,"handle":"ada","display_name":"Ada","flags":{"activity":true,"admin":false}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if strings.Contains(a.body, a.set[0].Value) {
		t.Error("the token is in the body")
	}
}

func TestLoginLimits(t *testing.T) {
	limits := map[string]web.Rate{web.LimitLogin: {Count: 10, Window: 15 * time.Minute}, web.LimitLoginAccount: {Count: 10, Window: 15 * time.Minute}}

	t.Run("one address cannot guess on", func(t *testing.T) {
		w := newWorld(t, withLimits(limits))
		w.addUser("ada")
		for i := range 10 {
			w.browser().login("user"+string(rune('a'+i)), "wrong").is(401)
		}
		a := w.browser().login("ada", password).is(429, "rate_limited")
		if a.header.Get("Retry-After") == "" || a.header.Get("Retry-After") == "0" {
			t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
		}
		w.browserAt("192.0.2.2").login("ada", password).is(200) // a bystander
	})

	t.Run("an IPv6 customer is one address", func(t *testing.T) {
		w := newWorld(t, withLimits(limits))
		for i := range 10 {
			w.browserAt("2001:db8:0:1::"+string(rune('1'+i%9))).login("user"+string(rune('a'+i)), "wrong").is(401)
		}
		w.browserAt("2001:db8:0:1:ffff::1").login("ada", "wrong").is(429)
		w.browserAt("2001:db8:0:2::1").login("ada", "wrong").is(401)
	})

	t.Run("many addresses cannot guess one account, in any spelling", func(t *testing.T) {
		w := newWorld(t, withLimits(limits))
		w.addUser("ada")
		for i, spelling := range []string{"ada", "ADA", " ada", "Ada ", "aDa", "ａｄａ", "ada\t", "adA", "ADa", "ada"} {
			w.browserAt(address(i)).login(spelling, "wrong").is(401)
		}
		for i, spelling := range []string{"ada", "ADA", " ada ", "ａＤａ"} {
			w.browserAt(address(100+i)).login(spelling, password).is(429)
		}
	})

	t.Run("strangers cannot lock the owner out", func(t *testing.T) {
		w := newWorld(t, withLimits(limits))
		w.addUser("ada")
		w.addUser("bob")
		w.browserAt("203.0.113.7").login("ada", password).is(200)
		for i := range 12 {
			w.browserAt(address(i)).login("ada", "wrong")
		}
		w.browserAt(address(200)).login("ada", password).is(429)
		w.browserAt("203.0.113.7").login("ada", password).is(200)
		// The exemption is of this account only, and the address keeps its own limit.
		for i := range 12 {
			w.browserAt(address(i+20)).login("bob", "wrong")
		}
		w.browserAt("203.0.113.7").login("bob", password).is(429)
		for range 10 {
			w.browserAt("203.0.113.7").login("ada", "wrong")
		}
		w.browserAt("203.0.113.7").login("ada", password).is(429)
	})

	t.Run("successes never count", func(t *testing.T) {
		w := newWorld(t, withLimits(limits))
		w.addUser("ada")
		for range 40 {
			w.browser().login("ada", password).is(200)
		}
	})

	t.Run("parallel guesses do not slip through", func(t *testing.T) {
		w := newWorld(t, withLimits(limits))
		w.addUser("ada")
		got := parallel(60, func(i int) int { return w.browserAt(address(i)).login("ada", "wrong").status })
		if got[401] > 20 || got[401]+got[429] != 60 {
			t.Errorf("statuses %v", got)
		}
	})
}

func TestFailingCounterRefusesSignIn(t *testing.T) {
	w := newWorld(t, func(o *account.Options) {
		o.Limits = web.NewLimits(map[string]web.Rate{web.LimitLogin: {Count: 10, Window: time.Minute}}, brokenCounters{}, nil, o.Log)
	})
	w.addUser("ada")
	a := w.browser().login("ada", password).is(503, "unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestContinuationStaysInTheService(t *testing.T) {
	w := newWorld(t, func(o *account.Options) { o.Issuer = "http://localhost:4040/id" })
	w.addUser("ada")
	const sealed = "eyJ0IjoxfQ.c2VhbA_-"
	good := "/id/oauth2/authorize?continue=" + sealed
	w.browser().page("/login/", "handle", "ada", "password", password, "continue", sealed).redirectsTo(good)
	w.browser().page("/login/?continue="+sealed).shows(`name="continue" value="`+sealed+`"`, `/id/register/?continue=`+sealed)
	w.browser().page("/login/", "handle", "ada", "password", "wrong", "continue", sealed).is(401).shows(`name="continue" value="` + sealed + `"`)
	for _, evil := range []string{
		"https://evil.example/", "//evil.example/", "/\\evil.example", "/id/account/", "javascript:alert(1)", "a.b.c", sealed + "\r\nX: 1", " " + sealed,
		"/id/oauth2/authorize?continue=//evil.example", "/id/oauth2/authorize?continue=https://evil.example", "%2f%2fevil.example", "a/b.c", strings.Repeat("a", 13<<10) + ".a",
	} {
		w.browser().page("/login/", "handle", "ada", "password", password, "continue", evil).redirectsTo("/id/account/")
		w.browser().page("/reset-password/", "handle", "ada", "continue", evil).is(400).hides("evil.example")
	}
}

func TestSignInFormKeepsWhatIsNoSecret(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.browser().page("/login/", "handle", "<ada>", "password", "hunter2hunter2").is(401).
		shows(`data-page="login"`, `role="alert"`, "&lt;ada&gt;").hides("hunter2hunter2", "<ada>", "req-1") // a number for the operator is on error pages only
	w.browser().page("/login/?handle=Ada").is(200).shows(`value="ada"`)
	w.browser().page("/login/?handle=%22%3E%3Cscript%3E").is(200).hides("<script>")
	w.signedIn("ada").page("/login/").redirectsTo("/account/")
}

func TestHandleIsTakenAsPeopleWriteIt(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	for _, typed := range []string{"@ada", " Ada ", " @ADA", "ada"} {
		w.browser().page("/login/", "handle", typed, "password", password).redirectsTo("/account/")
		w.browser().login(typed, password).is(200)
	}
	for _, typed := range []string{"@@ada", "a@da", "@", "ada@"} {
		w.browser().login(typed, password).is(401)
	}
}

// Why a session is over is told to the browser that still has its cookie, and to no other.
func TestSignInPageSaysWhyTheSessionIsOver(t *testing.T) {
	for name, k := range map[string]struct {
		says string
		end  func(w *world, b *browser)
	}{
		"ended elsewhere": {"was ended elsewhere", func(w *world, _ *browser) { w.signedIn("ada").call("POST", "/api/me/sessions/end-others", nil).is(204) }},
		"new password": {"was ended elsewhere", func(w *world, _ *browser) {
			w.signedIn("ada").call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).is(200)
		}},
		"suspended":       {"account is suspended", func(w *world, _ *browser) { w.suspend("ada") }},
		"signed out here": {"", func(_ *world, b *browser) { b.call("POST", "/api/auth/logout", nil).is(200) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.t = t
			w.addUser("ada")
			w.addUser("bob")
			b := w.signedIn("ada")
			k.end(w, b)
			if k.says == "" {
				b.page("/login/").is(200).hides(`id="ended"`)
				return
			}
			b.page("/account/").redirectsTo("/login/")
			b.page("/login/").is(200).shows(`role="status"`, k.says)
			b.page("/login/", "handle", "ada", "password", "wrong").hides(`id="ended"`)
			w.browser().page("/login/?handle=ada").is(200).hides(`id="ended"`)
			w.signedIn("bob").page("/login/?fresh=choose").is(200).hides(`id="ended"`)
		})
	}
}

func TestRefusalNamesTheMinutesToWait(t *testing.T) {
	w := newWorld(t, withLimits(map[string]web.Rate{web.LimitLogin: {Count: 1, Window: time.Hour}}))
	w.addUser("ada")
	w.browser().login("ada", "wrong").is(401)
	a := w.browser().page("/login/", "handle", "ada", "password", password).is(429)
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil {
		t.Fatal(err)
	}
	want := "Try again in a minute."
	if seconds > 60 {
		want = fmt.Sprintf("Try again in %d minutes.", (seconds+59)/60)
	}
	a.shows(want)
}

func TestLogoutEndsTheSessionNotOnlyTheCookie(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	for _, out := range []func(b *browser) *answer{
		func(b *browser) *answer { return b.call("POST", "/api/auth/logout", nil).is(200) },
		func(b *browser) *answer { return b.page("/logout/", "x", "y").is(200) },
	} {
		b := w.signedIn("ada")
		copied := b.clone()
		a := out(b)
		if len(a.set) != 1 || a.set[0].MaxAge >= 0 || a.set[0].Path != "/" || !a.set[0].HttpOnly {
			t.Errorf("clearing cookie %v", a.set)
		}
		if copied.isSignedIn() {
			t.Error("a copy of the cookie outlived the sign-out")
		}
	}
	w.browser().call("POST", "/api/auth/logout", nil).is(200)
	b := w.signedIn("ada")
	b.page("/logout/").is(200).shows(`id="logout-confirm"`)
	if !b.isSignedIn() {
		t.Error("looking at the sign-out page signed out")
	}
}

func TestOnlyItsMethodsWorkAndNothingChangesByOthers(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/api/auth/login", "POST"}, {"GET", "/api/auth/logout", "POST"}, {"HEAD", "/api/auth/logout", "POST"},
		{"POST", "/api/me", "DELETE, GET, HEAD, PATCH"}, {"POST", "/api/me/prefs", "GET, HEAD, PUT"}, {"GET", "/api/me/password", "PUT"},
		{"GET", "/api/me/sessions/end-others", "POST"}, {"PUT", "/api/invites", "GET, HEAD, POST"}, {"GET", "/api/register", "POST"},
		{"DELETE", "/login/", "GET, HEAD, POST"}, {"TRACE", "/api/me", "DELETE, GET, HEAD, PATCH"}, {"PROPFIND", "/account/", "GET, HEAD"},
		{"GET", "/account/delete", "POST"}, {"PUT", "/.well-known/change-password", "GET, HEAD"},
	} {
		a := b.send(c.method, c.path, "", "", "X-HTTP-Method-Override", "DELETE").is(405, "method_not_allowed")
		if got := a.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, got, c.allow)
		}
	}
	if !b.isSignedIn() {
		t.Error("a refused method signed out")
	}
	if a := b.send(http.MethodHead, "/api/me", "", ""); a.status != 200 {
		t.Errorf("HEAD: %d", a.status)
	}
}

package site_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

func TestLoginAnswersAreNotCached(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada", account.FlagActivity)
	a := w.Browser().Login("ada", password).Is(200)
	same(t, "Cache-Control", a.Header.Get("Cache-Control"), "no-store")
	same(t, "a.Body", strings.TrimSpace(a.Body),
		`{"ok":true,"handle":"ada","display_name":"Ada","flags":{"activity":true,"admin":false}}`)
	lacks(t, "the token is in the body", a.Body, a.SetCookies[0].Value)
}

func TestLoginLimits(t *testing.T) {
	limits := map[string]web.Rate{web.LimitLogin: {Count: 10, Window: 15 * time.Minute},
		web.LimitLoginAccount: {Count: 10, Window: 15 * time.Minute}}

	t.Run("an IPv6 customer is one address", func(t *testing.T) {
		w := accounttest.New(t,
			withLimits(map[string]web.Rate{web.LimitLoginAddress: {Count: 10, Window: 15 * time.Minute}}))
		for i := range 10 {
			w.BrowserAt("2001:db8:0:1::"+string(rune('1'+i%9))).Login("user"+string(rune('a'+i)), "wrong").Is(401)
		}
		w.BrowserAt("2001:db8:0:1:ffff::1").Login("ada", "wrong").Is(429)
		w.BrowserAt("2001:db8:0:2::1").Login("ada", "wrong").Is(401)
	})

	t.Run("strangers cannot lock the owner out", func(t *testing.T) {
		w := accounttest.New(t, withLimits(limits))
		w.AddUser("ada")
		w.AddUser("bob")
		home := w.BrowserAt("203.0.113.7")
		home.Login("ada", password).Is(200)
		for i := range 12 {
			w.BrowserAt(address(i)).Login("ada", "wrong")
		}
		w.BrowserAt(address(200)).Login("ada", password).Is(429)
		w.BrowserAt(address(200)).Page("/login/", "handle", "ada", "password", password).Is(429)
		w.BrowserAt("203.0.113.7").Login("ada", password).Is(200)
		home.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
		home.Call("PUT", "/api/me/password", map[string]string{"current_password": newPassword, "new_password": password}).Is(200)
		// The exemption is of this account only, and the address keeps its own limit.
		for i := range 12 {
			w.BrowserAt(address(i+20)).Login("bob", "wrong")
		}
		w.BrowserAt("203.0.113.7").Login("bob", password).Is(429)
		for range 10 {
			w.BrowserAt("203.0.113.7").Login("ada", "wrong")
		}
		w.BrowserAt("203.0.113.7").Login("ada", password).Is(429)
	})

	t.Run("successes never count", func(t *testing.T) {
		w := accounttest.New(t, withLimits(limits))
		w.AddUser("ada")
		for _, jump := range []time.Duration{0, 40 * 24 * time.Hour, -40 * 24 * time.Hour} { // of the clock
			w.Clock.Advance(jump)
			for range 40 {
				w.Browser().Login("ada", password).Is(200)
			}
		}
	})
}

// signIns are the ends of sign-ins that an observer is told of.
type signIns struct {
	web.Observer
	told []string
}

func (s *signIns) SignIn(outcome, factor string) { s.told = append(s.told, outcome+" "+factor) }

// What is counted of a sign-in says how it was proven, and of a refused one which proof was wrong.
func TestSignInsAreCountedByTheirProof(t *testing.T) {
	w, seen := accounttest.New(t), &signIns{}
	served := w.Router
	w.Router = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		info := &web.RequestInfo{Observer: seen}
		served.ServeHTTP(rw, r.WithContext(web.WithRequestInfo(r.Context(), info)))
	})
	a, k := addProtected(w, "ada"), addPasskey(w.Member("bob"), "Key")
	_, _, codes := joinByPasskey(w, "cy")
	seen.told = nil
	loginOTP(w.Browser(), "ada", password, a.wrong()).Is(401, "invalid_otp")
	loginOTP(w.Browser(), "ada", password, a.fresh()).Is(200)
	stepBy(w.Browser(), "bob", k).Is(200)
	b := w.Browser()
	finish(b, k.get(begin(b))).Is(200)
	recoverBy(w.Browser(), "cy", codes[0]).Is(200)
	sameList(t, "counted", seen.told, []string{"failed code", "success password+code", "success password+passkey",
		"success passkey", "success code"})
}

func TestFailingCounterRefusesSignIn(t *testing.T) {
	w := accounttest.New(t, func(o *accounttest.Options) {
		o.Limits = web.NewLimits(map[string]web.Rate{web.LimitLogin: {Count: 10, Window: time.Minute}},
			brokenCounters{}, nil, o.Log)
	})
	w.AddUser("ada")
	a := w.Browser().Login("ada", password).Is(503, "unavailable")
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestContinuationStaysInTheService(t *testing.T) {
	w := accounttest.New(t, func(o *accounttest.Options) { o.Issuer = "http://localhost:4040/id" })
	w.AddUser("ada")
	const sealed = "eyJ0IjoxfQ.c2VhbA_-"
	good := "/id/oauth2/authorize?continue=" + sealed
	w.Browser().Page("/login/", "handle", "ada", "password", password, "continue", sealed).RedirectsTo(good)
	w.Browser().Page("/login/?continue="+sealed).Shows(`name="continue" value="`+sealed+`"`, `/id/register/?continue=`+sealed)
	w.Browser().Page("/login/", "handle", "ada", "password", "wrong", "continue", sealed).Is(401).Shows(`name="continue" value="` + sealed + `"`)
	for _, evil := range []string{
		"https://evil.example/", "//evil.example/", "/\\evil.example", "/id/account/", "javascript:alert(1)", "a.b.c", sealed + "\r\nX: 1", " " + sealed,
		"/id/oauth2/authorize?continue=//evil.example", "/id/oauth2/authorize?continue=https://evil.example", "%2f%2fevil.example", "a/b.c", strings.Repeat("a", 13<<10) + ".a",
	} {
		w.Browser().Page("/login/", "handle", "ada", "password", password, "continue", evil).RedirectsTo("/id/account/")
		w.Browser().Page("/reset-password/", "handle", "ada", "continue", evil).Is(400).Hides("evil.example")
	}
}

func TestSignInFormKeepsWhatIsNoSecret(t *testing.T) {
	w := accounttest.With(t, "ada")
	w.Browser().Page("/login/", "handle", "<ada>", "password", "hunter2hunter2").Is(401).
		Shows(`data-page="login"`, `role="alert"`, "&lt;ada&gt;").Hides("hunter2hunter2", "<ada>", "req-1") // a number for the operator is on error pages only
	w.Browser().Page("/login/?handle=Ada").Is(200).Shows(`value="ada"`)
	w.Browser().Page("/login/?handle=%22%3E%3Cscript%3E").Is(200).Hides("<script>")
	in := w.Browser().Page("/login/", "handle", "ada", "password", password).RedirectsTo("/account/")
	same(t, "bound without https", in.Header.Get("Secure-Session-Registration"), "")
	w.SignedIn("ada").Page("/login/").RedirectsTo("/account/")
}

func TestHandleIsTakenAsPeopleWriteIt(t *testing.T) {
	w := accounttest.With(t, "ada")
	for _, typed := range []string{"@ada", " Ada ", " @ADA", "ada"} {
		w.Browser().Page("/login/", "handle", typed, "password", password).RedirectsTo("/account/")
		w.Browser().Login(typed, password).Is(200)
	}
	for _, typed := range []string{"@@ada", "a@da", "@", "ada@"} {
		w.Browser().Login(typed, password).Is(401)
	}
}

// Why a session is over is told to the browser that still has its cookie, and to no other.
func TestSignInPageSaysWhyTheSessionIsOver(t *testing.T) {
	for name, k := range map[string]struct {
		says string
		end  func(w *accounttest.World, b *accounttest.Browser)
	}{
		"ended elsewhere": {"You were signed out", func(w *accounttest.World, _ *accounttest.Browser) {
			w.SignedIn("ada").Call("POST", "/api/me/sessions/end-others", nil).Is(204)
		}},
		"new password": {"You were signed out", func(w *accounttest.World, _ *accounttest.Browser) {
			w.SignedIn("ada").Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
		}},
		"suspended":       {"account is suspended", func(w *accounttest.World, _ *accounttest.Browser) { w.Suspend("ada") }},
		"signed out here": {"", func(_ *accounttest.World, b *accounttest.Browser) { b.Call("POST", "/api/auth/logout", nil).Is(200) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := accounttest.New(t)
			w.T = t
			w.AddUser("ada")
			w.AddUser("bob")
			b := w.SignedIn("ada")
			k.end(w, b)
			if k.says == "" {
				b.Page("/login/").Is(200).Hides(`id="ended"`)
				return
			}
			b.Page("/account/").RedirectsTo("/login/")
			b.Page("/login/").Is(200).Shows(`role="status"`, k.says)
			b.Page("/login/", "handle", "ada", "password", "wrong").Hides(`id="ended"`)
			w.Browser().Page("/login/?handle=ada").Is(200).Hides(`id="ended"`)
			w.SignedIn("bob").Page("/login/?fresh=select").Is(200).Hides(`id="ended"`)
		})
	}
}

// A browser without cookies is told, and where they are kept; a browser that has not signed in is not.
func TestLostCookieIsTold(t *testing.T) {
	const told = "did not keep the cookie for this sign-in"
	w := accounttest.With(t, "ada")
	agent := []string{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Accept", "text/html"}
	open := func(more ...string) *accounttest.Answer {
		return w.Browser().Send("GET", "http://localhost:4040/login/", "", "", append(more, agent...)...).Is(200)
	}
	signIn := func(b *accounttest.Browser) {
		b.Send("POST", "/login/", "application/x-www-form-urlencoded", "handle=ada&password=seven+rusty+anchors", agent...).RedirectsTo("/account/")
	}
	open().Hides(told)
	b := w.Browser()
	signIn(b)
	w.Browser().Send("GET", "/account/", "", "", agent...).RedirectsTo("/login/")
	open().Shows(told, "Allow cookies")
	open("Referer", "http://localhost:4040/login/", "Sec-Fetch-Site", "same-origin", "X-Forwarded-Host", "evil.example").Shows(told, "Allow cookies")
	w.Browser().Send("GET", "http://192.0.2.80/login/", "", "", agent...).Shows(told, "Open http://localhost:4040 and")
	w.Browser().Send("GET", "/login/", "", "", "User-Agent", "another").Hides(told)
	w.BrowserAt("192.0.2.2").Send("GET", "/login/", "", "", agent...).Hides(told)
	open("Sec-Fetch-Site", "none").Hides(told)
	open("Referer", "https://app.example/").Hides(told)
	b.Call("POST", "/api/auth/logout", nil).Is(200)
	open().Hides(told)
	signIn(w.Browser())
	w.Clock.Advance(11 * time.Second)
	open().Hides(told)
}

// The name of a browser brings no commands to a terminal, and turns no text around.
func TestNameOfABrowserIsPrintable(t *testing.T) {
	w := accounttest.With(t, "ada")
	b := w.Browser()
	b.Send("POST", "/api/auth/login", "application/json", `{"handle":"ada","password":"`+password+`"}`,
		"User-Agent", "Phone \u009b31m\u202e\u00ad\x1b!").Is(200)
	b.Call("GET", "/api/me/sessions", nil).Is(200).Shows(`"user_agent":"Phone 31m!"`)
}

func TestRefusalNamesTheMinutesToWait(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitLogin: {Count: 1, Window: time.Hour}}))
	w.AddUser("ada")
	w.Browser().Login("ada", "wrong").Is(401)
	a := w.Browser().Page("/login/", "handle", "ada", "password", password).Is(429)
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	must(t, err)
	want := "Try again in a minute."
	if seconds > 60 {
		want = fmt.Sprintf("Try again in %d minutes.", (seconds+59)/60)
	}
	a.Shows(want)
}

func TestLogoutEndsTheSessionNotOnlyTheCookie(t *testing.T) {
	w := accounttest.With(t, "ada")
	for _, out := range []func(b *accounttest.Browser) *accounttest.Answer{
		func(b *accounttest.Browser) *accounttest.Answer {
			return b.Call("POST", "/api/auth/logout", nil).Is(200)
		},
		func(b *accounttest.Browser) *accounttest.Answer { return b.Page("/logout/", "x", "y").Is(200) },
	} {
		b := w.SignedIn("ada")
		copied := b.Clone()
		a := out(b)
		if len(a.SetCookies) != 1 || a.SetCookies[0].MaxAge >= 0 || a.SetCookies[0].Path != "/" || !a.SetCookies[0].HttpOnly {
			t.Errorf("clearing cookie %v", a.SetCookies)
		}
		if copied.IsSignedIn() {
			t.Error("a copy of the cookie outlived the sign-out")
		}
	}
	w.Browser().Call("POST", "/api/auth/logout", nil).Is(200)
	w.Browser().Page("/logout/").Is(200).Hides(`id="logout-confirm"`)
	b := w.SignedIn("ada")
	b.Page("/logout/").Is(200).Shows(`id="logout-confirm"`)
	if !b.IsSignedIn() {
		t.Error("looking at the sign-out page signed out")
	}
}

func TestOnlyItsMethodsWorkAndNothingChangesByOthers(t *testing.T) {
	_, b := accounttest.SignedIn(t, "ada")
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/api/auth/login", "POST"}, {"GET", "/api/auth/logout", "POST"}, {"HEAD", "/api/auth/logout", "POST"},
		{"POST", "/api/me", "DELETE, GET, HEAD, PATCH"}, {"POST", "/api/me/prefs", "GET, HEAD, PUT"}, {"GET", "/api/me/password", "DELETE, PUT"},
		{"GET", "/api/me/sessions/end-others", "POST"}, {"PUT", "/api/invites", "GET, HEAD, POST"}, {"GET", "/api/register", "POST"},
		{"DELETE", "/login/", "GET, HEAD, POST"}, {"TRACE", "/api/me", "DELETE, GET, HEAD, PATCH"}, {"PROPFIND", "/account/", "GET, HEAD"},
		{"GET", "/account/delete", "POST"}, {"PUT", "/.well-known/change-password", "GET, HEAD"},
	} {
		a := b.Send(c.method, c.path, "", "", "X-HTTP-Method-Override", "DELETE").Is(405, "method_not_allowed")
		same(t, fmt.Sprintf("%s %s: Allow", c.method, c.path), a.Header.Get("Allow"), c.allow)
	}
	if !b.IsSignedIn() {
		t.Error("a refused method signed out")
	}
	same(t, "HEAD", b.Send(http.MethodHead, "/api/me", "", "").Status, 200)
}

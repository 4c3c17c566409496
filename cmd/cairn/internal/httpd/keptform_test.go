package httpd

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/account"
)

// keptSignIn posts a form in a session that has ended and returns the sign-in page that keeps it.
func keptSignIn(t *testing.T, b *browser, path string, typed url.Values) *formTo {
	t.Helper()
	got := needStatus(t, path, b.postForm(path, typed), 401)
	f := formOn(t, got.Text, "/login/")
	if pageName(t, got.Text) != "login" || elementByID(t, got.Text, "kept") == nil || f == nil || f.hidden.Get("kept") == "" {
		t.Fatalf("%s: the sign-in page keeps nothing: %s", path, mainOf(got.Text))
	}
	if name := typed.Get("display_name"); name != "" && strings.Contains(mainOf(got.Text), html.EscapeString(name)) {
		t.Errorf("%s: the sign-in page shows %q", path, name)
	}
	return f
}

func TestFormOfAnEndedSessionIsKeptThroughTheSignIn(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		ada := l.signedIn("ada")
		profile := formOn(t, ada.get("/account/").Text, "/account/profile").fields
		profile.Del("birthdate_no_year") // not ticked
		profile.Del("keep_other_sessions")
		profile.Set("display_name", `Ada "<x-pwn>" & Co`)
		profile.Set("address.street_address", "1 Quay\r\nBoat 7")
		needStatus(t, "end", l.signedIn("ada").call("POST /api/me/sessions/end-others"), 204)
		login := keptSignIn(t, ada, "/account/profile", profile)
		l.later(72 * time.Hour)
		login.fields.Set("handle", "ada")
		login.fields.Set("password", "not the password")
		wrong := needStatus(t, "wrong password", login.send(ada), 401)
		login = formOn(t, wrong.Text, "/login/")
		login.fields.Set("password", password)
		page := needStatus(t, "signed in", login.send(ada), 200)
		l.holdsNoMarkup(page)
		send := confirmForm(t, "kept", page, 200, "/account/profile", url.Values{"display_name": profile["display_name"]})
		if send == nil || len(send.hidden) != 2 {
			t.Fatalf("sends %v", send)
		}
		shown := elementText(elementByID(t, page.Text, "kept"))
		for _, want := range []string{"/account/profile", "Display name", `Ada "<x-pwn>" & Co`, "Street and number", "Boat 7"} {
			if !strings.Contains(shown, want) {
				t.Errorf("%q is not shown: %s", want, shown)
			}
		}
		if name := ada.me().JSON(t)["display_name"]; name == profile.Get("display_name") {
			t.Error("saved before it was sent")
		}
		wantStatus(t, "sent", send.send(ada), 303)
		if me := ada.me().JSON(t); me["display_name"] != `Ada "<x-pwn>" & Co` {
			t.Errorf("saved %v", me["display_name"])
		}

		// With a second step, and a question that is asked again.
		phone := l.addTOTP(ada)
		_, key := l.addPasskey(ada, "Key", nil)
		other := l.signedInWith("ada", phone.code())
		needStatus(t, "end", other.call("POST /api/me/sessions/end-others"), 204)
		login = keptSignIn(t, ada, "/account/passkeys/remove", url.Values{"id": {key}, "sure": {"yes"}})
		login.fields.Set("password", password)
		second := formOn(t, needStatus(t, "password", login.send(ada), 200).Text, "/login/second-factor/")
		second.fields.Set("otp", "000000")
		second = formOn(t, needStatus(t, "wrong code", second.send(ada), 401).Text, "/login/second-factor/")
		second.fields.Set("otp", phone.code())
		send = confirmForm(t, "second step", second.send(ada), 200, "/account/passkeys/remove", url.Values{"id": {key}})
		if send.hidden.Has("sure") {
			t.Error("the answer to the question is kept")
		}
		confirmForm(t, "question", send.send(ada), 200, "/account/passkeys/remove", url.Values{"sure": {"yes"}})
	})
}

// Whoever gets hold of a kept form, or has somebody else send one, gains nothing.
func TestKeptFormIsForItsMemberInItsBrowser(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		l.member("bob")
		ada := l.signedIn("ada")
		needStatus(t, "end", l.signedIn("ada").call("POST /api/me/sessions/end-others"), 204)
		typed := url.Values{"display_name": {"Ada of the Hills"}}
		signIn := func(b *browser, handle, kept string) response {
			return b.postForm("/login/", url.Values{"handle": {handle}, "password": {password}, "kept": {kept}})
		}
		gone := func(what string, got response) {
			t.Helper()
			if got.StatusCode != 303 || got.Header.Get("Location") != "/account/" || strings.Contains(got.Text, "Hills") {
				t.Errorf("%s: %d to %q: %s", what, got.StatusCode, got.Header.Get("Location"), mainOf(got.Text))
			}
		}
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
		} {
			got := ada.postForm("/account/profile", typed, header...)
			if got.StatusCode != 403 || strings.Contains(got.Text, `name="kept"`) || got.Header.Get("Set-Cookie") != "" {
				t.Errorf("%v: %d", header, got.StatusCode)
			}
		}
		kept := keptSignIn(t, ada, "/account/profile", typed).hidden.Get("kept")
		gone("another browser", signIn(l.visitor(), "ada", kept))
		gone("another browser that has a kept form too", func() response {
			b := l.signedIn("ada")
			l.admin("POST /users/ada/sessions/end-all {}")
			keptSignIn(t, b, "/account/profile", typed)
			return signIn(b, "ada", kept)
		}())
		flipped := "A" + kept[1:]
		if flipped == kept {
			flipped = "B" + kept[1:]
		}
		gone("altered", signIn(ada, "ada", flipped))
		ada = l.signedIn("ada")
		l.admin("POST /users/ada/sessions/end-all {}")
		kept = keptSignIn(t, ada, "/account/profile", typed).hidden.Get("kept")
		gone("another member", signIn(ada, "bob", kept))
		// Nobody is known to have sent it.
		for what, b := range map[string]*browser{"signed out": l.visitor(), "suspended": l.signedIn("bob")} {
			l.admin("POST /users/bob/suspend {}")
			if got := b.postForm("/account/profile", typed); got.StatusCode != 303 || !strings.HasPrefix(got.Header.Get("Location"), "/login/") {
				t.Errorf("%s: %d to %q", what, got.StatusCode, got.Header.Get("Location"))
			}
		}
		// Too old, and used by its member after another tab has signed in.
		ada = l.signedIn("ada")
		l.admin("POST /users/ada/sessions/end-all {}")
		kept = keptSignIn(t, ada, "/account/profile", typed).hidden.Get("kept")
		ada.signIn("ada")
		confirmForm(t, "signed in in another tab", signIn(ada, "ada", kept), 200, "/account/profile", typed)
		l.later(31 * 24 * time.Hour)
		gone("after a month", signIn(ada, "ada", kept))
	})
}

// A browser removes the cookie of a session that has expired. What it then still has tells whose the form may be.
func TestFormOfAnExpiredSessionIsKeptForTheLastMember(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		l.member("bob")
		typed := url.Values{"display_name": {"Ada of the Hills"}}
		signIn := func(b *browser, handle string, login *formTo) response {
			login.fields.Set("handle", handle)
			login.fields.Set("password", password)
			return login.send(b)
		}
		// waited is the browser some time after members have signed in there, without a cookie of a session.
		waited := func(wait time.Duration, handles ...string) *browser {
			b := l.visitor()
			for _, handle := range handles {
				b.signIn(handle)
			}
			l.later(wait)
			b.forget("cairn_session")
			return b
		}
		const expired = 30 * 24 * time.Hour
		b := waited(expired, "bob", "ada")
		login := keptSignIn(t, b, "/account/profile", typed)
		if handle := login.fields.Get("handle"); handle != "" {
			t.Errorf("the sign-in page tells the handle %q", handle)
		}
		l.later(72 * time.Hour)
		send := confirmForm(t, "expired", signIn(b, "ada", login), 200, "/account/profile", typed)
		wantStatus(t, "sent", send.send(b), 303)
		if name := b.me().JSON(t)["display_name"]; name != typed.Get("display_name") {
			t.Errorf("saved %v", name)
		}

		dropped := func(what string, got response) {
			t.Helper()
			if got.StatusCode != 303 || strings.Contains(got.Text, "Hills") || strings.Contains(got.Text, `name="kept"`) {
				t.Errorf("%s: %d %s", what, got.StatusCode, mainOf(got.Text))
			}
		}
		post := func(b *browser) response { return b.postForm("/account/profile", typed) }
		dropped("signed out, or ended before its time", post(waited(expired-time.Second, "ada")))
		b = waited(expired, "bob", "ada")
		dropped("of another member who was here before", signIn(b, "bob", keptSignIn(t, b, "/account/profile", typed)))
		b = waited(expired, "ada")
		login = keptSignIn(t, b, "/account/profile", typed)
		b.signIn("bob")
		dropped("of another member who was here since", signIn(b, "bob", login))
		b = waited(expired, "ada")
		login = keptSignIn(t, b, "/account/profile", typed)
		l.keeper = l.signedIn("keeper")
		l.admin("POST /users/ada/suspend {}")
		l.admin("POST /users/ada/unsuspend {}")
		dropped("in a browser that is no longer known", signIn(b, "ada", login))
		b = waited(expired, "bob")
		b.postForm("/login/", url.Values{"handle": {"ada"}, "password": {password}, "shared_computer": {"true"}})
		l.later(expired) // the cookie stays until the browser is closed
		dropped("at a shared computer", post(b))
		b = l.visitor()
		here, err := url.Parse(l.URL)
		noError(t, err)
		b.client.Jar.SetCookies(here, []*http.Cookie{{Name: "cairn_device", Value: strings.Repeat("0", 27), Path: "/"}})
		dropped("with a mark that is not one", signIn(b, "ada", keptSignIn(t, b, "/account/profile", typed)))
	})
}

// Passwords, codes, proofs and files are not kept. A form of these alone leads back to its page.
func TestKeptFormHasNoSecrets(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagAdmin)
	ada := s.signedIn("ada")
	secret, kept := map[string]bool{}, url.Values{"display_name": {"Ada"}}
	for _, path := range []string{"/account/", "/account/security", "/account/data", "/account/security/totp", "/admin/settings", "/admin/users/"} {
		for n := range mustParse(t, ada.get(path).Text).Descendants() {
			if kind := attribute(n, "type"); n.Data == "input" && attribute(n, "name") != "" &&
				(kind == "password" || kind == "file" || attribute(n, "autocomplete") == "one-time-code" || attribute(n, "name") == "credential") {
				secret[attribute(n, "name")] = true
			}
		}
	}
	if len(secret) < 5 {
		t.Fatalf("secret fields: %v", secret)
	}
	only := url.Values{}
	for _, name := range []string{"confirm_password", "confirm_otp", "confirm_state", "confirm_credential", "otp", "token", "state", "logo_data"} {
		secret[name] = true
	}
	delete(secret, "logo")    // in multipart/form-data, which is not kept
	delete(secret, "picture") // so is the file of that name; the address of a picture is no secret
	for name := range secret {
		kept.Set(name, "S3cret-"+name)
		only.Set(name, "S3cret-"+name)
	}
	needStatus(t, "end", s.signedIn("ada").call("POST /api/me/sessions/end-others"), 204)
	got := ada.postForm("/account/password", only, "Referer", s.URL+"/account/security?x=1")
	page := ada.get(needStatus(t, "secrets alone", got, 303).Header.Get("Location"))
	login := formOn(t, page.Text, "/login/")
	login.fields.Set("password", password)
	if got := login.send(s.visitor()); got.Header.Get("Location") != "/account/security?x=1" {
		t.Errorf("back to %q", got.Header.Get("Location"))
	}
	for _, from := range []string{"https://evil.example/account/security", s.URL + "/logout/", s.URL + "//evil.example/account/"} {
		if got := ada.postForm("/account/password", only, "Referer", from); got.Header.Get("Location") != "/login/" {
			t.Errorf("%s: to %q", from, got.Header.Get("Location"))
		}
	}
	login = keptSignIn(t, ada, "/account/profile", kept)
	login.fields.Set("password", password)
	send := confirmForm(t, "kept", login.send(ada), 200, "/account/profile", url.Values{"display_name": {"Ada"}})
	if len(send.hidden) != 1 || len(send.fields) != 1 {
		t.Errorf("kept %v", send.fields)
	}
	// What is too long is refused openly.
	needStatus(t, "end", s.signedIn("ada").call("POST /api/me/sessions/end-others"), 204)
	long := needStatus(t, "long", ada.postForm("/account/invites", url.Values{"note": {strings.Repeat("long ", 2000)}}), 401)
	if f := formOn(t, long.Text, "/login/"); f.hidden.Has("kept") || !strings.Contains(elementText(elementByID(t, long.Text, "kept")), "too long") {
		t.Errorf("long: %s", mainOf(long.Text))
	}
}

func TestKeptFormInABrowser(t *testing.T) {
	thirdParty(t)
	l := &life{begin: time.Now().UTC().Truncate(time.Second)}
	l.service = startService(t, serviceOptions{Now: l.now})
	l.member("ada")
	axe, err := os.ReadFile(filepath.Join(relyingPartyHome(), "node_modules", "axe-core", "axe.min.js"))
	noError(t, err)
	tab := chromium(t)
	if _, err := chromedp.Call(tab, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": "de"}}); err != nil {
		t.Fatal(err)
	}
	mustDo(t, tab, "screen", chromedp.EmulateViewport(320, 640))
	whole := func(name string) {
		t.Helper()
		shot(t, tab, name)
		check(t, tab, l.URL, name, 320)
		if _, err := chromedp.Run(tab, chromedp.Evaluate[any](string(axe))); err != nil {
			t.Fatal(err)
		}
		for _, v := range axeViolations(t, tab, "") {
			t.Errorf("%s: %s", name, v)
		}
	}
	mustDo(t, tab, "sign-in page", chromedp.Navigate(l.URL+"/login/"))
	for _, wait := range []time.Duration{11 * time.Minute, 72 * time.Hour} {
		signInAs(t, tab, "ada", password, "account")
		name := "Ada after " + wait.String()
		mustDo(t, tab, "type", chromedp.SetValue(id("display_name"), name))
		needStatus(t, "end", l.signedIn("ada").call("POST /api/me/sessions/end-others"), 204)
		mustDo(t, tab, "save", chromedp.Click(id("profile-submit")), chromedp.WaitVisible(page("login")), chromedp.WaitVisible(id("kept")))
		whole("login-kept")
		l.later(wait)
		mustDo(t, tab, "sign in", chromedp.SendKeys(field("password"), password), chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("confirm")))
		whole("confirm-kept")
		if shown := textOf(t, tab, id("kept")); !strings.Contains(shown, name) {
			t.Errorf("the page shows %q", shown)
		}
		mustDo(t, tab, "send", chromedp.Click(id("confirm-submit")), chromedp.WaitVisible(page("account")), chromedp.WaitVisible(id("notice")))
		if lead := textOf(t, tab, chromedp.CSS(".person strong")); lead != name {
			t.Errorf("saved %q, want %q", lead, name)
		}
		signOut(t, tab, l.service)
		mustDo(t, tab, "sign-in page", chromedp.Navigate(l.URL+"/login/"))
	}
}

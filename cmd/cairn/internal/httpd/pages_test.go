package httpd

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// elsewhere are addresses that a browser would leave the service for, and what
// careless checks take for local paths.
var elsewhere = []string{
	"https://evil.example", "http://evil.example/", "//evil.example", "///evil.example", "////evil.example", "/\\evil.example", "\\/evil.example", "\\\\evil.example", "/\t/evil.example", "/\n/evil.example",
	"\t//evil.example", " //evil.example", "/%09/evil.example", "/%5cevil.example", "/%2fevil.example", "https:evil.example", "https:/evil.example", "https:\\\\evil.example", "HTTPS://evil.example", "javascript:alert(1)",
	"JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "\x01javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "vbscript:x", "https://localhost@evil.example", "https://localhost.evil.example", "/..//evil.example",
	"/./\\evil.example", "/login/..//evil.example", "?//evil.example", "#//evil.example", "//evil.example%2f..", "/account/\r\nLocation: https://evil.example", "evil.example", "a.b", "http://[::1]@evil.example", "//%65vil.example",
}

// Attack 150: in each parameter that anybody ever used for it, on each page, in
// the address, the form and the API, signed in or not.
func TestSignInLeadsNowhereElse(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true}, "ada")
	anonymous, ada := s.browser(), s.signedIn("ada")
	names := []string{"next", "continue", "return_to", "returnTo", "return", "redirect", "redirect_uri", "redirect_url", "url", "goto", "rd", "ReturnUrl", "post_logout_redirect_uri", "back", "from", "service"}
	for i, target := range elsewhere {
		q := url.Values{}
		for _, n := range names {
			q.Set(n, target)
		}
		query := "?" + q.Encode()
		for _, b := range []*browser{anonymous, ada} {
			for _, path := range []string{"/login/", "/login", "/register/", "/reset-password/", "/logout/", "/account/", "/", "/admin/"} {
				s.staysHere(b.get(path + query))
			}
		}
		if i%4 != 0 { // a password costs
			continue
		}
		b := s.visitor()
		form := maps.Clone(q)
		form.Set("handle", "ada")
		form.Set("password", password)
		s.staysHere(b.postForm("/login/"+query, form))
		s.staysHere(b.postForm("/logout/"+query, q))
		got := b.api("POST", "/api/auth/login"+query, map[string]string{"handle": "ada", "password": password})
		if got.StatusCode != http.StatusOK || got.Header.Get("Location") != "" || strings.Contains(got.Text, "evil") {
			t.Errorf("API with %q: %d %s", target, got.StatusCode, got.Text)
		}
		wantProblem(t, "next in the API", b.api("POST", "/api/auth/login", map[string]string{"handle": "ada", "password": password, "next": target}), http.StatusBadRequest, "invalid_request")
	}
}

// staysHere holds an answer and all that one could click on it to this origin.
func (s *service) staysHere(got response) {
	s.t.Helper()
	base, _ := url.Parse(s.URL)
	here := func(what, target string) {
		u, err := base.Parse(target)
		if err != nil || u.Host != base.Host || u.Scheme != "http" || strings.HasPrefix(target, "//") ||
			strings.ContainsAny(target, "\\\r\n\t") || len(target) > 0 && target[0] <= ' ' {
			s.t.Errorf("%s of %s: %q", what, got.Request.URL, target)
		}
	}
	if l := got.Header.Get("Location"); l != "" {
		here("Location", l)
	}
	if strings.Contains(got.Header.Get("Content-Type"), "html") {
		for n := range mustParse(s.t, got.Text).Descendants() {
			for _, a := range n.Attr {
				if slices.Contains([]string{"href", "src", "action", "formaction", "data", "poster", "srcset", "ping"}, a.Key) || a.Key == "content" && attribute(n, "http-equiv") != "" {
					here(n.Data+" "+a.Key, a.Val)
				}
			}
		}
	}
}

// Attack 151: nothing that a stranger puts into an address or a form becomes
// markup.
func TestReflectedInputBecomesNoMarkup(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	s.addUser("keeper", "admin")
	s.addClient("app", nil)
	keeper, ada, stranger := s.signedIn("keeper"), s.signedIn("ada"), s.browser()
	payloads := []string{
		`<x-pwn>`, `"><x-pwn>`, `'><x-pwn>`, `</title><x-pwn>`, `" onfocus="alert(1)" autofocus x="`, `javascript:alert(1)//<x-pwn>`, `<script>alert(1)</script>`, `{{.}}<x-pwn>`, "\u2028<x-pwn>", `--><x-pwn><!--`, `%3Cx-pwn%3E`, `&lt;x-pwn&gt;<x-pwn>`,
	}
	params := []string{"continue", "next", "handle", "code", "error", "error_description", "message", "notice", "query", "cursor", "display_name", "client_id", "login_hint", "state", "redirect_uri", "scope", "prompt", "ui_locales", "note", "reason", "email", "confirm", "password", "id"}
	for _, p := range payloads {
		all := url.Values{}
		for _, name := range params {
			all.Set(name, p)
		}
		one := "?" + all.Encode()
		for _, path := range []string{"/login/", "/register/", "/reset-password/", "/logout/", "/account/", "/account/security", "/account/invites", "/admin/", "/admin/users/ada", "/oauth2/authorize", "/oauth2/consent", "/nowhere", "/nowhere/" + url.PathEscape(p), "/admin/users/" + url.PathEscape(p)} {
			for _, b := range []*browser{stranger, ada, keeper} {
				s.holdsNoMarkup(b.get(path + one))
			}
		}
		s.holdsNoMarkup(keeper.get("/admin/?" + url.Values{"query": {p}}.Encode()))
		s.holdsNoMarkup(stranger.get("/oauth2/authorize?" + url.Values{"client_id": {"app"},
			"redirect_uri": {callbackOf("app")}, "response_type": {p}, "state": {p}, "response_mode": {"form_post"}}.Encode()))
		for path, b := range map[string]*browser{"/login/": stranger, "/register/": stranger, "/reset-password/": stranger, "/account/profile": ada, "/account/password": ada, "/account/invites": ada, "/account/delete": ada, "/account/sessions/end": ada,
			"/account/apps/remove": ada, "/account/invites/delete": ada, "/admin/users/ada/delete": keeper} {
			s.holdsNoMarkup(b.postForm(path, all))
		}
	}
	// Stored: what people may call themselves is shown as text.
	needStatus(t, "display name", ada.api("PATCH", "/api/me", map[string]string{"display_name": `<x-pwn>"'><script>x`}), http.StatusOK)
	keeper.api("PUT", "/api/admin/settings", map[string]string{"instance_name": `<x-pwn>"'><script>x`})
	ada.api("POST", "/api/invites", map[string]string{"note": `<x-pwn>"'><script>x`})
	for _, b := range []*browser{keeper, ada, stranger} {
		for _, path := range []string{"/account/", "/account/devices", "/account/invites", "/admin/", "/admin/users/ada", "/login/", "/nowhere", "/register/"} {
			s.holdsNoMarkup(b.get(path))
		}
	}
}

// holdsNoMarkup looks for elements, handlers and scripts that are not ours.
func (s *service) holdsNoMarkup(got response) {
	s.t.Helper()
	if got.StatusCode >= 500 {
		s.t.Errorf("%s: %d", got.Request.URL, got.StatusCode)
	}
	kind := got.Header.Get("Content-Type")
	if !strings.HasPrefix(kind, "text/html; charset=utf-8") {
		if strings.Contains(kind, "html") || got.Text != "" && got.Header.Get("X-Content-Type-Options") != "nosniff" {
			s.t.Errorf("%s: Content-Type %q", got.Request.URL, kind)
		}
		return
	}
	if csp := got.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
		s.t.Errorf("%s: Content-Security-Policy %q", got.Request.URL, csp)
	}
	for n := range mustParse(s.t, got.Text).Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		bad := n.Data == "x-pwn" || n.Data == "style" || n.Data == "iframe" || n.Data == "base" ||
			n.Data == "script" && !strings.HasPrefix(attribute(n, "src"), "/static/cairn.") &&
				!strings.HasPrefix(attribute(n, "src"), "/static/form-post.") && !strings.HasPrefix(attribute(n, "src"),
				"/static/passkey.")
		for _, a := range n.Attr {
			bad = bad || strings.HasPrefix(a.Key, "on") || a.Key == "style" ||
				strings.HasPrefix(strings.TrimSpace(strings.ToLower(a.Val)), "javascript:") && a.Key != "value"
		}
		if bad {
			s.t.Errorf("%s: <%s %v>", got.Request.URL, n.Data, n.Attr)
		}
	}
}

// Attacks 152 and 153: forms with a password go to this service by POST, and
// say to password managers what their fields are.
func TestFormsWithAPassword(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("keeper", "admin")
	keeper, stranger := s.signedIn("keeper"), s.browser()
	for path, c := range map[string]struct {
		b      *browser
		fields map[string]string // name -> autocomplete
	}{
		"/login/":           {stranger, map[string]string{"handle": "username webauthn", "password": "current-password"}},
		"/register/":        {stranger, map[string]string{"handle": "username", "password": "new-password", "code": "off"}},
		"/reset-password/":  {stranger, map[string]string{"handle": "username", "password": "new-password", "code": "off"}},
		"/account/security": {keeper, map[string]string{"current_password": "current-password", "new_password": "new-password"}},
		"/account/profile":  {keeper, map[string]string{"display_name": "name", "nickname": "nickname", "email": "email"}},
		"/account/data":     {keeper, map[string]string{"password": "current-password"}},
		"/admin/":           {keeper, nil},
	} {
		got := c.b.get(path)
		headings, found := 0, map[string]string{}
		for n := range mustParse(t, got.Text).Descendants() {
			switch {
			case n.Type != html.ElementNode:
			case n.Data == "h1":
				headings++
			case n.Data == "input":
				found[attribute(n, "name")] = attribute(n, "autocomplete")
				if attribute(n, "type") == "password" && attribute(n, "value") != "" {
					t.Errorf("%s: a password is filled in", path)
				}
			case n.Data == "form":
				secret := false
				for in := range n.Descendants() {
					secret = secret || attribute(in, "type") == "password"
				}
				action := attribute(n, "action")
				if secret && attribute(n, "method") != "post" || !strings.HasPrefix(action, "/") || strings.HasPrefix(action, "//") {
					t.Errorf("%s: form %s by %q", path, action, attribute(n, "method"))
				}
			}
		}
		for name, want := range c.fields {
			same(t, fmt.Sprintf("%s: %s has autocomplete", path, name), found[name], want)
		}
		if headings != 1 || pageName(t, got.Text) == "" {
			t.Errorf("%s: %d h1, data-page %q", path, headings, pageName(t, got.Text))
		}
	}
	// A form by GET signs nobody in and keeps no password in an address.
	b := s.visitor()
	got := b.get("/login/?" + url.Values{"handle": {"keeper"}, "password": {password}}.Encode())
	if b.cookie("cairn_session") != "" || strings.Contains(got.Text, password) {
		t.Error("a GET has signed in, or shows the password")
	}
	for _, value := range []string{"\r\nSet-Cookie: a=b", "%0d%0aSet-Cookie: a=b", "x\r\n\r\n<x-pwn>"} {
		for _, name := range []string{"continue", "handle", "notice", "code"} {
			got := b.get("/login/?" + url.Values{name: {value}}.Encode())
			if got.Header.Get("Set-Cookie") != "" || strings.Contains(got.Header.Get("Location"), "Set-Cookie") {
				t.Errorf("%s=%q: %v", name, value, got.Header)
			}
		}
	}
	if got := keeper.get("/.well-known/change-password"); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/account/security#password" {
		t.Errorf("change-password: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
}

// wantLanguage checks the language that an answer says it is in, and a text of it.
func wantLanguage(t *testing.T, what string, got response, tag, text string) {
	t.Helper()
	if got.Header.Get("Content-Language") != tag || !strings.Contains(strings.Join(got.Header.Values("Vary"), ","),
		"Accept-Language") || !strings.Contains(got.Text, text) {
		t.Errorf("%s: language %q, vary %q, want %s with %q in %.1500s", what, got.Header.Get("Content-Language"), got.Header.Values("Vary"), tag, text, mainOf(got.Text))
	}
	if strings.Contains(got.Text, "<html") && !strings.Contains(got.Text, `<html lang="`+tag+`" dir="ltr">`) {
		t.Errorf("%s: %.100s", what, got.Text)
	}
}

func TestAnswersAreInTheLanguageOfTheBrowser(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	b := s.signedIn("ada")
	const de = "de-AT,de;q=0.9,en;q=0.8"
	wrong := map[string]string{"handle": "ada", "password": "wrong"}
	got := b.api("POST", "/api/auth/login", wrong)
	wantLanguage(t, "problem", got, "en", `"title":"Unauthorized","status":401,"detail":"The user name or password is incorrect.","code":"invalid_credentials"`)
	got = b.api("POST", "/api/auth/login", wrong, "Accept-Language", de)
	wantLanguage(t, "problem", got, "de", `"title":"Unauthorized","status":401,"detail":"Der Benutzername oder das Passwort stimmt nicht.","code":"invalid_credentials"`)
	got = b.api("PATCH", "/api/me", map[string]string{"nickname": strings.Repeat("x", 200), "zoneinfo": "Rome"}, "Accept-Language", de)
	wantLanguage(t, "faults of members", got, "de", `{"pointer":"/nickname","detail":"Gib höchstens 100 Zeichen ein, in einer Zeile und ohne Steuerzeichen."}`)
	got = b.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": "x"}, "Accept-Language", de)
	wantLanguage(t, "number", got, "de", "Das Passwort braucht mindestens 10 Zeichen.")
	wantLanguage(t, "page", s.browser().get("/login/", "Accept-Language", de), "de", "<h1>Anmelden</h1>")
	wantLanguage(t, "unknown language", s.browser().get("/login/", "Accept-Language", "sv"), "en", "<h1>Sign in</h1>")
	wantLanguage(t, "refusal on a page", s.browser().postForm("/login/",
		url.Values{"handle": {"ada"}, "password": {"wrong"}}, "Accept-Language", de), "de", "Der Benutzername oder das Passwort stimmt nicht.")
	wantLanguage(t, "error page", s.browser().get("/nowhere", "Accept-Language", de), "de", "Unter dieser Adresse gibt es nichts.")
	wantLanguage(t, "error page of authorize", s.browser().get("/oauth2/authorize?client_id=x", "Accept-Language", de), "de", "ist bei diesem Dienst nicht registriert")
}

// ui_locales count before the member's choice, and this before the browser's.
func TestApplicationAndMemberChooseTheLanguage(t *testing.T) {
	s, rp := startApp(t, nil, "openid", "profile")
	const en, de = "en-GB,en;q=0.9", "de"
	b := s.browser()
	asked := rp.authURL("ui_locales", "sv de")
	login := b.get(b.get(asked, "Accept-Language", en).Header.Get("Location"), "Accept-Language", en)
	wantLanguage(t, "sign-in", login, "de", "Weiter zu:")
	f := pageForm(t, login.Text)
	next := url.QueryEscape(f.values.Get("continue"))
	wantLanguage(t, "registration", b.get("/register/?continue="+next, "Accept-Language", en), "de", "Einladungscode")
	wantLanguage(t, "reset", b.get("/reset-password/?continue="+next, "Accept-Language", en), "de", "Passwort zurücksetzen")
	f.values.Set("handle", "ada")
	f.values.Set("password", "wrong")
	wantLanguage(t, "wrong password", b.postForm(f.action, f.values, "Accept-Language", en), "de", "Der Benutzername oder das Passwort stimmt nicht.")

	b.signIn("ada")
	choose := func(locale string) {
		wantStatus(t, "choose "+locale, b.api("PATCH", "/api/me", map[string]string{"locale": locale}), 200)
	}
	choose("en-GB")
	wantLanguage(t, "consent", b.get(b.get(asked).Header.Get("Location"), "Accept-Language", de), "de", "Außerdem: Benutzername (ada)")
	wantLanguage(t, "sign-out", b.get("/oauth2/logout?ui_locales=de", "Accept-Language", en), "de", "Abmelden?")
	wantLanguage(t, "the member's choice", b.get("/account/profile", "Accept-Language", de), "en", "Profile")
	choose("de-CH")
	wantLanguage(t, "the member's choice", b.get("/account/profile", "Accept-Language", en), "de", "Profil")
	wantLanguage(t, "the page for a device", b.get("/device", "Accept-Language", en), "de", "Ein Gerät verbinden")
	wantLanguage(t, "a wrong code there", b.postForm("/device", url.Values{}, "Accept-Language", en), "de", "wartet kein Gerät")
	wantLanguage(t, "the member's choice in the API", b.api("PATCH", "/api/me", map[string]string{"zoneinfo": "Rome"}, "Accept-Language", en), "de", "Zeitzone")
	choose("sv")
	wantLanguage(t, "a choice that cannot be met", b.get("/account/profile", "Accept-Language", de), "de", "Profil")
	// What applications read stays as it is (RFC 6749 section 4.1.2.1: ASCII).
	denied := b.get(rp.authURL("ui_locales", "de", "prompt", "none", "response_type", "token"), "Accept-Language", de)
	same(t, "error_description", answered(t, denied).Get("error_description"), "response_type: Only code is supported.")
}

package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
)

// Attacks 5 to 15: before the redirect URI is proven the browser gets a page
// and never a Location.
func TestUnprovenRedirectURINeverGetsAnAnswer(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.signIn("ada")
	urls := map[string]string{}
	for _, uri := range []string{
		"https://evil.example/callback", "https://app.example.org.evil.example/callback", "https://evil.app.example.org/callback", "https://app.example.org/callback/",
		"https://app.example.org/callback/../x", "https://app.example.org/%63allback", "https://app.example.org/..;/callback", "https://app.example.org//callback",
		"https://rp@app.example.org/callback", "https://app.example.org@evil.example/callback", "https://app.example.org\\@evil.example/callback",
		"https://app.example.org/callback#", "https://app.example.org/callback#x", "https://app.example.org/callback?code=attacker", "HTTPS://app.example.org/callback",
		"https://APP.example.org/callback", "http://app.example.org/callback", "https://app.example.org:8443/callback", "javascript:alert(1)", "data:text/html,x",
		"https://app.example.org/callback ", "https://app.example.org/callback\t", " https://app.example.org/callback", "https://app.example.org/callback\x00",
	} {
		urls[uri] = rp.authURL("redirect_uri", uri)
	}
	urls["missing"] = rp.authURL("redirect_uri", "")
	urls["twice"] = rp.authURL() + "&redirect_uri=" + url.QueryEscape("https://evil.example/")
	urls["unknown client"] = rp.authURL("client_id", "nobody")
	urls["no client"] = rp.authURL("client_id", "")
	urls["odd client"] = rp.authURL("client_id", "app\x00")
	urls["two clients"] = rp.authURL() + "&client_id=evil"
	urls["too long"] = rp.authURL("x", strings.Repeat("a", 5000))
	for name, u := range urls {
		got := b.get(u)
		if got.StatusCode != http.StatusBadRequest || got.Header.Get("Location") != "" || pageName(t, got.Text) != "error" {
			t.Errorf("%s: %d, Location %q, page %q", name, got.StatusCode, got.Header.Get("Location"), pageName(t, got.Text))
		}
		if !strings.Contains(got.Text, got.Header.Get("X-Request-Id")) {
			t.Errorf("%s: the page does not show the request id", name)
		}
	}
}

// Once it is proven, errors go there with state and iss, and never a code.
func TestWrongAuthorizationRequestNeverGetsACode(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.signIn("ada")
	for name, c := range map[string]struct {
		change []string
		want   string
	}{
		"no response_type": {[]string{"response_type", ""}, "invalid_request"}, "token": {[]string{"response_type", "token"}, "unsupported_response_type"},
		"id_token": {[]string{"response_type", "id_token"}, "unsupported_response_type"}, "hybrid": {[]string{"response_type", "code id_token"}, "unsupported_response_type"},
		"none": {[]string{"response_type", "none"}, "unsupported_response_type"}, "fragment": {[]string{"response_mode", "fragment"}, "unsupported_response_mode"},
		"unknown mode": {[]string{"response_mode", "x"}, "unsupported_response_mode"}, "request": {[]string{"request", "a.b.c"}, "request_not_supported"},
		"request_uri": {[]string{"request_uri", "https://evil.example/"}, "request_uri_not_supported"}, "registration": {[]string{"registration", "{}"}, "registration_not_supported"},
		"prompt": {[]string{"prompt", "create"}, "invalid_request"}, "prompts": {[]string{"prompt", "none login"}, "invalid_request"}, "max_age": {[]string{"max_age", "-1"}, "invalid_request"},
		"hint": {[]string{"id_token_hint", "a.b.c"}, "invalid_request"},
	} {
		got := b.authorize(rp.authURL(c.change...), "ada")
		if got.Get("error") != c.want || got.Get("code") != "" || got.Get("state") != rp.state || got.Get("iss") != s.URL {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
		if d := got.Get("error_description"); d == "" || strings.ContainsAny(d, "\"\\") {
			t.Errorf("%s: error_description %q", name, d)
		}
	}
	if got := b.authorize(rp.authURL()+"&nonce=again", "ada"); got.Get("error") != "invalid_request" {
		t.Errorf("repeated nonce: %v", got)
	}
}

func TestPromptNoneNeverShowsAPage(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	if got := b.authorize(rp.authURL("prompt", "none"), "ada"); got.Get("error") != "login_required" {
		t.Errorf("signed out: %v", got)
	}
	b.signIn("ada")
	if got := b.authorize(rp.authURL("prompt", "none"), "ada"); got.Get("error") != "consent_required" {
		t.Errorf("without consent: %v", got)
	}
}

// state is the client's: returned byte by byte, or not at all when it was not
// sent (openid-client and Auth.js send none with PKCE).
func TestStateNeverComesBackChanged(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	for _, state := range []string{"/", "x", strings.Repeat("s", 1200), "ünïcödé \u2028", "a b+c%20d&e=f", "\r\nSet-Cookie: a=b", "<script>alert(1)</script>"} {
		got := b.authorize(rp.authURL("state", state), "ada")
		if got.Get("state") != state || got.Get("code") == "" {
			t.Errorf("state %.40q came back as %.40q", state, got.Get("state"))
		}
	}
	got := b.authorize(rp.authURL("state", ""), "ada")
	if got.Has("state") || got.Get("code") == "" {
		t.Errorf("without state: %v", got)
	}
}

func TestUnknownScopesAreNeverGranted(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", func(c *provider.Client) { c.Scopes = []string{"openid", "profile"} })
	rp := s.relyingParty("app", secret, "openid", "admin", "groups", "offline_access", "profile")
	b := s.browser()
	got := s.tokenRequest("app", secret, rp.codeForm(b.authorize(rp.authURL(), "ada").Get("code"))).JSON(t)
	if got["scope"] != "openid profile" || got["refresh_token"] != nil {
		t.Errorf("granted %v", got["scope"])
	}
}

// Attack 22: silent single sign-on in spite of prompt=login or max_age.
func TestFreshSignInIsNeverSkipped(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.authorize(rp.authURL(), "ada") // signed in, with consent
	for _, change := range [][]string{{"prompt", "login"}, {"prompt", "select_account"}, {"max_age", "0"}} {
		got := b.get(rp.authURL(change...))
		login := got.Header.Get("Location")
		if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(login, "/login/?") {
			t.Fatalf("%v: %d %s", change, got.StatusCode, login)
		}
		if page := b.get(login); strings.Contains(page.Text, "login-continue") {
			t.Errorf("%v: the page offers to go on without a sign-in", change)
		}
		// Going back without signing in does not help.
		sealed, _ := url.Parse(login)
		back := b.get("/oauth2/authorize?" + url.Values{"continue": {sealed.Query().Get("continue")}}.Encode())
		if !strings.HasPrefix(back.Header.Get("Location"), "/login/?") {
			t.Errorf("%v: went on without a sign-in to %s", change, back.Header.Get("Location"))
		}
		if answer := b.authorize(rp.authURL(change...), "ada"); answer.Get("code") == "" {
			t.Errorf("%v: no code after the sign-in: %v", change, answer)
		}
	}
}

// Attack 90: consent by GET, by parameter, with another user's form, or with a
// decision made for another request.
func TestConsentIsNeverGivenForSomebodyElse(t *testing.T) {
	s := startService(t, serviceOptions{})
	ada := s.addUser("ada")
	s.addUser("eve")
	rp := s.relyingParty("app", s.addClient("app", nil))
	consentForm := func(handle string, change ...string) (*browser, form) {
		b := s.browser()
		b.signIn(handle)
		got := b.get(b.get(rp.authURL(change...)).Header.Get("Location"))
		if pageName(t, got.Text) != "consent" {
			t.Fatalf("page %q", pageName(t, got.Text))
		}
		return b, pageForm(t, got.Text)
	}
	victim, mine := consentForm("ada")
	_, hers := consentForm("eve")
	mine.values.Set("decision", "allow")
	if got := victim.get(mine.action + "?" + mine.values.Encode()); got.StatusCode == http.StatusSeeOther {
		t.Error("consent by GET")
	}
	if got := victim.get(rp.authURL("decision", "allow")); strings.Contains(got.Header.Get("Location"), "code=") {
		t.Error("consent by a parameter")
	}
	hers.values.Set("decision", "allow")
	if got := victim.postForm(hers.action, hers.values); got.StatusCode != http.StatusForbidden {
		t.Errorf("another user's form: %d", got.StatusCode)
	}
	if got := victim.postForm(mine.action, mine.values, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); got.StatusCode != http.StatusForbidden {
		t.Errorf("cross-site: %d", got.StatusCode)
	}
	had, err := s.store.ConsentedScopes(t.Context(), ada.Sub, "app")
	if err != nil || had != nil {
		t.Errorf("consent was stored: %v %v", had, err)
	}
	_, other := consentForm("ada", "scope", "openid")
	mixed := url.Values{"continue": other.values["continue"], "token": mine.values["token"], "decision": {"allow"}}
	if got := victim.postForm(mine.action, mixed); got.StatusCode != http.StatusForbidden {
		t.Errorf("another request's form: %d", got.StatusCode)
	}
	// Denying is an answer for the client; allowing works once all is right.
	deny := url.Values{"continue": mine.values["continue"], "token": mine.values["token"], "decision": {"deny"}}
	got := victim.get(victim.postForm(mine.action, deny).Header.Get("Location"))
	if !strings.Contains(got.Header.Get("Location"), "error=access_denied") {
		t.Errorf("denied: %s", got.Header.Get("Location"))
	}
	if got := victim.get(victim.postForm(mine.action, mine.values).Header.Get("Location")); !strings.Contains(got.Header.Get("Location"), "code=") {
		t.Errorf("allowed: %s", got.Header.Get("Location"))
	}
}

func TestUserWithoutTheRequiredFlagIsNeverLetIn(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", "activity")
	u := s.addUser("bob")
	secret := s.addClient("app", func(c *provider.Client) { c.RequireFlag = "activity" })
	rp := s.relyingParty("app", secret)
	if got := s.browser().authorize(rp.authURL(), "bob"); got.Get("error") != "access_denied" {
		t.Errorf("without the flag: %v", got)
	}
	if _, err := s.store.SetFlags(t.Context(), u.Sub, map[string]bool{"activity": true}, false, time.Now(), operator("user.flags", "bob", "")); err != nil {
		t.Fatal(err)
	}
	_, token := s.signedInTokens(rp, "bob")
	if _, err := s.store.SetFlags(t.Context(), u.Sub, map[string]bool{"activity": false}, false, time.Now(), operator("user.flags", "bob", "")); err != nil {
		t.Fatal(err)
	}
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
		t.Errorf("userinfo after the flag was taken away: %d", got)
	}
	got := s.tokenRequest("app", secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}})
	wantOAuthError(t, "refresh after the flag was taken away", got, http.StatusBadRequest, "invalid_grant")
}

func TestAuthorizationAnswerIsNeverCachedOrReposted(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	got := b.get(rp.authURL())
	if got.StatusCode != http.StatusSeeOther || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d, Cache-Control %q", got.StatusCode, got.Header.Get("Cache-Control"))
	}
	posted, _ := url.Parse(rp.authURL())
	if got := b.postForm("/oauth2/authorize", posted.Query(), "Origin", "https://app.example.org", "Sec-Fetch-Site", "cross-site"); !strings.Contains(got.Header.Get("Location"), "code=") {
		t.Errorf("POST: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
	page := b.get(rp.authURL("response_mode", "form_post"))
	if page.StatusCode != http.StatusOK || pageName(t, page.Text) != "form-post" {
		t.Fatalf("form_post: %d page %q", page.StatusCode, pageName(t, page.Text))
	}
	f := pageForm(t, page.Text)
	if f.action != callbackOf("app") || f.values.Get("code") == "" || f.values.Get("state") != rp.state || f.values.Get("iss") != s.URL {
		t.Errorf("form_post to %s: %v", f.action, f.values)
	}
}

package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// RFC 6749 sections 3.1 and 3.2: a parameter that is given twice is refused,
// at every endpoint, whichever of the two would have been good.
func TestRepeatedParameterNeverCounts(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	for _, more := range []string{
		"response_type=token", "response_type=code", "scope=openid", "state=x", "nonce=x", "prompt=login&prompt=login", "response_mode=query&response_mode=form_post", "code_challenge=x",
		"code_challenge_method=plain", "max_age=1&max_age=100000", "id_token_hint=a&id_token_hint=b", "login_hint=a&login_hint=b", "x=1&x=2", "request_uri=a&request_uri=b", "state=",
	} {
		target, got := answerOf(t, b.get(rp.authURL()+"&"+more))
		if target != callbackOf("app") || got.Get("error") != "invalid_request" || got.Has("code") {
			t.Errorf("authorize, %s: %s %v", more, target, got)
		}
		if name, _, _ := strings.Cut(more, "="); name == "state" && got.Has("state") {
			t.Errorf("one of two states came back: %v", got)
		}
	}
	code := b.authorize(rp.authURL(), "ada").Get("code")
	for name, extra := range map[string]string{
		"grant_type": "authorization_code", "code": code, "redirect_uri": callbackOf("app"), "code_verifier": rp.verifier, "client_id": "app", "unknown": "1",
	} {
		form := rp.codeForm(code)
		form.Set("client_id", "app")
		form.Set("unknown", "1")
		form.Add(name, extra)
		wantOAuthError(t, "token, two "+name, s.tokenRequest("app", secret, form), http.StatusBadRequest, "invalid_request")
	}
	for _, name := range []string{"code", "refresh_token", "client_secret", "code_verifier"} {
		got := b.do("POST", "/oauth2/token?"+name+"=x", "application/x-www-form-urlencoded", rp.codeForm(code).Encode())
		wantOAuthError(t, "token, "+name+" in the URL", got, http.StatusBadRequest, "invalid_request")
	}
	if got := s.tokenRequest("app", secret, rp.codeForm(code)); got.StatusCode != http.StatusOK {
		t.Errorf("the code after all that: %d %s", got.StatusCode, got.Text)
	}
	form := url.Values{"access_token": {token.AccessToken, token.AccessToken}}
	if got := b.postForm("/oauth2/userinfo", form); got.StatusCode != http.StatusBadRequest {
		t.Errorf("userinfo, two tokens: %d", got.StatusCode)
	}
	if got := b.get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken, "Authorization", "Bearer "+token.AccessToken); got.StatusCode != http.StatusBadRequest {
		t.Errorf("userinfo, two headers: %d", got.StatusCode)
	}
	page := b.get(b.get(rp.authURL("prompt", "consent")).Header.Get("Location"))
	f := pageForm(t, page.Text)
	f.values["decision"] = []string{"deny", "allow"}
	wantPage(t, "consent, two decisions", b.postForm(f.action, f.values), http.StatusBadRequest)
}

// HEAD is GET without a body: it allows nothing, spends nothing, posts nothing.
func TestHeadNeverChangesAnything(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	b.signIn("ada")
	consent := b.get(rp.authURL()).Header.Get("Location")
	f := pageForm(t, b.get(consent).Text)
	f.values.Set("decision", "allow")
	for _, path := range []string{f.action + "?" + f.values.Encode(), consent} {
		if got := b.do("HEAD", path, "", ""); got.StatusCode == http.StatusSeeOther || got.Text != "" {
			t.Errorf("HEAD %.40s: %d %q", path, got.StatusCode, got.Text)
		}
	}
	got := b.do("HEAD", f.action, "application/x-www-form-urlencoded", f.values.Encode())
	if got.StatusCode == http.StatusSeeOther || db.count("SELECT count(*) FROM consents") != 0 || db.count("SELECT count(*) FROM grants") != 0 {
		t.Errorf("HEAD on the consent form: %d", got.StatusCode)
	}
	code := b.authorize(rp.authURL(), "ada").Get("code")
	before := db.count("SELECT count(*) FROM grants")
	for _, path := range []string{rp.authURL(), "/oauth2/logout"} {
		if got := b.do("HEAD", path, "", ""); got.StatusCode != http.StatusMethodNotAllowed || db.count("SELECT count(*) FROM grants") != before {
			t.Errorf("HEAD %.40s: %d", path, got.StatusCode)
		}
	}
	form := rp.codeForm(code)
	form.Set("client_id", "app")
	form.Set("client_secret", secret)
	for _, method := range []string{"HEAD", "GET", "PUT", "PATCH", "DELETE", "TRACE"} {
		if got := b.do(method, "/oauth2/token?"+form.Encode(), "application/x-www-form-urlencoded", form.Encode()); got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "POST" {
			t.Errorf("%s on the token endpoint: %d, Allow %q", method, got.StatusCode, got.Header.Get("Allow"))
		}
	}
	access := s.tokenRequest("app", secret, rp.codeForm(code)).JSON(t)["access_token"].(string)
	if got := b.do("HEAD", "/oauth2/userinfo", "", "", "Authorization", "Bearer "+access); got.StatusCode != http.StatusOK || got.Text != "" {
		t.Errorf("HEAD on userinfo: %d %q", got.StatusCode, got.Text)
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/jwks.json"} {
		if got := b.do("HEAD", path, "", ""); got.StatusCode != http.StatusOK || got.Text != "" || got.Header.Get("ETag") == "" {
			t.Errorf("HEAD %s: %d", path, got.StatusCode)
		}
	}
}

// Attack 19 in what a header could carry: nothing of a request splits an answer.
func TestParameterNeverBecomesAHeader(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	const evil = "x\r\nSet-Cookie: planted=1\r\nLocation: https://evil.example/\r\n\r\n<script>"
	for _, name := range []string{"state", "nonce", "login_hint", "ui_locales", "display", "acr_values", "scope", "prompt", "response_mode", "response_type", "client_id", "redirect_uri", "max_age", "continue", "decision", "handle"} {
		for _, value := range []string{evil, "openid " + evil, strings.ReplaceAll(evil, "\r", "")} {
			got := b.get(rp.authURL(name, value))
			if len(got.Header.Values("Set-Cookie")) > 0 || strings.Contains(got.Header.Get("Location"), "\n") || len(got.Header.Values("Location")) > 1 || strings.HasPrefix(got.Header.Get("Location"), "https://evil") {
				t.Errorf("%s: %v", name, got.Header)
			}
			if got.StatusCode >= 500 || strings.Contains(got.Text, "<script>") && !strings.Contains(got.Text, "<script src") {
				t.Errorf("%s: %d %.200s", name, got.StatusCode, got.Text)
			}
		}
	}
	raw := rawRequest(t, s.URL, "GET "+strings.TrimPrefix(rp.authURL("state", evil, "prompt", "none"), s.URL)+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if strings.Contains(raw, "\nSet-Cookie: planted") || !strings.Contains(raw, "error=login_required") {
		t.Errorf("%.400s", raw)
	}
}

// The Form Post Response Mode, for success and for every kind of error: never
// in the URL, escaped, framed by nobody, with state as it came.
func TestFormPostNeverLeaksIntoTheURL(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	for _, c := range []struct {
		change []string
		want   string
	}{
		{[]string{"prompt", "none"}, "login_required"}, {nil, ""}, {[]string{"response_type", ""}, "invalid_request"}, {[]string{"prompt", "bogus"}, "invalid_request"},
		{[]string{"request", "x"}, "request_not_supported"}, {[]string{"code_challenge_method", "plain"}, "invalid_request"},
		{[]string{"state", `"><script>alert(1)</script>&amp;'` + "ünï \u2028+%41"}, ""}, {[]string{"state", strings.Repeat("s", 1200)}, ""},
	} {
		change := append([]string{"response_mode", "form_post"}, c.change...)
		got := b.follow(b.get(rp.authURL(change...)), "ada")
		target, answer := answerOf(t, got)
		if got.StatusCode != http.StatusOK || target != callbackOf("app") || answer.Get("error") != c.want || (answer.Get("code") == "") != (c.want != "") || answer.Get("iss") != s.URL {
			t.Errorf("%.60q: %d to %s: %v", c.change, got.StatusCode, target, answer)
		}
		state := rp.state
		if len(c.change) > 0 && c.change[0] == "state" {
			state = c.change[1]
		}
		if answer.Get("state") != state || strings.Contains(got.Text, "<script>") {
			t.Errorf("state %.40q came back as %.40q", state, answer.Get("state"))
		}
		csp := got.Header.Get("Content-Security-Policy")
		if got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("X-Frame-Options") != "DENY" || strings.Contains(csp, "unsafe") || strings.Contains(csp, "form-action") {
			t.Errorf("headers %v", got.Header)
		}
	}
	// A form normalizes line ends and replaces what is no character: such a state
	// could not come back as it was, so there is an error, not another state.
	for _, state := range []string{"a\r\nb", "a\nb", "a\x00b", "a\xffb", "a\rb"} {
		_, answer := answerOf(t, b.follow(b.get(rp.authURL("response_mode", "form_post", "state", state)), "ada"))
		if answer.Get("error") != "invalid_request" || answer.Has("state") || answer.Has("code") {
			t.Errorf("state %q: %v", state, answer)
		}
	}
}

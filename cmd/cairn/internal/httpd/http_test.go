package httpd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
)

// Attacks 78 to 81 and 89: what a page of another site can make a browser send.
func TestForeignPageNeverChangesAnything(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", "admin")
	s.addUser("bob")
	b := s.browser()
	b.signIn("ada")
	foreign := map[string][]string{
		"cross-site":       {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		"sibling host":     {"Sec-Fetch-Site", "same-site", "Origin", "http://app.localhost"},
		"old browser":      {"Origin", "https://evil.example"},
		"null origin":      {"Origin", "null"},
		"suffix lookalike": {"Origin", s.URL + ".evil.example"},
		"prefix lookalike": {"Origin", "http://evil" + strings.TrimPrefix(s.URL, "http://")},
	}
	for name, header := range foreign {
		for _, c := range []struct{ method, path, kind, body string }{
			{"POST", "/api/admin/users/bob/suspend", "application/json", "{}"},
			{"POST", "/api/admin/users/bob/suspend", "text/plain", "{}"},
			{"POST", "/api/admin/users/bob/suspend", "", ""},
			{"DELETE", "/api/admin/users/bob", "", ""},
			{"PUT", "/api/admin/users/bob/flags", "application/json", `{"admin":true}`},
			{"POST", "/api/invites", "application/json", "{}"},
			{"POST", "/api/auth/logout", "", ""},
			{"POST", "/logout/", "application/x-www-form-urlencoded", ""},
			{"POST", "/login/", "application/x-www-form-urlencoded", "handle=bob&password=" + url.QueryEscape(password)},
			{"POST", "/api/auth/login", "application/json", `{"handle":"bob","password":"` + password + `"}`},
			{"POST", "/account/profile", "application/x-www-form-urlencoded", "display_name=x"},
		} {
			got := b.do(c.method, c.path, c.kind, c.body, header...)
			if got.StatusCode != http.StatusForbidden || got.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s: %s %s: %d", name, c.method, c.path, got.StatusCode)
			}
		}
	}
	if me := b.api("GET", "/api/me", nil).JSON(t); me["handle"] != "ada" {
		t.Errorf("still signed in as %v", me["handle"])
	}
	u, err := s.store.UserByHandle(t.Context(), "bob")
	if err != nil || u.Suspended() || u.Has("admin") {
		t.Errorf("bob: %+v %v", u, err)
	}
}

// Attacks 84 and 85.
func TestCORSNeverOpensToAStranger(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AllowedOrigins = []string{"https://app.example.org"} }})
	b := s.browser()
	for _, origin := range []string{"https://evil.example", "null", "https://app.example.org.evil.example", "https://evilapp.example.org", "http://app.example.org", "https://app.example.org:8443"} {
		got := b.do("GET", "/api/me", "", "", "Origin", origin)
		if got.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(got.Header.Get("Vary"), "Origin") {
			t.Errorf("%s: %v", origin, got.Header)
		}
		pre := b.do("OPTIONS", "/api/me", "", "", "Origin", origin, "Access-Control-Request-Method", "PATCH")
		if pre.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("preflight of %s: %v", origin, pre.Header)
		}
	}
	got := b.do("OPTIONS", "/api/me", "", "", "Origin", "https://app.example.org", "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "content-type")
	if got.Header.Get("Access-Control-Allow-Origin") != "https://app.example.org" || got.Header.Get("Access-Control-Allow-Credentials") != "true" || got.Header.Get("Access-Control-Allow-Methods") != "PATCH" {
		t.Errorf("preflight of the allowed origin: %d %v", got.StatusCode, got.Header)
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/jwks.json", "/oauth2/userinfo", "/schemas/activity-1.0.json"} {
		got := b.do("GET", path, "", "", "Origin", "https://any.example")
		if got.Header.Get("Access-Control-Allow-Origin") != "*" || got.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
	if got := b.do("GET", "/login/", "", "", "Origin", "https://app.example.org"); got.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a page is readable from elsewhere")
	}
	without := startService(t, serviceOptions{})
	got = without.browser().do("GET", "/api/me", "", "", "Origin", "https://app.example.org")
	if got.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(got.Header.Get("Vary"), "Origin") {
		t.Errorf("without a list: %v", got.Header)
	}
}

// Attacks 86 to 88.
func TestSecurityHeadersAreNeverMissing(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	b := s.browser()
	b.signIn("ada")
	for _, path := range []string{"/login/", "/account/", "/api/me", "/nowhere", "/oauth2/authorize", "/.well-known/jwks.json", "/register/", "/api/auth/login"} {
		got := b.get(path)
		h := got.Header
		csp := h.Get("Content-Security-Policy")
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "same-origin" ||
			!strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") || h.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", path, h)
		}
		if strings.HasPrefix(path, "/a") && h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control %q", path, h.Get("Cache-Control"))
		}
	}
	if got := b.get("/login/"); got.Header.Get("Strict-Transport-Security") != "" {
		t.Error("HSTS on plain http")
	}
	secure := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.Issuer = "https://id.example.org" }})
	if got := secure.browser().get("/login/"); got.Header.Get("Strict-Transport-Security") != "max-age=31536000" {
		t.Errorf("HSTS on https: %q", got.Header.Get("Strict-Transport-Security"))
	}
}

// Attacks 82, 83, 144 and 145.
func TestOddRequestsNeverDoAnything(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", "admin")
	s.addUser("bob")
	b := s.browser()
	b.signIn("ada")
	for _, path := range []string{"/api/admin/users/bob/suspend", "/api/auth/logout", "/api/admin/users/bob/reset-password-code", "/api/me/sessions/end-others"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "TRACE", "PROPFIND"} {
			if got := b.do(method, path, "", "", "X-HTTP-Method-Override", "POST"); got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "POST" {
				t.Errorf("%s %s: %d, Allow %q", method, path, got.StatusCode, got.Header.Get("Allow"))
			}
		}
	}
	for _, path := range []string{"//evil.example/..", "//evil.example/%2e%2e", "/\\evil.example", "/../etc/passwd", "/.git/config", "/debug/pprof/", "/api//admin/users", "/api/admin/users/", "/api/admin/users//suspend", "/metrics", "/static/", "/static/../main.go"} {
		got := rawGet(t, s.URL, path)
		if !strings.HasPrefix(got, "HTTP/1.1 404") && !strings.HasPrefix(got, "HTTP/1.1 400") || strings.Contains(got, "\r\nLocation:") {
			t.Errorf("%s: %.120q", path, got)
		}
	}
	if got := b.get("/logout/"); got.StatusCode != http.StatusOK || b.api("GET", "/api/me", nil).StatusCode != http.StatusOK {
		t.Error("GET /logout/ signed out")
	}
	notFound := b.do("GET", "/nowhere", "", "")
	if notFound.Header.Get("Content-Type") != "application/problem+json" || notFound.JSON(t)["code"] != "not_found" || notFound.JSON(t)["request_id"] != notFound.Header.Get("X-Request-Id") {
		t.Errorf("404: %s", notFound.Text)
	}
}

// rawGet sends a request line that http.Client would not.
func rawGet(t *testing.T, base, path string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, u.Host)
	var b strings.Builder
	if _, err := bufio.NewReader(c).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Attack 96: an address counts as the client's only from a proxy that is trusted, and
// then the rightmost one that is no proxy. Each attempt is at another handle: the
// limit of the account does not stand in for that of the address.
func TestForwardedForNeverEvadesALimit(t *testing.T) {
	handles := 0
	attempt := func(b *browser, name, value string) int {
		handles++
		return b.api("POST", "/api/auth/login", map[string]string{"handle": fmt.Sprint("nobody", handles), "password": "wrong password"}, name, value).StatusCode
	}
	s := startService(t, serviceOptions{Limits: true})
	b := s.browser()
	names := []string{"X-Forwarded-For", "X-Real-IP", "Forwarded", "True-Client-IP", "CF-Connecting-IP", "X-Client-IP", "X_Forwarded_For"}
	for i := range 10 {
		if got := attempt(b, names[i%len(names)], fmt.Sprintf("198.51.100.%d", i)); got != http.StatusUnauthorized {
			t.Fatalf("attempt %d: %d", i, got)
		}
	}
	if got := attempt(b, "X-Forwarded-For", "198.51.100.77"); got != http.StatusTooManyRequests {
		t.Errorf("the 11th attempt from an untrusted peer: %d", got)
	}
	s = startService(t, serviceOptions{Limits: true, Settings: func(c *config.Settings) { c.TrustedProxies = []string{"127.0.0.1", "::1", "10.0.0.0/8"} }})
	b = s.browser()
	// A proxy may write the port of the client, too: it is another one each time.
	for name, spell := range map[string]func(i int) string{
		"203.0.113.9":       func(i int) string { return fmt.Sprintf("198.51.100.%d, 203.0.113.9", i) },
		"203.0.113.20":      func(i int) string { return fmt.Sprintf("198.51.100.%d, 203.0.113.20:%d, 10.0.0.7:443", i, 5000+i) },
		"2001:db8:0:1::1":   func(i int) string { return fmt.Sprintf("198.51.100.%d, [2001:db8:0:1::%d]:443", i, i) },
		"2001:db8:0:2::/64": func(i int) string { return fmt.Sprintf("[2001:db8:9:%d::1]:1, [2001:db8:0:2::1]", i) },
	} {
		for i := range 10 {
			if got := attempt(b, "X-Forwarded-For", spell(i)); got != http.StatusUnauthorized {
				t.Fatalf("%s, attempt %d: %d", name, i, got)
			}
		}
		if got := attempt(b, "X-Forwarded-For", spell(99)); got != http.StatusTooManyRequests {
			t.Errorf("%s, the 11th attempt behind a proxy: %d", name, got)
		}
	}
	if got := attempt(b, "X-Forwarded-For", "198.51.100.99, 203.0.113.10"); got != http.StatusUnauthorized {
		t.Errorf("another client behind the proxy: %d", got)
	}
}

// An origin that may call the API may not post the forms of the pages: not even one of
// the same site, whose requests bring the cookie along.
func TestAllowedOriginsNeverPostForms(t *testing.T) {
	const neighbour = "http://localhost:3999" // of the same site as the service
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AllowedOrigins = []string{neighbour} }})
	s.addUser("ada")
	b := s.browser()
	b.signIn("ada")
	from := []string{"Origin", neighbour, "Sec-Fetch-Site", "same-site"}
	for _, path := range []string{"/account/profile", "/account/sessions/end-others", "/account/delete", "/logout/", "/login/"} {
		got := b.postForm(path, url.Values{"display_name": {"Mallory"}, "password": {password}, "handle": {"ada"}}, from...)
		if got.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	if got := b.api("PATCH", "/api/me", map[string]string{"display_name": "Ada of the neighbour"}, from...); got.StatusCode != http.StatusOK {
		t.Errorf("the API: %d %s", got.StatusCode, got.Text)
	}
	if me := b.api("GET", "/api/me", nil).JSON(t); me["display_name"] != "Ada of the neighbour" {
		t.Errorf("%v", me)
	}
}

func TestLimitOfAllRequestsNeverLetsMoreThrough(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.RateLimits = []string{"all=20/1m", "token=5/1m"} }})
	b := s.browser()
	for i := range 5 {
		if got := b.postForm("/oauth2/token", url.Values{"grant_type": {"x"}}); got.StatusCode != http.StatusBadRequest {
			t.Fatalf("token request %d: %d", i, got.StatusCode)
		}
	}
	got := b.postForm("/oauth2/token", url.Values{"grant_type": {"x"}})
	if got.StatusCode != http.StatusTooManyRequests || got.JSON(t)["error"] != "slow_down" || got.Header.Get("Retry-After") == "" {
		t.Errorf("token limit: %d %s", got.StatusCode, got.Text)
	}
	for range 14 {
		b.get("/login/")
	}
	got = b.do("GET", "/api/me", "", "")
	if got.StatusCode != http.StatusTooManyRequests || got.JSON(t)["code"] != "rate_limited" || got.Header.Get("Retry-After") == "" {
		t.Errorf("all: %d %s", got.StatusCode, got.Text)
	}
	if got := b.get("/healthz"); got.StatusCode != http.StatusOK {
		t.Errorf("health check: %d", got.StatusCode)
	}
}

// Pitfall of the whole run: no password, code, token or cookie in the log.
func TestLogNeverHoldsASecret(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", "admin")
	s.addUser("bob")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	answer := b.authorize(rp.authURL(), "ada")
	invite := b.api("POST", "/api/invites", map[string]string{}).JSON(t)["code"].(string)
	reset := b.api("POST", "/api/admin/users/bob/reset-password-code", nil).JSON(t)["code"].(string)
	b.get("/register/?code=" + invite)
	b.get("/reset-password/?handle=bob&code=" + reset)
	fresh := "another long password 7"
	b.api("POST", "/api/auth/reset-password", map[string]string{"handle": "bob", "code": reset, "password": fresh})
	b.api("DELETE", "/api/invites/"+invite, nil)
	b.get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken)
	b.get("/oauth2/userinfo?access_token=" + token.AccessToken)
	b.postForm("/login/", url.Values{"handle": {"ada"}, "password": {"a wrong password"}})
	idToken, _ := token.Extra("id_token").(string)
	log := s.log.String()
	for name, value := range map[string]string{
		"password": password, "wrong password": "a wrong password", "new password": fresh, "client secret": secret, "access token": token.AccessToken,
		"refresh token": token.RefreshToken, "ID token": idToken, "code": answer.Get("code"), "cookie": b.cookie("cairn_session"), "invite": invite,
		"invite without dashes": strings.ReplaceAll(invite, "-", ""), "reset code": reset, "verifier": rp.verifier, "shared secret": string(s.secret), "nonce": rp.nonce, "state": rp.state,
	} {
		if value == "" || strings.Contains(log, value) || strings.Contains(log, url.QueryEscape(value)) {
			t.Errorf("the log holds the %s (or the test had none)", name)
		}
	}
	lines := 0
	for line := range strings.Lines(log) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if entry["msg"] == "request" {
			lines++
			for _, field := range []string{"request_id", "method", "path", "status", "ms", "address"} {
				if entry[field] == nil {
					t.Errorf("a log line has no %s: %s", field, line)
				}
			}
		}
	}
	if lines < 15 || !strings.Contains(log, `"event":"login_failed"`) {
		t.Errorf("%d request lines in the log", lines)
	}
}

func TestMetadataIsCompressedAndAnswersWithSecretsNeverAre(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	b := s.browser()
	b.signIn("ada")
	for path, want := range map[string]string{
		"/.well-known/openid-configuration": "gzip", "/.well-known/jwks.json": "gzip", "/schemas/activity-1.0.json": "gzip", "/account/": "", "/api/me": "", "/login/": "",
	} {
		if got := b.get(path, "Accept-Encoding", "gzip"); got.Header.Get("Content-Encoding") != want {
			t.Errorf("%s: Content-Encoding %q, want %q", path, got.Header.Get("Content-Encoding"), want)
		}
	}
}

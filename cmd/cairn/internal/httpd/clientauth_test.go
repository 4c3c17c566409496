package httpd

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

func TestClientNeverGetsInWithoutItsSecret(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	other := s.addClient("other", nil)
	s.addClient("strict", func(c *provider.Client) { c.AuthMethod = provider.AuthBasic })
	rp := s.relyingParty("app", secret)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	basic := func(id, secret string) []string {
		return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))}
	}
	with := func(pairs ...string) url.Values {
		f := rp.codeForm(code)
		for i := 0; i+1 < len(pairs); i += 2 {
			f.Add(pairs[i], pairs[i+1])
		}
		return f
	}
	for name, c := range map[string]struct {
		form   url.Values
		header []string
	}{
		"nothing":                 {with(), nil},
		"id alone":                {with("client_id", "app"), nil},
		"blank secret":            {with("client_id", "app", "client_secret", ""), nil},
		"wrong secret":            {with("client_id", "app", "client_secret", "x"), nil},
		"truncated":               {with("client_id", "app", "client_secret", secret[:len(secret)-1]), nil},
		"other case":              {with("client_id", "app", "client_secret", strings.ToUpper(secret)), nil},
		"NUL at the end":          {with("client_id", "app", "client_secret", secret+"\x00"), nil},
		"basic blank":             {with(), basic("app", "")},
		"basic wrong":             {with(), basic("app", "x")},
		"another client's basic":  {with("client_id", "app"), basic("other", other)},
		"two methods":             {with("client_id", "app", "client_secret", secret), basic("app", secret)},
		"unknown client":          {with(), basic("nobody", secret)},
		"bearer":                  {with("client_id", "app"), []string{"Authorization", "Bearer " + secret}},
		"bad escape":              {with(), basic("app", "100%zz")},
		"assertion":               {with("client_id", "app", "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion", "a.b.c"), nil},
		"post at a strict client": {with("client_id", "strict", "client_secret", "secret-of-strict-0123456789abcdefghij"), nil},
	} {
		got := s.browser().do(http.MethodPost, "/oauth2/token", "application/x-www-form-urlencoded", c.form.Encode(), c.header...)
		wantOAuthError(t, name, got, http.StatusUnauthorized, "invalid_client")
		if !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: WWW-Authenticate %q", name, got.Header.Get("WWW-Authenticate"))
		}
	}
	form := with()
	got := s.browser().do(http.MethodPost, "/oauth2/token?client_id=app&client_secret="+secret, "application/x-www-form-urlencoded", form.Encode())
	if got.StatusCode < 400 || got.StatusCode > 499 {
		t.Errorf("secret in the URL: %d", got.StatusCode)
	}
	// After all that the honest client still gets its tokens, by post as by basic.
	got = s.browser().do(http.MethodPost, "/oauth2/token", "application/x-www-form-urlencoded", with("client_id", "app", "client_secret", secret).Encode())
	if got.StatusCode != http.StatusOK {
		t.Errorf("client_secret_post: %d %s", got.StatusCode, got.Text)
	}
}

func TestTokenEndpointNeverAnswersOtherRequests(t *testing.T) {
	s := startService(t, serviceOptions{})
	secret := s.addClient("app", nil)
	auth := "Basic " + base64.StdEncoding.EncodeToString([]byte("app:"+secret))
	b := s.browser()
	for _, grant := range []string{"password", "implicit", "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:grant-type:jwt-bearer", "authorization_code refresh_token", "AUTHORIZATION_CODE"} {
		got := b.do("POST", "/oauth2/token", "application/x-www-form-urlencoded", url.Values{"grant_type": {grant}, "username": {"ada"}, "password": {password}}.Encode(), "Authorization", auth)
		wantOAuthError(t, grant, got, http.StatusBadRequest, "unsupported_grant_type")
	}
	for name, c := range map[string]struct{ method, kind, body string }{
		"GET":        {"GET", "", ""},
		"PUT":        {"PUT", "application/x-www-form-urlencoded", "grant_type=authorization_code"},
		"JSON":       {"POST", "application/json", `{"grant_type":"authorization_code"}`},
		"multipart":  {"POST", "multipart/form-data; boundary=x", "--x--"},
		"no type":    {"POST", "", "grant_type=authorization_code"},
		"empty":      {"POST", "application/x-www-form-urlencoded", ""},
		"duplicates": {"POST", "application/x-www-form-urlencoded", "grant_type=authorization_code&code=a&code=b"},
		"two grants": {"POST", "application/x-www-form-urlencoded", "grant_type=authorization_code&grant_type=refresh_token&code=a"},
		"bad escape": {"POST", "application/x-www-form-urlencoded", "grant_type=%zz"},
		"too large":  {"POST", "application/x-www-form-urlencoded", "grant_type=authorization_code&code=" + strings.Repeat("a", 3<<20)},
	} {
		got := b.do(c.method, "/oauth2/token", c.kind, c.body, "Authorization", auth)
		if got.StatusCode < 400 || got.StatusCode > 499 || got.JSON(t)["error"] != "invalid_request" {
			t.Errorf("%s: %d %.100s", name, got.StatusCode, got.Text)
		}
	}
}

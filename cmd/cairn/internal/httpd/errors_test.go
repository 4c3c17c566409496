package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

// recorded is what a client sees of an error.
type recorded struct {
	Status          int            `json:"status"`
	Location        string         `json:"location,omitempty"`
	WWWAuthenticate string         `json:"www_authenticate,omitempty"`
	Body            map[string]any `json:"body,omitempty"`
	Page            string         `json:"page,omitempty"`
}

// Where nothing can be sent to the application, the page says what it left out.
func TestMissingRedirectURIIsNotCalledAnUnregisteredOne(t *testing.T) {
	s := startService(t, serviceOptions{})
	rp := s.relyingParty("app", s.addClient("app", nil))
	got := s.browser().get(rp.authURL("redirect_uri", ""))
	wantPage(t, "no redirect_uri", got, http.StatusBadRequest)
	if !strings.Contains(got.Text, "redirect_uri is missing") || strings.Contains(got.Text, "not registered") {
		t.Errorf("the page says: %s", got.Text)
	}
}

// Every error of the OAuth endpoints, byte by byte: clients and people's
// scripts rely on names, statuses and descriptions.
func TestErrorBodiesAndRedirectsNeverChangeUnnoticed(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	s.addClient("flagged", func(c *provider.Client) { c.RequireFlag = "activity" })
	s.addClient("public", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	stranger := s.browser()
	out := map[string]recorded{}
	record := func(name string, got response) {
		r := recorded{Status: got.StatusCode, Location: strings.ReplaceAll(got.Header.Get("Location"), s.URL, "https://issuer"), WWWAuthenticate: got.Header.Get("WWW-Authenticate")}
		if enc := url.QueryEscape(s.URL); enc != "" {
			r.Location = strings.ReplaceAll(r.Location, enc, "https%3A%2F%2Fissuer")
		}
		switch kind := got.Header.Get("Content-Type"); {
		case strings.HasPrefix(kind, "application/json"), strings.HasPrefix(kind, "application/problem+json"):
			r.Body = got.JSON(t)
			delete(r.Body, "request_id")
		case strings.HasPrefix(kind, "text/html"):
			r.Page = pageName(t, got.Text)
		}
		out[name] = r
	}
	for name, change := range map[string][]string{
		"request": {"request", "x"}, "request_uri": {"request_uri", "https://x.example/"}, "registration": {"registration", "{}"}, "response_type": {"response_type", "token"},
		"response_type missing": {"response_type", ""}, "response_mode": {"response_mode", "fragment"}, "prompt": {"prompt", "x"}, "max_age": {"max_age", "x"}, "claims": {"claims", "["},
		"code_challenge": {"code_challenge", "x"}, "client": {"client_id", "x"}, "redirect_uri": {"redirect_uri", "https://evil.example/"}, "without state": {"state", "", "prompt", "x"},
		"flag": {"client_id", "flagged", "redirect_uri", callbackOf("flagged")},
	} {
		record("authorize "+name, b.get(rp.authURL(change...)))
	}
	record("authorize login_required", stranger.get(rp.authURL("prompt", "none")))
	record("authorize consent_required", b.get(rp.authURL("prompt", "none", "client_id", "public", "redirect_uri", callbackOf("public"))))
	form := func(pairs ...string) url.Values {
		v := url.Values{}
		for i := 0; i+1 < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	for name, f := range map[string]url.Values{
		"no grant": form("code", "x"), "unknown grant": form("grant_type", "password"), "code": form("grant_type", "authorization_code", "code", "x.y", "redirect_uri", callbackOf("app")),
		"refresh": form("grant_type", "refresh_token", "refresh_token", "x.y"), "client_credentials": form("grant_type", "client_credentials"),
		"wider scope": form("grant_type", "refresh_token", "refresh_token", token.RefreshToken, "scope", "openid admin"),
	} {
		record("token "+name, s.tokenRequest("app", secret, f))
	}
	record("token client", s.tokenRequest("app", "wrong", form("grant_type", "refresh_token", "refresh_token", "x.y")))
	record("token method", stranger.do(http.MethodGet, "/oauth2/token", "", ""))
	record("userinfo without a token", stranger.do(http.MethodGet, "/oauth2/userinfo", "", ""))
	record("userinfo wrong token", stranger.do(http.MethodGet, "/oauth2/userinfo", "", "", "Authorization", "Bearer x.y"))
	record("userinfo token in the URL", stranger.do(http.MethodGet, "/oauth2/userinfo?access_token=x.y", "", ""))
	_, plain := s.signedInTokens(s.relyingParty("app", secret, "profile"), "ada")
	record("userinfo scope", stranger.do(http.MethodGet, "/oauth2/userinfo", "", "", "Authorization", "Bearer "+plain.AccessToken))
	for _, path := range []string{"/oauth2/revoke", "/oauth2/introspect", "/oauth2/par"} {
		record(path+" without a client", stranger.do(http.MethodPost, path, "application/x-www-form-urlencoded", "token=x.y"))
		record(path+" method", stranger.do(http.MethodGet, path, "", ""))
	}
	record("logout too long", stranger.get("/oauth2/logout?state="+strings.Repeat("x", 13<<10)))
	record("logout bad hint", b.get("/oauth2/logout?id_token_hint=a.b.c&post_logout_redirect_uri=https://evil.example/"))
	golden(t, "errors.json", indent(t, out))
}

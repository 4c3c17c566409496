package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

// An issuer with a path: the whole way stays under it, and nothing answers
// beside it.
func TestIssuerWithAPathNeverLeavesIt(t *testing.T) {
	s := startService(t, serviceOptions{BasePath: "/id"})
	u := s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret) // go-oidc insists on the issuer of the document
	b := s.browser()
	got := b.get(rp.authURL())
	for range 6 {
		next := got.Header.Get("Location")
		if got.StatusCode != http.StatusSeeOther {
			f := pageForm(t, got.Text)
			if !strings.HasPrefix(f.action, "/id/") {
				t.Errorf("page %s posts to %s", pageName(t, got.Text), f.action)
			}
			for _, mark := range []string{`href="/`, `src="/`, `action="/`} {
				for rest := got.Text; ; {
					_, after, found := strings.Cut(rest, mark)
					if !found {
						break
					}
					if rest = after; !strings.HasPrefix(after, "id/") {
						t.Errorf("page %s has %s%.40s", pageName(t, got.Text), mark, after)
					}
				}
			}
			f.values.Set("handle", "ada")
			f.values.Set("password", password)
			f.values.Set("decision", "allow")
			got = b.postForm(f.action, f.values)
			continue
		}
		if strings.HasPrefix(next, callbackOf("app")) {
			break
		}
		if !strings.HasPrefix(next, "/id/") {
			t.Fatalf("%s leads to %s", got.Request.URL.Path, next)
		}
		got = b.get(next)
	}
	_, answer := answerOf(t, got)
	if answer.Get("iss") != s.URL || !strings.HasSuffix(s.URL, "/id") {
		t.Errorf("iss %q", answer.Get("iss"))
	}
	token, err := rp.exchange(answer.Get("code"))
	if err != nil {
		t.Fatal(err)
	}
	if id := rp.idToken(token); id.Subject != u.Sub || id.Issuer != s.URL {
		t.Errorf("ID token of %s for %s", id.Issuer, id.Subject)
	}
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusOK {
		t.Errorf("userinfo: %d", got)
	}
	if got := s.refreshRequest("app", secret, token.RefreshToken); got.StatusCode != http.StatusOK {
		t.Errorf("refresh: %d", got.StatusCode)
	}
	if _, answer := answerOf(t, b.get(rp.authURL("prompt", "none"))); answer.Get("code") == "" {
		t.Errorf("silently: %v", answer)
	}
	posted, _ := url.Parse(rp.authURL("response_mode", "form_post"))
	if target, answer := answerOf(t, b.follow(s.browser().postForm("/oauth2/authorize", posted.Query(), "Sec-Fetch-Site", "cross-site"), "ada")); target != callbackOf("app") || answer.Get("code") == "" {
		t.Errorf("POST from another site: %s %v", target, answer)
	}
	f := pageForm(t, consentPageOf(b, rp.authURL("prompt", "consent")).Text)
	f.values.Set("decision", "deny")
	if _, answer := answerOf(t, b.get(b.postForm(f.action, f.values).Header.Get("Location"))); answer.Get("error") != "access_denied" {
		t.Errorf("denied: %v", answer)
	}
	if got := b.postForm(f.action, f.values, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); got.StatusCode != http.StatusForbidden {
		t.Errorf("foreign consent: %d", got.StatusCode)
	}
	root := strings.TrimSuffix(s.URL, "/id")
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/jwks.json", "/oauth2/authorize", "/oauth2/token", "/oauth2/userinfo", "/login/", "/ID/.well-known/jwks.json", "/idx/login/", "/id/id/login/"} {
		if got := b.get(root + path); got.StatusCode != http.StatusNotFound || got.Header.Get("Location") != "" {
			t.Errorf("%s answers beside the issuer's path: %d", path, got.StatusCode)
		}
	}
}

// Without a key the endpoints are off, all of them, and say how to turn them on.
func TestProviderWithoutAKeyNeverHalfWorks(t *testing.T) {
	s := startService(t, serviceOptions{HS256: true})
	s.addUser("ada")
	s.addClient("app", func(c *provider.Client) { c.Trusted = true })
	b := s.browser()
	b.signIn("ada")
	query := "?" + url.Values{"client_id": {"app"}, "redirect_uri": {callbackOf("app")}, "response_type": {"code"}, "scope": {"openid"}}.Encode()
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/jwks.json", "/oauth2/authorize" + query, "/oauth2/consent", "/oauth2/token", "/oauth2/userinfo"} {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			got := b.do(method, path, "", "")
			if got.StatusCode != http.StatusNotFound || got.Header.Get("Location") != "" || method == "GET" && (got.JSON(t)["code"] != "oidc_disabled" || !strings.Contains(got.Text, "SERVICE_OIDC_PRIVATE_KEY_FILE")) {
				t.Errorf("%s %s: %d %.200s", method, path, got.StatusCode, got.Text)
			}
		}
	}
}

package httpd

import (
	"encoding/base64"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// What the golden file has and no more, and every address in it answers; nothing of it is
// kept from a conditional request, and the keys are public and strong (security.md 1 to 4).
func TestDiscoveryAndKeys(t *testing.T) {
	other := t.TempDir() + "/other.pem"
	if _, err := config.GenerateKey(other, 2048); err != nil {
		t.Fatal(err)
	}
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AdditionalKeyFiles = []string{other} }})
	b := s.browser()
	meta := b.get("/.well-known/openid-configuration").JSON(t)
	golden(t, "discovery.json", strings.ReplaceAll(indent(t, meta), s.URL, "https://issuer"))
	for name, v := range meta {
		if strings.HasSuffix(name, "_endpoint") || strings.HasSuffix(name, "_uri") {
			if got := b.get(v.(string)); got.StatusCode == http.StatusNotFound {
				t.Errorf("%s is not there", name)
			}
		}
	}
	kids := map[any]bool{}
	for _, k := range b.get("/.well-known/jwks.json").JSON(t)["keys"].([]any) {
		key := k.(map[string]any)
		sameList(t, "members of the key", keysOf(key), []string{"alg", "e", "kid", "kty", "n", "use"})
		n, err := base64.RawURLEncoding.DecodeString(key["n"].(string))
		if err != nil || new(big.Int).SetBytes(n).BitLen() < 2048 || key["kty"] != "RSA" || key["alg"] != "RS256" ||
			key["use"] != "sig" || key["e"] != "AQAB" || key["kid"] == "" {
			t.Errorf("key %v", key)
		}
		kids[key["kid"]] = true
	}
	if len(kids) != 2 {
		t.Errorf("kids %v", kids)
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/jwks.json"} {
		got := b.get(path)
		if got.Header.Get("Set-Cookie") != "" || got.Header.Get("ETag") == "" {
			t.Errorf("%s: headers %v", path, got.Header)
		}
		if again := b.get(path, "If-None-Match", got.Header.Get("ETag")); again.StatusCode != http.StatusNotModified || again.Text != "" {
			t.Errorf("%s: conditional request: %d %q", path, again.StatusCode, again.Text)
		}
	}
}

// An issuer with a path: the whole way stays under it, and nothing answers beside it.
func TestIssuerWithAPath(t *testing.T) {
	s := startService(t, serviceOptions{BasePath: "/id"})
	u := s.addUser("ada")
	rp := s.app("app", nil) // go-oidc insists on the issuer of the document
	b := s.browser()
	outside := regexp.MustCompile(`(href|src|action)="/([^i]|i[^d]|id[^/])`)
	var answer url.Values
	for got := b.get(rp.authURL()); answer == nil; {
		if next := got.Header.Get("Location"); strings.HasPrefix(next, callbackOf("app")) {
			answer = answered(t, got)
		} else if got.StatusCode == http.StatusSeeOther && strings.HasPrefix(next, "/id/") {
			got = b.get(next)
		} else if f := pageForm(t, got.Text); got.StatusCode != http.StatusOK || outside.MatchString(got.Text) {
			t.Fatalf("%s: %d to %q, %v", got.Request.URL.Path, got.StatusCode, next, outside.FindAllString(got.Text, -1))
		} else {
			f.values.Set("handle", "ada")
			f.values.Set("password", password)
			f.values.Set("decision", "allow")
			got = b.postForm(f.action, f.values)
		}
	}
	token, err := rp.exchange(answer.Get("code"))
	noError(t, err)
	if id := rp.idToken(token); id.Subject != u.Sub || id.Issuer != s.URL || answer.Get("iss") != s.URL || !strings.HasSuffix(s.URL, "/id") {
		t.Errorf("ID token of %s for %s, iss %q", id.Issuer, id.Subject, answer.Get("iss"))
	}
	s.wantUserinfo("", token.AccessToken, http.StatusOK)
	wantStatus(t, "refresh", rp.refresh(token.RefreshToken), http.StatusOK)
	wantAnswer(t, "silently", answered(t, b.get(rp.authURL("prompt", "none"))), "code")
	posted, _ := url.Parse(rp.authURL("response_mode", "form_post"))
	wantAnswer(t, "POST from another site", answered(t, b.follow(s.browser().postForm("/oauth2/authorize", posted.Query(), "Sec-Fetch-Site", "cross-site"), "ada")), "code")
	page := b.consentPage(rp.authURL("prompt", "consent"))
	wantAnswer(t, "denied", answered(t, b.get(b.decide(page, "deny"))), "access_denied")
	f := pageForm(t, page.Text)
	wantStatus(t, "foreign consent", b.postForm(f.action, f.values, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), http.StatusForbidden)
	root := strings.TrimSuffix(s.URL, "/id")
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/jwks.json", "/oauth2/authorize", "/oauth2/token", "/oauth2/userinfo", "/login/", "/ID/.well-known/jwks.json", "/idx/login/", "/id/id/login/"} {
		if got := b.get(root + path); got.StatusCode != http.StatusNotFound || got.Header.Get("Location") != "" {
			t.Errorf("%s answers beside the issuer's path: %d", path, got.StatusCode)
		}
	}
}

// Without a key the endpoints are off, all of them, and say how to turn them on.
func TestProviderWithoutAKeyIsOff(t *testing.T) {
	s := startService(t, serviceOptions{HS256: true}, "ada")
	s.addClient("app", func(c *provider.Client) { c.Trusted = true })
	b := s.signedIn("ada")
	query := "?" + url.Values{"client_id": {"app"}, "redirect_uri": {callbackOf("app")}, "response_type": {"code"}, "scope": {"openid"}}.Encode()
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/jwks.json", "/oauth2/authorize" + query, "/oauth2/consent", "/oauth2/token", "/oauth2/userinfo"} {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			got := b.do(method, path, "", "")
			if got.StatusCode != http.StatusNotFound || got.Header.Get("Location") != "" || method == "GET" &&
				(got.JSON(t)["code"] != "oidc_disabled" ||
					!strings.Contains(got.Text, "SERVICE_OIDC_PRIVATE_KEY_FILE")) {
				t.Errorf("%s %s: %d %.200s", method, path, got.StatusCode, got.Text)
			}
		}
	}
}

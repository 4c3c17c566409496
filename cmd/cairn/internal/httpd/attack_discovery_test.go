package httpd

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
)

// rawRequest sends a request as written and returns what comes back.
func rawRequest(t *testing.T, base, text string) string {
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
	fmt.Fprint(c, text)
	var b strings.Builder
	if _, err := bufio.NewReader(c).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Attack 1.
func TestDiscoveryNeverOffersAWeakOption(t *testing.T) {
	s := startService(t, serviceOptions{})
	meta := s.browser().get("/.well-known/openid-configuration").JSON(t)
	for name, want := range map[string]any{
		"response_types_supported":         []any{"code"},
		"code_challenge_methods_supported": []any{"S256"}, "id_token_signing_alg_values_supported": []any{"RS256"},
		"request_parameter_supported": false, "request_uri_parameter_supported": false, "authorization_response_iss_parameter_supported": true,
	} {
		if fmt.Sprint(meta[name]) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, meta[name], want)
		}
	}
	for _, grant := range meta["grant_types_supported"].([]any) {
		if !slices.Contains([]any{"authorization_code", "refresh_token", "client_credentials"}, grant) {
			t.Errorf("grant type %v", grant)
		}
	}
	for name, v := range meta {
		if text := fmt.Sprint(v); strings.HasSuffix(name, "_supported") && name != "token_endpoint_auth_methods_supported" && name != "revocation_endpoint_auth_methods_supported" && name != "prompt_values_supported" && strings.Contains(text, "none") {
			t.Errorf("%s: %v", name, v)
		}
		if strings.HasSuffix(name, "_endpoint") || strings.HasSuffix(name, "_uri") {
			path, ok := strings.CutPrefix(v.(string), s.URL)
			if !ok {
				t.Errorf("%s is elsewhere: %v", name, v)
			}
			if got := s.browser().get(path); got.StatusCode == http.StatusNotFound {
				t.Errorf("%s is not there", name)
			}
		}
	}
}

// Attack 2, also while a second key is published for a rotation.
func TestKeySetNeverHoldsAPrivateOrWeakKey(t *testing.T) {
	other := t.TempDir() + "/other.pem"
	if _, err := config.GenerateKey(other, 2048); err != nil {
		t.Fatal(err)
	}
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AdditionalKeyFiles = []string{other} }})
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal([]byte(s.browser().get("/.well-known/jwks.json").Text), &set); err != nil {
		t.Fatal(err)
	}
	kids := []string{}
	for _, k := range set.Keys {
		n, err := base64.RawURLEncoding.DecodeString(k["n"])
		if err != nil || new(big.Int).SetBytes(n).BitLen() < 2048 || k["kty"] != "RSA" || k["alg"] != "RS256" || k["use"] != "sig" || k["e"] != "AQAB" {
			t.Errorf("key %v", k)
		}
		for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "k", "oth"} {
			if _, there := k[private]; there {
				t.Errorf("the key set holds %s", private)
			}
		}
		kids = append(kids, k["kid"])
	}
	slices.Sort(kids)
	if len(kids) != 2 || len(slices.Compact(kids)) != 2 || kids[0] == "" {
		t.Errorf("kids %q", kids)
	}
}

// Attacks 3 and 4, with and without a trusted proxy in front.
func TestSpoofedHostNeverReachesAnAnswer(t *testing.T) {
	for name, proxies := range map[string][]string{"no proxy": nil, "proxy": {"127.0.0.1", "::1"}} {
		s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.TrustedProxies = proxies }})
		s.addUser("ada")
		rp := s.relyingParty("app", s.addClient("app", nil))
		query := strings.TrimPrefix(rp.authURL(), s.URL)
		for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/jwks.json", query, "/oauth2/userinfo", "/login/", "/"} {
			got := rawRequest(t, s.URL, "GET "+path+" HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Server: evil.example\r\nX-Forwarded-Proto: https\r\n"+
				"X-Forwarded-Prefix: /evil.example\r\nForwarded: host=evil.example;proto=https\r\nX-Original-URL: /evil.example\r\nX-Rewrite-URL: /evil.example\r\nConnection: close\r\n\r\n")
			if strings.Contains(got, "evil.example") || !strings.HasPrefix(got, "HTTP/1.1 ") {
				t.Errorf("%s: %.40s: %.300s", name, path, got)
			}
			if strings.HasPrefix(path, "/.well-known/") && (strings.Contains(got, "Set-Cookie") || strings.Contains(got, "Allow-Credentials") || !strings.HasPrefix(got, "HTTP/1.1 200")) {
				t.Errorf("%s: %s: %.300s", name, path, got)
			}
		}
	}
}

// Attack 18: nothing that a request names is ever fetched.
func TestRequestNeverMakesTheServiceFetchAnAddress(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var hits atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			_ = c.Close()
		}
	}()
	target := "http://" + l.Addr().String() + "/x"
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"redirect_uri":"https://evil.example","scope":"openid"}`)) + "."
	b := s.browser()
	b.signIn("ada")
	for _, c := range []struct{ name, value, want string }{
		{"request_uri", target, "request_uri_not_supported"}, {"request_uri", "", "request_uri_not_supported"},
		{"request", unsigned, "request_not_supported"}, {"request", "", "request_not_supported"},
		{"registration", `{"jwks_uri":"` + target + `"}`, "registration_not_supported"},
		{"jwks_uri", target, ""}, {"sector_identifier_uri", target, ""}, {"client_metadata_uri", target, ""}, {"logo_uri", target, ""}, {"claims", `{"userinfo":{"name":null}}`, ""},
	} {
		target, got := answerOf(t, b.follow(b.get(rp.authURL()+"&"+c.name+"="+url.QueryEscape(c.value)), "ada"))
		if target != callbackOf("app") || got.Get("error") != c.want || (got.Get("code") == "") != (c.want != "") {
			t.Errorf("%s=%.20s: %s %v", c.name, c.value, target, got)
		}
	}
	form := rp.codeForm("x")
	form.Set("client_id", target)
	form.Set("jwks_uri", target)
	wantOAuthError(t, "client_id that is an address", s.tokenRequest("", "", form), http.StatusUnauthorized, "invalid_client")
	wantPage(t, "client_id that is an address", b.get(rp.authURL("client_id", target)), http.StatusBadRequest)
	if hits.Load() != 0 {
		t.Errorf("%d outgoing connections", hits.Load())
	}
}

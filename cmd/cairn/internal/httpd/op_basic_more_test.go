package httpd

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/config"
)

func TestOP_oidcc_ensure_request_with_unknown_parameter_succeeds(t *testing.T) {
	bothPlans(t, func(p *plan) { p.tokens(p.rp, p.authorize(p.rp, "extra", "foobar")) })
}

func TestOP_oidcc_id_token_hint(t *testing.T) {
	bothPlans(t, func(p *plan) {
		token, first := p.tokens(p.rp, p.authorize(p.rp))
		hint, _ := token.Extra("id_token").(string)
		answer := p.answer(p.rp, p.browser.get(p.url(p.rp, "prompt", "none", "id_token_hint", hint)))
		if _, second := p.tokens(p.rp, answer.Get("code")); second["sub"] != first["sub"] {
			t.Errorf("sub %v, then %v", first["sub"], second["sub"])
		}
	})
}

func TestOP_oidcc_login_hint(t *testing.T) {
	bothPlans(t, func(p *plan) { p.tokens(p.rp, p.authorize(p.rp, "login_hint", "buffy@host")) })
}

func TestOP_oidcc_ui_locales(t *testing.T) {
	bothPlans(t, func(p *plan) { p.tokens(p.rp, p.authorize(p.rp, "ui_locales", "se")) })
}

func TestOP_oidcc_claims_locales(t *testing.T) {
	bothPlans(t, func(p *plan) { p.tokens(p.rp, p.authorize(p.rp, "claims_locales", "se")) })
}

func TestOP_oidcc_ensure_request_with_acr_values_succeeds(t *testing.T) {
	bothPlans(t, func(p *plan) {
		var values []string
		supported, _ := p.browser.get("/.well-known/openid-configuration").JSON(t)["acr_values_supported"].([]any)
		for _, v := range supported {
			values = append(values, v.(string))
		}
		_, claims := p.tokens(p.rp, p.authorize(p.rp, "acr_values", strings.Join(values, " ")))
		if acr, _ := claims["acr"].(string); !slices.Contains(values, acr) {
			t.Errorf("acr %q of %v", acr, values)
		}
	})
}

// again spends a code that was spent.
func (p *plan) again(code string) {
	p.t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.rp.config.RedirectURL}}
	wantOAuthError(p.t, "the code again", p.tokenRequest("first", p.rp.config.ClientSecret, form), http.StatusBadRequest, "invalid_grant")
}

func TestOP_oidcc_codereuse(t *testing.T) {
	bothPlans(t, func(p *plan) {
		code := p.authorize(p.rp)
		p.tokens(p.rp, code)
		p.again(code)
	})
}

func TestOP_oidcc_codereuse_30seconds(t *testing.T) {
	bothPlans(t, func(p *plan) {
		code := p.authorize(p.rp)
		token, _ := p.tokens(p.rp, code)
		p.wait(31 * time.Second)
		p.again(code)
		if got := p.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("the access token afterwards: %d", got)
		}
	})
}

func TestOP_oidcc_ensure_post_request_succeeds(t *testing.T) {
	bothPlans(t, func(p *plan) {
		u, err := url.Parse(p.url(p.rp))
		if err != nil {
			t.Fatal(err)
		}
		// From a page of the client: through sign-in and consent, and when signed in.
		for range 2 {
			got := p.browser.postForm("/oauth2/authorize", u.Query(), "Origin", "https://first.example.org", "Sec-Fetch-Site", "cross-site")
			p.tokens(p.rp, p.codeOf(p.rp, got))
		}
	})
}

func TestOP_oidcc_server_client_secret_post(t *testing.T) {
	bothPlans(t, func(p *plan) { p.tokens(p.second, p.authorize(p.second)) })
}

// unsignedRequest is a request object without a signature.
func unsignedRequest(t *testing.T, claims map[string]any) string {
	t.Helper()
	b, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(b) + "."
}

func TestOP_oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported(t *testing.T) {
	bothPlans(t, func(p *plan) {
		object := unsignedRequest(t, map[string]any{
			"response_type": "code", "client_id": "first", "scope": "openid", "redirect_uri": p.rp.config.RedirectURL, "state": p.rp.state, "nonce": p.rp.nonce, "response_mode": p.mode,
		})
		p.rp.state = "" // is inside only, as the rest
		if e := p.refusal(p.rp, "state", "", "nonce", "", "response_mode", "", "request", object); e != "request_not_supported" {
			t.Errorf("error %s", e)
		}
	})
}

// What the object says of the way counts where nothing else does, and never for
// an address that the query does not prove.
func TestRefusedRequestObjectIsAnsweredInItsOwnResponseMode(t *testing.T) {
	s := startService(t, serviceOptions{})
	rp := s.relyingParty("app", s.addClient("app", nil))
	posted := unsignedRequest(t, map[string]any{"response_mode": "form_post", "redirect_uri": "https://evil.example/"})
	for name, c := range map[string]struct {
		change []string
		way    string // what the answer begins with, empty: a form
	}{
		"form_post":            {[]string{"request", posted}, ""},
		"query":                {[]string{"request", unsignedRequest(t, map[string]any{"response_mode": "query"})}, "?"},
		"fragment":             {[]string{"request", unsignedRequest(t, map[string]any{"response_mode": "fragment"})}, "#"},
		"none":                 {[]string{"request", unsignedRequest(t, map[string]any{})}, "?"},
		"unknown":              {[]string{"request", unsignedRequest(t, map[string]any{"response_mode": "web_message"})}, "?"},
		"not a string":         {[]string{"request", unsignedRequest(t, map[string]any{"response_mode": []string{"form_post"}})}, "?"},
		"not an object":        {[]string{"request", "a.b.c"}, "?"},
		"the parameter counts": {[]string{"request", posted, "response_mode", "query"}, "?"},
		"an address":           {[]string{"request_uri", "https://app.example.org/" + posted}, "?"},
	} {
		got := s.browser().get(rp.authURL(c.change...))
		want := callbackOf("app") + c.way + "error=request_not_supported&"
		if name == "an address" {
			want = callbackOf("app") + "?error=request_uri_not_supported&"
		}
		if c.way != "" && !strings.HasPrefix(got.Header.Get("Location"), want) {
			t.Errorf("%s: %d to %s, want %s", name, got.StatusCode, got.Header.Get("Location"), want)
		}
		if c.way == "" {
			if target, answer := answerOf(t, got); got.StatusCode != http.StatusOK || target != callbackOf("app") || answer.Get("error") != "request_not_supported" || answer.Get("state") != rp.state {
				t.Errorf("%s: %d to %s: %v", name, got.StatusCode, target, answer)
			}
		}
	}
	wantPage(t, "an address that is not the client's", s.browser().get(rp.authURL("request", posted, "redirect_uri", "https://evil.example/")), http.StatusBadRequest)
}

func TestOP_oidcc_ensure_request_object_with_redirect_uri(t *testing.T) {
	bothPlans(t, func(p *plan) {
		object := unsignedRequest(t, map[string]any{"redirect_uri": p.rp.config.RedirectURL})
		wantPage(t, "outer redirect_uri is wrong", p.browser.get(p.url(p.rp, "redirect_uri", callbackOf("first")+"/x7Gq", "request", object)), http.StatusBadRequest)
	})
}

func TestOP_oidcc_claims_essential(t *testing.T) {
	bothPlans(t, func(p *plan) {
		token, id := p.tokens(p.rp, p.authorize(p.rp, "claims", `{"userinfo":{"name":{"essential":true}}}`))
		if info := p.userinfo(token); info["name"] != "Buffy Summers" || id["name"] != nil {
			t.Errorf("userinfo %v, ID token %v", info, id)
		}
	})
}

func TestOP_oidcc_refresh_token(t *testing.T) {
	bothPlans(t, func(p *plan) {
		meta := p.browser.get("/.well-known/openid-configuration").JSON(t)
		if grants, _ := meta["grant_types_supported"].([]any); !slices.Contains(grants, any("refresh_token")) {
			t.Errorf("grant_types_supported %v", grants)
		}
		refresh := map[*relyingParty]string{}
		for _, rp := range []*relyingParty{p.rp, p.second} {
			token, first := p.tokens(rp, p.authorize(rp, "scope", "openid offline_access", "prompt", "consent"))
			p.wantEntropy("refresh token", token.RefreshToken)
			p.wait(time.Second)
			form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}}
			var got response
			if rp == p.rp {
				form.Set("scope", "openid offline_access")
				got = p.tokenRequest("first", rp.config.ClientSecret, form)
			} else {
				form.Set("client_id", "second")
				form.Set("client_secret", rp.config.ClientSecret)
				got = p.clientPost("token", "", "", form)
			}
			if got.StatusCode != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("refresh: %d %v %s", got.StatusCode, got.Header, got.Text)
			}
			answer := got.JSON(t)
			access, _ := answer["access_token"].(string)
			kind, _ := answer["token_type"].(string)
			next, _ := answer["refresh_token"].(string)
			again := (&oauth2.Token{AccessToken: access, TokenType: kind, RefreshToken: next}).WithExtra(answer)
			second := p.checkTokens(rp, again, "")
			for _, name := range []string{"iss", "sub", "aud", "auth_time", "azp"} {
				if first[name] != second[name] {
					t.Errorf("%s: %v, then %v", name, first[name], second[name])
				}
			}
			if first["iat"] == second["iat"] {
				t.Error("iat is that of the first ID token")
			}
			p.userinfo(again)
			p.wantEntropy("refresh token", next)
			refresh[rp] = next
		}
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh[p.second]}}
		wantOAuthError(t, "another client's refresh token", p.tokenRequest("first", p.rp.config.ClientSecret, form), http.StatusBadRequest, "invalid_grant")
	})
}

func TestOP_oidcc_ensure_request_with_valid_pkce_succeeds(t *testing.T) {
	bothPlans(t, func(p *plan) {
		got := p.browser.get(p.rp.authURL("response_mode", p.mode))
		token, err := p.rp.exchange(p.codeOf(p.rp, got))
		if err != nil {
			t.Fatal(err)
		}
		p.checkTokens(p.rp, token, p.rp.nonce)
	})
}

// Of the plan oidcc-test-plan with private_key_jwt.
func TestOP_oidcc_ensure_client_assertion_with_iss_aud_succeeds(t *testing.T) {
	bothPlans(t, func(p *plan) {
		p.wait(2 * time.Minute) // the assertion is of the real time
		c := p.addSigningClient("signer", nil)
		rp := p.relyingParty("signer", "", "openid")
		code := p.codeOf(rp, p.browser.get(rp.authURL("response_mode", p.mode)))
		got := p.clientPost("token", "", "", signed(rp.codeForm(code), c.assertion("aud", p.URL)))
		if got.StatusCode != http.StatusOK || got.JSON(t)["id_token"] == nil {
			t.Errorf("%d %s", got.StatusCode, got.Text)
		}
	})
}

// Of the plan oidcc-test-plan: the new key signs, the old one is still there.
func TestOP_oidcc_server_rotate_keys(t *testing.T) {
	s := startService(t, serviceOptions{})
	key := filepath.Join(t.TempDir(), "next.pem")
	if _, err := config.GenerateKey(key, 2048); err != nil {
		t.Fatal(err)
	}
	kids := func(s *service) (out []any) {
		for _, k := range s.browser().get("/.well-known/jwks.json").JSON(t)["keys"].([]any) {
			out = append(out, k.(map[string]any)["kid"])
		}
		return out
	}
	before := kids(s)
	next := startService(t, serviceOptions{Store: s.store, Key: key, Settings: func(c *config.Settings) { c.AdditionalKeyFiles = []string{s.key} }})
	after := kids(next)
	if len(before) != 1 || len(after) != 2 || after[0] == before[0] || after[1] != before[0] {
		t.Errorf("kids %v, then %v", before, after)
	}
	next.addUser("ada")
	rp := next.relyingParty("app", next.addClient("app", nil))
	_, token := next.signedInTokens(rp, "ada")
	raw, _ := token.Extra("id_token").(string)
	if kid := jwtHeader(t, raw)["kid"]; kid != after[0] {
		t.Errorf("signed by %v of %v", kid, after)
	}
}

// Of the Config plan, but for https: the tests' issuer is on this machine.
func TestOP_oidcc_discovery_endpoint_verification(t *testing.T) {
	s := startService(t, serviceOptions{})
	got := s.browser().get("/.well-known/openid-configuration")
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
	meta := got.JSON(t)
	if meta["issuer"] != s.URL {
		t.Errorf("issuer %v", meta["issuer"])
	}
	for name, want := range map[string]string{
		"response_types_supported": "code", "subject_types_supported": "public", "id_token_signing_alg_values_supported": "RS256", "scopes_supported": "openid", "grant_types_supported": "authorization_code",
		"claims_supported": "sub", "code_challenge_methods_supported": "S256", "token_endpoint_auth_methods_supported": "client_secret_post", "token_endpoint_auth_signing_alg_values_supported": "RS256", "acr_values_supported": "1",
	} {
		if values, _ := meta[name].([]any); !slices.Contains(values, any(want)) {
			t.Errorf("%s: %v lacks %s", name, meta[name], want)
		}
	}
	// The names that RFC 8414, Discovery, RFC 9126, RFC 9207 and the logout
	// specifications register.
	known := regexp.MustCompile(`^(issuer|jwks_uri|(authorization|token|userinfo|revocation|introspection|end_session|pushed_authorization_request)_endpoint|(token|revocation|introspection)_endpoint_auth_(methods|signing_alg_values)_supported|` +
		`(scopes|response_types|response_modes|grant_types|acr_values|subject_types|id_token_signing_alg_values|claim_types|claims|code_challenge_methods|prompt_values)_supported|` +
		`(claims|request|request_uri|authorization_response_iss)_parameter_supported|backchannel_logout(_session)?_supported)$`)
	for name, v := range meta {
		if !known.MatchString(name) {
			t.Errorf("unknown metadata %s", name)
		}
		if values, ok := v.([]any); ok && len(values) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
	for _, name := range []string{"authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri", "revocation_endpoint", "introspection_endpoint", "pushed_authorization_request_endpoint", "end_session_endpoint"} {
		if u, _ := meta[name].(string); !strings.HasPrefix(u, s.URL+"/") {
			t.Errorf("%s: %v", name, meta[name])
		}
	}
}

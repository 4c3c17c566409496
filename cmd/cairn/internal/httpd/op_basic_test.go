package httpd

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOP_oidcc_server(t *testing.T) {
	bothPlans(t, func(p *plan) {
		code := p.authorize(p.rp)
		p.wantEntropy("code", code)
		token, _ := p.tokens(p.rp, code)
		p.wantEntropy("access token", token.AccessToken)
		p.userinfo(token)
	})
}

func TestOP_oidcc_response_type_missing(t *testing.T) {
	bothPlans(t, func(p *plan) {
		if e := p.refusal(p.rp, "response_type", ""); e != "invalid_request" {
			t.Errorf("error %s", e)
		}
	})
}

func TestOP_oidcc_userinfo_get(t *testing.T) {
	bothPlans(t, func(p *plan) {
		token, _ := p.tokens(p.rp, p.authorize(p.rp))
		p.userinfo(token)
	})
}

func TestOP_oidcc_userinfo_post_header(t *testing.T) {
	bothPlans(t, func(p *plan) {
		token, _ := p.tokens(p.rp, p.authorize(p.rp))
		p.checkUserinfo(p.browser.do("POST", "/oauth2/userinfo", "application/x-www-form-urlencoded", "", "Authorization", token.TokenType+" "+token.AccessToken))
	})
}

func TestOP_oidcc_userinfo_post_body(t *testing.T) {
	bothPlans(t, func(p *plan) {
		token, _ := p.tokens(p.rp, p.authorize(p.rp))
		p.checkUserinfo(p.browser.postForm("/oauth2/userinfo", url.Values{"access_token": {token.AccessToken}}))
	})
}

func TestOP_oidcc_ensure_request_without_nonce_succeeds_for_code_flow(t *testing.T) {
	bothPlans(t, func(p *plan) {
		p.rp.nonce = ""
		p.tokens(p.rp, p.authorize(p.rp, "nonce", ""))
	})
}

// The claims that each scope has to bring, all of them.
var opScopeClaims = map[string][]string{
	"profile": strings.Fields("name given_name family_name middle_name nickname profile picture website gender birthdate zoneinfo locale updated_at preferred_username"),
	"email":   {"email", "email_verified"}, "address": {"address"}, "phone": {"phone_number", "phone_number_verified"},
}

// scope runs the modules of the scopes: exactly these claims at userinfo, none
// of them in the ID token.
func (p *plan) scope(more []string, scopes ...string) {
	p.t.Helper()
	meta := p.browser.get("/.well-known/openid-configuration").JSON(p.t)
	token, _ := p.tokens(p.rp, p.authorize(p.rp, append([]string{"scope", "openid " + strings.Join(scopes, " ")}, more...)...))
	want := []string{"sub"}
	for _, s := range scopes {
		if supported, _ := meta["scopes_supported"].([]any); !slices.Contains(supported, any(s)) {
			p.t.Errorf("scope %s is not in scopes_supported", s)
		}
		want = append(want, opScopeClaims[s]...)
	}
	supported, _ := meta["claims_supported"].([]any)
	for _, name := range want {
		if !slices.Contains(supported, any(name)) {
			p.t.Errorf("claim %s is not in claims_supported", name)
		}
	}
	slices.Sort(want)
	if got := keysOf(p.userinfo(token)); !slices.Equal(got, want) {
		p.t.Errorf("userinfo: %v, want %v", got, want)
	}
}

func TestOP_oidcc_scope_profile(t *testing.T) {
	bothPlans(t, func(p *plan) { p.scope(nil, "profile") })
}

func TestOP_oidcc_scope_email(t *testing.T) {
	bothPlans(t, func(p *plan) { p.scope(nil, "email") })
}

func TestOP_oidcc_scope_address(t *testing.T) {
	bothPlans(t, func(p *plan) { p.scope(nil, "address") })
}

func TestOP_oidcc_scope_phone(t *testing.T) {
	bothPlans(t, func(p *plan) { p.scope(nil, "phone") })
}

func TestOP_oidcc_scope_all(t *testing.T) {
	bothPlans(t, func(p *plan) { p.scope(nil, "profile", "email", "address", "phone") })
}

// The email scope first and the parameters in reverse order.
func TestOP_oidcc_alternate_happy_flow(t *testing.T) {
	bothPlans(t, func(p *plan) {
		u, err := url.Parse(p.url(p.rp, "scope", "email openid"))
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(u.RawQuery, "&")
		slices.Reverse(parts)
		u.RawQuery = strings.Join(parts, "&")
		token, _ := p.tokens(p.rp, p.codeOf(p.rp, p.browser.get(u.String())))
		if got := keysOf(p.userinfo(token)); !slices.Equal(got, []string{"email", "email_verified", "sub"}) {
			t.Errorf("userinfo: %v", got)
		}
	})
}

func TestOP_oidcc_display_page(t *testing.T) {
	bothPlans(t, func(p *plan) { p.tokens(p.rp, p.authorize(p.rp, "display", "page")) })
}

func TestOP_oidcc_display_popup(t *testing.T) {
	bothPlans(t, func(p *plan) { p.tokens(p.rp, p.authorize(p.rp, "display", "popup")) })
}

func TestOP_oidcc_prompt_login(t *testing.T) {
	bothPlans(t, func(p *plan) {
		_, first := p.tokens(p.rp, p.authorize(p.rp))
		p.wait(time.Second)
		_, second := p.tokens(p.rp, p.codeOf(p.rp, p.login(p.rp, "prompt", "login")))
		if p.number(second, "auth_time") <= p.number(first, "auth_time") {
			t.Errorf("auth_time %v, then %v", first["auth_time"], second["auth_time"])
		}
	})
}

func TestOP_oidcc_prompt_none_not_logged_in(t *testing.T) {
	bothPlans(t, func(p *plan) {
		p.rp.state = strings.Repeat("aZ0-._~9", 16)
		if e := p.refusal(p.rp, "prompt", "none"); e != "login_required" {
			t.Errorf("error %s", e)
		}
	})
}

func TestOP_oidcc_prompt_none_logged_in(t *testing.T) {
	bothPlans(t, func(p *plan) {
		_, first := p.tokens(p.rp, p.authorize(p.rp))
		p.wait(time.Second)
		answer := p.answer(p.rp, p.browser.get(p.url(p.rp, "prompt", "none")))
		_, second := p.tokens(p.rp, answer.Get("code"))
		if first["sub"] != second["sub"] || first["auth_time"] != second["auth_time"] {
			t.Errorf("%v, then %v", first, second)
		}
	})
}

func TestOP_oidcc_max_age_1(t *testing.T) {
	bothPlans(t, func(p *plan) {
		_, first := p.tokens(p.rp, p.authorize(p.rp))
		p.wait(2 * time.Second)
		_, second := p.tokens(p.rp, p.codeOf(p.rp, p.login(p.rp, "max_age", "1")))
		if p.number(second, "auth_time") <= p.number(first, "auth_time") {
			t.Errorf("auth_time %v, then %v", first["auth_time"], second["auth_time"])
		}
	})
}

func TestOP_oidcc_max_age_10000(t *testing.T) {
	bothPlans(t, func(p *plan) {
		_, first := p.tokens(p.rp, p.authorize(p.rp, "max_age", "15000"))
		p.wait(time.Second)
		answer := p.answer(p.rp, p.browser.get(p.url(p.rp, "max_age", "10000")))
		_, second := p.tokens(p.rp, answer.Get("code"))
		if p.number(second, "auth_time") != p.number(first, "auth_time") {
			t.Errorf("auth_time %v, then %v", first["auth_time"], second["auth_time"])
		}
	})
}

func TestOP_oidcc_ensure_registered_redirect_uri(t *testing.T) {
	bothPlans(t, func(p *plan) {
		wantPage(t, "unregistered", p.browser.get(p.url(p.rp, "redirect_uri", callbackOf("first")+"/x7Gq")), http.StatusBadRequest)
	})
}

// Of the plan oidcc-test-plan.
func TestOP_oidcc_redirect_uri_query_added(t *testing.T) {
	bothPlans(t, func(p *plan) {
		wantPage(t, "query added", p.browser.get(p.url(p.rp, "redirect_uri", callbackOf("first")+"?foo=bar")), http.StatusBadRequest)
	})
}

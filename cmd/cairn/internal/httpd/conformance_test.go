package httpd

import (
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// plan is the fixture of a module: two clients, a user with every claim, a
// browser, and a clock of the service's own instead of waiting.
type plan struct {
	*service
	t       *testing.T
	mode    string // response_mode, or empty for the default
	user    account.User
	rp      *relyingParty // with client_secret_basic
	second  *relyingParty // with client_secret_post
	browser *browser
	late    *atomic.Int64 // seconds that have passed
}

func newPlan(t *testing.T, mode string) *plan {
	t.Helper()
	// Behind the real time, so that it can go on without being ahead of it.
	begin, late := time.Now().Add(-2*time.Minute), &atomic.Int64{}
	s := startService(t,
		serviceOptions{Now: func() time.Time { return begin.Add(time.Duration(late.Load()) * time.Second) }})
	p := &plan{service: s, t: t, mode: mode, browser: s.browser(), late: late}
	p.user = account.User{
		Sub: uuid.NewString(), Handle: "buffy", DisplayName: "Buffy Summers", Email: "buffy@example.org", EmailVerified: true, CreatedAt: begin, UpdatedAt: begin,
		Profile: account.Profile{
			GivenName: "Buffy", FamilyName: "Summers", MiddleName: "Anne", Nickname: "Buff", Page: "https://example.org/buffy", Picture: "https://example.org/buffy.png",
			Website: "https://example.org/", Gender: "female", Birthdate: "1981-01-19", Zoneinfo: "America/Los_Angeles", Locale: "en-US", PhoneNumber: "+15550104321",
			Address: &account.Address{StreetAddress: "1630 Revello Drive", Locality: "Sunnydale", Country: "US"},
		},
	}
	var err error
	if p.user.PasswordHash, err = s.hasher.Hash(t.Context(), password); err != nil {
		t.Fatal(err)
	}
	noError(t, s.store.CreateUser(t.Context(), p.user, operator(account.AddUser, "buffy", "")))
	for _, c := range []struct {
		id, method string
		style      oauth2.AuthStyle
		rp         **relyingParty
	}{{"first", provider.AuthBasic, oauth2.AuthStyleInHeader, &p.rp}, {"second", provider.AuthPost, oauth2.AuthStyleInParams, &p.second}} {
		rp := s.relyingParty(c.id, s.addClient(c.id, func(n *provider.Client) { n.AuthMethod, n.IDTokenClaims = c.method, false }), "openid")
		rp.config.Endpoint.AuthStyle = c.style
		rp.state, rp.nonce = oauth2.GenerateVerifier()[:10], oauth2.GenerateVerifier()[:10]
		*c.rp = rp
	}
	return p
}

// wait lets time pass for the service.
func (p *plan) wait(d time.Duration) { p.late.Add(int64(d / time.Second)) }

// url is the authorization request as the modules send it, without PKCE.
func (p *plan) url(rp *relyingParty, more ...string) string {
	return rp.authURL(append([]string{"code_challenge", "", "code_challenge_method", "", "response_mode", p.mode}, more...)...)
}

// answer checks what every authorization response must be.
func (p *plan) answer(rp *relyingParty, got response) url.Values {
	p.t.Helper()
	target, answer := answerOf(p.t, got)
	if posted := got.StatusCode == http.StatusOK; posted != (p.mode == "form_post") || target != rp.config.RedirectURL {
		p.t.Fatalf("answer with %d to %s", got.StatusCode, target)
	}
	if answer.Get("state") != rp.state || answer.Get("iss") != p.URL {
		p.t.Fatalf("state or iss: %v", answer)
	}
	allowed := []string{"code", "state", "iss"}
	if answer.Has("error") {
		allowed = []string{"error", "error_description", "error_uri", "state", "iss"}
		if !regexp.MustCompile(`^[\x20-\x21\x23-\x5B\x5D-\x7E]+$`).MatchString(answer.Get("error_description")) {
			p.t.Errorf("error_description %q", answer.Get("error_description"))
		}
	}
	for name := range answer {
		if !slices.Contains(allowed, name) {
			p.t.Errorf("unexpected parameter %s", name)
		}
	}
	return answer
}

// authorize goes the whole way and returns the code.
func (p *plan) authorize(rp *relyingParty, more ...string) string {
	p.t.Helper()
	return p.codeOf(rp, p.browser.get(p.url(rp, more...)))
}

func (p *plan) codeOf(rp *relyingParty, got response) string {
	p.t.Helper()
	answer := p.answer(rp, p.browser.follow(got, "buffy"))
	if answer.Get("code") == "" {
		p.t.Fatalf("no code: %v", answer)
	}
	return answer.Get("code")
}

// login returns the sign-in page that a request must end on, and the way on.
func (p *plan) login(rp *relyingParty, more ...string) response {
	p.t.Helper()
	got := p.browser.get(p.url(rp, more...))
	if got.StatusCode == http.StatusSeeOther {
		got = p.browser.get(got.Header.Get("Location"))
	}
	if got.StatusCode != http.StatusOK || pageName(p.t, got.Text) != "login" {
		p.t.Fatalf("not the sign-in page: %d %.300s", got.StatusCode, got.Text)
	}
	return got
}

// refusal checks the error that a request gets without any page.
func (p *plan) refusal(want string, more ...string) {
	p.t.Helper()
	wantAnswer(p.t, want, p.answer(p.rp, p.browser.get(p.url(p.rp, more...))), want)
}

// tokens exchanges the code and checks what every token response must be.
func (p *plan) tokens(rp *relyingParty, code string) (token *oauth2.Token, idToken map[string]any) {
	p.t.Helper()
	token, err := rp.config.Exchange(p.t.Context(), code)
	noError(p.t, err)
	return token, p.checkTokens(rp, token, rp.nonce)
}

func (p *plan) checkTokens(rp *relyingParty, token *oauth2.Token, nonce string) map[string]any {
	p.t.Helper()
	if life, _ := token.Extra("expires_in").(float64); life <= 0 || life > 365*24*3600 {
		p.t.Errorf("expires_in %v", token.Extra("expires_in"))
	}
	raw := rawIDToken(token)
	verified, err := rp.provider.Verifier(&oidc.Config{ClientID: rp.config.ClientID}).Verify(p.t.Context(), raw)
	if err != nil {
		p.t.Fatalf("ID token: %v", err)
	}
	if err := verified.VerifyAccessToken(token.AccessToken); err != nil {
		p.t.Errorf("at_hash: %v", err)
	}
	if h := jwtHeader(p.t, raw); h["alg"] != "RS256" || h["kid"] == nil {
		p.t.Errorf("header of the ID token: %v", h)
	}
	claims := jwtPayload(p.t, raw)
	for name := range claims {
		if !slices.Contains(strings.Fields("iss sub aud exp iat auth_time nonce acr amr azp at_hash c_hash s_hash nbf jti sid txn"), name) {
			p.t.Errorf("unexpected claim %s in the ID token", name)
		}
	}
	now := float64(time.Now().Unix())
	iat, _ := claims["iat"].(float64)
	authTime, _ := claims["auth_time"].(float64)
	if claims["iss"] != p.URL || claims["sub"] != p.user.Sub || math.Abs(now-iat) > 300 || authTime > now ||
		claims["nonce"] != any(nonce) && (nonce != "" || claims["nonce"] != nil) {
		p.t.Errorf("ID token: %v", claims)
	}
	p.checkTypes(claims)
	return claims
}

// userinfo asks with the scheme that the token response named.
func (p *plan) userinfo(token *oauth2.Token) map[string]any {
	p.t.Helper()
	return p.checkUserinfo(p.browser.get("/oauth2/userinfo", "Authorization", token.TokenType+" "+token.AccessToken))
}

func (p *plan) checkUserinfo(got response) map[string]any {
	p.t.Helper()
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
		p.t.Fatalf("userinfo: %d %s %s", got.StatusCode, got.Header.Get("Content-Type"), got.Text)
	}
	claims := got.JSON(p.t)
	if claims["sub"] != p.user.Sub {
		p.t.Errorf("userinfo of %v", claims["sub"])
	}
	p.checkTypes(claims)
	return claims
}

// checkTypes: standard claims have their types, and no empty value stands for
// one that is not there.
func (p *plan) checkTypes(claims map[string]any) {
	p.t.Helper()
	for name, v := range claims {
		ok := false
		switch name {
		case "exp", "iat", "auth_time", "nbf":
			_, ok = v.(float64)
		case "updated_at":
			n, _ := v.(float64)
			ok = n > 631152000 && n <= float64(time.Now().Unix()) // 1990
		case "email_verified", "phone_number_verified":
			_, ok = v.(bool)
		case "address":
			members, _ := v.(map[string]any)
			ok = len(members) > 0
		case "groups", "amr":
			list, _ := v.([]any)
			ok = name == "groups" || len(list) > 0
		case "birthdate":
			s, _ := v.(string)
			ok = regexp.MustCompile(`^\d{4}(-\d{2}-\d{2})?$`).MatchString(s)
		default:
			s, _ := v.(string)
			ok = s != "" && s != "null"
		}
		if !ok {
			p.t.Errorf("claim %s: %v", name, v)
		}
	}
}

// wantEntropy: at least 128 bits long, more than 96 bits by Shannon.
func (p *plan) wantEntropy(what, secret string) {
	p.t.Helper()
	counts, bits := map[rune]int{}, 0.0
	for _, r := range secret {
		counts[r]++
	}
	for _, n := range counts {
		share := float64(n) / float64(len(secret))
		bits -= float64(n) * math.Log2(share)
	}
	if len(secret)*8 < 128 || bits <= 96 {
		p.t.Errorf("%s has %d characters and %.0f bits", what, len(secret), bits)
	}
}

// number is a claim that must be one.
func (p *plan) number(claims map[string]any, name string) float64 {
	p.t.Helper()
	n, ok := claims[name].(float64)
	if !ok {
		p.t.Fatalf("%s is missing: %v", name, claims)
	}
	return n
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

// again spends a code that was spent.
func (p *plan) again(code string) {
	p.t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.rp.config.RedirectURL}}
	wantInvalidGrant(p.t, "the code again", p.tokenRequest("first", p.rp.config.ClientSecret, form))
}

// The modules of the OpenID Foundation's plans Basic and Form Post, by query and by
// form_post. A warning of theirs is a failure here.
func TestOP(t *testing.T) {
	with := func(pairs ...string) func(p *plan) {
		return func(p *plan) { p.tokens(p.rp, p.authorize(p.rp, pairs...)) }
	}
	signedInAgain := func(first, again []string, newSignIn bool) func(p *plan) {
		return func(p *plan) {
			_, before := p.tokens(p.rp, p.authorize(p.rp, first...))
			p.wait(2 * time.Second)
			var code string
			if newSignIn {
				code = p.codeOf(p.rp, p.login(p.rp, again...))
			} else {
				code = p.answer(p.rp, p.browser.get(p.url(p.rp, again...))).Get("code")
			}
			_, after := p.tokens(p.rp, code)
			if later := p.number(after, "auth_time") - p.number(before, "auth_time"); later < 0 || (later > 0) != newSignIn || before["sub"] != after["sub"] {
				p.t.Errorf("%v, then %v", before, after)
			}
		}
	}
	for name, module := range map[string]func(p *plan){
		"oidcc-server": func(p *plan) {
			code := p.authorize(p.rp)
			p.wantEntropy("code", code)
			token, _ := p.tokens(p.rp, code)
			p.wantEntropy("access token", token.AccessToken)
			p.userinfo(token)
		},
		"oidcc-response-type-missing": func(p *plan) { p.refusal("invalid_request", "response_type", "") },
		"oidcc-userinfo-post-header": func(p *plan) {
			token, _ := p.tokens(p.rp, p.authorize(p.rp))
			p.checkUserinfo(p.browser.do("POST", "/oauth2/userinfo", "application/x-www-form-urlencoded", "", "Authorization", token.TokenType+" "+token.AccessToken))
		},
		"oidcc-userinfo-post-body": func(p *plan) {
			token, _ := p.tokens(p.rp, p.authorize(p.rp))
			p.checkUserinfo(p.browser.postForm("/oauth2/userinfo", url.Values{"access_token": {token.AccessToken}}))
		},
		"oidcc-ensure-request-without-nonce-succeeds-for-code-flow": func(p *plan) {
			p.rp.nonce = ""
			p.tokens(p.rp, p.authorize(p.rp, "nonce", ""))
		},
		"oidcc-scope-profile": func(p *plan) { p.scope(nil, "profile") },
		"oidcc-scope-email":   func(p *plan) { p.scope(nil, "email") },
		"oidcc-scope-address": func(p *plan) { p.scope(nil, "address") },
		"oidcc-scope-phone":   func(p *plan) { p.scope(nil, "phone") },
		"oidcc-scope-all":     func(p *plan) { p.scope(nil, "profile", "email", "address", "phone") },
		"oidcc-alternate-happy-flow": func(p *plan) { // the email scope first and the parameters in reverse order
			u, err := url.Parse(p.url(p.rp, "scope", "email openid"))
			noError(p.t, err)
			parts := strings.Split(u.RawQuery, "&")
			slices.Reverse(parts)
			u.RawQuery = strings.Join(parts, "&")
			token, _ := p.tokens(p.rp, p.codeOf(p.rp, p.browser.get(u.String())))
			if got := keysOf(p.userinfo(token)); !slices.Equal(got, []string{"email", "email_verified", "sub"}) {
				p.t.Errorf("userinfo: %v", got)
			}
		},
		"oidcc-display-page": with("display", "page"), "oidcc-display-popup": with("display", "popup"), "oidcc-login-hint": with("login_hint", "buffy@host"), "oidcc-ui-locales": with("ui_locales", "se"),
		"oidcc-claims-locales": with("claims_locales", "se"), "oidcc-ensure-request-with-unknown-parameter-succeeds": with("extra", "foobar"),
		"oidcc-prompt-login":          signedInAgain(nil, []string{"prompt", "login"}, true),
		"oidcc-max-age-1":             signedInAgain(nil, []string{"max_age", "1"}, true),
		"oidcc-max-age-10000":         signedInAgain([]string{"max_age", "15000"}, []string{"max_age", "10000"}, false),
		"oidcc-prompt-none-logged-in": signedInAgain(nil, []string{"prompt", "none"}, false),
		"oidcc-prompt-none-not-logged-in": func(p *plan) {
			p.rp.state = strings.Repeat("aZ0-._~9", 16)
			p.refusal("login_required", "prompt", "none")
		},
		"oidcc-id-token-hint": func(p *plan) {
			token, first := p.tokens(p.rp, p.authorize(p.rp))
			answer := p.answer(p.rp, p.browser.get(p.url(p.rp, "prompt", "none", "id_token_hint", rawIDToken(token))))
			if _, second := p.tokens(p.rp, answer.Get("code")); second["sub"] != first["sub"] {
				p.t.Errorf("sub %v, then %v", first["sub"], second["sub"])
			}
		},
		"oidcc-ensure-request-with-acr-values-succeeds": func(p *plan) {
			var values []string
			supported, _ := p.browser.get("/.well-known/openid-configuration").JSON(p.t)["acr_values_supported"].([]any)
			for _, v := range supported {
				values = append(values, v.(string))
			}
			_, claims := p.tokens(p.rp, p.authorize(p.rp, "acr_values", strings.Join(values, " ")))
			if acr, _ := claims["acr"].(string); !slices.Contains(values, acr) {
				p.t.Errorf("acr %q of %v", acr, values)
			}
		},
		"oidcc-codereuse": func(p *plan) {
			code := p.authorize(p.rp)
			p.tokens(p.rp, code)
			p.again(code)
		},
		"oidcc-codereuse-30seconds": func(p *plan) {
			code := p.authorize(p.rp)
			token, _ := p.tokens(p.rp, code)
			p.wait(31 * time.Second)
			p.again(code)
			p.wantUserinfo("afterwards", token.AccessToken, http.StatusUnauthorized)
		},
		"oidcc-ensure-post-request-succeeds": func(p *plan) {
			u, err := url.Parse(p.url(p.rp))
			noError(p.t, err)
			for range 2 { // from a page of the client: through sign-in and consent, and when signed in
				got := p.browser.postForm("/oauth2/authorize", u.Query(), "Origin", "https://first.example.org", "Sec-Fetch-Site", "cross-site")
				p.tokens(p.rp, p.codeOf(p.rp, got))
			}
		},
		"oidcc-server-client-secret-post": func(p *plan) { p.tokens(p.second, p.authorize(p.second)) },
		"oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported": func(p *plan) {
			object := unsignedRequest(p.t, map[string]any{
				"response_type": "code", "client_id": "first", "scope": "openid", "redirect_uri": p.rp.config.RedirectURL, "state": p.rp.state, "nonce": p.rp.nonce, "response_mode": p.mode,
			})
			p.rp.state = "" // is inside only, as the rest
			p.refusal("request_not_supported", "state", "", "nonce", "", "response_mode", "", "request", object)
		},
		"oidcc-ensure-request-object-with-redirect-uri": func(p *plan) {
			object := unsignedRequest(p.t, map[string]any{"redirect_uri": p.rp.config.RedirectURL})
			wantPage(p.t, "outer redirect_uri is wrong", p.browser.get(p.url(p.rp, "redirect_uri", callbackOf("first")+"/x7Gq", "request", object)), http.StatusBadRequest)
		},
		"oidcc-ensure-registered-redirect-uri": func(p *plan) {
			wantPage(p.t, "unregistered", p.browser.get(p.url(p.rp, "redirect_uri", callbackOf("first")+"/x7Gq")), http.StatusBadRequest)
		},
		"oidcc-redirect-uri-query-added": func(p *plan) { // of the plan oidcc-test-plan
			wantPage(p.t, "query added", p.browser.get(p.url(p.rp, "redirect_uri", callbackOf("first")+"?foo=bar")), http.StatusBadRequest)
		},
		"oidcc-claims-essential": func(p *plan) {
			token, id := p.tokens(p.rp, p.authorize(p.rp, "claims", `{"userinfo":{"name":{"essential":true}}}`))
			if info := p.userinfo(token); info["name"] != "Buffy Summers" || id["name"] != nil {
				p.t.Errorf("userinfo %v, ID token %v", info, id)
			}
		},
		"oidcc-refresh-token": func(p *plan) {
			first, second := p.refreshed(p.rp), p.refreshed(p.second)
			wantInvalidGrant(p.t, "another client's refresh token", p.rp.refresh(second))
			wantStatus(p.t, "its own", p.rp.refresh(first), http.StatusOK)
		},
		"oidcc-ensure-request-with-valid-pkce-succeeds": func(p *plan) {
			token, err := p.rp.exchange(p.codeOf(p.rp, p.browser.get(p.rp.authURL("response_mode", p.mode))))
			noError(p.t, err)
			p.checkTokens(p.rp, token, p.rp.nonce)
		},
		"oidcc-ensure-client-assertion-with-iss-aud-succeeds": func(p *plan) { // of the plan oidcc-test-plan with private_key_jwt
			p.wait(2 * time.Minute) // the assertion is of the real time
			c := p.addSigningClient("signer", nil)
			rp := p.relyingParty("signer", "", "openid")
			code := p.codeOf(rp, p.browser.get(rp.authURL("response_mode", p.mode)))
			got := p.clientPost("token", "", "", signed(rp.codeForm(code), c.assertion("aud", p.URL)))
			if got.StatusCode != http.StatusOK || got.JSON(p.t)["id_token"] == nil {
				p.t.Errorf("%d %s", got.StatusCode, got.Text)
			}
		},
	} {
		for _, mode := range []string{"", "form_post"} {
			t.Run(name+"/response_mode="+mode, func(t *testing.T) { module(newPlan(t, mode)) })
		}
	}
}

// refreshed refreshes tokens of a client and checks what that must give; it returns the
// refresh token then.
func (p *plan) refreshed(rp *relyingParty) string {
	p.t.Helper()
	token, first := p.tokens(rp, p.authorize(rp, "scope", "openid offline_access", "prompt", "consent"))
	p.wantEntropy("refresh token", token.RefreshToken)
	p.wait(time.Second)
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}}
	var got response
	if rp == p.rp {
		form.Set("scope", "openid offline_access")
		got = rp.token(form)
	} else {
		form.Set("client_id", "second")
		form.Set("client_secret", rp.config.ClientSecret)
		got = p.clientPost("token", "", "", form)
	}
	if got.StatusCode != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Content-Type") != "application/json" {
		p.t.Fatalf("refresh: %d %v %s", got.StatusCode, got.Header, got.Text)
	}
	answer := got.JSON(p.t)
	access, _ := answer["access_token"].(string)
	kind, _ := answer["token_type"].(string)
	next, _ := answer["refresh_token"].(string)
	again := (&oauth2.Token{AccessToken: access, TokenType: kind, RefreshToken: next}).WithExtra(answer)
	second := p.checkTokens(rp, again, "")
	for _, name := range []string{"iss", "sub", "aud", "auth_time", "azp"} {
		if first[name] != second[name] {
			p.t.Errorf("%s: %v, then %v", name, first[name], second[name])
		}
	}
	if first["iat"] == second["iat"] {
		p.t.Error("iat is that of the first ID token")
	}
	p.userinfo(again)
	p.wantEntropy("refresh token", next)
	return next
}

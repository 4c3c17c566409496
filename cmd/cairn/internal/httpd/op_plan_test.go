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

// The modules of the OpenID Foundation's plans Basic and Form Post, one test
// each. A warning of theirs is a failure here.

// plan is what a module works with: two clients, a user with every claim, a
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

// bothPlans runs a module by query and by form_post.
func bothPlans(t *testing.T, module func(p *plan)) {
	for _, mode := range []string{"", "form_post"} {
		t.Run("response_mode="+mode, func(t *testing.T) { module(newPlan(t, mode)) })
	}
}

func newPlan(t *testing.T, mode string) *plan {
	t.Helper()
	// Behind the real time, so that it can go on without being ahead of it.
	begin, late := time.Now().Add(-2*time.Minute), &atomic.Int64{}
	s := startService(t, serviceOptions{Now: func() time.Time { return begin.Add(time.Duration(late.Load()) * time.Second) }})
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
	if err := s.store.CreateUser(t.Context(), p.user, operator("user.create", "buffy", "")); err != nil {
		t.Fatal(err)
	}
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

// refusal is the error that a request gets without any page.
func (p *plan) refusal(rp *relyingParty, more ...string) string {
	p.t.Helper()
	answer := p.answer(rp, p.browser.get(p.url(rp, more...)))
	if answer.Get("code") != "" {
		p.t.Fatalf("a code: %v", answer)
	}
	return answer.Get("error")
}

// tokens exchanges the code and checks what every token response must be.
func (p *plan) tokens(rp *relyingParty, code string) (token *oauth2.Token, idToken map[string]any) {
	p.t.Helper()
	token, err := rp.config.Exchange(p.t.Context(), code)
	if err != nil {
		p.t.Fatal(err)
	}
	return token, p.checkTokens(rp, token, rp.nonce)
}

func (p *plan) checkTokens(rp *relyingParty, token *oauth2.Token, nonce string) map[string]any {
	p.t.Helper()
	if life, _ := token.Extra("expires_in").(float64); life <= 0 || life > 365*24*3600 {
		p.t.Errorf("expires_in %v", token.Extra("expires_in"))
	}
	raw, _ := token.Extra("id_token").(string)
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
	if claims["iss"] != p.URL || claims["sub"] != p.user.Sub || math.Abs(now-iat) > 300 || authTime > now || claims["nonce"] != any(nonce) && (nonce != "" || claims["nonce"] != nil) {
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
		case "groups":
			_, ok = v.([]any)
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

package httpd

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
)

// Attack 27: every claim of the ID token against what it must be, for a
// request with and without nonce, and after a refresh.
func TestIDTokenNeverSaysSomethingWrong(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	u := s.addUser("ada", "activity")
	secret := s.addClient("app", func(c *provider.Client) { c.IDTokenClaims = false })
	rp := s.relyingParty("app", secret)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	db.exec("UPDATE sessions SET auth_time = auth_time - 100, created_at = created_at - 100")
	kid := b.get("/.well-known/jwks.json").JSON(t)["keys"].([]any)[0].(map[string]any)["kid"]
	check := func(name, nonce string, answer map[string]any) map[string]any {
		t.Helper()
		raw, _ := answer["id_token"].(string)
		access, _ := answer["access_token"].(string)
		header, c := jwtHeader(t, raw), jwtPayload(t, raw)
		if header["alg"] != "RS256" || header["kid"] != kid || header["typ"] != "JWT" || len(header) != 3 {
			t.Errorf("%s: header %v", name, header)
		}
		half := sha256.Sum256([]byte(access))
		if c["iss"] != s.URL || c["sub"] != u.Sub || c["aud"] != "app" || c["at_hash"] != base64.RawURLEncoding.EncodeToString(half[:16]) {
			t.Errorf("%s: %v", name, c)
		}
		if got, there := c["nonce"]; there != (nonce != "") || there && got != nonce {
			t.Errorf("%s: nonce %q, want %q", name, got, nonce)
		}
		now := float64(time.Now().Unix())
		for claim, want := range map[string]float64{"iat": now, "exp": now + 3600, "auth_time": now - 100} {
			got, ok := c[claim].(float64)
			if !ok || got != float64(int64(got)) || got > want+5 || got < want-15 {
				t.Errorf("%s: %s = %v, want about %v", name, claim, c[claim], want)
			}
		}
		want := []string{"at_hash", "aud", "auth_time", "exp", "iat", "iss", "jti", "nonce", "sid", "sub"}
		for claim := range c {
			if !slices.Contains(want, claim) && claim != "acr" {
				t.Errorf("%s: unexpected claim %s", name, claim)
			}
		}
		return c
	}
	tokens := func(change ...string) map[string]any {
		return s.tokenRequest("app", secret, rp.codeForm(b.authorize(rp.authURL(change...), "ada").Get("code"))).JSON(t)
	}
	first := check("nonce", rp.nonce, tokens())
	check("no nonce", "", tokens("nonce", ""))
	check("short nonce", "1", tokens("nonce", "1"))
	check("odd nonce", `"\é<&`, tokens("nonce", `"\é<&`))
	check("long nonce", strings.Repeat("n", 1000), tokens("nonce", strings.Repeat("n", 1000)))
	answer := tokens()
	form := rp.codeForm("")
	form.Set("grant_type", "refresh_token")
	form.Set("refresh_token", answer["refresh_token"].(string))
	form.Set("nonce", "planted")
	again := check("refresh", "", s.tokenRequest("app", secret, form).JSON(t))
	if again["sid"] != first["sid"] || again["auth_time"] != first["auth_time"] || again["jti"] == first["jti"] {
		t.Errorf("refreshed %v, first %v", again, first)
	}
	// Two clients: the same sub, each its own audience.
	other := s.relyingParty("other", s.addClient("other", func(c *provider.Client) { c.Trusted = true }))
	token, err := other.exchange(b.authorize(other.authURL(), "ada").Get("code"))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := token.Extra("id_token").(string)
	if c := jwtPayload(t, raw); c["sub"] != u.Sub || c["aud"] != "other" {
		t.Errorf("other client: %v", c)
	}
}

// Attack 58: a deleted person's name never becomes another's identity.
func TestSubIsNeverGivenAgain(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("root1", "admin")
	ada := s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	if ada.Sub == ada.Handle || ada.Sub == "app" || len(ada.Sub) < 20 {
		t.Errorf("sub %q", ada.Sub)
	}
	admin := s.browser()
	admin.signIn("root1")
	if err := statusOf(admin.api("DELETE", "/api/admin/users/ada", nil), 204); err != nil {
		t.Fatal(err)
	}
	invite, _ := admin.api("POST", "/api/invites", map[string]string{}).JSON(t)["code"].(string)
	for _, handle := range []string{"ada", "ADA", " ada "} {
		got := s.browser().api("POST", "/api/register", map[string]string{"code": invite, "handle": handle, "password": "another long password 7"})
		if got.StatusCode != 409 || got.JSON(t)["code"] != "handle_taken" {
			t.Errorf("%q is given again: %d %s", handle, got.StatusCode, got.Text)
		}
	}
	fresh := s.browser()
	if err := statusOf(fresh.api("POST", "/api/register", map[string]string{"code": invite, "handle": "ada2", "password": password}), 201); err != nil {
		t.Fatal(err)
	}
	if _, got := answerOf(t, fresh.get(rp.authURL("prompt", "none"))); got.Get("error") != "consent_required" {
		t.Errorf("the new person has the old one's consent: %v", got)
	}
	raw, _ := token.Extra("id_token").(string)
	if got := fresh.authorize(rp.authURL("id_token_hint", raw, "prompt", "none"), "ada2"); got.Get("code") != "" {
		t.Error("the deleted person's hint fits the new one")
	}
	code := fresh.authorize(rp.authURL(), "ada2").Get("code")
	claims := jwtPayload(t, s.tokenRequest("app", secret, rp.codeForm(code)).JSON(t)["id_token"].(string))
	if claims["sub"] == ada.Sub {
		t.Error("the sub came back")
	}
	if got := s.userinfoStatus(token.AccessToken); got != 401 {
		t.Errorf("the deleted person's token: %d", got)
	}
	_ = b
}

// Attack 59: userinfo tells the claims of the scopes, to any page that holds
// the token, and nobody keeps the answer.
func TestUserinfoNeverTellsSecretsOrStaysInACache(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada", "activity")
	rp := s.relyingParty("app", s.addClient("app", nil), provider.Scopes...)
	_, token := s.signedInTokens(rp, "ada")
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken, "Origin", "https://any.example")
	claims := got.JSON(t)
	names := slices.Sorted(maps.Keys(claims))
	for _, name := range names {
		if !slices.Contains([]string{"sub", "name", "preferred_username", "updated_at", "email", "email_verified", "groups"}, name) {
			t.Errorf("claim %s", name)
		}
	}
	if claims["sub"] != u.Sub || strings.Contains(got.Text, "argon2") || strings.Contains(got.Text, "password") {
		t.Errorf("%s", got.Text)
	}
	if at, ok := claims["updated_at"].(float64); !ok || at != float64(int64(at)) {
		t.Errorf("updated_at %v", claims["updated_at"])
	}
	h := got.Header
	if h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Credentials") != "" || h.Get("Set-Cookie") != "" {
		t.Errorf("%v", h)
	}
}

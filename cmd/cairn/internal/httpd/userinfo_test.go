package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestUserinfoOpensForNothingButAnAccessToken(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	idToken, _ := token.Extra("id_token").(string)
	key, sig, _ := strings.Cut(token.AccessToken, ".")
	for name, value := range map[string]string{
		"refresh token": token.RefreshToken, "code": code, "ID token": idToken, "session cookie": b.cookie("cairn_session"),
		"half": key, "other half": "." + sig, "forged key half": strings.Repeat("A", len(key)) + "." + sig, "truncated": token.AccessToken[:len(token.AccessToken)-1],
		"longer": token.AccessToken + "A", "garbage": "x", "huge": strings.Repeat("x", 5000), "SQL": "' OR 1=1 --",
	} {
		got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+value)
		if got.StatusCode != http.StatusUnauthorized && got.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, got.StatusCode)
		}
		if !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%s: WWW-Authenticate %q", name, got.Header.Get("WWW-Authenticate"))
		}
	}
	bare := s.browser().get("/oauth2/userinfo")
	if bare.StatusCode != http.StatusUnauthorized || strings.Contains(bare.Header.Get("WWW-Authenticate"), "error") {
		t.Errorf("no token: %d %q", bare.StatusCode, bare.Header.Get("WWW-Authenticate"))
	}
	if got := s.browser().get("/oauth2/userinfo?access_token=" + token.AccessToken); got.StatusCode == http.StatusOK {
		t.Error("a token in the URL was accepted")
	}
	form := url.Values{"access_token": {token.AccessToken}}
	if got := s.browser().postForm("/oauth2/userinfo", form, "Authorization", "Bearer "+token.AccessToken); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a token in two places: %d", got.StatusCode)
	}
	for name, got := range map[string]response{
		"GET": s.browser().get("/oauth2/userinfo", "Authorization", "bearer "+token.AccessToken), "POST body": s.browser().postForm("/oauth2/userinfo", form),
		"POST header": s.browser().do("POST", "/oauth2/userinfo", "application/x-www-form-urlencoded", "", "Authorization", "Bearer "+token.AccessToken),
	} {
		if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", name, got.StatusCode, got.Header)
		}
	}
}

func TestAnAddressIsVerifiedForApplicationsOnceAnAdministratorSaysSo(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("root1", "admin")
	root := s.signedIn("root1")
	joined := s.visitor().api("POST", "/api/register", map[string]string{"code": root.invite(), "handle": "ada", "password": password, "email": "ada@example.org"})
	if joined.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", joined.StatusCode, joined.Text)
	}
	rp := s.relyingParty("app", s.addClient("app", nil), "openid", "email")
	ada, token := s.signedInTokens(rp, "ada")
	wantEmail := func(address string, verified bool) {
		t.Helper()
		if got := s.userinfo(token.AccessToken); got["email"] != address || got["email_verified"] != verified {
			t.Errorf("%v, want %s verified: %t", got, address, verified)
		}
	}
	wantEmail("ada@example.org", false)
	if got := root.api("PATCH", "/api/admin/users/ada", map[string]any{"email_verified": true}); got.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", got.StatusCode, got.Text)
	}
	wantEmail("ada@example.org", true)
	if got := ada.api("PATCH", "/api/me", map[string]string{"email": "ada@example.net"}); got.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", got.StatusCode, got.Text)
	}
	wantEmail("ada@example.net", false)
}

func TestTokenWithoutOpenIDScopeNeverOpensUserinfo(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil), "profile", "offline_access")
	_, token := s.signedInTokens(rp, "ada")
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken)
	if got.StatusCode != http.StatusForbidden || got.JSON(t)["error"] != "insufficient_scope" {
		t.Errorf("%d %s", got.StatusCode, got.Text)
	}
	if token.Extra("id_token") != nil {
		t.Error("an ID token without the openid scope")
	}
}

func TestUserinfoNeverTellsMoreThanTheScopes(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", "activity")
	rp := s.relyingParty("app", s.addClient("app", nil), "openid")
	_, token := s.signedInTokens(rp, "ada")
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken).JSON(t)
	if len(got) != 1 || got["sub"] == "" {
		t.Errorf("userinfo for openid alone: %v", got)
	}
}

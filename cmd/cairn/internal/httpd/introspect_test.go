package httpd

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/provider"
)

func (s *service) introspect(id, secret, token string) map[string]any {
	s.t.Helper()
	got := s.clientPost("introspect", id, secret, url.Values{"token": {token}})
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("introspect: %d %v %s", got.StatusCode, got.Header, got.Text)
	}
	return got.JSON(s.t)
}

func (s *service) wantInactive(what string, answer map[string]any) {
	s.t.Helper()
	if diff := cmp.Diff(map[string]any{"active": false}, answer); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestIntrospectionNeverTellsMoreOrLessThanTheTokenIs(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	secret := s.addClient("app", nil)
	before := time.Now().Unix()
	_, token := s.signedInTokens(s.relyingParty("app", secret, "openid", "profile", "offline_access"), "ada")
	for name, c := range map[string]struct {
		token string
		life  float64
		want  map[string]any
	}{
		"access":  {token.AccessToken, 3600, map[string]any{"token_type": "Bearer"}},
		"refresh": {token.RefreshToken, 30 * 24 * 3600, map[string]any{}},
	} {
		got := s.introspect("app", secret, c.token)
		exp, _ := got["exp"].(float64)
		iat, _ := got["iat"].(float64)
		if exp-iat != c.life || iat < float64(before)-1 || iat > float64(time.Now().Unix())+1 {
			t.Errorf("%s: iat %v, exp %v", name, got["iat"], got["exp"])
		}
		delete(got, "exp")
		delete(got, "iat")
		want := map[string]any{"active": true, "client_id": "app", "sub": u.Sub, "username": "ada", "scope": "openid profile offline_access", "iss": s.URL}
		for k, v := range c.want {
			want[k] = v
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// Being asked about does not use a refresh token up.
	if got := s.refreshRequest("app", secret, token.RefreshToken); got.StatusCode != http.StatusOK {
		t.Errorf("refresh: %d %s", got.StatusCode, got.Text)
	}
}

func TestIntrospectionNeverTellsAnotherClient(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret, evil := s.addClient("app", nil), s.addClient("evil", nil)
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	b, token := s.signedInTokens(s.relyingParty("app", secret), "ada")
	_, own := s.signedInTokens(s.relyingParty("phone", ""), "ada")
	s.wantInactive("access token of another", s.introspect("evil", evil, token.AccessToken))
	s.wantInactive("refresh token of another", s.introspect("evil", evil, token.RefreshToken))
	// Whoever knows a public client's id could ask.
	got := s.clientPost("introspect", "phone", "", url.Values{"token": {own.AccessToken}})
	wantOAuthError(t, "public client", got, http.StatusUnauthorized, "invalid_client")
	// A signed-in browser is nobody here.
	form := url.Values{"token": {token.AccessToken}, "client_id": {"app"}}
	wantOAuthError(t, "browser", b.postForm("/oauth2/introspect", form), http.StatusUnauthorized, "invalid_client")
}

func TestDeadTokenIsNeverCalledActive(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	ada, bob := s.addUser("ada", "activity"), s.addUser("bob", "activity")
	secret := s.addClient("app", func(c *provider.Client) { c.RequireFlag = "activity" })
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	idToken, _ := token.Extra("id_token").(string)
	key, sig, _ := strings.Cut(token.AccessToken, ".")
	for name, presented := range map[string]string{
		"garbage": "x", "blank": " ", "long": strings.Repeat("x", 20000), "forged key half": strings.Repeat("A", len(key)) + "." + sig, "signature half": "." + sig,
		"code": b.authorize(rp.authURL(), "ada").Get("code"), "ID token": idToken, "session cookie": b.cookie("cairn_session"),
	} {
		s.wantInactive(name, s.introspect("app", secret, presented))
	}
	second := s.refreshRequest("app", secret, token.RefreshToken).JSON(t)
	s.wantInactive("rotated refresh token", s.introspect("app", secret, token.RefreshToken))
	if s.introspect("app", secret, second["access_token"].(string))["active"] != true {
		t.Error("asking about a rotated token ended its family")
	}
	s.revoke("app", secret, second["access_token"].(string))
	s.wantInactive("revoked", s.introspect("app", secret, second["access_token"].(string)))
	s.wantInactive("refresh token of a revoked grant", s.introspect("app", secret, second["refresh_token"].(string)))

	_, token = s.signedInTokens(rp, "ada")
	db.exec("UPDATE tokens SET expires_at = ?", time.Now().Unix())
	s.wantInactive("expired", s.introspect("app", secret, token.AccessToken))
	s.wantInactive("expired refresh token", s.introspect("app", secret, token.RefreshToken))

	_, token = s.signedInTokens(rp, "ada")
	if _, err := s.store.SetFlags(t.Context(), ada.Sub, map[string]bool{"activity": false}, false, time.Now(), operator("user.flags", "ada", "")); err != nil {
		t.Fatal(err)
	}
	s.wantInactive("user without the flag", s.introspect("app", secret, token.AccessToken))

	_, token = s.signedInTokens(rp, "bob")
	if err := s.store.Suspend(context.Background(), bob.Sub, "", time.Now(), operator("user.suspend", "bob", "")); err != nil {
		t.Fatal(err)
	}
	// The grant went with the user; were it still there, the user alone counts.
	db.exec("UPDATE grants SET revoked_at = 0")
	s.wantInactive("suspended user", s.introspect("app", secret, token.AccessToken))
	s.wantInactive("suspended user's refresh token", s.introspect("app", secret, token.RefreshToken))
}

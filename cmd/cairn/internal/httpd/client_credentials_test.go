package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/cairn-id/cairn/provider"
)

func TestClientTokenNeverActsForAPerson(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("machine", func(c *provider.Client) { c.ClientCredentials = true })
	conf := clientcredentials.Config{ClientID: "machine", ClientSecret: secret, TokenURL: s.URL + "/oauth2/token", Scopes: []string{"profile", "groups"}}
	token, err := conf.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if token.RefreshToken != "" || token.Extra("id_token") != nil || token.Extra("scope") != "profile groups" || token.TokenType != "Bearer" || token.Extra("expires_in") != float64(3600) {
		t.Errorf("%+v, scope %v", token, token.Extra("scope"))
	}
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken)
	wantOAuthError(t, "userinfo", got, http.StatusUnauthorized, "invalid_token")
	if !strings.Contains(got.Header.Get("WWW-Authenticate"), `error="invalid_token"`) {
		t.Errorf("WWW-Authenticate %q", got.Header.Get("WWW-Authenticate"))
	}
	// Also not when openid got into it some other way.
	db.exec("UPDATE client_tokens SET scope = 'openid profile'")
	wantOAuthError(t, "userinfo with openid", s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken), http.StatusUnauthorized, "invalid_token")
	if got := s.browser().api("GET", "/api/me", nil, "Authorization", "Bearer "+token.AccessToken); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("/api/me: %d", got.StatusCode)
	}
	wantOAuthError(t, "as a refresh token", s.refreshRequest("machine", secret, token.AccessToken), http.StatusBadRequest, "invalid_grant")
	answer := s.introspect("machine", secret, token.AccessToken)
	delete(answer, "exp")
	delete(answer, "iat")
	want := map[string]any{"active": true, "client_id": "machine", "scope": "openid profile", "token_type": "Bearer", "iss": s.URL}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("introspection (-want +got):\n%s", diff)
	}
}

func TestClientCredentialsNeverGiveMoreThanIsRegistered(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	machine := s.addClient("machine", func(c *provider.Client) {
		c.ClientCredentials, c.Scopes = true, []string{"openid", "profile", "groups", "offline_access"}
	})
	app := s.addClient("app", nil)
	s.addClient("phone", func(c *provider.Client) { c.ClientCredentials = true })
	db.exec("UPDATE clients SET auth_method = 'none' WHERE id = 'phone'") // registration refuses it
	request := func(id, secret, scope string) response {
		return s.clientPost("token", id, secret, url.Values{"grant_type": {"client_credentials"}, "scope": {scope}})
	}
	for _, scope := range []string{"openid", "offline_access", "openid profile", "profile offline_access", "email", "admin", "profile admin", "*", "PROFILE"} {
		wantOAuthError(t, "scope "+scope, request("machine", machine, scope), http.StatusBadRequest, "invalid_scope")
	}
	wantOAuthError(t, "not registered for it", request("app", app, "profile"), http.StatusBadRequest, "unauthorized_client")
	wantOAuthError(t, "not registered for it, wrong scope", request("app", app, "admin"), http.StatusBadRequest, "unauthorized_client")
	wantOAuthError(t, "public", request("phone", "", "profile"), http.StatusBadRequest, "unauthorized_client")
	wantOAuthError(t, "wrong secret", request("machine", "x", ""), http.StatusUnauthorized, "invalid_client")
	wantOAuthError(t, "no secret", request("machine", "", ""), http.StatusUnauthorized, "invalid_client")
	wantOAuthError(t, "secret in the URL", s.browser().postForm("/oauth2/token?client_id=machine&client_secret="+machine, url.Values{"grant_type": {"client_credentials"}}), http.StatusBadRequest, "invalid_request")
	if n := db.count("SELECT count(*) FROM client_tokens"); n != 0 {
		t.Errorf("%d tokens were made", n)
	}
	got := request("machine", machine, "")
	if answer := got.JSON(t); got.StatusCode != http.StatusOK || answer["scope"] != nil || answer["refresh_token"] != nil {
		t.Errorf("without a scope: %d %s", got.StatusCode, got.Text)
	}
	mend := db.breaks("INSERT ON client_tokens")
	wantUnavailable(t, "client_credentials", request("machine", machine, ""))
	mend()
}

func TestRevokedClientTokenNeverTakesOthersWithIt(t *testing.T) {
	s := startService(t, serviceOptions{})
	secret, evil := s.addClient("machine", func(c *provider.Client) { c.ClientCredentials = true }), s.addClient("evil", nil)
	token := func() string {
		return s.clientPost("token", "machine", secret, url.Values{"grant_type": {"client_credentials"}}).JSON(t)["access_token"].(string)
	}
	first, second := token(), token()
	wantRevoked(t, "at another client", s.revoke("evil", evil, first))
	s.wantInactive("at another client", s.introspect("evil", evil, first))
	if s.introspect("machine", secret, first)["active"] != true {
		t.Error("another client ended it")
	}
	wantRevoked(t, "own", s.revoke("machine", secret, first))
	s.wantInactive("revoked", s.introspect("machine", secret, first))
	if s.introspect("machine", secret, second)["active"] != true {
		t.Error("the other token is gone too")
	}
}

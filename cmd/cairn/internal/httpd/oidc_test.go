package httpd

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/provider"
)

// The whole way with somebody else's relying party: sign-in, consent, code,
// tokens, userinfo, refresh.
func TestCodeFlowNeverFailsARealRelyingParty(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada", account.FlagActivity)
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	answer := b.authorize(rp.authURL(), "ada")
	if answer.Get("state") != rp.state || answer.Get("iss") != s.URL {
		t.Fatalf("answer = %v", answer)
	}
	token, err := rp.exchange(answer.Get("code"))
	if err != nil {
		t.Fatal(err)
	}
	id := rp.idToken(token)
	if id.Subject != u.Sub || id.Nonce != rp.nonce || len(id.Audience) != 1 || id.Audience[0] != "app" {
		t.Errorf("ID token of %q for %v with nonce %q", id.Subject, id.Audience, id.Nonce)
	}
	if err := id.VerifyAccessToken(token.AccessToken); err != nil {
		t.Errorf("at_hash: %v", err)
	}
	info, err := rp.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := info.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	if info.Subject != u.Sub || claims["preferred_username"] != "ada" || claims["name"] != "Ada" {
		t.Errorf("userinfo = %v", claims)
	}
	refreshed, err := rp.config.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	if err != nil {
		t.Fatal(err)
	}
	if refreshed.RefreshToken == "" || refreshed.RefreshToken == token.RefreshToken || refreshed.AccessToken == token.AccessToken {
		t.Error("the refresh did not rotate the tokens")
	}
	again := rp.idToken(refreshed)
	if again.Subject != u.Sub || again.Nonce != "" {
		t.Errorf("refreshed ID token of %q with nonce %q", again.Subject, again.Nonce)
	}
	// Consent is remembered and the session is there: no page in between.
	if got := b.get(rp.authURL("prompt", "none")); !strings.Contains(got.Header.Get("Location"), "code=") {
		t.Errorf("prompt=none after consent: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
}

func TestPublicClientNeverGetsACodeWithoutPKCE(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addClient("phone", func(c *provider.Client) {
		c.AuthMethod, c.RedirectURIs = provider.AuthNone, []string{callbackOf("phone"), "http://127.0.0.1/cb", "http://localhost/cb"}
	})
	rp := s.relyingParty("phone", "")
	if got := s.browser().authorize(rp.authURL("code_challenge", "", "code_challenge_method", ""), "ada"); got.Get("error") != "invalid_request" {
		t.Errorf("without a challenge: %v", got)
	}
	_, token := s.signedInTokens(rp, "ada")
	rp.idToken(token)
	// A native client listens on whatever port it gets (RFC 8252 section 7.3).
	for _, rp.config.RedirectURL = range []string{"http://127.0.0.1:50123/cb", "http://localhost:50123/cb"} {
		answer := s.browser().authorize(rp.authURL(), "ada")
		if _, err := rp.exchange(answer.Get("code")); err != nil {
			t.Errorf("%s: %v", rp.config.RedirectURL, err)
		}
	}
}

func TestSuspendedUserLosesEverythingAtOnce(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada", account.FlagActivity)
	s.addUser("root1", account.FlagAdmin)
	rp := s.relyingParty("app", s.addClient("app", nil))
	b, token := s.signedInTokens(rp, "ada")
	pending := b.authorize(rp.authURL(), "ada").Get("code")
	admin := s.browser()
	admin.signIn("root1")
	if got := admin.api("POST", "/api/admin/users/ada/suspend", map[string]string{"reason": "test"}); got.StatusCode != http.StatusOK {
		t.Fatalf("suspend: %d %s", got.StatusCode, got.Text)
	}
	if got := b.api("GET", "/api/me", nil); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("session: %d", got.StatusCode)
	}
	if _, err := rp.exchange(pending); err == nil {
		t.Error("a code from before the suspension was exchanged")
	}
	if got := b.get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("userinfo: %d", got.StatusCode)
	}
	refresh := func() error {
		_, err := rp.config.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
		return err
	}
	if refresh() == nil {
		t.Error("refreshed while suspended")
	}
	got := b.api("POST", "/api/auth/login", map[string]string{"handle": "ada", "password": password})
	if got.StatusCode != http.StatusForbidden || got.JSON(t)["code"] != "account_suspended" {
		t.Errorf("login: %d %s", got.StatusCode, got.Text)
	}
	if err := s.store.Unsuspend(context.Background(), u.Sub, time.Now(), operator("user.unsuspend", "ada", "")); err != nil {
		t.Fatal(err)
	}
	if got := b.api("GET", "/api/me", nil); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("old session after unsuspend: %d", got.StatusCode)
	}
	if refresh() == nil {
		t.Error("refreshed with an old token after unsuspend")
	}
}

// What a relying application does with the cookie, in both schemes, and across
// the change from one to the other.
func TestSessionCookieIsAlwaysVerifiableByOtherApplications(t *testing.T) {
	old := startService(t, serviceOptions{HS256: true})
	u := old.addUser("ada", account.FlagActivity)
	b := old.browser()
	b.signIn("ada")
	hs := b.cookie("cairn_session")
	check := func(v *session.Verifier, token, alg string) {
		t.Helper()
		got, err := v.Verify(t.Context(), token)
		if err != nil {
			t.Fatalf("%s: %v", alg, err)
		}
		if got.Subject != u.Sub || got.Handle != "ada" || got.Name != "Ada" || !slices.Equal(got.Groups, []string{"activity"}) || got.Status == nil {
			t.Errorf("%s: claims %+v", alg, got)
		}
		if life := got.ExpiresAt.Sub(got.IssuedAt); life != 30*24*time.Hour {
			t.Errorf("%s: lives %s", alg, life)
		}
		if len(token) > 4000 || jwtHeader(t, token)["alg"] != alg {
			t.Errorf("%s: %d bytes, header %v", alg, len(token), jwtHeader(t, token))
		}
	}
	check(&session.Verifier{Issuer: old.URL, Secret: old.secret}, hs, "HS256")

	// The same installation, now with a key.
	rs := startService(t, serviceOptions{Store: old.store})
	fresh := rs.browser()
	fresh.signIn("ada")
	keys := session.NewRemoteKeySet(rs.URL+"/.well-known/jwks.json", session.RemoteOptions{})
	check(&session.Verifier{Issuer: rs.URL, Keys: keys}, fresh.cookie("cairn_session"), "RS256")
	both := &session.Verifier{Issuer: old.URL, Secret: old.secret, Keys: keys}
	check(both, hs, "HS256")
}

func TestChangeToRS256NeverEndsOldSessions(t *testing.T) {
	var url string
	first := startService(t, serviceOptions{HS256: true})
	url = first.URL
	first.addUser("ada")
	b := first.browser()
	b.signIn("ada")
	first.server.Close()
	// The same address again, with a key.
	second := restartAt(t, first, url)
	b.base = second.URL
	got := b.api("GET", "/api/me", nil)
	if got.StatusCode != http.StatusOK {
		t.Fatalf("HS256 session after the change: %d %s", got.StatusCode, got.Text)
	}
	b.signIn("ada")
	if alg := jwtHeader(t, b.cookie("cairn_session"))["alg"]; alg != "RS256" {
		t.Errorf("a new sign-in is %v", alg)
	}
}

func TestDiscoveryNeverAdvertisesWhatIsWeakOrMissing(t *testing.T) {
	s := startService(t, serviceOptions{})
	b := s.browser()
	meta := b.get("/.well-known/openid-configuration", "Host", "evil.example", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https", "Forwarded", "host=evil.example").JSON(t)
	golden(t, "discovery.json", strings.ReplaceAll(indent(t, meta), s.URL, "https://issuer"))
	keys := b.get("/.well-known/jwks.json").JSON(t)
	key := keys["keys"].([]any)[0].(map[string]any)
	names := make([]string, 0, len(key))
	for name := range key {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"alg", "e", "kid", "kty", "n", "use"}; !slices.Equal(names, want) {
		t.Errorf("members of the key: %v, want %v", names, want)
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

func TestClaimsOfTokensNeverChangeUnnoticed(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagActivity)
	rp := s.relyingParty("app", s.addClient("app", func(c *provider.Client) { c.IDTokenClaims = false }))
	b, token := s.signedInTokens(rp, "ada")
	raw, _ := token.Extra("id_token").(string)
	golden(t, "id_token.json", shape(t, jwtPayload(t, raw)))
	golden(t, "session_token.json", shape(t, jwtPayload(t, b.cookie("cairn_session"))))
	with := s.relyingParty("full", s.addClient("full", nil))
	_, token = s.signedInTokens(with, "ada")
	raw, _ = token.Extra("id_token").(string)
	golden(t, "id_token_with_claims.json", shape(t, jwtPayload(t, raw)))
}

// What makes somebody an administrator here is no business of an application
// unless the operator says so: not in any token, and not by the claims parameter. The
// session cookie speaks of this installation.
func TestAdministratorsAreNotToldToApplications(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagActivity, account.FlagAdmin)
	for id, c := range map[string]struct{ registered, want []string }{
		"default": {nil, []string{account.FlagActivity}},
		"admins":  {[]string{account.FlagAdmin}, []string{account.FlagAdmin}},
		"both":    {[]string{account.FlagAdmin, account.FlagActivity}, []string{account.FlagActivity, account.FlagAdmin}},
		"others":  {[]string{"captain"}, []string{}},
	} {
		rp := s.relyingParty(id, s.addClient(id, func(n *provider.Client) { n.Groups = c.registered }))
		b, token := s.signedInTokens(rp, "ada")
		var claims struct{ Groups []string }
		if err := rp.idToken(token).Claims(&claims); err != nil || !slices.Equal(claims.Groups, c.want) || claims.Groups == nil {
			t.Errorf("%s: ID token: %q, %v", id, claims.Groups, err)
		}
		asked := s.relyingParty(id, rp.config.ClientSecret, "openid")
		answer := b.authorize(asked.authURL("claims", `{"userinfo":{"groups":null}}`), "ada")
		token, err := asked.exchange(answer.Get("code"))
		if err != nil {
			t.Fatal(err)
		}
		info, err := asked.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		if err != nil {
			t.Fatal(err)
		}
		claims.Groups = nil
		if err := info.Claims(&claims); err != nil || !slices.Equal(claims.Groups, c.want) {
			t.Errorf("%s: userinfo: %q, %v", id, claims.Groups, err)
		}
		if groups := jwtPayload(t, b.cookie("cairn_session"))["groups"]; !slices.Equal(groups.([]any), []any{"activity", "admin"}) {
			t.Errorf("session cookie: %v", groups)
		}
	}
}

// shape is a payload with its values replaced by their JSON types.
func shape(t *testing.T, payload map[string]any) string {
	t.Helper()
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, e := range v {
				out[k] = walk(e)
			}
			return out
		case []any:
			return []any{"array"}
		case string:
			return "string"
		case float64:
			return "number"
		case bool:
			return "boolean"
		}
		return "null"
	}
	return indent(t, walk(payload))
}

func indent(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

package httpd

import (
	"context"
	"github.com/cairn-id/cairn/account"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/provider"
)

// claimsOfFlow authorizes with more parameters and returns what the client
// learns: the ID token's claims and userinfo's.
func (s *service) claimsOfFlow(rp *relyingParty, handle string, more ...string) (idToken, userinfo map[string]any, token *oauth2.Token) {
	s.t.Helper()
	answer := s.browser().authorize(rp.authURL(more...), handle)
	token, err := rp.exchange(answer.Get("code"))
	if err != nil {
		s.t.Fatalf("%v: %v", answer, err)
	}
	raw, _ := token.Extra("id_token").(string)
	rp.idToken(token)
	return jwtPayload(s.t, raw), s.userinfo(token.AccessToken), token
}

func (s *service) userinfo(token string) map[string]any {
	s.t.Helper()
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token)
	if got.StatusCode != http.StatusOK {
		s.t.Fatalf("userinfo: %d %s", got.StatusCode, got.Text)
	}
	return got.JSON(s.t)
}

func keysOf(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func TestClaimAskedForByNameNeverBringsOthersAlong(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", "activity")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret, "openid", "offline_access")
	plain, _, _ := s.claimsOfFlow(rp, "ada")
	id, info, token := s.claimsOfFlow(rp, "ada", "claims", `{"userinfo":{"name":{"essential":true},"password_hash":null},"id_token":{"preferred_username":null,"groups":{"value":"x"},"sid":null}}`)
	if got := keysOf(info); !slices.Equal(got, []string{"name", "sub"}) {
		t.Errorf("userinfo: %v", got)
	}
	want := append(keysOf(plain), "groups", "preferred_username")
	slices.Sort(want)
	if got := keysOf(id); !slices.Equal(got, want) {
		t.Errorf("ID token: %v, want %v", got, want)
	}
	refreshed := s.refreshRequest("app", secret, token.RefreshToken).JSON(t)
	if got := keysOf(s.userinfo(refreshed["access_token"].(string))); !slices.Equal(got, []string{"name", "sub"}) {
		t.Errorf("userinfo after the refresh: %v", got)
	}
	if got := jwtPayload(t, refreshed["id_token"].(string)); got["preferred_username"] != "ada" {
		t.Errorf("ID token after the refresh: %v", keysOf(got))
	}
	// The next request is one of its own.
	if _, info, _ := s.claimsOfFlow(rp, "ada"); len(info) != 1 {
		t.Errorf("userinfo of a request without claims: %v", info)
	}
}

func TestClaimsParameterNeverGoesAroundScopesAndConsent(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	email := "ada@example.org"
	if _, err := s.store.ChangeUser(context.Background(), u.Sub, func(u *account.User) error { u.Email = email; return nil }, u.UpdatedAt, nil); err != nil {
		t.Fatal(err)
	}
	const ask = `{"userinfo":{"email":null},"id_token":{"email":{"essential":true}}}`
	// A client that may not have the scope does not get its claims by name.
	narrow := s.relyingParty("narrow", s.addClient("narrow", func(c *provider.Client) { c.Scopes = []string{"openid", "profile"} }), "openid")
	id, info, _ := s.claimsOfFlow(narrow, "ada", "claims", ask)
	if info["email"] != nil || id["email"] != nil {
		t.Errorf("email for a client without that scope: %v %v", info, id)
	}
	// Others get them once the user has agreed to that, and not before.
	rp := s.relyingParty("app", s.addClient("app", nil), "openid")
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	if got := b.authorize(rp.authURL("claims", ask, "prompt", "none"), "ada"); got.Get("error") != "consent_required" {
		t.Errorf("without consent: %v", got)
	}
	page := b.get(b.get(rp.authURL("claims", ask)).Header.Get("Location"))
	if pageName(t, page.Text) != "consent" || !strings.Contains(page.Text, "Your email") {
		t.Fatalf("page %q: %.600s", pageName(t, page.Text), page.Text)
	}
	if _, answer := answerOf(t, b.follow(page, "ada")); answer.Get("code") == "" {
		t.Errorf("after consent: %v", answer)
	}
	if id, info, _ := s.claimsOfFlow(rp, "ada", "claims", ask); info["email"] != email || id["email"] != email {
		t.Errorf("with consent: %v %v", info, id)
	}
	// Plain OAuth has no claims.
	bare := s.relyingParty("bare", s.addClient("bare", nil), "profile")
	code := s.browser().authorize(bare.authURL("claims", ask), "ada").Get("code")
	token, err := bare.exchange(code)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusForbidden {
		t.Errorf("userinfo without openid: %d", got)
	}
}

// OpenID Connect Core section 5.5.1: no ID token of somebody else.
func TestSubThatTheClientExpectsIsNeverAnother(t *testing.T) {
	s := startService(t, serviceOptions{})
	ada, bob := s.addUser("ada"), s.addUser("bob")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	want := func(sub string) string { return `{"id_token":{"sub":{"value":"` + sub + `"}}}` }
	for name, claims := range map[string]string{"value": want(bob.Sub), "unknown": want("x"), "empty": want(""), "values": `{"id_token":{"sub":{"values":["x","` + bob.Sub + `"]}}}`, "userinfo": `{"userinfo":{"sub":{"value":"` + bob.Sub + `"}}}`,
		"two wishes": `{"userinfo":{"sub":{"value":"` + bob.Sub + `"}},"id_token":{"sub":{"value":"` + ada.Sub + `"}}}`} {
		if got := b.authorize(rp.authURL("claims", claims, "prompt", "none"), "ada"); got.Get("error") != "login_required" || got.Get("code") != "" {
			t.Errorf("%s, silently: %v", name, got)
		}
	}
	if got := b.authorize(rp.authURL("claims", want(ada.Sub), "prompt", "none"), "ada"); got.Get("code") == "" {
		t.Errorf("the right one: %v", got)
	}
	// With a page there is one chance to sign in as the other, not a loop.
	if got := b.authorize(rp.authURL("claims", want(bob.Sub)), "ada"); got.Get("error") != "login_required" {
		t.Errorf("signed in as the wrong one: %v", got)
	}
	if got := b.authorize(rp.authURL("claims", want(bob.Sub)), "bob"); got.Get("code") == "" {
		t.Errorf("signed in as the right one: %v", got)
	}
}

func TestMalformedClaimsParameterNeverGetsACode(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	for _, claims := range []string{
		`{`, `null`, `[]`, `x`, `{"userinfo":[]}`, `{"userinfo":{"name":1}}`, `{"userinfo":{"name":{"essential":"yes"}}}`, `{"userinfo":{},"userinfo":{}}`, `{} {}`,
		strings.Repeat(`{"a":`, 20) + `1` + strings.Repeat(`}`, 20), `{"x":"` + strings.Repeat("a", 3072) + `"}`, "{\"\xff\":1}",
	} {
		got := b.authorize(rp.authURL("claims", claims), "ada")
		if got.Get("error") != "invalid_request" || got.Get("code") != "" || got.Get("state") != rp.state || got.Get("iss") != s.URL {
			t.Errorf("%.40s: %v", claims, got)
		}
	}
}

func TestACRIsNeverSentUnaskedNorAnotherThanAdvertised(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	for name, c := range map[string]struct {
		more []string
		want any
	}{
		"not asked": {nil, nil}, "acr_values": {[]string{"acr_values", "1"}, "1"}, "several": {[]string{"acr_values", "2 1"}, "1"}, "another": {[]string{"acr_values", "urn:mace:incommon:iap:silver"}, "1"},
		"claims": {[]string{"claims", `{"id_token":{"acr":null}}`}, "1"}, "essential": {[]string{"claims", `{"id_token":{"acr":{"essential":true,"values":["phr"]}}}`}, "1"}, "userinfo": {[]string{"claims", `{"userinfo":{"acr":null}}`}, nil},
	} {
		id, info, token := s.claimsOfFlow(rp, "ada", c.more...)
		if id["acr"] != c.want || info["acr"] != nil {
			t.Errorf("%s: acr %v, want %v", name, id["acr"], c.want)
		}
		refreshed := s.refreshRequest("app", secret, token.RefreshToken).JSON(t)
		if got := jwtPayload(t, refreshed["id_token"].(string))["acr"]; got != c.want {
			t.Errorf("%s: acr %v after the refresh", name, got)
		}
	}
	meta := s.browser().get("/.well-known/openid-configuration").JSON(t)
	if got, _ := meta["acr_values_supported"].([]any); len(got) != 1 || got[0] != "1" {
		t.Errorf("acr_values_supported %v", got)
	}
}

func TestParametersThatAreOnlyWishesNeverCauseAnError(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	for _, wish := range []string{"ui_locales=se", "claims_locales=se", "display=popup", "display=page", "display=x", "login_hint=ada", "login_hint=buffy@host", "extra=foobar", "acr_values=1 2", "max_age=10000"} {
		name, value, _ := strings.Cut(wish, "=")
		if got := b.authorize(rp.authURL(name, value), "ada"); got.Get("code") == "" {
			t.Errorf("%s: %v", wish, got)
		}
	}
	meta := s.browser().get("/.well-known/openid-configuration").JSON(t)
	for _, name := range []string{"ui_locales_supported", "claims_locales_supported", "display_values_supported"} {
		if meta[name] != nil {
			t.Errorf("%s is advertised", name)
		}
	}
	if meta["claims_parameter_supported"] != true {
		t.Error("claims_parameter_supported is not advertised")
	}
}

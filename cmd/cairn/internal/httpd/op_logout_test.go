package httpd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// Modules of the RP-initiated logout plan.

const afterLogout = "https://app.example.org/signed-out"

// logoutCase is a signed-in browser with tokens of a client.
type logoutCase struct {
	*service
	t       *testing.T
	rp      *relyingParty
	browser *browser
	hint    string
}

func newLogoutCase(t *testing.T) *logoutCase {
	t.Helper()
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", func(c *provider.Client) { c.PostLogoutRedirectURIs = []string{afterLogout, afterLogout + "?tenant=1"} }))
	b, token := s.signedInTokens(rp, "ada")
	hint, _ := token.Extra("id_token").(string)
	return &logoutCase{service: s, t: t, rp: rp, browser: b, hint: hint}
}

func (c *logoutCase) logout(pairs ...string) response {
	c.t.Helper()
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return c.browser.get("/oauth2/logout?" + q.Encode())
}

func (c *logoutCase) signedOut() bool {
	c.t.Helper()
	got := c.browser.authorize(c.rp.authURL("prompt", "none"), "ada")
	switch got.Get("error") {
	case "login_required":
		return true
	case "":
		return false
	}
	c.t.Fatalf("prompt=none: %v", got)
	return false
}

// confirm presses the button of the confirmation page.
func (c *logoutCase) confirm(got response) response {
	c.t.Helper()
	if pageName(c.t, got.Text) != "logout" {
		c.t.Fatalf("%d page %q", got.StatusCode, pageName(c.t, got.Text))
	}
	f := pageForm(c.t, got.Text)
	return c.browser.postForm(f.action, f.values)
}

func TestOP_oidcc_rp_initiated_logout(t *testing.T) {
	c := newLogoutCase(t)
	got := c.logout("id_token_hint", c.hint, "post_logout_redirect_uri", afterLogout, "state", "s-0123456789 ~.-_")
	want := afterLogout + "?" + url.Values{"state": {"s-0123456789 ~.-_"}}.Encode()
	if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != want {
		t.Errorf("%d to %s, want %s", got.StatusCode, got.Header.Get("Location"), want)
	}
	if !c.signedOut() || c.browser.cookie("cairn_session") != "" {
		t.Error("still signed in")
	}
}

func TestOP_oidcc_rp_initiated_logout_no_state(t *testing.T) {
	c := newLogoutCase(t)
	got := c.logout("id_token_hint", c.hint, "post_logout_redirect_uri", afterLogout)
	if got.Header.Get("Location") != afterLogout || !c.signedOut() {
		t.Errorf("%d to %s", got.StatusCode, got.Header.Get("Location"))
	}
}

// The modules that end on a page and never at an address that was not proven.
func TestOP_oidcc_rp_initiated_logout_never_redirects(t *testing.T) {
	for name, pairs := range map[string]func(c *logoutCase) []string{
		"bad_post_logout_redirect_uri": func(c *logoutCase) []string {
			return []string{"id_token_hint", c.hint, "post_logout_redirect_uri", "https://evil.example/", "state", "x"}
		},
		"query_added_to_post_logout_redirect_uri": func(c *logoutCase) []string {
			return []string{"id_token_hint", c.hint, "post_logout_redirect_uri", afterLogout + "?foo=bar"}
		},
		"modified_id_token_hint": func(c *logoutCase) []string {
			return []string{"id_token_hint", unsigned(c.hint), "post_logout_redirect_uri", afterLogout}
		},
		"bad_id_token_hint": func(c *logoutCase) []string {
			return []string{"id_token_hint", symmetric(t, c.URL, c.rp.config.ClientSecret), "post_logout_redirect_uri", afterLogout}
		},
		"session_cookie_as_hint": func(c *logoutCase) []string {
			return []string{"id_token_hint", c.browser.cookie("cairn_session"), "post_logout_redirect_uri", afterLogout}
		},
		"no_id_token_hint": func(*logoutCase) []string { return []string{"post_logout_redirect_uri", afterLogout} },
		"client_id_alone": func(*logoutCase) []string {
			return []string{"client_id", "app", "post_logout_redirect_uri", afterLogout}
		},
		"another_client_id": func(c *logoutCase) []string {
			return []string{"client_id", "other", "id_token_hint", c.hint, "post_logout_redirect_uri", afterLogout}
		},
		"no_params":  func(*logoutCase) []string { return nil },
		"only_state": func(*logoutCase) []string { return []string{"state", "x"} },
		"garbage": func(*logoutCase) []string {
			return []string{"id_token_hint", "a.b.c", "post_logout_redirect_uri", "javascript:alert(1)"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLogoutCase(t)
			c.t = t
			got := c.logout(pairs(c)...)
			if got.Header.Get("Location") != "" || c.signedOut() {
				t.Fatalf("without a word of the user: %d to %q", got.StatusCode, got.Header.Get("Location"))
			}
			after := c.confirm(got)
			if after.StatusCode != http.StatusOK || after.Header.Get("Location") != "" || pageName(t, after.Text) != "signed-out" || !c.signedOut() {
				t.Errorf("confirmed: %d to %q", after.StatusCode, after.Header.Get("Location"))
			}
		})
	}
}

func TestOP_oidcc_rp_initiated_logout_no_post_logout_redirect_uri(t *testing.T) {
	c := newLogoutCase(t)
	got := c.logout("id_token_hint", c.hint, "state", "x")
	if got.StatusCode != http.StatusOK || pageName(t, got.Text) != "signed-out" || !c.signedOut() {
		t.Errorf("%d page %q", got.StatusCode, pageName(t, got.Text))
	}
}

// What is invalid is said, with the choice to sign out here; without a session
// there is nothing to sign out of.
func TestInvalidLogoutRequestSaysWhatIsInvalid(t *testing.T) {
	c := newLogoutCase(t)
	for _, bad := range []struct{ says, hint, uri, clientID string }{
		{"id_token_hint", unsigned(c.hint), afterLogout, ""},
		{"id_token_hint", symmetric(t, c.URL, c.rp.config.ClientSecret), afterLogout, ""},
		{"id_token_hint", c.browser.cookie("cairn_session"), "", ""},
		{"post_logout_redirect_uri", c.hint, "https://evil.example/", ""},
		{"post_logout_redirect_uri", c.hint, afterLogout + "?foo=bar", ""},
		{"post_logout_redirect_uri", "", afterLogout + "/", "app"},
		{"post_logout_redirect_uri", "", "https://evil.example/", ""},
		{"client_id", c.hint, afterLogout, "other"},
		{"client_id", "", afterLogout, "unknown"},
	} {
		pairs := []string{"id_token_hint", bad.hint, "post_logout_redirect_uri", bad.uri, "client_id", bad.clientID, "state", "s"}
		here, nobody := c.logout(pairs...), logoutCase{t: t, browser: c.service.browser()}
		elsewhere := nobody.logout(pairs...)
		for _, got := range []response{here, elsewhere} {
			if got.StatusCode != http.StatusBadRequest || got.Header.Get("Location") != "" || !strings.Contains(got.Text, `role="alert"`) || !strings.Contains(got.Text, bad.says) {
				t.Errorf("%.60s: %d: %s", fmt.Sprint(bad), got.StatusCode, mainOf(got.Text))
			}
		}
		if !strings.Contains(here.Text, "Sign out here") || !strings.Contains(elsewhere.Text, "You are not signed in") {
			t.Errorf("%.60s: no choice to sign out here, or one without a session", fmt.Sprint(bad))
		}
	}
	if c.signedOut() {
		t.Error("a request that is not valid has signed out")
	}
}

func TestLogoutWithoutASessionSaysSo(t *testing.T) {
	c := newLogoutCase(t)
	b := logoutCase{t: t, browser: c.service.browser()}
	for _, got := range []response{b.logout(), b.logout("state", "x"), b.logout("id_token_hint", c.hint), b.browser.postForm("/logout/", nil)} {
		if got.StatusCode != http.StatusOK || !strings.Contains(got.Text, "You are not signed in") {
			t.Errorf("%s: %d %s", got.Request.URL.Path, got.StatusCode, mainOf(got.Text))
		}
	}
	// A genuine hint and a registered address still lead back.
	if got := b.logout("id_token_hint", c.hint, "post_logout_redirect_uri", afterLogout, "state", "x"); got.Header.Get("Location") != afterLogout+"?state=x" {
		t.Errorf("%d to %q", got.StatusCode, got.Header.Get("Location"))
	}
}

// Without a hint a person confirms first; then the page names the application
// and leads to its registered address, with state, and nowhere else.
func TestConfirmedLogoutLeadsBackToTheApplication(t *testing.T) {
	for name, k := range map[string]struct {
		back, label string
		pairs       []string
	}{
		"client_id":       {afterLogout + "?state=a%26b", "Back to <bdi>App app</bdi>", []string{"client_id", "app", "post_logout_redirect_uri", afterLogout, "state", "a&b"}},
		"unregistered":    {"", "", []string{"client_id", "app", "post_logout_redirect_uri", "https://evil.example/"}},
		"nobody says who": {afterLogout + "?state=s", "Back to <bdi>App app</bdi>", []string{"post_logout_redirect_uri", afterLogout, "state", "s"}},
		"nothing":         {"", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLogoutCase(t)
			c.t = t
			after := c.confirm(c.logout(k.pairs...))
			back := elementByID(t, after.Text, "signed-out-back")
			if (k.back == "") != (back == nil) || back != nil && attribute(back, "href") != k.back || !strings.Contains(after.Text, k.label) || !c.signedOut() {
				t.Errorf("want a way back to %q: %s", k.back, mainOf(after.Text))
			}
			if strings.Count(after.Text, "Sign in again") != 1 {
				t.Error("two buttons to sign in again, or none")
			}
		})
	}
}

// An ID token lives an hour, a session 30 days: an expired hint is still one.
func TestExpiredHintIsNeverRefusedAtLogout(t *testing.T) {
	c := newLogoutCase(t)
	keys, err := config.LoadSigningKeys(c.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	claims := jwtPayload(t, c.hint)
	claims["iat"], claims["exp"] = time.Now().Add(-48*time.Hour).Unix(), time.Now().Add(-47*time.Hour).Unix()
	sign := func(typ string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: keys[0]}, (&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	// A logout token is signed with the same key and is no hint.
	if got := c.logout("id_token_hint", sign("logout+jwt"), "post_logout_redirect_uri", afterLogout); got.Header.Get("Location") != "" || c.signedOut() {
		t.Errorf("logout token as hint: %d", got.StatusCode)
	}
	if got := c.logout("id_token_hint", sign("JWT"), "post_logout_redirect_uri", afterLogout); got.Header.Get("Location") != afterLogout || !c.signedOut() {
		t.Errorf("expired hint: %d to %q", got.StatusCode, got.Header.Get("Location"))
	}
}

// Another person's hint must not sign this one out, nor lead the browser away.
func TestHintOfSomebodyElseNeverSignsOut(t *testing.T) {
	c := newLogoutCase(t)
	c.addUser("eve")
	_, token := c.signedInTokens(c.rp, "eve")
	hint, _ := token.Extra("id_token").(string)
	got := c.logout("id_token_hint", hint, "post_logout_redirect_uri", afterLogout)
	if got.Header.Get("Location") != "" || got.StatusCode != http.StatusBadRequest || !strings.Contains(got.Text, "another account") || c.signedOut() {
		t.Errorf("%d to %q: %s", got.StatusCode, got.Header.Get("Location"), mainOf(got.Text))
	}
}

func TestLogoutFormOfAnotherSessionNeverCounts(t *testing.T) {
	c := newLogoutCase(t)
	c.addUser("eve")
	eve := c.service.browser()
	eve.signIn("eve")
	form := pageForm(t, eve.get("/oauth2/logout").Text)
	if got := c.browser.postForm(form.action, form.values); got.StatusCode != http.StatusForbidden || c.signedOut() {
		t.Errorf("another session's form: %d", got.StatusCode)
	}
	// A POST of another site reaches the confirmation page at most.
	got := c.browser.postForm("/oauth2/logout", url.Values{"state": {"x"}}, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")
	if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/logout?") || c.signedOut() {
		t.Errorf("cross-site POST: %d %q", got.StatusCode, got.Header.Get("Location"))
	}
	if got := c.browser.get("/oauth2/logout?state=a&state=b"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a parameter twice: %d", got.StatusCode)
	}
}

// unsigned makes the token one of alg none.
func unsigned(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + payload + "."
}

// symmetric is a hint signed with the client's secret.
func symmetric(t *testing.T, issuer, secret string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(secret)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(map[string]any{"iss": "app", "aud": issuer, "sub": "ada", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

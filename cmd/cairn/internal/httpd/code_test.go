package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

// tokenRequest posts a form to the token endpoint with basic authentication.
func (s *service) tokenRequest(id, secret string, form url.Values) response {
	s.t.Helper()
	header := []string{}
	if secret != "" {
		r, _ := http.NewRequest(http.MethodPost, s.URL, nil)
		r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		header = append(header, "Authorization", r.Header.Get("Authorization"))
	} else {
		form.Set("client_id", id)
	}
	return s.browser().do(http.MethodPost, "/oauth2/token", "application/x-www-form-urlencoded", form.Encode(), header...)
}

// codeForm is the exchange of a code as the client would do it.
func (rp *relyingParty) codeForm(code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {rp.config.RedirectURL}, "code_verifier": {rp.verifier}}
}

func wantOAuthError(t *testing.T, what string, got response, status int, name string) {
	t.Helper()
	if got.StatusCode != status || got.JSON(t)["error"] != name {
		t.Errorf("%s: %d %s, want %d %s", what, got.StatusCode, strings.TrimSpace(got.Text), status, name)
	}
	if cc := got.Header.Get("Cache-Control"); cc != "no-store" {
		t.Errorf("%s: Cache-Control %q", what, cc)
	}
}

func (s *service) userinfoStatus(token string) int {
	s.t.Helper()
	return s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token).StatusCode
}

// Pitfalls 2 and 3: the winner takes all, the losers get invalid_grant, never
// a 500.
func TestCodeIsNeverSpentTwiceByParallelRequests(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	for range 5 {
		code := b.authorize(rp.authURL(), "ada").Get("code")
		answers := make([]response, 16)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = s.tokenRequest("app", secret, rp.codeForm(code)) })
		}
		wg.Wait()
		won := 0
		for _, a := range answers {
			if a.StatusCode == http.StatusOK {
				won++
				continue
			}
			wantOAuthError(t, "loser", a, http.StatusBadRequest, "invalid_grant")
		}
		if won != 1 {
			t.Fatalf("%d of 16 exchanges won", won)
		}
	}
}

// Pitfalls 4 and 10 of reuse: what the code gave is taken back.
func TestReplayedCodeNeverLeavesItsTokensAlive(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	first := s.tokenRequest("app", secret, rp.codeForm(code)).JSON(t)
	wantOAuthError(t, "replay", s.tokenRequest("app", secret, rp.codeForm(code)), http.StatusBadRequest, "invalid_grant")
	if got := s.userinfoStatus(first["access_token"].(string)); got != http.StatusUnauthorized {
		t.Errorf("access token after the replay: %d", got)
	}
	got := s.tokenRequest("app", secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {first["refresh_token"].(string)}})
	wantOAuthError(t, "refresh after the replay", got, http.StatusBadRequest, "invalid_grant")
}

// Pitfall 1: fosite deletes the challenge before it checks the verifier.
func TestWrongVerifierNeverOpensTheWayForNone(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	code := b.authorize(rp.authURL(), "ada").Get("code")
	form := rp.codeForm(code)
	for _, verifier := range []string{strings.Repeat("x", 43), strings.Repeat("x", 42), strings.Repeat("x", 129), "", "+/=" + strings.Repeat("x", 43), "é" + strings.Repeat("x", 43)} {
		form.Set("code_verifier", verifier)
		wantOAuthError(t, "verifier "+verifier, s.tokenRequest("app", secret, form), http.StatusBadRequest, "invalid_grant")
	}
	form.Del("code_verifier")
	wantOAuthError(t, "no verifier", s.tokenRequest("app", secret, form), http.StatusBadRequest, "invalid_grant")
	// A verifier for a code that had no challenge is refused too.
	code = b.authorize(rp.authURL("code_challenge", "", "code_challenge_method", ""), "ada").Get("code")
	wantOAuthError(t, "verifier without challenge", s.tokenRequest("app", secret, rp.codeForm(code)), http.StatusBadRequest, "invalid_grant")
}

// Pitfall 40, and plain.
func TestWeakCodeChallengeNeverGetsACode(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.signIn("ada")
	for name, change := range map[string][]string{
		"plain":            {"code_challenge_method", "plain"},
		"no method":        {"code_challenge_method", ""},
		"unknown":          {"code_challenge_method", "S512"},
		"short challenge":  {"code_challenge", "abc"},
		"method alone":     {"code_challenge", ""},
		"wrong characters": {"code_challenge", strings.Repeat("+", 43)},
	} {
		if got := b.authorize(rp.authURL(change...), "ada"); got.Get("error") != "invalid_request" || got.Get("code") != "" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Pitfall 9: a client that authenticates as itself presents another's code or
// refresh token; the owner keeps its grant.
func TestForeignClientNeverEndsOrTakesAGrant(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	mine, evil := s.addClient("mine", nil), s.addClient("evil", nil)
	s.addClient("public", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	rp := s.relyingParty("mine", mine)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	wantOAuthError(t, "code at another client", s.tokenRequest("evil", evil, rp.codeForm(code)), http.StatusBadRequest, "invalid_grant")
	wantOAuthError(t, "code at a public client", s.tokenRequest("public", "", rp.codeForm(code)), http.StatusBadRequest, "invalid_grant")
	tokens := s.tokenRequest("mine", mine, rp.codeForm(code)).JSON(t)
	refresh := func(id, secret, token string) response {
		return s.tokenRequest(id, secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
	}
	second := refresh("mine", mine, tokens["refresh_token"].(string)).JSON(t)
	wantOAuthError(t, "used code at another client", s.tokenRequest("evil", evil, rp.codeForm(code)), http.StatusBadRequest, "invalid_grant")
	wantOAuthError(t, "rotated token at another client", refresh("evil", evil, tokens["refresh_token"].(string)), http.StatusBadRequest, "invalid_grant")
	wantOAuthError(t, "live token at another client", refresh("evil", evil, second["refresh_token"].(string)), http.StatusBadRequest, "invalid_grant")
	if got := s.userinfoStatus(second["access_token"].(string)); got != http.StatusOK {
		t.Errorf("the owner's access token: %d", got)
	}
	if got := refresh("mine", mine, second["refresh_token"].(string)); got.StatusCode != http.StatusOK {
		t.Errorf("the owner's refresh: %d %s", got.StatusCode, got.Text)
	}
}

func TestRedirectURIOfTheExchangeIsNeverAnother(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", func(c *provider.Client) { c.RedirectURIs = append(c.RedirectURIs, "https://app.example.org/other") })
	rp := s.relyingParty("app", secret)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	form := rp.codeForm(code)
	for _, uri := range []string{"https://app.example.org/other", "", callbackOf("app") + "/"} {
		form.Set("redirect_uri", uri)
		wantOAuthError(t, "redirect_uri "+uri, s.tokenRequest("app", secret, form), http.StatusBadRequest, "invalid_grant")
	}
	form.Del("redirect_uri")
	wantOAuthError(t, "no redirect_uri", s.tokenRequest("app", secret, form), http.StatusBadRequest, "invalid_grant")
}

// Pitfall 6: a malformed code has no signature; it must match no row.
func TestMalformedCodeNeverMatchesAnything(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	_, token := s.signedInTokens(rp, "ada")
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	key, sig, _ := strings.Cut(code, ".")
	for _, bad := range []string{"", "a", "a.b", "a.b.c", ".", "." + sig, key + ".", key, "x." + sig, code + "x", code[:len(code)-1], "' OR 1=1 --", "a\x00b.c", strings.Repeat("a", 20000)} {
		got := s.tokenRequest("app", secret, rp.codeForm(bad))
		if got.StatusCode != http.StatusBadRequest {
			t.Errorf("code %.30q: %d %s", bad, got.StatusCode, got.Text)
		}
	}
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusOK {
		t.Errorf("a bystander's token: %d", got)
	}
	if got := s.tokenRequest("app", secret, rp.codeForm(code)); got.StatusCode != http.StatusOK {
		t.Errorf("the genuine code afterwards: %d %s", got.StatusCode, got.Text)
	}
}

// Pitfalls 49 and 50.
func TestRotatedRefreshTokenNeverLeavesTheFamilyAlive(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	_, token := s.signedInTokens(rp, "ada")
	refresh := func(token string) response {
		return s.tokenRequest("app", secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
	}
	second := refresh(token.RefreshToken).JSON(t)
	wantOAuthError(t, "reuse", refresh(token.RefreshToken), http.StatusBadRequest, "invalid_grant")
	wantOAuthError(t, "successor after reuse", refresh(second["refresh_token"].(string)), http.StatusBadRequest, "invalid_grant")
	if got := s.userinfoStatus(second["access_token"].(string)); got != http.StatusUnauthorized {
		t.Errorf("access token after reuse: %d", got)
	}
	_, token = s.signedInTokens(rp, "ada")
	won := make(chan int, 16)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { won <- refresh(token.RefreshToken).StatusCode })
	}
	wg.Wait()
	close(won)
	winners := 0
	for code := range won {
		switch code {
		case http.StatusOK:
			winners++
		case http.StatusBadRequest:
		default:
			t.Errorf("parallel refresh: %d", code)
		}
	}
	if winners > 1 {
		t.Errorf("%d parallel refreshes won", winners)
	}
}

// Pitfall 29: fosite ignores scope at a refresh.
func TestRefreshNeverWidensTheScope(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret, "openid", "offline_access")
	_, token := s.signedInTokens(rp, "ada")
	got := s.tokenRequest("app", secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}, "scope": {"openid profile"}})
	wantOAuthError(t, "wider", got, http.StatusBadRequest, "invalid_scope")
	got = s.tokenRequest("app", secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}, "scope": {"openid"}})
	if got.StatusCode != http.StatusOK {
		t.Errorf("within the grant: %d %s", got.StatusCode, got.Text)
	}
}

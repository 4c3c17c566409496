package httpd

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

func challengeOf(verifier string) string {
	h := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(h[:])
}

// Attacks 33 to 35 and 38: only the verifier itself, in the length and
// characters of RFC 7636, and a wrong one opens nothing for the next.
func TestVerifierIsNeverAnythingElse(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	rp := s.relyingParty("phone", "")
	b := s.browser()
	challenge := challengeOf(rp.verifier)
	code := b.authorize(rp.authURL(), "ada").Get("code")
	for name, verifier := range map[string]string{
		"challenge as verifier": challenge, "first half": rp.verifier[:len(rp.verifier)-1], "longer": rp.verifier + "A", "upper case": strings.ToUpper(rp.verifier), "blank": "", "blanks": strings.Repeat(" ", 43),
		"line end": rp.verifier + "\n", "NUL": rp.verifier + "\x00", "another": strings.Repeat("A", 43), "hash of the challenge": challengeOf(challenge),
	} {
		form := rp.codeForm(code)
		form.Set("code_verifier", verifier)
		wantOAuthError(t, name, s.tokenRequest("phone", "", form), http.StatusBadRequest, "invalid_grant")
		form.Del("code_verifier")
		wantOAuthError(t, name+", then none", s.tokenRequest("phone", "", form), http.StatusBadRequest, "invalid_grant")
		form.Set("code_challenge", challengeOf(verifier))
		form.Set("code_challenge_method", "plain")
		form.Set("code_verifier", verifier)
		wantOAuthError(t, name+", with a challenge of its own", s.tokenRequest("phone", "", form), http.StatusBadRequest, "invalid_grant")
	}
	if got := s.tokenRequest("phone", "", rp.codeForm(code)); got.StatusCode != http.StatusOK {
		t.Errorf("the verifier itself: %d %s", got.StatusCode, got.Text)
	}
	for verifier, want := range map[string]int{
		strings.Repeat("v", 43): 200, strings.Repeat("v", 128): 200, strings.Repeat("-._~", 11): 200, strings.Repeat("v", 42): 400, strings.Repeat("v", 129): 400, strings.Repeat("v", 42) + "+": 400, strings.Repeat("v", 42) + "/": 400,
		strings.Repeat("v", 42) + "=": 400, strings.Repeat("v", 42) + "é": 400, strings.Repeat("v", 42) + "\u0131": 400, strings.Repeat("v", 42) + "%": 400,
	} {
		rp.verifier = verifier
		got := s.tokenRequest("phone", "", rp.codeForm(b.authorize(rp.authURL("code_challenge", challengeOf(verifier)), "ada").Get("code")))
		if got.StatusCode != want {
			t.Errorf("verifier of %d bytes ending in %q: %d %s", len(verifier), verifier[len(verifier)-2:], got.StatusCode, got.Text)
		}
	}
}

// Attacks 36 and 37 for every kind of client: who must use PKCE does, and a
// challenge that is there is a good one.
func TestRequiredChallengeIsNeverLeftOut(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	strict := s.addClient("strict", func(c *provider.Client) { c.RequirePKCE = true })
	open := s.addClient("open", nil)
	b := s.browser()
	b.signIn("ada")
	good := challengeOf(strings.Repeat("v", 43))
	for _, c := range []struct {
		id, secret string
		free       bool // may do without
	}{{"phone", "", false}, {"strict", strict, false}, {"open", open, true}} {
		rp := s.relyingParty(c.id, c.secret)
		without := b.authorize(rp.authURL("code_challenge", "", "code_challenge_method", ""), "ada")
		if (without.Get("code") != "") != c.free || !c.free && without.Get("error") != "invalid_request" {
			t.Errorf("%s without a challenge: %v", c.id, without)
		}
		if c.free {
			form := rp.codeForm(without.Get("code"))
			for _, verifier := range []string{strings.Repeat("v", 43), "x"} {
				form.Set("code_verifier", verifier)
				wantOAuthError(t, "verifier without a challenge", s.tokenRequest(c.id, c.secret, form), http.StatusBadRequest, "invalid_grant")
			}
		}
		for name, pair := range map[string][2]string{
			"plain": {good, "plain"}, "no method": {good, ""}, "lower case": {good, "s256"}, "two methods": {good, "S256 plain"}, "none": {good, "none"}, "method alone": {"", "S256"}, "42 characters": {good[:42], "S256"}, "44 characters": {good + "A", "S256"}, "padding": {good[:42] + "=", "S256"}, "blank": {" ", "S256"},
			"standard alphabet": {"+" + good[1:], "S256"}, "line end": {good + "\n", "S256"}, "128 characters": {strings.Repeat("a", 128), "S256"},
		} {
			if got := b.authorize(rp.authURL("code_challenge", pair[0], "code_challenge_method", pair[1]), "ada"); got.Get("error") != "invalid_request" || got.Has("code") {
				t.Errorf("%s, %s: %v", c.id, name, got)
			}
		}
	}
}

// Attacks 53 and 54: nothing, garbage, the wrong scheme and the wrong place.
func TestUserinfoNeverTakesATokenFromElsewhere(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b, token := s.signedInTokens(rp, "ada")
	access := token.AccessToken
	form := url.Values{"access_token": {access}}
	for name, c := range map[string]struct {
		got  response
		want int
	}{
		"nothing but the cookie": {b.get("/oauth2/userinfo"), 401}, "empty header": {b.get("/oauth2/userinfo", "Authorization", ""), 401}, "scheme alone": {b.get("/oauth2/userinfo", "Authorization", "Bearer"), 401},
		"scheme and blank": {b.get("/oauth2/userinfo", "Authorization", "Bearer "), 401}, "basic": {b.get("/oauth2/userinfo", "Authorization", "Basic "+access), 401}, "token scheme": {b.get("/oauth2/userinfo", "Authorization", "Token "+access), 401},
		"DPoP": {b.get("/oauth2/userinfo", "Authorization", "DPoP "+access), 401}, "no scheme": {b.get("/oauth2/userinfo", "Authorization", access), 401}, "two tokens": {b.get("/oauth2/userinfo", "Authorization", "Bearer "+access+" "+access), 401},
		"joined": {b.get("/oauth2/userinfo", "Authorization", "Bearer x, Bearer "+access), 401}, "5 kB": {b.get("/oauth2/userinfo", "Authorization", "Bearer "+strings.Repeat("x", 5000)), 400}, "other header": {b.get("/oauth2/userinfo", "X-Access-Token", access), 401},
		"query": {b.get("/oauth2/userinfo?access_token=" + access), 400}, "query beside the header": {b.get("/oauth2/userinfo?access_token="+access, "Authorization", "Bearer "+access), 400}, "query of a POST": {b.postForm("/oauth2/userinfo?access_token="+access, url.Values{}), 400},
		"body of a GET": {b.do("GET", "/oauth2/userinfo", "application/x-www-form-urlencoded", form.Encode()), 401}, "JSON body": {b.do("POST", "/oauth2/userinfo", "application/json", `{"access_token":"`+access+`"}`), 401},
		"multipart": {b.do("POST", "/oauth2/userinfo", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"access_token\"\r\n\r\n"+access+"\r\n--x--\r\n"), 401}, "100 kB": {b.postForm("/oauth2/userinfo", url.Values{"x": {strings.Repeat("x", 100<<10)}}), 400},
	} {
		challenge := c.got.Header.Get("WWW-Authenticate")
		if c.got.StatusCode != c.want || !strings.HasPrefix(challenge, "Bearer ") || strings.Contains(c.got.Text, "ada") {
			t.Errorf("%s: %d %q %.200s", name, c.got.StatusCode, challenge, c.got.Text)
		}
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "TRACE"} {
		if got := b.do(method, "/oauth2/userinfo", "", "", "Authorization", "Bearer "+access); got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, got.StatusCode)
		}
	}
}

// Pitfall 42: a client that was just added works at once, also for who asked
// too early.
func TestUnknownClientIsNeverRemembered(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("late", "secret-of-late-0123456789abcdefghij")
	b := s.browser()
	wantPage(t, "before", b.get(rp.authURL()), http.StatusBadRequest)
	wantOAuthError(t, "before", s.tokenRequest("late", rp.config.ClientSecret, rp.codeForm("x")), http.StatusUnauthorized, "invalid_client")
	if secret := s.addClient("late", nil); secret != rp.config.ClientSecret {
		t.Fatal("another secret")
	}
	if _, err := rp.exchange(b.authorize(rp.authURL(), "ada").Get("code")); err != nil {
		t.Error(err)
	}
}

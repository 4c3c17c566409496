package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// clientPost posts a form to an endpoint for clients: with basic
// authentication, or with the id alone where there is no secret.
func (s *service) clientPost(endpoint, id, secret string, form url.Values, header ...string) response {
	s.t.Helper()
	sent := url.Values{}
	for name, values := range form {
		sent[name] = values
	}
	if secret != "" {
		r, _ := http.NewRequest(http.MethodPost, s.URL, nil)
		r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		header = append([]string{"Authorization", r.Header.Get("Authorization")}, header...)
	} else if id != "" {
		sent.Set("client_id", id)
	}
	return s.browser().do(http.MethodPost, "/oauth2/"+endpoint, "application/x-www-form-urlencoded", sent.Encode(), header...)
}

func wantRevoked(t *testing.T, what string, got response) {
	t.Helper()
	if got.StatusCode != http.StatusOK || got.Text != "" || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: %d %s, Cache-Control %q", what, got.StatusCode, got.Text, got.Header.Get("Cache-Control"))
	}
}

func (s *service) revoke(id, secret, token string) response {
	s.t.Helper()
	return s.clientPost("revoke", id, secret, url.Values{"token": {token}})
}

func TestRevokedTokenNeverWorksAgain(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	for name, c := range map[string]struct {
		id, secret, hint string
		refresh          bool
	}{
		"access": {"app", secret, "", false}, "refresh": {"app", secret, "", true}, "access, right hint": {"app", secret, "access_token", false}, "refresh, right hint": {"app", secret, "refresh_token", true},
		"access, wrong hint": {"app", secret, "refresh_token", false}, "refresh, wrong hint": {"app", secret, "access_token", true}, "unknown hint": {"app", secret, "pat", true}, "public client": {"phone", "", "", true},
	} {
		_, token := s.signedInTokens(s.relyingParty(c.id, c.secret), "ada")
		form := url.Values{"token": {token.AccessToken}}
		if c.refresh {
			form.Set("token", token.RefreshToken)
		}
		if c.hint != "" {
			form.Set("token_type_hint", c.hint)
		}
		wantRevoked(t, name, s.clientPost("revoke", c.id, c.secret, form))
		if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("%s: userinfo afterwards: %d", name, got)
		}
		wantOAuthError(t, name+": refresh afterwards", s.refreshRequest(c.id, c.secret, token.RefreshToken), http.StatusBadRequest, "invalid_grant")
		wantRevoked(t, name+", again", s.clientPost("revoke", c.id, c.secret, form))
	}
}

// A client that signs out late presents what it still has.
func TestExpiredOrRotatedTokenNeverKeepsItsGrantAlive(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	_, token := s.signedInTokens(rp, "ada")
	db.exec("UPDATE tokens SET expires_at = 1 WHERE kind = 'a'")
	wantRevoked(t, "expired", s.revoke("app", secret, token.AccessToken))
	wantOAuthError(t, "refresh", s.refreshRequest("app", secret, token.RefreshToken), http.StatusBadRequest, "invalid_grant")
	_, token = s.signedInTokens(rp, "ada")
	second := s.refreshRequest("app", secret, token.RefreshToken).JSON(t)
	wantRevoked(t, "rotated", s.revoke("app", secret, token.RefreshToken))
	if got := s.userinfoStatus(second["access_token"].(string)); got != http.StatusUnauthorized {
		t.Errorf("userinfo of the successor: %d", got)
	}
}

func TestRevocationNeverEndsWhatIsNotTheClientsOwn(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret, evil := s.addClient("app", nil), s.addClient("evil", nil)
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	idToken, _ := token.Extra("id_token").(string)
	key, sig, _ := strings.Cut(token.AccessToken, ".")
	for name, presented := range map[string]string{"access token": token.AccessToken, "refresh token": token.RefreshToken} {
		wantRevoked(t, name+" at another client", s.revoke("evil", evil, presented))
		wantRevoked(t, name+" at a public client", s.revoke("phone", "", presented))
	}
	for name, presented := range map[string]string{
		"garbage": "x", "long": strings.Repeat("x", 20000), "SQL": "' OR 1=1 --", "NUL": "\x00", "forged key half": strings.Repeat("A", len(key)) + "." + sig, "signature half": "." + sig, "key half": key,
		"code": code, "ID token": idToken, "session cookie": b.cookie("cairn_session"), "longer": token.AccessToken + "A",
	} {
		wantRevoked(t, name, s.revoke("app", secret, presented))
	}
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusOK {
		t.Errorf("the owner's access token: %d", got)
	}
	if got := s.refreshRequest("app", secret, token.RefreshToken); got.StatusCode != http.StatusOK {
		t.Errorf("the owner's refresh token: %d %s", got.StatusCode, got.Text)
	}
	if _, err := rp.exchange(code); err != nil {
		t.Errorf("the code: %v", err)
	}
}

func TestEndpointForClientsNeverAnswersStrangersOrOtherRequests(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	_, token := s.signedInTokens(s.relyingParty("app", secret), "ada")
	form := url.Values{"token": {token.RefreshToken}}
	for _, endpoint := range []string{"revoke", "introspect", "par"} {
		for name, got := range map[string]response{
			"wrong secret": s.clientPost(endpoint, "app", "x", form), "no secret": s.clientPost(endpoint, "app", "", form), "unknown client": s.clientPost(endpoint, "nobody", "x", form),
			"nobody": s.clientPost(endpoint, "", "", form), "a secret for a public client": s.clientPost(endpoint, "phone", "x", form), "bearer": s.clientPost(endpoint, "", "", form, "Authorization", "Bearer "+token.AccessToken),
		} {
			wantOAuthError(t, endpoint+": "+name, got, http.StatusUnauthorized, "invalid_client")
			if !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s: %s: WWW-Authenticate %q", endpoint, name, got.Header.Get("WWW-Authenticate"))
			}
		}
		b, path := s.browser(), "/oauth2/"+endpoint
		r, _ := http.NewRequest(http.MethodPost, s.URL, nil)
		r.SetBasicAuth("app", secret)
		auth := r.Header.Get("Authorization")
		for name, got := range map[string]response{
			"no token": b.do("POST", path, "application/x-www-form-urlencoded", "x=y", "Authorization", auth), "empty token": b.do("POST", path, "application/x-www-form-urlencoded", "token=", "Authorization", auth),
			"twice": b.do("POST", path, "application/x-www-form-urlencoded", "token=a&token=b", "Authorization", auth), "JSON": b.do("POST", path, "application/json", `{"token":"a"}`, "Authorization", auth),
			"query": b.do("POST", path+"?token="+token.RefreshToken, "application/x-www-form-urlencoded", "", "Authorization", auth), "both": b.do("POST", path+"?token="+token.RefreshToken, "application/x-www-form-urlencoded", form.Encode(), "Authorization", auth),
			"bad escape": b.do("POST", path, "application/x-www-form-urlencoded", "token=%zz", "Authorization", auth), "no type": b.do("POST", path, "", form.Encode(), "Authorization", auth),
		} {
			wantOAuthError(t, endpoint+": "+name, got, http.StatusBadRequest, "invalid_request")
		}
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			got := b.do(method, path+"?token="+token.RefreshToken, "", "", "Authorization", auth)
			wantOAuthError(t, endpoint+": "+method, got, http.StatusMethodNotAllowed, "invalid_request")
			if got.Header.Get("Allow") != "POST" {
				t.Errorf("%s: %s: Allow %q", endpoint, method, got.Header.Get("Allow"))
			}
		}
		wantOAuthError(t, endpoint+": large", b.do("POST", path, "application/x-www-form-urlencoded", "token="+strings.Repeat("a", 100<<10), "Authorization", auth), http.StatusRequestEntityTooLarge, "invalid_request")
	}
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusOK {
		t.Errorf("the token after all that: %d", got)
	}
}

// RFC 7009 section 2.2.1: 200 would make the client forget a token that lives.
func TestFailedRevocationIsNeverToldAsDone(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	_, token := s.signedInTokens(s.relyingParty("app", secret), "ada")
	mend := db.breaks("UPDATE OF revoked_at ON grants")
	wantUnavailable(t, "revoke", s.revoke("app", secret, token.RefreshToken))
	mend()
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusOK {
		t.Errorf("the token lives: %d", got)
	}
	wantRevoked(t, "afterwards", s.revoke("app", secret, token.RefreshToken))
	_, token = s.signedInTokens(s.relyingParty("app", secret), "ada")
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"token": {token.RefreshToken}}
	wantUnavailable(t, "revoke", s.clientPost("revoke", "app", secret, form))
	wantUnavailable(t, "introspect", s.clientPost("introspect", "app", secret, form))
	wantUnavailable(t, "client that is not in memory", s.clientPost("introspect", "strange", "x", form))
}

// The limit of the token endpoint is that of its sisters too.
func TestClientEndpointsAreNeverWithoutALimit(t *testing.T) {
	for _, endpoint := range []string{"revoke", "introspect", "par"} {
		s := startService(t, serviceOptions{Limits: true, Settings: func(c *config.Settings) { c.RateLimits = append(c.RateLimits, "token=3/1h") }})
		for range 3 {
			s.clientPost("token", "app", "x", url.Values{"grant_type": {"refresh_token"}})
		}
		got := s.clientPost(endpoint, "app", "x", url.Values{"token": {"x"}})
		wantOAuthError(t, endpoint, got, http.StatusTooManyRequests, "slow_down")
		if got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", endpoint)
		}
	}
}

// A page of another site may revoke (RFC 7009 section 2: no cookie counts) but
// never read an introspection or push a request.
func TestForeignPageNeverReadsMoreThanARevocation(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addClient("spa", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	_, token := s.signedInTokens(s.relyingParty("spa", ""), "ada")
	for endpoint, want := range map[string]string{"revoke": "*", "introspect": "", "par": ""} {
		got := s.clientPost(endpoint, "spa", "", url.Values{"token": {token.AccessToken}}, "Origin", "https://spa.example.org", "Sec-Fetch-Site", "cross-site")
		if got.StatusCode == http.StatusForbidden || got.Header.Get("Access-Control-Allow-Origin") != want || got.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d, Access-Control-Allow-Origin %q", endpoint, got.StatusCode, got.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
		t.Errorf("after the revocation: %d", got)
	}
}

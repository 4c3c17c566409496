package httpd

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

// clientRequest posts a form with Basic authentication to one of the endpoints
// that clients call themselves.
func (s *service) clientRequest(path, id, secret string, form url.Values) response {
	s.t.Helper()
	r, _ := http.NewRequest(http.MethodPost, s.URL, nil)
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	return s.browser().do(http.MethodPost, path, "application/x-www-form-urlencoded", form.Encode(), "Authorization", r.Header.Get("Authorization"))
}

// Pitfalls 49 and 50: a token is revoked and described for its own client
// only, and a revocation that did not happen is not told as one.
func TestRevocationNeverReachesAnotherClientNorLies(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	secret, evil := s.addClient("app", nil), s.addClient("evil", nil)
	s.addClient("public", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	rp := s.relyingParty("app", secret)
	_, token := s.signedInTokens(rp, "ada")
	for name, value := range map[string]string{"access token": token.AccessToken, "refresh token": token.RefreshToken} {
		for _, hint := range []string{"", "access_token", "refresh_token", "bogus"} {
			form := url.Values{"token": {value}, "token_type_hint": {hint}}
			if got := s.clientRequest("/oauth2/revoke", "evil", evil, form); got.StatusCode != http.StatusOK {
				t.Errorf("%s of another client, hint %q: %d, which tells that it is one", name, hint, got.StatusCode)
			}
			if got := s.clientRequest("/oauth2/introspect", "evil", evil, form).JSON(t); got["active"] != false || len(got) != 1 {
				t.Errorf("%s of another client, hint %q: %v", name, hint, got)
			}
		}
		wantOAuthError(t, "wrong secret", s.clientRequest("/oauth2/revoke", "app", "x", url.Values{"token": {value}}), http.StatusUnauthorized, "invalid_client")
		form := url.Values{"token": {value}, "client_id": {"public"}}
		wantOAuthError(t, "public client", s.browser().postForm("/oauth2/introspect", form), http.StatusUnauthorized, "invalid_client")
		for text, other := range spellings(value) {
			s.clientRequest("/oauth2/revoke", "app", secret, url.Values{"token": {other}})
			if got := s.clientRequest("/oauth2/introspect", "app", secret, url.Values{"token": {other}}).JSON(t); got["active"] != false {
				t.Errorf("%s, %s: %v", name, text, got)
			}
		}
	}
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusOK {
		t.Fatalf("the token after all that: %d", got)
	}
	for _, path := range []string{"/oauth2/revoke", "/oauth2/introspect"} {
		for name, form := range map[string]url.Values{"no token": {}, "blank": {"token": {""}}, "twice": {"token": {token.AccessToken, "x"}}, "two hints": {"token": {token.AccessToken}, "token_type_hint": {"access_token", "refresh_token"}}} {
			wantOAuthError(t, path+", "+name, s.clientRequest(path, "app", secret, form), http.StatusBadRequest, "invalid_request")
		}
		wantOAuthError(t, path+", in the URL", s.clientRequest(path+"?token="+token.AccessToken, "app", secret, url.Values{"token": {"x"}}), http.StatusBadRequest, "invalid_request")
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} {
			if got := s.browser().do(method, path, "", ""); got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "POST" {
				t.Errorf("%s %s: %d", method, path, got.StatusCode)
			}
		}
	}
	mend := db.breaks("UPDATE OF revoked_at ON grants")
	wantUnavailable(t, "revocation that fails", s.clientRequest("/oauth2/revoke", "app", secret, url.Values{"token": {token.RefreshToken}}))
	mend()
	if got := s.clientRequest("/oauth2/revoke", "app", secret, url.Values{"token": {token.RefreshToken}}); got.StatusCode != http.StatusOK || got.Text != "" {
		t.Errorf("revocation: %d %s", got.StatusCode, got.Text)
	}
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
		t.Errorf("access token of the revoked grant: %d", got)
	}
	wantOAuthError(t, "refresh", s.refreshRequest("app", secret, token.RefreshToken), http.StatusBadRequest, "invalid_grant")
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/oauth2/revoke", "/oauth2/introspect"} {
		wantUnavailable(t, path, s.clientRequest(path, "app", secret, url.Values{"token": {token.AccessToken}}))
	}
}

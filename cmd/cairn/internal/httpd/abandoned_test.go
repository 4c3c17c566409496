package httpd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// A client that hangs up is one line for who debugs, wherever it does so: anybody
// could fill the log with failures of the database.
func TestClientThatHangsUpIsOneLineAtDebugLevel(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st})
		s.addUser("ada")
		secret := s.addClient("app", func(c *provider.Client) { c.Trusted = true })
		rp := s.relyingParty("app", secret)
		b, token := s.signedInTokens(rp, "ada")
		code := b.authorize(rp.authURL(), "ada").Get("code")
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		form := func(path string, v url.Values) *http.Request {
			r := httptest.NewRequestWithContext(gone, "POST", path, strings.NewReader(v.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.SetBasicAuth("app", secret)
			return r
		}
		page := httptest.NewRequestWithContext(gone, "GET", strings.TrimPrefix(rp.authURL(), s.URL), nil)
		page.AddCookie(&http.Cookie{Name: "cairn_session", Value: b.cookie("cairn_session")})
		info := httptest.NewRequestWithContext(gone, "GET", "/oauth2/userinfo", nil)
		info.Header.Set("Authorization", "Bearer "+token.AccessToken)
		for what, r := range map[string]*http.Request{
			"authorize": page, "userinfo": info, "token": form("/oauth2/token", rp.codeForm(code)),
			"refresh":    form("/oauth2/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}}),
			"introspect": form("/oauth2/introspect", url.Values{"token": {token.AccessToken}}), "revoke": form("/oauth2/revoke", url.Values{"token": {token.AccessToken}}),
		} {
			before := len(s.log.String())
			w := httptest.NewRecorder()
			s.server.Config.Handler.ServeHTTP(w, r)
			lines := strings.Split(strings.TrimSpace(s.log.String()[before:]), "\n")
			if len(lines) != 1 || !strings.Contains(lines[0], `"level":"DEBUG","msg":"request"`) || w.Code != web.StatusClientGone {
				t.Errorf("%s: %d, want one line at debug level: %s", what, w.Code, strings.Join(lines, "\n"))
			}
		}
		// Nothing was spent.
		if got := s.tokenRequest("app", secret, rp.codeForm(code)); got.StatusCode != http.StatusOK {
			t.Errorf("the code afterwards: %d %s", got.StatusCode, got.Text)
		}
		if got := s.refreshRequest("app", secret, token.RefreshToken); got.StatusCode != http.StatusOK {
			t.Errorf("the refresh token afterwards: %d %s", got.StatusCode, got.Text)
		}
	})
}

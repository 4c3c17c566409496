package httpd

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// Nobody is asked to consent to a trusted application, and whoever let it in by
// signing in sees it and can end its access, as that of any other.
func TestAccessOfATrustedClientIsSeenAndEnded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st})
		s.addUser("ada")
		s.addUser("root", account.FlagAdmin)
		secret := s.addClient("club", func(c *provider.Client) { c.Trusted = true })
		b, token := s.signedInTokens(s.relyingParty("club", secret, "openid", "offline_access"), "ada")
		admin := s.browser()
		admin.signIn("root")
		listed := func(what string, got response, want bool) {
			t.Helper()
			is := strings.Contains(got.Text, `"client_id":"club"`) || strings.Contains(got.Text, `data-app="club"`)
			if got.StatusCode != http.StatusOK || is != want {
				t.Errorf("%s: %d, listed: %v: %s", what, got.StatusCode, is, got.Text)
			}
		}
		everywhere := func(want bool) {
			t.Helper()
			listed("apps", b.api("GET", "/api/me/apps", nil), want)
			listed("account page", b.get("/account/"), want)
			listed("administrator's API", admin.api("GET", "/api/admin/users/ada", nil), want)
			listed("administrator's page", admin.get("/admin/users/ada"), want)
			listed("export", b.api("GET", "/api/me/export", nil), want)
		}
		everywhere(true)
		if got := b.api("GET", "/api/me/apps", nil); !strings.Contains(got.Text, `"client_name":"App club","scopes":["offline_access","openid"],"granted_at":"2`) || strings.Contains(got.Text, `"last_used_at":null`) {
			t.Errorf("apps: %s", got.Text)
		}
		if err := statusOf(b.api("DELETE", "/api/me/apps/club", nil), http.StatusNoContent); err != nil {
			t.Fatal(err)
		}
		wantProblem(t, "again", b.api("DELETE", "/api/me/apps/club", nil), http.StatusNotFound, "app_not_found")
		everywhere(false)
		if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("userinfo: %d", got)
		}
		wantOAuthError(t, "refresh", s.refreshRequest("club", secret, token.RefreshToken), http.StatusBadRequest, "invalid_grant")
	})
}

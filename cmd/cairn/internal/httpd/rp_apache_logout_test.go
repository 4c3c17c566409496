//go:build unix

package httpd

import (
	"net/http"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// apacheWithLogout is Apache with a person signed in on two browsers.
func apacheWithLogout(t *testing.T) (s *service, app registeredApp, here, elsewhere *browser) {
	t.Helper()
	needFiles(t, apacheFile, apacheOIDC)
	s = startService(t, serviceOptions{Limits: true})
	s.addUser("ada")
	app = s.registerApplication("apache", "/secure/redirect_uri", func(c *provider.Client) {
		c.BackchannelPrivate = true
		c.BackchannelLogoutURI = c.RedirectURIs[0] + "?logout=backchannel"
		c.PostLogoutRedirectURIs = []string{s.URL + "/healthz"}
	})
	s.startApache(app)
	here, elsewhere = s.browser(), s.browser()
	for _, b := range []*browser{here, elsewhere} {
		if got := app.forwarded(t, b.visit(app.URL+"/secure/page", "ada")); got.Get("X-Remote-User") != "ada" {
			t.Fatalf("Apache forwarded %v", got)
		}
	}
	return s, app, here, elsewhere
}

// waitForEnd returns when Apache no longer knows the browser: it then sends it
// to the service instead of to the page.
func (a registeredApp) waitForEnd(t *testing.T, b *browser) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.After(10 * time.Second); ; {
		if got := b.get(a.URL + "/secure/page"); got.StatusCode == http.StatusFound {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the session at the application outlived the session at the service")
		case <-again.C:
		}
	}
}

// Whatever ends the session at the service ends it at the application, where
// nobody has come by, and leaves the same person's other browser alone.
func TestSignOutNeverLeavesTheSessionOfModAuthOpenIDC(t *testing.T) {
	s, app, here, elsewhere := apacheWithLogout(t)
	if got := here.api("POST", "/api/auth/logout", nil); got.StatusCode != http.StatusOK {
		t.Fatalf("sign-out: %d %s", got.StatusCode, got.Text)
	}
	app.waitForEnd(t, here)
	if got := elsewhere.get(app.URL + "/secure/page"); got.StatusCode != http.StatusOK {
		t.Errorf("the other browser was signed out too: %d", got.StatusCode)
	}
	admin := s.browser()
	s.addUser("keeper", account.FlagAdmin)
	admin.signIn("keeper")
	if got := admin.api("POST", "/api/admin/users/ada/suspend", map[string]string{"reason": "test"}); got.StatusCode != http.StatusOK {
		t.Fatalf("suspend: %d %s", got.StatusCode, got.Text)
	}
	app.waitForEnd(t, elsewhere)
}

// The sign-out that begins at the application: Apache sends id_token_hint and
// post_logout_redirect_uri to the end_session_endpoint.
func TestSignOutAtModAuthOpenIDCAlwaysEndsTheSession(t *testing.T) {
	s, app, here, _ := apacheWithLogout(t)
	after := s.URL + "/healthz"
	got := here.get(app.URL + "/secure/redirect_uri?logout=" + after)
	for range 5 {
		if got.StatusCode != http.StatusFound && got.StatusCode != http.StatusSeeOther {
			break
		}
		got = here.get(got.Header.Get("Location"))
	}
	if got.StatusCode != http.StatusOK || got.Request.URL.String() != after {
		t.Fatalf("ended at %s with %d: %.600s", got.Request.URL.Path, got.StatusCode, got.Text)
	}
	if got := here.api("GET", "/api/me", nil); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("session at the service: %d", got.StatusCode)
	}
	app.waitForEnd(t, here)
}

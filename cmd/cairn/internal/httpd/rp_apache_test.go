//go:build unix

package httpd

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

const (
	apacheFile = "/usr/sbin/apache2"
	apacheOIDC = "/usr/lib/apache2/modules/mod_auth_openidc.so"
)

// startApache runs Apache with mod_auth_openidc in front of an application
// that knows nothing of OpenID Connect: it answers with the headers it got.
func (s *service) startApache(app registeredApp) {
	s.t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_ = r.Header.Write(w)
	}))
	s.t.Cleanup(backend.Close)
	at, err := url.Parse(backend.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	config, err := filepath.Abs("testdata/rp/httpd.conf")
	if err != nil {
		s.t.Fatal(err)
	}
	env := append(app.environment(s.URL), "DIR="+s.t.TempDir(), "PORT="+app.Port, "BACKEND="+at.Port())
	startProgram(s.t, app.Port, []string{apacheFile, "-f", config, "-DFOREGROUND"}, env...)
}

// forwarded are the headers that the application behind Apache got.
func (a registeredApp) forwarded(t *testing.T, trail []response) http.Header {
	t.Helper()
	last := trail[len(trail)-1]
	if last.StatusCode != http.StatusOK || !strings.HasPrefix(last.Request.URL.String(), a.URL+"/secure/") {
		t.Fatalf("ended at %s%s with %d: %.600s", last.Request.URL.Host, last.Request.URL.Path, last.StatusCode, last.Text)
	}
	got := http.Header{}
	for line := range strings.Lines(last.Text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			got.Add(name, value)
		}
	}
	return got
}

func TestModAuthOpenIDCNeverFails(t *testing.T) {
	needFiles(t, apacheFile, apacheOIDC)
	s := startService(t, serviceOptions{Limits: true})
	u := s.addUser("ada")
	app := s.registerApplication("apache", "/secure/redirect_uri", nil)
	s.startApache(app)
	b := s.browser()
	trail := b.visit(app.URL+"/secure/page", "ada")
	if asked := authorizationRequest(t, trail); !asked.Has("state") || !asked.Has("nonce") || asked.Get("code_challenge_method") != "S256" {
		t.Errorf("the request has another shape than this test is for: %v", asked)
	}
	got := app.forwarded(t, trail)
	if got.Get("X-Remote-User") != "ada" || got.Get("OIDC_CLAIM_sub") != u.Sub || got.Get("OIDC_CLAIM_name") != "Ada" {
		t.Errorf("Apache forwarded %v", got)
	}
	// The session of Apache holds on its own: no way back to the service.
	if again := b.visit(app.URL+"/secure/page", "ada"); len(again) != 1 || app.forwarded(t, again).Get("X-Remote-User") != "ada" {
		t.Errorf("the second visit took %d requests", len(again))
	}
	// Its refresh hook: the old access token names the session, a new one comes.
	old := got.Get("OIDC_access_token")
	refresh := app.URL + "/secure/redirect_uri?" + url.Values{"refresh": {app.URL + "/secure/page"}, "access_token": {old}}.Encode()
	trail = b.visit(refresh, "ada")
	if fresh := app.forwarded(t, trail).Get("OIDC_access_token"); old == "" || fresh == "" || fresh == old {
		t.Errorf("the access token was not refreshed: %s", trail[len(trail)-1].Request.URL)
	}
}

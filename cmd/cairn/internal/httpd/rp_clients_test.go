//go:build unix

package httpd

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/provider"
)

// openid-client sends no state when PKCE is there, and refuses an answer that
// brings one all the same.
func TestOpenIDClientNeverFailsWithoutState(t *testing.T) {
	script := nodeScript(t, "openid_client.mjs", "openid-client")
	s := startService(t, serviceOptions{Limits: true})
	u := s.addUser("ada")
	app := s.registerApplication("openid-client", "/callback", nil)
	startProgram(t, app.Port, script, app.environment(s.URL)...)
	trail := s.browser().visit(app.URL+"/", "ada")
	if asked := authorizationRequest(t, trail); asked.Has("state") || asked.Has("nonce") || asked.Get("code_challenge_method") != "S256" {
		t.Errorf("the request has another shape than this test is for: %v", asked)
	}
	want := applicationSaw{Sub: u.Sub, Name: "Ada", Handle: "ada", RefreshedSub: u.Sub, RefreshedName: "Ada", Rotated: true}
	if diff := cmp.Diff(want, app.seen(t, trail)); diff != "" {
		t.Error(diff)
	}
}

// Auth.js checks PKCE alone unless told otherwise, and never asks userinfo: what
// it knows of a user is in the ID token, unless the client is registered without claims there.
func TestAuthJSShowsNameAndEmailWithItsDefaults(t *testing.T) {
	script := nodeScript(t, "authjs.mjs", "@auth/express", "express")
	s := startService(t, serviceOptions{Limits: true})
	u := s.addUserWithEmail("ada")
	for id, c := range map[string]struct {
		claims bool
		want   applicationSaw
	}{"default": {true, applicationSaw{Name: "Ada", Email: u.Email}}, "without-claims": {false, applicationSaw{}}} {
		t.Run(id, func(t *testing.T) {
			app := s.registerApplication(id, "/auth/callback/cairn", func(n *provider.Client) { n.IDTokenClaims = n.IDTokenClaims && c.claims })
			startProgram(t, app.Port, script, app.environment(s.URL)...)
			b := s.browser()
			f := pageForm(t, b.get(app.URL+"/auth/signin").Text)
			f.values.Set("callbackUrl", app.URL+"/")
			signIn := b.postForm(f.action, f.values)
			if signIn.StatusCode != http.StatusFound {
				t.Fatalf("sign-in of the application: %d %.600s", signIn.StatusCode, signIn.Text)
			}
			trail := b.visit(signIn.Header.Get("Location"), "ada")
			if asked := authorizationRequest(t, trail); asked.Has("state") || asked.Get("code_challenge_method") != "S256" {
				t.Errorf("the request has another shape than this test is for: %v", asked)
			}
			if diff := cmp.Diff(c.want, app.seen(t, trail)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// These read the ID token alone, too.
func TestExpressApplicationsShowNameAndEmailWithTheirDefaults(t *testing.T) {
	for script, packages := range map[string][]string{
		"passport_openidconnect.mjs": {"passport-openidconnect", "passport", "express-session", "express"},
		"express_openid_connect.mjs": {"express-openid-connect", "express"},
	} {
		t.Run(packages[0], func(t *testing.T) {
			command := nodeScript(t, script, packages...)
			s := startService(t, serviceOptions{Limits: true})
			u := s.addUserWithEmail("ada")
			app := s.registerApplication("app", "/callback", nil)
			startProgram(t, app.Port, command, app.environment(s.URL)...)
			trail := s.browser().visit(app.URL+"/", "ada")
			if asked := authorizationRequest(t, trail); asked.Get("response_type") != "code" || asked.Get("scope") != "openid profile email" {
				t.Errorf("the request has another shape than this test is for: %v", asked)
			}
			if diff := cmp.Diff(applicationSaw{Sub: u.Sub, Name: "Ada", Handle: "ada", Email: u.Email}, app.seen(t, trail)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAuthlibNeverFails(t *testing.T) {
	packages := "/usr/lib/python3/dist-packages/"
	needFiles(t, "/usr/bin/python3", packages+"authlib", packages+"flask", packages+"requests")
	s := startService(t, serviceOptions{Limits: true})
	u := s.addUser("ada")
	app := s.registerApplication("authlib", "/callback", nil)
	command := []string{"/usr/bin/python3", "-I", "-B", "testdata/rp/authlib_app.py"}
	startProgram(t, app.Port, command, app.environment(s.URL)...)
	trail := s.browser().visit(app.URL+"/", "ada")
	if asked := authorizationRequest(t, trail); !asked.Has("state") || !asked.Has("nonce") || !asked.Has("code_challenge") {
		t.Errorf("the request has another shape than this test is for: %v", asked)
	}
	want := applicationSaw{Sub: u.Sub, Name: "Ada", Handle: "ada", RefreshedSub: u.Sub, RefreshedName: "Ada", Rotated: true}
	if diff := cmp.Diff(want, app.seen(t, trail)); diff != "" {
		t.Error(diff)
	}
}

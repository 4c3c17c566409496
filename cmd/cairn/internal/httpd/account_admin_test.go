package httpd

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// Attack 129: no spelling of a path and no header makes an administrator.
func TestAdministrationIsForAdministrators(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true}, "ada")
	s.addUser("keeper", "admin")
	ada, anonymous := s.signedIn("ada"), s.visitor()
	for _, path := range []string{
		"/api/admin/users", "/api/admin/users/", "/api//admin/users", "//api/admin/users", "/api/./admin/users", "/api/x/../admin/users", "/API/ADMIN/users", "/api/admin%2fusers",
		"/%61pi/%61dmin/users", "/api/admin/users;x", "/api/admin/users%00", "/api/admin/users?admin=true", "/api/admin/users/ada", "/api/admin/audit", "/api/admin/settings",
		"/api/admin/clients", "/api/admin/audit?cursor=!", "/api/admin/users?limit=x", "/api/admin/users/nobody", "/api/me/../admin/users", "/api/admin/users%20",
		"/admin/", "/admin", "/admin/users/ada", "/Admin/", "/admin/../admin/", "/admin//", "/./admin/", "/%61dmin/", "/admin/..;/admin/",
	} {
		for name, b := range map[string]*browser{"a member": ada, "a stranger": anonymous} {
			got := b.do("GET", path, "", "", "X-Original-URL", "/api/admin/users", "X-Rewrite-URL",
				"/api/admin/users", "X-Forwarded-User", "keeper", "Remote-User", "keeper",
				"X-Admin", "true", "X-Forwarded-For", "127.0.0.1", "Authorization", "Basic a2VlcGVyOng=", "X-Cairn-User", "keeper", "Accept", "*/*")
			if got.StatusCode == http.StatusOK || got.StatusCode >= 500 || strings.Contains(got.Text, "keeper") {
				t.Errorf("%s at %s: %d %.100s", name, path, got.StatusCode, got.Text)
			}
		}
	}
}

// Attacks 126 and 130: hashes and codes are in no list, not even for those who
// may issue them.
func TestListsHoldNoHashesOrCodes(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true}, "ada")
	s.addUser("keeper", "admin")
	secret := s.addClient("app", nil)
	keeper, ada := s.signedIn("keeper"), s.signedIn("ada")
	reset, invite := keeper.resetCode("ada"), ada.invite()
	jwt := ada.cookie("cairn_session")
	jti, _ := jwtPayload(t, jwt)["jti"].(string)
	for name, b := range map[string]*browser{"administrator": keeper, "member": ada} {
		for _, path := range []string{"/api/admin/users", "/api/admin/users/ada", "/api/admin/audit?limit=200", "/api/admin/clients", "/api/admin/settings", "/admin/", "/admin/users/ada", "/account/",
			"/api/me", "/api/me/export", "/api/me/sessions", "/api/me/apps"} {
			text := b.get(path).Text
			for what, bad := range map[string]string{"hash": "$argon2", "reset code": reset, "jti": jti, "cookie": jwt, "client secret": secret, "shared secret": string(s.secret)} {
				if bad == "" || strings.Contains(text, bad) {
					t.Errorf("%s sees a %s at %s", name, what, path)
				}
			}
			if name == "administrator" && strings.Contains(text, invite) {
				t.Errorf("the administrator sees ada's invite at %s", path)
			}
		}
	}
	for _, path := range []string{"/api/invites/", "/api/admin/invites/", "/API/invites/", "/admin/invites/", "/api//invites/x/"} {
		keeper.api("DELETE", path+invite, nil)
	}
	if log := s.log.String(); strings.Contains(log, invite) || strings.Count(log, "/api/admin/invites/{code}") != 1 {
		t.Errorf("the log has the code, or lacks its path: %s", log)
	}
}

// Attack 136: what is no handle names nobody, least of all everybody.
func TestInvalidHandleNamesNobody(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	s.addUser("keeper", "admin")
	for _, h := range []string{"ada", "bob", "a"} {
		s.addUser(h)
	}
	keeper := s.signedIn("keeper")
	for _, h := range []string{"", "%20", "%00", "%25", "*", "_", ".", "..", "%2e%2e", "null", "undefined", "ada%00", "ada%0a", "ada'--", "ada,bob", "ada%2Cbob", "%", "%ff", "a%2fb", "ada%2f..%2fbob", "-", "%20ada", "ada%20", "?ada", "1=1", "%F0%9F%92%A9", strings.Repeat("a", 5000), "nobody", "%27%20OR%201=1", "b%CC%81ob"} {
		for _, c := range []struct{ method, tail string }{{"DELETE", ""}, {"POST", "/suspend"}, {"POST", "/unsuspend"}, {"POST", "/reset-password-code"}, {"PUT", "/flags"}, {"GET", ""}} {
			line := rawRequestAs(t, s, keeper, c.method, "/api/admin/users/"+h+c.tail)
			if !strings.HasPrefix(line, "HTTP/1.1 404") && !strings.HasPrefix(line, "HTTP/1.1 400") {
				t.Errorf("%s %.60q%s: %s", c.method, h, c.tail, line)
			}
		}
	}
	users := keeper.api("GET", "/api/admin/users", nil).JSON(t)["users"].([]any)
	for _, u := range users {
		if u.(map[string]any)["suspended"] != false {
			t.Errorf("suspended: %v", u)
		}
	}
	same(t, "of 4 users are left", len(users), 4)
}

// rawRequestAs sends a request line that http.Client would not, with the
// browser's cookie, and returns the status line.
func rawRequestAs(t *testing.T, s *service, b *browser, method, target string) string {
	t.Helper()
	answer := exchangeBytes(t, s, method+" "+target+" HTTP/1.1\r\nHost: localhost\r\nCookie: cairn_session="+b.cookie("cairn_session")+"\r\nConnection: close\r\n\r\n")
	line, _, _ := strings.Cut(answer, "\r\n")
	return line
}

func userQuery(text string) account.UserQuery { return account.UserQuery{Query: text, Limit: 500} }

// Nobody is asked to consent to a trusted application, and whoever let it in by
// signing in sees it and can end its access, as that of any other.
func TestAccessOfATrustedClientIsSeenAndEnded(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	s.addUser("root", account.FlagAdmin)
	secret := s.addClient("club", func(c *provider.Client) { c.Trusted = true })
	b, token := s.signedInTokens(s.relyingParty("club", secret, "openid", "offline_access"), "ada")
	admin := s.signedIn("root")
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
		if got := b.get("/account/apps"); strings.Contains(got.Text, "You have not used it yet") == want {
			t.Errorf("account page, used: %v: %s", !want, mainOf(got.Text))
		}
		listed("administrator's API", admin.api("GET", "/api/admin/users/ada", nil), want)
		listed("administrator's page", admin.get("/admin/users/ada"), want)
		listed("export", b.api("GET", "/api/me/export", nil), want)
	}
	everywhere(true)
	if got := b.api("GET", "/api/me/apps", nil); !strings.Contains(got.Text,
		`"client_name":"App club","scopes":["offline_access","openid"],"granted_at":"2`) ||
		strings.Contains(got.Text, `"last_used_at":null`) {
		t.Errorf("apps: %s", got.Text)
	}
	needStatus(t, "", b.api("DELETE", "/api/me/apps/club", nil), http.StatusNoContent)
	wantProblem(t, "again", b.api("DELETE", "/api/me/apps/club", nil), http.StatusNotFound, "app_not_found")
	everywhere(false)
	s.wantUserinfo("userinfo", token.AccessToken, http.StatusUnauthorized)
	wantInvalidGrant(t, "refresh", s.refreshRequest("club", secret, token.RefreshToken))
}

func TestAnAddressIsVerifiedForApplicationsOnceAnAdministratorSaysSo(t *testing.T) {
	s := startService(t, serviceOptions{})
	root := s.joined("root1", "admin")
	joined := s.visitor().api("POST", "/api/register", map[string]string{"code": root.invite(), "handle": "ada", "password": password, "email": "ada@example.org"})
	if joined.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", joined.StatusCode, joined.Text)
	}
	rp := s.app("app", nil, "openid", "email")
	ada, token := s.signedInTokens(rp, "ada")
	wantEmail := func(address string, verified bool) {
		t.Helper()
		if got := s.userinfo(token.AccessToken); got["email"] != address || got["email_verified"] != verified {
			t.Errorf("%v, want %s verified: %t", got, address, verified)
		}
	}
	wantEmail("ada@example.org", false)
	needStatus(t, "", root.api("PATCH", "/api/admin/users/ada", map[string]any{"email_verified": true}), http.StatusOK)
	wantEmail("ada@example.org", true)
	needStatus(t, "", ada.api("PATCH", "/api/me", map[string]string{"email": "ada@example.net"}), http.StatusOK)
	wantEmail("ada@example.net", false)
}

package httpd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// Attack 129: no spelling of a path and no header makes an administrator.
func TestAdministrationIsForAdministrators(t *testing.T) {
	oneInstallation(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		s.addUser("bob")
		ada, anonymous := s.signedIn("ada"), s.visitor()
		for _, path := range []string{
			"/api/admin/users", "/api/admin/users/", "/api//admin/users", "//api/admin/users", "/api/./admin/users", "/api/x/../admin/users", "/API/ADMIN/users", "/api/admin%2fusers",
			"/%61pi/%61dmin/users", "/api/admin/users;x", "/api/admin/users%00", "/api/admin/users?admin=true", "/api/admin/users/bob", "/api/admin/audit", "/api/admin/settings",
			"/api/admin/clients", "/api/admin/audit?cursor=!", "/api/admin/users?limit=x", "/api/admin/users/nobody", "/api/me/../admin/users", "/api/admin/users%20",
			"/admin/", "/admin", "/admin/users/bob", "/Admin/", "/admin/../admin/", "/admin//", "/./admin/", "/%61dmin/", "/admin/..;/admin/",
		} {
			for name, b := range map[string]*browser{"a member": ada, "a stranger": anonymous} {
				got := b.do("GET", path, "", "", "X-Original-URL", "/api/admin/users", "X-Rewrite-URL", "/api/admin/users", "X-Forwarded-User", "keeper", "Remote-User", "keeper",
					"X-Admin", "true", "X-Forwarded-For", "127.0.0.1", "Authorization", "Basic a2VlcGVyOng=", "X-Cairn-User", "keeper", "Accept", "*/*")
				if got.StatusCode == http.StatusOK || got.StatusCode >= 500 || strings.Contains(got.Text, "keeper") {
					t.Errorf("%s at %s: %d %.100s", name, path, got.StatusCode, got.Text)
				}
			}
		}
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/api/admin/users/bob/suspend", "{}"}, {"POST", "/api/admin/users/bob/unsuspend", "{}"}, {"PATCH", "/api/admin/users/bob", `{"email_verified":true}`}, {"DELETE", "/api/admin/users/bob", ""}, {"POST", "/api/admin/users/bob/reset-password-code", ""},
			{"PUT", "/api/admin/users/ada/flags", `{"admin":true}`}, {"PUT", "/api/admin/settings", `{"default_flags":["activity"],"max_users":1}`},
		} {
			wantProblem(t, c.path, ada.do(c.method, c.path, "application/json", c.body), http.StatusForbidden, "admin_required")
		}
		for _, path := range []string{"profile", "suspend", "unsuspend", "flags", "reset-password-code", "delete"} {
			wantStatus(t, "form "+path, ada.postForm("/admin/users/bob/"+path, map[string][]string{"flag": {"admin"}, "known": {"admin"}, "confirm": {"bob"}}), http.StatusForbidden)
			if got := anonymous.postForm("/admin/users/bob/"+path, nil); got.Header.Get("Location") != "/login/?unsent=1" {
				t.Errorf("form %s without a session: %d to %q", path, got.StatusCode, got.Header.Get("Location"))
			}
		}
		// Attack 131: what a person may say about themselves.
		for _, body := range []string{`{"flags":{"admin":true}}`, `{"admin":true}`, `{"handle":"keeper"}`, `{"sub":"x"}`, `{"email_verified":true}`, `{"suspended_at":null}`, `{"password_hash":"x"}`, `{"Display_Name":"x"}`} {
			wantProblem(t, body, ada.api("PATCH", "/api/me", body), http.StatusBadRequest, "invalid_request")
		}
		if u, err := s.store.UserByHandle(t.Context(), "bob"); err != nil || u.Suspended() {
			t.Errorf("bob: %v", err)
		}
		if got := s.administrators(); fmt.Sprint(got) != "[keeper]" {
			t.Errorf("administrators: %v", got)
		}
		if rows, err := s.store.AuditLog(t.Context(), account.AuditQuery{Kind: "user", Limit: 10}); err != nil || len(rows) != 3 {
			t.Errorf("%d audit rows, those of the three users made are 3: %v", len(rows), err)
		}
	})
}

// Attacks 126 and 130: hashes and codes are in no list, not even for those who
// may issue them.
func TestListsHoldNoHashesOrCodes(t *testing.T) {
	oneInstallation(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
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
	})
}

// Attack 132: a flag counts in the sessions that are there, at once, and the
// person stays signed in. Attack 135: so does a suspension.
func TestFlagsWorkAtOnce(t *testing.T) {
	oneInstallation(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada", "activity")
		keeper, ada, phone := s.signedIn("keeper"), s.signedIn("ada"), s.signedIn("ada")
		set := func(body string) {
			t.Helper()
			needStatus(t, body, keeper.api("PUT", "/api/admin/users/ada/flags", body), http.StatusOK)
		}
		for _, c := range []struct {
			body    string
			flags   string
			allowed int
		}{
			{`{"admin":true}`, "map[activity:true admin:true]", http.StatusOK}, {`{"admin":true}`, "map[activity:true admin:true]", http.StatusOK},
			{`{"activity":false}`, "map[activity:false admin:true]", http.StatusOK}, {`{"admin":false,"activity":true}`, "map[activity:true admin:false]", http.StatusForbidden},
			{`{"activity":false,"admin":false}`, "map[activity:false admin:false]", http.StatusForbidden}, {`{}`, "map[activity:false admin:false]", http.StatusForbidden},
		} {
			set(c.body)
			for _, b := range []*browser{ada, phone} {
				if got := fmt.Sprint(b.api("GET", "/api/me", nil).JSON(t)["flags"]); got != c.flags {
					t.Errorf("after %s: %s", c.body, got)
				}
				if got := b.api("GET", "/api/admin/users", nil).StatusCode; got != c.allowed {
					t.Errorf("after %s: %d", c.body, got)
				}
			}
		}
		set(`{"admin":true}`)
		needStatus(t, "suspend", keeper.api("POST", "/api/admin/users/ada/suspend", nil), http.StatusOK)
		for _, c := range []struct{ method, path string }{
			{"GET", "/api/me"}, {"GET", "/api/admin/users"}, {"POST", "/api/admin/users/keeper/suspend"}, {"POST", "/api/admin/users/ada/unsuspend"}, {"POST", "/api/invites"},
		} {
			wantProblem(t, "suspended administrator "+c.path, ada.do(c.method, c.path, "", ""), http.StatusUnauthorized, "not_authenticated")
		}
		keeper.api("POST", "/api/admin/users/ada/unsuspend", nil)
		wantProblem(t, "the session after the suspension", ada.api("GET", "/api/me", nil), http.StatusUnauthorized, "not_authenticated")
	})
}

// Attack 136: what is no handle names nobody, least of all everybody.
func TestInvalidHandleNamesNobody(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
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
		if len(users) != 4 {
			t.Errorf("%d of 4 users are left", len(users))
		}
	})
}

// rawRequestAs sends a request line that http.Client would not, with the
// browser's cookie, and returns the status line.
func rawRequestAs(t *testing.T, s *service, b *browser, method, target string) string {
	t.Helper()
	answer := exchangeBytes(t, s, method+" "+target+" HTTP/1.1\r\nHost: localhost\r\nCookie: cairn_session="+b.cookie("cairn_session")+"\r\nConnection: close\r\n\r\n")
	line, _, _ := strings.Cut(answer, "\r\n")
	return line
}

// Attack 134: three administrators who remove one another, in every way there
// is, at the same moment.
func TestLastAdministratorStays(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		for round := range 3 {
			var handles []string
			var browsers []*browser
			for i := range 3 {
				h := fmt.Sprintf("admin%d-%d", round, i)
				s.addUser(h, "admin")
				handles, browsers = append(handles, h), append(browsers, s.signedIn(h))
			}
			newcomer := fmt.Sprintf("admin%d-new", round) // who has no password is no administrator yet
			needStatus(t, newcomer, browsers[0].api("POST", "/api/admin/users", object{"handle": newcomer, "flags": object{"admin": true}}), http.StatusCreated)
			s.demoteAllBut(append(handles, newcomer))
			var operations []func() response
			for i, b := range browsers {
				for j, h := range handles {
					operations = append(operations, func() response { return b.api("PUT", "/api/admin/users/"+h+"/flags", map[string]bool{"admin": false}) })
					if i == j {
						operations = append(operations, func() response { return b.api("DELETE", "/api/me", map[string]string{"password": password}) })
						continue
					}
					operations = append(operations, func() response { return b.api("POST", "/api/admin/users/"+h+"/suspend", nil) },
						func() response { return b.api("DELETE", "/api/admin/users/"+h, nil) })
				}
			}
			got := inParallel(len(operations), func(i int) int { return operations[i]().StatusCode })
			for status := range got {
				if !slices.Contains([]int{200, 204, 401, 403, 404, 409, 429}, status) {
					t.Errorf("round %d: %v", round, got)
				}
			}
			if left := slices.DeleteFunc(s.administrators(), func(h string) bool { return h == newcomer }); len(left) != 1 {
				t.Errorf("round %d: administrators %v after %v", round, left, got)
			}
		}
	})
}

func userQuery(text string) account.UserQuery { return account.UserQuery{Query: text, Limit: 500} }

// administrators are the handles of those who can act.
func (s *service) administrators() (handles []string) {
	s.t.Helper()
	users, _, err := s.store.Users(context.Background(), userQuery(""))
	noError(s.t, err)
	for _, u := range users {
		if u.Has("admin") && !u.Suspended() {
			handles = append(handles, u.Handle)
		}
	}
	return handles
}

// demoteAllBut leaves the named administrators and no others.
func (s *service) demoteAllBut(keep []string) {
	s.t.Helper()
	for _, h := range s.administrators() {
		if slices.Contains(keep, h) {
			continue
		}
		u, err := s.store.UserByHandle(context.Background(), h)
		if err == nil {
			_, err = s.store.SetFlagsOfAll(context.Background(), account.FlagChange{"admin": {On: false}}, u.CreatedAt, map[string]account.Audit{u.Sub: operator(account.SetFlags, h, "")})
		}
		noError(s.t, err)
	}
}

// Attack 137: what is done twice, or by two at once, is done once and never a
// server error.
func TestRepeatedAdministration(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		keeper := s.signedIn("keeper")
		for _, operation := range []string{"suspend", "suspend", "unsuspend", "unsuspend"} {
			wantStatus(t, operation, keeper.api("POST", "/api/admin/users/ada/"+operation, nil), http.StatusOK)
		}
		got := inParallel(18, func(i int) int {
			switch i % 3 {
			case 0:
				return keeper.api("POST", "/api/admin/users/ada/suspend", nil).StatusCode
			case 1:
				return keeper.api("POST", "/api/admin/users/ada/unsuspend", nil).StatusCode
			}
			return keeper.api("POST", "/api/admin/users/ada/reset-password-code", nil).StatusCode
		})
		if got[http.StatusOK] != 12 || got[http.StatusCreated] != 6 {
			t.Errorf("suspend, lift and reset code in parallel: %v", got)
		}
		got = inParallel(12, func(i int) int {
			if i%3 == 0 {
				return keeper.api("POST", "/api/admin/users/ada/suspend", nil).StatusCode
			}
			return keeper.api("DELETE", "/api/admin/users/ada", nil).StatusCode
		})
		if got[http.StatusNoContent] != 1 || got[http.StatusNotFound] < 7 || got[http.StatusOK]+got[http.StatusNotFound] != 11 {
			t.Errorf("delete and suspend in parallel: %v", got)
		}
		wantProblem(t, "delete again", keeper.api("DELETE", "/api/admin/users/ada", nil), http.StatusNotFound, "user_not_found")
	})
}

// Nobody is asked to consent to a trusted application, and whoever let it in by
// signing in sees it and can end its access, as that of any other.
func TestAccessOfATrustedClientIsSeenAndEnded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st})
		s.addUser("ada")
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
			listed("account page", b.get("/account/apps"), want)
			listed("administrator's API", admin.api("GET", "/api/admin/users/ada", nil), want)
			listed("administrator's page", admin.get("/admin/users/ada"), want)
			listed("export", b.api("GET", "/api/me/export", nil), want)
		}
		everywhere(true)
		if got := b.api("GET", "/api/me/apps", nil); !strings.Contains(got.Text, `"client_name":"App club","scopes":["offline_access","openid"],"granted_at":"2`) || strings.Contains(got.Text, `"last_used_at":null`) {
			t.Errorf("apps: %s", got.Text)
		}
		needStatus(t, "", b.api("DELETE", "/api/me/apps/club", nil), http.StatusNoContent)
		wantProblem(t, "again", b.api("DELETE", "/api/me/apps/club", nil), http.StatusNotFound, "app_not_found")
		everywhere(false)
		s.wantUserinfo("userinfo", token.AccessToken, http.StatusUnauthorized)
		wantInvalidGrant(t, "refresh", s.refreshRequest("club", secret, token.RefreshToken))
	})
}

func TestAnAddressIsVerifiedForApplicationsOnceAnAdministratorSaysSo(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("root1", "admin")
	root := s.signedIn("root1")
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

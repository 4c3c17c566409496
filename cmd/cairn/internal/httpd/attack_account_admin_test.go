package httpd

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Attack 129: no spelling of a path and no header makes an administrator.
func TestAdministrationNeverOpensByASpelling(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		s.addUser("bob")
		ada, anonymous := s.signedIn("ada"), s.visitor()
		for _, path := range []string{
			"/api/admin/users", "/api/admin/users/", "/api//admin/users", "//api/admin/users", "/api/./admin/users", "/api/x/../admin/users", "/API/ADMIN/users", "/api/admin%2fusers",
			"/%61pi/%61dmin/users", "/api/admin/users;x", "/api/admin/users%00", "/api/admin/users?admin=true", "/api/admin/users/bob", "/api/admin/audit", "/api/admin/settings",
			"/admin/", "/admin", "/admin/users/bob", "/Admin/", "/admin/../admin/", "/admin//", "/./admin/",
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
			{"POST", "/api/admin/users/bob/suspend", "{}"}, {"DELETE", "/api/admin/users/bob", ""}, {"POST", "/api/admin/users/bob/reset-password-code", ""},
			{"PUT", "/api/admin/users/ada/flags", `{"admin":true}`}, {"PUT", "/api/admin/settings", `{"default_flags":["activity"],"max_users":1}`},
		} {
			wantProblem(t, c.path, ada.do(c.method, c.path, "application/json", c.body), http.StatusForbidden, "admin_required")
		}
		for _, path := range []string{"suspend", "flags", "reset-password-code", "delete"} {
			if got := ada.postForm("/admin/users/bob/"+path, map[string][]string{"flag": {"admin"}, "known": {"admin"}, "confirm": {"bob"}}); got.StatusCode != http.StatusForbidden {
				t.Errorf("form %s: %d", path, got.StatusCode)
			}
			if got := anonymous.postForm("/admin/users/bob/"+path, nil); got.Header.Get("Location") != "/login/" {
				t.Errorf("form %s without a session: %d", path, got.StatusCode)
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
	})
}

// Attacks 126 and 130: hashes and codes are in no list, not even for those who
// may issue them.
func TestListsNeverHoldHashesOrCodes(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
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
	})
}

// Attack 132: a flag counts in the sessions that are there, at once, and the
// person stays signed in. Attack 135: so does a suspension.
func TestFlagsNeverWorkLate(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		p := s.prefix()
		s.addUser(p+"keeper", "admin")
		s.addUser(p+"ada", "activity")
		keeper, ada, phone := s.signedIn(p+"keeper"), s.signedIn(p+"ada"), s.signedIn(p+"ada")
		set := func(body string) {
			t.Helper()
			if got := keeper.api("PUT", "/api/admin/users/"+p+"ada/flags", body); got.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d %s", body, got.StatusCode, got.Text)
			}
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
		if got := keeper.api("POST", "/api/admin/users/"+p+"ada/suspend", nil); got.StatusCode != http.StatusOK {
			t.Fatalf("suspend: %d", got.StatusCode)
		}
		for _, c := range []struct{ method, path string }{
			{"GET", "/api/me"}, {"GET", "/api/admin/users"}, {"POST", "/api/admin/users/" + p + "keeper/suspend"}, {"POST", "/api/admin/users/" + p + "ada/unsuspend"}, {"POST", "/api/invites"},
		} {
			wantProblem(t, "suspended administrator "+c.path, ada.do(c.method, c.path, "", ""), http.StatusUnauthorized, "not_authenticated")
		}
		keeper.api("POST", "/api/admin/users/"+p+"ada/unsuspend", nil)
		wantProblem(t, "the session after the suspension", ada.api("GET", "/api/me", nil), http.StatusUnauthorized, "not_authenticated")
	})
}

// Attack 133.
func TestUnknownFlagIsNeverSet(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		keeper := s.signedIn("keeper")
		for body, code := range map[string]string{
			`{"captain":true}`: "unknown_flag", `{"Admin":true}`: "unknown_flag", `{"":true}`: "unknown_flag", `{"admin ":true}`: "unknown_flag", `{"admin":true,"captain":true}`: "unknown_flag",
			`{"captain":false}`: "unknown_flag", `{"ADMIN":false}`: "unknown_flag", `{"аdmin":true}`: "unknown_flag", `{"admin":1}`: "invalid_request", `{"admin":"true"}`: "invalid_request",
			`{"admin":null}`: "invalid_request", `{"admin":[true]}`: "invalid_request", `["admin"]`: "invalid_request", `null`: "invalid_request", `{"admin":true,"admin":false}`: "invalid_request",
		} {
			wantProblem(t, body, keeper.api("PUT", "/api/admin/users/ada/flags", body), http.StatusBadRequest, code)
		}
		u, err := s.store.UserByHandle(t.Context(), "ada")
		if err != nil || len(u.Flags) != 0 {
			t.Errorf("ada has %v: %v", u.Flags, err)
		}
		if got := keeper.api("PUT", "/api/admin/settings", `{"flags":["captain"]}`); got.StatusCode != http.StatusOK {
			t.Fatalf("add a flag: %d %s", got.StatusCode, got.Text)
		}
		if got := keeper.api("PUT", "/api/admin/users/ada/flags", `{"captain":true}`); got.StatusCode != http.StatusOK {
			t.Errorf("a flag that there is now: %d", got.StatusCode)
		}
		for _, body := range []string{`{"default_flags":["admin"]}`, `{"default_flags":["nothing"]}`, `{"flags":["Captain"]}`, `{"max_users":-1}`, `{"max_users":1.5}`, `{"registration":"open"}`, `{"instance_name":""}`, `{"instance_name":"a\u0007"}`, `{"min_password_length":1}`, `{"x":1}`} {
			if got := keeper.api("PUT", "/api/admin/settings", body); got.StatusCode != http.StatusBadRequest {
				t.Errorf("settings %s: %d", body, got.StatusCode)
			}
		}
	})
}

// Attack 136: what is no handle names nobody, least of all everybody.
func TestOddHandleNeverNamesAnybody(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		for _, h := range []string{"ada", "bob", "a"} {
			s.addUser(h)
		}
		keeper := s.signedIn("keeper")
		for _, h := range []string{"", "%20", "%00", "%25", "*", "_", ".", "..", "%2e%2e", "null", "undefined", "ada%00", "ada%0a", "ada'--", "ada,bob", "ada%2Cbob", "%", "%ff", "a%2fb", "ada%2f..%2fbob", "-", "%20ada", "ada%20", "?ada", "1=1", "%F0%9F%92%A9", strings.Repeat("a", 5000)} {
			for _, c := range []struct{ method, tail string }{{"DELETE", ""}, {"POST", "/suspend"}, {"POST", "/reset-password-code"}, {"PUT", "/flags"}, {"GET", ""}} {
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
		// Attack 103: a search is text.
		for query, want := range map[string]int{"%25": 0, "_": 0, "%27%20OR%201=1--": 0, "a": 2, "KEEP": 1, "%5C": 0, "": 4} {
			if got := keeper.api("GET", "/api/admin/users?query="+query, nil).JSON(t)["users"].([]any); len(got) != want {
				t.Errorf("query %q finds %d", query, len(got))
			}
		}
		for _, query := range []string{"cursor=x", "cursor=KG9yIDE9MSk", "limit=0", "limit=-1", "limit=1e3", "limit=201", "limit=01", "query=%00", "query=%ff", "query=a&query=b", "cursor=%00", "limit=", "%zz"} {
			if got := rawRequestAs(t, s, keeper, "GET", "/api/admin/users?"+query); !strings.HasPrefix(got, "HTTP/1.1 400") {
				t.Errorf("%s: %s", query, got)
			}
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

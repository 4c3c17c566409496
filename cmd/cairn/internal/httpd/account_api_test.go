package httpd

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/storetest"
)

// shapeOf writes the members of a JSON value and their types; what is not
// there and what is null differ.
func shapeOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var b strings.Builder
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(name + ":" + shapeOf(v[name]))
		}
		return "{" + b.String() + "}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shapeOf(v[0]) + "]"
	case string:
		return "s"
	case float64:
		return "n"
	case bool:
		return "b"
	case nil:
		return "null"
	}
	return fmt.Sprintf("%T", v)
}

// Every answer has the members of the contract with their types: clients are
// written against them.
func TestFormOfTheAnswers(t *testing.T) {
	oneInstallation(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin", "activity")
		s.addUser("bob", "activity")
		s.addClient("app", func(c *provider.Client) { c.RequireFlags = []string{"activity"} })
		b := s.visitor()
		const (
			flags   = "{activity:b admin:b}"
			me      = "{created_at:s display_name:s email:s email_verified:b ends_at:null flag_ends:{} flags:" + flags + " handle:s session:{created_at:s expires_at:s id:s} sub:s}"
			session = "{address:s amr:[s] auth_time:s created_at:s current:b device:s expires_at:s id:s last_seen_at:s passkey:null user_agent:s}"
			open    = "{account_ends_at:null code:s created_at:s domain:null expires_at:s flag_ends:{} flags:[] joined:[] mailed_to:null url:s used:b used_at:null used_by:null uses:n}"
			used    = "{account_ends_at:null code:s created_at:s domain:null expires_at:s flag_ends:{} flags:[] joined:[s] mailed_to:null url:s used:b used_at:s used_by:s uses:n}"
			setting = "{accent_colour:s attributes:[] audit_days:n contact:s default_flags:[s] flag_descriptions:{activity:s admin:s} flags:[s] imprint_url:s instance_name:s invite_flags:[] invite_max_days:n invite_max_uses:n invites_per_member:n max_users:n min_password_length:n offer_passkeys:b privacy_url:s registration:s second_factor_flags:[] session_days:n session_flags:[] sign_out_on_flag_loss:b}"
			issued  = "{code:s expires_at:s ok:b url:s}"
		)
		var code string
		body := func(v ...string) map[string]string {
			m := map[string]string{}
			for i := 0; i+1 < len(v); i += 2 {
				m[v[i]] = v[i+1]
			}
			return m
		}
		for _, c := range []struct {
			what string
			do   func() response
			want int
			form string
		}{
			{"login", func() response { return b.login("keeper", password) }, 200, "{display_name:s flags:" + flags + " handle:s ok:b}"},
			{"me", func() response { return b.api("GET", "/api/me", nil) }, 200, me},
			{"change of me", func() response { return b.api("PATCH", "/api/me", body("display_name", "K", "email", "k@example.org")) }, 200, me},
			{"empty change", func() response { return b.api("PATCH", "/api/me", "{}") }, 200, me},
			{"no preferences", func() response { return b.api("GET", "/api/me/prefs", nil) }, 200, "{}"},
			{"preferences", func() response { return b.api("PUT", "/api/me/prefs", `{"unit":"km","gone":null}`) }, 200, "{unit:s}"},
			{"no invites", func() response { return b.api("GET", "/api/invites", nil) }, 200, "{invites:[] remaining:null}"},
			{"invite", func() response {
				got := b.api("POST", "/api/invites", body("note", "for Grace"))
				code, _ = got.JSON(t)["code"].(string)
				return got
			}, 201, issued},
			{"invites", func() response { return b.api("GET", "/api/invites", nil) }, 200, "{invites:[" + open + "] remaining:null}"},
			{"register", func() response { return s.visitor().register(code, "grace") }, 201, "{handle:s ok:b}"},
			{"used invite", func() response { return b.api("GET", "/api/invites", nil) }, 200, "{invites:[" + used + "] remaining:null}"},
			{"member's invites", func() response { return s.signedIn("bob").api("GET", "/api/invites", nil) }, 200, "{invites:[] remaining:n}"},
			{"delete an invite", func() response { return b.api("DELETE", "/api/invites/"+b.invite(), nil) }, 204, ""},
			{"sessions", func() response { return b.api("GET", "/api/me/sessions", nil) }, 200, "{sessions:[" + session + "]}"},
			{"end others", func() response { return b.api("POST", "/api/me/sessions/end-others", nil) }, 204, ""},
			{"apps", func() response { return b.api("GET", "/api/me/apps", nil) }, 200, "{apps:[]}"},
			{"password", func() response {
				return b.api("PUT", "/api/me/password", body("current_password", password, "new_password", password+"!"))
			}, 200, "{ok:b}"},
			{"users", func() response { return b.api("GET", "/api/admin/users?limit=1", nil) }, 200,
				"{next_cursor:s total:n users:[{created_at:s display_name:s email:s ends_at:null flag_ends:{} flags:" + flags + " handle:s invited_by:null last_login_at:s sub:s suspended:b}]}"},
			{"last page", func() response { return b.api("GET", "/api/admin/users?query=grace", nil) }, 200,
				"{next_cursor:null total:n users:[{created_at:s display_name:s email:s ends_at:null flag_ends:{} flags:" + flags + " handle:s invited_by:s last_login_at:s sub:s suspended:b}]}"},
			{"nobody", func() response { return b.api("GET", "/api/admin/users?query=nobody", nil) }, 200, "{next_cursor:null total:n users:[]}"},
			{"user", func() response { return b.api("GET", "/api/admin/users/grace", nil) }, 200, "{apps:[] created_at:s display_name:s email:s email_verified:b ends_at:null flag_ends:{} flags:" + flags +
				" handle:s invited_by:s last_login_at:s sessions:[" + session + "] sub:s suspend_reason:s suspended:b suspended_at:null}"},
			{"flags", func() response { return b.api("PUT", "/api/admin/users/grace/flags", `{"activity":false}`) }, 200, "{flags:" + flags + " ok:b}"},
			{"no flags", func() response { return b.api("PUT", "/api/admin/users/grace/flags", `{}`) }, 200, "{flags:" + flags + " ok:b}"},
			{"suspend", func() response { return b.api("POST", "/api/admin/users/grace/suspend", body("reason", "x")) }, 200, "{ok:b}"},
			{"unsuspend", func() response { return b.api("POST", "/api/admin/users/grace/unsuspend", nil) }, 200, "{ok:b}"},
			{"reset code", func() response {
				got := b.api("POST", "/api/admin/users/grace/reset-password-code", nil)
				code, _ = got.JSON(t)["code"].(string)
				return got
			}, 201, issued},
			{"reset", func() response { return s.visitor().reset("grace", code, password+"!") }, 200, "{ok:b}"},
			{"settings", func() response { return b.api("GET", "/api/admin/settings", nil) }, 200, setting},
			{"change settings", func() response { return b.api("PUT", "/api/admin/settings", `{"max_users":50}`) }, 200, setting},
			{"clients", func() response { return b.api("GET", "/api/admin/clients", nil) }, 200,
				"{clients:[{client_id:s client_name:s created_at:s public:b redirect_uris:[s] require_acr:null require_flag:s scopes:[s] trusted:b}]}"},
			{"audit", func() response { return b.api("GET", "/api/admin/audit?limit=1", nil) }, 200,
				"{events:[{action:s actor:s address:s at:s detail:s id:n request_id:s sentence:s target:s}] next_cursor:s}"},
			{"delete a user", func() response { return b.api("DELETE", "/api/admin/users/grace", nil) }, 204, ""},
			{"delete me", func() response { return s.signedIn("bob").api("DELETE", "/api/me", body("password", password)) }, 204, ""},
			{"logout", func() response { return b.api("POST", "/api/auth/logout", nil) }, 200, "{ok:b}"},
			{"logout without a session", func() response { return s.visitor().api("POST", "/api/auth/logout", nil) }, 200, "{ok:b}"},
		} {
			got, form := c.do(), ""
			if got.Text != "" {
				form = shapeOf(map[string]any(got.JSON(t)))
			}
			if got.StatusCode != c.want || form != c.form || got.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %s\nwant %d %s", c.what, got.StatusCode, form, c.want, c.form)
			}
		}
	})
}

// 405 says what would do, 401 comes before 403, both before anything is read,
// and the problem is one in all cases.
func TestOrderOfRefusals(t *testing.T) {
	oneInstallation(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		keeper, ada, anonymous := s.signedIn("keeper"), s.signedIn("ada"), s.visitor()
		for _, c := range []struct{ method, path string }{
			{"GET", "/api/me"}, {"PATCH", "/api/me"}, {"DELETE", "/api/me"}, {"PUT", "/api/me/password"}, {"GET", "/api/me/prefs"}, {"PUT", "/api/me/prefs"},
			{"GET", "/api/me/sessions"}, {"DELETE", "/api/me/sessions/x"}, {"POST", "/api/me/sessions/end-others"}, {"GET", "/api/me/apps"}, {"DELETE", "/api/me/apps/x"}, {"GET", "/api/me/export"},
			{"GET", "/api/invites"}, {"POST", "/api/invites"}, {"DELETE", "/api/invites/x"},
		} {
			wantProblem(t, c.method+" "+c.path, anonymous.do(c.method, c.path, "text/plain", "junk"), http.StatusUnauthorized, "not_authenticated")
		}
		for _, c := range []struct{ method, path string }{
			{"GET", "/api/admin/users"}, {"GET", "/api/admin/users/nobody"}, {"DELETE", "/api/admin/users/nobody"}, {"POST", "/api/admin/users/ada/suspend"},
			{"POST", "/api/admin/users/ada/unsuspend"}, {"PUT", "/api/admin/users/ada/flags"}, {"POST", "/api/admin/users/ada/reset-password-code"},
			{"GET", "/api/admin/settings"}, {"PUT", "/api/admin/settings"}, {"GET", "/api/admin/clients"}, {"GET", "/api/admin/audit"},
		} {
			what := c.method + " " + c.path
			wantProblem(t, what+" anonymous", anonymous.do(c.method, c.path, "text/plain", "junk"), http.StatusUnauthorized, "not_authenticated")
			wantProblem(t, what+" as a member", ada.do(c.method, c.path, "text/plain", "junk"), http.StatusForbidden, "admin_required")
		}
		for path, allow := range map[string]string{
			"/api/me": "DELETE, GET, HEAD, PATCH", "/api/auth/login": "POST", "/api/register": "POST", "/api/invites": "GET, HEAD, POST", "/api/admin/users/ada": "DELETE, GET, HEAD, PATCH",
			"/api/admin/users/ada/flags": "PUT", "/api/admin/settings": "GET, HEAD, PUT", "/api/admin/users": "GET, HEAD, POST", "/api/admin/users/ada/suspend": "POST",
			"/api/admin/clients": "GET, HEAD", "/api/admin/audit": "GET, HEAD", "/admin/users/ada/delete": "POST", "/healthz": "GET, HEAD", "/login/": "GET, HEAD, POST",
		} {
			got := anonymous.do("PROPFIND", path, "", "")
			wantProblem(t, path, got, http.StatusMethodNotAllowed, "method_not_allowed")
			if got.Header.Get("Allow") != allow {
				t.Errorf("%s: Allow %q", path, got.Header.Get("Allow"))
			}
		}
		for name, got := range map[string]response{
			"content type": keeper.do("PUT", "/api/admin/settings", "text/plain", `{"max_users":1}`), "no content type": keeper.do("PUT", "/api/admin/settings", "", `{"max_users":1}`),
			"form": keeper.do("POST", "/api/auth/login", "application/x-www-form-urlencoded", "handle=ada"), "charset": keeper.do("PUT", "/api/admin/settings", "application/json; charset=utf-16", `{}`),
			"gzip": keeper.do("PUT", "/api/admin/settings", "application/json", `{}`, "Content-Encoding", "gzip"), "reason as text": keeper.do("POST", "/api/admin/users/ada/suspend", "text/plain", `{}`),
		} {
			wantProblem(t, name, got, http.StatusUnsupportedMediaType, "unsupported_media_type")
		}
		for _, action := range []string{"suspend", "unsuspend", "reset-password-code"} {
			path := "/api/admin/users/ada/" + action
			wantProblem(t, action, keeper.do("GET", path, "", ""), http.StatusMethodNotAllowed, "method_not_allowed")
			wantProblem(t, action, keeper.do("POST", path, "text/plain", "{}"), http.StatusUnsupportedMediaType, "unsupported_media_type")
			wantProblem(t, action, keeper.do("POST", path, "application/json", `{"x":1}`), http.StatusBadRequest, "invalid_request")
			wantProblem(t, action, keeper.do("POST", path, "application/json", strings.Repeat(" ", 70_000)), http.StatusRequestEntityTooLarge, "too_large")
		}
		if keeper.api("GET", "/api/admin/users/ada", nil).JSON(t)["suspended"] != false {
			t.Error("a refused request suspended")
		}
		wantProblem(t, "wrong password", keeper.api("DELETE", "/api/me", map[string]string{"password": "wrong"}), http.StatusUnauthorized, "invalid_credentials")
		wantProblem(t, "no such session", keeper.api("DELETE", "/api/me/sessions/"+strings.Repeat("0", 36), nil), http.StatusNotFound, "session_not_found")
		wantProblem(t, "no such app", keeper.api("DELETE", "/api/me/apps/nothing", nil), http.StatusNotFound, "app_not_found")
	})
}

// Members write at the same time at two instances on one database: no answer is a server error.
func TestMixedWritesAreNoServerErrors(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*service{startService(t, serviceOptions{Store: storetest.Open(t, dsn)}), startService(t, serviceOptions{Store: storetest.Open(t, dsn)})}
		handles := []string{"ada", "bob", "carol", "dave"}
		browsers := make([]*browser, len(handles))
		for i, h := range handles {
			instances[0].addUser(h)
			browsers[i] = instances[i%2].signedIn(h)
		}
		got := inParallel(len(handles)*12, func(i int) int {
			b := browsers[i%len(handles)]
			switch i / len(handles) % 4 {
			case 0:
				return b.api("PATCH", "/api/me", map[string]string{"display_name": fmt.Sprint("name ", i)}).StatusCode
			case 1:
				return b.api("PUT", "/api/me/prefs", fmt.Sprintf(`{"k%d":"v"}`, i)).StatusCode
			case 2:
				return b.api("POST", "/api/invites", nil).StatusCode
			}
			return instances[i%2].visitor().login(handles[i%len(handles)], password).StatusCode
		})
		for status, n := range got {
			if status >= 500 || status == http.StatusUnauthorized {
				t.Errorf("%d answers of %d", n, status)
			}
		}
	})
}

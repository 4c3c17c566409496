package admin_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
)

var endpoints = []struct{ method, path, body string }{
	{"GET", "/api/admin/users", ""}, {"GET", "/api/admin/users/bob", ""}, {"DELETE", "/api/admin/users/bob", ""},
	{"POST", "/api/admin/users/bob/suspend", ""}, {"POST", "/api/admin/users/bob/unsuspend", ""}, {"PUT", "/api/admin/users/bob/flags", `{"admin":true}`},
	{"POST", "/api/admin/users/bob/reset-password-code", ""}, {"GET", "/api/admin/settings", ""}, {"PUT", "/api/admin/settings", `{"max_users":1}`},
	{"GET", "/api/admin/clients", ""}, {"GET", "/api/admin/audit", ""}, {"GET", "/api/admin/users/nobody", ""}, {"PUT", "/api/admin/users/nobody/flags", `{"x":1}`},
	{"GET", "/api/admin/users?limit=x", ""}, {"PATCH", "/api/admin/users/bob", `{"email_verified":true}`}, {"GET", "/api/admin/audit?cursor=!", ""},
}

func TestOrdinaryPeopleAdministerNothing(t *testing.T) {
	w := newWorld(t)
	before := w.addUser("bob")
	bob := w.signedIn("bob")
	for _, e := range endpoints {
		ct := ""
		if e.body != "" {
			ct = "application/json"
		}
		for _, headers := range [][]string{nil, {"X-Forwarded-User", "root1"}, {"X-Original-URL", "/id/api/me"}, {"Authorization", "Bearer admin"}} {
			w.browser().send(e.method, e.path, ct, e.body, headers...).is(401, "not_authenticated").hides("bob")
			bob.send(e.method, e.path, ct, e.body, headers...).is(403, "admin_required")
		}
	}
	for _, path := range []string{"/admin/", "/admin/users/bob"} {
		w.browser().page(path).redirectsTo("/id/login/")
		bob.page(path).is(403).shows(`data-page="error"`).hides("Name of bob")
	}
	for _, action := range []string{"profile", "suspend", "unsuspend", "flags", "reset-password-code", "delete"} {
		w.browser().page("/admin/users/bob/"+action, "flag", "admin", "confirm", "bob").redirectsTo("/id/login/")
		bob.page("/admin/users/bob/"+action, "flag", "admin", "confirm", "bob").is(403)
	}
	if after := w.user("bob"); after.Has(account.FlagAdmin) || after.Suspended() || after.Sub != before.Sub {
		t.Errorf("%+v", after)
	}
	if rows, err := w.store.AuditLog(t.Context(), account.AuditQuery{Kind: "user", Limit: 10}); err != nil || len(rows) != 1 {
		t.Errorf("refused acts left %d audit rows, %v", len(rows), err)
	}
}

// Whatever is mounted, also what is added later.
func TestEveryPathOfTheAdministrationIsGuarded(t *testing.T) {
	w := newWorld(t)
	w.addUser("bob")
	w.addUser("root1", account.FlagAdmin)
	bob, stale := w.signedIn("bob"), w.signedIn("root1")
	w.now = start.Add(10*time.Minute + time.Second)
	var paths []string
	err := w.router.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		if path, err := r.GetPathTemplate(); err == nil && strings.Contains(path+"/", "/admin/") {
			paths = append(paths, strings.NewReplacer("/id/", "/", "{handle}", "bob", "{id}", "x", "{code}", "AAAABBBBCCCCDDDD").Replace(path))
		}
		return nil
	})
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d paths, %v", len(paths), err)
	}
	for _, path := range paths {
		handled := 0
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
			a := w.browser().send(method, path, "", "")
			if a.status == http.StatusMethodNotAllowed {
				continue
			}
			handled++
			if a.status != 401 && (a.status != 303 || !strings.HasPrefix(a.header.Get("Location"), "/id/login/")) {
				t.Errorf("%s %s: %d for anybody", method, path, a.status)
			}
			if a := bob.send(method, path, "", ""); a.status != 403 {
				t.Errorf("%s %s: %d for a member", method, path, a.status)
			}
			if method == "GET" || method == "HEAD" {
				continue
			}
			contentType, body := "application/x-www-form-urlencoded", "confirm=bob&under=bob"
			switch {
			case method == "DELETE":
				contentType, body = "", ""
			case path == "/api/admin/invites/revoke":
				contentType, body = "application/json", `{"handle":"bob"}`
			case strings.HasPrefix(path, "/api/"):
				contentType, body = "application/json", "{}"
			}
			if a := stale.send(method, path, contentType, body); a.status != 403 || !strings.Contains(a.body, "reauthentication_required") {
				t.Errorf("%s %s: %d without a fresh proof", method, path, a.status)
			}
		}
		if handled == 0 {
			t.Errorf("%s answers no method", path)
		}
	}
}

func TestOtherSpellingsOfAPathOpenNothing(t *testing.T) {
	w := newWorld(t)
	w.addUser("bob")
	bob := w.signedIn("bob")
	for _, path := range []string{
		"/api/admin//users", "/API/admin/users", "/api/admin/users/", "/api/admin/./users", "/api/me/../admin/users", "/api/%61dmin/users", "/api/admin%2fusers",
		"/api/admin/users;x=1", "/api/admin/users%00", "/api/admin/users%20", "/admin//", "/%61dmin/", "/admin/..;/admin/",
	} {
		if a := bob.send("GET", path, "", ""); a.status == 200 {
			t.Errorf("%s: %d %.100s", path, a.status, a.body)
		}
	}
}

func TestLosingTheFlagWorksAtOnceInLiveSessions(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("root2", account.FlagAdmin)
	one, two := w.signedIn("root1"), w.signedIn("root2")
	two.call("GET", "/api/admin/users", nil).is(200)
	one.call("PUT", "/api/admin/users/root2/flags", map[string]bool{"admin": false}).is(200)
	two.call("GET", "/api/admin/users", nil).is(403, "admin_required")
	two.call("PUT", "/api/admin/users/root2/flags", map[string]bool{"admin": true}).is(403, "admin_required")
	one.call("PUT", "/api/admin/users/root2/flags", map[string]bool{"admin": true}).is(200)
	two = w.signedIn("root2")
	two.call("GET", "/api/admin/users", nil).is(200)
	one.call("POST", "/api/admin/users/root2/suspend", nil).is(200)
	two.call("GET", "/api/admin/users", nil).is(401, "not_authenticated")
	two.call("POST", "/api/admin/users/root1/suspend", nil).is(401)
}

func TestMethodsOfTheAdministration(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	for path, allow := range map[string]string{
		"/api/admin/users": "GET, HEAD, POST", "/api/admin/users/bob": "DELETE, GET, HEAD, PATCH", "/api/admin/users/bob/suspend": "POST", "/api/admin/users/bob/flags": "PUT",
		"/api/admin/settings": "GET, HEAD, PUT", "/api/admin/clients": "GET, HEAD", "/api/admin/audit": "GET, HEAD", "/admin/users/bob/delete": "POST",
	} {
		a := b.send("TRACE", path, "", "").is(405, "method_not_allowed")
		if got := a.header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", path, got, allow)
		}
	}
	for _, action := range []string{"suspend", "unsuspend", "reset-password-code"} {
		b.send(http.MethodGet, "/api/admin/users/bob/"+action, "", "").is(405)
		b.send(http.MethodPost, "/api/admin/users/bob/"+action, "text/plain", "{}").is(415)
		b.send(http.MethodPost, "/api/admin/users/bob/"+action, "application/json", `{"x":1}`).is(400, "invalid_request")
		b.send(http.MethodPost, "/api/admin/users/bob/"+action, "application/json", strings.Repeat(" ", 70000)).is(413)
	}
	if u := w.user("bob"); u.Suspended() {
		t.Error("a refused request suspended")
	}
}

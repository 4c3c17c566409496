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
	before := w.AddUser("bob")
	bob := w.SignedIn("bob")
	for _, e := range endpoints {
		ct := ""
		if e.body != "" {
			ct = "application/json"
		}
		for _, headers := range [][]string{nil, {"X-Forwarded-User", "root1"}, {"X-Original-URL", "/id/api/me"}, {"Authorization", "Bearer admin"}} {
			w.Browser().Send(e.method, e.path, ct, e.body, headers...).Is(401, "not_authenticated").Hides("bob")
			bob.Send(e.method, e.path, ct, e.body, headers...).Is(403, "admin_required")
		}
	}
	for _, path := range []string{"/admin/", "/admin/users/bob"} {
		w.Browser().Page(path).RedirectsTo("/id/login/")
		bob.Page(path).Is(403).Shows(`data-page="error"`).Hides("Bob")
	}
	for _, action := range []string{"profile", "suspend", "unsuspend", "flags", "reset-password-code", "delete"} {
		w.Browser().Page("/admin/users/bob/"+action, "flag", "admin", "confirm", "bob").RedirectsTo("/id/login/")
		bob.Page("/admin/users/bob/"+action, "flag", "admin", "confirm", "bob").Is(403)
	}
	if after := w.User("bob"); after.Has(account.FlagAdmin) || after.Suspended() || after.Sub != before.Sub {
		t.Errorf("%+v", after)
	}
	if rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Kind: "user", Limit: 10}); err != nil || len(rows) != 1 {
		t.Errorf("refused acts left %d audit rows, %v", len(rows), err)
	}
}

// Whatever is mounted, also what is added later.
func TestEveryPathOfTheAdministrationIsGuarded(t *testing.T) {
	w := newWorld(t)
	w.AddUser("bob")
	w.AddUser("root1", account.FlagAdmin)
	bob, stale := w.SignedIn("bob"), w.SignedIn("root1")
	w.Clock.Advance(10*time.Minute + time.Second)
	var paths []string
	err := w.Router.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
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
			a := w.Browser().Send(method, path, "", "")
			if a.Status == http.StatusMethodNotAllowed {
				continue
			}
			handled++
			if a.Status != 401 && (a.Status != 303 || !strings.HasPrefix(a.Header.Get("Location"), "/id/login/")) {
				t.Errorf("%s %s: %d for anybody", method, path, a.Status)
			}
			if a := bob.Send(method, path, "", ""); a.Status != 403 {
				t.Errorf("%s %s: %d for a member", method, path, a.Status)
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
			if a := stale.Send(method, path, contentType, body); a.Status != 403 || !strings.Contains(a.Body, "reauthentication_required") {
				t.Errorf("%s %s: %d without a fresh proof", method, path, a.Status)
			}
		}
		if handled == 0 {
			t.Errorf("%s answers no method", path)
		}
	}
}

func TestOtherSpellingsOfAPathOpenNothing(t *testing.T) {
	w := newWorld(t)
	w.AddUser("bob")
	bob := w.SignedIn("bob")
	for _, path := range []string{
		"/api/admin//users", "/API/admin/users", "/api/admin/users/", "/api/admin/./users", "/api/me/../admin/users", "/api/%61dmin/users", "/api/admin%2fusers",
		"/api/admin/users;x=1", "/api/admin/users%00", "/api/admin/users%20", "/admin//", "/%61dmin/", "/admin/..;/admin/",
	} {
		if a := bob.Send("GET", path, "", ""); a.Status == 200 {
			t.Errorf("%s: %d %.100s", path, a.Status, a.Body)
		}
	}
}

func TestLosingTheFlagWorksAtOnceInLiveSessions(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("root2", account.FlagAdmin)
	one, two := w.SignedIn("root1"), w.SignedIn("root2")
	two.Call("GET", "/api/admin/users", nil).Is(200)
	one.Call("PUT", "/api/admin/users/root2/flags", map[string]bool{"admin": false}).Is(200)
	two.Call("GET", "/api/admin/users", nil).Is(403, "admin_required")
	two.Call("PUT", "/api/admin/users/root2/flags", map[string]bool{"admin": true}).Is(403, "admin_required")
	one.Call("PUT", "/api/admin/users/root2/flags", map[string]bool{"admin": true}).Is(200)
	two = w.SignedIn("root2")
	two.Call("GET", "/api/admin/users", nil).Is(200)
	one.Call("POST", "/api/admin/users/root2/suspend", nil).Is(200)
	two.Call("GET", "/api/admin/users", nil).Is(401, "not_authenticated")
	two.Call("POST", "/api/admin/users/root1/suspend", nil).Is(401)
}

func TestMethodsOfTheAdministration(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("bob")
	b := w.SignedIn("root1")
	for path, allow := range map[string]string{
		"/api/admin/users": "GET, HEAD, POST", "/api/admin/users/bob": "DELETE, GET, HEAD, PATCH", "/api/admin/users/bob/suspend": "POST", "/api/admin/users/bob/flags": "PUT",
		"/api/admin/settings": "GET, HEAD, PUT", "/api/admin/clients": "GET, HEAD", "/api/admin/audit": "GET, HEAD", "/admin/users/bob/delete": "POST",
	} {
		a := b.Send("TRACE", path, "", "").Is(405, "method_not_allowed")
		if got := a.Header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", path, got, allow)
		}
	}
	for _, action := range []string{"suspend", "unsuspend", "reset-password-code"} {
		b.Send(http.MethodGet, "/api/admin/users/bob/"+action, "", "").Is(405)
		b.Send(http.MethodPost, "/api/admin/users/bob/"+action, "text/plain", "{}").Is(415)
		b.Send(http.MethodPost, "/api/admin/users/bob/"+action, "application/json", `{"x":1}`).Is(400, "invalid_request")
		b.Send(http.MethodPost, "/api/admin/users/bob/"+action, "application/json", strings.Repeat(" ", 70000)).Is(413)
	}
	if u := w.User("bob"); u.Suspended() {
		t.Error("a refused request suspended")
	}
}

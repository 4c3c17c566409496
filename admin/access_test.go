package admin_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
)

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
	// A thief of an administrator's session reads, and changes nothing.
	stale.Call("GET", "/api/admin/users/bob", nil).Is(200)
	if u := w.User("bob"); u.Suspended() || u.Has(account.FlagAdmin) {
		t.Errorf("changed: %+v", u)
	}
	stale.Page("/account/confirm", "confirm_password", password, "next", "/admin/users/bob").RedirectsTo("/id/admin/users/bob")
	stale.Call("POST", "/api/admin/users/bob/suspend", nil).Is(200)
}

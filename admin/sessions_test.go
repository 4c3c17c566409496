package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
)

// What an administrator ends is ended at once, for that person alone, and is in
// the audit log.
func TestAdministratorEndsOnlyTheNamedSessions(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	w.addUser("eve")
	b := w.signedIn("root1")
	first, second, third, eve := w.signedIn("bob"), w.signedIn("bob"), w.signedIn("bob"), w.signedIn("eve")
	id := first.call("GET", "/api/me", nil).is(200).json()["session"].(map[string]any)["id"].(string)
	theirs := eve.call("GET", "/api/me", nil).is(200).json()["session"].(map[string]any)["id"].(string)
	for _, other := range []string{theirs, uuid.NewString(), "x", "%20", strings.Repeat("a", 36)} {
		b.call("DELETE", "/api/admin/users/bob/sessions/"+other, nil).is(404, "session_not_found")
	}
	w.signedIn("eve").call("DELETE", "/api/admin/users/bob/sessions/"+id, nil).is(403, "admin_required")
	b.call("DELETE", "/api/admin/users/nobody/sessions/"+id, nil).is(404, "user_not_found")
	b.call("DELETE", "/api/admin/users/bob/sessions/"+id, nil).is(204)
	b.call("DELETE", "/api/admin/users/bob/sessions/"+id, nil).is(404, "session_not_found")
	first.call("GET", "/api/me", nil).is(401)
	second.call("GET", "/api/me", nil).is(200)

	a := b.page("/admin/users/bob").is(200).shows(`id="sessions-end"`).body
	if n := strings.Count(a, `data-session="`); n != 2 {
		t.Errorf("%d sessions on the page", n)
	}
	sid := second.call("GET", "/api/me", nil).json()["session"].(map[string]any)["id"].(string)
	b.page("/admin/users/bob/end-session", "id", theirs).is(404)
	b.page("/admin/users/bob/end-session", "id", sid).redirectsTo("/id/admin/users/bob?notice=session-ended#sessions")
	second.call("GET", "/api/me", nil).is(401)
	third.call("GET", "/api/me", nil).is(200)
	b.page("/admin/users/bob/end-sessions", "x", "").redirectsTo("/id/admin/users/bob?notice=sessions-ended#sessions")
	third.call("GET", "/api/me", nil).is(401)
	eve.call("GET", "/api/me", nil).is(200)
	b.page("/admin/users/bob?notice=sessions-ended").is(200).shows("All sessions have ended.", "Not signed in anywhere").hides(`id="sessions-end"`)
	w.signedIn("bob")
	b.call("POST", "/api/admin/users/bob/sessions/end-all", nil).is(http.StatusOK)

	audit := b.call("GET", "/api/admin/audit", nil).is(200).body
	if one, all := strings.Count(audit, `"user.end_session"`), strings.Count(audit, `"user.end_sessions"`); one != 2 || all != 2 {
		t.Errorf("%d and %d audit rows", one, all)
	}
}

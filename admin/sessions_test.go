package admin_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pquerna/otp/totp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/accounttest"
)

// What an administrator ends is ended at once, for that person alone, and is in
// the audit log.
func TestAdministratorEndsOnlyTheNamedSessions(t *testing.T) {
	w, b := administered(t, "bob", "eve")
	first, second, third, eve := w.SignedIn("bob"), w.SignedIn("bob"), w.SignedIn("bob"), w.SignedIn("eve")
	id := first.Call("GET", "/api/me", nil).Is(200).JSON()["session"].(map[string]any)["id"].(string)
	theirs := eve.Call("GET", "/api/me", nil).Is(200).JSON()["session"].(map[string]any)["id"].(string)
	for _, other := range []string{theirs, uuid.NewString(), "x", "%20", strings.Repeat("a", 36)} {
		b.Call("DELETE", "/api/admin/users/bob/sessions/"+other, nil).Is(404, "session_not_found")
	}
	w.SignedIn("eve").Call("DELETE", "/api/admin/users/bob/sessions/"+id, nil).Is(403, "admin_required")
	b.Call("DELETE", "/api/admin/users/nobody/sessions/"+id, nil).Is(404, "user_not_found")
	b.Call("DELETE", "/api/admin/users/bob/sessions/"+id, nil).Is(204)
	b.Call("DELETE", "/api/admin/users/bob/sessions/"+id, nil).Is(404, "session_not_found")
	first.Call("GET", "/api/me", nil).Is(401)
	second.Call("GET", "/api/me", nil).Is(200)

	a := b.Page("/admin/users/bob").Is(200).Shows(`id="sessions-end"`).Body
	same(t, "sessions on the page", strings.Count(a, `data-session="`), 2)
	sid := second.Call("GET", "/api/me", nil).JSON()["session"].(map[string]any)["id"].(string)
	b.Page("/admin/users/bob/end-session", "id", theirs).Is(404)
	b.Page("/admin/users/bob/end-session", "id", sid).RedirectsTo("/id/admin/users/bob?notice=session-ended#sessions")
	second.Call("GET", "/api/me", nil).Is(401)
	third.Call("GET", "/api/me", nil).Is(200)
	b.Page("/admin/users/bob/end-sessions", "x", "").RedirectsTo("/id/admin/users/bob?notice=sessions-ended#sessions")
	third.Call("GET", "/api/me", nil).Is(401)
	eve.Call("GET", "/api/me", nil).Is(200)
	b.Page("/admin/users/bob?notice=sessions-ended").Is(200).Shows("The person is signed out everywhere.", "Not signed in anywhere").Hides(`id="sessions-end"`)
	w.SignedIn("bob")
	b.Call("POST", "/api/admin/users/bob/sessions/end-all", nil).Is(http.StatusOK)

	audit := b.Call("GET", "/api/admin/audit", nil).Is(200).Body
	if one, all := strings.Count(audit, `"user.end_session"`), strings.Count(audit, `"user.end_sessions"`); one != 2 || all != 2 {
		t.Errorf("%d and %d audit rows", one, all)
	}
}

// An administrator who removes a factor of a thief, by its box, disowns the password with which it was added.
func TestAdministratorRemovesWaysInWithTheSessions(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("bob")
	w.AddUser("eve")
	w.Clock.Advance(30 * 24 * time.Hour)
	for _, name := range []string{"bob", "eve"} {
		thief := w.SignedIn(name)
		drawn := thief.Call("POST", "/api/me/totp", nil).Is(200).JSON()
		code, err := totp.GenerateCode(drawn["secret"].(string), w.Clock.Now())
		must(t, err)
		thief.Call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": code}).Is(200)
	}
	b := w.SignedIn("root1")
	b.Page("/admin/users/bob").Is(200).Shows(`id="recent-factors"`, `value="totp"`).Hides(`value="totp" checked`)
	if recent := b.Call("GET", "/api/admin/users/bob", nil).Is(200).JSON()["recent_factors"].([]any); len(recent) != 2 {
		t.Errorf("recent factors %v", recent)
	}
	b.Call("POST", "/api/admin/users/bob/sessions/end-all", map[string]any{"remove_factors": []string{"passkey:AAAA"}}).Is(400, "invalid_request")
	b.Call("POST", "/api/admin/users/bob/sessions/end-all", nil).Is(200) // removes none
	w.Browser().Login("bob", accounttest.Password).Is(401, "second_factor_required")
	b.Call("POST", "/api/admin/users/bob/sessions/end-all", map[string]any{"remove_factors": []string{"totp"}}).Is(200)
	b.Page("/admin/users/eve/end-sessions", "remove_factor", "totp").Is(303)
	for _, name := range []string{"bob", "eve"} {
		w.Browser().Login(name, accounttest.Password).Is(403, "password_disowned")
	}
}

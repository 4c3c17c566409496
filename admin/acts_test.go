package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

func TestSuspensionWorksAtOnceAndUnsuspensionRevivesNothing(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	root, bob := w.signedIn("root1"), w.signedIn("bob")
	code := root.call("POST", "/api/admin/users/bob/reset-password-code", nil).is(201).json()["code"].(string)
	root.call("POST", "/api/admin/users/bob/suspend", map[string]string{"reason": "spam"}).is(200).shows(`{"ok":true}`)
	if bob.isSignedIn() {
		t.Fatal("a suspended user acts")
	}
	m := root.call("GET", "/api/admin/users/bob", nil).json()
	if m["suspended"] != true || m["suspend_reason"] != "spam" || len(m["sessions"].([]any)) != 0 {
		t.Errorf("%v", m)
	}
	root.call("POST", "/api/admin/users/bob/suspend", nil).is(200)
	root.call("POST", "/api/admin/users/bob/unsuspend", nil).is(200)
	root.call("POST", "/api/admin/users/bob/unsuspend", nil).is(200)
	if bob.isSignedIn() {
		t.Error("an ended session was revived")
	}
	w.browser().call("POST", "/api/auth/reset-password", map[string]string{"handle": "bob", "code": code, "password": "eleven quiet lanterns"}).is(400, "invalid_reset_code")
	if !w.signedIn("bob").isSignedIn() {
		t.Error("bob cannot come back")
	}
	for _, reason := range []string{strings.Repeat("x", 201), "a\nb", "a\u202eb"} {
		root.call("POST", "/api/admin/users/bob/suspend", map[string]string{"reason": reason}).is(400, "invalid_text")
	}
}

func TestAdministratorCannotLockThemselvesOut(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	b := w.signedIn("root1")
	// Own account before last administrator.
	b.call("POST", "/api/admin/users/root1/suspend", nil).is(409, "own_account")
	b.call("DELETE", "/api/admin/users/ROOT1", nil).is(409, "own_account")
	b.call("PUT", "/api/admin/users/root1/flags", map[string]bool{"admin": false}).is(409, "last_admin")
	b.page("/admin/users/root1/suspend", "reason", "").is(409).shows(`role="alert"`, "your own account")
	b.page("/admin/users/root1/delete", "confirm", "root1").is(409)
	b.page("/admin/users/root1/flags", "known", "admin", "known", "activity").is(409).shows("last active administrator")
	w.addUser("root2", account.FlagAdmin)
	b.call("POST", "/api/admin/users/root2/suspend", nil).is(200)
	b.call("PUT", "/api/admin/users/root1/flags", map[string]bool{"admin": false}).is(409, "last_admin") // a suspended one does not count
	b.call("POST", "/api/admin/users/root2/unsuspend", nil).is(200)
	b.call("PUT", "/api/admin/users/root1/flags", map[string]bool{"admin": false}).is(200)
	b.call("GET", "/api/admin/users", nil).is(403)
}

func TestAdministratorsCannotRaceEachOtherOut(t *testing.T) {
	for range 3 {
		w := newWorld(t)
		var browsers []*browser
		names := []string{"one", "two", "three"}
		for _, n := range names {
			w.addUser(n, account.FlagAdmin)
			browsers = append(browsers, w.signedIn(n))
		}
		acts := []func(b *browser, victim string) *answer{
			func(b *browser, v string) *answer { return b.call("POST", "/api/admin/users/"+v+"/suspend", nil) },
			func(b *browser, v string) *answer { return b.call("DELETE", "/api/admin/users/"+v, nil) },
			func(b *browser, v string) *answer {
				return b.call("PUT", "/api/admin/users/"+v+"/flags", map[string]bool{"admin": false})
			},
		}
		got := parallel(3, func(i int) int { return acts[i](browsers[i], names[(i+1)%3]).status })
		if got[500]+got[503] > 0 {
			t.Errorf("%v", got)
		}
		left := 0
		for _, n := range names {
			if u, err := w.store.UserByHandle(t.Context(), n); err == nil && u.Has(account.FlagAdmin) && !u.Suspended() {
				left++
			}
		}
		if left == 0 {
			t.Fatalf("no administrator is left: %v", got)
		}
	}
}

func TestRepeatedAndParallelActionsSucceed(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	got := parallel(8, func(i int) int {
		if i%2 == 0 {
			return b.call("POST", "/api/admin/users/bob/suspend", nil).status
		}
		return b.call("DELETE", "/api/admin/users/bob", nil).status
	})
	if got[204] != 1 || got[200]+got[204]+got[404] != 8 {
		t.Errorf("%v", got)
	}
	b.call("DELETE", "/api/admin/users/bob", nil).is(404, "user_not_found")
	b.call("GET", "/api/admin/users/bob", nil).is(404, "user_not_found")
}

func TestUnknownFlagsChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob", account.FlagActivity)
	b := w.signedIn("root1")
	for body, code := range map[string]string{
		`{"activity":false,"nonsense":true}`: "unknown_flag", `{"nonsense":false}`: "unknown_flag", `{"ADMIN":true}`: "unknown_flag", `{"":true}`: "unknown_flag",
		`{"admin ":true}`: "unknown_flag", `{"activity":null}`: "invalid_request", `{"activity":"true"}`: "invalid_request", `{"activity":1}`: "invalid_request",
		`{"activity":false,"activity":true}`: "invalid_request", `["admin"]`: "invalid_request", `{"flags":{"admin":true}}`: "invalid_request",
	} {
		b.send("PUT", "/api/admin/users/bob/flags", "application/json", body).is(400, code)
	}
	if got := strings.Join(w.user("bob").Flags, " "); got != "activity" {
		t.Errorf("flags %q", got)
	}
	if got := strings.TrimSpace(b.send("PUT", "/api/admin/users/bob/flags", "application/json", `{"admin":true}`).is(200).body); got != `{"ok":true,"flags":{"activity":true,"admin":true}}` {
		t.Error(got)
	}
	b.send("PUT", "/api/admin/users/bob/flags", "application/json", `{}`).is(200)
	b.send("PUT", "/api/admin/users/bob/flags", "application/json", `{"activity":false,"admin":false}`).is(200).shows(`"activity":false,"admin":false`)
	if got := w.user("bob").Flags; len(got) != 0 {
		t.Errorf("flags %q", got)
	}
}

func TestAFlagTheSettingsLostCanStillBeTaken(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	b.send("PUT", "/api/admin/settings", "application/json", `{"flags":["coach"]}`).is(200)
	b.call("PUT", "/api/admin/users/bob/flags", map[string]bool{"coach": true}).is(200)
	b.send("PUT", "/api/admin/settings", "application/json", `{"flags":[]}`).is(200)
	b.call("PUT", "/api/admin/users/bob/flags", map[string]bool{"coach": true}).is(400, "unknown_flag")
	b.call("PUT", "/api/admin/users/bob/flags", map[string]bool{"coach": false}).is(200)
	b.call("PUT", "/api/admin/users/bob/flags", map[string]bool{"coach": false}).is(400, "unknown_flag")
}

func TestResetCodesAreShownOnceToAdministratorsAlone(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	m := b.call("POST", "/api/admin/users/BOB/reset-password-code", nil).is(201).json()
	code := m["code"].(string)
	if len(m) != 4 || m["ok"] != true || len(code) != 26 || m["url"] != "http://localhost:4040/id/reset-password/?code="+code+"&handle=bob" || m["expires_at"] == nil {
		t.Errorf("%v", m)
	}
	for _, path := range []string{"/api/admin/users", "/api/admin/users/bob", "/api/admin/audit", "/admin/users/bob"} {
		b.send("GET", path, "", "", "Accept", "text/html").is(200).hides(code)
	}
	w.browser().call("POST", "/api/auth/reset-password", map[string]string{"handle": "bob", "code": code, "password": "eleven quiet lanterns"}).is(200)
	b.call("POST", "/api/admin/users/nobody/reset-password-code", nil).is(404, "user_not_found")
}

func TestEveryActIsInTheAuditLog(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	b.call("POST", "/api/admin/users/bob/suspend", map[string]string{"reason": "spam"}).is(200)
	b.call("POST", "/api/admin/users/bob/unsuspend", nil).is(200)
	b.call("PUT", "/api/admin/users/bob/flags", map[string]bool{"admin": true, "activity": false}).is(200)
	code := b.call("POST", "/api/admin/users/bob/reset-password-code", nil).is(201).json()["code"].(string)
	b.send("PUT", "/api/admin/settings", "application/json", `{"instance_name":"Club","max_users":9}`).is(200)
	b.call("DELETE", "/api/admin/users/bob", nil).is(204)
	b.call("DELETE", "/api/admin/users/bob", nil).is(404)

	var got []string
	path := "/api/admin/audit?limit=2"
	for range 10 {
		a := b.call("GET", path, nil).is(200).hides(code)
		for _, e := range a.json()["events"].([]any) {
			m := e.(map[string]any)
			got = append(got, m["action"].(string)+" "+m["target"].(string)+" ("+m["detail"].(string)+")")
			if m["actor"] == "root1" && (m["address"] != "192.0.2.1" || m["request_id"] != "req-1" || m["at"] == nil) {
				t.Errorf("%v", m)
			}
		}
		next, ok := a.json()["next_cursor"].(string)
		if !ok {
			break
		}
		path = "/api/admin/audit?limit=2&cursor=" + next
	}
	want := "user.delete bob (), settings.update settings (instance_name max_users), user.reset_code bob (), user.flags bob (activity=off admin=on), " +
		"user.unsuspend bob (), user.suspend bob (spam), session.create root1 (pwd), user.create bob (), user.create root1 ()"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestAuditLogIsFiltered(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	w.signedIn("bob")
	b.call("POST", "/api/admin/users/bob/suspend", map[string]string{"reason": "spam"}).is(200)
	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	for query, want := range map[string]string{
		"person=bob": "user.suspend session.create user.create", "person=BOB&kind=user": "user.suspend user.create", "kind=user.suspend": "user.suspend", "kind=session.": "session.create session.create",
		"person=operator": "user.create user.create", "person=nobody": "", "from=" + tomorrow: "", "kind=user.suspend&to=" + tomorrow: "user.suspend",
		"to=2000-01-01T00:00:00%2B01:00": "", "kind=user.suspend&from=2000-01-01": "user.suspend",
	} {
		var got []string
		for _, e := range b.call("GET", "/api/admin/audit?"+query, nil).is(200).json()["events"].([]any) {
			got = append(got, e.(map[string]any)["action"].(string))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", query, s, want)
		}
	}
	next := b.call("GET", "/api/admin/audit?person=bob&limit=2", nil).json()["next_cursor"].(string)
	b.call("GET", "/api/admin/audit?person=bob&limit=2&cursor="+next, nil).is(200).shows(`"user.create"`, `"next_cursor":null`).hides("session.create")
	for _, query := range []string{"person=b%20b", "person=a&person=b", "kind=User", "kind=%25", "kind=user.x'", "from=yesterday", "to=1", "from=2026-02-30", "cursor=!"} {
		if a := b.call("GET", "/api/admin/audit?"+query, nil); a.status != 400 {
			t.Errorf("%s: %d", query, a.status)
		}
	}
}

package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/templates"
)

func TestAdministratorCannotLockThemselvesOut(t *testing.T) {
	w, b := administered(t)
	// Own account before last administrator.
	b.Call("POST", "/api/admin/users/root1/suspend", nil).Is(409, "own_account")
	b.Call("DELETE", "/api/admin/users/ROOT1", nil).Is(409, "own_account")
	b.Call("PUT", "/api/admin/users/root1/flags", map[string]bool{"admin": false}).Is(409, "last_admin")
	b.Page("/admin/users/root1/suspend", "reason", "").Is(409).Shows(`role="alert"`, "your own account")
	b.Page("/admin/users/root1/delete", "confirm", "root1").Is(409)
	b.Page("/admin/users/root1/flags", "known", "admin", "known", "activity").Is(409).Shows("last active administrator")
	// The administration is no way round the proofs of one's own account.
	b.Call("POST", "/api/admin/users/root1/reset-password-code", nil).Is(409, "own_account")
	b.Call("POST", "/api/admin/users/root1/reset-factors", nil).Is(409, "own_account")
	_, err := w.Administration().Amend(t.Context(), account.Operator(), w.User("root1"), account.UserChange{"email": "root1@example.org"})
	must(t, err)
	for _, change := range []map[string]any{{"email_verified": true}, {"email": "new@example.org"}} {
		b.Call("PATCH", "/api/admin/users/root1", change).Is(409, "own_account")
	}
	if u := w.User("root1"); u.Email != "root1@example.org" || u.EmailVerified {
		t.Errorf("changed: %+v", u)
	}
	b.Call("PATCH", "/api/admin/users/root1", map[string]any{"display_name": "Kim"}).Is(200)
	// Who has never set a password cannot take over an installation.
	code := b.Call("POST", "/api/admin/users", map[string]any{"handle": "root3", "flags": map[string]bool{"admin": true}}).Is(201).JSON()["code"].(string)
	b.Call("PUT", "/api/admin/users/root1/flags", map[string]bool{"admin": false}).Is(409, "last_admin")
	b.Call("DELETE", "/api/me", map[string]string{"password": password}).Is(409, "last_admin")
	w.Browser().Call("POST", "/api/auth/reset-password", map[string]string{"handle": "root3", "code": code, "password": password}).Is(200)
	b.Call("PUT", "/api/admin/users/root1/flags", map[string]bool{"admin": false}).Is(200)
	w.SignedIn("root3").Call("PUT", "/api/admin/users/root1/flags", map[string]bool{"admin": true}).Is(200)
	w.SignedIn("root3").Call("PUT", "/api/admin/users/root3/flags", map[string]bool{"admin": false}).Is(200)
	w.AddUser("root2", account.FlagAdmin)
	b.Call("POST", "/api/admin/users/root2/suspend", nil).Is(200)
	b.Call("PUT", "/api/admin/users/root1/flags", map[string]bool{"admin": false}).Is(409, "last_admin") // a suspended one does not count
	b.Call("POST", "/api/admin/users/root2/unsuspend", nil).Is(200)
	b.Call("PUT", "/api/admin/users/root1/flags", map[string]bool{"admin": false}).Is(200)
	b.Call("GET", "/api/admin/users", nil).Is(403)
}

func TestAFlagTheSettingsLostCanStillBeTaken(t *testing.T) {
	_, b := administered(t, "bob")
	b.Send("PUT", "/api/admin/settings", "application/json", `{"flags":["coach"],"default_flags":[]}`).Is(200)
	b.Call("PUT", "/api/admin/users/bob/flags", map[string]bool{"coach": true}).Is(200)
	b.Send("PUT", "/api/admin/settings", "application/json", `{"flags":[]}`).Is(200)
	b.Call("PUT", "/api/admin/users/bob/flags", map[string]bool{"coach": true}).Is(400, "unknown_flag")
	b.Call("PUT", "/api/admin/users/bob/flags", map[string]bool{"coach": false}).Is(200)
	b.Call("PUT", "/api/admin/users/bob/flags", map[string]bool{"coach": false}).Is(400, "unknown_flag")
}

func TestUnknownFlagIsRefused(t *testing.T) {
	w, b := administered(t)
	w.AddUser("bob", account.FlagActivity)
	for body, code := range map[string]string{
		`{"activity":false,"captain":true}`: "unknown_flag", `{"activity":null}`: "invalid_request", `{"activity":false,"activity":true}`: "invalid_request", `{"flags":{"admin":true}}`: "invalid_request",
		`{"captain":true}`: "unknown_flag", `{"Admin":true}`: "unknown_flag", `{"":true}`: "unknown_flag", `{"admin ":true}`: "unknown_flag", `{"admin":true,"captain":true}`: "unknown_flag",
		`{"captain":false}`: "unknown_flag", `{"ADMIN":false}`: "unknown_flag", `{"аdmin":true}`: "unknown_flag", `{"admin":1}`: "invalid_request", `{"admin":"true"}`: "invalid_end",
		`{"admin":null}`: "invalid_request", `{"admin":[true]}`: "invalid_request", `["admin"]`: "invalid_request", `null`: "invalid_request", `{"admin":true,"admin":false}`: "invalid_request",
	} {
		b.Send("PUT", "/api/admin/users/bob/flags", "application/json", body).Is(400, code)
	}
	u := w.User("bob")
	same(t, fmt.Sprintf("bob has %v", u.Flags), strings.Join(u.Flags, " "), account.FlagActivity)
	// What is set counts at once, in the sessions that are there.
	bob := w.SignedIn("bob")
	for _, on := range []bool{true, false} {
		b.Send("PUT", "/api/admin/users/bob/flags", "application/json", fmt.Sprintf(`{"admin":%t,"activity":%t}`, on, !on)).Is(200)
		bob.Call("GET", "/api/me", nil).Is(200).Shows(fmt.Sprintf(`"flags":{"activity":%t,"admin":%t}`, !on, on))
	}
}

func TestResetCodesAreShownOnceToAdministratorsAlone(t *testing.T) {
	w, b := administered(t, "bob")
	m := b.Call("POST", "/api/admin/users/BOB/reset-password-code", nil).Is(201).JSON()
	code := m["code"].(string)
	if len(m) != 4 || m["ok"] != true || len(code) != 26 ||
		m["url"] != "http://localhost:4040/id/reset-password/?code="+code+"&handle=bob" ||
		m["expires_at"] != w.Clock.Now().Add(24*time.Hour).Format(time.RFC3339) {
		t.Errorf("%v", m)
	}
	for _, path := range []string{"/api/admin/users", "/api/admin/users/bob", "/api/admin/audit", "/admin/users/bob"} {
		b.Send("GET", path, "", "", "Accept", "text/html").Is(200).Hides(code)
	}
	w.Browser().Call("POST", "/api/auth/reset-password", map[string]string{"handle": "bob", "code": code, "password": "eleven quiet lanterns"}).Is(200)
	b.Call("POST", "/api/admin/users/nobody/reset-password-code", nil).Is(404, "user_not_found")
}

func TestEveryActIsInTheAuditLog(t *testing.T) {
	_, b := administered(t, "bob")
	for _, reason := range []string{strings.Repeat("x", 201), "a\nb", "a\u202eb"} {
		b.Call("POST", "/api/admin/users/bob/suspend", map[string]string{"reason": reason}).Is(400, "invalid_text")
	}
	b.Call("POST", "/api/admin/users/bob/suspend", map[string]string{"reason": "spam"}).Is(200)
	b.Call("GET", "/api/admin/users/bob", nil).Is(200).Shows(`"suspended":true`, `"suspend_reason":"spam"`)
	b.Call("POST", "/api/admin/users/bob/unsuspend", nil).Is(200)
	b.Call("PUT", "/api/admin/users/bob/flags", map[string]bool{"admin": true, "activity": false}).Is(200)
	b.Call("PUT", "/api/admin/users/bob/flags", map[string]bool{}).Is(200).Shows(`"admin":true`) // no act
	b.Call("PUT", "/api/admin/users/bob/end", map[string]string{"ends": "2099-12-24"}).Is(200)
	code := b.Call("POST", "/api/admin/users/bob/reset-password-code", nil).Is(201).JSON()["code"].(string)
	b.Send("PUT", "/api/admin/settings", "application/json", `{"instance_name":"Club","max_users":9}`).Is(200)
	b.Call("DELETE", "/api/admin/users/bob", nil).Is(204)
	b.Call("DELETE", "/api/admin/users/bob", nil).Is(404)

	var got []string
	path := "/api/admin/audit?limit=2"
	for range 10 {
		a := b.Call("GET", path, nil).Is(200).Hides(code)
		for _, e := range a.JSON()["events"].([]any) {
			m := e.(map[string]any)
			got = append(got, m["action"].(string)+" "+m["target"].(string)+" ("+m["detail"].(string)+")")
			if m["actor"] == "root1" && (m["address"] != "192.0.2.1" || m["request_id"] != "req-1" || m["at"] == nil) {
				t.Errorf("%v", m)
			}
		}
		next, ok := a.JSON()["next_cursor"].(string)
		if !ok {
			break
		}
		path = "/api/admin/audit?limit=2&cursor=" + next
	}
	want := "user.delete bob (), settings.update settings (instance_name max_users), user.reset_code bob (), user.end bob (2099-12-25T00:00:00Z), user.flags bob (activity=off admin=on), " +
		"user.unsuspend bob (), user.suspend bob (spam), session.create root1 (pwd), user.create bob (), user.create root1 ()"
	same(t, "got", strings.Join(got, ", "), want)
}

func TestAuditLogIsFiltered(t *testing.T) {
	w, b := administered(t, "bob")
	w.SignedIn("bob")
	b.Call("POST", "/api/admin/users/bob/suspend", map[string]string{"reason": "spam"}).Is(200)
	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	for query, want := range map[string]string{
		"person=bob": "user.suspend session.create user.create", "person=BOB&kind=user": "user.suspend user.create", "kind=user.suspend": "user.suspend", "kind=session.": "session.create session.create",
		"person=operator": "user.create user.create", "person=nobody": "", "from=" + tomorrow: "", "kind=user.suspend&to=" + tomorrow: "user.suspend",
		"to=2000-01-01T00:00:00%2B01:00": "", "kind=user.suspend&from=2000-01-01": "user.suspend",
	} {
		var got []string
		for _, e := range b.Call("GET", "/api/admin/audit?"+query, nil).Is(200).JSON()["events"].([]any) {
			got = append(got, e.(map[string]any)["action"].(string))
		}
		same(t, query, strings.Join(got, " "), want)
	}
	next := b.Call("GET", "/api/admin/audit?person=bob&limit=2", nil).JSON()["next_cursor"].(string)
	b.Call("GET", "/api/admin/audit?person=bob&limit=2&cursor="+next, nil).Is(200).Shows(`"user.create"`, `"next_cursor":null`).Hides("session.create")
	for _, query := range []string{"person=b%20b", "person=a&person=b", "kind=User", "kind=%25", "kind=user.x'", "from=yesterday", "to=1", "from=2026-02-30", "cursor=!"} {
		same(t, query, b.Call("GET", "/api/admin/audit?"+query, nil).Status, 400)
	}
	// Days on the page are the reader's, as its times: at every hour one of these is another day than that of UTC.
	for zone, filter := range map[string]struct {
		name string
		days int
	}{"Pacific/Kiritimati": {"to", -1}, "Pacific/Pago_Pago": {"from", 1}} {
		b.Call("PATCH", "/api/me", map[string]string{"zoneinfo": zone}).Is(200)
		day := time.Now().In(templates.Zone(zone)).AddDate(0, 0, filter.days).Format(time.DateOnly)
		b.Page("/admin/audit?" + filter.name + "=" + day).Is(200).Shows(`id="no-rows"`)
		same(t, zone, strings.Count(b.Page("/admin/audit.csv?"+filter.name+"="+day).Is(200).Body, "\n"), 1)
	}
}

// The audit log cannot be drowned: a session does so many acts a minute, and what stops a thief is never refused.
func TestActsOfASessionAreLimited(t *testing.T) {
	w := newWorld(t, func(o *accounttest.Options) {
		o.Limits = web.NewLimits(map[string]web.Rate{web.LimitActs: {Count: 60, Window: time.Minute}}, nil, o.Now, nil)
	})
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("bob")
	bob, other := w.SignedIn("bob"), w.SignedIn("bob")
	count := func(b *accounttest.Browser, method, path string, body func(i int) any) (done int) {
		for ; done < 700; done++ {
			if got := b.Call(method, path, body(done)); got.Status == 429 {
				got.Is(429, "rate_limited")
				if got.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				break
			}
		}
		return done
	}
	name := func(i int) any { return map[string]string{"display_name": fmt.Sprint("Bob ", i)} }
	same(t, "a member did, acts", count(bob, "PATCH", "/api/me", name), 60)
	other.Call("PATCH", "/api/me", name(99)).Is(200) // another session
	change := map[string]string{"current_password": accounttest.Password, "new_password": "eleven quiet lanterns"}
	bob.Call("POST", "/api/me/sessions/end-others", nil).Is(204)
	bob.Call("PUT", "/api/me/password", change).Is(200)
	bob.Call("POST", "/api/auth/logout", nil).Is(200)
	w.Browser().Login("bob", "eleven quiet lanterns").Is(200)

	root := w.SignedIn("root1")
	people := []string{"do", "flags", "flag.activity", "on", "sure", "yes", "who", "bob"}
	for i := range 30 {
		people = append(people, "who", w.AddUser(fmt.Sprintf("p%d", i)).Handle)
	}
	root.Page("/admin/users/selected", people...).Is(200) // counts once
	same(t, "an administrator did, acts", count(root, "PATCH", "/api/admin/users/bob", name), 599)
	root.Page("/admin/users/bob/unlock", "x", "").Is(429)
	root.Call("POST", "/api/admin/users/bob/sessions/end-all", nil).Is(200)
	w.Clock.Advance(2 * time.Minute)
	root.Call("POST", "/api/admin/users/bob/unlock", nil).Is(200)
}

package admin_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

func TestAdministrationByForms(t *testing.T) {
	w, b := administered(t)
	w.AddUser("bob", account.FlagActivity)
	b.Page("/admin/users/").Is(200).Shows(`data-page="admin-users"`, `href="/id/admin/users/bob"`, "Bob", `value="activity" checked`)
	b.Page("/admin/users/?query=bob").Is(200).Shows(`data-user="bob"`).Hides(`data-user="root1"`)
	b.Page("/admin/users/bob").Is(200).Shows(`data-page="admin-user"`, `id="suspend-submit"`)
	b.Page("/admin/users/root1").Is(200).Shows("This is your own account").Hides(`id="suspend-submit"`)
	b.Page("/admin/users/nobody").Is(404).Shows(`data-page="error"`)

	b.Page("/admin/users/bob/suspend", "reason", "<b>spam").Is(200).Shows("Suspend @bob and end all sessions?", `value="&lt;b&gt;spam"`)
	if w.User("bob").Suspended() {
		t.Error("suspended before the answer")
	}
	b.Page("/admin/users/bob/suspend", "reason", "<b>spam", "sure", "yes").RedirectsTo("/id/admin/users/bob?notice=suspended#end")
	b.Page("/admin/users/bob?notice=suspended").Is(200).Shows("The account is suspended and signed out everywhere.", `id="unsuspend-submit"`)
	b.Page("/admin/users/bob?notice=hello").Is(200).Hides("hello")
	b.Page("/admin/users/bob/unsuspend", "x", "").RedirectsTo("/id/admin/users/bob?notice=unsuspended#end")
	bob := w.User("bob")
	must(t, w.Store.LockUser(t.Context(), bob.Sub, bob.Unlocks, w.Clock.Now()))
	b.Page("/admin/users/bob").Is(200).Hides(`id="locked"`)
	must(t, w.Store.LockUser(t.Context(), bob.Sub, bob.Unlocks, w.Clock.Now().Add(10*time.Minute)))
	b.Page("/admin/users/bob").Is(200).Shows(`id="locked"`, "after too many wrong passwords or codes, until ", `id="unlock-submit"`)
	if until := b.Call("GET", "/api/admin/users/bob", nil).Is(200).JSON()["locked_until"]; until != w.User("bob").LockedUntil.Format(time.RFC3339) {
		t.Errorf("locked until %v", until)
	}
	b.Page("/admin/users/bob/unlock", "x", "").RedirectsTo("/id/admin/users/bob?notice=unlocked#password")
	b.Page("/admin/users/bob?notice=unlocked").Is(200).Shows("Sign-in is unlocked.", "unlocked sign-in").Hides(`id="locked"`)
	b.Page("/admin/users/bob/suspend", "reason", strings.Repeat("x", 201)).Is(400).Shows(`role="alert"`, `value="activity" checked`)

	b.Page("/admin/users/bob/flags", "known", "activity", "known", "admin", "flag", "admin").RedirectsTo("/id/admin/users/bob?notice=flags-saved#access")
	same(t, "flags", strings.Join(w.User("bob").Flags, " "), "admin")
	// What was not on the page stays; what does not exist is refused.
	b.Page("/admin/users/bob/flags", "known", "activity", "flag", "activity").RedirectsTo("/id/admin/users/bob?notice=flags-saved#access")
	same(t, "flags", strings.Join(w.User("bob").Flags, " "), "activity admin")
	b.Page("/admin/users/bob?notice=flags-saved").Is(200).Shows(`value="activity" checked`)
	b.Page("/admin/users/bob/flags", "known", "activity", "flag", "nonsense").Is(400)
	b.Page("/admin/users/bob/suspend", "reason", "a", "reason", "b").Is(400)

	a := b.Page("/admin/users/bob/reset-password-code", "x", "").Is(200)
	code := regexp.MustCompile(`id="reset-code">((?:[0-9A-Z]{4}-){6}[0-9A-Z]{2})<`).FindStringSubmatch(a.Body)
	if code == nil || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%v %s", a.Header, a.Body)
	}
	b.Page("/admin/users/bob").Hides(code[1])
	w.Browser().Call("POST", "/api/auth/reset-password", map[string]string{"handle": "bob", "code": code[1], "password": "eleven quiet lanterns"}).Is(200)

	for _, typed := range []string{"", "bo", "root1", "*"} {
		b.Page("/admin/users/bob/delete", "confirm", typed).Is(400).Shows("Nothing was changed")
	}
	b.Page("/admin/users/bob/delete", "confirm", " BOB ").RedirectsTo("/id/admin/users/?notice=deleted")
	b.Page("/admin/users/?notice=deleted").Is(200).Shows("The account is deleted.").Hides(`data-user="bob"`)
	b.Page("/admin/users/bob/unsuspend", "x", "").Is(404)
}

package admin_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
)

func TestAdministrationByForms(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob", account.FlagActivity)
	b := w.signedIn("root1")
	b.page("/admin/users/").is(200).shows(`data-page="admin-users"`, `href="/id/admin/users/bob"`, "Name of bob")
	b.page("/admin/users/?query=bob").is(200).shows(`data-user="bob"`).hides(`data-user="root1"`)
	b.page("/admin/users/bob").is(200).shows(`data-page="admin-user"`, `id="suspend-submit"`)
	b.page("/admin/users/root1").is(200).shows("This is your own account").hides(`id="suspend-submit"`)
	b.page("/admin/users/nobody").is(404).shows(`data-page="error"`)

	b.page("/admin/users/bob/suspend", "reason", "<b>spam").redirectsTo("/id/admin/users/bob?notice=suspended#end")
	b.page("/admin/users/bob?notice=suspended").is(200).shows("The account is suspended.", `id="unsuspend-submit"`)
	b.page("/admin/users/bob?notice=hello").is(200).hides("hello")
	b.page("/admin/users/bob/unsuspend", "x", "").redirectsTo("/id/admin/users/bob?notice=unsuspended#end")
	b.page("/admin/users/bob/suspend", "reason", strings.Repeat("x", 201)).is(400).shows(`role="alert"`)

	b.page("/admin/users/bob/flags", "known", "activity", "known", "admin", "flag", "admin").redirectsTo("/id/admin/users/bob?notice=flags-saved#access")
	if got := strings.Join(w.user("bob").Flags, " "); got != "admin" {
		t.Errorf("flags %q", got)
	}
	// What was not on the page stays; what does not exist is refused.
	b.page("/admin/users/bob/flags", "known", "activity", "flag", "activity").redirectsTo("/id/admin/users/bob?notice=flags-saved#access")
	if got := strings.Join(w.user("bob").Flags, " "); got != "activity admin" {
		t.Errorf("flags %q", got)
	}
	b.page("/admin/users/bob/flags", "known", "activity", "flag", "nonsense").is(400)
	b.page("/admin/users/bob/suspend", "reason", "a", "reason", "b").is(400)

	a := b.page("/admin/users/bob/reset-password-code", "x", "").is(200)
	code := regexp.MustCompile(`id="reset-code">((?:[0-9A-Z]{4}-){6}[0-9A-Z]{2})<`).FindStringSubmatch(a.body)
	if code == nil || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%v %s", a.header, a.body)
	}
	b.page("/admin/users/bob").hides(code[1])
	w.browser().call("POST", "/api/auth/reset-password", map[string]string{"handle": "bob", "code": code[1], "password": "eleven quiet lanterns"}).is(200)

	for _, typed := range []string{"", "bo", "root1", "*"} {
		b.page("/admin/users/bob/delete", "confirm", typed).is(400).shows("Nothing was changed")
	}
	b.page("/admin/users/bob/delete", "confirm", " BOB ").redirectsTo("/id/admin/users/?notice=deleted")
	b.page("/admin/users/?notice=deleted").is(200).shows("The account is deleted.").hides(`data-user="bob"`)
	b.page("/admin/users/bob/unsuspend", "x", "").is(404)
}

package admin_test

import (
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

// A thief of an administrator's session reads, and changes nothing.
func TestChangesNeedAFreshProof(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	w.now = start.Add(10*time.Minute + time.Second)
	for _, c := range []struct{ method, path string }{
		{"PATCH", "/api/admin/users/bob"}, {"DELETE", "/api/admin/users/bob"}, {"POST", "/api/admin/users/bob/suspend"}, {"POST", "/api/admin/users/bob/unsuspend"},
		{"PUT", "/api/admin/users/bob/flags"}, {"POST", "/api/admin/users/bob/reset-password-code"}, {"POST", "/api/admin/users/bob/reset-factors"},
		{"POST", "/api/admin/users/bob/sessions/end-all"}, {"DELETE", "/api/admin/users/bob/sessions/x"}, {"PUT", "/api/admin/settings"},
	} {
		b.call(c.method, c.path, map[string]string{}).is(403, "reauthentication_required")
	}
	for _, form := range []string{"profile", "suspend", "unsuspend", "flags", "reset-password-code", "reset-factors", "end-session", "end-sessions", "delete"} {
		b.page("/admin/users/bob/"+form, "confirm", "bob", "reason", "", "flag", "admin").is(403).shows(`data-page="confirm"`)
	}
	b.call("GET", "/api/admin/users/bob", nil).is(200)
	if u := w.user("bob"); u.Suspended() || u.Has(account.FlagAdmin) {
		t.Errorf("changed: %+v", u)
	}
	b.page("/account/confirm", "confirm_password", password, "next", "/admin/users/bob").redirectsTo("/id/admin/users/bob")
	b.call("POST", "/api/admin/users/bob/suspend", nil).is(200)
}

func TestAdministratorResetsLostFactors(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	for _, reset := range []func(b *browser){
		func(b *browser) {
			b.call("POST", "/api/admin/users/bob/reset-factors", nil).is(200).shows(`{"ok":true}`)
		},
		func(b *browser) {
			b.page("/admin/users/bob/reset-factors", "x", "y").is(200).shows("Remove every second factor of this account?")
			b.page("/admin/users/bob/reset-factors", "x", "y", "sure", "yes").redirectsTo("/id/admin/users/bob?notice=factors-reset#factors")
		},
	} {
		if _, err := w.store.UserByHandle(t.Context(), "bob"); err != nil {
			w.addUser("bob")
		}
		bob := w.signedIn("bob")
		if _, err := w.store.AddTOTP(t.Context(), w.user("bob").Sub, account.TOTP{Secret: "AAAA"}, account.NewFactor{KeepOthers: true, Now: start, Audit: account.Audit{At: start, Action: "factor.add"}}); err != nil {
			t.Fatal(err)
		}
		w.browser().call("POST", "/api/auth/login", map[string]string{"handle": "bob", "password": password}).is(401, "second_factor_required")
		reset(w.signedIn("root1"))
		if bob.isSignedIn() {
			t.Error("a session outlived the reset")
		}
		w.signedIn("bob")
	}
	w.signedIn("root1").call("GET", "/api/admin/audit", nil).shows(`"action":"user.reset_factors","target":"bob"`)
	w.signedIn("root1").call("POST", "/api/admin/users/nobody/reset-factors", nil).is(404)
}

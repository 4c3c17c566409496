package admin_test

import (
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/accounttest"
)

// A thief of an administrator's session reads, and changes nothing.
func TestChangesNeedAFreshProof(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("bob")
	b := w.SignedIn("root1")
	w.Clock.Advance(10*time.Minute + time.Second)
	for _, c := range []struct{ method, path string }{
		{"PATCH", "/api/admin/users/bob"}, {"DELETE", "/api/admin/users/bob"}, {"POST", "/api/admin/users/bob/suspend"}, {"POST", "/api/admin/users/bob/unsuspend"},
		{"PUT", "/api/admin/users/bob/flags"}, {"POST", "/api/admin/users/bob/reset-password-code"}, {"POST", "/api/admin/users/bob/reset-factors"},
		{"POST", "/api/admin/users/bob/sessions/end-all"}, {"DELETE", "/api/admin/users/bob/sessions/x"}, {"PUT", "/api/admin/settings"},
	} {
		b.Call(c.method, c.path, map[string]string{}).Is(403, "reauthentication_required")
	}
	for _, form := range []string{"profile", "suspend", "unsuspend", "flags", "reset-password-code", "reset-factors", "end-session", "end-sessions", "delete"} {
		b.Page("/admin/users/bob/"+form, "confirm", "bob", "reason", "", "flag", "admin").Is(403).Shows(`data-page="confirm"`)
	}
	b.Call("GET", "/api/admin/users/bob", nil).Is(200)
	if u := w.User("bob"); u.Suspended() || u.Has(account.FlagAdmin) {
		t.Errorf("changed: %+v", u)
	}
	b.Page("/account/confirm", "confirm_password", password, "next", "/admin/users/bob").RedirectsTo("/id/admin/users/bob")
	b.Call("POST", "/api/admin/users/bob/suspend", nil).Is(200)
}

func TestAdministratorResetsLostFactors(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	for _, reset := range []func(b *accounttest.Browser){
		func(b *accounttest.Browser) {
			b.Call("POST", "/api/admin/users/bob/reset-factors", nil).Is(200).Shows(`{"ok":true}`)
		},
		func(b *accounttest.Browser) {
			b.Page("/admin/users/bob/reset-factors", "x", "y").Is(200).Shows("Remove every second factor of this account?")
			b.Page("/admin/users/bob/reset-factors", "x", "y", "sure", "yes").RedirectsTo("/id/admin/users/bob?notice=factors-reset#factors")
		},
	} {
		if _, err := w.Store.UserByHandle(t.Context(), "bob"); err != nil {
			w.AddUser("bob")
		}
		bob := w.SignedIn("bob")
		if _, err := w.Store.AddTOTP(t.Context(), w.User("bob").Sub, account.TOTP{Secret: "AAAA"}, account.NewFactor{Now: w.Began, Audit: account.Audit{At: w.Began, Action: "factor.add"}}); err != nil {
			t.Fatal(err)
		}
		w.Browser().Call("POST", "/api/auth/login", map[string]string{"handle": "bob", "password": password}).Is(401, "second_factor_required")
		reset(w.SignedIn("root1"))
		if bob.IsSignedIn() {
			t.Error("a session outlived the reset")
		}
		w.SignedIn("bob")
	}
	w.SignedIn("root1").Call("GET", "/api/admin/audit", nil).Shows(`"action":"user.reset_factors","target":"bob"`)
	w.SignedIn("root1").Call("POST", "/api/admin/users/nobody/reset-factors", nil).Is(404)
}

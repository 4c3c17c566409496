package admin_test

import (
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/accounttest"
)

func TestAdministratorResetsLostFactors(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	invited, ofRoot := "", w.SignedIn("root1").Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	for _, reset := range []func(b *accounttest.Browser){
		func(b *accounttest.Browser) {
			invites := b.Call("POST", "/api/admin/users/bob/reset-factors", nil).Is(200).JSON()["open_invites"].([]any)
			if code := invites[0].(map[string]any)["code"]; len(invites) != 1 || code != invited {
				t.Errorf("open invites %v, made %s", invites, invited)
			}
			b.Call("DELETE", "/api/admin/invites/"+invited, nil).Is(204)
		},
		func(b *accounttest.Browser) {
			b.Page("/admin/users/bob/reset-factors", "x", "y").Is(200).Shows(
				"Remove all second factors of @bob?", "Account: <strong><bdi>bob</bdi></strong>")
			b.Page("/admin/users/bob/reset-factors", "x", "y", "sure", "yes").RedirectsTo("/id/admin/users/bob?notice=factors-reset#factors")
			b.Page("/admin/users/bob?notice=factors-reset").Is(200).Shows(`id="invites-stay"`, `id="open-revoke"`, "?under=bob#open").Hides(invited, ofRoot)
			b.Page("/admin/invites?under=bob").Is(200).Shows(`data-invite="` + invited + `"`).Hides(ofRoot)
			b.Page("/admin/invites/revoke", "code", invited, "of", "bob").RedirectsTo("/id/admin/invites?under=bob&notice=invite-revoked#open")
			b.Page("/admin/invites?under=bob&notice=invite-revoked").Is(200).Shows("The invite is revoked.").Hides(`data-invite="`)
			b.Page("/admin/users/bob?notice=factors-reset").Is(200).Hides(`id="invites-stay"`, "data-open>")
			b.Page("/admin/invites/revoke", "code", invited, "of", "bob").Is(404).Shows(`data-code="invite_not_found"`, "Invited by Bob")
		},
	} {
		if _, err := w.Store.UserByHandle(t.Context(), "bob"); err != nil {
			w.AddUser("bob")
		}
		bob := w.SignedIn("bob")
		invited = bob.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
		if _, err := w.Store.AddTOTP(t.Context(), w.User("bob").Sub, account.TOTP{Secret: "AAAA"},
			account.NewFactor{Now: w.Began, Audit: account.Audit{At: w.Began, Action: "factor.add"}}); err != nil {
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

package admin_test

import (
	"testing"

	"github.com/cairn-id/cairn/account"
)

func TestAdministratorsSetAndVerifyAnAddress(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	root, bob := w.signedIn("root1"), w.signedIn("bob")
	patch := func(body string) *answer { return root.send("PATCH", "/api/admin/users/bob", "application/json", body) }

	got := patch(`{"display_name":"Bob B","email":" bob@example.org ","email_verified":true}`).is(200)
	if m := got.json(); m["display_name"] != "Bob B" || m["email"] != "bob@example.org" || m["email_verified"] != true {
		t.Errorf("%s", got.body)
	}
	if get := root.call("GET", "/api/admin/users/bob", nil); get.body != got.body {
		t.Errorf("PATCH answers\n%s\nand GET\n%s", got.body, get.body)
	}
	rows, err := w.store.AuditLog(t.Context(), account.AuditQuery{Kind: "user", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r.Action != "user.amend" || r.Actor != "root1" || r.Target != "bob" || r.Detail != "display_name email email_verified" || r.RequestID != "req-1" {
		t.Errorf("%+v", r)
	}
	// Members cannot say so of themselves, and another address is not verified by the mark of the one before.
	bob.call("PATCH", "/api/me", map[string]any{"email_verified": true}).is(400)
	bob.call("PATCH", "/api/me", map[string]any{"email": "bob2@example.org"}).is(200)
	if w.user("bob").EmailVerified {
		t.Error("an address that its owner changed is verified")
	}
	patch(`{"email_verified":true}`).is(200)
	patch(`{"email":"bob3@example.org"}`).is(200)
	if w.user("bob").EmailVerified {
		t.Error("another address is verified without a word")
	}
	patch(`{"email":null}`).is(200)

	before, audited := w.user("bob"), len(rows)+3
	for body, pointers := range map[string][]string{
		`{"display_name":"","email":"nobody","email_verified":true}`:  {"/display_name", "/email"},
		`{"email_verified":true}`:                                     {"/email_verified"},
		`{"display_name":7,"email":[],"email_verified":"yes"}`:        {"/display_name", "/email", "/email_verified"},
		`{"email":"b@example.org","email_verified":null}`:             {"/email_verified"},
		`{"email":"b@example.org","flags":{"admin":true}}`:            {"/flags"},
		`{"email":"b@example.org","handle":"eve","password_hash":""}`: {"/handle", "/password_hash"},
	} {
		errs, _ := patch(body).is(400).json()["errors"].([]any)
		if len(errs) != len(pointers) {
			t.Errorf("%s: %v", body, errs)
			continue
		}
		for i, p := range pointers {
			if errs[i].(map[string]any)["pointer"] != p {
				t.Errorf("%s: %v", body, errs)
			}
		}
	}
	patch(`{}`).is(200)
	root.send("PATCH", "/api/admin/users/nobody", "application/json", `{"email":""}`).is(404, "user_not_found")
	if after := w.user("bob"); after.DisplayName != before.DisplayName || after.Email != "" || after.EmailVerified || after.UpdatedAt != before.UpdatedAt {
		t.Errorf("%+v", after)
	}
	if rows, err = w.store.AuditLog(t.Context(), account.AuditQuery{Kind: "user", Limit: 20}); err != nil || len(rows) != audited {
		t.Errorf("%d audit rows, want %d; %v", len(rows), audited, err)
	}
}

func TestAddressesAreSetAndVerifiedByForm(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	const path, saved = "/admin/users/bob/profile", "/id/admin/users/bob?notice=profile-saved#profile"
	b.page("/admin/users/bob").is(200).shows(`action="/id/admin/users/bob/profile#profile"`, `name="email_verified"`, `value="Name of bob"`)

	b.page(path, "display_name", "Name of bob", "email", "bob@example.org", "email_verified", "true").redirectsTo(saved)
	if u := w.user("bob"); u.Email != "bob@example.org" || !u.EmailVerified {
		t.Errorf("%+v", u)
	}
	b.page("/admin/users/bob?notice=profile-saved").is(200).shows("The profile is saved.", `value="bob@example.org"`, "checked")
	rows, err := w.store.AuditLog(t.Context(), account.AuditQuery{Limit: 1})
	if err != nil || rows[0].Action != "user.amend" || rows[0].Detail != "email email_verified" {
		t.Errorf("%+v %v", rows, err)
	}
	// What was typed is shown again beside the reason.
	b.page(path, "display_name", "", "email", "nobody", "email_verified", "true").is(400).shows(`role="alert"`, `value="nobody"`, `aria-invalid="true"`)
	b.page(path, "display_name", "Bob", "email", "bob@example.org").redirectsTo(saved) // without the tick
	if u := w.user("bob"); u.DisplayName != "Bob" || u.EmailVerified {
		t.Errorf("%+v", u)
	}
	b.page(path, "display_name", "Bob", "email", "bob@example.org", "email_verified", "true").redirectsTo(saved)
	b.page(path, "display_name", "Bob", "email", "", "email_verified", "true").redirectsTo(saved) // the tick was there before
	if u := w.user("bob"); u.Email != "" || u.EmailVerified {
		t.Errorf("%+v", u)
	}
	b.page(path, "display_name", "Bob", "email", "", "email_verified", "true").is(400).shows("no email address")
}

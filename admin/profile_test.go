package admin_test

import (
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/store/accounttest"
)

func TestAdministratorsSetAndVerifyAnAddress(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("bob")
	root, bob := w.SignedIn("root1"), w.SignedIn("bob")
	patch := func(body string) *accounttest.Answer {
		return root.Send("PATCH", "/api/admin/users/bob", "application/json", body)
	}

	got := patch(`{"display_name":"Bob B","email":" bob@example.org ","email_verified":true}`).Is(200)
	if m := got.JSON(); m["display_name"] != "Bob B" || m["email"] != "bob@example.org" || m["email_verified"] != true {
		t.Errorf("%s", got.Body)
	}
	same(t, "PATCH answers and GET", root.Call("GET", "/api/admin/users/bob", nil).Body, got.Body)
	rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Kind: "user", Limit: 10})
	must(t, err)
	if r := rows[0]; r.Action != "user.amend" || r.Actor != "root1" || r.Target != "bob" || r.Detail != "display_name email email_verified" || r.RequestID != "req-1" {
		t.Errorf("%+v", r)
	}
	// Members cannot say so of themselves, and another address is not verified by the mark of the one before.
	bob.Call("PATCH", "/api/me", map[string]any{"email_verified": true}).Is(400)
	bob.Call("PATCH", "/api/me", map[string]any{"email": "bob2@example.org"}).Is(200)
	if w.User("bob").EmailVerified {
		t.Error("an address that its owner changed is verified")
	}
	patch(`{"email_verified":true}`).Is(200)
	patch(`{"email":"bob3@example.org"}`).Is(200)
	if w.User("bob").EmailVerified {
		t.Error("another address is verified without a word")
	}
	patch(`{"email":null}`).Is(200)

	before, audited := w.User("bob"), len(rows)+3
	for body, pointers := range map[string][]string{
		`{"display_name":"","email":"nobody","email_verified":true}`:  {"/display_name", "/email"},
		`{"email_verified":true}`:                                     {"/email_verified"},
		`{"display_name":7,"email":[],"email_verified":"yes"}`:        {"/display_name", "/email", "/email_verified"},
		`{"email":"b@example.org","email_verified":null}`:             {"/email_verified"},
		`{"email":"b@example.org","flags":{"admin":true}}`:            {"/flags"},
		`{"email":"b@example.org","address":{}}`:                      {"/address"},
		`{"email":"b@example.org","handle":"eve","password_hash":""}`: {"/handle", "/password_hash"},
	} {
		errs, _ := patch(body).Is(400).JSON()["errors"].([]any)
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
	patch(`{}`).Is(200)
	root.Send("PATCH", "/api/admin/users/nobody", "application/json", `{"email":""}`).Is(404, "user_not_found")
	if after := w.User("bob"); after.DisplayName != before.DisplayName || after.Email != "" || after.EmailVerified || after.UpdatedAt != before.UpdatedAt {
		t.Errorf("%+v", after)
	}
	if rows, err = w.Store.AuditLog(t.Context(), account.AuditQuery{Kind: "user", Limit: 20}); err != nil || len(rows) != audited {
		t.Errorf("%d audit rows, want %d; %v", len(rows), audited, err)
	}
	w.verified(w.AddUser("eve"), "eve@example.org", "en")
	patch(`{"email":"EVE@Example.org","email_verified":true}`).Is(409, "email_taken")
}

func TestAddressesAreSetAndVerifiedByForm(t *testing.T) {
	w, b := administered(t, "bob")
	const path, saved = "/admin/users/bob/profile", "/id/admin/users/bob?notice=profile-saved#profile"
	b.Page("/admin/users/bob").Is(200).Shows(`action="/id/admin/users/bob/profile?as=root1#profile"`, `name="email_verified"`, `value="Bob"`)

	b.Call("PUT", "/api/admin/settings", map[string]any{"attributes": []string{"shirt"}}).Is(200)
	b.Page(path, "display_name", "Bob", "email", "", "attributes.shirt", "XL").RedirectsTo(saved)
	b.Page(path, "display_name", "Bob", "email", "bob@example.org", "email_verified", "true").RedirectsTo(saved) // a page from before the attribute
	if u := w.User("bob"); u.Email != "bob@example.org" || !u.EmailVerified || u.Profile.Attributes["shirt"] != "XL" {
		t.Errorf("%+v", u)
	}
	b.Page("/admin/users/bob?notice=profile-saved").Is(200).Shows("The profile is saved.", `value="bob@example.org"`, `value="XL"`, "checked")
	rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Limit: 1})
	if err != nil || rows[0].Action != "user.amend" || rows[0].Detail != "email email_verified" {
		t.Errorf("%+v %v", rows, err)
	}
	// What was typed is shown again beside the reason.
	b.Page(path, "display_name", "", "email", "nobody", "email_verified", "true", "attributes.shirt", "S").Is(400).Shows(`role="alert"`, `value="nobody"`, `value="S"`, `aria-invalid="true"`)
	b.Page(path, "display_name", "Bob", "email", "bob@example.org").RedirectsTo(saved) // without the tick
	if u := w.User("bob"); u.DisplayName != "Bob" || u.EmailVerified {
		t.Errorf("%+v", u)
	}
	b.Page(path, "display_name", "Bob", "email", "bob@example.org", "email_verified", "true").RedirectsTo(saved)
	b.Page(path, "display_name", "Bob", "email", "", "email_verified", "true").RedirectsTo(saved) // the tick was there before
	if u := w.User("bob"); u.Email != "" || u.EmailVerified {
		t.Errorf("%+v", u)
	}
	b.Page(path, "display_name", "Bob", "email", "", "email_verified", "true").Is(400).Shows("no email address")
	// A page that was open meanwhile keeps what it does not change, and replaces no address that it does not show.
	b.Page(path, "display_name", "Bob", "email", "left@example.org", "email_verified", "true").RedirectsTo(saved)
	f := browser.FormOf(b.Page("/admin/users/bob").Body, "/id"+path)
	w.verified(w.User("bob"), "bob@example.net", "en")
	f.Values.Set("display_name", "Robert")
	b.Post(f).RedirectsTo(saved)
	f.Values.Del("email_verified")
	b.Post(f).Is(409).Shows("This page was out of date", `value="bob@example.net"`)
	if u := w.User("bob"); u.DisplayName != "Robert" || u.Email != "bob@example.net" || !u.EmailVerified {
		t.Errorf("%+v", u)
	}
}

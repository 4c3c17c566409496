package account_test

import (
	"regexp"
	"testing"

	"github.com/cairn-id/cairn/account"
)

func TestAccountPageForms(t *testing.T) {
	w := newWorld(t, func(o *account.Options) { o.Issuer = "http://localhost:4040/id" })
	w.addUser("ada", account.FlagActivity)
	b := w.signedIn("ada")
	b.page("/account/").is(200).shows(`data-page="account"`, "This one", "You have 3 invites left", `id="sign-out-submit"`)

	b.page("/account/profile", "display_name", "Ada <L>", "email", "ada@example.org").redirectsTo("/id/account/?notice=profile-saved#profile")
	b.page("/account/?notice=profile-saved").is(200).shows("Your profile is saved.", "Ada &lt;L&gt;", "Not verified")
	b.page("/account/?notice=%3Cb%3Ehello").is(200).hides("hello")
	b.page("/account/profile", "display_name", "Eve", "email", "nobody").is(400).shows(`value="nobody"`, `data-code="invalid_email"`)
	b.page("/account/profile", "email", "").redirectsTo("/id/account/?notice=profile-saved#profile")
	if u := w.user("ada"); u.DisplayName != "Ada <L>" || u.Email != "" {
		t.Errorf("%+v", u)
	}

	b.page("/account/invites", "note", "for Bob").redirectsTo("/id/account/?notice=invite-created#invites")
	code := regexp.MustCompile(`data-invite="([^"]+)"`).FindStringSubmatch(b.page("/account/").shows("for Bob", "http://localhost:4040/id/register/?code=").body)[1]
	b.page("/account/invites", "note", "a\u202eb").is(400)
	b.page("/account/invites/delete", "code", "0000").is(404)
	b.page("/account/invites/delete", "code", code).redirectsTo("/id/account/?notice=invite-deleted#invites")
	b.page("/account/").hides(code)

	there := w.signedIn("ada")
	_, others := sessionIDs(b)
	b.page("/account/sessions/end", "id", "x").is(404)
	b.page("/account/sessions/end", "id", others[0]).redirectsTo("/id/account/?notice=session-ended#sessions")
	if there.isSignedIn() {
		t.Error("the ended session lives")
	}
	there = w.signedIn("ada")
	b.page("/account/sessions/end-others", "x", "").redirectsTo("/id/account/?notice=sessions-ended#sessions")
	if there.isSignedIn() {
		t.Error("the other session lives")
	}
	b.page("/account/apps/remove", "client_id", "x").is(404)

	b.page("/account/password", "current_password", "wrong", "new_password", newPassword).is(401).shows(`data-code="invalid_credentials"`)
	b.page("/account/password", "current_password", password, "new_password", "hunter2").is(400).shows(`data-code="weak_password"`).hides("hunter2", password)
	b.page("/account/password", "current_password", password, "new_password", newPassword).redirectsTo("/id/account/?notice=password-changed#password")
	b.page("/account/?notice=password-changed").is(200).shows("Your other sessions have ended, and applications have lost their access.", "Other sessions end, and applications lose their access.")

	b.page("/account/delete", "password", password).is(401).shows("<details class=\"danger\" open")
	copied := b.clone()
	if a := b.page("/account/delete", "password", newPassword).is(200).shows(`data-page="signed-out"`); len(a.set) != 1 || a.set[0].MaxAge >= 0 {
		t.Errorf("cookies %v", a.set)
	}
	if copied.isSignedIn() {
		t.Error("the account lives")
	}
}

func TestSignedOutFormsChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	for _, path := range []string{
		"/account/profile", "/account/password", "/account/sessions/end", "/account/sessions/end-others", "/account/invites", "/account/invites/delete",
		"/account/apps/remove", "/account/delete",
	} {
		w.browser().page(path, "password", password).redirectsTo("/login/")
	}
	w.browser().page("/account/").redirectsTo("/login/")
	w.browser().login("ada", password).is(200)
}

func TestTheLastAdministratorStaysOnThePageToo(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.signedIn("root1").page("/account/delete", "password", password).is(409).shows(`data-code="last_admin"`)
}

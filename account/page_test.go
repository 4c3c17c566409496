package account_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

func TestAccountPageForms(t *testing.T) {
	w := newWorld(t, func(o *account.Options) { o.Issuer = "http://localhost:4040/id" })
	w.addUser("ada", account.FlagActivity)
	b := w.signedIn("ada")
	b.page("/account/").is(200).shows(`data-page="account"`, `id="sign-out-submit"`)
	b.page("/account/devices").is(200).shows(`data-page="account-devices"`, "This one")
	b.page("/account/invites").is(200).shows(`data-page="account-invites"`, "You have 3 invites left")

	b.page("/account/profile", "display_name", "Ada <L>", "email", "ada@example.org").redirectsTo("/id/account/?notice=profile-saved#profile")
	b.page("/account/?notice=profile-saved").is(200).shows("Your profile is saved.", "Ada &lt;L&gt;", "Not verified")
	b.page("/account/?notice=%3Cb%3Ehello").is(200).hides("hello")
	b.page("/account/profile", "display_name", "Eve", "email", "nobody").is(400).shows(`value="nobody"`, `data-code="invalid_email"`)
	b.page("/account/profile", "display_name", "Eve", "birthdate", "soon", "address.street_address", "Via Appia 1\r\nScala B", "zoneinfo", "Mars").is(400).
		shows("2 entries", `id="birthdate-error"`, `id="zoneinfo-error"`, "<details class=\"extra\" open", "Via Appia 1\nScala B").hides("Your profile is saved.")
	b.page("/account/profile", "email_verified", "true", "phone_number_verified", "true", "birthdate", "1815-12-10", "address.locality", "London", "locale", "de").
		redirectsTo("/id/account/?notice=profile-saved#profile")
	b.page("/account/").shows(`type="date" value="1815-12-10"`, `value="London"`, `<option value="de" lang="de" selected>Deutsch</option>`, `value="Ada &lt;L&gt;"`)
	if u := w.user("ada"); u.EmailVerified || u.Profile.PhoneNumberVerified || u.Profile.Birthdate != "1815-12-10" || u.Profile.Locale != "de" {
		t.Errorf("%+v", u)
	}
	b.page("/account/profile", "email", "", "locale", "").redirectsTo("/id/account/?notice=profile-saved#profile")
	if u := w.user("ada"); u.DisplayName != "Ada <L>" || u.Email != "" {
		t.Errorf("%+v", u)
	}
	b.page("/account/profile", "birthdate", "1815-12-10", "birthdate_no_year", "1").is(303)
	b.page("/account/").shows(`type="date" value="2000-12-10"`, `name="birthdate_no_year" value="1" checked`)
	if u := w.user("ada"); u.Profile.Birthdate != "0000-12-10" {
		t.Errorf("%+v", u.Profile)
	}
	b.page("/account/profile", "birthdate", "1815", "birthdate_no_year", "1").is(303)
	b.page("/account/").shows(`type="text" value="1815"`).hides(`name="birthdate_no_year"`)

	b.page("/account/invites", "note", "for Bob").redirectsTo("/id/account/invites?notice=invite-created#invites")
	code := regexp.MustCompile(`data-invite="([^"]+)"`).FindStringSubmatch(b.page("/account/invites").shows("for Bob", "http://localhost:4040/id/register/?code=").body)[1]
	b.page("/account/invites/slip?code="+code).is(200).shows(code, "http://localhost:4040/id/register/?code="+code, "<bdi>Ada &lt;L&gt;</bdi> invites you.", "<path class=\"qr-ink\"")
	w.addUser("eve")
	w.signedIn("eve").page("/register/?code="+code).is(200).shows(`id="signed-in"`, "<strong><bdi>eve</bdi></strong>", `href="/id/account/"`, `id="register"`)
	w.browser().page("/register/?code=" + code).is(200).hides(`id="signed-in"`)
	for _, other := range []string{"?code=" + code, "?code=" + w.invite().Code, "", "?code=%00"} {
		w.signedIn("eve").page("/account/invites/slip" + other).is(404).hides(code)
	}
	b.page("/account/invites", "note", "a\u202eb").is(400)
	b.page("/account/invites/delete", "code", "0000").is(404)
	b.page("/account/invites/delete", "code", code).redirectsTo("/id/account/invites?notice=invite-deleted#invites")
	b.page("/account/invites").hides(code)

	there := w.signedIn("ada")
	_, others := sessionIDs(b)
	b.page("/account/sessions/end", "id", "x").is(404)
	b.page("/account/sessions/end", "id", others[0]).redirectsTo("/id/account/devices?notice=session-ended#sessions")
	if there.isSignedIn() {
		t.Error("the ended session lives")
	}
	there = w.signedIn("ada")
	b.page("/account/sessions/end-others", "x", "").redirectsTo("/id/account/devices?notice=sessions-ended#sessions")
	if there.isSignedIn() {
		t.Error("the other session lives")
	}
	b.page("/account/apps/remove", "client_id", "x").is(404).shows("No application has access to your account.")

	b.page("/account/password", "current_password", "wrong", "new_password", newPassword).is(401).shows(`data-code="invalid_credentials"`, "<p>The password is not right.</p>")
	b.page("/account/password", "current_password", password, "new_password", "hunter2").is(400).shows(`data-code="weak_password"`).hides("hunter2", password)
	b.page("/account/password", "current_password", password, "new_password", newPassword).redirectsTo("/id/account/security?notice=password-changed#password")
	b.page("/account/security?notice=password-changed").is(200).shows("Your other sessions have ended, and applications have lost their access.", "Other sessions end, and applications lose their access.")

	b.page("/account/delete", "password", password).is(401).shows("<p>The password is not right.</p>", "<details class=\"danger\" open")
	copied := b.clone()
	if a := b.page("/account/delete", "password", newPassword).is(200).shows(`data-page="signed-out"`); len(a.set) != 1 || a.set[0].MaxAge >= 0 {
		t.Errorf("cookies %v", a.set)
	}
	if copied.isSignedIn() {
		t.Error("the account lives")
	}
}

func TestTheProfileFormHasEveryMemberThatAPersonMayChange(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	form := w.signedIn("ada").page("/account/").is(200)
	for _, name := range account.UserMembers() {
		if field := fmt.Sprintf(` name="%s"`, name); strings.HasSuffix(name, "_verified") {
			form.hides(field)
		} else {
			form.shows(field)
		}
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
	for _, path := range []string{"/account/", "/account/security", "/account/devices", "/account/apps", "/account/invites", "/account/data"} {
		w.browser().page(path).redirectsTo("/login/")
	}
	w.browser().login("ada", password).is(200)
}

func TestTheLastAdministratorStaysOnThePageToo(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.signedIn("root1").page("/account/delete", "password", password).is(409).shows(`data-code="last_admin"`)
}

func TestSecurityPageSaysWhatHappenedToThePersonAlone(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("ada")
	w.addUser("eve")
	eve := w.service.Administration()
	root := account.Caller{Name: "root1", Address: "203.0.113.9", Session: account.Session{ID: "s", ConfirmedAt: time.Now()}}
	b := w.signedIn("ada")
	if err := eve.Suspend(t.Context(), root, w.user("eve"), "spam", false); err != nil {
		t.Fatal(err)
	}
	if _, err := eve.IssueResetCode(t.Context(), root, w.user("ada")); err != nil {
		t.Fatal(err)
	}
	b.page("/account/password", "current_password", "wrong", "new_password", newPassword).is(401)
	b.page("/account/security").is(200).
		shows("ada signed in with password", "192.0.2.1", "root1 created a code for a new password of the account of ada", "The operator created the account of ada").
		hides("suspended", "spam", "203.0.113.9") // who administers is no business of hers beyond the name
	w.signedIn("root1").page("/account/security").is(200).hides(`data-action="user.suspend"`)
}

// What the slowest page costs; the bar is 5 ms.
func BenchmarkAccountPage(b *testing.B) {
	w := newWorld(b)
	w.addUser("ada")
	browser := w.signedIn("ada")
	for range 30 {
		browser = w.signedIn("ada")
		browser.page("/account/profile", "display_name", "Ada")
	}
	for _, path := range []string{"/account/", "/account/security", "/account/devices", "/account/apps", "/account/invites", "/account/data"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				browser.page(path).is(200)
			}
		})
	}
}

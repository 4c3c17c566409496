package site_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/templates"
)

func TestAccountPageForms(t *testing.T) {
	w := accounttest.New(t, func(o *accounttest.Options) { o.Issuer = "http://localhost:4040/id" })
	b := w.Member("ada", account.FlagActivity)
	b.Page("/account/").Is(200).Shows(`data-page="account"`, `id="sign-out-submit"`)
	b.Page("/account/devices").Is(200).Shows(`data-page="account-devices"`, "This device")
	b.Page("/account/invites").Is(200).Shows(`data-page="account-invites"`, "You have 3 invites left")

	b.Page("/account/profile", "display_name", "Ada <L>", "email", "ada@example.org").RedirectsTo("/id/account/profile?notice=profile-saved#profile")
	b.Page("/account/profile?notice=profile-saved").Is(200).Shows("Your profile is saved.", "Ada &lt;L&gt;", "Not verified")
	b.Page("/account/profile?notice=%3Cb%3Ehello").Is(200).Hides("hello")
	b.Page("/account/profile", "display_name", "Eve", "email", "nobody").Is(400).Shows(`value="nobody"`, `data-code="invalid_email"`)
	b.Page("/account/profile", "display_name", "Eve", "birthdate", "soon", "address.street_address", "Via Appia 1\r\nScala B", "zoneinfo", "Mars").Is(400).
		Shows("2 fields", `id="birthdate-error"`, `id="zoneinfo-error"`, "<details class=\"extra\" open", "Via Appia 1\nScala B").Hides("Your profile is saved.")
	b.Page("/account/profile", "email_verified", "true", "phone_number_verified", "true", "birthdate", "1815-12-10", "address.locality", "London", "locale", "de").
		RedirectsTo("/id/account/profile?notice=profile-saved#profile")
	b.Page("/account/profile").Shows(`type="date" value="1815-12-10"`, `value="London"`, `<option value="de" lang="de" selected>Deutsch</option>`, `value="Ada &lt;L&gt;"`)
	if u := w.User("ada"); u.EmailVerified || u.Profile.PhoneNumberVerified || u.Profile.Birthdate != "1815-12-10" || u.Profile.Locale != "de" {
		t.Errorf("%+v", u)
	}
	b.Page("/account/profile", "email", "", "locale", "").RedirectsTo("/id/account/profile?notice=profile-saved#profile")
	if u := w.User("ada"); u.DisplayName != "Ada <L>" || u.Email != "" {
		t.Errorf("%+v", u)
	}
	b.Page("/account/profile", "birthdate", "1815-12-10", "birthdate_no_year", "1").Is(303)
	b.Page("/account/profile").Shows(`type="date" value="2000-12-10"`, `name="birthdate_no_year" value="1" checked`)
	if u := w.User("ada"); u.Profile.Birthdate != "0000-12-10" {
		t.Errorf("%+v", u.Profile)
	}
	b.Page("/account/profile", "birthdate", "1815", "birthdate_no_year", "1").Is(303)
	b.Page("/account/profile").Shows(`type="text" value="1815"`).Hides(`name="birthdate_no_year"`)

	b.Page("/account/invites", "note", "for Bob").RedirectsTo("/id/account/invites?notice=invite-created#invites")
	code := regexp.MustCompile(`data-invite="([^"]+)"`).FindStringSubmatch(b.Page("/account/invites").Shows("for Bob", "http://localhost:4040/id/register/?code=").Body)[1]
	b.Page("/account/invites/slip?code="+code).Is(200).Shows(code, "http://localhost:4040/id/register/?code="+code,
		"<bdi>Ada &lt;L&gt;</bdi> invites you.", "<path class=\"qr-ink\"")
	w.AddUser("eve")
	w.SignedIn("eve").Page("/register/?code="+code).Is(200).Shows(`id="signed-in"`, "<strong><bdi>eve</bdi></strong>", `href="/id/account/"`, `id="register"`)
	w.Browser().Page("/register/?code=" + code).Is(200).Hides(`id="signed-in"`)
	for _, other := range []string{"?code=" + code, "?code=" + w.Invite().Code, "", "?code=%00"} {
		w.SignedIn("eve").Page("/account/invites/slip" + other).Is(404).Hides(code)
	}
	w.SignedIn("eve").Page("/account/publish/").Is(404)
	b.Page("/account/invites", "note", "a\u202eb").Is(400)
	b.Page("/account/invites/delete", "code", "0000").Is(404)
	b.Page("/account/invites/delete", "code", code).RedirectsTo("/id/account/invites?notice=invite-deleted#invites")
	b.Page("/account/invites").Hides(code)

	there := w.SignedIn("ada")
	_, others := b.SessionIDs()
	b.Page("/account/sessions/end", "id", "x").Is(404)
	b.Page("/account/sessions/end", "id", others[0]).RedirectsTo("/id/account/devices?notice=session-ended#sessions")
	if there.IsSignedIn() {
		t.Error("the ended session lives")
	}
	there = w.SignedIn("ada")
	b.Page("/account/sessions/end-others", "x", "").Is(200).Shows(`id="ends"`, "Sessions in other browsers: 1")
	if !there.IsSignedIn() {
		t.Error("ended before the question was answered")
	}
	copied := b.Clone()
	b.Page("/account/sessions/end-others", "sure", "yes").RedirectsTo("/id/account/devices?notice=sessions-ended#sessions")
	if there.IsSignedIn() || copied.IsSignedIn() {
		t.Error("the other session lives, or a copy of this one")
	}
	copied = b.Clone()
	if b.Call("POST", "/api/me/sessions/end-others", nil).Is(204); !b.IsSignedIn() || copied.IsSignedIn() {
		t.Error("the session has ended, or a copy lives")
	}
	b.Page("/account/apps/remove", "client_id", "x").Is(404).Shows("No application has access to your account.")

	b.Page("/account/password", "current_password", "wrong", "new_password", newPassword).Is(401).Shows(`data-code="invalid_credentials"`,
		"<p>The password is incorrect.</p>")
	b.Page("/account/password", "current_password", password, "new_password", "hunter2").Is(400).Shows(`data-code="weak_password"`).Hides("hunter2", password)
	b.Page("/account/password", "current_password", password, "new_password", newPassword).RedirectsTo("/id/account/security?notice=password-changed#password")
	b.Page("/account/security?notice=password-changed").Is(200).
		Shows("You are signed out everywhere else, and applications no longer have access.",
			"You are signed out everywhere else, and applications lose access.")

	b.Page("/account/delete", "password", password).Is(401).Shows("<p>The password is incorrect.</p>", "<details class=\"danger\" open")
	copied = b.Clone()
	if a := b.Page("/account/delete", "password", newPassword).Is(200).Shows(`data-page="signed-out"`); len(a.SetCookies) != 1 || a.SetCookies[0].MaxAge >= 0 {
		t.Errorf("cookies %v", a.SetCookies)
	}
	if copied.IsSignedIn() {
		t.Error("the account lives")
	}
}

func TestTheProfileFormHasEveryMemberThatAPersonMayChange(t *testing.T) {
	w := accounttest.With(t, "ada")
	form := w.SignedIn("ada").Page("/account/profile").Is(200)
	for _, name := range account.UserMembers() {
		if field := fmt.Sprintf(` name="%s"`, name); strings.HasSuffix(name, "_verified") {
			form.Hides(field)
		} else {
			form.Shows(field)
		}
	}
}

func TestSignedOutFormsChangeNothing(t *testing.T) {
	w := accounttest.With(t, "ada")
	for _, path := range []string{
		"/account/profile", "/account/password", "/account/sessions/end", "/account/sessions/end-others", "/account/invites", "/account/invites/delete",
		"/account/apps/remove", "/account/delete",
	} {
		w.Browser().Page(path, "password", password).RedirectsTo("/login/?unsent=1")
	}
	for _, path := range []string{"/account/", "/account/profile", "/account/security", "/account/devices", "/account/apps", "/account/invites", "/account/data", "/account/publish/"} {
		if to := w.Browser().Page(path).Is(303).Header.Get("Location"); !strings.HasPrefix(to, "/login/") {
			t.Errorf("%s: to %s", path, to)
		}
	}
	w.Browser().Login("ada", password).Is(200)
}

// The sign-in page says that a form was lost, carries nothing of it, and leads back to its page alone.
func TestFormOfAnEndedSessionHasToBeTypedAgain(t *testing.T) {
	w, ada := accounttest.SignedIn(t, "ada")
	w.SignedIn("ada").Call("POST", "/api/me/sessions/end-others", nil).Is(204)
	const form = "application/x-www-form-urlencoded"
	send := func(from string) string {
		return ada.Send("POST", "/account/profile", form, "display_name=Ada+of+the+Hills", "Accept", "text/html", "Referer", from).
			Is(303).Header.Get("Location")
	}
	const lost = "What you typed was not saved."
	to := send("http://example.com/account/security?x=1")
	ada.Page(to).Is(200).Shows(lost).Hides("Hills")
	ada.Page(strings.Replace(to, "unsent", "sent", 1)).Is(200).Hides(lost)
	way, err := url.Parse(to)
	must(t, err)
	ada.Page("/login/", "handle", "ada", "password", password, "continue", way.Query().Get("continue")).
		RedirectsTo("/account/security?x=1")
	for _, from := range []string{"https://evil.example/account/security", "http://example.com/logout/", "http://example.com//evil.example/account/", ""} {
		w.Browser().Send("POST", "/account/profile", form, "a=b", "Accept", "text/html", "Referer", from).RedirectsTo("/login/?unsent=1")
	}
}

func TestSecurityPageSaysWhatHappenedToThePersonAlone(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("ada")
	w.AddUser("eve")
	eve := w.Administration()
	root := account.Caller{Address: "203.0.113.9"}.In(w.User("root1"), session(w.SignedIn("root1")))
	b := w.SignedIn("ada")
	must(t, eve.Suspend(t.Context(), root, w.User("eve"), "spam", false))
	_, err := eve.IssueResetCode(t.Context(), root, w.User("ada"))
	must(t, err)
	b.Page("/account/password", "current_password", "wrong", "new_password", newPassword).Is(401)
	b.Page("/account/security").Is(200).
		Shows("You signed in with password", "192.0.2.1", "root1 created a code for a new password of your account", "The operator created your account").
		Hides("suspended", "spam", "203.0.113.9") // who administers is no business of hers beyond the name
	w.SignedIn("root1").Page("/account/security").Is(200).Hides(`data-action="user.suspend"`)
}

// What the slowest page costs; the bar is 5 ms.
func BenchmarkAccountPage(b *testing.B) {
	w := accounttest.New(b)
	browser := w.Member("ada", account.FlagActivity)
	for range 30 {
		browser = w.SignedIn("ada")
		browser.Page("/account/profile", "display_name", "Ada")
	}
	for _, path := range []string{"/account/", "/account/profile", "/account/security", "/account/devices", "/account/apps", "/account/invites", "/account/data", "/account/publish/"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				browser.Page(path).Is(200)
			}
		})
	}
}

// The home has a tile for each application that the member may use and a browser can open.
func TestHomeOpensWhatTheMemberMayUse(t *testing.T) {
	w := accounttest.New(t, func(o *accounttest.Options) { o.Issuer = "https://id.example" })
	w.AddUser("ada")
	for id, c := range map[string]provider.Client{
		"home":    {HomeURI: "https://home.example/start", RedirectURIs: []string{"https://other.example/cb"}},
		"origin":  {RedirectURIs: []string{"app.example:/cb", "https://origin.example:8443/cb?x=1"}},
		"native":  {RedirectURIs: []string{"app.example:/cb", "app.example://cb"}},
		"machine": {RedirectURIs: []string{"http://127.0.0.1:4000/cb", "http://localhost/cb", "https://app.localhost/cb"}},
		"board":   {RedirectURIs: []string{"https://board.example/cb"}, RequireFlags: []string{account.FlagAdmin}},
	} {
		c.ID, c.Name, c.Scopes, c.AuthMethod, c.CreatedAt = id, id, []string{"openid"}, provider.AuthNone, w.Clock.Now()
		by := account.Operator().Audit(w.Clock.Now(), account.RegisterClient, "", "")
		must(t, w.Store.(clients).CreateClient(t.Context(), &c, by))
	}
	ada := w.SignedIn("ada")
	ada.Page("/account/").Is(200).Shows(`data-app="home"`, `href="https://home.example/start"`, `href="https://origin.example:8443/"`).
		Hides("native", "machine", "board", "other.example")
	ada.Page("/account/apps").Is(200).Shows(`href="https://origin.example:8443/"`).Hides("native", "machine", "board")
	now := w.Clock.Now()
	must(t, w.Store.(clients).SaveConsent(t.Context(), w.User("ada").Sub, "native", []string{"openid"}, now, account.Operator().Audit(now, account.AllowApp, "", "")))
	ada.Page("/account/").Is(200).Hides(`href="app.example`)
	ada.Page("/account/apps").Is(200).Shows(`data-app="native"`) // to remove its access

	// A link to join may lead to one of them: by its id, never by an address, and only who may use it.
	for id, opens := range map[string]string{"home": "https://home.example/start", "board": "", "machine": "", "https://evil.example/": ""} {
		b, code := w.Browser(), w.Invite().Code
		b.Page("/register/?code=" + code + "&app=" + url.QueryEscape(id)).Is(200).Hides("evil.example")
		b.Page("/register/", "code", code, "handle", "new-"+code[:4], "password", password).RedirectsTo("/account/welcome")
		page := b.Page("/account/welcome").Is(200).Hides("board", "machine", "evil.example")
		if shown := strings.Contains(page.Body, `id="welcome-app"`); shown != (opens != "") || !strings.Contains(page.Body, opens) {
			t.Errorf("%s: %s", id, page.Body)
		}
	}
	// The form of invites offers those that the inviter may use.
	ada.Page("/account/invites").Is(200).Shows(`<option value="home">home</option>`).Hides(`value="board"`, `value="native"`, `value="machine"`)
	ada.Page("/account/invites", "note", "Kim", "app", "home").RedirectsTo("/account/invites?notice=invite-created&app=home#invites")
	shown := ada.Page("/account/invites?app=home").Is(200).Shows(`<option value="home" selected>`, `&amp;app=home">`)
	link := regexp.MustCompile(`data-copy="[^"]*(/register/\?code=[0-9A-Z-]+)&amp;app=home"`).FindStringSubmatch(shown.Body)
	if link == nil {
		t.Fatal(shown.Body)
	}
	ada.Page("/account/invites/slip?code=" + link[1][len("/register/?code="):] + "&app=home").Is(200).Shows(link[1] + "&amp;app=home</p>")
	ada.Page("/account/invites?app=board").Is(200).Shows(`data-copy="`).Hides("app=board")
	for path, id := range map[string]string{"/join/?app=home": "home", "/register/?app=3D": "3D", "/reset-password/?handle=ada&code=x&app=home": "home",
		"/join/?app=" + strings.Repeat("x", account.MaxClientID+1): strings.Repeat("x", account.MaxClientID)} {
		kept := w.Browser().Page(path).Header.Get("Set-Cookie")
		if !strings.HasPrefix(kept, "__Host-cairn_app="+id+"; Path=/; Max-Age=1209600; HttpOnly; Secure; SameSite=Lax") {
			t.Errorf("%s: %q", path, kept)
		}
	}
	w.Start() // on the machine of the visitor
	w.SignedIn("ada").Page("/account/").Is(200).Shows(`href="http://127.0.0.1:4000/"`)
}

// A time is in the zone of its reader, else of the club, with its name.
func TestTimesAreInTheZoneOfTheReader(t *testing.T) {
	w := accounttest.New(t)
	pages := w.Router
	w.Router = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(rw, r.WithContext(templates.WithAcceptLanguage(r.Context(), "")))
	})
	w.AddUser("ada")
	w.SaveSettings(func(v *account.Settings) { v.TimeZone = "Europe/Berlin" })
	ada := w.SignedIn("ada")
	code := ada.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	i, err := w.Store.Invite(t.Context(), account.CanonicalInviteCode(code))
	must(t, err)
	for zone, profile := range map[string]string{"Europe/Berlin": "", "Pacific/Kiritimati": "Pacific/Kiritimati", "Pacific/Pago_Pago": "Pacific/Pago_Pago"} {
		ada.Call("PATCH", "/api/me", map[string]string{"zoneinfo": profile}).Is(200)
		at := i.ExpiresAt.In(templates.Zone(zone))
		ada.Page("/account/invites").Is(200).Shows(`title="` + at.Format("2 Jan 2006, 15:04") + " (" + zone + `)">`).Hides(" UTC")
		ada.Page("/account/invites/slip?code=" + code).Is(200).Shows(`">` + at.Format("2 Jan 2006") + "</time>")
	}
	w.SaveSettings(func(v *account.Settings) { v.TimeZone = "" })
	ada.Call("PATCH", "/api/me", map[string]string{"zoneinfo": ""}).Is(200)
	ada.Page("/account/invites").Is(200).Shows(`title="` + i.ExpiresAt.UTC().Format("2 Jan 2006, 15:04") + ` UTC">`)
	w.Clock.Advance(account.InviteLifetime)
	ada.Page("/account/invites/slip?code=" + code).Is(404)
}

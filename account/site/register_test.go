package site_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

func registration(code, handle string) map[string]string {
	return map[string]string{"code": code, "handle": handle, "password": password}
}

func TestRegistering(t *testing.T) {
	w := accounttest.New(t)
	b := w.Browser()
	in := registration(strings.ToLower(w.Invite().Shown()), "Ada")
	in["display_name"], in["email"] = " Ada Lovelace ", " ada@example.org "
	a := b.Call("POST", "/api/register", in).Is(201)
	if strings.TrimSpace(a.Body) != `{"ok":true,"handle":"ada"}` || len(a.SetCookies) != 2 || a.SetCookies[0].Name != "cairn_session" {
		t.Errorf("%s %v", a.Body, a.SetCookies)
	}
	u := w.User("ada")
	if u.DisplayName != "Ada Lovelace" || u.Email != "ada@example.org" || u.EmailVerified || u.Sub == u.Handle ||
		strings.Join(u.Flags, " ") != "activity" || !b.IsSignedIn() {
		t.Errorf("%+v", u)
	}
	w.Browser().Login("ada", password).Is(200)
}

func TestNothingButACodeIsAnInvite(t *testing.T) {
	w := accounttest.New(t)
	good := w.Invite()
	expired := w.Invite()
	w.Clock.Advance(account.InviteLifetime)
	good = w.Invite()
	for _, code := range []string{
		"", " ", "-", "%", "_", "*", "null", good.Code[:15], good.Code + "0", good.Code[:8], expired.Code, expired.Shown(), strings.Repeat("0", 16),
		"' OR '1'='1", good.Code + "\u200b", strings.Repeat("-", 100) + good.Code, "UUUU-UUUU-UUUU-UUUU",
	} {
		w.Browser().Call("POST", "/api/register", registration(code, "ada")).Is(400, "invalid_invite")
	}
	w.Browser().Send("POST", "/api/register", "application/json", `{"code":["`+good.Code+`"],"handle":"ada","password":"`+password+`"}`).Is(400, "invalid_request")
	w.Browser().Send("POST", "/api/register", "application/json", `{"code":null,"handle":"ada","password":"`+password+`"}`).Is(400, "invalid_invite")
	w.Browser().Call("POST", "/api/register", registration(good.Code, "ada")).Is(201)
	for _, again := range []string{good.Code, good.Shown(), strings.ToLower(good.Code), " " + good.Code + " "} {
		w.Browser().Call("POST", "/api/register", registration(again, "bob")).Is(400, "invalid_invite")
	}
}

// A refusal leaves the invite as it was and signs nobody in, and nobody says more about themselves than they may.
func TestRefusedRegistrationLeavesTheInvite(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("keeper", account.FlagAdmin)
	w.AddUser("paypal")
	code, b := w.Invite().Shown(), w.Browser()
	secret := `,"password":"` + password + `"`
	grace := `"handle":"grace"` + secret
	for body, refusal := range map[string]string{
		`"handle":"keeper"` + secret: "handle_taken", `"handle":"KEEPER"` + secret: "handle_taken", `"handle":"admin"` + secret: "invalid_handle",
		`"handle":"../ada"` + secret: "invalid_handle", secret[1:]: "invalid_handle", `"handle":"grace","password":"password1"`: "weak_password",
		`"handle":"grace"`: "weak_password", `"handle":"grace","password":"amazing grace"`: "weak_password",
		grace + `,"display_name":"` + strings.Repeat("n", 61) + `"`: "invalid_display_name", grace + `,"display_name":"a\u0007b"`: "invalid_display_name",
		grace + `,"display_name":"a\u202eb"`: "invalid_display_name", grace + `,"email":"grace at example.org"`: "invalid_email",
		grace + `,"is_admin":true`: "invalid_request", grace + `,"flags":{"admin":true}`: "invalid_request", grace + `,"sub":"x"`: "invalid_request",
		grace + `,"role":"admin"`: "invalid_request", `"handle":"eve",` + grace: "invalid_request",
	} {
		status := 400
		if refusal == "handle_taken" {
			status = 409
		}
		if a := b.Send("POST", "/api/register", "application/json", `{"code":"`+code+`",`+body+`}`).Is(status, refusal); len(a.SetCookies) > 0 {
			t.Errorf("%s: a refusal sets cookies", body)
		}
	}
	// A handle that looks like another one is that one or none.
	for _, h := range []string{
		"pаypal" /* Cyrillic */, "paypal\u200b", "pay\u00adpal", "\u202epaypal", "paypal\x00", "ｐａｙｐａｌ", "PAYPAL", "páypal", "paypal\u0301", "pay pal", "pay/pal", "..", ".", "-paypal", "paypal_",
		"a--", "a@b", "ı", "ａｄｍｉｎ", "%70aypal", "paypal\n", "<b>", strings.Repeat("a", 31), "", "ﬁsh", "ada?x", "ada#x", "me", "API", "Admin",
	} {
		if a := b.Call("POST", "/api/register", registration(code, h)); a.Status != 400 && a.Status != 409 {
			t.Errorf("%q: %d %s", h, a.Status, a.Body)
		}
	}
	spelt := " " + strings.ToLower(strings.ReplaceAll(code, "-", " ")) + " "
	b.Call("POST", "/api/register", registration(spelt, "grace")).Is(201)
	b.Call("GET", "/api/me", nil).Shows(`"flags":{"activity":true,"admin":false}`)
	for _, again := range []string{strings.ReplaceAll(code, "-", ""), spelt, strings.NewReplacer("0", "o", "1", "l").Replace(code)} {
		w.Browser().Call("POST", "/api/register", registration(again, "heidi")).Is(400, "invalid_invite")
	}
}

func TestAWrongCodeTellsNothingAboutHandles(t *testing.T) {
	w := accounttest.With(t, "taken")
	want := w.Browser().Call("POST", "/api/register", registration("0000-0000-0000-0000", "free")).Is(400, "invalid_invite").Body
	for _, handle := range []string{"taken", "-", "admin", ""} {
		same(t, handle,
			w.Browser().Call("POST", "/api/register", registration("0000-0000-0000-0000", handle)).Is(400).Body, want)
	}
}

func TestClosedAndFullInstallationsRefuseRegistration(t *testing.T) {
	w, post := newMailWorld(t)
	w.AddUser("ada")
	i, ada := w.Invite(), w.SignedIn("ada")
	nobodyIsInvited := func() {
		t.Helper()
		ada.Page("/account/invites").Is(200).Shows(`id="closed"`, "No more members can join at the moment.")
		ada.Page("/account/invites", "email", "bo@example.org").Is(403).Shows(`data-code="registration_full"`)
		post.none()
	}
	w.SaveSettings(func(s *account.Settings) { s.Registration = account.RegistrationClosed })
	nobodyIsInvited()
	w.Browser().Call("POST", "/api/register", registration(i.Code, "bob")).Is(403, "registration_full")
	w.Browser().Page("/register/?code=" + i.Code).Is(200).Shows("Nobody can join right now").Hides("<form")
	w.Browser().Page("/register/", "code", i.Code, "handle", "bob", "password", password).Is(403)
	w.Browser().Page("/login/").Is(200).Hides("/register/")
	w.SaveSettings(func(s *account.Settings) { s.MaxUsers = 1 })
	nobodyIsInvited()
	w.Browser().Call("POST", "/api/register", registration(i.Code, "bob")).Is(403, "registration_full")
	w.Browser().Page("/register/", "code", i.Code, "handle", "bob", "password", password).Is(403).Shows(
		"Nobody can join right now")
	w.SaveSettings(func(s *account.Settings) { s.MaxUsers = 2 })
	ada.Page("/account/invites").Is(200).Hides(`id="closed"`)
	w.Browser().Call("POST", "/api/register", registration(i.Code, "bob")).Is(201)
}

// A team joins in one room, whose members type codes from paper.
func TestTypingMistakesKeepNobodyFromJoining(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitRegister: {Count: 2, Window: time.Hour}}))
	good, expected := w.Invite().Code, []int{400, 400, 429, 429}
	w.AddUser("taken")
	for range 3 { // who looks for a free handle does not guess
		w.BrowserAt(address(1)).Call("POST", "/api/register", registration(good, "taken")).Is(409, "handle_taken")
	}
	for _, status := range expected {
		w.BrowserAt(address(1)).Call("POST", "/api/register", registration("0000-0000-0000-0000", "eve")).Is(status)
	}
	w.BrowserAt(address(1)).Page("/register/", "code", "0000-0000-0000-0000", "display_name", "Taken").Is(429).Hides("@taken")
	w.BrowserAt(address(1)).Page("/register/?code=0000-0000-0000-0000").Is(200).Hides("invalid_invite") // nor a word about that code
	w.BrowserAt(address(1)).Page("/register/?code=" + good).Is(200).Shows(`name="linked"`)
	w.BrowserAt(address(1)).Call("POST", "/api/register", registration(good, "ada")).Is(201)
	w.BrowserAt(address(1)).Call("POST", "/api/register", registration(good, "bob")).Is(400, "invalid_invite") // spent
}

func TestRegisteringWhileSignedInEndsTheOtherSession(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	old := b.Clone()
	b.Call("POST", "/api/register", registration(w.Invite().Code, "bob")).Is(201)
	same(t, "signed in as", b.Call("GET", "/api/me", nil).JSON()["handle"], "bob")
	if old.IsSignedIn() {
		t.Error("the overwritten session lives on")
	}
}

func TestRegisterPage(t *testing.T) {
	w := accounttest.With(t, "ada")
	a := w.SignedIn("ada").Call("POST", "/api/invites", map[string]string{"note": "See you <b>Sunday</b>"}).Is(201)
	code := a.JSON()["code"].(string)
	w.Browser().Page("/register/").Is(200).Shows(`data-page="register"`, "Ask a member for an invite code")
	w.Browser().Page("/register/?code="+strings.ToLower(code)).Is(200).Shows(`value="`+code+`"`, "ada", "invited you", "&lt;b&gt;Sunday").Hides("<b>Sunday")
	w.Browser().Page("/register/?code=0000").Is(400).Shows(`data-code="invalid_invite"`)
	w.Browser().Page("/register/", "code", "0000", "linked", "1").Is(400).Shows(`id="code-error"`)
	w.Browser().Page("/register/", "code", code, "handle", "ADMIN", "password", "hunter2hunter2").Is(400).
		Shows(`data-code="invalid_handle"`, `value="`+code+`"`, `value="ADMIN"`).Hides("hunter2hunter2")
	w.Browser().Page("/register/", "code", code, "handle", "bob", "password", password, "email", "nobody").Is(400).
		Shows(`data-code="invalid_email"`, `name="email" type="email" value="nobody"`, `id="email-error"`)
	w.Browser().Page("/register/", "code", code, "handle", "bob", "password", "short").Is(400).Shows(`data-code="weak_password"`, "at least 10", `for="code"`)
	b := w.Browser()
	b.Page("/register/", "code", code, "handle", "bob", "password", password, "email", "bob@example.org", "continue",
		"eyJ9.c2Vh").RedirectsTo("/oauth2/authorize?continue=eyJ9.c2Vh")
	if !b.IsSignedIn() || w.User("bob").InvitedBy != "ada" || w.User("bob").Email != "bob@example.org" || w.User("bob").EmailVerified {
		t.Errorf("%+v", w.User("bob"))
	}
	w.Browser().Page("/register/?code=" + code).Is(400).Shows(`data-code="invalid_invite"`)
}

func TestInvitesOfShutOutMembersAreVoid(t *testing.T) {
	w := accounttest.With(t, "ada")
	code := w.SignedIn("ada").Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	w.Suspend("ada")
	w.Browser().Call("POST", "/api/register", registration(code, "bob")).Is(400, "invalid_invite")
	must(t, w.Administration().Unsuspend(t.Context(), account.Operator(), w.User("ada")))
	w.Browser().Call("POST", "/api/register", registration(code, "bob")).Is(400, "invalid_invite")
}

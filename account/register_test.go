package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func registration(code, handle string) map[string]string {
	return map[string]string{"code": code, "handle": handle, "password": password}
}

func TestRegistering(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	in := registration(strings.ToLower(w.invite().Shown()), "Ada")
	in["display_name"], in["email"] = " Ada Lovelace ", " ada@example.org "
	a := b.call("POST", "/api/register", in).is(201)
	if strings.TrimSpace(a.body) != `{"ok":true,"handle":"ada"}` || len(a.set) != 1 {
		t.Errorf("%s %v", a.body, a.set)
	}
	u := w.user("ada")
	if u.DisplayName != "Ada Lovelace" || u.Email != "ada@example.org" || u.EmailVerified || u.Sub == u.Handle || strings.Join(u.Flags, " ") != "activity" || !b.isSignedIn() {
		t.Errorf("%+v", u)
	}
	w.browser().login("ada", password).is(200)
}

func TestNothingButACodeIsAnInvite(t *testing.T) {
	w := newWorld(t)
	good := w.invite()
	expired := w.invite()
	w.clock.Advance(account.InviteLifetime)
	good = w.invite()
	for _, code := range []string{
		"", " ", "-", "%", "_", "*", "null", good.Code[:15], good.Code + "0", good.Code[:8], expired.Code, expired.Shown(), strings.Repeat("0", 16),
		"' OR '1'='1", good.Code + "\u200b", strings.Repeat("-", 100) + good.Code, "UUUU-UUUU-UUUU-UUUU",
	} {
		w.browser().call("POST", "/api/register", registration(code, "ada")).is(400, "invalid_invite")
	}
	w.browser().send("POST", "/api/register", "application/json", `{"code":["`+good.Code+`"],"handle":"ada","password":"`+password+`"}`).is(400, "invalid_request")
	w.browser().send("POST", "/api/register", "application/json", `{"code":null,"handle":"ada","password":"`+password+`"}`).is(400, "invalid_invite")
	w.browser().call("POST", "/api/register", registration(good.Code, "ada")).is(201)
	for _, again := range []string{good.Code, good.Shown(), strings.ToLower(good.Code), " " + good.Code + " "} {
		w.browser().call("POST", "/api/register", registration(again, "bob")).is(400, "invalid_invite")
	}
}

func TestRefusedRegistrationLeavesTheInviteOpen(t *testing.T) {
	w := newWorld(t)
	w.addUser("taken")
	i := w.invite()
	for code, in := range map[string]map[string]string{
		"handle_taken":         {"handle": "taken", "password": password},
		"invalid_handle":       {"handle": "-", "password": password},
		"weak_password":        {"handle": "ada", "password": "password12"},
		"invalid_display_name": {"handle": "ada", "password": password, "display_name": "a\u202eb"},
		"invalid_email":        {"handle": "ada", "password": password, "email": "ada at example.org"},
	} {
		in["code"] = i.Code
		w.browser().call("POST", "/api/register", in)
		a := w.browser().call("POST", "/api/register", in)
		if a.json()["code"] != code {
			t.Errorf("got %s, want %s", a.body, code)
		}
		if len(a.set) != 0 {
			t.Errorf("%s: cookies %v", code, a.set)
		}
	}
	w.browser().call("POST", "/api/register", map[string]string{"code": i.Code, "handle": "ada"}).is(400, "weak_password").shows("The password needs at least 10 characters.")
	w.browser().call("POST", "/api/register", registration(i.Code, "ada")).is(201)
}

func TestAWrongCodeTellsNothingAboutHandles(t *testing.T) {
	w := newWorld(t)
	w.addUser("taken")
	want := w.browser().call("POST", "/api/register", registration("0000-0000-0000-0000", "free")).is(400, "invalid_invite").body
	for _, handle := range []string{"taken", "-", "admin", ""} {
		if got := w.browser().call("POST", "/api/register", registration("0000-0000-0000-0000", handle)).is(400).body; got != want {
			t.Errorf("%q: %s", handle, got)
		}
	}
}

func TestRegistrationSetsNoPrivilegedMembers(t *testing.T) {
	w := newWorld(t)
	i := w.invite()
	for _, extra := range []string{
		`"is_admin":true`, `"flags":{"admin":true}`, `"flags":["admin"]`, `"role":"admin"`, `"sub":"1"`, `"id":1`, `"suspended":false`, `"email_verified":true`,
		`"created_at":"2020-01-01T00:00:00Z"`, `"invited_by":"root"`, `"password_hash":"x"`, `"Handle":"eve"`,
	} {
		w.browser().send("POST", "/api/register", "application/json", `{"code":"`+i.Code+`","handle":"ada","password":"`+password+`",`+extra+`}`).is(400, "invalid_request")
	}
	w.browser().page("/register/", "code", i.Code, "handle", "ada", "password", password, "flags", "admin", "is_admin", "true").redirectsTo("/account/")
	if u := w.user("ada"); u.Has(account.FlagAdmin) {
		t.Errorf("flags %v", u.Flags)
	}
}

func TestOddHandlesAreRefused(t *testing.T) {
	w := newWorld(t)
	code := w.invite().Code
	for _, h := range []string{
		"", " ", "-a", "a-", "_a", "a b", "a/b", "../a", "a.b", "a@b", "a%00", "a\tb", "аda" /* Cyrillic */, "ad\u200ba", "\u202eada", "adä", "ada\u0301",
		strings.Repeat("a", 31), "admin", "ADMIN", "root", "api", "oauth2", "me", "ａｄｍｉｎ", "<b>", "ada\u00ad", "ı",
	} {
		w.browser().call("POST", "/api/register", registration(code, h)).is(400, "invalid_handle")
	}
	w.browser().call("POST", "/api/register", registration(code, "a")).is(201)
}

func TestOneInviteIsOneMember(t *testing.T) {
	w := newWorld(t)
	for round := range 4 {
		code := w.invite().Code
		got := parallel(8, func(i int) int {
			return w.browser().call("POST", "/api/register", registration(code, "user"+string(rune('a'+round))+string(rune('a'+i)))).status
		})
		if got[201] != 1 || got[400] != 7 {
			t.Fatalf("round %d: %v", round, got)
		}
	}
}

func TestOneHandleIsOneMember(t *testing.T) {
	w := newWorld(t)
	var codes []string
	for range 8 {
		codes = append(codes, w.invite().Code)
	}
	got := parallel(8, func(i int) int {
		return w.browser().call("POST", "/api/register", registration(codes[i], "ada")).status
	})
	if got[201] != 1 || got[409] != 7 {
		t.Fatalf("%v", got)
	}
	// The losers' invites are still good; a deleted handle is not given again.
	if err := w.service.Administration().Delete(t.Context(), account.Operator(), w.user("ada")); err != nil {
		t.Fatal(err)
	}
	left := 0
	for i, c := range codes {
		a := w.browser().call("POST", "/api/register", registration(c, "ada"))
		if a.json()["code"] == "handle_taken" {
			left++
			w.browser().call("POST", "/api/register", registration(c, "user"+string(rune('a'+i)))).is(201)
		}
	}
	if left != 7 {
		t.Errorf("%d invites were left", left)
	}
}

func TestClosedAndFullInstallationsRefuseRegistration(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	i := w.invite()
	w.saveSettings(func(s *account.Settings) { s.Registration = account.RegistrationClosed })
	w.browser().call("POST", "/api/register", registration(i.Code, "bob")).is(403, "registration_full")
	w.browser().page("/register/?code=" + i.Code).is(200).shows("Registration is closed").hides("<form")
	w.browser().page("/login/").is(200).hides("/register/")
	w.saveSettings(func(s *account.Settings) { s.MaxUsers = 1 })
	w.browser().call("POST", "/api/register", registration(i.Code, "bob")).is(403, "registration_full")
	w.browser().page("/register/", "code", i.Code, "handle", "bob", "password", password).is(403).shows("Registration is closed")
	w.saveSettings(func(s *account.Settings) { s.MaxUsers = 2 })
	w.browser().call("POST", "/api/register", registration(i.Code, "bob")).is(201)
}

func TestGuessingCodesIsLimited(t *testing.T) {
	w := newWorld(t, withLimits(map[string]web.Rate{web.LimitRegister: {Count: 5, Window: 15 * time.Minute}}))
	w.addUser("taken")
	i := w.invite()
	for range 7 { // looking for a free handle is no guessing
		w.browser().call("POST", "/api/register", registration(i.Code, "taken")).is(409)
	}
	for range 5 {
		w.browser().call("POST", "/api/register", registration("0000-0000-0000-0000", "ada")).is(400)
	}
	w.browser().call("POST", "/api/register", registration(i.Code, "ada")).is(429, "rate_limited")
	w.browser().page("/register/?code="+i.Code).is(200).hides("invited you", "role=\"alert\"")
	w.browser().page("/register/?code=0000-0000-0000-0000").is(200).hides("role=\"alert\"")
	w.browserAt("192.0.2.9").call("POST", "/api/register", registration(i.Code, "ada")).is(201)
}

func TestRegisteringWhileSignedInEndsTheOtherSession(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	old := b.clone()
	b.call("POST", "/api/register", registration(w.invite().Code, "bob")).is(201)
	if got := b.call("GET", "/api/me", nil).json()["handle"]; got != "bob" {
		t.Errorf("signed in as %v", got)
	}
	if old.isSignedIn() {
		t.Error("the overwritten session lives on")
	}
}

func TestRegisterPage(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	a := w.signedIn("ada").call("POST", "/api/invites", map[string]string{"note": "See you <b>Sunday</b>"}).is(201)
	code := a.json()["code"].(string)
	w.browser().page("/register/").is(200).shows(`data-page="register"`, "You need an invite code")
	w.browser().page("/register/?code="+strings.ToLower(code)).is(200).shows(`value="`+code+`"`, "ada", "invited you", "&lt;b&gt;Sunday").hides("<b>Sunday")
	w.browser().page("/register/?code=0000").is(400).shows(`data-code="invalid_invite"`)
	w.browser().page("/register/", "code", code, "handle", "ADMIN", "password", "hunter2hunter2").is(400).
		shows(`data-code="invalid_handle"`, `value="`+code+`"`, `value="ADMIN"`).hides("hunter2hunter2")
	w.browser().page("/register/", "code", code, "handle", "bob", "password", password, "email", "nobody").is(400).
		shows(`data-code="invalid_email"`, `name="email" type="email" value="nobody"`, `id="email-error"`)
	w.browser().page("/register/", "code", code, "handle", "bob", "password", "short").is(400).shows(`data-code="weak_password"`, "at least 10")
	b := w.browser()
	b.page("/register/", "code", code, "handle", "bob", "password", password, "email", "bob@example.org", "continue", "eyJ9.c2Vh").redirectsTo("/oauth2/authorize?continue=eyJ9.c2Vh")
	if !b.isSignedIn() || w.user("bob").InvitedBy != "ada" || w.user("bob").Email != "bob@example.org" || w.user("bob").EmailVerified {
		t.Errorf("%+v", w.user("bob"))
	}
	w.browser().page("/register/?code=" + code).is(400).shows(`data-code="invalid_invite"`)
}

func TestInvitesOfShutOutMembersAreVoid(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	code := w.signedIn("ada").call("POST", "/api/invites", nil).is(201).json()["code"].(string)
	w.suspend("ada")
	w.browser().call("POST", "/api/register", registration(code, "bob")).is(400, "invalid_invite")
}

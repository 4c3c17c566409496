package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func reset(handle, code, password string) map[string]string {
	return map[string]string{"handle": handle, "code": code, "password": password}
}

func TestResetEndsEverySessionAndDoesNotSignIn(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	old := w.signedIn("ada")
	code := w.resetCode("ada")
	b := w.browser()
	a := b.call("POST", "/api/auth/reset-password", reset(" ADA ", strings.ToLower(code[:10]+"-"+code[10:]), newPassword)).is(200)
	if strings.TrimSpace(a.body) != `{"ok":true}` || len(a.set) != 0 || b.isSignedIn() {
		t.Errorf("%s %v", a.body, a.set)
	}
	if old.isSignedIn() {
		t.Error("a session outlived the reset")
	}
	w.browser().login("ada", password).is(401)
	w.browser().login("ada", newPassword).is(200)
}

func TestAResetCodeWorksOnceForOnePersonAndNotForLong(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("bob")
	first := w.resetCode("ada")
	code := w.resetCode("ada")
	bobs := w.resetCode("bob")
	unknown := w.browser().call("POST", "/api/auth/reset-password", reset("nobody", code, newPassword)).is(400, "invalid_reset_code").body
	for _, in := range []map[string]string{
		reset("ada", first, newPassword), reset("bob", code, newPassword), reset("ada", bobs, newPassword), reset("ada", "", newPassword), reset("", code, newPassword),
		reset("ada", code[:25], newPassword), reset("ada", code+"0", newPassword), reset("ada", "%", newPassword), reset("", "", newPassword),
		reset("ada", strings.Repeat("0", 26), newPassword), reset("ada' --", code, newPassword), reset("ada", strings.Repeat("0", 26), "short"), reset("nobody", code, "short"),
	} {
		if got := w.browser().call("POST", "/api/auth/reset-password", in).is(400, "invalid_reset_code").body; got != unknown {
			t.Errorf("%v: %s, want %s", in, got, unknown)
		}
	}
	w.browser().call("POST", "/api/auth/reset-password", reset("ada", code, newPassword)).is(200)
	w.browser().call("POST", "/api/auth/reset-password", reset("ada", code, password)).is(400, "invalid_reset_code")
	w.clock.Advance(account.ResetCodeLifetime)
	w.browser().call("POST", "/api/auth/reset-password", reset("bob", bobs, newPassword)).is(400, "invalid_reset_code")
	w.browser().login("bob", password).is(200)
}

func TestAWeakPasswordDoesNotBurnTheCode(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	code := w.resetCode("ada")
	for _, weak := range []string{"", "short", "password12", "1234567890", "xx ada xx xx", strings.Repeat("x", 129), "a\u0007bcdefghijk", "aaaaaaaaaaaa", "qwertyuiop"} {
		w.browser().call("POST", "/api/auth/reset-password", reset("ada", code, weak)).is(400, "weak_password")
	}
	w.browser().login("ada", password).is(200)
	w.browser().call("POST", "/api/auth/reset-password", reset("ada", code, newPassword)).is(200)
}

func TestOneResetCodeIsOneReset(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	code := w.resetCode("ada")
	got := parallel(8, func(i int) int {
		return w.browser().call("POST", "/api/auth/reset-password", reset("ada", code, "many different words "+string(rune('a'+i)))).status
	})
	if got[200] != 1 || got[400] != 7 {
		t.Fatalf("%v", got)
	}
}

func TestResetDoesNotLiftASuspension(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.suspend("ada")
	code := w.resetCode("ada")
	w.browser().call("POST", "/api/auth/reset-password", reset("ada", code, newPassword))
	if !w.user("ada").Suspended() {
		t.Error("the reset lifted the suspension")
	}
	w.browser().login("ada", password).status200Never(t)
	w.browser().login("ada", newPassword).status200Never(t)
}

func TestGuessingResetCodesIsLimited(t *testing.T) {
	limits := withLimits(map[string]web.Rate{web.LimitReset: {Count: 10, Window: 15 * time.Minute}, web.LimitResetAccount: {Count: 5, Window: 15 * time.Minute}})
	wrong := strings.Repeat("0", 26)
	t.Run("by address", func(t *testing.T) {
		w := newWorld(t, limits)
		for i := range 10 {
			w.browser().call("POST", "/api/auth/reset-password", reset("user"+string(rune('a'+i)), wrong, newPassword)).is(400)
		}
		w.browser().call("POST", "/api/auth/reset-password", reset("ada", wrong, newPassword)).is(429, "rate_limited")
	})
	t.Run("by account in any spelling", func(t *testing.T) {
		w := newWorld(t, limits)
		w.addUser("ada")
		code := w.resetCode("ada")
		for i, h := range []string{"ada", "ADA", " ada", "ａda", "adA"} {
			w.browserAt(address(i)).call("POST", "/api/auth/reset-password", reset(h, wrong, newPassword)).is(400)
		}
		// A fresh address does not help who guesses.
		refused := w.browserAt(address(9)).call("POST", "/api/auth/reset-password", reset("Ada", wrong, newPassword)).is(429, "rate_limited")
		if refused.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		// The right code is taken: a stranger keeps nobody out.
		w.browserAt(address(9)).call("POST", "/api/auth/reset-password", reset("ada", code, newPassword)).is(200)
		w.browserAt(address(9)).login("ada", newPassword).is(200)
	})
}

func TestResetPage(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	code := w.resetCode("ada")
	w.browser().page("/reset-password/?handle=Ada&code="+strings.ToLower(code)).is(200).shows(`data-page="reset-password"`, `value="ada"`, `value="`+code+`"`)
	w.browser().page("/reset-password/?handle=%3Cb%3E&code=%3Cb%3E").is(200).hides("<b>", "&lt;b&gt;")
	w.browser().page("/reset-password/", "handle", "ada", "code", code, "password", "short").is(400).shows(`data-code="weak_password"`, code)
	w.browser().page("/reset-password/", "handle", "ada", "code", "0000", "password", "hunter2hunter2").is(400).shows(`data-code="invalid_reset_code"`).hides("hunter2hunter2")
	w.browser().page("/reset-password/", "handle", "ada", "code", code, "password", newPassword).is(200).shows("Password changed", "/login/")
	w.browser().login("ada", newPassword).is(200)
}

func TestPasswordManagersFindTheForm(t *testing.T) {
	w := newWorld(t, func(o *account.Options) { o.Issuer = "http://localhost:4040/id" })
	w.addUser("ada")
	w.browser().page("/.well-known/change-password").redirectsTo("/id/account/security#password")
	w.browser().page("/account/").redirectsTo("/id/login/")
	w.signedIn("ada").page("/account/security").is(200).shows(`id="password"`)
}

func (a *answer) status200Never(t *testing.T) {
	t.Helper()
	if a.status == 200 {
		t.Errorf("got 200: %s", a.body)
	}
}

// A suspended or locked-out user is told whom to ask, where the administrators have said it.
func TestContactIsShownToWhoNeedsIt(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	w.suspend("ada")
	wrong := map[string]string{"handle": "ada", "code": "nonsense", "password": password}
	for _, contact := range []string{"", "board@club.example"} {
		w.saveSettings(func(v *account.Settings) { v.Contact = contact })
		for name, a := range map[string]*answer{
			"reset page": b.page("/reset-password/"), "refused code": w.browser().call("POST", "/api/auth/reset-password", wrong).is(400, "invalid_reset_code"),
			"ended session": b.page("/login/"), "suspended": w.browser().login("ada", password).is(403, "account_suspended"),
			"suspended page": w.browser().page("/login/", "handle", "ada", "password", password).is(403),
		} {
			if got := strings.Contains(a.body, "Contact: "); got != (contact != "") || !strings.Contains(a.body, contact) {
				t.Errorf("%s with contact %q: %s", name, contact, a.body)
			}
		}
	}
	b.page("/reset-password/").shows(`<a href="mailto:board@club.example">board@club.example</a>`)
	w.saveSettings(func(v *account.Settings) { v.Contact = "the board, <any> Tuesday" })
	b.page("/reset-password/").shows("Contact: <bdi>the board, &lt;any&gt; Tuesday</bdi>")
}

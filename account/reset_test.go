package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

func reset(handle, code, password string) map[string]string {
	return map[string]string{"handle": handle, "code": code, "password": password}
}

func TestResetEndsEverySessionAndDoesNotSignIn(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	old := w.SignedIn("ada")
	code := w.ResetCode("ada")
	b := w.Browser()
	a := b.Call("POST", "/api/auth/reset-password", reset(" ADA ", strings.ToLower(code[:10]+"-"+code[10:]), newPassword)).Is(200)
	if strings.TrimSpace(a.Body) != `{"ok":true}` || len(a.SetCookies) != 0 || b.IsSignedIn() {
		t.Errorf("%s %v", a.Body, a.SetCookies)
	}
	if old.IsSignedIn() {
		t.Error("a session outlived the reset")
	}
	w.Browser().Login("ada", password).Is(401)
	w.Browser().Login("ada", newPassword).Is(200)
}

func TestAResetCodeWorksOnceForOnePersonAndNotForLong(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	w.AddUser("bob")
	first := w.ResetCode("ada")
	code := w.ResetCode("ada")
	bobs := w.ResetCode("bob")
	unknown := w.Browser().Call("POST", "/api/auth/reset-password", reset("nobody", code, newPassword)).Is(400, "invalid_reset_code").Body
	for _, in := range []map[string]string{
		reset("ada", first, newPassword), reset("bob", code, newPassword), reset("ada", bobs, newPassword), reset("ada", "", newPassword), reset("", code, newPassword),
		reset("ada", code[:25], newPassword), reset("ada", code+"0", newPassword), reset("ada", "%", newPassword), reset("", "", newPassword),
		reset("ada", strings.Repeat("0", 26), newPassword), reset("ada' --", code, newPassword), reset("ada", strings.Repeat("0", 26), "short"), reset("nobody", code, "short"),
	} {
		if got := w.Browser().Call("POST", "/api/auth/reset-password", in).Is(400, "invalid_reset_code").Body; got != unknown {
			t.Errorf("%v: %s, want %s", in, got, unknown)
		}
	}
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, newPassword)).Is(200)
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, password)).Is(400, "invalid_reset_code")
	w.Clock.Advance(account.ResetCodeLifetime)
	w.Browser().Call("POST", "/api/auth/reset-password", reset("bob", bobs, newPassword)).Is(400, "invalid_reset_code")
	w.Browser().Login("bob", password).Is(200)
}

func TestAWeakPasswordDoesNotBurnTheCode(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	code := w.ResetCode("ada")
	for _, weak := range []string{"", "short", "password12", "1234567890", "xx ada xx xx", strings.Repeat("x", 129), "a\u0007bcdefghijk", "aaaaaaaaaaaa", "qwertyuiop"} {
		w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, weak)).Is(400, "weak_password")
	}
	w.Browser().Login("ada", password).Is(200)
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, newPassword)).Is(200)
}

func TestOneResetCodeIsOneReset(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	code := w.ResetCode("ada")
	got := accounttest.Parallel(8, func(i int) int {
		return w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, "many different words "+string(rune('a'+i)))).Status
	})
	if got[200] != 1 || got[400] != 7 {
		t.Fatalf("%v", got)
	}
}

func TestResetDoesNotLiftASuspension(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	w.Suspend("ada")
	code := w.ResetCode("ada")
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, newPassword))
	if !w.User("ada").Suspended() {
		t.Error("the reset lifted the suspension")
	}
	status200Never(w.Browser().Login("ada", password), t)
	status200Never(w.Browser().Login("ada", newPassword), t)
}

func TestGuessingResetCodesIsLimited(t *testing.T) {
	limits := withLimits(map[string]web.Rate{web.LimitReset: {Count: 10, Window: 15 * time.Minute}, web.LimitResetAccount: {Count: 5, Window: 15 * time.Minute}})
	wrong := strings.Repeat("0", 26)
	t.Run("by address", func(t *testing.T) {
		w := accounttest.New(t, limits)
		for i := range 10 {
			w.Browser().Call("POST", "/api/auth/reset-password", reset("user"+string(rune('a'+i)), wrong, newPassword)).Is(400)
		}
		w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", wrong, newPassword)).Is(429, "rate_limited")
	})
	t.Run("by account in any spelling", func(t *testing.T) {
		w := accounttest.New(t, limits)
		w.AddUser("ada")
		code := w.ResetCode("ada")
		for i, h := range []string{"ada", "ADA", " ada", "ａda", "adA"} {
			w.BrowserAt(address(i)).Call("POST", "/api/auth/reset-password", reset(h, wrong, newPassword)).Is(400)
		}
		// A fresh address does not help who guesses.
		refused := w.BrowserAt(address(9)).Call("POST", "/api/auth/reset-password", reset("Ada", wrong, newPassword)).Is(429, "rate_limited")
		if refused.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		// The right code is taken: a stranger keeps nobody out.
		w.BrowserAt(address(9)).Call("POST", "/api/auth/reset-password", reset("ada", code, newPassword)).Is(200)
		w.BrowserAt(address(9)).Login("ada", newPassword).Is(200)
	})
}

func TestResetPage(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	code := w.ResetCode("ada")
	w.Browser().Page("/reset-password/?handle=Ada&code="+strings.ToLower(code)).Is(200).Shows(`data-page="reset-password"`, `value="ada"`, `value="`+code+`"`)
	w.Browser().Page("/reset-password/?handle=%3Cb%3E&code=%3Cb%3E").Is(200).Hides("<b>", "&lt;b&gt;")
	w.Browser().Page("/reset-password/", "handle", "ada", "code", code, "password", "short").Is(400).Shows(`data-code="weak_password"`, code)
	w.Browser().Page("/reset-password/", "handle", "ada", "code", "0000", "password", "hunter2hunter2").Is(400).Shows(`data-code="invalid_reset_code"`).Hides("hunter2hunter2")
	w.Browser().Page("/reset-password/", "handle", "ada", "code", code, "password", newPassword).Is(200).Shows("Password changed", "/login/")
	w.Browser().Login("ada", newPassword).Is(200)
}

func TestPasswordManagersFindTheForm(t *testing.T) {
	w := accounttest.New(t, func(o *account.Options) { o.Issuer = "http://localhost:4040/id" })
	w.AddUser("ada")
	w.Browser().Page("/.well-known/change-password").RedirectsTo("/id/account/security#password")
	w.Browser().Page("/account/").RedirectsTo("/id/login/")
	w.SignedIn("ada").Page("/account/security").Is(200).Shows(`id="password"`)
}

func status200Never(a *accounttest.Answer, t *testing.T) {
	t.Helper()
	if a.Status == 200 {
		t.Errorf("got 200: %s", a.Body)
	}
}

// A suspended or locked-out user is told whom to ask, where the administrators have said it.
func TestContactIsShownToWhoNeedsIt(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	b := w.SignedIn("ada")
	w.Suspend("ada")
	wrong := map[string]string{"handle": "ada", "code": "nonsense", "password": password}
	for _, contact := range []string{"", "board@club.example"} {
		w.SaveSettings(func(v *account.Settings) { v.Contact = contact })
		for name, a := range map[string]*accounttest.Answer{
			"reset page": b.Page("/reset-password/"), "refused code": w.Browser().Call("POST", "/api/auth/reset-password", wrong).Is(400, "invalid_reset_code"),
			"ended session": b.Page("/login/"), "suspended": w.Browser().Login("ada", password).Is(403, "account_suspended"),
			"suspended page": w.Browser().Page("/login/", "handle", "ada", "password", password).Is(403),
		} {
			if got := strings.Contains(a.Body, "Contact: "); got != (contact != "") || !strings.Contains(a.Body, contact) {
				t.Errorf("%s with contact %q: %s", name, contact, a.Body)
			}
		}
	}
	b.Page("/reset-password/").Shows(`<a href="mailto:board@club.example">board@club.example</a>`)
	w.SaveSettings(func(v *account.Settings) { v.Contact = "the board, <any> Tuesday" })
	b.Page("/reset-password/").Shows("Contact: <bdi>the board, &lt;any&gt; Tuesday</bdi>")
}

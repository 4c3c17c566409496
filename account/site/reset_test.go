package site_test

import (
	"fmt"
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

func TestAResetCodeWorksOnceForOnePersonAndNotForLong(t *testing.T) {
	w := accounttest.With(t, "ada", "bob")
	first := w.ResetCode("ada")
	code := w.ResetCode("ada")
	bobs := w.ResetCode("bob")
	unknown := w.Browser().Call("POST", "/api/auth/reset-password", reset("nobody", code, newPassword)).Is(400, "invalid_reset_code").Body
	for _, in := range []map[string]string{
		reset("ada", first, newPassword), reset("bob", code, newPassword), reset("ada", bobs, newPassword), reset("ada", "", newPassword), reset("", code, newPassword),
		reset("ada", code[:25], newPassword), reset("ada", code+"0", newPassword), reset("ada", "%", newPassword), reset("", "", newPassword),
		reset("ada", strings.Repeat("0", 26), newPassword), reset("ada' --", code, newPassword), reset("ada", strings.Repeat("0", 26), "short"), reset("nobody", code, "short"),
	} {
		same(t, in,
			w.Browser().Call("POST", "/api/auth/reset-password", in).Is(400, "invalid_reset_code").Body, unknown)
	}
	for _, weak := range []string{"password1", "ada ada ada ada"} {
		w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, weak)).Is(400, "weak_password")
	}
	before, b := w.SignedIn("ada"), w.Browser()
	a := b.Call("POST", "/api/auth/reset-password", reset(" ADA ", strings.ToLower(code[:13])+"-"+code[13:], newPassword)).Is(200)
	if len(a.SetCookies) != 1 || a.SetCookies[0].Name != "cairn_device" || b.IsSignedIn() || before.IsSignedIn() {
		t.Errorf("cookies %v, signed in: %t, before: %t", a.SetCookies, b.IsSignedIn(), before.IsSignedIn())
	}
	w.Browser().Login("ada", password).Is(401)
	w.Browser().Login("ada", newPassword).Is(200)
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, password)).Is(400, "invalid_reset_code")
	w.Clock.Advance(account.ResetCodeLifetime)
	w.Browser().Call("POST", "/api/auth/reset-password", reset("bob", bobs, newPassword)).Is(400, "invalid_reset_code")
	w.Browser().Login("bob", password).Is(200)
	w.Suspend("bob")
	given := w.ResetCode("bob")
	w.Browser().Call("POST", "/api/auth/reset-password", reset("bob", given, newPassword))
	w.Browser().Login("bob", newPassword).Is(403, "account_suspended")
}

// Whoever has a code is the owner: it ends the lock that others caused, and their browser and address are known.
func TestResetLiftsTheLockOfTheAccount(t *testing.T) {
	rate := web.Rate{Count: 3, Window: 15 * time.Minute}
	w := accounttest.New(t,
		withLimits(map[string]web.Rate{web.LimitLogin: rate, web.LimitLoginAddress: rate, web.LimitLoginAccount: rate}))
	w.AddUser("ada")
	guess := func(b *accounttest.Browser) {
		for range 3 {
			b.Login("ada", "wrong")
		}
		b.Login("ada", newPassword).Is(429)
	}
	owner := w.BrowserAt(address(1))
	guess(owner)
	if until := w.User("ada").LockedUntil; !until.After(w.Clock.Now()) || until.After(w.Clock.Now().Add(30*time.Minute)) {
		t.Errorf("locked until %v", until)
	}
	owner.Call("POST", "/api/auth/reset-password", reset("ada", w.ResetCode("ada"), newPassword)).Is(200)
	if until := w.User("ada").LockedUntil; !until.IsZero() || owner.IsSignedIn() {
		t.Errorf("locked until %v, with %v", until, owner.Cookies)
	}
	for _, place := range []string{address(1), address(60)} { // without the mark
		w.BrowserAt(place).Login("ada", newPassword).Is(200)
	}
	for i := range 3 {
		guess(w.BrowserAt(address(i + 2)))
	}
	guess(w.BrowserAt(address(1)))
	elsewhere := owner.Clone()
	elsewhere.Address = address(99)
	elsewhere.Login("ada", newPassword).Is(200)

	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", w.ResetCode("ada"), password)).Is(200)
	guess(w.BrowserAt(address(50)))
	w.Browser().Login("ada", password).Is(200) // at the address that used the code
}

// Strangers who guess do not take the owner's way back, nor do guesses at the owner's address.
func TestWrongResetCodesDoNotRefuseTheRightOne(t *testing.T) {
	rate := web.Rate{Count: 5, Window: 15 * time.Minute}
	w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitReset: rate, web.LimitResetAccount: rate}))
	for handle, from := range map[string]func(i int) string{"ada": func(int) string { return address(0) }, "bob": func(i int) string { return address(i + 1) }} {
		w.AddUser(handle)
		code, got := w.ResetCode(handle), map[int]int{}
		for i := range 20 {
			got[w.BrowserAt(from(i)).Call("POST", "/api/auth/reset-password", reset(handle, fmt.Sprintf("%026d", i), newPassword)).Status]++
		}
		if got[400] != 5 || got[429] != 15 {
			t.Errorf("%s: %v, want 15 of 429", handle, got)
		}
		w.BrowserAt(address(0)).Call("POST", "/api/auth/reset-password", reset(handle, code, newPassword)).Is(200)
	}
	for i, status := range []int{400, 400, 400, 400, 400, 429} { // at many accounts from one address
		in := reset(fmt.Sprint("user", i), fmt.Sprintf("%026d", i), newPassword)
		w.BrowserAt(address(99)).Call("POST", "/api/auth/reset-password", in).Is(status)
	}
}

func TestResetPage(t *testing.T) {
	w := accounttest.With(t, "ada")
	code := w.ResetCode("ada")
	w.Browser().Page("/reset-password/?handle=Ada&code="+strings.ToLower(code)).Is(200).Shows(`data-page="reset-password"`, `value="ada"`, `value="`+code+`"`)
	w.Browser().Page("/reset-password/?handle=%3Cb%3E&code=%3Cb%3E").Is(200).Hides("<b>", "&lt;b&gt;")
	w.Browser().Page("/reset-password/?handle=ada").Is(200).Shows(`value="ada"`)
	w.Browser().Page("/reset-password/", "handle", "ada", "code", code, "password", "short").Is(400).Shows(`data-code="weak_password"`, code)
	w.Browser().Page("/reset-password/", "handle", "ada", "code", "0000", "password", "hunter2hunter2").Is(400).
		Shows(`data-code="invalid_reset_code"`).Hides("hunter2hunter2")
	w.Browser().Page("/reset-password/", "handle", "ada", "code", code, "password", newPassword).Is(200).Shows("Password changed", "/login/")
	w.Browser().Login("ada", newPassword).Is(200)
}

func TestPasswordManagersFindTheForm(t *testing.T) {
	w := accounttest.New(t, func(o *accounttest.Options) { o.Issuer = "http://localhost:4040/id" })
	w.AddUser("ada")
	w.Browser().Page("/.well-known/change-password").RedirectsTo("/id/account/security#password")
	w.Browser().Page("/account/").RedirectsTo("/id/login/")
	w.SignedIn("ada").Page("/account/security").Is(200).Shows(`id="password"`)
}

// A suspended or locked-out user is told whom to ask, where the administrators have said it.
func TestContactIsShownToWhoNeedsIt(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
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

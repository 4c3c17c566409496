package httpd

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"
)

// What a member does with an authenticator app, in a real browser: sets it up, signs in
// to an application with it, loses the phone and goes on with a recovery code, and at last
// with the password alone.
func TestAuthenticatorAppInABrowser(t *testing.T) {
	thirdParty(t)
	var ahead atomic.Int64 // seconds
	// Behind the application's clock: a token from the future is not valid.
	now := func() time.Time {
		return time.Now().Add(-20 * time.Minute).Truncate(time.Minute).Add(time.Duration(ahead.Load()) * time.Second)
	}
	s := startService(t, serviceOptions{Now: now})
	app := startDemoApp(t, s)
	ada := s.addUser("ada")
	tab := chromium(t)
	text := func(at chromedp.CSS) string {
		t.Helper()
		got, err := chromedp.Run(tab, chromedp.Text(at))
		noError(t, err)
		return got
	}
	mustDo(t, tab, "sign in page", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "ada", password, "account")
	mustDo(t, tab, "set up", chromedp.Navigate(s.URL+"/account/security"), chromedp.Click(id("totp-set-up")), chromedp.WaitVisible(page("account-totp")))
	fits(t, tab)
	shot(t, tab, "totp")
	secret := strings.ReplaceAll(text(id("totp-secret")), " ", "")
	code := func() string {
		t.Helper()
		ahead.Add(31)
		got, err := totp.GenerateCode(secret, now())
		noError(t, err)
		return got
	}
	mustDo(t, tab, "confirm", chromedp.SendKeys(field("code"), code()), chromedp.Click(id("totp-submit")), chromedp.WaitVisible(page("account-recovery-codes")))
	fits(t, tab)
	shot(t, tab, "recovery-codes")
	recovery := text(chromedp.CSS("#recovery-codes li:nth-child(2) code"))
	another := text(chromedp.CSS("#recovery-codes li:nth-child(3) code"))
	mustDo(t, tab, "done", chromedp.Click(id("recovery-done")), chromedp.WaitVisible(id("totp-remove")))
	shot(t, tab, "security-totp")
	signOutIn(t, tab, s)

	mustDo(t, tab, "to the application and back to sign in", chromedp.Navigate(app), chromedp.Click(id("demo-login")), chromedp.WaitVisible(page("login")))
	signInAs(t, tab, "ada", password, "second-factor")
	fits(t, tab)
	shot(t, tab, "second-factor")
	mustDo(t, tab, "wrong code", chromedp.SendKeys(id("otp"), "12345"), chromedp.Click(id("otp-submit")), chromedp.WaitVisible(chromedp.CSS("#otp[aria-invalid=true]")))
	shot(t, tab, "second-factor-wrong")
	mustDo(t, tab, "code and Enter", chromedp.SendKeys(id("otp"), code()+"\r"), chromedp.WaitVisible(page("consent")))
	mustDo(t, tab, "consent", chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("demo-name")))
	signOutIn(t, tab, s)

	mustDo(t, tab, "sign in page", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "ada", password, "second-factor")
	mustDo(t, tab, "recovery code", chromedp.Click(chromedp.CSS("summary")), chromedp.SendKeys(id("recovery_code"),
		recovery), chromedp.Click(id("recovery-submit")), chromedp.WaitVisible(page("account-security")))
	shot(t, tab, "recovery-used")
	ahead.Add(11 * 60)
	mustDo(t, tab, "remove the lost app", chromedp.Navigate(s.URL+"/account/security"), chromedp.Click(id("totp-remove")), chromedp.WaitVisible(page("confirm")))
	fits(t, tab)
	shot(t, tab, "confirm")
	mustDo(t, tab, "confirm", chromedp.SendKeys(field("confirm_password"), password), chromedp.SendKeys(field("confirm_otp"), another),
		chromedp.Click(id("confirm-submit")), chromedp.WaitVisible(id("totp-set-up")))
	u, err := s.store.UserBySub(t.Context(), ada.Sub)
	noError(t, err)
	f, err := s.store.Factors(t.Context(), ada.Sub)
	noError(t, err)
	if u.SecondFactor || f.TOTP != nil || f.Passkeys+f.RecoveryCodes > 0 {
		t.Errorf("left: %+v", f)
	}
	signOutIn(t, tab, s)
	mustDo(t, tab, "sign in page", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "ada", password, "account")
}

// fits fails a page that is wider than 320 pixels where the window is so narrow.
func fits(t *testing.T, tab context.Context) {
	t.Helper()
	mustDo(t, tab, "narrow window", chromedp.EmulateViewport(320, 640))
	wide, err := chromedp.Run(tab, chromedp.Evaluate[int]("document.documentElement.scrollWidth"))
	if err != nil || wide > 320 {
		t.Errorf("%d pixels wide: %v", wide, err)
	}
}

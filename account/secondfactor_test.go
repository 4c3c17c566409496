package account_test

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

const stepCookie = "cairn_second_factor"

// app is the authenticator app of a user.
type app struct {
	w      *world
	secret string
	codes  []string // recovery codes
}

// code is what the app shows at the moment.
func (a app) code() string {
	a.w.t.Helper()
	code, err := totp.GenerateCode(a.secret, a.w.clock.Now())
	if err != nil {
		a.w.t.Fatal(err)
	}
	return code
}

// fresh is a code that was not used before.
func (a app) fresh() string {
	a.w.clock.Advance(31 * time.Second)
	return a.code()
}

// wrong is a code that is not right at any step near now.
func (a app) wrong() string {
	a.w.t.Helper()
	for _, code := range []string{"000000", "111111", "222222", "333333", "444444", "555555", "666666"} {
		if ok := totp.Validate(code, a.secret); !ok {
			var near []string
			for d := -2 * time.Minute; d <= 2*time.Minute; d += 30 * time.Second {
				c, _ := totp.GenerateCode(a.secret, a.w.clock.Now().Add(d))
				near = append(near, c)
			}
			if !slices.Contains(near, code) {
				return code
			}
		}
	}
	return "777777"
}

// enrol sets up an app in a signed-in browser.
func (b *browser) enrol() app {
	b.w.t.Helper()
	drawn := b.call("POST", "/api/me/totp", nil).is(200).json()
	a := app{w: b.w, secret: drawn["secret"].(string)}
	done := b.call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": a.code()}).is(200).json()
	codes, _ := done["recovery_codes"].([]any)
	for _, c := range codes {
		a.codes = append(a.codes, c.(string))
	}
	return a
}

// addProtected makes a member with an authenticator app.
func (w *world) addProtected(handle string, flags ...string) app {
	w.t.Helper()
	w.addUser(handle, flags...)
	return w.signedIn(handle).enrol()
}

func (b *browser) otp(code string) *answer {
	b.w.t.Helper()
	return b.call("POST", "/api/auth/login", map[string]string{"otp": code})
}

func (b *browser) loginOTP(handle, password, otp string) *answer {
	b.w.t.Helper()
	return b.call("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password, "otp": otp})
}

// amr are the methods of the browser's session.
func (b *browser) amr(handle string) []string {
	b.w.t.Helper()
	id := b.call("GET", "/api/me", nil).is(200).json()["session"].(map[string]any)["id"].(string)
	n, _, err := b.w.store.Session(b.w.t.Context(), id)
	if err != nil || n.Sub != b.w.user(handle).Sub {
		b.w.t.Fatalf("session of %s: %v", n.Sub, err)
	}
	return n.AMR
}

func TestPasswordAloneOpensNoSessionOfWhoHasASecondFactor(t *testing.T) {
	w := newWorld(t)
	a := w.addProtected("ada")
	b := w.browser()
	got := b.login("ada", password).is(401, "second_factor_required")
	if methods := got.json()["methods"]; len(methods.([]any)) != 2 {
		t.Errorf("methods %v", methods)
	}
	if b.isSignedIn() || len(got.set) != 1 || got.set[0].Name != stepCookie || !got.set[0].HttpOnly || got.set[0].MaxAge != 300 {
		t.Fatalf("cookies %v", got.set)
	}
	b.page("/login/", "handle", "ada", "password", password).redirectsTo("/login/second-factor/")
	// A new password by a reset code does not remove the factor.
	w.browser().call("POST", "/api/auth/reset-password", reset("ada", w.resetCode("ada"), newPassword)).is(200)
	b.login("ada", newPassword).is(401, "second_factor_required")
	// Who is signed in as another, or as the same, does not get past it either.
	w.addUser("bob")
	bob := w.signedIn("bob")
	bob.login("ada", newPassword).is(401, "second_factor_required")
	if got := bob.call("GET", "/api/me", nil).json()["handle"]; got != "bob" {
		t.Errorf("signed in as %v", got)
	}
	ada := w.browser()
	ada.loginOTP("ada", newPassword, a.fresh()).is(200)
	w.clock.Advance(time.Hour)
	before := ada.call("GET", "/api/me/sessions", nil).body
	ada.page("/login/?fresh=confirm").is(200)
	ada.page("/login/", "handle", "ada", "password", newPassword, "fresh", "confirm").redirectsTo("/login/second-factor/?fresh=confirm")
	if after := ada.call("GET", "/api/me/sessions", nil).body; after != before {
		t.Errorf("the password alone renewed the session: %s", after)
	}
	ada.page("/login/second-factor/", "otp", a.fresh(), "fresh", "confirm").redirectsTo("/account/")
	if n := len(ada.call("GET", "/api/me/sessions", nil).json()["sessions"].([]any)); n != 1 {
		t.Errorf("%d sessions after a sign-in in the same browser", n)
	}
	// Registering in a browser in which the password was right is somebody else's sign-in.
	b.login("ada", newPassword).is(401)
	b.call("POST", "/api/register", registration(w.invite().Code, "zoe")).is(201)
	if got := b.call("GET", "/api/me", nil).json()["handle"]; got != "zoe" {
		t.Errorf("signed in as %v", got)
	}
}

func TestSecondStepOpensTheSession(t *testing.T) {
	w := newWorld(t)
	a := w.addProtected("ada")
	want := []string{account.MethodPassword, account.MethodOTP, account.MethodMultiFactor}
	for name, sign := range map[string]func(b *browser){
		"code alone":  func(b *browser) { b.login("ada", password); b.otp(a.fresh()).is(200) },
		"all at once": func(b *browser) { b.loginOTP("ada", password, " "+a.fresh()[:3]+" "+a.code()[3:]).is(200) },
		"recovery":    func(b *browser) { b.login("ada", password); b.otp(strings.ToLower(a.codes[0])).is(200) },
		"on the pages": func(b *browser) {
			b.page("/login/", "handle", "ada", "password", password)
			b.page("/login/second-factor/", "otp", a.fresh()).redirectsTo("/account/")
		},
	} {
		b := w.browser()
		sign(b)
		if got := b.amr("ada"); !slices.Equal(got, want) {
			t.Errorf("%s: methods %q", name, got)
		}
		if b.cookies[stepCookie] != "" {
			t.Errorf("%s: the first step is kept", name)
		}
	}
}

func TestPagesOfTheSecondStep(t *testing.T) {
	w := newWorld(t, func(o *account.Options) { o.Issuer = "https://id.example/id"; o.CookieName = "__Host-cairn_session" })
	a := w.addProtected("ada")
	const sealed = "eyJ0IjoxfQ.c2VhbA_-"
	b := w.browser()
	on := "/id/login/second-factor/?continue=" + sealed + "&fresh=choose"
	got := b.page("/login/", "handle", "ada", "password", password, "continue", sealed, "fresh", "choose").redirectsTo(on)
	if c := got.set[0]; c.Name != "__Host-"+stepCookie || !c.Secure || c.Domain != "" || c.Path != "/" || strings.Contains(c.Value, password) {
		t.Errorf("cookie %v", c)
	}
	w.saveSettings(func(v *account.Settings) { v.Contact = "board@club.example" })
	b.page(strings.TrimPrefix(on, "/id")).is(200).shows(`data-page="second-factor"`, "board@club.example", `inputmode="numeric"`, `autocomplete="one-time-code"`, `value="`+sealed+`"`, `name="fresh" value="choose"`)
	b.page("/login/second-factor/", "otp", a.wrong(), "continue", sealed).is(401).shows(`role="alert"`, "not right", `value="`+sealed+`"`).hides(a.wrong())
	b.page("/login/second-factor/", "otp", "AAAA", "recovery", "1").is(401).shows(`<details class="other" open>`)
	b.page("/login/second-factor/", "otp", "").is(401)
	w.clock.Advance(5*time.Minute + time.Second)
	expired := "/id/login/?continue=" + sealed + "&expired=1"
	b.page("/login/second-factor/?continue=" + sealed).redirectsTo(expired)
	b.page("/login/second-factor/", "otp", a.code(), "continue", sealed).redirectsTo(expired)
	b.page("/login/?expired=1").is(200).shows("too long ago")
	b.page("/login/", "handle", "ada", "password", password)
	b.page("/login/second-factor/", "otp", a.fresh(), "continue", sealed).redirectsTo("/id/oauth2/authorize?continue=" + sealed)
}

// What the browser keeps between the steps is of no use to others, later, or again.
func TestFirstStepIsBoundToItsBrowserAndTime(t *testing.T) {
	w := newWorld(t)
	a := w.addProtected("ada")
	pending := func() *browser { b := w.browser(); b.login("ada", password).is(401); return b }
	w.browser().otp(a.fresh()).is(401, "sign_in_expired")

	altered := pending()
	altered.cookies[stepCookie] = altered.cookies[stepCookie][:20] + "A" + altered.cookies[stepCookie][21:]
	altered.otp(a.fresh()).is(401, "sign_in_expired")

	// Sealed for another purpose.
	w.addUser("bob")
	other := w.browser()
	other.cookies[stepCookie] = w.signedIn("bob").call("POST", "/api/me/totp", nil).is(200).json()["token"].(string)
	other.otp(a.fresh()).is(401, "sign_in_expired")

	old := pending()
	w.clock.Advance(5*time.Minute + time.Second)
	old.otp(a.code()).is(401, "sign_in_expired")

	stale := pending()
	owner := w.browser()
	owner.loginOTP("ada", password, a.fresh()).is(200)
	owner.call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).is(200)
	stale.otp(a.fresh()).is(401, "sign_in_expired")

	used := w.browser()
	used.login("ada", newPassword).is(401, "second_factor_required")
	copied := used.clone()
	used.otp(a.fresh()).is(200)
	copied.otp(a.fresh()).is(401, "sign_in_expired")

	first := w.browser()
	first.login("ada", newPassword).is(401)
	if got := parallel(6, func(i int) int { return first.clone().otp(a.codes[i]).status }); got[200] != 1 || got[401] != 5 {
		t.Errorf("one first step opened sessions: %v", got)
	}

	gone := w.browser()
	gone.login("ada", newPassword).is(401)
	if err := w.service.Administration().ResetFactors(t.Context(), account.Operator(), w.user("ada")); err != nil {
		t.Fatal(err)
	}
	gone.otp(a.codes[9]).is(401, "sign_in_expired")
}

func TestCodeOfAnAppWorksOnce(t *testing.T) {
	w := newWorld(t)
	a := w.addProtected("ada")
	w.browser().loginOTP("ada", password, a.code()).is(401, "invalid_otp") // it confirmed the app
	code := a.fresh()
	w.browser().loginOTP("ada", password, code).is(200)
	w.browser().loginOTP("ada", password, code).is(401, "invalid_otp")
	w.clock.Advance(time.Second)
	b := w.browser()
	b.login("ada", password)
	b.otp(code).is(401, "invalid_otp")
	code = a.fresh()
	if got := parallel(8, func(int) int { return w.browser().loginOTP("ada", password, code).status }); got[200] != 1 || got[401] != 7 {
		t.Errorf("one code: %v", got)
	}
	// A clock that is a step off is forgiven, two are not.
	before := a.fresh()
	w.clock.Advance(30 * time.Second)
	w.browser().loginOTP("ada", password, before).is(200)
	late := a.fresh()
	w.clock.Advance(time.Minute)
	w.browser().loginOTP("ada", password, late).is(401, "invalid_otp")
	// A code that was used for a sign-in confirms nothing.
	signed := w.browser()
	signed.loginOTP("ada", password, a.fresh()).is(200)
	signed.call("POST", "/api/auth/confirm", map[string]string{"password": password, "otp": a.code()}).is(401, "invalid_otp")
}

func TestRecoveryCodeWorksOnce(t *testing.T) {
	w := newWorld(t)
	a := w.addProtected("ada")
	if len(a.codes) != 10 {
		t.Fatalf("%d codes", len(a.codes))
	}
	if got := parallel(8, func(int) int { return w.browser().loginOTP("ada", password, a.codes[0]).status }); got[200] != 1 || got[401] != 7 {
		t.Errorf("one code: %v", got)
	}
	b := w.browser()
	b.loginOTP("ada", password, a.codes[1]).is(200)
	if left := b.call("GET", "/api/me/factors", nil).json()["recovery_codes"]; left != 8.0 {
		t.Errorf("%v codes left", left)
	}
	b.page("/account/security").is(200).shows("8 recovery codes are left")
	page := b.page("/account/security/recovery-codes", "x", "y").is(200).shows(`data-page="account-recovery-codes"`)
	if n := strings.Count(page.body, "<li><code>"); n != 10 {
		t.Errorf("%d codes on the page", n)
	}
	b.page("/account/security/recovery-codes").is(405)
	for _, code := range a.codes[2:] {
		page.hides(code)
		w.browser().loginOTP("ada", password, code).is(401, "invalid_otp")
	}
	// They are nobody else's, and go with the last factor.
	w.addProtected("bob")
	w.browser().loginOTP("bob", password, a.codes[2]).is(401)
	b.call("DELETE", "/api/me/totp", nil).is(204)
	if f := b.call("GET", "/api/me/factors", nil).json(); f["totp"] != nil || f["recovery_codes"] != 0.0 || w.user("ada").SecondFactor {
		t.Errorf("left: %v", f)
	}
	b.call("POST", "/api/me/recovery-codes", nil).is(404, "factor_not_found")
	w.browser().login("ada", password).is(200)
}

func TestCodesCannotBeGuessed(t *testing.T) {
	limits := map[string]web.Rate{
		web.LimitLogin: {Count: 10, Window: 15 * time.Minute}, web.LimitLoginAccount: {Count: 10, Window: 15 * time.Minute},
		web.LimitSecondFactor: {Count: 20, Window: 24 * time.Hour},
	}
	limited := func(o *account.Options) { o.Limits = web.NewLimits(limits, nil, o.Now, o.Log) }

	t.Run("from one address", func(t *testing.T) {
		w := newWorld(t, limited)
		a := w.addProtected("ada")
		b := w.browserAt("198.51.100.9")
		b.login("ada", password)
		got := parallel(30, func(int) int { return b.clone().otp(a.wrong()).status })
		if got[401] != 10 || got[429] != 20 {
			t.Errorf("statuses %v", got)
		}
		b.otp(a.fresh()).is(429, "rate_limited")
		b.loginOTP("ada", password, a.code()).is(429)
		b.page("/login/second-factor/", "otp", a.code()).is(429).shows("Too many attempts")
	})

	t.Run("from many addresses", func(t *testing.T) {
		w := newWorld(t, limited)
		a := w.addProtected("ada")
		for i := range 10 {
			w.browserAt(address(i)).loginOTP("ada", password, a.wrong()).is(401)
		}
		w.browserAt(address(50)).loginOTP("ada", password, a.fresh()).is(429)
		// Where the owner has signed in before they still can.
		w.browser().loginOTP("ada", password, a.code()).is(200)
	})

	t.Run("from known addresses", func(t *testing.T) {
		w := newWorld(t, limited)
		now := w.clock.Now() // the fixed windows of a day begin at midnight
		w.clock.Advance(now.Truncate(24 * time.Hour).Add(25 * time.Hour).Sub(now))
		a := w.addProtected("ada")
		for i := range 5 {
			w.browserAt(address(i)).loginOTP("ada", password, a.fresh()).is(200)
		}
		wrong := 0
		for range 4 {
			w.clock.Advance(16 * time.Minute)
			for i := range 5 {
				for range 3 {
					if w.browserAt(address(i)).loginOTP("ada", password, a.wrong()).status == 401 {
						wrong++
					}
				}
			}
		}
		if wrong != 20 {
			t.Errorf("%d guesses in an hour, want 20", wrong)
		}
		w.clock.Advance(16 * time.Minute)
		w.browserAt(address(0)).loginOTP("ada", password, a.fresh()).is(429)
		w.browserAt(address(0)).loginOTP("ada", password, a.codes[0]).is(200) // these cannot be guessed
	})
}

func TestSecondFactorTellsNothingBeforeThePassword(t *testing.T) {
	w := newWorld(t)
	a := w.addProtected("ada")
	want := w.browser().login("nobody", "wrong password here").is(401, "invalid_credentials").body
	for _, in := range [][3]string{{"ada", "wrong password here", ""}, {"ada", "wrong password here", a.fresh()}, {"ada", "wrong", a.codes[0]}, {"nobody", password, a.codes[0]}} {
		got := w.browser().loginOTP(in[0], in[1], in[2]).is(401, "invalid_credentials")
		if got.body != want || len(got.set) != 0 {
			t.Errorf("%q: %s with %v", in, got.body, got.set)
		}
	}
	w.browser().loginOTP("ada", password, a.codes[0]).is(200) // it was not spent
}

// A thief of the session alone can neither change how the account is signed in to, nor
// take it from its owner.
func TestStolenSessionNeedsAFreshProof(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	drawn := b.call("POST", "/api/me/totp", nil).is(200).json()
	w.clock.Advance(10*time.Minute + time.Second)
	stolen := b.clone()
	for _, c := range []struct{ method, path string }{{"POST", "/api/me/totp"}, {"DELETE", "/api/me/totp"}, {"POST", "/api/me/recovery-codes"}} {
		stolen.call(c.method, c.path, nil).is(403, "reauthentication_required")
	}
	stolen.call("PATCH", "/api/me", map[string]string{"email": "thief@example.org"}).is(403, "reauthentication_required")
	stolen.call("PATCH", "/api/me", map[string]string{"display_name": "Ada L."}).is(200)
	secret := app{w: w, secret: drawn["secret"].(string)}
	stolen.call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": secret.code()}).is(400, "enrolment_expired")
	stolen.page("/account/security/totp").redirectsTo("/account/confirm?next=%2Faccount%2Fsecurity%2Ftotp")
	stolen.page("/account/security/totp", "token", "x.y", "code", "000000").redirectsTo("/account/security/totp")
	stolen.page("/account/security/totp/remove", "sure", "yes").is(403).shows(`data-page="confirm"`)
	stolen.page("/account/security/recovery-codes", "x", "y").is(403).shows(`data-page="confirm"`)
	stolen.page("/account/profile", "display_name", "Ada", "email", "thief@example.org").is(403).shows(`data-page="confirm"`)
	if u := w.user("ada"); u.SecondFactor || u.Email != "" {
		t.Fatalf("changed: %+v", u)
	}
	// The token of another session of the same user is of no use in this one.
	owner := w.signedIn("ada")
	drawn = owner.call("POST", "/api/me/totp", nil).is(200).json()
	secret.secret = drawn["secret"].(string)
	stolen.call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": secret.code()}).is(400, "enrolment_expired")
	owner.call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": secret.wrong()}).is(401, "invalid_otp")
	owner.call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": secret.code()}).is(200)
	owner.call("POST", "/api/me/totp", nil).is(409, "factor_exists")
	// Nor does the password in the form delete the account of who has a second factor.
	w.clock.Advance(11 * time.Minute)
	owner.call("DELETE", "/api/me", map[string]string{"password": password}).is(403, "reauthentication_required")
	owner.page("/account/delete", "password", password).is(403).shows(`name="confirm_otp"`)
	owner.call("DELETE", "/api/me", map[string]string{"password": password, "otp": secret.wrong()}).is(401, "invalid_otp")
	owner.call("DELETE", "/api/me", map[string]string{"password": password, "otp": secret.fresh()}).is(204)
}

// A session from before the factor reaches nothing where one is demanded, but the confirmation that proves it.
func TestSessionFromBeforeTheFactorIsConfirmedWithBoth(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada", account.FlagActivity)
	old, other := w.signedIn("ada"), w.signedIn("ada")
	drawn := other.call("POST", "/api/me/totp", nil).is(200).json()
	a := app{w: w, secret: drawn["secret"].(string)}
	keep := map[string]any{"token": drawn["token"], "code": a.code(), "keep_other_sessions": true}
	other.call("POST", "/api/me/totp/confirm", keep).is(200)
	w.saveSettings(func(s *account.Settings) { s.SecondFactorFlags = []string{account.FlagActivity} })
	old.call("GET", "/api/me/sessions", nil).is(401, "second_factor_required")
	old.call("POST", "/api/auth/confirm", map[string]string{"password": password}).is(401, "second_factor_required")
	old.call("POST", "/api/me/recovery-codes", nil).is(401, "second_factor_required")
	old.call("POST", "/api/auth/confirm", map[string]string{"password": password, "otp": a.fresh()}).is(200)
	old.call("GET", "/api/me/sessions", nil).is(200)
	old.call("POST", "/api/me/recovery-codes", nil).is(200)
}

func TestConfirmationIsAProofUnderLimits(t *testing.T) {
	w := newWorld(t, withLimits(map[string]web.Rate{web.LimitLogin: {Count: 3, Window: time.Minute}}))
	a := w.addProtected("ada")
	b := w.browserAt("198.51.100.9")
	b.loginOTP("ada", password, a.fresh()).is(200)
	b.call("POST", "/api/me/recovery-codes", nil).is(200)
	stale := func() { w.clock.Advance(11 * time.Minute); b.call("POST", "/api/me/recovery-codes", nil).is(403) }
	proof := func() map[string]string { return map[string]string{"password": password, "otp": a.fresh()} }

	stale()
	b.call("POST", "/api/auth/confirm", map[string]string{"password": password}).is(401, "second_factor_required")
	b.call("DELETE", "/api/me/totp", nil).is(403, "reauthentication_required")
	b.call("POST", "/api/auth/confirm", proof()).is(200)
	b.call("DELETE", "/api/me/totp", nil).is(204)
	a = b.enrol()
	stale()
	b.call("POST", "/api/auth/confirm", proof()).is(200)
	b.call("POST", "/api/me/recovery-codes", nil).is(200)
	stale()
	b.page("/account/confirm?next=/account/security/totp").is(200).shows(`data-page="confirm"`, `value="/account/security/totp"`, `name="confirm_otp"`, `name="confirm_password"`)
	b.page("/account/confirm", "confirm_password", password, "confirm_otp", a.fresh(), "next", "/admin/users/bob?x=1").redirectsTo("/admin/users/bob?x=1")
	for _, evil := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/\tevil", "javascript:alert(1)", "", "account", "/" + strings.Repeat("a", 600)} {
		b.page("/account/confirm", "confirm_password", password, "confirm_otp", a.fresh(), "next", evil).redirectsTo("/account/")
	}
	if !slices.Contains(b.amr("ada"), account.MethodMultiFactor) {
		t.Errorf("methods %v", b.amr("ada"))
	}

	stale()
	b.page("/account/confirm", "confirm_password", "wrong", "next", "/account/security").is(401).shows(`role="alert"`, `value="/account/security"`)
	b.call("POST", "/api/auth/confirm", map[string]string{"password": password, "otp": a.wrong()}).is(401, "invalid_otp")
	b.call("POST", "/api/auth/confirm", map[string]string{}).is(401, "invalid_credentials").hides("handle")
	b.call("POST", "/api/auth/confirm", map[string]string{"password": password}).is(429)
	w.browser().call("POST", "/api/auth/confirm", map[string]string{"password": password}).is(401, "not_authenticated")
	b.call("POST", "/api/me/recovery-codes", nil).is(403)
}

func TestAuthenticatorAppIsSetUpOnThePages(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, withLog(&log))
	w.addUser("ada")
	b := w.signedIn("ada")
	b.page("/account/security").is(200).shows(`href="/account/security/totp"`).hides(`id="recovery"`)
	page := b.page("/account/security/totp").is(200).shows(`<svg class="qr"`, `data-page="account-totp"`)
	if len(page.body) > 40<<10 || strings.Contains(page.header.Get("Content-Security-Policy"), "data:") {
		t.Errorf("%d bytes, %s", len(page.body), page.header.Get("Content-Security-Policy"))
	}
	_, rest, _ := strings.Cut(page.body, `id="totp-secret">`)
	shown, _, _ := strings.Cut(rest, "<")
	_, rest, _ = strings.Cut(page.body, `name="token" value="`)
	token, _, _ := strings.Cut(rest, `"`)
	a := app{w: w, secret: strings.ReplaceAll(shown, " ", "")}
	b.page("/account/security/totp", "token", token, "code", a.wrong()).is(401).shows(shown, token, `aria-invalid="true"`)
	if w.user("ada").SecondFactor {
		t.Fatal("a wrong code set the app up")
	}
	b.page("/account/security/totp", "token", token, "code", a.code()).is(200).shows(`data-page="account-recovery-codes"`, "is set up")
	b.page("/account/security/totp", "token", token, "code", a.fresh()).redirectsTo("/account/security/totp")
	b.page("/account/security/totp").redirectsTo("/account/security")
	b.page("/account/security").is(200).shows("totp-remove", "10 recovery codes are left")
	export := b.call("GET", "/api/me/export", nil).is(200).shows(`"factors":{"totp":{"created_at":`)
	export.hides(a.secret)
	if strings.Contains(log.String(), a.secret) {
		t.Error("the secret is in the log")
	}
	b.page("/account/security/totp/remove", "x", "y").is(200).shows("Remove this way to sign in?")
	b.page("/account/security/totp/remove", "x", "y", "sure", "yes").redirectsTo("/account/security?notice=totp-removed#second-factor")
	b.page("/account/security?notice=totp-removed").shows("is removed")
}

func TestResetOfFactorsEndsSessionsAndIsTold(t *testing.T) {
	w := newWorld(t)
	a := w.addProtected("ada")
	b := w.browser()
	b.loginOTP("ada", password, a.fresh()).is(200)
	b.call("PATCH", "/api/me", map[string]string{"email": "ada@example.org"}).is(200)
	if err := w.service.Administration().ResetFactors(t.Context(), account.Operator(), w.user("ada")); err != nil {
		t.Fatal(err)
	}
	if b.isSignedIn() || w.user("ada").SecondFactor {
		t.Error("a session or a factor outlived the reset")
	}
	w.browser().loginOTP("ada", password, a.codes[0]).is(http.StatusOK) // the password is enough
	f, err := w.store.Factors(t.Context(), w.user("ada").Sub)
	if err != nil || f.TOTP != nil || f.RecoveryCodes != 0 {
		t.Errorf("left: %+v, %v", f, err)
	}
}

// lateStore has the sessions of a user ended, and the factors reset, between what a handler
// reads and what it writes.
type lateStore struct {
	account.Store
	meanwhile func()
}

func (s *lateStore) reset() {
	if s.meanwhile != nil {
		s.meanwhile()
	}
}

func (s *lateStore) AddTOTP(ctx context.Context, sub string, t account.TOTP, n account.NewFactor) (bool, error) {
	s.reset()
	return s.Store.AddTOTP(ctx, sub, t, n)
}

func (s *lateStore) AddPasskey(ctx context.Context, p account.Passkey, limit int, n account.NewFactor) (bool, error) {
	s.reset()
	return s.Store.AddPasskey(ctx, p, limit, n)
}

func (s *lateStore) ReplaceRecoveryCodes(ctx context.Context, sub, session string, codes [][]byte, now time.Time, a account.Audit) error {
	s.reset()
	return s.Store.ReplaceRecoveryCodes(ctx, sub, session, codes, now, a)
}

// A thief's request that is under way when the owner has everything ended adds nothing.
func TestNoFactorIsAddedInASessionThatHasEnded(t *testing.T) {
	late := &lateStore{}
	w := newWorld(t, func(o *account.Options) { late.Store, o.Store = o.Store, late })
	for handle, add := range map[string]func(thief *browser) *answer{
		"app": func(thief *browser) *answer {
			drawn := thief.call("POST", "/api/me/totp", nil).is(200).json()
			return thief.call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": app{w: w, secret: drawn["secret"].(string)}.code()})
		},
		"passkey": func(thief *browser) *answer {
			body := newKeyring().create(thief.call("POST", "/api/me/passkeys/begin", nil))
			body["name"] = "Key"
			return thief.call("POST", "/api/me/passkeys", body)
		},
		"codes": func(thief *browser) *answer { return thief.call("POST", "/api/me/recovery-codes", nil) },
	} {
		w.addUser(handle)
		thief := w.signedIn(handle)
		if handle == "codes" {
			thief.addPasskey("Key")
		}
		late.meanwhile = func() {
			late.meanwhile = nil
			if handle != "codes" {
				if err := w.service.Administration().ResetFactors(t.Context(), account.Operator(), w.user(handle)); err != nil {
					t.Error(err)
				}
				return
			}
			w.browser().call("POST", "/api/auth/reset-password", reset(handle, w.resetCode(handle), newPassword)).is(200)
		}
		before, err := w.store.Factors(t.Context(), w.user(handle).Sub)
		if err != nil {
			t.Fatal(err)
		}
		add(thief).is(401, "not_authenticated")
		if f, err := w.store.Factors(t.Context(), w.user(handle).Sub); err != nil || f != before {
			t.Errorf("%s: %+v, %v", handle, f, err)
		}
	}
}

func TestNewRecoveryCodesAreTold(t *testing.T) {
	w, post := newMailWorld(t)
	w.addMember("ada", "ada@example.org")
	b := w.signedIn("ada")
	a := b.enrol()
	post.new()
	code := b.call("POST", "/api/me/recovery-codes", nil).is(200).json()["recovery_codes"].([]any)[0].(string)
	if m := post.one("ada@example.org"); !strings.Contains(m.Text, "recovery codes were made") || strings.Contains(m.Text+m.HTML, code) {
		t.Errorf("%s: %s", m.Subject, m.Text)
	}
	w.browser().loginOTP("ada", password, a.codes[0]).is(401, "invalid_otp")
	w.browser().loginOTP("ada", password, code).is(200)
}

// countedLooks counts what a refusal looks up.
type countedLooks struct {
	account.Store
	n int
}

func (s *countedLooks) KnownAddress(ctx context.Context, sub, address string) (bool, error) {
	s.n++
	return s.Store.KnownAddress(ctx, sub, address)
}

func (s *countedLooks) Record(ctx context.Context, a account.Audit, once time.Duration) error {
	s.n++
	return s.Store.Record(ctx, a, once)
}

// Beyond the limit of an account no password is compared: the time of the refusal must not
// tell whether there is such an account.
func TestRefusalOfALimitedAccountCostsTheSameForNobody(t *testing.T) {
	looks := &countedLooks{}
	limits := map[string]web.Rate{web.LimitLoginAccount: {Count: 2, Window: time.Hour}, web.LimitResetAccount: {Count: 2, Window: time.Hour}}
	w := newWorld(t, func(o *account.Options) {
		looks.Store, o.Store = o.Store, looks
		o.Limits = web.NewLimits(limits, nil, o.Now, o.Log)
	})
	w.addUser("ada")
	b := w.browserAt("198.51.100.9")
	for what, try := range map[string]func(handle string) *answer{
		"sign-in": func(handle string) *answer { return b.login(handle, "wrong password here") },
		"reset": func(handle string) *answer {
			return b.call("POST", "/api/auth/reset-password", reset(handle, account.NewCode(account.ResetCodeLength), newPassword))
		},
	} {
		count := func(handle string) int {
			try(handle)
			try(handle)
			before := looks.n
			try(handle).is(429, "rate_limited")
			return looks.n - before
		}
		if known, unknown := count("ada"), count("zoe"); known != unknown || known == 0 {
			t.Errorf("%s: %d looks for an account, %d for nobody", what, known, unknown)
		}
	}
}

package site_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/templates"
)

const stepCookie = "cairn_second_factor"

// app is the authenticator app of a user.
type app struct {
	w      *accounttest.World
	secret string
	codes  []string // recovery codes
}

// code is what the app shows at the moment.
func (a app) code() string {
	a.w.T.Helper()
	code, err := totp.GenerateCode(a.secret, a.w.Clock.Now())
	if err != nil {
		a.w.T.Fatal(err)
	}
	return code
}

// fresh is a code that was not used before.
func (a app) fresh() string {
	a.w.Clock.Advance(31 * time.Second)
	return a.code()
}

// wrong is a code that is not right at any step near now.
func (a app) wrong() string {
	a.w.T.Helper()
	for _, code := range []string{"000000", "111111", "222222", "333333", "444444", "555555", "666666"} {
		if ok := totp.Validate(code, a.secret); !ok {
			var near []string
			for d := -2 * time.Minute; d <= 2*time.Minute; d += 30 * time.Second {
				c, _ := totp.GenerateCode(a.secret, a.w.Clock.Now().Add(d))
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
func enrol(b *accounttest.Browser) app {
	b.W.T.Helper()
	drawn := b.Call("POST", "/api/me/totp", nil).Is(200).JSON()
	a := app{w: b.W, secret: drawn["secret"].(string)}
	done := b.Call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": a.code()}).Is(200).JSON()
	codes, _ := done["recovery_codes"].([]any)
	for _, c := range codes {
		a.codes = append(a.codes, c.(string))
	}
	return a
}

// addProtected makes a member with an authenticator app.
func addProtected(w *accounttest.World, handle string, flags ...string) app {
	w.T.Helper()
	w.AddUser(handle, flags...)
	return enrol(w.SignedIn(handle))
}

func otp(b *accounttest.Browser, code string) *accounttest.Answer {
	b.W.T.Helper()
	return b.Call("POST", "/api/auth/login", map[string]string{"otp": code})
}

func loginOTP(b *accounttest.Browser, handle, password, otp string) *accounttest.Answer {
	b.W.T.Helper()
	return b.Call("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password, "otp": otp})
}

// amr are the methods of the browser's session.
func amr(b *accounttest.Browser, handle string) []string {
	b.W.T.Helper()
	id := b.Call("GET", "/api/me", nil).Is(200).JSON()["session"].(map[string]any)["id"].(string)
	n, _, err := b.W.Store.Session(b.W.T.Context(), id)
	if err != nil || n.Sub != b.W.User(handle).Sub {
		b.W.T.Fatalf("session of %s: %v", n.Sub, err)
	}
	return n.AMR
}

func TestPasswordAloneOpensNoSessionOfWhoHasASecondFactor(t *testing.T) {
	w := accounttest.New(t)
	a := addProtected(w, "ada")
	b := w.Browser()
	got := b.Login("ada", password).Is(401, "second_factor_required")
	methods := got.JSON()["methods"]
	same(t, fmt.Sprintf("methods %v", methods), len(methods.([]any)), 2)
	if b.IsSignedIn() || len(got.SetCookies) != 1 || got.SetCookies[0].Name != stepCookie ||
		!got.SetCookies[0].HttpOnly || got.SetCookies[0].MaxAge != 300 {
		t.Fatalf("cookies %v", got.SetCookies)
	}
	b.Page("/login/", "handle", "ada", "password", password).RedirectsTo("/login/second-factor/")
	// A new password by a reset code does not remove the factor.
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", w.ResetCode("ada"), newPassword)).Is(200)
	b.Login("ada", newPassword).Is(401, "second_factor_required")
	// Who is signed in as another, or as the same, does not get past it either.
	bob := w.Member("bob")
	bob.Login("ada", newPassword).Is(401, "second_factor_required")
	same(t, "signed in as", bob.Call("GET", "/api/me", nil).JSON()["handle"], "bob")
	ada := w.Browser()
	loginOTP(ada, "ada", newPassword, a.fresh()).Is(200)
	w.Clock.Advance(time.Hour)
	before := ada.Call("GET", "/api/me/sessions", nil).Body
	ada.Page("/login/?fresh=confirm").Is(200)
	ada.Page("/login/", "handle", "ada", "password", newPassword, "fresh", "confirm").RedirectsTo("/login/second-factor/?fresh=confirm")
	same(t, "the password alone renewed the session", ada.Call("GET", "/api/me/sessions", nil).Body, before)
	ada.Page("/login/second-factor/", "otp", a.fresh(), "fresh", "confirm").RedirectsTo("/account/")
	same(t, "sessions after a sign-in in the same browser",
		len(ada.Call("GET", "/api/me/sessions", nil).JSON()["sessions"].([]any)), 1)
	// Registering in a browser in which the password was right is somebody else's sign-in.
	b.Login("ada", newPassword).Is(401)
	b.Call("POST", "/api/register", registration(w.Invite().Code, "zoe")).Is(201)
	same(t, "signed in as", b.Call("GET", "/api/me", nil).JSON()["handle"], "zoe")
}

func TestSecondStepOpensTheSession(t *testing.T) {
	w := accounttest.New(t)
	a := addProtected(w, "ada")
	want := []string{account.MethodPassword, account.MethodOTP, account.MethodMultiFactor}
	for name, sign := range map[string]func(b *accounttest.Browser){
		"code alone":  func(b *accounttest.Browser) { b.Login("ada", password); otp(b, a.fresh()).Is(200) },
		"all at once": func(b *accounttest.Browser) { loginOTP(b, "ada", password, " "+a.fresh()[:3]+" "+a.code()[3:]).Is(200) },
		"recovery":    func(b *accounttest.Browser) { b.Login("ada", password); otp(b, strings.ToLower(a.codes[0])).Is(200) },
		"on the pages": func(b *accounttest.Browser) {
			b.Page("/login/", "handle", "ada", "password", password)
			b.Page("/login/second-factor/", "otp", a.fresh()).RedirectsTo("/account/")
		},
	} {
		b := w.Browser()
		sign(b)
		sameList(t, fmt.Sprintf("%s: methods", name), amr(b, "ada"), want)
		same(t, fmt.Sprintf("%s: the first step is kept", name), b.Cookies[stepCookie], "")
	}
}

func TestPagesOfTheSecondStep(t *testing.T) {
	w := accounttest.New(t, func(o *accounttest.Options) {
		o.Issuer = "https://id.example/id"
		o.CookieName = "__Host-cairn_session"
	})
	a := addProtected(w, "ada")
	const sealed = "eyJ0IjoxfQ.c2VhbA_-"
	b := w.Browser()
	on := "/id/login/second-factor/?continue=" + sealed + "&fresh=choose"
	got := b.Page("/login/", "handle", "ada", "password", password, "continue", sealed, "fresh", "choose").RedirectsTo(on)
	if c := got.SetCookies[0]; c.Name != "__Host-"+stepCookie || !c.Secure || c.Domain != "" || c.Path != "/" || strings.Contains(c.Value, password) {
		t.Errorf("cookie %v", c)
	}
	w.SaveSettings(func(v *account.Settings) { v.Contact = "board@club.example" })
	b.Page(strings.TrimPrefix(on, "/id")).Is(200).Shows(`data-page="second-factor"`, "board@club.example",
		`inputmode="numeric"`, `autocomplete="one-time-code"`, `value="`+sealed+`"`, `name="fresh" value="choose"`)
	b.Page("/login/second-factor/", "otp", a.wrong(), "continue", sealed).Is(401).Shows(`role="alert"`, "is incorrect", `value="`+sealed+`"`).Hides(a.wrong())
	b.Page("/login/second-factor/", "otp", "AAAA", "recovery", "1").Is(401).Shows(`<details class="other" open>`)
	b.Page("/login/second-factor/", "otp", "").Is(401)
	w.Clock.Advance(5*time.Minute + time.Second)
	expired := "/id/login/?continue=" + sealed + "&expired=1"
	b.Page("/login/second-factor/?continue=" + sealed).RedirectsTo(expired)
	b.Page("/login/second-factor/", "otp", a.code(), "continue", sealed).RedirectsTo(expired)
	b.Page("/login/?expired=1").Is(200).Shows("too long since you entered your password")
	b.Page("/login/", "handle", "ada", "password", password, "fresh", "select").RedirectsTo("/id/login/second-factor/?fresh=select")
	for _, in := range []map[string]string{{}, {"password": password, "otp": a.fresh()}} { // the code alone would be the second step
		b.Call("POST", "/api/auth/login", in).Is(401, "invalid_credentials")
	}
	b.Page("/login/second-factor/", "otp", a.fresh(), "continue", sealed).RedirectsTo("/id/oauth2/authorize?continue=" + sealed)
	// Behind a proxy there is no page that keeps the way; to others it is kept, and goes on when a factor was missing.
	back, err := w.Service.Sealer().Seal(person.PurposeReturn, map[string]string{"url": "https://id.example/app"})
	must(t, err)
	w.Service.NameApplications(func(_ context.Context, c string) (named templates.Application) {
		if c == sealed {
			named.Name = "Maps"
		}
		return named
	})
	for i, to := range []string{"https://id.example/app", "https://id.example/app", "/id/account/security?notice=recovery-used#recovery"} {
		b.Page("/logout/", "x", "y")
		b.Page("/login/", "handle", "ada", "password", password).Is(303)
		proof := [][]string{{"otp", a.fresh(), "continue", back}, {"otp", a.codes[0], "recovery", "1", "continue", back}, {"otp", a.codes[1], "recovery", "1", "continue", sealed}}[i]
		b.Page("/login/second-factor/", proof...).RedirectsTo(to)
	}
	w.Browser().Page("/login/?continue=" + back).Is(200).Shows("id.example")
	b.Page("/account/security?notice=recovery-used").Is(200).Shows("Maps", sealed)
	for _, way := range []string{b.Cookies["__Host-cairn_set_up"], "any." + back} {
		b.Cookies["__Host-cairn_set_up"] = way
		made := newKeyring().at("https://id.example", "id.example").create(b.Call("POST", "/api/me/passkeys/begin", nil))
		b.Page("/account/passkeys", "state", made["state"].(string), "credential", string(made["credential"].(json.RawMessage))).
			RedirectsTo("/id/account/security?notice=passkey-added#passkeys")
	}
}

// What the browser keeps between the steps is of no use to others, later, or again.
func TestFirstStepIsBoundToItsBrowserAndTime(t *testing.T) {
	w := accounttest.New(t)
	a := addProtected(w, "ada")
	pending := func() *accounttest.Browser { b := w.Browser(); b.Login("ada", password).Is(401); return b }
	otp(w.Browser(), a.fresh()).Is(401, "sign_in_expired")

	altered := pending()
	altered.Cookies[stepCookie] = altered.Cookies[stepCookie][:20] + "A" + altered.Cookies[stepCookie][21:]
	otp(altered, a.fresh()).Is(401, "sign_in_expired")

	// Sealed for another purpose.
	w.AddUser("bob")
	other := w.Browser()
	other.Cookies[stepCookie] = w.SignedIn("bob").Call("POST", "/api/me/totp", nil).Is(200).JSON()["token"].(string)
	otp(other, a.fresh()).Is(401, "sign_in_expired")

	// A user name begins anew, without the step of before.
	loginOTP(pending(), "bob", "", a.fresh()).Is(401, "invalid_credentials")

	old := pending()
	w.Clock.Advance(5*time.Minute + time.Second)
	otp(old, a.code()).Is(401, "sign_in_expired")

	stale := pending()
	owner := w.Browser()
	loginOTP(owner, "ada", password, a.fresh()).Is(200)
	owner.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
	otp(stale, a.fresh()).Is(401, "sign_in_expired")

	used := w.Browser()
	used.Login("ada", newPassword).Is(401, "second_factor_required")
	copied := used.Clone()
	otp(used, a.fresh()).Is(200)
	otp(copied, a.fresh()).Is(401, "sign_in_expired")

	first := w.Browser()
	first.Login("ada", newPassword).Is(401)
	if got := accounttest.Parallel(6,
		func(i int) int { return otp(first.Clone(), a.codes[i]).Status }); got[200] != 1 || got[401] != 5 {
		t.Errorf("one first step opened sessions: %v", got)
	}

	gone := w.Browser()
	gone.Login("ada", newPassword).Is(401)
	must(t, w.Administration().ResetFactors(t.Context(), account.Operator(), w.User("ada")))
	otp(gone, a.codes[9]).Is(401, "sign_in_expired")
	z, deleted := addProtected(w, "zoe"), w.Browser()
	deleted.Login("zoe", password).Is(401, "second_factor_required")
	must(t, w.Administration().Delete(t.Context(), account.Operator(), w.User("zoe")))
	otp(deleted, z.fresh()).Is(401, "sign_in_expired")
}

func TestCodeOfAnAppWorksOnce(t *testing.T) {
	w := accounttest.New(t)
	a := addProtected(w, "ada")
	loginOTP(w.Browser(), "ada", password, a.code()).Is(401, "invalid_otp") // it confirmed the app
	code := a.fresh()
	loginOTP(w.Browser(), "ada", password, code).Is(200)
	loginOTP(w.Browser(), "ada", password, code).Is(401, "invalid_otp")
	w.Clock.Advance(time.Second)
	b := w.Browser()
	b.Login("ada", password)
	otp(b, code).Is(401, "invalid_otp")
	code = a.fresh()
	if got := accounttest.Parallel(8, func(int) int { return loginOTP(w.Browser(), "ada", password, code).Status }); got[200] != 1 || got[401] != 7 {
		t.Errorf("one code: %v", got)
	}
	// A clock that is a step off is forgiven, two are not.
	before := a.fresh()
	w.Clock.Advance(30 * time.Second)
	loginOTP(w.Browser(), "ada", password, before).Is(200)
	late := a.fresh()
	w.Clock.Advance(time.Minute)
	loginOTP(w.Browser(), "ada", password, late).Is(401, "invalid_otp")
	// A code that was used for a sign-in confirms nothing.
	signed := w.Browser()
	loginOTP(signed, "ada", password, a.fresh()).Is(200)
	signed.Call("POST", "/api/auth/confirm", map[string]string{"password": password, "otp": a.code()}).Is(401, "invalid_otp")
}

func TestRecoveryCodeWorksOnce(t *testing.T) {
	w := accounttest.New(t)
	a := addProtected(w, "ada")
	if len(a.codes) != 10 {
		t.Fatalf("%d codes", len(a.codes))
	}
	if got := accounttest.Parallel(8, func(int) int { return loginOTP(w.Browser(), "ada", password, a.codes[0]).Status }); got[200] != 1 || got[401] != 7 {
		t.Errorf("one code: %v", got)
	}
	b := w.Browser()
	loginOTP(b, "ada", password, a.codes[1]).Is(200)
	same(t, "codes left", b.Call("GET", "/api/me/factors", nil).JSON()["recovery_codes"], 8.0)
	b.Page("/account/security").Is(200).Shows("You have 8 recovery codes left")
	page := b.Page("/account/security/recovery-codes", "x", "y").Is(200).Shows(`data-page="account-recovery-codes"`)
	same(t, "codes on the page", strings.Count(page.Body, "<li><code>"), 10)
	b.Page("/account/security/recovery-codes").Is(405)
	for _, code := range a.codes[2:] {
		page.Hides(code)
		loginOTP(w.Browser(), "ada", password, code).Is(401, "invalid_otp")
	}
	// They are nobody else's, and go with the last factor.
	addProtected(w, "bob")
	loginOTP(w.Browser(), "bob", password, a.codes[2]).Is(401)
	b.Call("DELETE", "/api/me/totp", nil).Is(204)
	if f := b.Call("GET", "/api/me/factors", nil).JSON(); f["totp"] != nil || f["recovery_codes"] != 0.0 || w.User("ada").SecondFactor {
		t.Errorf("left: %v", f)
	}
	b.Call("POST", "/api/me/recovery-codes", nil).Is(404, "factor_not_found")
	w.Browser().Login("ada", password).Is(200)
}

func TestCodesCannotBeGuessed(t *testing.T) {
	limits := map[string]web.Rate{
		web.LimitLogin: {Count: 10, Window: 15 * time.Minute}, web.LimitLoginAccount: {Count: 10, Window: 15 * time.Minute},
		web.LimitSecondFactor: {Count: 20, Window: 24 * time.Hour},
	}
	limited := func(o *accounttest.Options) { o.Limits = web.NewLimits(limits, nil, o.Now, o.Log) }

	t.Run("from one address", func(t *testing.T) {
		w := accounttest.New(t, limited)
		a := addProtected(w, "ada")
		b := w.BrowserAt("198.51.100.9")
		b.Login("ada", password)
		got := accounttest.Parallel(30, func(int) int { return otp(b.Clone(), a.wrong()).Status })
		if got[401] != 10 || got[429] != 20 {
			t.Errorf("statuses %v", got)
		}
		otp(b, a.fresh()).Is(429, "rate_limited")
		loginOTP(b, "ada", password, a.code()).Is(429)
		b.Page("/login/second-factor/", "otp", a.code()).Is(429).Shows("Too many attempts")
	})

	t.Run("from many addresses", func(t *testing.T) {
		w := accounttest.New(t, limited)
		a := addProtected(w, "ada")
		for i := range 10 {
			loginOTP(w.BrowserAt(address(i)), "ada", password, a.wrong()).Is(401)
		}
		if !w.User("ada").LockedUntil.After(w.Clock.Now()) {
			t.Error("the lock is not noted")
		}
		loginOTP(w.BrowserAt(address(50)), "ada", password, a.fresh()).Is(429)
		// Where the owner has signed in before they still can.
		loginOTP(w.Browser(), "ada", password, a.code()).Is(200)
	})

	t.Run("from known addresses", func(t *testing.T) {
		w := accounttest.New(t, limited)
		now := w.Clock.Now() // the fixed windows of a day begin at midnight
		w.Clock.Advance(now.Truncate(24 * time.Hour).Add(25 * time.Hour).Sub(now))
		a := addProtected(w, "ada")
		for i := range 5 {
			loginOTP(w.BrowserAt(address(i)), "ada", password, a.fresh()).Is(200)
		}
		wrong := 0
		for range 4 {
			w.Clock.Advance(16 * time.Minute)
			for i := range 5 {
				for range 3 {
					if loginOTP(w.BrowserAt(address(i)), "ada", password, a.wrong()).Status == 401 {
						wrong++
					}
				}
			}
		}
		same(t, "guesses in an hour", wrong, 20)
		w.Clock.Advance(16 * time.Minute)
		loginOTP(w.BrowserAt(address(0)), "ada", password, a.fresh()).Is(429)
		loginOTP(w.BrowserAt(address(0)), "ada", password, a.codes[0]).Is(200) // these cannot be guessed
	})
}

// A copy of the database has the first groups of all codes and hashes of the rest: 20 guesses of a day
// open nothing, and keep nobody out who guesses no first group. Codes of earlier versions stay good.
func TestRecoveryCodesOfSixtyBits(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitSecondFactor: {Count: 20, Window: 24 * time.Hour}}))
	a := addProtected(w, "ada")
	sub := w.User("ada").Sub
	for _, c := range a.codes {
		name, _, _ := strings.Cut(c, "-")
		stored, left, err := w.Store.RecoveryCode(t.Context(), sub, name, nil)
		if err != nil || left != 10 || stored.Name != name || !strings.HasPrefix(string(stored.Hash), "$argon2id$") || len(c) != 19 {
			t.Fatalf("%s is stored as %q, %q; %d left: %v", c, stored.Name, stored.Hash, left, err)
		}
	}
	guess := func(code string) *accounttest.Answer { return loginOTP(w.Browser(), "ada", password, code) }
	for range 30 {
		guess(strings.Repeat("0", 16)).Is(401, "invalid_otp") // as good as never the first group of a code
	}
	for i := range 20 {
		guess(a.codes[0][:5]+"0000 0000 "+fmt.Sprintf("%04d", i)).Is(401, "invalid_otp")
	}
	guess(a.codes[0]).Is(429, "rate_limited")
	w.Clock.Advance(49 * time.Hour)
	b := w.Browser()
	b.Login("ada", password)
	b.Page("/login/second-factor/", "otp", strings.ToLower(strings.ReplaceAll(a.codes[0], "-", "")), "recovery", "1").
		RedirectsTo("/account/security?notice=recovery-used#recovery")
	b.Page("/account/security?notice=recovery-used").Is(200).Shows("You have 9 recovery codes left", "it no longer works")
	codes := []account.RecoveryCode{{Hash: account.HashSecret(strings.Repeat("7", 26))}, {Hash: account.HashSecret(strings.Repeat("7", 16))}}
	now := w.Clock.Now()
	must(t, w.Store.ReplaceRecoveryCodes(t.Context(), sub, codes, now, account.Operator().Audit(now, account.RenewRecoveryCodes, "ada", "")))
	for _, n := range []int{26, 16} {
		guess(strings.Repeat("7", n)).Is(200)
		guess(strings.Repeat("7", n)).Is(401, "invalid_otp")
	}
}

func TestSecondFactorTellsNothingBeforeThePassword(t *testing.T) {
	w := accounttest.New(t)
	a := addProtected(w, "ada")
	want := w.Browser().Login("nobody", "wrong password here").Is(401, "invalid_credentials").Body
	for _, in := range [][3]string{{"ada", "wrong password here", ""}, {"ada", "wrong password here", a.fresh()}, {"ada", "wrong", a.codes[0]}, {"nobody", password, a.codes[0]}} {
		got := loginOTP(w.Browser(), in[0], in[1], in[2]).Is(401, "invalid_credentials")
		if got.Body != want || len(got.SetCookies) != 0 {
			t.Errorf("%q: %s with %v", in, got.Body, got.SetCookies)
		}
	}
	loginOTP(w.Browser(), "ada", password, a.codes[0]).Is(200) // it was not spent
}

// A thief of the session alone can neither change how the account is signed in to, nor
// take it from its owner.
func TestStolenSessionNeedsAFreshProof(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	drawn := b.Call("POST", "/api/me/totp", nil).Is(200).JSON()
	w.Clock.Advance(10*time.Minute + time.Second)
	stolen := b.Clone()
	for _, c := range []struct{ method, path string }{{"POST", "/api/me/totp"}, {"DELETE", "/api/me/totp"}, {"POST", "/api/me/recovery-codes"}} {
		stolen.Call(c.method, c.path, nil).Is(403, "reauthentication_required")
	}
	stolen.Call("PATCH", "/api/me", map[string]string{"email": "thief@example.org"}).Is(403, "reauthentication_required")
	stolen.Call("PATCH", "/api/me", map[string]string{"display_name": "Ada L."}).Is(200)
	for _, path := range []string{"GET /api/me/export", "POST /api/me/sessions/end-others", "POST /api/me/passkeys/begin", "DELETE /api/me/email/pending"} {
		method, path, _ := strings.Cut(path, " ")
		stolen.Call(method, path, nil).Is(403, "reauthentication_required")
	}
	secret := app{w: w, secret: drawn["secret"].(string)}
	stolen.Call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": secret.code()}).Is(400, "enrolment_expired")
	stolen.Page("/account/security/totp").RedirectsTo("/account/confirm?next=%2Faccount%2Fsecurity%2Ftotp")
	stolen.Page("/account/security/totp", "token", "x.y", "code", "000000").RedirectsTo("/account/security/totp")
	stolen.Page("/account/security/totp/remove", "sure", "yes").Is(403).Shows(`data-page="confirm"`)
	stolen.Page("/account/security/recovery-codes", "x", "y").Is(403).Shows(`data-page="confirm"`)
	stolen.Page("/account/profile", "display_name", "Ada", "email", "thief@example.org").Is(403).Shows(`data-page="confirm"`)
	if u := w.User("ada"); u.SecondFactor || u.Email != "" {
		t.Fatalf("changed: %+v", u)
	}
	// The token of another session of the same user is of no use in this one.
	owner := w.SignedIn("ada")
	drawn = owner.Call("POST", "/api/me/totp", nil).Is(200).JSON()
	secret.secret = drawn["secret"].(string)
	stolen.Call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": secret.code()}).Is(400, "enrolment_expired")
	owner.Call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": secret.wrong()}).Is(401, "invalid_otp")
	owner.Call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": secret.code()}).Is(200)
	owner.Call("POST", "/api/me/totp", nil).Is(409, "factor_exists")
	// Nor does the password in the form delete the account of who has a second factor.
	w.Clock.Advance(11 * time.Minute)
	owner.Call("DELETE", "/api/me", map[string]string{"password": password}).Is(403, "reauthentication_required")
	owner.Page("/account/delete", "password", password).Is(403).Shows(`name="confirm_otp"`)
	owner.Call("DELETE", "/api/me", map[string]string{"password": password, "otp": secret.wrong()}).Is(401, "invalid_otp")
	owner.Call("DELETE", "/api/me", map[string]string{"password": password, "otp": secret.fresh()}).Is(204)
}

// A session from before the factor reaches nothing where one is demanded, but the confirmation that proves it.
func TestSessionFromBeforeTheFactorIsConfirmedWithBoth(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada", account.FlagActivity)
	old, other := w.SignedIn("ada"), w.SignedIn("ada")
	begun := old.Call("POST", "/api/me/totp", nil).Is(200).JSON()
	created := newKeyring().create(old.Call("POST", "/api/me/passkeys/begin", nil))
	drawn := other.Call("POST", "/api/me/totp", nil).Is(200).JSON()
	a := app{w: w, secret: drawn["secret"].(string)}
	keep := map[string]any{"token": drawn["token"], "code": a.code(), "keep_other_sessions": true}
	other.Call("POST", "/api/me/totp/confirm", keep).Is(200)
	// Nor does it end what it began before.
	late := app{w: w, secret: begun["secret"].(string)}
	old.Call("POST", "/api/me/totp/confirm", map[string]any{"token": begun["token"], "code": late.code()}).Is(403, "reauthentication_required")
	old.Call("POST", "/api/me/passkeys", created).Is(403, "reauthentication_required")
	for _, line := range []string{"POST /api/me/recovery-codes", "GET /api/me/export"} {
		method, path, _ := strings.Cut(line, " ")
		old.Call(method, path, nil).Is(403, "reauthentication_required")
	}
	w.SaveSettings(func(s *account.Settings) { s.SecondFactorFlags = []string{account.FlagActivity} })
	old.Call("GET", "/api/me/sessions", nil).Is(401, "second_factor_required")
	sent := old.Call("GET", "/api/verify", nil).Is(401, "second_factor_required").Header.Get("Location")
	same(t, "an application leads to", sent, "http://localhost:4040/login/?fresh=confirm")
	old.Page("/account/security").Is(200).Shows(`id="demand"`, "/login/?fresh=confirm")
	old.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(401, "second_factor_required")
	old.Call("POST", "/api/me/recovery-codes", nil).Is(401, "second_factor_required")
	old.Call("POST", "/api/auth/confirm", map[string]string{"password": password, "otp": a.fresh()}).Is(200)
	old.Call("GET", "/api/me/sessions", nil).Is(200)
	old.Call("POST", "/api/me/recovery-codes", nil).Is(200)
}

func TestConfirmationIsAProofUnderLimits(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitLogin: {Count: 3, Window: time.Minute}}))
	a := addProtected(w, "ada")
	b := w.BrowserAt("198.51.100.9")
	loginOTP(b, "ada", password, a.fresh()).Is(200)
	b.Call("POST", "/api/me/recovery-codes", nil).Is(200)
	stale := func() { w.Clock.Advance(11 * time.Minute); b.Call("POST", "/api/me/recovery-codes", nil).Is(403) }
	proof := func() map[string]string { return map[string]string{"password": password, "otp": a.fresh()} }

	stale()
	b.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(401, "second_factor_required")
	b.Call("DELETE", "/api/me/totp", nil).Is(403, "reauthentication_required")
	b.Call("POST", "/api/auth/confirm", proof()).Is(200)
	b.Call("DELETE", "/api/me/totp", nil).Is(204)
	a = enrol(b)
	stale()
	b.Call("POST", "/api/auth/confirm", proof()).Is(200)
	b.Call("POST", "/api/me/recovery-codes", nil).Is(200)
	stale()
	b.Page("/account/confirm?next=/account/security/totp").Is(200).
		Shows(`data-page="confirm"`, `value="/account/security/totp"`, `name="confirm_otp"`, `name="confirm_password"`)
	b.Page("/account/confirm", "confirm_password", password, "confirm_otp", a.fresh(), "next", "/admin/users/bob?x=1").RedirectsTo("/admin/users/bob?x=1")
	for _, evil := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/\tevil", "javascript:alert(1)", "", "account", "/" + strings.Repeat("a", 600)} {
		b.Page("/account/confirm", "confirm_password", password, "confirm_otp", a.fresh(), "next", evil).RedirectsTo("/account/")
	}
	if !slices.Contains(amr(b, "ada"), account.MethodMultiFactor) {
		t.Errorf("methods %v", amr(b, "ada"))
	}

	stale()
	b.Page("/account/confirm", "next", "/account/security").Is(403).Shows(`data-page="confirm"`)
	b.Page("/account/confirm", "confirm_password", "wrong", "next", "/account/security").Is(401).Shows(`role="alert"`, `value="/account/security"`)
	b.Call("POST", "/api/auth/confirm", map[string]string{"password": password, "otp": a.wrong()}).Is(401, "invalid_otp")
	b.Call("POST", "/api/auth/confirm", map[string]string{}).Is(401, "invalid_credentials").Hides("handle")
	b.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(429)
	w.Browser().Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(401, "not_authenticated")
	b.Call("POST", "/api/me/recovery-codes", nil).Is(403)
}

func TestAuthenticatorAppIsSetUpOnThePages(t *testing.T) {
	var log bytes.Buffer
	w := accounttest.New(t, withLog(&log))
	b := w.Member("ada")
	b.Page("/account/security").Is(200).Shows(`href="/account/security/totp"`).Hides(`id="recovery"`)
	page := b.Page("/account/security/totp").Is(200).Shows(`<svg class="qr"`, `data-page="account-totp"`, `id="totp-open" href="otpauth://totp/`)
	if len(page.Body) > 40<<10 || strings.Contains(page.Header.Get("Content-Security-Policy"), "data:") {
		t.Errorf("%d bytes, %s", len(page.Body), page.Header.Get("Content-Security-Policy"))
	}
	_, rest, _ := strings.Cut(page.Body, `id="totp-secret">`)
	shown, _, _ := strings.Cut(rest, "<")
	_, rest, _ = strings.Cut(page.Body, `name="token" value="`)
	token, _, _ := strings.Cut(rest, `"`)
	a := app{w: w, secret: strings.ReplaceAll(shown, " ", "")}
	b.Page("/account/security/totp", "token", token, "code", a.wrong()).Is(401).Shows(shown, token, `aria-invalid="true"`)
	if w.User("ada").SecondFactor {
		t.Fatal("a wrong code set the app up")
	}
	b.Page("/account/security/totp", "token", token, "code", a.code()).Is(200).Shows(`data-page="account-recovery-codes"`, "is set up")
	b.Page("/account/security/totp", "token", token, "code", a.fresh()).RedirectsTo("/account/security/totp")
	b.Page("/account/security/totp").RedirectsTo("/account/security")
	b.Page("/account/security").Is(200).Shows("totp-remove", "You have 10 recovery codes left")
	export := b.Call("GET", "/api/me/export", nil).Is(200).Shows(`"factors":{"totp":{"created_at":`)
	export.Hides(a.secret)
	lacks(t, "the secret is in the log", log.String(), a.secret)
	b.Page("/account/security/totp/remove", "x", "y").Is(200).Shows("Remove this way to sign in?")
	b.Page("/account/security/totp/remove", "x", "y", "sure", "yes").RedirectsTo("/account/security?notice=totp-removed#second-factor")
	b.Page("/account/security?notice=totp-removed").Shows("is removed")
}

func TestResetOfFactorsEndsSessionsAndIsTold(t *testing.T) {
	w := accounttest.New(t)
	a := addProtected(w, "ada")
	b := w.Browser()
	loginOTP(b, "ada", password, a.fresh()).Is(200)
	b.Call("PATCH", "/api/me", map[string]string{"email": "ada@example.org"}).Is(200)
	must(t, w.Administration().ResetFactors(t.Context(), account.Operator(), w.User("ada")))
	if b.IsSignedIn() || w.User("ada").SecondFactor {
		t.Error("a session or a factor outlived the reset")
	}
	loginOTP(w.Browser(), "ada", password, a.codes[0]).Is(http.StatusOK) // the password is enough
	f, err := w.Store.Factors(t.Context(), w.User("ada").Sub)
	if err != nil || f.TOTP != nil || f.RecoveryCodes != 0 {
		t.Errorf("left: %+v, %v", f, err)
	}
}

// What ends the sessions in other browsers, and what does not.
func TestWhatEndsTheOtherSessions(t *testing.T) {
	type fields = map[string]any
	const add, remove = "/api/me/passkeys", "/api/me/passkeys/"
	keep := fields{"keep_other_sessions": true}
	type act func(b *accounttest.Browser, post *postbox, key string) *accounttest.Answer
	call := func(method, path string, in any) act {
		return func(b *accounttest.Browser, _ *postbox, _ string) *accounttest.Answer {
			return b.Call(method, path, in)
		}
	}
	addTOTP := func(more fields) act {
		return func(b *accounttest.Browser, _ *postbox, _ string) *accounttest.Answer {
			drawn := b.Call("POST", "/api/me/totp", nil).Is(200).JSON()
			in := fields{"token": drawn["token"], "code": app{w: b.W, secret: drawn["secret"].(string)}.code()}
			maps.Copy(in, more)
			return b.Call("POST", "/api/me/totp/confirm", in)
		}
	}
	newEmail := func(more fields) act {
		return func(b *accounttest.Browser, post *postbox, _ string) *accounttest.Answer {
			in := fields{"email": "new@example.org"}
			maps.Copy(in, more)
			b.Call("PATCH", "/api/me", in).Is(200)
			return press(b.W.T, b, links(post.byAddress()["new@example.org"])[0])
		}
	}
	addKey := func(more fields) act {
		return func(b *accounttest.Browser, _ *postbox, _ string) *accounttest.Answer {
			in := newKeyring().create(b.Call("POST", "/api/me/passkeys/begin", nil))
			in["name"] = "Another"
			maps.Copy(in, more)
			return b.Call("POST", add, in)
		}
	}
	dropKey := func(in any) act {
		return func(b *accounttest.Browser, _ *postbox, key string) *accounttest.Answer {
			return b.Call("DELETE", remove+key, in)
		}
	}
	const ends, keeps = false, true
	change := fields{"current_password": password, "new_password": newPassword}
	for name, c := range map[string]struct {
		totp, passkey bool // what there is before
		act           act
		other, byKey  bool // another session is signed in, and one that the passkey opened
	}{
		"password":                               {false, false, call("PUT", "/api/me/password", change), ends, keeps},
		"name":                                   {false, false, call("PATCH", "/api/me", fields{"display_name": "A"}), keeps, keeps},
		"email, waiting":                         {false, false, call("PATCH", "/api/me", fields{"email": "a@example.org"}), keeps, keeps},
		"email":                                  {false, false, newEmail(nil), ends, keeps},
		"email, kept":                            {false, false, newEmail(keep), keeps, keeps},
		"first app":                              {false, false, addTOTP(nil), ends, keeps},
		"first app, kept":                        {false, false, addTOTP(keep), keeps, keeps},
		"first passkey":                          {false, false, addKey(nil), keeps, keeps},
		"first passkey with a second step":       {false, false, addKey(fields{"second_step": true}), ends, keeps},
		"first passkey with a second step, kept": {false, false, addKey(fields{"second_step": true, "keep_other_sessions": true}), keeps, keeps},
		"app after a passkey":                    {false, true, addTOTP(nil), ends, ends},
		"passkey after an app":                   {true, false, addKey(nil), keeps, keeps},
		"second passkey":                         {false, true, addKey(nil), keeps, keeps},
		"app removed":                            {true, true, call("DELETE", "/api/me/totp", nil), ends, ends},
		"app removed, kept":                      {true, true, call("DELETE", "/api/me/totp", keep), keeps, keeps},
		"passkey removed":                        {true, true, dropKey(nil), ends, ends},
		"passkey removed, kept":                  {true, true, dropKey(keep), keeps, ends},
	} {
		w, post := mailWorldOf(t, "ada")
		here := w.SignedIn("ada")
		var phone app
		if c.totp {
			phone = enrol(here)
		}
		other, byKey, id := w.Browser(), w.Browser(), ""
		if c.passkey {
			k := newKeyring()
			in := k.create(here.Call("POST", "/api/me/passkeys/begin", nil))
			in["name"] = "Key"
			id = here.Call("POST", add, in).Is(201).JSON()["id"].(string)
			finish(byKey, k.get(begin(byKey))).Is(200)
			finish(here, finishing("confirm", k.get(beginFor(here, "confirm")))).Is(200)
			other = byKey
		}
		if c.totp {
			other = w.Browser()
			loginOTP(other, "ada", password, phone.fresh()).Is(200)
		} else if !c.passkey {
			other = w.SignedIn("ada")
		}
		post.new()
		got := c.act(here, post, id)
		same(t, fmt.Sprintf("%s: %d %s", name, got.Status, got.Body), got.Status/100, 2)
		if !here.IsSignedIn() || other.IsSignedIn() != c.other || c.passkey && byKey.IsSignedIn() != c.byKey {
			t.Errorf("%s: signed in here %t, elsewhere %t, by the passkey %t", name, here.IsSignedIn(), other.IsSignedIn(), byKey.IsSignedIn())
		}
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

func (s *lateStore) ChangePassword(
	ctx context.Context, sub, old, hash string, keep *account.Session, now time.Time, a account.Audit,
) error {
	s.reset()
	return s.Store.ChangePassword(ctx, sub, old, hash, keep, now, a)
}

func (s *lateStore) ReplaceRecoveryCodes(
	ctx context.Context, sub string, codes []account.RecoveryCode, now time.Time, a account.Audit,
) error {
	s.reset()
	return s.Store.ReplaceRecoveryCodes(ctx, sub, codes, now, a)
}

func (s *lateStore) CreateInvite(ctx context.Context, i account.Invite, most int, a account.Audit) error {
	s.reset()
	return s.Store.CreateInvite(ctx, i, most, a)
}

// A form whose first sending is under way makes one invite, which whoever is still signed in sees.
func TestSecondSendingIsAnsweredAsTheFirst(t *testing.T) {
	late := &lateStore{}
	w := accounttest.New(t, func(o *accounttest.Options) { late.Store, o.Store = o.Store, late })
	b := w.Member("ada")
	const path, sent = "/account/invites", "/account/invites?notice=invite-created#invites"
	for i, to := range []string{sent, "/login/?unsent=1"} {
		once, first := fmt.Sprint(i), b.Clone()
		late.meanwhile = func() {
			late.meanwhile = nil
			first.Page(path, "once", once).RedirectsTo(sent)
			if i == 1 {
				first.Call("POST", "/api/auth/logout", nil).Is(200)
			}
		}
		b.Page(path, "once", once).RedirectsTo(to)
	}
	w.SignedIn("ada").Call("GET", "/api/invites", nil).Is(200).Shows(`"remaining":1`)
}

// A thief's request that is under way when the owner has everything ended adds nothing.
func TestNoFactorIsAddedInASessionThatHasEnded(t *testing.T) {
	late := &lateStore{}
	w := accounttest.New(t, func(o *accounttest.Options) { late.Store, o.Store = o.Store, late })
	for handle, add := range map[string]func(thief *accounttest.Browser) *accounttest.Answer{
		"app": func(thief *accounttest.Browser) *accounttest.Answer {
			drawn := thief.Call("POST", "/api/me/totp", nil).Is(200).JSON()
			return thief.Call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": app{w: w, secret: drawn["secret"].(string)}.code()})
		},
		"passkey": func(thief *accounttest.Browser) *accounttest.Answer {
			body := newKeyring().create(thief.Call("POST", "/api/me/passkeys/begin", nil))
			body["name"] = "Key"
			return thief.Call("POST", "/api/me/passkeys", body)
		},
		"codes": func(thief *accounttest.Browser) *accounttest.Answer {
			return thief.Call("POST", "/api/me/recovery-codes", nil)
		},
		"password": func(thief *accounttest.Browser) *accounttest.Answer {
			in := map[string]string{"current_password": password, "new_password": newPassword}
			return thief.Call("PUT", "/api/me/password", in)
		},
	} {
		w.AddUser(handle)
		thief := w.SignedIn(handle)
		if handle == "codes" {
			addPasskey(thief, "Key")
		}
		late.meanwhile = func() {
			late.meanwhile = nil
			if handle != "codes" {
				if err := w.Administration().ResetFactors(t.Context(), account.Operator(), w.User(handle)); err != nil {
					t.Error(err)
				}
				return
			}
			w.Browser().Call("POST", "/api/auth/reset-password", reset(handle, w.ResetCode(handle), newPassword)).Is(200)
		}
		before, err := w.Store.Factors(t.Context(), w.User(handle).Sub)
		must(t, err)
		add(thief).Is(401, "not_authenticated")
		if f, err := w.Store.Factors(t.Context(), w.User(handle).Sub); err != nil || !reflect.DeepEqual(f, before) {
			t.Errorf("%s: %+v, %v", handle, f, err)
		}
	}
}

// countedLooks counts what a refusal looks up.
type countedLooks struct {
	account.Store
	n int
}

func (s *countedLooks) KnownAddress(ctx context.Context, sub, address string, since time.Time) (bool, error) {
	s.n++
	return s.Store.KnownAddress(ctx, sub, address, since)
}

func (s *countedLooks) Record(ctx context.Context, a account.Audit, once time.Duration) error {
	s.n++
	return s.Store.Record(ctx, a, once)
}

// Beyond the limit of an account no password is compared: the time of the refusal must not
// tell whether there is such an account.
func TestRefusalOfALimitedAccountCostsTheSameForNobody(t *testing.T) {
	looks := &countedLooks{}
	limits := map[string]web.Rate{web.LimitLoginAccount: {Count: 2, Window: time.Hour},
		web.LimitResetAccount: {Count: 2, Window: time.Hour}}
	w := accounttest.New(t, func(o *accounttest.Options) {
		looks.Store, o.Store = o.Store, looks
		o.Limits = web.NewLimits(limits, nil, o.Now, o.Log)
	})
	w.AddUser("ada")
	b := w.BrowserAt("198.51.100.9")
	for what, try := range map[string]func(handle string) *accounttest.Answer{
		"sign-in": func(handle string) *accounttest.Answer { return b.Login(handle, "wrong password here") },
		"reset": func(handle string) *accounttest.Answer {
			return b.Call("POST", "/api/auth/reset-password", reset(handle, strings.Repeat("0", account.ResetCodeLength), newPassword))
		},
	} {
		count := func(handle string) int {
			try(handle)
			try(handle)
			before := looks.n
			try(handle).Is(429, "rate_limited")
			return looks.n - before
		}
		if known, unknown := count("ada"), count("zoe"); known != unknown || known == 0 {
			t.Errorf("%s: %d looks for an account, %d for nobody", what, known, unknown)
		}
	}
}

type countedHashes struct{ n int }

func (c *countedHashes) HashBegun() func() { c.n++; return func() {} }
func (c *countedHashes) HashRefused()      {}

// Beyond the limit of an address, a wrong password of somebody known there is compared. So a hash is spent for everybody
// there, and for nobody where no account is known.
func TestRefusalAtALimitedAddressTellsNotWhoIsKnown(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitLoginAddress: {Count: 2, Window: time.Hour}}))
	w.AddUser("ada")
	w.AddUser("bob")
	hashes := &countedHashes{}
	w.Hasher.Observer = hashes
	w.BrowserAt(address(1)).Login("ada", password).Is(200)
	for where, want := range map[string]int{address(1): 1, address(2): 0} {
		b := w.BrowserAt(where)
		b.Login("zoe", "wrong").Is(401)
		b.Login("zoe", "wrong").Is(401)
		bodies := map[string]bool{}
		for _, handle := range []string{"ada", "bob", "zoe"} {
			before := hashes.n
			bodies[b.Login(handle, "wrong").Is(429).Body] = true
			recoverBy(b, handle, "0000 0000 0000 0000").Is(429, "rate_limited")
			same(t, fmt.Sprintf("%s at %s: hashes", handle, where), hashes.n-before, 2*want)
		}
		same(t, bodies, len(bodies), 1)
	}
	w.Clock.Advance(31 * 24 * time.Hour)
	for range 2 {
		w.BrowserAt(address(1)).Login("zoe", "wrong").Is(401)
	}
	w.BrowserAt(address(1)).Login("ada", password).Is(429) // no longer known
}

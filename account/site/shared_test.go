package site_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/store/accounttest"
)

// onShared fails the test unless an answer sets the cookies of a session on a shared computer, which ends then.
func onShared(b *accounttest.Browser, got *accounttest.Answer, end time.Time) {
	b.W.T.Helper()
	var of []string
	for _, c := range got.SetCookies {
		name := c.Name[strings.LastIndex(c.Name, "-")+1:]
		if name == "cairn_device" || name == "cairn_offer" {
			b.W.T.Errorf("the browser is remembered: %s", c.Raw)
		}
		if name == "cairn_session" || name == "cairn_login" {
			of = append(of, name)
			if strings.Contains(c.Raw, "Max-Age") || strings.Contains(c.Raw, "Expires") {
				b.W.T.Errorf("cookie %s", c.Raw)
			}
		}
	}
	if slices.Sort(of); !slices.Equal(of, []string{"cairn_login", "cairn_session"}) {
		b.W.T.Errorf("cookies %q", of)
	}
	if n := session(b); !n.ExpiresAt.Equal(end) {
		b.W.T.Errorf("the session ends at %s, not at %s", n.ExpiresAt, end)
	}
}

func withTwoCookies(o *accounttest.Options) {
	o.CookieDomain, o.LoginCookieName = "localhost", "cairn_login"
}

func TestSessionOnASharedComputer(t *testing.T) {
	w := accounttest.New(t, withTwoCookies)
	w.AddUser("ada")
	b := w.Browser()
	b.Page("/login/").Is(200).Shows(`name="shared_computer"`)
	b.Page("/login/", "handle", "ada", "password", "wrong", "shared_computer", "true").Is(401).Shows(`name="shared_computer" value="true" checked`)
	end := w.Clock.Now().Truncate(time.Second).Add(12 * time.Hour)
	onShared(b, b.Page("/login/", "handle", "ada", "password", password, "shared_computer", "true").RedirectsTo("/account/"), end)

	w.Clock.Advance(time.Hour) // neither a proof nor another secret makes it longer
	onShared(b, b.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(200), end)
	b.Page("/login/?fresh=confirm").Is(200).Hides(`name="shared_computer"`)
	onShared(b, b.Page("/login/", "handle", "ada", "password", password, "fresh", "confirm").RedirectsTo("/account/"), end)
	onShared(b, b.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200), end)
	w.Clock.Advance(time.Minute)
	onShared(b, b.Call("POST", "/api/auth/confirm", map[string]string{"password": newPassword}).Is(200), end)
	drawn := b.Call("POST", "/api/me/totp", nil).Is(200).JSON()
	a := app{w: w, secret: drawn["secret"].(string)}
	onShared(b, b.Call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": a.code()}).Is(200), end)
	w.Clock.Advance(11 * time.Hour)
	if b.IsSignedIn() {
		t.Error("signed in after 12 hours")
	}

	// The box is ticked at the first step, and the second one makes the session.
	for name, send := range map[string]func(b *accounttest.Browser) *accounttest.Answer{
		"pages": func(b *accounttest.Browser) *accounttest.Answer {
			b.Page("/login/", "handle", "ada", "password", newPassword, "shared_computer", "true").RedirectsTo("/login/second-factor/")
			return b.Page("/login/second-factor/", "otp", a.fresh()).RedirectsTo("/account/")
		},
		"API": func(b *accounttest.Browser) *accounttest.Answer {
			b.Call("POST", "/api/auth/login", map[string]any{"handle": "ada", "password": newPassword, "shared_computer": true}).Is(401, "second_factor_required")
			return otp(b, a.fresh()).Is(200)
		},
		"API at once": func(b *accounttest.Browser) *accounttest.Answer {
			return b.Call("POST", "/api/auth/login", map[string]any{"handle": "ada", "password": newPassword, "otp": a.fresh(), "shared_computer": true}).Is(200)
		},
		"page of a busy service": func(b *accounttest.Browser) *accounttest.Answer {
			again, err := w.Service.Sealer().Hide(person.PurposeAgain, person.Credentials{Handle: "ada", Password: newPassword, Shared: true})
			must(t, err)
			b.Page("/login/", "again", again).RedirectsTo("/login/second-factor/")
			return b.Page("/login/second-factor/", "otp", a.fresh()).RedirectsTo("/account/")
		},
	} {
		t.Run(name, func(*testing.T) {
			b := w.Browser()
			got := send(b)
			onShared(b, got, w.Clock.Now().Truncate(time.Second).Add(12*time.Hour))
		})
	}

	// Without the box, or with null, the browser is remembered, even at the shortest session_days.
	w.SaveSettings(func(v *account.Settings) { v.SessionDays = 1 })
	w.AddUser("bob")
	got := w.Browser().Call("POST", "/api/auth/login", map[string]any{"handle": "bob", "password": password, "shared_computer": nil}).Is(200)
	for _, c := range got.SetCookies {
		if c.MaxAge < 24*60*60 {
			t.Errorf("cookie %s", c.Raw)
		}
	}
	if !slices.ContainsFunc(got.SetCookies, func(c *http.Cookie) bool { return c.Name == "cairn_device" }) {
		t.Errorf("no mark among %v", got.SetCookies)
	}

	// There a proof makes the session last anew, as does another sign-in with the box ticked on a shared computer.
	bob := w.SignedIn("bob")
	lasts := func(want time.Duration) {
		t.Helper()
		same(t, "the session lasts", session(bob).ExpiresAt.Sub(w.Clock.Now()), want)
		w.Clock.Advance(time.Hour)
	}
	lasts(24 * time.Hour)
	bob.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(200)
	lasts(24 * time.Hour)
	for range 2 {
		bob.Page("/login/", "handle", "bob", "password", password, "shared_computer", "true").RedirectsTo("/account/")
		lasts(12 * time.Hour)
	}
}

// A browser that knew the member, from a reset or from before, forgets them: who comes next there is told of.
func TestSharedComputerForgetsItsMember(t *testing.T) {
	w, post := mailWorldOf(t, "ada", "bob")
	b := w.SignedIn("ada")
	b.Call("POST", "/api/auth/logout", nil).Is(200)
	b.Login("bob", password).Is(200)
	b.Call("POST", "/api/auth/logout", nil).Is(200)
	post.new()
	b.Call("POST", "/api/auth/login", map[string]any{"handle": "ada", "password": password, "shared_computer": true}).Is(200)
	b.Call("POST", "/api/auth/logout", nil).Is(200)
	post.none()
	b.Login("ada", password).Is(200)
	post.one("ada@example.org")
	b.Call("POST", "/api/auth/logout", nil).Is(200)
	b.Login("bob", password).Is(200)
	post.none() // only the mark of who ticked the box is gone
	b = w.SignedIn("ada")
	got := b.Call("POST", "/api/auth/login", map[string]any{"handle": "ada", "password": password, "shared_computer": true}).Is(200)
	for _, c := range got.SetCookies {
		if c.Name == "cairn_device" && c.MaxAge >= 0 {
			t.Errorf("the last mark leaves %s", c.Raw)
		}
	}
}

func TestPasskeyOnASharedComputer(t *testing.T) {
	w := accounttest.New(t, withTwoCookies)
	w.AddUser("ada")
	k := addPasskey(w.SignedIn("ada"), "Key")
	end := w.Clock.Now().Truncate(time.Second).Add(12 * time.Hour)
	b := w.Browser()
	body := k.get(begin(b))
	onShared(b, b.Page("/login/", "state", body["state"].(string), "credential", string(body["credential"].(json.RawMessage)),
		"shared_computer", "true").RedirectsTo("/account/"), end)
	b = w.Browser()
	body = k.get(begin(b))
	body["shared_computer"] = true
	onShared(b, finish(b, body).Is(200), end)
	b = w.Browser()
	b.Call("POST", "/api/auth/login", map[string]any{"handle": "ada", "password": password, "shared_computer": true}).Is(401)
	onShared(b, finish(b, finishing("second-factor", k.get(beginFor(b, "second-factor")))).Is(200), end)
}

func TestJoiningAndRecoveringOnASharedComputer(t *testing.T) {
	w := accounttest.New(t, withTwoCookies)
	ends := func() time.Time { return w.Clock.Now().Truncate(time.Second).Add(12 * time.Hour) }

	code := w.Invite().Shown()
	b := w.Browser()
	b.Page("/register/?code=" + code).Is(200).Shows(`name="shared_computer" value="true" aria`)
	b.Page("/register/", "code", code, "handle", "-", "password", password, "shared_computer", "true").Is(400).Shows(`name="shared_computer" value="true" checked`)
	onShared(b, b.Page("/register/", "code", code, "handle", "ada", "password", password, "shared_computer", "true").RedirectsTo("/account/welcome"), ends())
	b = w.Browser()
	in := map[string]any{"code": w.Invite().Code, "handle": "bob", "password": password, "shared_computer": true}
	onShared(b, b.Call("POST", "/api/register", in).Is(201), ends())

	got := w.Browser().Page("/reset-password/", "handle", "bob", "code", w.ResetCode("bob"), "password", newPassword, "listed", "1",
		"shared_computer", "true").Is(200)
	if len(got.SetCookies) > 0 {
		t.Errorf("a reset leaves %v", got.SetCookies)
	}

	_, _, codes := joinByPasskey(w, "grace")
	b = w.Browser()
	b.Page("/recover/").Is(200).Shows(`name="shared_computer" value="true" aria`)
	b.Page("/recover/", "handle", "grace", "code", "wrong", "shared_computer", "true").Is(401).Shows(`name="shared_computer" value="true" checked`)
	got = b.Page("/recover/", "handle", "grace", "code", codes[0], "shared_computer", "true")
	onShared(b, got.RedirectsTo("/account/security?notice=recovery-used#recovery"), ends())
	b = w.Browser()
	onShared(b, b.Call("POST", "/api/auth/recover", map[string]any{"handle": "grace", "code": codes[1], "shared_computer": true}).Is(200), ends())
	got = recoverBy(w.Browser(), "grace", codes[2]).Is(200)
	if !slices.ContainsFunc(got.SetCookies, func(c *http.Cookie) bool { return strings.HasSuffix(c.Name, "cairn_session") && c.MaxAge > 24*60*60 }) {
		t.Errorf("without the box: %v", got.SetCookies)
	}
}

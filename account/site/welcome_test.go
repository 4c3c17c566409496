package site_test

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/accounttest"
)

// addPerson adds somebody as an administrator does.
func addPerson(w *accounttest.World, handle, email string) {
	w.T.Helper()
	n := account.NewUser{Handle: handle, Email: email}
	if _, _, err := w.Administration().Add(w.T.Context(), account.Operator(), n); err != nil {
		w.T.Fatal(err)
	}
}

// chosen returns the fields of the welcome page behind a link, with a password.
func chosen(t *testing.T, path, password string) []string {
	t.Helper()
	u, err := url.Parse(path)
	must(t, err)
	return []string{"welcome", "1", "linked", "1", "handle", u.Query().Get("handle"), "code", u.Query().Get("code"),
		"password", password}
}

// Who was added is welcomed, and after choosing a password is signed in, as after an invite.
func TestWhoWasAddedIsWelcomed(t *testing.T) {
	w, post := newMailWorld(t)
	addPerson(w, "clara-weiss", "clara@example.org")
	path, _ := link(t, post.one("clara@example.org"))
	w.Clock.Advance(account.WelcomeLifetime - time.Minute)
	b := w.Browser()
	b.Page(path).Is(200).Shows("<h1>Welcome to “", "@clara-weiss", "Choose a password, or add a passkey.").
		Hides("Reset", "signed out everywhere", "24 hours", "within an hour")
	b.Page("/reset-password/", chosen(t, path, "short")...).Is(400).Shows("<h1>Welcome to “", `id="password-error"`)
	query, _ := url.ParseQuery(strings.TrimPrefix(path, "/reset-password/?"))
	start := map[string]string{"handle": "clara-weiss", "code": query.Get("code")}
	made := newKeyring().create(b.Call("POST", "/api/auth/reset-password/passkey/begin", start))
	b.Page("/reset-password/", chosen(t, path, newPassword)...).RedirectsTo("/account/welcome")
	b.Page("/account/welcome").Is(200).Shows(`data-step="passkey"`)
	post.none() // nobody else could be in it
	if u := w.User("clara-weiss"); !u.EmailVerified || u.LastLoginAt.IsZero() {
		t.Errorf("verified %v, signed in %v", u.EmailVerified, u.LastLoginAt)
	}
	w.Browser().Page(path).Is(400).Shows("no longer works")
	w.Browser().Login("clara-weiss", newPassword).Is(200)

	// A code for an account that has a password opens no session, whatever the form says.
	code := w.ResetCode("clara-weiss")
	other := w.Browser()
	other.Page("/reset-password/?handle=clara-weiss&code=" + code).Is(200).Shows("Reset your password").Hides("Welcome")
	before := []string{"state", made["state"].(string), "credential", string(made["credential"].(json.RawMessage)),
		"welcome", "1", "handle", "clara-weiss", "code", code, "password", ""}
	b.Page("/reset-password/", before...).Is(400).Shows(`data-code="weak_password"`)
	other.Page("/reset-password/", "welcome", "1", "handle", "clara-weiss", "code", code, "password", password).Is(200).
		Shows("signed out everywhere")
	addPerson(w, "dan", "dan@example.org")
	w.Suspend("dan")
	other.Page("/reset-password/", "welcome", "1", "handle", "dan", "code", w.ResetCode("dan"), "password", password).Is(200).
		Shows("Password changed")
	if other.IsSignedIn() {
		t.Error("a reset signs in")
	}
}

func TestWhoWasAddedGoesWithoutAPassword(t *testing.T) {
	w, post := newMailWorld(t)
	addPerson(w, "clara-weiss", "clara@example.org")
	addPerson(w, "eve", "eve@example.org")
	mails := post.new()
	path, _ := link(t, mails[0])
	w.Clock.Advance(time.Hour)
	start := func(path string) map[string]string {
		u, _ := url.Parse(path)
		return map[string]string{"handle": u.Query().Get("handle"), "code": u.Query().Get("code")}
	}
	b, k := w.Browser(), newKeyring()
	const starting = "/api/auth/reset-password/passkey/begin"
	b.Call("POST", starting, map[string]string{"handle": "clara-weiss", "code": "0000"}).Is(400, "invalid_reset_code")
	made := k.create(b.Call("POST", starting, start(path)))
	state, credential := made["state"].(string), string(made["credential"].(json.RawMessage))

	// The passkey is for this account alone.
	others, _ := link(t, mails[1])
	b.Page("/reset-password/", append(chosen(t, others, ""), "state", state, "credential", credential)...).Is(401)
	made = k.create(b.Call("POST", starting, start(path)))
	b.Page("/reset-password/", append(chosen(t, path, ""), "state", made["state"].(string), "credential",
		string(made["credential"].(json.RawMessage)))...).Is(200).Shows(`data-page="account-recovery-codes"`)
	if u := w.User("clara-weiss"); !u.Passwordless() || !u.SecondFactor || !u.EmailVerified || !b.IsSignedIn() {
		t.Errorf("%+v, signed in %v", u, b.IsSignedIn())
	}
	b.Page("/account/").Is(200).Hides(`id="next-step"`)
	again := w.Browser()
	finish(again, k.get(begin(again))).Is(200)
	again.Page("/account/sessions/end-others", "x", "y").Is(200).Hides(`name="remove_factor"`) // of joining
	b.Call("POST", starting, start(path)).Is(400, "invalid_reset_code")
}

// An address that several accounts wait with is proven by its mail: the first that is used has it.
func TestForgottenPasswordOfWhoNeverHadOne(t *testing.T) {
	w, post := newMailWorld(t)
	addPerson(w, "mia", "family@example.org")
	addPerson(w, "tom", "family@example.org")
	addMember(w, "ada", "ada@example.org")
	addPerson(w, "kid", "ada@example.org")
	post.new()
	forgot := func(name string) {
		w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": name}).Is(200)
	}
	addPerson(w, "nan", "")
	forgot("nan")
	post.none() // there is no address
	forgot("Family@example.org")
	m := post.one("family@example.org")
	links := regexp.MustCompile(`@(\w+):\nhttp://localhost:4040(\S+)`).FindAllStringSubmatch(m.Text, -1)
	if len(links) != 2 || links[0][1] != "mia" || links[1][1] != "tom" {
		t.Fatalf("links %q in %s", links, m.Text)
	}
	w.Browser().Page("/reset-password/", chosen(t, links[1][2], newPassword)...).RedirectsTo("/account/welcome")
	w.Browser().Page("/reset-password/", append(chosen(t, links[0][2], newPassword), "continue", "eyJ9.c2Vh")...).RedirectsTo("/oauth2/authorize?continue=eyJ9.c2Vh")
	if !w.User("tom").EmailVerified || w.User("mia").EmailVerified {
		t.Errorf("verified: tom %v, mia %v", w.User("tom").EmailVerified, w.User("mia").EmailVerified)
	}
	if m := post.one("family@example.org"); m.Subject != "Your password was changed" || !strings.Contains(m.Text, "@mia") {
		t.Errorf("of the account that has it unverified: %s", m.Text)
	}
	forgot("ada@example.org")
	same(t, "the verified account goes first", post.one("ada@example.org").Subject, "Set a new password")
	w.Clock.Advance(time.Hour)
	forgot("kid")
	if m := post.one("ada@example.org"); m.Subject[:7] != "Welcome" {
		t.Errorf("who never had a password is welcomed: %s", m.Subject)
	}
	// Of several, one is gone when the mail is sent.
	addPerson(w, "tim", "twins@example.org")
	addPerson(w, "kai", "twins@example.org")
	post.new()
	forgotten := account.UserMail(t.Context(), w.User("tim"), "twins@example.org", account.MailWelcome, w.Clock.Now(), "asked", "true")
	must(t, w.Administration().Delete(t.Context(), account.Operator(), w.User("tim")))
	must(t, w.Store.QueueMail(t.Context(), forgotten, w.Clock.Now()))
	has(t, "Text", post.one("twins@example.org").Text, "You are @kai.")
}

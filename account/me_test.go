package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func TestMeTellsExactlyWhatTheContractSays(t *testing.T) {
	w := newWorld(t)
	u := w.addUser("ada", account.FlagActivity)
	b := w.signedIn("ada")
	a := b.call("GET", "/api/me", nil).is(200)
	m := a.json()
	s := m["session"].(map[string]any)
	if len(m) != 8 || len(s) != 3 || m["sub"] != u.Sub || m["handle"] != "ada" || m["display_name"] != "Ada" || m["email"] != "" || m["email_verified"] != false ||
		m["created_at"] != w.clock.Now().Format(time.RFC3339) || s["expires_at"] != w.clock.Now().Add(30*24*time.Hour).Format(time.RFC3339) {
		t.Errorf("%s", a.body)
	}
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", a.header)
	}
	w.browser().call("GET", "/api/me", nil).is(401, "not_authenticated")
}

func TestNobodyChangesMoreThanTheirProfile(t *testing.T) {
	w := newWorld(t)
	u := w.addUser("ada")
	b := w.signedIn("ada")
	for _, body := range []string{
		`{"flags":{"admin":true}}`, `{"handle":"eve"}`, `{"sub":"x"}`, `{"email_verified":true}`, `{"is_admin":true}`, `{"suspended":false}`, `{"display_name":"x","created_at":1}`,
		`{"session":{}}`, `{"Email":"a@example.org"}`, `{"display_name":1}`, `{"email":["a@example.org"]}`,
	} {
		b.send("PATCH", "/api/me", "application/json", body).is(400, "invalid_request")
	}
	if got := w.user("ada"); got.DisplayName != u.DisplayName || got.Email != "" || got.Has(account.FlagAdmin) {
		t.Errorf("%+v", got)
	}
}

func TestProfileChanges(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	m := b.call("PATCH", "/api/me", map[string]string{"display_name": " Ada L ", "email": "ada@example.org"}).is(200).json()
	if m["display_name"] != "Ada L" || m["email"] != "ada@example.org" || m["email_verified"] != false || m["session"] == nil {
		t.Errorf("%v", m)
	}
	b.send("PATCH", "/api/me", "application/json", `{}`).is(200)
	if u := w.user("ada"); u.DisplayName != "Ada L" || u.Email != "ada@example.org" {
		t.Errorf("an empty change changed %+v", u)
	}
	b.send("PATCH", "/api/me", "application/json", `{"email":null}`).is(200)
	if u := w.user("ada"); u.Email != "" || u.DisplayName != "Ada L" {
		t.Errorf("%+v", u)
	}
	a := b.call("PATCH", "/api/me", map[string]string{"display_name": "", "email": "nobody"}).is(400, "invalid_display_name")
	errs := a.json()["errors"].([]any)
	if len(errs) != 2 || errs[0].(map[string]any)["pointer"] != "/display_name" || errs[1].(map[string]any)["pointer"] != "/email" {
		t.Errorf("%v", errs)
	}
	b.call("PATCH", "/api/me", map[string]string{"email": "a b@example.org"}).is(400, "invalid_email")
	b.send("PATCH", "/api/me", "application/json", `{"display_name":null}`).is(400, "invalid_display_name")
}

func TestPasswordChangeEndsTheOtherSessions(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	here, there := w.signedIn("ada"), w.signedIn("ada")
	code := w.resetCode("ada")
	in := func(current, next string) map[string]string {
		return map[string]string{"current_password": current, "new_password": next}
	}
	here.call("PUT", "/api/me/password", in("wrong", newPassword)).is(401, "invalid_credentials")
	here.call("PUT", "/api/me/password", in("wrong", "short")).is(401, "invalid_credentials")
	weak := here.call("PUT", "/api/me/password", in(password, "short")).is(400, "weak_password").json()
	if weak["errors"].([]any)[0].(map[string]any)["pointer"] != "/new_password" {
		t.Errorf("%v", weak)
	}
	if !there.isSignedIn() {
		t.Fatal("a refused change ended a session")
	}
	here.call("PUT", "/api/me/password", in(password, newPassword)).is(200)
	if !here.isSignedIn() || there.isSignedIn() {
		t.Error("the wrong session ended")
	}
	w.browser().login("ada", password).is(401)
	w.browser().call("POST", "/api/auth/reset-password", reset("ada", code, password)).is(400, "invalid_reset_code")
	w.browser().call("PUT", "/api/me/password", in(newPassword, password)).is(401, "not_authenticated")
}

func TestAnOldHashDoesNotBlockAPasswordChange(t *testing.T) {
	w := newWorld(t)
	u := w.addUser("ada")
	b := w.signedIn("ada")
	// Stronger parameters than the service's: the check makes the hash anew,
	// and the change must then replace the new one.
	strong, err := account.NewHasher()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := strong.Hash(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.UpgradeHash(t.Context(), u.Sub, u.PasswordHash, hash); err != nil {
		t.Fatal(err)
	}
	b.call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).is(200)
	w.browser().login("ada", newPassword).is(200)
}

func TestPasswordsCannotBeGuessedThroughASession(t *testing.T) {
	w := newWorld(t, withLimits(map[string]web.Rate{web.LimitLogin: {Count: 10, Window: 15 * time.Minute}}))
	w.addUser("ada")
	b := w.signedIn("ada")
	for i := range 10 {
		if i%2 == 0 {
			b.call("PUT", "/api/me/password", map[string]string{"current_password": "wrong", "new_password": newPassword}).is(401)
		} else {
			b.call("DELETE", "/api/me", map[string]string{"password": "wrong"}).is(401)
		}
	}
	b.call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).is(429, "rate_limited")
	b.call("DELETE", "/api/me", map[string]string{"password": password}).is(429, "rate_limited")
}

func TestDeletingOnesAccount(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	u := w.addUser("ada")
	here, there := w.signedIn("ada"), w.signedIn("ada")
	here.call("DELETE", "/api/me", nil).is(415)
	here.call("DELETE", "/api/me", map[string]string{"password": "wrong"}).is(401, "invalid_credentials")
	if w.user("ada").Sub != u.Sub {
		t.Fatal("gone")
	}
	a := here.call("DELETE", "/api/me", map[string]string{"password": password}).is(204)
	if len(a.set) != 1 || a.set[0].MaxAge >= 0 || a.body != "" {
		t.Errorf("%v %q", a.set, a.body)
	}
	if there.isSignedIn() {
		t.Error("a session outlived its user")
	}
	w.browser().login("ada", password).is(401, "invalid_credentials")
	w.browser().call("POST", "/api/register", registration(w.invite().Code, "ada")).is(409, "handle_taken")

	last := w.signedIn("root1")
	last.call("DELETE", "/api/me", map[string]string{"password": password}).is(409, "last_admin")
	if !last.isSignedIn() {
		t.Error("a refused deletion signed out")
	}
}

func TestTheLastTwoAdministratorsCannotBothLeave(t *testing.T) {
	w := newWorld(t)
	var browsers []*browser
	for _, h := range []string{"one", "two", "three"} {
		w.addUser(h, account.FlagAdmin)
		browsers = append(browsers, w.signedIn(h))
	}
	got := parallel(3, func(i int) int {
		return browsers[i].call("DELETE", "/api/me", map[string]string{"password": password}).status
	})
	if got[204] != 2 || got[409] != 1 {
		t.Fatalf("%v", got)
	}
}

func TestExportHoldsEverythingButSecrets(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada", account.FlagActivity)
	b := w.signedIn("ada")
	b.call("PUT", "/api/me/prefs", map[string]string{"units": "metric"}).is(200)
	code := b.call("POST", "/api/invites", map[string]string{"note": "for Bob"}).is(201).json()["code"].(string)
	a := b.call("GET", "/api/me/export", nil).is(200).shows(code, "for Bob", `"units":"metric"`, "192.0.2.1", w.user("ada").Sub)
	a.hides("argon2id", w.user("ada").PasswordHash, b.cookies["cairn_session"])
	if !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%v", a.header)
	}
	for _, member := range []string{"user", "preferences", "sessions", "apps", "invites"} {
		if a.json()[member] == nil {
			t.Errorf("no %s", member)
		}
	}
	w.browser().call("GET", "/api/me/export", nil).is(401, "not_authenticated")
}

// What another process has changed is seen soon, by the clock that the service was given.
func TestSettingsOfAnotherProcessAreSeenSoon(t *testing.T) {
	w := newWorld(t)
	closed := func() bool { return !strings.Contains(w.browser().page("/register/").is(200).body, `name="code"`) }
	if closed() {
		t.Fatal("closed from the beginning")
	}
	state := account.RegistrationClosed
	command := account.NewAdministration(w.store, w.clock.Now)
	if _, err := command.ChangeSettings(t.Context(), account.Operator(), account.SettingsChange{"registration": state}); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(2 * time.Second)
	if !closed() {
		t.Error("still open two seconds later")
	}
}

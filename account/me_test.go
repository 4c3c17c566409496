package account_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/provider"
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

func TestUserChangesOnlyTheirProfile(t *testing.T) {
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
	here.call("PUT", "/api/me/password", in("wrong", newPassword)).is(401, "invalid_credentials").hides("handle")
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
	// Stronger parameters than the service's: the check hashes again,
	// and the change must then replace the new one.
	strong, err := passwords.NewHasher()
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

func TestPreferencesMergeAndNullDeletes(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("eve")
	b := w.signedIn("ada")
	for _, step := range []struct{ in, want string }{
		{`{}`, `{}`}, {`{"a":"1","Map.Style/x~y":"Ä\n2"}`, `{"Map.Style/x~y":"Ä\n2","a":"1"}`}, {`{"a":"","A":"2"}`, `{"A":"2","Map.Style/x~y":"Ä\n2","a":""}`},
		{`{"a":null,"nothing":null}`, `{"A":"2","Map.Style/x~y":"Ä\n2"}`},
	} {
		if got := strings.TrimSpace(b.send("PUT", "/api/me/prefs", "application/json", step.in).is(200).body); got != step.want {
			t.Errorf("%s: got %s, want %s", step.in, got, step.want)
		}
		if got := strings.TrimSpace(b.call("GET", "/api/me/prefs", nil).is(200).body); got != step.want {
			t.Errorf("%s: stored %s", step.in, got)
		}
	}
	if got := strings.TrimSpace(w.signedIn("eve").call("GET", "/api/me/prefs", nil).body); got != "{}" {
		t.Errorf("another user sees %s", got)
	}
	w.browser().call("GET", "/api/me/prefs", nil).is(401, "not_authenticated")
}

func TestPreferencesBeyondTheirBoundsChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	long := strings.Repeat("k", 64)
	b.call("PUT", "/api/me/prefs", map[string]string{long: strings.Repeat("v", 4096)}).is(200)
	for name, body := range map[string]string{
		"long key": `{"good":"1","` + long + `x":"1"}`, "long key in bytes": `{"` + strings.Repeat("ü", 33) + `":"1"}`, "blank key": `{"":"1"}`,
		"long value": `{"good":"1","a":"` + strings.Repeat("v", 4097) + `"}`, "long value in bytes": `{"a":"` + strings.Repeat("ü", 2049) + `"}`,
		"number": `{"a":1}`, "bool": `{"a":true}`, "object": `{"a":{"b":"c"}}`, "array": `{"a":["b"]}`, "control key": `{"a\u0001":"1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b.send("PUT", "/api/me/prefs", "application/json", body).is(400, "invalid_preference")
		})
	}
	p := b.send("PUT", "/api/me/prefs", "application/json", `{"a/b~c":1}`).is(400).json()
	if p["errors"].([]any)[0].(map[string]any)["pointer"] != "/a~1b~0c" {
		t.Errorf("%v", p)
	}
	b.send("PUT", "/api/me/prefs", "application/json", `{"a":"1","a":"2"}`).is(400, "invalid_request")
	many := map[string]string{}
	for i := range 99 {
		many[fmt.Sprint("key", i)] = "v"
	}
	b.call("PUT", "/api/me/prefs", many).is(200) // with the long one: 100
	b.call("PUT", "/api/me/prefs", map[string]any{"one more": "v"}).is(400, "invalid_preference")
	b.call("PUT", "/api/me/prefs", map[string]any{"one more": "v", "key0": nil}).is(200)
	if n := len(b.call("GET", "/api/me/prefs", nil).json()); n != 100 {
		t.Errorf("%d preferences", n)
	}
}

// clients is the part of the store that package provider sees.
type clients interface {
	CreateClient(ctx context.Context, c *provider.Client) error
	SaveConsent(ctx context.Context, sub, clientID string, scopes []string, now time.Time, a account.Audit, refused ...string) error
}

func TestUserEndsOnlyTheirOwnAppAccess(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.addUser("ada"), w.addUser("eve")
	store := w.store.(clients)
	c := &provider.Client{ID: "maps", Name: "Maps <b>", RedirectURIs: []string{"https://maps.example.org/cb"}, Scopes: []string{"openid", "profile"}, AuthMethod: provider.AuthNone, CreatedAt: w.clock.Now()}
	if err := store.CreateClient(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{ada.Sub, eve.Sub} {
		if err := store.SaveConsent(t.Context(), sub, "maps", []string{"openid", "profile"}, w.clock.Now(), account.Operator().Audit(w.clock.Now(), "app.allow", "", "")); err != nil {
			t.Fatal(err)
		}
	}
	a, e := w.signedIn("ada"), w.signedIn("eve")
	granted := w.clock.Now().Format(time.RFC3339)
	want := `{"apps":[{"client_id":"maps","client_name":"Maps \u003cb\u003e","scopes":["openid","profile"],"granted_at":"` + granted + `","last_used_at":null}]}`
	if got := strings.TrimSpace(a.call("GET", "/api/me/apps", nil).is(200).body); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a.page("/account/apps").shows(`data-app="maps"`, "Maps &lt;b&gt;")
	a.call("DELETE", "/api/me/apps/MAPS", nil).is(404, "app_not_found")
	a.call("DELETE", "/api/me/apps/maps", nil).is(204)
	a.call("DELETE", "/api/me/apps/maps", nil).is(404, "app_not_found")
	e.call("GET", "/api/me/apps", nil).shows(`"maps"`)
	e.call("GET", "/api/me/export", nil).shows(`"maps"`)
	e.page("/account/apps/remove", "client_id", "maps").redirectsTo("/account/apps?notice=app-removed#apps")
	e.call("GET", "/api/me/apps", nil).shows(`{"apps":[]}`)
}

func TestWhatCannotBeAnAppIsNone(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	b.call("GET", "/api/me/apps", nil).is(200).shows(`{"apps":[]}`)
	for _, id := range []string{"x", "%00", "%20", "a%0Ab", "%ff", strings.Repeat("x", 300)} {
		b.call("DELETE", "/api/me/apps/"+id, nil).is(404, "app_not_found")
	}
	w.browser().call("GET", "/api/me/apps", nil).is(401, "not_authenticated")
	w.browser().call("DELETE", "/api/me/apps/x", nil).is(401, "not_authenticated")
}

// pagedInvites has many invites and notes how they are read; it fails at a page.
type pagedInvites struct {
	account.Store
	left, failAt, pages, largest int
	last                         account.InvitePlace
}

func (p *pagedInvites) Invites(_ context.Context, q account.InviteQuery) ([]account.Invite, error) {
	p.pages++
	p.largest = max(p.largest, q.Limit)
	if p.pages == p.failAt || q.After != p.last {
		return nil, errors.Join(account.ErrUnavailable, errors.New("no such page"))
	}
	var out []account.Invite
	for range min(q.Limit, p.left) {
		i, err := account.NewInvite(q.Sub, `a note with "invites":[]`, p.last.CreatedAt)
		if err != nil {
			return nil, err
		}
		out, p.last = append(out, i), i.Place()
	}
	p.left -= len(out)
	return out, nil
}

// Lists without a bound are written page by page, and what fails on the way is never
// taken for a whole document.
func TestLongListsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, path := range []string{"/api/me/export", "/api/invites"} {
		for _, failAt := range []int{0, 1, 3} {
			w := newWorld(t)
			w.addUser("root1", account.FlagAdmin)
			b := w.signedIn("root1")
			invites := &pagedInvites{Store: w.store, left: 1001, failAt: failAt}
			w.start(func(o *account.Options) { o.Store = invites })
			var a *answer
			aborted := func() (v any) {
				defer func() { v = recover() }()
				a = b.call("GET", path, nil)
				return nil
			}()
			switch {
			case failAt == 1:
				a.is(http.StatusServiceUnavailable, "unavailable")
			case failAt > 1:
				if aborted != http.ErrAbortHandler {
					t.Errorf("%s: an answer that failed on the way ended with %v", path, aborted)
				}
			case len(a.is(200).json()["invites"].([]any)) != 1001 || invites.pages < 3 || invites.largest > 500:
				t.Errorf("%s: %d pages of up to %d", path, invites.pages, invites.largest)
			}
		}
	}
}

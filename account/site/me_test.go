package site_test

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
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/accounttest"
)

func TestMeTellsExactlyWhatTheContractSays(t *testing.T) {
	w := accounttest.New(t)
	u := w.AddUser("ada", account.FlagActivity)
	b := w.SignedIn("ada")
	a := b.Call("GET", "/api/me", nil).Is(200)
	m := a.JSON()
	s := m["session"].(map[string]any)
	if len(m) != 11 || m["email_pending"] != "" || m["ends_at"] != nil || len(m["flag_ends"].(map[string]any)) != 0 ||
		len(s) != 3 || m["sub"] != u.Sub || m["handle"] != "ada" || m["display_name"] != "Ada" || m["email"] != "" ||
		m["email_verified"] != false ||
		m["created_at"] != w.Clock.Now().Format(time.RFC3339) || s["expires_at"] != w.Clock.Now().Add(30*24*time.Hour).Format(time.RFC3339) {
		t.Errorf("%s", a.Body)
	}
	if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", a.Header)
	}
	w.Browser().Call("GET", "/api/me", nil).Is(401, "not_authenticated")
}

func TestProfileChanges(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	m := b.Call("PATCH", "/api/me", map[string]string{"display_name": " Ada L ", "email": "ada@example.org"}).Is(200).JSON()
	if m["display_name"] != "Ada L" || m["email"] != "ada@example.org" || m["email_verified"] != false || m["session"] == nil {
		t.Errorf("%v", m)
	}
	b.Send("PATCH", "/api/me", "application/json", `{}`).Is(200)
	if u := w.User("ada"); u.DisplayName != "Ada L" || u.Email != "ada@example.org" {
		t.Errorf("an empty change changed %+v", u)
	}
	b.Send("PATCH", "/api/me", "application/json", `{"email":null}`).Is(200)
	if u := w.User("ada"); u.Email != "" || u.DisplayName != "Ada L" {
		t.Errorf("%+v", u)
	}
	a := b.Call("PATCH", "/api/me", map[string]string{"display_name": "", "email": "nobody"}).Is(400, "invalid_display_name")
	errs := a.JSON()["errors"].([]any)
	if len(errs) != 2 || errs[0].(map[string]any)["pointer"] != "/display_name" || errs[1].(map[string]any)["pointer"] != "/email" {
		t.Errorf("%v", errs)
	}
	b.Call("PATCH", "/api/me", map[string]string{"email": "a b@example.org"}).Is(400, "invalid_email")
	b.Send("PATCH", "/api/me", "application/json", `{"display_name":null}`).Is(400, "invalid_display_name")
	for _, other := range []string{ // what a person does not say about themselves
		`"flags":{"admin":true}`, `"admin":true`, `"handle":"eve"`, `"sub":"x"`, `"email_verified":true`, `"suspended_at":null`, `"password_hash":"x"`, `"Display_Name":"x"`, `"keep_other_sessions":1`, `"remove_factors":"totp"`,
	} {
		b.Send("PATCH", "/api/me", "application/json", "{"+other+"}").Is(400, "invalid_request")
	}
}

func TestPasswordChangeEndsTheOtherSessions(t *testing.T) {
	w := accounttest.With(t, "ada")
	here, there := w.SignedIn("ada"), w.SignedIn("ada")
	code := w.ResetCode("ada")
	in := func(current, next string) map[string]string {
		return map[string]string{"current_password": current, "new_password": next}
	}
	here.Call("PUT", "/api/me/password", in("wrong", newPassword)).Is(401, "invalid_credentials").Hides("handle")
	here.Call("PUT", "/api/me/password", in("wrong", "short")).Is(401, "invalid_credentials")
	weak := here.Call("PUT", "/api/me/password", in(password, "short")).Is(400, "weak_password").JSON()
	same(t, weak, weak["errors"].([]any)[0].(map[string]any)["pointer"], "/new_password")
	if !there.IsSignedIn() {
		t.Fatal("a refused change ended a session")
	}
	here.Call("PUT", "/api/me/password", in(password, newPassword)).Is(200)
	if !here.IsSignedIn() || there.IsSignedIn() {
		t.Error("the wrong session ended")
	}
	w.Browser().Login("ada", password).Is(401)
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, password)).Is(400, "invalid_reset_code")
	w.Browser().Call("PUT", "/api/me/password", in(newPassword, password)).Is(401, "not_authenticated")
	long := strings.Repeat("a walk, ", 16) // 128 characters, and each counts
	here.Call("PUT", "/api/me/password", in(newPassword, long)).Is(200)
	for _, cut := range []string{long[:72], long[:72] + strings.Repeat("x", 56), long[:127]} {
		w.Browser().Login("ada", cut).Is(401, "invalid_credentials")
	}
	w.Browser().Login("ada", long).Is(200)
}

func TestAnOldHashDoesNotBlockAPasswordChange(t *testing.T) {
	w := accounttest.New(t)
	u := w.AddUser("ada")
	b := w.SignedIn("ada")
	// Stronger parameters than the service's: the check hashes again,
	// and the change must then replace the new one.
	strong, err := passwords.NewHasher()
	must(t, err)
	hash, err := strong.Hash(t.Context(), password)
	must(t, err)
	must(t, w.Store.UpgradeHash(t.Context(), u.Sub, u.PasswordHash, hash))
	b.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
	w.Browser().Login("ada", newPassword).Is(200)
}

func TestPasswordsCannotBeGuessedThroughASession(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitLogin: {Count: 10, Window: 15 * time.Minute}}))
	b := w.Member("ada")
	for i := range 10 {
		if i%2 == 0 {
			b.Call("PUT", "/api/me/password", map[string]string{"current_password": "wrong", "new_password": newPassword}).Is(401)
		} else {
			b.Call("DELETE", "/api/me", map[string]string{"password": "wrong"}).Is(401)
		}
	}
	b.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(429, "rate_limited")
	b.Call("DELETE", "/api/me", map[string]string{"password": password}).Is(429, "rate_limited")
}

func TestDeletingOnesAccount(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("root1", account.FlagAdmin)
	u := w.AddUser("ada")
	here, there := w.SignedIn("ada"), w.SignedIn("ada")
	here.Call("DELETE", "/api/me", nil).Is(415)
	here.Call("DELETE", "/api/me", map[string]string{"password": "wrong"}).Is(401, "invalid_credentials")
	if w.User("ada").Sub != u.Sub {
		t.Fatal("gone")
	}
	// There is no second factor to prove.
	a := here.Call("DELETE", "/api/me", map[string]string{"password": password, "otp": "123456"}).Is(204)
	if len(a.SetCookies) != 1 || a.SetCookies[0].MaxAge >= 0 || a.Body != "" {
		t.Errorf("%v %q", a.SetCookies, a.Body)
	}
	if there.IsSignedIn() {
		t.Error("a session outlived its user")
	}
	w.Browser().Login("ada", password).Is(401, "invalid_credentials")
	w.Browser().Call("POST", "/api/register", registration(w.Invite().Code, "ada")).Is(409, "handle_taken")
}

func TestExportHoldsEverythingButSecrets(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada", account.FlagActivity)
	b.Call("PUT", "/api/me/prefs", map[string]string{"units": "metric"}).Is(200)
	code := b.Call("POST", "/api/invites", map[string]string{"note": "for Bob"}).Is(201).JSON()["code"].(string)
	a := b.Call("GET", "/api/me/export", nil).Is(200).Shows(code, "for Bob", `"units":"metric"`, "192.0.2.1", w.User("ada").Sub)
	a.Hides("argon2id", w.User("ada").PasswordHash, b.Cookies["cairn_session"])
	if !strings.HasPrefix(a.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%v", a.Header)
	}
	for _, member := range []string{"user", "preferences", "sessions", "apps", "invites"} {
		if a.JSON()[member] == nil {
			t.Errorf("no %s", member)
		}
	}
	w.Browser().Call("GET", "/api/me/export", nil).Is(401, "not_authenticated")
}

// What another process has changed is seen soon, by the clock that the service was given.
func TestSettingsOfAnotherProcessAreSeenSoon(t *testing.T) {
	w := accounttest.New(t)
	closed := func() bool { return !strings.Contains(w.Browser().Page("/register/").Is(200).Body, `name="code"`) }
	if closed() {
		t.Fatal("closed from the beginning")
	}
	state := account.RegistrationClosed
	command := roster.NewAdministration(w.Store, w.Clock.Now)
	_, err := command.ChangeSettings(t.Context(), account.Operator(), account.SettingsChange{"registration": state})
	must(t, err)
	w.Clock.Advance(2 * time.Second)
	if !closed() {
		t.Error("still open two seconds later")
	}
}

func TestPreferencesMergeAndNullDeletes(t *testing.T) {
	w := accounttest.With(t, "ada", "eve")
	b := w.SignedIn("ada")
	for _, step := range []struct{ in, want string }{
		{`{}`, `{}`}, {`{"a":"1","Map.Style/x~y":"Ä\n2"}`, `{"Map.Style/x~y":"Ä\n2","a":"1"}`}, {`{"a":"","A":"2"}`, `{"A":"2","Map.Style/x~y":"Ä\n2","a":""}`},
		{`{"a":null,"nothing":null}`, `{"A":"2","Map.Style/x~y":"Ä\n2"}`},
	} {
		same(t, step.in,
			strings.TrimSpace(b.Send("PUT", "/api/me/prefs", "application/json", step.in).Is(200).Body), step.want)
		same(t, fmt.Sprintf("%s: stored", step.in),
			strings.TrimSpace(b.Call("GET", "/api/me/prefs", nil).Is(200).Body), step.want)
	}
	same(t, "another user sees", strings.TrimSpace(w.SignedIn("eve").Call("GET", "/api/me/prefs", nil).Body), "{}")
	w.Browser().Call("GET", "/api/me/prefs", nil).Is(401, "not_authenticated")
}

func TestPreferencesBeyondTheirBoundsChangeNothing(t *testing.T) {
	_, b := accounttest.SignedIn(t, "ada")
	long := strings.Repeat("k", 64)
	b.Call("PUT", "/api/me/prefs", map[string]string{long: strings.Repeat("v", 4096)}).Is(200)
	for name, body := range map[string]string{
		"long key": `{"good":"1","` + long + `x":"1"}`, "long key in bytes": `{"` + strings.Repeat("ü", 33) + `":"1"}`, "blank key": `{"":"1"}`,
		"long value": `{"good":"1","a":"` + strings.Repeat("v", 4097) + `"}`, "long value in bytes": `{"a":"` + strings.Repeat("ü", 2049) + `"}`,
		"number": `{"a":1}`, "bool": `{"a":true}`, "object": `{"a":{"b":"c"}}`, "array": `{"a":["b"]}`, "control key": `{"a\u0001":"1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b.Send("PUT", "/api/me/prefs", "application/json", body).Is(400, "invalid_preference")
		})
	}
	p := b.Send("PUT", "/api/me/prefs", "application/json", `{"a/b~c":1}`).Is(400).JSON()
	same(t, p, p["errors"].([]any)[0].(map[string]any)["pointer"], "/a~1b~0c")
	b.Send("PUT", "/api/me/prefs", "application/json", `{"a":"1","a":"2"}`).Is(400, "invalid_request")
	many := map[string]string{}
	for i := range 99 {
		many[fmt.Sprint("key", i)] = "v"
	}
	b.Call("PUT", "/api/me/prefs", many).Is(200) // with the long one: 100
	b.Call("PUT", "/api/me/prefs", map[string]any{"one more": "v"}).Is(400, "invalid_preference")
	b.Call("PUT", "/api/me/prefs", map[string]any{"one more": "v", "key0": nil}).Is(200)
	same(t, "preferences", len(b.Call("GET", "/api/me/prefs", nil).JSON()), 100)
}

// clients is the part of the store that package provider sees.
type clients interface {
	CreateClient(ctx context.Context, c *provider.Client, audit account.Audit) error
	SaveConsent(ctx context.Context, sub, clientID string, scopes []string, now time.Time, a account.Audit,
		refused ...string) error
}

func TestUserEndsOnlyTheirOwnAppAccess(t *testing.T) {
	w := accounttest.New(t)
	ada, eve := w.AddUser("ada"), w.AddUser("eve")
	store := w.Store.(clients)
	c := &provider.Client{ID: "maps", Name: "Maps <b>", RedirectURIs: []string{"https://maps.example.org/cb"}, Scopes: []string{"openid", "profile"}, AuthMethod: provider.AuthNone, CreatedAt: w.Clock.Now()}
	must(t, store.CreateClient(t.Context(), c, account.Operator().Audit(time.Now(), account.RegisterClient, "", "")))
	for _, sub := range []string{ada.Sub, eve.Sub} {
		must(t, store.SaveConsent(t.Context(), sub, "maps", []string{"openid", "profile"}, w.Clock.Now(), account.Operator().Audit(w.Clock.Now(), account.AllowApp, "", "")))
	}
	a, e := w.SignedIn("ada"), w.SignedIn("eve")
	granted := w.Clock.Now().Format(time.RFC3339)
	want := `{"apps":[{"client_id":"maps","client_name":"Maps \u003cb\u003e","scopes":["openid","profile"],"granted_at":"` + granted + `","last_used_at":null}]}`
	same(t, "Body", strings.TrimSpace(a.Call("GET", "/api/me/apps", nil).Is(200).Body), want)
	a.Page("/account/apps").Shows(`data-app="maps"`, "Maps &lt;b&gt;")
	a.Call("DELETE", "/api/me/apps/MAPS", nil).Is(404, "app_not_found")
	a.Call("DELETE", "/api/me/apps/maps", nil).Is(204)
	a.Call("DELETE", "/api/me/apps/maps", nil).Is(404, "app_not_found")
	e.Call("GET", "/api/me/apps", nil).Shows(`"maps"`)
	e.Call("GET", "/api/me/export", nil).Shows(`"maps"`)
	e.Page("/account/apps/remove", "client_id", "maps").Is(200).Shows("Remove the access of Maps &lt;b&gt; to your " +
		"account?")
	e.Call("GET", "/api/me/apps", nil).Shows(`"maps"`)
	e.Page("/account/apps/remove", "client_id", "maps", "sure", "yes").RedirectsTo("/account/apps?notice=app-removed#apps")
	e.Call("GET", "/api/me/apps", nil).Shows(`{"apps":[]}`)
}

func TestWhatCannotBeAnAppIsNone(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	b.Call("GET", "/api/me/apps", nil).Is(200).Shows(`{"apps":[]}`)
	for _, id := range []string{"x", "%00", "%20", "a%0Ab", "%ff", strings.Repeat("x", 300)} {
		b.Call("DELETE", "/api/me/apps/"+id, nil).Is(404, "app_not_found")
	}
	w.Browser().Call("GET", "/api/me/apps", nil).Is(401, "not_authenticated")
	w.Browser().Call("DELETE", "/api/me/apps/x", nil).Is(401, "not_authenticated")
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
			w, b := accounttest.SignedIn(t, "root1", account.FlagAdmin)
			invites := &pagedInvites{Store: w.Store, left: 1001, failAt: failAt}
			w.Start(func(o *accounttest.Options) { o.Store = invites })
			var a *accounttest.Answer
			aborted := func() (v any) {
				defer func() { v = recover() }()
				a = b.Call("GET", path, nil)
				return nil
			}()
			switch {
			case failAt == 1:
				a.Is(http.StatusServiceUnavailable, "unavailable")
			case failAt > 1:
				if aborted != http.ErrAbortHandler {
					t.Errorf("%s: an answer that failed on the way ended with %v", path, aborted)
				}
			case len(a.Is(200).JSON()["invites"].([]any)) != 1001 || invites.pages < 3 || invites.largest > 500:
				t.Errorf("%s: %d pages of up to %d", path, invites.pages, invites.largest)
			}
		}
	}
}

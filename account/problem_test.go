package account_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestProblemBodiesAreAsClientsKnowThem(t *testing.T) {
	w := newWorld(t, withLimits(map[string]web.Rate{web.LimitResetAccount: {Count: 1, Window: 30 * time.Second}}))
	w.addUser("ada", account.FlagAdmin)
	w.addUser("sus")
	w.suspend("sus")
	ada, nobody := w.signedIn("ada"), w.browser()
	open := w.invite().Code
	w.addProtected("pia")
	nobody.call("POST", "/api/auth/reset-password", reset("limited", "0", "x"))
	for name, a := range map[string]*answer{
		"not_authenticated":      nobody.call("GET", "/api/me", nil),
		"invalid_credentials":    nobody.login("ada", "wrong"),
		"account_suspended":      nobody.login("sus", password),
		"second_factor_required": nobody.login("pia", password),
		"invalid_invite":         nobody.call("POST", "/api/register", registration("0", "bob")),
		"invalid_handle":         nobody.call("POST", "/api/register", registration(open, "-")),
		"handle_taken":           nobody.call("POST", "/api/register", registration(open, "ada")),
		"weak_password":          nobody.call("POST", "/api/register", map[string]string{"code": open, "handle": "bob", "password": "short"}),
		"invalid_reset_code":     nobody.call("POST", "/api/auth/reset-password", reset("ada", "0", "x")),
		"rate_limited":           nobody.call("POST", "/api/auth/reset-password", reset("limited", "0", "x")),
		"invalid_profile":        ada.call("PATCH", "/api/me", map[string]string{"display_name": "", "email": "x"}),
		"invalid_preference":     ada.call("PUT", "/api/me/prefs", map[string]any{"a": 1}),
		"invite_not_found":       ada.call("DELETE", "/api/invites/0", nil),
		"session_not_found":      ada.call("DELETE", "/api/me/sessions/0", nil),
		"app_not_found":          ada.call("DELETE", "/api/me/apps/0", nil),
		"last_admin":             ada.call("DELETE", "/api/me", map[string]string{"password": password}),
		"method_not_allowed":     ada.call("POST", "/api/me", nil),
		"unsupported_media_type": ada.send("PATCH", "/api/me", "text/plain", "{}"),
		"too_large":              ada.call("PATCH", "/api/me", map[string]string{"email": strings.Repeat("x", web.MaxBody)}),
		"unknown_member":         ada.call("PATCH", "/api/me", map[string]string{"role": "admin"}),
		"wrong_type":             ada.call("PATCH", "/api/me", map[string]any{"email": 1}),
	} {
		if a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Cache-Control") != "no-store" || a.json()["request_id"] != "req-1" {
			t.Errorf("%s: %v", name, a.header)
		}
		if a.json()["status"] != float64(a.status) {
			t.Errorf("%s: status %d, body %s", name, a.status, a.body)
		}
		golden(t, name, a.body)
	}
}

// golden compares with testdata/NAME.json.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // world-readable
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s:\n%s", name, d)
	}
}

// away is a store whose database does not answer.
type away struct {
	account.Store
	down bool
}

var errSQL = errors.New(`pq: relation "users" at 10.0.0.7 refused`)

func (a *away) err() error {
	if a.down {
		return fmt.Errorf("query: %w: %w", account.ErrUnavailable, errSQL)
	}
	return nil
}

func (a *away) Session(ctx context.Context, id string) (account.Session, account.User, error) {
	if err := a.err(); err != nil {
		return account.Session{}, account.User{}, err
	}
	return a.Store.Session(ctx, id)
}

func (a *away) UserByHandle(ctx context.Context, handle string) (account.User, error) {
	if err := a.err(); err != nil {
		return account.User{}, err
	}
	return a.Store.UserByHandle(ctx, handle)
}

func (a *away) Invite(ctx context.Context, code string) (account.Invite, error) {
	if err := a.err(); err != nil {
		return account.Invite{}, err
	}
	return a.Store.Invite(ctx, code)
}

func (a *away) ResetCodeValid(ctx context.Context, handle string, hash []byte, now time.Time) (bool, error) {
	if err := a.err(); err != nil {
		return false, err
	}
	return a.Store.ResetCodeValid(ctx, handle, hash, now)
}

func TestDatabaseFailureIsNotAnAnswerAboutUsers(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	store := &away{Store: w.store}
	w.store = store
	var log bytes.Buffer
	w.start(withLog(&log))
	b := w.signedIn("ada")
	code := w.invite().Code
	store.down = true
	for name, a := range map[string]*answer{
		"me": b.call("GET", "/api/me", nil), "login": w.browser().login("ada", password), "register": w.browser().call("POST", "/api/register", registration(code, "bob")),
		"reset":  w.browser().call("POST", "/api/auth/reset-password", reset("ada", strings.Repeat("0", 26), newPassword)),
		"logout": b.call("POST", "/api/auth/logout", nil),
	} {
		a.is(503, "unavailable").hides("pq:", "10.0.0.7")
		if a.header.Get("Retry-After") == "" || len(a.set) != 0 {
			t.Errorf("%s: %v", name, a.header)
		}
	}
	for _, a := range []*answer{
		b.page("/account/"), w.browser().page("/login/", "handle", "ada", "password", password), w.browser().page("/register/?code=" + code),
		w.browser().page("/register/", "code", code, "handle", "bob", "password", password),
		w.browser().page("/reset-password/", "handle", "ada", "code", strings.Repeat("0", 26), "password", newPassword),
	} {
		if a.status != 503 {
			t.Errorf("page: %d", a.status)
		}
		a.shows(`data-page="error"`).hides("pq:", password)
	}
	if !strings.Contains(log.String(), "10.0.0.7") || strings.Contains(log.String(), password) || strings.Contains(log.String(), code) {
		t.Errorf("log: %s", log.String())
	}
	store.down = false
	if !b.isSignedIn() {
		t.Error("the outage ended a session")
	}
}

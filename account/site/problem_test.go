package site_test

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

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestProblemBodiesAreAsClientsKnowThem(t *testing.T) {
	w := accounttest.New(t,
		withLimits(map[string]web.Rate{web.LimitResetAccount: {Count: 1, Window: 30 * time.Second}}))
	w.AddUser("ada", account.FlagAdmin)
	w.AddUser("sus")
	w.Suspend("sus")
	ada, nobody := w.SignedIn("ada"), w.Browser()
	open := w.Invite().Code
	addProtected(w, "pia")
	nobody.Call("POST", "/api/auth/reset-password", reset("limited", "0", "x"))
	for name, a := range map[string]*accounttest.Answer{
		"not_authenticated":      nobody.Call("GET", "/api/me", nil),
		"invalid_credentials":    nobody.Login("ada", "wrong"),
		"account_suspended":      nobody.Login("sus", password),
		"second_factor_required": nobody.Login("pia", password),
		"invalid_invite":         nobody.Call("POST", "/api/register", registration("0", "bob")),
		"invalid_handle":         nobody.Call("POST", "/api/register", registration(open, "-")),
		"handle_taken":           nobody.Call("POST", "/api/register", registration(open, "ada")),
		"weak_password":          nobody.Call("POST", "/api/register", map[string]string{"code": open, "handle": "bob", "password": "short"}),
		"invalid_reset_code":     nobody.Call("POST", "/api/auth/reset-password", reset("ada", "0", "x")),
		"rate_limited":           nobody.Call("POST", "/api/auth/reset-password", reset("limited", "0", "x")),
		"invalid_profile":        ada.Call("PATCH", "/api/me", map[string]string{"display_name": "", "email": "x"}),
		"invalid_preference":     ada.Call("PUT", "/api/me/prefs", map[string]any{"a": 1}),
		"invite_not_found":       ada.Call("DELETE", "/api/invites/0", nil),
		"session_not_found":      ada.Call("DELETE", "/api/me/sessions/0", nil),
		"app_not_found":          ada.Call("DELETE", "/api/me/apps/0", nil),
		"last_admin":             ada.Call("DELETE", "/api/me", map[string]string{"password": password}),
		"method_not_allowed":     ada.Call("POST", "/api/me", nil),
		"unsupported_media_type": ada.Send("PATCH", "/api/me", "text/plain", "{}"),
		"too_large":              ada.Call("PATCH", "/api/me", map[string]string{"email": strings.Repeat("x", web.MaxBody)}),
		"unknown_member":         ada.Call("PATCH", "/api/me", map[string]string{"role": "admin"}),
		"wrong_type":             ada.Call("PATCH", "/api/me", map[string]any{"email": 1}),
	} {
		if a.Header.Get("Content-Type") != "application/problem+json" || a.Header.Get("Cache-Control") != "no-store" || a.JSON()["request_id"] != "req-1" {
			t.Errorf("%s: %v", name, a.Header)
		}
		if a.JSON()["status"] != float64(a.Status) {
			t.Errorf("%s: status %d, body %s", name, a.Status, a.Body)
		}
		golden(t, name, a.Body)
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
	must(t, err)
	equal(t, name, got, string(want))
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
	w := accounttest.With(t, "ada")
	store := &away{Store: w.Store}
	w.Store = store
	var log bytes.Buffer
	w.Start(withLog(&log))
	b := w.SignedIn("ada")
	code := w.Invite().Code
	store.down = true
	for name, a := range map[string]*accounttest.Answer{
		"me": b.Call("GET", "/api/me", nil), "login": w.Browser().Login("ada", password), "register": w.Browser().Call("POST", "/api/register", registration(code, "bob")),
		"reset":  w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", strings.Repeat("0", 26), newPassword)),
		"logout": b.Call("POST", "/api/auth/logout", nil),
	} {
		a.Is(503, "unavailable").Hides("pq:", "10.0.0.7")
		if a.Header.Get("Retry-After") == "" || len(a.SetCookies) != 0 {
			t.Errorf("%s: %v", name, a.Header)
		}
	}
	for _, a := range []*accounttest.Answer{
		b.Page("/account/"), w.Browser().Page("/login/", "handle", "ada", "password", password), w.Browser().Page("/register/?code=" + code),
		w.Browser().Page("/register/", "code", code, "handle", "bob", "password", password),
		w.Browser().Page("/reset-password/", "handle", "ada", "code", strings.Repeat("0", 26), "password", newPassword),
	} {
		same(t, "page", a.Status, 503)
		a.Shows(`data-page="error"`).Hides("pq:", password)
	}
	if !strings.Contains(log.String(), "10.0.0.7") || strings.Contains(log.String(), password) || strings.Contains(log.String(), code) {
		t.Errorf("log: %s", log.String())
	}
	store.down = false
	if !b.IsSignedIn() {
		t.Error("the outage ended a session")
	}
}

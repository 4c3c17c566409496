package httpd

import (
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A panic anywhere in the provider is a 500 without its text, and the next
// request works: no lock, no transaction stays behind.
func TestPanicNeverReachesTheClientOrTheNextRequest(t *testing.T) {
	var broken atomic.Bool
	s := startService(t, serviceOptions{Now: func() time.Time {
		// In a request alone: what runs beside them has the same clock, and so has the error page.
		if broken.Load() {
			if stack := string(debug.Stack()); strings.Contains(stack, "net/http.(*conn).serve") && !strings.Contains(stack, "account.(*Service).Settings") {
				panic("clock on fire")
			}
		}
		return time.Now()
	}})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	code := b.authorize(rp.authURL(), "ada").Get("code")
	broken.Store(true)
	for name, got := range map[string]response{
		"authorize": b.get(rp.authURL()), "token": s.tokenRequest("app", secret, rp.codeForm(code)), "continuation": b.get("/oauth2/authorize?continue=a.b"), "consent": b.get("/oauth2/consent?continue=a.b"),
	} {
		if got.StatusCode < 400 || got.Header.Get("Location") != "" || strings.Contains(got.Text, "on fire") || strings.Contains(got.Text, "goroutine") || strings.Contains(got.Text, ".go:") {
			t.Errorf("%s: %d %.200s", name, got.StatusCode, got.Text)
		}
	}
	broken.Store(false)
	if !strings.Contains(s.log.String(), "clock on fire") {
		t.Error("the log does not say what happened")
	}
	for range 10 {
		if got := b.authorize(rp.authURL(), "ada"); got.Get("code") == "" {
			t.Fatalf("afterwards: %v", got)
		}
	}
	_, token := s.signedInTokens(rp, "ada")
	if got := s.refreshRequest("app", secret, token.RefreshToken); got.StatusCode != http.StatusOK {
		t.Errorf("refresh afterwards: %d", got.StatusCode)
	}
}

// A second use stands in the log by name; what was revoked before, or never
// was ours, does not raise that alarm.
func TestReuseNeverGoesUnnoticed(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	secret, evil := s.addClient("app", nil), s.addClient("evil", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	events := func(name string) int { return strings.Count(s.log.String(), `"event":"`+name+`"`) }
	want := func(when string, replays, reuses int) {
		t.Helper()
		if events("code_replay") != replays || events("refresh_reuse") != reuses {
			t.Errorf("%s: %d code_replay, %d refresh_reuse, want %d and %d", when, events("code_replay"), events("refresh_reuse"), replays, reuses)
		}
	}
	code := b.authorize(rp.authURL(), "ada").Get("code")
	s.tokenRequest("app", secret, rp.codeForm(code))
	s.tokenRequest("evil", evil, rp.codeForm(code))
	s.tokenRequest("app", secret, rp.codeForm("x.y"))
	want("honest use, another client, garbage", 0, 0)
	s.tokenRequest("app", secret, rp.codeForm(code))
	want("replay", 1, 0)
	s.tokenRequest("app", secret, rp.codeForm(code))
	want("replay of what is revoked", 1, 0)
	_, token := s.signedInTokens(rp, "ada")
	second := s.refreshRequest("app", secret, token.RefreshToken).JSON(t)
	s.refreshRequest("evil", evil, token.RefreshToken)
	want("refresh, another client", 1, 0)
	s.refreshRequest("app", secret, token.RefreshToken)
	want("reuse", 1, 1)
	revoked := db.count("SELECT max(revoked_at) FROM grants")
	s.refreshRequest("app", secret, second["refresh_token"].(string))
	want("the revoked successor", 1, 1)
	if revoked == 0 || db.count("SELECT max(revoked_at) FROM grants") != revoked {
		t.Error("revoked twice, or never")
	}
}

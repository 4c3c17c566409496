package httpd

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
)

// Only an address that gave the password is known. Whoever holds a stolen
// cookie could otherwise carry it from address to address, and each would open
// the account's limit again.
func TestVisitWithStolenCookieNeverOpensTheLimitOfAnAccount(t *testing.T) {
	var minutes atomic.Int64
	start := time.Now().Truncate(15 * time.Minute) // all of it within one window of the limit
	s := startService(t, serviceOptions{
		Limits:   true,
		Settings: func(c *config.Settings) { c.TrustedProxies = []string{"127.0.0.0/8", "::1/128"} },
		Now:      func() time.Time { return start.Add(time.Duration(minutes.Load()) * time.Minute) },
	})
	s.addUser("ada")
	b := s.browser()
	b.api("POST", "/api/auth/login", map[string]string{"handle": "ada", "password": password}, "X-Forwarded-For", "198.51.100.1")
	tried := 0
	for thief := range 4 {
		minutes.Add(2)
		from := []string{"X-Forwarded-For", fmt.Sprintf("203.0.113.%d", thief+1)}
		if got := b.api("GET", "/api/me", nil, from...); got.StatusCode != http.StatusOK {
			t.Fatalf("the stolen session: %d", got.StatusCode)
		}
		for range 10 {
			got := b.api("PUT", "/api/me/password", map[string]string{"current_password": "wrong guess", "new_password": "another of 3 hills"}, from...)
			if got.StatusCode == http.StatusUnauthorized {
				tried++
			}
		}
	}
	if tried > 10 {
		t.Errorf("%d guesses, the account's limit is 10", tried)
	}
	if got := s.browser().api("POST", "/api/auth/login", map[string]string{"handle": "ada", "password": password}, "X-Forwarded-For", "198.51.100.1"); got.StatusCode != http.StatusOK {
		t.Errorf("the owner at their own address: %d %s", got.StatusCode, got.Text)
	}
}

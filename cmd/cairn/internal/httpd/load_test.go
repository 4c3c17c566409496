package httpd

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
)

// 16 clients at once through sign-in, code, token and userinfo on SQLite: not
// one 5xx, not one "database is locked". A second in the ordinary run;
// CAIRN_LOAD_SECONDS lengthens it.
func TestLoadNeverAnswers5xx(t *testing.T) {
	seconds := 1
	if v, err := strconv.Atoi(os.Getenv("CAIRN_LOAD_SECONDS")); err == nil {
		seconds = v
	}
	s := startService(t, serviceOptions{})
	secret := s.addClient("app", func(c *provider.Client) { c.Trusted = true })
	var rounds, failures atomic.Int64
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var wg sync.WaitGroup
	for i := range 16 {
		handle := "user-" + strconv.Itoa(i)
		s.addUser(handle)
		rp := s.relyingParty("app", secret)
		wg.Go(func() {
			for time.Now().Before(end) {
				b := s.browser()
				login := b.api("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password})
				answer := b.get(rp.authURL())
				_, code, _ := strings.Cut(answer.Header.Get("Location"), "code=")
				code, _, _ = strings.Cut(code, "&")
				token := s.tokenRequest("app", secret, rp.codeForm(code))
				status := []int{login.StatusCode, answer.StatusCode, token.StatusCode, 0}
				if token.StatusCode == 200 {
					status[3] = s.userinfoStatus(token.JSON(t)["access_token"].(string))
				}
				rounds.Add(1)
				if status[0] != 200 || status[1] != 303 || status[2] != 200 || status[3] != 200 {
					failures.Add(1)
					t.Errorf("statuses %v", status)
					return
				}
			}
		})
	}
	wg.Wait()
	if failures.Load() > 0 || rounds.Load() < 16 {
		t.Errorf("%d of %d rounds failed", failures.Load(), rounds.Load())
	}
	if log := s.log.String(); strings.Contains(log, "database is locked") || strings.Contains(log, `"level":"ERROR"`) {
		t.Error("the log has errors")
	}
	t.Logf("%d rounds in %d s", rounds.Load(), seconds)
}

package httpd

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// eachInstallation runs an attack with the default limits on, in both cookie
// schemes and on both databases.
func eachInstallation(t *testing.T, attack func(t *testing.T, s *service)) {
	t.Helper()
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		for _, hs256 := range []bool{true, false} {
			t.Run(map[bool]string{true: "HS256", false: "RS256"}[hs256], func(t *testing.T) {
				// The second scheme on the same database is a change of the scheme.
				attack(t, startLimited(t, dsn, hs256))
			})
		}
	})
}

// bothInstallations is eachInstallation with half the pairs: every scheme and
// every database once.
func bothInstallations(t *testing.T, attack func(t *testing.T, s *service)) {
	t.Helper()
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		attack(t, startLimited(t, dsn, !isPostgres(dsn)))
	})
}

// startLimited starts a service as an operator would, with the default limits,
// kept where they are kept on this database.
func startLimited(t *testing.T, dsn string, hs256 bool) *service {
	t.Helper()
	return startService(t, serviceOptions{HS256: hs256, Limits: true, Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn }})
}

// prefix keeps the handles apart of two services on one database.
func (s *service) prefix() string {
	if s.key == "" {
		return "hs-"
	}
	return "rs-"
}

var visitors atomic.Uint32

// visitor is a browser at an address that nobody else has.
func (s *service) visitor() *browser { return s.visitorAt(freshAddress()) }

func freshAddress() string {
	n := visitors.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", 1+n>>14&0x7f, n>>7&0x7f, 1+n&0x7f)
}

func (s *service) visitorAt(address string) *browser {
	b := s.browser()
	u, err := url.Parse(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	b.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+u.Port())
	}
	return b
}

// signedIn is a visitor who has signed in.
func (s *service) signedIn(handle string) *browser {
	s.t.Helper()
	b := s.visitor()
	b.signIn(handle)
	return b
}

func (b *browser) login(handle, password string) response {
	b.t.Helper()
	return b.api("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password})
}

// invite makes an invite of the signed-in browser.
func (b *browser) invite() string {
	b.t.Helper()
	got := b.api("POST", "/api/invites", nil)
	if got.StatusCode != http.StatusCreated {
		b.t.Fatalf("create invite: %d %s", got.StatusCode, got.Text)
	}
	return got.JSON(b.t)["code"].(string)
}

// resetCode issues a reset code for a user; the browser is an administrator's.
func (b *browser) resetCode(handle string) string {
	b.t.Helper()
	got := b.api("POST", "/api/admin/users/"+handle+"/reset-password-code", nil)
	if got.StatusCode != http.StatusCreated {
		b.t.Fatalf("issue reset code: %d %s", got.StatusCode, got.Text)
	}
	return got.JSON(b.t)["code"].(string)
}

func (b *browser) register(code, handle string) response {
	b.t.Helper()
	return b.api("POST", "/api/register", map[string]string{"code": code, "handle": handle, "password": password})
}

func (b *browser) reset(handle, code, password string) response {
	b.t.Helper()
	return b.api("POST", "/api/auth/reset-password", map[string]string{"handle": handle, "code": code, "password": password})
}

// wantProblem holds an answer to the form of a problem, its status and code.
func wantProblem(t *testing.T, what string, got response, status int, code string) {
	t.Helper()
	if got.StatusCode != status || got.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %d %s, want %d: %.200s", what, got.StatusCode, got.Header.Get("Content-Type"), status, got.Text)
		return
	}
	p := got.JSON(t)
	if p["code"] != code || p["status"] != float64(status) || p["type"] == "" || p["title"] == "" || p["detail"] == "" || p["request_id"] != got.Header.Get("X-Request-Id") {
		t.Errorf("%s: %s, want the code %s", what, got.Text, code)
	}
	if status == http.StatusTooManyRequests && got.Header.Get("Retry-After") == "" {
		t.Errorf("%s: no Retry-After", what)
	}
}

// inParallel runs f n times at the same moment and counts the answers.
func inParallel(n int, f func(i int) int) map[int]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	counts, start := map[int]int{}, make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			status := f(i)
			mu.Lock()
			defer mu.Unlock()
			counts[status]++
		})
	}
	close(start)
	wg.Wait()
	return counts
}

func userQuery(text string) account.UserQuery { return account.UserQuery{Query: text, Limit: 500} }

// exchangeBytes sends text over a connection of its own and returns all that
// comes back before the service closes it.
func exchangeBytes(t *testing.T, s *service, text string) string {
	t.Helper()
	c := s.dial()
	go func() { _, _ = io.WriteString(c, text) }() // the answer may come before all is sent
	answer, err := io.ReadAll(c)
	if err != nil && len(answer) == 0 {
		t.Errorf("%.60q: %v", text, err)
	}
	return string(answer)
}

// dial opens a connection from a fresh address that ends with the test.
func (s *service) dial() net.Conn {
	s.t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(freshAddress())}}
	c, err := d.DialContext(s.t.Context(), "tcp", "127.0.0.1:"+u.Port())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

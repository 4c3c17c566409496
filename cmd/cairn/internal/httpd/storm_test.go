package httpd

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	passwords "github.com/cairn-id/cairn/account/password"
)

// gate stops the hasher inside its slots while it is locked.
type gate struct{ sync.RWMutex }

func (g *gate) HashBegun() func() {
	g.RLock()
	defer g.RUnlock()
	return func() {}
}
func (g *gate) HashRefused() {}

func TestStormOfSignInsIsBoundedAndOthersAreServed(t *testing.T) {
	const queue, beyond = 256, 40
	h, err := passwords.NewTestHasher()
	noError(t, err)
	g := &gate{}
	h.Observer = g
	s := startService(t, serviceOptions{Hasher: h})
	s.addUser("ada")
	ada := s.signedIn("ada")
	waiting := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(4 * time.Second); ; time.Sleep(time.Millisecond) {
			if w, busy := h.Queue(); w == n && busy == passwords.HashSlots() {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%d wait and %d are busy, want %d waiting", w, busy, n)
			}
		}
	}
	g.Lock()
	open := sync.OnceFunc(g.Unlock)
	defer open()
	answers := make(chan response, 2*queue)
	var all sync.WaitGroup
	for n := range passwords.HashSlots() + 1 {
		all.Go(func() { answers <- s.browser().login([]string{"ada", "nobody"}[n%2], password) })
	}
	waiting(1)

	// Who hangs up leaves the queue.
	ctx, hangUp := context.WithCancel(t.Context())
	all.Go(func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/auth/login", strings.NewReader(`{"handle":"ada","password":"x"}`))
		if err == nil {
			r.Header.Set("Content-Type", "application/json")
			if got, err := http.DefaultClient.Do(r); err == nil {
				_ = got.Body.Close()
				t.Errorf("answered: %s", got.Status)
			}
		}
	})
	waiting(2)
	hangUp()
	waiting(1)

	// In turns, that a handle that there is and one that there is not stand the same chance.
	for n := range queue - 1 + beyond {
		all.Go(func() { answers <- s.browser().login([]string{"ada", "nobody"}[n%2], password) })
	}
	for range beyond {
		if got := <-answers; got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" || got.JSON(t)["code"] != "busy" {
			t.Fatalf("beyond the queue: %d %v %s", got.StatusCode, got.Header, got.Text)
		}
	}
	page := s.browser().postForm("/login/", url.Values{"handle": {"ada"}, "password": {password}}, "Accept", "text/html", "Accept-Language", "de")
	if page.StatusCode != http.StatusServiceUnavailable || page.Header.Get("Retry-After") == "" || !strings.Contains(page.Text, "Gerade melden sich zu viele Leute an.") {
		t.Errorf("page: %d %s", page.StatusCode, mainOf(page.Text))
	}
	for _, path := range []string{"/healthz", "/api/me", "/.well-known/openid-configuration", "/login/?fresh=choose"} {
		wantStatus(t, "in the storm", ada.get(path), http.StatusOK)
	}
	open()
	all.Wait()
	close(answers)
	count := map[int]int{}
	for got := range answers {
		count[got.StatusCode]++
		if got.StatusCode == http.StatusServiceUnavailable && got.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if count[200] == 0 || count[401] == 0 || count[200]+count[401]+count[503] != queue+passwords.HashSlots() {
		t.Errorf("after the storm: %v", count)
	}
	wantStatus(t, "after the storm", s.browser().login("ada", password), http.StatusOK)
}

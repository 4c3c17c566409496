package httpd

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/config"
)

// gate lets hashes go on, each for a value of next.
type gate struct{ next chan struct{} }

func (g gate) HashBegun() func() { <-g.next; return func() {} }
func (g gate) HashRefused()      {}

// Who sends the right password of one account from everywhere, and strangers of one network, are refused and wait for
// themselves: whoever else signs in has the next turn.
func TestStormOfSignInsIsBoundedAndOthersAreServed(t *testing.T) {
	const ofAccount, ofNetwork, beyond = 128, 128, 20
	slots := passwords.HashSlots()
	h, err := passwords.NewTestHasher()
	noError(t, err)
	g := gate{make(chan struct{})}
	h.Observer = g
	open := sync.OnceFunc(func() { close(g.next) })
	defer open()
	s := startService(t, serviceOptions{
		Hasher: h, Settings: func(c *config.Settings) { c.TrustedProxies = []string{"127.0.0.1"} },
	})
	go func() {
		for range 4 {
			g.next <- struct{}{}
		}
	}()
	for _, handle := range []string{"ada", "eve", "mallory"} {
		s.addUser(handle)
	}
	ada := s.browser()
	ada.signIn("ada")
	waiting := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if w, busy := h.Queue(); w == n && busy == slots {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%d wait and %d are busy, want %d waiting", w, busy, n)
			}
		}
	}
	login := func(address, handle, password string) response {
		in := map[string]string{"handle": handle, "password": password}
		return s.browser().api("POST", "/api/auth/login", in, "X-Forwarded-For", address)
	}
	answers := make(chan response, 400)
	var all sync.WaitGroup
	for n := range slots + ofNetwork + beyond {
		all.Go(func() {
			answers <- login(fmt.Sprintf("2001:db8:ffff:%x::1", n/9), fmt.Sprint("user", n), "a wrong password")
		})
	}
	waiting(ofNetwork)
	for n := range ofAccount {
		all.Go(func() { answers <- login(fmt.Sprintf("2001:db8:%x::1", n), "mallory", password) })
	}
	waiting(ofAccount + ofNetwork)
	for range beyond {
		got := <-answers
		if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" ||
			got.JSON(t)["code"] != "busy" {
			t.Fatalf("beyond their share of the queue: %d %v %s", got.StatusCode, got.Header, got.Text)
		}
	}
	page := s.browser().postForm("/login/", url.Values{"handle": {"mallory"}, "password": {password}},
		"X-Forwarded-For", "2001:db8::1", "Accept", "text/html", "Accept-Language", "de")
	if page.StatusCode != http.StatusServiceUnavailable || page.Header.Get("Retry-After") == "" ||
		!strings.Contains(page.Text, "Gerade melden sich zu viele Leute an.") {
		t.Errorf("page: %d %s", page.StatusCode, mainOf(page.Text))
	}
	// It sends what was typed once more, and nobody can read the password in it.
	hidden := regexp.MustCompile(`name="again" value="([\w-]+)"`).FindStringSubmatch(page.Text)
	if hidden == nil || !strings.Contains(page.Text, "data-again") || strings.Contains(page.Text, `name="password"`) {
		t.Fatalf("page: %s", mainOf(page.Text))
	}
	raw, err := base64.RawURLEncoding.DecodeString(hidden[1])
	if err != nil || strings.Contains(page.Text+string(raw), password) || strings.Contains(string(raw), "mallory") {
		t.Errorf("the page has the password, or %v", err)
	}
	again := url.Values{"again": {hidden[1]}}
	second := s.browser().postForm("/login/", again, "X-Forwarded-For", "2001:db8::1", "Accept", "text/html")
	if second.StatusCode != http.StatusServiceUnavailable || strings.Contains(second.Text, "data-again") {
		t.Errorf("the second page: %d %s", second.StatusCode, mainOf(second.Text))
	}

	// Whoever has nobody in the full queue takes the place of one who has most, and leaves it on hanging up.
	ctx, hangUp := context.WithCancel(t.Context())
	all.Go(func() {
		in := strings.NewReader(`{"handle":"ada","password":"x"}`)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/auth/login", in)
		if err == nil {
			r.Header.Set("Content-Type", "application/json")
			if got, err := http.DefaultClient.Do(r); err == nil {
				_ = got.Body.Close()
				t.Errorf("answered: %s", got.Status)
			}
		}
	})
	wantStatus(t, "one who has most", <-answers, http.StatusServiceUnavailable)
	hangUp()
	waiting(ofAccount + ofNetwork - 1)

	for range 5 {
		others, _ := h.Queue()
		done := make(chan response, 1)
		go func() { done <- login("198.51.100.7", "eve", password) }()
		waiting(others + 1)
		for turns, answered := 0, false; !answered; turns++ {
			if turns == 10*slots {
				t.Fatalf("somebody else waits for more than %d hashes", turns)
			}
			g.next <- struct{}{}
			select {
			case got := <-done:
				wantStatus(t, "somebody else", got, http.StatusOK)
				answered = true
			case <-time.After(100 * time.Millisecond): // two turns, mostly
			}
		}
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
	}
	if count[200] == 0 || count[401] == 0 || count[200]+count[401] != ofAccount+ofNetwork+slots-1 {
		t.Errorf("after the storm: %v", count)
	}
	wantStatus(t, "after the storm", s.browser().login("ada", password), http.StatusOK)
	mallory := s.browser()
	wantStatus(t, "once more", mallory.postForm("/login/", again), http.StatusSeeOther)
	wantStatus(t, "once more", mallory.get("/api/me"), http.StatusOK)
}

package httpd

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// What another process revokes is refused by the very next request, however often the
// service has verified the same cookie and token just before.
func TestRevocationByAnotherProcessWorksAtOnce(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s, other := startService(t, serviceOptions{Store: storetest.Open(t, dsn)}), storetest.Open(t, dsn)
		operators := roster.NewAdministration(other, nil)
		for _, tt := range []struct {
			what   string
			revoke func(u account.User, sid, client string) error
			// login_required in place of a code; of the client that was removed its
			// own tokens are refused, not the sign-in.
			signedOut bool
		}{
			{"ended", func(u account.User, sid, _ string) error {
				return other.EndSession(t.Context(), u.Sub, sid, time.Now(), operator(account.EndSession, u.Handle, ""))
			}, true},
			{"suspended", func(u account.User, _, _ string) error {
				return operators.Suspend(t.Context(), account.Operator(), u, "", true)
			}, true},
			{"deleted", func(u account.User, _, _ string) error { return operators.Delete(t.Context(), account.Operator(), u) }, true},
			{"removed", func(_ account.User, _, client string) error {
				return other.RemoveClient(t.Context(), client, account.Operator().Audit(time.Now(), account.RemoveClient, "", ""))
			}, false},
		} {
			u := s.addUser(tt.what)
			rp := s.app("app-"+tt.what, nil, "openid", "profile")
			b, token := s.signedInTokens(rp, u.Handle)
			use := func() (answer string, userinfo int, active any) {
				return answered(t, b.get(rp.authURL("prompt", "none"))).Get("error"), s.userinfoStatus(token.AccessToken), rp.introspect(token.AccessToken)["active"]
			}
			for range 3 {
				if answer, userinfo, active := use(); answer != "" || userinfo != http.StatusOK || active != true {
					t.Fatalf("%s, before: %q, %d, %v", tt.what, answer, userinfo, active)
				}
			}
			code := answered(t, b.get(rp.authURL("prompt", "none"))).Get("code")
			noError(t, tt.revoke(u, jwtPayload(t, b.cookie("cairn_session"))["sid"].(string), rp.config.ClientID))
			answer, userinfo, active := use()
			if (answer == "login_required") != tt.signedOut || userinfo != http.StatusUnauthorized || active != false {
				t.Errorf("%s: %q, %d, %v", tt.what, answer, userinfo, active)
			}
			if got := rp.redeem(code); got.StatusCode == http.StatusOK {
				t.Errorf("%s: the code was exchanged", tt.what)
			}
		}
	})
}

// With sign_out_on_flag_loss no cookie with a lost flag is accepted: also not that of a sign-in which
// was waiting for its turn at the hasher when the flag was taken away.
func TestSignInDuringFlagLossHasNoLostFlag(t *testing.T) {
	s := startService(t, serviceOptions{})
	ada := s.addUser("ada", "activity", "admin")
	s.addUser("bob", "admin") // not the last administrator
	admin := roster.NewAdministration(s.store, nil)
	_, err := admin.ChangeSettings(t.Context(), account.Operator(), account.SettingsChange{"sign_out_on_flag_loss": true})
	noError(t, err)

	var leave []func() // other people's hashes
	for i := range passwords.HashSlots() {
		l, err := s.hasher.Enter(t.Context(), fmt.Sprint("other", i))
		noError(t, err)
		leave = append(leave, l)
	}
	b, done := s.visitor(), make(chan struct{})
	go func() { defer close(done); b.signIn("ada") }()
	for w, _ := s.hasher.Queue(); w == 0; w, _ = s.hasher.Queue() {
		time.Sleep(time.Millisecond)
	}
	_, err = admin.SetFlags(t.Context(), account.Operator(), ada, account.FlagChange{"admin": {On: false}})
	noError(t, err)
	for _, l := range leave {
		l()
	}
	<-done

	token := b.cookie("cairn_session")
	keys := session.NewRemoteKeySet(s.URL+"/.well-known/jwks.json", session.RemoteOptions{})
	lists := session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: s.URL, Keys: keys})
	defer lists.Close()
	v := &session.Verifier{Issuer: s.URL, Keys: keys, Status: lists}
	c, err := v.Verify(t.Context(), token)
	if err == nil && slices.Contains(c.Groups, "admin") {
		t.Errorf("an application accepts, for %v, a cookie with the lost flag: groups %v", time.Until(c.ExpiresAt).Round(time.Hour), c.Groups)
	}
}

// Members write at the same time at two instances on one database: no answer is a server error.
func TestMixedWritesAreNoServerErrors(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*service{startService(t, serviceOptions{Store: storetest.Open(t, dsn)}),
			startService(t, serviceOptions{Store: storetest.Open(t, dsn)})}
		handles := []string{"ada", "bob", "carol", "dave"}
		browsers := make([]*browser, len(handles))
		for i, h := range handles {
			instances[0].addUser(h)
			browsers[i] = instances[i%2].signedIn(h)
		}
		got := inParallel(len(handles)*12, func(i int) int {
			b := browsers[i%len(handles)]
			switch i / len(handles) % 4 {
			case 0:
				return b.api("PATCH", "/api/me", map[string]string{"display_name": fmt.Sprint("name ", i)}).StatusCode
			case 1:
				return b.api("PUT", "/api/me/prefs", fmt.Sprintf(`{"k%d":"v"}`, i)).StatusCode
			case 2:
				return b.api("POST", "/api/invites", nil).StatusCode
			}
			return instances[i%2].visitor().login(handles[i%len(handles)], password).StatusCode
		})
		for status, n := range got {
			if status >= 500 || status == http.StatusUnauthorized {
				t.Errorf("%d answers of %d", n, status)
			}
		}
	})
}

// gate lets hashes go on, each for a value of next.
type gate struct{ next chan struct{} }

func (g gate) HashBegun() func() { <-g.next; return func() {} }
func (g gate) HashRefused()      {}

// gated is a hasher behind a gate, which lets one hash pass each time next is received, and all after open. A test
// defers open: the service ends before what was asked to clean up earlier, and waits for its requests.
func gated(t *testing.T) (h *passwords.Hasher, g gate, open func()) {
	t.Helper()
	h, err := passwords.NewTestHasher()
	noError(t, err)
	g = gate{make(chan struct{})}
	h.Observer = g
	return h, g, sync.OnceFunc(func() { close(g.next) })
}

// Who sends the right password of one account from everywhere, and strangers of one network, are refused and wait for
// themselves: whoever else signs in has the next turn.
func TestStormOfSignInsIsBoundedAndOthersAreServed(t *testing.T) {
	const ofAccount, ofNetwork, beyond = 128, 128, 20
	slots := passwords.HashSlots()
	h, g, open := gated(t)
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

	turns, served := 0, 0
	for range 5 {
		for len(answers) < turns-served { // what the turns were given to has not ended
			time.Sleep(time.Millisecond)
		}
		others, _ := h.Queue()
		done := make(chan response, 1)
		go func() { done <- login("198.51.100.7", "eve", password) }()
		waiting(others + 1)
		for before, answered := turns, false; !answered; turns++ {
			if turns-before == 10*slots {
				t.Fatalf("somebody else waits for more than %d hashes", turns-before)
			}
			g.next <- struct{}{}
			select {
			case got := <-done:
				wantStatus(t, "somebody else", got, http.StatusOK)
				answered = true
				served++
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

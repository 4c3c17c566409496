package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

var requestIDs = regexp.MustCompile(`"request_id":"[^"]*"|<code id="request-id">[^<]*</code>|value="[^"]*"`)

// Attack 92: the answer to a sign-in tells nothing about which handles exist.
func TestRefusedSignInIsTheSameForEveryHandle(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	s.addUser("keeper", "admin")
	for _, h := range []string{"ada", "banned", "gone"} {
		s.addUser(h)
	}
	keeper := s.signedIn("keeper")
	keeper.api("POST", "/api/admin/users/banned/suspend", nil)
	keeper.api("DELETE", "/api/admin/users/gone", nil)
	var bodies, pages, resets []string
	for _, h := range []string{"ada", "banned", "gone", "nobody", "no body", "ada\u200b", "%", "' OR 1=1 --", strings.Repeat("a", 300)} {
		b := s.visitor()
		got := b.login(h, "a wrong password")
		wantProblem(t, h, got, http.StatusUnauthorized, "invalid_credentials")
		bodies = append(bodies, alike(got))
		page := b.postForm("/login/", map[string][]string{"handle": {h}, "password": {"a wrong password"}})
		if page.StatusCode != http.StatusUnauthorized || pageName(t, page.Text) != "login" {
			t.Errorf("page for %.20q: %d", h, page.StatusCode)
		}
		pages = append(pages, alike(page))
		// Attack 125: so does the reset, also with the form of a good code.
		got = b.reset(h, "0123456789ABCDEFGHJKMNPQRS", "a new long password")
		wantProblem(t, "reset "+h, got, http.StatusBadRequest, "invalid_reset_code")
		resets = append(resets, alike(got))
	}
	for name, list := range map[string][]string{"sign-in": bodies, "page": pages, "reset": resets} {
		for i := range list {
			same(t, fmt.Sprintf("%s %d differs", name, i), list[i], list[0])
		}
	}
	// The suspension is told to who knows the password, and to nobody else.
	wantProblem(t, "suspended, right password", s.visitor().login("banned", password), http.StatusForbidden, "account_suspended")
	wantProblem(t, "deleted, right password", s.visitor().login("gone", password), http.StatusUnauthorized, "invalid_credentials")
}

// alike is an answer without what differs in every answer.
func alike(got response) string {
	h := got.Header.Clone()
	for _, name := range []string{"X-Request-Id", "Date", "Content-Length"} {
		h.Del(name)
	}
	return fmt.Sprint(got.StatusCode, h, requestIDs.ReplaceAllString(got.Text, ""))
}

// The work for a handle that nobody has, or that nobody can have, is that of a wrong
// password, and that for a hash of another system is the same: else the time would tell
// (security.md 93). The work shows in the memory of the hashes, which the cheap ones of the other tests do not need.
func TestRefusalCostsTheSameForEveryHandle(t *testing.T) {
	real, err := passwords.NewHasher()
	noError(t, err)
	s := startService(t, serviceOptions{Hasher: real}, "ada", "banned")
	for handle, parameters := range map[string]string{"dear": "m=65536,t=1,p=1", "cheap": "m=64,t=1,p=1"} {
		u := s.addUser(handle)
		imported := "$argon2id$v=19$" + parameters + "$" + strings.Repeat("A", 22) + "$" + strings.Repeat("A", 43)
		noError(t, s.store.UpgradeHash(t.Context(), u.Sub, u.PasswordHash, imported))
	}
	s.signedIn("ada") // what is made once is there
	s.visitor().login("nobody", "a wrong password")
	u, err := s.store.UserByHandle(t.Context(), "banned")
	if err == nil {
		err = s.store.SuspendAll(t.Context(), "", time.Now(), map[string]account.Audit{u.Sub: operator(account.Suspend, "banned", "")})
	}
	noError(t, err)
	for _, handle := range []string{"ada", "banned", "nobody", "no body", "dear", "cheap"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		wantProblem(t, handle, s.visitor().login(handle, "a wrong password"), http.StatusUnauthorized, "invalid_credentials")
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used < 80 || used > 96 {
			t.Errorf("%s: %d MiB, the hashes need 83", handle, used)
		}
	}
}

// Attack 95: many accounts from one address; and 97 again, its neighbours. A guesser there has ten tries at any account
// and sixty in all, and finds out nothing about who is known there.
func TestGuessesFromOneAddressEnd(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true}, "ada")
	home := freshAddress()
	s.visitorAt(home).signIn("ada")
	tried, wrong, guesser := map[string]int{}, 0, s.visitorAt(home)
	for i := range 200 {
		handle := fmt.Sprint("user", i%20)
		if i < 12 {
			handle = "ada"
		}
		if guesser.login(handle, "a wrong password").StatusCode == http.StatusUnauthorized {
			tried[handle]++
			wrong++
		}
	}
	if wrong != 60 || tried["ada"] != 10 {
		t.Errorf("%d guesses, %d at one account", wrong, tried["ada"])
	}
	s.addUser("bob")
	wantProblem(t, "somebody unknown there", guesser.login("bob", password), http.StatusTooManyRequests, "rate_limited")
	wantStatus(t, "the next address", s.visitor().login("bob", password), http.StatusOK)
	s.visitorAt("127.0.0.77").signIn("bob")
	got := inParallel(80, func(i int) int { return s.visitorAt("127.0.0.77").login("ada"+fmt.Sprint(i), "x").StatusCode })
	if got[http.StatusUnauthorized] != 60 || got[http.StatusTooManyRequests] != 20 {
		t.Errorf("in parallel: %v", got)
	}
	known, unknown := s.visitorAt("127.0.0.77").login("bob", "x"), s.visitorAt("127.0.0.77").login("nobody", "x")
	for _, got := range []response{known, unknown} {
		got.Header.Del("Retry-After") // a second may have passed
	}
	if alike(known) != alike(unknown) || known.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a wrong password of somebody known there: %s, of nobody: %s", alike(known), alike(unknown))
	}
	wantStatus(t, "the right one", s.visitorAt("127.0.0.77").login("bob", password), http.StatusOK)
}

// Sixty members behind the address of their club: what others there, or strangers elsewhere, get wrong keeps nobody
// out whom the browser or the address knows.
func TestMistakesOfOthersKeepNobodyOut(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	const members = 60
	club := freshAddress()
	for i := range members {
		s.addUser(fmt.Sprint("member", i))
	}
	got := inParallel(members, func(i int) int {
		b, handle := s.visitorAt(club), fmt.Sprint("member", i)
		if i%4 == 0 { // fifteen of them
			wantStatus(t, "a mistake", b.login(handle, "a wrong password"), http.StatusUnauthorized)
		}
		return b.login(handle, password).StatusCode
	})
	if got[http.StatusOK] != members {
		t.Fatalf("members at one address: %v", got)
	}
	guest := s.visitorAt(club)
	for range 12 {
		guest.login("guest", "a wrong password")
	}
	s.addUser("newcomer")
	newcomer := s.visitorAt(club)
	wantStatus(t, "somebody new beside a guest with ten mistakes", newcomer.login("newcomer", password), http.StatusOK)
	for i := range 200 {
		guest.login(fmt.Sprint("guess", i), "a wrong password")
		s.visitor().login("newcomer", "a wrong password")
	}
	wantStatus(t, "a new browser at a known address", s.visitorAt(club).login("newcomer", password), http.StatusOK)
	for range 12 {
		guest.login("newcomer", "a wrong password")
	}
	wantProblem(t, "where ten guesses at the account were made", guest.login("newcomer", password), http.StatusTooManyRequests, "rate_limited")
	wantStatus(t, "their browser there", newcomer.login("newcomer", password), http.StatusOK)
	jar := newcomer.client.Jar
	newcomer = s.visitor()
	newcomer.client.Jar = jar
	wantStatus(t, "their browser elsewhere", newcomer.login("newcomer", password), http.StatusOK)
	// A copy of the browser is no way around the limit.
	tried := 0
	for range 30 {
		if newcomer.login("newcomer", "a wrong password").StatusCode == http.StatusUnauthorized {
			tried++
		}
	}
	same(t, "guesses with the browser's cookie", tried, 10)
}

// A machine that signs in over and over is held at its address; wrong passwords do not count, and other addresses go on.
func TestRightPasswordsHaveALimitOfTheirOwn(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.RateLimits = []string{"sign-in=3/1h", "login=off"} }}, "ada", "bob")
	script := s.visitor()
	for range 3 {
		wantStatus(t, "a wrong password", script.login("ada", "a wrong password"), http.StatusUnauthorized)
		wantStatus(t, "the right one", script.login("ada", password), http.StatusOK)
	}
	wantProblem(t, "once too often", script.login(" ADA ", password), http.StatusTooManyRequests, "rate_limited")
	wantStatus(t, "somebody else there", script.login("bob", password), http.StatusOK)
	wantStatus(t, "the same account elsewhere", s.visitor().login("ada", password), http.StatusOK)
}

// Only an address that gave the password is known. Whoever holds a stolen
// cookie could otherwise carry it from address to address, and each would open
// the account's limit again.
func TestVisitMakesNoKnownAddress(t *testing.T) {
	var minutes atomic.Int64
	start := time.Now().Truncate(15 * time.Minute) // all of it within one window of the limit
	s := startService(t, serviceOptions{
		Limits:   true,
		Settings: func(c *config.Settings) { c.TrustedProxies = []string{"127.0.0.0/8", "::1/128"} },
		Now:      func() time.Time { return start.Add(time.Duration(minutes.Load()) * time.Minute) },
	}, "ada")
	b := s.browser()
	b.api("POST", "/api/auth/login", map[string]string{"handle": "ada", "password": password}, "X-Forwarded-For", "198.51.100.1")
	tried := 0
	for thief := range 4 {
		minutes.Add(2)
		from := []string{"X-Forwarded-For", fmt.Sprintf("203.0.113.%d", thief+1)}
		needStatus(t, "the stolen session", b.api("GET", "/api/me", nil, from...), http.StatusOK)
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
	wantStatus(t, "the owner at their own address", s.browser().api("POST", "/api/auth/login", map[string]string{"handle": "ada", "password": password}, "X-Forwarded-For", "198.51.100.1"), http.StatusOK)
}

// limitedInstances is an installation with the default limits: two instances that
// share a PostgreSQL database, or the one process of SQLite. Its time stands still, so
// that no window ends during the test.
func limitedInstances(t *testing.T, attack func(t *testing.T, instances []*service)) {
	beside(t)
	now := time.Now()
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instance := func() *service {
			return startService(t, serviceOptions{
				Limits: true, Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn },
				Now: func() time.Time { return now },
			})
		}
		instances := []*service{instance()}
		if store.IsPostgres(dsn) {
			instances = append(instances, instance())
		}
		attack(t, instances)
	})
}

// A burst over all instances gets no more verdicts on guesses than the limit says,
// and then none at all until the window has passed.
func TestBurstOfGuessesGetsNoMoreVerdictsThanTheLimit(t *testing.T) {
	limitedInstances(t, func(t *testing.T, instances []*service) {
		at := func(i int) *service { return instances[i%len(instances)] }
		at(0).addUser("ada")
		address := freshAddress()
		for name, c := range map[string]struct {
			verdict, limit int
			guess          func(i int) response
		}{
			"reset codes of one account": {400, 5, func(i int) response {
				return at(i).visitor().reset("ada", fmt.Sprintf("%026d", i), password+"!")
			}},
			"invites from one address": {400, 5, func(i int) response {
				return at(i).visitorAt(address).register(fmt.Sprintf("%016d", i), "grace")
			}},
			"passwords of one account": {401, 10, func(i int) response {
				return at(i).visitor().login("ada", fmt.Sprint("a wrong password ", i))
			}},
		} {
			got := inParallel(100, func(i int) int { return c.guess(i).StatusCode })
			if got[c.verdict] != c.limit || got[http.StatusTooManyRequests] != 100-c.limit {
				t.Errorf("%s: %v, want %d of %d", name, got, c.limit, c.verdict)
			}
		}
	})
}

// Only failures count: people who come at the same moment with the right password do
// not use up each other's attempts while theirs are being compared.
func TestAttemptsInFlightBlockNobody(t *testing.T) {
	limitedInstances(t, func(t *testing.T, instances []*service) {
		instances[0].addUser("ada")
		address := freshAddress()
		for i := range 9 {
			wantProblem(t, "a mistake", instances[0].visitorAt(address).login("ada", fmt.Sprint("mistake ", i)), http.StatusUnauthorized, "invalid_credentials")
		}
		got := inParallel(40, func(i int) int {
			return instances[i%len(instances)].visitorAt(address).login("ada", password).StatusCode
		})
		same(t, fmt.Sprintf("40 good sign-ins after 9 mistakes: %v", got), got[http.StatusOK], 40)
		wantProblem(t, "the tenth mistake", instances[0].visitorAt(address).login("ada", "mistake"), http.StatusUnauthorized, "invalid_credentials")
		wantProblem(t, "after ten mistakes", instances[0].visitorAt(address).login("ada", password), http.StatusTooManyRequests, "rate_limited")
	})
}

// Attack 96: an address counts as the client's only from a proxy that is trusted, and
// then the rightmost one that is no proxy. Each attempt is at another handle: the
// limit of the account does not stand in for that of the address.
func TestForwardedForCountsFromTrustedProxies(t *testing.T) {
	handles := 0
	attempt := func(b *browser, name, value string) int {
		handles++
		return b.api("POST", "/api/auth/login", map[string]string{"handle": fmt.Sprint("nobody", handles), "password": "wrong password"}, name, value).StatusCode
	}
	ten := []string{"login-address=10/15m"}
	s := startService(t, serviceOptions{Limits: true, Settings: func(c *config.Settings) { c.RateLimits = ten }})
	b := s.browser()
	names := []string{"X-Forwarded-For", "X-Real-IP", "Forwarded", "True-Client-IP", "CF-Connecting-IP", "X-Client-IP", "X_Forwarded_For"}
	for i := range 10 {
		if got := attempt(b, names[i%len(names)], fmt.Sprintf("198.51.100.%d", i)); got != http.StatusUnauthorized {
			t.Fatalf("attempt %d: %d", i, got)
		}
	}
	same(t, "the 11th attempt from an untrusted peer",
		attempt(b, "X-Forwarded-For", "198.51.100.77"), http.StatusTooManyRequests)
	s = startService(t, serviceOptions{Limits: true, Settings: func(c *config.Settings) {
		c.RateLimits, c.TrustedProxies = ten, []string{"127.0.0.1", "::1", "10.0.0.0/8"}
	}})
	b = s.browser()
	// A proxy may write the port of the client, too: it is another one each time.
	for name, spell := range map[string]func(i int) string{
		"203.0.113.9":       func(i int) string { return fmt.Sprintf("198.51.100.%d, 203.0.113.9", i) },
		"203.0.113.20":      func(i int) string { return fmt.Sprintf("198.51.100.%d, 203.0.113.20:%d, 10.0.0.7:443", i, 5000+i) },
		"2001:db8:0:1::1":   func(i int) string { return fmt.Sprintf("198.51.100.%d, [2001:db8:0:1::%d]:443", i, i) },
		"2001:db8:0:2::/64": func(i int) string { return fmt.Sprintf("[2001:db8:9:%d::1]:1, [2001:db8:0:2::1]", i) },
	} {
		for i := range 10 {
			if got := attempt(b, "X-Forwarded-For", spell(i)); got != http.StatusUnauthorized {
				t.Fatalf("%s, attempt %d: %d", name, i, got)
			}
		}
		same(t, fmt.Sprintf("%s, the 11th attempt behind a proxy", name),
			attempt(b, "X-Forwarded-For", spell(99)), http.StatusTooManyRequests)
	}
	same(t, "another client behind the proxy",
		attempt(b, "X-Forwarded-For", "198.51.100.99, 203.0.113.10"), http.StatusUnauthorized)
}

// Attacks 46, 47 and 137: an account that goes while its password is compared
// answers like any other, and leaves no session.
func TestSignInDuringDeletion(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		keeper := s.joined("keeper", "admin")
		for round := range 6 {
			handle := fmt.Sprintf("user%d", round)
			s.addUser(handle)
			browsers := make([]*browser, 8)
			got := inParallel(9, func(i int) int {
				if i == 8 {
					return keeper.api("DELETE", "/api/admin/users/"+handle, nil).StatusCode
				}
				browsers[i] = s.visitor()
				return browsers[i].login(handle, password).StatusCode
			})
			if got[http.StatusNoContent] != 1 || got[http.StatusOK]+got[http.StatusUnauthorized] != 8 {
				t.Errorf("round %d: %v", round, got)
			}
			for _, b := range browsers {
				same(t, fmt.Sprintf("round %d: a session outlives its user", round),
					b.api("GET", "/api/me", nil).StatusCode, http.StatusUnauthorized)
			}
		}
	})
}

// signInPage follows an authorization request to the sign-in page.
func (b *browser) signInPage(t *testing.T, authURL string) (response, url.Values) {
	t.Helper()
	got := b.get(authURL)
	next, err := url.Parse(got.Header.Get("Location"))
	if err != nil || got.StatusCode != http.StatusSeeOther || next.Path != "/login/" {
		t.Fatalf("%d to %q, want the sign-in page", got.StatusCode, got.Header.Get("Location"))
	}
	return b.get(next.String()), next.Query()
}

// The page says for whom the sign-in is and, to who is signed in, why again.
func TestSignInPageSaysWhatItIsFor(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada", "eve")
	rp := s.app("app", nil)
	if page, _ := s.browser().signInPage(t, rp.authURL()); !strings.Contains(page.Text, "Sign in to continue to <bdi>App app</bdi>") {
		t.Errorf("the application is not named: %s", mainOf(page.Text))
	}
	if page := s.browser().get("/login/?continue=" + url.QueryEscape("eyJ0IjoxfQ.c2VhbA_-")); page.StatusCode != http.StatusOK || strings.Contains(page.Text, "continue to") {
		t.Errorf("a continuation that nobody sealed: %d %s", page.StatusCode, mainOf(page.Text))
	}
	b, tokens := s.signedInTokens(rp, "ada")
	hint, _ := tokens.Extra("id_token").(string)
	for name, again := range map[string][]string{
		"prompt=login": {"prompt", "login"}, "max_age": {"max_age", "0"}, "its own login_hint": {"prompt", "login", "login_hint", "A.da"}, "its own hint": {"prompt", "login", "id_token_hint", hint, "login_hint", "ada"},
	} {
		page, _ := b.signInPage(t, rp.authURL(again...))
		handle := elementByID(t, page.Text, "handle")
		if !strings.Contains(page.Text, "Confirm it’s you") || !strings.Contains(page.Text, "App app") || attribute(handle, "value") != "ada" ||
			!strings.Contains(page.Text, " readonly") || attribute(handle, "autocomplete") != "username" {
			t.Errorf("%s: %s", name, mainOf(page.Text))
		}
		// A wrong password leaves the page what it is.
		if again := b.send(page, "password", "wrong"); again.StatusCode != http.StatusUnauthorized ||
			!strings.Contains(again.Text, "Confirm it’s you") || !strings.Contains(again.Text, " readonly") ||
			!strings.Contains(again.Text,
				"The password is incorrect.") {
			t.Errorf("%s, wrong password: %d %s", name, again.StatusCode, mainOf(again.Text))
		}
	}
	// Where another account may be used, the handle can be changed.
	_, eves := s.signedInTokens(rp, "eve")
	other, _ := eves.Extra("id_token").(string)
	for name, change := range map[string][]string{
		"select_account": {"prompt", "select_account"}, "another's hint": {"id_token_hint", other}, "another's login_hint": {"prompt", "login", "login_hint", "eve"},
	} {
		if page, _ := b.signInPage(t, rp.authURL(change...)); strings.Contains(page.Text, " readonly") ||
			!strings.Contains(page.Text, "You are signed in as <strong><bdi>ada") {
			t.Errorf("%s: %s", name, mainOf(page.Text))
		}
	}
	wantAnswer(t, "signed in as the other", b.authorize(rp.authURL("id_token_hint", other), "eve"), "code")
}

// Who is signed in has nothing to do on the sign-in page: the way goes on.
func TestSignInPageSendsOnWhoIsSignedIn(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagActivity)
	rp := s.app("app", nil)
	b := s.browser()
	_, q := b.signInPage(t, rp.authURL())
	b.signIn("ada") // in another window
	if got := b.get("/login/"); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/account/" {
		t.Errorf("/login/: %d to %q", got.StatusCode, got.Header.Get("Location"))
	}
	got := b.get("/login/?" + q.Encode())
	if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/authorize?continue=") {
		t.Errorf("with a request: %d to %q", got.StatusCode, got.Header.Get("Location"))
	}
	wantAnswer(t, "the way does not go on", b.authorize(got.Header.Get("Location"), "ada"), "code")
}

// The page that an invite's link opens says whether a code is known: a wrong one is
// a guess like any other.
func TestWrongInviteLinksAreGuesses(t *testing.T) {
	limitedInstances(t, func(t *testing.T, instances []*service) {
		keeper := instances[0]
		keeper.addUser("keeper", "admin")
		code := keeper.signedIn("keeper").invite()
		address, good := freshAddress(), freshAddress()
		look := func(i int, address, code string) int {
			return instances[i%len(instances)].visitorAt(address).get("/register/?code=" + code).StatusCode
		}
		if got := inParallel(30, func(i int) int { return look(i, good, code) }); got[http.StatusOK] != 30 {
			t.Errorf("a crowd with one good link: %v", got)
		}
		got := inParallel(100, func(i int) int { return look(i, address, fmt.Sprintf("%016d", i)) })
		if got[http.StatusBadRequest] != 5 || got[http.StatusOK] != 95 { // the page without a word about the code
			t.Errorf("wrong links: %v, want 5 of 400", got)
		}
		wantProblem(t, "a guess from there", instances[0].visitorAt(address).register("0123456789ABCDEF", "grace"), http.StatusTooManyRequests, "rate_limited")
		wantStatus(t, "a good one from there", instances[0].visitorAt(address).register(code, "grace"), http.StatusCreated)
	})
}

// Attack 108: one invite, sixteen people at the same moment, eight times, all
// behind one address: the losers are no guessers, and nobody after them pays.
func TestInviteLetsOnePersonIn(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		keeper, address := s.signedIn("keeper"), freshAddress()
		for round := range 8 {
			code := keeper.invite()
			got := inParallel(16, func(i int) int {
				return s.visitorAt(address).register(code, fmt.Sprintf("user%d-%d", round, i)).StatusCode
			})
			if got[http.StatusCreated] != 1 || got[http.StatusBadRequest] != 15 {
				t.Errorf("round %d: %v", round, got)
			}
		}
		users, _, err := s.store.Users(t.Context(), userQuery(""))
		if err != nil || len(users) != 9 {
			t.Errorf("%d users after 8 invites: %v", len(users)-1, err)
		}
	})
}

package httpd

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

var requestIDs = regexp.MustCompile(`"request_id":"[^"]*"|<code id="request-id">[^<]*</code>|value="[^"]*"`)

// Attack 92: the answer to a sign-in tells nothing about which handles exist.
func TestAnswerNeverTellsWhetherAHandleExists(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
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
			bodies = append(bodies, comparable(got))
			page := b.postForm("/login/", map[string][]string{"handle": {h}, "password": {"a wrong password"}})
			if page.StatusCode != http.StatusUnauthorized || pageName(t, page.Text) != "login" {
				t.Errorf("page for %.20q: %d", h, page.StatusCode)
			}
			pages = append(pages, comparable(page))
			// Attack 125: so does the reset, also with the form of a good code.
			got = b.reset(h, "0123456789ABCDEFGHJKMNPQRS", "a new long password")
			wantProblem(t, "reset "+h, got, http.StatusBadRequest, "invalid_reset_code")
			resets = append(resets, comparable(got))
		}
		for name, list := range map[string][]string{"sign-in": bodies, "page": pages, "reset": resets} {
			for i := range list {
				if list[i] != list[0] {
					t.Errorf("%s %d differs:\n%s\n%s", name, i, list[i], list[0])
				}
			}
		}
		// The suspension is told to who knows the password, and to nobody else.
		wantProblem(t, "suspended, right password", s.visitor().login("banned", password), http.StatusForbidden, "account_suspended")
		wantProblem(t, "deleted, right password", s.visitor().login("gone", password), http.StatusUnauthorized, "invalid_credentials")
	})
}

// comparable is an answer without what differs in every answer.
func comparable(got response) string {
	h := got.Header.Clone()
	for _, name := range []string{"X-Request-Id", "Date", "Content-Length"} {
		h.Del(name)
	}
	return fmt.Sprint(got.StatusCode, h, requestIDs.ReplaceAllString(got.Text, ""))
}

// Attacks 94 and 104: a fresh address for each guess, and each spelling of the
// handle, are still guesses at one account.
func TestDistributedGuessingNeverGoesOn(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		s.addUser("bob")
		spellings := []string{"ada", "ADA", "Ada", " ada", "ada ", "aDa\t", "ＡＤＡ", "ａda"}
		var statuses []int
		for i := range 14 {
			statuses = append(statuses, s.visitor().login(spellings[i%len(spellings)], "a wrong password").StatusCode)
		}
		for i, status := range statuses {
			if want := map[bool]int{true: 401, false: 429}[i < 10]; status != want {
				t.Fatalf("guess %d: %v", i+1, statuses)
			}
		}
		wantProblem(t, "from elsewhere, even with the password", s.visitor().login("ada", password), http.StatusTooManyRequests, "rate_limited")
		if got := s.visitor().login("bob", password); got.StatusCode != http.StatusOK {
			t.Errorf("a bystander: %d", got.StatusCode)
		}
		// Through the form it is the same limit.
		if got := s.visitor().postForm("/login/", map[string][]string{"handle": {"ada"}, "password": {"x"}}); got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
			t.Errorf("the form: %d", got.StatusCode)
		}
	})
}

// Attack 97: strangers cannot lock an owner out of an address that the owner
// has signed in from.
func TestThrottleNeverLocksOutTheOwner(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		home := freshAddress()
		ada := s.visitorAt(home)
		ada.signIn("ada")
		for range 12 {
			s.visitor().login("ada", "a wrong password")
		}
		wantProblem(t, "a stranger", s.visitor().login("ada", password), http.StatusTooManyRequests, "rate_limited")
		for name, b := range map[string]*browser{"same browser": ada, "fresh browser at home": s.visitorAt(home)} {
			if got := b.login("ada", password); got.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %s", name, got.StatusCode, got.Text)
			}
		}
		// The session that is there already is not touched by any of this.
		if got := ada.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": "another walk over hills"}); got.StatusCode != http.StatusOK {
			t.Errorf("password change at home: %d %s", got.StatusCode, got.Text)
		}
		// At home too, guessing ends: the address has a limit of its own.
		guesser, last := s.visitorAt(home), 0
		for range 12 {
			last = guesser.login("ada", "a wrong password").StatusCode
		}
		if last != http.StatusTooManyRequests {
			t.Errorf("12 guesses from the owner's address: %d", last)
		}
	})
}

// Attack 95: many accounts from one address; and 97 again, its neighbours.
func TestStuffingFromOneAddressNeverGoesOn(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		b := s.visitor()
		for i := range 10 {
			if got := b.login(fmt.Sprintf("user%d", i), "a wrong password"); got.StatusCode != http.StatusUnauthorized {
				t.Fatalf("guess %d: %d", i, got.StatusCode)
			}
		}
		wantProblem(t, "the 11th", b.login("user11", "a wrong password"), http.StatusTooManyRequests, "rate_limited")
		wantProblem(t, "a good one after them", b.login("ada", password), http.StatusTooManyRequests, "rate_limited")
		if got := s.visitor().login("ada", password); got.StatusCode != http.StatusOK {
			t.Errorf("the next address: %d", got.StatusCode)
		}
		got := inParallel(40, func(i int) int { return s.visitorAt("127.0.0.77").login("ada"+fmt.Sprint(i), "x").StatusCode })
		if got[http.StatusUnauthorized] != 10 || got[http.StatusTooManyRequests] != 30 {
			t.Errorf("in parallel: %v", got)
		}
	})
}

// Attack 98.
func TestGoodSignInsAreNeverThrottled(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		b := s.visitor()
		seen := map[string]bool{}
		for i := range 40 {
			if got := b.login("ada", password); got.StatusCode != http.StatusOK {
				t.Fatalf("sign-in %d: %d %s", i, got.StatusCode, got.Text)
			}
			seen[b.cookie("cairn_session")] = true
		}
		if len(seen) != 40 {
			t.Errorf("%d different cookies of 40", len(seen)) // attack 61
		}
		address := freshAddress()
		if got := inParallel(40, func(int) int { return s.visitorAt(address).login("ada", password).StatusCode }); got[http.StatusOK] != 40 {
			t.Errorf("in parallel: %v", got)
		}
	})
}

// Attacks 99 and 100: every byte of a password counts, long ones are accepted
// up to the limit and refused beyond it, at once.
func TestPasswordIsNeverCutOrFolded(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		b := s.signedIn("ada")
		long := strings.Repeat("a walk, ", 16) // 128 characters
		change := func(from, to string) response {
			return b.api("PUT", "/api/me/password", map[string]string{"current_password": from, "new_password": to})
		}
		if got := change(password, long); got.StatusCode != http.StatusOK {
			t.Fatalf("128 characters: %d %s", got.StatusCode, got.Text)
		}
		for name, wrong := range map[string]string{
			"72 bytes": long[:72], "72 bytes and others": long[:72] + strings.Repeat("x", 56), "one short": long[:127], "one more": long + "x", "upper case": strings.ToUpper(long),
			"no blank at the end": strings.TrimSpace(long), "NUL and more": long + "\x00x", "NUL": long[:72] + "\x00",
		} {
			if got := s.visitor().login("ada", wrong); got.StatusCode == http.StatusOK || got.StatusCode >= 500 {
				t.Errorf("%s: %d", name, got.StatusCode)
			}
		}
		for name, weak := range map[string]string{
			"129": long + "x", "empty": "", "short": "9 letters", "common": "password123", "digits": "1234567890", "keyboard": "qwertyuiop", "one letter": "aaaaaaaaaaaa",
			"control": "a long\x07 password", "the handle": "ada rambles", "twice a common one": "iloveyouiloveyou",
		} {
			got := change(long, weak)
			wantProblem(t, name, got, http.StatusBadRequest, "weak_password")
			if fields, _ := got.JSON(t)["errors"].([]any); len(fields) != 1 || fields[0].(map[string]any)["pointer"] != "/new_password" {
				t.Errorf("%s: %s", name, got.Text)
			}
		}
		if got := s.visitor().login("ada", long); got.StatusCode != http.StatusOK {
			t.Errorf("the right one: %d", got.StatusCode)
		}
		start := time.Now()
		if got := s.visitor().login("ada", strings.Repeat("x", 1<<20)); got.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("1 MB: %d", got.StatusCode)
		}
		if got := s.visitor().login("ada", strings.Repeat("é", 20_000)); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("40 kB: %d", got.StatusCode)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("long passwords took %s", took)
		}
	})
}

// Attack 165: on PostgreSQL the counters of guesses are in the database. When it is away
// no password is compared, but what needs no database is answered, and what does
// says so in its own protocol.
func TestLostCountersNeverCloseWhatNeedsNone(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		b := s.signedIn("ada")
		if err := s.store.Close(); err != nil {
			t.Fatal(err)
		}
		wantProblem(t, "sign-in", s.visitor().login("ada", password), http.StatusServiceUnavailable, "unavailable")
		wantProblem(t, "session", b.api("GET", "/api/me", nil), http.StatusServiceUnavailable, "unavailable")
		wantProblem(t, "reset", s.visitor().reset("ada", "0123456789ABCDEFGHJKMNPQRS", password+"!"), http.StatusServiceUnavailable, "unavailable")
		wantProblem(t, "registration", s.visitor().register("0123456789ABCDEF", "grace"), http.StatusServiceUnavailable, "unavailable")
		wantProblem(t, "readiness", b.do("GET", "/readyz", "", ""), http.StatusServiceUnavailable, "unavailable")
		open := []string{"/healthz", "/schemas/activity-1.0.json"}
		if s.key != "" {
			open = append(open, "/.well-known/openid-configuration", "/.well-known/jwks.json")
			got := b.postForm("/oauth2/token", map[string][]string{"grant_type": {"authorization_code"}, "code": {"x.y"}, "client_id": {"app"}, "client_secret": {"x"}})
			if got.StatusCode != http.StatusServiceUnavailable || got.JSON(t)["error"] == nil {
				t.Errorf("token: %d %s", got.StatusCode, got.Text)
			}
		}
		for _, path := range open {
			if got := b.do("GET", path, "", ""); got.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %s", path, got.StatusCode, got.Text)
			}
		}
	})
}

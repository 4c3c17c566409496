package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// limitedInstances is an installation with the default limits: two instances that
// share a PostgreSQL database, or the one process of SQLite. Its time stands still, so
// that no window ends during the test.
func limitedInstances(t *testing.T, attack func(t *testing.T, instances []*service)) {
	now := time.Now()
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instance := func() *service {
			return startService(t, serviceOptions{
				Limits: true, Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn },
				Now: func() time.Time { return now },
			})
		}
		instances := []*service{instance()}
		if isPostgres(dsn) {
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
		wantProblem(t, "a registration from there", instances[0].visitorAt(address).register(code, "grace"), http.StatusTooManyRequests, "rate_limited")
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
		if got[http.StatusOK] != 40 {
			t.Errorf("40 good sign-ins after 9 mistakes: %v", got)
		}
		wantProblem(t, "the tenth mistake", instances[0].visitorAt(address).login("ada", "mistake"), http.StatusUnauthorized, "invalid_credentials")
		wantProblem(t, "after ten mistakes", instances[0].visitorAt(address).login("ada", password), http.StatusTooManyRequests, "rate_limited")
	})
}

// What bounds the requests as a whole costs no statement: each instance counts for
// itself, also while the database is away.
func TestRequestLimitsNeedNoDatabase(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		now := time.Now()
		s := startService(t, serviceOptions{Now: func() time.Time { return now }, Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) {
			c.Database, c.RateLimits = dsn, []string{"all=10/1h", "token=4/1h"}
		}})
		if err := s.store.Close(); err != nil {
			t.Fatal(err)
		}
		b := s.visitor()
		token := inParallel(8, func(int) int {
			return b.postForm("/oauth2/token", url.Values{"grant_type": {"x"}}).StatusCode
		})
		if token[http.StatusTooManyRequests] != 4 {
			t.Errorf("8 requests at the token endpoint: %v, want 4 of 429", token)
		}
		all := inParallel(8, func(int) int { return b.get("/static/cairn.css").StatusCode })
		if all[http.StatusTooManyRequests] != 6 {
			t.Errorf("8 requests after 8: %v, want 6 of 429", all)
		}
	})
}

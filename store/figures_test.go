//go:build linux && cgo

package store_test

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/storetest"
)

// TestScaleFigures measures on a large installation, whose thousands of grants
// CAIRN_SCALE gives, what the other tests count: `just scale`. Each grant has fifteen
// expired tokens, and there are five times as many users.
func TestScaleFigures(t *testing.T) {
	thousands, _ := strconv.ParseInt(os.Getenv("CAIRN_SCALE"), 10, 64)
	if thousands == 0 {
		t.Skip("CAIRN_SCALE is not set")
	}
	s := storetest.New(t)
	took := func(what string, do func()) {
		t.Helper()
		begin := time.Now()
		do()
		t.Logf("%s: %v", what, time.Since(begin).Round(100*time.Microsecond))
	}
	grants := 1000 * thousands
	must(t, s.Exec(`INSERT INTO users (sub, handle, display_name, email, password_hash, search, created_at, updated_at)
		SELECT 'm' || i, 'user' || i, 'Member ' || (i * 7919 % 50021), 'm' || i || '@example.org', '', 'member', 0, 0 FROM `+s.Series("?"), 5*grants))
	took(strconv.FormatInt(5*grants, 10)+" users of an earlier version", func() { must(t, s.Migrate(t.Context())) })
	for _, query := range []string{"zzz", "user", "user77", "mem 77", "example 4711", "org exa", "zzz example"} {
		took("search "+query, func() {
			_, _, err := s.Users(t.Context(), account.UserQuery{Query: query, Limit: 50})
			must(t, err)
		})
	}
	fillGrants(t, s, grants)
	must(t, s.Exec("INSERT INTO tokens (sig, kind, grant_id, issued_at, expires_at) SELECT 'x' || i, 'a', 'g' || (i / 15), 1, ? - i / 100 FROM "+s.Series("?"), noon.Unix(), 15*grants))
	c, n := addClient(t, s, "other"), signIn(t, s, addUser(t, s, "ada"))
	var waits []time.Duration
	done := make(chan error, 1)
	begin := time.Now()
	go func() {
		got, err := s.Sweep(t.Context(), noon.Add(2*time.Hour))
		t.Logf("%d tokens swept in %v", got.Tokens, time.Since(begin).Round(time.Millisecond))
		done <- err
	}()
	for sweeping := true; sweeping; {
		at := time.Now()
		addCode(t, s, newGrant(c, n, "openid"))
		waits = append(waits, time.Since(at))
		select {
		case err := <-done:
			must(t, err)
			sweeping = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	slices.Sort(waits)
	t.Logf("meanwhile %d codes: median %v, p99 %v, longest %v", len(waits), waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
	took("sweep of nothing", func() { _, err := s.Sweep(t.Context(), noon.Add(2*time.Hour)); must(t, err) })
}

package store_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// fillUsers adds n users: one in a thousand is suspended and an administrator, a third has
// never signed in, all but one in fifty have no second factor, and half have the flag coach.
func fillUsers(t testing.TB, s *store.Store, n int) {
	t.Helper()
	yes := "1"
	if s.Dialect() == store.Postgres {
		yes = "(1 = 1)"
	}
	const part = 20_000 // a statement has a time limit
	for from := 0; from < n; from += part {
		must(t, s.Exec(`INSERT INTO users (sub, handle, display_name, email, password_hash, search, created_at, updated_at, last_login_at, suspended_at, second_factor)
			SELECT 'u' || i || '-6f1e-4b6c-9d5e-0123456789ab', 'user' || i, CASE WHEN i % 100 = 7 THEN 'Rare ' ELSE '' END || 'Member ' || i, 'm' || i || '@example.org',
				'$argon2id$v=19$m=19456,t=2,p=1$abcdefghijklmnopqrstuv$abcdefghijklmnopqrstuvabcdefghijklmnopqrstuvabc', 'x',
				1000000 + (i * 7919) % 1000003, 0, CASE WHEN i % 3 = 0 THEN 0 ELSE 2000000 + (i * 104729) % 1000003 END, CASE WHEN i % 1000 = 0 THEN 5 ELSE 0 END,
				CASE WHEN i % 50 = 0 THEN `+yes+` ELSE NOT `+yes+` END FROM (SELECT i + ? AS i FROM `+s.Series("?")+`) AS n`, from, min(part, n-from)))
	}
	must(t, s.Exec("INSERT INTO user_flags (sub, flag) SELECT sub, 'admin' FROM users WHERE suspended_at > 0"))
	must(t, s.Exec("INSERT INTO user_flags (sub, flag) SELECT 'u' || i || '-6f1e-4b6c-9d5e-0123456789ab', 'coach' FROM "+s.Series("?")+" WHERE i % 2 = 0", n))
	must(t, s.Exec("UPDATE counters SET value = value + ? WHERE name = 'users'", n))
	for _, word := range []string{"'user' || i", "'m' || i", "'member'", "CAST(i AS TEXT)", "'example'", "'org'"} {
		must(t, s.Exec("INSERT INTO user_words (word, handle) SELECT "+word+", 'user' || i FROM "+s.Series("?"), n))
	}
	must(t, s.Exec("INSERT INTO user_words (word, handle) SELECT 'rare', 'user' || i FROM "+s.Series("?")+" WHERE i % 100 = 7", n))
	must(t, s.Exec("UPDATE users SET search = '' WHERE search = 'x'"))
	must(t, s.Exec("ANALYZE"))
}

var userQueries = []account.UserQuery{
	{}, {Flag: "admin"}, {Flag: "coach"}, {Suspended: true}, {NeverSignedIn: true}, {NoSecondFactor: true}, {Flag: "none"},
	{Flag: "coach", NeverSignedIn: true, NoSecondFactor: true}, {Flag: "coach", Suspended: true},
	{Query: "member"}, {Query: "rare"}, {Query: "r"}, {Query: "user12"}, {Query: "member rare"}, {Query: "member", Flag: "coach"}, {Query: "member", Suspended: true},
	{Query: "rare", NoSecondFactor: true}, {Query: "member", NeverSignedIn: true}, {Query: "zzz", Flag: "coach"},
}

// A few thousand users are enough for each of the ways by which they are found; the
// benchmark has more.
func TestListsOfUsersAreWhole(t *testing.T) {
	racetest.Skip(t)
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const n = 4_100
		fillUsers(t, s, n)
		gone, err := s.UserByHandle(t.Context(), "user3")
		must(t, err)
		must(t, s.DeleteUser(t.Context(), gone.Sub, noon, act("user.delete")))
		fits := func(q account.UserQuery, i int) bool {
			name := fmt.Sprintf("member user%d %d", i, i)
			if i%100 == 7 {
				name += " rare"
			}
			for _, word := range strings.Fields(q.Query) {
				if !strings.Contains(" "+name, " "+word) {
					return false
				}
			}
			return i != 3 && (q.Flag == "" || q.Flag == "admin" && i%1000 == 0 || q.Flag == "coach" && i%2 == 0) && (!q.Suspended || i%1000 == 0) &&
				(!q.NeverSignedIn || i%3 == 0) && (!q.NoSecondFactor || i%50 != 0)
		}
		filled, err := s.Texts("SELECT word || ' ' || handle FROM user_words ORDER BY 1")
		must(t, err)
		must(t, s.Exec("DELETE FROM user_words"))
		must(t, s.Exec("UPDATE users SET search = '-'"))
		must(t, s.IndexUsers(t.Context()))
		indexed, err := s.Texts("SELECT word || ' ' || handle FROM user_words ORDER BY 1")
		must(t, err)
		equal(t, "filled", indexed, filled)
		// Who is not in the index of words is found all the same.
		must(t, s.Exec("DELETE FROM user_words WHERE handle LIKE 'user12%' OR handle LIKE 'user30%'"))
		must(t, s.Exec("UPDATE users SET search = '-' WHERE handle LIKE 'user12%' OR handle LIKE 'user30%'"))
		for _, q := range userQueries {
			expected := 0
			for i := range n {
				if fits(q, i) {
					expected++
				}
			}
			for _, q.Sort = range []string{account.SortHandle, account.SortNewest, account.SortLastSignIn} {
				seen := map[string]bool{}
				var last account.User
				q.After, q.Limit = "", 400
				for {
					page, err := s.CountUsers(t.Context(), q)
					must(t, err)
					if page.Total != expected && (page.Exact || expected < account.ManyFound) || page.Total > expected {
						t.Errorf("%+v: counted %d, exact: %t, want %d", q, page.Total, page.Exact, expected)
					}
					for _, u := range page.Users {
						var i int
						_, err := fmt.Sscanf(u.Handle, "user%d", &i)
						must(t, err)
						if seen[u.Handle] || !fits(q, i) {
							t.Fatalf("%+v: %s again, or it does not fit", q, u.Handle)
						}
						inOrder := last.Handle == ""
						switch q.Sort {
						case account.SortHandle:
							inOrder = inOrder || u.Handle > last.Handle
						case account.SortNewest:
							inOrder = inOrder || !u.CreatedAt.After(last.CreatedAt)
						case account.SortLastSignIn:
							inOrder = inOrder || !u.LastLoginAt.After(last.LastLoginAt)
						}
						if !inOrder {
							t.Fatalf("%+v: %s after %s", q, u.Handle, last.Handle)
						}
						seen[u.Handle], last = true, u
					}
					if q.After = page.Next; q.After == "" {
						break
					}
				}
				same(t, fmt.Sprintf("%+v: users", q), len(seen), expected)
			}
		}
	})
}

func TestPlaceOfAnotherListIsRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		addUser(t, s, "ada", "admin")
		for _, q := range []account.UserQuery{
			{After: "newest 5 ada"}, {Sort: account.SortNewest, After: "ada"}, {Sort: account.SortNewest, After: "last_sign_in 5 ada"}, {Sort: account.SortNewest, After: "newest x ada"},
			{Sort: account.SortNewest, After: "newest -5 ada"}, {Sort: account.SortNewest, After: "newest 5"}, {Sort: account.SortNewest, After: "newest 5 ada eve"}, {Sort: account.SortNewest, After: "newest 5 A"}, {After: "Ada"}, {Query: "ada", After: "0 ada ada"},
			{Query: "ada", Flag: "admin", After: "newest 1 ada"}, {After: "0 ada ada"}, {After: " "}, {After: "  "},
		} {
			_, _, err := s.Users(t.Context(), q)
			want(t, err, account.ErrInvalidCursor)
		}
		users, next, err := s.Users(t.Context(), account.UserQuery{Query: "ada", Flag: "admin", After: "aaa"})
		must(t, err)
		if diff := cmp.Diff([]string{"ada"}, handlesOf(users)); diff != "" || next != "" {
			t.Error(diff, next)
		}
	})
}

// benchUsers is how many users there are: BENCH_USERS, or few without it, because filling takes
// longer than finding.
func benchUsers(t testing.TB, few int) int {
	t.Helper()
	n, err := few, error(nil)
	if text := os.Getenv("BENCH_USERS"); text != "" {
		n, err = strconv.Atoi(text)
	}
	must(t, err)
	return n
}

// Every page of a list of 100,000 users, and its count.
func BenchmarkUserList(b *testing.B) {
	users := benchUsers(b, 2000)
	eachBench(b, func(b *testing.B, s *store.Store) {
		fillUsers(b, s, users)
		if s.Dialect() == store.Postgres {
			must(b, s.Exec("VACUUM ANALYZE"))
			// The next test's empty database is made of this one row by row, each with its references.
			b.Cleanup(func() { must(b, s.Exec("TRUNCATE users CASCADE")) })
		}
		for _, q := range userQueries {
			q.Limit = 50
			for _, q.Sort = range []string{account.SortHandle, account.SortNewest, account.SortLastSignIn} {
				if q.Query != "" && q.Sort != account.SortHandle {
					continue
				}
				b.Run(strings.Trim(strings.ReplaceAll(fmt.Sprintf("%+v", q), "false", "-"), "{}"), func(b *testing.B) {
					var slowest time.Duration
					for b.Loop() {
						began := time.Now()
						_, err := s.CountUsers(b.Context(), q)
						must(b, err)
						slowest = max(slowest, time.Since(began))
					}
					b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-slowest")
				})
			}
		}
	})
}

// Who uses an application has consented to it, or has a grant of it.
func TestUsersOfAnApplication(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		addClient(t, s, "maps")
		ada := addUser(t, s, "ada")
		addUser(t, s, "bob")
		must(t, s.Exec("INSERT INTO consents (sub, client_id, scope, granted_at) VALUES (?, 'maps', 'openid', 1)", ada.Sub))
		for id, want := range map[string]int{"maps": 1, "photos": 0, "": 2, "ma\x00ps": 1} {
			list, _, err := s.Users(t.Context(), account.UserQuery{App: id, Sort: account.SortNewest})
			if must(t, err); len(list) != want || want == 1 && list[0].Handle != "ada" {
				t.Errorf("%q: %d users: %+v", id, len(list), list)
			}
		}
	})
}

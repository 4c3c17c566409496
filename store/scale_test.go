//go:build linux && cgo

package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/racetest"
	"github.com/cairn-id/cairn/store/storetest/steps"
)

// fillGrants adds many grants, five in a session and each with five tokens that live
// for a month; half of the sessions are of one user.
func fillGrants(t *testing.T, s *store.Store, grants int64) {
	t.Helper()
	at, month, sessions := noon.Unix(), noon.Add(month).Unix(), grants/5
	addTelling(t, s, "app")
	for _, x := range []struct {
		query string
		args  []any
	}{
		{"INSERT INTO users (sub, handle, display_name, password_hash, search, created_at, updated_at) SELECT 'u' || i, 'u' || i, '', '', '', 0, 0 FROM " + s.Series("1000"), nil},
		{"INSERT INTO status_lists (id, issued) VALUES (1, ?)", []any{sessions}},
		{`INSERT INTO sessions (id, sub, created_at, auth_time, last_seen_at, expires_at, status_list, status_index)
			SELECT 's' || i, 'u' || CASE WHEN i % 2 = 0 THEN 0 ELSE i % 1000 END, ?, ?, ?, ?, 1, i FROM ` + s.Series("?"), []any{at, at, at, month, sessions}},
		{`INSERT INTO grants (id, client_id, sub, sid, requested_scope, granted_scope, offline, code_sig, code_expires_at, code_used_at, redirect_uri,
			code_challenge, code_challenge_method, acr, auth_time, arrived_at, created_at)
			SELECT 'g' || n.i, 'app', s.sub, s.id, '', '', ?, 'c' || n.i, ?, ?, '', '', '', '', 0, 0, n.i FROM ` + s.Series("?") + " JOIN sessions s ON s.id = 's' || (n.i / 5)",
			[]any{false, at, at, grants}},
		{"INSERT INTO tokens (sig, kind, grant_id, issued_at, expires_at) SELECT 't' || i, 'a', 'g' || (i / 5), ?, ? FROM " + s.Series("?"), []any{at, month, 5 * grants}},
		{"ANALYZE", nil},
	} {
		must(t, s.Exec(x.query, x.args...))
	}
}

// A sweep reads what is due and no more, and none of its statements is large: with a
// million tokens that live it has next to nothing to do.
func TestSweepReadsWhatIsDue(t *testing.T) {
	racetest.Skip(t)
	steps.Watch()
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		if strings.HasPrefix(dsn, "postgres") {
			dsn += "&statement_timeout=0" // for the filling
		}
		s := storetest.Open(t, dsn)
		// PostgreSQL counts at once what a connection did that ends.
		exec := func(query string, args ...any) {
			t.Helper()
			own, err := store.Open(t.Context(), dsn, store.Options{})
			must(t, err)
			must(t, own.Exec(query, args...))
			must(t, own.Close())
		}
		const grants = 4_000
		filling, err := store.Open(t.Context(), counted(dsn), store.Options{})
		must(t, err)
		fillGrants(t, filling, grants)
		must(t, filling.Close())
		later := noon.Add(2 * time.Hour)
		sweep := func(at time.Time) (store.SweepResult, int64) {
			t.Helper()
			var got store.SweepResult
			read, largest := visited(t, s, dsn, func(s *store.Store) {
				var err error
				got, err = s.Sweep(t.Context(), at)
				must(t, err)
			})
			if largest > 20_000 {
				t.Errorf("one statement has visited %d rows", largest)
			}
			return got, read
		}
		// The first time each grant is looked at, with its tokens.
		if got, read := sweep(later); got != (store.SweepResult{}) || read > 60*grants {
			t.Errorf("%+v; %d rows visited for %d grants", got, read, grants)
		}
		vacuum(t, s)
		if got, read := sweep(later); got != (store.SweepResult{}) || read > 2_000 {
			t.Errorf("%+v; %d rows visited for nothing", got, read)
		}
		// Of some grants the tokens have expired. The last grant of each session stays.
		exec("UPDATE tokens SET expires_at = ? - CAST(substr(grant_id, 2) AS BIGINT) WHERE grant_id IN (SELECT id FROM grants WHERE created_at < ?)", noon.Unix(), grants/10)
		exec("UPDATE grants SET sweep_at = created_at WHERE created_at < ?", grants/10)
		vacuum(t, s)
		if got, read := sweep(later); got != (store.SweepResult{Tokens: grants / 2, Grants: grants / 10 * 4 / 5}) ||
			read > 10*grants {
			t.Errorf("%+v; %d rows visited", got, read)
		}
		vacuum(t, s)
		if _, read := sweep(later); read > 2_000 {
			t.Errorf("%d rows visited for nothing", read)
		}
	})
}

// vacuum removes the old versions of rows, which PostgreSQL passes once more.
func vacuum(t *testing.T, s *store.Store) {
	t.Helper()
	if s.Dialect() == store.SQLite {
		must(t, s.Exec("ANALYZE"))
		return
	}
	awaitTransactions(t, s)
	must(t, s.Exec("VACUUM ANALYZE"))
}

// awaitTransactions waits until each transaction of the database that began before has
// ended. As long as one of them runs, in any test, VACUUM removes nothing newer.
func awaitTransactions(t *testing.T, s *store.Store) {
	t.Helper()
	now, err := s.Count("SELECT txid_current()")
	must(t, err)
	for n := int64(1); n > 0; {
		n, err = s.Count(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND CAST(CAST(backend_xmin AS TEXT) AS BIGINT) <= ?`, now)
		must(t, err)
	}
}

// visited counts the rows that do makes a database visit, and on SQLite those of the
// largest statement.
func visited(t *testing.T, s *store.Store, dsn string, do func(*store.Store)) (rows, largest int64) {
	t.Helper()
	if s.Dialect() == store.SQLite {
		const steadily = 10 // steps of the virtual machine for a row, about
		steps.Take()
		do(s)
		rows, largest = steps.Take()
		return rows / steadily, largest / steadily
	}
	// A server counts what a connection did when that ends.
	const count = `SELECT CAST(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) AS BIGINT) + (SELECT CAST(sum(idx_tup_read) AS BIGINT) FROM pg_stat_user_indexes WHERE schemaname = current_schema())
		FROM pg_stat_user_tables WHERE schemaname = current_schema()`
	gone := func() {
		t.Helper()
		for n := int64(1); n > 0; {
			var err error
			n, err = s.Count("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cairn visited'")
			must(t, err)
		}
	}
	gone() // what has filled the database
	must(t, s.Exec("SELECT pg_stat_force_next_flush()"))
	before, err := s.Count(count)
	must(t, err)
	own, err := store.Open(t.Context(), counted(dsn)+"&enable_seqscan=off&enable_hashjoin=off&enable_mergejoin=off", store.Options{}) // or it would read small tables as a whole
	must(t, err)
	do(own)
	must(t, own.Close())
	gone()
	after, err := s.Count(count)
	must(t, err)
	return after - before, 0
}

// counted is a DSN for connections whose end visited awaits.
func counted(dsn string) string {
	if strings.HasPrefix(dsn, "postgres") {
		dsn += "&application_name=cairn+visited"
	}
	return dsn
}

// A registration does not count the users, however many there are.
func TestRegistrationReadsLittle(t *testing.T) {
	racetest.Skip(t)
	steps.Watch()
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		const members = 6_000
		s := open(t, counted(dsn))
		must(t, s.Migrate(t.Context()))
		fillUsers(t, s, members)
		must(t, s.Close()) // and with it what PostgreSQL has still to count
		s = storetest.Open(t, dsn)
		register := func(handle string, already int) int64 {
			i := addInvite(t, s, "")
			read, _ := visited(t, s, dsn, func(s *store.Store) {
				want(t, s.Register(t.Context(), i.Code, newUser(handle), nil, nil, already, noon, act("user.register")), account.ErrRegistrationFull)
				must(t, s.Register(t.Context(), i.Code, newUser(handle), nil, nil, already+1, noon, act("user.register")))
			})
			return read
		}
		read := min(register("late", members), register("later", members+1)) // as above
		if read > 2_000 {
			t.Errorf("%d rows visited to register", read)
		}
	})
}

// A search among 100,000 users, by words or a flag, reads with its count what a few of its pages have, and of
// the index of words at most 30,000 entries, however many begin as the query does and wherever these users are
// in the list. PostgreSQL may look at each such entry, by a bitmap.
func TestSearchOfPeopleReadsLittle(t *testing.T) {
	racetest.Skip(t)
	steps.Watch()
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		s := open(t, counted(dsn))
		must(t, s.Migrate(t.Context()))
		fillUsers(t, s, 100_000)
		vacuum(t, s) // of those who wait for the index of words nobody is left
		must(t, s.Close())
		s = storetest.Open(t, dsn)
		entries := int64(24_000)
		if s.Dialect() == store.Postgres {
			entries = 150_000 // in the index and in the table
		}
		for _, c := range []struct {
			most    int64 // each
			queries []account.UserQuery
		}{
			{entries, []account.UserQuery{{Query: "member"}, {Query: "user9"}, {Query: "user9 rare"}, {Query: "member", Flag: "admin"}, {Query: "member rare"}}},
			{9_000, []account.UserQuery{
				{Query: "rare"}, {Query: "m99"}, {Query: "user77777"}, {Query: "zzz"}, {Flag: "coach"}, {Flag: "admin"}, {Flag: "none"},
				{Query: "rare", Flag: "coach"}, {Query: "rare", Sort: account.SortNewest},
			}},
		} {
			n, read := int64(2*len(c.queries)), int64(0)
			for range 5 { // what transactions of other tests keep of old versions is passed once more
				read = 0
				for range 2 { // the server may count what a connection did only after the next
					once, _ := visited(t, s, dsn, func(s *store.Store) {
						for _, q := range c.queries {
							q.Limit = 50
							_, err := s.CountUsers(t.Context(), q)
							must(t, err)
						}
					})
					read += once
				}
				if read <= n*c.most {
					break
				}
				vacuum(t, s)
			}
			if read == 0 || read > n*c.most {
				t.Errorf("%d rows visited by %d searches like %+v", read, n, c.queries[0])
			}
		}
	})
}

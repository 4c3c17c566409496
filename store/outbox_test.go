package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// addTelling adds a client that wants logout notices.
func addTelling(t *testing.T, s *store.Store, id string) *provider.Client {
	t.Helper()
	c := addClient(t, s, id)
	c.BackchannelLogoutURI = "https://" + id + ".example.org/logout"
	must(t, s.UpdateClient(t.Context(), c, act("client.update")))
	return c
}

// useClient signs a session in at a client.
func useClient(t *testing.T, s *store.Store, c *provider.Client, n account.Session, scopes ...string) *provider.Grant {
	t.Helper()
	g := newGrant(c, n, scopes...)
	must(t, spendCode(t.Context(), s, addCode(t, s, g)))
	addTokens(t, s, g)
	return g
}

// notices are all that are due, each as "client session", and are gone then.
func notices(t *testing.T, s *store.Store, sub string) []string {
	t.Helper()
	due, err := s.DueLogouts(t.Context(), noon, time.Minute, 100)
	must(t, err)
	out := []string{}
	for _, n := range due {
		if n.Sub != sub || !n.CreatedAt.Equal(noon) || n.Attempts != 0 {
			t.Errorf("notice %+v", n)
		}
		out = append(out, n.ClientID+" "+n.SessionID)
		must(t, s.LogoutDone(t.Context(), n.ID))
	}
	slices.Sort(out)
	return out
}

// Every operation that ends sessions tells the clients of exactly those sessions,
// each once, and no other client.
func TestClientsAreToldOfEachEndOfASession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		telling, offline, silent, unused := addTelling(t, s, "telling"), addTelling(t, s, "offline"), addClient(t, s, "silent"), addTelling(t, s, "unused")
		bob := signIn(t, s, addUser(t, s, "bob"))
		useClient(t, s, telling, bob, "openid")
		for operation, do := range map[string]struct {
			ends int // of three sessions, the first ones
			do   func(u account.User, sessions []account.Session) error
		}{
			"sign-out": {1, func(u account.User, n []account.Session) error {
				return s.EndSession(ctx, u.Sub, n[0].ID, noon, act("session.end"))
			}},
			"sign-out-others": {2, func(u account.User, n []account.Session) error {
				_, err := s.EndSessions(ctx, u.Sub, noon, during(n[2].ID, act("session.end_others")))
				return err
			}},
			"password": {2, func(u account.User, n []account.Session) error {
				return s.ChangePassword(ctx, u.Sub, u.PasswordHash, "new", &n[2], noon, act("password.change"))
			}},
			"reset": {3, func(u account.User, _ []account.Session) error {
				if err := s.CreateResetCode(ctx, u.Sub, []byte("code"), noon.Add(time.Hour), noon, act("user.reset_code")); err != nil {
					return err
				}
				return s.ResetPassword(ctx, u.Handle, []byte("code"), "new", noon, act("password.reset"))
			}},
			"suspension": {3, func(u account.User, _ []account.Session) error {
				return s.Suspend(ctx, u.Sub, "", noon, act("user.suspend"))
			}},
			"deletion": {3, func(u account.User, _ []account.Session) error {
				return s.DeleteUser(ctx, u.Sub, noon, act("user.delete"))
			}},
		} {
			u := addUser(t, s, operation)
			var sessions []account.Session
			var expected []string
			for i := range 3 {
				n := signIn(t, s, u)
				sessions = append(sessions, n)
				useClient(t, s, telling, n, "openid")
				useClient(t, s, telling, n, "openid") // twice: told once
				revoked := useClient(t, s, offline, n, "openid", "offline_access")
				must(t, s.RevokeGrant(ctx, revoked.ID, noon)) // the client may be signed in all the same
				useClient(t, s, silent, n, "openid")
				addCode(t, s, newGrant(unused, n, "openid"))
				if i < do.ends {
					expected = append(expected, "telling "+n.ID, "offline "+n.ID)
				}
			}
			before := signIn(t, s, u) // ended earlier, and told then
			useClient(t, s, telling, before, "openid")
			must(t, s.EndSession(ctx, u.Sub, before.ID, noon, act("session.end")))
			equal(t, "notices", notices(t, s, u.Sub), []string{"telling " + before.ID})
			must(t, do.do(u, sessions))
			slices.Sort(expected)
			same(t, operation, cmp.Diff(expected, notices(t, s, u.Sub)), "")
		}
		if !live(t, s, bob.ID) {
			t.Error("another user's session ended")
		}
	})
}

func TestNoticeAndEndOfASessionAreOneTransaction(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c := t.Context(), addTelling(t, s, "app")
		u := addUser(t, s, "root", account.FlagAdmin)
		n := signIn(t, s, u)
		useClient(t, s, c, n, "openid")
		want(t, s.Suspend(ctx, u.Sub, "", noon, act("user.suspend")), account.ErrLastAdmin)
		want(t, s.DeleteUser(ctx, u.Sub, noon, act("user.delete")), account.ErrLastAdmin)
		want(t, s.ChangePassword(ctx, u.Sub, "wrong", "new", nil, noon, act("password.change")), account.ErrInvalidCredentials)
		want(t, s.ResetPassword(ctx, u.Handle, []byte("wrong"), "new", noon, act("password.reset")), account.ErrInvalidResetCode)
		want(t, s.EndSession(ctx, "somebody", n.ID, noon, act("session.end")), account.ErrSessionNotFound)
		in, end, err := s.Begin(ctx)
		must(t, err)
		must(t, in.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")))
		must(t, end(false))
		if got := notices(t, s, u.Sub); len(got) != 0 {
			t.Errorf("notices %q of nothing", got)
		}
		// And nothing ends without its notice.
		must(t, s.Exec("ALTER TABLE logout_outbox RENAME TO elsewhere"))
		want(t, s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")), account.ErrUnavailable)
		if _, err := s.EndSessions(ctx, u.Sub, noon, during("", act("session.end_others"))); !errors.Is(err, account.ErrUnavailable) {
			t.Errorf("ended without a notice: %v", err)
		}
		want(t, s.ChangePassword(ctx, u.Sub, u.PasswordHash, "new", nil, noon, act("password.change")), account.ErrUnavailable)
		if !live(t, s, n.ID) {
			t.Error("the session ended without a notice")
		}
	})
}

// A client that gets its tokens at the moment of the logout either is notified
// or gets nothing.
func TestExchangeDuringLogoutIsRevokedOrNotified(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		s := instances[0]
		c, u := addTelling(t, s, "app"), addUser(t, s, "ada")
		for round := range 40 {
			n := signIn(t, s, u)
			g := newGrant(c, n, "openid")
			addCode(t, s, g)
			errs := race(2, func(i int) error {
				if (i+round)%2 == 0 {
					return instances[0].EndSession(t.Context(), u.Sub, n.ID, noon, act("session.end"))
				}
				return instances[1].SpendCode(t.Context(), g.ID, []provider.Token{accessToken(g.ID)})
			})
			must(t, errs[round%2])
			exchanged := errs[1-round%2] == nil
			wins(t, errs, provider.ErrSpent)
			if got := notices(t, s, u.Sub); (len(got) == 1) != exchanged {
				t.Fatalf("round %d: exchanged %v, notices %q", round, exchanged, got)
			}
		}
	})
}

// More sessions than a statement may name.
func TestManySessionsEndAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, u := addTelling(t, s, "app"), addUser(t, s, "ada")
		g := useClient(t, s, c, signIn(t, s, u), "openid")
		const many = 2100
		numbers := "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n) x"
		must(t, s.Exec(`INSERT INTO sessions (id, sub, created_at, auth_time, last_seen_at, expires_at, status_list, status_index)
			SELECT 'many' || i, ?, 1, 1, 1, 9999999999, 1, 2000000 + i FROM `+numbers, u.Sub, many))
		must(t, s.Exec(`INSERT INTO grants (id, client_id, sub, sid, requested_scope, granted_scope, offline, code_sig, code_expires_at, code_used_at, redirect_uri,
			code_challenge, code_challenge_method, acr, auth_time, arrived_at, created_at)
			SELECT 'many' || i, client_id, sub, 'many' || i, '', '', offline, 'many' || i, 1, 1, '', '', '', '', 1, 1, 1 FROM grants g, `+numbers+` WHERE g.id = ?`, many, g.ID))
		must(t, s.Suspend(t.Context(), u.Sub, "", noon, act("user.suspend")))
		told, err := s.Count("SELECT count(DISTINCT sid) FROM logout_outbox")
		must(t, err)
		rows, err := s.Count("SELECT count(*) FROM logout_outbox")
		must(t, err)
		if told != many+1 || rows != many+1 {
			t.Errorf("%d notices of %d sessions, want %d", rows, told, many+1)
		}
	})
}

// addNotices ends n sessions, each four at another client.
func addNotices(t *testing.T, s *store.Store, n int) {
	t.Helper()
	var c *provider.Client
	u := addUser(t, s, "ada")
	for i := range n {
		if i%4 == 0 {
			c = addTelling(t, s, fmt.Sprint("app", i))
		}
		session := signIn(t, s, u)
		useClient(t, s, c, session, "openid")
		must(t, s.EndSession(t.Context(), u.Sub, session.ID, noon.Add(time.Duration(i)*time.Second), act("session.end")))
	}
}

func TestNoticeIsLeasedToOne(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		const total = 24
		addNotices(t, instances[0], total)
		ctx, now := t.Context(), noon.Add(time.Hour)
		for round := range 4 { // each time when the leases before have ended
			var mu sync.Mutex
			taken := map[int64]int{}
			wins(t, race(16, func(i int) error {
				for range 4 {
					due, err := instances[i%2].DueLogouts(ctx, now, time.Minute, 3)
					if err != nil {
						return err
					}
					if len(due) > 3 {
						t.Errorf("%d notices, asked for 3", len(due))
					}
					mu.Lock()
					for _, n := range due {
						taken[n.ID]++
					}
					mu.Unlock()
				}
				return nil
			}))
			for id, times := range taken {
				if times != 1 {
					t.Fatalf("round %d: notice %d was leased %d times", round, id, times)
				}
			}
			if len(taken) != total {
				t.Fatalf("round %d: %d of %d notices were leased", round, len(taken), total)
			}
			early, err := instances[1].DueLogouts(ctx, now.Add(59*time.Second), time.Minute, 100)
			must(t, err)
			if len(early) != 0 {
				t.Fatalf("%d notices were given away before their lease ended", len(early))
			}
			now = now.Add(time.Minute)
		}
	})
}

// A client that does not answer takes four slots, and the notices of others pass its own.
func TestSlowClientDelaysNoOther(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		for _, c := range []*provider.Client{addTelling(t, s, "slow"), addTelling(t, s, "quick")} {
			for range 6 {
				n := signIn(t, s, u)
				useClient(t, s, c, n, "openid")
				must(t, s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")))
			}
		}
		lease := func(at time.Time, slow, quick int) (due []provider.LogoutNotice) {
			t.Helper()
			due, err := s.DueLogouts(ctx, at, time.Minute, 16)
			must(t, err)
			got := map[string]int{}
			for _, n := range due {
				got[n.ClientID]++
			}
			equal(t, "leased", [2]int{got["slow"], got["quick"]}, [2]int{slow, quick})
			return due
		}
		first := lease(noon, 4, 4)
		for _, n := range first[4:] {
			must(t, s.LogoutDone(ctx, n.ID))
		}
		lease(noon, 0, 2)
		must(t, s.LogoutFailed(ctx, first[0].ID, noon.Add(5*time.Second)))
		lease(noon, 1, 0)
		lease(noon.Add(5*time.Second), 0, 0)
		must(t, s.LogoutDone(ctx, first[1].ID))
		must(t, s.LogoutDone(ctx, first[2].ID))
		last := lease(noon.Add(5*time.Second), 2, 0)
		same(t, "the one that failed", last[0].ID, first[0].ID)
	})
}

func TestFailedNoticeComesAgainInTime(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		addNotices(t, s, 3)
		now := noon.Add(time.Minute)
		ask := func(at time.Time, limit int) []provider.LogoutNotice {
			t.Helper()
			due, err := s.DueLogouts(ctx, at, time.Minute, limit)
			must(t, err)
			return due
		}
		same(t, "notices before their time", len(ask(noon.Add(-time.Second), 10)), 0)
		same(t, "notices, asked for none", len(ask(now, 0)), 0)
		first := ask(now, 2)
		if len(first) != 2 || first[0].ID >= first[1].ID || !first[0].CreatedAt.Equal(noon) ||
			!first[1].CreatedAt.Equal(noon.Add(time.Second)) {
			t.Fatalf("the oldest should come first: %+v", first)
		}
		failed, done := first[0], first[1]
		must(t, s.LogoutDone(ctx, done.ID))
		must(t, s.LogoutDone(ctx, done.ID))
		next := now.Add(5 * time.Second) // before the lease would have ended
		must(t, s.LogoutFailed(ctx, failed.ID, next))
		must(t, s.LogoutFailed(ctx, done.ID, next)) // is gone
		if other := ask(next.Add(-time.Second), 10); len(other) != 1 || other[0].ID == failed.ID {
			t.Errorf("%+v, want the untried one", other)
		}
		again := ask(next, 10)
		if len(again) != 1 || again[0].ID != failed.ID || again[0].Attempts != 1 ||
			again[0].SessionID != failed.SessionID || !again[0].CreatedAt.Equal(noon) {
			t.Errorf("%+v, want the failed one", again)
		}
		same(t, "notices are left", len(ask(now.Add(time.Hour), 10)), 2)
	})
}

// Sweeping must not make a client deaf: its tokens end long before the session.
func TestSweepKeepsWhoIsToBeTold(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		telling, silent := addTelling(t, s, "telling"), addClient(t, s, "silent")
		n, ended := signIn(t, s, u), signIn(t, s, u)
		for range 5 {
			useClient(t, s, telling, n, "openid")
		}
		useClient(t, s, silent, n, "openid")
		useClient(t, s, telling, ended, "openid")
		for _, session := range []account.Session{n, signIn(t, s, u)} {
			addCode(t, s, newGrant(telling, session, "openid")) // never exchanged
		}
		must(t, s.EndSession(ctx, u.Sub, ended.ID, noon, act("session.end")))
		notices(t, s, u.Sub)
		must(t, s.Exec("DELETE FROM tokens"))
		for range 2 {
			_, err := s.Sweep(ctx, noon.Add(month-time.Hour))
			must(t, err)
			rows, err := s.Count("SELECT count(*) FROM grants")
			must(t, err)
			if rows != 1 {
				t.Fatalf("%d grants are left, want the one that tells who is to be told", rows)
			}
		}
		must(t, s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")))
		if got := notices(t, s, u.Sub); len(got) != 1 || got[0] != "telling "+n.ID {
			t.Errorf("notices %q", got)
		}
		_, err := s.Sweep(ctx, noon.Add(month-time.Hour))
		must(t, err)
		rows, err := s.Count("SELECT count(*) FROM grants")
		must(t, err)
		same(t, "grants outlive their session", rows, 0)
		// A session that runs out is no reason to keep them either.
		useClient(t, s, telling, signIn(t, s, u), "openid")
		must(t, s.Exec("DELETE FROM tokens"))
		got, err := s.Sweep(ctx, noon.Add(month+2*time.Hour))
		must(t, err)
		same(t, got, got.Grants, 1)
	})
}

func TestSweepDeletesWhatTheProviderLeft(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		addNotices(t, s, 2)
		c := addClient(t, s, "machine")
		addClientToken(t, s, c)
		must(t, s.SavePushedRequest(ctx, []byte("hash"), c.ID, "scope=openid", noon.Add(time.Minute)))
		must(t, s.SpendAssertion(ctx, c.ID, "jti", noon.Add(time.Minute)))
		for _, step := range []struct {
			at       time.Time
			expected [4]int64 // own tokens, pushed requests, assertions, notices
		}{
			{noon, [4]int64{}},
			{noon.Add(6 * time.Minute), [4]int64{0, 1, 0, 0}},
			{noon.Add(90 * time.Minute), [4]int64{0, 0, 1, 0}},
			{noon.Add(3 * time.Hour), [4]int64{1, 0, 0, 0}},
			{noon.Add(72*time.Hour - time.Second), [4]int64{}},
			{noon.Add(72 * time.Hour), [4]int64{0, 0, 0, 1}},
			{noon.Add(73 * time.Hour), [4]int64{0, 0, 0, 1}},
		} {
			got, err := s.Sweep(ctx, step.at)
			must(t, err)
			if deleted := [4]int64{got.ClientTokens, got.PushedRequests, got.Assertions,
				got.LogoutNotices}; deleted != step.expected {
				t.Errorf("%v: deleted %v, want %v", step.at, deleted, step.expected)
			}
		}
	})
}

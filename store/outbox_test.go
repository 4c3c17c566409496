package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// addNotices ends n sessions at one client.
func addNotices(t *testing.T, s *store.Store, n int) {
	t.Helper()
	c, u := addTelling(t, s, "app"), addUser(t, s, "ada")
	for i := range n {
		session := signIn(t, s, u)
		useClient(t, s, c, session, "openid")
		must(t, s.EndSession(t.Context(), u.Sub, session.ID, noon.Add(time.Duration(i)*time.Second)))
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
		if early := ask(noon.Add(-time.Second), 10); len(early) != 0 {
			t.Errorf("%d notices before their time", len(early))
		}
		if none := ask(now, 0); len(none) != 0 {
			t.Errorf("%d notices, asked for none", len(none))
		}
		first := ask(now, 2)
		if len(first) != 2 || first[0].ID >= first[1].ID || !first[0].CreatedAt.Equal(noon) || !first[1].CreatedAt.Equal(noon.Add(time.Second)) {
			t.Fatalf("the oldest should come first: %+v", first)
		}
		failed, done := first[0], first[1]
		must(t, s.LogoutDone(ctx, done.ID))
		must(t, s.LogoutDone(ctx, done.ID))
		next := now.Add(5 * time.Second) // before the lease would have ended
		must(t, s.LogoutFailed(ctx, failed.ID, next))
		must(t, s.LogoutFailed(ctx, done.ID, next)) // is gone
		if other := ask(next.Add(-time.Second), 10); len(other) != 1 || other[0].ID == failed.ID {
			t.Errorf("%+v, want the one nobody has tried", other)
		}
		again := ask(next, 10)
		if len(again) != 1 || again[0].ID != failed.ID || again[0].Attempts != 1 || again[0].SessionID != failed.SessionID || !again[0].CreatedAt.Equal(noon) {
			t.Errorf("%+v, want the failed one", again)
		}
		if left := ask(now.Add(time.Hour), 10); len(left) != 2 {
			t.Errorf("%d notices are left, want 2", len(left))
		}
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
			addCode(t, s, newGrant(telling, session, "openid")) // nobody came for it
		}
		must(t, s.EndSession(ctx, u.Sub, ended.ID, noon))
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
		must(t, s.EndSession(ctx, u.Sub, n.ID, noon))
		if got := notices(t, s, u.Sub); len(got) != 1 || got[0] != "telling "+n.ID {
			t.Errorf("notices %q", got)
		}
		_, err := s.Sweep(ctx, noon.Add(month-time.Hour))
		must(t, err)
		rows, err := s.Count("SELECT count(*) FROM grants")
		must(t, err)
		if rows != 0 {
			t.Errorf("%d grants outlive their session", rows)
		}
		// A session that runs out is no reason to keep them either.
		useClient(t, s, telling, signIn(t, s, u), "openid")
		must(t, s.Exec("DELETE FROM tokens"))
		got, err := s.Sweep(ctx, noon.Add(month+2*time.Hour))
		must(t, err)
		if got.Grants != 1 {
			t.Errorf("%+v", got)
		}
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
			if deleted := [4]int64{got.ClientTokens, got.PushedRequests, got.Assertions, got.LogoutNotices}; deleted != step.expected {
				t.Errorf("%v: deleted %v, want %v", step.at, deleted, step.expected)
			}
		}
	})
}

package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// crowd counts the visits.
var crowd = web.Counter{Name: "invite", Key: "odd \x00\xff key", Rate: web.Rate{Count: 10_000, Window: time.Minute}}

// visit is a round of everything that one member does.
func visit(t *testing.T, s *store.Store, u account.User, c *provider.Client, round int) error {
	ctx, n := t.Context(), newSession(u.Sub)
	g, display := newGrant(c, *n, "openid", "offline_access"), name("name ", round)
	for _, step := range []func() error{
		func() error { return s.CreateSession(ctx, n, u.PasswordHash, act("session.create")) },
		func() error { return s.CreateGrant(ctx, g) },
		func() error {
			return s.SpendCode(ctx, g.ID, []provider.Token{accessToken("access-" + g.ID), refreshToken("refresh-" + g.ID)})
		},
		func() error { _, _, err := s.Session(ctx, n.ID); return err },
		func() error { return s.TouchSessions(ctx, map[string]time.Time{n.ID: noon.Add(time.Minute)}) },
		func() error {
			_, err := s.ChangeUser(ctx, u.Sub,
				func(u *account.User) error { u.DisplayName = display; return nil }, noon, nil)
			return err
		},
		func() error {
			return s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid", "profile"}, noon, act("app.allow"))
		},
		func() error { _, err := s.Apps(ctx, u.Sub, noon); return err },
		func() error { return s.RemoveApp(ctx, u.Sub, c.ID, noon, act("app.remove")) },
		func() error { _, err := s.Counters().Take(ctx, crowd, noon, false); return err },
		func() error {
			_, err := s.SetFlags(ctx, u.Sub, account.FlagChange{"beta": {On: round%2 == 0}}, noon, keeping(act("user.flags")))
			return err
		},
		func() error {
			return s.CreateResetCode(ctx, u.Sub, []byte(uuid.NewString()), noon.Add(time.Hour), noon, act("user.reset_code"))
		},
		func() error { _, _, err := s.Users(ctx, account.UserQuery{Query: "user", Limit: 5}); return err },
		func() error { return s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Readers and writers side by side, over two instances: no "database is
// locked", nothing refused, nothing lost.
func TestCrowdIsNotLockedOut(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		c := addClient(t, instances[0], "app")
		const workers, rounds = 16, 3
		users := make([]account.User, workers)
		for i := range users {
			users[i] = addUser(t, instances[0], name("user", i))
		}
		wins(t, race(workers, func(i int) error {
			for round := range rounds {
				if err := visit(t, instances[i%2], users[i], c, round); err != nil {
					return err
				}
			}
			return nil
		}))
		counts, err := instances[0].Counters().Counts(t.Context(), crowd, noon)
		must(t, err)
		sessions, err := instances[0].Count("SELECT count(*) FROM sessions WHERE ended_at > 0")
		must(t, err)
		if counts.Current.Events != workers*rounds || sessions != workers*rounds {
			t.Errorf("%+v and %d sessions of %d visits", counts, sessions, workers*rounds)
		}
	})
}

// Operations on one user wait for one another in one order, never in a circle.
func TestOperationsOnOneUserDoNotDeadlock(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		ctx, c := t.Context(), addClient(t, instances[0], "app")
		u := addUser(t, instances[0], "ada")
		errs := race(24, func(i int) error {
			s := instances[i%2]
			for range 5 {
				n := newSession(u.Sub)
				g := newGrant(c, *n, "openid")
				var err error
				switch i % 8 {
				case 0:
					if err = s.CreateSession(ctx, n, u.PasswordHash, act("session.create")); err == nil {
						err = s.CreateGrant(ctx, g)
					}
				case 1:
					_, err = s.EndSessions(ctx, u.Sub, noon, during("", act("session.end_others")))
				case 2:
					err = s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid", "email"}, noon, act("app.allow"))
				case 3:
					err = s.RemoveApp(ctx, u.Sub, c.ID, noon, act("app.remove"))
				case 4:
					err = s.ChangePassword(ctx, u.Sub, u.PasswordHash, u.PasswordHash, nil, noon, act("password.change"))
				case 5:
					err = s.Suspend(ctx, u.Sub, "", noon, act("user.suspend"))
				case 6:
					err = s.Unsuspend(ctx, u.Sub, noon, act("user.unsuspend"))
				case 7:
					if err = s.CreateResetCode(ctx, u.Sub, []byte("code"), noon.Add(time.Hour), noon, act("x")); err == nil {
						err = s.ResetPassword(ctx, u.Handle, []byte("code"), u.PasswordHash, noon, act("password.reset"))
					}
				}
				for _, refusal := range []error{account.ErrSuspended, account.ErrSessionNotFound,
					account.ErrAppNotFound, account.ErrInvalidResetCode} {
					if errors.Is(err, refusal) {
						err = nil
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		wins(t, errs)
	})
}

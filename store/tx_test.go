package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestFailureOfTheDatabaseIsNeverAnAnswer(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		ended, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer end()
		gone := storetest.New(t)
		must(t, gone.Exec("DROP TABLE sessions"))
		must(t, gone.Exec("DROP TABLE tokens"))
		for _, x := range []struct {
			s   *store.Store
			ctx context.Context
		}{{s, ended}, {gone, t.Context()}} {
			_, _, err := x.s.Session(x.ctx, "some id")
			want(t, err, account.ErrUnavailable)
			_, err = useToken(x.ctx, x.s, "some signature")
			want(t, err, account.ErrUnavailable)
			want(t, x.s.EndSession(ended, u.Sub, "some id", noon), account.ErrUnavailable)
		}
		_, err := s.UserByHandle(ended, "ada")
		want(t, err, account.ErrUnavailable)
		want(t, err, context.DeadlineExceeded)
		_, err = s.Client(ended, "app")
		want(t, err, account.ErrUnavailable)
		want(t, s.CreateUser(ended, newUser("bob"), act("user.create")), account.ErrUnavailable)
		_, err = s.UserByHandle(t.Context(), "bob")
		want(t, err, account.ErrUserNotFound)
	})
}

// Whoever gives up has not found the database failing: not while the statement
// waits for another writer, nor before it.
func TestCanceledCallIsNoFailureOfTheDatabase(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s, other := storetest.Open(t, dsn), storetest.Open(t, dsn)
		if s.Dialect() == store.SQLite {
			other = s // SQLite does not let go of whoever waits for another process
		}
		u := addUser(t, s, "ada")
		n := signIn(t, s, u)
		g := newGrantStored(t, s, addClient(t, s, "app"), n)
		holder, end, err := other.Begin(t.Context())
		must(t, err)
		must(t, holder.UpgradeHash(t.Context(), u.Sub, u.PasswordHash, "held"))
		must(t, holder.SpendCode(t.Context(), g.ID, nil))
		before, cancel := context.WithCancel(t.Context())
		cancel()
		for what, call := range map[string]func(ctx context.Context) error{
			"read":        func(ctx context.Context) error { _, err := s.UserByHandle(ctx, "ada"); return err },
			"statement":   func(ctx context.Context) error { return s.UpgradeHash(ctx, u.Sub, u.PasswordHash, "new") },
			"transaction": func(ctx context.Context) error { return s.EndSession(ctx, u.Sub, n.ID, noon) },
			"exchange":    func(ctx context.Context) error { return s.SpendCode(ctx, g.ID, nil) },
		} {
			for when, ctx := range map[string]context.Context{"before": before, "meanwhile": nil} {
				if ctx == nil {
					if what == "read" {
						continue // waits for nobody
					}
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(50*time.Millisecond, cancel)
				}
				err := call(ctx)
				want(t, err, context.Canceled)
				if errors.Is(err, account.ErrUnavailable) {
					t.Errorf("%s, canceled %s: %v", what, when, err)
				}
			}
		}
		must(t, end(false))
	})
}

package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestRollbackLeavesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		g := newGrantStored(t, s, addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada")))
		code := "sig-" + g.ID
		ctx, err := s.BeginTX(t.Context())
		must(t, err)
		must(t, s.InvalidateAuthorizeCodeSession(ctx, code))
		must(t, s.CreateAccessTokenSession(ctx, "access", g))
		_, err = s.GetAccessTokenSession(ctx, "access", nil)
		must(t, err) // seen inside
		_, err = s.GetAccessTokenSession(t.Context(), "access", nil)
		want(t, err, fosite.ErrNotFound) // not outside
		if _, err := s.BeginTX(ctx); err == nil {
			t.Error("began a transaction in a transaction")
		}
		must(t, s.Rollback(ctx))
		must(t, s.Rollback(ctx)) // nothing to undo is no error
		want(t, s.Commit(ctx), account.ErrUnavailable)
		_, err = s.GetAccessTokenSession(t.Context(), "access", nil)
		want(t, err, fosite.ErrNotFound)
		must(t, s.InvalidateAuthorizeCodeSession(t.Context(), code))
	})
}

// A panic between BeginTX and Commit leaves the transaction open; the end of
// the request must let the next writer in.
func TestForgottenTransactionNeverBlocksTheNext(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		g := newGrantStored(t, s, addClient(t, s, "app"), signIn(t, s, u))
		for range 3 {
			request, end := context.WithCancel(t.Context())
			ctx, err := s.BeginTX(request)
			must(t, err)
			must(t, s.InvalidateAuthorizeCodeSession(ctx, "sig-"+g.ID))
			end()
			began := time.Now()
			must(t, s.TouchSessions(t.Context(), map[string]time.Time{"any": noon}))
			must(t, s.RevokeGrant(t.Context(), "any", noon))
			if waited := time.Since(began); waited > 5*time.Second {
				t.Errorf("the next writer waited %v", waited)
			}
			want(t, s.Commit(ctx), context.Canceled)
			must(t, s.Rollback(ctx))
		}
		must(t, s.InvalidateAuthorizeCodeSession(t.Context(), "sig-"+g.ID)) // undone each time
	})
}

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
			_, err = x.s.GetAccessTokenSession(x.ctx, "some signature", nil)
			want(t, err, account.ErrUnavailable)
			want(t, x.s.EndSession(ended, u.Sub, "some id", noon), account.ErrUnavailable)
		}
		_, err := s.UserByHandle(ended, "ada")
		want(t, err, account.ErrUnavailable)
		want(t, err, context.DeadlineExceeded)
		_, err = s.GetClient(ended, "app")
		want(t, err, account.ErrUnavailable)
		_, err = s.BeginTX(ended)
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
		holder, err := other.BeginTX(t.Context())
		must(t, err)
		must(t, other.UpgradeHash(holder, u.Sub, u.PasswordHash, "held"))
		must(t, other.InvalidateAuthorizeCodeSession(holder, "sig-"+g.ID))
		before, end := context.WithCancel(t.Context())
		end()
		for what, call := range map[string]func(ctx context.Context) error{
			"read":        func(ctx context.Context) error { _, err := s.UserByHandle(ctx, "ada"); return err },
			"statement":   func(ctx context.Context) error { return s.UpgradeHash(ctx, u.Sub, u.PasswordHash, "new") },
			"transaction": func(ctx context.Context) error { return s.EndSession(ctx, u.Sub, n.ID, noon) },
			"begin": func(ctx context.Context) error {
				tx, err := s.BeginTX(ctx)
				if err != nil {
					return err
				}
				defer func() { _ = s.Rollback(tx) }()
				return s.InvalidateAuthorizeCodeSession(tx, "sig-"+g.ID)
			},
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
		must(t, other.Rollback(holder))
	})
}

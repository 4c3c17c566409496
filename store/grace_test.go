package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

const grace = 30 * time.Second

// graceful is the client with a grace.
func graceful(c *provider.Client) *provider.Client {
	change := *c
	change.RefreshGrace = grace
	return &change
}

type txContext = context.Context

// inTransaction does before, and then the steps as fosite does: all or nothing.
func inTransaction(t *testing.T, s *store.Store, ctx context.Context, before func() error, steps ...func(tx txContext) error) error {
	if err := before(); err != nil {
		return err
	}
	tx, err := s.BeginTX(ctx)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err := step(tx); err != nil {
			must(t, s.Rollback(tx))
			return err
		}
	}
	return s.Commit(tx)
}

// refresh is what fosite does with a refresh token; the successor is next.
func refresh(t *testing.T, s *store.Store, g *fosite.Request, token, next string) error {
	ctx := t.Context()
	return inTransaction(t, s, ctx,
		func() error { _, err := s.GetRefreshTokenSession(ctx, token, nil); return err },
		func(tx txContext) error { return s.RotateRefreshToken(tx, g.ID, token) },
		func(tx txContext) error { return s.CreateRefreshTokenSession(tx, next, "access", g) })
}

func active(t *testing.T, s *store.Store, token string) bool {
	t.Helper()
	r, err := s.GetRefreshTokenSession(t.Context(), token, nil)
	if err == nil {
		return true
	}
	want(t, err, fosite.ErrInactiveToken)
	if r == nil {
		t.Error("an inactive token comes without its requester: its family could not be revoked")
	}
	return false
}

// later lets time pass for the rotated tokens.
func later(t *testing.T, s *store.Store, d time.Duration) {
	t.Helper()
	must(t, s.Exec("UPDATE tokens SET used_at = used_at - ? WHERE used_at > 0", int64(d/time.Second)))
}

func addGraceful(t *testing.T, s *store.Store, id string) *provider.Client {
	t.Helper()
	c := graceful(addClient(t, s, id))
	must(t, s.UpdateClient(t.Context(), c))
	return c
}

func TestRotatedTokenNeverWorksAfterTheGrace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, n := addGraceful(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		g := newGrantStored(t, s, c, n)
		_, token := addTokens(t, s, g)
		first, second := uuid.NewString(), uuid.NewString()
		must(t, refresh(t, s, g, token, first))
		later(t, s, grace-10*time.Second)
		must(t, refresh(t, s, g, token, second))
		if !active(t, s, first) || !active(t, s, second) || !active(t, s, token) {
			t.Error("a token does not work within the grace")
		}
		// The grace began with the first rotation: using it does not prolong it.
		later(t, s, 11*time.Second)
		if active(t, s, token) {
			t.Error("the token works after the grace")
		}
		if !active(t, s, first) || !active(t, s, second) {
			t.Error("a successor ended with the grace")
		}
		want(t, s.RotateRefreshToken(t.Context(), g.ID, token), fosite.ErrInactiveToken)
		if active(t, s, first) || active(t, s, second) {
			t.Error("a second use after the grace left its family alive")
		}
		want(t, s.RotateRefreshToken(asClient(t.Context(), c), "another grant", first), fosite.ErrInactiveToken)
	})
}

func TestGraceIsItsClientsAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		c, strict, n := addGraceful(t, s, "app"), addClient(t, s, "strict"), signIn(t, s, addUser(t, s, "ada"))
		g, other := newGrantStored(t, s, c, n), newGrantStored(t, s, strict, n)
		_, token := addTokens(t, s, g)
		_, strictToken := addTokens(t, s, other)
		must(t, s.RotateRefreshToken(ctx, g.ID, token))
		must(t, s.RotateRefreshToken(ctx, other.ID, strictToken))
		// A clock that runs ahead elsewhere: "rotated in the future" is not young.
		for range 2 {
			if active(t, s, strictToken) {
				t.Error("a strict client's token works twice")
			}
			want(t, s.RotateRefreshToken(ctx, other.ID, strictToken), fosite.ErrInactiveToken)
			later(t, s, -5*time.Second)
		}
		_, err := s.GetRefreshTokenSession(asClient(ctx, strict), token, nil)
		want(t, err, fosite.ErrNotFound)
		// Taken back by the operator, it is gone at once.
		c.RefreshGrace = 0
		must(t, s.UpdateClient(ctx, c))
		if active(t, s, token) {
			t.Error("the token works after its client lost the grace")
		}
		want(t, s.RotateRefreshToken(ctx, g.ID, token), fosite.ErrInactiveToken)
	})
}

func TestRetiredTokenHasNoGrace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, n := addGraceful(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		g := newGrantStored(t, s, c, n)
		_, rotated := addTokens(t, s, g)
		_, unused := addTokens(t, s, g)
		must(t, s.RotateRefreshToken(t.Context(), g.ID, rotated))
		for _, token := range []string{rotated, unused} {
			must(t, s.DeleteRefreshTokenSession(t.Context(), token))
			if active(t, s, token) {
				t.Error("a retired token works")
			}
			want(t, s.RotateRefreshToken(t.Context(), g.ID, token), fosite.ErrInactiveToken)
		}
	})
}

func TestSixteenRefreshesAtOnce(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		s := instances[0]
		n := signIn(t, s, addUser(t, s, "ada"))
		for c, expected := range map[*provider.Client]int{addGraceful(t, s, "parallel"): 16, addClient(t, s, "strict"): 1} {
			for round := range 6 {
				g := newGrantStored(t, s, c, n)
				_, token := addTokens(t, s, g)
				next := func(i int) string { return name(c.ID, "-", round, "-", i) }
				errs := race(16, func(i int) error { return refresh(t, instances[i%2], g, token, next(i)) })
				if n := wins(t, errs, fosite.ErrInactiveToken); n != expected {
					t.Fatalf("%s: one token has %d successors, want %d", c.ID, n, expected)
				}
				for i, err := range errs {
					// The others end what a strict client's winner got.
					if err == nil && expected == 16 && !active(t, s, next(i)) {
						t.Error("a successor does not work")
					}
				}
			}
		}
	})
}

func TestRevokedGrantHasNoGrace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, n := addGraceful(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		for round := range 10 {
			g := newGrantStored(t, s, c, n)
			_, token := addTokens(t, s, g)
			next := func(i int) string { return name("next-", round, "-", i) }
			errs := race(16, func(i int) error {
				if i == 15 {
					return s.RevokeGrant(t.Context(), g.ID, noon)
				}
				return refresh(t, s, g, token, next(i))
			})
			must(t, errs[15])
			wins(t, errs, fosite.ErrInactiveToken)
			for i, err := range errs[:15] {
				if err == nil && active(t, s, next(i)) {
					t.Fatal("a successor of a revoked grant works")
				}
			}
			if active(t, s, token) {
				t.Fatal("a token of a revoked grant works")
			}
			want(t, s.RotateRefreshToken(t.Context(), g.ID, token), fosite.ErrInactiveToken)
		}
	})
}

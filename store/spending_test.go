package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// exchange is what fosite does with a code: one transaction, rolled back after
// a refusal.
func exchange(t *testing.T, s *store.Store, g *fosite.Request, code, access string) error {
	ctx, err := s.BeginTX(t.Context())
	if err != nil {
		return err
	}
	if err := s.InvalidateAuthorizeCodeSession(ctx, code); err != nil {
		must(t, s.Rollback(ctx))
		return err
	}
	if err := s.CreateAccessTokenSession(ctx, access, g); err != nil {
		must(t, s.Rollback(ctx))
		return err
	}
	if err := s.CreateRefreshTokenSession(ctx, "refresh-"+access, access, g); err != nil {
		must(t, s.Rollback(ctx))
		return err
	}
	return s.Commit(ctx)
}

func TestCodeIsSpentOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, n := addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		for round := range 20 {
			g := newGrant(c, n, "openid", "offline_access")
			code := addCode(t, s, g)
			access := func(i int) string { return name(g.ID, i) }
			errs := race(16, func(i int) error { return exchange(t, s, g, code, access(i)) })
			if n := wins(t, errs, fosite.ErrInvalidatedAuthorizeCode); n != 1 {
				t.Fatalf("round %d: one code gave %d token sets", round, n)
			}
			tokens, err := s.Count("SELECT count(*) FROM tokens WHERE grant_id = ?", g.ID)
			must(t, err)
			if tokens != 2 {
				t.Fatalf("round %d: %d tokens of one code", round, tokens)
			}
			for i, err := range errs {
				if err == nil {
					_, err := s.GetAccessTokenSession(t.Context(), access(i), nil)
					want(t, err, fosite.ErrInactiveToken) // fifteen second uses
				}
			}
			r, err := s.GetAuthorizeCodeSession(t.Context(), code, nil)
			want(t, err, fosite.ErrInvalidatedAuthorizeCode)
			if r == nil || r.GetID() != g.ID {
				t.Fatal("a used code comes without its requester: its tokens could not be revoked")
			}
		}
	})
}

func TestRefreshTokenIsSpentOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, n := addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		for round := range 20 {
			g := newGrantStored(t, s, c, n)
			_, refresh := addTokens(t, s, g)
			next := "refresh-" + uuid.NewString()
			errs := race(16, func(i int) error {
				ctx, err := s.BeginTX(t.Context())
				if err != nil {
					return err
				}
				if err := s.RotateRefreshToken(ctx, g.ID, refresh); err != nil {
					must(t, s.Rollback(ctx))
					return err
				}
				if err := s.CreateRefreshTokenSession(ctx, next, name("a", round, i), g); err != nil {
					must(t, s.Rollback(ctx))
					return err
				}
				return s.Commit(ctx)
			})
			if n := wins(t, errs, fosite.ErrInactiveToken); n != 1 {
				t.Fatalf("round %d: %d successors", round, n)
			}
			for _, token := range []string{refresh, next} {
				if active(t, s, token) {
					t.Fatalf("round %d: a token of the family survived fifteen second uses", round)
				}
			}
		}
		g := newGrantStored(t, s, c, n)
		_, refresh := addTokens(t, s, g)
		must(t, s.DeleteRefreshTokenSession(t.Context(), refresh))
		if active(t, s, refresh) {
			t.Error("a retired token works")
		}
		want(t, s.RotateRefreshToken(t.Context(), "another grant", refresh), fosite.ErrInactiveToken)
	})
}

// The loser comes while the winner has spent the code and not committed yet: it
// waits, for the row or for the writer. If the winner goes back it has won itself.
func TestSecondUseBeforeTheFirstIsCommittedRevokes(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s, other := storetest.Open(t, dsn), storetest.Open(t, dsn)
		c, n := addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		for _, commits := range []bool{true, false} {
			for what, spend := range map[string]func(in *store.Store, ctx context.Context, g *fosite.Request, refresh string) error{
				"code": func(in *store.Store, ctx context.Context, g *fosite.Request, _ string) error {
					return in.InvalidateAuthorizeCodeSession(ctx, "sig-"+g.ID)
				},
				"refresh token": func(in *store.Store, ctx context.Context, g *fosite.Request, refresh string) error {
					return in.RotateRefreshToken(ctx, g.ID, refresh)
				},
			} {
				g := newGrantStored(t, s, c, n)
				_, refresh := addTokens(t, s, g)
				access := "access-" + uuid.NewString()
				winner, err := s.BeginTX(t.Context())
				must(t, err)
				must(t, spend(s, winner, g, refresh))
				must(t, s.CreateAccessTokenSession(winner, access, g))
				lost := make(chan error, 1)
				go func() {
					ctx, err := other.BeginTX(t.Context())
					if err == nil {
						err = spend(other, ctx, g, refresh)
						err = errors.Join(err, other.Rollback(ctx))
					}
					lost <- err
				}()
				if !commits {
					must(t, s.Rollback(winner))
					must(t, <-lost)
					continue
				}
				must(t, s.Commit(winner))
				if err := <-lost; !errors.Is(err, fosite.ErrInvalidatedAuthorizeCode) && !errors.Is(err, fosite.ErrInactiveToken) || errors.Is(err, provider.ErrGrantRevoked) {
					t.Errorf("%s: the second use got %v", what, err)
				}
				_, err = s.GetAccessTokenSession(t.Context(), access, nil)
				want(t, err, fosite.ErrInactiveToken)
			}
		}
	})
}

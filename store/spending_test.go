package store_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// exchange is what fosite does with a code: one transaction.
func exchange(t *testing.T, s *store.Store, g *fosite.Request, code string) error {
	ctx, err := s.BeginTX(t.Context())
	if err != nil {
		return err
	}
	if err := s.InvalidateAuthorizeCodeSession(ctx, code); err != nil {
		must(t, s.Rollback(ctx))
		return err
	}
	access := "access-" + uuid.NewString()
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
			errs := race(16, func(int) error { return exchange(t, s, g, code) })
			if n := wins(t, errs, fosite.ErrInvalidatedAuthorizeCode); n != 1 {
				t.Fatalf("round %d: one code gave %d token sets", round, n)
			}
			tokens, err := s.Count("SELECT count(*) FROM tokens WHERE grant_id = ?", g.ID)
			must(t, err)
			if tokens != 2 {
				t.Fatalf("round %d: %d tokens of one code", round, tokens)
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
		g := newGrantStored(t, s, c, n)
		_, refresh := addTokens(t, s, g)
		for round := range 20 {
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
			r, err := s.GetRefreshTokenSession(t.Context(), refresh, nil)
			want(t, err, fosite.ErrInactiveToken)
			if r == nil || r.GetID() != g.ID {
				t.Fatal("a rotated token comes without its requester: its family could not be revoked")
			}
			refresh = next
		}
		must(t, s.DeleteRefreshTokenSession(t.Context(), refresh))
		_, err := s.GetRefreshTokenSession(t.Context(), refresh, nil)
		want(t, err, fosite.ErrInactiveToken) // known, but used
		want(t, s.RotateRefreshToken(t.Context(), "another grant", refresh), fosite.ErrInactiveToken)
	})
}

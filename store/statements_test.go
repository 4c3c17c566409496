package store_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// counts fails unless do asks the database that often.
func counts(t *testing.T, s *store.Store, doing string, reads, writes int, do func() error) {
	t.Helper()
	var err error
	r, w, counting := s.CountStatements(func() { err = do() })
	must(t, counting)
	must(t, err)
	if r != reads || w != writes {
		t.Errorf("%s: %d reads and %d writes, want %d and %d", doing, r, w, reads, writes)
	}
}

// What happens at every sign-in at a client and at every use of a token is
// never done in more statements than it takes.
func TestHotPathsNeverAskMoreOften(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, n := addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		must(t, s.UpdateClient(t.Context(), graceful(c)))
		g := newGrantStored(t, s, c, n)
		code, access, refresh := "sig-"+g.ID, uuid.NewString(), uuid.NewString()
		ctx := asClient(provider.WithRequestCache(t.Context()), c)
		counts(t, s, "exchange", 1, 3, func() error {
			for range 2 {
				for _, get := range []func() (fosite.Requester, error){
					func() (fosite.Requester, error) { return s.GetAuthorizeCodeSession(ctx, code, nil) },
					func() (fosite.Requester, error) { return s.GetPKCERequestSession(ctx, code, nil) },
					func() (fosite.Requester, error) { return s.GetOpenIDConnectSession(ctx, "x."+code, nil) },
				} {
					if _, err := get(); err != nil {
						return err
					}
				}
			}
			return inTransaction(t, s, ctx,
				func() error { return nil },
				func(tx txContext) error { return s.InvalidateAuthorizeCodeSession(tx, code) },
				func(tx txContext) error { return s.CreateAccessTokenSession(tx, access, g) },
				func(tx txContext) error { return s.CreateRefreshTokenSession(tx, refresh, access, g) })
		})
		counts(t, s, "refresh", 1, 3, func() error {
			return inTransaction(t, s, ctx,
				func() error { _, err := s.GetRefreshTokenSession(ctx, refresh, nil); return err },
				func(tx txContext) error { return s.RotateRefreshToken(tx, g.ID, refresh) },
				func(tx txContext) error { return s.CreateAccessTokenSession(tx, uuid.NewString(), g) },
				func(tx txContext) error { return s.CreateRefreshTokenSession(tx, uuid.NewString(), access, g) })
		})
		_, err := s.GetAccessTokenSession(t.Context(), access, nil) // the client is remembered now
		must(t, err)
		counts(t, s, "userinfo", 2, 0, func() error {
			r, err := s.GetAccessTokenSession(t.Context(), access, nil)
			if err != nil {
				return err
			}
			_, err = s.UserBySub(t.Context(), r.GetSession().GetSubject())
			return err
		})
		counts(t, s, "nothing to send", 1, 0, func() error { _, err := s.DueLogouts(t.Context(), noon, month, 10); return err })
	})
}

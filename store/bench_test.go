package store_test

import (
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// eachBench runs f on each database.
func eachBench(b *testing.B, f func(b *testing.B, s *store.Store)) {
	b.Run(store.SQLite, func(b *testing.B) { f(b, storetest.Open(b, filepath.Join(b.TempDir(), "cairn.db"))) })
	b.Run(store.Postgres, func(b *testing.B) { f(b, storetest.NewPostgres(b)) })
}

func prepare(b *testing.B, s *store.Store) (*provider.Client, account.Session) {
	b.Helper()
	return addClient(b, s, "app"), signIn(b, s, addUser(b, s, "ada", "activity"))
}

// The storage part of an exchange of a code as fosite does it: all its look-ups
// and the one transaction.
func BenchmarkCodeExchange(b *testing.B) {
	eachBench(b, func(b *testing.B, s *store.Store) {
		c, n := prepare(b, s)
		for b.Loop() {
			b.StopTimer()
			g := newGrant(c, n, "openid", "offline_access")
			code := addCode(b, s, g)
			b.StartTimer()
			ctx := asClient(provider.WithRequestCache(b.Context()), c)
			if err := exchangeAsFosite(b, s, code, func() (fosite.Requester, error) { return s.GetAuthorizeCodeSession(ctx, code, nil) }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func exchangeAsFosite(b *testing.B, s *store.Store, code string, get func() (fosite.Requester, error)) error {
	for range 3 {
		if _, err := get(); err != nil {
			return err
		}
	}
	g, err := get()
	if err != nil {
		return err
	}
	session := grantTimes(g)
	ctx, err := s.BeginTX(b.Context())
	if err != nil {
		return err
	}
	access := uuid.NewString()
	for _, step := range []func() error{
		func() error { return s.InvalidateAuthorizeCodeSession(ctx, code) },
		func() error { return s.CreateAccessTokenSession(ctx, access, session) },
		func() error { return s.CreateRefreshTokenSession(ctx, "r"+access, access, session) },
		func() error { return s.Commit(ctx) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func grantTimes(r fosite.Requester) fosite.Requester {
	s := r.GetSession().(*provider.GrantSession)
	s.SetExpiresAt(fosite.AccessToken, noon.Add(month))
	s.SetExpiresAt(fosite.RefreshToken, noon.Add(month))
	return r
}

func BenchmarkAuthorize(b *testing.B) {
	eachBench(b, func(b *testing.B, s *store.Store) {
		c, n := prepare(b, s)
		for b.Loop() {
			addCode(b, s, newGrant(c, n, "openid"))
		}
	})
}

func BenchmarkSessionLookup(b *testing.B) {
	eachBench(b, func(b *testing.B, s *store.Store) {
		_, n := prepare(b, s)
		for b.Loop() {
			if _, _, err := s.Session(b.Context(), n.ID); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAccessTokenLookup(b *testing.B) {
	eachBench(b, func(b *testing.B, s *store.Store) {
		c, n := prepare(b, s)
		access, _ := addTokens(b, s, newGrantStored(b, s, c, n))
		for b.Loop() {
			if _, err := s.GetAccessTokenSession(b.Context(), access, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

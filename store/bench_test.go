package store_test

import (
	"path/filepath"
	"testing"

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

// The storage part of an exchange of a code: one read and one transaction.
func BenchmarkCodeExchange(b *testing.B) {
	eachBench(b, func(b *testing.B, s *store.Store) {
		c, n := prepare(b, s)
		for b.Loop() {
			b.StopTimer()
			code := addCode(b, s, newGrant(c, n, "openid", "offline_access"))
			b.StartTimer()
			if err := spendCode(b.Context(), s, code, accessToken("a"+code), refreshToken("r"+code)); err != nil {
				b.Fatal(err)
			}
		}
	})
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
			if _, err := useToken(b.Context(), s, access); err != nil {
				b.Fatal(err)
			}
		}
	})
}

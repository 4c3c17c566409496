// Package storetest opens throw-away stores for tests: a SQLite file in the
// test's own folder, and a schema of its own on a PostgreSQL server, which is
// started for the test binary when none is given.
//
// It leaves to others: what to put into them.
package storetest

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/cairn-id/cairn/store"
)

// kind chooses the database of New: "postgres" runs whole suites of other
// packages on PostgreSQL.
const kind = "TEST_DATABASE"

// New is a migrated store that is gone after the test: on SQLite, or where
// TEST_DATABASE=postgres says so on PostgreSQL.
func New(t testing.TB) *store.Store {
	t.Helper()
	if os.Getenv(kind) == store.Postgres {
		return NewPostgres(t)
	}
	return Open(t, filepath.Join(t.TempDir(), "cairn.db"))
}

// NewPostgres is New on PostgreSQL, wherever TEST_DATABASE points.
func NewPostgres(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, postgresSchema(t))
}

// Open opens and migrates the store at dsn and closes it after the test; a
// second one at the same dsn is like a second instance.
func Open(t testing.TB, dsn string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dsn, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Each runs f on a fresh store of each database.
func Each(t *testing.T, f func(t *testing.T, s *store.Store)) {
	t.Helper()
	EachDSN(t, func(t *testing.T, dsn string) { f(t, Open(t, dsn)) })
}

// EachDSN runs f with the address of a fresh, empty database of each kind.
func EachDSN(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Helper()
	t.Run(store.SQLite, func(t *testing.T) { f(t, filepath.Join(t.TempDir(), "cairn.db")) })
	t.Run(store.Postgres, func(t *testing.T) { f(t, postgresSchema(t)) })
}

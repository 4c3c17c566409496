// Package storetest opens temporary stores for tests: a SQLite file in the test's own folder, or a
// schema of its own on a PostgreSQL server, which is started for the test binary if none is given.
//
// Migrating takes longer than most tests, so it is done once: a SQLite file is a copy of a migrated
// one, and a PostgreSQL schema is emptied and used again.
//
// It leaves to others: the rows.
package storetest

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/store"
)

// kind names the variable that chooses the database of New: "postgres" runs whole suites of other
// packages on PostgreSQL.
const kind = "TEST_DATABASE"

// New returns a migrated store, which is removed after the test: on PostgreSQL with
// TEST_DATABASE=postgres, otherwise on SQLite.
func New(t testing.TB) *store.Store {
	t.Helper()
	return NewAt(t, nil)
}

// NewAt is New with a clock.
func NewAt(t testing.TB, now func() time.Time) *store.Store {
	t.Helper()
	if os.Getenv(kind) == store.Postgres {
		return OpenAt(t, migratedSchema(t), now)
	}
	return OpenAt(t, sqliteFile(t), now)
}

// NewPostgres is New on PostgreSQL, whatever TEST_DATABASE is.
func NewPostgres(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, migratedSchema(t))
}

// PostgresDSN returns the URL of an empty, migrated PostgreSQL database, for Open.
func PostgresDSN(t testing.TB) string {
	t.Helper()
	return migratedSchema(t)
}

// Open opens and migrates the store at dsn and closes it after the test. A second one at the same
// dsn acts as a second instance.
func Open(t testing.TB, dsn string) *store.Store {
	t.Helper()
	return OpenWith(t, dsn, nil)
}

// OpenWith is Open with a data key.
func OpenWith(t testing.TB, dsn string, dataKey func() ([]byte, error)) *store.Store {
	t.Helper()
	return openUntil(t, dsn, store.Options{DataKey: dataKey})
}

// OpenAt is Open with a clock.
func OpenAt(t testing.TB, dsn string, now func() time.Time) *store.Store {
	t.Helper()
	return openUntil(t, dsn, store.Options{Now: now})
}

// OpenOn is Open with options.
func OpenOn(t testing.TB, dsn string, o store.Options) *store.Store {
	t.Helper()
	return openUntil(t, dsn, o)
}

// openUntil opens the store until the end of the test.
func openUntil(t testing.TB, dsn string, o store.Options) *store.Store {
	t.Helper()
	if _, err := os.Stat(dsn); errors.Is(err, os.ErrNotExist) && !strings.HasPrefix(dsn, "postgres") {
		if err := os.WriteFile(dsn, sqliteTemplate(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dsn, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func open(t testing.TB, dsn string, o store.Options) *store.Store {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := store.Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Parallel makes tests with Each and EachDSN parallel. A package's TestMain sets it.
var Parallel bool

// Each runs f on a store of each database, without any rows.
func Each(t *testing.T, f func(t *testing.T, s *store.Store)) {
	t.Helper()
	EachDSN(t, func(t *testing.T, dsn string) { f(t, Open(t, dsn)) })
}

// EachDSN runs f with the DSN of a database of each kind, for Open.
func EachDSN(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Helper()
	if Parallel {
		t.Parallel()
	}
	t.Run(store.SQLite, func(t *testing.T) { f(t, sqliteFile(t)) })
	t.Run(store.Postgres, func(t *testing.T) { f(t, migratedSchema(t)) })
}

// EachEmpty is EachDSN with unmigrated databases, and never parallel.
func EachEmpty(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Helper()
	t.Run(store.SQLite, func(t *testing.T) { f(t, sqliteFile(t)) })
	t.Run(store.Postgres, func(t *testing.T) { f(t, emptySchema(t)) })
}

func sqliteFile(t testing.TB) string { return filepath.Join(t.TempDir(), "cairn.db") }

// template is a migrated SQLite database.
var template struct {
	sync.Mutex
	file []byte
}

func sqliteTemplate(t testing.TB) []byte {
	t.Helper()
	template.Lock()
	defer template.Unlock()
	if template.file == nil {
		path := sqliteFile(t)
		s := open(t, path, store.Options{})
		if err := s.Close(); err != nil { // writes the log into the file
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		template.file = b
	}
	return template.file
}

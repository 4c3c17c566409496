package engine_test

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

func TestMain(m *testing.M) {
	storetest.Parallel = true
	os.Exit(storetest.Main(m))
}

// noon is when the tests happen, where a method takes the time.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func want(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func open(t *testing.T, dsn string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dsn, store.Options{Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// write changes the database in the smallest way.
func write(t *testing.T, s *store.Store) error {
	t.Helper()
	return engine.WriteOne(t.Context(), s.DB, "write", func(db *gorm.DB) error {
		return db.Exec("UPDATE locks SET taken = taken + 1").Error
	})
}

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

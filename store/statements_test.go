package store_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func open(t *testing.T, dsn string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dsn, store.Options{Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func TestLogOmitsValues(t *testing.T) {
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		var log bytes.Buffer
		s, err := store.Open(t.Context(), dsn,
			store.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		must(t, err)
		defer func() { must(t, s.Close()) }()
		_, err = useToken(t.Context(), s, "hunter2") // no such table yet
		want(t, err, account.ErrUnavailable)
		want(t, s.UpgradeHash(t.Context(), "hunter2", "hunter2", "hunter2"), account.ErrUnavailable)
		want(t, s.CreateClient(t.Context(), &provider.Client{ID: "hunter2", Name: "hunter2", RedirectURIs: []string{"https://hunter2.example.org/cb"}, AuthMethod: provider.AuthAny}, act("client.create")), account.ErrUnavailable)
		if !strings.Contains(log.String(), "tokens") || strings.Contains(log.String(), "hunter2") {
			t.Errorf("the log: %s", log.String())
		}
	})
}

// sources are the files of this package and of the engine.
func sources(t *testing.T) []string {
	t.Helper()
	own, err := filepath.Glob("*.go")
	must(t, err)
	engine, err := filepath.Glob("engine/*.go")
	must(t, err)
	return slices.Concat(own, engine)
}

// A newer program adds columns to tables that this one reads: see engine.ColumnsOf.
func TestStatementsNameTheirColumns(t *testing.T) {
	all := regexp.MustCompile("(?i)(select |returning |[ ,`][a-z]\\.)\\*[ ,](from [^(]|[^f])")
	for _, f := range sources(t) {
		b, err := os.ReadFile(f)
		must(t, err)
		if found := all.Find(b); found != nil && !strings.HasSuffix(f, "_test.go") {
			t.Errorf("%s: %s", f, found)
		}
	}
}

// GORM's Scan logs a failed or slow statement with its values; those of database/sql and
// pgx log nothing.
func TestStoreDoesNotUseScan(t *testing.T) {
	for _, f := range sources(t) {
		b, err := os.ReadFile(f)
		must(t, err)
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, ".Scan"+"(") && !strings.Contains(line, "QueryRow") && !strings.Contains(line, " rows.Scan"+"(") {
				t.Errorf("%s: %s", f, strings.TrimSpace(line))
			}
		}
	}
}

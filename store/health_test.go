package store_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func openToRead(t *testing.T, dsn string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dsn, store.Options{ReadOnly: true, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// Health judges the growth by the last week, and reads what the connection really has.
func TestHealth(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := storetest.Open(t, dsn)
		if h, err := s.Health(t.Context(), noon); err != nil || h.DailyBytes != 0 {
			t.Errorf("without a row: %+v %v", h, err)
		}
		for i := range 100 { // a hundred days, a row a day
			must(t, s.Exec("INSERT INTO audit (at, actor, action, target, detail, address, request_id) VALUES (?, 'a', 'b', 'c', '', '', '')", noon.AddDate(0, 0, -i).Unix()))
		}
		h, err := openToRead(t, dsn).Health(t.Context(), noon)
		must(t, err)
		if want := h.Bytes / 100; h.DailyBytes < want*9/10 || h.DailyBytes > want*11/10 || h.Bytes < 100_000 ||
			h.Number < 140_000 || h.Tokens != 0 {
			t.Errorf("%+v", h)
		}
		if s.Dialect() == store.SQLite {
			equal(t, "Durability",
				h.Durability, map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"})
			must(t, s.Exec("PRAGMA synchronous = OFF"))
		} else {
			must(t, s.Exec("SET synchronous_commit = off"))
		}
		h, err = s.Health(t.Context(), noon)
		must(t, err)
		if h.Durability["synchronous"] == "2" || h.Durability["synchronous_commit"] == "on" {
			t.Errorf("%+v", h.Durability)
		}
	})
}

// Who opens a database to look at it creates none, and writes none.
func TestReadOnlyStoreWritesNothing(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := storetest.Open(t, dsn)
		if s.Dialect() == store.Postgres {
			dsn += "&target_session_attrs=read-write" // as with several hosts
		}
		reader := openToRead(t, dsn)
		if _, _, err := reader.TakeTurn(t.Context(), "sweep", noon, 0, time.Hour); err == nil {
			t.Error("it has written")
		}
		_, ok, err := s.TakeTurn(t.Context(), "sweep", noon, 0, time.Hour)
		if err != nil || !ok {
			t.Error("it stands in the way", err)
		}
		must(t, reader.CheckSchema(t.Context()))
	})
	none := filepath.Join(t.TempDir(), "none.db")
	_, err := store.Open(t.Context(), none, store.Options{ReadOnly: true})
	want(t, err, account.ErrUnavailable)
	if found, _ := filepath.Glob(none + "*"); len(found) > 0 {
		t.Error(fmt.Sprint("it has made ", found))
	}
}

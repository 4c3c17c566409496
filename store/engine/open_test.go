package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestDatabaseFilesAreTheOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd ?#%41 name.db")
	must(t, os.WriteFile(path, nil, 0o644)) // as an earlier umask left it
	must(t, os.Chmod(path, 0o644))
	s := storetest.Open(t, path)
	must(t, write(t, s))
	entries, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	must(t, err)
	if len(entries) != 3 {
		t.Fatalf("files %q, want the database, its log and its index", entries)
	}
	for _, name := range entries {
		info, err := os.Stat(name)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", filepath.Base(name), info.Mode().Perm())
		}
	}
}

func TestOpenErrorOmitsThePassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://cairn:hunter2secret@127.0.0.1:1/cairn",
		"postgres://cairn:hunter2secret@127.0.0.1:1/cairn?sslmode=sometimes",
		"postgresql://cairn:hunter2secret@127.0.0.1:99999/cairn",
		"postgres://cairn:hunter2secret%zz@127.0.0.1/cairn",
		"postgres://cairn@127.0.0.1:1/cairn?password=hunter2secret&connect_timeout=x",
	} {
		s, err := store.Open(t.Context(), dsn, store.Options{})
		if err == nil {
			_ = s.Close()
			t.Fatalf("opened %s", dsn)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error has the password: %v", err)
		}
	}
	_, err := store.Open(t.Context(), "postgres://cairn@127.0.0.1:1/cairn", store.Options{})
	want(t, err, account.ErrUnavailable)
}

func TestForeignFileIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	text := strings.Repeat("not a database\n", 1000)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	if s, err := store.Open(t.Context(), path, store.Options{}); err == nil {
		_ = s.Close()
		t.Fatal("opened a text file")
	} else if !strings.Contains(err.Error(), "not a database") {
		t.Errorf("the error does not say what is wrong: %v", err)
	}
	after, err := os.ReadFile(path)
	must(t, err)
	same(t, "the file was changed", string(after), text)
}

func TestSchemaOfAnotherVersionIsRefused(t *testing.T) {
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		s := open(t, dsn)
		want(t, s.CheckSchema(t.Context()), store.ErrNotMigrated)
		want(t, s.Ping(t.Context()), account.ErrUnavailable)
		if _, err := s.Settings(t.Context()); !strings.Contains(err.Error(), account.ErrUnavailable.Error()) {
			t.Errorf("a missing table looks like an answer: %v", err)
		}
		must(t, s.Migrate(t.Context()))
		must(t, s.CheckSchema(t.Context()))
		must(t, s.Ping(t.Context()))
		must(t, s.Migrate(t.Context())) // again: nothing
		version, err := s.SchemaVersion(t.Context())
		must(t, err)
		const later = "INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, ?)"
		must(t, engine.Conn(t.Context(), s.DB).Exec(later, version+1, true).Error)
		want(t, s.CheckSchema(t.Context()), store.ErrNewerSchema)
		must(t, s.Ping(t.Context())) // it serves on until it is replaced; an older one does not start
		want(t, s.Migrate(t.Context()), store.ErrNewerSchema)
	})
}

func TestStartingTogetherMigratesOnce(t *testing.T) {
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		instances := make([]*store.Store, 4)
		for i := range instances {
			instances[i] = open(t, dsn)
		}
		errs := make([]error, len(instances))
		var all sync.WaitGroup
		for i, s := range instances {
			all.Go(func() { errs[i] = s.Migrate(t.Context()) })
		}
		all.Wait()
		for i, err := range errs {
			must(t, err)
			must(t, instances[i].CheckSchema(t.Context()))
		}
		var rows int
		const noted = "SELECT count(*) FROM goose_db_version WHERE version_id = 1"
		must(t, engine.Conn(t.Context(), instances[0].DB).Raw(noted).Find(&rows).Error)
		same(t, "notes of migration 1", rows, 1)
	})
}

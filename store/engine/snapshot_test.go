package engine_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// tableOf is a table of a test's database, as SQLite describes it.
type tableOf struct {
	columns []string
	values  []any // one row, which refers to the rows of the other tables
}

// everyTable has a row for each table that the migrations make, so that a table which a
// later one adds is in it too.
func everyTable(t *testing.T) map[string]tableOf {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.db")
	_ = storetest.Open(t, path)
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	defer func() { _ = db.Close() }()
	rows, err := db.Query(`SELECT t.name, c.name, c.type, c.pk > 0 OR EXISTS (SELECT 1 FROM pragma_foreign_key_list(t.name) f WHERE f."from" = c.name) OR t.sql LIKE '%' || c.name || ' %CHECK%'
		FROM sqlite_master t JOIN pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND t.name <> 'goose_db_version' ORDER BY 1, c.cid`)
	must(t, err)
	defer func() { _ = rows.Close() }()
	tables := map[string]tableOf{}
	for rows.Next() {
		var table, column, kind string
		var bound bool
		must(t, rows.Scan(&table, &column, &kind, &bound))
		var value any
		switch {
		case kind == "TEXT" && bound:
			value = "a"
		case kind == "TEXT":
			value = "ä\n\\N \u2713"
		case kind == "BLOB":
			value = []byte{0, 0xff, 'a', 0}
		default:
			value = int64(1)
		}
		of := tables[table]
		tables[table] = tableOf{append(of.columns, column), append(of.values, value)}
	}
	if len(tables) < 30 {
		t.Fatalf("only %d tables", len(tables))
	}
	return tables
}

// fillTables adds the rows to a database of either kind.
func fillTables(t *testing.T, dsn string, tables map[string]tableOf) {
	t.Helper()
	driver, off, holder := "sqlite3", "PRAGMA foreign_keys = off", "?"
	if strings.HasPrefix(dsn, "postgres") {
		driver, off, holder = "pgx", "SET session_replication_role = replica", "$1"
	}
	db, err := sql.Open(driver, dsn)
	must(t, err)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	run := func(query string, args ...any) {
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	run(off)
	for name, of := range tables {
		var holders []string
		args := slices.Clone(of.values)
		for i, column := range of.columns {
			h := strings.Replace(holder, "1", fmt.Sprint(i+1), 1)
			if driver == "pgx" {
				var kind string
				if err := db.QueryRow("SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2", name, column).Scan(&kind); err != nil {
					t.Fatalf("%s.%s: %v", name, column, err)
				}
				if kind == "boolean" {
					args[i] = true
				}
			}
			holders = append(holders, h)
		}
		overriding := ""
		if driver == "pgx" {
			overriding = " OVERRIDING SYSTEM VALUE"
		}
		run("INSERT INTO "+name+" ("+strings.Join(of.columns, ", ")+")"+overriding+" VALUES ("+strings.Join(holders, ", ")+")", args...)
	}
	if driver == "pgx" {
		run("SELECT setval(pg_get_serial_sequence('audit', 'id'), 7)")
	} else {
		run("UPDATE sqlite_sequence SET seq = 7 WHERE name = 'audit'")
	}
}

// Each table, each column and the numbers that are given next are in a snapshot of
// either database, and come out of it the same into the other.
func TestSnapshotHoldsEveryTableAndComesBackTheSame(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		source := storetest.Open(t, dsn)
		tables := everyTable(t)
		fillTables(t, dsn, tables)
		first := filepath.Join(t.TempDir(), "first.db")
		taken, err := source.Snapshot(t.Context(), first)
		must(t, err)
		read, err := store.ReadSnapshot(t.Context(), first)
		must(t, err)
		if err := taken.Compare(read); err != nil {
			t.Error(err)
		}
		fewer := read
		if fewer.Rows = maps.Clone(read.Rows); fewer.Rows["users"] == 0 {
			t.Fatal("no user")
		}
		if fewer.Rows["users"]--; taken.Compare(fewer) == nil {
			t.Error("a copy without a user is like its original")
		}
		for name := range tables {
			if read.Rows[name] == 0 {
				t.Errorf("table %s is not in the snapshot", name)
			}
		}
		other := storetest.NewPostgres(t)
		must(t, other.LoadSnapshot(t.Context(), first))
		if err := other.LoadSnapshot(t.Context(), first); err == nil {
			t.Error("a database with an installation was filled again")
		}
		second := filepath.Join(t.TempDir(), "second.db")
		if _, err := other.Snapshot(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite3", first)
		must(t, err)
		defer func() { _ = db.Close() }()
		db.SetMaxOpenConns(1)
		if _, err := db.Exec("ATTACH ? AS second", second); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(slices.Sorted(maps.Keys(tables)), "sqlite_sequence") {
			var differ int
			must(t, db.QueryRow("SELECT count(*) FROM (SELECT * FROM main."+name+" EXCEPT SELECT * FROM second."+name+")").Scan(&differ))
			// Tables without rows that were given numbers have a sequence on PostgreSQL, too.
			if differ > 0 {
				t.Errorf("%s: %d rows came back changed", name, differ)
			}
		}
		var indexes, before int
		if err := db.QueryRow("SELECT (SELECT count(*) FROM second.sqlite_master WHERE type = 'index'), (SELECT count(*) FROM main.sqlite_master WHERE type = 'index')").Scan(&indexes, &before); err != nil || indexes != before {
			t.Errorf("%d indexes, before %d: %v", indexes, before, err)
		}
	})
}

// Whoever has the database alone keeps all others out, and they keep out whoever wants it alone.
func TestUseAloneExcludesAllOthers(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		use := func(alone bool, want error) func() {
			t.Helper()
			release, err := store.Use(t.Context(), dsn, alone)
			if (err == nil) != (want == nil) || want != nil && !errors.Is(err, want) {
				t.Fatalf("%v, want %v", err, want)
			}
			return release
		}
		one, two := use(false, nil), use(false, nil)
		use(true, store.ErrInUse)
		one()
		use(true, store.ErrInUse)
		two()
		alone := use(true, nil)
		use(false, store.ErrInUse)
		alone()
		use(false, nil)()
	})
}

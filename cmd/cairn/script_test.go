package main

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest/assert"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// Each script in testdata/script is a session at a shell.
func TestCommands(t *testing.T) {
	racetest.Skip(t)
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GOGC", "400") // 600 commands end before there is anything to collect
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mode": checkMode, "chmodfile": changeMode, "openfile": openMode, "exits": checkExit,
			"newerdb": newerDatabase, "olderdb": olderDatabase,
		},
	})
}

// exits 2 COMMAND...: the command ends with this exit code. Standard output and
// error are those of the command, as after exec.
func checkExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// mode FILE 600: the file's permission bits are these.
func checkMode(ts *testscript.TestScript, neg bool, args []string) {
	if runtime.GOOS == "windows" {
		return
	}
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := strings.TrimPrefix(info.Mode().Perm().String(), "-"); (got == args[1]) == neg {
		ts.Fatalf("%s has mode %s", args[0], got)
	}
}

// chmodfile FILE: make the file readable by all users, as a careless copy is.
func changeMode(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.Chmod(ts.MkAbs(args[0]), 0o644))
}

// openfile FILE: let all users write the file.
func openMode(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.Chmod(ts.MkAbs(args[0]), 0o666))
}

// newerdb FILE: a newer program has migrated this database.
func newerDatabase(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite3", ts.MkAbs(args[0]))
	ts.Check(err)
	defer func() { _ = db.Close() }()
	_, err = db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)")
	ts.Check(err)
}

// olderdb FILE: this database is that of an earlier program.
func olderDatabase(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(undoMigrations(ts.MkAbs(args[0])))
}

// undoMigrations makes an installation one of schema 11.
func undoMigrations(dsn string) error {
	driver := "sqlite3"
	if store.IsPostgres(dsn) {
		driver = "pgx"
	}
	db, err := sql.Open(driver, dsn)
	for _, statement := range undoLastMigrations {
		if err == nil {
			_, err = db.Exec(statement)
		}
	}
	return errors.Join(err, db.Close())
}

var equal, fatalIf, has, lacks = assert.Equal, assert.Must, assert.Has, assert.Lacks

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

func sameList[T comparable](t testing.TB, w any, a, b []T) { t.Helper(); assert.SameList(t, w, a, b) }

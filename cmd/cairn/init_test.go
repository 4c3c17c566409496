package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// The database is given once, by the environment; afterwards no command needs it.
// With PostgreSQL the file may hold a password, which is said and never shown.
func TestInitRemembersTheDatabase(t *testing.T) {
	racetest.Skip(t)
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		dir := t.TempDir()
		file := filepath.Join(filepath.Dir(dsn), "cairn.yaml")
		if store.IsPostgres(dsn) {
			file = "cairn.yaml"
			if before, after, ok := strings.Cut(dsn, "@"); ok && !strings.Contains(strings.TrimPrefix(before, "postgres://"), ":") {
				dsn = before + ":rosebud@" + after
			}
		}
		environ := []string{"SERVICE_DATABASE=" + dsn}
		cairn := func(args ...string) string {
			t.Helper()
			var errs strings.Builder
			c := exec.CommandContext(t.Context(), "cairn", args...)
			c.Dir, c.Env, c.Stderr = dir, environ, &errs
			out, err := c.Output()
			if err != nil {
				t.Fatalf("cairn %v: %v: %s", args, err, errs.String())
			}
			return string(out)
		}
		out := cairn("init", "--handle", "keeper", "--generate-password", "--issuer", "https://id.example.org")
		if strings.Contains(out, "rosebud") || strings.Contains(out, "with the password of the database") != store.IsPostgres(dsn) {
			t.Errorf("init prints %s", out)
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		environ = []string{}
		has(t, "invite add prints", cairn("invite", "add", "--config", file), "https://id.example.org/register/")
		if out := cairn("init", "--config", file); !strings.Contains(out, "is already initialized: nothing was changed") || strings.Contains(out, "rosebud") {
			t.Errorf("init prints %s", out)
		}
	})
}

// A log without its database holds what was committed last: SQLite would delete it when
// a new database takes the name, and so would the cleaning up after a failure.
func TestInitKeepsTheLogOfAnotherDatabase(t *testing.T) {
	dir := t.TempDir()
	for _, end := range []string{"-wal", "-journal"} {
		left := filepath.Join(dir, "cairn.db"+end)
		fatalIf(t, os.WriteFile(left, []byte("committed"), 0o600))
		var out, complaint strings.Builder
		code := Run(t.Context(), []string{"init", "--database", filepath.Join(dir, "cairn.db"), "--handle", "keeper", "--generate-password"}, nil, strings.NewReader(""), &out, &complaint)
		if b, err := os.ReadFile(left); code == 0 || !strings.Contains(complaint.String(), left) || err != nil || string(b) != "committed" {
			t.Errorf("%s: exit %d, %s, then %q, %v", end, code, complaint.String(), b, err)
		}
		fatalIf(t, os.Remove(left))
		if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
			t.Fatalf("%v, %v", files, err)
		}
	}
}

// Two runs at once in one folder share cairn.yaml: the one that finds a new key there leaves the file to the other.
func TestInitLeavesTheConfigFileToARunBesideIt(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key.pem")
	beside := readerFunc(func(b []byte) (int, error) {
		if err := os.WriteFile(key, nil, 0o600); err != nil {
			t.Error(err)
		}
		return copy(b, "a few unrelated words\n"), io.EOF
	})
	var errs strings.Builder
	args := []string{"init", "--handle", "keeper", "--password-file", "-", "--generate-key", key, "--database", filepath.Join(dir, "cairn.db")}
	if code := Run(t.Context(), args, nil, beside, io.Discard, &errs); code != cli.ExitFailed || !strings.Contains(errs.String(), "--generate-key: ") {
		t.Fatalf("%d %s", code, errs.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "cairn.yaml")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cairn.db")); err == nil {
		t.Error("the database was made")
	}
}

type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// As root beside the service's user it would make a database that the service cannot open.
func TestInitAsRootLeavesTheFolderOfAnotherUserAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes files for others")
	}
	dir := t.TempDir()
	fatalIf(t, os.Chown(dir, 12345, 12345))
	var errs strings.Builder
	code := Run(t.Context(), []string{"init", "--handle", "keeper", "--generate-password", "--database", filepath.Join(dir, "cairn.db")}, nil, strings.NewReader(""), io.Discard, &errs)
	made, err := os.ReadDir(dir)
	if code != cli.ExitFailed || !strings.Contains(errs.String(), "sudo -u 12345") || err != nil || len(made) > 0 {
		t.Errorf("%d %s %v %v", code, &errs, made, err)
	}
}

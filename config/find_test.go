package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/config"
)

// found parses a command line where the files of search are looked for.
func found(t *testing.T, search []string, args ...string) (*program, *config.Environment, error) {
	t.Helper()
	var p program
	e := config.NewEnvironment(nil)
	e.Search = search
	k, err := kong.New(&p, append(config.Options(e), kong.Name("cairn"))...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Parse(args)
	return &p, e, err
}

// What init writes is what the next command has, from whatever folder it runs.
func TestAWrittenConfigFileIsFound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, config.ConfigName)
	s := config.Settings{Issuer: "https://id.example.org", Listen: ":4040", Database: filepath.Join(dir, "cairn.db"), PrivateKeyFile: filepath.Join(dir, "keys", "on: #1.pem")}
	if err := config.WriteConfig(file, s); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	before, _ := os.ReadFile(file)
	if err := config.WriteConfig(file, config.Settings{Issuer: "http://other"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written twice: %v", err)
	}
	if after, _ := os.ReadFile(file); string(after) != string(before) {
		t.Error("the file was overwritten")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files in the folder", len(left))
	}
	p, e, err := found(t, []string{filepath.Join(dir, "none.yaml"), file}, "serve")
	if err != nil {
		t.Fatal(err)
	}
	want := config.Defaults()
	want.Issuer, want.Listen, want.Database, want.PrivateKeyFile = s.Issuer, s.Listen, s.Database, s.PrivateKeyFile
	if diff := cmp.Diff(want, p.Serve.Settings); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if e.ConfigFile() != file {
		t.Errorf("read from %q", e.ConfigFile())
	}
	// A file that is named is read instead, not besides.
	p, _, err = found(t, []string{file}, "serve", "--config", write(t, "other.yaml", "listen: :1"))
	if err != nil || p.Serve.Listen != ":1" || p.Serve.Issuer != config.Defaults().Issuer {
		t.Errorf("%v, %+v", err, p.Serve.Settings)
	}
	// A command without settings does not care.
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, e, err = found(t, []string{file}, "version"); err != nil || e.ConfigFile() != "" {
		t.Errorf("version: %v, %q", err, e.ConfigFile())
	}
}

func TestAConfigFileOfSomebodyElseIsRefused(t *testing.T) {
	file := write(t, "cairn.yaml", "listen: :1")
	for _, mode := range []os.FileMode{0o620, 0o602, 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		_, _, err := found(t, []string{file}, "serve")
		refused(t, err, "config file "+file, "chmod go-w "+file)
		_, _, err = found(t, nil, "serve", "--config", file)
		refused(t, err, "--config "+file, "chmod go-w "+file)
	}
	secret := write(t, "cairn.yaml", "database: postgres://cairn:hunter2@db/cairn")
	if err := os.Chmod(secret, 0o604); err != nil {
		t.Fatal(err)
	}
	_, _, err := found(t, []string{secret}, "serve")
	refused(t, err, "password", "chmod o= "+secret)
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	// A link of somebody else to a file of ours: its paths would begin in their folder.
	link := filepath.Join(t.TempDir(), config.ConfigName)
	if err := errors.Join(os.Chmod(file, 0o644), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	if _, _, err = found(t, []string{link}, "serve"); err != nil {
		t.Errorf("a link of ours: %v", err)
	}
	if err := os.Lchown(link, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	_, _, err = found(t, []string{link}, "serve")
	refused(t, err, link, "another user (uid 12345)", "--config")
	if err := errors.Join(os.Chmod(file, 0o644), os.Chown(file, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	_, _, err = found(t, []string{file}, "serve")
	refused(t, err, file, "another user (uid 12345)", "--config")
	if _, _, err = found(t, []string{file}, "serve", "--config", file); err != nil {
		t.Errorf("named: %v", err)
	}
}

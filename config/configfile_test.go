package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/config"
)

const everyKey = `listen: ":1"
issuer: https://example.org
database: postgres://u:p@h/d
private-key-file: p
additional-key-file: [a, b]
cookie-domain: example.org
cookie-name: n
device-binding: off
status-ttl: 5s
shutdown-delay: 3s
tls-cert-file: c
tls-key-file: k
trusted-proxy:
  - 10.0.0.0/8
  - ::1
allowed-origin: https://a.example.org
rate-limit: ["login=1/1m", all=off]
backup-dir: b
backup-every: 2h
backup-keep: 3
backup-recipient: age1r
backup-command: bc
signer: go
no-oidc: true
log-level: warn
log-format: json
`

const everyKeyJSON = `{
	"listen": ":1", "issuer": "https://example.org", "database": "postgres://u:p@h/d", "private-key-file": "p",
	"additional-key-file": ["a", "b"], "cookie-domain": "example.org", "cookie-name": "n", "device-binding": "off", "status-ttl": "5s", "shutdown-delay": "3s", "tls-cert-file": "c",
	"tls-key-file": "k", "trusted-proxy": ["10.0.0.0/8", "::1"], "allowed-origin": "https://a.example.org",
	"rate-limit": ["login=1/1m", "all=off"], "backup-dir": "b", "backup-every": "2h", "backup-keep": 3, "backup-recipient": "age1r", "backup-command": "bc", "signer": "go", "no-oidc": true, "log-level": "warn", "log-format": "json"
}`

func TestAConfigFileSetsEverySetting(t *testing.T) {
	for name, text := range map[string]string{
		"c.yaml": everyKey, "c.yml": everyKey, "c.conf": everyKey, "c.json": everyKeyJSON, "c": everyKeyJSON, "flow.yaml": "---\n" + everyKey,
	} {
		file := write(t, name, text)
		beside := func(name string) string { return filepath.Join(filepath.Dir(file), name) }
		want := config.Settings{
			Listen: ":1", Issuer: "https://example.org", Database: "postgres://u:p@h/d", PrivateKeyFile: beside("p"), AdditionalKeyFiles: []string{beside("a"), beside("b")},
			CookieDomain: "example.org", CookieName: "n", DeviceBinding: "off", StatusTTL: "5s", ShutdownDelay: "3s", TLSCertFile: beside("c"), TLSKeyFile: beside("k"), TrustedProxies: []string{"10.0.0.0/8", "::1"},
			AllowedOrigins: []string{"https://a.example.org"}, RateLimits: []string{"login=1/1m", "all=off"},
			BackupDir: beside("b"), BackupEvery: "2h", BackupKeep: "3", BackupRecipient: "age1r", BackupCommand: beside("bc"), Signer: "go", NoOIDC: true, LogLevel: "warn", LogFormat: "json",
		}
		p, _, err := parse(t, nil, "serve", "--config", file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, p.Serve.Settings); diff != "" {
			t.Errorf("%s, -want +got\n%s", name, diff)
		}
	}
}

func TestAnEmptyConfigFileSetsNothing(t *testing.T) {
	for name, text := range map[string]string{"a.yaml": "", "b.yaml": "# only a comment\n", "c.yaml": "---\n", "d.json": "{}"} {
		p, _, err := parse(t, nil, "serve", "--config", write(t, name, text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(config.Defaults(), p.Serve.Settings); diff != "" {
			t.Errorf("%s, -want +got\n%s", name, diff)
		}
	}
}

func TestAWrongConfigFileIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		words            []string
	}{
		{"unknown key", "c.yaml", "log-level: info\nissuerr: x", []string{"c.yaml: line 2", `unknown key "issuerr"`, "did you mean issuer?"}},
		{"underscore", "c.yaml", "trusted_proxy: [a]", []string{`"trusted_proxy"`, "did you mean trusted-proxy?"}},
		{"nothing near", "c.yaml", "sausages: x", []string{"c.yaml: line 1", `"sausages"`, "the names are listen, issuer"}},
		{"secret", "c.yaml", "auth-jwt-secret: hunter2", []string{"never in this file", "SERVICE_AUTH_JWT_SECRET_FILE"}},
		{"metrics", "c.yaml", "metrics: :1", []string{"unknown key"}},
		{"file flags", "c.yaml", "env-file: x", []string{"unknown key"}},
		{"duplicate", "c.yaml", "listen: a\nissuer: b\nlisten: c", []string{"c.yaml: line 3", `"listen" already defined`, "remove one"}},
		{"no boolean", "c.yaml", "no-oidc: maybe", []string{"line 1", `"no-oidc": it is not a boolean`, "true or false"}},
		{"null", "c.yaml", "listen: a\ndatabase:", []string{"line 2", `"database": it is empty`, "remove the line"}},
		{"mapping", "c.yaml", "issuer: {a: hunter2}", []string{`"issuer": it is not one text`}},
		{"list for one", "c.yaml", "issuer: [a, hunter2]", []string{`"issuer": it is not one text`}},
		{"mapping for list", "c.yaml", "rate-limit: {login: hunter2}", []string{`"rate-limit": it is not a list`, "[a, b]"}},
		{"list of lists", "c.yaml", "rate-limit: [[hunter2]]", []string{`"rate-limit": it is not a list`}},
		{"not a mapping", "c.yaml", "- hunter2", []string{"c.yaml", "not a mapping"}},
		{"one text", "c.yaml", "hunter2", []string{"c.yaml", "not a mapping"}},
		{"two documents", "c.yaml", "listen: a\n---\nissuer: b", []string{"something follows"}},
		{"bad yaml", "c.yaml", "listen: [a", []string{"c.yaml", "line"}},
		{"anchor", "c.yaml", "database: *hunter2", []string{"quotes"}},
		{"json unknown", "c.json", "{\n\"listen\": \"a\",\n\"isuer\": \"b\"}", []string{"c.json: line 3", `unknown key "isuer"`, "did you mean issuer?"}},
		{"json duplicate", "c.json", `{"listen": "a", "listen": "b"}`, []string{`"listen" already defined`}},
		{"json cut", "c.json", "{\"listen\": \"a\",\n", []string{"c.json", "line"}},
		{"json more", "c.json", `{} {}`, []string{"c.json"}},
		{"json list of junk", "c.json", `{"listen" "hunter2"}`, []string{"c.json"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := parse(t, nil, "serve", "--config", write(t, tt.file, tt.text))
			refused(t, err, append(tt.words, "--config")...)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error repeats a value: %v", err)
			}
		})
	}
}

func TestAMissingFileIsRefused(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	_, _, err := parse(t, nil, "serve", "--config", gone)
	refused(t, err, "--config", gone)
	_, _, err = parse(t, []string{"SERVICE_CONFIG=" + gone}, "serve")
	refused(t, err, "SERVICE_CONFIG", gone)
	_, _, err = parse(t, nil, "serve", "--env-file", gone)
	refused(t, err, "--env-file", gone)
	_, _, err = parse(t, nil, "serve", "--env-file", t.TempDir())
	refused(t, err, "--env-file", "is a folder")
	_, _, err = parse(t, nil, "serve", "--config", write(t, "long.yaml", strings.Repeat("#\n", 1<<20)))
	refused(t, err, "--config", "longer than")
}

// found parses a command line where the files of search are looked for.
func found(t *testing.T, search []string, args ...string) (*program, *config.Environment, error) {
	t.Helper()
	var p program
	e := config.NewEnvironment(nil)
	e.Search = search
	k, err := kong.New(&p, append(config.Options(e), kong.Name("cairn"))...)
	must(t, err)
	_, err = k.Parse(args)
	return &p, e, err
}

// What init writes is what the next command has, from any folder.
func TestAWrittenConfigFileIsFound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, config.ConfigName)
	s := config.Settings{Issuer: "https://id.example.org", Listen: ":4040", Database: filepath.Join(dir, "cairn.db"),
		PrivateKeyFile: filepath.Join(dir, "keys", "on: #1.pem")}
	must(t, config.WriteConfig(file, s))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	before, _ := os.ReadFile(file)
	fails(t, "written twice", config.WriteConfig(file, config.Settings{Issuer: "http://other"}), fs.ErrExist)
	after, _ := os.ReadFile(file)
	same(t, "the file was overwritten", string(after), string(before))
	left, _ := os.ReadDir(dir)
	same(t, "files in the folder", len(left), 1)
	p, e, err := found(t, []string{filepath.Join(dir, "none.yaml"), file}, "serve")
	must(t, err)
	want := config.Defaults()
	want.Issuer, want.Listen, want.Database, want.PrivateKeyFile = s.Issuer, s.Listen, s.Database, s.PrivateKeyFile
	equal(t, "-", p.Serve.Settings, want)
	same(t, "read", e.ConfigFile(), file)
	// A file that is named is read instead, not besides.
	p, _, err = found(t, []string{file}, "serve", "--config", write(t, "other.yaml", "listen: :1"))
	if err != nil || p.Serve.Listen != ":1" || p.Serve.Issuer != config.Defaults().Issuer {
		t.Errorf("%v, %+v", err, p.Serve.Settings)
	}
	// A command without settings does not care.
	must(t, os.Chmod(file, 0o666))
	if _, e, err = found(t, []string{file}, "version"); err != nil || e.ConfigFile() != "" {
		t.Errorf("version: %v, %q", err, e.ConfigFile())
	}
}

func TestAConfigFileOfSomebodyElseIsRefused(t *testing.T) {
	file := write(t, "cairn.yaml", "listen: :1")
	for _, mode := range []os.FileMode{0o620, 0o602, 0o666} {
		must(t, os.Chmod(file, mode))
		_, _, err := found(t, []string{file}, "serve")
		refused(t, err, "config file "+file, "chmod go-w "+file)
		_, _, err = found(t, nil, "serve", "--config", file)
		refused(t, err, "--config "+file, "chmod go-w "+file)
	}
	must(t, errors.Join(os.Chmod(file, 0o600), os.Chmod(filepath.Dir(filepath.Dir(file)), 0o707)))
	_, _, err := found(t, []string{file}, "serve")
	refused(t, err, "config file "+file, "chmod o-w "+filepath.Dir(filepath.Dir(file)))
	if err := os.Chmod(filepath.Dir(filepath.Dir(file)), 0o707|os.ModeSticky); err != nil { // as /tmp
		t.Fatal(err)
	}
	if _, _, err := found(t, []string{file}, "serve"); err != nil {
		t.Error(err)
	}
	secret := write(t, "cairn.yaml", "database: postgres://cairn:hunter2@db/cairn")
	must(t, os.Chmod(secret, 0o604))
	_, _, err = found(t, []string{secret}, "serve")
	refused(t, err, "password", "chmod o= "+secret)
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	// Another user's link to our file: its paths would begin in their folder.
	link := filepath.Join(t.TempDir(), config.ConfigName)
	must(t, errors.Join(os.Chmod(file, 0o644), os.Symlink(file, link)))
	if _, _, err = found(t, []string{link}, "serve"); err != nil {
		t.Errorf("a link of ours: %v", err)
	}
	must(t, os.Lchown(link, 12345, 12345))
	_, _, err = found(t, []string{link}, "serve")
	refused(t, err, link, "another user (uid 12345)", "--config")
	must(t, errors.Join(os.Chmod(file, 0o644), os.Chown(file, 12345, 12345)))
	_, _, err = found(t, []string{file}, "serve")
	refused(t, err, file, "another user (uid 12345)", "--config")
	if _, _, err = found(t, []string{file}, "serve", "--config", file); err != nil {
		t.Errorf("named: %v", err)
	}
	must(t, os.Chmod(filepath.Dir(file), 0o777|os.ModeSticky)) // anybody may have made it
	_, _, err = found(t, nil, "serve", "--config", file)
	refused(t, err, "--config "+file, file+" belongs to another user (uid 12345)", "chown -h root "+file)
	must(t, errors.Join(os.Chown(file, 0, 0), os.Chmod(filepath.Dir(link), 0o777|os.ModeSticky)))
	_, _, err = found(t, nil, "serve", "--config", link)
	refused(t, err, link+" belongs to another user (uid 12345)")
	if _, _, err = found(t, nil, "serve", "--config", file); err != nil {
		t.Errorf("root's: %v", err)
	}
}

// A pipe has no end until a writer closes it: a command that only looks for its settings would wait for that.
func TestAPipeIsNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), config.ConfigName)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	_, _, err := found(t, []string{pipe}, "serve")
	refused(t, err, pipe, "not a regular file", "--config")
}

// Reading any file ends with settings or with a one-line error.
func FuzzFilesAreReadOrRefusedInOneLine(f *testing.F) {
	seeds := []string{everyKey, everyKeyJSON, "", "{", "a: *b", "&a [*a]: x", "? [a]\n: b", "listen: !!str 4040", "\x00", "SERVICE_LISTEN='a\nb'", "export A", "A=\"\\"}
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := write(t, "file", text)
		for _, flag := range []string{"--config", "--env-file"} {
			if _, _, err := parse(t, nil, "serve", flag, path); err != nil && strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("%s: not one line: %q", flag, err)
			}
		}
	})
}

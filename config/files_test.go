package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
status-ttl: 5s
tls-cert-file: c
tls-key-file: k
trusted-proxy:
  - 10.0.0.0/8
  - ::1
allowed-origin: https://a.example.org
rate-limit: ["login=1/1m", all=off]
no-oidc: true
log-level: warn
log-format: json
`

const everyKeyJSON = `{
	"listen": ":1", "issuer": "https:\/\/example.org", "database": "postgres://u:p@h/d", "private-key-file": "p",
	"additional-key-file": ["a", "b"], "cookie-domain": "example.org", "cookie-name": "n", "status-ttl": "5s", "tls-cert-file": "c",
	"tls-key-file": "k", "trusted-proxy": ["10.0.0.0/8", "::1"], "allowed-origin": "https://a.example.org",
	"rate-limit": ["login=1/1m", "all=off"], "no-oidc": true, "log-level": "warn", "log-format": "json"
}`

func TestAConfigFileSetsEverySetting(t *testing.T) {
	for name, text := range map[string]string{
		"c.yaml": everyKey, "c.yml": everyKey, "c.conf": everyKey, "c.json": everyKeyJSON, "c": everyKeyJSON, "flow.yaml": "---\n" + everyKey,
	} {
		file := write(t, name, text)
		beside := func(name string) string { return filepath.Join(filepath.Dir(file), name) }
		want := config.Settings{
			Listen: ":1", Issuer: "https://example.org", Database: "postgres://u:p@h/d", PrivateKeyFile: beside("p"), AdditionalKeyFiles: []string{beside("a"), beside("b")},
			CookieDomain: "example.org", CookieName: "n", StatusTTL: "5s", TLSCertFile: beside("c"), TLSKeyFile: beside("k"), TrustedProxies: []string{"10.0.0.0/8", "::1"},
			AllowedOrigins: []string{"https://a.example.org"}, RateLimits: []string{"login=1/1m", "all=off"}, NoOIDC: true, LogLevel: "warn", LogFormat: "json",
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

func TestAWrongConfigFileIsNeverUsed(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		words            []string
	}{
		{"unknown key", "c.yaml", "log-level: info\nissuerr: x", []string{"c.yaml: line 2", `unknown key "issuerr"`, "did you mean issuer?"}},
		{"underscore", "c.yaml", "trusted_proxy: [a]", []string{`"trusted_proxy"`, "did you mean trusted-proxy?"}},
		{"nothing near", "c.yaml", "sausages: x", []string{"c.yaml: line 1", `"sausages"`, "the names are listen, issuer"}},
		{"secret", "c.yaml", "auth-jwt-secret: hunter2", []string{"never in this file", "SERVICE_AUTH_JWT_SECRET_FILE"}},
		{"metrics", "c.yaml", "metrics-listen: :1", []string{"unknown key"}},
		{"file flags", "c.yaml", "env-file: x", []string{"unknown key"}},
		{"merge", "c.yaml", "<<: {listen: a}", []string{`unknown key "<<"`}},
		{"duplicate", "c.yaml", "listen: a\nissuer: b\nlisten: c", []string{"c.yaml: line 3", `"listen" is there twice`}},
		{"number", "c.yaml", "listen: 4040", []string{"line 1", `"listen" is a number`, "quotes"}},
		{"no boolean", "c.yaml", "no-oidc: maybe", []string{`"no-oidc" is not a boolean`, "true or false"}},
		{"boolean", "c.yaml", "cookie-name: true", []string{`"cookie-name" is a boolean`}},
		{"null", "c.yaml", "issuer:", []string{`"issuer" is empty`}},
		{"mapping", "c.yaml", "issuer: {a: b}", []string{`"issuer" is a mapping`}},
		{"list for one", "c.yaml", "issuer: [a, b]", []string{`"issuer" is a list`}},
		{"number in list", "c.yaml", "rate-limit: [a=1/1m, 5]", []string{`"rate-limit" is a list that holds a number`}},
		{"mapping for list", "c.yaml", "rate-limit: {login: off}", []string{`"rate-limit" is a mapping`, "[a, b]"}},
		{"not a mapping", "c.yaml", "- listen", []string{"c.yaml", "not a mapping"}},
		{"two documents", "c.yaml", "listen: a\n---\nissuer: b", []string{"second document"}},
		{"bad yaml", "c.yaml", "listen: [a", []string{"c.yaml", "line"}},
		{"anchor", "c.yaml", "database: *hunter2", []string{"quotes"}},
		{"json unknown", "c.json", "{\n\"listen\": \"a\",\n\"isuer\": \"b\"}", []string{"c.json: line 3", `unknown key "isuer"`, "did you mean issuer?"}},
		{"json duplicate", "c.json", `{"listen": "a", "listen": "b"}`, []string{`"listen" is there twice`}},
		{"json number", "c.json", `{"listen": 4040}`, []string{`"listen" is a number`}},
		{"json null", "c.json", `{"listen": null}`, []string{`"listen" is empty`}},
		{"json object", "c.json", `{"trusted-proxy": {}}`, []string{`"trusted-proxy" is an object`}},
		{"json list of lists", "c.json", `{"trusted-proxy": [["a"]]}`, []string{`"trusted-proxy" is a list that holds`}},
		{"json array", "c.json", `[]`, []string{"c.json", "not a JSON object"}},
		{"json cut", "c.json", "{\"listen\": \"a\",\n", []string{"c.json", "line 1 is not proper JSON"}},
		{"json more", "c.json", `{} {}`, []string{"something follows"}},
		{"json junk value", "c.json", `{"database": postgres://u:hunter2@h}`, []string{"c.json", "line 1 is not proper JSON"}},
		{"json list of junk", "c.json", `{"listen" "hunter2"}`, []string{"not proper JSON"}},
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

func TestAMissingFileIsNeverIgnored(t *testing.T) {
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

func TestAnEnvFileIsReadLikeAnEnvironment(t *testing.T) {
	text := "\ufeff# shared with the activity application\r\n" +
		"\r\n" +
		"export SERVICE_LISTEN=127.0.0.1:5000\r\n" +
		"  SERVICE_LOG_LEVEL = debug\n"
	_, _, err := parse(t, nil, "serve", "--env-file", write(t, "bad.env", text))
	refused(t, err, "line 4 is not NAME=VALUE")

	text = "\ufeff# shared with the activity application\r\n\r\n" +
		"export SERVICE_LISTEN=127.0.0.1:5000\r\n" +
		"  SERVICE_LOG_LEVEL=  debug  \n" +
		"SERVICE_DATABASE='with blanks # and \\ $HOME.db' # comment\n" +
		"SERVICE_COOKIE_NAME=\"with \\\"quotes\\\" and \\\\ \\n $HOME\"\n" +
		"SERVICE_AUTH_JWT_SECRET=0123456789abcdef0123456789abcdef==\n" +
		"ACTIVITY_KEY=\"-----BEGIN X-----\nSERVICE_NONSENSE=1\n-----END X-----\"\n" +
		"ACTIVITY_NOTE=what # ever\n" +
		"SERVICE_COOKIE_DOMAIN=\n" +
		"SERVICE_LOG_FORMAT=json"
	p, e, err := parse(t, nil, "serve", "--env-file", write(t, "good.env", text))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Defaults()
	want.Listen, want.LogLevel, want.LogFormat = "127.0.0.1:5000", "debug", "json"
	want.Database, want.CookieName = `with blanks # and \ $HOME.db`, `with "quotes" and \ \n $HOME`
	if diff := cmp.Diff(want, p.Serve.Settings); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if v, ok := e.Lookup("SERVICE_AUTH_JWT_SECRET"); v != "0123456789abcdef0123456789abcdef==" || !ok {
		t.Errorf("the secret is not in reach of Lookup (%v)", ok)
	}
	if _, ok := e.Lookup("ACTIVITY_NOTE"); ok {
		t.Error("the other application's names are in reach")
	}
	if _, set := os.LookupEnv("SERVICE_AUTH_JWT_SECRET"); set {
		t.Error("the secret is in the environment of the process")
	}
}

func TestAWrongEnvFileIsNeverUsed(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		words      []string
	}{
		{"unknown", "A=1\nSERVICE_OIDC_ISSUR=https://hunter2", []string{"line 2", "SERVICE_OIDC_ISSUR", "did you mean SERVICE_OIDC_ISSUER?"}},
		{"far", "SERVICE_SAUSAGES=1", []string{"line 1", "SERVICE_SAUSAGES", "the names are", "SERVICE_LISTEN"}},
		{"twice", "SERVICE_LISTEN=a\nSERVICE_LISTEN=b", []string{"line 2", "SERVICE_LISTEN is there twice"}},
		{"no equals", "hunter2", []string{"line 1 is not NAME=VALUE"}},
		{"bad name", "1A=hunter2", []string{"line 1 is not NAME=VALUE"}},
		{"no name", "=hunter2", []string{"line 1 is not NAME=VALUE"}},
		{"open quote", "A=1\nSERVICE_LISTEN='hunter2\nmore", []string{"line 2 opens a quote"}},
		{"after quote", `SERVICE_LISTEN="hunter2" more`, []string{"line 1 goes on after the closing quote"}},
		{"after a long value", "A='1\n2\n3'\nSERVICE_LISTEN", []string{"line 4 is not NAME=VALUE"}},
		{"two lines", "SERVICE_LISTEN='hunter2\nmore'", []string{"line 1", "several lines"}},
		{"comment or not", "SERVICE_DATABASE=hunter2 # the database", []string{"line 1", "#", "quotes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, "service.env", tt.text)
			_, _, err := parse(t, nil, "serve", "--env-file", path)
			refused(t, err, append(tt.words, "--env-file", path)...)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error repeats a value: %v", err)
			}
		})
	}
}

func TestAnEnvFileWithTheSecretIsNeverOpenToEverybody(t *testing.T) {
	path := write(t, "service.env", "SERVICE_AUTH_JWT_SECRET=0123456789abcdef0123456789abcdef")
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o640: true, 0o644: false, 0o604: false, 0o602: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, _, err := parse(t, nil, "serve", "--env-file", path)
		if good && err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if !good {
			refused(t, err, "chmod o= "+path)
		}
	}
	harmless := write(t, "harmless.env", "SERVICE_LISTEN=:1")
	if err := os.Chmod(harmless, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := parse(t, nil, "serve", "--env-file", harmless); err != nil {
		t.Error(err)
	}
}

func TestASlipInTheEnvironmentIsOnlyAWarning(t *testing.T) {
	got := config.UnknownEnvironment([]string{
		"PATH=/bin", "SERVICE_OIDC_ISSUER=x", "SERVICE_OIDC_ISSUR=hunter2", "SERVICE_AUTH_JWT_SECRET=s", "SERVICE_AUTH_JWT_SECRET_FILE=f",
		"SERVICE_RATE_LIMIT=login=off", "SERVICE_AUTH_SOMETHING_ELSE=1", "SERVICE_LISTN=:1", "SERVICE_NAME=other program", "SERVICE_CONFIG=c",
		"MY_SERVICE_OIDC_X=1", "SERVICE_", "=C:=x", "",
	})
	if len(got) != 4 {
		t.Fatalf("got %d warnings: %q", len(got), got)
	}
	for i, want := range []string{
		"SERVICE_OIDC_ISSUR is not a setting: did you mean SERVICE_OIDC_ISSUER?",
		"SERVICE_RATE_LIMIT is not a setting: did you mean SERVICE_RATE_LIMITS?",
		"SERVICE_AUTH_SOMETHING_ELSE is not a setting: the names are ",
		"SERVICE_LISTN is not a setting: did you mean SERVICE_LISTEN?",
	} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("warning %q, want %q", got[i], want)
		}
	}
	if strings.Contains(strings.Join(got, ""), "hunter2") {
		t.Error("a warning repeats a value")
	}
}

// Whatever a file holds, reading it ends with settings or with one line.
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

package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/config"
)

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
	must(t, err)
	want := config.Defaults()
	want.Listen, want.LogLevel, want.LogFormat = "127.0.0.1:5000", "debug", "json"
	want.Database, want.CookieName = `with blanks # and \ $HOME.db`, `with "quotes" and \ \n $HOME`
	equal(t, "-", p.Serve.Settings, want)
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

func TestAWrongEnvFileIsRefused(t *testing.T) {
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
		{"open quote", "A=1\nSERVICE_LISTEN='hunter2\nmore", []string{"line 2 is not NAME=VALUE"}},
		{"after quote", `SERVICE_LISTEN="hunter2" more`, []string{"line 1 is not NAME=VALUE"}},
		{"after a long value", "A='1\n2\n3'\nSERVICE_LISTEN", []string{"line 4 is not NAME=VALUE"}},
		{"two lines", "SERVICE_LISTEN='hunter2\nmore'", []string{"line 1", "several lines"}},
		{"tab before the comment", "SERVICE_DATABASE=hunter2\t# the database", []string{"line 1", "#", "quotes"}},
		{"only a comment", "SERVICE_DATABASE= # hunter2", []string{"line 1", "#", "quotes"}},
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

func TestAnEnvFileThatOthersReadOrWriteIsRefused(t *testing.T) {
	path := write(t, "service.env", "SERVICE_AUTH_JWT_SECRET=0123456789abcdef0123456789abcdef")
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o640: true, 0o644: false, 0o604: false, 0o605: false} {
		must(t, os.Chmod(path, mode))
		_, _, err := parse(t, nil, "serve", "--env-file", path)
		if good && err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if !good {
			refused(t, err, "chmod o= "+path)
		}
	}
	harmless := write(t, "harmless.env", "SERVICE_LISTEN=:1")
	must(t, os.Chmod(harmless, 0o644))
	if _, _, err := parse(t, nil, "serve", "--env-file", harmless); err != nil {
		t.Error(err)
	}
	for _, mode := range []os.FileMode{0o620, 0o602} { // as cairn.yaml, before which it comes
		must(t, os.Chmod(harmless, mode))
		_, _, err := parse(t, nil, "serve", "--env-file", harmless)
		refused(t, err, "--env-file "+harmless, "may write it", "chmod go-w "+harmless)
	}
	must(t, errors.Join(os.Chmod(harmless, 0o600), os.Chmod(filepath.Dir(harmless), 0o777)))
	_, _, err := parse(t, nil, "serve", "--env-file", harmless)
	refused(t, err, "--env-file "+harmless, "chmod o-w "+filepath.Dir(harmless))
}

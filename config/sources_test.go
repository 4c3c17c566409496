package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/config"
)

// program is a root as the real one has it: files at the root, settings in commands.
type program struct {
	config.Files
	Serve   serveCommand `cmd:""`
	Version struct {
		Database string `name:"database" env:"SERVICE_OTHER" help:"Not the setting."`
	} `cmd:""`
}

type serveCommand struct {
	config.Settings
}

// parse runs one command line against an environment that is the test's own.
func parse(t *testing.T, environ []string, args ...string) (*program, *config.Environment, error) {
	t.Helper()
	var p program
	e := config.NewEnvironment(environ)
	e.Search = nil // nor a file of this machine's
	k, err := kong.New(&p, append(config.Options(e), kong.Name("cairn"), kong.Exit(func(int) { t.Error("the parser exits") }))...)
	must(t, err)
	_, err = k.Parse(args)
	return &p, e, err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// refused insists on an error of one line with every one of the words.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted; want an error with %q", words)
	}
	if strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("the error is not one line: %q", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q lacks %q", err, w)
		}
	}
}

// Each row sets one setting in the sources named, and the winner is the first of flag, environment, env-file, config
// file, default.
func TestTheFirstSourceWins(t *testing.T) {
	envFile := write(t, "service.env", "SERVICE_COOKIE_NAME=from_env_file\nSERVICE_TRUSTED_PROXIES=10.3.0.0/16,10.33.0.0/16\n")
	configFile := write(t, "cairn.yaml", "cookie-name: from_config\ntrusted-proxy: [10.4.0.0/16, 10.44.0.0/16]\n")
	flags := []string{"--cookie-name=from_flag", "--trusted-proxy=10.1.0.0/16", "--trusted-proxy", "10.11.0.0/16"}
	environ := []string{"SERVICE_COOKIE_NAME=from_environment", "SERVICE_TRUSTED_PROXIES=10.2.0.0/16,10.22.0.0/16"}
	empty := []string{"SERVICE_COOKIE_NAME=", "SERVICE_TRUSTED_PROXIES="}
	var (
		byFlag    = []string{"from_flag", "10.1.0.0/16", "10.11.0.0/16"}
		byEnv     = []string{"from_environment", "10.2.0.0/16", "10.22.0.0/16"}
		byEnvFile = []string{"from_env_file", "10.3.0.0/16", "10.33.0.0/16"}
		byConfig  = []string{"from_config", "10.4.0.0/16", "10.44.0.0/16"}
	)
	for _, tt := range []struct {
		name             string
		flag, file, conf bool
		environ          []string
		want             []string
	}{
		{"everything", true, true, true, environ, byFlag},
		{"flag over environment", true, false, false, environ, byFlag},
		{"flag over env-file", true, true, false, nil, byFlag},
		{"flag over config", true, false, true, nil, byFlag},
		{"environment over both files", false, true, true, environ, byEnv},
		{"environment over env-file", false, true, false, environ, byEnv},
		{"environment over config", false, false, true, environ, byEnv},
		{"env-file over config", false, true, true, nil, byEnvFile},
		{"config over default", false, false, true, nil, byConfig},
		{"an empty variable is not set: env-file", false, true, true, empty, byEnvFile},
		{"an empty variable is not set: config", false, false, true, empty, byConfig},
		{"an empty variable is not set: default", false, false, false, empty, []string{"cairn_session"}},
		{"default", false, false, false, nil, []string{"cairn_session"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"serve"}
			if tt.flag {
				args = append(args, flags...)
			}
			if tt.file {
				args = append(args, "--env-file", envFile)
			}
			if tt.conf {
				args = append(args, "--config", configFile)
			}
			p, _, err := parse(t, tt.environ, args...)
			must(t, err)
			got := append([]string{p.Serve.CookieName}, p.Serve.TrustedProxies...)
			equal(t, "-", got, tt.want)
		})
	}
}

func TestOnlyTheCopyOfTheEnvironmentIsRead(t *testing.T) {
	t.Setenv("SERVICE_COOKIE_NAME", "of_the_process")
	t.Setenv("SERVICE_CONFIG", "/nonexistent")
	p, e, err := parse(t, nil, "serve")
	must(t, err)
	same(t, "cookie name comes from the process", p.Serve.CookieName, "cairn_session")
	if v, ok := e.Lookup("SERVICE_COOKIE_NAME"); ok {
		t.Errorf("Lookup finds %q", v)
	}
}

func TestTheConfigFileIsFoundByFlagThenEnvironmentThenEnvFile(t *testing.T) {
	first := write(t, "a.yaml", "cookie-name: first")
	second := write(t, "b.json", `{"cookie-name": "second"}`)
	third := write(t, "c", "cookie-name: third")
	envFile := write(t, "service.env", "SERVICE_CONFIG="+third)
	for _, tt := range []struct {
		want    string
		environ []string
		args    []string
	}{
		{"first", []string{"SERVICE_CONFIG=" + second}, []string{"--config", first, "--env-file", envFile, "serve"}},
		{"second", []string{"SERVICE_CONFIG=" + second}, []string{"serve", "--env-file", envFile}},
		{"third", nil, []string{"serve", "--env-file", envFile}},
	} {
		p, _, err := parse(t, tt.environ, tt.args...)
		must(t, err)
		if p.Serve.CookieName != tt.want || p.Config == "" {
			t.Errorf("cookie name %q, config %q; want the file %s", p.Serve.CookieName, p.Config, tt.want)
		}
	}
}

// A flag of another command is no setting because it has the name of one; its variable is read like all others.
func TestAnotherCommandsFlagIsNoSetting(t *testing.T) {
	file, envFile := write(t, "c.yaml", "database: other.db"), write(t, "service.env", "SERVICE_DATABASE=file")
	for want, environ := range map[string][]string{"": nil, "process": {"SERVICE_OTHER=process"}} {
		p, _, err := parse(t, environ, "version", "--config", file, "--env-file", envFile)
		if err != nil || p.Version.Database != want {
			t.Errorf("got %q, %v, want %q", p.Version.Database, err, want)
		}
	}
}

func TestHelpNamesTheVariables(t *testing.T) {
	var p program
	var out bytes.Buffer
	exited := false
	k, err := kong.New(&p, append(config.Options(config.NewEnvironment(nil)), kong.Writers(&out, &out),
		kong.Exit(func(int) { exited = true }))...)
	must(t, err)
	_, _ = k.Parse([]string{"serve", "--help"})
	if !exited {
		t.Error("help did not end the program")
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"$SERVICE_LISTEN", "$SERVICE_OIDC_ISSUER", "$SERVICE_OIDC_ADDITIONAL_KEY_FILES", "$SERVICE_CONFIG", "$SERVICE_LOG_FORMAT", "cairn.db"} {
		has(t, "the help lacks", text, want)
	}
	if strings.Contains(text, "JWT_SECRET") || strings.Contains(text, "()") {
		t.Errorf("the help is wrong:\n%s", out.String())
	}
}

// The names and defaults are the public interface of the program: this is the table of the contract.
func TestTheSettingsHaveTheirNamesAndDefaults(t *testing.T) {
	p, e, err := parse(t, nil, "serve")
	must(t, err)
	want := config.Settings{
		Listen: "127.0.0.1:4040", Issuer: "http://localhost:4040", Database: "cairn.db", CookieName: "cairn_session", DeviceBinding: "on", StatusTTL: "60s", ShutdownDelay: "0s", BackupEvery: "24h", BackupKeep: "14", Signer: "auto", LogLevel: "info",
	}
	equal(t, "parsed defaults, -", p.Serve.Settings, want)
	equal(t, "Defaults, -", config.Defaults(), want)
	if v, ok := e.Lookup("SERVICE_LISTEN"); ok {
		t.Errorf("Lookup invents %q", v)
	}
	p, _, err = parse(t, []string{
		"SERVICE_LISTEN=:1", "SERVICE_OIDC_ISSUER=i", "SERVICE_DATABASE=d", "SERVICE_OIDC_PRIVATE_KEY_FILE=p",
		"SERVICE_OIDC_ADDITIONAL_KEY_FILES=a,b", "SERVICE_COOKIE_DOMAIN=cd", "SERVICE_COOKIE_NAME=cn", "SERVICE_DEVICE_BINDING=off", "SERVICE_STATUS_TTL=5s", "SERVICE_SHUTDOWN_DELAY=7s", "SERVICE_TLS_CERT_FILE=tc",
		"SERVICE_TLS_KEY_FILE=tk", "SERVICE_TRUSTED_PROXIES=t,u", "SERVICE_ALLOWED_ORIGINS=o,p", "SERVICE_RATE_LIMITS=r=1/1m,s=off",
		"SERVICE_SMTP_URL=su", "SERVICE_SMTP_PASSWORD_FILE=sp", "SERVICE_MAIL_FROM=mf", "SERVICE_BACKUP_DIR=bd", "SERVICE_BACKUP_EVERY=2h", "SERVICE_BACKUP_KEEP=3", "SERVICE_BACKUP_RECIPIENT=age1r", "SERVICE_BACKUP_COMMAND=bc", "SERVICE_SIGNER=go", "SERVICE_NO_OIDC=1", "SERVICE_LOG_LEVEL=l", "SERVICE_LOG_FORMAT=f",
	}, "serve")
	must(t, err)
	want = config.Settings{
		Listen: ":1", Issuer: "i", Database: "d", PrivateKeyFile: "p", AdditionalKeyFiles: []string{"a", "b"}, CookieDomain: "cd",
		CookieName: "cn", DeviceBinding: "off", StatusTTL: "5s", ShutdownDelay: "7s", TLSCertFile: "tc", TLSKeyFile: "tk", TrustedProxies: []string{"t", "u"}, AllowedOrigins: []string{"o", "p"},
		RateLimits: []string{"r=1/1m", "s=off"}, SMTPURL: "su", SMTPPasswordFile: "sp", MailFrom: "mf", BackupDir: "bd", BackupEvery: "2h", BackupKeep: "3", BackupRecipient: "age1r", BackupCommand: "bc", Signer: "go", NoOIDC: true, LogLevel: "l", LogFormat: "f",
	}
	equal(t, "from the environment, -", p.Serve.Settings, want)
}

func TestTheDocumentedTableIsThatOfTheProgram(t *testing.T) {
	text, err := os.ReadFile("../docs/settings.md")
	must(t, err)
	for f := range reflect.TypeFor[config.Settings]().Fields() {
		row := "| `--" + f.Tag.Get("name") + "` | `" + f.Tag.Get("env") + "` | "
		if d := f.Tag.Get("default"); d != "" {
			row += "`" + d + "`"
		}
		if !strings.Contains(string(text), "\n"+row) {
			t.Errorf("docs/settings.md lacks the row %s", row)
		}
	}
}

func TestASlipInTheEnvironmentIsOnlyAWarning(t *testing.T) {
	got := config.UnknownEnvironment([]string{
		"PATH=/bin", "SERVICE_OIDC_ISSUER=x", "SERVICE_OIDC_ISSUR=hunter2", "SERVICE_AUTH_JWT_SECRET=s", "SERVICE_AUTH_JWT_SECRET_FILE=f",
		"SERVICE_RATE_LIMIT=login=off", "SERVICE_AUTH_SOMETHING_ELSE=1", "SERVICE_LISTN=:1", "SERVICE_NAME=other program", "SERVICE_CONFIG=c",
		"MY_SERVICE_OIDC_X=1", "SERVICE_", "=C:=x", "", "SERVICE_ISSUER=x",
	})
	if len(got) != 5 {
		t.Fatalf("got %d warnings: %q", len(got), got)
	}
	for i, want := range []string{
		"SERVICE_OIDC_ISSUR is not a setting: did you mean SERVICE_OIDC_ISSUER?",
		"SERVICE_RATE_LIMIT is not a setting: did you mean SERVICE_RATE_LIMITS?",
		"SERVICE_AUTH_SOMETHING_ELSE is not a setting: the names are ",
		"SERVICE_LISTN is not a setting: did you mean SERVICE_LISTEN?",
		"SERVICE_ISSUER is not a setting: did you mean SERVICE_OIDC_ISSUER?",
	} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("warning %q, want %q", got[i], want)
		}
	}
	lacks(t, "a warning repeats a value", strings.Join(got, ""), "hunter2")
}

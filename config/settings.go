// Package config owns the settings of the program: their names as flags, as environment variables and as keys of
// cairn.yaml, the order in which these win, what values are accepted, and the loading of the three kinds of secret that
// lie outside the database, the shared HS256 secret, the RSA keys and the data key.
//
// A value comes from the first of: flag, environment, env-file, cairn.yaml, default. An empty variable counts as not
// set. [Options] teaches this order to kong; [Settings.Check] turns the strings into typed values and refuses what
// cannot work with one line that names the setting and the remedy.
//
// It leaves to others what the values are used for: it opens no database and no port, and it prints nothing.
package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Settings are the values an operator gives, as strings, before [Settings.Check]. Commands embed it; kong fills it.
// The tags are the one table of names and defaults, and a public interface: cairn.yaml uses the flag's name as its key.
type Settings struct {
	Listen             string   `name:"listen" env:"SERVICE_LISTEN" default:"127.0.0.1:4040"`
	Issuer             string   `name:"issuer" env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040"`
	Database           string   `name:"database" path:"true" env:"SERVICE_DATABASE" default:"cairn.db"`
	PrivateKeyFile     string   `name:"private-key-file" env:"SERVICE_OIDC_PRIVATE_KEY_FILE" placeholder:"FILE"`
	AdditionalKeyFiles []string `name:"additional-key-file" env:"SERVICE_OIDC_ADDITIONAL_KEY_FILES" placeholder:"FILE"`
	DataKeyFile        string   `name:"data-key-file" env:"SERVICE_DATA_KEY_FILE" placeholder:"FILE"`

	CookieDomain          string   `name:"cookie-domain" env:"SERVICE_COOKIE_DOMAIN" placeholder:"DOMAIN"`
	CookieName            string   `name:"cookie-name" env:"SERVICE_COOKIE_NAME" default:"cairn_session"`
	PasskeyHost           string   `name:"passkey-host" env:"SERVICE_PASSKEY_HOST" placeholder:"DOMAIN"`
	PasskeyOrigins        []string `name:"passkey-origin" env:"SERVICE_PASSKEY_ORIGINS" placeholder:"ORIGIN"`
	DeviceBinding         string   `name:"device-binding" env:"SERVICE_DEVICE_BINDING" default:"on"`
	StatusTTL             string   `name:"status-ttl" env:"SERVICE_STATUS_TTL" default:"60s"`
	RequirePushedRequests bool     `name:"require-pushed-requests" env:"SERVICE_REQUIRE_PUSHED_REQUESTS"`
	TLSCertFile           string   `name:"tls-cert-file" env:"SERVICE_TLS_CERT_FILE" placeholder:"FILE"`
	TLSKeyFile            string   `name:"tls-key-file" env:"SERVICE_TLS_KEY_FILE" placeholder:"FILE"`
	TrustedProxies        []string `name:"trusted-proxy" env:"SERVICE_TRUSTED_PROXIES" placeholder:"CIDR"`
	AllowedOrigins        []string `name:"allowed-origin" env:"SERVICE_ALLOWED_ORIGINS" placeholder:"ORIGIN"`
	RateLimits            []string `name:"rate-limit" env:"SERVICE_RATE_LIMITS" placeholder:"NAME=COUNT/WINDOW"`
	SMTPURL               string   `name:"smtp-url" env:"SERVICE_SMTP_URL" placeholder:"URL"`
	SMTPPasswordFile      string   `name:"smtp-password-file" env:"SERVICE_SMTP_PASSWORD_FILE" placeholder:"FILE"`
	MailFrom              string   `name:"mail-from" env:"SERVICE_MAIL_FROM" placeholder:"ADDRESS"`
	BackupDir             string   `name:"backup-dir" path:"true" env:"SERVICE_BACKUP_DIR" placeholder:"FOLDER"`
	BackupEvery           string   `name:"backup-every" env:"SERVICE_BACKUP_EVERY" default:"24h"`
	BackupKeep            string   `name:"backup-keep" env:"SERVICE_BACKUP_KEEP" default:"14"`
	BackupRecipient       string   `name:"backup-recipient" env:"SERVICE_BACKUP_RECIPIENT" placeholder:"AGE1..."`
	BackupCommand         string   `name:"backup-command" path:"true" env:"SERVICE_BACKUP_COMMAND" placeholder:"FILE"`
	ShutdownDelay         string   `name:"shutdown-delay" env:"SERVICE_SHUTDOWN_DELAY" default:"0s"`
	Apply                 string   `name:"apply" path:"true" env:"SERVICE_APPLY" placeholder:"FILE"`
	Signer                string   `name:"signer" env:"SERVICE_SIGNER" default:"auto"`
	NoOIDC                bool     `name:"no-oidc" env:"SERVICE_NO_OIDC"`
	MetricsListen         string   `name:"metrics-listen" env:"SERVICE_METRICS_LISTEN" placeholder:"HOST:PORT"`
	Pprof                 bool     `name:"pprof" env:"SERVICE_PPROF"`
	LogLevel              string   `name:"log-level" env:"SERVICE_LOG_LEVEL" default:"info"`
	LogFormat             string   `name:"log-format" env:"SERVICE_LOG_FORMAT" placeholder:"FORMAT"`
}

//go:embed help.txt
var Help string // of Settings and Files, as lines "config.Type.Field: help"

// Files are the two flags of the program's root that name further sources of settings. The root embeds it.
type Files struct {
	Config  string `name:"config" env:"SERVICE_CONFIG" placeholder:"FILE"`
	EnvFile string `name:"env-file" placeholder:"FILE"`
}

// The two variables of the shared secret have no flag, because every user of the machine can see
// the value of a flag.
const (
	secretVariable     = "SERVICE_AUTH_JWT_SECRET"
	secretFileVariable = "SERVICE_AUTH_JWT_SECRET_FILE"
)

// ourPrefix begins every environment variable of the program.
const ourPrefix = "SERVICE_"

// Defaults returns the default settings.
func Defaults() Settings {
	var s Settings
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		if d, ok := v.Type().Field(i).Tag.Lookup("default"); ok { // of a string: a switch is off
			v.Field(i).SetString(d)
		}
	}
	return s
}

// setting holds the tags of one field of Settings.
type setting struct {
	flag string // without the dashes; also the key in cairn.yaml
	env  string
	list bool
	bool bool
	path bool // a file, by its name or the tag path: a relative one in cairn.yaml is relative to its folder
}

// table returns the fields of Settings in their order.
var table = sync.OnceValue(func() []setting {
	var all []setting
	for f := range reflect.TypeFor[Settings]().Fields() {
		all = append(all, setting{
			flag: f.Tag.Get("name"), env: f.Tag.Get("env"),
			path: f.Tag.Get("path") != "" || strings.HasSuffix(f.Tag.Get("name"), "-file"),
			list: f.Type.Kind() == reflect.Slice, bool: f.Type.Kind() == reflect.Bool,
		})
	}
	return all
})

// settingNamed returns a setting by its flag.
func settingNamed(flag string) (s setting, ok bool) {
	for _, s := range table() {
		if s.flag == flag {
			return s, true
		}
	}
	return setting{}, false
}

// refuse returns an error that says which setting is wrong, why, and what to do. name is a flag, or
// a variable without a flag. A %w in problem keeps the cause for errors.Is. No part contains a
// secret.
func refuse(name, remedy, problem string, args ...any) error {
	if s, ok := settingNamed(name); ok {
		name = fmt.Sprintf("--%s (%s)", s.flag, s.env)
	}
	return fmt.Errorf("%s: %w: %s", name, fmt.Errorf(problem, args...), remedy)
}

// Changed returns the settings that differ from the defaults, as name=value in the order of the
// table, with a database URL as [Checked.DatabaseLabel] shows it. No other setting contains a
// secret.
func (s Settings) Changed() []string {
	var changed []string
	given, defaults := reflect.ValueOf(s), reflect.ValueOf(Defaults())
	for i, setting := range table() {
		v := given.Field(i)
		if setting.list && v.Len() == 0 || !setting.list && v.Equal(defaults.Field(i)) { // no list has a default
			continue
		}
		value := fmt.Sprint(v.Interface())
		if setting.flag == "database" {
			value = Checked{Database: s.Database}.DatabaseLabel()
		}
		changed = append(changed, setting.flag+"="+value)
	}
	return changed
}

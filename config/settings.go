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
	"fmt"
	"reflect"
	"sync"
)

// Settings are the values an operator gives, as strings, before [Settings.Check]. Commands embed it; kong fills it.
// The tags are the one table of names and defaults, and a public interface: cairn.yaml uses the flag's name as its key.
type Settings struct {
	Listen                string   `name:"listen" env:"SERVICE_LISTEN" default:"127.0.0.1:4040" help:"Address to listen on, as host:port."`
	Issuer                string   `name:"issuer" env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Public address of the service, without a slash at the end. It is the issuer in every token."`
	Database              string   `name:"database" path:"true" env:"SERVICE_DATABASE" default:"cairn.db" help:"SQLite file, or a postgres:// URL. Give a URL with a password by the environment: flags are visible to other users of the machine."`
	PrivateKeyFile        string   `name:"private-key-file" path:"true" env:"SERVICE_OIDC_PRIVATE_KEY_FILE" placeholder:"FILE" help:"RSA private key (PEM) that signs tokens. Without it sessions are HS256 and OpenID Connect is off."`
	AdditionalKeyFiles    []string `name:"additional-key-file" path:"true" env:"SERVICE_OIDC_ADDITIONAL_KEY_FILES" placeholder:"FILE" help:"Further key (PEM), published and accepted: a retired or coming RSA key, which does not sign, or the P-256 or Ed25519 private key for clients that ask for ES256 or EdDSA. Repeatable."`
	DataKeyFile           string   `name:"data-key-file" path:"true" env:"SERVICE_DATA_KEY_FILE" placeholder:"FILE" help:"Data key, with which secrets in the database are sealed. cairn init and cairn keys seal make it. Without it: data.key beside the signing key or the SQLite file, if it is there."`
	CookieDomain          string   `name:"cookie-domain" env:"SERVICE_COOKIE_DOMAIN" placeholder:"DOMAIN" help:"Parent domain that shares the session cookie with other applications. Every host below it can read the cookie."`
	CookieName            string   `name:"cookie-name" env:"SERVICE_COOKIE_NAME" default:"cairn_session" help:"Name of the session cookie, without the __Host- or __Secure- that https adds."`
	PasskeyHost           string   `name:"passkey-host" env:"SERVICE_PASSKEY_HOST" placeholder:"DOMAIN" help:"Parent domain of the issuer's host that new passkeys are made for: they still work after a move to another host below it. Every host below it can ask for them."`
	PasskeyOrigins        []string `name:"passkey-origin" env:"SERVICE_PASSKEY_ORIGINS" placeholder:"ORIGIN" help:"Origin of another host, as https://app.example.com, whose pages may use the passkeys; /.well-known/webauthn lists it. Repeatable."`
	DeviceBinding         string   `name:"device-binding" env:"SERVICE_DEVICE_BINDING" default:"on" help:"on or off: whether browsers that can have to prove the key of their device. With off, bound sessions open without it at once."`
	StatusTTL             string   `name:"status-ttl" env:"SERVICE_STATUS_TTL" default:"60s" help:"How long an application that verifies the session cookie on its own may use its copy of the list of revoked sessions."`
	RequirePushedRequests bool     `name:"require-pushed-requests" env:"SERVICE_REQUIRE_PUSHED_REQUESTS" help:"Refuse authorization requests of all applications that were not pushed (RFC 9126)."`
	TLSCertFile           string   `name:"tls-cert-file" path:"true" env:"SERVICE_TLS_CERT_FILE" placeholder:"FILE" help:"Certificate chain (PEM). With the key the service speaks https itself."`
	TLSKeyFile            string   `name:"tls-key-file" path:"true" env:"SERVICE_TLS_KEY_FILE" placeholder:"FILE" help:"Private key (PEM) of the certificate."`
	TrustedProxies        []string `name:"trusted-proxy" env:"SERVICE_TRUSTED_PROXIES" placeholder:"CIDR" help:"Network of reverse proxies whose X-Forwarded-* headers are believed. Repeatable."`
	AllowedOrigins        []string `name:"allowed-origin" env:"SERVICE_ALLOWED_ORIGINS" placeholder:"ORIGIN" help:"Origin, as https://app.example.org, whose pages may call /api/ with the session. Repeatable."`
	RateLimits            []string `name:"rate-limit" env:"SERVICE_RATE_LIMITS" placeholder:"NAME=COUNT/WINDOW" help:"Limit to change, as login=10/15m, or login=off. Repeatable."`
	SMTPURL               string   `name:"smtp-url" env:"SERVICE_SMTP_URL" placeholder:"URL" help:"Mail server, as smtps://user@smtp.example.org:465 or smtp://user@smtp.example.org:587, without the password. Without it no mails are sent."`
	SMTPPasswordFile      string   `name:"smtp-password-file" path:"true" env:"SERVICE_SMTP_PASSWORD_FILE" placeholder:"FILE" help:"File with the password of the mail server's user. Or set SERVICE_SMTP_PASSWORD."`
	MailFrom              string   `name:"mail-from" env:"SERVICE_MAIL_FROM" placeholder:"ADDRESS" help:"Sender of the mails: club@example.org, or \"The Club <club@example.org>\"."`
	BackupDir             string   `name:"backup-dir" path:"true" env:"SERVICE_BACKUP_DIR" placeholder:"FOLDER" help:"Folder for backups: one every --backup-every, and one before each migration."`
	BackupEvery           string   `name:"backup-every" env:"SERVICE_BACKUP_EVERY" default:"24h" help:"How often a backup is made in --backup-dir."`
	BackupKeep            string   `name:"backup-keep" env:"SERVICE_BACKUP_KEEP" default:"14" help:"How many of these backups are kept; the oldest are deleted."`
	BackupRecipient       string   `name:"backup-recipient" env:"SERVICE_BACKUP_RECIPIENT" placeholder:"AGE1..." help:"Recipient of age to which backups are encrypted. cairn keys generate --type age makes one, whose identity restores them and lies elsewhere."`
	BackupCommand         string   `name:"backup-command" path:"true" env:"SERVICE_BACKUP_COMMAND" placeholder:"FILE" help:"Program to run after each backup, with its path as the argument: it carries the backup off."`
	ShutdownDelay         string   `name:"shutdown-delay" env:"SERVICE_SHUTDOWN_DELAY" default:"0s" help:"How long to go on serving after SIGTERM, while /readyz answers 503: longer than a proxy takes to notice."`
	Apply                 string   `name:"apply" path:"true" env:"SERVICE_APPLY" placeholder:"FILE" help:"File or folder of clients, APIs, allowances and settings that the service applies when it starts, as cairn apply does. With a mistake in it the service does not start."`
	Signer                string   `name:"signer" env:"SERVICE_SIGNER" default:"auto" help:"What signs with the private key: auto, which is OpenSSL's libcrypto where the machine has it, or go, which is slower."`
	NoOIDC                bool     `name:"no-oidc" env:"SERVICE_NO_OIDC" help:"Run without a private key: OpenID Connect is off, and tokens that a key has signed are no longer accepted."`
	MetricsListen         string   `name:"metrics-listen" env:"SERVICE_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Address of a second listener, as 127.0.0.1:9464, with /metrics for Prometheus, and with /debug/pprof/ where only this machine reaches it. Without it nothing is counted."`
	Pprof                 bool     `name:"pprof" env:"SERVICE_PPROF" help:"Serve /debug/pprof/ on the address of --metrics-listen although other machines reach it, to who asks for localhost or a loopback address."`
	LogLevel              string   `name:"log-level" env:"SERVICE_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat             string   `name:"log-format" env:"SERVICE_LOG_FORMAT" placeholder:"FORMAT" help:"text or json. Without it: text on a terminal, else json."`
}

// Files are the two flags of the program's root that name further sources of settings. The root embeds it.
type Files struct {
	Config  string `name:"config" env:"SERVICE_CONFIG" placeholder:"FILE" help:"YAML file with settings; the keys are the flags' names. Without it: cairn.yaml in the working folder, which init writes, else /etc/cairn/cairn.yaml."`
	EnvFile string `name:"env-file" placeholder:"FILE" help:"File of NAME=VALUE lines, used where the environment has no value."`
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
	path bool // a file: a relative one in cairn.yaml is relative to its folder
}

// table returns the fields of Settings in their order.
var table = sync.OnceValue(func() []setting {
	var all []setting
	for f := range reflect.TypeFor[Settings]().Fields() {
		all = append(all, setting{
			flag: f.Tag.Get("name"), env: f.Tag.Get("env"), path: f.Tag.Get("path") != "",
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

// Package doctor checks an installation as it is deployed: settings, files, database, mail server,
// and the service through its public address as browsers and applications reach it. It changes
// nothing; a database is neither migrated nor created.
//
// Each check is a function in one list and returns one finding, whose name is a public interface. If
// something that a check needs is missing, its finding is "skipped", never "ok".
//
// It leaves to others how the findings are printed.
package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/admin"
	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Skipped Level = "skipped" // could not be checked
	Advice  Level = "advice"  // not a fault: a healthy new installation may have it
	Warning Level = "warning"
	Problem Level = "problem"
)

// Finding is the result of a check. It holds no secret.
type Finding struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Found string `json:"found"` // a sentence
	Do    string `json:"do"`    // a sentence that says what to do; may be empty
}

// Worst returns the worst level of the findings.
func Worst(findings []Finding) Level {
	for _, level := range []Level{Problem, Warning, Advice} {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == level }) {
			return level
		}
	}
	return OK
}

// Options are the options of Run. Settings and Lookup are required.
type Options struct {
	Settings config.Settings
	Lookup   func(string) (string, bool) // the environment, for secrets
	Offline  bool                        // connect to nothing but a PostgreSQL database
	Deep     bool                        // read the whole database
	// MemoryLimit is the limit of the process's control groups in bytes; 0: none.
	MemoryLimit int64
	Mail        func(config.Checked) (*mail.SMTP, error)
	// CheckBackup reads the whole file of a backup. nil: it is not read.
	CheckBackup func(ctx context.Context, file string) error
	// CheckApply reads the file of serve --apply. nil: it is not read.
	CheckApply func(path string) error

	Hold    time.Duration                                           // of a request for changes; 0: as applications
	RootCAs *x509.CertPool                                          // nil: the system's
	Dial    func(context.Context, string, string) (net.Conn, error) // nil: net.Dialer
	Hasher  *password.Hasher                                        // nil: the product's
	Now     func() time.Time                                        // nil: time.Now
}

// examination is the state that the checks share.
type examination struct {
	Options
	checked  config.Checked
	keys     []jose.JSONWebKey // empty: OpenID Connect is off
	keysErr  error             // they cannot be loaded
	store    *store.Store      // nil: it does not open
	current  bool              // the schema is this program's, and initialized
	secret   []byte            // account.SecretInstallation, once current
	health   store.Health
	noHealth bool               // health could not be read
	warnings map[string]Finding // of the administration's overview, by code; nil: not read yet

	client    *http.Client // for the public address; it follows no redirect
	transport *http.Transport
	reached   bool       // the public address leads to this installation
	seen      httpd.Seen // a request to it, once reached
	cached    bool       // a cache answers there
}

// need is a set of requirements of a check.
type need int

const (
	network  need = 1 << iota
	database      // opened, whatever its schema
	schema        // the schema of this program
	health        // the state that the database reports
	public        // the public address leads here
	https         // the issuer is https
	oidc          // there is a key
	sqlite
)

// check is an entry of the list of checks.
type check struct {
	name  string
	needs need
	run   func(context.Context, *examination) Finding
}

// checks are in the order in which they run and are shown, after the settings.
var checks = []check{
	{"settings-conflicts", 0, settingsConflicts},
	{"database-file", sqlite, databaseFile},
	{"database-filesystem", sqlite, databaseFilesystem},
	{"disk-space", sqlite, diskSpace},
	{"database", 0, openDatabase},
	{"database-writes", database, databaseWrites},
	{"database-pool", database, databasePool},
	{"migrations", database, migrations},
	{"database-text", schema | health, databaseText},
	{"database-version", schema | health, databaseVersion},
	{"database-durability", schema | health, databaseDurability},
	{"database-size", schema | health, databaseSize},
	{"database-integrity", schema | sqlite, databaseIntegrity},
	{"disk-growth", schema | health | sqlite, diskGrowth},
	{"backup", schema, lastBackup},
	{"background-work", schema, backgroundWork},
	{"data-key", 0, dataKey},
	{"signing-key", 0, signingKey},
	{"key-age", schema | oidc, judged("key-age", "The signing key is at most a year old.")},
	{"signer", oidc, signer},
	{"client-algorithms", schema | oidc, clientAlgorithms},
	{"own-claims", schema, ownClaims},
	{"allowed-clients", schema, allowedClients},
	{"sign-outs", schema, signOuts},
	{"shared-secret", schema, sharedSecret},
	{"shared-secret-source", schema, sharedSecretSource},
	{"hs256-sessions", schema | oidc, judged("hs256-sessions", "There are none, or their end is set.")},
	{"second-factor", schema, judged("second-factor", "Every administrator has a second factor.")},
	{"second-factor-optional", schema, judged("second-factor-optional", "Some users must have a second factor.")},
	{"passkey-host", schema, passkeyHost},
	{"password-hashing", 0, passwordHashing},
	{"mail-server", network, mailServer},
	{"service", network, service},
	{"tls-certificate", network | https, tlsCertificate},
	{"public-address", network | schema, publicAddress},
	{"open-files", public, openFiles},
	{"cache", public, cache},
	{"answer-headers", public, answerHeaders},
	{"programs", public, programs},
	{"authorization", public | oidc, authorization},
	{"issuer", public | oidc, issuer},
	{"clock", public, clock},
	{"https-redirect", network | https, httpsRedirect},
	{"hsts", public | https, hsts},
	{"security-headers", public, securityHeaders},
	{"pages", public, pages},
	{"session-cookie", public, sessionCookie},
	{"device-binding", public | https, deviceBinding},
	{"visitor-address", public, visitorAddress},
	{"forwarded-headers", public, forwardedHeaders},
	{"key-set", public | oidc, keySet},
	{"status-list", public, statusList},
}

// Names returns the names of all findings in their order.
func Names() []string {
	names := []string{"settings"}
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Time limits of the checks.
const (
	requestTimeout  = 10 * time.Second
	databaseTimeout = time.Minute
	deepTimeout     = time.Hour
)

// Run runs every check.
func Run(ctx context.Context, o Options) []Finding {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: requestTimeout}).DialContext
	}
	x := &examination{Options: o}
	x.client, x.transport = x.publicClient()
	defer x.transport.CloseIdleConnections()
	defer func() {
		if x.store != nil {
			_ = x.store.Close()
		}
	}()
	if !o.Settings.NoOIDC {
		x.keys, x.keysErr = config.LoadSigningKeys(o.Settings.PrivateKeyFile, o.Settings.AdditionalKeyFiles)
	}
	first := settings(x)
	first.Name = "settings"
	findings := []Finding{first}
	for _, c := range checks {
		f := Finding{Level: Skipped, Found: "The settings cannot be used."}
		if first.Level != Problem {
			if f.Found = x.missing(c.needs); f.Found == "" {
				f = c.run(ctx, x)
			}
		}
		f.Name = c.name
		findings = append(findings, f)
	}
	return findings
}

// missing returns a sentence about the first need that is not met, or "" if all are met.
func (x *examination) missing(needs need) string {
	has := func(n need) bool { return needs&n != 0 }
	switch {
	case has(network|public) && x.Offline:
		return "Not checked with --offline."
	case has(sqlite) && store.IsPostgres(x.checked.Database):
		return "Only for SQLite: PostgreSQL has its own files and tools."
	case has(https) && !x.checked.HTTPS:
		return "The issuer is plain http, only for this machine."
	case has(oidc) && len(x.keys) == 0:
		return "There is no signing key in use: see signing-key."
	case has(database|schema) && x.store == nil:
		return "The database does not open: see database."
	case has(schema) && !x.current, has(health) && x.noHealth:
		return "The database cannot be used in its present state: see database and migrations."
	case has(public) && !x.reached:
		return "The public address does not lead to this installation: see public-address."
	}
	return ""
}

func ok(format string, args ...any) Finding {
	return Finding{Level: OK, Found: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) Finding {
	return Finding{Level: Skipped, Found: fmt.Sprintf(format, args...)}
}

// judged returns the check of a warning that the administration's overview shows too, by its code there.
func judged(name, otherwise string) func(context.Context, *examination) Finding {
	return func(ctx context.Context, x *examination) Finding {
		if x.warnings == nil {
			if err := x.judge(ctx); err != nil {
				return unreadable(err)
			}
		}
		if f, warned := x.warnings[name]; warned {
			return f
		}
		return ok("%s", otherwise)
	}
}

// judge reads the warnings of the administration's overview.
func (x *examination) judge(ctx context.Context) error {
	o := httpd.Administration(httpd.Options{
		Store: x.store, Keys: x.keys, KeyFile: x.Settings.PrivateKeyFile, Now: x.Now,
	})
	o.Mail = x.checked.Mail != nil
	list, err := admin.Judge(ctx, roster.NewAdministration(x.store, x.Now), o)
	if err != nil {
		return err
	}
	x.warnings = map[string]Finding{}
	for _, w := range list {
		f := Finding{Level: Warning, Found: w.Text, Do: w.Remedy}
		if w.Advice {
			f.Level = Advice
		}
		if w.Command != "" {
			f.Do += " Run: " + w.Command // without a period, which would be copied with it
		} else if w.Path != "" {
			f.Do += " See " + x.checked.IssuerString + w.Path
		}
		x.warnings[w.Code] = f
	}
	return nil
}

// found returns advice, a warning or a problem.
func found(level Level, do, format string, args ...any) Finding {
	return Finding{Level: level, Found: fmt.Sprintf(format, args...), Do: do}
}

// unreadable returns a finding about a failure of the database during a check.
func unreadable(err error) Finding {
	do := "Make sure that the database answers, and run cairn doctor --deep, which also looks for damage."
	switch {
	case store.Damaged(err):
		do = restoreBackup
	case store.Pooled(err):
		do = sessionMode
	case store.Denied(err):
		do = "Make the user of the service the owner of the database and its tables (ALTER DATABASE ... OWNER TO " +
			"..., REASSIGN OWNED BY ... TO ...), or name their owner in --database (SERVICE_DATABASE)."
	}
	return found(Problem, do, "The database cannot be read: %v.", err)
}

const restoreBackup = "Stop the service, keep the file, and restore the last backup."

// doAsTold is the remedy for an error whose text says what to do.
const doAsTold = "Do what the message says; until then cairn serve does not start."

var discard = slog.New(slog.DiscardHandler)

// openRemedy returns what to do about a database that does not open.
func openRemedy(ctx context.Context, x *examination, err error) string {
	if errors.Is(err, store.ErrNotDatabase) { // whoever may open it
		return doAsTold
	}
	if store.IsPostgres(x.checked.Database) {
		return "Start the server; or correct its address, database, user and password in --database " +
			"(SERVICE_DATABASE) or .pgpass."
	}
	if _, err := os.Stat(x.checked.Database); errors.Is(err, os.ErrNotExist) {
		return "Run cairn doctor in the folder of cairn.yaml or with --config FILE, or name the right file with " +
			"--database (SERVICE_DATABASE). If the service still runs and somebody removed the file, copy it from " +
			"/proc/PID/fd of the service first. Only a new installation needs cairn init."
	}
	for _, check := range []func(context.Context, *examination) Finding{databaseFile, diskSpace} {
		if f := check(ctx, x); f.Do != "" {
			return f.Do
		}
	}
	return "Make sure that this user may read the database, or name the right one with --database (SERVICE_DATABASE)."
}

// openDatabase opens the database for the checks that follow.
func openDatabase(ctx context.Context, x *examination) Finding {
	const name = "Name the right database with --database (SERVICE_DATABASE), or run cairn init."
	o := store.Options{Log: discard, Now: x.Now, ReadOnly: true}
	if file := x.checked.DataKeyFile; file != "" {
		o.DataKey = func() ([]byte, error) { return config.LoadDataKey(file) }
	}
	st, err := store.Open(ctx, x.checked.Database, o)
	if err != nil {
		return found(Problem, openRemedy(ctx, x, err), "%s: %v.", x.checked.DatabaseLabel(), err)
	}
	x.store = st
	err = st.CheckSchema(ctx)
	if errors.Is(err, store.ErrNotMigrated) {
		if version, err := st.SchemaVersion(ctx); err == nil && version == 0 {
			return found(Problem, name, "%s has no tables.", x.checked.DatabaseLabel())
		}
	}
	if errors.Is(err, store.ErrNotMigrated) || errors.Is(err, store.ErrNewerSchema) {
		return ok("%s opens.", x.checked.DatabaseLabel()) // the finding migrations has the rest
	}
	if err == nil {
		x.secret, err = st.Secret(ctx, account.SecretInstallation)
	}
	if errors.Is(err, account.ErrNotInitialized) {
		return found(Problem, name, "%s is not initialized.", x.checked.DatabaseLabel())
	}
	if errors.Is(err, store.ErrDataKey) {
		return found(Problem, doAsTold, "%v.", err)
	}
	if err != nil {
		return unreadable(err)
	}
	x.current = true
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if x.health, err = st.Health(ctx, x.Now()); err != nil {
		x.noHealth = true
		return unreadable(err)
	}
	return ok("%s opens.", x.checked.DatabaseLabel())
}

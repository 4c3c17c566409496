// Package doctor looks at an installation as it is deployed: settings, files, database,
// mail server, and the service through its public address as browsers and applications
// reach it. It changes nothing; a database is neither migrated nor created.
//
// Each check is a function in one list and gives one finding, whose name is a public
// interface. What a check needs and does not have makes its finding "skipped", never "ok".
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
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/admin"
	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// Level is how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Skipped Level = "skipped" // it could not be looked at
	Advice  Level = "advice"  // no fault: a healthy new installation may have it
	Warning Level = "warning"
	Problem Level = "problem"
)

// Finding is what a check has found. It holds no secret.
type Finding struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Found string `json:"found"` // a sentence
	Do    string `json:"do"`    // what to do, a sentence; empty where there is nothing to do
}

// Worst is the worst level of the findings.
func Worst(findings []Finding) Level {
	for _, level := range []Level{Problem, Warning, Advice} {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == level }) {
			return level
		}
	}
	return OK
}

// Options are what is looked at, and with what. Settings and Lookup are required.
type Options struct {
	Settings config.Settings
	Lookup   func(string) (string, bool) // the environment, for secrets
	Offline  bool                        // no connection is made but to a PostgreSQL database
	Deep     bool                        // the whole database is read
	Mail     func(config.Checked) (*mail.SMTP, error)

	RootCAs *x509.CertPool                                          // nil: the system's
	Dial    func(context.Context, string, string) (net.Conn, error) // nil: net.Dialer
	Hasher  *password.Hasher                                        // nil: the product's
	Now     func() time.Time                                        // nil: time.Now
}

// examination is what the checks share.
type examination struct {
	Options
	checked config.Checked
	keys    []jose.JSONWebKey // empty: OpenID Connect is off
	store   *store.Store      // nil: it does not open
	current bool              // the schema is this program's, and initialized
	secret  []byte            // account.SecretInstallation, once current
	health  store.Health
	sick    bool // health could not be read

	client    *http.Client // for the public address; it follows no redirect
	transport *http.Transport
	reached   bool // the public address leads to this installation
}

// need is what a check cannot do without.
type need int

const (
	network  need = 1 << iota
	database      // opened, whatever its schema
	schema        // the schema of this program
	health        // what the database says of itself
	public        // the public address leads here
	https         // the issuer is https
	oidc          // there is a key
	sqlite
)

// check is one of the list.
type check struct {
	name  string
	needs need
	run   func(context.Context, *examination) Finding
}

// checks in the order in which they are done and shown. The settings come first.
var checks = []check{
	{"settings-conflicts", 0, settingsConflicts},
	{"database-file", sqlite, databaseFile},
	{"database-filesystem", sqlite, databaseFilesystem},
	{"disk-space", sqlite, diskSpace},
	{"database", 0, openDatabase},
	{"migrations", database, migrations},
	{"database-version", schema | health, databaseVersion},
	{"database-durability", schema | health, databaseDurability},
	{"database-size", schema | health, databaseSize},
	{"database-integrity", schema | sqlite, databaseIntegrity},
	{"disk-growth", schema | health | sqlite, diskGrowth},
	{"backup", schema, lastBackup},
	{"data-key", 0, dataKey},
	{"signing-key", 0, signingKey},
	{"key-age", schema | oidc, judged("key-age", "The key that signs is not older than a year.")},
	{"signer", oidc, signer},
	{"client-algorithms", schema | oidc, clientAlgorithms},
	{"allowed-clients", schema, allowedClients},
	{"shared-secret", schema, sharedSecret},
	{"shared-secret-source", schema, sharedSecretSource},
	{"hs256-sessions", schema | oidc, judged("hs256-sessions", "There are none, or their end is set.")},
	{"second-factor", schema, judged("second-factor", "Every administrator has a second factor.")},
	{"second-factor-optional", schema, judged("second-factor-optional", "Some have to have a second factor.")},
	{"password-hashing", 0, passwordHashing},
	{"mail-server", network, mailServer},
	{"service", network, service},
	{"tls-certificate", network | https, tlsCertificate},
	{"public-address", network | schema, publicAddress},
	{"issuer", public | oidc, issuer},
	{"clock", public, clock},
	{"https-redirect", network | https, httpsRedirect},
	{"hsts", public | https, hsts},
	{"session-cookie", public, sessionCookie},
	{"visitor-address", public, visitorAddress},
	{"forwarded-headers", public, forwardedHeaders},
	{"key-set", public | oidc, keySet},
	{"status-list", public, statusList},
}

// Names are the names of all findings, in their order.
func Names() []string {
	names := []string{"settings"}
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Bounds of the checks.
const (
	requestTimeout  = 10 * time.Second
	databaseTimeout = time.Minute
	deepTimeout     = time.Hour
)

// Run does every check.
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

// missing says which need is not met, "" where all are.
func (x *examination) missing(needs need) string {
	has := func(n need) bool { return needs&n != 0 }
	switch {
	case has(network|public) && x.Offline:
		return "Not looked at with --offline."
	case has(sqlite) && store.IsPostgres(x.checked.Database):
		return "Only for SQLite: PostgreSQL has its own files and tools."
	case has(https) && !x.checked.HTTPS:
		return "The issuer is plain http, for this machine alone."
	case has(oidc) && len(x.keys) == 0:
		return "There is no signing key in use: see signing-key."
	case has(database|schema) && x.store == nil:
		return "The database does not open: see database."
	case has(schema) && !x.current, has(health) && x.sick:
		return "The database cannot be used as it is: see database and migrations."
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

// judged makes the check of what the overview of the administration shows too, by its name there.
func judged(name, otherwise string) func(context.Context, *examination) Finding {
	return func(ctx context.Context, x *examination) Finding {
		o := httpd.Administration(httpd.Options{Store: x.store, Keys: x.keys, KeyFile: x.Settings.PrivateKeyFile, Now: x.Now})
		o.Mail = x.checked.Mail != nil
		list, err := admin.Judge(ctx, account.NewAdministration(x.store, x.Now), o)
		if err != nil {
			return unreadable(err)
		}
		for _, w := range list {
			f := Finding{Level: Warning, Found: w.Text, Do: w.Remedy}
			if w.Advice {
				f.Level = Advice
			}
			if w.Command != "" {
				f.Do += " Run " + w.Command + "."
			} else if w.Path != "" {
				f.Do += " See " + x.checked.IssuerString + w.Path
			}
			if w.Code == name {
				return f
			}
		}
		return ok("%s", otherwise)
	}
}

// found makes advice, a warning or a problem.
func found(level Level, do, format string, args ...any) Finding {
	return Finding{Level: level, Found: fmt.Sprintf(format, args...), Do: do}
}

// unreadable is for a failure of the database while it was looked at.
func unreadable(err error) Finding {
	return found(Problem, "See that the database answers, and run cairn doctor --deep, which also looks for damage.", "The database cannot be read: %v.", err)
}

var discard = slog.New(slog.DiscardHandler)

// openDatabase opens it for the checks that follow.
func openDatabase(ctx context.Context, x *examination) Finding {
	const name = "Name the right database with --database (SERVICE_DATABASE), or run cairn init."
	o := store.Options{Log: discard, ReadOnly: true}
	if file := x.checked.DataKeyFile; file != "" {
		o.DataKey = func() ([]byte, error) { return config.LoadDataKey(file) }
	}
	st, err := store.Open(ctx, x.checked.Database, o)
	if err != nil {
		return found(Problem, "See that the database is there and that this user may read it. "+name, "%s: %v.", x.checked.DatabaseLabel(), err)
	}
	x.store = st
	err = st.CheckSchema(ctx)
	if errors.Is(err, store.ErrNotMigrated) {
		if version, err := st.SchemaVersion(ctx); err == nil && version == 0 {
			return found(Problem, name, "%s has no tables.", x.checked.DatabaseLabel())
		}
	}
	if errors.Is(err, store.ErrNotMigrated) || errors.Is(err, store.ErrNewerSchema) {
		return ok("%s opens.", x.checked.DatabaseLabel()) // and migrations says the rest
	}
	if err == nil {
		x.secret, err = st.Secret(ctx, account.SecretInstallation)
	}
	if errors.Is(err, account.ErrNotInitialized) {
		return found(Problem, name, "%s is not initialized.", x.checked.DatabaseLabel())
	}
	if errors.Is(err, store.ErrDataKey) {
		return found(Problem, "Do what the message says; cairn serve does not start before.", "%v.", err)
	}
	if err != nil {
		return unreadable(err)
	}
	x.current = true
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if x.health, err = st.Health(ctx, x.Now()); err != nil {
		x.sick = true
		return unreadable(err)
	}
	return ok("%s opens.", x.checked.DatabaseLabel())
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/archive"
	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/people"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/templates"
)

type initCommand struct {
	Handle           string
	DisplayName      string
	Email            string
	GeneratePassword bool
	PasswordFile     string `placeholder:"FILE"`
	GenerateKey      string `placeholder:"FILE"`
	PrivateKeyFile   string `env:"SERVICE_OIDC_PRIVATE_KEY_FILE" placeholder:"FILE"`
	DataKeyFile      string `env:"SERVICE_DATA_KEY_FILE" placeholder:"FILE"`
	Issuer           string `env:"SERVICE_OIDC_ISSUER" placeholder:"URL"`
	Listen           string `env:"SERVICE_LISTEN" placeholder:"ADDR"`
	Database         string `env:"SERVICE_DATABASE" placeholder:"FILE"`
	cli.Output
}

// WritesConfig implements config.WritesConfig.
func (*initCommand) WritesConfig() {}

// initResult is the output of init.
type initResult struct {
	Database   string `json:"database"`
	Created    bool   `json:"created"`
	Handle     string `json:"handle,omitempty"`
	Password   string `json:"password,omitempty"` // only a generated one, once
	KeyFile    string `json:"key_file,omitempty"`
	Kid        string `json:"kid,omitempty"`
	DataKey    string `json:"data_key_file,omitempty"`
	ConfigFile string `json:"config_file,omitempty"`
	Issuer     string `json:"issuer,omitempty"`
}

// Run creates what is missing of the installation; a second run changes nothing and says so.
func (c *initCommand) Run(p *cli.Program) error {
	in, differs, err := c.plan(p)
	if err != nil {
		return err
	}
	initialized, err := in.initialized(p)
	switch {
	case err != nil:
		return err
	case !initialized && differs != nil:
		return differs
	case initialized:
		if differs != nil {
			fmt.Fprintf(p.Stderr, "cairn: warning: %s\n", differs)
		}
		if c.Format == "json" {
			return cli.WriteJSON(p.Stdout, initResult{Database: in.DatabaseLabel()})
		}
		fmt.Fprintf(p.Stdout, "%s is already initialized: nothing was changed.\n", in.DatabaseLabel())
		return nil
	}
	if err := in.check(c.GenerateKey != ""); err != nil {
		return err
	}
	first, err := c.administrator(p)
	if err != nil {
		return err
	}
	if err := in.create(p, first, c.DataKeyFile != ""); err != nil {
		return err
	}
	return c.report(p, in, first)
}

// administrator returns the first administrator, from flags or from prompts on a terminal.
func (c *initCommand) administrator(p *cli.Program) (first account.NewUser, err error) {
	first = account.NewUser{Handle: c.Handle, DisplayName: c.DisplayName, Email: c.Email, AnyHandle: true}
	if first.Handle == "" {
		if !cli.IsTerminal(p.Stdin) || c.PasswordFile == "-" {
			return first, cli.UsageError("--handle is needed: the handle of the first administrator")
		}
		if first.Handle, err = cli.Ask(p, "Handle of the first administrator: "); err != nil {
			return first, err
		}
		if first.Email == "" {
			if first.Email, err = cli.Ask(p, "Email address (optional): "); err != nil {
				return first, err
			}
		}
	}
	return first, people.GivePassword(p, &first, account.DefaultSettings(), c.PasswordFile, c.GeneratePassword, c.Quiet)
}

func (c *initCommand) report(p *cli.Program, in *installation, first account.NewUser) error {
	done := initResult{
		Database: in.DatabaseLabel(), Created: true, Handle: first.Handle, KeyFile: in.settings.PrivateKeyFile,
		Kid: in.kid, DataKey: in.settings.DataKeyFile, ConfigFile: in.file, Issuer: in.settings.Issuer,
	}
	if c.GeneratePassword {
		done.Password = first.Password
	}
	settings := in.file
	if in.hadFile {
		settings += "   (" + cmp.Or(in.note, "unchanged") + ")"
	} else if in.file != "" && in.HasPassword() {
		settings += "   (with the password of the database: only you can read it)"
	}
	next := p.Name
	if in.file != "" && in.file != p.Env.Find() {
		next += " --config " + config.ShellQuote(in.file)
	}
	o := c.Output
	o.Quiet = o.Quiet && o.Format != "json"
	return o.Print(p, done.Handle, done, cli.Pairs{
		{"database", done.Database}, {"settings", settings},
		{"key file", cmp.Or(done.KeyFile, "none: OpenID Connect is off")},
		{"data key", cmp.Or(done.DataKey, "none: cairn keys seal makes it")}, {"administrator", done.Handle},
		{"password", cli.OnlyNow(done.Password)}, {"next", next + " serve"}, {"then", "sign in at " + done.Issuer},
	})
}

// installation is what init creates, as far as it is missing.
type installation struct {
	config.Checked
	settings    config.Settings
	file        string // the config file; empty: it could not be written
	hadFile     bool
	newDatabase bool // a SQLite file that does not exist yet
	makeKey     bool
	makeDataKey bool
	kid         string
	note        string // about the config file
}

// plan returns the installation that the config file and the command line describe. differs is an error if a flag
// is not what an existing config file says: init does not change it, so other commands would not have the value.
func (c *initCommand) plan(p *cli.Program) (in *installation, differs, err error) {
	in = &installation{settings: config.Defaults(), hadFile: p.Env.ConfigFile() != ""}
	in.file = cmp.Or(p.Env.ConfigFile(), p.Env.NewConfig())
	s, keyFlag := &in.settings, backupfile.PrivateKeySetting
	if c.GenerateKey != "" {
		if c.PrivateKeyFile != "" && !cli.SamePath(c.GenerateKey, c.PrivateKeyFile) && !in.hadFile {
			return nil, nil, cli.UsageError("--generate-key and --private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE) " +
				"name two files: give one of them")
		}
		keyFlag, c.PrivateKeyFile = "generate-key", c.GenerateKey
	}
	for _, given := range []struct {
		flag, name, value string
		setting           *string
	}{
		{"database", "database", c.Database, &s.Database},
		{"issuer", "issuer", c.Issuer, &s.Issuer},
		{"listen", "listen", c.Listen, &s.Listen},
		{keyFlag, backupfile.PrivateKeySetting, c.PrivateKeyFile, &s.PrivateKeyFile},
		{backupfile.DataKeySetting, backupfile.DataKeySetting, c.DataKeyFile, &s.DataKeyFile},
	} {
		other := cmp.Or(p.Env.Setting(given.name), *given.setting) // what a command without the flag has
		*given.setting = cmp.Or(given.value, other)
		if in.hadFile && differs == nil && *given.setting != other && !cli.SamePath(*given.setting, other) {
			differs = fmt.Errorf("--%s: %s exists already and has another value: change %s in it, leave the flag "+
				"out, or name another file with --config", given.flag, in.file, given.name)
		}
	}
	if c.Issuer == "" && !in.hadFile {
		s.Issuer = cmp.Or(localIssuer(s.Listen), s.Issuer)
	}
	if c.Listen == "" && p.Env.Setting("listen") == "" && !in.hadFile {
		s.Listen = cmp.Or(localListen(s.Issuer), s.Listen)
	}
	s.DataKeyFile = cmp.Or(s.DataKeyFile, archive.NewDataKeyPlace(p, s.PrivateKeyFile, s.Database))
	if in.Checked, err = s.Check(); err != nil {
		return nil, nil, err
	}
	_, err = os.Stat(in.Database)
	in.newDatabase = !store.IsPostgres(in.Database) && errors.Is(err, fs.ErrNotExist)
	return in, differs, nil
}

// localSettings returns the settings of a new installation, with the language and the time zone of the environment as
// far as it says them: C says no language, and a server without a zone of its own keeps UTC.
func localSettings() account.Settings {
	s := account.DefaultSettings()
	name := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	name, _, _ = strings.Cut(name, ".") // de_DE.UTF-8@euro
	name, _, _ = strings.Cut(name, "@")
	if name != "C" && name != "POSIX" {
		s.Language = templates.LanguageTag(strings.ReplaceAll(name, "_", "-"))
	}
	zone := strings.TrimPrefix(os.Getenv("TZ"), ":")
	if zone == "" {
		file, _ := filepath.EvalSymlinks("/etc/localtime")
		_, zone, _ = strings.Cut(file, "/zoneinfo/")
		if strings.HasSuffix(zone, "UTC") {
			zone = ""
		}
	}
	s.TimeZone = zone
	if _, err := s.Check(); err != nil { // TZ may be a rule, such as CET-1CEST
		s.TimeZone = ""
	}
	return s
}

// initialized reports whether the database has a user.
func (in *installation) initialized(p *cli.Program) (bool, error) {
	if in.newDatabase || cli.IsEmptyFile(in.Database) {
		return false, nil
	}
	st, initialized, err := cli.OpenAny(p.Ctx, in.Checked, cli.QuietLog(p))
	if err != nil {
		return false, err
	}
	if !initialized {
		return false, st.Close()
	}
	users, _, err := st.Users(p.Ctx, account.UserQuery{Limit: 1})
	return len(users) > 0, errors.Join(err, st.Close())
}

// localIssuer returns the issuer of a service that listens on this machine, or "" if the address has no
// fixed port.
func localIssuer(listen string) string {
	_, port, err := net.SplitHostPort(listen)
	switch {
	case err != nil || port == "0":
		return ""
	case port == "80":
		return "http://localhost"
	}
	return "http://localhost:" + port
}

// localListen returns the address that an issuer on this machine leads to, or "" for any other issuer.
func localListen(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "http" || u.Port() == "" ||
		u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1" {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", u.Port())
}

// check finds out what is missing, and returns an error if it cannot be created. It changes nothing.
func (in *installation) check(generateKey bool) error {
	type newFile struct{ what, path string }
	var files []newFile
	if in.newDatabase {
		files = append(files, newFile{"the database", in.Database})
		for _, end := range []string{"-wal", "-journal"} {
			if log := in.Database + end; cli.Exists(log) {
				return fmt.Errorf("--database: %s holds changes of a database that is missing: put %s back, "+
					"move the log away, or name another file", log, in.Database)
			}
		}
	}
	switch key := in.settings.PrivateKeyFile; {
	case key == "":
	case generateKey && !cli.Exists(key):
		in.makeKey = true
		files = append(files, newFile{"the key", key})
	case generateKey && !in.hadFile: // else an earlier run was interrupted
		return fmt.Errorf("--generate-key: %s exists and is not overwritten: name another file, "+
			"or use its key with --private-key-file", key)
	default:
		keys, err := config.LoadSigningKeys(key, nil)
		if err != nil {
			return err
		}
		in.kid = keys[0].KeyID
	}
	if key := in.settings.DataKeyFile; !cli.Exists(key) {
		in.makeDataKey = true
		files = append(files, newFile{"the data key", key})
	} else if _, err := config.LoadDataKey(key); err != nil {
		return err
	}
	files = append(files, newFile{"the settings", in.file})
	for i, f := range files {
		for _, other := range files[:i] {
			if cli.SamePath(f.path, other.path) {
				const format = "%s and %s would be the same file, %s: choose different names"
				return cli.Usagef(format, other.what, f.what, f.path)
			}
		}
		if err := cli.CheckNewFile(f.what, f.path); err != nil {
			return err
		}
	}
	return nil
}

// create creates the config file, the keys and the database, in this order. A command that was
// killed and runs again finds its own settings and keys, and continues. After an error, create
// removes what it created.
func (in *installation) create(p *cli.Program, first account.NewUser, namedDataKey bool) (err error) {
	var created []string
	concurrent := false // another run has created one of the files, and uses the config file of this run
	defer func() {
		if err == nil {
			return
		}
		for _, file := range slices.Backward(created) {
			if file != in.file || !concurrent {
				_ = os.Remove(file)
			}
		}
	}()
	if !in.hadFile {
		err := config.WriteConfig(in.file, in.settings)
		readOnly := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
		switch {
		case err == nil:
			created = append(created, in.file)
		case readOnly && store.IsPostgres(in.settings.Database) && in.settings.PrivateKeyFile == "":
			// As in a container that gets its settings from the environment.
			fmt.Fprintf(p.Stderr, "cairn: warning: %s %s: give every command the same settings\n", in.file, err)
			in.file = ""
			if !namedDataKey { // it would be in the same folder
				in.settings.DataKeyFile, in.Checked.DataKeyFile, in.makeDataKey = "", "", false
			}
		default:
			return fmt.Errorf("%s %w", in.file, err)
		}
	}
	if in.makeKey {
		if in.kid, err = config.GenerateKey(in.settings.PrivateKeyFile, config.MinKeyBits); err != nil {
			concurrent = errors.Is(err, fs.ErrExist)
			return fmt.Errorf("--generate-key: %w", err)
		}
		created = append(created, in.settings.PrivateKeyFile)
	}
	if in.makeDataKey {
		if err := config.GenerateDataKey(in.settings.DataKeyFile); err != nil {
			concurrent = errors.Is(err, fs.ErrExist)
			return fmt.Errorf("--%s: %w", backupfile.DataKeySetting, err)
		}
		created = append(created, in.settings.DataKeyFile)
	}
	if in.hadFile && in.settings.DataKeyFile != config.DataKeyBeside(in.Database) { // else every command finds it
		in.note = archive.RememberDataKey(p, in.settings.DataKeyFile, in.Database)
	}
	if in.newDatabase {
		f, err := os.OpenFile(in.Database, os.O_CREATE|os.O_EXCL, 0o600) // no other user can read it
		if err != nil {
			_, statErr := os.Stat(in.Database)
			concurrent = statErr == nil
			return cli.DatabaseError(err)
		}
		_ = f.Close()
		for _, end := range []string{"", "-journal", "-shm", "-wal"} {
			created = append(created, in.Database+end)
		}
	}
	st, _, err := cli.OpenOrCreate(p.Ctx, in.Checked, cli.QuietLog(p))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	hasher, err := passwords.NewHasher()
	if err != nil {
		return err
	}
	_, err = roster.Initialize(p.Ctx, st, hasher, localSettings(), first, time.Now())
	return err
}

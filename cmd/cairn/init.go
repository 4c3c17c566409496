package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

type initCommand struct {
	Handle           string `help:"Handle of the first administrator. On a terminal, init prompts for it."`
	DisplayName      string `help:"Name that others see; the handle if not given."`
	GeneratePassword bool   `help:"Generate a password and print it once."`
	PasswordFile     string `placeholder:"FILE" help:"File with the password, - for standard input. Without one of the two, init prompts for it on a terminal."`
	GenerateKey      string `placeholder:"FILE" help:"Also write a new RSA private key and turn OpenID Connect on."`
	PrivateKeyFile   string `env:"SERVICE_OIDC_PRIVATE_KEY_FILE" placeholder:"FILE" help:"Use the RSA private key (PEM) in this file, such as one from cairn keys generate."`
	DataKeyFile      string `env:"SERVICE_DATA_KEY_FILE" placeholder:"FILE" help:"Data key, which seals secrets in the database; created if missing. Default: data.key beside the signing key or the database."`
	Issuer           string `env:"SERVICE_OIDC_ISSUER" placeholder:"URL" help:"Public address of the service, such as https://id.example.org. Default: http://localhost and the port of --listen."`
	Listen           string `env:"SERVICE_LISTEN" placeholder:"ADDR" help:"Address to listen on, as host:port; 127.0.0.1:4040 if not given."`
	Database         string `env:"SERVICE_DATABASE" placeholder:"FILE" help:"SQLite file, or a postgres:// URL; cairn.db if not given. Pass a URL with a password in the environment."`
	output
}

// WritesConfig implements config.WritesConfig.
func (*initCommand) WritesConfig() {}

// Help implements kong.HelpProvider.
func (*initCommand) Help() string {
	return `Everything is checked before anything is created, and a second run changes nothing. The settings are
written to cairn.yaml, in the folder of the database (with PostgreSQL: in the working folder), where every other
command finds them; --config FILE writes another file, such as /etc/cairn/cairn.yaml.`
}

// initialized is the output of init.
type initialized struct {
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

// Run creates the installation; a second run changes nothing and says so.
func (c *initCommand) Run(p *program) error {
	in, err := c.plan(p)
	if err != nil {
		return err
	}
	done := initialized{Database: in.checked.DatabaseLabel()}
	if !in.newDatabase {
		st, _, err := openOrCreate(p.ctx, in.checked, quietLog(p))
		if err != nil {
			return err
		}
		users, _, err := st.Users(p.ctx, account.UserQuery{Limit: 1})
		if err = errors.Join(err, st.Close()); err != nil {
			return err
		}
		if len(users) > 0 {
			if err := in.differs(); err != nil {
				fmt.Fprintf(p.stderr, "cairn: warning: %s\n", err)
			}
			return c.report(p, in, done)
		}
	}
	if err := c.check(in); err != nil {
		return err
	}
	first, err := c.administrator(p)
	if err != nil {
		return err
	}
	if err := in.create(p, first, c.DataKeyFile != ""); err != nil {
		return err
	}
	done.Created, done.Handle, done.KeyFile, done.Kid = true, first.Handle, in.settings.PrivateKeyFile, in.kid
	done.DataKey, done.ConfigFile, done.Issuer = in.settings.DataKeyFile, in.file, in.settings.Issuer
	if c.GeneratePassword {
		done.Password = first.Password
	}
	return c.report(p, in, done)
}

// administrator returns the first administrator, from flags or from prompts on a terminal.
func (c *initCommand) administrator(p *program) (first account.NewUser, err error) {
	first = account.NewUser{Handle: c.Handle, DisplayName: c.DisplayName, AnyHandle: true}
	if first.Handle == "" {
		if !isTerminal(p.stdin) || c.PasswordFile == "-" {
			return first, usageError{"--handle is needed: the handle of the first administrator"}
		}
		if first.Handle, err = ask(p, "Handle of the first administrator: "); err != nil {
			return first, err
		}
	}
	return first, givePassword(p, &first, account.DefaultSettings(), c.PasswordFile, c.GeneratePassword, c.Quiet)
}

func (c *initCommand) report(p *program, in *installationPlan, done initialized) error {
	if !done.Created && c.Format != "json" {
		fmt.Fprintf(p.stdout, "%s is already initialized: nothing was changed.\n", done.Database)
		return nil
	}
	settings := done.ConfigFile
	switch {
	case in.otherConfig != "":
		settings = "not written: " + in.otherConfig + " is for another database"
	case !in.hadFile && in.file != "" && in.checked.HasPassword():
		settings += "   (with the password of the database: only you can read it)"
	}
	serve := p.name
	for _, arg := range in.serveWith(p) {
		serve += " " + config.ShellQuote(arg)
	}
	o := c.output
	o.Quiet = o.Quiet && o.Format != "json"
	return o.print(p, done.Handle, done, pairs{
		{"database", done.Database}, {"settings", settings},
		{"key file", cmp.Or(done.KeyFile, "none: OpenID Connect is off")},
		{"data key", cmp.Or(done.DataKey, "none: cairn keys seal makes it")}, {"administrator", done.Handle},
		{"password", onlyNow(done.Password)}, {"next", serve}, {"then", "sign in at " + done.Issuer},
	})
}

// installationPlan is what init is about to create.
type installationPlan struct {
	settings    config.Settings
	checked     config.Checked
	remembered  []rememberedSetting
	file        string // the config file; empty: none can be written
	hadFile     bool
	otherConfig string // a config file beside the database that is for another database
	newDatabase bool   // a SQLite file that does not exist yet
	makeKey     bool
	makeDataKey bool
	kid         string
}

// rememberedSetting is a setting that is written to the config file.
type rememberedSetting struct {
	name, env string
	flag      string // of init
	given     string // by flag or environment
	value     *string
	stored    string // in the config file, or else the default
}

// plan combines an existing config file with the command line. It changes nothing.
func (c *initCommand) plan(p *program) (*installationPlan, error) {
	configFile := p.env.ConfigFile()
	in := &installationPlan{settings: config.Defaults(), file: configFile}
	if configFile == "" {
		in.file = cmp.Or(p.env.NewConfig(), c.place(p))
		if _, err := os.Lstat(in.file); err == nil {
			if err := p.env.LoadFound(in.file); err != nil {
				return nil, err
			}
		}
	}
	in.hadFile = p.env.ConfigFile() != ""
	if in.hadFile && configFile == "" && c.Database != "" {
		stored, _ := p.env.InConfig("database")
		stored = cmp.Or(stored, in.settings.Database)
		if c.Database != stored && (store.IsPostgres(c.Database) || !samePath(c.Database, stored)) {
			p.env.ForgetConfig()
			in.otherConfig = in.file
			in.file, in.hadFile = "", false
		}
	}
	s := &in.settings
	in.remembered = []rememberedSetting{
		{name: "database", env: "SERVICE_DATABASE", given: c.Database, value: &s.Database},
		{name: "issuer", env: "SERVICE_OIDC_ISSUER", given: c.Issuer, value: &s.Issuer},
		{name: "listen", env: "SERVICE_LISTEN", given: c.Listen, value: &s.Listen},
		{
			name: backupfile.PrivateKeySetting, env: "SERVICE_OIDC_PRIVATE_KEY_FILE",
			given: c.PrivateKeyFile, value: &s.PrivateKeyFile,
		},
		{name: backupfile.DataKeySetting, env: "SERVICE_DATA_KEY_FILE", given: c.DataKeyFile, value: &s.DataKeyFile},
	}
	if c.GenerateKey != "" {
		in.remembered[3].flag, in.remembered[3].given = "generate-key", c.GenerateKey
	}
	for i := range in.remembered {
		s := &in.remembered[i]
		stored, _ := p.env.InConfig(s.name)
		s.flag, s.stored = cmp.Or(s.flag, s.name), cmp.Or(stored, *s.value)
		*s.value = cmp.Or(s.given, s.stored)
	}
	if _, stored := p.env.InConfig("issuer"); c.Issuer == "" && !stored {
		in.settings.Issuer = cmp.Or(localIssuer(in.settings.Listen), in.settings.Issuer)
	}
	if in.settings.DataKeyFile == "" {
		key, database := config.DataKeyBeside(in.settings.PrivateKeyFile), config.DataKeyBeside(in.settings.Database)
		if in.hadFile || in.file == "" {
			key, database = database, key // no file will name it: every command finds it beside the database
		}
		in.settings.DataKeyFile = cmp.Or(key, database, config.DataKeyBeside(in.file))
	}
	// A value from the environment may differ from the file: it will be in the environment again.
	for i := range in.remembered {
		if value, _ := p.env.Lookup(in.remembered[i].env); in.remembered[i].given == value {
			in.remembered[i].given = ""
		}
	}
	var err error
	if in.checked, err = in.settings.Check(); err != nil {
		return nil, err
	}
	_, err = os.Stat(in.checked.Database)
	in.newDatabase = !store.IsPostgres(in.checked.Database) && errors.Is(err, fs.ErrNotExist)
	return in, nil
}

// place returns the path of a new config file: beside the database, or where the other commands find it.
func (c *initCommand) place(p *program) string {
	if c.Database != "" && !store.IsPostgres(c.Database) {
		return filepath.Join(filepath.Dir(c.Database), config.ConfigName)
	}
	return cmp.Or(p.env.Find(), config.ConfigName)
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

// check compares the plan with the existing files. It changes none of them.
func (c *initCommand) check(in *installationPlan) error {
	if c.GenerateKey != "" && c.PrivateKeyFile != "" && !samePath(c.GenerateKey, c.PrivateKeyFile) {
		return usageError{"--generate-key and --private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE) name two files: " +
			"give one of them"}
	}
	if err := in.differs(); err != nil {
		return err
	}
	type newFile struct{ what, path string }
	var files []newFile
	if in.newDatabase {
		files = append(files, newFile{"the database", in.checked.Database})
		for _, end := range []string{"-wal", "-journal"} {
			if log := in.checked.Database + end; exists(log) {
				return fmt.Errorf("--database: %s holds changes of a database that is missing: put %s back, "+
					"move the log away, or name another file", log, in.checked.Database)
			}
		}
	}
	switch key := in.settings.PrivateKeyFile; {
	case key == "":
	case c.GenerateKey != "" && !exists(key):
		in.makeKey = true
		files = append(files, newFile{"the key", key})
	case c.GenerateKey != "" && !in.hadFile: // else an earlier run was interrupted
		return fmt.Errorf("--generate-key: %s exists and is not overwritten: name another file, "+
			"or use its key with --private-key-file", key)
	default:
		keys, err := config.LoadSigningKeys(key, nil)
		if err != nil {
			return err
		}
		in.kid = keys[0].KeyID
	}
	if key := in.settings.DataKeyFile; key != "" && !exists(key) {
		in.makeDataKey = true
		files = append(files, newFile{"the data key", key})
	} else if key != "" {
		if _, err := config.LoadDataKey(key); err != nil {
			return err
		}
	}
	if in.file != "" {
		files = append(files, newFile{"the settings", in.file})
	}
	for i, f := range files {
		for _, other := range files[:i] {
			if samePath(f.path, other.path) {
				const format = "%s and %s would be the same file, %s: choose different names"
				return usagef(format, other.what, f.what, f.path)
			}
		}
		if err := checkNewFile(f.what, f.path); err != nil {
			return err
		}
	}
	return nil
}

// differs returns an error if a flag differs from an existing config file. The file is not changed,
// so the next command would not use the flag's value.
func (in *installationPlan) differs() error {
	for _, s := range in.remembered {
		isPath := s.name == "database" || s.name == backupfile.PrivateKeySetting || s.name == backupfile.DataKeySetting
		if in.hadFile && s.given != "" && s.given != s.stored && !(isPath && samePath(s.given, s.stored)) {
			return fmt.Errorf("--%s: %s exists already and has another value: change %s in it, or leave the flag out",
				s.flag, in.file, s.name)
		}
	}
	return nil
}

// checkNewFile returns an error if a file cannot be created at path, or if the service could not
// open it there.
func checkNewFile(what, path string) error {
	folder := filepath.Dir(path)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s for %s: create it first, or name another place", folder, what)
	}
	if name := ownerBesideRoot(folder); name != "" {
		return fmt.Errorf("%s is the folder of the user %s, who could not open %s if root created it there: "+
			"run this as that user, as with sudo -u %s", folder, name, what, name)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func samePath(a, b string) bool {
	fullA, errA := filepath.Abs(a)
	fullB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && fullA == fullB
}

// create creates the config file, the keys and the database, in this order. A command that was
// killed and runs again finds its own settings and keys, and continues. After an error, create
// removes what it created.
func (in *installationPlan) create(p *program, first account.NewUser, namedDataKey bool) (err error) {
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
	if in.file != "" && !in.hadFile {
		err := config.WriteConfig(in.file, in.settings)
		readOnly := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
		switch {
		case err == nil:
			created = append(created, in.file)
		case readOnly && store.IsPostgres(in.settings.Database) && in.settings.PrivateKeyFile == "":
			// As in a container that gets its settings from the environment.
			fmt.Fprintf(p.stderr, "cairn: warning: %s %s: give every command the same settings\n", in.file, err)
			in.file = ""
			if !namedDataKey { // it would be in the same folder
				in.settings.DataKeyFile, in.checked.DataKeyFile, in.makeDataKey = "", "", false
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
		if in.hadFile && in.settings.DataKeyFile != config.DataKeyBeside(in.settings.Database) {
			if note := rememberDataKey(p, in.settings.DataKeyFile, in.settings.Database); note != "" {
				fmt.Fprintln(p.stderr, "cairn: "+note)
			}
		}
	}
	if in.newDatabase {
		f, err := os.OpenFile(in.checked.Database, os.O_CREATE|os.O_EXCL, 0o600) // no other user can read it
		if err != nil {
			_, statErr := os.Stat(in.checked.Database)
			concurrent = statErr == nil
			return databaseError(err)
		}
		_ = f.Close()
		for _, end := range []string{"", "-journal", "-shm", "-wal"} {
			created = append(created, in.checked.Database+end)
		}
	}
	st, _, err := openOrCreate(p.ctx, in.checked, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	hasher, err := passwords.NewHasher()
	if err != nil {
		return err
	}
	_, err = account.Initialize(p.ctx, st, hasher, first, time.Now())
	return err
}

// serveWith returns the arguments that make serve run the installation.
func (in *installationPlan) serveWith(p *program) []string {
	switch found := p.env.Find(); {
	case in.file != "" && in.file == found:
		return []string{"serve"}
	case in.file != "":
		return []string{"--config", in.file, "serve"}
	}
	args := []string{"serve", "--issuer", in.settings.Issuer, "--listen", in.settings.Listen}
	if in.settings.PrivateKeyFile != "" {
		args = append(args, "--private-key-file", in.settings.PrivateKeyFile)
	}
	if in.settings.DataKeyFile != config.DataKeyBeside(in.settings.Database) {
		args = append(args, "--"+backupfile.DataKeySetting, in.settings.DataKeyFile)
	}
	if in.checked.HasPassword() {
		return args // with SERVICE_DATABASE, as for init
	}
	return append(args, "--database", in.settings.Database)
}

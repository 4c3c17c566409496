package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

type initCommand struct {
	Handle           string `help:"Handle of the first administrator. Asked for on a terminal."`
	DisplayName      string `help:"Name that others see; the handle if not given."`
	GeneratePassword bool   `help:"Make a password and print it once."`
	PasswordFile     string `placeholder:"FILE" help:"File with the password, - for standard input. Without one of the two it is asked for on a terminal."`
	GenerateKey      string `placeholder:"FILE" help:"Also write a new RSA private key, which turns OpenID Connect on."`
	PrivateKeyFile   string `name:"private-key-file" env:"SERVICE_OIDC_PRIVATE_KEY_FILE" placeholder:"FILE" help:"Use the RSA private key (PEM) in this file, as cairn keys generate makes it."`
	Issuer           string `env:"SERVICE_OIDC_ISSUER" placeholder:"URL" help:"Public address of the service, as https://id.example.org. Without it: http://localhost and the port of --listen."`
	Listen           string `env:"SERVICE_LISTEN" placeholder:"ADDR" help:"Address to listen on, as host:port; 127.0.0.1:4040 if not given."`
	Database         string `env:"SERVICE_DATABASE" placeholder:"FILE" help:"SQLite file, or a postgres:// URL; cairn.db if not given. Give a URL with a password by the environment."`
	output
}

// WritesConfig implements config.WritesConfig.
func (*initCommand) WritesConfig() {}

// Help implements kong.HelpProvider.
func (*initCommand) Help() string {
	return `Everything is checked before anything is made, and a second run changes nothing. The settings are remembered in
cairn.yaml, in the folder of the database (with PostgreSQL: in the working folder), where every other command finds them;
--config FILE writes another file, as /etc/cairn/cairn.yaml.`
}

// initialized is what init prints.
type initialized struct {
	Database   string `json:"database"`
	Created    bool   `json:"created"`
	Handle     string `json:"handle,omitempty"`
	Password   string `json:"password,omitempty"` // only a generated one, once
	KeyFile    string `json:"key_file,omitempty"`
	Kid        string `json:"kid,omitempty"`
	ConfigFile string `json:"config_file,omitempty"`
	Issuer     string `json:"issuer,omitempty"`
}

// Run creates the installation; a second run changes nothing and says so.
func (c *initCommand) Run(p *program) (err error) {
	in, err := c.plan(p)
	if err != nil {
		return err
	}
	done := initialized{Database: in.checked.DatabaseLabel()}
	var st *store.Store
	if !in.newDatabase {
		if st, _, err = openOrCreate(p, in.checked); err != nil {
			return err
		}
		defer func() { _ = st.Close() }()
		if users, _, err := st.Users(p.ctx, account.UserQuery{Limit: 1}); err != nil {
			return err
		} else if len(users) > 0 {
			return c.report(p, in, done)
		}
	}
	if err := c.check(p, &in); err != nil {
		return err
	}
	handle, password, err := c.credentials(p)
	if err != nil {
		return err
	}
	if err := in.create(p, st, handle, c.DisplayName, password); err != nil {
		return err
	}
	done.Created, done.Handle, done.KeyFile, done.Kid = true, handle, in.settings.PrivateKeyFile, in.kid
	done.ConfigFile, done.Issuer = in.file, in.settings.Issuer
	if c.GeneratePassword {
		done.Password = password
	}
	return c.report(p, in, done)
}

// openOrCreate opens the database, creates and migrates it where needed, and
// tells whether it was initialized before.
func openOrCreate(p *program, c config.Checked) (st *store.Store, existed bool, err error) {
	st, err = store.Open(p.ctx, c.Database, store.Options{Log: quietLog(p)})
	if err != nil {
		return nil, false, fmt.Errorf("--database (SERVICE_DATABASE): %w", err)
	}
	if err := st.CheckSchema(p.ctx); errors.Is(err, store.ErrNewerSchema) {
		return nil, false, errors.Join(fmt.Errorf("--database (SERVICE_DATABASE): %s was migrated by a newer cairn: run that version", c.DatabaseLabel()), st.Close())
	}
	if err := st.Migrate(p.ctx); err != nil {
		return nil, false, errors.Join(fmt.Errorf("--database (SERVICE_DATABASE): %w", err), st.Close())
	}
	_, err = st.Settings(p.ctx)
	if err != nil && !errors.Is(err, account.ErrNotInitialized) {
		return nil, false, errors.Join(err, st.Close())
	}
	return st, err == nil, nil
}

// initialize stores settings, secrets and the first administrator.
func initialize(ctx context.Context, st *store.Store, handle, name, password string) error {
	if name == "" {
		name = handle
	}
	name, err := account.CheckDisplayName(name)
	if err != nil {
		return fmt.Errorf("--display-name: %w: 1 to 60 characters, no control characters", err)
	}
	hasher, err := account.NewHasher()
	if err != nil {
		return err
	}
	hash, err := hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	installation := make([]byte, 48)
	_, _ = rand.Read(installation) // never fails
	shared := make([]byte, 48)
	_, _ = rand.Read(shared)
	secrets := map[string][]byte{
		account.SecretInstallation: installation,
		// Text, because it goes into an environment file.
		account.SecretJWT: []byte(base64.RawURLEncoding.EncodeToString(shared)),
	}
	if _, err := st.Initialize(ctx, account.DefaultSettings(), secrets); err != nil {
		return fmt.Errorf("store settings and secrets: %w", err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	u := account.User{
		Sub: uuid.NewString(), Handle: handle, DisplayName: name, PasswordHash: hash, CreatedAt: now, UpdatedAt: now,
		Flags: []string{account.FlagActivity, account.FlagAdmin},
	}
	if err := st.CreateUser(ctx, u, operator("user.create", handle, "first administrator")); err != nil {
		return fmt.Errorf("create the administrator: %w", err)
	}
	return nil
}

// credentials come from flags, or from a person at a terminal.
func (c *initCommand) credentials(p *program) (handle, password string, err error) {
	if c.PasswordFile != "" && c.GeneratePassword {
		return "", "", usageError{"give --password-file or --generate-password, not both"}
	}
	if c.GeneratePassword && c.Quiet {
		return "", "", errHiddenPassword
	}
	terminal := isTerminal(p.stdin) && c.PasswordFile != "-"
	handle = c.Handle
	if handle == "" {
		if !terminal {
			return "", "", usageError{"--handle is needed: the handle of the first administrator"}
		}
		fmt.Fprint(p.stderr, "Handle of the first administrator: ")
		if handle, err = readLine(p.stdin); err != nil {
			return "", "", err
		}
	}
	if handle, err = account.CanonicalHandle(handle); err != nil {
		return "", "", usageError{"--handle: 1 to 30 letters a-z, digits, - or _, beginning and ending with a letter or digit"}
	}
	if c.DisplayName != "" {
		if _, err := account.CheckDisplayName(c.DisplayName); err != nil {
			return "", "", usageError{"--display-name: 1 to 60 characters, no control characters"}
		}
	}
	if password, err = choosePassword(p, handle, c.PasswordFile, c.GeneratePassword, terminal); err != nil {
		return "", "", err
	}
	return handle, password, nil
}

// errHiddenPassword: a password that is made and not shown opens nothing.
var errHiddenPassword = usageError{"-q would hide the generated password: leave -q out, or use -o json"}

// choosePassword reads or makes a password and holds it to the rules.
func choosePassword(p *program, handle, file string, generate, terminal bool) (string, error) {
	var password string
	var err error
	switch {
	case generate:
		return rand.Text()[:20], nil // 100 bits
	case file != "":
		if password, err = readSecretFile(p, file); err != nil {
			return "", err
		}
	case terminal:
		if password, err = promptPassword(p); err != nil {
			return "", err
		}
	default:
		return "", usageError{"--password-file FILE (- for standard input) or --generate-password is needed: a password is never taken as a flag's value"}
	}
	if err := account.CheckPassword(password, handle, account.DefaultMinPassword); err != nil {
		problem, _ := web.ProblemOf(err)
		return "", fmt.Errorf("%s", problem.Detail)
	}
	return password, nil
}

func (c *initCommand) report(p *program, in initPlan, done initialized) error {
	switch {
	case c.Format == "json":
		return writeJSON(p.stdout, done)
	case !done.Created:
		fmt.Fprintf(p.stdout, "%s is already initialized: nothing was changed.\n", done.Database)
		return nil
	case c.Quiet:
		fmt.Fprintln(p.stdout, done.Handle)
		return nil
	}
	password, key := done.Password, done.KeyFile
	if password != "" {
		password += "   (shown only now)"
	}
	if key == "" {
		key = "none: OpenID Connect is off"
	}
	settings := done.ConfigFile
	if in.holdsPassword() {
		settings += "   (with the password of the database: only you can read it)"
	}
	if in.foreign != "" {
		settings = "not remembered: " + in.foreign + " is for another database"
	}
	serve := p.name
	for _, arg := range in.serveWith(p) {
		serve += " " + config.ShellQuote(arg)
	}
	return writePairs(p.stdout, [][2]string{
		{"database", done.Database}, {"settings", settings}, {"key file", key}, {"administrator", done.Handle}, {"password", password},
		{"next", serve}, {"then", "sign in at " + done.Issuer},
	})
}

func isTerminal(r any) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func readLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || line == "") {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// promptPassword asks twice, without echo.
func promptPassword(p *program) (string, error) {
	f, ok := p.stdin.(*os.File)
	if !ok {
		return "", errors.New("no terminal to ask for a password")
	}
	var answers [2]string
	for i, question := range []string{"Password (10 to 128 characters): ", "The same again: "} {
		fmt.Fprint(p.stderr, question)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(p.stderr)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		answers[i] = string(b)
	}
	if answers[0] != answers[1] {
		return "", errors.New("the two passwords differ: start again")
	}
	return answers[0], nil
}

// readSecretFile reads the first line of a file or of standard input.
func readSecretFile(p *program, file string) (string, error) {
	r := p.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("--password-file: %w", err)
		}
		defer func() { _ = f.Close() }()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, 4096))
	if err != nil {
		return "", fmt.Errorf("--password-file: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimRight(line, "\r"), nil
}

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

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// initPlan is what init is about to make.
type initPlan struct {
	settings    config.Settings
	checked     config.Checked
	file        string // the config file; empty: none can be written
	hadFile     bool
	foreign     string // the config file beside the database that is for another one
	newDatabase bool   // an SQLite file that is not there yet
	makeKey     bool
	kid         string
}

// plan reads the config file that is there already and adds what the command
// line says. It changes nothing.
func (c *initCommand) plan(p *program) (initPlan, error) {
	named := p.env.ConfigFile()
	in := initPlan{settings: config.Defaults(), file: named}
	if named == "" {
		in.file = cmp.Or(p.env.NewConfig(), c.place(p))
		if _, err := os.Lstat(in.file); err == nil {
			if err := p.env.LoadFound(in.file); err != nil {
				return in, err
			}
		}
	}
	in.hadFile = p.env.ConfigFile() != ""
	if in.hadFile && p.env.ConfigFile() != named && !c.isFor(p, c.Database) {
		p.env.ForgetConfig()
		in.file, in.hadFile, in.foreign = "", false, in.file
	}
	for _, s := range c.remembered(&in.settings) {
		stored, _ := p.env.InConfig(s.flag)
		*s.value = cmp.Or(s.given, stored, *s.value)
	}
	if _, stored := p.env.InConfig("issuer"); c.Issuer == "" && !stored {
		if issuer := localIssuer(in.settings.Listen); issuer != "" {
			in.settings.Issuer = issuer
		}
	}
	var err error
	if in.checked, err = in.settings.Check(); err != nil {
		return in, err
	}
	if !isURL(in.checked.Database) {
		_, err := os.Stat(in.checked.Database)
		in.newDatabase = errors.Is(err, os.ErrNotExist)
	}
	return in, nil
}

// place is where the config file belongs: beside the database, or where the
// other commands find one.
func (c *initCommand) place(p *program) string {
	if c.Database != "" && !isURL(c.Database) {
		return filepath.Join(filepath.Dir(c.Database), config.ConfigName)
	}
	return cmp.Or(p.env.Find(), config.ConfigName)
}

// isFor tells whether the config file that was read is of this database.
func (c *initCommand) isFor(p *program, database string) bool {
	stored, _ := p.env.InConfig("database")
	stored = cmp.Or(stored, config.Defaults().Database)
	return database == "" || database == stored || !isURL(database) && samePath(database, stored)
}

// rememberedSetting is one that the config file keeps.
type rememberedSetting struct {
	flag, env string
	given     string  // by flag or environment
	value     *string // of the installation
}

func (c *initCommand) remembered(s *config.Settings) []rememberedSetting {
	return []rememberedSetting{
		{"database", "SERVICE_DATABASE", c.Database, &s.Database},
		{"issuer", "SERVICE_OIDC_ISSUER", c.Issuer, &s.Issuer},
		{"listen", "SERVICE_LISTEN", c.Listen, &s.Listen},
		{"private-key-file", "SERVICE_OIDC_PRIVATE_KEY_FILE", cmp.Or(c.GenerateKey, c.PrivateKeyFile), &s.PrivateKeyFile},
	}
}

// localIssuer is the issuer of a service that listens on this machine, "" where
// the address does not tell.
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

// check holds the plan against what lies on the disk. It changes nothing.
func (c *initCommand) check(p *program, in *initPlan) error {
	if c.GenerateKey != "" && c.PrivateKeyFile != "" && !samePath(c.GenerateKey, c.PrivateKeyFile) {
		return usageError{"--generate-key and --private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE) name two files: give one of them"}
	}
	if err := c.agrees(p, in); err != nil {
		return err
	}
	type newFile struct{ what, path string }
	var files []newFile
	if in.newDatabase {
		files = append(files, newFile{"the database", in.checked.Database})
		for _, end := range []string{"-wal", "-journal"} {
			if log := in.checked.Database + end; exists(log) {
				return fmt.Errorf("--database: %s holds changes of a database that is not beside it any more: put %s back, move the log away, or name another file", log, in.checked.Database)
			}
		}
	}
	key := in.settings.PrivateKeyFile
	_, err := os.Lstat(key)
	switch {
	case key == "":
	case c.GenerateKey != "" && errors.Is(err, os.ErrNotExist):
		in.makeKey, files = true, append(files, newFile{"the key", key})
	case c.GenerateKey != "" && !in.hadFile: // else an earlier run was interrupted
		return fmt.Errorf("--generate-key: %s exists and is not overwritten: name another file, or use its key with --private-key-file", key)
	default:
		keys, err := config.LoadSigningKeys(key, nil)
		if err != nil {
			return err
		}
		in.kid = keys[0].KeyID
	}
	if in.file != "" {
		files = append(files, newFile{"the settings", in.file})
	}
	for i, f := range files {
		for _, other := range files[:i] {
			if samePath(f.path, other.path) {
				return usageError{fmt.Sprintf("%s and %s would be one file, %s: choose different names", other.what, f.what, f.path)}
			}
		}
		if info, err := os.Stat(filepath.Dir(f.path)); err != nil || !info.IsDir() {
			return fmt.Errorf("there is no folder %s for %s: make it first, or name another place", filepath.Dir(f.path), f.what)
		}
	}
	return nil
}

// agrees refuses what an existing config file contradicts: it is not changed, so
// the next command would not know. What the environment says, it says again.
func (c *initCommand) agrees(p *program, in *initPlan) error {
	if !in.hadFile {
		return nil
	}
	standard := config.Defaults()
	expected := c.remembered(&standard)
	for i, s := range c.remembered(&in.settings) {
		stored, _ := p.env.InConfig(s.flag)
		again, _ := p.env.Lookup(s.env)
		was := cmp.Or(stored, *expected[i].value)
		if s.given == "" || s.given == was || s.given == again || s.flag != "issuer" && s.flag != "listen" && samePath(s.given, was) {
			continue
		}
		return fmt.Errorf("--%s: %s exists already and says something else: change %s in it, or leave the flag out", flagOf(c, s.flag), in.file, s.flag)
	}
	return nil
}

func flagOf(c *initCommand, setting string) string {
	if setting == "private-key-file" && c.GenerateKey != "" {
		return "generate-key"
	}
	return setting
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

// create makes the settings file, the key and the database, in this order: the
// same command finds its own settings and its own key when it was killed, and
// goes on. An error takes away what was made.
func (in *initPlan) create(p *program, st *store.Store, handle, name, password string) (err error) {
	var made []string
	beside := false // another run has made what was not there before, and goes on with the config file of this one
	defer func() {
		if err == nil {
			return
		}
		for _, file := range slices.Backward(made) {
			if file != in.file || !beside {
				_ = os.Remove(file)
			}
		}
	}()
	if in.file != "" && !in.hadFile {
		err := config.WriteConfig(in.file, in.settings)
		switch {
		case err == nil:
			made = append(made, in.file)
		case isURL(in.settings.Database) && in.settings.PrivateKeyFile == "" && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
			// As in a container that gets its settings from the environment.
			fmt.Fprintf(p.stderr, "cairn: warning: %s %s: give every command the same settings\n", in.file, err)
			in.file = ""
		default:
			return fmt.Errorf("%s %w", in.file, err)
		}
	}
	if in.makeKey {
		if in.kid, err = config.GenerateKey(in.settings.PrivateKeyFile, config.MinKeyBits); err != nil {
			beside = errors.Is(err, fs.ErrExist)
			return fmt.Errorf("--generate-key: %w", err)
		}
		made = append(made, in.settings.PrivateKeyFile)
	}
	if st == nil {
		f, taken := os.OpenFile(in.checked.Database, os.O_CREATE|os.O_EXCL, 0o600) // nobody else's
		if taken != nil {
			_, missing := os.Stat(in.checked.Database)
			beside = missing == nil
			return fmt.Errorf("--database (SERVICE_DATABASE): %w", taken)
		}
		_ = f.Close()
		for _, end := range []string{"", "-journal", "-shm", "-wal"} {
			made = append(made, in.checked.Database+end)
		}
		if st, _, err = openOrCreate(p, in.checked); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, st.Close()) }()
	}
	return initialize(p.ctx, st, handle, name, password)
}

// serveWith are the arguments with which serve runs the installation.
func (in *initPlan) serveWith(p *program) []string {
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
	if in.checked.HasPassword() {
		return args // and SERVICE_DATABASE, as init had it
	}
	return append(args, "--database", in.settings.Database)
}

// holdsPassword tells whether the config file that was written has the password
// of the database.
func (in *initPlan) holdsPassword() bool {
	return !in.hadFile && in.file != "" && in.checked.HasPassword()
}

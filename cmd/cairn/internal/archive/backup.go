// Package archive has the commands that back an installation up, restore, copy and migrate it, and those of its keys.
package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/disk"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

type BackupCommand struct {
	Create backupCreateCommand `cmd:"" default:"withargs"`
	Verify backupVerifyCommand `cmd:"" reads:""`
}

// installationFlags are the settings that an installation consists of besides its database.
type installationFlags struct {
	Issuer             string   `name:"issuer" env:"SERVICE_OIDC_ISSUER" hidden:""`
	PrivateKeyFile     string   `name:"private-key-file" env:"SERVICE_OIDC_PRIVATE_KEY_FILE" hidden:""`
	AdditionalKeyFiles []string `name:"additional-key-file" env:"SERVICE_OIDC_ADDITIONAL_KEY_FILES" hidden:""`
}

// keys returns the paths that the settings name for keys and for the secret.
func (c installationFlags) keys(env *config.Environment, dataKey string) backupfile.Keys {
	secret, _ := env.Lookup(backupfile.SecretSetting)
	return backupfile.Keys{
		PrivateKey: c.PrivateKeyFile, AdditionalKeys: c.AdditionalKeyFiles, Secret: secret, DataKey: dataKey,
	}
}

// passphraseFlags name the source of a backup's passphrase.
type passphraseFlags struct {
	PassphraseFile string `placeholder:"FILE"`
}

// passphrase reads the passphrase from its source. A new one must be long enough, and a terminal
// prompts for it twice.
func (c passphraseFlags) passphrase(p *cli.Program, isNew bool) (phrase string, err error) {
	switch {
	case c.PassphraseFile != "":
		b, err := p.ReadSecret(c.PassphraseFile, 4096)
		if err != nil {
			return "", fmt.Errorf("--passphrase-file: %w", err)
		}
		phrase, _, _ = strings.Cut(string(b), "\n")
		phrase = strings.TrimRight(phrase, "\r")
	case !cli.IsTerminal(p.Stdin):
		return "", cli.UsageError("--passphrase-file FILE (- for standard input) is needed: " +
			"a passphrase is never taken from a flag's value")
	default:
		if phrase, err = cli.PromptSecret(p, "Passphrase: ", isNew); err != nil {
			return "", err
		}
	}
	if isNew && len(phrase) < backupfile.MinPassphrase {
		const format = "the passphrase needs at least %d characters: it alone protects the keys"
		return "", cli.Usagef(format, backupfile.MinPassphrase)
	}
	return phrase, nil
}

// unlockFlags name what decrypts a backup.
type unlockFlags struct {
	passphraseFlags
	Identity string `placeholder:"FILE"`
}

func (c unlockFlags) unlock(p *cli.Program) backupfile.Unlock {
	return func(passphrase bool) ([]backupfile.Identity, error) {
		if passphrase {
			phrase, err := c.passphrase(p, false)
			if err != nil {
				return nil, err
			}
			return backupfile.PassphraseIdentity(phrase)
		}
		if c.Identity == "" {
			return nil, cli.UsageError("it is encrypted to an age recipient: " +
				"give the file with its identity with --identity FILE")
		}
		text, err := p.ReadSecret(c.Identity, 1<<16)
		if err != nil {
			return nil, fmt.Errorf("--identity: %w", err)
		}
		return backupfile.ParseIdentities(text)
	}
}

type backupCreateCommand struct {
	File      string `arg:"" placeholder:"FILE" help:"New file, such as cairn-2026-11-22.tar.gz."`
	Keys      bool
	Recipient string `placeholder:"AGE1..." help:"Encrypt to this age recipient; backup-recipient if not given."`
	Command   string `name:"backup-command" env:"SERVICE_BACKUP_COMMAND" placeholder:"FILE"`
	passphraseFlags
	cli.DatabaseFlags
	installationFlags
	cli.Output
}

// BackupReport is the output of backup and backup verify.
type BackupReport struct {
	File      string    `json:"file"`
	Bytes     int64     `json:"bytes"`
	Created   time.Time `json:"created"`
	Version   string    `json:"version"`
	Schema    int64     `json:"schema"`
	Dialect   string    `json:"dialect"`
	Issuer    string    `json:"issuer"`
	Users     int64     `json:"users"`
	Rows      int64     `json:"rows"`
	Settings  bool      `json:"settings"` // cairn.yaml is in it
	KeyFiles  int       `json:"key_files"`
	Encrypted bool      `json:"encrypted"`
}

func printBackup(p *cli.Program, o cli.Output, file string, b *checkedBackup) error {
	m := b.manifest
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	d := BackupReport{
		File: file, Bytes: info.Size(), Created: m.Created, Version: m.Program, Schema: m.Schema, Dialect: m.Dialect,
		Issuer: m.Issuer, Users: b.contents.Users, Settings: b.file(backupfile.Config) != nil,
		KeyFiles: len(b.keys()), Encrypted: b.encrypted,
	}
	for _, n := range m.Rows {
		d.Rows += n
	}
	protection := "not encrypted: only you may be able to read it"
	if d.Encrypted {
		protection = "encrypted: without the passphrase or the recipient's identity it is lost"
	}
	return o.Print(p, file, d, cli.Pairs{
		{"backup", file}, {"checked", fmt.Sprintf("sound: %d rows, %d users", d.Rows, d.Users)},
		{"made", d.Created.Format(time.RFC3339)}, {"key files", fmt.Sprint(d.KeyFiles)}, {"protection", protection},
	})
}

// Run makes a backup and records it in the database.
func (c *backupCreateCommand) Run(p *cli.Program) error {
	if cli.Exists(c.File) {
		return fmt.Errorf("%s exists and is not overwritten: name another file", c.File)
	}
	settings := config.Defaults()
	settings.Database, settings.PrivateKeyFile = c.Database, c.PrivateKeyFile
	settings.DataKeyFile, settings.BackupRecipient = c.DataKeyFile, c.Recipient
	if c.PassphraseFile == "" {
		settings.BackupRecipient = cmp.Or(c.Recipient, c.BackupRecipient)
	}
	checked, err := settings.Check()
	if err != nil {
		return err
	}
	source := BackupSource{
		Config: p.Env.ConfigFile(), Issuer: c.Issuer,
		DataKey: checked.DataKeyFile, Recipient: checked.Backup.Recipient,
	}
	switch {
	case c.PassphraseFile != "" && c.Recipient != "":
		return cli.UsageError("--recipient and --passphrase-file: give one of them")
	case c.Keys:
		dataKey := source.DataKey
		if missing, _ := DataKeyMissing(dataKey); missing {
			dataKey = "" // if something is sealed, the backup fails without the key
		}
		source.Keys = c.keys(p.Env, dataKey)
		if given, _ := p.Env.Lookup("SERVICE_AUTH_JWT_SECRET"); given != "" {
			fmt.Fprintln(p.Stderr, "cairn: warning: SERVICE_AUTH_JWT_SECRET is in the environment "+
				"and not in the backup: keep it elsewhere")
		}
		if source.Recipient == "" {
			if source.Passphrase, err = c.passphrase(p, true); err != nil {
				return err
			}
		}
	case c.PassphraseFile != "":
		return cli.UsageError("--passphrase-file is for --keys: without the keys a backup is not encrypted")
	}
	return c.WithStore(p, func(st *store.Store) error {
		source.Store, source.Database = st, c.Database
		b, err := source.make(p.Ctx, c.File)
		if err != nil {
			return err
		}
		b.warn(p)
		file, err := filepath.Abs(c.File)
		if err != nil {
			return err
		}
		if err := st.NoteDone(p.Ctx, store.TurnBackup, b.manifest.Created, file); err != nil {
			fmt.Fprintf(p.Stderr, "cairn: warning: the backup is good, but it could not be recorded: %s\n", err)
		}
		if err := printBackup(p, c.Output, c.File, b); err != nil {
			return err
		}
		return runBackupCommand(p.Ctx, st, c.Command, file)
	})
}

type backupVerifyCommand struct {
	File        string `arg:"" placeholder:"FILE" help:"Backup to check."`
	DataKeyFile string `env:"SERVICE_DATA_KEY_FILE" placeholder:"FILE"`
	unlockFlags
	cli.Output
}

// Run checks a backup.
func (c *backupVerifyCommand) Run(p *cli.Program) error {
	work, done, err := WorkFolder(p.Ctx, WorkParent(""))
	if err != nil {
		return err
	}
	defer done()
	b, err := openBackup(p.Ctx, c.File, work, c.DataKeyFile, c.unlock(p))
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	b.warn(p)
	return printBackup(p, c.Output, c.File, b)
}

// BackupSource describes the contents of a backup and its encryption.
type BackupSource struct {
	Store      *store.Store
	Database   string // of the store
	Config     string // file, or empty
	Issuer     string // empty: not known
	Keys       backupfile.Keys
	Passphrase string // either this or recipient encrypts the backup; with neither it has no keys
	Recipient  string // of age
	DataKey    string // file, or empty
}

// make writes a backup. The file gets its name only after it was read back from the disk and found good.
func (s BackupSource) make(ctx context.Context, path string) (b *checkedBackup, err error) {
	key, err := backupfile.NewKey(s.Recipient, s.Passphrase)
	if err != nil {
		return nil, err
	}
	work, done, err := WorkFolder(ctx, WorkParent(s.Database))
	if err != nil {
		return nil, err
	}
	defer done()
	err = createFile(ctx, path, func(f *os.File) error {
		snapshot := filepath.Join(work, backupfile.Database)
		if err := s.checkRoom(work, 1); err != nil {
			return err
		}
		m := &backupfile.Manifest{
			Program: cli.ProgramVersion(), Created: time.Now().UTC().Truncate(time.Second),
			Issuer: s.Issuer, Dialect: s.Store.Dialect(),
		}
		contents, err := s.Store.Snapshot(ctx, snapshot)
		if err != nil {
			return err
		}
		m.Schema, m.Rows, m.Changed = contents.Schema, contents.Rows, contents.Changed
		m.Files = backupfile.Contents{Database: snapshot, Config: s.Config, Keys: s.Keys}.Files()
		if err := s.checkRoom(filepath.Dir(path), 0.5); err != nil { // it is compressed
			return err
		}
		// The snapshot is checked while it is compressed, and the compressed file is read back. The
		// checksum of what is read back proves that it is the same snapshot.
		both, together := errgroup.WithContext(ctx)
		b = &checkedBackup{}
		both.Go(func() (err error) {
			b.contents, err = store.ReadSnapshot(together, snapshot)
			return err
		})
		both.Go(func() error {
			if err := errors.Join(backupfile.Create(together, f, m, key), f.Sync()); err != nil {
				return err
			}
			return b.readBack(together, f.Name(), filepath.Join(work, "read"), m, key)
		})
		if err := both.Wait(); err != nil {
			return err
		}
		if err := contents.Compare(b.contents); err != nil {
			return err
		}
		return b.checkSecrets(ctx, snapshot, s.DataKey)
	})
	if err != nil {
		return nil, fmt.Errorf("no backup was made: %s %w", path, err)
	}
	return b, nil
}

// spareRoom is the space in bytes that a backup leaves free on a disk. The service writes there
// too, and it is not ready with less than half of this.
const spareRoom = 64 << 20

// checkRoom returns an error if a folder has no room for the given part of a SQLite database.
func (s BackupSource) checkRoom(folder string, part float64) error {
	info, err := os.Stat(s.Database)
	if store.IsPostgres(s.Database) || err != nil {
		return nil //nolint:nilerr // the size of a PostgreSQL database is not known, nor is its disk this one
	}
	free, err := disk.Free(folder)
	if need := int64(float64(info.Size())*part) + spareRoom; err == nil && free < need {
		err = fmt.Errorf("%s has %d MB free, and %d MB are needed: make room there", folder, free>>20, need>>20)
	}
	return err
}

// checkedBackup is a backup that was read and found good.
type checkedBackup struct {
	manifest  *backupfile.Manifest
	contents  store.Contents
	encrypted bool
	unopened  error // store.ErrDataKey: its secrets are sealed and were not checked
}

// warn warns if the secrets could not be checked. That is no error: neither a backup nor a check for
// damage needs the data key.
func (b *checkedBackup) warn(p *cli.Program) {
	if b.unopened != nil {
		fmt.Fprintf(p.Stderr, "cairn: warning: the secrets in the backup were not checked: %s\n", b.unopened)
	}
}

// readBack checks that a file is the backup m.
func (b *checkedBackup) readBack(
	ctx context.Context, file, folder string, m *backupfile.Manifest, key *backupfile.Key,
) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	b.encrypted = key != nil
	if b.manifest, err = backupfile.Check(ctx, f, folder, key.Unlock); err != nil {
		return fmt.Errorf("read the backup back: %w", err)
	}
	for i, f := range m.Files {
		if read := b.manifest.Files; len(read) != len(m.Files) || read[i].SHA256 != f.SHA256 {
			return fmt.Errorf("read the backup back: %w", backupfile.ErrDamaged)
		}
	}
	return nil
}

func (b *checkedBackup) file(name string) *backupfile.File {
	for i, f := range b.manifest.Files {
		if f.Name == name {
			return &b.manifest.Files[i]
		}
	}
	return nil
}

// keys returns the key files of the backup.
func (b *checkedBackup) keys() (keys []backupfile.File) {
	for _, f := range b.manifest.Files {
		if f.IsKey() {
			keys = append(keys, f)
		}
	}
	return keys
}

// openBackup reads a backup into a folder and checks all of it: the file, the database, its row counts,
// and that a token signed with its secrets verifies. dataKey is the file of the data key, for a backup
// that contains none.
func openBackup(ctx context.Context, file, folder, dataKey string, unlock backupfile.Unlock) (*checkedBackup, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b := &checkedBackup{}
	b.manifest, err = backupfile.Open(ctx, f, folder, func(passphrase bool) ([]backupfile.Identity, error) {
		b.encrypted = true
		return unlock(passphrase)
	})
	if err != nil {
		return nil, err
	}
	if b.manifest.Schema > store.SchemaOfProgram() {
		return nil, fmt.Errorf("the backup was made by a newer program: use version %s of cairn", b.manifest.Program)
	}
	database := b.file(backupfile.Database).Path
	if b.contents, err = store.ReadSnapshot(ctx, database); err != nil {
		return nil, err
	}
	m := b.manifest
	if err := (store.Contents{Schema: m.Schema, Rows: m.Rows}).Compare(b.contents); err != nil {
		return nil, err
	}
	return b, b.checkSecrets(ctx, database, dataKey)
}

// dataKey returns the file of the data key: the one in the backup, or else fallback.
func (b *checkedBackup) dataKey(fallback string) string {
	for _, f := range b.keys() {
		if f.Setting == backupfile.DataKeySetting {
			return f.Path
		}
	}
	return fallback
}

func (b *checkedBackup) checkSecrets(ctx context.Context, database, dataKey string) error {
	st, err := store.Open(ctx, database, store.Options{
		Log: slog.New(slog.DiscardHandler), ReadOnly: true, DataKey: cli.DataKeyOf(b.dataKey(dataKey)),
	})
	if err != nil {
		return err
	}
	secret, err := st.Secret(ctx, account.SecretJWT)
	b.unopened = nil
	if errors.Is(err, store.ErrDataKey) {
		b.unopened, err = err, nil
	}
	if err = errors.Join(err, st.Close()); err != nil {
		return fmt.Errorf("read the secret in the backup: %w", err)
	}
	var signing string
	var additional []string
	for _, f := range b.keys() {
		switch f.Setting {
		case backupfile.PrivateKeySetting:
			signing = f.Path
		case backupfile.AdditionalKeySetting:
			additional = append(additional, f.Path)
		case backupfile.SecretSetting:
			env := map[string]string{backupfile.SecretSetting: f.Path}
			secret, _, err = config.Secret(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
			if err != nil {
				return err
			}
		}
	}
	keys, err := config.LoadSigningKeys(signing, additional)
	if err != nil {
		return fmt.Errorf("load the keys in the backup: %w", err)
	}
	if b.unopened != nil {
		return nil
	}
	issuer := cmp.Or(b.manifest.Issuer, config.Defaults().Issuer)
	return person.CheckSecrets(ctx, issuer, secret, keys, time.Now().UTC().Truncate(time.Second))
}

// WorkPrefix begins the name of each work folder. The process that uses a work folder holds a lock on it.
const WorkPrefix = ".cairn-work-"

// WorkParent returns the folder in which a copy of a database is made. That is the database's own
// folder, which is as private as the database and likely has room. For PostgreSQL, and without a
// database, it is the folder for large temporary files.
func WorkParent(database string) string {
	if database != "" && !store.IsPostgres(database) {
		return filepath.Dir(database)
	}
	parent := cmp.Or(os.Getenv("TMPDIR"), "/var/tmp")
	if _, err := os.Stat(parent); err != nil {
		return os.TempDir()
	}
	return parent
}

// ClearWork removes the work folders that killed processes left in a folder.
func ClearWork(ctx context.Context, parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, WorkPrefix+"*"))
	for _, folder := range left {
		// In /var/tmp other users can make a link of that name, or a folder with links in it.
		if info, err := os.Lstat(folder); err != nil || !info.IsDir() || !config.OwnFile(info) {
			continue
		}
		release, err := store.Use(ctx, filepath.Join(folder, "work"), true)
		if err != nil {
			continue
		}
		// A process that has made the folder and not locked it yet finds it gone and makes another one.
		if doomed := folder + "-"; os.Rename(folder, doomed) == nil {
			_ = os.RemoveAll(doomed)
		}
		release()
	}
}

// WorkFolder makes a folder for unfinished work, which done removes. It also removes the ones that
// killed processes left beside it.
func WorkFolder(ctx context.Context, parent string) (folder string, done func(), err error) {
	ClearWork(ctx, parent)
	for {
		if folder, err = os.MkdirTemp(parent, WorkPrefix); errors.Is(err, os.ErrNotExist) {
			return "", nil, fmt.Errorf("there is no folder %s: make it first", parent)
		} else if err != nil {
			return "", nil, fmt.Errorf("make a work folder: %w", err)
		}
		release, err := store.Use(ctx, filepath.Join(folder, "work"), true)
		switch {
		case err == nil && cli.Exists(folder):
			return folder, func() { _ = os.RemoveAll(folder); release() }, nil
		case err == nil:
			release()
		case !errors.Is(err, store.ErrInUse) && !errors.Is(err, os.ErrNotExist):
			return "", nil, errors.Join(err, os.RemoveAll(folder))
		} // else another process has removed it
	}
}

// createFile is like config.CreateFile, but keeps the unfinished file in a work folder.
func createFile(ctx context.Context, path string, fill func(f *os.File) error) error {
	work, done, err := WorkFolder(ctx, filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	defer done()
	return config.CreateFileIn(work, path, fill)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// DatabaseFlags are the settings of a command that only needs the database.
type DatabaseFlags struct {
	Database        string `env:"SERVICE_DATABASE" default:"cairn.db" help:"SQLite file, or a postgres:// URL."`
	BackupDir       string `env:"SERVICE_BACKUP_DIR" hidden:""` // for the backup before a migration
	BackupRecipient string `name:"backup-recipient" env:"SERVICE_BACKUP_RECIPIENT" hidden:""`
	// DataKeyFile is read when something sealed is needed.
	DataKeyFile string `name:"data-key-file" env:"SERVICE_DATA_KEY_FILE" placeholder:"FILE" hidden:""`
	// MailServer is set if the service sends mails: it notifies users of changes to their accounts.
	MailServer string `name:"smtp-url" env:"SERVICE_SMTP_URL" hidden:""`
}

// Checked returns the checked settings.
func (c DatabaseFlags) Checked() (config.Checked, error) {
	settings := config.Defaults()
	settings.Database, settings.BackupDir, settings.DataKeyFile = c.Database, c.BackupDir, c.DataKeyFile
	settings.BackupRecipient = c.BackupRecipient
	return settings.Check()
}

// WithStore opens the database, calls do and closes it.
func (c DatabaseFlags) WithStore(p *Program, do func(*store.Store) error) error {
	checked, err := c.Checked()
	if err != nil {
		return err
	}
	release, err := UseWithOthers(p.Ctx, checked)
	if err != nil {
		return err
	}
	defer release()
	st, err := OpenExisting(p.Ctx, checked, QuietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	return do(st)
}

// WithUsers is WithStore for operations that administrators also have in the service.
func (c DatabaseFlags) WithUsers(p *Program, do func(*roster.Administration) error) error {
	return c.WithStore(p, func(st *store.Store) error {
		return do(roster.NewAdministration(st, nil).WithMail(c.MailServer != ""))
	})
}

// OpenExisting opens an initialized database without creating or migrating it: a mistyped
// path must not become a second, empty installation.
func OpenExisting(ctx context.Context, c config.Checked, log *slog.Logger) (*store.Store, error) {
	notInitialized := DatabaseError(fmt.Errorf("%s is not initialized: run cairn init", c.DatabaseLabel()))
	if IsEmptyFile(c.Database) {
		return nil, notInitialized
	}
	if !store.IsPostgres(c.Database) {
		if _, err := os.Stat(c.Database); errors.Is(err, os.ErrNotExist) {
			err := fmt.Errorf("there is no database %s: run cairn init, or name the right file", c.DatabaseLabel())
			return nil, DatabaseError(err)
		}
	}
	st, initialized, err := OpenAny(ctx, c, log)
	if err == nil && !initialized {
		err = errors.Join(notInitialized, st.Close())
	}
	if err != nil {
		return nil, err
	}
	return st, nil
}

// IsEmptyFile reports whether a file is empty. SQLite takes it for a database, and writes its header at once.
func IsEmptyFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// OpenOrCreate is OpenAny, and creates the tables if the database has no installation.
func OpenOrCreate(ctx context.Context, c config.Checked, log *slog.Logger) (st *store.Store, existed bool, err error) {
	st, existed, err = OpenAny(ctx, c, log)
	if err == nil && !existed {
		if err = createTables(ctx, st); err != nil {
			return nil, false, errors.Join(DatabaseError(err), st.Close())
		}
	}
	return st, existed, err
}

// OpenAny opens the database and reports whether it is initialized. It changes nothing. An installation of
// an earlier version is a store.PendingError: only serve and migrate migrate it.
func OpenAny(ctx context.Context, c config.Checked, log *slog.Logger) (st *store.Store, initialized bool, err error) {
	st, err = store.Open(ctx, c.Database, store.Options{Log: log, DataKey: DataKeyOf(c.DataKeyFile)})
	if err != nil {
		return nil, false, DatabaseError(err)
	}
	switch err = st.CheckSchema(ctx); {
	case err == nil:
		_, err = st.Settings(ctx)
		if initialized = err == nil; errors.Is(err, account.ErrNotInitialized) {
			err = nil
		}
	case errors.Is(err, store.ErrNotMigrated):
		if installed, failed := st.Initialized(ctx); failed != nil {
			err = failed
		} else if !installed {
			err = nil
		}
	case errors.Is(err, store.ErrNewerSchema):
		err = fmt.Errorf("%s was migrated by a newer cairn: run that version, or restore a backup", c.DatabaseLabel())
	}
	if err != nil {
		return nil, false, errors.Join(DatabaseError(err), st.Close())
	}
	return st, initialized, nil
}

// createTables refuses a database that cannot hold every name.
func createTables(ctx context.Context, st *store.Store) error {
	encoding, err := st.Encoding(ctx)
	if err == nil && encoding != "" && encoding != "UTF8" {
		err = fmt.Errorf("the database has the encoding %s, which lacks letters of names: make one with "+
			"createdb --encoding UTF8 --template template0", encoding)
	}
	if err != nil {
		return err
	}
	return st.Migrate(ctx)
}

// DatabaseError names the setting, and what to do about a file that may not be written.
func DatabaseError(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		err = fmt.Errorf("%w: let the user of the service write the file and its folder, and run the command as that "+
			"user", err)
	}
	return fmt.Errorf("--database (SERVICE_DATABASE): %w", err)
}

// SharedSecret returns the HS256 secret. The environment's secret takes precedence over the stored one;
// note is a warning if they differ.
func SharedSecret(
	ctx context.Context, env *config.Environment, st *store.Store,
) (secret []byte, note string, err error) {
	stored, err := StoredSecret(ctx, st)
	if err != nil {
		return nil, "", err
	}
	fromEnv, source, err := config.Secret(env.Lookup)
	if err != nil {
		return nil, "", err
	}
	if fromEnv == nil {
		return stored, "", nil
	}
	if string(fromEnv) != string(stored) {
		note = source + " differs from the stored secret (cairn show-secret) and is used instead: " +
			"give the activity application the same one"
	}
	return fromEnv, note, nil
}

func StoredSecret(ctx context.Context, st *store.Store) ([]byte, error) {
	secret, err := st.Secret(ctx, account.SecretJWT)
	if err != nil {
		return nil, fmt.Errorf("read the stored secret: %w", err)
	}
	return secret, nil
}

// Operator returns an entry of the audit log about an operation of the command line.
func Operator(act account.Act, target, detail string) account.Audit {
	return account.Operator().Audit(time.Now().UTC().Truncate(time.Second), act, target, detail)
}

// QuietLog logs only errors, for commands that print their own messages.
func QuietLog(p *Program) *slog.Logger {
	return slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// UseWithOthers marks the database as in use by the service or a command. Until release it can be
// neither copied nor replaced, because what is written meanwhile would be lost.
func UseWithOthers(ctx context.Context, c config.Checked) (release func(), err error) {
	if !store.IsPostgres(c.Database) && !Exists(c.Database) {
		return func() {}, nil // it is not opened either
	}
	release, err = store.Use(ctx, c.Database, false)
	if errors.Is(err, store.ErrInUse) {
		return nil, fmt.Errorf("%w: %s is being restored, copied or migrated: wait until that is done",
			store.ErrInUse, c.DatabaseLabel())
	}
	if err != nil {
		return nil, DatabaseError(err)
	}
	return release, nil
}

// DataKeyOf returns a function that reads the data key from its file, or nil if no file is named.
func DataKeyOf(file string) func() ([]byte, error) {
	if file == "" {
		return nil
	}
	return func() ([]byte, error) { return config.LoadDataKey(file) }
}

// KeyFlags are the settings of serve that name the keys.
type KeyFlags struct {
	PrivateKeyFile     string   `env:"SERVICE_OIDC_PRIVATE_KEY_FILE" placeholder:"FILE"`
	AdditionalKeyFiles []string `name:"additional-key-file" env:"SERVICE_OIDC_ADDITIONAL_KEY_FILES" placeholder:"FILE"`
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// databaseFlags are the settings of a command that only needs the database.
type databaseFlags struct {
	Database        string `env:"SERVICE_DATABASE" default:"cairn.db" help:"SQLite file, or a postgres:// URL."`
	BackupDir       string `env:"SERVICE_BACKUP_DIR" hidden:""` // for the backup before a migration
	BackupRecipient string `name:"backup-recipient" env:"SERVICE_BACKUP_RECIPIENT" hidden:""`
	// DataKeyFile is read when something sealed is needed.
	DataKeyFile string `name:"data-key-file" env:"SERVICE_DATA_KEY_FILE" placeholder:"FILE" hidden:""`
	// MailServer is set if the service sends mails: it notifies users of changes to their accounts.
	MailServer string `name:"smtp-url" env:"SERVICE_SMTP_URL" hidden:""`
}

// checked returns the checked settings.
func (c databaseFlags) checked() (config.Checked, error) {
	settings := config.Defaults()
	settings.Database, settings.BackupDir, settings.DataKeyFile = c.Database, c.BackupDir, c.DataKeyFile
	settings.BackupRecipient = c.BackupRecipient
	return settings.Check()
}

// withStore opens the database, calls do and closes it.
func (c databaseFlags) withStore(p *cli.Program, do func(*store.Store) error) error {
	checked, err := c.checked()
	if err != nil {
		return err
	}
	release, err := useWithOthers(p.Ctx, checked)
	if err != nil {
		return err
	}
	defer release()
	st, err := openExisting(p.Ctx, checked, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	return do(st)
}

// withUsers is withStore for operations that administrators also have in the service.
func (c databaseFlags) withUsers(p *cli.Program, do func(*roster.Administration) error) error {
	return c.withStore(p, func(st *store.Store) error {
		return do(roster.NewAdministration(st, nil).WithMail(c.MailServer != ""))
	})
}

// openExisting opens an initialized database without creating or migrating it: a mistyped
// path must not become a second, empty installation.
func openExisting(ctx context.Context, c config.Checked, log *slog.Logger) (*store.Store, error) {
	notInitialized := databaseError(fmt.Errorf("%s is not initialized: run cairn init", c.DatabaseLabel()))
	if isEmptyFile(c.Database) {
		return nil, notInitialized
	}
	if !store.IsPostgres(c.Database) {
		if _, err := os.Stat(c.Database); errors.Is(err, os.ErrNotExist) {
			err := fmt.Errorf("there is no database %s: run cairn init, or name the right file", c.DatabaseLabel())
			return nil, databaseError(err)
		}
	}
	st, initialized, err := openAny(ctx, c, log)
	if err == nil && !initialized {
		err = errors.Join(notInitialized, st.Close())
	}
	if err != nil {
		return nil, err
	}
	return st, nil
}

// isEmptyFile reports whether a file is empty. SQLite takes it for a database, and writes its header at once.
func isEmptyFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// openOrCreate is openAny, and creates the tables if the database has no installation.
func openOrCreate(ctx context.Context, c config.Checked, log *slog.Logger) (st *store.Store, existed bool, err error) {
	st, existed, err = openAny(ctx, c, log)
	if err == nil && !existed {
		if err = createTables(ctx, st); err != nil {
			return nil, false, errors.Join(databaseError(err), st.Close())
		}
	}
	return st, existed, err
}

// openAny opens the database and reports whether it is initialized. It changes nothing. An installation of
// an earlier version is a store.PendingError: only serve and migrate migrate it.
func openAny(ctx context.Context, c config.Checked, log *slog.Logger) (st *store.Store, initialized bool, err error) {
	st, err = store.Open(ctx, c.Database, store.Options{Log: log, DataKey: dataKeyOf(c.DataKeyFile), Now: clock})
	if err != nil {
		return nil, false, databaseError(err)
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
		return nil, false, errors.Join(databaseError(err), st.Close())
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

func databaseError(err error) error { return fmt.Errorf("--database (SERVICE_DATABASE): %w", err) }

// sharedSecret returns the HS256 secret. The environment's secret takes precedence over the stored one;
// note is a warning if they differ.
func sharedSecret(
	ctx context.Context, env *config.Environment, st *store.Store,
) (secret []byte, note string, err error) {
	stored, err := storedSecret(ctx, st)
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

func storedSecret(ctx context.Context, st *store.Store) ([]byte, error) {
	secret, err := st.Secret(ctx, account.SecretJWT)
	if err != nil {
		return nil, fmt.Errorf("read the stored secret: %w", err)
	}
	return secret, nil
}

type showSecretCommand struct {
	databaseFlags
	Format string `name:"output" short:"o" enum:"text,env,json" default:"text" help:"text (only the secret), env (a line for a secrets file) or json."`
}

// Run prints the stored secret and nothing else on standard output.
func (c *showSecretCommand) Run(p *cli.Program) error {
	return c.withStore(p, func(st *store.Store) error {
		secret, err := storedSecret(p.Ctx, st)
		switch {
		case err != nil:
			return err
		case c.Format == "json":
			return cli.WriteJSON(p.Stdout, map[string]string{"SERVICE_AUTH_JWT_SECRET": string(secret)})
		case c.Format == "env":
			fmt.Fprint(p.Stdout, "SERVICE_AUTH_JWT_SECRET=")
		}
		fmt.Fprintln(p.Stdout, string(secret))
		return nil
	})
}

// operator returns an entry of the audit log about an operation of the command line.
func operator(act account.Act, target, detail string) account.Audit {
	return account.Operator().Audit(time.Now().UTC().Truncate(time.Second), act, target, detail)
}

// quietLog logs only errors, for commands that print their own messages.
func quietLog(p *cli.Program) *slog.Logger {
	return slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

type MigrateCommand struct {
	cli.DatabaseFlags
	DryRun bool `name:"dry-run" help:"List the pending migrations and change nothing."`
	cli.Output
}

// Run migrates the database, or lists the pending migrations.
func (c *MigrateCommand) Run(p *cli.Program) error {
	checked, err := c.Checked()
	if err != nil {
		return err
	}
	schema, names := store.SchemaOfProgram(), []string{}
	what, backup := "pending", ""
	err = c.WithStore(p, func(*store.Store) error { return nil })
	if pending, ok := errors.AsType[*store.PendingError](err); ok {
		schema, names, err = pending.Schema, pending.Names, nil
		if !c.DryRun {
			what = "migrated"
			backup, err = migrateDatabase(p.Ctx, checked, cli.QuietLog(p), useAlone)
			backup = cmp.Or(backup, "none: set backup-dir to have one made before the next migration")
		}
	}
	if err != nil {
		return err
	}
	database, list := checked.DatabaseLabel(), strings.Join(names, "\n")
	done := map[string]any{
		"database": database, "schema": schema, "program": store.SchemaOfProgram(), "migrations": names,
		"dry_run": c.DryRun, "backup": backup,
	}
	return c.Print(p, list, done, cli.Pairs{
		{"database", database}, {"schema", fmt.Sprintf("%d, this program has %d", schema, store.SchemaOfProgram())},
		{what, cmp.Or(strings.ReplaceAll(list, "\n", ", "), "none")}, {"backup", backup},
	})
}

// migrateDatabase backs up an installation and migrates it to this program's schema. It returns the
// file of the backup. use marks the database as in use meanwhile.
func migrateDatabase(ctx context.Context, c config.Checked, log *slog.Logger, use useFunc) (backup string, err error) {
	release, err := use(ctx, c)
	if err != nil {
		return "", fmt.Errorf("nothing was migrated: %w", err)
	}
	defer release()
	unlock, err := store.LockMigration(ctx, c.Database)
	if err != nil {
		return "", err
	}
	defer unlock()
	st, err := store.Open(ctx, c.Database, store.Options{Log: log, DataKey: cli.DataKeyOf(c.DataKeyFile)})
	if err != nil {
		return "", cli.DatabaseError(err)
	}
	defer func() { _ = st.Close() }()
	if err := st.CheckSchema(ctx); errors.Is(err, store.ErrNotMigrated) { // otherwise another instance has migrated
		if backup, err = backupBeforeMigration(ctx, st, c, log); err != nil {
			return "", err
		}
	}
	return backup, st.Migrate(ctx)
}

// OpenToServe is cli.OpenExisting for the service, which migrates the database first. With SQLite, a
// service of an earlier version must have ended. With PostgreSQL it may run, because instances are
// replaced one after the other, and a migration keeps what the previous version needs.
func OpenToServe(
	ctx context.Context, c config.Checked, log *slog.Logger,
) (st *store.Store, release func(), err error) {
	for {
		if release, err = waiting(cli.UseWithOthers, log)(ctx, c); err != nil {
			return nil, nil, err
		}
		if st, err = cli.OpenExisting(ctx, c, log); err == nil {
			return st, release, nil
		}
		release()
		if !errors.Is(err, store.ErrNotMigrated) {
			return nil, nil, err
		}
		use := cli.UseWithOthers
		if !store.IsPostgres(c.Database) {
			use = waiting(useAlone, log)
		}
		if _, err := migrateDatabase(ctx, c, log, use); err != nil {
			return nil, nil, err
		}
	}
}

// MigrationWait limits how long serve waits for the service that it replaces, or for a backup, to
// close the database. It also slows restarts down enough that systemd does not give up
// (StartLimitBurst in cairn.service).
var MigrationWait = 10 * time.Second

// useFunc is useAlone or cli.UseWithOthers.
type useFunc func(context.Context, config.Checked) (release func(), err error)

// waiting returns a useFunc that retries for MigrationWait while the database is in use.
func waiting(use useFunc, log *slog.Logger) useFunc {
	return func(ctx context.Context, c config.Checked) (release func(), err error) {
		warnOnce := sync.OnceFunc(func() { log.Warn("waiting for the database", "error", err) })
		for end := time.Now().Add(MigrationWait); ; time.Sleep(100 * time.Millisecond) {
			release, err = use(ctx, c)
			if !errors.Is(err, store.ErrInUse) || time.Now().After(end) || ctx.Err() != nil {
				return release, err
			}
			warnOnce()
		}
	}
}

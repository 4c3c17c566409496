package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

var (
	// ErrNotMigrated means that Migrate has to run first.
	ErrNotMigrated = errors.New("the database is new or of an earlier version and has to be migrated")
	// ErrNewerSchema means that a newer program has migrated the database: this one could damage
	// what it does not know.
	ErrNewerSchema = errors.New("the database was migrated by a newer version of this program: " +
		"run that version, or restore a backup")
)

// PendingError is ErrNotMigrated with the missing migrations.
type PendingError struct {
	Schema, Program int64    // the last applied migration, 0 for none, and the last of this program
	Names           []string // of the pending migrations, as "00012_turns"
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("the database has schema %d, this program has %d: it has to be migrated: "+
		"restart cairn serve with this program, or run cairn migrate", e.Schema, e.Program)
}

// Unwrap returns ErrNotMigrated.
func (e *PendingError) Unwrap() error { return ErrNotMigrated }

const migrateTries = 5

// Migrate brings the schema to this program's version. Several processes may call it at once.
// ErrNewerSchema.
func (d *DB) Migrate(ctx context.Context) error {
	if err := d.CheckSchema(ctx); !errors.Is(err, ErrNotMigrated) {
		return err // or nil
	}
	err := d.withMigrator(ctx, func(p *goose.Provider) error {
		// On SQLite nothing keeps another process from starting the same migration. Each runs in
		// one transaction: the second finds the tables created and fails, and its next try has
		// nothing left to do.
		for try := 1; ; try++ {
			_, err := p.Up(ctx)
			if err == nil || try == migrateTries || ctx.Err() != nil {
				return err
			}
		}
	})
	return d.fail("migrate database", err)
}

// MigrateTo brings an empty database to the schema of an earlier version.
func MigrateTo(ctx context.Context, d *DB, version int64) error {
	return d.withMigrator(ctx, func(p *goose.Provider) error {
		_, err := p.UpTo(ctx, version)
		return err
	})
}

// withMigrator calls do with a goose provider. Migrations have no time limit and end only with ctx.
func (d *DB) withMigrator(ctx context.Context, do func(*goose.Provider) error) error {
	files, err := fs.Sub(d.migrations, d.dialect)
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithSlog(d.log)}
	pool, dialect := d.pool, goose.DialectSQLite3
	if d.dialect == Postgres {
		dialect = goose.DialectPostgres
		// Advisory locks span a database; installations may share one in
		// different schemas.
		var in struct {
			Schema string
			Create bool
		}
		if err := d.db.WithContext(ctx).Raw(`SELECT coalesce(current_schema(), '') AS schema,
			to_regclass('goose_db_version') IS NOT NULL OR
			coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS create`).Find(&in).Error; err != nil {
			return err
		}
		if !in.Create { // since PostgreSQL 15 only the owner of a database may
			return errors.New("this user may not create tables in the database: make it the " +
				"owner with ALTER DATABASE")
		}
		id := lock.DefaultLockID ^ int64(crc32.ChecksumIEEE([]byte(in.Schema)))
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(id), lock.WithLockTimeout(1, 120),
			lock.WithUnlockTimeout(1, 10))
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
		if pool, err = openMigrations(d.dsn); err != nil {
			return err
		}
		defer func() { _ = pool.Close() }()
	}
	p, err := goose.NewProvider(dialect, pool, files, options...)
	if err != nil {
		return err
	}
	return do(p)
}

// SchemaVersion returns the number of the last applied migration, 0 for none.
func (d *DB) SchemaVersion(ctx context.Context) (int64, error) {
	table := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'"
	if d.dialect == Postgres {
		table = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('goose_db_version')"
	}
	var found, version int64
	db := d.db.WithContext(ctx)
	if err := db.Raw(table).Find(&found).Error; err != nil || found == 0 {
		return 0, d.fail("read schema version", err)
	}
	// A migration that was undone has its row removed.
	err := db.Raw("SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Find(&version).Error
	if err != nil {
		return 0, d.fail("read schema version", err)
	}
	return version, nil
}

// Initialized reports whether there is an installation, whatever its schema.
func (d *DB) Initialized(ctx context.Context) (bool, error) {
	version, err := d.SchemaVersion(ctx)
	if err != nil || version == 0 {
		return false, err
	}
	var n int64
	err = Conn(ctx, d).Raw("SELECT count(*) FROM settings").Find(&n).Error
	return n > 0, d.fail("read settings", err)
}

// CheckSchema reports whether the schema is this program's: a PendingError,
// ErrNewerSchema, or an error that wraps Options.Unavailable.
func (d *DB) CheckSchema(ctx context.Context) error {
	version, err := d.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	want, pending, err := programVersion(d.migrations, d.dialect, version)
	switch {
	case err != nil:
		return err
	case version < want:
		return &PendingError{Schema: version, Program: want, Names: pending}
	case version > want:
		return fmt.Errorf("%w (version %d, this program has %d)", ErrNewerSchema, version, want)
	}
	return nil
}

// LastOf returns the number of the last of the migrations.
func LastOf(migrations fs.FS) int64 {
	version, _, err := programVersion(migrations, SQLite, 0) // both dialects have the same numbers
	if err != nil {
		panic(err) // the embedded files are wrong
	}
	return version
}

// programVersion returns the highest number among the migrations, and the names of those
// above a version.
func programVersion(migrations fs.FS, dialect string, version int64) (highest int64, later []string, err error) {
	files, err := fs.ReadDir(migrations, dialect)
	if err != nil {
		return 0, nil, fmt.Errorf("read the migrations: %w", err)
	}
	for _, f := range files {
		n, err := goose.NumericComponent(f.Name())
		if err != nil {
			return 0, nil, fmt.Errorf("read the migrations: %w", err)
		}
		highest = max(highest, n)
		if n > version {
			later = append(later, strings.TrimSuffix(f.Name(), ".sql"))
		}
	}
	return highest, later, nil
}

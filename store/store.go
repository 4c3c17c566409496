// Package store keeps everything in a database, SQLite (a file) or PostgreSQL (a URL), through
// GORM: users, sessions, invites, settings, clients and grants. It implements account.Store and the
// storage interfaces of package provider, whose comments are the contract.
//
// It leaves to others: how statements run (package store/engine), what the values mean and who may
// change them (packages account and provider), and when to migrate and sweep (the program).
//
// Three rules hold for every statement here. A condition is SQL with placeholders, never a struct:
// GORM drops zero values from structs, and an empty key would match the first row. What may happen
// only once is a conditional UPDATE or DELETE whose affected rows are counted, never a read and
// then a write. Rows are read with Find, never with GORM's Scan, which logs values at every log
// level.
package store

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/clock"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/seal"
)

// Options change how a Store works; the zero value is right for the program.
type Options struct {
	Log *slog.Logger     // nil means slog.Default
	Now func() time.Time // nil means time.Now; for calls without a time, such as issuing a token
	// Monotonic is a clock that nobody sets; nil means time.Now: see account.EndStore.
	Monotonic func() time.Time
	// Timeout bounds a statement, with the wait for a connection, unless its context has a
	// deadline; 0 means 10 seconds. A transaction has one and a half times that.
	Timeout time.Duration
	// ReadOnly creates no file, changes no mode, sets no pragma that the file keeps, and makes
	// every write fail. SQLite itself creates the two files next to a file in WAL mode that no
	// other program has open.
	ReadOnly bool
	// DataKey returns the data key, of 32 bytes. It is called once, when something sealed
	// is first read or written, so a command that needs nothing sealed needs no key. nil means no
	// key.
	DataKey func() ([]byte, error)
}

// Store is a database. Safe for concurrent use, also by several processes.
type Store struct {
	*engine.DB

	sealer seal.Sealer
	within bool // Together
	// revocationsNoted is the time up to which noteRevocations has checked, in Unix seconds.
	revocationsNoted atomic.Int64
	watch            *clock.Watch
	accessChanged    chan struct{} // see AccessChanged
}

var (
	_ account.Store    = (*Store)(nil)
	_ provider.Storage = (*Store)(nil)
)

// Open opens a database: a path is a SQLite file, which is created if it is missing; postgres:// or
// postgresql:// is a PostgreSQL server. It does not migrate. No error contains the password of a
// URL.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	db, err := engine.Open(ctx, dsn, engine.Options{
		Log: o.Log, Now: o.Now, Timeout: o.Timeout, ReadOnly: o.ReadOnly,
		Unavailable: account.ErrUnavailable, Migrations: migrations,
	})
	if err != nil {
		return nil, err
	}
	return &Store{
		DB: db, sealer: seal.New(o.DataKey), watch: clock.NewWatch(o.Monotonic), accessChanged: make(chan struct{}, 1),
	}, nil
}

// A released migration is never edited.
//
//go:embed migrations
var migrationFiles embed.FS

var migrations = func() fs.FS {
	sub, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the name is wrong
	}
	return sub
}()

// SchemaOfProgram returns the number of the last migration of this program.
func SchemaOfProgram() int64 { return engine.LastOf(migrations) }

// Use marks the database at dsn, which need not exist, as in use until release is called or the
// process ends in any way. alone excludes all other users. ErrInUse.
func Use(ctx context.Context, dsn string, alone bool) (release func(), err error) {
	return engine.Use(ctx, dsn, alone, account.ErrUnavailable)
}

// LockMigration waits until no other process backs up and migrates the database at dsn, and keeps
// them waiting until release is called: see engine.LockMigration.
func LockMigration(ctx context.Context, dsn string) (release func(), err error) {
	return engine.LockMigration(ctx, dsn, account.ErrUnavailable)
}

// What the program needs of the engine, which only this package imports.
const (
	SQLite         = engine.SQLite
	Postgres       = engine.Postgres
	ManyTokens     = engine.ManyTokens
	ClockTolerance = engine.ClockTolerance
)

// Types of the engine, and what is lost with an old data key.
type (
	LostValues   = seal.LostValues
	Contents     = engine.Contents
	Health       = engine.Health
	PendingError = engine.PendingError
)

// Errors and functions of the engine, and that of a data key.
var (
	ErrDataKey       = seal.ErrKey
	ErrInUse         = engine.ErrInUse
	ErrNewerSchema   = engine.ErrNewerSchema
	ErrNotDatabase   = engine.ErrNotDatabase
	ErrNotMigrated   = engine.ErrNotMigrated
	ErrTakesNoWrites = engine.ErrTakesNoWrites

	Damaged       = engine.Damaged
	Denied        = engine.Denied
	FirstServer   = engine.FirstServer
	IsPostgres    = engine.IsPostgres
	Pooled        = engine.Pooled
	ReadSnapshot  = engine.ReadSnapshot
	SQLiteVersion = engine.SQLiteVersion
	Servers       = engine.Servers
)

// Names of turns.
// TurnBackup is the name of all backups. TurnScheduledBackup is the turn of those that the service
// makes, so that a backup by hand does not delay them.
const (
	TurnBackup          = "backup"
	TurnScheduledBackup = "scheduled backup"
	TurnSweep           = "sweep"
	// TurnBackupCommand has in its detail how the command after the last backup failed, or nothing.
	TurnBackupCommand = "backup command"
	// TurnSign has in its detail the key with which the instance that started last signs.
	TurnSign = "sign"
)

// Sealed is seal.Sealer.Sealed.
func (s *Store) Sealed(ctx context.Context) (bool, error) { return s.sealer.Sealed(ctx, s.DB) }

// Seal is seal.Sealer.SealAll, with an audit row.
func (s *Store) Seal(ctx context.Context, a account.Audit) (sealed int64, err error) {
	return s.sealer.SealAll(ctx, s.DB, func(tx *engine.Tx) { insertAudit(tx, a) })
}

// PlainValues is seal.PlainValues.
func (s *Store) PlainValues(ctx context.Context) (int64, error) { return seal.PlainValues(ctx, s.DB) }

// ClockSettled implements account.EndStore.
func (s *Store) ClockSettled(ctx context.Context) (bool, error) { return s.watch.Settled(ctx, s.DB) }

// ClockWait is clock.Wait.
func (s *Store) ClockWait(ctx context.Context) (until time.Time, why string, err error) {
	return clock.Wait(ctx, s.DB)
}

// conn returns the database for one statement that reads.
func (s *Store) conn(ctx context.Context) *gorm.DB { return engine.Conn(ctx, s.DB) }

// write is engine.Write.
func (s *Store) write(ctx context.Context, doing string, do func(tx *engine.Tx)) error {
	return engine.Write(ctx, s.DB, doing, do)
}

// writeAlone is engine.WriteAlone.
func (s *Store) writeAlone(
	ctx context.Context, doing string, limit time.Duration, do func(tx *engine.Tx),
) error {
	return engine.WriteAlone(ctx, s.DB, doing, limit, do)
}

// writeOne is engine.WriteOne.
func (s *Store) writeOne(ctx context.Context, doing string, do func(db *gorm.DB) error) error {
	return engine.WriteOne(ctx, s.DB, doing, do)
}

// perform is engine.Perform.
func (s *Store) perform(ctx context.Context, op engine.Operation) error {
	return engine.Perform(ctx, s.DB, op)
}

// readRow is engine.ReadRow.
func (s *Store) readRow(ctx context.Context, q engine.Query, none error, keys ...any) (*engine.Columns, error) {
	return engine.ReadRow(ctx, s.DB, q, none, keys...)
}

// fail is engine.Fail: a failure of the database becomes account.ErrUnavailable.
func fail(doing string, err error) error { return engine.Fail(doing, err, account.ErrUnavailable) }

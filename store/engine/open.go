// Package engine runs statements on a database, SQLite (a file) or PostgreSQL (a URL): it opens and migrates it,
// groups and retries writes, and copies it. It imports nothing of the house.
//
// It leaves to package store what is stored. Of that it knows four tables that every schema has had: users, audit,
// tokens and settings, which it counts; and turns, the table of its leases.
package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/mattn/go-sqlite3"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Names of the dialects.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Options change how a Store works; the zero value is right for the program.
type Options struct {
	Log *slog.Logger     // nil means slog.Default
	Now func() time.Time // nil means time.Now; for calls without a time, such as issuing a token
	// Timeout bounds a statement, with the wait for a connection, unless its context has a
	// deadline; 0 means 10 seconds. A transaction has one and a half times that.
	Timeout time.Duration
	// ReadOnly creates no file, changes no mode, sets no pragma that the file keeps, and makes
	// every write fail. SQLite itself creates the two files next to a file in WAL mode that no
	// other program has open.
	ReadOnly bool
	// Unavailable is wrapped by each failure of the database: any error but a refusal and
	// context.Canceled.
	Unavailable error
	// Migrations are numbered SQL files in a folder for each dialect, sqlite and postgres, with the
	// same numbers in both.
	Migrations fs.FS
}

// DB is a database. Safe for concurrent use, also by several processes.
type DB struct {
	db          *gorm.DB
	pool        *sql.DB
	dialect     string
	dsn         string // PostgreSQL's, for the connections of migrations
	file        string // SQLite's
	log         *slog.Logger
	clock       func() time.Time
	timeout     time.Duration
	unavailable error
	migrations  fs.FS
	observer    Observer      // nil: not observed
	writer      *writer       // nil on PostgreSQL
	announced   chan struct{} // see Announced
	joined      *Tx           // whose part every operation is: see Together; usually nil

	// Ran is called with each hot statement; nil outside of tests.
	Ran func(statement string, values ...any)
}

// Open opens a database: a path is a SQLite file, which is created if it is missing; postgres:// or
// postgresql:// is a PostgreSQL server. It does not migrate. No error contains the password of a
// URL.
func Open(ctx context.Context, dsn string, o Options) (*DB, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	d := &DB{
		log: o.Log, clock: o.Now, timeout: o.Timeout, unavailable: o.Unavailable, migrations: o.Migrations,
		announced: make(chan struct{}, 1),
	}
	var dialector gorm.Dialector
	var err error
	switch {
	case dsn == "":
		return nil, errors.New("open database: no path or URL given")
	case IsPostgres(dsn):
		d.dialect, d.dsn = Postgres, dsn
		d.pool, dialector, err = openPostgres(dsn, o.ReadOnly)
	default:
		d.dialect, d.file = SQLite, dsn
		d.pool, d.writer, dialector, err = openSQLite(ctx, dsn, o.ReadOnly)
	}
	if err != nil {
		return nil, err
	}
	// No PrepareStmt: both drivers keep prepared statements by connection. GORM's cache above them
	// would prepare again in every transaction, and can wait for a connection while those who have
	// one wait for the cache.
	d.db, err = gorm.Open(dialector, &gorm.Config{
		TranslateError: true, SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard,
		DefaultContextTimeout: o.Timeout, // of every statement: what takes longer brings a deadline of its own
	})
	if err == nil {
		err = d.ping(ctx)
	}
	if err != nil {
		return nil, errors.Join(openError(d.dialect, err, o.Unavailable), d.Close())
	}
	// Only now: an error of opening is returned, not logged. Statements are logged without their
	// values.
	d.db.Logger = cancelTolerantLogger{logger.NewSlogLogger(o.Log, logger.Config{
		SlowThreshold: slowStatement, LogLevel: logger.Warn, ParameterizedQueries: true,
		IgnoreRecordNotFoundError: true,
	})}
	OnOpen(d)
	return d, nil
}

// slowStatement is the duration from which a statement is logged.
const slowStatement = time.Second

// OnOpen is called with each database, so that a test can see the statements of all.
var OnOpen = func(*DB) {}

// cancelTolerantLogger does not log it as an error that a client hung up.
type cancelTolerantLogger struct{ logger.Interface }

// LogMode implements logger.Interface.
func (l cancelTolerantLogger) LogMode(level logger.LogLevel) logger.Interface {
	return cancelTolerantLogger{l.Interface.LogMode(level)}
}

// ParamsFilter keeps values out of the log. GORM asks the logger itself for it.
func (l cancelTolerantLogger) ParamsFilter(_ context.Context, sql string, _ ...any) (string, []any) {
	return sql, nil
}

// Trace implements logger.Interface.
func (l cancelTolerantLogger) Trace(ctx context.Context, begin time.Time, fc func() (string, int64), err error) {
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	l.Interface.Trace(ctx, begin, fc, err)
}

// ErrNotDatabase means that a file cannot be opened as a SQLite database.
var ErrNotDatabase = errors.New("the file is damaged or not a SQLite database")

// openError adds what to do about a database that does not open.
func openError(dialect string, err, unavailable error) error {
	switch {
	case strings.Contains(err.Error(), "CGO_ENABLED=0"):
		return errors.New("open SQLite database: this program was built without cgo, which SQLite needs: " +
			"build it with CGO_ENABLED=1 and a C compiler, or use a postgres:// URL")
	case Damaged(err):
		return fmt.Errorf("open SQLite database: %w: name another path or restore a backup: %w", ErrNotDatabase, err)
	}
	if e, is := errors.AsType[sqlite3.Error](err); is && e.Code == sqlite3.ErrReadonly {
		return fmt.Errorf("open SQLite database: %w: %w", fs.ErrPermission, err)
	}
	if dialect == Postgres {
		return fmt.Errorf("open %s database: %w: %w: %s", dialect, unavailable, err, unreachable(err))
	}
	return fmt.Errorf("open %s database: %w: %w", dialect, unavailable, err)
}

// unreachable returns what to do about a PostgreSQL server that lets nobody in.
func unreachable(err error) string {
	const noDatabase, tooManyConnections = "3D000", "53300"
	switch e, is := errors.AsType[*pgconn.PgError](err); {
	case !is:
		return "check the address and that the server runs"
	case e.Code == noDatabase:
		return "make it with createdb, or name another one in the URL"
	case e.Code == tooManyConnections:
		return "raise max_connections of the server, or end other programs' connections"
	}
	return "do what the server says"
}

// Damaged reports whether an error of SQLite says that the file is damaged.
func Damaged(err error) bool {
	e, is := errors.AsType[sqlite3.Error](err)
	return is && (e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB)
}

// Denied reports whether PostgreSQL refused what the user may not do.
func Denied(err error) bool {
	const insufficientPrivilege = "42501"
	e, is := errors.AsType[*pgconn.PgError](err)
	return is && e.Code == insufficientPrivilege
}

// Close closes all connections. Operations that still run fail.
func (d *DB) Close() error {
	err := d.pool.Close()
	if d.writer != nil {
		err = errors.Join(err, d.writer.close())
	}
	if err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// Dialect returns SQLite or Postgres.
func (d *DB) Dialect() string { return d.dialect }

func (d *DB) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.pool.PingContext(ctx)
}

// Ping returns an error if the database does not answer or is of an earlier version. A newer program may
// have migrated the database since this one started. That is no error: migrations leave what this one
// needs, so instances can be replaced one after the other.
func (d *DB) Ping(ctx context.Context) error {
	err := d.CheckSchema(ctx)
	if errors.Is(err, ErrNewerSchema) {
		return nil
	}
	return d.fail("ping", err)
}

// Timeout returns the time limit of a statement.
func (d *DB) Timeout() time.Duration { return d.timeout }

// Log returns the log of the database.
func (d *DB) Log() *slog.Logger { return d.log }

// Announced returns the channel that holds a value after an operation has announced something: see Tx.Announce.
func (d *DB) Announced() <-chan struct{} { return d.announced }

// Checkpoint moves what is in SQLite's log into the file and empties the log.
func (d *DB) Checkpoint(ctx context.Context) error {
	if d.dialect != SQLite {
		return nil
	}
	_, err := d.pool.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// SQLiteVersion returns the version of the SQLite that is part of the program.
func SQLiteVersion() string {
	number, _, _ := sqlite3.Version()
	return number
}

// sqliteConnections is enough for readers beside the one writer.
const sqliteConnections = 8

// sqliteParameters are the parameters of connections that may write. WAL lets readers run beside
// the writer. FULL makes an acknowledged write survive a power cut. immediate takes the write lock
// when a transaction begins: taking it later can fail at once, without the timeout
// (SQLITE_BUSY_SNAPSHOT). secure_delete overwrites deleted content, so that the file no longer has
// the data of a deleted user.
const sqliteParameters = "?_journal_mode=WAL&_txlock=immediate&_secure_delete=fast" + sqliteReading

// sqliteReading are the parameters that change nothing in the file.
const sqliteReading = "&_synchronous=FULL&_busy_timeout=10000&_foreign_keys=on&_stmt_cache_size=128&_cache_size=-500"

func openSQLite(ctx context.Context, path string, readOnly bool) (*sql.DB, *writer, gorm.Dialector, error) {
	// The path becomes a URI, in which ?, # and % have a meaning.
	file, parameters := "file:"+(&url.URL{Path: path}).EscapedPath(), sqliteParameters
	if readOnly {
		parameters = "?mode=ro&_query_only=on" + sqliteReading
	} else {
		empty, err := protectFile(path)
		if err == nil && empty {
			err = enableVacuum(ctx, file)
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("open SQLite database: %w", err)
		}
	}
	pool, err := sql.Open(sqlite.DriverName, file+parameters)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open SQLite database: %w", err)
	}
	pool.SetMaxOpenConns(sqliteConnections)
	pool.SetMaxIdleConns(sqliteConnections)
	writing, err := sql.Open(sqlite.DriverName, file+parameters) // opens nothing yet
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open SQLite database: %w", errors.Join(err, pool.Close()))
	}
	writing.SetMaxOpenConns(1)
	return pool, &writer{pool: writing}, sqlite.New(sqlite.Config{Conn: pool}), nil
}

// enableVacuum lets shrinkFile make the file smaller later. SQLite accepts that only before the
// first table.
func enableVacuum(ctx context.Context, file string) error {
	db, err := sql.Open(sqlite.DriverName, file+"?_auto_vacuum=incremental&_busy_timeout=10000")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM")
	return errors.Join(err, db.Close())
}

// protectFile creates the file before SQLite does and restricts it and the two next to it to the
// owner; SQLite would leave that to the umask. It reports whether the file is still empty.
func protectFile(path string) (empty bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	if err := f.Close(); err != nil {
		return false, err
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(name, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		if name == path && info != nil {
			empty = info.Size() == 0
		}
	}
	return empty, nil
}

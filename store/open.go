// Package store keeps everything in a database, SQLite (a file) or PostgreSQL (a URL), through
// GORM: users, sessions, invites, settings, clients and grants. It implements account.Store and the
// storage interfaces of package provider, whose comments are the contract.
//
// It leaves to others: what the values mean and who may change them (packages account and
// provider), and when to migrate and sweep (the program).
//
// Three rules hold for every statement here. A condition is SQL with placeholders, never a struct:
// GORM drops zero values from structs, and an empty key would match the first row. What may happen
// only once is a conditional UPDATE or DELETE whose affected rows are counted, never a read and
// then a write. Rows are read with Find, never with GORM's Scan, which logs values at every log
// level.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/mattn/go-sqlite3"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
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
	// DataKey returns the data key, of DataKeySize bytes. It is called once, when something sealed
	// is first read or written, so a command that needs nothing sealed needs no key. nil means no
	// key.
	DataKey func() ([]byte, error)
}

// Store is a database. Safe for concurrent use, also by several processes.
type Store struct {
	db       *gorm.DB
	pool     *sql.DB
	dialect  string
	dsn      string // PostgreSQL's, for the connections of migrations
	file     string // SQLite's
	log      *slog.Logger
	clock    func() time.Time
	timeout  time.Duration
	observer Observer                              // nil: not observed
	ran      func(statement string, values ...any) // nil outside of tests; see onOpen
	writer   *writer                               // nil on PostgreSQL
	dataKey  func() (*dataKey, error)              // nil: none is configured
	mails    chan struct{}                         // holds one value after mails were added
	joined   *transaction                          // whose part every operation is: see Together; usually nil
	// revocationsNoted is the time up to which noteRevocations has checked, in Unix seconds.
	revocationsNoted atomic.Int64
}

var (
	_ account.Store        = (*Store)(nil)
	_ provider.Storage     = (*Store)(nil)
	_ provider.ClientStore = (*Store)(nil)
)

// Open opens a database: a path is a SQLite file, which is created if it is missing; postgres:// or
// postgresql:// is a PostgreSQL server. It does not migrate. No error contains the password of a
// URL.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	s := &Store{log: o.Log, clock: o.Now, timeout: o.Timeout, mails: make(chan struct{}, 1)}
	if o.DataKey != nil {
		s.dataKey = sync.OnceValues(func() (*dataKey, error) {
			key, err := o.DataKey()
			if err != nil {
				return nil, err
			}
			return newDataKey(key)
		})
	}
	var dialector gorm.Dialector
	var err error
	switch {
	case dsn == "":
		return nil, errors.New("open database: no path or URL given")
	case IsPostgres(dsn):
		s.dialect, s.dsn = Postgres, dsn
		s.pool, dialector, err = openPostgres(dsn, o.ReadOnly)
	default:
		s.dialect, s.file = SQLite, dsn
		s.pool, s.writer, dialector, err = openSQLite(ctx, dsn, o.ReadOnly)
	}
	if err != nil {
		return nil, err
	}
	// No PrepareStmt: both drivers keep prepared statements by connection. GORM's cache above them
	// would prepare again in every transaction, and can wait for a connection while those who have
	// one wait for the cache.
	s.db, err = gorm.Open(dialector, &gorm.Config{
		TranslateError: true, SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard,
		DefaultContextTimeout: o.Timeout, // of every statement: what takes longer brings a deadline of its own
	})
	if err == nil {
		err = s.ping(ctx)
	}
	if err != nil {
		return nil, errors.Join(openError(s.dialect, err), s.Close())
	}
	// Only now: an error of opening is returned, not logged. Statements are logged without their
	// values.
	s.db.Logger = cancelTolerantLogger{logger.NewSlogLogger(o.Log, logger.Config{
		SlowThreshold: slowStatement, LogLevel: logger.Warn, ParameterizedQueries: true,
		IgnoreRecordNotFoundError: true,
	})}
	onOpen(s)
	return s, nil
}

// slowStatement is the duration from which a statement is logged.
const slowStatement = time.Second

// onOpen is called with each store, so that a test can see the statements of all.
var onOpen = func(*Store) {}

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
func openError(dialect string, err error) error {
	switch {
	case strings.Contains(err.Error(), "CGO_ENABLED=0"):
		return errors.New("open SQLite database: this program was built without cgo, which SQLite needs: " +
			"build it with CGO_ENABLED=1 and a C compiler, or use a postgres:// URL")
	case dialect == SQLite && Damaged(err):
		return fmt.Errorf("open SQLite database: %w: name another path or restore a backup: %w", ErrNotDatabase, err)
	}
	if dialect == Postgres {
		return fmt.Errorf("open %s database: %w: %w: check the address and that the server runs", dialect,
			account.ErrUnavailable, err)
	}
	return fmt.Errorf("open %s database: %w: %w", dialect, account.ErrUnavailable, err)
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
func (s *Store) Close() error {
	err := s.pool.Close()
	if s.writer != nil {
		err = errors.Join(err, s.writer.close())
	}
	if err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// Dialect returns SQLite or Postgres.
func (s *Store) Dialect() string { return s.dialect }

func (s *Store) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.pool.PingContext(ctx)
}

// Ping implements account.Store. A newer program may have migrated the database since this one
// started. That is no error: migrations leave what this one needs, so instances can be replaced one
// after the other.
func (s *Store) Ping(ctx context.Context) error {
	err := s.CheckSchema(ctx)
	if errors.Is(err, ErrNewerSchema) {
		return nil
	}
	return fail("ping", err)
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

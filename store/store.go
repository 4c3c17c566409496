// Package store keeps everything in a database: users, sessions, invites,
// settings, clients and grants, through GORM, on SQLite (a file) or PostgreSQL
// (a URL). It implements account.Store and the storage interfaces of package
// provider, whose comments are the contract.
//
// It leaves to others: what the values mean and who may change them (packages
// account and provider), and when to migrate and sweep (the program).
//
// Three rules hold for every statement here. A condition is written as SQL with
// placeholders, never as a struct: GORM drops zero values from structs, and an
// empty key would match the first row. What may happen once is a conditional
// UPDATE or DELETE whose affected rows are counted, never a read and then a
// write. Rows are read with Find, never with GORM's Scan, which writes values
// into the log whatever the logger is told.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

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
	Now func() time.Time // nil means time.Now; for what comes without a time: when a token was issued
	// Timeout is how long a statement may take, with the wait for a connection, unless
	// its context has a deadline; 0 means 10 seconds. A transaction has half as
	// long again.
	Timeout time.Duration
}

// Store is a database. Safe for concurrent use, also by several processes.
type Store struct {
	db      *gorm.DB
	pool    *sql.DB
	dialect string
	dsn     string // PostgreSQL's, for the connections of migrations
	log     *slog.Logger
	clock   func() time.Time
	timeout time.Duration
	// writer lets one transaction of this process write at a time on SQLite,
	// which has one writer anyway: waiting here is fair and ends with the
	// context, SQLite's own waiting is polling. nil on PostgreSQL.
	writer chan struct{}
	// revocationsNoted is up to when noteRevocations has looked, in Unix seconds.
	revocationsNoted atomic.Int64
}

var (
	_ account.Store        = (*Store)(nil)
	_ provider.Storage     = (*Store)(nil)
	_ provider.ClientStore = (*Store)(nil)
)

// Open opens a database: a path is a SQLite file, which is created when it is
// missing, postgres:// or postgresql:// is a PostgreSQL server. It does not
// migrate. No error carries the password of a URL.
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
	s := &Store{log: o.Log, clock: o.Now, timeout: o.Timeout}
	var dialector gorm.Dialector
	var err error
	switch {
	case dsn == "":
		return nil, errors.New("open database: no path or URL given")
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"):
		s.dialect, s.dsn = Postgres, dsn
		s.pool, dialector, err = openPostgres(dsn)
	default:
		s.dialect = SQLite
		s.writer = make(chan struct{}, 1)
		s.pool, dialector, err = openSQLite(ctx, dsn)
	}
	if err != nil {
		return nil, err
	}
	// No PrepareStmt: both drivers keep prepared statements by connection.
	// GORM's cache above them would prepare again in every transaction, and can
	// wait for a connection while it makes those who have one wait for it.
	s.db, err = gorm.Open(dialector, &gorm.Config{
		TranslateError: true, SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard,
		DefaultContextTimeout: o.Timeout, // of every statement: what takes longer brings a deadline of its own
	})
	if err == nil {
		err = s.ping(ctx)
	}
	if err != nil {
		return nil, errors.Join(openError(s.dialect, err), s.pool.Close())
	}
	// Only now: what kept it from opening is in the error. Statements are logged
	// without their values.
	s.db.Logger = patientLogger{logger.NewSlogLogger(o.Log, logger.Config{
		SlowThreshold: time.Second, LogLevel: logger.Warn, ParameterizedQueries: true, IgnoreRecordNotFoundError: true,
	})}
	return s, nil
}

// patientLogger does not call it an error of the database when a client hung up.
type patientLogger struct{ logger.Interface }

// LogMode implements logger.Interface.
func (l patientLogger) LogMode(level logger.LogLevel) logger.Interface {
	return patientLogger{l.Interface.LogMode(level)}
}

// ParamsFilter keeps values out of the log: GORM asks the logger itself for it.
func (l patientLogger) ParamsFilter(_ context.Context, sql string, _ ...any) (string, []any) {
	return sql, nil
}

// Trace implements logger.Interface.
func (l patientLogger) Trace(ctx context.Context, begin time.Time, fc func() (string, int64), err error) {
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	l.Interface.Trace(ctx, begin, fc, err)
}

// openError says what can be done about a database that does not open.
func openError(dialect string, err error) error {
	switch {
	case strings.Contains(err.Error(), "CGO_ENABLED=0"):
		return errors.New("open SQLite database: this program was built without cgo, which SQLite needs: build it with CGO_ENABLED=1 and a C compiler, or use a postgres:// URL")
	case dialect == SQLite && strings.Contains(err.Error(), "file is not a database"):
		return fmt.Errorf("open SQLite database: the file is something else or damaged: name another path or restore a backup: %w", err)
	}
	if dialect == Postgres {
		return fmt.Errorf("open %s database: %w: %w: check the address and that the server runs", dialect, account.ErrUnavailable, err)
	}
	return fmt.Errorf("open %s database: %w: %w", dialect, account.ErrUnavailable, err)
}

// Close ends all connections. What is still running fails.
func (s *Store) Close() error {
	if err := s.pool.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// Dialect is SQLite or Postgres.
func (s *Store) Dialect() string { return s.dialect }

func (s *Store) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.pool.PingContext(ctx)
}

// Ping implements account.Store.
func (s *Store) Ping(ctx context.Context) error { return fail("ping", s.CheckSchema(ctx)) }

// now is the current Unix second.
func (s *Store) now() int64 { return s.clock().Unix() }

// seconds is how a time is stored: Unix seconds, 0 for the zero time.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// moment is the inverse of seconds.
func moment(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/cairn-id/cairn/account"
)

const (
	// defaultTimeout bounds a statement: TCP may take a quarter of an hour to report a dead
	// connection.
	defaultTimeout = 10 * time.Second
	// writerWait bounds the wait for other writers.
	writerWait = 10 * time.Second
	txTries    = 4
)

// errWriterBusy is wrapped with account.ErrUnavailable.
var errWriterBusy = errors.New("timed out waiting for other writers")

// conn returns the database for one statement.
func (s *Store) conn(ctx context.Context) *gorm.DB { return s.db.WithContext(ctx) }

// An operation writes to the database.
type operation struct {
	doing string
	do    func(w *statements) error // may run more than once
	// several means that do runs more than one statement and needs a transaction. On SQLite other
	// operations may share it.
	several bool
	alone   bool          // takes long: it gets a transaction of its own
	limit   time.Duration // 0 means that only its context bounds it
	report  *report       // of its last run; nil for an operation that revokes nothing
}

// A transaction is the connection of an operation, with what is to be done after its commit.
type transaction struct {
	*gorm.DB
	report *report
	hot    *statements // of the same operation
}

// report is what an operation has done, for those who have to know after the commit.
type report struct {
	mails   bool             // added to the outbox
	revoked map[string]int64 // by kind: see Observer.Revoked
}

// noteRevoked counts what the operation has revoked.
func (tx *transaction) noteRevoked(kind string, n int) {
	if tx.report.revoked == nil {
		tx.report.revoked = map[string]int64{}
	}
	tx.report.revoked[kind] += int64(n)
}

// run runs the operation on a connection.
func (op operation) run(ctx context.Context, s *Store, on gorm.ConnPool) error {
	w := &statements{s: s, ctx: ctx, on: on}
	defer w.end()
	return op.do(w)
}

// statements runs the statements of an operation on its connection.
type statements struct {
	s   *Store
	ctx context.Context
	on  gorm.ConnPool

	limited context.Context // ctx with the time limit of a statement; nil until needed
	cancel  context.CancelFunc
}

// end must be called after the operation.
func (w *statements) end() {
	if w.cancel != nil {
		w.cancel()
	}
}

// gorm returns the connection for GORM, for statements that are not hot. It sets the time limit:
// GORM's own (DefaultContextTimeout) is not canceled with the statement, and keeps all that ctx
// holds until it has passed.
func (w *statements) gorm(ctx context.Context) *gorm.DB {
	if _, ok := ctx.Deadline(); !ok {
		if w.cancel == nil {
			w.limited, w.cancel = context.WithTimeout(ctx, w.s.timeout)
		}
		ctx = w.limited
	}
	db := w.s.db.Session(&gorm.Session{NewDB: true, Context: ctx})
	db.Statement.ConnPool = w.on
	return db
}

// write runs an operation in one transaction, which an error of do rolls back. do may run more than
// once and must not keep what it read in an earlier run. The limit is one and a half times that of
// a statement. On SQLite other operations may share the transaction: see writer.
func (s *Store) write(ctx context.Context, doing string, do func(tx *transaction) error) error {
	return s.writeMails(ctx, operation{doing: doing, several: true, limit: s.timeout + s.timeout/2}, do)
}

// writeAlone is write for a long operation, which shares its transaction with no other.
func (s *Store) writeAlone(ctx context.Context, doing string, limit time.Duration, do func(tx *transaction) error) error {
	return s.writeMails(ctx, operation{doing: doing, several: true, alone: true, limit: limit}, do)
}

// writeOne is write for a single statement, which needs no transaction.
func (s *Store) writeOne(ctx context.Context, doing string, do func(db *gorm.DB) error) error {
	return s.perform(ctx, operation{doing: doing, do: func(w *statements) error { return do(w.gorm(w.ctx)) }})
}

func (s *Store) writeMails(ctx context.Context, op operation, do func(tx *transaction) error) error {
	op.report = &report{}
	op.do = func(w *statements) error {
		*op.report = report{}
		ctx := w.ctx
		if _, ok := ctx.Deadline(); !ok { // it is shared
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, op.limit)
			defer cancel()
		}
		return do(&transaction{w.gorm(ctx), op.report, w})
	}
	err := s.perform(ctx, op)
	if err == nil && op.report.mails {
		select {
		case s.mails <- struct{}{}:
		default: // already signaled
		}
	}
	return err
}

// perform runs an operation, observed if there is an observer.
func (s *Store) perform(ctx context.Context, op operation) error {
	if s.observer != nil {
		return s.observed(ctx, op)
	}
	return s.try(ctx, op)
}

func (s *Store) try(ctx context.Context, op operation) error {
	if s.joined != nil {
		return s.join(ctx, op)
	}
	if s.writer != nil && !op.alone {
		return fail(op.doing, canceled(ctx, s.writer.write(ctx, s, op)))
	}
	if op.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, op.limit)
		defer cancel()
	}
	unlock, err := s.lockWriter(ctx)
	if err != nil {
		return fail(op.doing, err)
	}
	defer unlock()
	for try := 1; ; try++ {
		if op.several {
			err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				return op.run(ctx, s, tx.Statement.ConnPool)
			})
		} else {
			err = s.single(ctx, op)
		}
		if err == nil || try == txTries || !retryable(err) {
			return fail(op.doing, canceled(ctx, err))
		}
	}
}

// single runs an operation that needs no transaction, within the time limit of a statement.
func (s *Store) single(ctx context.Context, op operation) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	return op.run(ctx, s, s.db.Statement.ConnPool)
}

// lockWriter waits until this process may write by connections other than the writer's. The
// returned function releases the lock and may be called more than once.
func (s *Store) lockWriter(ctx context.Context) (func(), error) {
	if s.writer == nil {
		return func() {}, nil
	}
	return s.writer.lock(ctx)
}

// refusal is an error by which the domain refuses an operation: a *web.Problem or a provider.Refusal.
// Any other error is a failure of the database.
type refusal interface {
	error
	Refusal()
}

// fail wraps the error of an operation. A refusal and context.Canceled keep their meaning; any
// other error, a deadline included, becomes account.ErrUnavailable. nil stays nil.
func fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	var refused refusal
	if errors.As(err, &refused) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, account.ErrUnavailable, err)
}

// canceled adds context.Canceled to the error that a driver returns after the caller has given up:
// the transaction has ended, or the database is busy.
func canceled(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Canceled, err)
}

// expect returns the error of a statement, or none if it changed or found no row.
func expect(res *gorm.DB, none error) error {
	if res.Error != nil {
		return res.Error
	}
	if res.RowsAffected == 0 {
		return none
	}
	return nil
}

// retryable reports whether PostgreSQL aborted a transaction in favor of another one. It has had no
// effect and can be repeated.
func retryable(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01") // serialization_failure, deadlock_detected
}

// invalidKey reports whether a key cannot be in the database: it is empty, or only one of the two
// databases would accept it. Such a key is not looked up.
func invalidKey(key string) bool {
	return key == "" || strings.ContainsRune(key, 0) || !utf8.ValidString(key)
}

// sanitize removes what PostgreSQL refuses in a text, for remarks that must not make an operation
// fail.
func sanitize(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}

// now returns the current Unix time in seconds.
func (s *Store) now() int64 { return s.clock().Unix() }

// toUnix returns Unix seconds as stored, 0 for the zero time.
func toUnix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// fromUnix is the inverse of toUnix.
func fromUnix(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

// maxRows is the size of a page if the caller gives none.
const maxRows = 1000

func pageSize(limit int) int {
	if limit <= 0 {
		return maxRows
	}
	return limit
}

// keysOf returns the keys of a map in order.
func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// each returns f of each row, never nil.
func each[R, V any](rows []R, f func(R) V) []V {
	out := make([]V, len(rows))
	for i, r := range rows {
		out[i] = f(r)
	}
	return out
}

// columnsOf lists the columns of the row type R, which a SELECT names instead of *. After a newer
// program has added a column, PostgreSQL refuses a prepared statement that returned all columns
// ("cached plan must not change result type").
func columnsOf[R any](table string) string {
	s, err := schema.Parse(new(R), &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(fmt.Sprintf("columns of %s: %v", table, err))
	}
	return table + "." + strings.Join(s.DBNames, ", "+table+".")
}

// repeated returns a comma-separated list of n times the same.
func repeated(one string, n int) string { return strings.Repeat(one+", ", n-1) + one }

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
)

const (
	// defaultTimeout bounds a statement: TCP may take a quarter of an hour to report a dead
	// connection.
	defaultTimeout = 10 * time.Second
	// writerWait bounds the wait for other writers.
	writerWait = 10 * time.Second
	txTries    = 4
)

// errWriterBusy is wrapped with Options.Unavailable.
var errWriterBusy = errors.New("timed out waiting for other writers")

// What runs statements is a function, not a method of DB: the store embeds one, and its users run none.

// Conn returns the database for one statement that reads.
func Conn(ctx context.Context, d *DB) *gorm.DB { return d.db.WithContext(ctx) }

// An Operation writes to the database.
type Operation struct {
	Doing string                    // its name in errors and for the Observer
	Do    func(w *Statements) error // may run more than once
	// Several means that Do runs more than one statement and needs a transaction. On SQLite other
	// operations may share it.
	Several bool
	alone   bool          // takes long: it gets a transaction of its own
	limit   time.Duration // 0 means that only its context bounds it
	report  *report       // of its last run; nil for an operation that revokes nothing
}

// A Tx is the connection of an operation, with what is to be done after its commit. It keeps the first
// failure or refusal, as bufio.Writer keeps its first error: after that its methods do nothing and return
// nothing, so an operation may run to its end without looking, and is rolled back. Only what cannot do
// with nothing, such as a call of somebody else's function, asks Failed.
type Tx struct {
	DB     *gorm.DB    // for functions that read in a transaction and without one; their errors go to Refuse
	Hot    *Statements // of the same operation
	Actor  string      // of the store: whose act it has checked
	report *report
	err    error // the first failure or refusal
}

// Exec runs a statement and returns how many rows it changed.
func (tx *Tx) Exec(sql string, args ...any) int64 {
	if tx.err != nil {
		return 0
	}
	return tx.Ran(tx.DB.Exec(sql, args...))
}

// Find reads rows into dst and returns how many there were.
func (tx *Tx) Find(dst any, sql string, args ...any) int64 {
	if tx.err != nil {
		return 0
	}
	return tx.Ran(tx.DB.Raw(sql, args...).Find(dst))
}

// Table begins a statement that GORM builds, for Ran. It does nothing after a failure.
func (tx *Tx) Table(name string) *gorm.DB {
	db := tx.DB.Table(name)
	if tx.err != nil {
		_ = db.AddError(tx.err)
	}
	return db
}

// Ran takes the result of a statement that GORM built, and returns how many rows it changed.
func (tx *Tx) Ran(res *gorm.DB) int64 {
	if tx.Refuse(res.Error); tx.err != nil {
		return 0
	}
	return res.RowsAffected
}

// Expect refuses the operation with the error none unless there are rows.
func (tx *Tx) Expect(rows int64, none error) {
	if rows == 0 {
		tx.Refuse(none)
	}
}

// Refuse ends the operation with an error, unless it has failed before. nil does nothing.
func (tx *Tx) Refuse(err error) {
	if tx.err == nil {
		tx.err = err
	}
}

// Failed reports whether the operation has failed or was refused.
func (tx *Tx) Failed() bool { return tx.err != nil }

// Now returns the current Unix time in seconds.
func (tx *Tx) Now() int64 { return tx.Hot.d.Now() }

// Announce makes DB.Announced hold a value after the commit.
func (tx *Tx) Announce() { tx.report.announced = true }

// report is what an operation has done, for those who have to know after the commit.
type report struct {
	announced bool
	revoked   map[string]int64 // by kind: see Observer.Revoked
}

// NoteRevoked counts for the Observer what the operation has revoked.
func (tx *Tx) NoteRevoked(kind string, n int) {
	if tx.report.revoked == nil {
		tx.report.revoked = map[string]int64{}
	}
	tx.report.revoked[kind] += int64(n)
}

// run runs the operation on a connection.
func (op Operation) run(ctx context.Context, d *DB, on gorm.ConnPool) error {
	w := &Statements{d: d, ctx: ctx, on: on}
	defer w.end()
	return op.Do(w)
}

// Statements runs the statements of an operation on its connection.
type Statements struct {
	d   *DB
	ctx context.Context
	on  gorm.ConnPool

	limited context.Context // ctx with the time limit of a statement; nil until needed
	cancel  context.CancelFunc
}

// Dialect returns SQLite or Postgres.
func (w *Statements) Dialect() string { return w.d.dialect }

// end must be called after the operation.
func (w *Statements) end() {
	if w.cancel != nil {
		w.cancel()
	}
}

// Gorm returns the connection for GORM, for statements that are not hot. It sets the time limit:
// GORM's own (DefaultContextTimeout) is not canceled with the statement, and keeps all that ctx
// holds until it has passed.
func (w *Statements) Gorm() *gorm.DB { return w.gorm(w.ctx) }

func (w *Statements) gorm(ctx context.Context) *gorm.DB {
	if _, ok := ctx.Deadline(); !ok {
		if w.cancel == nil {
			w.limited, w.cancel = context.WithTimeout(ctx, w.d.timeout)
		}
		ctx = w.limited
	}
	db := w.d.db.Session(&gorm.Session{NewDB: true, Context: ctx})
	db.Statement.ConnPool = w.on
	return db
}

// Write runs an operation in one transaction, which an error of do rolls back. do may run more than
// once and must not keep what it read in an earlier run. The limit is one and a half times that of
// a statement. On SQLite other operations may share the transaction: see writer.
func Write(ctx context.Context, d *DB, doing string, do func(tx *Tx)) error {
	return writeReported(ctx, d, Operation{Doing: doing, Several: true, limit: d.timeout + d.timeout/2}, do)
}

// WriteAlone is Write for a long operation, which shares its transaction with no other.
func WriteAlone(
	ctx context.Context, d *DB, doing string, limit time.Duration, do func(tx *Tx),
) error {
	return writeReported(ctx, d, Operation{Doing: doing, Several: true, alone: true, limit: limit}, do)
}

// WriteOne is Write for a single statement, which needs no transaction.
func WriteOne(ctx context.Context, d *DB, doing string, do func(db *gorm.DB) error) error {
	return Perform(ctx, d, Operation{Doing: doing, Do: func(w *Statements) error { return do(w.Gorm()) }})
}

func writeReported(ctx context.Context, d *DB, op Operation, do func(tx *Tx)) error {
	op.report = &report{}
	op.Do = func(w *Statements) error {
		*op.report = report{}
		ctx := w.ctx
		if _, ok := ctx.Deadline(); !ok { // it is shared
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, op.limit)
			defer cancel()
		}
		tx := &Tx{DB: w.gorm(ctx), Hot: w, report: op.report}
		do(tx)
		return tx.err
	}
	err := Perform(ctx, d, op)
	if err == nil && op.report.announced {
		select {
		case d.announced <- struct{}{}:
		default: // already signaled
		}
	}
	return err
}

// Perform runs an operation, observed if there is an observer.
func Perform(ctx context.Context, d *DB, op Operation) error {
	if d.observer != nil {
		return d.observed(ctx, op)
	}
	return d.try(ctx, op)
}

func (d *DB) try(ctx context.Context, op Operation) error {
	if d.joined != nil {
		return d.join(ctx, op)
	}
	if d.writer != nil && !op.alone {
		return d.fail(op.Doing, canceled(ctx, d.writer.write(ctx, d, op)))
	}
	if op.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, op.limit)
		defer cancel()
	}
	unlock, err := d.lockWriter(ctx)
	if err != nil {
		return d.fail(op.Doing, err)
	}
	defer unlock()
	for try := 1; ; try++ {
		if op.Several {
			err = d.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				return op.run(ctx, d, tx.Statement.ConnPool)
			})
		} else {
			err = d.single(ctx, op)
		}
		if err == nil || try == txTries || !retryable(err) {
			return d.fail(op.Doing, canceled(ctx, err))
		}
	}
}

// single runs an operation that needs no transaction, within the time limit of a statement.
func (d *DB) single(ctx context.Context, op Operation) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.timeout)
		defer cancel()
	}
	return op.run(ctx, d, d.db.Statement.ConnPool)
}

// lockWriter waits until this process may write by connections other than the writer's. The
// returned function releases the lock and may be called more than once.
func (d *DB) lockWriter(ctx context.Context) (func(), error) {
	if d.writer == nil {
		return func() {}, nil
	}
	return d.writer.lock(ctx)
}

// refusal is an error by which the domain refuses an operation. Any other error is a failure of the database.
type refusal interface {
	error
	Refusal()
}

// Fail wraps the error of an operation. A refusal and context.Canceled keep their meaning; any
// other error, a deadline included, becomes unavailable. nil stays nil.
func Fail(doing string, err, unavailable error) error {
	if err == nil {
		return nil
	}
	var refused refusal
	if errors.As(err, &refused) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, unavailable, err)
}

func (d *DB) fail(doing string, err error) error { return Fail(doing, err, d.unavailable) }

// canceled adds context.Canceled to the error that a driver returns after the caller has given up:
// the transaction has ended, or the database is busy.
func canceled(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Canceled, err)
}

// retryable reports whether PostgreSQL aborted a transaction in favor of another one. It has had no
// effect and can be repeated.
func retryable(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01") // serialization_failure, deadlock_detected
}

// Sanitize removes what PostgreSQL refuses in a text, for remarks that must not make an operation
// fail.
func Sanitize(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}

// Time returns the time of the injected clock.
func (d *DB) Time() time.Time { return d.clock() }

// Now returns the current Unix time in seconds.
func (d *DB) Now() int64 { return d.clock().Unix() }

// ToUnix returns Unix seconds as stored, 0 for the zero time.
func ToUnix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// FromUnix is the inverse of ToUnix.
func FromUnix(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

// Repeated returns a comma-separated list of n times the same.
func Repeated(one string, n int) string { return strings.Repeat(one+", ", n-1) + one }

// Together calls do with a DB whose operations are one transaction: a failure of tx undoes all of them. do may
// run more than once.
func Together(ctx context.Context, d *DB, doing string, limit time.Duration, do func(tx *Tx, in *DB)) error {
	return WriteAlone(ctx, d, doing, limit, func(tx *Tx) {
		in := *d
		in.db, in.announced, in.observer, in.joined = tx.DB, make(chan struct{}, 1), nil, tx
		do(tx, &in)
	})
}

// join runs an operation in the transaction of Together.
func (d *DB) join(ctx context.Context, op Operation) error {
	w := &Statements{d: d, ctx: ctx, on: d.joined.Hot.on}
	defer w.end()
	// After a refusal the others still can go on, without what this one has changed.
	err := d.joined.DB.Exec("SAVEPOINT operation").Error
	if err == nil {
		if err = op.Do(w); err != nil {
			err = errors.Join(err, d.joined.DB.Exec("ROLLBACK TO SAVEPOINT operation").Error)
		}
		err = errors.Join(err, d.joined.DB.Exec("RELEASE SAVEPOINT operation").Error)
	}
	if op.report != nil && op.report.announced {
		d.joined.Announce()
	}
	return d.fail(op.Doing, canceled(ctx, err))
}

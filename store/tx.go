package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/provider"
)

const (
	// defaultTimeout ends a statement that gets no answer: a connection may be dead
	// for a quarter of an hour before TCP says so.
	defaultTimeout = 10 * time.Second
	// writerWait is how long to wait for the writers before.
	writerWait = 10 * time.Second
	txTries    = 4
)

// errWriterBusy is wrapped with account.ErrUnavailable.
var errWriterBusy = errors.New("too many writers before this one")

// conn is the database for one statement.
func (s *Store) conn(ctx context.Context) *gorm.DB { return s.db.WithContext(ctx) }

// operation is one that writes.
type operation struct {
	doing string
	do    func(w *statements) error // may run more than once
	// several means that do is more than one statement, so that it needs a transaction. On
	// SQLite it may be one with other operations.
	several bool
	alone   bool          // in a transaction of its own: it takes long
	limit   time.Duration // how long it may take; 0: until the end of its context
}

// run does the operation on a connection.
func (op operation) run(ctx context.Context, s *Store, on gorm.ConnPool) error {
	w := &statements{s: s, ctx: ctx, on: on}
	defer w.end()
	return op.do(w)
}

// statements are what an operation writes with: the connection that it has.
type statements struct {
	s   *Store
	ctx context.Context
	on  gorm.ConnPool

	limited context.Context // ctx with the time limit of a statement; nil: not needed yet
	cancel  context.CancelFunc
}

// end is called when the operation has ended.
func (w *statements) end() {
	if w.cancel != nil {
		w.cancel()
	}
}

// gorm is the connection for what is not written often. It sets a time limit: gorm's own
// (DefaultContextTimeout) is not canceled with the statement, and keeps all that ctx holds until it has passed.
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

// query is a statement for database/sql, whose parameters each dialect writes in its own way.
type query struct{ sqlite, postgres string }

// newQuery takes a statement with ? for its parameters, and what PostgreSQL has at its end.
func newQuery(text, postgres string) query { return query{text, numbered(text) + postgres} }

func (q query) text(dialect string) string {
	if dialect == Postgres {
		return q.postgres
	}
	return q.sqlite
}

// numbered is a statement with placeholders as PostgreSQL has them.
func numbered(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// exec runs a statement without gorm, which costs more than the statement itself, and counts
// the rows. The drivers keep it prepared. It logs and tells the observer what gorm would.
func (w *statements) exec(q query, args ...any) (n int64, err error) {
	text, begin := q.text(w.s.dialect), w.s.clock()
	res, err := w.on.ExecContext(w.ctx, text, args...)
	if err == nil {
		n, err = res.RowsAffected()
	}
	if err != nil || w.s.clock().Sub(begin) > slowStatement {
		w.s.db.Logger.Trace(w.ctx, begin, func() (string, int64) { return text, n }, canceled(w.ctx, err))
	}
	if w.s.ran != nil {
		w.s.ran(text, args...)
	}
	return n, err
}

// write does an operation in one transaction: an error of do undoes all of it. do may run
// more than once and must not keep what it read in an earlier run. It may take half as
// long again as a statement. On SQLite the transaction may be one with other operations:
// see writer.
func (s *Store) write(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	return s.writeMails(ctx, operation{doing: doing, several: true, limit: s.timeout + s.timeout/2}, do)
}

// writeAlone is write for what takes long: no other operation shares its transaction.
func (s *Store) writeAlone(ctx context.Context, doing string, limit time.Duration, do func(tx *gorm.DB) error) error {
	return s.writeMails(ctx, operation{doing: doing, several: true, alone: true, limit: limit}, do)
}

// writeOne is write for a single statement, which needs no transaction.
func (s *Store) writeOne(ctx context.Context, doing string, do func(db *gorm.DB) error) error {
	return s.perform(ctx, operation{doing: doing, do: func(w *statements) error { return do(w.gorm(w.ctx)) }})
}

func (s *Store) writeMails(ctx context.Context, op operation, do func(tx *gorm.DB) error) error {
	added := false
	op.do = func(w *statements) error {
		added = false
		ctx := w.ctx
		if _, ok := ctx.Deadline(); !ok { // it is shared
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, op.limit)
			defer cancel()
		}
		return do(w.gorm(ctx))
	}
	err := s.perform(context.WithValue(ctx, mailsAdded{}, &added), op)
	if err == nil && added {
		select {
		case s.mails <- struct{}{}:
		default: // it is known already
		}
	}
	return err
}

// perform does an operation.
func (s *Store) perform(ctx context.Context, op operation) error {
	if s.observer != nil {
		return s.observed(ctx, op)
	}
	return s.try(ctx, op)
}

func (s *Store) try(ctx context.Context, op operation) error {
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
			err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return op.run(ctx, s, tx.Statement.ConnPool) })
		} else {
			err = s.single(ctx, op)
		}
		if err == nil || try == txTries || !again(err) {
			return fail(op.doing, canceled(ctx, err))
		}
	}
}

// single does an operation that needs no transaction, within the time of a statement.
func (s *Store) single(ctx context.Context, op operation) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	return op.run(ctx, s, s.db.Statement.ConnPool)
}

// lockWriter waits until this process may write by other connections than that of the writer;
// the result lets the next one in and may be called more than once.
func (s *Store) lockWriter(ctx context.Context) (func(), error) {
	if s.writer == nil {
		return func() {}, nil
	}
	return s.writer.lock(ctx)
}

// refusals are the errors with a meaning that an operation can end with. Everything
// else is a failure of the database.
var refusals = []error{
	account.ErrUserNotFound, account.ErrSessionNotFound, account.ErrInviteNotFound, account.ErrAppNotFound, statuslist.ErrNotFound, account.ErrNotInitialized,
	account.ErrInvalidCredentials, account.ErrSecondFactorRequired, account.ErrFactorExists, account.ErrFactorNotFound, account.ErrSuspended, account.ErrInvalidInvite, account.ErrInvalidResetCode, account.ErrInvalidLink, account.ErrInvalidPreference,
	account.ErrHandleTaken, account.ErrInvalidCursor, account.ErrRegistrationFull, account.ErrInviteLimit, account.ErrInviteUsed, account.ErrLastAdmin,
	account.ErrEmailTaken, account.ErrFactorDemanded, account.ErrReauthenticationRequired,
	account.ErrPasskeyNotFound, account.ErrPasskeyExists, account.ErrPasskeyLimit, account.ErrNotAuthenticated,
	provider.ErrClientNotFound, provider.ErrClientExists, provider.ErrNotFound, provider.ErrSpent, provider.ErrAPINotFound, provider.ErrAPIExists, provider.ErrSecretOverlap,
	account.ErrUnavailable, // already wrapped
}

// fail wraps the error of an operation: a refusal keeps its meaning, the end that
// the caller has put to it is context.Canceled, anything else is
// account.ErrUnavailable, a deadline too. nil stays nil.
func fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, r := range refusals {
		if errors.Is(err, r) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	var broken *provider.RegistrationError
	if errors.Is(err, context.Canceled) || errors.As(err, &broken) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, account.ErrUnavailable, err)
}

// canceled adds context.Canceled to what a driver says after the caller has given
// up: that the transaction is over, or the database busy.
func canceled(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Canceled, err)
}

// expect is the error of a statement, or none when it changed or found nothing.
func expect(res *gorm.DB, none error) error {
	if res.Error != nil {
		return res.Error
	}
	if res.RowsAffected == 0 {
		return none
	}
	return nil
}

// again tells whether PostgreSQL gave a transaction up so that another could
// go on; it has had no effect and can be repeated.
func again(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01") // serialization_failure, deadlock_detected
}

// invalidKey tells whether a key cannot be in the database: empty, or what only one of
// the two databases would take. Such a key is not looked up.
func invalidKey(key string) bool {
	return key == "" || strings.ContainsRune(key, 0) || !utf8.ValidString(key)
}

// sanitize is a text without what PostgreSQL refuses: for remarks that must not
// make an operation fail.
func sanitize(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}

// now is the current Unix second.
func (s *Store) now() int64 { return s.clock().Unix() }

// toUnix is how a time is stored: Unix seconds, 0 for the zero time.
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

// maxRows is a page where the caller gives no size.
const maxRows = 1000

func pageSize(limit int) int {
	if limit <= 0 {
		return maxRows
	}
	return limit
}

// each is what f makes of each row, never nil.
func each[R, V any](rows []R, f func(R) V) []V {
	out := make([]V, len(rows))
	for i, r := range rows {
		out[i] = f(r)
	}
	return out
}

// columnsOf are the columns of the rows R, which a SELECT names instead of *: where a newer
// program adds a column, PostgreSQL refuses the prepared statement that returned all of
// them ("cached plan must not change result type").
func columnsOf[R any](table string) string {
	s, err := schema.Parse(new(R), &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(fmt.Sprintf("columns of %s: %v", table, err))
	}
	return table + "." + strings.Join(s.DBNames, ", "+table+".")
}

// repeated is a list of n times the same.
func repeated(one string, n int) string { return strings.Repeat(one+", ", n-1) + one }

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/cairn-id/cairn/account"
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

// lockWriter waits until this process may write; the result lets the next one
// in and may be called more than once.
func (s *Store) lockWriter(ctx context.Context) (func(), error) {
	if s.writer == nil {
		return func() {}, nil
	}
	select {
	case s.writer <- struct{}{}:
	default:
		t := time.NewTimer(writerWait)
		defer t.Stop()
		select {
		case s.writer <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for other writers: %w", ctx.Err())
		case <-t.C:
			return nil, errWriterBusy
		}
	}
	return sync.OnceFunc(func() { <-s.writer }), nil
}

// write does an operation in one transaction: an error of do undoes all of it. do may run
// more than once and must not keep what it read in an earlier run. It may take half as
// long again as a statement.
func (s *Store) write(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout+s.timeout/2)
	defer cancel()
	added := false
	err := s.writeOne(context.WithValue(ctx, mailsAdded{}, &added), doing, func(db *gorm.DB) error {
		added = false
		return db.Transaction(do)
	})
	if err == nil && added {
		select {
		case s.mails <- struct{}{}:
		default: // it is known already
		}
	}
	return err
}

// writeOne is write for a single statement, which needs no transaction.
func (s *Store) writeOne(ctx context.Context, doing string, do func(db *gorm.DB) error) error {
	if s.observer != nil {
		return s.observedWrite(ctx, doing, do)
	}
	return s.tryWrite(ctx, doing, do)
}

func (s *Store) tryWrite(ctx context.Context, doing string, do func(db *gorm.DB) error) error {
	unlock, err := s.lockWriter(ctx)
	if err != nil {
		return fail(doing, err)
	}
	defer unlock()
	for try := 1; ; try++ {
		err = do(s.db.WithContext(ctx))
		if err == nil || try == txTries || !again(err) {
			return fail(doing, canceled(ctx, err))
		}
	}
}

// refusals are the errors with a meaning that an operation can end with. Everything
// else is a failure of the database.
var refusals = []error{
	account.ErrUserNotFound, account.ErrSessionNotFound, account.ErrInviteNotFound, account.ErrAppNotFound, account.ErrStatusListNotFound, account.ErrNotInitialized,
	account.ErrInvalidCredentials, account.ErrSecondFactorRequired, account.ErrFactorExists, account.ErrFactorNotFound, account.ErrSuspended, account.ErrInvalidInvite, account.ErrInvalidResetCode, account.ErrInvalidLink, account.ErrInvalidPreference,
	account.ErrHandleTaken, account.ErrInvalidCursor, account.ErrRegistrationFull, account.ErrInviteLimit, account.ErrInviteUsed, account.ErrLastAdmin,
	account.ErrPasskeyNotFound, account.ErrPasskeyExists, account.ErrPasskeyLimit, account.ErrNotAuthenticated,
	provider.ErrClientNotFound, provider.ErrClientExists, provider.ErrNotFound, provider.ErrSpent,
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
	if errors.Is(err, context.Canceled) {
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

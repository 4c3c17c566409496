package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

const (
	// defaultTimeout ends a statement that nobody answers: a connection may be dead
	// for a quarter of an hour before TCP says so.
	defaultTimeout = 10 * time.Second
	// writerWait is how long to wait for the writers before.
	writerWait = 10 * time.Second
	txTries    = 4
)

// txTimeout ends a transaction whoever forgot it: a panic between BeginTX and
// Commit must not keep the others from writing.
func (s *Store) txTimeout() time.Duration { return s.timeout + s.timeout/2 }

// errWriterBusy is wrapped with account.ErrUnavailable.
var errWriterBusy = errors.New("too many writers before this one")

// transaction is one opened by BeginTX, carried in the context.
type transaction struct {
	db   *gorm.DB
	end  func() // idempotent: lets the next writer in
	mu   sync.Mutex
	done bool
}

type transactionKey struct{}

func transactionFrom(ctx context.Context) *transaction {
	t, _ := ctx.Value(transactionKey{}).(*transaction)
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return nil
	}
	return t
}

// conn is the transaction of the context, or the database.
func (s *Store) conn(ctx context.Context) *gorm.DB {
	if t := transactionFrom(ctx); t != nil {
		return t.db.WithContext(ctx)
	}
	return s.db.WithContext(ctx)
}

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

// write does a deed in one transaction (or in that of the context): do's error
// undoes all of it. do may run more than once and must not keep what it read
// in an earlier run.
func (s *Store) write(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	if t := transactionFrom(ctx); t != nil {
		return fail(doing, do(t.db.WithContext(ctx)))
	}
	ctx, cancel := context.WithTimeout(ctx, s.txTimeout())
	defer cancel()
	unlock, err := s.lockWriter(ctx)
	if err != nil {
		return fail(doing, err)
	}
	defer unlock()
	for try := 1; ; try++ {
		err = s.db.WithContext(ctx).Transaction(do)
		if err == nil || try == txTries || !again(err) {
			return fail(doing, canceled(ctx, err))
		}
	}
}

// writeOne is write for a single statement, which needs no transaction.
func (s *Store) writeOne(ctx context.Context, doing string, do func(db *gorm.DB) error) error {
	if t := transactionFrom(ctx); t != nil {
		return fail(doing, do(t.db.WithContext(ctx)))
	}
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

// BeginTX implements storage.Transactional of fosite: what is done with the
// returned context is undone unless Commit follows. The end of ctx rolls back.
func (s *Store) BeginTX(ctx context.Context) (context.Context, error) {
	if transactionFrom(ctx) != nil {
		return nil, fmt.Errorf("begin transaction: %w: one is open already", account.ErrUnavailable)
	}
	unlock, err := s.lockWriter(ctx)
	if err != nil {
		return nil, fail("begin transaction", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.txTimeout())
	db := s.db.WithContext(ctx).Begin()
	if db.Error != nil {
		cancel()
		unlock()
		return nil, fail("begin transaction", canceled(ctx, db.Error))
	}
	t := &transaction{db: db}
	// database/sql rolls back when ctx ends; the next writer comes in by itself.
	stop := context.AfterFunc(ctx, unlock)
	t.end = func() {
		stop()
		unlock()
		cancel()
	}
	return context.WithValue(ctx, transactionKey{}, t), nil
}

// Commit implements storage.Transactional.
func (s *Store) Commit(ctx context.Context) error {
	t := transactionFrom(ctx)
	if t == nil {
		return fmt.Errorf("commit: %w: no open transaction", account.ErrUnavailable)
	}
	return fail("commit", canceled(ctx, t.finish(t.db.Commit)))
}

// Rollback implements storage.Transactional. Nothing left to undo is no error:
// fosite rolls back after a failed Commit too.
func (s *Store) Rollback(ctx context.Context) error {
	t := transactionFrom(ctx)
	if t == nil {
		return nil
	}
	if err := t.finish(t.db.Rollback); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fail("roll back", err)
	}
	return nil
}

func (t *transaction) finish(how func() *gorm.DB) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	defer t.end()
	return how().Error
}

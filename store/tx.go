package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"
)

const (
	// defaultTimeout ends a statement that nobody answers: a connection may be dead
	// for a quarter of an hour before TCP says so.
	defaultTimeout = 10 * time.Second
	// writerWait is how long to wait for the writers before.
	writerWait = 10 * time.Second
	txTries    = 4
)

// txTimeout is how long a transaction may take.
func (s *Store) txTimeout() time.Duration { return s.timeout + s.timeout/2 }

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

// write does an operation in one transaction: do's error undoes all of it. do may run more than once and must not keep what it read
// in an earlier run.
func (s *Store) write(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
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

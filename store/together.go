package store

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-id/cairn/account"
)

// togetherTimeout bounds a transaction of Together.
const togetherTimeout = time.Minute

// Together calls do with a Store whose operations are one transaction: an error of do undoes all of
// them. Other calls of Together wait, in every process, and see the result; do may run more than
// once. Within it a removed client is only unknown: its data is deleted after the commit.
func (s *Store) Together(ctx context.Context, doing string, do func(*Store) error) error {
	var swept int64
	if err := s.sweepClients(ctx, &swept); err != nil { // not in the transaction: it may be a lot
		return err
	}
	var refused error // of do: not a failure of the database
	err := s.writeAlone(ctx, doing, togetherTimeout, func(tx *transaction) error {
		refused = nil
		// The row of the settings serves as the lock.
		if err := expect(tx.Exec("UPDATE settings SET value = value WHERE id = 1"), account.ErrNotInitialized); err != nil {
			return err
		}
		refused = do(&Store{
			db: tx.DB, pool: s.pool, dialect: s.dialect, dsn: s.dsn, file: s.file, log: s.log, clock: s.clock,
			timeout: s.timeout, ran: s.ran, writer: s.writer, dataKey: s.dataKey, mails: make(chan struct{}, 1), joined: tx,
		})
		return refused
	})
	if refused != nil && !errors.Is(refused, account.ErrUnavailable) {
		return refused
	}
	if err != nil {
		return err
	}
	return s.sweepClients(ctx, &swept)
}

// join runs an operation in the transaction of Together.
func (s *Store) join(ctx context.Context, op operation) error {
	w := &statements{s: s, ctx: ctx, on: s.joined.hot.on}
	defer w.end()
	// After a refusal the others still can go on, without what this one has changed.
	err := s.joined.Exec("SAVEPOINT operation").Error
	if err == nil {
		if err = op.do(w); err != nil {
			err = errors.Join(err, s.joined.Exec("ROLLBACK TO SAVEPOINT operation").Error)
		}
		err = errors.Join(err, s.joined.Exec("RELEASE SAVEPOINT operation").Error)
	}
	if op.report != nil && op.report.mails {
		s.joined.report.mails = true
	}
	return fail(op.doing, canceled(ctx, err))
}

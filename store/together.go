package store

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
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
	err := engine.Together(ctx, s.DB, doing, togetherTimeout, func(tx *engine.Tx, in *engine.DB) {
		refused = nil
		// The row of the settings serves as the lock.
		tx.Expect(tx.Exec("UPDATE settings SET value = value WHERE id = 1"), account.ErrNotInitialized)
		if !tx.Failed() {
			refused = do(&Store{DB: in, sealer: s.sealer, within: true})
			tx.Refuse(refused)
		}
	})
	if refused != nil && !errors.Is(refused, account.ErrUnavailable) {
		return refused
	}
	if err != nil {
		return err
	}
	return s.sweepClients(ctx, &swept)
}

// AllOrNone implements account.Store.
func (s *Store) AllOrNone(ctx context.Context, doing string, do func(account.Store) error) error {
	return s.Together(ctx, doing, func(in *Store) error { return do(in) })
}

package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/provider"
)

// Exec lets a test age or damage what no exported method can, and fill tables for as
// long as that takes.
func (s *Store) Exec(query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	return s.db.WithContext(ctx).Exec(query, args...).Error
}

// Count is the single number that a query returns.
func (s *Store) Count(query string, args ...any) (n int64, err error) {
	return n, s.db.Raw(query, args...).Find(&n).Error
}

// ListCapacity is how many indices of a status list are given out.
const ListCapacity = listCapacity

// AddTokens stores tokens of a grant without a code being spent for them.
func (s *Store) AddTokens(ctx context.Context, grantID string, issued ...provider.Token) error {
	return s.write(ctx, "add tokens", func(tx *gorm.DB) error { return s.insertTokens(tx, grantID, issued) })
}

// Begin opens a transaction that stays open: what is done in the returned store is
// undone unless end commits it. Nobody else of this process writes meanwhile on SQLite.
func (s *Store) Begin(ctx context.Context) (in *Store, end func(commit bool) error, err error) {
	unlock, err := s.lockWriter(ctx)
	if err != nil {
		return nil, nil, fail("begin", err)
	}
	tx := s.db.WithContext(ctx).Begin()
	if tx.Error != nil {
		unlock()
		return nil, nil, fail("begin", canceled(ctx, tx.Error))
	}
	in = &Store{db: tx, pool: s.pool, dialect: s.dialect, dsn: s.dsn, log: s.log, clock: s.clock, timeout: s.timeout}
	return in, func(commit bool) error {
		defer unlock()
		if commit {
			return tx.Commit().Error
		}
		return tx.Rollback().Error
	}, nil
}

package store

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// outbox is a table of messages to send, which several instances share. A row is due from next_at
// on; leased_until keeps the other instances from a row that one of them is sending. If that
// instance ends, the row is due again after its lease.
type outbox struct {
	table   string
	columns string // to read, with the id
	rows    string // their name in errors
	free    string // a further condition on rows that are due, or ""
}

// leaseDue leases at most limit due rows, in no order. Concurrent callers skip them.
func leaseDue[T any](ctx context.Context, s *Store, o outbox, now time.Time, lease time.Duration, limit int) ([]T,
	error) {
	if limit <= 0 {
		return nil, nil
	}
	// Mostly nothing is due, and checking that needs no write lock.
	isDue := "next_at <= ? AND leased_until <= ?" + o.free
	var due int64
	err := s.conn(ctx).Raw("SELECT count(*) FROM (SELECT 1 FROM "+o.table+" WHERE "+isDue+" LIMIT 1) due",
		toUnix(now), toUnix(now)).Find(&due).Error
	if err != nil || due == 0 {
		return nil, fail("look for "+o.rows, err)
	}
	others := ""
	if s.dialect == Postgres {
		others = " FOR UPDATE SKIP LOCKED"
	}
	var rows []T
	err = s.writeOne(ctx, "lease "+o.rows, func(db *gorm.DB) error {
		rows = nil
		return db.Raw("WITH due AS (SELECT id FROM "+o.table+" WHERE "+isDue+" ORDER BY next_at, id LIMIT ?"+others+`)
			UPDATE `+o.table+" SET leased_until = ? WHERE id IN (SELECT id FROM due) RETURNING "+o.columns,
			toUnix(now), toUnix(now), limit, toUnix(now.Add(lease))).Find(&rows).Error
	})
	return rows, err
}

// remove deletes a row, if it still exists.
func (o outbox) remove(ctx context.Context, s *Store, id int64) error {
	return s.writeOne(ctx, "remove from "+o.rows,
		func(db *gorm.DB) error { return db.Exec("DELETE FROM "+o.table+" WHERE id = ?", id).Error })
}

// retryAt counts a failure and ends the lease; the row is due again at next.
func (o outbox) retryAt(ctx context.Context, s *Store, id int64, next time.Time) error {
	return s.writeOne(ctx, "put off "+o.rows, func(db *gorm.DB) error {
		const set = " SET attempts = attempts + 1, next_at = ?, leased_until = 0 WHERE id = ?"
		return db.Exec("UPDATE "+o.table+set, toUnix(next), id).Error
	})
}

package engine

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// Outbox is a table of messages to send, which several instances share. A row is due from next_at
// on; leased_until keeps the other instances from a row that one of them is sending. If that
// instance ends, the row is due again after its lease.
type Outbox struct {
	Table   string
	Columns string // to read, with the id
	Rows    string // their name in errors
	Free    string // a further condition on rows that are due at @now, or ""
}

// LeaseDue leases at most limit due rows, in no order. Concurrent callers skip them.
func LeaseDue[T any](
	ctx context.Context, d *DB, o Outbox, now time.Time, lease time.Duration, limit int,
) ([]T, error) {
	if limit <= 0 {
		return nil, nil
	}
	// Mostly nothing is due, and checking that needs no write lock.
	isDue := "next_at <= @now AND leased_until <= @now" + o.Free
	args := map[string]any{"now": ToUnix(now), "until": ToUnix(now.Add(lease)), "limit": limit}
	var due int64
	err := Conn(ctx, d).Raw("SELECT count(*) FROM (SELECT 1 FROM "+o.Table+" WHERE "+isDue+" LIMIT 1) due",
		args).Find(&due).Error
	if err != nil || due == 0 {
		return nil, d.fail("look for "+o.Rows, err)
	}
	others := ""
	if d.dialect == Postgres {
		others = " FOR UPDATE SKIP LOCKED"
	}
	var rows []T
	err = WriteOne(ctx, d, "lease "+o.Rows, func(db *gorm.DB) error {
		rows = nil
		return db.Raw("WITH due AS (SELECT id FROM "+o.Table+" WHERE "+isDue+" ORDER BY next_at, id LIMIT @limit"+
			others+") UPDATE "+o.Table+" SET leased_until = @until WHERE id IN (SELECT id FROM due) RETURNING "+
			o.Columns, args).Find(&rows).Error
	})
	return rows, err
}

// Remove deletes a row, if it still exists.
func (o Outbox) Remove(ctx context.Context, d *DB, id int64) error {
	return WriteOne(ctx, d, "remove from "+o.Rows,
		func(db *gorm.DB) error { return db.Exec("DELETE FROM "+o.Table+" WHERE id = ?", id).Error })
}

// RetryAt counts a failure and ends the lease; the row is due again at next.
func (o Outbox) RetryAt(ctx context.Context, d *DB, id int64, next time.Time) error {
	return WriteOne(ctx, d, "put off "+o.Rows, func(db *gorm.DB) error {
		const set = " SET attempts = attempts + 1, next_at = ?, leased_until = 0 WHERE id = ?"
		return db.Exec("UPDATE "+o.Table+set, ToUnix(next), id).Error
	})
}

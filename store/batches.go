package store

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// How many rows a batch has. It follows the time that batches take here, so that on
// a slow disk too nobody waits long for one.
const (
	firstBatch   = 200
	largestBatch = 500 // also within what one statement of SQLite may name
	smallBatch   = 10
	batchTime    = 10 * time.Millisecond
	shortestRest = time.Millisecond
	longestRest  = time.Second
)

// batch is one of many writes of a long work.
type batch struct {
	ctx   context.Context
	store *Store
	doing string
	rows  int           // how many to do
	held  time.Duration // how long others had to wait at most
}

// write is one transaction of the batch. do may run more than once.
func (b *batch) write(do func(tx *gorm.DB) error) error {
	var begin time.Time
	err := b.store.write(b.ctx, b.doing, func(tx *gorm.DB) error {
		begin = b.store.clock() // the writers before this one have ended
		return do(tx)
	})
	if err == nil {
		b.held = max(b.held, b.store.clock().Sub(begin))
	}
	return err
}

// delete is write for a statement that deletes; it counts the rows.
func (b *batch) delete(count *int64, query string, args ...any) error {
	var n int64
	err := b.write(func(tx *gorm.DB) error {
		res := tx.Exec(query, args...)
		n = res.RowsAffected
		return res.Error
	})
	if err == nil {
		*count += n
	}
	return err
}

// batches calls do until it says that there is no more. Between two batches it rests
// as long as the one before has kept others from writing: those of this process stand
// in a queue, and those of others, which try again and again, find it open.
func (s *Store) batches(ctx context.Context, doing string, do func(b *batch) (more bool, err error)) error {
	for rows := firstBatch; ; {
		b := &batch{ctx: ctx, store: s, doing: doing, rows: rows}
		more, err := do(b)
		if err != nil || !more {
			return err
		}
		switch {
		case b.held > batchTime:
			rows = max(rows/2, smallBatch)
		case b.held < batchTime/2:
			rows = min(rows*2, largestBatch)
		}
		if b.held == 0 {
			continue // nothing was written
		}
		t := time.NewTimer(min(max(b.held, shortestRest), longestRest))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fail(doing, ctx.Err())
		}
	}
}

// hurriedBatches is batches for when nobody else writes yet.
func (s *Store) hurriedBatches(ctx context.Context, doing string, do func(b *batch) (more bool, err error)) error {
	const rows = 2000
	for {
		if more, err := do(&batch{ctx: ctx, store: s, doing: doing, rows: rows}); err != nil || !more {
			return err
		}
	}
}

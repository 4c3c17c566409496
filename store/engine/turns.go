package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorm.io/gorm"
)

// turnLease is how long a turn outlives a killed process. It is renewed three times as often.
// Instances compare it by their own clocks: if these differ by more than twenty seconds, one may
// take another's turn, which then stops within ten.
const turnLease = 30 * time.Second

// ClockTolerance is how far the clocks of instances may differ. What is later was written by a clock that was
// ahead.
const ClockTolerance = 5 * time.Minute

var errTurnLost = errors.New("another instance has taken the turn")

// A Turn is the right to do a piece of background work, which only one instance has at a time. The
// zero value is no turn.
type Turn struct {
	name  string
	until int64 // Unix seconds; also distinguishes this turn from a later one
}

// InTurn calls do for the named work, unless another instance does it or it was done less than
// every ago. detail describes the result. The lease is renewed while do runs: if another instance
// takes the turn nevertheless, the context of do ends. After an error the next caller tries again.
func (d *DB) InTurn(ctx context.Context, name string, every time.Duration,
	do func(ctx context.Context, now time.Time) (detail string, err error),
) error {
	now := d.clock().UTC()
	turn, ok, err := d.TakeTurn(ctx, name, now, every, turnLease)
	if err != nil || !ok {
		return err
	}
	last, _, err := d.LastTurn(ctx, name)
	if err != nil {
		return errors.Join(err, d.EndTurn(context.WithoutCancel(ctx), turn, time.Time{}, ""))
	}
	if last.After(now.Add(ClockTolerance)) {
		d.log.WarnContext(ctx, "work was noted for a time that has not come: a clock was ahead then, or is behind now",
			"work", name, "noted", last, "now", now)
	}
	working, stop := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { stop(d.renewUntil(working, &turn)) })
	detail, err := do(working, now)
	stop(nil)
	renewing.Wait()
	done := now
	if err != nil {
		done = time.Time{}
		if errors.Is(context.Cause(working), errTurnLost) {
			err = fmt.Errorf("%s: %w", name, errTurnLost)
		}
	}
	return errors.Join(err, d.EndTurn(context.WithoutCancel(ctx), turn, done, detail))
}

// renewUntil renews the lease of a turn until the context ends, or returns errTurnLost. While the
// database does not answer, nobody else can take the turn either.
func (d *DB) renewUntil(ctx context.Context, t *Turn) error {
	tick := time.NewTicker(turnLease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		until, renewed := ToUnix(d.clock().Add(turnLease)), int64(0)
		// Without cancellation, or a committed renewal might go unnoticed.
		err := WriteOne(context.WithoutCancel(ctx), d, "renew the turn of "+t.name, func(db *gorm.DB) error {
			res := db.Exec("UPDATE turns SET leased_until = ? WHERE name = ? AND leased_until = ?",
				until, t.name, t.until)
			renewed = res.RowsAffected
			return res.Error
		})
		switch {
		case err == nil && renewed == 0:
			return errTurnLost
		case err == nil:
			t.until = until
		}
	}
}

// TakeTurn takes the turn for the named work, unless another instance has it or the work was done
// less than every ago. A lease or work of a later time than that, by a clock that was ahead, does not count.
// Without EndTurn, after a crash, the turn ends with its lease. A turn that
// outlasts its lease is lost to the next caller: see InTurn.
func (d *DB) TakeTurn(
	ctx context.Context, name string, now time.Time, every, lease time.Duration,
) (turn Turn, ok bool, err error) {
	t := Turn{name: name, until: ToUnix(now.Add(lease))}
	err = WriteOne(ctx, d, "take the turn of "+name, func(db *gorm.DB) error {
		taken := db.Exec(`INSERT INTO turns (name, leased_until) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET leased_until = excluded.leased_until
			WHERE (turns.leased_until <= ? OR turns.leased_until > ?) AND (turns.done_at <= ? OR turns.done_at > ?)`,
			name, t.until, ToUnix(now), ToUnix(now.Add(lease+ClockTolerance)),
			ToUnix(now.Add(-every)), ToUnix(now.Add(ClockTolerance)))
		ok = taken.RowsAffected == 1
		return taken.Error
	})
	if err != nil || !ok {
		return Turn{}, false, err
	}
	return t, true, nil
}

// EndTurn returns the turn. done is when the work was done, zero if the next caller should try
// again; detail describes the result. Ending a lost turn changes nothing.
func (d *DB) EndTurn(ctx context.Context, t Turn, done time.Time, detail string) error {
	return WriteOne(ctx, d, "end the turn of "+t.name, func(db *gorm.DB) error {
		if done.IsZero() {
			return db.Exec(`UPDATE turns SET leased_until = 0
				WHERE name = ? AND leased_until = ?`, t.name, t.until).Error
		}
		return db.Exec(`UPDATE turns SET leased_until = 0, done_at = ?, detail = ?
			WHERE name = ? AND leased_until = ?`,
			ToUnix(done), Sanitize(detail), t.name, t.until).Error
	})
}

// LastTurn returns when the named work was last done, zero if never, and its result.
func (d *DB) LastTurn(ctx context.Context, name string) (done time.Time, detail string, err error) {
	var row struct {
		DoneAt int64
		Detail string
	}
	err = Conn(ctx, d).Raw("SELECT done_at, detail FROM turns WHERE name = ?", name).Find(&row).Error
	return FromUnix(row.DoneAt), row.Detail, d.fail("read the last turn of "+name, err)
}

// NoteDone records work that was done without a turn.
func (d *DB) NoteDone(ctx context.Context, name string, done time.Time, detail string) error {
	return WriteOne(ctx, d, "note that "+name+" was done", func(db *gorm.DB) error {
		return db.Exec(`INSERT INTO turns (name, done_at, detail) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at, detail = excluded.detail`,
			name, ToUnix(done), Sanitize(detail)).Error
	})
}

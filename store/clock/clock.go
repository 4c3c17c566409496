// Package clock decides whether a process trusts the clock of its machine with what cannot be undone. It reads when
// something was last written, and knows nothing else of what is stored.
package clock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

const (
	// wait is how long what cannot be undone waits for somebody who looks at the clock.
	wait = time.Hour
	// maxJump is how far the wall clock may move against the monotonic one.
	maxJump = 24 * time.Hour
	// maxGap is the longest gap between the last row and a start: a small club may be silent for weeks.
	maxGap = 30 * 24 * time.Hour
)

// turn is the turn with the end and, in its detail, the reason of the last wait.
const turn = "clock"

// Watch watches the clock of a process.
type Watch struct {
	uptime func() time.Duration // monotonic

	mu    sync.Mutex
	seen  bool
	at    time.Time     // of the last look
	up    time.Duration // of the last look
	until time.Duration // of uptime: what cannot be undone waits until then
}

// NewWatch returns a Watch that compares with a clock that nobody sets; nil means time.Now.
func NewWatch(monotonic func() time.Time) *Watch {
	if monotonic == nil {
		monotonic = time.Now
	}
	begin := monotonic()
	return &Watch{uptime: func() time.Duration { return monotonic().Sub(begin) }}
}

// Settled is account.EndStore.ClockSettled.
func (w *Watch) Settled(ctx context.Context, d *engine.DB) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, up := d.Time().UTC().Truncate(time.Second), w.uptime()
	why := ""
	if w.seen {
		if jump := now.Sub(w.at) - (up - w.up); jump.Abs() > maxJump {
			why = fmt.Sprintf("the clock jumped by %s to %s", jump.Round(time.Second), now.Format(time.RFC3339))
		}
	} else {
		until, _, err := Wait(ctx, d)
		if err != nil {
			return false, err
		}
		last, err := lastRow(ctx, d, now)
		switch {
		case err != nil:
			return false, err
		case !until.IsZero(): // of a process before this one
			w.until = up + until.Sub(now)
		case !last.IsZero() && now.Sub(last) > maxGap:
			why = fmt.Sprintf("the clock says %s, and nothing was written since %s",
				now.Format(time.RFC3339), last.Format(time.RFC3339))
		}
	}
	if why != "" {
		until := now.Add(wait)
		if err := d.NoteDone(ctx, turn, until, why); err != nil {
			return false, err
		}
		d.Log().WarnContext(ctx, "expired rows stay and ends of memberships wait for an hour: is the clock right?",
			slog.String("reason", why), slog.Time("until", until))
		w.until = up + wait
	}
	w.seen, w.at, w.up = true, now, up
	return up >= w.until, nil
}

// Wait returns until when and why what cannot be undone waits, zero if it does not: see Watch.Settled.
func Wait(ctx context.Context, d *engine.DB) (until time.Time, why string, err error) {
	until, why, err = d.LastTurn(ctx, turn)
	if now := d.Time(); err != nil || !until.After(now) || until.After(now.Add(wait+engine.ClockTolerance)) {
		return time.Time{}, "", err
	}
	return until, why, nil
}

// lastRow returns when something was last written by a clock that was not ahead of now, zero: never.
func lastRow(ctx context.Context, d *engine.DB, now time.Time) (time.Time, error) {
	var last int64
	err := engine.Conn(ctx, d).Raw(`SELECT coalesce(max(at), 0) FROM (
		SELECT max(at) AS at FROM audit WHERE at <= @now
		UNION ALL SELECT max(done_at) FROM turns WHERE done_at <= @now) rows_before`,
		map[string]any{"now": engine.ToUnix(now)}).Find(&last).Error
	return engine.FromUnix(last), engine.Fail("find the last row", err, account.ErrUnavailable)
}

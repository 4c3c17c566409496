package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-id/cairn/store/engine"
)

const (
	// clockWait is how long what cannot be undone waits for somebody who looks at the clock.
	clockWait = time.Hour
	// clockJump is how far the wall clock may move against the monotonic one.
	clockJump = 24 * time.Hour
	// clockGap is the longest gap between the last row and a start: a small club may be silent for weeks.
	clockGap = 30 * 24 * time.Hour
)

// turnClock is the turn with the end and, in its detail, the reason of the last wait.
const turnClock = "clock"

// clockWatch watches the clock of a process.
type clockWatch struct {
	uptime func() time.Duration // monotonic

	mu    sync.Mutex
	seen  bool
	at    time.Time     // of the last look
	up    time.Duration // of the last look
	until time.Duration // of uptime: what cannot be undone waits until then
}

// ClockSettled implements account.EndStore.
func (s *Store) ClockSettled(ctx context.Context) (bool, error) {
	w := s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	now, up := s.Time().UTC().Truncate(time.Second), w.uptime()
	why := ""
	if w.seen {
		if jump := now.Sub(w.at) - (up - w.up); jump.Abs() > clockJump {
			why = fmt.Sprintf("the clock jumped by %s to %s", jump.Round(time.Second), now.Format(time.RFC3339))
		}
	} else {
		until, _, err := s.ClockWait(ctx)
		if err != nil {
			return false, err
		}
		last, err := s.lastRow(ctx, now)
		switch {
		case err != nil:
			return false, err
		case !until.IsZero(): // of a process before this one
			w.until = up + until.Sub(now)
		case !last.IsZero() && now.Sub(last) > clockGap:
			why = fmt.Sprintf("the clock says %s, and nothing was written since %s",
				now.Format(time.RFC3339), last.Format(time.RFC3339))
		}
	}
	if why != "" {
		until := now.Add(clockWait)
		if err := s.NoteDone(ctx, turnClock, until, why); err != nil {
			return false, err
		}
		s.Log().WarnContext(ctx, "expired rows stay and ends of memberships wait for an hour: is the clock right?",
			slog.String("reason", why), slog.Time("until", until))
		w.until = up + clockWait
	}
	w.seen, w.at, w.up = true, now, up
	return up >= w.until, nil
}

// ClockWait returns until when and why what cannot be undone waits, zero if it does not: see ClockSettled.
func (s *Store) ClockWait(ctx context.Context) (until time.Time, why string, err error) {
	until, why, err = s.LastTurn(ctx, turnClock)
	if now := s.Time(); err != nil || !until.After(now) || until.After(now.Add(clockWait+engine.ClockTolerance)) {
		return time.Time{}, "", err
	}
	return until, why, nil
}

// lastRow returns when something was last written by a clock that was not ahead of now, zero: never.
func (s *Store) lastRow(ctx context.Context, now time.Time) (time.Time, error) {
	var last int64
	err := s.conn(ctx).Raw(`SELECT coalesce(max(at), 0) FROM (
		SELECT max(at) AS at FROM audit WHERE at <= @now
		UNION ALL SELECT max(done_at) FROM turns WHERE done_at <= @now) rows_before`,
		map[string]any{"now": toUnix(now)}).Find(&last).Error
	return fromUnix(last), fail("find the last row", err)
}

// returnOutboxes makes messages due that a clock that was ahead put off: the longest wait for another try
// is shorter than noticeMemory.
func (s *Store) returnOutboxes(ctx context.Context, now time.Time) error {
	args := map[string]any{"now": toUnix(now), "ahead": toUnix(now.Add(noticeMemory))}
	for _, table := range []string{"mail_outbox", "logout_outbox"} {
		for _, future := range []string{"next_at > @ahead", "next_at <= @now AND leased_until > @ahead"} {
			var found []int
			err := s.conn(ctx).Raw("SELECT 1 FROM "+table+" WHERE "+future+" LIMIT 1", args).Find(&found).Error
			if err == nil && len(found) > 0 {
				err = s.write(ctx, "send what was put off", func(tx *engine.Tx) {
					tx.Exec("UPDATE "+table+" SET next_at = @now, leased_until = 0, created_at = CASE "+
						"WHEN created_at > @now THEN @now ELSE created_at END WHERE "+future, args)
				})
			}
			if err != nil {
				return fail("look for messages of the future", err)
			}
		}
	}
	return nil
}

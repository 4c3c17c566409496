package store

import (
	"context"
	"crypto/sha256"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account/web"
)

// rateTimeout bounds each statement of a counter.
const rateTimeout = 3 * time.Second

// Counters counts in the database, for several instances that share it. Keys are stored as hashes:
// they are addresses, or text typed as a handle.
func (s *Store) Counters() web.Counters { return rateCounters{s} }

type rateCounters struct{ store *Store }

// takeEvent adds an event to the row of its window if the rule of web.Rate allows it. The row is
// locked before the rule is applied, so no other process counts meanwhile. An event that is still
// undecided at its deadline counts.
const (
	takeEvent = `INSERT INTO rate_counters (name, key_hash, started_at, hits, undecided, undecided_until, expires_at)
		SELECT @name, @key, CAST(@start AS BIGINT), 1, CAST(@undecided AS BIGINT), CAST(@until AS BIGINT),
		CAST(@expires AS BIGINT)
		WHERE 2 * ` + weightBefore + ` < @most
		ON CONFLICT (name, key_hash, started_at) DO UPDATE SET hits = rate_counters.hits + 1,
			undecided = excluded.undecided
				+ CASE WHEN rate_counters.undecided_until > @now THEN rate_counters.undecided ELSE 0 END,
			undecided_until = CASE WHEN excluded.undecided > 0 THEN excluded.undecided_until
				ELSE rate_counters.undecided_until END
		WHERE 2 * (` + weightBefore + ` + rate_counters.hits * @window) < @most`
	weightBefore = `coalesce((SELECT b.hits FROM rate_counters b
		WHERE b.name = @name AND b.key_hash = @key AND b.started_at = @before), 0) * @left`
)

// Take implements web.Counters.
func (c rateCounters) Take(
	ctx context.Context, of web.Counter, now time.Time, undecided bool,
) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, rateTimeout)
	defer cancel()
	start, passed := of.Rate.Fixed(now)
	seconds, window := int64(of.Rate.Window/time.Second), of.Rate.Window.Milliseconds()
	args := map[string]any{
		"name": of.Name, "key": rateKey(of.Key), "start": start, "before": start - seconds,
		"undecided": 0, "until": 0, "now": now.Unix(),
		"left": window - passed, "window": window, "most": int64(2*of.Rate.Count-1) * window,
		"expires": start + 2*seconds + 1, // a count matters in its own window and in the next
	}
	if undecided {
		args["undecided"], args["until"] = 1, now.Add(web.UndecidedTime).Unix()
	}
	err = c.store.writeOne(ctx, "count", func(db *gorm.DB) error {
		res := db.Exec(takeEvent, args)
		taken = res.RowsAffected == 1
		return res.Error
	})
	return taken, err
}

// Settle implements web.Counters.
func (c rateCounters) Settle(ctx context.Context, of web.Counter, taken time.Time, counts bool) error {
	ctx, cancel := context.WithTimeout(ctx, rateTimeout)
	defer cancel()
	start, _ := of.Rate.Fixed(taken)
	uncounted := 1
	if counts {
		uncounted = 0
	}
	return c.store.writeOne(ctx, "settle count", func(db *gorm.DB) error {
		return db.Exec(`UPDATE rate_counters
			SET hits = hits - ?, undecided = CASE WHEN undecided > 0 THEN undecided - 1 ELSE 0 END
			WHERE name = ? AND key_hash = ? AND started_at = ? AND hits > 0`,
			uncounted, of.Name, rateKey(of.Key), start).Error
	})
}

// Counts implements web.Counters.
func (c rateCounters) Counts(ctx context.Context, of web.Counter, now time.Time) (out web.Counts, err error) {
	ctx, cancel := context.WithTimeout(ctx, rateTimeout)
	defer cancel()
	start, _ := of.Rate.Fixed(now)
	var rows []struct {
		StartedAt int64
		Hits      int
		Undecided int
	}
	err = c.store.conn(ctx).Raw(`SELECT started_at, hits,
		CASE WHEN undecided_until > ? THEN undecided ELSE 0 END AS undecided
		FROM rate_counters WHERE name = ? AND key_hash = ? AND started_at IN (?, ?)`,
		now.Unix(), of.Name, rateKey(of.Key), start, start-int64(of.Rate.Window/time.Second)).Find(&rows).Error
	for _, r := range rows {
		tally := web.Tally{Events: r.Hits, Undecided: r.Undecided}
		if r.StartedAt == start {
			out.Current = tally
		} else {
			out.Previous = tally
		}
	}
	return out, fail("read count", err)
}

func rateKey(key string) []byte {
	h := sha256.Sum256([]byte(key))
	return h[:]
}

package store

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/go-chi/httprate"
	"gorm.io/gorm"
)

// rateTimeout bounds a look at a counter, whose interface has no context.
const rateTimeout = 3 * time.Second

// RateCounter counts in the database, for several instances that share it.
// Keys are kept hashed: they are addresses, or whatever was typed as a handle.
func (s *Store) RateCounter(name string, window time.Duration) httprate.LimitCounter {
	return &rateCounter{store: s, name: name, window: window}
}

type rateCounter struct {
	store  *Store
	name   string
	window time.Duration
}

// Config implements httprate.LimitCounter; the window is known.
func (c *rateCounter) Config(int, time.Duration) {}

// Increment implements httprate.LimitCounter.
func (c *rateCounter) Increment(key string, window time.Time) error {
	return c.IncrementBy(key, window, 1)
}

// IncrementBy implements httprate.LimitCounter.
func (c *rateCounter) IncrementBy(key string, window time.Time, amount int) error {
	ctx, cancel := context.WithTimeout(context.Background(), rateTimeout)
	defer cancel()
	// A count matters in its own window and in the next.
	over := window.Add(2*c.window + time.Second)
	return c.store.writeOne(ctx, "count", func(db *gorm.DB) error {
		return db.Exec(`INSERT INTO rate_counters (name, key_hash, started_at, hits, expires_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (name, key_hash, started_at) DO UPDATE SET hits = rate_counters.hits + excluded.hits`,
			c.name, rateKey(key), window.Unix(), amount, over.Unix()).Error
	})
}

// Get implements httprate.LimitCounter.
func (c *rateCounter) Get(key string, current, previous time.Time) (now, before int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), rateTimeout)
	defer cancel()
	var rows []struct {
		StartedAt int64
		Hits      int
	}
	err = c.store.conn(ctx).Raw("SELECT started_at, hits FROM rate_counters WHERE name = ? AND key_hash = ? AND started_at IN (?, ?)",
		c.name, rateKey(key), current.Unix(), previous.Unix()).Find(&rows).Error
	if err != nil {
		return 0, 0, fail("read count", err)
	}
	for _, r := range rows {
		if r.StartedAt == current.Unix() {
			now = r.Hits
		} else {
			before = r.Hits
		}
	}
	return now, before, nil
}

func rateKey(key string) []byte {
	h := sha256.Sum256([]byte(key))
	return h[:]
}

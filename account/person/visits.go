package person

import (
	"context"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account"
)

const (
	// touchInterval is the minimum time between two stored visits of a session.
	touchInterval = time.Minute
	// visitInterval is the time between two writes of collected visits.
	visitInterval = 5 * time.Second
	// visitTimeout limits the last write, so that a stop does not wait for a database that is down.
	visitTimeout = 5 * time.Second
	// maxVisits limits the collected visits. A visit beyond it is collected at the next request of
	// its session.
	maxVisits = 10_000
)

// visits are the times at which sessions were seen, until they are written. No request waits for
// the write, because another process may hold the database.
type visits struct {
	mu   sync.Mutex
	seen map[string]time.Time // by session
}

// note keeps the later of two visits.
func (v *visits) note(session string, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, known := v.seen[session]
	if !known && len(v.seen) >= maxVisits || at.Before(before) {
		return
	}
	if v.seen == nil {
		v.seen = map[string]time.Time{}
	}
	v.seen[session] = at
}

// take returns the visits and empties them.
func (v *visits) take() map[string]time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.seen
	v.seen = nil
	return seen
}

// seenStore is a Store whose sessions include the visits that are not written yet.
type seenStore struct {
	account.Store
	visits *visits
}

// Sessions implements SessionStore.
func (s seenStore) Sessions(ctx context.Context, sub string, now time.Time) ([]account.Session, error) {
	list, err := s.Store.Sessions(ctx, sub, now)
	s.visits.mu.Lock()
	defer s.visits.mu.Unlock()
	for i, n := range list {
		if at := s.visits.seen[n.ID]; at.After(n.LastSeenAt) {
			list[i].LastSeenAt = at
		}
	}
	return list, err
}

// WriteVisits stores in batches when sessions were last seen. When ctx ends, it writes the rest and
// returns.
func (s *Service) WriteVisits(ctx context.Context) {
	tick := time.NewTicker(visitInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.writeVisits(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), visitTimeout)
			defer cancel()
			s.writeVisits(last)
			return
		}
	}
}

func (s *Service) writeVisits(ctx context.Context) {
	batch := s.visits.take()
	if len(batch) == 0 {
		return
	}
	if err := s.Store().TouchSessions(ctx, batch); err != nil {
		for session, at := range batch {
			s.visits.note(session, at)
		}
		if ctx.Err() == nil {
			s.log.Warn("visits of sessions not written yet", "sessions", len(batch), "error", err)
		}
	}
}

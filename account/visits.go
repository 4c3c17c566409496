package account

import (
	"context"
	"sync"
	"time"
)

const (
	// touchInterval is how often a visit of a session is written down at most.
	touchInterval = time.Minute
	// visitInterval is how often collected visits are written.
	visitInterval = 5 * time.Second
	// visitTimeout bounds the last batch: a stop does not wait for a database that is away.
	visitTimeout = 5 * time.Second
	// maxVisits is how many wait at most. Those beyond it are noted again by the next
	// request of their session.
	maxVisits = 10_000
)

// visits are the sessions that were seen and when, until they are written. No
// request waits for that: it is a write, and another process may hold the database.
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

// take empties it.
func (v *visits) take() map[string]time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.seen
	v.seen = nil
	return seen
}

// seenStore lists sessions with the visits that are not written yet.
type seenStore struct {
	Store
	visits *visits
}

// Sessions implements SessionStore.
func (s seenStore) Sessions(ctx context.Context, sub string, now time.Time) ([]Session, error) {
	list, err := s.Store.Sessions(ctx, sub, now)
	s.visits.mu.Lock()
	defer s.visits.mu.Unlock()
	for i, n := range list {
		if at, ok := s.visits.seen[n.ID]; ok && at.After(n.LastSeenAt) {
			list[i].LastSeenAt = at
		}
	}
	return list, err
}

// WriteVisits writes when sessions were last seen, in batches. It returns when ctx
// ends, and then has written what came before.
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
	if err := s.store.TouchSessions(ctx, batch); err != nil {
		for session, at := range batch {
			s.visits.note(session, at)
		}
		if ctx.Err() == nil {
			s.log.Warn("visits of sessions not written yet", "sessions", len(batch), "error", err)
		}
	}
}

package session

import (
	"context"
	"sync/atomic"
	"time"
)

// maxLists is how many lists are kept, each with room for 131,072 sessions, and how many
// may be fetched for the first time at once.
const maxLists = 64

// remoteList is one list of the issuer. Of the fields below copy, mu of RemoteStatusList
// is the guard.
type remoteList struct {
	uri  string
	used atomic.Int64 // Unix time in nanoseconds
	copy atomic.Pointer[listCopy]

	flight    *flight   // the request that is out; nil when there is none
	attempted time.Time // when the last request began, good or not
	failures  int       // requests that failed since the last good one
	failure   error     // of the last one; nil if it was good
	failed    time.Time // when that was

	followed bool      // a goroutine asks apart from those who use the list
	lost     bool      // the last request failed, and Cairn was asked to hold it
	unheld   int       // requests to hold in a row that were of no use
	gaveUp   time.Time // when they had become too many
}

// listCopy is a list as it was known at one moment. It is replaced, never changed.
type listCopy struct {
	*statusList
	etag string
	asOf time.Time // a moment at which Cairn had this list and no other
}

// counts reports whether a session may be accepted by this copy.
func (c *listCopy) counts(now time.Time) bool { return c != nil && now.Before(c.expires) }

// young reports whether a copy answers without anybody asking for a newer one.
func (c *listCopy) young(now time.Time) bool {
	return c.counts(now) && !reached(now, c.asOf, c.ttl*3/4)
}

// left is how long it is enough to hear that the list is unchanged. Then the copy is about to
// expire, and a new one is needed.
func (c *listCopy) left(now time.Time) time.Duration {
	if c == nil {
		return 0
	}
	return c.expires.Sub(now) - min(c.ttl, 10*time.Minute)
}

// flight is a request for a list. It runs apart from those of the application, with a
// context of its own: many wait for it, and one that gives up must not take it away
// from the others.
type flight struct {
	ctx    context.Context
	cancel context.CancelFunc
	began  time.Time
	etag   string        // of the copy that is compared with; "" asks for the list itself
	wait   time.Duration // for which Cairn is asked to hold it
	due    time.Time     // when it ends at the latest, unless the machine sleeps
	ended  chan struct{} // closed when what it has found is kept
}

// overdue reports whether the clock says that the request should have ended, or has not begun: the
// machine was suspended while it was out, when the clock goes on and time limits do not, or the
// clock was set. It is of no use any more, and that it fails says nothing.
func (f *flight) overdue(now time.Time) bool {
	return now.After(f.due.Add(time.Second)) || now.Before(f.began.Add(-time.Second))
}

// list returns the list at an address, perhaps a new one.
func (s *RemoteStatusList) list(uri string, now time.Time) *remoteList {
	s.mu.RLock()
	l := s.lists[uri]
	s.mu.RUnlock()
	if l == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l = s.lists[uri]; l == nil {
			if len(s.lists) >= maxLists {
				s.evict()
			}
			l = &remoteList{uri: uri}
			s.lists[uri] = l
		}
	}
	l.used.Store(now.UnixNano())
	return l
}

// evict takes out the list that was used least recently, those without a copy first:
// many that do not exist must not push out the few that do. The caller holds mu.
func (s *RemoteStatusList) evict() {
	var out *remoteList
	for _, l := range s.lists {
		if out == nil || l.lessWorth(out) {
			out = l
		}
	}
	delete(s.lists, out.uri)
	if out.flight != nil && out.flight.wait > 0 {
		out.flight.cancel()
	}
}

func (l *remoteList) lessWorth(than *remoteList) bool {
	if known, other := l.copy.Load() != nil, than.copy.Load() != nil; known != other {
		return other
	}
	return l.used.Load() < than.used.Load()
}

// afford counts a fetch of a list of which there is no copy, and reports whether there may be one
// more: maxLists at once, of which those that are tried again leave half to new ones, then one
// every minInterval. Lists with a copy have each their own floor. The caller holds mu.
func (s *RemoteStatusList) afford(l *remoteList, now time.Time) bool {
	const burst = maxLists
	allowed := time.Duration(burst)
	if !l.attempted.IsZero() {
		allowed = burst / 2
	}
	if ahead := s.drained.Sub(now); ahead < 0 || ahead > burst*s.minInterval { // the latter when the clock was set back
		s.drained = now
	}
	if s.drained.Sub(now) > (allowed-1)*s.minInterval {
		return false
	}
	s.drained = s.drained.Add(s.minInterval)
	return true
}

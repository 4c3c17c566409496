package session

import "time"

const (
	// maxWait is the longest time for which Cairn holds a request.
	maxWait = 25 * time.Second
	// idleAfter is how long after its last use a list is no longer followed.
	idleAfter = 5 * time.Minute
	// After maxUnheld requests in a row that Cairn did not hold, the next try is holdAgain
	// later. A few are no sign yet: a service that stops holds none, and the next one does.
	maxUnheld = 3
	holdAgain = time.Minute
)

// follow asks for a list apart from its use, as long as it is in use: again after a failure, and, with
// Wait, for the next change, by a request that Cairn holds until there is one (RFC 7240, wait). When Cairn
// does not go along with that, the list is asked for as without Wait: by whoever uses it. Only one
// runs for a list, and it ends by itself.
func (s *RemoteStatusList) follow(l *remoteList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.followed {
		return
	}
	if l.unheld >= maxUnheld && reached(s.rules.now(), l.gaveUp, holdAgain) {
		l.unheld = maxUnheld - 1
	}
	l.followed = true
	defer func() { l.followed = false }()
	for s.worthFollowing(l) {
		pause, last := s.pause(l), l.attempted
		s.rest(pause - min(max(s.rules.now().Sub(last), 0), pause))
		if f := l.flight; f != nil {
			s.mu.Unlock()
			<-f.ended
			s.mu.Lock()
		}
		if !l.attempted.Equal(last) { // somebody else has asked meanwhile
			continue
		}
		if !s.worthFollowing(l) {
			return
		}
		now := s.rules.now()
		if l.copy.Load() == nil && !s.afford(l, now) {
			s.rest(s.minInterval)
			continue
		}
		f := s.begin(l, now, s.holdFor(l, now))
		s.mu.Unlock()
		s.fetch(l, f)
		s.mu.Lock()
	}
}

// rest gives mu up for a time, or until the lists are closed.
func (s *RemoteStatusList) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-time.After(d):
	case <-s.open.Done():
	}
}

// worthFollowing reports whether there is something to ask for. The caller holds mu.
func (s *RemoteStatusList) worthFollowing(l *remoteList) bool {
	c := l.copy.Load()
	if s.open.Err() != nil || s.lists[l.uri] != l { // closed, or it had to make room
		return false
	}
	if reached(s.rules.now(), time.Unix(0, l.used.Load()), idleAfter) {
		return false
	}
	if l.failures > 0 || l.lost {
		return true
	}
	return c != nil && s.wait >= time.Second && c.etag != "" && l.unheld < maxUnheld &&
		c.ttl*3/4 >= time.Second+s.minInterval // else there is no time to hold a request
}

// holdFor is how long Cairn is asked to hold the next request, in whole seconds. It is over before the
// copy is so old that somebody would have to ask: when the request is lost on the way, a
// session that was taken back is still refused within ttl. 0 asks without holding, to begin
// with after one that was lost, or when there is less than a second left. The caller holds mu.
func (s *RemoteStatusList) holdFor(l *remoteList, now time.Time) time.Duration {
	c := l.copy.Load()
	if c == nil {
		return 0
	}
	wait := min(s.wait, c.ttl*3/4-now.Sub(c.asOf), c.left(now))
	if l.lost || wait < 0 {
		return 0
	}
	return wait.Truncate(time.Second)
}

package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// RemoteStatusOptions are the settings of a RemoteStatusList. Issuer is required, and
// Secret, Keys or both: those of the Verifier. Zero and negative durations mean the default.
type RemoteStatusOptions struct {
	Issuer string // Cairn's base URL; only lists below it are fetched
	Secret []byte // for lists signed with HS256; nil refuses them
	Keys   KeySet // for lists signed with RS256; nil refuses them

	// Client makes the requests; nil means a client of its own. Redirects to
	// another host or scheme are never followed, whatever the client says.
	Client *http.Client

	// Wait asks Cairn to hold the request until the list changes, up to so long (25 s at
	// most), and again while the list is in use: then a session that is taken back is
	// refused within a second. 0 does without: then it takes up to the list's ttl.
	Wait time.Duration

	// FailOpen accepts sessions while no list can be had that still counts: also those that
	// were taken back since the last copy. Otherwise they are refused with ErrStatusUnavailable.
	FailOpen bool

	MinInterval time.Duration    // least time between the starts of two fetches of one list; default 1 s, while fetches fail up to 10 s
	Timeout     time.Duration    // longest time a fetch may take, and a request wait for one; default 5 s
	Leeway      time.Duration    // how far the times of a list may be off; 0 means 30 s, a negative value none at all
	Now         func() time.Time // the clock; nil means time.Now
}

const (
	// maxLists is how many lists are kept: each has room for 131,072 sessions. The one
	// that was asked for least recently makes room.
	maxLists = 64
	// maxWait is the longest time for which Cairn holds a request.
	maxWait = 25 * time.Second
	// idleAfter is how long after its last use a list is no longer waited for.
	idleAfter = 5 * time.Minute
	// maxBackoff is the longest pause between two failing fetches.
	maxBackoff = 10 * time.Second
)

// RemoteStatusList is a StatusChecker that keeps copies of the issuer's status lists. It
// is made by NewRemoteStatusList, needs no closing and may be used by many goroutines.
//
// A copy younger than the list's ttl answers at once. One that is about to be older is renewed
// in the background by whoever asks; who finds it older waits for the new one, because
// a session is to be refused within ttl. When a fetch fails, the last copy goes on
// serving until its exp, nobody waits while the failure is fresh, and one fetch at a time is tried
// in the background; after exp, FailOpen decides.
type RemoteStatusList struct {
	issuer      string
	rules       *Verifier // secret, keys, leeway and clock
	client      *http.Client
	wait        time.Duration
	failOpen    bool
	minInterval time.Duration
	timeout     time.Duration

	mu    sync.Mutex
	lists map[int]*remoteList
}

// remoteList is one list; mu of RemoteStatusList guards it.
type remoteList struct {
	uri       string
	used      time.Time
	copy      *statusList   // the last good one; nil before the first
	etag      string        // of copy
	fetched   time.Time     // when the fetch of copy, or of the last word that it is unchanged, began
	attempted time.Time     // when the last fetch began, good or not
	failures  int           // fetches that failed since the last good one
	failure   error         // of the last finished fetch; nil if it was good
	flight    chan struct{} // closed when the fetch in flight ends; nil when there is none
	holding   bool          // a goroutine waits for changes
	noHold    time.Time     // until when Cairn is not asked to hold a request: it did not
	unheld    int           // how often in a row
}

// NewRemoteStatusList returns the status lists of an issuer. It makes no request before the first
// session is asked for, so an application can start before Cairn does.
func NewRemoteStatusList(o RemoteStatusOptions) *RemoteStatusList {
	return &RemoteStatusList{
		issuer: o.Issuer, rules: &Verifier{Issuer: o.Issuer, Secret: o.Secret, Keys: o.Keys, Now: o.Now, Leeway: o.Leeway},
		client: sameHostClient(o.Client), wait: min(max(o.Wait, 0), maxWait), failOpen: o.FailOpen,
		minInterval: orDefault(o.MinInterval, time.Second), timeout: orDefault(o.Timeout, 5*time.Second),
		lists: map[int]*remoteList{},
	}
}

// Check reports a setting with which every list would be refused. Verifier.Check calls it.
func (s *RemoteStatusList) Check() error {
	if err := s.rules.Check(); err != nil {
		return fmt.Errorf("status list: %w", err)
	}
	return nil
}

// Revoked implements StatusChecker.
func (s *RemoteStatusList) Revoked(ctx context.Context, ref StatusRef) (bool, error) {
	number, ok := listNumber(s.issuer, ref.URI)
	if !ok {
		return false, invalid("the status list is not one of the issuer's")
	}
	list, err := s.list(ctx, number, ref.URI)
	if list != nil {
		status, ok := list.at(ref.Index)
		switch {
		case ok && status != 0:
			// Also in a copy that has expired: what was taken back is not given again while
			// its token counts.
			return true, nil
		case !ok && err == nil:
			return false, invalid("the status list ends before the index")
		}
	}
	if err != nil && s.failOpen && errors.Is(err, ErrStatusUnavailable) {
		return false, nil
	}
	return false, err
}

// list returns a copy of a list that may be gone by; together with ErrStatusUnavailable the
// last one there was, if any.
func (s *RemoteStatusList) list(ctx context.Context, number int, uri string) (*statusList, error) {
	now := s.rules.now()
	s.mu.Lock()
	l := s.entry(number, uri, now)
	var flight <-chan struct{}
	wait := false
	switch {
	case l.copy == nil, reached(now, l.fetched, l.copy.ttl):
		// A failure of just now excuses from waiting; one of yesterday does not.
		wait = l.failure == nil || l.copy == nil || !now.Before(l.copy.expires) || reached(now, l.attempted, max(l.copy.ttl, maxBackoff))
		flight = s.refresh(l, now)
	case reached(now, l.fetched, l.copy.ttl*3/4) && !l.holding:
		s.refresh(l, now)
	}
	kept, failure := l.copy, l.failure
	s.mu.Unlock()
	if flight != nil && wait {
		select {
		case <-flight:
		case <-ctx.Done():
			// Not a word about the session: the copy may be too old.
			return kept, fmt.Errorf("%w: waiting for the list: %w", ErrStatusUnavailable, ctx.Err())
		}
		s.mu.Lock()
		kept, failure = l.copy, l.failure
		s.mu.Unlock()
		now = s.rules.now()
	}
	if kept != nil && now.Before(kept.expires) {
		return kept, nil
	}
	if failure == nil {
		failure = errors.New("the copy has expired")
	}
	return kept, fmt.Errorf("%w: %w", ErrStatusUnavailable, failure)
}

// entry returns the list of a number, perhaps a new one. The caller holds mu.
func (s *RemoteStatusList) entry(number int, uri string, now time.Time) *remoteList {
	if l := s.lists[number]; l != nil {
		l.used = now
		return l
	}
	if len(s.lists) >= maxLists {
		oldest := 0
		for n, l := range s.lists {
			if oldest == 0 || l.used.Before(s.lists[oldest].used) {
				oldest = n
			}
		}
		delete(s.lists, oldest)
	}
	l := &remoteList{uri: uri, used: now}
	s.lists[number] = l
	return l
}

// refresh returns the fetch in flight, or begins one, or returns nil if it is too
// early for another. The caller holds mu.
func (s *RemoteStatusList) refresh(l *remoteList, now time.Time) <-chan struct{} {
	if l.flight != nil {
		return l.flight
	}
	if !l.attempted.IsZero() && !reached(now, l.attempted, s.pause(l)) {
		return nil
	}
	flight, etag := make(chan struct{}), l.tag(now)
	l.attempted, l.flight = now, flight
	go func() {
		s.fetch(l, now, etag, flight)
		if s.wait > 0 {
			s.hold(l)
		}
	}()
	return flight
}

// tag is what the copy may be compared by: nothing when it expires soon, for the word that it is
// unchanged does not make it live longer.
func (l *remoteList) tag(now time.Time) string {
	if l.copy == nil || !now.Before(l.copy.expires.Add(-2*l.copy.ttl)) {
		return ""
	}
	return l.etag
}

// pause is the least time between two fetches of a list.
func (s *RemoteStatusList) pause(l *remoteList) time.Duration {
	d := s.minInterval
	for i := 1; i < l.failures && d < maxBackoff; i++ {
		d *= 2
	}
	return max(min(d, maxBackoff), s.minInterval)
}

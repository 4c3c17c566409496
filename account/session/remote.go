package session

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// RemoteOptions are the settings of a RemoteKeySet. Zero and negative durations
// mean the default.
type RemoteOptions struct {
	// Client makes the requests; nil means a client of its own. Redirects to
	// another host or scheme are never followed, whatever the client says.
	Client *http.Client

	MinInterval time.Duration    // least time between the starts of two fetches; default 10 s
	MaxAge      time.Duration    // age at which the copy is fetched anew; default 10 min
	Timeout     time.Duration    // longest time a fetch may take; default 5 s
	Now         func() time.Time // the clock; nil means time.Now
}

// RemoteKeySet is a KeySet kept equal to the key set that the issuer publishes. It
// is made by NewRemoteKeySet, needs no closing and may be used by many goroutines.
type RemoteKeySet struct {
	url         string
	client      *http.Client
	minInterval time.Duration
	maxAge      time.Duration
	timeout     time.Duration
	now         func() time.Time

	mu        sync.Mutex
	keys      keyMap        // the last good copy; nil before the first
	fetched   time.Time     // when the fetch of keys began
	attempted time.Time     // when the last fetch began, good or not
	failure   error         // of the last finished fetch; nil if it was good
	flight    chan struct{} // closed when the fetch in flight ends; nil when there is none
}

// NewRemoteKeySet returns the key set at url, Cairn's `/.well-known/jwks.json`. It makes
// no request before the first key is asked for, so an application can start before
// Cairn does.
func NewRemoteKeySet(url string, opts RemoteOptions) *RemoteKeySet {
	s := &RemoteKeySet{
		url:         url,
		client:      sameHostClient(opts.Client),
		minInterval: orDefault(opts.MinInterval, 10*time.Second),
		maxAge:      orDefault(opts.MaxAge, 10*time.Minute),
		timeout:     orDefault(opts.Timeout, 5*time.Second),
		now:         opts.Now,
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

// Key implements KeySet. A known key is returned at once, from an old copy too while a
// fetch in the background renews it. For an unknown kid a fetch is started or joined and
// waited for, unless the last one began less than MinInterval ago.
func (s *RemoteKeySet) Key(ctx context.Context, kid string) (*jose.JSONWebKey, error) {
	s.mu.Lock()
	k, known := s.keys[kid]
	var flight <-chan struct{}
	if now := s.now(); !known || reached(now, s.fetched, s.maxAge) {
		flight = s.refresh(now)
	}
	failure := s.failure
	s.mu.Unlock()
	if known {
		return &k, nil
	}
	if flight != nil {
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: waiting for the key set: %w", ErrKeysUnavailable, ctx.Err())
		}
		s.mu.Lock()
		k, known = s.keys[kid]
		failure = s.failure
		s.mu.Unlock()
	}
	switch {
	case known:
		return &k, nil
	case failure != nil:
		// The key may be a new one that an unreachable issuer has published.
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, failure)
	}
	return nil, ErrUnknownKey
}

// refresh returns the fetch in flight, or begins one, or returns nil if it is too
// early for another. The caller holds mu.
func (s *RemoteKeySet) refresh(now time.Time) <-chan struct{} {
	if s.flight != nil {
		return s.flight
	}
	if !s.attempted.IsZero() && !reached(now, s.attempted, s.minInterval) {
		return nil
	}
	s.attempted = now
	flight := make(chan struct{})
	s.flight = flight
	go s.fetch(now, flight)
	return flight
}

// fetch runs apart from every request, with a context of its own: many wait for it, and
// one that gives up must not take it away from the others.
func (s *RemoteKeySet) fetch(began time.Time, flight chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	keys, err := fetchKeys(ctx, s.client, s.url)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	if err == nil {
		s.keys, s.fetched = keys, began
	}
	s.flight = nil
	close(flight)
}

// reached reports whether d has passed since then. A clock set back counts as
// passed: waiting for it to catch up could take years.
func reached(now, then time.Time, d time.Duration) bool {
	passed := now.Sub(then)
	return passed < 0 || passed >= d
}

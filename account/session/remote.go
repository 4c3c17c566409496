package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// RemoteOptions are the settings of a RemoteKeySet. Zero and negative durations
// mean the default.
type RemoteOptions struct {
	// Client makes the requests; nil means a client of its own, which gives up a connection
	// on which nobody answers within 8 seconds. One of yours gives it up after two fetches
	// without an answer, or sooner with pings (http.Transport.HTTP2, SendPingTimeout).
	// Redirects to another host or scheme are never followed, whatever the client says.
	Client *http.Client

	MinInterval time.Duration    // least time between the starts of two fetches; default 10 s
	MaxAge      time.Duration    // age at which the copy is fetched anew, and at twice of which that is waited for; default 10 min
	Timeout     time.Duration    // longest time a fetch may take; default 5 s
	Now         func() time.Time // the clock; nil means time.Now
}

// RemoteKeySet is a KeySet kept equal to the key set that the issuer publishes. It
// is made by NewRemoteKeySet, needs no closing and may be used by many goroutines.
type RemoteKeySet struct {
	url         string
	client      *webClient
	minInterval time.Duration
	maxAge      time.Duration
	timeout     time.Duration
	clock       func() time.Time

	mu        sync.Mutex
	keys      keyMap        // the last good copy; nil before the first
	fetched   time.Time     // when the fetch of keys began
	attempted time.Time     // when the last fetch began, good or not
	failure   error         // of the last finished fetch; nil if it was good
	failed    time.Time     // when that was
	flight    chan struct{} // closed when the fetch in flight ends; nil when there is none
}

// NewRemoteKeySet returns the key set at url, Cairn's `/.well-known/jwks.json`. It makes
// no request before the first key is asked for, so an application can start before
// Cairn does.
func NewRemoteKeySet(url string, opts RemoteOptions) *RemoteKeySet {
	s := &RemoteKeySet{
		url:         url,
		client:      newClient(opts.Client),
		minInterval: orDefault(opts.MinInterval, 10*time.Second),
		maxAge:      orDefault(opts.MaxAge, 10*time.Minute),
		timeout:     orDefault(opts.Timeout, 5*time.Second),
		clock:       opts.Now,
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	return s
}

// now is without the monotonic reading, which stands still while the machine is suspended: an
// old copy would be young after that.
func (s *RemoteKeySet) now() time.Time { return s.clock().Round(0) }

// Check reports a setting with which no key would ever be found. Verifier.Check calls it.
func (s *RemoteKeySet) Check() error {
	if s == nil || s.client == nil {
		return errors.New("session: the key set is not set up: make it with NewRemoteKeySet")
	}
	if !isWebAddress(s.url) { // it may hold a password
		return errors.New("session: the address of the key set is not one of http or https with a host")
	}
	return nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

// Key implements KeySet. A known key is returned at once, from an old copy too while a
// fetch in the background renews it. For an unknown kid, and from a copy that is older than
// twice MaxAge, a fetch is started or joined and waited for, unless the last one began less
// than MinInterval ago. If it fails, or one has failed just now, the old copy counts.
func (s *RemoteKeySet) Key(ctx context.Context, kid string) (*jose.JSONWebKey, error) {
	s.mu.Lock()
	k, known := s.keys[kid]
	var flight <-chan struct{}
	now := s.now()
	if !known || reached(now, s.fetched, s.maxAge) {
		flight = s.refresh(now)
	}
	failure, quiet := s.failure, s.quiet(now)
	s.mu.Unlock()
	if known && !quiet {
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

// quiet reports whether nobody has asked for so long that a known key may have been withdrawn long
// ago, and nothing says that nobody answers. The caller holds mu.
func (s *RemoteKeySet) quiet(now time.Time) bool {
	return reached(now, s.fetched, 2*s.maxAge) && (s.failure == nil || reached(now, s.failed, s.maxAge))
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
	s.failure, s.failed = err, s.now()
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

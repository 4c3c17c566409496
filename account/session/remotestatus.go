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

	// SecretUntil is when lists signed with HS256 cease to count: that of the Verifier.
	SecretUntil time.Time

	// Client makes the requests; nil means a client of its own, which gives up a connection
	// on which nobody answers within 8 seconds. One of yours gives it up after two fetches
	// without an answer, or sooner with pings (http.Transport.HTTP2, SendPingTimeout).
	// Redirects to another host or scheme are never followed, whatever the client says. Timeout below counts in place of the client's,
	// which would cut held requests off.
	Client *http.Client

	// Wait asks Cairn to hold the request until the list changes, up to so long (whole seconds,
	// 25 at most), and again while the list is in use: then a session that is taken back is
	// refused after about a second. 0 does without: then it takes up to the list's ttl.
	Wait time.Duration

	// FailOpen accepts sessions while no copy can be had that still counts, except those that were
	// known to be taken back. Otherwise they are refused with ErrStatusUnavailable.
	FailOpen bool

	MinInterval time.Duration    // least time between the starts of two fetches of one list; default 1 s, while fetches fail up to 10 s
	Timeout     time.Duration    // longest time a fetch may take (besides Wait), and a request wait for one; default 5 s
	Leeway      time.Duration    // how far iat of a list may lie ahead; 0 means 30 s, a negative value none at all
	Now         func() time.Time // the clock; nil means time.Now
}

// RemoteStatusList is a StatusChecker that keeps copies of the issuer's status lists. It
// is made by NewRemoteStatusList and may be used by many goroutines. A program that ends, or
// whose sessions nobody asks for any more, need not close it.
//
// A copy younger than the list's ttl answers at once. From three quarters of ttl on it is renewed
// in the background by whoever asks; who finds it older waits for the new one, because a session
// is to be refused within ttl. After a failure the last copy serves until its exp, nobody waits,
// and it is tried again in the background while the list is in use; after exp, FailOpen decides.
// A failure of long ago, since when nobody came, is no reason not to wait.
//
// Of one list one request is out at a time, and two begin at least MinInterval apart (a longer
// one than ttl makes sessions end that much later). At most 64 lists are kept. Those of which
// there is no copy yet are fetched 64 at once, and then one every MinInterval in all: however
// many are named, no flood comes of it.
type RemoteStatusList struct {
	prefix      string    // of the address of every list
	rules       *Verifier // issuer, secret, keys, leeway and clock
	client      *webClient
	wait        time.Duration
	failOpen    bool
	minInterval time.Duration
	timeout     time.Duration

	mu      sync.RWMutex
	lists   map[string]*remoteList // by address
	drained time.Time              // when first fetches are allowed in full number again

	open   context.Context // of every request; done when the lists are closed
	close  context.CancelFunc
	asking sync.WaitGroup // goroutines that make requests; none begins after close
}

// NewRemoteStatusList returns the status lists of an issuer. It makes no request before the first
// session is asked for, so an application can start before Cairn does.
func NewRemoteStatusList(opts RemoteStatusOptions) *RemoteStatusList {
	s := &RemoteStatusList{
		prefix:      opts.Issuer + statusPath,
		rules:       &Verifier{Issuer: opts.Issuer, Secret: opts.Secret, SecretUntil: opts.SecretUntil, Keys: opts.Keys, Now: opts.Now, Leeway: opts.Leeway},
		client:      newClient(opts.Client),
		wait:        min(opts.Wait, maxWait),
		failOpen:    opts.FailOpen,
		minInterval: orDefault(opts.MinInterval, time.Second),
		timeout:     orDefault(opts.Timeout, 5*time.Second),
		lists:       map[string]*remoteList{},
	}
	s.open, s.close = context.WithCancel(context.Background())
	s.client.Timeout = 0 // every request has its own
	return s
}

// Close ends the requests that are out and what goes on in the background, and returns
// when nothing does any more. Copies serve on until their exp, and are not renewed. It
// always returns nil, and may be called more than once.
func (s *RemoteStatusList) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.asking.Wait()
	s.client.close()
	return nil
}

// Check reports a setting with which every list would be refused. Verifier.Check calls it.
func (s *RemoteStatusList) Check() error {
	if s == nil || s.rules == nil {
		return errors.New("session: the status list is not set up: make it with NewRemoteStatusList")
	}
	return s.rules.checkTrust("status list")
}

// Revoked implements StatusChecker. When ctx ends before it can be said, the session is not
// accepted, whatever FailOpen says: else who hangs up early would get past.
func (s *RemoteStatusList) Revoked(ctx context.Context, ref StatusRef) (bool, error) {
	if !isListURI(s.prefix, ref.URI) {
		return false, invalid("the status list is not one of the issuer's")
	}
	now := s.rules.now()
	l := s.list(ref.URI, now)
	c := l.copy.Load()
	if !c.young(now) {
		if err := s.renew(ctx, l, now); err != nil {
			return false, fmt.Errorf("%w: waiting for the list: %w", ErrStatusUnavailable, err)
		}
		c, now = l.copy.Load(), s.rules.now()
	}
	if c != nil {
		status, ok := c.at(ref.Index)
		switch {
		case !ok:
			return false, invalid("the status list ends before the index")
		case status != 0: // for good: what was taken back stays so in a copy past its exp
			return true, nil
		case c.counts(now):
			return false, nil
		}
	}
	if s.failOpen {
		return false, nil
	}
	return false, fmt.Errorf("%w: %w", ErrStatusUnavailable, s.reason(l))
}

// reason tells why there is no copy of a list that counts.
func (s *RemoteStatusList) reason(l *remoteList) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.open.Err() != nil:
		return errors.New("the status lists were closed")
	case l.failure != nil:
		return l.failure
	case l.copy.Load() != nil:
		return errors.New("the copy has expired")
	}
	return errors.New("no answer yet")
}

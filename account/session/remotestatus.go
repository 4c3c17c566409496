package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxWait is the maximum time for which Cairn holds a request.
	maxWait = 25 * time.Second
	// heldFor is how long an unchanged response must have taken to count as held, or half of the
	// requested time.
	heldFor = 4 * time.Second
	// idleAfter is how long after its last use a list is no longer fetched.
	idleAfter = 5 * time.Minute
	// maxBackoff is the longest pause between two fetches of a list that fail, unless MinInterval is longer.
	maxBackoff = 10 * time.Second
	// maxLists is how many lists are kept, each with room for 131,072 sessions.
	maxLists = 64

	listType = "statuslist+jwt"
)

// RemoteStatusOptions are the settings of a RemoteStatusList. Issuer is required, and
// Secret, Keys or both: those of the Verifier. Zero and negative durations mean the default.
type RemoteStatusOptions struct {
	Issuer string // Cairn's base URL; only lists below it are fetched
	Secret []byte // for lists signed with HS256; nil refuses them
	Keys   KeySet // for lists signed with RS256; nil refuses them

	// SecretUntil is when lists signed with HS256 are no longer accepted, as in the Verifier.
	SecretUntil time.Time

	// Client makes the requests, as RemoteOptions.Client does. Timeout below replaces the client's
	// own, which would end held requests.
	Client *http.Client

	// Wait asks Cairn to hold the request until the list changes, for up to this time (whole
	// seconds, at most 25), as long as the list is in use. Then a revoked session is refused after
	// about a second. With 0 it takes up to the list's ttl.
	Wait time.Duration

	// FailOpen accepts sessions while there is no usable copy, except those known to be revoked.
	// Otherwise they are refused with ErrStatusUnavailable.
	FailOpen bool

	// Least time between the starts of two fetches of one list; default 1 s, while fetches fail up to 10 s.
	MinInterval time.Duration
	// Longest time a fetch may take (besides Wait), and a request wait for one; default 5 s.
	Timeout time.Duration
	Leeway  time.Duration    // how far iat of a list may lie ahead; 0 means 30 s, a negative value none at all
	Now     func() time.Time // the clock; nil means time.Now
}

// RemoteStatusList is a StatusChecker with copies of the issuer's status lists. NewRemoteStatusList
// returns one, which is safe for concurrent use. A program that ends, or no longer verifies
// sessions, need not close it.
//
// For each list in use, one goroutine fetches it, waits and backs off. Requests read the latest
// copy, and wait for a fetch only if the copy is older than ttl. If MinInterval is longer than ttl,
// sessions end that much later. At most 64 lists are kept: another one replaces the least recently
// used one.
type RemoteStatusList struct {
	prefix      string    // of the address of every list
	rules       *Verifier // issuer, secret, keys, leeway and clock
	client      *webClient
	wait        time.Duration
	failOpen    bool
	minInterval time.Duration
	timeout     time.Duration

	mu    sync.Mutex
	lists map[string]*remoteList // by address

	open   context.Context // of every request; done when the lists are closed
	close  context.CancelFunc
	asking sync.WaitGroup // goroutines that fetch; none starts after Close
}

// remoteList is one list of the issuer. The mu of RemoteStatusList guards it.
type remoteList struct {
	uri       string
	used      time.Time
	copy      *statusList   // nil before the first good answer; replaced, never changed
	failure   error         // of the last fetch; nil if it was good
	followed  bool          // its goroutine is running
	answered  chan struct{} // closed when a fetch ends, and when the goroutine does
	interrupt func()        // ends what the goroutine waits for, if that may be ended
	stop      func()        // ends the goroutine
}

// NewRemoteStatusList returns the status lists of an issuer. It makes no request before the first
// session is verified, so an application can start before Cairn does.
func NewRemoteStatusList(opts RemoteStatusOptions) *RemoteStatusList {
	s := &RemoteStatusList{
		prefix: opts.Issuer + statusPath,
		rules: &Verifier{Issuer: opts.Issuer, Secret: opts.Secret, SecretUntil: opts.SecretUntil,
			Keys: opts.Keys, Now: opts.Now, Leeway: opts.Leeway},
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

// Close ends the requests and the background work, and returns when all is done. Copies stay usable
// until their exp, and are not renewed. It always returns nil, and may be called more than once.
func (s *RemoteStatusList) Close() error {
	s.mu.Lock()
	s.client.closed.Store(true)
	s.close()
	s.mu.Unlock()
	s.asking.Wait()
	if s.client.own {
		s.client.CloseIdleConnections()
	}
	return nil
}

// Check reports a setting with which every list would be refused. Verifier.Check calls it.
func (s *RemoteStatusList) Check() error {
	if s == nil || s.rules == nil {
		return errors.New("session: the status list is not set up: make it with NewRemoteStatusList")
	}
	return s.rules.checkTrust("status list")
}

// Revoked implements StatusChecker. If ctx ends before the status is known, the session is not
// accepted, even with FailOpen: otherwise a client could hang up early to get in.
func (s *RemoteStatusList) Revoked(ctx context.Context, ref StatusRef) (bool, error) {
	if !isListURI(s.prefix, ref.URI) {
		return false, invalid("the status list is not one of the issuer's")
	}
	c, failure, ended := s.latest(ctx, ref.URI)
	if ended != nil {
		return false, fmt.Errorf("%w: waiting for the list: %w", ErrStatusUnavailable, ended)
	}
	if c != nil {
		revoked, ok := c.at(ref.Index)
		switch {
		case !ok:
			return false, invalid("the status list ends before the index")
		case revoked: // a revoked session stays revoked, also in a copy past its exp
			return true, nil
		case s.rules.now().Before(c.expires):
			return false, nil
		}
	}
	switch {
	case s.failOpen:
		return false, nil
	case s.open.Err() != nil:
		failure = errors.New("the status lists were closed")
	case failure == nil:
		failure = errors.New("no answer yet")
	}
	return false, fmt.Errorf("%w: %w", ErrStatusUnavailable, failure)
}

// latest returns the copy of a list, or nil, and why the last fetch failed. If the copy is older
// than ttl it waits for the fetch, unless the last one failed; ended reports that ctx ended first.
func (s *RemoteStatusList) latest(ctx context.Context, uri string) (c *statusList, failure, ended error) {
	now := s.rules.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lists[uri]
	if l == nil {
		l = s.add(uri)
	}
	if l.used = now; !l.followed && s.open.Err() == nil {
		l.followed, l.failure, l.answered = true, nil, make(chan struct{})
		var open context.Context
		open, l.stop = context.WithCancel(s.open)
		s.asking.Go(func() { s.follow(open, l) })
	}
	fresh := l.copy != nil && now.Before(l.copy.expires) && !reached(now, l.copy.asOf, max(l.copy.ttl, s.minInterval))
	if !fresh && l.followed && l.failure == nil {
		l.interrupt() // a pause that is too long: the clock was set, or the machine was suspended
		answered := l.answered
		wait, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		s.mu.Unlock()
		select {
		case <-answered:
		case <-wait.Done():
			ended = ctx.Err()
		}
		s.mu.Lock()
	}
	return l.copy, l.failure, ended
}

// add returns a new list. If there are too many, it replaces the least recently used one. The
// caller holds mu.
func (s *RemoteStatusList) add(uri string) *remoteList {
	if len(s.lists) >= maxLists {
		var out *remoteList
		for _, l := range s.lists {
			if out == nil || l.used.Before(out.used) {
				out = l
			}
		}
		delete(s.lists, out.uri)
		out.stop()
	}
	l := &remoteList{uri: uri, interrupt: func() {}, stop: func() {}}
	s.lists[uri] = l
	return l
}

// follow fetches a list while it is in use and ctx is not done: when it must be renewed, when it
// changes with Wait, and again after a failure.
func (s *RemoteStatusList) follow(ctx context.Context, l *remoteList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var (
		failures     int           // requests that failed, in a row
		ignoredWaits int           // requests in a row that the server did not hold
		hold         time.Duration // for which Cairn is asked to hold the next request; 0: not at all
	)
	for ctx.Err() == nil && !reached(s.rules.now(), l.used, idleAfter) {
		c, began, start, limit := l.copy, s.rules.now(), time.Now(), s.timeout
		if hold > 0 { // leaves time to ask again before the copy is too old
			limit = min(hold+s.timeout, c.ttl*7/8-began.Sub(c.asOf))
		}
		var next *statusList
		var err error
		s.unlocked(ctx, l, limit, hold > 0,
			func(ctx context.Context) { next, err = s.fetch(ctx, l.uri, c, hold, began) })
		if hold > 0 {
			ignoredWaits++
			if err == nil && (time.Since(start) >= min(hold/2, heldFor) || !bytes.Equal(next.status, c.status)) {
				ignoredWaits = 0
			}
		}
		switch {
		case err == nil:
			failures, l.copy, l.failure = 0, next, nil
		case hold == 0: // else perhaps something in between ends long requests: ask without
			failures, l.failure = failures+1, err
		}
		if err == nil || hold == 0 {
			close(l.answered)
			l.answered = make(chan struct{})
		}
		pause := s.backoff(failures-1, maxBackoff)
		hold = 0
		if err == nil {
			pause, hold = s.plan(next, ignoredWaits)
		}
		pause -= max(s.rules.now().Sub(began), 0)
		s.unlocked(ctx, l, pause, true, func(ctx context.Context) { <-ctx.Done() })
	}
	l.followed = false
	close(l.answered)
	l.stop()
}

// unlocked calls f without holding mu. With early, a request that finds the copy too old ends it.
func (s *RemoteStatusList) unlocked(
	ctx context.Context, l *remoteList, limit time.Duration, early bool, f func(context.Context),
) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if early {
		l.interrupt = cancel
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	f(ctx)
}

// plan returns the time from the start of a successful request to the next one, and for how long
// Cairn is asked to hold that: it ends before a request would have to wait for a newer copy.
func (s *RemoteStatusList) plan(c *statusList, ignoredWaits int) (pause, hold time.Duration) {
	renew := min(c.ttl*3/4, idleAfter)
	// A server that holds no requests is asked less and less often.
	pause = max(s.backoff(ignoredWaits, c.ttl/2), s.rules.now().Sub(c.asOf))
	if hold = min(s.wait, renew-pause).Truncate(time.Second); hold > 0 {
		return pause, hold
	}
	return max(renew, s.minInterval), 0
}

// backoff returns the minimum time between the starts of two requests after the given number of
// failures.
func (s *RemoteStatusList) backoff(times int, most time.Duration) time.Duration {
	return max(min(s.minInterval<<min(max(times, 0), 10), most), s.minInterval)
}

// fetch fetches a list (draft-ietf-oauth-status-list section 8.1) and verifies it. c is the current
// copy.
func (s *RemoteStatusList) fetch(
	ctx context.Context, uri string, c *statusList, hold time.Duration, began time.Time,
) (*statusList, error) {
	// A cache in between would add to its age.
	header := http.Header{"Accept": {"application/" + listType}, "Cache-Control": {"no-cache"}}
	// An unchanged list does not extend the lifetime of the copy.
	if c != nil && c.etag != "" && c.expires.Sub(began) > c.ttl {
		header.Set("If-None-Match", c.etag)
		if hold > 0 {
			header.Set("Prefer", "wait="+strconv.Itoa(int(hold/time.Second))) // RFC 7240 section 4.3
		}
	}
	resp, body, err := s.client.get(ctx, uri, maxListToken, header)
	if err != nil {
		return nil, fmt.Errorf("fetching the status list: %w", err)
	}
	if resp.StatusCode == http.StatusNotModified {
		next := *c
		next.asOf = began
		return &next, nil
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil ||
		kind != "application/"+listType {
		return nil, errors.New("fetching the status list: the answer is of another type than application/" + listType)
	}
	token := strings.TrimSpace(string(body))
	payload, _, err := s.rules.verifySignature(ctx, token, listType, maxListToken)
	if err != nil {
		// Not wrapped, because the list is invalid, not the session token.
		return nil, errors.New("the status list is not believed: " + strings.TrimPrefix(err.Error(), "session: "))
	}
	now := s.rules.now()
	next, err := readStatusList(payload, uri, now, s.rules.leeway())
	if err != nil {
		return nil, err
	}
	// An attacker may replay an old list, which would bring back sessions that were revoked since.
	// Instances of Cairn may have clocks that differ a little. A copy from the future was signed,
	// and accepted, with clocks that were set back since.
	if c != nil && next.issued.Before(c.issued.Add(-defaultLeeway)) && !c.issued.After(now.Add(defaultLeeway)) {
		return nil, errors.New("the status list is older than the copy")
	}
	next.asOf, next.etag = began, resp.Header.Get("ETag")
	_, next.kid, _ = readHeader(token, listType)
	if keys, ok := s.rules.Keys.(*RemoteKeySet); ok && c != nil && c.kid != next.kid {
		keys.expire()
	}
	return next, nil
}

package account

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/templates"
)

// StatusListSize is how many session tokens one token status list has room for.
const StatusListSize = 1 << 17

// DefaultStatusTTL is how long a verifier may go on with its copy of a list.
const DefaultStatusTTL = time.Minute

// StatusListLifetime is how long a copy of a list may be used at most, from its
// signature to its exp.
const StatusListLifetime = 12 * time.Hour

const (
	// statusGeneration is how long an unchanged list is served as it was signed: its
	// copies have most of their life before them.
	statusGeneration = StatusListLifetime / 4
	// maxStatusWait is how long a request is held at most; proxies and the server's
	// own limits end requests after 30 seconds and more.
	maxStatusWait = 25 * time.Second
	// statusPoll is how often the store is asked for changes while a request waits:
	// they may come from another instance or from the command line.
	statusPoll = 250 * time.Millisecond
	// How many requests are held at once, in all and for one address. Beyond that the
	// answer comes at once.
	maxStatusWaiters    = 1024
	maxWaitersByAddress = 32

	statusMedia = "application/statuslist+jwt"
)

// statusClaims is a Status List Token (draft-ietf-oauth-status-list section 5.1).
type statusClaims struct {
	Subject  string `json:"sub"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	TTL      int64  `json:"ttl"` // seconds
	List     struct {
		Bits int    `json:"bits"`
		List string `json:"lst"`
	} `json:"status_list"`
}

// packedStatus is a signed list.
type packedStatus struct {
	version    int64 // of the store
	generation int64 // since 1970
	etag       string
	document   *templates.Document
}

// packedStatus returns a list as it is now. What is kept is served while the
// store, asked each time, says that nothing has changed: then a revocation is
// seen by the next request at every instance. Of many who ask after a change one reads
// the list and signs it, because strangers may ask and signing is expensive.
func (s *Service) packedStatus(ctx context.Context, list int) (packedStatus, error) {
	key := strconv.Itoa(list)
	version, err := s.store.StatusVersion(ctx, list)
	if err != nil {
		if errors.Is(err, ErrStatusListNotFound) {
			s.statuses.Drop(key)
		}
		return packedStatus{}, fmt.Errorf("version of status list: %w", err)
	}
	generation := s.generation()
	return s.statuses.GetValid(ctx, key, func(p packedStatus) bool { return p.version >= version && p.generation >= generation })
}

func (s *Service) generation() int64 { return s.now().Unix() / int64(statusGeneration/time.Second) }

// signStatus reads a list, after its version: what is newer than that is asked for again by
// the next request. The entity tag is weak, and of what the content depends on, so that it is
// the same at every instance, though each signs its own.
func (s *Service) signStatus(ctx context.Context, key string) (p packedStatus, err error) {
	list, err := strconv.Atoi(key)
	if err != nil {
		return p, err
	}
	p.generation = s.generation()
	if p.version, err = s.store.StatusVersion(ctx, list); err != nil {
		return p, fmt.Errorf("version of status list: %w", err)
	}
	revoked, err := s.store.RevokedIndices(ctx, list)
	if err != nil {
		return p, fmt.Errorf("read status list: %w", err)
	}
	// Section 4.1 of the draft: the lowest bit of the first byte is index 0.
	bits := make([]byte, StatusListSize/8)
	for _, i := range revoked {
		if i >= 0 && i < StatusListSize {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	var packed, zipped bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, err = z.Write(bits)
	if err = errors.Join(err, z.Close()); err != nil {
		return p, fmt.Errorf("pack status list: %w", err)
	}
	now := s.now()
	c := statusClaims{Subject: s.URL("/oauth2/status/" + key), IssuedAt: now.Unix(), Expires: now.Add(StatusListLifetime).Unix(), TTL: int64(s.statusTTL / time.Second)}
	c.List.Bits, c.List.List = 1, base64.RawURLEncoding.EncodeToString(packed.Bytes())
	token, err := jwt.Signed(s.minter.statusSigner).Claims(c).Serialize()
	if err != nil {
		return p, fmt.Errorf("sign status list: %w", err)
	}
	g, err := gzip.NewWriterLevel(&zipped, gzip.HuffmanOnly) // what base64url leaves: a quarter
	if err == nil {
		_, err = g.Write([]byte(token))
		err = errors.Join(err, g.Close())
	}
	if err != nil {
		return p, fmt.Errorf("pack status list: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s %s", c.Subject, c.TTL, p.generation, s.minter.keyID, c.List.List))
	p.etag = `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	// A cache in between would serve the list for ttl, and the verifier go on with it for
	// ttl again: it has to ask each time, which costs next to nothing.
	age := "public, no-cache, max-age=" + strconv.Itoa(int(s.statusTTL/time.Second))
	p.document = templates.NewDocument(statusMedia, age, p.etag, []byte(token), zipped.Bytes())
	return p, nil
}

func newStatusSigner(sk jose.SigningKey) (jose.Signer, error) {
	signer, err := jose.NewSigner(sk, (&jose.SignerOptions{}).WithType("statuslist+jwt"))
	if err != nil {
		return nil, fmt.Errorf("status list signer: %w", err)
	}
	return signer, nil
}

// statusWaiters are the requests that are held until a list changes.
type statusWaiters struct {
	versions func(context.Context) (map[int]int64, error) // of all lists
	log      *slog.Logger

	mu       sync.Mutex
	count    map[string]int // by address
	total    int
	changed  chan struct{} // closed at the next change of any list
	watching bool
	released bool // the service stops: no request waits any more
}

// await returns the list as current has it. With `Prefer: wait=N` (RFC 7240 section 4.3) it waits up to N
// seconds, or 25, until the list is another one than If-None-Match (has) names. held is the time that was
// granted; 0 when the request is not of that kind or there is no room.
func (l *statusWaiters) await(ctx context.Context, address string, wait time.Duration, has string, current func() (packedStatus, error)) (now packedStatus, held int, err error) {
	var change <-chan struct{} // before the list: a change in between is not missed
	if wait > 0 && has != "" {
		change = l.enter(address)
		if change != nil {
			defer l.leave(address)
		}
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		if now, err = current(); err != nil || change == nil || has != now.etag {
			return now, held, err
		}
		held = int(wait / time.Second)
		select {
		case <-change:
			change = l.next()
		case <-over.C: // and read the list once more: the watcher may have failed
			change = nil
		case <-ctx.Done():
			return now, held, nil
		}
	}
}

// enter counts a waiter and returns the channel that the next change closes; nil
// when there is no room.
func (l *statusWaiters) enter(address string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released || l.total >= maxStatusWaiters || l.count[address] >= maxWaitersByAddress {
		return nil
	}
	if l.count == nil {
		l.count, l.changed = map[string]int{}, make(chan struct{})
	}
	l.total++
	l.count[address]++
	if !l.watching {
		l.watching = true
		go l.watch()
	}
	return l.changed
}

func (l *statusWaiters) leave(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.count[address]--; l.count[address] == 0 {
		delete(l.count, address)
	}
}

// next is the channel of the change after the one that has just come; nil when the service stops.
func (l *statusWaiters) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	return l.changed
}

// watch looks for changes as long as a request waits. The first look wakes
// all of them: what they have seen may be older.
func (l *statusWaiters) watch() {
	var before map[int]int64
	failing := false // one line for an outage, not four a second
	for ; ; time.Sleep(statusPoll) {
		l.mu.Lock()
		if l.watching = l.total > 0 && !l.released; !l.watching {
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		now, err := l.versions(ctx)
		cancel()
		if err != nil && !failing {
			l.log.Warn("status lists not watched: those who wait for a change learn of it later", "error", err)
		} else if err == nil && (before == nil || !maps.Equal(before, now)) {
			l.wake(false)
		}
		before, failing = now, err != nil
	}
}

// wake makes all waiting requests look at the list again; with release no request waits from now on.
func (l *statusWaiters) wake(release bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released = l.released || release; l.changed != nil {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// ReleaseStatusWaiters answers the requests that are held, and holds none from
// now on: the service is about to stop, which must not take as long as they would.
func (s *Service) ReleaseStatusWaiters() { s.waiters.wake(true) }

// HeldStatusRequests are how many requests wait for a change of a status list.
func (s *Service) HeldStatusRequests() int {
	s.waiters.mu.Lock()
	defer s.waiters.mu.Unlock()
	return s.waiters.total
}

// preferredWait reads the preference wait=SECONDS; 0 means none. The first one
// counts (RFC 7240 section 2), and one that is no number of seconds is ignored.
func preferredWait(prefer []string) time.Duration {
	for preference := range strings.SplitSeq(strings.Join(prefer, ","), ",") {
		preference, _, _ = strings.Cut(preference, ";") // its parameters
		name, value, _ := strings.Cut(preference, "=")
		if strings.EqualFold(strings.TrimSpace(name), "wait") {
			seconds, err := strconv.ParseUint(strings.Trim(value, ` "`), 10, 31)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 0
			}
			return min(time.Duration(seconds)*time.Second, maxStatusWait)
		}
	}
	return 0
}

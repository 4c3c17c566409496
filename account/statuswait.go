package account

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

const (
	// maxStatusWait is how long a request is held at most; proxies and the server's
	// own limits end requests after 30 seconds and more.
	maxStatusWait = 25 * time.Second
	// statusPoll is how often the store is asked for changes while somebody waits:
	// they may come from another instance or from the command line.
	statusPoll = 250 * time.Millisecond
	// How many requests are held at once, in all and for one address. Beyond that the
	// answer comes at once.
	maxStatusWaiters    = 1024
	maxWaitersByAddress = 32
)

// statusWaiters are the requests that are held until a list changes.
type statusWaiters struct {
	versions func(context.Context) (map[int]int64, error) // of all lists
	log      *slog.Logger

	lock     sync.Mutex
	count    map[string]int // by address
	total    int
	changed  chan struct{} // closed at the next change of any list
	watching bool
	released bool // the service stops: nobody waits any more
}

// awaitChange returns the list, of which the client has what ifNoneMatch names.
// With `Prefer: wait=N` (RFC 7240 section 4.3) it waits up to N seconds, or 25,
// until the list is another one. held is the time that was granted; 0 when the
// request is not of that kind or there is no room.
func (l *statusWaiters) awaitChange(r *http.Request, ifNoneMatch []string, current func() (packedStatus, error)) (now packedStatus, held int, err error) {
	wait := preferredWait(r.Header.Values("Prefer"))
	// The channel before the list: a change in between is not missed.
	change, leave := l.enter(r, wait > 0 && len(ifNoneMatch) > 0)
	defer leave()
	if now, err = current(); err != nil || change == nil || !matches(ifNoneMatch, now.etag) {
		return now, 0, err
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	held = int(wait / time.Second)
	for {
		select {
		case <-change:
			if change = l.next(); change == nil {
				return now, held, nil // the service stops: elsewhere, or soon again, there is room
			}
			if now, err = current(); err != nil || !matches(ifNoneMatch, now.etag) {
				return now, held, err
			}
		case <-over.C:
			// What was read at the start, nobody has looked at since if the watcher failed.
			now, err = current()
			return now, held, err
		case <-r.Context().Done():
			return now, held, nil
		}
	}
}

// enter counts a waiter and returns the channel that the next change closes; nil
// when the request is not to wait. leave is to be called in any case.
func (l *statusWaiters) enter(r *http.Request, wants bool) (change <-chan struct{}, leave func()) {
	if !wants {
		return nil, func() {}
	}
	address := web.ClientAddress(r)
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.released || l.total >= maxStatusWaiters || l.count[address] >= maxWaitersByAddress {
		return nil, func() {}
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
	return l.changed, func() {
		l.lock.Lock()
		defer l.lock.Unlock()
		l.total--
		if l.count[address]--; l.count[address] == 0 {
			delete(l.count, address)
		}
	}
}

// next is the channel of the change after the one that has just come.
func (l *statusWaiters) next() <-chan struct{} {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.released {
		return nil
	}
	return l.changed
}

// watch looks for changes as long as somebody waits. The first look wakes
// everybody: what they have seen may be older than it.
func (l *statusWaiters) watch() {
	tick := time.NewTicker(statusPoll)
	defer tick.Stop()
	var before map[int]int64
	for {
		l.lock.Lock()
		if l.total == 0 || l.released {
			l.watching = false
			l.lock.Unlock()
			return
		}
		l.lock.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		now, err := l.versions(ctx)
		cancel()
		switch {
		case err != nil:
			l.log.Warn("status lists not watched: those who wait for a change learn of it later", "error", err)
			before = nil
		case before == nil || !maps.Equal(before, now):
			before = now
			l.wake()
		}
		<-tick.C
	}
}

func (l *statusWaiters) wake() {
	l.lock.Lock()
	defer l.lock.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// ReleaseStatusWaiters answers the requests that are held, and holds none from
// now on: the service is about to stop, which must not take as long as they would.
func (s *Service) ReleaseStatusWaiters() {
	l := &s.statuses.statusWaiters
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.released = true; l.changed != nil {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// preferredWait reads the preference wait=SECONDS; 0 means none. The first one
// counts (RFC 7240 section 2), and one that is no number of seconds is ignored.
func preferredWait(prefer []string) time.Duration {
	for preference := range headerMembers(prefer) {
		preference, _, _ = strings.Cut(preference, ";") // its parameters
		name, value, _ := strings.Cut(preference, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0
		}
		return min(time.Duration(seconds)*time.Second, maxStatusWait)
	}
	return 0
}

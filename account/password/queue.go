package password

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// Limits of the queue in front of the hasher. A request beyond a limit, or that waits too long, gets
// 503: its caller has probably left. A person at a browser waits for as long as a full queue takes
// here, within bounds.
const (
	maxHashWaiters = 256
	maxKeyWaiters  = 128 // of a network or for an account
	maxHashWait    = 5 * time.Second
	maxPersonWait  = 15 * time.Second
	maxComeBack    = 45 * time.Second
)

// key is what requests have in common: a network of the client's address, the account as typed, or,
// for the zero key, nothing.
type key struct {
	network netip.Prefix
	account string
}

// places returns how many requests with the key may wait.
func (k key) places() int {
	if k == (key{}) {
		return maxHashWaiters
	}
	return maxKeyWaiters
}

const maxKeys = 5

// keysOf returns the keys of a request.
func keysOf(address netip.Addr, account string) []key {
	keys := []key{{}}
	for _, network := range web.Networks(address) { // there may be no address
		keys = append(keys, key{network: network})
	}
	if account != "" {
		keys = append(keys, key{account: account})
	}
	return keys
}

// queue assigns the slots of the hasher. The next one goes to the request whose keys have recently
// had the fewest, so that the many requests of a network or for an account take turns with each
// other and not with everybody else.
type queue struct {
	mu       sync.Mutex
	slots    int
	patience time.Duration // how long a request waits at least
	now      func() time.Time
	took     time.Duration // how long a slot is taken, a moving average
	// due is when the last of those who were refused comes back, programs and people by themselves: programs
	// that do not come back must not make people wait.
	due     map[bool]time.Time
	waiting []*waiter // in the order in which they came
	// By key: how many wait, how many have a slot, and how many recently got one, which is halved
	// every recentSlots.
	queued, running, recent map[key]int
	begun                   int
}

const recentSlots = 64

// newQueue returns a queue. A nil now means time.Now.
func newQueue(slots int, now func() time.Time) queue {
	if now == nil {
		now = time.Now
	}
	return queue{
		slots: slots, now: now, patience: maxHashWait, queued: map[key]int{}, running: map[key]int{},
		recent: map[key]int{}, due: map[bool]time.Time{},
	}
}

type waiter struct {
	keys   []key
	served chan bool // once: it has a slot, or it has lost its place
	begun  time.Time // when it got the slot
}

// score orders requests, the lowest first: by the busiest of their keys, and if these are equal, by
// the next. So the owner of an account that others try is ahead of them.
func (w *waiter) score(counts ...map[key]int) (s [maxKeys]int) {
	for i, k := range w.keys {
		for _, count := range counts {
			s[i] += count[k]
		}
	}
	slices.Sort(s[:])
	slices.Reverse(s[:])
	return s
}

// count adds to the numbers of the keys of a request.
func (w *waiter) count(counts map[key]int, by int) {
	for _, k := range w.keys {
		if counts[k] += by; counts[k] == 0 {
			delete(counts, k)
		}
	}
}

// wait returns how long a request may wait. The caller holds mu.
func (q *queue) wait(person bool) time.Duration {
	switch {
	case !person:
		return q.patience
	case q.took == 0: // nothing measured yet
		return max(q.patience, maxPersonWait)
	}
	return max(q.patience, min(maxPersonWait, maxHashWaiters*q.took/time.Duration(q.slots)))
}

// busy returns ErrBusy with the time to come back. Each request gets a time of its own, at the pace at which
// slots become free: so they are not all back at once, to wait in vain again. That time is at most what a full
// queue takes here, because not everybody comes back, and while the page keeps what was typed.
func (q *queue) busy(person bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, turn, due := q.now(), q.took/time.Duration(q.slots), q.due[person]
	if due = due.Add(turn); due.Before(now) {
		due = now.Add(turn)
	}
	if last := now.Add(min(maxHashWaiters*turn, maxComeBack)); due.After(last) {
		due = last
	}
	q.due[person] = due
	return web.Busy(due.Sub(now))
}

// enter waits for a slot, for longer if a person waits for it. The holder calls leave once.
func (q *queue) enter(ctx context.Context, keys []key, person bool) (leave func(), err error) {
	w := &waiter{keys: keys, served: make(chan bool, 1)}
	q.mu.Lock()
	admitted := q.admit(w)
	q.serve()
	wait := q.wait(person)
	q.mu.Unlock()
	if !admitted {
		return nil, q.busy(person)
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	select {
	case served := <-w.served:
		if !served {
			return nil, q.busy(person)
		}
		return func() { q.leave(w) }, nil
	case <-patience.C:
		err = q.busy(person)
	case <-ctx.Done():
		err = ctx.Err()
	}
	q.mu.Lock()
	left := q.remove(w)
	q.mu.Unlock()
	if !left && <-w.served {
		q.leave(w)
	}
	return nil, err
}

// admit adds w to the queue. If the queue or the share of one of its keys is full, a request of the
// key with the most loses its place, which may be w.
func (q *queue) admit(w *waiter) bool {
	var out []*waiter
	for _, k := range w.keys {
		if q.queued[k] < k.places() {
			continue
		}
		last, most := w, w.score(q.queued, q.recent)
		for _, other := range slices.Backward(q.waiting) {
			if !slices.Contains(other.keys, k) {
				continue
			}
			if score := other.score(q.queued, q.recent); slices.Compare(score[:], most[:]) > 0 {
				last, most = other, score
			}
		}
		if last == w {
			return false
		}
		out = append(out, last)
	}
	for _, other := range out {
		if q.remove(other) {
			other.served <- false
		}
	}
	q.waiting = append(q.waiting, w)
	w.count(q.queued, 1)
	return true
}

func (q *queue) remove(w *waiter) bool {
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	w.count(q.queued, -1)
	return true
}

// serve assigns the free slots. If there are several, no network or account gets all of them.
func (q *queue) serve() {
	for q.running[key{}] < q.slots {
		var next *waiter
		var least [maxKeys]int
		for _, w := range q.waiting {
			if slices.ContainsFunc(w.keys[1:], func(k key) bool { return q.running[k] >= max(1, q.slots-1) }) {
				continue
			}
			if score := w.score(q.recent); next == nil || slices.Compare(score[:], least[:]) < 0 {
				next, least = w, score
			}
		}
		if next == nil {
			return
		}
		q.remove(next)
		next.count(q.running, 1)
		next.count(q.recent, 1)
		if q.begun++; q.begun%recentSlots == 0 {
			maps.DeleteFunc(q.recent, func(k key, n int) bool {
				q.recent[k] = n / 2
				return n < 2
			})
		}
		next.begun = q.now()
		next.served <- true
	}
}

// leave gives a slot back.
func (q *queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.count(q.running, -1)
	took := q.now().Sub(w.begun)
	if q.took == 0 {
		q.took = took
	}
	q.took += (took - q.took) / 8
	q.serve()
}

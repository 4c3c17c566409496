package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Names of the limits; a limit that is not set is off.
const (
	LimitLogin        = "login"         // failures per address
	LimitLoginAccount = "login-account" // failures per account
	LimitRegister     = "register"      // unknown invite codes per address
	LimitReset        = "reset"         // refused resets per address
	LimitResetAccount = "reset-account" // refused resets per account
	LimitInvite       = "invite"        // invites created per user
	LimitActivity     = "activity"      // activity documents checked per user
	LimitToken        = "token"         // requests per address
	LimitAll          = "all"           // requests per address
)

// instanceLimits are counted by each instance in its own memory, also where the
// instances share a database: they bound work, so that two instances may do twice
// as much, and a statement for each request would cost more than many a request
// does. What bounds guessing is shared.
var instanceLimits = []string{LimitToken, LimitAll}

// Limit is at most Count events in any Window; Count 0 turns it off.
//
// The window slides: time is cut into fixed windows, and what the one before
// counted weighs as much as the sliding window still overlaps it.
type Limit struct {
	Count  int
	Window time.Duration // whole seconds
}

func (l Limit) seconds() int64 { return int64(l.Window / time.Second) }

// Fixed returns the beginning of the fixed window that now lies in, in Unix
// seconds, and how much of that window has passed, in milliseconds.
func (l Limit) Fixed(now time.Time) (start, passed int64) {
	ms, window := now.UnixMilli(), l.Window.Milliseconds()
	passed = ms % window
	return (ms - passed) / 1000, passed
}

// fits tells whether one more event keeps the limit, after previous ones in the
// fixed window before and current ones in this: whether what counts, rounded, is
// less than Count.
func (l Limit) fits(previous, current int, passed int64) bool {
	window := l.Window.Milliseconds()
	return 2*(int64(previous)*(window-passed)+int64(current)*window) < int64(2*l.Count-1)*window
}

// wait is how long it takes until one more event fits, when no others come; 0
// means that it fits now.
func (l Limit) wait(previous, current int, now time.Time) time.Duration {
	_, passed := l.Fixed(now)
	if l.fits(previous, current, passed) {
		return 0
	}
	window := l.Window.Milliseconds()
	left := -passed // until the beginning of the fixed window in which it will fit
	if current >= l.Count {
		left, previous, current = window-passed, current, 0
	}
	// The first moment of that window at which previous has lost enough weight.
	if previous > 0 {
		left += max(0, window-(int64(2*(l.Count-current)-1)*window-1)/int64(2*previous))
	}
	// In whole seconds, as Retry-After has it, and never too early.
	return max(time.Second, (time.Duration(left)*time.Millisecond + time.Second - 1).Truncate(time.Second))
}

// UndecidedTime is how long the outcome of an attempt may take. One that is still
// undecided then, because an instance crashed meanwhile, counts for good.
const UndecidedTime = 30 * time.Second

// Counter is the count of one key under one limit.
type Counter struct {
	Name, Key string
	Limit     Limit
}

// Counts are what a Counter has counted in the fixed window before, and in the one
// now.
type Counts struct{ Previous, Current Tally }

// Tally is what was counted in one fixed window.
type Tally struct {
	Events    int // all of them
	Undecided int // those whose outcome is not known yet
}

// Decided are the events that count for good.
func (t Tally) Decided() int { return t.Events - t.Undecided }

// Counters keep the counts. The keys may be what somebody typed as a handle.
type Counters interface {
	// Take counts one event if it fits into the limit (see Limit), and tells
	// whether it did. It decides and counts in one step: of any number of callers,
	// over all instances, no more get in than fit. An undecided event is to be
	// settled within UndecidedTime.
	Take(ctx context.Context, c Counter, now time.Time, undecided bool) (bool, error)
	// Settle says how an undecided event that was taken at the given time ended: it
	// stays counted, or is counted no more.
	Settle(ctx context.Context, c Counter, taken time.Time, counts bool) error
	// Counts returns what has been counted.
	Counts(ctx context.Context, c Counter, now time.Time) (Counts, error)
}

// Limits bounds events by name and key in sliding windows. The nil value limits
// nothing. Safe for concurrent use.
type Limits struct {
	byName map[string]namedLimit
	now    func() time.Time
}

type namedLimit struct {
	Limit
	counters Counters
}

// NewLimits makes limits. shared keeps the counts for several instances that share
// a database; nil means that there is one process, whose memory does. LimitAll and
// LimitToken are counted in memory anyway: by each instance for itself. now is the
// clock; nil means time.Now.
func NewLimits(conf map[string]Limit, shared Counters, now func() time.Time) *Limits {
	if now == nil {
		now = time.Now
	}
	l := &Limits{byName: map[string]namedLimit{}, now: now}
	for name, c := range conf {
		if c.Count <= 0 {
			continue
		}
		counters := shared
		if shared == nil || slices.Contains(instanceLimits, name) {
			counters = NewMemoryCounters()
		}
		l.byName[name] = namedLimit{c, counters}
	}
	return l
}

// Take counts one event, or tells how long the key must wait; 0 means that it was
// counted. A failing counter is an error: who cannot count must not let through.
func (l *Limits) Take(ctx context.Context, name, key string) (time.Duration, error) {
	m, c := l.counter(name, key)
	if m == nil {
		return 0, nil
	}
	now := l.now()
	taken, err := m.Take(ctx, c, now, false)
	if err != nil {
		return 0, limitError("count", name, err)
	}
	if taken {
		return 0, nil
	}
	counts, err := m.Counts(ctx, c, now)
	if err != nil {
		return 0, limitError("read", name, err)
	}
	return max(time.Second, c.Limit.wait(counts.Previous.Events, counts.Current.Events, now)), nil
}

// blocked is ErrRateLimited when the attempts that have failed use up the limit. It
// counts nothing: it spares the work in front of attempt.
func (l *Limits) blocked(ctx context.Context, name, key string) error {
	m, c := l.counter(name, key)
	if m == nil {
		return nil
	}
	now := l.now()
	counts, err := m.Counts(ctx, c, now)
	if err != nil {
		return limitError("read", name, err)
	}
	if wait := c.Limit.wait(counts.Previous.Decided(), counts.Current.Decided(), now); wait > 0 {
		return RateLimited(wait)
	}
	return nil
}

// attempt is a guess in progress, of which only a failure counts. It takes its place
// under each limit before it learns anything, so that a burst gets no more verdicts
// than the limit allows; a success gives the place back. What an instance that
// crashes has taken counts as failed.
type attempt struct {
	limits *Limits
	taken  []takenCounter
}

type takenCounter struct {
	counters Counters
	counter  Counter
	at       time.Time
}

func (l *Limits) attempt() *attempt { return &attempt{limits: l} }

// How long an attempt waits for the verdict on others, and how often it asks.
const (
	undecidedPatience = 5 * time.Second
	firstPoll         = 5 * time.Millisecond
	lastPoll          = 80 * time.Millisecond
)

// take takes a place under the limit. ErrRateLimited when failures use it up. When
// only those in flight do, it waits for their outcome, for they may be rightful
// people, too: ErrBusy when that takes too long.
func (a *attempt) take(ctx context.Context, name, key string) error {
	m, c := a.limits.counter(name, key)
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, undecidedPatience, ErrBusy)
	defer cancel()
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		now := a.limits.now()
		taken, err := m.Take(ctx, c, now, true)
		if err != nil {
			return limitError("count", name, err)
		}
		if taken {
			a.taken = append(a.taken, takenCounter{m, c, now})
			return nil
		}
		if err := a.limits.blocked(ctx, name, key); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// settle says whether the attempt has failed, whether or not somebody still waits
// for the answer.
func (a *attempt) settle(ctx context.Context, failed bool) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, t := range a.taken {
		if err := t.counters.Settle(ctx, t.counter, t.at, failed); err != nil {
			errs = append(errs, limitError("settle", t.counter.Name, err))
		}
	}
	a.taken = nil
	return errors.Join(errs...)
}

// underLimit is the one key of a limit that a guess counts for.
type underLimit struct{ name, key string }

// guess lets do give its verdict on a guess under the limits. An error that is wrong
// counts; any other outcome does not.
func (s *Service) guess(ctx context.Context, limits []underLimit, wrong error, do func() error) error {
	a := s.limits.attempt()
	for _, l := range limits {
		if err := a.take(ctx, l.name, l.key); err != nil {
			s.settle(ctx, a, false)
			return err
		}
	}
	err := do()
	s.settle(ctx, a, errors.Is(err, wrong))
	return err
}

// settle ends an attempt. Not to have written its outcome, which leaves it counted,
// is not worth failing the request for.
func (s *Service) settle(ctx context.Context, a *attempt, failed bool) {
	if err := a.settle(ctx, failed); err != nil {
		s.log.WarnContext(ctx, "outcome of an attempt not written", "error", err)
	}
}

func (l *Limits) counter(name, key string) (Counters, Counter) {
	if l == nil {
		return nil, Counter{}
	}
	m := l.byName[name]
	return m.counters, Counter{Name: name, Key: key, Limit: m.Limit}
}

func limitError(doing, name string, err error) error {
	return fmt.Errorf("%s limit %s: %w: %w", doing, name, ErrUnavailable, err)
}

// memoryCounters are the Counters of one limit in the memory of this process. They
// keep the keys of two windows.
type memoryCounters struct {
	mu       sync.Mutex
	start    int64 // of the current fixed window
	current  map[string]memoryTally
	previous map[string]memoryTally
}

type memoryTally struct {
	Tally
	until int64 // Unix second when the undecided ones are decided at the latest
}

func (t memoryTally) at(now time.Time) Tally {
	if now.Unix() >= t.until {
		t.Undecided = 0
	}
	return t.Tally
}

// NewMemoryCounters makes Counters for one limit, in the memory of this process.
func NewMemoryCounters() Counters { return &memoryCounters{} }

// turn makes the fixed window of now the current one and returns how much of it has
// passed. The caller holds mu. A clock that was set back stays at the beginning of
// the latest window.
func (m *memoryCounters) turn(l Limit, now time.Time) (passed int64) {
	start, passed := l.Fixed(now)
	switch {
	case m.current != nil && start < m.start:
		return 0
	case m.current != nil && start == m.start:
		return passed
	case m.current != nil && start == m.start+l.seconds():
		m.previous = m.current
	default:
		m.previous = nil
	}
	m.start, m.current = start, map[string]memoryTally{}
	return passed
}

// Take implements Counters.
func (m *memoryCounters) Take(_ context.Context, c Counter, now time.Time, undecided bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	passed := m.turn(c.Limit, now)
	t := m.current[c.Key]
	if !c.Limit.fits(m.previous[c.Key].Events, t.Events, passed) {
		return false, nil
	}
	t.Tally = t.at(now)
	t.Events++
	if undecided {
		t.Undecided++
		t.until = now.Add(UndecidedTime).Unix()
	}
	m.current[c.Key] = t
	return true, nil
}

// Settle implements Counters.
func (m *memoryCounters) Settle(_ context.Context, c Counter, taken time.Time, counts bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	window := m.current
	switch start, _ := c.Limit.Fixed(taken); start {
	case m.start:
	case m.start - c.Limit.seconds():
		window = m.previous
	default:
		return nil // too long ago to count
	}
	t := window[c.Key]
	t.Undecided = max(0, t.Undecided-1)
	if !counts {
		t.Events = max(0, t.Events-1)
	}
	if t.Events == 0 {
		delete(window, c.Key)
		return nil
	}
	window[c.Key] = t
	return nil
}

// Counts implements Counters.
func (m *memoryCounters) Counts(_ context.Context, c Counter, now time.Time) (Counts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(c.Limit, now)
	return Counts{Previous: m.previous[c.Key].at(now), Current: m.current[c.Key].at(now)}, nil
}

// AddressKey is how an address counts: IPv4 by itself (also when mapped into
// IPv6), IPv6 by its /64, of which one customer has them all.
func AddressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr().String()
	}
	return a.String()
}

// accountKey folds what was typed as a handle, so that spelling it differently
// does not give further attempts.
func accountKey(typed string) string {
	if h, err := CanonicalHandle(typed); err == nil {
		return h
	}
	return strings.ToLower(cut(strings.TrimSpace(typed), 64))
}

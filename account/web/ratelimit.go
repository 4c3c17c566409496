package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Names of the limits. A limit that is not set is off.
const (
	LimitLogin        = "login"         // failures per account, for each address
	LimitLoginAddress = "login-address" // failures per address
	LimitLoginAccount = "login-account" // failures per account
	LimitSignIn       = "sign-in"       // right passwords per account, for each address
	LimitSecondFactor = "second-factor" // wrong codes of authenticator apps per account
	LimitRegister     = "register"      // unknown invite codes per address
	LimitReset        = "reset"         // refused resets per address
	LimitResetAccount = "reset-account" // refused resets per account
	LimitInvite       = "invite"        // invites created per user
	LimitForgot       = "forgot"        // mails for a forgotten password asked for per address
	LimitJoin         = "join"          // requests to join per address
	LimitJoinAll      = "join-all"      // requests to join
	LimitMail         = "mail"          // mails of a kind that anybody can ask for per account or recipient
	LimitInviteMail   = "invite-mail"   // invites mailed per user
	LimitVerify       = "verify"        // wrong codes of a mail per account
	LimitActivity     = "activity"      // activity documents checked per user
	LimitActs         = "acts"          // acts with a row of the audit log per session
	LimitDevice       = "device"        // wrong codes of devices per address
	LimitToken        = "token"         // requests per address
	LimitAll          = "all"           // requests per address
)

// instanceLimits are counted by each instance in its memory, even if instances share a database.
// They limit work, and a statement per request would cost more than many requests. Limits against
// guessing are shared.
var instanceLimits = []string{LimitSignIn, LimitActs, LimitToken, LimitAll}

// Rate is at most Count events in any Window; Count 0 turns it off.
//
// The window slides: time is divided into fixed windows, and the count of the previous one is
// weighted by its overlap with the sliding window.
type Rate struct {
	Count  int
	Window time.Duration // whole seconds
}

func (r Rate) seconds() int64 { return int64(r.Window / time.Second) }

// Fixed returns the beginning of the fixed window of now, in Unix seconds, and the time since then,
// in milliseconds.
func (r Rate) Fixed(now time.Time) (start, passed int64) {
	ms, window := now.UnixMilli(), r.Window.Milliseconds()
	passed = ms % window
	return (ms - passed) / 1000, passed
}

// fits reports whether one more event keeps the limit after previous events in the previous fixed
// window and current ones in this: whether their weighted sum, rounded, is less than Count.
func (r Rate) fits(previous, current int, passed int64) bool {
	window := r.Window.Milliseconds()
	return 2*(int64(previous)*(window-passed)+int64(current)*window) < int64(2*r.Count-1)*window
}

// wait returns the time until one more event fits if no others come; 0 means now.
func (r Rate) wait(previous, current int, now time.Time) time.Duration {
	_, passed := r.Fixed(now)
	if r.fits(previous, current, passed) {
		return 0
	}
	window := r.Window.Milliseconds()
	left := -passed // until the beginning of the fixed window in which it fits
	if current >= r.Count {
		left, previous, current = window-passed, current, 0
	}
	// The first second of that window in which the weight of previous is small enough.
	if previous > 0 {
		left += max(0, window-(int64(2*(r.Count-current)-1)*window-1)/int64(2*previous))
	}
	// In whole seconds, like Retry-After, and never too early.
	return max(time.Second, (time.Duration(left)*time.Millisecond + time.Second - 1).Truncate(time.Second))
}

// UndecidedTime is the maximum duration of an attempt. An event that is still undecided then,
// because an instance crashed, stays counted.
const UndecidedTime = 30 * time.Second

// Counter is the count of one key under one limit.
type Counter struct {
	Name, Key string
	Rate      Rate
}

// Counts are the tallies of a Counter in the previous fixed window and in the current one.
type Counts struct{ Previous, Current Tally }

// Tally is the count of one fixed window.
type Tally struct {
	Events    int // all of them
	Undecided int // those whose outcome is not known yet
}

// decided returns the number of events that stay counted.
func (t Tally) decided() int { return t.Events - t.Undecided }

// Counters store the counts. Keys may contain what a user typed as a handle.
type Counters interface {
	// Take counts one event if it fits the limit (see Rate), and reports whether it did. It decides
	// and counts in one step, so that any number of callers over all instances never exceed the
	// limit. An undecided event must be settled within UndecidedTime.
	Take(ctx context.Context, c Counter, now time.Time, undecided bool) (bool, error)
	// Settle decides an undecided event that was taken at the given time: it stays counted or is
	// removed.
	Settle(ctx context.Context, c Counter, taken time.Time, counts bool) error
	// Counts returns the counts.
	Counts(ctx context.Context, c Counter, now time.Time) (Counts, error)
}

// Limits limits events by name and key in sliding windows. The nil value limits nothing. It is safe
// for concurrent use.
type Limits struct {
	byName map[string]namedLimit
	now    func() time.Time
	log    *slog.Logger
}

type namedLimit struct {
	Rate
	counters Counters
}

// NewLimits returns Limits. shared stores the counts for several instances that share a database;
// nil means one process with its memory. LimitSignIn, LimitActs, LimitAll and LimitToken are always
// counted in memory, by each instance. A nil now means time.Now. A nil log means slog.Default.
func NewLimits(conf map[string]Rate, shared Counters, now func() time.Time, log *slog.Logger) *Limits {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.Default()
	}
	l := &Limits{byName: map[string]namedLimit{}, now: now, log: log}
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

// Take counts one event, or returns how long the key must wait; 0 means that it was counted. A
// failing counter is an error and must not let the event through.
func (l *Limits) Take(ctx context.Context, name, key string) (time.Duration, error) {
	return l.TakeUpTo(ctx, name, key, math.MaxInt)
}

// TakeUpTo is Take with at most most events in the window.
func (l *Limits) TakeUpTo(ctx context.Context, name, key string, most int) (time.Duration, error) {
	return l.take(ctx, name, key, 1, 0, most)
}

// TakeTimes is Take with times as many events in the window.
func (l *Limits) TakeTimes(ctx context.Context, name, key string, times int) (time.Duration, error) {
	return l.take(ctx, name, key, times, 0, math.MaxInt)
}

// TakeMore is Take with more events in the window than the limit has.
func (l *Limits) TakeMore(ctx context.Context, name, key string, more int) (time.Duration, error) {
	return l.take(ctx, name, key, 1, more, math.MaxInt)
}

func (l *Limits) take(ctx context.Context, name, key string, times, more, most int) (time.Duration, error) {
	m, c := l.counter(name, key)
	if m == nil {
		return 0, nil
	}
	c.Rate.Count = min(c.Rate.Count*times+more, most)
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
	noteLimited(ctx, name)
	return max(time.Second, c.Rate.wait(counts.Previous.Events, counts.Current.Events, now)), nil
}

// Count is Take with the error ErrRateLimited if k must wait.
func (l *Limits) Count(ctx context.Context, k LimitKey) error {
	wait, err := l.Take(ctx, k.Name, k.Key)
	if err == nil && wait > 0 {
		err = RateLimited(wait)
	}
	return err
}

func noteLimited(ctx context.Context, name string) {
	NoteLimit(ctx, name)
	Observe(ctx, func(o Observer) { o.Limited(name) })
}

// LimitKey is the key of a guess under one limit. Exempt may lift the refusal of this limit, which
// is ErrRateLimited or ErrBusy.
type LimitKey struct {
	Name, Key string
	Exempt    func(refusal error) error
}

func (k LimitKey) refuse(ctx context.Context, err error) error {
	if k.Exempt != nil && (errors.Is(err, ErrRateLimited) || errors.Is(err, ErrBusy)) {
		err = k.Exempt(err)
	}
	if errors.Is(err, ErrRateLimited) {
		noteLimited(ctx, k.Name)
	}
	return err
}

// Blocked returns ErrRateLimited if failed guesses have exhausted the limit. It counts nothing and
// saves the work before Guess.
func (l *Limits) Blocked(ctx context.Context, k LimitKey) error {
	err := l.blocked(ctx, k)
	return k.refuse(ctx, err)
}

func (l *Limits) blocked(ctx context.Context, k LimitKey) error {
	wait, err := l.Wait(ctx, k)
	if err == nil && wait > 0 {
		err = RateLimited(wait)
	}
	return err
}

// Wait returns for how long failed guesses exhaust the limit; 0 means that they do not.
func (l *Limits) Wait(ctx context.Context, k LimitKey) (time.Duration, error) {
	m, c := l.counter(k.Name, k.Key)
	if m == nil {
		return 0, nil
	}
	now := l.now()
	counts, err := m.Counts(ctx, c, now)
	if err != nil {
		return 0, limitError("read", k.Name, err)
	}
	return c.Rate.wait(counts.Previous.decided(), counts.Current.decided(), now), nil
}

// How long a guess waits for the outcome of others, and how often it asks.
const (
	undecidedPatience = 5 * time.Second
	firstPoll         = 5 * time.Millisecond
	lastPoll          = 80 * time.Millisecond
)

type takenCounter struct {
	counters Counters
	counter  Counter
	at       time.Time
}

// Guess runs verdict and counts only its failure, the error wrong. Before verdict runs, the guess
// takes a place under each limit, so that a burst gets no more verdicts than the limits allow. Any
// other outcome gives the places back. The places of an instance that crashes stay counted.
//
// ErrRateLimited if failures have exhausted a limit. If only guesses in progress have, Guess waits
// for their outcome, because they may be legitimate; ErrBusy if that takes too long.
func (l *Limits) Guess(ctx context.Context, keys []LimitKey, wrong error, verdict func() error) error {
	var taken []takenCounter
	var err error
	for _, k := range keys {
		var t *takenCounter
		t, err = l.place(ctx, k)
		if t != nil {
			taken = append(taken, *t)
		}
		if err = k.refuse(ctx, err); err != nil {
			break
		}
	}
	failed := false
	if err == nil {
		err = verdict()
		failed = errors.Is(err, wrong)
	}
	for _, t := range taken {
		// Also if the client has hung up. If the outcome cannot be written, the guess stays
		// counted, which is not worth failing the request.
		if lost := t.counters.Settle(context.WithoutCancel(ctx), t.counter, t.at, failed); lost != nil {
			l.log.WarnContext(ctx, "outcome of an attempt not written", "limit", t.counter.Name, "error", lost)
		}
	}
	return err
}

// place takes a place under one limit; nil if there is no such limit.
func (l *Limits) place(ctx context.Context, k LimitKey) (*takenCounter, error) {
	m, c := l.counter(k.Name, k.Key)
	if m == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, undecidedPatience, ErrBusy)
	defer cancel()
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		now := l.now()
		taken, err := m.Take(ctx, c, now, true)
		if err != nil {
			return nil, limitError("count", k.Name, err)
		}
		if taken {
			return &takenCounter{m, c, now}, nil
		}
		if err := l.blocked(ctx, k); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// Rate returns the rate of a limit.
func (l *Limits) Rate(name string) Rate {
	_, c := l.counter(name, "")
	return c.Rate
}

func (l *Limits) counter(name, key string) (Counters, Counter) {
	if l == nil {
		return nil, Counter{}
	}
	m := l.byName[name]
	return m.counters, Counter{Name: name, Key: key, Rate: m.Rate}
}

func limitError(doing, name string, err error) error {
	return fmt.Errorf("%s limit %s: %w: %w", doing, name, ErrUnavailable, err)
}

// memoryCounters are the Counters of one limit in the memory of this process. They store the keys
// of two windows, and of a third one after the clock was set back a little.
type memoryCounters struct {
	mu      sync.Mutex
	windows map[int64]memoryWindow // by their beginning
}

// memoryWindow has the tallies by the beginning of the SHA-256 of their keys, which may be long.
type memoryWindow map[[16]byte]memoryTally

// maxKeys limits the memory of a window to 25 MB.
const maxKeys = 1 << 17

// forgetOne forgets, of a few keys, the one with the fewest events: whoever is to be refused is not forgotten for
// the sake of strangers who come once, from many addresses or with many names.
func (w memoryWindow) forgetOne() {
	var least [16]byte
	seen := 0
	for key, t := range w {
		if seen == 0 || t.Events < w[least].Events {
			least = key
		}
		if seen++; seen == 16 {
			break
		}
	}
	delete(w, least)
}

type memoryTally struct {
	Tally
	until int64 // Unix second after which undecided ones stay counted
}

func memoryKey(c Counter) [16]byte {
	hash := sha256.Sum256([]byte(c.Key))
	return [16]byte(hash[:16])
}

func (t memoryTally) at(now time.Time) Tally {
	if now.Unix() >= t.until {
		t.Undecided = 0
	}
	return t.Tally
}

// NewMemoryCounters returns Counters for one limit in the memory of this process.
func NewMemoryCounters() Counters {
	return &memoryCounters{windows: map[int64]memoryWindow{}}
}

// turn returns the counts of the fixed windows before and of now, and the time since the beginning
// of the latter. It forgets the windows that are not next to it, also those of a clock that was
// ahead. The caller holds mu.
func (m *memoryCounters) turn(r Rate, now time.Time) (previous, current memoryWindow, passed int64) {
	start, passed := r.Fixed(now)
	if m.windows[start] == nil {
		maps.DeleteFunc(m.windows, func(other int64, _ memoryWindow) bool {
			return other < start-r.seconds() || other > start+r.seconds()
		})
		m.windows[start] = memoryWindow{}
	}
	return m.windows[start-r.seconds()], m.windows[start], passed
}

// Take implements Counters.
func (m *memoryCounters) Take(_ context.Context, c Counter, now time.Time, undecided bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	previous, current, passed := m.turn(c.Rate, now)
	key := memoryKey(c)
	t, known := current[key]
	if !c.Rate.fits(previous[key].Events, t.Events, passed) {
		return false, nil
	}
	if !known && len(current) >= maxKeys {
		current.forgetOne()
	}
	t.Tally = t.at(now)
	t.Events++
	if undecided {
		t.Undecided++
		t.until = now.Add(UndecidedTime).Unix()
	}
	current[key] = t
	return true, nil
}

// Settle implements Counters.
func (m *memoryCounters) Settle(_ context.Context, c Counter, taken time.Time, counts bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	start, _ := c.Rate.Fixed(taken)
	window, key := m.windows[start], memoryKey(c) // nil: too long ago to count
	t := window[key]
	t.Undecided = max(0, t.Undecided-1)
	if !counts {
		t.Events = max(0, t.Events-1)
	}
	if t.Events == 0 {
		delete(window, key)
		return nil
	}
	window[key] = t
	return nil
}

// Counts implements Counters.
func (m *memoryCounters) Counts(_ context.Context, c Counter, now time.Time) (Counts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	previous, current, _ := m.turn(c.Rate, now)
	key := memoryKey(c)
	return Counts{Previous: previous[key].at(now), Current: current[key].at(now)}, nil
}

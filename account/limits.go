package account

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/go-chi/httprate"
)

// Names of the limits; a limit that is not set is off.
const (
	LimitLogin        = "login"         // failures per address
	LimitLoginAccount = "login-account" // failures per account
	LimitRegister     = "register"      // refused registrations per address
	LimitReset        = "reset"         // refused resets per address
	LimitResetAccount = "reset-account" // refused resets per account
	LimitInvite       = "invite"        // invites created per user
	LimitActivity     = "activity"      // activity documents checked per user
	LimitToken        = "token"         // requests per address
	LimitAll          = "all"           // requests per address
)

// Limits counts events by name and key in sliding windows. The nil value limits
// nothing. Safe for concurrent use.
type Limits struct {
	byName map[string]*limit
	now    func() time.Time
}

type limit struct {
	count   int
	window  time.Duration
	limiter *httprate.RateLimiter
}

// Limit is at most Count events in Window; Count 0 turns it off.
type Limit struct {
	Count  int
	Window time.Duration
}

// NewLimits makes counters. counter gives the counter of a named limit, nil
// for one in this process's memory (a database that several instances share
// keeps them elsewhere).
func NewLimits(conf map[string]Limit, counter func(name string, window time.Duration) httprate.LimitCounter) *Limits {
	l := &Limits{byName: map[string]*limit{}, now: time.Now}
	for name, c := range conf {
		if c.Count <= 0 {
			continue
		}
		var lc httprate.LimitCounter
		if counter != nil {
			lc = counter(name, c.Window)
		}
		if lc == nil {
			lc = httprate.NewLocalLimitCounter(c.Window)
		}
		l.byName[name] = &limit{count: c.Count, window: c.Window, limiter: httprate.NewRateLimiter(c.Count, c.Window, httprate.WithLimitCounter(lc))}
	}
	return l
}

// Blocked tells how long the key must wait; 0 means go on. A failing counter
// is an error: who cannot count must not let through.
func (l *Limits) Blocked(name, key string) (time.Duration, error) {
	m := l.get(name)
	if m == nil {
		return 0, nil
	}
	_, rate, err := m.limiter.Status(key)
	if err != nil {
		return 0, fmt.Errorf("read limit %s: %w: %w", name, ErrUnavailable, err)
	}
	if math.Round(rate) < float64(m.count) {
		return 0, nil
	}
	now := l.now().UTC()
	// The count decays with the window; until its end is the honest answer.
	return max(time.Second, now.Truncate(m.window).Add(m.window).Sub(now).Round(time.Second)), nil
}

// Hit counts one event.
func (l *Limits) Hit(name, key string) error {
	m := l.get(name)
	if m == nil {
		return nil
	}
	if err := m.limiter.Counter().IncrementBy(key, l.now().UTC().Truncate(m.window), 1); err != nil {
		return fmt.Errorf("count limit %s: %w: %w", name, ErrUnavailable, err)
	}
	return nil
}

// Take is Blocked, then Hit when not blocked.
func (l *Limits) Take(name, key string) (time.Duration, error) {
	wait, err := l.Blocked(name, key)
	if wait > 0 || err != nil {
		return wait, err
	}
	return 0, l.Hit(name, key)
}

func (l *Limits) get(name string) *limit {
	if l == nil {
		return nil
	}
	return l.byName[name]
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

package web_test

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

func TestLimitsCountByNameAndKey(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 45, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	l := web.NewLimits(map[string]web.Rate{"a": {Count: 2, Window: time.Hour}, "b": {Count: 1, Window: time.Hour}, "off": {}}, nil, clock, nil)
	take := func(name, key string, want time.Duration) {
		t.Helper()
		if wait, err := l.Take(t.Context(), name, key); err != nil || wait != want {
			t.Errorf("%s %s: wait %v, %v, want %v", name, key, wait, err, want)
		}
	}
	take("a", "k", 0)
	take("a", "k", 0)
	// Until 13:15: from then on two events weigh less than one and a half.
	take("a", "k", 30*time.Minute+time.Second)
	take("a", "other", 0)
	take("b", "k", 0)
	take("b", "k", 45*time.Minute+time.Second)
	for range 100 {
		take("off", "k", 0)
		take("never set", "k", 0)
	}
	now = now.Add(30 * time.Minute)
	take("a", "k", time.Second)
	now = now.Add(time.Second)
	take("a", "k", 0)
	take("a", "k", 30*time.Minute)
	now = now.Add(2 * time.Hour)
	take("a", "k", 0)
	// What a clock counts while it is ahead, it does not count when it is right again.
	now = now.Add(40 * 24 * time.Hour)
	take("a", "k", 0)
	now = now.Add(-40 * 24 * time.Hour)
	take("a", "k", 0)
	take("a", "k", 0)
	take("a", "k", time.Hour)
	now = now.Add(2 * time.Hour)
	take("a", "k", 0)
	// Set back to the window before, and set right, it still knows both.
	now = now.Add(time.Hour)
	take("a", "k", 0)
	now = now.Add(-time.Hour)
	take("a", "k", 0)
	take("a", "k", time.Hour)
	now = now.Add(time.Hour)
	take("a", "k", 30*time.Minute)
	var none *web.Limits
	if wait, err := none.Take(t.Context(), "a", "k"); wait != 0 || err != nil {
		t.Errorf("%v %v", wait, err)
	}
	bad := web.NewLimits(map[string]web.Rate{"a": {Count: 1, Window: time.Hour}}, away{}, clock, nil)
	if _, err := bad.Take(t.Context(), "a", "k"); !errors.Is(err, web.ErrUnavailable) {
		t.Errorf("a broken counter: %v", err)
	}
}

// Strangers from many addresses take no more memory than that, nor do they clear the count of a guesser.
func TestCountersInMemoryAreBounded(t *testing.T) {
	m, kept := web.NewMemoryCounters(), 0
	key := func(n int) web.Counter {
		return web.Counter{Key: strconv.Itoa(min(n, 150_000)), Rate: web.Rate{Count: 2, Window: time.Hour}}
	}
	for n := range 150_000 + 2 {
		_, _ = m.Take(t.Context(), key(150_001-n), time.Unix(0, 0), false)
	}
	for n := range 150_001 {
		counts, _ := m.Counts(t.Context(), key(n), time.Unix(0, 0))
		kept += counts.Current.Events
	}
	same(t, "events", kept, 1<<17+1)
}

// away are counters whose database does not answer.
type away struct{ web.Counters }

func (away) Take(context.Context, web.Counter, time.Time, bool) (bool, error) {
	return false, errors.New("no answer")
}

func TestAddressesCountByCustomer(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2::1": "2001:db8:1:2::",
		"2001:db8:1:3::1": "2001:db8:1:3::", "fe80::1%eth0": "fe80::", "::1": "::",
	} {
		same(t, a, web.AddressKey(netip.MustParseAddr(a)), want)
	}
}

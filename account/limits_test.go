package account_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

func TestLimitsCountByNameAndKey(t *testing.T) {
	l := account.NewLimits(map[string]account.Limit{"a": {Count: 2, Window: time.Hour}, "b": {Count: 1, Window: time.Hour}, "off": {}}, nil)
	take := func(name, key string, blocked bool) {
		t.Helper()
		wait, err := l.Take(name, key)
		if err != nil || (wait > 0) != blocked || wait > time.Hour {
			t.Errorf("%s %s: wait %v, %v", name, key, wait, err)
		}
	}
	take("a", "k", false)
	take("a", "k", false)
	take("a", "k", true)
	take("a", "other", false)
	take("b", "k", false)
	take("b", "k", true)
	for range 100 {
		take("off", "k", false)
		take("never set", "k", false)
	}
	var none *account.Limits
	if wait, err := none.Take("a", "k"); wait != 0 || err != nil {
		t.Errorf("%v %v", wait, err)
	}
	bad := account.NewLimits(map[string]account.Limit{"a": {Count: 1, Window: time.Hour}}, brokenCounter)
	if _, err := bad.Take("a", "k"); !errors.Is(err, account.ErrUnavailable) {
		t.Errorf("a broken counter: %v", err)
	}
	if err := bad.Hit("a", "k"); !errors.Is(err, account.ErrUnavailable) {
		t.Errorf("a broken counter: %v", err)
	}
}

func TestAddressesCountByCustomer(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2::1": "2001:db8:1:2::",
		"2001:db8:1:3::1": "2001:db8:1:3::", "fe80::1%eth0": "fe80::", "::1": "::",
	} {
		if got := account.AddressKey(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %s, want %s", a, got, want)
		}
	}
}

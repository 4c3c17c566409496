package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limit allows Count events in each Window. Count 0 means that nothing is limited.
type Limit struct {
	Count  int
	Window time.Duration
}

// String writes a limit the way the setting reads it: 10/15m, or off.
func (l Limit) String() string {
	if l.Count == 0 {
		return "off"
	}
	w := l.Window.String()
	if strings.HasSuffix(w, "m0s") {
		w = strings.TrimSuffix(w, "0s")
	}
	if strings.HasSuffix(w, "h0m") {
		w = strings.TrimSuffix(w, "0m")
	}
	return strconv.Itoa(l.Count) + "/" + w
}

// The bounds of a limit that is set. A window beyond a day would need counters that outlive the restarts of a day.
const (
	maxLimitCount  = 1_000_000
	minLimitWindow = time.Second
	maxLimitWindow = 24 * time.Hour
)

// DefaultRateLimits returns a fresh map of the limits that hold where the setting names no other. The names ending
// in -account count by account, invite and activity by user, the others by client address; login counts failures only.
// token and all are counted by each instance, the others over all instances that share a database.
func DefaultRateLimits() map[string]Limit {
	return map[string]Limit{
		"login":         {10, 15 * time.Minute},
		"login-account": {10, 15 * time.Minute},
		"register":      {5, 15 * time.Minute},
		"reset":         {10, 15 * time.Minute},
		"reset-account": {5, 15 * time.Minute},
		"invite":        {30, time.Hour},
		"activity":      {60, time.Minute},
		"token":         {600, time.Minute},
		"all":           {1200, time.Minute},
	}
}

func checkRateLimits(list []string) (map[string]Limit, error) {
	const flag = "rate-limit"
	limits := DefaultRateLimits()
	names := strings.Join(slices.Sorted(maps.Keys(limits)), ", ")
	given := map[string]bool{}
	for _, s := range trimmed(list) {
		name, value, ok := strings.Cut(s, "=")
		name = strings.TrimSpace(name)
		if !ok {
			return nil, refuse(flag, "write name=count/window, as login=10/15m, or name=off", "%q has no value", s)
		}
		if _, known := limits[name]; !known {
			return nil, refuse(flag, "the names are "+names, "%q is not a limit", name)
		}
		if given[name] {
			return nil, refuse(flag, "give each name once", "%q is given twice", name)
		}
		given[name] = true
		l, err := parseLimit(name, strings.TrimSpace(value))
		if err != nil {
			return nil, err
		}
		limits[name] = l
	}
	// Whoever loosens or turns off login means sign-in as a whole; the account's limit can still be given by itself.
	if given["login"] && !given["login-account"] {
		limits["login-account"] = limits["login"]
	}
	return limits, nil
}

func parseLimit(name, value string) (Limit, error) {
	const flag = "rate-limit"
	if value == "off" {
		return Limit{}, nil
	}
	remedy := "write " + name + "=10/15m, or " + name + "=off"
	count, window, ok := strings.Cut(value, "/")
	if !ok {
		return Limit{}, refuse(flag, remedy, "%q of %s is not count/window", value, name)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > maxLimitCount {
		return Limit{}, refuse(flag, remedy, "the count %q of %s is not between 1 and %d", count, name, maxLimitCount)
	}
	d, err := time.ParseDuration(window)
	if err != nil || d < minLimitWindow || d > maxLimitWindow || d%time.Second != 0 {
		return Limit{}, refuse(flag, remedy, "the window %q of %s is not between 1s and 24h in whole seconds", window, name)
	}
	return Limit{Count: n, Window: d}, nil
}

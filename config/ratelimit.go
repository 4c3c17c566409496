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

// Limits of the setting. A window of more than a day would need counters that survive the restarts
// of a day.
const (
	maxLimitCount  = 1_000_000
	maxLimitWindow = 24 * time.Hour
)

// DefaultRateLimits returns a new map of the default limits. The names ending in -account, mail and
// verify count by account, login and sign-in by account and client address, invite, invite-mail and
// activity by user, acts by session, join-all by network once there are so many, the others by client address. Those
// of login count only failures, and sign-in only right passwords; its limit is above what a household, a script every
// few seconds or a test of an application needs. Each instance counts sign-in, acts, token and all; the others are
// counted over all instances that share a database.
func DefaultRateLimits() map[string]Limit {
	return map[string]Limit{
		"login":         {10, 15 * time.Minute},
		"login-address": {60, 15 * time.Minute},
		"login-account": {10, 15 * time.Minute},
		"sign-in":       {300, 15 * time.Minute},
		"second-factor": {20, 24 * time.Hour},
		"register":      {5, 15 * time.Minute},
		"reset":         {10, 15 * time.Minute},
		"reset-account": {5, 15 * time.Minute},
		"invite":        {30, time.Hour},
		"forgot":        {10, 15 * time.Minute},
		"join":          {5, time.Hour},
		"join-all":      {100, time.Hour},
		"mail":          {3, time.Hour},
		"invite-mail":   {50, 24 * time.Hour},
		"verify":        {10, 24 * time.Hour},
		"activity":      {60, time.Minute},
		"acts":          {60, time.Minute},
		"device":        {10, 15 * time.Minute},
		"token":         {600, time.Minute},
		"all":           {1200, time.Minute},
	}
}

func checkRateLimits(c *Checked, s Settings) error {
	const flag = "rate-limit"
	c.RateLimits = DefaultRateLimits()
	given := map[string]bool{}
	for _, s := range trimmed(s.RateLimits) {
		name, value, _ := strings.Cut(s, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if _, known := c.RateLimits[name]; !known {
			return refuse(flag, "the names are "+strings.Join(slices.Sorted(maps.Keys(c.RateLimits)), ", "),
				"%q is not a limit", name)
		}
		if given[name] {
			return refuse(flag, "give each name once", "%q is given twice", name)
		}
		given[name] = true
		limit := Limit{}
		if value != "off" {
			remedy := "write " + name + "=10/15m, or " + name + "=off"
			count, window, _ := strings.Cut(value, "/")
			n, err := strconv.Atoi(count)
			if err != nil || n < 1 || n > maxLimitCount {
				return refuse(flag, remedy, "the count %q of %s is not between 1 and %d", count, name, maxLimitCount)
			}
			d, err := wholeSeconds(window, maxLimitWindow)
			if err != nil {
				return refuse(flag, remedy, "the window of %s: %w", name, err)
			}
			limit = Limit{Count: n, Window: d}
		}
		c.RateLimits[name] = limit
	}
	// An operator who loosens or turns off login means sign-in as a whole. The other limits can
	// still be set on their own.
	if given["login"] && !given["login-account"] {
		c.RateLimits["login-account"] = c.RateLimits["login"]
	}
	login, address := c.RateLimits["login"], c.RateLimits["login-address"]
	looser := float64(login.Count)/login.Window.Seconds() > float64(address.Count)/address.Window.Seconds()
	if given["login"] && !given["login-address"] && (login.Count == 0 || looser) {
		c.RateLimits["login-address"] = login
	}
	if given["login"] && !given["sign-in"] && c.RateLimits["login"].Count == 0 {
		c.RateLimits["sign-in"] = Limit{}
	}
	return nil
}

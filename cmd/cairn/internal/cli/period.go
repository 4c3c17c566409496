package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Period is a duration as people write it: 30s, 12h, or days as 7d.
type Period time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Period) UnmarshalText(b []byte) error {
	if days, ok := strings.CutSuffix(string(b), "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			*d = Period(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 || v%time.Second != 0 {
		return errors.New("a duration is written as 30s, 12h or 7d, in whole seconds")
	}
	*d = Period(v)
	return nil
}

// String writes a duration as people do.
func (d Period) String() string {
	const day = Period(24 * time.Hour)
	if d > 0 && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	text := time.Duration(d).String() // 1h0m0s
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = strings.TrimSuffix(short+"m", "h0m")
		if text != short+"m" {
			text += "h"
		}
	}
	return text
}

package activityschema

import (
	"strings"
	"time"
)

// isDateTime tells whether s is a date-time of RFC 3339, section 5.6. A lower
// case t or z is one, and so is the second 60 at 23:59 UTC (a leap second);
// which days had a leap second is not checked.
//
// time.Parse does not do: it takes one-digit hours, a comma before the
// fraction and offsets up to +24:60, and it knows no leap second.
func isDateTime(s string) bool {
	const shape = "0000-00-00T00:00:00"
	if len(s) <= len(shape) {
		return false
	}
	for i := range len(shape) {
		switch c := s[i]; {
		case shape[i] == '0' && isDigit(c), shape[i] == c, shape[i] == 'T' && c == 't':
		default:
			return false
		}
	}
	if _, err := time.Parse(time.DateOnly, s[:10]); err != nil {
		return false
	}
	offset, ok := offsetMinutes(withoutFraction(s[len(shape):]))
	if !ok {
		return false
	}
	hour, minute, second := twoDigits(s[11:]), twoDigits(s[14:]), twoDigits(s[17:])
	if hour > 23 || minute > 59 || second > 60 {
		return false
	}
	const day = 24 * 60
	utc := (hour*60 + minute - offset + day) % day
	return second < 60 || utc == day-1
}

// withoutFraction cuts a point and its digits off; a point alone stays.
func withoutFraction(s string) string {
	rest, ok := strings.CutPrefix(s, ".")
	if !ok || rest == "" || !isDigit(rest[0]) {
		return s
	}
	return strings.TrimLeft(rest, "0123456789")
}

// offsetMinutes reads time-offset: Z, or a sign, hours and minutes.
func offsetMinutes(s string) (int, bool) {
	if s == "Z" || s == "z" {
		return 0, true
	}
	if len(s) != 6 || s[3] != ':' || !isDigit(s[1]) || !isDigit(s[2]) || !isDigit(s[4]) || !isDigit(s[5]) {
		return 0, false
	}
	hours, minutes := twoDigits(s[1:]), twoDigits(s[4:])
	if hours > 23 || minutes > 59 {
		return 0, false
	}
	switch s[0] {
	case '+':
		return hours*60 + minutes, true
	case '-':
		return -hours*60 - minutes, true
	}
	return 0, false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// twoDigits reads the two digits that s begins with.
func twoDigits(s string) int { return int(s[0]-'0')*10 + int(s[1]-'0') }

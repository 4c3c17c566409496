package activityschema

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A Time is an instant that a document writes as a date-time of RFC 3339,
// section 5.6.
//
// One that was read is written as it was read, whatever its letter case, the
// digits of its fraction and its zone. One made of a Go time, Time{Time: t},
// is written with the zone of t and as many digits of a second as it has, up
// to nanoseconds; in UTC if RFC 3339 cannot write the zone (an offset with
// seconds, or of a day and more).
//
// time.Time alone would not do: it can hold no leap second and reads no lower
// case t or z. A leap second, 23:59:60 UTC, counts as the second after it, as
// in POSIX. What lies beyond a nanosecond is cut off the instant.
type Time struct {
	time.Time
	text string // as read; empty for a Go time
}

// Equal tells whether t and u are the same instant, however written.
func (t Time) Equal(u Time) bool { return t.Time.Equal(u.Time) }

// String returns the date-time as a document writes it, and for an instant
// that no date-time can express what time.Time says.
func (t Time) String() string {
	text, err := t.AppendText(nil)
	if err != nil {
		return t.Time.String()
	}
	return string(text)
}

// AppendText implements encoding.TextAppender. It fails for years outside 0 to
// 9999.
func (t Time) AppendText(b []byte) ([]byte, error) {
	at := t.Time
	if t.text != "" {
		// Time is an exported field: who sets it means the new instant.
		if read, err := instant(t.text); err == nil && read.Equal(at) && offset(read) == offset(at) {
			return append(b, t.text...), nil
		}
	}
	if seconds := offset(at); seconds%60 != 0 || seconds <= -24*60*60 || seconds >= 24*60*60 {
		at = at.UTC()
	}
	if year := at.Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("year %d is not of four digits, as RFC 3339 wants it", year)
	}
	return at.AppendFormat(b, time.RFC3339Nano), nil
}

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// MarshalJSON implements json.Marshaler; that of time.Time would be promoted.
func (t Time) MarshalJSON() ([]byte, error) {
	text, err := t.AppendText([]byte{'"'})
	return append(text, '"'), err
}

// UnmarshalJSON implements json.Unmarshaler. Null is an error.
func (t *Time) UnmarshalJSON(data []byte) error {
	text, err := jsontext.AppendUnquote(nil, data)
	if err != nil {
		return err
	}
	return t.UnmarshalText(text)
}

// UnmarshalText implements encoding.TextUnmarshaler: text must be a date-time
// of RFC 3339.
func (t *Time) UnmarshalText(text []byte) error {
	if !isDateTime(text) {
		return fmt.Errorf("%.40q is not a date-time of RFC 3339 with its zone", text)
	}
	at, err := instant(string(text))
	if err != nil {
		return err
	}
	*t = Time{Time: at, text: string(text)}
	return nil
}

// instant reads a date-time that isDateTime accepts.
func instant(text string) (time.Time, error) {
	text = strings.ToUpper(text)
	const second = len("2006-01-02T15:04:")
	leap := text[second:second+2] == "60"
	if leap {
		text = text[:second] + "59" + text[second+2:]
	}
	at, err := time.Parse(time.RFC3339, text)
	if leap {
		at = at.Add(time.Second)
	}
	return at, err
}

// offset returns the seconds that t's zone is east of UTC.
func offset(t time.Time) int {
	_, seconds := t.Zone()
	return seconds
}

// isDateTime tells whether s is a date-time of RFC 3339, section 5.6. A lower
// case t or z is one, and so is the second 60 at 23:59 UTC (a leap second);
// which days had a leap second is not checked.
//
// time.Parse does not do: it takes one-digit hours, a comma before the
// fraction and offsets up to +24:60, and it knows no leap second.
func isDateTime[T string | []byte](s T) bool {
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
	year, month, day := 100*twoDigits(s, 0)+twoDigits(s, 2), twoDigits(s, 5), twoDigits(s, 8)
	if month < 1 || month > 12 || day < 1 || day > daysOf(month, year) {
		return false
	}
	offset, ok := offsetMinutes(s, afterFraction(s, len(shape)))
	if !ok {
		return false
	}
	hour, minute, second := twoDigits(s, 11), twoDigits(s, 14), twoDigits(s, 17)
	if hour > 23 || minute > 59 || second > 60 {
		return false
	}
	const minutes = 24 * 60
	utc := (hour*60 + minute - offset + minutes) % minutes
	return second < 60 || utc == minutes-1
}

// daysOf returns how many days month, 1 to 12, has in year.
func daysOf(month, year int) int {
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
}

// afterFraction returns where s goes on after a point and its digits at i; a
// point alone stays.
func afterFraction[T string | []byte](s T, i int) int {
	if s[i] != '.' || i+1 == len(s) || !isDigit(s[i+1]) {
		return i
	}
	for i++; i < len(s) && isDigit(s[i]); i++ {
	}
	return i
}

// offsetMinutes reads the time-offset that ends s at i: Z, or a sign, hours and
// minutes.
func offsetMinutes[T string | []byte](s T, i int) (int, bool) {
	switch len(s) - i {
	case 1:
		return 0, s[i] == 'Z' || s[i] == 'z'
	case 6:
	default:
		return 0, false
	}
	if s[i+3] != ':' || !isDigit(s[i+1]) || !isDigit(s[i+2]) || !isDigit(s[i+4]) || !isDigit(s[i+5]) {
		return 0, false
	}
	hours, minutes := twoDigits(s, i+1), twoDigits(s, i+4)
	if hours > 23 || minutes > 59 {
		return 0, false
	}
	switch s[i] {
	case '+':
		return hours*60 + minutes, true
	case '-':
		return -hours*60 - minutes, true
	}
	return 0, false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// twoDigits reads the two digits of s at i.
func twoDigits[T string | []byte](s T, i int) int { return int(s[i]-'0')*10 + int(s[i+1]-'0') }

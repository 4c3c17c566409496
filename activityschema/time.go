package activityschema

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A Time is an instant that documents write as a date-time (RFC 3339 section 5.6).
//
// A Time that was read is written exactly as it was read: the letter case, the digits of its
// fraction and its zone. A Time made from a Go time, Time{Time: t}, is written with the zone of t
// and its fraction of a second, up to nanoseconds. It is written in UTC if RFC 3339 cannot
// express the zone (an offset with seconds, or of a day or more).
//
// time.Time alone is not enough: it cannot represent leap seconds and does not parse a lower case
// t or z. A leap second, 23:59:60 UTC, equals the second after it, as in POSIX. Digits beyond
// nanoseconds are dropped.
type Time struct {
	time.Time
	text string // as read; empty for a Go time
}

// Equal reports whether t and u are the same instant, in whatever notation.
func (t Time) Equal(u Time) bool { return t.Time.Equal(u.Time) }

// String returns the date-time as documents write it. For an instant that no date-time can
// express, it returns time.Time's String.
func (t Time) String() string {
	text, err := t.AppendText(nil)
	if err != nil {
		return t.Time.String()
	}
	return string(text)
}

// AppendText implements encoding.TextAppender. It fails for years outside 0 to 9999.
func (t Time) AppendText(b []byte) ([]byte, error) {
	at := t.Time
	if t.text != "" {
		// A changed Time field replaces the text.
		if read, err := parseDateTime(t.text); err == nil && read.Equal(at) && offset(read) == offset(at) {
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

// MarshalJSON implements json.Marshaler. Without it, the method of time.Time would be promoted.
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

// UnmarshalText implements encoding.TextUnmarshaler: text must be a date-time of RFC 3339.
func (t *Time) UnmarshalText(text []byte) error {
	at, err := parseDateTime(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is not a date-time of RFC 3339 with its zone", text)
	}
	*t = Time{Time: at, text: string(text)}
	return nil
}

// offset returns the offset of t's zone in seconds east of UTC.
func offset(t time.Time) int {
	_, seconds := t.Zone()
	return seconds
}

// dateTime checks what time.Parse does not: it accepts one-digit hours, a comma before the
// fraction and offsets up to +24:60.
var dateTime = regexp.MustCompile(
	`^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

var errDateTime = errors.New("not a date-time of RFC 3339")

func isDateTime(text string) bool {
	_, err := parseDateTime(text)
	return err == nil
}

// parseDateTime parses a date-time (RFC 3339 section 5.6). A lower case t or z is accepted, and
// so is second 60 at 23:59 UTC (a leap second), on any day.
func parseDateTime(text string) (time.Time, error) {
	text = strings.ToUpper(text)
	if !dateTime.MatchString(text) {
		return time.Time{}, errDateTime
	}
	const second = len("2006-01-02T15:04:")
	leap := text[second:second+2] == "60"
	if leap {
		text = text[:second] + "59" + text[second+2:]
	}
	at, err := time.Parse(time.RFC3339, text)
	if !leap || err != nil {
		return at, err
	}
	if utc := at.UTC(); utc.Hour() != 23 || utc.Minute() != 59 {
		return time.Time{}, errDateTime
	}
	return at.Add(time.Second), nil
}

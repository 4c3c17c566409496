package activityschema

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A Time is an instant that a document writes as a date-time of RFC 3339,
// section 5.6.
//
// One that was read is written as it was read, in any letter case, the
// digits of its fraction and its zone. One made of a Go time, Time{Time: t},
// is written with the zone of t and as many digits of a second as it has, up
// to nanoseconds; in UTC if RFC 3339 cannot write the zone (an offset with
// seconds, or of a day and more).
//
// time.Time alone would not do: it can hold no leap second and reads no lower
// case t or z. A leap second, 23:59:60 UTC, counts as the second after it, as
// in POSIX. Digits beyond nanoseconds are dropped.
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
	at, err := parseDateTime(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is not a date-time of RFC 3339 with its zone", text)
	}
	*t = Time{Time: at, text: string(text)}
	return nil
}

// offset returns the seconds that t's zone is east of UTC.
func offset(t time.Time) int {
	_, seconds := t.Zone()
	return seconds
}

// dateTime is what time.Parse does not hold to: it takes one-digit hours, a comma
// before the fraction and offsets up to +24:60.
var dateTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

var errDateTime = errors.New("not a date-time of RFC 3339")

func isDateTime(text string) bool {
	_, err := parseDateTime(text)
	return err == nil
}

// parseDateTime reads a date-time of RFC 3339, section 5.6. A lower case t or z is
// one, and so is the second 60 at 23:59 UTC (a leap second); which days had a leap
// second is not checked.
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

package activityschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
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

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	text, err := t.AppendText([]byte{'"'})
	if err != nil {
		return nil, err
	}
	return append(text, '"'), nil
}

// UnmarshalText implements encoding.TextUnmarshaler: text must be a date-time
// of RFC 3339.
func (t *Time) UnmarshalText(text []byte) error { return t.read(string(text)) }

func (t *Time) read(text string) error {
	if !isDateTime(text) {
		return fmt.Errorf("%.40q is not a date-time of RFC 3339 with its zone", text)
	}
	at, err := instant(text)
	if err != nil {
		return err
	}
	*t = Time{Time: at, text: text}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler. Null is an error.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if text == nil {
		return errors.New("a date-time cannot be null")
	}
	return t.read(*text)
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

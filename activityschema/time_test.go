package activityschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

func TestTimeIsReadAsItsInstant(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-05-17T06:30:12Z":                time.Date(2026, 5, 17, 6, 30, 12, 0, time.UTC),
		"2026-05-17t06:30:12z":                time.Date(2026, 5, 17, 6, 30, 12, 0, time.UTC),
		"2026-05-17T06:30:12.5+02:00":         time.Date(2026, 5, 17, 4, 30, 12, 5e8, time.UTC),
		"2026-05-17T06:30:12.12345678901234Z": time.Date(2026, 5, 17, 6, 30, 12, 123456789, time.UTC),
		"2026-05-17T06:30:12.000-00:00":       time.Date(2026, 5, 17, 6, 30, 12, 0, time.UTC),
		"0000-01-01T00:00:00+23:59":           time.Date(-1, 12, 31, 0, 1, 0, 0, time.UTC),
		"9999-12-31T23:59:59-23:59":           time.Date(10000, 1, 1, 23, 58, 59, 0, time.UTC),
		"2016-12-31T23:59:60Z":                time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC),
		"2016-12-31t23:59:60.25z":             time.Date(2017, 1, 1, 0, 0, 0, 25e7, time.UTC),
		"2016-12-31T15:59:60-08:00":           time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC),
		"9999-12-31T23:59:60Z":                time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		var got activityschema.Time
		if err := json.Unmarshal([]byte(`"`+text+`"`), &got); err != nil || !got.Time.Equal(want) {
			t.Errorf("%s: %v, error %v, want %v", text, got.Time, err, want)
		}
		if got.String() != text || string(written(t, got)) != `"`+text+`"` {
			t.Errorf("%s is written %s", text, got)
		}
		if asText, err := got.MarshalText(); err != nil || string(asText) != text {
			t.Errorf("%s is the text %s, error %v", text, asText, err)
		}
	}
}

func TestTimeRefusesInvalidDateTimes(t *testing.T) {
	for _, text := range []string{`null`, `0`, `""`, `"2026-05-17"`, `"2026-05-17T06:30:12"`, `"2026-05-17T7:30:12Z"`, `"2026-05-17T06:30:12,5Z"`, `"2026-05-17T12:00:60Z"`, `{}`} {
		before := activityschema.Time{Time: time.Unix(1, 0)}
		got := before
		if err := json.Unmarshal([]byte(text), &got); err == nil || got != before {
			t.Errorf("%s: %v, error %v", text, got, err)
		}
	}
	var got activityschema.Time
	if err := got.UnmarshalText([]byte(strings.Repeat("x", 1<<20))); err == nil || len(err.Error()) > 300 {
		t.Errorf("error %.400v", err)
	}
}

// A changed Time field counts, not the text that was read.
func TestChangedTimeIsWrittenChanged(t *testing.T) {
	const text = "2016-12-31T15:59:60.0-08:00"
	for _, c := range []struct {
		change func(read time.Time) time.Time
		want   string
	}{
		{func(read time.Time) time.Time { return read }, text},
		{func(read time.Time) time.Time { return read.Add(time.Nanosecond) }, "2016-12-31T16:00:00.000000001-08:00"},
		{time.Time.UTC, "2017-01-01T00:00:00Z"},
		{func(time.Time) time.Time { return time.Time{} }, "0001-01-01T00:00:00Z"},
	} {
		var got activityschema.Time
		must(t, got.UnmarshalText([]byte(text)))
		got.Time = c.change(got.Time)
		if got.String() != c.want || string(written(t, got)) != `"`+c.want+`"` {
			t.Errorf("written %s, want %s", got, c.want)
		}
	}
}

func TestGoTimeIsWrittenAsItsInstant(t *testing.T) {
	at := time.Date(1912, 6, 23, 12, 0, 0, 120, time.UTC)
	for zone, want := range map[*time.Location]string{
		time.UTC:                                  "1912-06-23T12:00:00.00000012Z",
		time.FixedZone("", 2*3600):                "1912-06-23T14:00:00.00000012+02:00",
		time.FixedZone("", -(23*3600 + 59*60)):    "1912-06-22T12:01:00.00000012-23:59",
		time.FixedZone("Amsterdam", 1172):         "1912-06-23T12:00:00.00000012Z",
		time.FixedZone("a day", 24*3600):          "1912-06-23T12:00:00.00000012Z",
		time.FixedZone("a day back", -24*3600):    "1912-06-23T12:00:00.00000012Z",
		time.FixedZone("half a minute back", -30): "1912-06-23T12:00:00.00000012Z",
	} {
		made := activityschema.Time{Time: at.In(zone)}
		same(t, zone, made.String(), want)
		var again activityschema.Time
		if err := json.Unmarshal(written(t, made), &again); err != nil || !again.Equal(made) {
			t.Errorf("%s: read again as %v, error %v", zone, again, err)
		}
	}
	for _, year := range []int{-1, 10000} {
		outside := activityschema.Time{Time: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}
		if _, err := json.Marshal(outside); err == nil || !strings.Contains(err.Error(), fmt.Sprint(year)) {
			t.Errorf("year %d: error %v", year, err)
		}
		same(t, fmt.Sprintf("year %d prints", year), outside.String(), outside.Time.String())
	}
}

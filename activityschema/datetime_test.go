package activityschema_test

import (
	"testing"
)

func TestDateTimeIsRFC3339(t *testing.T) {
	for text, want := range map[string]bool{
		"2026-05-17T06:30:12Z":                true,
		"2026-05-17t06:30:12z":                true,
		"2026-05-17T06:30:12.5Z":              true,
		"2026-05-17T06:30:12.12345678901234Z": true,
		"2026-05-17T06:30:12+00:00":           true,
		"2026-05-17T06:30:12-00:00":           true,
		"2026-05-17T06:30:12+23:59":           true,
		"2024-02-29T00:00:00Z":                true,
		"2000-02-29T00:00:00Z":                true,
		"0000-01-01T00:00:00Z":                true,
		"9999-12-31T23:59:59Z":                true,
		"1998-12-31T23:59:60Z":                true,
		"1998-12-31T23:59:60.999z":            true,
		"1998-12-31T15:59:60.123-08:00":       true,
		"1999-01-01T00:59:60+01:00":           true,
		"1999-01-01T05:29:60+05:30":           true,

		"1998-12-31T23:58:60Z":         false,
		"1998-12-31T22:59:60Z":         false,
		"1998-12-31T23:59:60+01:00":    false,
		"1998-12-31T23:59:61Z":         false,
		"2026-05-17T24:00:00Z":         false,
		"2026-05-17T23:60:00Z":         false,
		"2026-05-17T06:30:00+24:00":    false,
		"2026-05-17T06:30:00+23:60":    false,
		"2026-05-17T06:30:00-24:00":    false,
		"2026-05-17T7:30:12Z":          false,
		"2026-05-17T+7:30:12Z":         false,
		"2026-05-17T07:30:-0Z":         false,
		"2026-05-17T06:30:12,5Z":       false,
		"2026-05-17T06:30:12.Z":        false,
		"2026-05-17T06:30:12.5.5Z":     false,
		"2026-05-17T06:30:12":          false,
		"2026-05-17T06:30:12.5":        false,
		"2026-05-17T06:30Z":            false,
		"2026-05-17T06:30:12ZZ":        false,
		"2026-05-17T06:30:12Z ":        false,
		" 2026-05-17T06:30:12Z":        false,
		"2026-05-17 06:30:12Z":         false,
		"2026-05-17T06:30:12+0200":     false,
		"2026-05-17T06:30:12+02":       false,
		"2026-05-17T06:30:12+02:0":     false,
		"2026-05-17T06:30:12 02:00":    false,
		"2026-05-17T06:30:12Z+02:00":   false,
		"2026-05-17":                   false,
		"06:30:12Z":                    false,
		"":                             false,
		"26-05-17T06:30:12Z":           false,
		"2026-5-17T06:30:12Z":          false,
		"2026-05-17T06:30:12\u0661Z":   false,
		"\u0662026-05-17T06:30:12Z":    false,
		"2026-02-29T00:00:00Z":         false,
		"1900-02-29T00:00:00Z":         false,
		"2026-02-30T06:30:00Z":         false,
		"2026-04-31T06:30:00Z":         false,
		"2026-00-10T06:30:00Z":         false,
		"2026-13-10T06:30:00Z":         false,
		"2026-01-00T06:30:00Z":         false,
		"+2026-05-17T06:30:12Z":        false,
		"2026-137T06:30:12Z":           false,
		"2026-05-17T06:30:12[Etc/UTC]": false,
	} {
		found := problems(t, edited(t, "lap", func(o map[string]any) { o["started_at"] = text }))
		if got := len(found) == 0; got != want {
			t.Errorf("%q: accepted %t, want %t", text, got, want)
		}
		if !want && (len(found) != 1 || found[0].Keyword != "format" || found[0].Pointer != "/laps/0/started_at") {
			t.Errorf("%q: problems %v", text, found)
		}
		if (dateTime(text) == nil) != want {
			t.Errorf("%q: the oracle of the other tests is wrong", text)
		}
	}
}

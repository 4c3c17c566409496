package activityschema_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The text counts, not how it is written, and however long it is.
func TestTextIsNeverJudgedByItsSpelling(t *testing.T) {
	digits := strings.Repeat("1234567890", 20_000)
	for member, want := range map[string][]string{
		`"sub_sport": "\u0072oad"`:                    nil,
		`"sub_sport": "\u0072o\u0061\u0064"`:          nil,
		`"sub_sport": "roa\u0044"`:                    {"/sub_sport enum"},
		`"sub_sport": "road\u0000"`:                   {"/sub_sport enum"},
		`"sub_sport": "road "`:                        {"/sub_sport enum"},
		`"sub_sport": "roa"`:                          {"/sub_sport enum"},
		`"sub_sport": "` + digits + `"`:               {"/sub_sport enum"},
		`"sub_sport": "ro\ud800ad"`:                   {"/sub_sport enum"},
		`"sub_sport": "null"`:                         {"/sub_sport enum"},
		`"sub_sport": null`:                           nil,
		`"\u0073ub_sport": null`:                      nil,
		`"source": "manual"`:                          nil,
		`"gear": "` + strings.Repeat("🚴", 9999) + `"`: nil,
		`"gear": ""`:                                  nil,
	} {
		data, _ := in(t, member)
		if diff := cmp.Diff(want, places(problems(t, data)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", member, diff)
		}
	}
	minimal := string(document(t, "detail-minimal.json"))
	start := strings.Index(minimal, `"id": "`) + len(`"id": `)
	end := start + strings.IndexByte(minimal[start:], ',')
	for id, want := range map[string][]string{
		`""`:                                 {"/id minLength"},
		`"x"`:                                nil,
		`" "`:                                nil,
		`"\n"`:                               nil,
		`"\u0000"`:                           nil,
		`"\ud800"`:                           nil,
		`"ä"`:                                nil,
		`"🚴"`:                                nil,
		`"` + strings.Repeat("ä", 300) + `"`: nil,
	} {
		data := []byte(minimal[:start] + id + minimal[end:])
		if diff := cmp.Diff(want, places(problems(t, data)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("id %.80s (-want +got):\n%s", id, diff)
		}
	}
}

// A date-time may have any number of digits in its fraction, and escapes.
func TestLongDateTimeIsNeverMisjudged(t *testing.T) {
	const start = "2026-05-17T06:30:12"
	for text, want := range map[string]bool{
		start + ".5Z":           true,
		start + `\u002e5\u005a`: true,
		start + `.5\u00e4`:      false,
		start + "." + strings.Repeat("1", 100) + "Z":                                       true,
		start + "." + strings.Repeat("12", 70_000) + "Z":                                   true,
		start + `\u002e` + strings.Repeat("1", 100) + "Z":                                  true,
		start + `\u002e` + strings.Repeat("1", 300) + "Z":                                  true,
		start + `\u002e` + strings.Repeat("1", 70_000) + "+02:00":                          true,
		start + `\u002e` + strings.Repeat("1", 70_000) + "+02:0":                           false,
		start + `\u002e` + strings.Repeat("1", 70_000) + "+24:00":                          false,
		start + `\u002e` + strings.Repeat("1", 70_000):                                     false,
		start + `\u002e` + strings.Repeat("1", 70_000) + "Z" + "1":                         false,
		start + `\u002e` + strings.Repeat("1", 70_000) + "." + "1Z":                        false,
		start + `\u002e` + strings.Repeat("1", 70_000) + "Z" + strings.Repeat("1", 70_000): false,
		start + `\u002e` + strings.Repeat("1", 70_000) + "Z" + strings.Repeat(" ", 70_000): false,
		`\u0032` + strings.Repeat("0", 70_000) + start[1:] + "Z":                           false,
		strings.Repeat(`\u0020`, 70_000) + start + "Z":                                     false,
	} {
		lap := `{"index":0,"started_at":"` + text + `","duration_s":null}`
		data := strings.Replace(string(document(t, "detail-minimal.json")), `"laps": []`, `"laps": [`+lap+`]`, 1)
		found := problems(t, []byte(data))
		if want && len(found) > 0 || !want && (len(found) != 1 || found[0].Keyword != "format") {
			t.Errorf("%.40s, %d bytes: %.300v, want accepted %t", text, len(text), found, want)
		}
	}
}

package activityschema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/activityschema"
)

// detailWith decodes a detail document that has these members beside or
// instead of those that it needs.
func detailWith(t testing.TB, members string) *activityschema.Document {
	t.Helper()
	var all, more map[string]jsontext.Value
	least := `{"bas_version": "1.0", "id": "a", "title": "Ride", "sport": "cycling", "started_at": "2026-05-17T06:30:00Z",
		"privacy": "public", "laps": [], "timeseries": {"t": []}, "custom": {}}`
	must(t, json.Unmarshal([]byte(least), &all))
	if err := json.Unmarshal([]byte("{"+members+"}"), &more); err != nil {
		t.Fatalf("%s: %v", members, err)
	}
	maps.Copy(all, more)
	data, err := json.Marshal(all)
	must(t, err)
	return mustDecode(t, members, data)
}

// The two sides of every limit that a rule has.
func TestLimitsOfRules(t *testing.T) {
	track := `"timeseries": {"t": [0, 60], "lat": [60, 60.01], "lon": [8.1, 8.12]}, `
	lap := func(offset string, duration int) string {
		return fmt.Sprintf(`"duration_s": 60, "laps": [{"index": 0, "started_at": "2026-05-17T%s", "duration_s": %d}]`, offset, duration)
	}
	twoLaps := func(second int) string {
		return fmt.Sprintf(`"duration_s": 60, "laps": [{"index": 0, "started_at": "2026-05-17T06:30:00Z", "duration_s": 40},
			{"index": 1, "started_at": "2026-05-17T06:30:20Z", "duration_s": %d}]`, second)
	}
	blurred := `"privacy": "blur_start", ` + track
	for _, c := range []struct{ name, let, found, want string }{
		{"samples beyond the duration", `"duration_s": 100, "timeseries": {"t": [50, 181]}`, `"duration_s": 100, "timeseries": {"t": [50, 182]}`, "/duration_s duration-mismatch"},
		{"samples beyond a long duration", `"duration_s": 10000, "timeseries": {"t": [0, 10130]}`, `"duration_s": 10000, "timeseries": {"t": [0, 10131]}`, "/duration_s duration-mismatch"},
		{"moving", `"duration_s": 100, "moving_time_s": 101`, `"duration_s": 100, "moving_time_s": 102`, "/moving_time_s moving-over-duration"},
		{"speeds", `"avg_speed_kmh": 30.1, "max_speed_kmh": 30`, `"avg_speed_kmh": 30.11, "max_speed_kmh": 30`, "/avg_speed_kmh average-over-maximum"},
		{"heart rates", `"avg_hr_bpm": 150, "max_hr_bpm": 150`, `"avg_hr_bpm": 151, "max_hr_bpm": 150`, "/avg_hr_bpm average-over-maximum"},
		{"powers", `"avg_power_w": 150, "max_power_w": 150`, `"avg_power_w": 151, "max_power_w": 150`, "/avg_power_w average-over-maximum"},
		{"zero", `"distance_m": 0, "duration_s": 0`, `"distance_m": -1e-9, "duration_s": 0`, "/distance_m negative-value"},
		{"precision", `"avg_power_w": 9007199254740992`, `"avg_power_w": 9007199254740993`, "/avg_power_w integer-precision"},
		{"precision below zero", `"timeseries": {"t": [], "hr_bpm": []}`, `"timeseries": {"t": [0], "power_w": [9007199254740993]}`, "/timeseries/power_w/0 integer-precision"},
		{"id", `"id": "` + strings.Repeat("x", 250) + `"`, `"id": "` + strings.Repeat("x", 251) + `"`, "/id id-file-name"},
		{"bbox in the south", track + `"bbox": [8.1, 60.000009, 8.12, 60.01]`, track + `"bbox": [8.1, 60.00002, 8.12, 60.01]`, "/bbox bbox-outside"},
		{"bbox in the north", track + `"bbox": [8.1, 60, 8.12, 60.009991]`, track + `"bbox": [8.1, 60, 8.12, 60.00998]`, "/bbox bbox-outside"},
		{"bbox in the west", track + `"bbox": [8.100009, 60, 8.12, 60.01]`, track + `"bbox": [8.10002, 60, 8.12, 60.01]`, "/bbox bbox-outside"},
		{"bbox in the east", track + `"bbox": [8.1, 60, 8.119991, 60.01]`, track + `"bbox": [8.1, 60, 8.11998, 60.01]`, "/bbox bbox-outside"},
		{"bbox of one point", `"bbox": [8, 47, 8, 47]`, `"bbox": [8, 47.1, 8, 47]`, "/bbox bbox-order"},
		{"bbox of the Earth", `"bbox": [-180, -90, 180, 90]`, `"bbox": [-180, -90.1, 180, 90]`, "/bbox/1 bbox-range"},
		{"latitude", `"timeseries": {"t": [0], "lat": [-90], "lon": [180]}`, `"timeseries": {"t": [0], "lat": [-90.01], "lon": [180]}`, "/timeseries/lat/0 coordinate-range"},
		{"longitude", `"timeseries": {"t": [0], "lat": [90], "lon": [-180]}`, `"timeseries": {"t": [0], "lat": [90], "lon": [-180.01]}`, "/timeseries/lon/0 coordinate-range"},
		// 0.001 degrees of latitude are 111.2 m.
		{"start", track + `"start_latlng": [59.99551, 8.1]`, track + `"start_latlng": [59.99549, 8.1]`, "/start_latlng start-end-mismatch"},
		{"end", track + `"end_latlng": [60.01449, 8.12]`, track + `"end_latlng": [60.01451, 8.12]`, "/end_latlng start-end-mismatch"},
		{"start of a late position", `"timeseries": {"t": [5, 65, 66], "lat": [null, 60, 60], "lon": [null, 8, 8]}, "start_latlng": [59.9795, 8]`,
			`"timeseries": {"t": [5, 65, 66], "lat": [null, 60, 60], "lon": [null, 8, 8]}, "start_latlng": [59.9790, 8]`, "/start_latlng start-end-mismatch"},
		{"end of a lost position", `"timeseries": {"t": [5, 65], "lat": [60, null], "lon": [8, null]}, "end_latlng": [59.9795, 8]`,
			`"timeseries": {"t": [5, 65], "lat": [60, null], "lon": [8, null]}, "end_latlng": [59.9790, 8]`, "/end_latlng start-end-mismatch"},
		{"lap before the start", lap("06:29:59Z", 60), lap("06:29:58.9Z", 60), "/laps/0/started_at lap-outside"},
		{"lap after the end", lap("06:31:01Z", 0), lap("06:31:01.1Z", 0), "/laps/0/started_at lap-outside"},
		{"end of a lap", lap("06:30:00Z", 62), lap("06:30:00Z", 63), "/laps/0/duration_s lap-outside"},
		{"end of a late lap", lap("06:30:50Z", 12), lap("06:30:50Z", 13), "/laps/0/duration_s lap-outside"},
		{"end of a lap after the samples", `"timeseries": {"t": [0, 70]}, ` + lap("06:30:50Z", 22), `"timeseries": {"t": [0, 70]}, ` + lap("06:30:50Z", 23), "/laps/0/duration_s lap-outside"},
		{"end of a lap after a pause", `"duration_s": 60, "laps": [{"index": 0, "started_at": "2026-05-17T06:30:00Z", "duration_s": 20}, {"index": 1, "started_at": "2026-05-17T06:30:50Z", "duration_s": 42}]`,
			`"duration_s": 60, "laps": [{"index": 0, "started_at": "2026-05-17T06:30:00Z", "duration_s": 20}, {"index": 1, "started_at": "2026-05-17T06:30:50Z", "duration_s": 43}]`, "/laps/1/duration_s lap-outside"},
		{"laps together", twoLaps(23), twoLaps(24), "/laps lap-outside"},
		{"lap order", `"laps": [{"index": 0, "started_at": "2026-05-17T06:30:02Z", "duration_s": 1}, {"index": 1, "started_at": "2026-05-17T06:30:01Z", "duration_s": 1}]`,
			`"laps": [{"index": 0, "started_at": "2026-05-17T06:30:02Z", "duration_s": 1}, {"index": 1, "started_at": "2026-05-17T06:30:00.9Z", "duration_s": 1}]`, "/laps/1/started_at lap-order"},
		{"blurred start", blurred + `"start_latlng": [59.99983, 8.1]`, blurred + `"start_latlng": [59.99981, 8.1]`, "/start_latlng privacy-blur-start"},
		{"blurred end", blurred + `"end_latlng": [60.01017, 8.12]`, blurred + `"end_latlng": [60.01019, 8.12]`, "/end_latlng privacy-blur-start"},
		{"blurred start, longitude first", blurred + `"start_latlng": [60, 8.1]`, blurred + `"start_latlng": [8.1, 60]`, "/start_latlng start-end-mismatch"},
		// At 60 degrees north a degree of longitude is half as long.
		{"blurred bbox in the south", blurred + `"bbox": [8.1, 59.99983, 8.12, 60.01]`, blurred + `"bbox": [8.1, 59.99981, 8.12, 60.01]`, "/bbox privacy-blur-start"},
		{"blurred bbox in the north", blurred + `"bbox": [8.1, 60, 8.12, 60.01017]`, blurred + `"bbox": [8.1, 60, 8.12, 60.01019]`, "/bbox privacy-blur-start"},
		{"blurred bbox in the west", blurred + `"bbox": [8.09965, 60, 8.12, 60.01]`, blurred + `"bbox": [8.09963, 60, 8.12, 60.01]`, "/bbox privacy-blur-start"},
		{"blurred bbox in the east", blurred + `"bbox": [8.1, 60, 8.12035, 60.01]`, blurred + `"bbox": [8.1, 60, 8.12037, 60.01]`, "/bbox privacy-blur-start"},
		{"blurred bbox across the antimeridian", `"privacy": "blur_start", "timeseries": {"t": [0, 9], "lat": [0, 0], "lon": [-179.999, 179.999]}, "bbox": [179.99885, 0, -179.99885, 0]`,
			`"privacy": "blur_start", "timeseries": {"t": [0, 9], "lat": [0, 0], "lon": [-179.999, 179.999]}, "bbox": [179.99885, 0, -179.9988, 0]`, "/bbox privacy-blur-start"},
		{"source hash", `"source_hash": "sha256:` + strings.Repeat("Af", 32) + `"`, `"source_hash": "sha256:` + strings.Repeat("Af", 31) + `"`, "/source_hash source-hash-form"},
		{"duplicate", `"duplicate_of": "A"`, `"duplicate_of": "a"`, "/duplicate_of duplicate-of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if found := activityschema.Lint(detailWith(t, c.let)); len(found) > 0 {
				t.Errorf("%s: found %+v", c.let, found)
			}
			equal(t, fmt.Sprintf("%s: findings (-expected +found)", c.found),
				whereAndCode(t, activityschema.Lint(detailWith(t, c.found))), []string{c.want})
		})
	}
}

// Of a pair whose other half is null, missing or off the Earth one half still
// tells where the door is. Sample 0 is the half, the others are the track.
func TestHalfPositionBeyondTheCutIsReported(t *testing.T) {
	for _, c := range []struct {
		lat, lon string
		want     int
	}{
		{`[59.99983, 60, 60.01]`, `[null, 8.1, 8.12]`, 0},
		{`[59.99981, 60, 60.01]`, `[null, 8.1, 8.12]`, 1},
		{`[60.01017, 60, 60.01]`, `[null, 8.1, 8.12]`, 0},
		{`[60.01019, 60, 60.01]`, `[null, 8.1, 8.12]`, 1},
		{`[null, 60, 60.01]`, `[8.09965, 8.1, 8.12]`, 0},
		{`[null, 60, 60.01]`, `[8.09963, 8.1, 8.12]`, 1},
		{`[null, 60, 60.01]`, `[8.12035, 8.1, 8.12]`, 0},
		{`[null, 60, 60.01]`, `[8.12037, 8.1, 8.12]`, 1},
		{`[60, 60.01, 60.1]`, `[8.1, 8.12]`, 1},
		{`[60, 60.01]`, `[8.1, 8.12, 8.2]`, 1},
		{`[60.1, 60, 60.01]`, `[999, 8.1, 8.12]`, 1},
		{`[60.1, 60.2, 60.3]`, `null`, 3},
		{`null`, `[8.1, null, 8.2]`, 2},
		{`[null, 0, 0]`, `[180, 179.999, -179.999]`, 0},
		{`[null, 0, 0]`, `[-179.99885, 179.999, -179.999]`, 0},
		{`[null, 0, 0]`, `[-179.9987, 179.999, -179.999]`, 1},
		{`[null, 0, 0]`, `[0, 179.999, -179.999]`, 1},
	} {
		columns := `"timeseries": {"t": [100, 160, 220], "lat": ` + c.lat + `, "lon": ` + c.lon + `}`
		for privacy, want := range map[string]int{"blur_start": c.want, "public": 0} {
			got := 0
			for _, f := range activityschema.Lint(detailWith(t, columns+`, "privacy": "`+privacy+`"`)) {
				if f.Code == activityschema.CodePrivacyBlurStart {
					got++
				}
			}
			same(t, fmt.Sprintf("%s %s: found", privacy, columns), got, want)
		}
	}
}

func TestExchangedCoordinatesAreNamed(t *testing.T) {
	track := `"timeseries": {"t": [0, 60], "lat": [60, 60.01], "lon": [8.1, 8.12]}, `
	for members, want := range map[string]bool{
		track + `"start_latlng": [8.1, 60]`:      true,
		track + `"start_latlng": [8.3, 60]`:      false,
		`"start_latlng": [151.2, -33.8]`:         true,
		`"start_latlng": [151.2, -133.8]`:        false,
		track + `"bbox": [60, 8.1, 60.01, 8.12]`: true,
		track + `"bbox": [60, 8.1, 60.01, 8.11]`: false,
		`"bbox": [8, 47, 8, 91]`:                 true,
	} {
		found := activityschema.Lint(detailWith(t, members))
		if len(found) != 1 {
			t.Errorf("%s: %+v", members, found)
			continue
		}
		hinted := regexp.MustCompile(`order (is|being) \[|change places`).MatchString(found[0].Message)
		if hinted != want {
			t.Errorf("%s: %q", members, found[0].Message)
		}
	}
}

func TestManyWarningsDoNotHideAnError(t *testing.T) {
	var list []string
	for i := range 60 {
		list = append(list, fmt.Sprintf(`{"id": "a/%d", "title": "", "sport": "running", "started_at": "2026-05-17T06:30:00Z", "privacy": "private", "detail_url": "x", "track_url": "y",
			"distance_m": -1, "duration_s": -3, "moving_time_s": -1, "avg_speed_kmh": 2, "max_speed_kmh": 1, "avg_power_w": 9007199254740993}`, i))
		list = append(list, `{"id": "a/0", "title": "", "sport": "running", "started_at": "2026-05-17T06:30:00Z", "privacy": "no_gps", "track_url": "y"}`)
	}
	doc := mustDecode(t, "index", []byte(`{"bas_version": "1.0", "owner": {"handle": "a", "display_name": ""}, "generated_at": "2020-05-17T06:30:00Z", "activities": [`+strings.Join(list, ", ")+"]}"))
	found := activityschema.Lint(doc)
	counts := map[string]int{}
	last := map[string]string{}
	for _, f := range found {
		counts[f.Code]++
		last[f.Code] = f.Message
	}
	want := map[string]int{
		"id-file-name": 10, "negative-value": 10, "integer-precision": 10, "moving-over-duration": 10, "average-over-maximum": 10, "detail-url": 10,
		"id-duplicate": 10, "generated-at": 1, "privacy-private-link": 10, "privacy-no-gps": 10,
	}
	equal(t, "findings by code (-expected +found)", counts, want)
	for code, total := range map[string]int{"id-file-name": 120, "negative-value": 180, "id-duplicate": 60, "privacy-private-link": 120, "privacy-no-gps": 60} {
		same(t, fmt.Sprintf("%s ends", code), last[code], fmt.Sprintf("... and %d more", total-9))
	}
	whereAndCode(t, found)

	// More codes than MaxFindings holds: every column and figure is wrong.
	ten := func(v string) string { return "[" + strings.Repeat(v+", ", 11) + v + "]" }
	columns := `"privacy": "no_gps", "bbox": [1, 2, -1, 1], "start_latlng": [1, 2], "end_latlng": [1, 2], "id": "a/", "source_hash": "", "duplicate_of": "a/", "duration_s": 5, "moving_time_s": 9,
		"avg_hr_bpm": 9, "max_hr_bpm": 8, "timeseries": {"t": [0, ` + strings.Repeat("-9007199254740993, ", 11) + `99], "lat": [91, ` + strings.Repeat("null, 91, ", 30) + `0],
		"lon": [` + strings.Repeat("0, 181, ", 31) + `0], "hr_bpm": ` + ten("-1") + `, "speed_kmh": [1]}, "laps": [` +
		strings.TrimSuffix(strings.Repeat(`{"index": 5, "started_at": "2026-05-17T06:00:00Z", "duration_s": 9}, {"index": 5, "started_at": "2026-05-17T05:00:00Z", "duration_s": 9}, `, 12), ", ") + `],
		"custom": {` + strings.TrimSuffix(strings.Repeat(`"NAME": {"position": [47.1234, 8.1234]}, `, 1), ", ") + `}`
	for i := range 12 {
		columns = strings.Replace(columns, `"NAME": {"position": [47.1234, 8.1234]}`,
			fmt.Sprintf(`"x%d": {"position": [47.1234, 8.1234]}, "NAME": {"position": [47.1234, 8.1234]}`, i), 1)
	}
	found = activityschema.Lint(detailWith(t, columns))
	if len(found) > activityschema.MaxFindings {
		t.Errorf("%d findings", len(found))
	}
	errors := 0
	for _, f := range found {
		if f.Severity == activityschema.SeverityError {
			errors++
		}
	}
	same(t, fmt.Sprintf("errors, 15: %+v", found), errors, 5+10)
}

// Findings end in logs and on the terminals of others.
func TestMessageOmitsPositions(t *testing.T) {
	position := regexp.MustCompile(`\d\.\d\d\d`)
	seen := 0
	for name, data := range corpus(t, "lint", leastLinted) {
		for _, f := range activityschema.Lint(mustDecode(t, name, data)) {
			seen++
			if position.MatchString(f.Message) {
				t.Errorf("%s: %s: %q", name, f.Pointer, f.Message)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d messages", seen)
	}
}

func TestLintOfAMalformedDocument(t *testing.T) {
	for _, doc := range []*activityschema.Document{nil, {}, {Index: new(activityschema.Index)},
		{Detail: new(activityschema.Detail)}} {
		if found := activityschema.Lint(doc); len(found) > 0 {
			t.Errorf("%+v: %+v", doc, found)
		}
	}
	custom := map[string]jsontext.Value{"a": nil, "b": jsontext.Value(`{"lat": 1, `), "c": jsontext.Value(`[[1.23456`), "d": jsontext.Value(`nonsense`),
		"e": jsontext.Value(strings.Repeat("[", 1<<20)), "f": jsontext.Value(strings.Repeat(`{"a":`, 1<<18)), "lat": jsontext.Value(`]`), "lon": jsontext.Value(`1 2`)}
	for _, privacy := range []activityschema.Privacy{activityschema.PrivacyNoGPS, activityschema.PrivacyBlurStart} {
		doc := &activityschema.Document{Detail: &activityschema.Detail{Custom: custom}}
		doc.Detail.Privacy, doc.Detail.Timeseries.HRBpm = privacy, make(activityschema.Column[int64], 1)
		doc.Detail.Timeseries.Lat = make(activityschema.Column[float64], 3)
		doc.Detail.Timeseries.Lon = make(activityschema.Column[float64], 2)
		if found := activityschema.Lint(doc); len(found) == 0 {
			t.Error("columns without t: no finding")
		}
	}
}

// What is too long is examined at its beginning, and the finding says that the rest was not.
func TestLintOfALongText(t *testing.T) {
	text, detail := "47.37690, 8.54170 "+strings.Repeat("x", 1<<20), new(activityschema.Detail)
	detail.Privacy, detail.Description = activityschema.PrivacyNoGPS, &text
	var codes []string
	for _, f := range activityschema.Lint(&activityschema.Document{Detail: detail}) {
		codes = append(codes, f.Code)
	}
	same(t, "codes", strings.Join(codes, " "), "not-linted privacy-text")
}

func TestEveryCodeIsDocumentedAndTested(t *testing.T) {
	triggered := map[string]bool{activityschema.NotLinted().Code: true}
	for name, data := range corpus(t, "lint", leastLinted) {
		for _, f := range activityschema.Lint(mustDecode(t, name, data)) {
			triggered[f.Code] = true
		}
	}
	for name := range table(t, "library.tsv", 4) {
		for _, f := range libraryOf(folderOf(t, name)).Findings() {
			triggered[f.Code] = true
		}
	}
	codes := activityschema.Codes()
	for i, code := range codes {
		if slices.Contains(codes[:i], code) {
			t.Errorf("%s is there twice", code)
		}
		if !triggered[code] {
			t.Errorf("no document of testdata triggers %s", code)
		}
	}
}

func TestFindingsMarshalInOneShape(t *testing.T) {
	l := activityschema.NewLibrary()
	l.Add("./b.json", detailWith(t, `"id": "c"`))
	data, err := json.Marshal(l.Findings())
	want := `[{"file":"b.json","pointer":"/id","code":"id-file-name","severity":"warning","message":"the detail of this id is the file \"activities/c.json\""}]`
	if err != nil || string(data) != want {
		t.Errorf("%v %s", err, data)
	}
}

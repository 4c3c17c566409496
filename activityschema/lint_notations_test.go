package activityschema_test

import (
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// The cut track of notationTrack runs north from 47.36 to 47.38 at 8.542 degrees
// east.
const notationTrack = `"privacy": "blur_start", "timeseries": {"t": [60, 90, 120], "lat": [47.366, 47.3713, 47.376], "lon": [8.5421, 8.5421, 8.5421]}, `

// Each of these shows a position on that track, and the second one beyond it.
var notated = []struct{ on, beyond string }{
	// ISO 6709, as phones write it into films.
	{`"location": "+47.3713+008.5421/"`, `"location": "+47.3913+008.5421/"`},
	{`"x": "+47.37130+008.54210+412.345/"`, `"x": "+47.37130+008.55210+412.345/"`},
	{`"x": "com.apple.quicktime.location.ISO6709: +47.3713+008.5421+412.345/"`, `"x": "location +47.3713-008.5421+412.345CRSWGS_84/"`},
	{`"x": "+4722.278+00832.526/"`, `"x": "-4722.278+00832.526/"`},
	{`"x": "+472216.7+0083231.6/"`, `"x": "+472216.7+0083331.6/"`},
	{`"x": "+47.3713+008.5421"`, `"x": "+47.3813+008.5421"`},
	// Degrees and minutes, as exiftool and caches write them.
	{`"x": "47 deg 22' 16.64\" N, 8 deg 32' 31.60\" E"`, `"x": "47 deg 23' 16.64\" N, 8 deg 32' 31.60\" E"`},
	{`"GPSPosition": "47 deg 22' 16.64\" N, 8 deg 32' 31.60\" E"`, `"GPSPosition": "47 deg 22' 16.64\" S, 8 deg 32' 31.60\" E"`},
	{`"x": "47°22'16.64\"N 8°32'31.60\"E"`, `"x": "47°22'16.64\"N 8°32'31.60\"W"`},
	{`"x": "N 47° 22.277 E 8° 32.527"`, `"x": "N 47° 24.277 E 8° 32.527"`},
	{`"x": "at N 47º 22.277' E 008º 32.527', by the bridge"`, `"x": "at N 47º 22.277' E 008º 34.527', by the bridge"`},
	{`"x": "47° 22′ 16.64″, 8° 32′ 31.60″"`, `"x": "48° 22′ 16.64″, 8° 32′ 31.60″"`},
	// Decimal commas.
	{`"x": "47,37129; 8,54211"`, `"x": "47,38129; 8,54211"`},
	{`"x": "Treffpunkt: 47,3713 / 8,5421 (Parkplatz)"`, `"x": "Treffpunkt: 47,3713 / 8,5521 (Parkplatz)"`},
	{`"x": "N 47,3713° E 8,5421°"`, `"x": "N 47,3913° E 8,5421°"`},
	{`"x": "47,37129, 8,54211"`, `"x": "-47,37129, 8,54211"`},
	{`"home": "47,37 8,54"`, `"home": "47,37 9,54"`},
	{`"coordinates": "47,4;8,5"`, `"coordinates": "47,4;9,9"`},
	// Geohashes.
	{`"location": "u0qj6rsjv"`, `"location": "9yuw56xgye"`},
	{`"home": "U0QJ6RSJ"`, `"home": "9yuw56xg"`},
	{`"geo": "u0qj6rsjv677"`, `"geo": "u0qj7rsjv677"`},
}

func TestPositionInAnotherNotationIsNeverShown(t *testing.T) {
	for _, n := range notated {
		for _, custom := range []string{n.on, n.beyond} {
			if found := customFindings(t, "{"+custom+"}"); len(found) != 1 || found[0].Code != activityschema.CodePrivacyCustom {
				t.Errorf("no_gps: %s: %+v", custom, found)
			}
		}
		if found := activityschema.Lint(detailWith(t, notationTrack+`"custom": {`+n.beyond+`}`)); len(found) != 1 {
			t.Errorf("beyond the track: %s: %+v", n.beyond, found)
		}
	}
	for _, custom := range []string{`{"geohashes":["9yuw56xg"]}`, `{"pluscodes":["8FVC9G8F+6X"]}`, `{"exif":{"GPSLatitude":"47 deg 22' 16.64\" N"}}`, `{"x":"47° 22' north"}`, `{"x":"it lies on E 8° 32.5'"}`, `{"x":"8°32'31.6''"}`} {
		if found := customFindings(t, custom); len(found) != 1 {
			t.Errorf("no_gps: %s: %+v", custom, found)
		}
	}
}

func TestPositionOnTheTrackIsNeverReportedForItsNotation(t *testing.T) {
	for _, n := range notated {
		if found := activityschema.Lint(detailWith(t, notationTrack+`"custom": {`+n.on+`}`)); len(found) > 0 {
			t.Errorf("%s: %+v", n.on, found)
		}
	}
}

func TestOrdinaryTextIsNeverTakenForANotation(t *testing.T) {
	for _, custom := range []string{
		// Sums, telephone numbers and offsets.
		`"x": "+12.50-100.00"`, `"x": "-12.25+100.75 EUR"`, `"x": "+41 44 123 45 67"`, `"x": "+01:00"`, `"x": "2026-05-17T06:30:00.123+0200"`, `"x": "100.1234-12.1234+100.1234"`,
		`"x": "+4722.2770+00832.5270"`, `"x": "+99.1234+008.1234/"`, `"x": "+00.0000+000.0000/"`,
		// Angles and temperatures.
		`"x": "seat angle 73 deg, 72.5 deg"`, `"x": "12 deg, 3 m/s"`, `"x": "12° 3, 14° 5"`, `"x": "21.5° 10' walk"`, `"x": "turn 90 degrees"`, `"x": "20° 15' gradient"`, `"x": "in 20° 15' later"`, `"x": "270 deg 12 km/h, 250 deg 15 km/h"`, `"x": "21°C 14°C"`,
		// Decimal commas in figures and lists.
		`"x": "12,5 km, 25,3 km/h"`, `"x": "1,299.00 EUR"`, `"x": "12,345 / 45,678"`, `"x": "1,30150; 2,29925; 3,31200"`, `"x": "1,30150 2,29925 3,31200"`, `"x": "10,2345%; 12,3456%"`,
		`"x": "4,8 / 5,0 bar"`, `"x": "1,2345 kg; 3,4567 kg"`, `"x": "0,0000; 0,0000"`, `"x": "1,234,567 8,910,111"`, `"x": "12,5 25,3"`, `"x": "147,37129; 108,54211"`,
		// Words and numbers that are no geohash.
		`"location": "sector12"`, `"note": "23456789+23"`, `"location": "street42"`, `"route": "segment123"`, `"place": "2ndstreet"`, `"gps": "12345678"`, `"route": "4f8d2b9c"`, `"location": "b7e52f0c41"`, `"origin": "9d0e4f2b6c81"`, `"place": "4F8D2B9C"`, `"location": "downtown"`, `"location": "Basement 1"`,
		`"route": "a1b2c3d4e5"`, `"x": "9yuw56xg"`, `"route": "9yuw56x"`, `"route": "9yuw56xg9yuw5"`, `"location": "gym"`, `"geohashes": []`, `"geohashes": ["none"]`,
	} {
		for _, privacy := range []string{"no_gps", "blur_start"} {
			if found := activityschema.Lint(detailWith(t, `"privacy": "`+privacy+`", "custom": {`+custom+`}`)); len(found) > 0 {
				t.Errorf("%s: %s: %+v", privacy, custom, found)
			}
		}
	}
}

// A long text of the beginnings of notations is read once, not once for each
// of them.
func TestNotationsNeverKeepLintBusy(t *testing.T) {
	const large = 1 << 15
	for _, piece := range []string{
		"1°1'", "1° 1' 1\\\" n ", "n 1° 1 ", "1 deg 1 ", "deg", "1°1' 1°1' ", "n 1° 1.1 e 1° 1.1 ", "+47.1+008.1", "+47.1+008.1+1crs", "+4711.1", "+47.1+008.1/", "1,1 ", "1,1111 1,1111 ", "1,1111;",
		"1,1111 1,1111 nsew nsew ", "1,", ",", "9yuw56xg ",
	} {
		for _, rest := range []string{strings.Repeat(piece, large/len(piece)), piece + strings.Repeat(" ", large) + piece, piece + strings.Repeat("1", large)} {
			keepsUp(t, piece, detailWith(t, `"privacy": "no_gps", "custom": {"location": "`+rest+`"}`))
		}
	}
}

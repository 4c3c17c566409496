package activityschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/activityschema"
)

// found returns "pointer code" of what lint says of the privacy of a detail.
func foundPrivacy(t *testing.T, members string) (found []string) {
	t.Helper()
	for _, line := range whereAndCode(t, activityschema.Lint(detailWith(t, members))) {
		if strings.Contains(line, " privacy-") {
			found = append(found, line)
		}
	}
	return found
}

// A name alone is a guess and does not stop a publisher; ? marks the warnings.
func TestPositionInCustomIsAnErrorAndANameAloneAWarning(t *testing.T) {
	for custom, want := range map[string]string{
		`"start": {"lat": 47.1, "lon": 8.5}`:                                      "/custom/start/lat?",
		`"a/b": [{"Start_Lat": 47.371, "Start-Lng": 8.542}]`:                      "/custom/a~1b/0/Start_Lat",
		`"latitude": "47.1", "longitude": "8.5"`:                                  "/custom/latitude?",
		`"homeLatitude": 47, "homeLongitude": 8`:                                  "/custom/homeLatitude?",
		`"home": [47.37, 8.54]`:                                                   "/custom/home?",
		`"home": [47.3712, 8.5412]`:                                               "/custom/home",
		`"zip": "export.zip"`:                                                     "/custom/zip?",
		`"address": "192.168.4.1"`:                                                "/custom/address?",
		`"home": [3.25, 1.75]`:                                                    "/custom/home?",
		`"latitud": 41.38, "longitud": 2.17`:                                      "/custom/latitud",
		`"start_latitudine": 41.38, "start_longitudine": 12.51`:                   "/custom/start_latitudine",
		`"Breitengrad": 47.37, "Längengrad": 8.54`:                                "/custom/Breitengrad",
		`"start_latlng": [47.3712, 8.5412]`:                                       "/custom/start_latlng",
		`"geo": {"type": "Point", "coordinates": [8.5412, 47.3712]}`:              "/custom/geo/coordinates",
		`"g": {"type": "LineString", "coordinates": [[8.5412, 47.3], [8, 47.4]]}`: "/custom/g/coordinates",
		`"route": [[8.54123, 47.37123, 412]]`:                                     "/custom/route",
		`"bbox": [8.1234, 47.1, 8.2, 47.2]`:                                       "/custom/bbox",
		`"map": {"summary_polyline": "_p~iF~ps|U_ulLnnqC"}`:                       "/custom/map/summary_polyline?",
		`"geohashes": ["u0qj6rsj"]`:                                               "/custom/geohashes/0?",
		`"plus_code": "8FVC9G8F+6X"`:                                              "/custom/plus_code?",
		`"track_url": "https://example.org/1.gpx"`:                                "/custom/track_url?",
		`"device": {"serial_number": "3987654321"}`:                               "/custom/device/serial_number?",
		`"deviceSerialNumber": 3987654321`:                                        "/custom/deviceSerialNumber?",
		`"sensors": [{"imei": "490154203237518"}]`:                                "/custom/sensors/0/imei?",
		`"home_address": "Bahnhofstrasse 1"`:                                      "/custom/home_address?",
		`"postcode": 8001`:                                                        "/custom/postcode?",
	} {
		for _, privacy := range []string{"no_gps", "blur_start", "public", "private"} {
			got := foundPrivacy(t, fmt.Sprintf(`"privacy": %q, "custom": {%s}`, privacy, custom))
			var wanted []string
			if privacy == "no_gps" || privacy == "blur_start" {
				wanted = []string{want + " privacy-custom"}
				if at, guess := strings.CutSuffix(want, "?"); guess {
					wanted = []string{at + " privacy-custom-name"}
				}
			}
			equal(t, fmt.Sprintf("%s, %s", privacy, custom), got, wanted)
		}
	}
}

func TestOtherMembersOfCustomAreNotReported(t *testing.T) {
	for _, custom := range []string{
		`"x": [47.37129, 8.54211]`, `"power": {"left": 47.3712, "right": 52.6288}`, `"position": 3`, `"position_overall": [3, 120]`, `"lat": 47.1`, `"lat": null, "lon": null`,
		`"lat": 0, "lon": 0`, `"lat": "left", "lon": "right"`, `"lat_pulldown_kg": 47.5, "long_run_km": 8.5`, `"flat": 1.25, "flon": true`, `"home": true`, `"location": "city park"`,
		`"coordinates": []`, `"points": [12, 15]`, `"track": "4 x 400"`, `"polyline": ""`, `"serial": ""`, `"device_id": 0`, `"email_address": "a@example.org"`, `"ip_address": "::1"`, `"bounds": [200.5, 300.5]`,
		`"lactate": {"points": [[150.5, 1.8], [170.5, 2.4]]}`, `"hrv": {"points": [[0.1234, 0.9876]]}`, `"path": "a/b.json"`, `"tile": 0`, `"tiles": 3`, `"breite": 2.12, "länge": 14.25`,
	} {
		if got := foundPrivacy(t, `"privacy": "no_gps", "custom": {`+custom+`}`); got != nil {
			t.Errorf("%s: %q", custom, got)
		}
	}
}

// Texts that look like a position, each with the name of what was seen and its character.
func TestPositionInATextIsAWarningThatShowsThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"From 47.37129, 8.54211 on":                     "two numbers that look like degrees at character 6 ",
		"é 47.37129,8.54211.":                           "two numbers that look like degrees at character 3 ",
		"Treffpunkt 47,37129; 8,54211 am See":           "two numbers that look like degrees at character 12 ",
		"https://example.org/@47.1234567,8.2345678,15z": "two numbers that look like degrees at character 22 ",
		"+47.3713+008.5421/":                            "two numbers that look like degrees at character 1 ",
		"-33.8688 151.2093":                             "two numbers that look like degrees at character 1 ",
		"lat=47.37&lon=8.54":                            "a latitude and a longitude at character 1 ",
		"Latitude: 47.37, longitude: 8.54":              "a latitude and a longitude at character 1 ",
		"Latitud 41,3812 longitud 2,1734":               "a latitude and a longitude at character 1 ",
		"latitudine: 41.38, longitudine: 12.51":         "a latitude and a longitude at character 1 ",
		"Breitengrad 47,37 Längengrad 8,54":             "a latitude and a longitude at character 1 ",
	} {
		quoted, _ := json.Marshal(text)
		for pointer, members := range map[string]string{
			"/title": `"title": ` + string(quoted), "/description": `"description": ` + string(quoted), "/gear": `"gear": ` + string(quoted), "/device": `"device": ` + string(quoted),
			"/source_file": `"source_file": ` + string(quoted), "/custom/a/0": `"custom": {"a": [` + string(quoted) + `]}`, "/custom/home": `"custom": {"home": ` + string(quoted) + `}`,
		} {
			found := activityschema.Lint(detailWith(t, `"privacy": "no_gps", `+members))
			if len(found) != 1 || found[0].Pointer != pointer || found[0].Code != activityschema.CodePrivacyText ||
				!strings.HasPrefix(found[0].Message, want) {
				t.Errorf("%s in %s: %+v, want %s", text, pointer, found, want)
			}
		}
		if got := foundPrivacy(t, `"privacy": "public", "title": `+string(quoted)); got != nil {
			t.Errorf("public: %q", got)
		}
	}
}

func TestOtherTextsAreNotReported(t *testing.T) {
	for _, text := range []string{
		"Sunday 10.5, 12.3", "Ride 47.5 km, 8.2 avg; 12.52, 9.75 and 1:02:03 in all", "4.25 4.75", "Edge 530, 9.75", "2026-05-17-083000.fit", "Lat: 40 kg, Long: 3x8", "slope 20° 15'",
		"12,5 km in 25,3 min", "firmware 12.3456.7.8", "37.1234, 37.2345", "1.00023 and 1.00047", "2345+67", "a+b", "C++", "20 °C N of here", "https://example.org/a/1.2345/b",
		"47.3712-8a5f4211", "point (made)", "geo: a word", "...", "123.4567, 234.5678", "300.1234, 8.1234",
		"https://what3words.com/about", "lactate 1.8125, 4.2500", "rMSSD 42.1875 / 38.4375", "S/N ratio", "12:34:56 to 12:59", "10/05/2026", "12/345/67", "way 66 to node 3", "32 T 400 in 60 s", "1000000 steps, 20000 kcal, 3000 m", "Radweg 12, Startplatz 14", "and/or ride.gpx", "/rides/2026/05/17.fit",
		"4 x 400 Street race", "10 Hill Repeats", "1200000 J, 85000 mJ", "88888888888888888", "a serial winner of 2026 races", "Breite 2.10 m, Länge 14.25 m",
	} {
		quoted, _ := json.Marshal(text)
		if got := foundPrivacy(t, `"privacy": "no_gps", "title": `+string(quoted)); got != nil {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// With the length of the hidden part the start is found, whatever the cut.
func TestCutTrackTellsNothingOfWhatWasCut(t *testing.T) {
	// 1112 m to the north in 600 s, climbing 20 m and descending 5.
	const shown = `"lat": [47.1, 47.105, 47.11], "lon": [8.1, 8.1, 8.1], "elevation_m": [400, 420, 415], "speed_kmh": [7, 7, 7]`
	right := `"privacy": "blur_start", "timeseries": {"t": [0, 300, 600], ` + shown + `}, "distance_m": 1112, "duration_s": 600, "moving_time_s": 590,
		"avg_speed_kmh": 6.8, "elevation_gain_m": 20, "elevation_loss_m": 5, "laps": [{"index": 0, "started_at": "2026-05-17T06:30:00Z", "duration_s": 300, "distance_m": 556},
		{"index": 1, "started_at": "2026-05-17T06:35:00Z", "duration_s": 301, "distance_m": 556}]`
	if got := foundPrivacy(t, right); got != nil {
		t.Errorf("computed from what is shown: %q", got)
	}
	longer := `"timeseries": {"t": [0, 60, 360, 660, 720], "lat": [null, 47.1, 47.105, 47.11, null], "lon": [null, 8.1, 8.1, 8.1, null]`
	for members, want := range map[string]string{
		`"distance_m": 1512`:     "/distance_m",
		`"duration_s": 720`:      "/duration_s",
		`"moving_time_s": 700`:   "/moving_time_s,/avg_speed_kmh",
		`"avg_speed_kmh": 9.2`:   "/avg_speed_kmh",
		`"elevation_gain_m": 60`: "/elevation_gain_m",
		`"elevation_loss_m": 40`: "/elevation_loss_m",
		`"laps": [{"index": 0, "started_at": "2026-05-17T06:30:00Z", "duration_s": 600, "distance_m": 1512}]`:       "/laps",
		`"laps": [{"index": 0, "started_at": "2026-05-17T06:30:00Z", "duration_s": 720}]`:                           "/laps/0/duration_s",
		`"laps": [{"index": 0, "started_at": "2026-05-17T06:29:00Z", "duration_s": 60}]`:                            "/laps/0/started_at",
		`"duration_s": null, "laps": [{"index": 0, "started_at": "2026-05-17T06:41:00Z", "duration_s": null}]`:      "/laps/0/started_at",
		`"laps": [{"index": 0, "started_at": "2026-05-17T06:30:00Z", "duration_s": 1, "elevation_gain_m": 60}]`:     "/laps",
		`"distance_m": 89350, "timeseries": {"t": [0, 9000], "lat": [47.1, 47.9], "lon": [8.1, 8.1]}`:               "/distance_m", // 88956 m
		`"distance_m": 1512, "timeseries": {"t": [0], ` + shown + `}, "laps": []`:                                   "/distance_m",
		`"timeseries": {"t": [0, 300, 600], "hr_bpm": [99, 99, 99, 99], ` + shown + `}`:                             "/timeseries",
		`"timeseries": {"t": [-20, 0, 300, 600], "lat": [null, 47.1, 47.105, 47.11], "lon": [null, 8.1, 8.1, 8.1]}`: "/timeseries/t",
		`"timeseries": {"t": [60, 360, 660], ` + shown + `}`:                                                        "/timeseries/t",
		longer + `}`: "/timeseries/t",
		longer + `, "elevation_m": [390, 400, 420, 415, null]}`: "/timeseries/t,/timeseries/elevation_m",
		longer + `, "speed_kmh": [null, 7, 7, 7, 5]}`:           "/timeseries/t,/timeseries/speed_kmh",
	} {
		var all map[string]jsontext.Value
		for _, some := range []string{right, members} {
			must(t, json.Unmarshal([]byte("{"+some+"}"), &all))
		}
		merged, _ := json.Marshal(all)
		got := foundPrivacy(t, string(merged[1:len(merged)-1]))
		for i, f := range got {
			got[i], _ = strings.CutSuffix(f, " "+activityschema.CodePrivacyBlurLength)
		}
		same(t, fmt.Sprintf("%s: %q", members, got), strings.Join(got, ","), want)
	}
}

// The summary must not say what the detail leaves out.
func TestSummaryTellsNothingOfWhatWasCut(t *testing.T) {
	for members, want := range map[string]string{
		`"distance_m": 1112`: "", `"distance_m": 1512`: "/distance_m",
		`"started_at": "2026-05-17T06:29:55Z"`: "", `"started_at": "2026-05-17T06:29:54Z"`: "/started_at",
	} {
		if !strings.Contains(members, "started_at") {
			members += `, "started_at": "2026-05-17T06:30:00Z"`
		}
		l := activityschema.NewLibrary()
		l.Add("activities/a.json", detailWith(t, `"privacy": "blur_start", "timeseries": {"t": [0, 300, 600], "lat": [47.1, 47.105, 47.11], "lon": [8.1, 8.1, 8.1]}`))
		l.Add("index.json", mustDecode(t, "index", []byte(`{"bas_version": "1.0", "owner": {"handle": "a", "display_name": ""}, "generated_at": "2026-06-17T06:30:00Z", "activities": [
			{"id": "a", "title": "Ride", "sport": "cycling", "privacy": "blur_start", `+members+`}]}`)))
		got := ""
		for _, f := range l.Findings() {
			if f.Code == activityschema.CodePrivacyBlurLength {
				got += strings.TrimPrefix(f.Pointer, "/activities/0")
			}
		}
		same(t, members, got, want)
	}
}

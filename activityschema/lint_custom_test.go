package activityschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

func TestPositionHiddenInCustomIsNeverShownOfNoGPS(t *testing.T) {
	for custom, want := range map[string]string{
		// Names, in any case and with any separators.
		`"lat": 47.137`:                                         "lat",
		`"LATITUDE": 47`:                                        "LATITUDE",
		`"lng": -8.5`:                                           "lng",
		`"Lon": "8.5421"`:                                       "Lon",
		`"startLat": 47.1`:                                      "startLat",
		`"start-longitude": 8.5`:                                "start-longitude",
		`"END_LNG": 8.5`:                                        "END_LNG",
		`"home lat": 47.1`:                                      "home lat",
		`"position_lat": 565432100`:                             "position_lat",
		`"latitudeE7": 471234567`:                               "latitudeE7",
		`"lat_1": 47.137`:                                       "lat_1",
		`"minLat": 47.1`:                                        "minLat",
		`"lat": [null, 47.137]`:                                 "lat",
		`"breite": 47.371, "länge": 8.5`:                        "breite länge",
		`"breite": 473712912, "länge": 85421100`:                "breite länge",
		`"breite": 47.1, "lon": 8.123`:                          "breite lon",
		`"start_breite": 47.1`:                                  "start_breite",
		`"lat": 47.1, "long": 8`:                                "lat long",
		`"start.lat": 47.1, "start.long": 8`:                    "start.lat start.long",
		`"lats": [47.1, 47.137]`:                                "lats",
		`"latlng": [47, 8]`:                                     "latlng",
		`"start_latlng": [47, 8]`:                               "start_latlng",
		`"LonLat": "8, 47"`:                                     "LonLat",
		`"coords": [[8, 47], [9, 47]]`:                          "coords",
		`"coordinates": [8.5, 47.1, 412.0]`:                     "coordinates",
		`"coordinates": [47.1, 8.5, 47.2, 8.6]`:                 "coordinates",
		`"geohash": "u0qj9"`:                                    "geohash",
		`"plus_code": "8FVC9G8F+6X"`:                            "plus_code",
		`"what3words": "filled.count.soap"`:                     "what3words",
		`"map": {"polyline": "_p~iF~ps|U"}`:                     "map/polyline",
		`"summaryPolyline": "_p~iF~ps|U_ulLnn"`:                 "summaryPolyline",
		`"polyline": "broken\u0001polyline"`:                    "polyline",
		`"home": [47.37, 8.54]`:                                 "home",
		`"Location": "47.37, 8.54"`:                             "Location",
		`"location": {"value": [47.3712, 8.5]}`:                 "",
		`"position": [47.37, 8.54]`:                             "position",
		`"GPS": [[47.1, 8.5], [47.2, 8.6]]`:                     "GPS",
		`"bounds": [8.1, 47.1, 8.2, 47.2]`:                      "bounds",
		`"bbox": [[8.1, 47.1], [8.2, 47.2]]`:                    "bbox",
		`"47.3712,8.5421": 3`:                                   "47.3712,8.5421",
		`"geometry": {"type": "Point", "coordinates": [8, 47]}`: "geometry/coordinates",
		`"f": {"type": "Polygon", "coordinates": [[[8, 47], [9, 47], [9, 48], [8, 47]]]}`:              "f/coordinates",
		`"a": [{"b": [{"c": {"lat": 1.5, "lon": 2.5}}]}]`:                                              "a/0/b/0/c/lat a/0/b/0/c/lon",
		`"a~b/c": {"lat": 471372912}`:                                                                  "a~0b~1c/lat",
		`"lat": 47.137, "end": {"lat": 0, "lng": 0}, "x": {"lat": null}, "y": {"latitude": "unknown"}`: "lat",
		// Numbers of many digits under any name.
		`"x": [47.3712, 8.5421]`:                                    "x",
		`"x": [-33.8688, 151.2093]`:                                 "x",
		`"x": [151.2093, -33.8688, 12]`:                             "x",
		`"x": [[47.371, 8.542], [47.372, 8.543]]`:                   "x",
		`"x": [[47.37, 8.542], [47.3712, 8.5432], [47.372, 8.54]]`:  "",
		`"x": [[47.37, 8.542], [47.3712, 8.5432], [47.372, 8.544]]`: "x",
		`"x": [[[47.371, 8.542], [47.372, 8.543]], [[47.3, 8.1]]]`:  "x",
		`"x": [[8.5421, 47.3712, 412.5], [8.5432, 47.3723, 413.5]]`: "x",
		// Texts.
		`"x": "N 47.37, E 8.54"`:                                    "x",
		`"x": "(47.37N; 8.54W)"`:                                    "x",
		`"x": "from 47.37129\t8.54211 on"`:                          "x",
		`"x": "geo:47.1,8.2"`:                                       "x",
		`"x": "GEO:47,8;u=35"`:                                      "x",
		`"x": "47.371, 8.542"`:                                      "x",
		`"x": " 47.371 8.542 "`:                                     "x",
		`"x": "47.37°N 8.54°E"`:                                     "x",
		`"x": "met at 47.37129,8.54211."`:                           "x",
		`"x": "https://maps.example.org/?q=47.37129%2C8.54211&z=3"`: "x",
		`"x": "https://maps.example.org/@47.37129,8.54211,15z"`:     "x",
		`"x": "https://maps.example.org/#map=15/47.3712/8.5421"`:    "x",
		`"x": "https://maps.example.org/?mlat=47.4&mlon=8.5"`:       "x",
		`"x": "{\"lat\": 47.4, \"lng\": 8.5}"`:                      "x",
		`"x": "Latitude: 47.4 Longitude: 8.5"`:                      "x",
		`"x": "SRID=4326;POINT (8.5 47.4)"`:                         "x",
		`"x": "LINESTRING(8.5 47.4, 8.6 47.5)"`:                     "x",
		`"x": "47° 22' 12\" N, 8° 32′ 31″ E"`:                       "x",
		`"x": "<GPX version=\"1.1\"></GPX>"`:                        "x",
		`"x": "<kml><Point>1</Point></kml>"`:                        "x",
		`"x": ["a", {"y": "<trkpt/>1"}]`:                            "x/1/y",
		`"x": "a LatitudeDegrees>1 <LatitudeDegrees>1"`:             "x",
	} {
		var pointers []string
		for _, f := range activityschema.Lint(detailWith(t, `"privacy": "no_gps", "custom": {`+custom+`}`)) {
			if f.Code != activityschema.CodePrivacyCustom || f.Severity != activityschema.SeverityError {
				t.Errorf("%s: %+v", custom, f)
			}
			pointers = append(pointers, strings.TrimPrefix(f.Pointer, "/custom/"))
		}
		if diff := cmp.Diff(want, strings.Join(pointers, " ")); diff != "" {
			t.Errorf("%s: (-expected +found)\n%s", custom, diff)
		}
		for _, privacy := range []string{"public", "private"} {
			if found := activityschema.Lint(detailWith(t, `"privacy": "`+privacy+`", "custom": {`+custom+`}`)); len(found) > 0 {
				t.Errorf("%s: %s: %+v", privacy, custom, found)
			}
		}
	}
}

func TestOrdinaryCustomIsNeverTakenForAPosition(t *testing.T) {
	for _, custom := range []string{
		`"position": 3`, `"position": [3, 120]`, `"rank": [3, 120]`, `"home": true`, `"location": "Zürich"`, `"gps": "on"`, `"gps": {"satellites": 12, "accuracy_m": 3.25}`,
		`"flat": 1.5`, `"platform": 2.5`, `"salon": 3.5`, `"latency": 12.25`, `"relation": 8.5`, `"long": 12.5`, `"long": 12.5, "short": 3.5`, `"long_ride_km": 102.125`,
		`"lat_pulldown_kg": 47.5`, `"plates": [2, 4]`, `"lat": null`, `"lat": "left"`, `"lat": 0, "lon": 0.0`, `"lat": []`, `"lat": {"left": 3}`,
		`"lat": 12.5`, `"net": {"lat": 12.5, "loss": 0.1}`, `"lat": [12.5, 13.25]`, `"lat": 120`, `"bahn": {"länge": 25.0, "breite": 12.5}`, `"bild": {"breite": 4032}`, `"bild": {"breite": 4032, "laenge": 3024}`,
		`"breite": 12.25, "länge": 50`, `"coordinates": []`, `"coordinates": "none"`, `"polyline": ""`, `"polyline": null`, `"polyline": "see the map"`, `"geohash": ""`, `"bounds": [0, 100]`,
		`"zones": [[0.55, 0.75], [0.75, 0.9]]`, `"zones": [[0.5512, 0.7523], [0.7512, 0.9034]]`, `"laps": [[1, 301.5], [2, 299.25]]`, `"best": [[5, 812], [60, 431]]`,
		`"pair": [87.123, 12.345]`, `"latlng": [0, 0]`, `"x": "1:30.1234, 40.4321"`, `"x": "algeo:1,2"`, `"x": "12.3456 (new) 13.4567"`, `"x": "12.3456, , 13.4567"`, `"x": "12.50, 13.75 news"`,
		`"tss": 87.1234`, `"pair": [0.5512, 0.6623]`, `"pair": [87.12, 12.34]`, `"wide": [187.1234, 212.4321]`, `"stream": [[12.3456, 200.1234], [13.4567, 201.2345]]`,
		`"x": "12:30:15.1234, 13:30:15.1234"`, `"x": "2026-05-17T06:30:00.123456Z"`, `"x": "v1.2345.6 v2.3456.7"`, `"x": "12.50 EUR, 13.75 EUR and 14.20 EUR"`,
		`"x": "3.5, 4.5 and 5.5 km"`, `"x": "12.3456"`, `"x": "12.3456 km in 45.4321 min"`, `"x": "sha256:2c26b46b68ffc68f"`, `"x": "point (see 3.5)"`, `"x": "12° 3 s"`, `"x": "21.5°C, 18.5°C"`,
		`"x": "1e5, 2e5"`, `"x": "NaN"`, `"x": "0x1p-2"`, `"x": "<b>1</b>"`, `"x": "flat=47.1&lone=8.2"`, `"x": "lat=47.1"`, `"x": "+41 44 123 45 67"`, `"x": "0.0000, 0.0000"`, `"x": "a_12.3456, 13.4567"`,
		`"x": "12.3456-13.4567"`, `"x": "12.3456 -- 13.4567"`, `"x": "12.3456%, 13.4567%"`, `"x": "192.168.0.1, 10.0.0.1"`, `"x": "latitude of choice: 12.5 longitude"`,
	} {
		for _, privacy := range []string{"no_gps", "blur_start"} {
			if found := activityschema.Lint(detailWith(t, `"privacy": "`+privacy+`", "custom": {`+custom+`}`)); len(found) > 0 {
				t.Errorf("%s: %s: %+v", privacy, custom, found)
			}
		}
	}
}

// The cut track runs north from 47.01 to 47.02 at 8 degrees east; 0.0001
// degrees of latitude are 11 m. The other half lies in the south-west.
func TestPositionBeyondTheCutTrackIsNeverShown(t *testing.T) {
	const track = `"privacy": "blur_start", "timeseries": {"t": [60, 62, 64, 66, 68, 70, 72], "lat": [47.01, 47.0101, 47.015, 47.0199, 47.02, null, -33.5],
		"lon": [8, 8, 8, 8, 8, null, -70.5]}, `
	for custom, want := range map[string]string{
		`"lat": 47.01015, "lon": 8`:                        "",
		`"lat": 47.0097, "lon": 8`:                         "lat lon",
		`"lon": 8, "lat": 47.0097`:                         "lat lon",
		`"lat": "47.0097", "lon": "8"`:                     "lat lon",
		`"start_lat": 47.0097, "lon": 8`:                   "",
		`"lat": 47.0097`:                                   "",
		`"lat": [47.01, 47.0097], "lon": [8, 8, 8]`:        "lat lon",
		`"lat": [47.01, 47.02], "lon": [8, 8]`:             "",
		`"lat": 560851146, "long": 95443718`:               "",
		`"lat": 560800000, "long": 95443718`:               "lat long",
		`"latE7": 470150000, "lonE7": 80000000`:            "",
		`"latE7": 470250000, "lonE7": 80000000`:            "latE7 lonE7",
		`"home": [47.0097, 8.0001]`:                        "home",
		`"photo": [8.0001, 47.00530]`:                      "photo",
		`"photo": [8.0001, 47.01500]`:                      "",
		`"photo": [47.01500, 8.0001]`:                      "",
		`"town": [47.02, 8.01]`:                            "",
		`"home": [47.02, 8.01]`:                            "",
		`"home": [47.04, 8.01]`:                            "home",
		`"line": [[8.0001, 47.0150], [8.0001, 47.0199]]`:   "",
		`"line": [[8.0001, 47.0150], [8.0001, 47.0299]]`:   "line",
		`"coordinates": [-70.5, -33.5]`:                    "",
		`"x": "47.01500, 8.00001 and 47.01990, 8.00001"`:   "",
		`"x": "47.01500, 8.00001 and 47.02990, 8.00001"`:   "x",
		`"x": "geo:47.01,8"`:                               "",
		`"x": "geo:47.03000,8.00000"`:                      "x",
		`"x": "?lat=47.03&lon=8.00000"`:                    "x",
		`"x": "?lat=47.01500&lon=8.00000"`:                 "",
		`"x": "?lat=8.00000&lon=47.01500"`:                 "x",
		`"x": "<gpx>1</gpx>"`:                              "x",
		`"geohash": "u0qj9"`:                               "geohash",
		`"polyline": "os|}G_oyo@g^A"`:                      "",
		`"polyline": "_p~iF~ps|U"`:                         "polyline",
		`"polyline": "_lgtxA__hgNgES"`:                     "",
		`"polyline": "_lgtxA__hgNwze@S"`:                   "polyline",
		`"polyline": "???????broken???"`:                   "polyline",
		`"bounds": [8.00001, 47.01001, 8.00001, 47.02001]`: "",
		`"bounds": [8.00001, 47.00001, 8.00001, 47.02001]`: "bounds",
		`"x": {"lat": 5000, "lon": 8}`:                     "x/lat x/lon",
	} {
		var pointers []string
		for _, f := range activityschema.Lint(detailWith(t, track+`"custom": {`+custom+`}`)) {
			if f.Code != activityschema.CodePrivacyCustom {
				t.Errorf("%s: %+v", custom, f)
			}
			pointers = append(pointers, strings.TrimPrefix(f.Pointer, "/custom/"))
		}
		if diff := cmp.Diff(want, strings.Join(pointers, " ")); diff != "" {
			t.Errorf("%s: (-expected +found)\n%s", custom, diff)
		}
	}
	// Without a track there is nothing to show.
	if found := activityschema.Lint(detailWith(t, `"privacy": "blur_start", "custom": {"home": [47.01, 8.01]}`)); len(found) != 1 {
		t.Errorf("no track: %+v", found)
	}
}

// Between two samples the track is where it must have gone.
func TestPositionOnTheWayBetweenSamplesIsNeverBeyond(t *testing.T) {
	for track, customs := range map[string]map[string]bool{
		// 890 m to the north.
		`"lat": [47.01, null, 47.018], "lon": [8, null, 8]`: {`[47.0142, 8.00020]`: true, `[47.0142, 8.00040]`: false, `[47.0182, 8.00001]`: false, `[47.0098, 8.00001]`: false},
		// 759 m to the east.
		`"lat": [47.01, null, 47.01], "lon": [8, null, 8.01]`: {`[47.01015, 8.00512]`: true, `[47.01035, 8.00512]`: false, `[47.01001, 8.01035]`: false, `[47.01001, 7.99965]`: false},
		// 445 m across the antimeridian.
		`"lat": [0.0001, null, 0.0001], "lon": [179.998, null, -179.998]`: {`[0.0002, 179.9995]`: true, `[0.0002, -179.9995]`: true, `[0.00032, 179.9995]`: false, `[0.0001, 179.9975]`: false},
		// 1112 m: too far.
		`"lat": [47.01, null, 47.02], "lon": [8, null, 8]`: {`[47.0142, 8.00020]`: false, `[47.0199, 8.00001]`: true, `[47.0101, 8.00001]`: true},
	} {
		for custom, onTheWay := range customs {
			found := activityschema.Lint(detailWith(t, `"privacy": "blur_start", "timeseries": {"t": [60, 90, 120], `+track+`}, "custom": {"photo": `+custom+`}`))
			if (len(found) == 0) != onTheWay {
				t.Errorf("%s: %s: %+v", track, custom, found)
			}
		}
	}
}

// What a stranger writes into custom must not keep a linter busy for minutes.
func TestLargeCustomNeverTakesLong(t *testing.T) {
	const large = 1 << 18
	much := func(s string) string { return strings.Repeat(s, large/len(s)) }
	customs := map[string]json.RawMessage{
		much("points") + "lat":                json.RawMessage("1"),
		strings.Repeat("points", 40) + "qlat": json.RawMessage("1"),
		strings.Repeat("points", 9) + "qlat":  json.RawMessage("1"),
	}
	for i, text := range []string{"lat=", "lat=1x ", "12.3456, ", "12.3456, 13.4567 ", "12.3456", "1 ", ":", "geo:", "°1", "<gp", "-1", "1-", "_p~iF~ps|U", "~"} {
		customs[string(rune('a'+i))] = json.RawMessage(`"1` + much(text) + `1"`)
		customs[string(rune('a'+i))+"polyline"] = json.RawMessage(`"` + much(text) + `"`)
	}
	customs["away"] = json.RawMessage("[" + much(`"geo:1.12345,2.12345", `) + "1]")
	customs["pairs"] = json.RawMessage("[" + much("[47.12345, 8.12345], ") + "[1, 2]]")
	customs["axes"] = json.RawMessage(`{"lat": [` + much("47.12345, ") + `1], "lon": [` + much("8.12345, ") + "1]}")
	doc := samplesOf(2000, activityschema.PrivacyPublic)
	doc.Detail.Custom = customs
	for _, privacy := range []activityschema.Privacy{activityschema.PrivacyNoGPS, activityschema.PrivacyBlurStart} {
		doc.Detail.Privacy = privacy
		keepsUp(t, string(privacy), doc)
	}
}

// FuzzLintCustom: nothing in custom makes Lint panic, be it JSON or not.
func FuzzLintCustom(f *testing.F) {
	for _, seed := range []string{
		`{"lat": 47.1, "lng": 8.5}`, `[[8.5421, 47.3712], [8.5432, 47.3723]]`, `"_p~iF~ps|U_ulLnnqC"`, `"47° 22' 12 N, 8° 32' 31 E"`, `"geo:47.1,8.5"`, `"?lat=47.1&lon=8.5"`,
		`"POINT(8.5 47.1)"`, `"<gpx>1"`, `[47.37, 8.54, null]`, `565432100`, `"met at 47.37129, 8.54211."`, `[`, `{"a": `,
	} {
		f.Add("home", seed)
		f.Add("polyline", seed)
		f.Add("lat", seed)
	}
	track := detailWith(f, `"timeseries": {"t": [0, 1], "lat": [47.1, 47.2], "lon": [8.5, 8.6]}`).Detail.Timeseries
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, privacy := range []activityschema.Privacy{activityschema.PrivacyNoGPS, activityschema.PrivacyBlurStart} {
			detail := &activityschema.Detail{Privacy: privacy, Timeseries: track, Custom: map[string]json.RawMessage{name: json.RawMessage(value), "lon": json.RawMessage("8.5")}}
			for _, f := range activityschema.Lint(&activityschema.Document{Detail: detail}) {
				if f.Code == activityschema.CodePrivacyCustom && !strings.HasPrefix(f.Pointer, "/custom/") {
					t.Errorf("pointer %q", f.Pointer)
				}
			}
		}
	})
}

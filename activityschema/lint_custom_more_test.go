package activityschema_test

import (
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

func customFindings(t *testing.T, custom string) []activityschema.Finding {
	t.Helper()
	text := `{"bas_version":"1.0","id":"a","title":"T","sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"no_gps","laps":[],"timeseries":{"t":[]},"custom":` + custom + `}`
	doc, problems, err := activityschema.Decode(t.Context(), strings.NewReader(text))
	if err != nil || problems != nil {
		t.Fatalf("%s: %v %v", custom, problems, err)
	}
	return activityschema.Lint(doc)
}

func TestPositionOfANoGPSActivityNeverHidesInCustom(t *testing.T) {
	for _, custom := range []string{
		`{"breitengrad":47.37129,"laengengrad":8.54211}`, `{"latitud":47.37129,"longitud":8.54211}`, `{"Koordinaten":[47.37,8.54]}`, `{"coordonnées":"47.37, 8.54"}`,
		`{"note":"N47.37129 E8.54211"}`, `{"note":"Lat 47.37129 Lon 8.54211"}`, `{"note":"N 47° 22.277 E 8° 32.527"}`, `{"note":"47º22'16.6\"N"}`,
		`{"note":"meet at 8FVC9GCR+GR"}`, `{"track_url":"https://example.org/a.gpx"}`, `{"home":[47.37129,8.54211,47.37139,8.54221]}`,
		`{"geohash":"u0qj9"}`, `{"route_polyline":"_p~iF~ps|U_ulLnnqC"}`,
	} {
		if got := customFindings(t, custom); len(got) == 0 {
			t.Errorf("%s: not found", custom)
		}
	}
}

func TestPositionOfANoGPSActivityNeverHidesInATextNeitherDoesANumberPassForOne(t *testing.T) {
	for text, found := range map[string]bool{
		`"description":"home 47.12345,8.54321"`: true, `"gear":"https://maps.example.org/@47.37129,8.54211,15z"`: true, `"source_file":"47.37129_8.54211.gpx"`: true,
		`"description":"Ride 47.5 km, 8.2 avg"`: false, `"device":"Edge 530, 9.75"`: false, `"description":"10.52, 12.31 and 9.8"`: false,
	} {
		document := `{"bas_version":"1.0","id":"a","title":"Sunday 10.5, 12.3","sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"no_gps","laps":[],"timeseries":{"t":[]},"custom":{},` + text + `}`
		doc, problems, err := activityschema.Decode(t.Context(), strings.NewReader(document))
		if err != nil || problems != nil {
			t.Fatal(problems, err)
		}
		if got := activityschema.Lint(doc); (len(got) > 0) != found {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// What people record in pairs, with digits after the point, is no position.
func TestMeasurementIsNeverTakenForAPosition(t *testing.T) {
	for _, custom := range []string{
		`{"left_right_balance":[49.8312,50.1688]}`, `{"weight_kg":[72.1234,71.9876]}`, `{"rmssd_sdnn":[45.1234,52.4321]}`, `{"gyro":[1.2345,-3.4567,0.5678]}`,
		`{"accel":[[0.1234,9.8123,0.0512],[0.2234,9.7123,0.0612]]}`, `{"end":[10.55,20.33]}`, `{"work":[51.25,60.75]}`, `{"points":[12.25,13.75]}`, `{"track":[1.25,3.75]}`,
		`{"firmware":"12.3456, 1.2345"}`, `{"temp":"18.1234 / 21.5678"}`, `{"polyline":"removed"}`, `{"geohash":"none"}`, `{"laenge_km":12.5}`, `{"note":"21° and 5 km"}`,
		`{"note":"Ride 47.5 km, 8.2 avg"}`, `{"track_url":""}`,
	} {
		if got := customFindings(t, custom); len(got) > 0 {
			t.Errorf("%s: %v", custom, got)
		}
	}
}

// Who removes what LintAll points at removes no more than the numbers.
func TestWhatStandsBesideTheNumbersOfAnAxisIsNeverPointedAt(t *testing.T) {
	const track = `"privacy": "blur_start", "timeseries": {"t": [60, 62], "lat": [47.01, 47.0101], "lon": [8, 8]}, `
	for custom, want := range map[string]string{
		`"lat": [47.37129, {"keep": 1}], "lon": [8.54211, "keep"]`:                 "/custom/lat/0 /custom/lon/0",
		`"lat": ["keep", 47.37129, null, 47.37139], "lon": [8.54211, 8.54221]`:     "/custom/lat/1 /custom/lat/3 /custom/lon",
		`"lat": [47.37129, true], "lon": 8.54211`:                                  "/custom/lat/0 /custom/lon",
		`"lat": [47.37129, [1, 2]], "lon": [[{"keep": 1}], 8.54211]`:               "/custom/lat/0 /custom/lon/1",
		`"lat": {"keep": 1}, "lon": "keep", "start_lat": 47.37129, "start_lng": 8`: "/custom/start_lat /custom/start_lng",
	} {
		for _, members := range []string{`"privacy": "no_gps", `, track} {
			var pointers []string
			for _, f := range activityschema.LintAll(detailWith(t, members+`"custom": {`+custom+`}`)) {
				pointers = append(pointers, f.Pointer)
			}
			if got := strings.Join(pointers, " "); got != want {
				t.Errorf("%s%s: %s", members, custom, got)
			}
			for _, f := range activityschema.Lint(detailWith(t, members+`"custom": {`+custom+`}`)) {
				if strings.Count(f.Pointer, "/") != 2 {
					t.Errorf("%s%s: %s", members, custom, f.Pointer)
				}
			}
		}
	}
}

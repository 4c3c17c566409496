package activityschema_test

import (
	"fmt"
	"strings"
	"testing"
)

// A course of three laps past the door, each of another shape, and the way out of it at
// the end. The door is at 47.01, 8.01; a step is 22 m.
func laps() (course [][2]float64) {
	leg := func(from, to [2]float64, n int) {
		for i := range n {
			f := float64(i) / float64(n)
			course = append(course, [2]float64{from[0] + f*(to[0]-from[0]), from[1] + f*(to[1]-from[1])})
		}
	}
	door := [2]float64{47.01, 8.01}
	for _, far := range [][2]float64{{47.03, 8.01}, {47.01, 8.04}, {46.99, 8.01}} {
		corner := [2]float64{far[0] + 0.004, far[1] + 0.006}
		leg(door, far, 100)
		leg(far, corner, 30)
		leg(corner, [2]float64{47.012, 8.013}, 100)
		leg([2]float64{47.012, 8.013}, door, 15)
	}
	return append(course, door)
}

// cutAt returns a blur_start track of a course without its first and last samples.
func cutAt(course [][2]float64, samples int) string {
	var t, lat, lon []string
	for i := samples; i < len(course)-samples; i++ {
		t, lat, lon = append(t, fmt.Sprint(i*4)), append(lat, fmt.Sprintf("%.6f", course[i][0])), append(lon, fmt.Sprintf("%.6f", course[i][1]))
	}
	return fmt.Sprintf(`"privacy": "blur_start", "duration_s": %d, "timeseries": {"t": [%s], "lat": [%s], "lon": [%s]}, `, len(course)*4, strings.Join(t, ","), strings.Join(lat, ","), strings.Join(lon, ","))
}

// pairsOf writes a course as positions of GeoJSON or, with the latitude first, of others.
func pairsOf(course [][2]float64, every int, latFirst bool) string {
	var pairs []string
	for i := 0; i < len(course); i += every {
		a, b := course[i][1], course[i][0]
		if latFirst {
			a, b = b, a
		}
		pairs = append(pairs, fmt.Sprintf("[%.6f,%.6f]", a, b))
	}
	return "[" + strings.Join(pairs, ",") + "]"
}

const samplesCut = 11 // 240 m

// The door stands on the track, for the course comes by again, but only the name says
// that the activity began there.
func TestDoorIsNeverNamedWhereTheCourseComesByAgain(t *testing.T) {
	track := cutAt(laps(), samplesCut)
	for custom, want := range map[string]bool{
		`"start_latlng": [47.01002, 8.01002]`: true, `"startLatLng": [47.01002, 8.01002]`: true, `"strava": {"start_latlng": [47.01002, 8.01002]}`: true, `"end_latlng": [47.01002, 8.01002]`: true,
		`"start": {"lat": 47.01002, "lng": 8.01002}`: true, `"startlat": 47.01002, "startlng": 8.01002`: true, `"Start_Lat": 47.01002, "Start_Lon": 8.01002`: true, `"home": [47.01, 8.01001]`: true,
		`"home": {"location": {"lat": 47.01002, "lon": 8.01002}}`: true, `"x": {"y": {"begin": "47.01001, 8.01001"}}`: true, `"start": "geo:47.01001,8.01001"`: true, `"laps": [{"start": [47.01001, 8.01001]}]`: false,
		`"points": [{"start": [47.01001, 8.01001]}]`: true, `"garmin": {"first_position": [47.01001, 8.01001]}`: true, `"meta": {"finish": [47.01001, 8.01001]}`: true,

		// The cut track begins at 47.0122 and ends before the door.
		`"start_latlng": [47.0122, 8.01]`: false, `"end": [47.01147, 8.0122], "start": [47.0122, 8.01]`: false, `"home": [47.0122, 8.01]`: false, `"photo": [47.01001, 8.01001]`: false,
		`"best_climb": {"start_latlng": [47.01002, 8.01002], "end_latlng": [47.02, 8.01]}`: false, `"climb_start": [47.02001, 8.01001]`: false, `"turn": [47.03001, 8.01001]`: false,
		`"laps": [{"x": 1}, {"start": [47.01001, 8.01001]}]`: false, `"valley": {"start": [47.01401, 8.01001]}`: false, `"valley": {"start": [47.02401, 8.01001]}`: false,
		`"start": [47.0, 8.0]`: false, `"start_town": [47.0, 8.0]`: false, `"weekend": [47.01001, 8.01001]`: false, `"restart": [47.01001, 8.01001]`: false, `"lap_2_start": [47.01001, 8.01001]`: false,
	} {
		if got := pointersIn(t, track+`"custom": {`+custom+`}`); (got != "") != want {
			t.Errorf("%s: found %q", custom, got)
		}
	}
}

func TestUncutTrackNeverPassesForTheCutOne(t *testing.T) {
	course := laps()
	track := cutAt(course, samplesCut)
	shown := course[samplesCut : len(course)-samplesCut]
	reversed := func(course [][2]float64) (back [][2]float64) {
		for i := range course {
			back = append(back, course[len(course)-1-i])
		}
		return back
	}
	for name, line := range map[string]struct {
		course [][2]float64
		uncut  bool
	}{
		"uncut": {course, true}, "begin uncut": {course[:len(course)-samplesCut], true}, "end uncut": {course[samplesCut:], true}, "uncut, reversed": {reversed(course), true},
		"first lap and more": {course[:400], true},
		"cut":                {shown, false}, "cut, reversed": {reversed(shown), false}, "second lap": {course[245:491], false}, "second lap, reversed": {reversed(course[245:491]), false},
		"some of a lap": {course[50:90], false}, "from near the begin": {course[samplesCut+5 : 200], false},
	} {
		for every, forms := range map[int][]string{
			1: {`{"map": {"polyline": ` + encoded(line.course, 5) + `}}`, `{"shape": ` + encoded(line.course, 6) + `}`, `{"latlng": ` + pairsOf(line.course, 1, true) + `}`},
			3: {`{"geojson": {"type": "LineString", "coordinates": ` + pairsOf(line.course, 3, false) + `}}`, `{"way": ` + pairsOf(line.course, 3, true) + `}`},
		} {
			for _, custom := range forms {
				if got := pointersIn(t, track+`"custom": `+custom); (got != "") != line.uncut {
					t.Errorf("%s, every %d: %.40s: found %q", name, every, custom, got)
				}
			}
		}
		var lats, lons []string
		for _, p := range line.course {
			lats, lons = append(lats, fmt.Sprintf("%.6f", p[0])), append(lons, fmt.Sprintf("%.6f", p[1]))
		}
		if got := pointersIn(t, track+`"custom": {"streams": {"lat": [`+strings.Join(lats, ",")+`], "lng": [`+strings.Join(lons, ",")+`]}}`); (got != "") != line.uncut {
			t.Errorf("%s: columns: found %q", name, got)
		}
	}
}

func TestManyDoorsNeverKeepLintBusy(t *testing.T) {
	var lat, lon []string
	for i := range 20_000 {
		lat, lon = append(lat, fmt.Sprintf("%.6f", 47.01+float64(i%80)*2e-5)), append(lon, "8.01")
	}
	track := `"privacy": "blur_start", "timeseries": {"t": [], "lat": [` + strings.Join(lat, ",") + `], "lon": [` + strings.Join(lon, ",") + `]}, `
	line := "[" + strings.Repeat("[47.01031,8.01],[47.01111,8.01],", 6) + "[47.0104,8.01]],"
	for name, custom := range map[string]string{
		"names": `{"a": [` + strings.Repeat(`{"home": [47.01061,8.01001]},`, 20_000) + `{}]}`,
		"first": `{"a": [` + strings.Repeat(`[{"strava":{"start": [47.01061,8.01001]}}],`, 1) + strings.Repeat(`{"0":{"start_at": [47.01061,8.01001]}},`, 20_000) + `{}]}`,
		"lines": `{"a": [` + strings.Repeat(`{"latlng": `+strings.TrimSuffix(line, ",")+`},`, 4000) + `{}]}`,
	} {
		keepsUp(t, name, detailWith(t, track+`"custom": `+custom))
	}
}

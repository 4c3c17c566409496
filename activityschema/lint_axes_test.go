package activityschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// pointersIn returns where Lint finds something in custom, and in nothing else.
func pointersIn(t *testing.T, members string) string {
	t.Helper()
	var pointers []string
	for _, f := range activityschema.Lint(detailWith(t, members)) {
		if f.Code != activityschema.CodePrivacyCustom {
			t.Errorf("%s: %+v", members, f)
		}
		pointers = append(pointers, strings.TrimPrefix(f.Pointer, "/custom/"))
	}
	return strings.Join(pointers, " ")
}

func TestPositionOfXAndYIsNeverShownOfNoGPS(t *testing.T) {
	for custom, want := range map[string]string{
		`"home": {"y": 47.37129, "x": 8.54211}`:                                              "home/y home/x",
		`"home": {"x": "8.54211", "y": "47.37129"}`:                                          "home/x home/y",
		`"a": [{"y": 47.37129, "x": 8.54211, "z": 412.3}, {"x": 1, "y": 2}]`:                 "a/0/y a/0/x",
		`"bounds": {"north": 47.39123, "south": 47.36123, "east": 8.55123, "west": 8.53123}`: "bounds/north bounds/south bounds/east bounds/west",
		`"extent": {"xmin": 8.53123, "ymin": 47.36123, "xmax": 8.55123, "ymax": 47.39123}`:   "extent/xmin extent/ymin extent/xmax extent/ymax",
		`"start_x": 8.54211, "start_y": 47.37129, "end_x": 8.54212`:                          "start_x start_y",
		`"pos": {"north": -33.86881, "east": 151.20931}`:                                     "pos/north pos/east",
		`"centre": {"φ": 47.37129, "λ": 8.54211}`:                                            "centre/φ centre/λ",
		`"northeast": [47.39123, 8.55123], "x": [47.3712, 8.5421], "y": [[47.3712, 8.5421]]`: "northeast x y",
	} {
		got := pointersIn(t, `"privacy": "no_gps", "custom": {`+custom+`}`)
		// The members of custom are looked at in alphabetical order, those below in their own.
		if diff := cmp.Diff(strings.Fields(want), strings.Fields(got)); diff != "" {
			t.Errorf("%s: (-expected +found)\n%s", custom, diff)
		}
	}
}

// The cut track runs north from 47.01 to 47.02 at 8 degrees east, and then east.
func TestPositionOfXAndYIsNeverBeyondTheCutTrack(t *testing.T) {
	const track = `"privacy": "blur_start", "timeseries": {"t": [60, 62, 64, 66], "lat": [47.01, 47.015, 47.02, 47.02], "lon": [8, 8, 8, 8.01]}, `
	for custom, beyond := range map[string]bool{
		`"photo": {"y": 47.0151, "x": 8.0001}`:                                           false,
		`"photo": {"x": 47.0151, "y": 8.0001}`:                                           false,
		`"home": {"y": 47.0111, "x": 8.0091}`:                                            true,
		`"bounds": {"north": 47.0201, "south": 47.0101, "east": 8.0101, "west": 8.0001}`: false,
		`"extent": {"xmin": 8.0001, "ymin": 47.0101, "xmax": 8.0101, "ymax": 47.0201}`:   false,
		`"bounds": {"north": 47.0301, "south": 47.0091, "east": 8.0101, "west": 8.0001}`: true,
		`"bounds": {"north": 47.0201, "south": 47.0101, "east": 8.0101, "west": 7.9901}`: true,
	} {
		if got := pointersIn(t, track+`"custom": {`+custom+`}`); (got != "") != beyond {
			t.Errorf("%s: found %q", custom, got)
		}
	}
}

func TestXAndYOfSomethingElseAreNeverAPosition(t *testing.T) {
	for _, custom := range []string{
		`"imu": {"x": 1.1234, "y": 9.8123}`, `"imu": [{"t": 0, "x": 0.1234, "y": 9.8123, "z": 0.5123}]`, `"acceleration": {"samples": [{"x": 1.1234, "y": 9.8123}]}`, `"magnetometer": {"data": {"x": 21.1234, "y": -9.8123, "z": 40.5123}}`,
		`"a": {"x": 1.1234, "y": 9.8123, "z": 0.5123}`, `"wind": {"north": 3.1234, "east": -2.3456}`, `"gyro": {"raw": [[{"x": 1.1234, "y": 9.8123}]]}`, `"accel_x": 1.1234, "accel_y": 9.8123`,
		`"click": {"x": 120.5, "y": 45.25}`, `"chart": [{"x": 1, "y": 12.3456}, {"x": 2, "y": 13.4567}]`, `"profile": [{"x": 0.1234, "y": 512.3456}]`, `"x": 8.54211`, `"y": 47.37129`, `"north": 47.37129`,
		`"x": 8.54211, "z": 47.37129`, `"x": {"x": 8.54211}, "y": {"y": 47.37129}`, `"start_x": 8.54211, "end_y": 47.37129`, `"share": {"x": 0.5512, "y": 0.6623}`, `"x": 151.2093, "y": 97.1234`, `"x": 0.0000, "y": 0.0000`,
		`"north": 3, "south": 5, "east": 12, "west": 2`, `"x": true, "y": "47.37129 m"`, `"my": 47.37129, "max": 8.54211`, `"x": 854211234, "y": 473712912`, `"flux": 8.54211, "fly": 47.37129`,
	} {
		for _, privacy := range []string{"no_gps", "blur_start"} {
			if got := pointersIn(t, `"privacy": "`+privacy+`", "custom": {`+custom+`}`); got != "" {
				t.Errorf("%s: %s: %s", privacy, custom, got)
			}
		}
	}
}

func TestManyAxesNeverKeepLintBusy(t *testing.T) {
	var one, words strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&one, `"x%d": 1.1234, "y%d": 2.2345, `, i, i)
	}
	word := strings.Repeat("end", 18)
	for i := range 3_000 {
		fmt.Fprintf(&words, `"%s%dx": 1.1234, "%s%dy": 2.2345, `, word, i, word, i)
	}
	deep := strings.Repeat(`{"`+word+`":`, 50) + `[` + strings.Repeat(`{"x": 1.1234, "y": 2.2345},`, 10_000) + `0]` + strings.Repeat("}", 50)
	for name, custom := range map[string]string{"one object": one.String() + `"z": 1`, "many words": words.String() + `"z": 1`, "deep": `"a": ` + deep} {
		for _, privacy := range []string{"no_gps", "blur_start"} {
			keepsUp(t, name+" "+privacy, detailWith(t, `"privacy": "`+privacy+`", "custom": {`+custom+`}`))
		}
	}
}

// A chart has as many points, and its numbers as many digits, as a way. Only what it
// shows is no way.
func TestXAndYOfAChartAreNeverAPosition(t *testing.T) {
	points := func(n, decimals int, point func(i int) (x, y float64)) string {
		return strings.ReplaceAll(strings.ReplaceAll(samplesText(n, false, func(i int) []string {
			x, y := point(i)
			texts := fixed(decimals, x, y)
			return []string{`"x":` + texts[0], `"y":` + texts[1]}
		})[1:], "[", "{"), "]", "}")
	}
	charts := []string{
		`"chart": [{"x": 1.12345, "y": 12.12345}, {"x": 2.12345, "y": 13.12345}, {"x": 3.12345, "y": 12.52345}]`, `"chart": [{"x": 1.1234, "y": 12.1234}]`,
		`"pedal": {"x": 3.1234, "y": 4.1234}`, `"pedals": [{"left": {"x": 3.1234, "y": 4.1234}, "right": {"x": 3.2345, "y": 4.3456}}]`, `"start_x": 3.1234, "start_y": 4.1234`,
	}
	for decimals := 4; decimals <= 9; decimals++ {
		chart := points(100, decimals, func(i int) (x, y float64) { return 1.1 + float64(i)/10, 145.1 + float64(i*7%11) })
		charts = append(charts, `"chart": [`+strings.TrimSuffix(chart, "}")+"]", `"series": [{"name": "HR", "data": [`+strings.TrimSuffix(chart, "}")+`]}]`)
	}
	for _, custom := range charts {
		for _, members := range []string{`"privacy": "no_gps", "distance_m": 10000, `, `"privacy": "blur_start", "distance_m": 10000, `} {
			if got := pointersIn(t, members+`"custom": {`+custom+`}`); got != "" {
				t.Errorf("%s: %.80s: %.80s", members, custom, got)
			}
		}
	}
	for decimals := 4; decimals <= 9; decimals++ {
		way := strings.TrimSuffix(points(5, decimals, func(i int) (x, y float64) { return 8.54211 + float64(i)*1e-4, 47.37129 - float64(i)*1e-4 }), "}")
		for custom, prefix := range map[string]string{`"points": [` + way + `]`: "points/%d/", `"a": {"line": [{"at": [` + way + `]}]}`: "a/line/0/at/%d/"} {
			var want []string
			for i := range 5 {
				want = append(want, fmt.Sprintf(prefix+"x", i), fmt.Sprintf(prefix+"y", i))
			}
			for _, members := range []string{`"privacy": "no_gps", "distance_m": 1000, `, `"privacy": "no_gps", `, `"privacy": "blur_start", `} {
				if diff := cmp.Diff(strings.Join(want, " "), pointersIn(t, members+`"custom": {`+custom+`}`)); diff != "" {
					t.Errorf("%s: %s: (-expected +found)\n%s", members, custom, diff)
				}
			}
		}
	}
	for custom, want := range map[string]string{
		`"mark": {"x": 8.54211, "y": 47.3713}`: "mark/x mark/y", `"home": {"x": 8.5421, "y": 47.3713}`: "home/x home/y", `"photos": [{"at": {"x": 8.5421, "y": 47.3713}}, {"at": {"x": 8.6421, "y": 47.9713}}]`: "photos/0/at/x photos/0/at/y photos/1/at/x photos/1/at/y",
		`"a": [{"b": {"y": 47.37129, "x": 8.54211}}, 1, [{"x": 1}]]`: "a/0/b/y a/0/b/x", `"area": {"north": 47.3912, "south": 47.3612, "east": 8.5512, "west": 8.5312}`: "area/north area/south area/east area/west",
	} {
		if diff := cmp.Diff(want, pointersIn(t, `"privacy": "no_gps", "custom": {`+custom+`}`)); diff != "" {
			t.Errorf("%s: (-expected +found)\n%s", custom, diff)
		}
	}
}

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

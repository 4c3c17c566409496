package activityschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// objectRows writes the objects of a list, each with a row, as Garmin Connect does.
func objectRows(n int, row func(i int) []string) string {
	var objects []string
	for i := range n {
		objects = append(objects, `{"metrics":[`+strings.Join(row(i), ",")+`],"index":`+fmt.Sprint(i)+`}`)
	}
	return `{"measurementCount":5,"activityDetailMetrics":[` + strings.Join(objects, ",") + `]}`
}

func TestPositionNeverHidesInRowsOfObjects(t *testing.T) {
	const track = `"privacy": "blur_start", "distance_m": 1600, "timeseries": {"t": [60, 62, 64, 66, 68], "lat": [47.01, 47.0101, 47.015, 47.0199, 47.02], "lon": [8, 8, 8, 8, 8]}, `
	for from, members := range map[float64]string{47.37129: `"privacy": "no_gps", "duration_s": 90, `, 47.37: `"privacy": "no_gps", `, 47.005: track} {
		for n := 2; n <= 90; n += 11 {
			custom := objectRows(n, func(i int) []string {
				return append([]string{"145.0", fmt.Sprint(1747463412000 + i*1000)}, append(fixed(5, from+float64(i)*0.0001, 8.54211), "2.78")...)
			})
			if got := pointersIn(t, members+`"custom": {"details": `+custom+`}`); got != "details/activityDetailMetrics" {
				t.Errorf("%s: %d rows: %s", members, n, got)
			}
			for _, f := range activityschema.LintAll(detailWith(t, members+`"custom": {"details": `+custom+`}`)) {
				if !strings.HasSuffix(f.Pointer, "/metrics/2") && !strings.HasSuffix(f.Pointer, "/metrics/3") {
					t.Errorf("%s: %d rows: %s", members, n, f.Pointer)
				}
			}
		}
	}
	for name, custom := range map[string]string{
		"the cut track": objectRows(50, func(i int) []string {
			return append([]string{"145.0", fmt.Sprint(60 + i)}, fixed(5, 47.01+float64(i)*0.0002, 8.00001)...)
		}),
	} {
		if got := pointersIn(t, track+`"custom": {"details": `+custom+`}`); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRowsOfSensorsInObjectsAreNeverAPosition(t *testing.T) {
	for decimals := 1; decimals <= 12; decimals++ {
		custom := objectRows(300, func(i int) []string {
			x := float64(i*7919%100) / 100
			return append([]string{fmt.Sprint(1747463412000 + i*1000)}, fixed(decimals, 140+x, 2.7+x, 88-x, 21.1+x/5, 250+9*x)...)
		})
		for _, privacy := range []string{"no_gps", "blur_start"} {
			if got := pointersIn(t, `"privacy": "`+privacy+`", "distance_m": 1600, "custom": {"details": `+custom+`}`); got != "" {
				t.Errorf("%s: %d decimals: %s", privacy, decimals, got)
			}
		}
	}
	for _, custom := range []string{`"a": [{"v": [1, 2, 3, 4]}, {"v": []}, {"v": [null, 1, 2, 3, 4.5]}]`, `"power": [{"v": [1, 47.37129, 8.54211, 2]}, {"v": [2, 47.37131, 8.54215, 2]}]`, `"a": [{"v": [1, 47.37129, 8.54211, 2]}, {"w": [2, 47.37131, 8.54215, 2]}]`} {
		if got := pointersIn(t, `"privacy": "no_gps", "custom": {`+custom+`}`); got != "" {
			t.Errorf("%s: %s", custom, got)
		}
	}
}

func TestRowsOfObjectsNeverKeepLintBusy(t *testing.T) {
	rows := strings.Repeat(`{"a":[47.37129,8.54211,1,2,3],"b":[1,2,3,4]},`, 8_000)
	var names strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&names, `{"a%d":[1.1,2.2,3,4],"b%d":[1.1,2.2,3,4]},`, i, i)
	}
	for name, custom := range map[string]string{"rows": "[" + rows + "1]", "names": "[" + names.String() + "1]", "deep": strings.Repeat(`[{"a":`, 28) + "[" + rows + "1]" + strings.Repeat("}]", 28)} {
		for _, privacy := range []string{"no_gps", "blur_start"} {
			keepsUp(t, name, detailWith(t, `"privacy": "`+privacy+`", "custom": {"x": `+custom+`}`))
		}
	}
}

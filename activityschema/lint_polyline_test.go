package activityschema_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// encoded writes a polyline in Google's encoding with so many decimals, as a
// value of JSON.
func encoded(points [][2]float64, decimals int) string {
	var b strings.Builder
	var last [2]int64
	for _, p := range points {
		for i, degrees := range p {
			at := int64(math.Round(degrees * math.Pow10(decimals)))
			delta := at - last[i]
			last[i] = at
			for delta = delta<<1 ^ delta>>63; delta >= 0x20; delta >>= 5 {
				b.WriteByte(byte(delta&0x1f|0x20) + 63)
			}
			b.WriteByte(byte(delta) + 63)
		}
	}
	return `"` + strings.ReplaceAll(b.String(), `\`, `\\`) + `"`
}

// Near the equator and Greenwich a polyline of six decimals is on the Earth with
// five as well: the track says which are meant.
func TestPolylineOfTheCutTrackIsNeverReportedForItsDecimals(t *testing.T) {
	for _, start := range [][2]float64{{5.6, -0.19}, {-1.2921, 15.8219}, {0.31, 9.45}, {-8.9, -13.2}, {47.37, 8.54}, {-33.86, 151.2}} {
		var cut, uncut [][2]float64
		var ts, lats, lons []string
		for i := range 5000 {
			p := [2]float64{start[0] + float64(i)*1e-5, start[1] + float64(i)*2e-5}
			uncut = append(uncut, p)
			if i >= 200 {
				cut = append(cut, p)
				ts, lats, lons = append(ts, fmt.Sprint(i)), append(lats, fmt.Sprintf("%.7f", p[0])), append(lons, fmt.Sprintf("%.7f", p[1]))
			}
		}
		track := `"privacy": "blur_start", "timeseries": {"t": [` + strings.Join(ts, ",") + `], "lat": [` + strings.Join(lats, ",") + `], "lon": [` + strings.Join(lons, ",") + `]}, `
		for decimals := 5; decimals <= 6; decimals++ {
			for points, want := range map[*[][2]float64]int{&cut: 0, &uncut: 1} {
				found := activityschema.Lint(detailWith(t, track+`"custom": {"polyline": `+encoded(*points, decimals)+`}`))
				if len(found) != want {
					t.Errorf("%v: %d decimals: %d findings, want %d", start, decimals, len(found), want)
				}
			}
		}
	}
	// Without a track either is a position.
	for decimals := 5; decimals <= 6; decimals++ {
		for _, privacy := range []string{"no_gps", "blur_start"} {
			doc := detailWith(t, `"privacy": "`+privacy+`", "custom": {"polyline": `+encoded([][2]float64{{5.6, -0.19}, {5.7, -0.2}}, decimals)+`}`)
			if found := activityschema.Lint(doc); len(found) != 1 {
				t.Errorf("%s: %d decimals: %+v", privacy, decimals, found)
			}
		}
	}
}

package publish

import (
	"math"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// Whatever a device says, a document does not contradict itself, and what it does not confirm is a warning.
func TestDocumentsDoNotContradictThemselves(t *testing.T) {
	still := change(steady(), func(_ int, r *row) { r.lat, r.metres = 47, 0 })
	inside := change(steady(), func(_ int, r *row) { r.lat, r.lon, r.metres = 0, 0, 0 })
	for name, data := range map[string]string{
		"a tenth of the distance":          asFIT(2, steady(), 600, 300),
		"ten times the distance":           asFIT(2, steady(), 600, 30000),
		"no distance":                      asFIT(2, steady(), 600, 0),
		"twice the time":                   asFIT(2, steady(), 1200, 3000),
		"half the time":                    asFIT(2, steady(), 300, 3000),
		"no time":                          asFIT(2, steady(), 0, 3000),
		"a distance while standing":        asFIT(2, still, 600, 3000),
		"a distance without positions":     asFIT(2, inside, 600, 3000),
		"laps of three times the distance": asTCX("Biking", steady(), 9000, 1),
		"laps of a third of the distance":  asTCX("Biking", steady(), 1000, 1),
		"a car that runs":                  asGPX("running", rows(601, 30)),
		"a jet that rides":                 asGPX("cycling", rows(601, 250)),
		"a leap within a minute":           asGPX("cycling", change(steady(), func(i int, r *row) { r.lat += math.Floor(float64(i)/300) * 0.5 })),
		"a leap in ten minutes": asGPX("cycling", change(steady(), func(i int, r *row) {
			if i >= 300 {
				r.lat, r.t = r.lat+1, r.t+600
			}
		})),
	} {
		f := read(t, []byte(data))
		balanced(t, f)
		r := f.Recordings[0]
		d, err := f.Detail(0)
		if err != nil {
			t.Fatal(name, err)
		}
		d.Privacy = activityschema.PrivacyPublic
		if orZero(d.MovingTimeS) > orZero(d.DurationS) || orZero(d.AvgSpeedKmh) > orZero(d.MaxSpeedKmh) && d.MaxSpeedKmh != nil ||
			orZero(d.DistanceM) > 0 && d.MovingTimeS != nil && *d.MovingTimeS == 0 {
			t.Errorf("%s: %v m in %v of %v s, %v km/h", name, orZero(d.DistanceM), orZero(d.MovingTimeS), orZero(d.DurationS), orZero(d.MaxSpeedKmh))
		}
		if found := doubts(d); found != nil && r.Warnings == nil && name != "a car that runs" {
			t.Errorf("%s: the linter finds %q, the import warns of %q", name, found, r.Warnings)
		}
		t.Logf("%s: %v m in %v s, %q", name, orZero(d.DistanceM), orZero(d.MovingTimeS), strings.Join(append(f.Warnings, r.Warnings...), "; "))
	}
}

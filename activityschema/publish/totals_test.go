package publish

import (
	"math"
	"math/rand/v2"
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
		if orZero(d.MovingTimeS) > orZero(d.DurationS) ||
			orZero(d.AvgSpeedKmh) > orZero(d.MaxSpeedKmh) && d.MaxSpeedKmh != nil ||
			orZero(d.DistanceM) > 0 && d.MovingTimeS != nil && *d.MovingTimeS == 0 {
			t.Errorf("%s: %v m in %v of %v s, %v km/h", name, orZero(d.DistanceM), orZero(d.MovingTimeS), orZero(d.DurationS), orZero(d.MaxSpeedKmh))
		}
		if found := doubts(d); found != nil && r.Warnings == nil && name != "a car that runs" {
			t.Errorf("%s: the linter finds %q, the import warns of %q", name, found, r.Warnings)
		}
		t.Logf("%s: %v m in %v s, %q", name, orZero(d.DistanceM), orZero(d.MovingTimeS), strings.Join(append(f.Warnings, r.Warnings...), "; "))
	}
}

// A pool has a sample at the end of each length, and a virtual world no time zone.
func TestWhatWasDoneIndoors(t *testing.T) {
	var w fitWriter
	w.message(fitFileID, fitUint{0, 1, 0, fitFileActivity})
	for n := range uint64(20) {
		w.message(fitRecord, fitUint{fitTimestamp, 4, 0x86, fitTime(begun) + 60*(n+1)},
			fitUint{5, 4, 0x86, 5000 * (n + 1)})
	}
	w.message(fitSession, fitUint{fitTimestamp, 4, 0x86, fitTime(begun) + 1200}, fitUint{2, 4, 0x86, fitTime(begun)},
		fitUint{5, 1, 0, 5}, fitUint{6, 1, 0, 17}, fitUint{7, 4, 0x86, 1_200_000}, fitUint{8, 4, 0x86, 1_200_000},
		fitUint{9, 4, 0x86, 100_000})
	f := read(t, w.file())
	d := checked(t, f)
	if orZero(d.DistanceM) != 1000 || orZero(d.MovingTimeS) != 1200 || f.Recordings[0].Warnings != nil {
		t.Errorf("%v m in %v s, %q", orZero(d.DistanceM), orZero(d.MovingTimeS), f.Recordings[0].Warnings)
	}
	world := change(steady(), func(_ int, r *row) { r.lat, r.lon = r.lat-60, 167 })
	if d := checked(t, read(t, []byte(asGPX("VirtualRide", world)))); d.StartedAt.String() != "2025-06-01T08:00:00Z" {
		t.Errorf("a virtual ride began %s", d.StartedAt)
	}
}

// Positions that jitter make a track longer than what the device counts.
func TestDistanceOfASwimIsThatOfTheWatch(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	swim := change(rows(1801, 1), func(_ int, r *row) {
		r.lat, r.lon = r.lat+noise.NormFloat64()*1.5/metreDegree, r.lon+noise.NormFloat64()*2/metreDegree
	})
	f := read(t, []byte(asFIT(5, swim, 1800, 1800)))
	if d := checked(t, f); orZero(d.DistanceM) != 1800 || f.Recordings[0].Warnings != nil {
		t.Errorf("%v m, %q", orZero(d.DistanceM), f.Recordings[0].Warnings)
	}
}

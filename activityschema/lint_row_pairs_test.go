package activityschema_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// Two sensors against one another, or one against the way, have as many digits as a
// position where a program writes floating-point numbers.
func TestPairsOfMeasurementsAreNeverTakenForAPosition(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	walk := func(value, step float64) func(int) float64 {
		return func(int) float64 { value += step * random.NormFloat64(); return value }
	}
	for _, rows := range []int{4, 10, 60, 600} {
		for decimals := 3; decimals <= 15; decimals += 2 {
			for name, sensors := range map[string][2]func(int) float64{
				"heart rate, speed":    {walk(145, 0.4), walk(3.2, 0.05)},
				"speed, heart rate":    {walk(3.2, 0.05), walk(85, 0.4)},
				"SmO2, THb":            {walk(61, 0.4), walk(12.3, 0.05)},
				"minute, temperature":  {func(i int) float64 { return float64(i+1)*60/float64(rows) + 0.1*random.Float64() }, walk(21.1, 0.02)},
				"km, heart rate":       {func(i int) float64 { return float64(i+1)*10/float64(rows) + 0.001 }, walk(145, 0.4)},
				"km, pace":             {func(i int) float64 { return float64(i+1)*10/float64(rows) + 0.001 }, walk(4.25, 0.05)},
				"oscillation, balance": {walk(8.4, 0.1), walk(50, 0.2)},
			} {
				custom := `"values": ` + samplesText(rows, false, func(i int) []string { return fixed(decimals, sensors[0](i), sensors[1](i)) })
				for _, privacy := range []string{"no_gps", "blur_start"} {
					if got := pointersIn(t, `"privacy": "`+privacy+`", "distance_m": 10000, "duration_s": 3600, "custom": {`+custom+`}`); got != "" {
						t.Errorf("%s: %d rows of %s with %d decimals: %s", privacy, rows, name, decimals, got)
					}
				}
			}
		}
	}
	for _, custom := range []string{`"splits": [[1.001, 4.251], [2.003, 4.312], [3.002, 4.287]]`, `"splits": [[1.001, 4.251], [2.003, 4.312]]`, `"values": [[[1.001, 4.251], [2.003, 4.312]], [[3.002, 4.287]]]`} {
		if got := pointersIn(t, `"privacy": "no_gps", "distance_m": 3000, "custom": {`+custom+`}`); got != "" {
			t.Errorf("%s: %s", custom, got)
		}
	}
}

func TestPairsOfAWayAreNeverTakenForMeasurements(t *testing.T) {
	for _, members := range []string{`"privacy": "no_gps", "distance_m": 1100, `, `"privacy": "no_gps", "duration_s": 300, `, `"privacy": "no_gps", `, `"privacy": "blur_start", `} {
		for _, rows := range []int{1, 2, 3, 4, 20, 100} {
			for decimals := 4; decimals <= 9; decimals++ {
				for name, custom := range map[string]string{
					"way":             samplesText(rows, false, func(i int) []string { return fixed(decimals, 47.37129+float64(i)*1e-4, 8.54211-float64(i)*1e-4) }),
					"longitude first": samplesText(rows, false, func(i int) []string { return fixed(decimals, 8.54211-float64(i)*1e-4, 47.37129+float64(i)*1e-4) }),
					"with elevations": samplesText(rows, false, func(i int) []string {
						return append(fixed(decimals, 47.37129+float64(i)*1e-4, 8.54211-float64(i)*1e-4), "412.5")
					}),
					"with texts": samplesText(rows, false, func(i int) []string {
						return append(fixed(decimals, 47.37129+float64(i)*1e-4, 8.54211-float64(i)*1e-4), fmt.Sprintf("%q", "a"))
					}),
				} {
					if found := activityschema.Lint(detailWith(t, members+`"custom": {"x": `+custom+`}`)); len(found) == 0 {
						t.Errorf("%s: %d rows of a %s with %d decimals", members, rows, name, decimals)
					}
				}
			}
		}
	}
	// A name may promise what the numbers do not.
	for _, custom := range []string{`"route": [[47.3, 8.5], [47.9, 8.5], [48.7, 8.5], [49.9, 8.5]]`, `"coordinates": [[8, 47], [9, 47], [9, 48], [8, 47]]`, `"cities": [[47.37129, 8.54211], [52.52011, 13.40512], [48.85712, 2.35111]]`} {
		if found := customFindings(t, "{"+custom+"}"); len(found) != 1 {
			t.Errorf("%s: %v", custom, found)
		}
	}
}

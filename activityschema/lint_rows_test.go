package activityschema_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// samplesText writes rows of JSON, or a flat list, with the values of n samples.
func samplesText(n int, flat bool, row func(i int) []string) string {
	var rows []string
	for i := range n {
		text := strings.Join(row(i), ",")
		if !flat {
			text = "[" + text + "]"
		}
		rows = append(rows, text)
	}
	return "[" + strings.Join(rows, ",") + "]"
}

func fixed(decimals int, values ...float64) (texts []string) {
	for _, v := range values {
		texts = append(texts, fmt.Sprintf("%.*f", decimals, v))
	}
	return texts
}

func TestPositionNeverHidesInRowsWithATime(t *testing.T) {
	ride := func(i int) (lat, lon float64) {
		a := float64(i) / 40
		return 47.37129 + 0.004*math.Sin(a), 8.54211 + 0.006*(1-math.Cos(a))
	}
	at := func(decimals, i int) []string { lat, lon := ride(i); return fixed(decimals, lat, lon) }
	count := func(i int, texts ...string) []string { return append([]string{fmt.Sprint(i)}, texts...) }
	for name, custom := range map[string]string{
		"two rows":            `[[0,47.37129,8.54211],[1,47.37131,8.54215]]`,
		"time":                samplesText(90, false, func(i int) []string { return count(i, at(5, i)...) }),
		"time, elevation, hr": samplesText(90, false, func(i int) []string { return append(count(i, at(6, i)...), "412.5", fmt.Sprint(140+i%7)) }),
		"epoch":               samplesText(90, false, func(i int) []string { return count(1747463412+i, at(6, i)...) }),
		"text of a time":      samplesText(90, false, func(i int) []string { return append([]string{`"06:30"`}, at(6, i)...) }),
		"longitude first":     samplesText(90, false, func(i int) []string { lat, lon := ride(i); return count(i, fixed(6, lon, lat)...) }),
		"four decimals":       samplesText(90, false, func(i int) []string { return count(i, at(4, i)...) }),
		"no position at first": samplesText(90, false, func(i int) []string {
			if i < 60 {
				return count(i, "null", "null", "140")
			}
			return append(count(i, at(6, i)...), "140")
		}),
		"standing still":     samplesText(90, false, func(i int) []string { return count(i, "47.37129", "8.54211", "231") }),
		"after the measures": samplesText(90, false, func(i int) []string { return append(count(i, "4.5123", "210.1234", "88"), at(7, i)...) }),
		"position, more":     samplesText(90, false, func(i int) []string { return append(at(6, i), "140", "88", "231") }),
		"antimeridian": samplesText(90, false, func(i int) []string {
			return count(i, fmt.Sprintf("%.6f", -17.1+float64(i)/1e4), fmt.Sprintf("%.6f", math.Remainder(179.996+float64(i)/1e4, 360)))
		}),
		"legs":                "[" + samplesText(30, false, func(i int) []string { return count(i, at(5, i)...) }) + "," + samplesText(30, false, func(i int) []string { return count(i, at(5, i+30)...) }) + "]",
		"flat":                samplesText(40, true, func(i int) []string { return at(5, i) }),
		"flat, of two":        `[47.37129,8.54211,47.37131,8.54215]`,
		"flat with elevation": samplesText(40, true, func(i int) []string { return append(at(5, i), "412.5") }),
		"flat with time":      samplesText(40, true, func(i int) []string { return append(count(i, at(5, i)...), "412.5") }),
		"flat with nulls":     `[null,null,47.37129,8.54211,null,null,47.37131,8.54215]`,
	} {
		found := customFindings(t, `{"samples":`+custom+`}`)
		if len(found) == 0 || len(found) > 2 || !strings.HasPrefix(found[0].Pointer, "/custom/samples") {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// Every order of sensors in a row, with few digits and many; a slow temperature
// beside another is the hardest.
func TestRowOfSensorsIsNeverTakenForAPosition(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	noise := func(scale float64) float64 { return scale * random.NormFloat64() }
	sensors := []func(i int) float64{
		func(i int) float64 { return 4.5123 + noise(0.2) },                                 // speed
		func(i int) float64 { return 88 + noise(1.5) },                                     // cadence
		func(i int) float64 { return 210.1234 + noise(15) },                                // power
		func(i int) float64 { return math.Round((18.5+float64(i)/900)*16) / 16 },           // temperature, in sixteenths
		func(i int) float64 { return 37.1234 + float64(i)/3000 + noise(0.001) },            // core temperature
		func(i int) float64 { return 33.5123 + 0.3*math.Sin(float64(i)/90) + noise(1e-3) }, // skin temperature
		func(i int) float64 { return 61.1234 + noise(0.8) },                                // SmO2
		func(i int) float64 { return float64(i) * 0.00512 },                                // distance in km
		func(i int) float64 { return 49.8312 + noise(0.4) },                                // balance
		func(i int) float64 { return noise(0.02) },                                         // grade
	}
	for range 8 {
		order := random.Perm(len(sensors))
		for decimals := 1; decimals <= 9; decimals++ {
			for _, flat := range []bool{false, true} {
				custom := samplesText(300, flat, func(i int) []string {
					row := []string{fmt.Sprint(i)}
					for _, k := range order {
						row = append(row, fixed(decimals, sensors[k](i))...)
					}
					return row
				})
				for _, members := range []string{`"distance_m": 1536, "duration_s": 300`, `"duration_s": 300`} {
					found := activityschema.Lint(detailWith(t, `"privacy": "no_gps", `+members+`, "custom": {"samples": `+custom+`}`))
					for _, f := range found {
						if f.Code == activityschema.CodePrivacyCustom {
							t.Errorf("order %v, %d decimals, flat %v, %s: %v", order, decimals, flat, members, f)
						}
					}
				}
			}
		}
	}
	for k, sensor := range sensors {
		for decimals := 1; decimals <= 9; decimals++ {
			custom := `{"values":` + samplesText(300, true, func(i int) []string { return fixed(decimals, sensor(i)) }) + `}`
			if found := customFindings(t, custom); len(found) > 0 {
				t.Errorf("sensor %d, %d decimals: %v", k, decimals, found)
			}
		}
	}
	for _, custom := range []string{
		`{"samples":[[0,4.5123,210.1234],[1,4.5201,211.4321]]}`, `{"samples":[[0,4.5123,78.1234],[1,4.6201,79.4321],[2,4.4012,78.9123]]}`, `{"splits":[[1000,312.4,152],[1000,305.25,153]]}`,
		`{"power":{"samples":[[0,47.37129,8.54211],[1,47.37131,8.54215]]}}`, `{"hr":[61.1234,72.4321,61.1244,72.4311]}`, `{"steps":[[1,0.55123,0.66234],[2,0.55124,0.66235]]}`,
		`{"rows":[[1,47,8],[2,47,8]]}`, `{"rows":[[1,47.371,8.542],[2,47.372,8.543]]}`, `{"times":[0.00028,0.00512,0.00056,0.01023,0.00083,0.01535]}`, `{"rows":[[1],[2,3,4,5],[],[[]],null,"x",{}]}`,
	} {
		if found := customFindings(t, custom); len(found) > 0 {
			t.Errorf("%s: %v", custom, found)
		}
	}
}

// The cut track runs north from 47.01 to 47.02 at 8 degrees east. Of the ways to read
// a row that which lies on the track is the right one.
func TestRowOfTheCutTrackIsNeverReportedAndOneBeyondAlwaysIs(t *testing.T) {
	const track = `"privacy": "blur_start", "distance_m": 1600, "timeseries": {"t": [60, 62, 64, 66, 68], "lat": [47.01, 47.0101, 47.015, 47.0199, 47.02], "lon": [8, 8, 8, 8, 8]}, `
	for _, name := range []string{"samples", "coordinates", "track", "gps"} {
		for from, want := range map[float64]int{47.01: 0, 47.005: 1} {
			for _, custom := range []string{
				samplesText(50, false, func(i int) []string {
					return append([]string{fmt.Sprint(60 + i)}, fixed(5, from+float64(i)*0.0002, 8.00001)...)
				}),
				samplesText(50, false, func(i int) []string {
					return append([]string{fmt.Sprint(60 + i)}, append(fixed(5, 8.00001, from+float64(i)*0.0002), "12.12345")...)
				}),
				samplesText(50, true, func(i int) []string { return fixed(5, from+float64(i)*0.0002, 8.00001) }),
				samplesText(50, true, func(i int) []string { return append(fixed(5, from+float64(i)*0.0002, 8.00001), "12.5") }),
				samplesText(50, true, func(i int) []string {
					return append([]string{fmt.Sprint(60 + i)}, append(fixed(5, from+float64(i)*0.0002, 8.00001), "12.5")...)
				}),
			} {
				found := activityschema.Lint(detailWith(t, track+`"custom": {"`+name+`": `+custom+`}`))
				if len(found) != want {
					t.Errorf("%s from %v: %.60s: %v", name, from, custom, found)
				}
			}
		}
	}
}

func TestRowsNeverKeepLintBusy(t *testing.T) {
	const track = `"privacy": "blur_start", "timeseries": {"t": [60, 62], "lat": [47.01, 47.02], "lon": [8, 8]}, `
	wide := "[" + strings.TrimSuffix(strings.Repeat("47.37129,8.54211,", 30_000), ",") + "]"
	for name, custom := range map[string]string{
		"wide rows":    "[" + wide + "," + wide + "]",
		"short rows":   "[" + strings.Repeat("[],", 200_000) + "[1]]",
		"many columns": samplesText(15_000, false, func(i int) []string { return strings.Split(strings.Repeat("47.37129,", 7)+"8.5", ",") }),
		"deep":         strings.Repeat("[[1,2],", 60) + "1" + strings.Repeat("]", 60),
		"mixed":        "[" + strings.Repeat(`[47.37129,8.54211,"a"],`, 40_000) + "1]",
	} {
		for _, privacy := range []string{track, `"privacy": "no_gps", `} {
			keepsUp(t, name, detailWith(t, privacy+`"custom": {"x": `+custom+`}`))
		}
	}
}

// Who repairs a recording must not have to look at it again for each of its positions.
func TestSecondPositionOfARowIsNeverLeftForAnotherLook(t *testing.T) {
	for row, want := range map[string]string{
		`"a", 47.37129, 8.54211, 140, 47.37229, 8.54311`: "1 2 4 5",
		`"a", 47.37129, 8.54211, 47.37229, 8.54311, 140`: "1 2 3 4",
		`47.37129, 8.54211, 47.37229`:                    "0 1",
	} {
		var got []string
		for _, f := range activityschema.LintAll(detailWith(t, `"privacy": "no_gps", "custom": {"rows": [[`+row+`, "keep"], ["head"], [`+row+`]]}`)) {
			if item, ok := strings.CutPrefix(f.Pointer, "/custom/rows/0/"); ok {
				got = append(got, item)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", row, got)
		}
	}
}

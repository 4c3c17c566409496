package activityschema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// recording makes the detail document of a ride: T, seven columns of numbers of
// the usual length, and one sample in fifty unknown.
func recording(samples int) activityschema.Detail {
	g := newGenerator(10)
	number := func(least, most float64, decimals int) numbers {
		column := make(numbers, samples)
		for i := range column {
			if i%50 != 7 {
				unit := math.Pow10(decimals)
				column[i] = activityschema.Some(math.Round((least+g.Float64()*(most-least))*unit) / unit)
			}
		}
		return column
	}
	integer := func(least, most int64) integers {
		column := make(integers, samples)
		for i := range column {
			if i%50 != 7 {
				column[i] = activityschema.Some(least + g.Int64N(most-least))
			}
		}
		return column
	}
	t := make(activityschema.Integers, samples)
	for i := range t {
		t[i] = int64(i)
	}
	return activityschema.Detail{
		Version: activityschema.Version, ID: "1", Title: "Ride", Sport: activityschema.SportCycling, Privacy: activityschema.PrivacyPublic,
		StartedAt: activityschema.Time{Time: time.Date(2026, 5, 17, 6, 30, 0, 0, time.UTC)},
		Timeseries: activityschema.Timeseries{
			T: t, Lat: number(46, 47, 6), Lon: number(11, 12, 6), ElevationM: number(200, 300, 1), SpeedKmh: number(20, 40, 1),
			HRBpm: integer(100, 180), CadenceRpm: integer(50, 110), PowerW: integer(0, 600),
		},
	}
}

// listing makes an index.
func listing(activities int) activityschema.Index {
	started := activityschema.Time{Time: time.Date(2026, 5, 17, 6, 30, 0, 0, time.UTC)}
	x := activityschema.Index{Version: activityschema.Version, Owner: activityschema.Owner{Handle: "mira"}, GeneratedAt: started}
	for i := range activities {
		x.Activities = append(x.Activities, activityschema.Summary{
			ID: fmt.Sprintf("2026-05-17-ride-%d", i), Title: "Morning ride", Sport: activityschema.SportCycling, SubSport: new(activityschema.SubSportGravel),
			StartedAt: started, DistanceM: new(42195.5), DurationS: new(int64(7260)), MovingTimeS: new(int64(7000)), ElevationGainM: new(640.2),
			AvgSpeedKmh: new(21.7), MaxSpeedKmh: new(58.1), AvgHRBpm: new(int64(141)), MaxHRBpm: new(int64(176)), Privacy: activityschema.PrivacyPublic,
			DetailURL: new(fmt.Sprintf("activities/2026-05-17-ride-%d.json", i)),
		})
	}
	return x
}

func BenchmarkDocument(b *testing.B) {
	for name, document := range map[string]any{"detail-10k": recording(10_000), "index-5k": listing(5_000)} {
		data := written(b, document)
		run := func(what string, once func() error) {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					if err := once(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("validate", func() error {
			_, err := activityschema.Validate(b.Context(), bytes.NewReader(data))
			return err
		})
		run("decode-validated", func() error {
			_, err := activityschema.DecodeDocument(data, true)
			return err
		})
		run("decode", func() error {
			_, _, err := activityschema.Decode(b.Context(), bytes.NewReader(data))
			return err
		})
		run("marshal", func() error {
			_, err := json.Marshal(document)
			return err
		})
	}
	data := written(b, recording(10_000).Timeseries)
	b.Run("columns through encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := json.Unmarshal(data, new(activityschema.Timeseries)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

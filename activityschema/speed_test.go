package activityschema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// samplesDocument is a valid detail document as an exporter writes it: eight
// columns of so many samples, a null here and there.
func samplesDocument(samples int) []byte {
	random := rand.New(rand.NewPCG(3, 4))
	var b bytes.Buffer
	b.WriteString(`{"bas_version":"1.0","id":"1","title":"Around the lake","sport":"cycling","started_at":"2026-05-17T06:30:12Z",` +
		`"privacy":"public","laps":[],"custom":{},"timeseries":{`)
	column := func(name string, nulls float64, value func(i int) string) {
		fmt.Fprintf(&b, `"%s":[`, name)
		for i := range samples {
			if i > 0 {
				b.WriteByte(',')
			}
			if random.Float64() < nulls {
				b.WriteString("null")
			} else {
				b.WriteString(value(i))
			}
		}
		b.WriteString(`]`)
	}
	about := func(mean, spread float64, digits int) func(int) string {
		return func(int) string { return fmt.Sprintf("%.*f", digits, mean+spread*random.NormFloat64()) }
	}
	column("t", 0, func(i int) string { return fmt.Sprint(i) })
	for _, c := range []struct {
		name         string
		mean, spread float64
		digits       int
	}{{"lat", 47.6, 0.1, 6}, {"lon", 9.3, 0.1, 6}, {"elevation_m", 430, 25, 1}, {"speed_kmh", 27, 6, 2},
		{"hr_bpm", 140, 14, 0}, {"cadence_rpm", 85, 6, 0}, {"power_w", 200, 60, 0}} {
		b.WriteByte(',')
		column(c.name, 0.02, about(c.mean, c.spread, c.digits))
	}
	b.WriteString("}}")
	return b.Bytes()
}

// summariesDocument is a valid index document of so many summaries.
func summariesDocument(summaries int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"bas_version":"1.0","owner":{"handle":"mira","display_name":"Mira"},"generated_at":"2026-05-17T20:00:00Z","activities":[`)
	start := time.Date(2016, 1, 1, 6, 30, 12, 0, time.UTC)
	for i := range summaries {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"2016-%06d","title":"Morning ride %d über den Berg","sport":"cycling","sub_sport":"road","started_at":"%s",`+
			`"distance_m":%d.5,"duration_s":%d,"moving_time_s":%d,"elevation_gain_m":%d.25,"avg_speed_kmh":24.3,"max_speed_kmh":61.2,`+
			`"avg_hr_bpm":138,"max_hr_bpm":171,"avg_cadence_rpm":null,"avg_power_w":null,"source":"fit_file","privacy":"blur_start",`+
			`"detail_url":"activities/2016-%06d.json","track_url":null}`,
			i, i, start.Add(time.Duration(i)*7*time.Hour).Format(time.RFC3339), 20000+i, 3600+i, 3500+i, i%900, i)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// seconds is how long one run of f takes, the best of some.
func seconds(runs int, f func()) float64 {
	best := time.Duration(1 << 62)
	for range runs {
		begin := time.Now()
		f()
		best = min(best, time.Since(begin))
	}
	return best.Seconds()
}

// BenchmarkValidate reports how many times faster than a plain decode by
// encoding/json (x-any), and than the other engine (x-qri), a valid document is
// validated. They are to be 8 and 25 for samples, 6 and 35 for summaries.
func BenchmarkValidate(b *testing.B) {
	for name, data := range map[string][]byte{
		"samples=100000":  samplesDocument(100_000),
		"summaries=50000": summariesDocument(50_000),
	} {
		b.Run(name, func(b *testing.B) {
			validate := func(o activityschema.Options) {
				if found, err := o.Validate(b.Context(), bytes.NewReader(data)); err != nil || len(found) > 0 {
					b.Fatal(err, found)
				}
			}
			plain := seconds(3, func() {
				var v any
				if err := json.Unmarshal(data, &v); err != nil {
					b.Fatal(err)
				}
			})
			qri := seconds(2, func() { validate(activityschema.Options{Engine: activityschema.EngineQri}) })
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				validate(activityschema.Options{})
			}
			own := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(plain/own, "x-any")
			b.ReportMetric(qri/own, "x-qri")
		})
	}
}

// BenchmarkValidateAllocations shows that allocations do not grow with the
// document.
func BenchmarkValidateAllocations(b *testing.B) {
	for _, samples := range []int{100, 100_000} {
		data := samplesDocument(samples)
		b.Run(fmt.Sprintf("samples=%d", samples), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if found, err := activityschema.Validate(b.Context(), bytes.NewReader(data)); err != nil || len(found) > 0 {
					b.Fatal(err, found)
				}
			}
		})
	}
}

// BenchmarkValidateForms shows the speed of other ways to write the documents.
func BenchmarkValidateForms(b *testing.B) {
	indented := new(bytes.Buffer)
	if err := json.Indent(indented, samplesDocument(100_000), "", "  "); err != nil {
		b.Fatal(err)
	}
	wrong := samplesDocument(100_000)
	for name, data := range map[string][]byte{
		"indented":       indented.Bytes(),
		"spaces":         bytes.ReplaceAll(wrong, []byte(","), []byte(", ")),
		"long-fractions": bytes.ReplaceAll(wrong, []byte(".5"), []byte(".4999999999999964")),
		"custom":         []byte(strings.Replace(string(samplesDocument(10)), `"custom":{}`, `"custom":{"x":[`+strings.Repeat(`{"name":"Ü","value":[1,2.5,true]},`, 100_000)+`0]}`, 1)),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if found, err := activityschema.Validate(b.Context(), bytes.NewReader(data)); err != nil || len(found) > 0 {
					b.Fatal(err, found)
				}
			}
		})
	}
}

package activityschema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// bombs are documents of a megabyte at most that are made to keep Lint busy, or
// to fill the memory.
func bombs() map[string]string {
	document := func(privacy, timeseries, custom string) string {
		return `{"bas_version":"1.0","id":"a","title":"T","sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"` + privacy +
			`","laps":[],"timeseries":` + timeseries + `,"custom":{` + custom + `}}`
	}
	members := func(n int, name func(i int) string, value string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%s", name(i), value)
		}
		return b.String()
	}
	track := func(n int) string {
		var t, lat, lon []string
		for i := range n {
			t, lat, lon = append(t, fmt.Sprint(i)), append(lat, fmt.Sprintf("%.5f", 47+float64(i)*2e-5)), append(lon, "8.54321")
		}
		return `{"t":[` + strings.Join(t, ",") + `],"lat":[` + strings.Join(lat, ",") + `],"lon":[` + strings.Join(lon, ",") + `]}`
	}
	alternating := strings.TrimSuffix(strings.Repeat("[47.00000,8.54321],[47.19998,8.54321],", 12_000), ",")
	beside := strings.TrimSuffix(strings.Repeat("[47.00001,8.54335],[47.19999,8.54335],", 12_000), ",")
	return map[string]string{
		"names of many words":       document("no_gps", `{"t":[]}`, members(12_000, func(i int) string { return fmt.Sprintf("latse%sq%d", strings.Repeat("6se", 18), i) }, "1")),
		"long name, many axes":      document("no_gps", `{"t":[]}`, `"`+strings.Repeat("x", 400_000)+`":{`+members(40_000, func(i int) string { return fmt.Sprint("lat", i) }, "0")+"}"),
		"axes without another half": document("blur_start", `{"t":[]}`, members(70_000, func(i int) string { return fmt.Sprint("lat", i) }, "1")),
		"spaces before numbers":     document("no_gps", `{"t":[]}`, `"a":"`+strings.Repeat(" ", 500_000)+strings.Repeat("1.1,", 100_000)+`"`),
		"positions on a long track": document("blur_start", track(20_000), `"coords":[`+alternating+`]`),
		"positions beside it":       document("blur_start", track(20_000), `"coords":[`+beside+`]`),
	}
}

// The test's deadline is the bound: none of these may take more than about a second,
// where they once took minutes.
func TestSmallDocumentNeverKeepsLintBusy(t *testing.T) {
	for name, text := range bombs() {
		if len(text) > 1<<20+1<<18 {
			t.Errorf("%s: %d bytes", name, len(text))
		}
		doc, problems, err := activityschema.Decode(t.Context(), bytes.NewReader([]byte(text)))
		if err != nil || problems != nil {
			t.Fatalf("%s: %v %v", name, problems, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		activityschema.Lint(doc)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
			t.Errorf("%s: %d MB", name, used>>20)
		}
	}
}

// Lint costs up to two hundred times of what it costs to decode a document that is one
// long text. Work that grows faster than the document has come to many thousands.
const mostTimesDecoding = 1000

// keepsUp fails if Lint is much slower with doc than encoding/json: at the best of a few
// tries, for something else may be going on.
func keepsUp(t *testing.T, name string, doc *activityschema.Document) {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	best := math.Inf(1)
	for range 5 {
		begin := time.Now()
		var tree any
		if err := json.Unmarshal(data, &tree); err != nil {
			t.Fatal(err)
		}
		decoding := time.Since(begin)
		begin = time.Now()
		activityschema.Lint(doc)
		activityschema.LintAll(doc)
		if best = min(best, float64(time.Since(begin))/float64(decoding)); best <= mostTimesDecoding {
			return
		}
	}
	t.Errorf("%s: %d bytes take %.0f times as long as to decode", name, len(data), best)
}

// BenchmarkLintBombs says what the worst of them costs.
func BenchmarkLintBombs(b *testing.B) {
	for name, text := range bombs() {
		doc, _, err := activityschema.Decode(b.Context(), bytes.NewReader([]byte(text)))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			for b.Loop() {
				activityschema.Lint(doc)
			}
		})
	}
}

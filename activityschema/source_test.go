package activityschema_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// However the document comes, the problems are the same, and line and column are those
// of the offset.
func TestPlaceDoesNotDependOnHowTheDocumentIsRead(t *testing.T) {
	documents := corpus(t, "invalid", leastInvalid)
	long := `{"bas_version":"1.0","title":"` + strings.Repeat("日本語 ", 40_000) + "\",\n\"custom\":{\"é\":[\n" + strings.Repeat("1, ", 100_000) + "\n{}]},  \"ü\":1,\n" +
		strings.Repeat("\n\t ", 300_000) + `"laps":[{"index":-1}],"id":` + strings.Repeat("\r\n", 200_000) + `7}`
	documents["long"] = []byte(long)
	for name, data := range documents {
		want := problems(t, data)
		for way, r := range map[string]io.Reader{
			"byte by byte": iotest.OneByteReader(bytes.NewReader(data)), "halves": iotest.HalfReader(bytes.NewReader(data)), "error with data": iotest.DataErrReader(bytes.NewReader(data)),
		} {
			if name == "long" && way == "byte by byte" {
				continue // slow
			}
			found, err := activityschema.Validate(t.Context(), r)
			if diff := cmp.Diff(want, found); err != nil || diff != "" {
				t.Errorf("%s, %s: %v\n%s", name, way, err, diff)
			}
		}
		for _, p := range want {
			before := data[:p.Offset]
			line := bytes.Count(before, []byte{'\n'}) + 1
			last := before[bytes.LastIndexByte(before, '\n')+1:]
			column := utf8.RuneCount(last) + 1
			if utf8.Valid(last) && (p.Line != line || p.Column != column) {
				t.Errorf("%s: %s %s at %d:%d, want %d:%d", name, p.Pointer, p.Keyword, p.Line, p.Column, line, column)
			}
		}
		if name == "long" {
			if got := places(want); len(got) != 9 || !strings.HasPrefix(string(data[want[len(want)-1].Offset:]), "7}") {
				t.Errorf("long: %q", got)
			}
		}
	}
}

func TestLocateFindsValues(t *testing.T) {
	document := "{\n \"skipped\": {\"b\": [\"}\", {\"c\": 1}]},\n \"custom\": {\"a/b\": [[1, 2],\n  {\"x~\": \"\\\"\", \"y\": 3}]}\n}"
	for _, c := range []struct {
		pointer, want string
		line, column  int
	}{
		{"", "{\n", 1, 1},
		{"/custom", `{"a/b"`, 3, 12},
		{"/custom/a~1b/0/1", "2]", 3, 25},
		{"/custom/a~1b/1/y", "3}", 4, 21},
		{"/custom/a~1b/1/x~0", `"\""`, 4, 10},
		{"/custom/a~1b/7", "[[1", 3, 20}, // not there: the nearest that is
		{"/nothing/0", "{\n", 1, 1},
	} {
		got, err := activityschema.Locate([]byte(document), []string{c.pointer})
		if err != nil || !strings.HasPrefix(document[got[0].Offset:], c.want) || got[0].Line != c.line ||
			got[0].Column != c.column {
			t.Errorf("%q at %+v, %v", c.pointer, got, err)
		}
	}
}

func TestReaderAndContextEndAValidation(t *testing.T) {
	broken := errors.New("the disk is gone")
	data := document(t, "detail-full.json")
	if found, err := activityschema.Validate(t.Context(), io.MultiReader(bytes.NewReader(data[:100]),
		iotest.ErrReader(broken))); !errors.Is(err, broken) || found != nil {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := activityschema.Validate(t.Context(),
		io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken))); !errors.Is(err, broken) || found != nil {
		t.Errorf("after the document: %v, %v", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := activityschema.Validate(ctx, bytes.NewReader(data)); !errors.Is(err, context.Canceled) ||
		found != nil {
		t.Errorf("%v, %v", found, err)
	}
}

func TestLimitsHoldToTheByte(t *testing.T) {
	data := document(t, "index-full.json")
	for limit, want := range map[int64]string{int64(len(data)): "", int64(len(data)) - 1: " size", 100: " size", 1: " size"} {
		if _, found := answer(t, activityschema.Options{MaxBytes: limit}, data); strings.Join(places(found), ",") != want || want != "" && found[0].Offset != limit {
			t.Errorf("limit %d: %+v", limit, found)
		}
	}
	if _, found := answer(t, activityschema.Options{MaxProblems: 3}, []byte(`{"laps":[1,2,3,4,5]}`)); len(found) != 3 {
		t.Errorf("%d problems", len(found))
	}
}

// endless is a document that goes on as long as it is read.
type endless struct{ begin, again string }

func (e *endless) Read(p []byte) (int, error) {
	if e.begin == "" {
		e.begin = e.again
	}
	n := copy(p, e.begin)
	e.begin = e.begin[n:]
	return n, nil
}

// What is kept does not grow with the document, be it samples, wrong values or white space.
func TestMemoryDoesNotGrowWithTheDocument(t *testing.T) {
	detail := `{"bas_version":"1.0","timeseries":{"t":[1,`
	for name, e := range map[string]*endless{
		"samples":      {detail, strings.Repeat("12345,", 10_000)},
		"wrong items":  {detail, strings.Repeat("true,", 10_000)},
		"spaces":       {" ", strings.Repeat(" ", 64<<10)},
		"empty lines":  {detail, strings.Repeat("\r\n", 32<<10)},
		"laps":         {`{"laps":[`, strings.Repeat(`{"index":"x"},`, 5000)},
		"free members": {`{"custom":{"a":[`, strings.Repeat(`{"b":[1.5,"c"]},`, 5000)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := activityschema.Validate(t.Context(), io.LimitReader(e, 4<<20))
		must(t, err)
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<20 {
			t.Errorf("%s: %d KB allocated in all for 4 MB", name, (after.TotalAlloc-before.TotalAlloc)>>10)
		}
	}
}

// The bars: at least four times as fast as encoding/json reads the same into any, and
// lint at least half as fast as validation. The fastest of each is what the machine can
// do when nothing else uses it.
func BenchmarkValidate(b *testing.B) {
	for name, data := range benchmarkDocuments(b) {
		doc := mustDecode(b, name, data)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			least := map[string]time.Duration{}
			measure := func(what string, do func()) {
				begin := time.Now()
				do()
				if took := time.Since(begin); least[what] == 0 || took < least[what] {
					least[what] = took
				}
			}
			for b.Loop() {
				measure("validate", func() {
					if found, err := activityschema.Validate(b.Context(), bytes.NewReader(data)); err != nil ||
						len(found) > 0 {
						b.Fatal(found, err)
					}
				})
				measure("any", func() {
					var v any
					must(b, json.Unmarshal(data, &v))
				})
				measure("decode", func() { mustDecode(b, name, data) })
				measure("lint", func() { activityschema.Lint(doc) })
			}
			ms := func(what string) float64 { return float64(least[what]) / float64(time.Millisecond) }
			for _, what := range []string{"validate", "any", "decode", "lint"} {
				b.ReportMetric(ms(what), what+"-ms")
			}
			b.ReportMetric(ms("any")/ms("validate"), "any/validate")
			b.ReportMetric(ms("validate")/ms("lint"), "validate/lint")
		})
	}
}

// benchmarkDocuments are recordings of 5 MB, compact and indented.
func benchmarkDocuments(b *testing.B) map[string][]byte {
	documents := map[string][]byte{}
	for name, samples := range map[string]int{"compact": 105_000, "indented": 48_000} {
		d := samplesOf(samples, activityschema.PrivacyBlurStart)
		d.Detail.StartedAt.Time = time.Date(2026, 5, 17, 6, 30, 0, 0, time.UTC)
		s := &d.Detail.Timeseries
		for i := range s.T {
			s.Lat[i].Value, s.Lon[i].Value = math.Round(47e6+float64(i*10))/1e6, math.Round(8e6+float64(i*10))/1e6
		}
		s.CadenceRpm = nil
		data, err := json.Marshal(d)
		if name == "indented" && err == nil {
			var indented bytes.Buffer
			err = json.Indent(&indented, data, "", "  ")
			data = indented.Bytes()
		}
		must(b, err)
		documents[name] = data
	}
	return documents
}

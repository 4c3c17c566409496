package activityschema_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// Least numbers of documents of testdata/lint, and of good ones among them.
const (
	leastLinted = 88
	leastGood   = 18
)

// mustDecode decodes data, which must be valid.
func mustDecode(t testing.TB, name string, data []byte) *activityschema.Document {
	t.Helper()
	doc, found, err := activityschema.Decode(context.Background(), bytes.NewReader(data))
	if err != nil || len(found) > 0 {
		t.Fatalf("%s: %v %+v", name, err, found)
	}
	return doc
}

// table reads a file of testdata: the last fields of its lines by the first.
func table(t *testing.T, name string, fields int) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	rows := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if strings.Count(line, "\t") != fields-1 {
			t.Fatalf("%s: %q has not %d fields", name, line, fields)
		}
		first, rest, _ := strings.Cut(line, "\t")
		rows[first] = append(rows[first], strings.ReplaceAll(rest, "\t", " "))
	}
	return rows
}

// whereAndCode returns "pointer code" of each finding, and fails for one that
// is not fit to be shown.
func whereAndCode(t testing.TB, found []activityschema.Finding) []string {
	t.Helper()
	var lines []string
	for _, f := range found {
		if f.Message == "" || strings.ContainsFunc(f.Message, unicode.IsControl) {
			t.Errorf("message %q of %s", f.Message, f.Pointer)
		}
		if !slices.Contains(activityschema.Codes(), f.Code) {
			t.Errorf("%s: code %q is not one of Codes", f.Pointer, f.Code)
		}
		lines = append(lines, f.Pointer+" "+f.Code)
	}
	return lines
}

func TestFaultsAreReportedAndGoodRecordingsAreNot(t *testing.T) {
	want := table(t, "lint.tsv", 3)
	documents := corpus(t, "lint", leastLinted)
	good := 0
	for name, data := range documents {
		if strings.HasPrefix(name, "good-") {
			good++
			if want[name] != nil {
				t.Errorf("lint.tsv expects something of %s", name)
			}
		} else if want[name] == nil {
			t.Errorf("lint.tsv expects nothing of %s", name)
		}
		if diff := cmp.Diff(want[name], whereAndCode(t, activityschema.Lint(mustDecode(t, name, data)))); diff != "" {
			t.Errorf("%s: findings (-expected +found):\n%s", name, diff)
		}
	}
	for name := range want {
		if documents[name] == nil {
			t.Errorf("lint.tsv expects something of %s, which does not exist", name)
		}
	}
	if good < leastGood {
		t.Errorf("%d good documents, want at least %d", good, leastGood)
	}
}

// samplesOf is a detail of n samples and eight columns in which nothing is
// wrong.
func samplesOf(n int, privacy activityschema.Privacy) *activityschema.Document {
	duration := int64(n)
	d := &activityschema.Detail{Version: "1.0", BBox: &activityschema.BBox{8, 47, 9, 48}}
	d.Activity = activityschema.Activity{ID: "a", Sport: "cycling", Privacy: privacy, DurationS: &duration}
	s := &d.Timeseries
	for i := range n {
		s.T = append(s.T, int64(i))
		s.Lat = append(s.Lat, activityschema.Some(47+float64(i%1000)/1000))
		s.Lon = append(s.Lon, activityschema.Some(8+float64(i%1000)/1000))
		s.ElevationM = append(s.ElevationM, activityschema.Some(400.5))
		s.SpeedKmh = append(s.SpeedKmh, activityschema.Some(20.5))
		s.HRBpm = append(s.HRBpm, activityschema.Some(int64(1500)))
		s.CadenceRpm = append(s.CadenceRpm, activityschema.Null[int64]{})
		s.PowerW = append(s.PowerW, activityschema.Some(int64(2000)))
		s.TemperatureC = append(s.TemperatureC, activityschema.Some(14.5))
	}
	return &activityschema.Document{Detail: d}
}

func TestLintAllocatesNothingPerSample(t *testing.T) {
	for _, privacy := range []activityschema.Privacy{activityschema.PrivacyPublic, activityschema.PrivacyBlurStart} {
		doc := samplesOf(10_000, privacy)
		doc.Detail.BBox = &activityschema.BBox{8, 47, 8.999, 47.999}
		allocations := testing.AllocsPerRun(5, func() {
			if found := activityschema.Lint(doc); len(found) > 0 {
				t.Fatal(found)
			}
		})
		if allocations > 200 {
			t.Errorf("%s: %.0f allocations", privacy, allocations)
		}
	}
}

// FuzzLint: for any document that can be decoded, neither Lint nor a Library
// panics, and their findings keep to what they promise.
func FuzzLint(f *testing.F) {
	seeds := 0
	for _, dir := range []string{"valid", "lint"} {
		for _, data := range corpus(f, dir, leastValid) {
			f.Add(data)
			seeds++
		}
	}
	if seeds < leastValid+leastLinted {
		f.Fatalf("%d seeds: the corpus is lost", seeds)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, _, err := activityschema.Decode(t.Context(), bytes.NewReader(data))
		if err != nil || doc == nil {
			return
		}
		found := activityschema.Lint(doc)
		counts := map[string]int{}
		for _, f := range found {
			if f.Pointer != "" && f.Pointer[0] != '/' {
				t.Errorf("pointer %q", f.Pointer)
			}
			counts[f.Code]++
			if counts[f.Code] > activityschema.MaxFindingsPerCode {
				t.Errorf("%d findings of %s", counts[f.Code], f.Code)
			}
		}
		if len(found) > activityschema.MaxFindings {
			t.Errorf("%d findings", len(found))
		}
		whereAndCode(t, found)
		equal(t, "a second look (-first +second)", activityschema.Lint(doc), found)
		l := activityschema.NewLibrary()
		l.Add("index.json", doc)
		l.Add("activities/a.json", doc)
		l.Add("activities/b.json", doc)
		lines(t, l.Findings())
	})
}

func BenchmarkLint(b *testing.B) {
	for _, privacy := range []activityschema.Privacy{activityschema.PrivacyPublic, activityschema.PrivacyBlurStart,
		activityschema.PrivacyNoGPS} {
		doc := samplesOf(10_000, privacy)
		b.Run(string(privacy), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				activityschema.Lint(doc)
			}
		})
	}
}

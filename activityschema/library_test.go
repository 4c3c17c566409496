package activityschema_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// leastFolders is the least number of folders of testdata/library.
const leastFolders = 14

// folderOf returns the documents of testdata/library/name by path.
func folderOf(t testing.TB, name string) map[string]*activityschema.Document {
	t.Helper()
	documents := map[string]*activityschema.Document{}
	root := os.DirFS(filepath.Join("testdata", "library", name))
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		if err == nil {
			documents[path] = mustDecode(t, path, data)
		}
		return err
	})
	must(t, err)
	return documents
}

// libraryOf adds all documents, in any order.
func libraryOf(documents map[string]*activityschema.Document) *activityschema.Library {
	l := activityschema.NewLibrary()
	for path, doc := range documents {
		l.Add(path, doc)
	}
	return l
}

// lines returns "file pointer code" of each finding.
func lines(t testing.TB, found []activityschema.FileFinding) []string {
	t.Helper()
	var all []string
	for _, f := range found {
		all = append(all, f.File+" "+whereAndCode(t, []activityschema.Finding{f.Finding})[0])
	}
	return all
}

func TestContradictionsAreReportedAndGoodFoldersAreNot(t *testing.T) {
	want := table(t, "library.tsv", 4)
	folders, err := os.ReadDir(filepath.Join("testdata", "library"))
	must(t, err)
	if len(folders) < leastFolders {
		t.Fatalf("testdata/library has %d folders, want at least %d", len(folders), leastFolders)
	}
	for _, entry := range folders {
		name := entry.Name()
		if strings.HasPrefix(name, "good") && want[name] != nil {
			t.Errorf("library.tsv expects something of %s", name)
		}
		for range 5 { // maps are of another order each time
			got := lines(t, libraryOf(folderOf(t, name)).Findings())
			if diff := cmp.Diff(want[name], got); diff != "" {
				t.Fatalf("%s: findings (-expected +found):\n%s", name, diff)
			}
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("library.tsv expects something of %s, which does not exist", name)
	}
}

// What a Library says, Lint need not say again: the good folder is good to both.
func TestGoodFolderHasNoFindings(t *testing.T) {
	for path, doc := range folderOf(t, "good") {
		if found := activityschema.Lint(doc); len(found) > 0 {
			t.Errorf("%s: %+v", path, found)
		}
	}
}

func TestUnreadableFileIsNotReportedMissing(t *testing.T) {
	documents := folderOf(t, "good")
	l := libraryOf(documents)
	l.Add("activities/2026-05-17-ride.json", nil)
	l.Add("shards/2025.json", nil)
	if found := l.Findings(); len(found) > 0 {
		t.Errorf("unreadable: %+v", found)
	}
	delete(documents, "activities/2026-05-17-ride.json")
	delete(documents, "shards/2025.json")
	want := []string{"index.json /shards/0/url shard-missing", "index.json /activities/1/detail_url detail-missing"}
	equal(t, "missing: findings (-expected +found)", lines(t, libraryOf(documents).Findings()), want)
}

// Only who has seen all indexes knows that none lists an activity.
func TestDetailIsNotUnlistedBesideAnUnreadIndex(t *testing.T) {
	index := func(shards string) *activityschema.Document {
		return mustDecode(t, shards, []byte(`{"bas_version": "1.0", "owner": {"handle": "a", "display_name": ""}, "generated_at": "2026-05-17T06:30:00Z", "activities": [], "shards": [`+shards+`]}`))
	}
	for _, c := range []struct {
		shards     string
		unreadable string
		want       bool
	}{
		{``, "activities/b.json", true},
		{``, "2025.json", false},
		{`{"year": 2025, "url": "2025.json", "count": 1}`, "2025.json", false},
		{`{"year": 2025, "url": "2025.json", "count": 1}`, "activities/b.json", false},
		{`{"year": 2025, "url": "https://example.org/2025.json", "count": 1}`, "activities/b.json", false},
		{`{"year": 2025, "url": "https://example.org/index.json", "count": 0}`, "activities/b.json", true},
	} {
		l := activityschema.NewLibrary()
		l.Add("index.json", index(c.shards))
		l.Add("activities/a.json", detailWith(t, ""))
		l.Add(c.unreadable, nil)
		same(t, fmt.Sprintf("%+v: unlisted", c),
			slices.Contains(lines(t, l.Findings()), "activities/a.json /id detail-unlisted"), c.want)
	}
}

func TestSecondDocumentOfAPathReplacesTheFirst(t *testing.T) {
	documents := folderOf(t, "good")
	l := libraryOf(documents)
	l.Add("activities/night-run.json", documents["activities/2025-a.json"])
	if len(l.Findings()) == 0 {
		t.Error("another activity in the place of one: no findings")
	}
	l.Add("./activities//night-run.json", documents["activities/night-run.json"])
	if found := l.Findings(); len(found) > 0 {
		t.Errorf("back in its place: %+v", found)
	}
}

// An empty Library, and details without an index: nothing to contradict.
func TestDetailsWithoutAnIndexAreNotUnlisted(t *testing.T) {
	l := activityschema.NewLibrary()
	if found := l.Findings(); found != nil {
		t.Errorf("empty: %+v", found)
	}
	l.Add("activities/a.json", detailWith(t, ""))
	l.Add("nothing.json", new(activityschema.Document))
	if found := l.Findings(); found != nil {
		t.Errorf("one detail: %+v", found)
	}
}

func TestConcurrentAddKeepsEveryDocument(t *testing.T) {
	want := table(t, "library.tsv", 4)["blur"]
	documents := folderOf(t, "blur")
	l := activityschema.NewLibrary()
	var all sync.WaitGroup
	for path, doc := range documents {
		all.Go(func() { l.Add(path, doc) })
		all.Go(func() { l.Findings() })
	}
	all.Wait()
	equal(t, "findings (-expected +found)", lines(t, l.Findings()), want)
}

// The blurred ride c, whose door is at 47.2 and 8.3, among others.
func TestTrackThatEndsAtAKnownPlaceIsNotBlurred(t *testing.T) {
	ride := func(id, privacy, more, t0, lat string) *activityschema.Document {
		return detailWith(t, fmt.Sprintf(`"id": %q, "privacy": %q, %s "timeseries": {"t": [%s, 500, 600], "lat": [%s, 47.3, 47.4], "lon": [8.3, 8.4, 8.%d]}`, id, privacy, more, t0, lat, 40+id[0]-'a'))
	}
	others := map[string]*activityschema.Document{
		"activities/a.json": ride("a", "public", "", "0", "47.2"),
		"activities/b.json": ride("b", "public", "", "0", "47.2"),
	}
	for _, c := range []struct {
		name string
		c    *activityschema.Document
		more *activityschema.Document
		want bool
	}{
		{"not cut", ride("c", "blur_start", "", "0", "47.2"), nil, true},
		{"199 m away", ride("c", "blur_start", "", "0", "47.20179"), nil, true},
		{"201 m away", ride("c", "blur_start", "", "0", "47.20181"), nil, false},
		{"from second 19", ride("c", "blur_start", "", "19", "47.2"), nil, true},
		{"from second 20", ride("c", "blur_start", "", "20", "47.2"), nil, true},
		{"39 seconds less", ride("c", "blur_start", `"duration_s": 639,`, "0", "47.2"), nil, true},
		{"40 seconds less", ride("c", "blur_start", `"duration_s": 640,`, "0", "47.2"), nil, true},
		{"public", ride("c", "public", "", "0", "47.2"), nil, false},
		{"a duplicate", ride("c", "blur_start", `"duplicate_of": "b",`, "0", "47.2"), nil, false},
		{"a duplicate, and another", ride("c", "blur_start", `"duplicate_of": "b",`, "0", "47.2"), ride("d", "no_gps", "", "0", "47.2"), true},
		{"the end, 20 seconds before the end", detailWith(t, `"id": "c", "privacy": "blur_start", "duration_s": 120, "timeseries": {"t": [0, 100], "lat": [46, 47.2], "lon": [8.3, 8.3]}`), nil, true},
		{"the end, 19 seconds before the end", detailWith(t, `"id": "c", "privacy": "blur_start", "duration_s": 119, "timeseries": {"t": [0, 100], "lat": [46, 47.2], "lon": [8.3, 8.3]}`), nil, true},
		{"the end, then no position", detailWith(t, `"id": "c", "privacy": "blur_start", "timeseries": {"t": [0, 100, 120], "lat": [46, 47.2, null], "lon": [8.3, 8.3, null]}`), nil, true},
	} {
		l := libraryOf(others)
		l.Add("activities/c.json", c.c)
		if c.more != nil {
			l.Add("activities/d.json", c.more)
		}
		unproven := slices.ContainsFunc(l.Findings(), func(f activityschema.FileFinding) bool {
			return f.Code == activityschema.CodePrivacyBlurUnproven && f.File == "activities/c.json"
		})
		same(t, fmt.Sprintf("%s: unproven", c.name), unproven, c.want)
	}
}

// Runs from one door, 3 metres a second: whether they were cut is told by how far
// one runs in the time of which there are no samples.
func TestUncutTrackIsReported(t *testing.T) {
	run := func(id string, first, duration int) *activityschema.Document {
		var ts, lat, lon strings.Builder
		for s := first; s <= 1000; s += 10 {
			fmt.Fprintf(&ts, ",%d", s)
			fmt.Fprintf(&lat, ",%.6f", 47.2+float64(s-first)*3/111195)
			fmt.Fprintf(&lon, ",%.6f", 8.3+float64(id[0]-'a')*float64(s-first)/1e5)
		}
		return detailWith(t, fmt.Sprintf(`"id": %q, "privacy": "blur_start", "duration_s": %d, "timeseries": {"t": [%s], "lat": [%s], "lon": [%s]}`,
			id, duration, ts.String()[1:], lat.String()[1:], lon.String()[1:]))
	}
	for _, c := range []struct {
		name            string
		first, duration int
		want            int // unproven
	}{
		{"as recorded", 0, 1000, 4},
		{"stopped a minute later", 0, 1060, 4},
		{"no position for 25 seconds", 25, 1000, 4},
		{"no position for 25 seconds, nor at the end", 25, 1025, 4},
	} {
		l := activityschema.NewLibrary()
		for _, id := range []string{"a", "b", "c", "d"} {
			l.Add("activities/"+id+".json", run(id, c.first, c.duration))
		}
		unproven := 0
		for _, f := range l.Findings() {
			if f.Code == activityschema.CodePrivacyBlurUnproven {
				unproven++
			}
		}
		same(t, fmt.Sprintf("%s: unproven", c.name), unproven, c.want)
	}
}

// A loop from a door shows it twice, but is one activity.
func TestOtherActivityCountsOnce(t *testing.T) {
	loop := `"timeseries": {"t": [0, 500, 600], "lat": [47.2, 47.3, 47.2], "lon": [8.3, 8.4, 8.3]}, `
	l := activityschema.NewLibrary()
	l.Add("activities/a.json", detailWith(t, loop+`"id": "a"`))
	l.Add("activities/b.json", detailWith(t, loop+`"id": "b", "privacy": "blur_start"`))
	if found := l.Findings(); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// Lint has said it.
func TestDuplicateIDIsReportedOnce(t *testing.T) {
	l := activityschema.NewLibrary()
	l.Add("index.json", mustDecode(t, "index", []byte(`{"bas_version": "1.0", "owner": {"handle": "a", "display_name": ""}, "generated_at": "2026-05-17T06:30:00Z", "activities": [
		{"id": "a", "title": "", "sport": "running", "started_at": "2026-05-16T06:30:00Z", "privacy": "public"}, {"id": "a", "title": "", "sport": "running", "started_at": "2026-05-15T06:30:00Z", "privacy": "no_gps"}]}`)))
	if found := l.Findings(); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// archive calls add with an index of n activities and with their details, which
// have the given number of samples.
func archive(n, samples int, add func(path string, doc *activityschema.Document)) {
	some := func(v float64) *float64 { return &v }
	whole := func(v int64) *int64 { return &v }
	start := time.Date(2006, 1, 1, 8, 0, 0, 0, time.FixedZone("", 3600))
	index := &activityschema.Index{GeneratedAt: activityschema.Time{Time: start.AddDate(30, 0, 0)}}
	for i := range n {
		id := fmt.Sprintf("2006-01-01-080000-%06d", i)
		address := "activities/" + id + ".json"
		at := activityschema.Time{Time: start.Add(time.Duration(i) * 16 * time.Hour)}
		title := strings.Repeat("A long title. ", 20)
		common := activityschema.Activity{ID: id, Title: title, Sport: "cycling", StartedAt: at, Privacy: "blur_start",
			DistanceM: some(float64(samples)), DurationS: whole(int64(samples)), AvgSpeedKmh: some(20), AvgHRBpm: whole(140), AvgPowerW: whole(200)}
		index.Activities = append(index.Activities, activityschema.Summary{Activity: common, DetailURL: &address})
		d := &activityschema.Detail{Activity: common}
		for s := range samples {
			d.Timeseries.T = append(d.Timeseries.T, int64(s))
			d.Timeseries.Lat = append(d.Timeseries.Lat, activityschema.Some(47+float64(i)*0.003+float64(s)/1e5))
			d.Timeseries.Lon = append(d.Timeseries.Lon, activityschema.Some(8.0))
		}
		add(address, &activityschema.Document{Detail: d})
	}
	add("index.json", &activityschema.Document{Index: index})
}

func TestLibraryTakesTwoKilobytesAnActivity(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	l := activityschema.NewLibrary()
	before := heap()
	archive(2_000, 50, l.Add)
	kept := float64(heap()-before) / 1e6
	t.Logf("%.1f MB for 2,000 details and their index", kept)
	if kept > 4 {
		t.Errorf("%.1f MB kept", kept)
	}
	begin := time.Now()
	if found := l.Findings(); len(found) != 0 {
		t.Errorf("%d findings, the first %+v", len(found), found[0])
	}
	t.Log("compared in", time.Since(begin))
	runtime.KeepAlive(l)
}

func BenchmarkLibrary(b *testing.B) {
	documents := map[string]*activityschema.Document{}
	archive(1000, 100, func(path string, doc *activityschema.Document) { documents[path] = doc })
	b.Run("add", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			libraryOf(documents)
		}
	})
	l := libraryOf(documents)
	b.Run("findings", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Findings()
		}
	})
}

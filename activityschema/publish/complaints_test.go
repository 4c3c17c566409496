package publish

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// complaints are recordings as people complained of what programs made of them, with the right values; 0 is any, and
// -1 none. The files were written anew, at invented places.
var complaints = []struct {
	file             string
	start            string
	metres           float64
	seconds, moving  int64
	fastest          float64 // km/h, at most
	warning, refused string  // a part of it
}{
	{file: "a1.gpx.gz", metres: 1534, moving: 1180, fastest: 4.7},
	{file: "a6b.gpx.gz", metres: 2364, moving: 985},
	{file: "a4.gpx.gz", refused: "it is a plan"},
	{file: "b1.gpx.gz", metres: 7040, warning: "points without a time: 4, "},
	{file: "b2b.gpx.gz", refused: `50 points have no usable time ("2024-06-00T08:00:00Z"), and 250 m of the track`},
	{file: "h1.gpx.gz", metres: 6273, seconds: 4792, warning: "points without a time: 596, "},
	{file: "h1b.gpx.gz", metres: 6273, seconds: 4792, warning: "points without a time: 200, "},
	{file: "b7.gpx.gz", start: "2022-06-25T16:58:37+02:00"},
	{file: "b7b.gpx.gz", start: "2022-06-26T01:10:00+02:00"},
	{file: "b7c.gpx.gz", start: "2022-06-25T06:30:00+05:30"},
	{file: "c7.tcx.gz", metres: 9592, fastest: 9.7, warning: "the speeds in the file do not match distances"},
	{file: "f11.fit.gz", metres: 1800, moving: 2160},
	{file: "f13.fit.gz", metres: 14376, moving: 2396},
	{file: "h8.gpx.gz", metres: 14376, moving: 2396},
	{file: "m5b.gpx.gz", metres: 7188, moving: 5990},
	{file: "g10.zip", metres: 10791},
}

// imported imports one file, and returns its result and its first document, nil without one.
func imported(t *testing.T, file string, o Options) (Result, *activityschema.Detail) {
	t.Helper()
	sources := FindSources([]string{file})
	im := Import{Dir: t.TempDir(), Options: o, Policy: Policy{Privacy: activityschema.PrivacyPublic}}
	var result Result
	if err := im.Run(t.Context(), sources.List, func(r Result) {
		if result.File == "" || len(r.Activities) > 0 {
			result = r
		}
	}); err != nil {
		t.Fatal(err)
	}
	must(t, sources.Close())
	if len(result.Activities) == 0 {
		return result, nil
	}
	d, err := ReadDetail(filepath.Join(im.Dir, detailsFolder, result.Activities[0].ID+".json"))
	must(t, err)
	return result, d
}

func TestComplaintsAreMended(t *testing.T) {
	for _, c := range complaints {
		t.Run(c.file, func(t *testing.T) {
			got, d := imported(t, filepath.Join("testdata", "complaints", c.file), Options{})
			if c.refused != "" {
				has(t, "refused", got.Error, c.refused)
				return
			}
			if d == nil {
				t.Fatal(got.Error)
			}
			if text := strings.Join(got.Warnings, "; "); c.warning == "" && text != "" || !strings.Contains(text, c.warning) {
				t.Errorf("warns of %q, want %q", text, c.warning)
			}
			if c.start != "" && d.StartedAt.String() != c.start {
				t.Errorf("began %s, want %s", d.StartedAt, c.start)
			}
			if c.metres != 0 {
				about(t, "distance", *d.DistanceM, c.metres, c.metres/500)
			}
			if c.seconds != 0 {
				about(t, "duration", float64(*d.DurationS), float64(c.seconds), 1)
			}
			if c.moving != 0 {
				about(t, "moving time", float64(*d.MovingTimeS), float64(c.moving), float64(c.moving)/100)
			}
			if c.fastest != 0 && *d.MaxSpeedKmh > c.fastest {
				t.Errorf("maximum %v, want at most %v", *d.MaxSpeedKmh, c.fastest)
			}
			if left := doubts(d); left != nil && c.warning == "" {
				t.Errorf("the linter finds %q", left)
			}
		})
	}
}

// A plan has a length and the day for which it was made, and no duration, also after it was blurred.
func TestPlanHasNoDuration(t *testing.T) {
	got, d := imported(t, filepath.Join("testdata", "complaints", "a4.gpx.gz"), Options{Planned: true})
	if d == nil || got.Warnings != nil {
		t.Fatal(got)
	}
	places := homePlaces(t)
	places.zones[0].lat, places.zones[0].lon = 49.4, 11.1
	hidden, err := Blur(d, places, false)
	must(t, err)
	for _, d := range []*activityschema.Detail{d, hidden} {
		if d.DurationS != nil || d.MovingTimeS != nil || d.AvgSpeedKmh != nil || d.MaxSpeedKmh != nil {
			t.Errorf("a plan lasts %v %v", d.DurationS, d.MovingTimeS)
		}
		if left := doubts(d); left != nil {
			t.Errorf("the linter finds %q", left)
		}
	}
	about(t, "distance", *d.DistanceM, 45900, 10)
	if d.StartedAt.String() != "2024-06-15T10:00:00+02:00" || *hidden.DistanceM > 45000 {
		t.Error(d.StartedAt, *hidden.DistanceM)
	}
	same := asGPX("cycling", change(steady(), func(_ int, r *row) { r.t = 0 }))
	if _, err := Read(strings.NewReader(same)); !errors.Is(err, errSameTime) {
		t.Errorf("points of one time: %v", err)
	}
}

// A rest is where one stays, whatever the speed of the positions; who climbs slowly or stops at a light does not rest.
func TestRestIsWhereOneStays(t *testing.T) {
	const metre = 1 / metreDegree
	wander := func(i int, r *row) { // within 9 m, at up to 2 m/s
		r.lat += 9 * metre * math.Sin(float64(i)/5) * math.Cos(float64(i)/37)
		r.lon += 9 * metre * math.Sin(float64(i)/7)
	}
	for name, c := range map[string]struct {
		speed, metres, moving float64
		edit                  func(i int, r *row)
	}{
		"ten minutes of rest": {1.2, 1.2 * 1200, 1200, func(i int, r *row) {
			r.lat = 47 + 1.2*metre*float64(i-min(600, max(0, i-600)))
			if i >= 600 && i < 1200 {
				wander(i, r)
			}
		}},
		"a slow climb": {0.25, 0.25 * 1800, 1800, nil},
	} {
		list := rows(1801, c.speed)
		if c.edit != nil {
			list = change(list, c.edit)
		}
		d := checked(t, read(t, []byte(asGPX("hiking", list))))
		about(t, name+": distance", *d.DistanceM, c.metres, c.metres/50)
		about(t, name+": moving time", float64(*d.MovingTimeS), c.moving, c.moving/33)
	}
}

// Times with fractions give speeds as they were: whole seconds would make every other one a third too fast.
func TestSpeedIsThatOfTheTimesAsRecorded(t *testing.T) {
	list := change(rows(401, 7.5),
		func(i int, r *row) { r.t = float64(i) * 1.5; r.lat = 47 + float64(i)*7.5/metreDegree })
	d := checked(t, read(t, []byte(asGPX("cycling", list))))
	about(t, "maximum", *d.MaxSpeedKmh, 18, 0.1)
	about(t, "distance", *d.DistanceM, 3000, 3)
}

// Every point of a file is a sample, or is counted with its cause.
func balanced(t testing.TB, f *File) {
	t.Helper()
	sum := 0
	for _, r := range f.Recordings {
		sum += len(r.Samples)
	}
	for _, n := range f.ledger.left {
		sum += n
	}
	if sum != f.ledger.points {
		t.Errorf("%d points of %d are samples or have a cause: %v", sum, f.ledger.points, f.ledger.left)
	}
}

// What is not read is named once, with its count.
func TestWhatIsNotReadIsNamed(t *testing.T) {
	gpx := strings.ReplaceAll(asGPX("cycling", steady()), "</trkpt>", "<extensions><v:gear>3</v:gear></extensions></trkpt>")
	fit := asFIT(2, steady(), 600, 3000, func(w *fitWriter) {
		for range 12 {
			w.message(fitHR, fitUint{0, 2, 0x84, 1})
		}
		w.message(78, fitUint{0, 2, 0x84, 800})
	})
	tcx := strings.Replace(asTCX("Biking", steady(), 3000, 1), "<Activities>", "<Activities><Transition><Track><Trackpoint/></Track></Transition>", 1)
	for data, want := range map[string]string{
		tcx: "samples from parts of the file that are not an activity are left out: 1",
		gpx: "601 values of an unsupported kind: gear",
		fit: "1 messages of an unsupported kind: hrv; 12 messages of an unsupported kind: hr",
	} {
		f := read(t, []byte(data))
		balanced(t, f)
		if got := strings.Join(f.Warnings, "; "); len(strings.Split(got, "; ")) != len(strings.Split(want, "; ")) || !strings.Contains(got, strings.Split(want, "; ")[0]) {
			t.Errorf("warns of %q, want %q", got, want)
		}
	}
}

// The page knows what an import says of a file: its worker recognizes each of these texts, with names for the numbers,
// and the template has them in the same order.
func TestPageKnowsTheWarnings(t *testing.T) {
	lines := func(file, form string) (texts []string) {
		text, err := os.ReadFile("../../templates/" + file)
		must(t, err)
		for _, found := range regexp.MustCompile(form).FindAllStringSubmatch(string(text), -1) {
			texts = append(texts, found[1])
		}
		return texts
	}
	known := lines("static/publish-worker.js", `(?m)^    "([^"]+)",?$`)
	if shown := lines("html/account-publish.html", `<p>\{\{t "([^"]+)"[^}]*(?:"\{[a-z]+\}"[^}]*)*\}\}</p>\n`); !slices.Equal(shown[len(shown)-len(known):], known) {
		t.Errorf("the worker knows\n%q, the page has\n%q", known, shown)
	}
	texts := append([]string{
		warnCut, warnChecksum, errPlan.Error(), errNoTimes.Error(), errEmpty.Error(), errUnknownFile.Error(), errTooLittle.Error(),
	}, causeTexts[:]...)
	for _, text := range texts {
		if text = strings.ReplaceAll(text, "%d", "{n}"); text != "" && !slices.Contains(known, text) {
			t.Errorf("the page does not know %q", text)
		}
	}
	general := func(text string) string {
		return regexp.MustCompile(`\{\w+\}|%[.\d]*[a-z]`).ReplaceAllString(text, "{}")
	}
	for i := range known {
		known[i] = general(known[i])
	}
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		must(t, err)
		for _, found := range regexp.MustCompile(`r\.(?:warn|drop)\((?:\w+, )?("[^"]+")`).FindAllSubmatch(source, -1) {
			if text, err := strconv.Unquote(string(found[1])); err != nil || !slices.Contains(known, general(text)) {
				t.Errorf("%s: the page does not know the warning %q", file, text)
			}
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// Over every document of the corpus, spoilt in the ways that can be repaired
// or not: what is written passes, says the same as before but for what is told,
// and what is not written is not there.
func TestFixedDocumentIsNeverInvalidNorAnother(t *testing.T) {
	folder := t.TempDir()
	var names []string
	for _, kind := range []string{"valid", "invalid", "lint"} {
		for _, name := range corpus(t, kind, 15) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			base := kind + "-" + filepath.Base(name)
			for spoilt, content := range map[string]string{"as-it-is": string(data), "mark": "\xef\xbb\xbf" + string(data), "nul": string(data) + "\n\x00\x00 ", "null": withNull(string(data))} {
				names = append(names, write(t, filepath.Join(folder, spoilt+"-"+base), content))
			}
			names = append(names, write(t, filepath.Join(folder, "packed-"+base+".gz"), zipped(t, "\xef\xbb\xbf"+string(data))))
		}
	}
	before := files(t, folder)
	out := filepath.Join(t.TempDir(), "out")
	_, found := reported(t, append([]string{"--fix", "--output", out}, names...)...)
	after, written := files(t, out), map[string]bool{}
	repaired := 0
	for _, f := range found {
		if f.Written == "" {
			continue
		}
		written[f.Written] = true
		if len(f.Changes) > 0 {
			repaired++
		} else if after[f.Written] != before[f.File] {
			t.Errorf("%s: changed without a word", f.File)
		}
		// The member of nothing that withNull puts in is the one change there.
		if strings.Contains(f.File, "null-valid") && !strings.Contains(f.File, "depth") && len(f.Changes) != 1 {
			t.Errorf("%s: %v", f.File, f.Changes)
		}
	}
	if repaired < 200 || len(written) < 300 {
		t.Errorf("%d written, %d repaired: the corpus proves nothing", len(written), repaired)
	}
	if len(after) != len(written) {
		t.Errorf("%d files, %d told of", len(after), len(written))
	}
	var paths []string
	for name := range after {
		if !written[name] {
			t.Errorf("%s is not told of", name)
		}
		paths = append(paths, name)
	}
	if code, _, errs := validate(t, append([]string{"-q", "--engine", "both"}, paths...)...); code != exitDone {
		t.Errorf("what was written does not pass: %d %s", code, errs)
	}
	if !reflect.DeepEqual(before, files(t, folder)) {
		t.Error("the source was changed")
	}
	// The same again: everything is there already.
	if code, again := reported(t, append([]string{"--fix", "--output", out}, names...)...); code != exitUnreadable || again[0].Written != "" {
		t.Errorf("written twice: exit code %d", code)
	}
	if !reflect.DeepEqual(after, files(t, out)) {
		t.Error("a file was overwritten")
	}
}

// withNull puts an unlisted member of null into the document.
func withNull(document string) string { return strings.Replace(document, "{", `{"calories": null,`, 1) }

func TestFixNeverGuesses(t *testing.T) {
	folder := t.TempDir()
	detail := func(members string) string {
		return `{"bas_version":"1.0","id":"a","title":"Ride","sport":"cycling","started_at":"2026-05-17T06:30:00Z",` + members + `}`
	}
	rest := `"privacy":"public","laps":[],"timeseries":{"t":[]},"custom":{}`
	lap := func(index, minute string) string {
		return `{"index":` + index + `,"started_at":"2026-05-17T06:` + minute + `:00Z","duration_s":null}`
	}
	laps := func(laps ...string) string {
		return detail(`"privacy":"public","laps":[` + strings.Join(laps, ",") + `],"timeseries":{"t":[]},"custom":{}`)
	}
	for name, c := range map[string]struct {
		document string
		changes  int // -1: not written
	}{
		"required null":                {detail(`"privacy":"public","laps":null,"timeseries":{"t":[]},"custom":{}`), -1},
		"null item":                    {detail(`"privacy":"public","laps":[],"timeseries":{"t":[0,null]},"custom":{}`), -1},
		"optional column that is null": {detail(`"privacy":"public","laps":[],"timeseries":{"t":[0],"hr_bpm":null,"power_w":null},"custom":{"a":null}`), 2},
		"unlisted":                     {detail(`"typo":1,` + rest), -1},
		"unlisted and null":            {detail(`"typo":null,` + rest), 1},
		"another sport":                {strings.Replace(detail(rest), "cycling", "Cycling", 1), -1},
		"comma":                        {strings.Replace(detail(rest), `{}}`, `{},}`, 1), -1},
		"comment":                      {"// by hand\n" + detail(rest), -1},
		"nul within":                   {strings.Replace(detail(rest), "Ride", "Ri\x00de", 1), -1},
		"utf-16":                       {"\xff\xfe{\x00}\x00", -1},
		"twice":                        {detail(`"gear":null,"gear":null,` + rest), -1},
		"laps from 1":                  {laps(lap("1", "30"), lap("2", "31")), 2},
		"laps with a gap":              {laps(lap("1", "30"), lap("3", "31")), 0},
		"laps out of order":            {laps(lap("1", "31"), lap("2", "30")), 0},
		"laps numbered twice":          {laps(lap("0", "30"), lap("0", "31")), 0},
		"blur_start":                   {detail(`"privacy":"blur_start","start_latlng":[47.1,8.1],"laps":[],"timeseries":{"t":[]},"custom":{}`), -1},
		"blur_start with a position":   {detail(`"privacy":"blur_start","laps":[],"timeseries":{"t":[]},"custom":{"home":[47.12345,8.12345]}`), -1},
		"position in an array":         {detail(`"privacy":"no_gps","laps":[],"timeseries":{"t":[]},"custom":{"notes":["geo:47.1234,8.1234","flat"]}`), 1},
		"private":                      {detail(`"privacy":"private","bbox":[8.1,47.1,8.2,47.2],"laps":[],"timeseries":{"t":[]},"custom":{}`), 0},
	} {
		source := write(t, filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+".json"), c.document)
		out := filepath.Join(folder, "out")
		_, found := reported(t, "--fix", "--output", out, source)
		f := found[0]
		if (f.Written == "") != (c.changes < 0) || f.Written != "" && len(f.Changes) != c.changes || f.Error != "" {
			t.Errorf("%s: %+v", name, f)
		}
		if _, err := os.Stat(filepath.Join(out, filepath.Base(source))); (err == nil) != (c.changes >= 0) {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := os.ReadFile(filepath.Join(folder, "out", "position-in-an-array.json"))
	if err != nil || !strings.Contains(string(left), `"notes":[null,"flat"]`) {
		t.Errorf("%s %v", left, err)
	}
}

// More than one look names, in a document and in an index.
func TestFixNeverLeavesTheRestOfALongList(t *testing.T) {
	var custom, summaries []string
	for i := range 35 {
		id := string(rune('a'+i%26)) + string(rune('a'+i/26))
		custom = append(custom, `"p`+id+`":{"lat":47.12345,"lon":8.12345,"calories":120}`)
	}
	for i := range 3000 {
		id := string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		summaries = append(summaries, `{"id":"`+id+`","title":"","calories":null,"sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"no_gps","track_url":"t/`+id+`.gpx"}`)
	}
	folder := t.TempDir()
	detail := write(t, filepath.Join(folder, "detail.json"),
		`{"bas_version":"1.0","id":"a","title":"","sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"no_gps","laps":[],"timeseries":{"t":[]},"custom":{`+strings.Join(custom, ",")+`}}`)
	index := write(t, filepath.Join(folder, "index.json"),
		`{"bas_version":"1.0","owner":{"handle":"a","display_name":""},"generated_at":"2026-06-01T12:00:00Z","activities":[`+strings.Join(summaries, ",")+`]}`)
	out := filepath.Join(folder, "out")
	code, found := reported(t, "--fix", "--output", out, detail, index)
	if code != exitDone || len(found[0].Changes) != 70 || len(found[1].Changes) != mostChanges {
		t.Fatalf("exit code %d, %d and %d changes, %+v", code, len(found[0].Changes), len(found[1].Changes), found[0].Findings)
	}
	if last := found[1].Changes[mostChanges-1].Message; last != "... and 5901 more changes" {
		t.Errorf("%q", last)
	}
	for name, content := range files(t, out) {
		if strings.Contains(content, "47.1") || strings.Contains(content, "gpx") || strings.Contains(content, "null") || !json.Valid([]byte(content)) {
			t.Errorf("%s: %.200s", name, content)
		}
	}
}

// Links within the output folder are not followed out of it, and what was
// there stays.
func TestFixNeverWritesOutsideItsFolder(t *testing.T) {
	folder, _ := publish(t, 3, 10)
	elsewhere, out := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(out, "activities")); err != nil {
		t.Fatal(err)
	}
	code, found := reported(t, "--fix", "--output", out, folder)
	if code != exitUnreadable || len(found) != 4 || found[0].Written == "" || found[1].Error == "" {
		t.Errorf("exit code %d, %+v", code, found)
	}
	if there := files(t, elsewhere); len(there) > 0 {
		t.Errorf("written elsewhere: %v", there)
	}
	// Two sources of one name: the first is written, whichever is done first.
	other, _ := publish(t, 3, 11)
	both := filepath.Join(t.TempDir(), "deep", "both")
	code, found = reported(t, "--fix", "--output", both, "--jobs", "8", folder, other)
	if code != exitUnreadable || len(files(t, both)) != 4 {
		t.Errorf("exit code %d, %d files", code, len(files(t, both)))
	}
	for i, f := range found {
		if (f.Written != "") != (i < 4) || (f.Error != "") != (i >= 4) {
			t.Errorf("%+v", f)
		}
	}
	// Published files are as readable as the source was.
	if err := os.Chmod(filepath.Join(folder, "index.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	third := filepath.Join(t.TempDir(), "third")
	reported(t, "--fix", "--output", third, folder)
	for name, mode := range map[string]os.FileMode{"": 0o755, "index.json": 0o644, "activities": 0o700, "activities/ride-00000.json": 0o600} {
		if info, err := os.Stat(filepath.Join(third, name)); err != nil || info.Mode().Perm() != mode && name != "" {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

// What is written is what was checked, whoever writes to the source meanwhile.
func TestDocumentThatChangesMeanwhileIsNeverWritten(t *testing.T) {
	name := write(t, filepath.Join(t.TempDir(), "a.json"), recording("a", 10))
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	c := &validateCommand{MaxProblems: 100, Engine: string(activityschema.EngineFast), Fix: true, Output: filepath.Join(t.TempDir(), "out"), Paths: []string{name}}
	v, err := c.validation()
	if err != nil {
		t.Fatal(err)
	}
	r := &result{source: namedSource(name, info)}
	v.one(t.Context(), r)
	if r.err != nil || !r.fixed.ready {
		t.Fatalf("%+v", r)
	}
	write(t, name, recording("b", 10))
	v.writeFixed(t.Context(), &outputFolder{name: c.Output})
	if r.err == nil || r.fixed.path != "" {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(c.Output); err == nil {
		t.Error("the folder was made for nothing")
	}
}

// A program that is stopped while it writes leaves whole documents and nothing
// else.
func TestInterruptNeverLeavesHalfADocument(t *testing.T) {
	folder, _ := publish(t, 60, 2000)
	want := files(t, folder)
	out := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // as soon as something is written
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(out, "activities", "ride-00000.json")); err == nil {
				cancel()
			}
			time.Sleep(100 * time.Microsecond)
		}
	}()
	code, _, errs := validateWith(t, ctx, "--fix", "--output", out, folder)
	got := files(t, out)
	if code != exitUnreadable || len(got) == len(want) {
		t.Logf("exit code %d, %d files: it was not stopped in the middle; %s", code, len(got), errs)
	}
	for name, content := range got {
		from, err := filepath.Rel(out, name)
		if err != nil || want[filepath.Join(folder, from)] != content {
			t.Errorf("%s: %d bytes", name, len(content))
		}
	}
}

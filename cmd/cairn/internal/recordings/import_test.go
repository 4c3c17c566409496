package recordings

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// recordingsFolder writes recordings, one a day, each of so many samples.
func recordingsFolder(t testing.TB, days, samples int) string {
	t.Helper()
	dir := t.TempDir()
	for day := range days {
		var b strings.Builder
		b.WriteString(`<gpx creator="Garmin Connect"><trk><type>running</type><trkseg>`)
		start := time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC).AddDate(0, 0, day)
		for i := range samples {
			fmt.Fprintf(&b, `<trkpt lat="%.6f" lon="%d"><ele>%d</ele><time>%s</time></trkpt>`+"\n",
				47+float64(i)*0.00003, day%90, 400+i%50, start.Add(time.Duration(i)*time.Second).Format(time.RFC3339))
		}
		b.WriteString("</trkseg></trk></gpx>")
		write(t, filepath.Join(dir, fmt.Sprintf("%04d.gpx", day)), b.String())
	}
	return dir
}

// importInto returns the command that imports recordings.
func importInto(t testing.TB, recordings, into string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "cairn", "activity", "import", recordings, "--into", into,
		"--handle", "ada", "--name", "Ada")
}

var generatedAt = regexp.MustCompile(`"generated_at":"[^"]*"`)

// published returns all files of a folder, hidden ones too, without the time of the index.
func published(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(generatedAt.ReplaceAll(data, nil))
		return err
	})
	must(t, err)
	return files
}

// appear waits until a folder has so many files.
func appear(dir string, least int) bool {
	for range 30_000 {
		if files, _ := os.ReadDir(dir); len(files) >= least {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

func TestImportThatWasKilledGoesOn(t *testing.T) {
	racetest.Skip(t)
	recordings := recordingsFolder(t, 40, 2000)
	want := filepath.Join(t.TempDir(), "want")
	if out, err := importInto(t, recordings, want).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := filepath.Join(t.TempDir(), "got")
	details := filepath.Join(got, "activities")
	for kills, least := 0, 1; kills < 3; kills, least = kills+1, least+8 {
		c := importInto(t, recordings, got)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		must(t, c.Start())
		if !appear(details, least) {
			t.Error(stderr.String())
		}
		must(t, c.Process.Kill())
		_ = c.Wait()
		files, err := filepath.Glob(filepath.Join(details, "*.json"))
		if err != nil || len(files) == 40 {
			t.Fatalf("killed too late: %d files, %v", len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			must(t, err)
			if err := new(activityschema.Detail).UnmarshalJSON(data); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		// What a process leaves that is killed between write and rename.
		write(t, filepath.Join(details, ".2026-01-01-0123456789.json42"), `{"half`)
		write(t, filepath.Join(got, ".index.json4711"), `{"half`)
	}
	if out, err := importInto(t, recordings, got).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	have, expected := published(t, got), published(t, want)
	for name, content := range expected {
		same(t, fmt.Sprintf("%s differs", name), have[name], content)
	}
	same(t, "files", len(have), len(expected))
}

// Imports at the same time would miss each other's duplicates.
func TestOneImportAtATime(t *testing.T) {
	racetest.Skip(t)
	recordings, into := recordingsFolder(t, 40, 2000), filepath.Join(t.TempDir(), "pub")
	first := importInto(t, recordings, into)
	must(t, first.Start())
	if !appear(filepath.Join(into, "activities"), 1) {
		t.Error("no documents")
	}
	out, err := importInto(t, recordings, into).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another cairn is writing to this folder: try again") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
}

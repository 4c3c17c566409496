package recordings

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// corpusFolder holds the documents with which package activityschema is tested.
const corpusFolder = "../../../../activityschema/testdata"

// run runs the commands of this package.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var commands struct {
		config.Files
		Activity Command `cmd:"" help:"Make and check activity files."`
	}
	return cli.NewProgram(ctx, environ, stdin, stdout, stderr).Run(&commands, args)
}

// TestMain makes this test binary the command cairn, too.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"cairn": func() {
		os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
	}})
}

// validate runs the command in this process.
func validate(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return validateWith(t, context.Background(), args...)
}

func validateWith(t testing.TB, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(ctx, append([]string{"activity", "validate"}, args...), nil, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// reported runs the command with -o json.
func reported(t testing.TB, args ...string) (code int, files []result) {
	t.Helper()
	code, out, errs := validate(t, append([]string{"-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &files); err != nil {
		t.Fatalf("exit code %d, %s%v", code, errs, err)
	}
	return code, files
}

// corpus returns the paths of the documents in a folder of the corpus.
func corpus(t testing.TB, folder string, least int) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(corpusFolder, folder, "*.json"))
	if err != nil || len(names) < least {
		t.Fatalf("%d documents in %s (%v), want at least %d", len(names), folder, err, least)
	}
	return names
}

func write(t testing.TB, name, content string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o750))
	must(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

// recording writes a detail with as many samples of eight columns.
func recording(id string, samples int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"bas_version":"1.0","id":%q,"title":"Ride","sport":"cycling","started_at":"2026-05-17T06:30:00Z","privacy":"public","laps":[],"timeseries":{`, id)
	for i, column := range []struct {
		name string
		item func(i int) string
	}{
		{"t", func(i int) string { return fmt.Sprint(i) }},
		{"lat", func(i int) string { return fmt.Sprintf("%.6f", 47+float64(i)*1e-5) }},
		{"lon", func(i int) string { return fmt.Sprintf("%.6f", 8+float64(i)*1e-5) }},
		{"elevation_m", func(i int) string { return fmt.Sprintf("%.1f", 400+float64(i%100)/3) }},
		{"speed_kmh", func(i int) string { return fmt.Sprintf("%.1f", 20+float64(i%10)/3) }},
		{"hr_bpm", func(i int) string { return fmt.Sprint(120 + i%40) }},
		{"cadence_rpm", func(i int) string { return fmt.Sprint(80 + i%10) }},
		{"power_w", func(i int) string { return fmt.Sprint(180 + i%90) }},
	} {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:[", column.name)
		for i := range samples {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(column.item(i))
		}
		b.WriteByte(']')
	}
	b.WriteString(`},"custom":{}}` + "\n")
	return b.String()
}

// publish writes a folder of recordings, and returns it with its size in bytes.
func writeFolder(t testing.TB, activities, samples int) (folder string, size int64) {
	t.Helper()
	folder = t.TempDir()
	content := recording("\x00", samples) // made once, given an id each
	var list []string
	for i := range activities {
		id := fmt.Sprintf("ride-%05d", i)
		document := strings.Replace(content, `\x00`, id, 1)
		write(t, filepath.Join(folder, "activities", id+".json"), document)
		size += int64(len(document))
		list = append(list, fmt.Sprintf(`{"id":%q,"title":"Ride","sport":"cycling","started_at":"2026-05-17T06:30:00Z","privacy":"public"}`, id))
	}
	write(t, filepath.Join(folder, "index.json"), fmt.Sprintf(
		`{"bas_version":%q,"owner":{"handle":"ada","display_name":"Ada"},"generated_at":"2026-06-01T12:00:00Z","activities":[%s]}`,
		activityschema.Version, strings.Join(list, ",")))
	return folder, size
}

var equal, must = assert.Equal, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

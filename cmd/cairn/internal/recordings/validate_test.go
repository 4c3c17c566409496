package recordings

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// mixed is a folder of documents with every kind of problem and finding.
func mixed(t *testing.T) string {
	folder := t.TempDir()
	list := []string{}
	for i, name := range append(corpus(t, "invalid", 90), corpus(t, "lint", 60)...) {
		data, err := os.ReadFile(name)
		must(t, err)
		write(t, filepath.Join(folder, "activities", filepath.Base(name)), string(data))
		list = append(list, fmt.Sprintf(`{"id":"a%d","title":"Ride","sport":"cycling","started_at":"2026-05-17T06:30:00Z","privacy":"public","detail_url":"activities/a%d.json"}`, i%50, i))
	}
	write(t, filepath.Join(folder, "index.json"), fmt.Sprintf(
		`{"bas_version":"1.0","owner":{"handle":"ada","display_name":"Ada"},"generated_at":"2026-06-01T12:00:00Z","activities":[%s]}`, strings.Join(list, ",\n")))
	return folder
}

func TestReportIsIndependentOfTheOrderOfCompletion(t *testing.T) {
	folder := mixed(t)
	for _, form := range []string{"text", "json"} {
		var first string
		for i, jobs := range []string{"1", "2", "16", "16", "64"} {
			code, got, errs := validate(t, "-o", form, "--jobs", jobs, folder, folder, filepath.Join(folder, "index.json"))
			if code != exitInvalid || errs != "" || len(got) < 1000 {
				t.Fatalf("%s, %s jobs: exit code %d, %d bytes, %s", form, jobs, code, len(got), errs)
			}
			if i == 0 {
				first = got
			} else if diff := cmp.Diff(first, got); diff != "" {
				t.Errorf("%s: 1 job and %s differ:\n%s", form, jobs, diff)
			}
		}
	}
}

// One file that the package's own tests call invalid and the command does not,
// or the reverse, would mean that the command looks at something else.
func TestCommandEqualsThePackage(t *testing.T) {
	for folder, valid := range map[string]bool{"valid": true, "lint": true, "invalid": false} {
		names := corpus(t, folder, 15)
		_, found := reported(t, names...)
		if len(found) != len(names) {
			t.Fatalf("%s: %d files of %d", folder, len(found), len(names))
		}
		for i, f := range found {
			data, err := os.ReadFile(names[i])
			must(t, err)
			form, problems, err := activityschema.Options{}.Validate(t.Context(), bytes.NewReader(data))
			if err != nil || f.File != names[i] || f.Valid != valid || f.Form != form ||
				len(f.Problems) != len(problems) {
				t.Errorf("%s: %+v, want form %q and %+v, %v", names[i], f.Answer, form, problems, err)
			}
			for j, p := range problems {
				if diff := cmp.Diff(p, f.Problems[j]); diff != "" || f.Problems[j].Line < 1 || f.Problems[j].Column < 1 {
					t.Errorf("%s: %+v\n%s", names[i], f.Problems[j], diff)
				}
			}
		}
	}
}

// A document beyond SmallBytes takes another way through the program, and one
// that can be read only once a third.
func TestLargeDocumentHasTheSameVerdict(t *testing.T) {
	racetest.Skip(t)
	content := recording("large", 100_000)
	content = strings.Replace(content, `"laps":[]`, "\n"+`"laps":[{"index":3,"started_at":"2026-05-17T06:30:00Z","duration_s":null}]`, 1)
	if len(content) < 4<<20 {
		t.Fatalf("%d bytes", len(content))
	}
	broken := strings.Replace(content, `"custom":{}`, "\n\"custom\":[1]", 1)
	folder := t.TempDir()
	for name, c := range map[string]struct{ content, want string }{
		"valid":  {content, ":2:18: /laps/0/index: lap 3 where 0 comes next (laps-numbered, warning)\n1 document, 0 invalid, 0 with privacy errors, 1 warning\n"},
		"broken": {broken, ":3:10: /custom: must be object, not array (type)\n1 document, 1 invalid, 0 with privacy errors, 0 warnings\n"},
	} {
		plain := write(t, filepath.Join(folder, name+".json"), c.content)
		packed := write(t, filepath.Join(folder, name+".json.gz"), zipped(t, c.content))
		ways := [][]string{{plain}, {packed}}
		if name == "valid" {
			ways = append(ways, []string{"--engine", "reference", plain}) // slow
		}
		for _, args := range ways {
			if _, got, errs := validate(t, args...); got != args[len(args)-1]+c.want || errs != "" {
				t.Errorf("%v: %q %s", args, got, errs)
			}
		}
		for _, typed := range []string{c.content, zipped(t, c.content)} {
			var out, errs bytes.Buffer
			run(t.Context(), []string{"activity", "validate", "-"}, nil, strings.NewReader(typed), &out, &errs)
			if out.String() != "-"+c.want || errs.Len() > 0 {
				t.Errorf("standard input: %q %s", out.String(), errs.String())
			}
		}
	}
}

func zipped(t testing.TB, content string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, content)
	must(t, err)
	must(t, z.Close())
	return b.String()
}

// Hundreds of megabytes of spaces in a few.
func TestPackedBombStopsAtTheLimit(t *testing.T) {
	racetest.Skip(t)
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	must(t, err)
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range activityschema.MaxBytes/len(spaces) + 16 {
		if _, err := z.Write(spaces); err != nil {
			t.Fatal(err)
		}
	}
	must(t, z.Close())
	name := write(t, filepath.Join(t.TempDir(), "bomb.json.gz"), b.String())
	peak := peakOf(t, func() {
		code, found := reported(t, name)
		if code != exitInvalid || len(found) != 1 || len(found[0].Problems) != 1 ||
			found[0].Problems[0].Keyword != activityschema.KeywordSize {
			t.Errorf("exit code %d, %+v", code, found)
		}
	})
	if peak > 64<<20 {
		t.Errorf("%d MB to unpack it", peak>>20)
	}
}

func TestDamagedPackedFileHasNoVerdict(t *testing.T) {
	folder := t.TempDir()
	whole := zipped(t, recording("a", 2000))
	for name, content := range map[string]string{
		"cut.json.gz": whole[:len(whole)-40], "checksum.json.gz": whole[:len(whole)-8] + "12345678", "plain.json.gz": "{}", "empty.json.gz": "", "trailing.json.gz": whole + "x",
	} {
		code, found := reported(t, write(t, filepath.Join(folder, name), content))
		if code != exitUnreadable || found[0].Error == "" || found[0].Valid {
			t.Errorf("%s: exit code %d, %+v", name, code, found)
		}
	}
}

// A user who presses Ctrl-C does not wait for the end of a document, nor for
// the end of what is typed.
func TestInterruptReturnsAtOnce(t *testing.T) {
	folder, _ := writeFolder(t, 40, 20_000)
	large := write(t, filepath.Join(t.TempDir(), "large.json"), recording("large", 300_000))
	silent, typist := io.Pipe() // no input comes, so no run ends on its own
	t.Cleanup(func() { _ = typist.Close() })
	for _, args := range [][]string{{"-"}, {folder, "-"}, {large, "-"}, {"--engine", "reference", large, "-"}, {"-o", "json", folder, "-"}} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		var out, errs bytes.Buffer
		var code int
		go func() {
			defer close(ended)
			code = run(ctx, append([]string{"activity", "validate"}, args...), nil, silent, &out, &errs)
		}()
		time.AfterFunc(20*time.Millisecond, cancel) // in the middle of it, wherever that is
		<-ctx.Done()
		begin := time.Now()
		<-ended
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("%v: stopped after %v", args, took)
		}
		if code != exitUnreadable || out.Len() > 0 || errs.String() != "cairn: stopped before all documents were checked: run again\n" {
			t.Errorf("%v: exit code %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}

func TestUnwritableReportIsAnError(t *testing.T) {
	for _, form := range []string{"text", "json"} {
		var errs bytes.Buffer
		code := run(t.Context(), []string{"activity", "validate", "-o", form, corpus(t, "valid", 15)[0]}, nil, strings.NewReader(""), fullDisk{}, &errs)
		if code != exitUnreadable || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%s: exit code %d, %s", form, code, errs.String())
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left on device") }

package activityschema_test

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/activityschema/reference"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// Least numbers of documents in testdata: a corpus that is not found must not
// pass for one without faults.
const (
	leastValid   = 18
	leastInvalid = 106
)

// corpus returns the documents of testdata/dir by file name.
func corpus(t testing.TB, dir string, least int) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.json"))
	must(t, err)
	if len(files) < least {
		t.Fatalf("testdata/%s has %d documents, want at least %d", dir, len(files), least)
	}
	documents := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		documents[filepath.Base(file)] = data
	}
	return documents
}

// document returns one document of testdata/valid.
func document(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "valid", name))
	must(t, err)
	return data
}

// problems validates data, and fails the test if the reference has another verdict.
func problems(t testing.TB, data []byte) []activityschema.Problem {
	t.Helper()
	_, found := answer(t, activityschema.Options{}, data)
	want, err := reference.Valid(t.Context(), data)
	must(t, err)
	if got := len(found) == 0; got != want {
		t.Fatalf("accepted %t, by the reference %t: %v\n%.2000q", got, want, found, data)
	}
	return found
}

// answer validates data; an error fails the test.
func answer(t testing.TB, o activityschema.Options, data []byte) (activityschema.Form, []activityschema.Problem) {
	t.Helper()
	form, found, err := o.Validate(t.Context(), bytes.NewReader(data))
	must(t, err)
	return form, found
}

// places returns "pointer keyword" of each problem.
func places(found []activityschema.Problem) []string {
	var lines []string
	for _, p := range found {
		lines = append(lines, p.Pointer+" "+p.Keyword)
	}
	return lines
}

func TestValidDocumentsAreAccepted(t *testing.T) {
	for name, data := range corpus(t, "valid", leastValid) {
		if found := problems(t, data); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestInvalidDocumentsAreRefused(t *testing.T) {
	want := expectations(t)
	documents := corpus(t, "invalid", leastInvalid)
	for name, data := range documents {
		found := problems(t, data)
		if diff := cmp.Diff(want[name], places(found)); diff != "" {
			t.Errorf("%s: problems (-expected +found):\n%s", name, diff)
		}
		for _, p := range found {
			if p.Message == "" || strings.ContainsAny(p.Message, "\n\x1b") {
				t.Errorf("%s: message %q of %s", name, p.Message, p.Pointer)
			}
		}
	}
	for name := range want {
		if documents[name] == nil {
			t.Errorf("invalid.tsv expects something of %s, which does not exist", name)
		}
	}
}

// expectations reads testdata/invalid.tsv: the problems of each document.
func expectations(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "invalid.tsv"))
	must(t, err)
	defer f.Close()
	want := map[string][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 3 {
			t.Fatalf("invalid.tsv: %q has not three fields", lines.Text())
		}
		want[fields[0]] = append(want[fields[0]], fields[1]+" "+fields[2])
	}
	return want
}

var equal, lacks, must = assert.Equal, assert.Lacks, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

package activityschema_test

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/activityschema"
)

// Least numbers of documents in testdata: a corpus that is not found must not
// pass for one without faults.
const (
	leastValid   = 19
	leastInvalid = 105
)

// corpus returns the documents of testdata/dir by file name.
func corpus(t testing.TB, dir string, least int) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < least {
		t.Fatalf("testdata/%s has %d documents, want at least %d", dir, len(files), least)
	}
	documents := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents[filepath.Base(file)] = data
	}
	return documents
}

// document returns one document of testdata/valid.
func document(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "valid", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// problems validates data with each engine and returns what they agree on; a
// difference or an error fails the test.
func problems(t testing.TB, data []byte) []activityschema.Problem {
	t.Helper()
	form, found := answer(t, activityschema.Options{}, data)
	qriForm, qri := answer(t, activityschema.Options{Engine: activityschema.EngineQri}, data)
	if len(found) >= activityschema.MaxProblems && len(qri) >= activityschema.MaxProblems {
		return found // each has some of many
	}
	if form != qriForm {
		t.Fatalf("meant to be %q, by the other engine %q\n%.2000q", form, qriForm, data)
	}
	if diff := cmp.Diff(found, qri, inOwnWords, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the engines differ (-fast +qri):\n%s\n%.2000q", diff, data)
	}
	return found
}

// inOwnWords compares problems: what is wrong with the syntax each engine says
// in its own words.
var inOwnWords = cmp.Transformer("inOwnWords", func(p activityschema.Problem) map[string]any {
	place := map[string]any{"pointer": p.Pointer, "offset": p.Offset, "keyword": p.Keyword}
	if p.Keyword != activityschema.KeywordSyntax {
		place["message"], place["found"], place["expected"] = p.Message, p.Found, p.Expected
	}
	return place
})

// answer validates data; an error fails the test.
func answer(t testing.TB, o activityschema.Options, data []byte) (activityschema.Form, []activityschema.Problem) {
	t.Helper()
	form, found, err := o.ValidateForm(t.Context(), bytes.NewReader(data))
	if err != nil {
		t.Fatalf("engine %q: %v", o.Engine, err)
	}
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

func TestValidDocumentIsNeverRefused(t *testing.T) {
	for name, data := range corpus(t, "valid", leastValid) {
		if found := problems(t, data); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestInvalidDocumentIsNeverAccepted(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
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

package activityschema_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// longExponent matches numbers over which the oracle's exact arithmetic would
// take seconds.
var longExponent = regexp.MustCompile(`[eE][+-]?0*[1-9]\d{3,}`)

// FuzzValidate: no input makes Validate panic or fail, its answer is of the
// promised shape, and its verdict is the oracle's.
func FuzzValidate(f *testing.F) {
	seeds := 0
	for _, dir := range []string{"valid", "invalid"} {
		for _, data := range corpus(f, dir, min(leastValid, leastInvalid)) {
			f.Add(data)
			seeds++
		}
	}
	if seeds < leastValid+leastInvalid {
		f.Fatalf("%d seeds, want %d: the corpus is lost", seeds, leastValid+leastInvalid)
	}
	published := publishedOracle(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := activityschema.Validate(t.Context(), bytes.NewReader(data))
		if err != nil {
			t.Fatalf("error %v", err)
		}
		if len(found) > activityschema.MaxProblems {
			t.Fatalf("%d problems", len(found))
		}
		for _, p := range found {
			if p.Keyword == "" || p.Message == "" || p.Pointer != "" && p.Pointer[0] != '/' {
				t.Fatalf("problem %+q", p)
			}
		}
		if longExponent.Match(data) {
			return
		}
		if want, unsure := accepts(t, published, data); !unsure && (len(found) == 0) != want {
			t.Fatalf("accepted %t, by the oracle %t: %q", len(found) == 0, want, found)
		}
	})
}

// Valid documents, changed at a few random places: most are wrong in one point
// only, which random bytes never are. The seed is fixed.
func TestChangedDocumentIsNeverJudgedOtherThanByTheOracle(t *testing.T) {
	published := publishedOracle(t)
	var documents [][]byte
	for _, name := range []string{"detail-full.json", "index-full.json", "detail-nulls.json", "index-nulls.json", "detail-minimal.json"} {
		documents = append(documents, document(t, name))
	}
	random := rand.New(rand.NewPCG(1, 2))
	m := mutator{Rand: random, names: allNames()}
	accepted := 0
	const runs = 2500
	for range runs {
		var root any
		if err := json.Unmarshal(documents[random.IntN(len(documents))], &root); err != nil {
			t.Fatal(err)
		}
		for range 1 + random.IntN(2) {
			root = m.change(root)
		}
		data, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := accepts(t, published, data)
		if want {
			accepted++
		}
		if found := problems(t, data); (len(found) == 0) != want {
			t.Fatalf("accepted %t, by the oracle %t: %q\n%s", len(found) == 0, want, found, data)
		}
	}
	if accepted < runs/20 || accepted > runs-runs/20 {
		t.Errorf("%d of %d changed documents are valid: the changes prove little", accepted, runs)
	}
}

// mutator changes decoded documents.
type mutator struct {
	*rand.Rand
	names []string
}

var replacements = []any{
	nil, true, "", "x", "1.0", "public", "indoor", "running", "komoot", "2026-05-17T06:30:00Z", "2016-12-31T23:59:60Z", "2026-02-30T06:30:00Z",
	json.Number("0"), json.Number("-1"), json.Number("2.0"), json.Number("2.5"), json.Number("1e300"), json.Number("25e-1"), json.Number("1.00000000000000000001"),
}

// change returns v with one member or item of it, somewhere, replaced, removed
// or added.
func (m mutator) change(v any) any {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names) // for the fixed seed to mean the same at every run
		if n := m.IntN(10); n == 0 || len(names) == 0 {
			v[m.names[m.IntN(len(m.names))]] = m.value()
		} else if name := names[m.IntN(len(names))]; n == 1 {
			delete(v, name)
		} else {
			v[name] = m.change(v[name])
		}
		return v
	case []any:
		if n := m.IntN(6); n == 0 || len(v) == 0 {
			return append(v, m.value())
		} else if n == 1 {
			return v[1:]
		}
		i := m.IntN(len(v))
		v[i] = m.change(v[i])
		return v
	}
	return m.value()
}

func (m mutator) value() any {
	switch m.IntN(8) {
	case 0:
		return map[string]any{}
	case 1:
		return []any{}
	case 2:
		return []any{m.value(), m.value()}
	}
	return replacements[m.IntN(len(replacements))]
}

package activityschema_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cairn-id/cairn/activityschema"
)

// longExponent matches numbers over which the oracle's exact arithmetic would
// take seconds.
var longExponent = regexp.MustCompile(`[eE][+-]?0*[1-9]\d{3,}`)

// judge validates data with both engines and with the oracle, and returns
// whether all accept it.
func judge(t *testing.T, published *jsonschema.Schema, data []byte) bool {
	t.Helper()
	found := problems(t, data)
	if len(found) > activityschema.MaxProblems {
		t.Fatalf("%d problems", len(found))
	}
	for i, p := range found {
		if p.Keyword == "" || p.Message == "" || p.Pointer != "" && p.Pointer[0] != '/' || p.Offset < 0 || p.Offset > int64(len(data)) {
			t.Fatalf("problem %+v", p)
		}
		if strings.ContainsFunc(p.Message+p.Found+p.Expected, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Fatalf("problem %+q cannot be printed", p.Message)
		}
		if i > 0 && p.Offset < found[i-1].Offset {
			t.Fatalf("problem %+v comes after %+v", p, found[i-1])
		}
	}
	if longExponent.Match(data) {
		return len(found) == 0
	}
	if want, unsure := accepts(t, published, data); !unsure && (len(found) == 0) != want {
		t.Fatalf("accepted %t, by the oracle %t: %+v\n%.2000q", len(found) == 0, want, found, data)
	}
	return len(found) == 0
}

// FuzzValidate: no input makes an engine panic or fail, both give one answer of
// the promised shape, and the verdict is the oracle's.
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
	f.Fuzz(func(t *testing.T, data []byte) { judge(t, published, data) })
}

// FuzzChangedDocument: a valid document, changed at a few random places, has one
// answer too. Most are wrong in one point only, which random bytes never are.
func FuzzChangedDocument(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	published, documents := publishedOracle(f), changeable(f)
	f.Fuzz(func(t *testing.T, seed uint64) { judge(t, published, changed(t, documents, seed)) })
}

func TestChangedDocumentsEqualTheOracle(t *testing.T) {
	published, documents := publishedOracle(t), changeable(t)
	accepted := 0
	const runs = 600
	for seed := range uint64(runs) {
		if judge(t, published, changed(t, documents, seed)) {
			accepted++
		}
	}
	if accepted < runs/20 || accepted > runs-runs/20 {
		t.Errorf("%d of %d changed documents are valid: the changes prove little", accepted, runs)
	}
}

// changeable are the documents that have every member, or every null.
func changeable(t testing.TB) [][]byte {
	var documents [][]byte
	for _, name := range []string{"detail-full.json", "index-full.json", "detail-nulls.json", "index-nulls.json", "detail-minimal.json"} {
		documents = append(documents, document(t, name))
	}
	return documents
}

// changed returns one of the documents with changes, which seed tells: of a few
// values, and in every third document of bytes.
func changed(t testing.TB, documents [][]byte, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 2))
	m := mutator{Rand: random, names: allNames()}
	var root any
	must(t, json.Unmarshal(documents[random.IntN(len(documents))], &root))
	for range random.IntN(3) {
		root = m.change(root)
	}
	data, err := json.Marshal(root)
	must(t, err)
	if random.IntN(2) == 0 { // encoding/json writes members in the order of their names
		var indented bytes.Buffer
		must(t, json.Indent(&indented, data, "", "\t"))
		data = indented.Bytes()
	}
	if random.IntN(3) == 0 {
		for range 1 + random.IntN(3) {
			data = m.changeBytes(data)
		}
	}
	return data
}

// pieces are texts that mean something in JSON, or nearly.
var pieces = []string{
	`"`, `\`, `,`, `:`, `{`, `}`, `[`, `]`, ` `, "\n", `0`, `1`, `-`, `.5`, `.0`, `e1`, `E-9`, `e309`, `null`, `true`, `1e999`, `\u0061`, `\ud800`, `\ud83d\udeb4`,
	"\x00", "\x1f", "\x7f", "\x80", "\xff", "é", "\xe2\x82", "🚴", "\ufeff", `"a":1,`, `"t":[1],`, `{"a":1,"a":2}`, `[[[[`, `//`,
}

// changeBytes returns data with a few bytes of it replaced, removed, repeated
// or added.
func (m mutator) changeBytes(data []byte) []byte {
	from := m.IntN(len(data) + 1)
	to := min(len(data), from+m.IntN(8))
	piece := []byte(pieces[m.IntN(len(pieces))])
	switch m.IntN(6) {
	case 0:
		return slices.Concat(data[:from], data[to:])
	case 1:
		return slices.Concat(data[:to], data[from:])
	case 2:
		return data[:from]
	case 3:
		return slices.Concat(data[:from], piece, data[to:])
	}
	return slices.Concat(data[:from], piece, data[from:])
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

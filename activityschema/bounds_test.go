package activityschema_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// repeated is a document whose middle is repeated without being held in memory.
type repeated struct {
	before, middle, after string
	times                 int

	read int64
	at   func(read int64) // called before each read
	rest string
	step int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.at != nil {
		r.at(r.read)
	}
	for r.rest == "" {
		switch {
		case r.step == 0:
			r.rest = r.before
		case r.step <= r.times:
			r.rest = r.middle
		case r.step == r.times+1:
			r.rest = r.after
		default:
			return 0, io.EOF
		}
		r.step++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.read += int64(n)
	return n, nil
}

// longColumn is a valid detail document with so many samples.
func longColumn(times int) *repeated {
	block := strings.Repeat("12345,-7,1e3,1.0,", 4096)
	return &repeated{
		before: `{"bas_version": "1.0", "id": "1", "title": "", "sport": "other", "started_at": "2026-05-17T06:30:00Z",` +
			` "privacy": "public", "laps": [], "custom": {}, "timeseries": {"t": [`,
		middle: block,
		after:  `0]}}`,
		times:  times,
	}
}

// longTexts are documents with one huge part each; all but one are valid.
func longTexts(times int) map[string]*repeated {
	start := `{"bas_version": "1.0", "title": "", "sport": "other", "privacy": "public", "laps": [], "timeseries": {"t": []}, `
	rest := `"started_at": "2026-05-17T06:30:00Z"`
	parts := func(before, middle, after string) *repeated {
		return &repeated{before: start + before, middle: strings.Repeat(middle, 64<<10/len(middle)), after: after + "}", times: times}
	}
	return map[string]*repeated{
		"text":        parts(`"custom": {}, `+rest+`, "id": "`, "plain", `"`),
		"wide text":   parts(`"custom": {}, `+rest+`, "id": "`, "äö€🚲", `"`),
		"escapes":     parts(`"custom": {}, `+rest+`, "id": "`, `\ud83d\udeb4\n`, `"`),
		"white space": parts(`"custom": {}, `+rest+`, "id": `, "    \r\n\t", `"1"`),
		"digits":      parts(`"custom": {}, `+rest+`, "id": "1", "distance_m": 0.`, "0123456789", ``),
		"fraction":    parts(`"custom": {}, "id": "1", "started_at": "2026-05-17T06:30:00.`, "0123456789", `Z"`),
		"free values": parts(`"id": "1", `+rest+`, "custom": {"x": [`, `{"a": [1, "x", null], "b": {}},`, `0]}`),
		"name":        parts(`"id": "1", `+rest+`, "custom": {"`, `name`, `": 1}`),
	}
}

func TestMemoryNeverGrowsWithTheDocument(t *testing.T) {
	const megabytes = 200
	check := func(name string, r *repeated, most uint64) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found, err := activityschema.Validate(t.Context(), r)
		runtime.ReadMemStats(&after)
		if err != nil || len(found) > 0 {
			t.Fatalf("%s: %.300v, %v", name, found, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most {
			t.Errorf("%s: allocated %d bytes for %d, want at most %d", name, allocated, r.read, most)
		}
	}
	check("samples", longColumn(megabytes<<20/(17*4096)), 1<<20)
	// Of names a megabyte is kept.
	for name, r := range longTexts(12 << 20 / (64 << 10)) {
		check(name, r, 8<<20)
	}
	deep := longTexts(0)["free values"]
	deep.before += strings.Repeat(`{"`+strings.Repeat("n", 1<<20)+`":`, 20)
	deep.after = strings.Repeat("}", 20) + "]}}"
	deep.before += "1"
	check("long names within one another", deep, 8<<20)
}

func TestAllocationsNeverGrowWithTheDocument(t *testing.T) {
	small, large := samplesDocument(10), samplesDocument(20_000)
	count := func(data []byte) float64 {
		r := bytes.NewReader(data)
		return testing.AllocsPerRun(20, func() {
			r.Reset(data)
			if found, err := activityschema.Validate(t.Context(), r); err != nil || len(found) > 0 {
				t.Fatal(found, err)
			}
		})
	}
	// A collection may empty the pool in between, which then fills again.
	if few, many := count(small), count(large); many > few+2 {
		t.Errorf("%v allocations for %d bytes, %v for %d", few, len(small), many, len(large))
	}
}

// The reader itself ends the context, so that nothing depends on time.
func TestDoneContextNeverLetsTheReaderGoOn(t *testing.T) {
	const end, window = 3 << 20, 64 << 10
	documents := longTexts(20 << 20 / (64 << 10))
	documents["samples"] = longColumn(300)
	for name, r := range documents {
		ctx, cancel := context.WithCancel(t.Context())
		r.at = func(read int64) {
			if read >= end {
				cancel()
			}
		}
		found, err := activityschema.Validate(ctx, r)
		if !errors.Is(err, context.Canceled) || found != nil {
			t.Errorf("%s: %.300v, %v; want %v", name, found, err, context.Canceled)
		}
		// The read before may have ended short of it; the one that does it still reads.
		if r.read > end+2*window {
			t.Errorf("%s: read %d bytes after the context was done", name, r.read-end)
		}
	}
}

// Once the answer is full, the rest of the document is not read.
func TestFullAnswerNeverReadsOn(t *testing.T) {
	for name, c := range map[string]struct{ middle, keyword string }{
		"wrong items": {`"x",`, "type"},
		"null items":  {`null,`, "type"},
		"too large":   {`1e999,`, activityschema.KeywordNumber},
		"too deep":    {strings.Repeat("[", 100), activityschema.KeywordDepth},
		"broken":      {`tru,`, activityschema.KeywordSyntax},
	} {
		r := longColumn(1000)
		r.middle = strings.Repeat(c.middle, 1000)
		found, err := activityschema.Validate(t.Context(), r)
		if err != nil || len(found) == 0 || found[0].Keyword != c.keyword {
			t.Errorf("%s: %.300v, %v", name, found, err)
		}
		if len(found) > activityschema.MaxProblems || len(found) != 1 && len(found) != activityschema.MaxProblems {
			t.Errorf("%s: %d problems", name, len(found))
		}
		if r.read > 128<<10 {
			t.Errorf("%s: read %d bytes", name, r.read)
		}
	}
}

// Members that tell the form, or that must be there, may come after more
// problems than an answer has.
func TestFullAnswerNeverClaimsWhatItHasNotRead(t *testing.T) {
	many := distinct("x", 3*activityschema.MaxProblems)
	rest := `,"bas_version":"1.0","generated_at":"2026-05-17T20:00:00Z","activities":[],"owner":{"handle":"x","display_name":"x"}}`
	for text, form := range map[string]activityschema.Form{
		`{` + many + rest:             activityschema.FormIndex,
		`{"shards":[],` + many + rest: activityschema.FormIndex,
		`{"owner":{` + many + `},"shards":[]` + strings.Replace(rest, "owner", "x", 1): activityschema.FormIndex,
		`{"laps":[],` + many + `}`: activityschema.FormDetail,
	} {
		got, found := answer(t, activityschema.Options{}, []byte(text))
		if got != form || len(found) != activityschema.MaxProblems {
			t.Errorf("%.40s: %q with %d problems", text, got, len(found))
		}
		for _, p := range found {
			if p.Keyword != "additionalProperties" && !(p.Keyword == "required" && form == activityschema.FormIndex && p.Pointer == "/owner") {
				t.Errorf("%.40s: %+v", text, p)
			}
		}
	}
	// Once the form is known, it does not go on.
	r := strings.NewReader(`{"laps":[],` + distinct("x", 100_000) + `}`)
	if found, err := activityschema.Validate(t.Context(), r); err != nil || len(found) != activityschema.MaxProblems || r.Len() == 0 {
		t.Errorf("%d problems, %v, %d bytes left", len(found), err, r.Len())
	}
}

// An answer does not repeat megabytes of the document, however long its names.
func TestAnswerIsNeverManyTimesTheDocument(t *testing.T) {
	name := func(n int) string { return strings.Repeat(string(rune('a'+n%26)), 40_000+n) }
	var members, numbers strings.Builder
	for n := range 100 {
		members.WriteString(`,"` + name(n) + `": 1`)
		numbers.WriteString(`,"` + name(n) + `": 1e999`)
	}
	for _, data := range []string{
		`{"laps": [], "timeseries": {"t": []` + members.String() + `}}`,
		`{"laps": [], "custom": {"x": 0` + numbers.String() + `}}`,
		`{"laps": [], "custom": {"` + name(900_000) + `": [1e999` + strings.Repeat(",1e999", 1000) + `]}}`,
	} {
		for _, engine := range []activityschema.Engine{activityschema.EngineFast, activityschema.EngineQri} {
			_, found := answer(t, activityschema.Options{Engine: engine}, []byte(data))
			size := 0
			for _, p := range found {
				size += len(p.Pointer) + len(p.Message)
			}
			if len(found) == 0 || size > 3<<20 {
				t.Errorf("%s: %d problems of %d bytes for a document of %d", engine, len(found), size, len(data))
			}
		}
	}
}

// A pointer that would be longer than a megabyte leads to an object on the way.
func TestEndlessNameIsNeverRepeated(t *testing.T) {
	long := strings.Repeat("n", 1<<20-len("/custom/")-len("/x"))
	for _, c := range []struct{ name, pointer string }{
		{long, "/custom/" + long + "/x"},
		{long + "n", "/custom/" + long + "n"},
		{long + "nn", "/custom/" + long + "nn"},
		{long + "nnn", "/custom"},
		{strings.Repeat("~", len(long)), "/custom"},
		{strings.Repeat("n", 3<<20), "/custom"},
		{strings.Repeat("€", 1<<20), "/custom"},
	} {
		found := problems(t, []byte(`{"laps": [], "custom": {"`+c.name+`": {"x": 1e999}}}`))
		if len(found) != 1 || found[0].Pointer != c.pointer || found[0].Keyword != activityschema.KeywordNumber {
			t.Errorf("a name of %d bytes: %d problems, pointer of %d bytes, want %d", len(c.name), len(found), len(found[0].Pointer), len(c.pointer))
		}
	}
	// Two that are too long only together.
	a, b := strings.Repeat("a", 900_000), strings.Repeat("b", 200_000)
	found := problems(t, []byte(`{"laps": [], "custom": {"`+a+`": {"`+b+`": [{"x": 1e999}], "c": 1e999}}}`))
	if len(found) != 2 || found[0].Pointer != "/custom/"+a || found[1].Pointer != "/custom/"+a+"/c" {
		t.Errorf("%d problems, pointers of %d and %d bytes", len(found), len(found[0].Pointer), len(found[1].Pointer))
	}
}

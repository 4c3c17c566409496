package activityschema_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/activityschema"
)

// What is wrong with a text comes with the place where a person finds it.
func TestBrokenTextIsNeverReportedWithoutItsPlace(t *testing.T) {
	for _, c := range []struct{ text, pointer, keyword, message string }{
		{"\xef\xbb\xbf{}", "", activityschema.KeywordBOM, "begins with a byte order mark"},
		{"{\n \"x\": \"\xff\"}", "", activityschema.KeywordUTF8, "line 2, column 8: not UTF-8"},
		{"{\n  \"été\": tru}", "", activityschema.KeywordSyntax, "line 2, column 13: not JSON"},
		{`{"x": 1,}`, "", activityschema.KeywordSyntax, "line 1, column 9: not JSON"},
		{`{"x"`, "", activityschema.KeywordSyntax, "line 1, column 5: not JSON: the end of the document where a colon belongs"},
		{"\n", "", activityschema.KeywordSyntax, "there is no JSON value"},
		{"{}\n\n {}", "", activityschema.KeywordTrailingData, "line 3, column 2: something follows"},
		{"{} x", "", activityschema.KeywordTrailingData, "line 1, column 4: something follows"},
		{"{}\x00", "", activityschema.KeywordTrailingData, "line 1, column 3: something follows"},
		{"{\"ä\": 1,\n\"ö\": 1e999}", "/ö", activityschema.KeywordNumber, "line 2, column 6: beyond"},
		{"{\"ä\":\n{\"üü\": 1, \"üü\": 1}}", "/ä/üü", activityschema.KeywordDuplicate, "line 2, column 11: member"},
		{"{\"custom\": {\"a\": 1,\n  \"a\": 2}}", "/custom/a", activityschema.KeywordDuplicate, `line 2, column 3: member "a" occurs twice`},
		{`{"a": {}, "\u0061": 1}`, "/a", activityschema.KeywordDuplicate, "line 1, column 11"},
		{`[[0, {"~/": [1, -1e309]}]]`, "/0/1/~0~1/1", activityschema.KeywordNumber, "line 1, column 17: beyond the range of a double"},
		{`{"x": 1` + strings.Repeat("0", 309) + `}`, "/x", activityschema.KeywordNumber, "line 1, column 7"},
		{`{"\udc00": 1}`, "/\ufffd", activityschema.KeywordUTF8, "half a surrogate pair"},
		{`{"\ud800\u0061": 1}`, "/\ufffda", activityschema.KeywordUTF8, "half a surrogate pair"},
		{strings.Repeat("[", 65) + strings.Repeat("]", 65), "", activityschema.KeywordDepth, "line 1, column 65: nested deeper than 64"},
		{strings.Repeat(`{"x":`, 100_000), "", activityschema.KeywordDepth, "column 321"},
	} {
		found := problems(t, []byte(c.text))
		if len(found) != 1 || found[0].Pointer != c.pointer || found[0].Keyword != c.keyword || !strings.Contains(found[0].Message, c.message) {
			t.Errorf("%.60q: %+v, want one %s at %q: %s", c.text, found, c.keyword, c.pointer, c.message)
		}
	}
}

// Brackets in strings, replacement characters and whole pairs are no faults.
func TestHarmlessTextIsNeverTakenForBroken(t *testing.T) {
	for _, custom := range []string{
		`{"x": "` + strings.Repeat("[{", 100) + `"}`,
		`{"x": "\"` + strings.Repeat("[", 100) + `\\"}`,
		`{"\ufffd": 1, "\ufffd\ufffd": 2}`,
		"{\"\ufffd\": 1}",
		`{"\ud83d\udeb4\ufffd": 1}`,
		`{"\\ud800\ufffd": 1}`,
		`{"x": {"a": 1}, "a": {"a": 1}}`,
		`{"a": 1, "A": 2}`,
		`{"x": 1e-400, "y": 0e400, "z": 1.7976931348623157e308}`,
		`{"x": ` + strings.Repeat("[", 61) + strings.Repeat("]", 61) + `}`,
	} {
		data := bytes.Replace(document(t, "detail-minimal.json"), []byte(`"custom": {}`), []byte(`"custom": `+custom), 1)
		if found := problems(t, data); len(found) > 0 {
			t.Errorf("%.60s: %v", custom, found)
		}
	}
}

func TestHostileNameNeverReachesAMessageRaw(t *testing.T) {
	name := "\x1b[2J\u202e" + strings.Repeat("x", 1<<16)
	found := problems(t, edited(t, "owner", func(o map[string]any) { o[name] = 1 }))
	if len(found) != 1 || found[0].Pointer != "/owner/"+name {
		t.Fatalf("%d problems, want one", len(found))
	}
	if m := found[0].Message; len(m) > 300 || strings.ContainsAny(m, "\x1b\u202e") {
		t.Errorf("message of %d bytes: %.300q", len(m), m)
	}
}

func TestDocumentOverTheLimitIsNeverRead(t *testing.T) {
	data := document(t, "detail-full.json")
	limit := int64(len(data))
	for _, engine := range engines {
		for size, want := range map[int64][]activityschema.Problem{
			limit + 1:         nil,
			limit:             nil,
			limit - 1:         {{Offset: limit - 1, Keyword: activityschema.KeywordSize, Message: fmt.Sprintf("larger than %d bytes", limit-1)}},
			1:                 {{Offset: 1, Keyword: activityschema.KeywordSize, Message: "larger than 1 bytes"}},
			0:                 nil, // MaxBytes
			math.MaxInt64:     nil,
			math.MinInt64 + 1: nil,
		} {
			_, found := answer(t, activityschema.Options{Engine: engine, MaxBytes: size}, data)
			if diff := cmp.Diff(want, found, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, %d bytes with a limit of %d (-want +got):\n%s", engine, limit, size, diff)
			}
		}
		endless := &endlessReader{}
		_, err := activityschema.Options{Engine: engine, MaxBytes: 1 << 16}.Validate(t.Context(), endless)
		if err != nil || endless.read > 1<<16+1 {
			t.Errorf("%s: read %d bytes of an endless document, %v", engine, endless.read, err)
		}
	}
	if activityschema.MaxBytes != 256<<20 {
		t.Errorf("MaxBytes is %d, want 256 MiB", activityschema.MaxBytes)
	}
}

type endlessReader struct{ read int }

func (r *endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	r.read += len(p)
	return len(p), nil
}

func TestUnreadableDocumentIsNeverCalledInvalid(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, engine := range engines {
		for _, start := range []string{"", "{", string(document(t, "detail-full.json")), strings.Repeat(" ", 100_000)} {
			r := io.MultiReader(strings.NewReader(start), iotest.ErrReader(broken))
			form, found, err := activityschema.Options{Engine: engine}.ValidateForm(t.Context(), r)
			if !errors.Is(err, broken) || found != nil || form != "" {
				t.Errorf("%s, after %d bytes: %q, problems %v, error %v; want none, %v", engine, len(start), form, found, err, broken)
			}
		}
	}
}

func TestValidationNeverOutlivesItsContext(t *testing.T) {
	// Cancelled once all is read: while the tree is built, and while the
	// schema is applied.
	long := []byte(`{"laps": [], "timeseries": {"t": [0` + strings.Repeat(",0", 200_000) + `]}}`)
	short := []byte(`{"laps": [], "timeseries": {"t": [0` + strings.Repeat(",0", 2_000) + `]}}`)
	for _, engine := range engines {
		o := activityschema.Options{Engine: engine}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := o.Validate(done, strings.NewReader("{}")); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled before: %v", engine, err)
		}
		for _, data := range [][]byte{long, short} {
			ctx, cancel := context.WithCancel(t.Context())
			form, found, err := o.ValidateForm(ctx, io.MultiReader(bytes.NewReader(data), cancelReader{cancel}))
			if !errors.Is(err, context.Canceled) || found != nil || form != "" {
				t.Errorf("%s, cancelled at the end of %d bytes: %q, %d problems, %v", engine, len(data), form, len(found), err)
			}
		}
	}
}

// A column of a million items is left when ctx is done, not at its end: the
// library's engine looks at the context all along, while reading the text and
// while applying the schema. The other one looks at it before each read.
func TestLongColumnNeverKeepsADoneContextWaiting(t *testing.T) {
	const items = 40_000
	data := []byte(`{"laps": [], "timeseries": {"t": [0` + strings.Repeat(",0", items) + `]}}`)
	for _, engine := range engines {
		validate := func(ctx context.Context) ([]activityschema.Problem, error) {
			return activityschema.Options{Engine: engine}.Validate(ctx, iotest.HalfReader(bytes.NewReader(data)))
		}
		live := &countingContext{Context: t.Context(), most: 1 << 30}
		if found, err := validate(live); err != nil || len(found) == 0 {
			t.Fatalf("%s: %d problems, %v", engine, len(found), err)
		}
		if engine != activityschema.EngineFast && live.looks < items/1024 {
			t.Errorf("%s: looked at the context %d times for %d items", engine, live.looks, items)
		}
		for most := 1; most < live.looks; most += 1 + live.looks/20 {
			ctx := &countingContext{Context: t.Context(), most: most}
			if _, err := validate(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: done after %d looks of %d: %v", engine, most, live.looks, err)
			}
			if ctx.looks > most+3 {
				t.Errorf("%s: went on for %d looks after the context was done", engine, ctx.looks-most)
			}
		}
	}
}

// countingContext is done after a number of looks at it.
type countingContext struct {
	context.Context
	looks, most int
}

func (c *countingContext) Err() error {
	if c.looks++; c.looks > c.most {
		return context.Canceled
	}
	return nil
}

// cancelReader is empty and cancels when it is reached.
type cancelReader struct{ cancel context.CancelFunc }

func (r cancelReader) Read([]byte) (int, error) {
	r.cancel()
	return 0, io.EOF
}

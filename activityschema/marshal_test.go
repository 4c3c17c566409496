package activityschema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

func TestWrittenDocumentIsNeverInvalidOrAnother(t *testing.T) {
	published := publishedOracle(t)
	g := newGenerator(1)
	for range 1500 {
		d := g.document()
		data := written(t, d)
		if found := problems(t, data); len(found) > 0 {
			t.Fatalf("problems %+v\n%s", found, data)
		}
		if ok, _ := accepts(t, published, data); !ok {
			t.Fatalf("the oracle refuses\n%s", data)
		}
		got, found, err := activityschema.Decode(t.Context(), bytes.NewReader(data))
		if err != nil || found != nil {
			t.Fatalf("Decode: %+v, %v\n%s", found, err, data)
		}
		if diff := cmp.Diff(asWritten(d), *got, sameDocument); diff != "" {
			t.Fatalf("(-made +decoded):\n%s\n%s", diff, data)
		}
		if again := written(t, got); !bytes.Equal(data, again) {
			t.Fatalf("written again:\n%s\n%s", data, again)
		}
	}
}

// Every string, number and time of a random document, in turn given what the
// format or JSON cannot take: the error names its place.
func TestValueOutsideTheFormatIsNeverWritten(t *testing.T) {
	g := newGenerator(2)
	tried := map[string]int{}
	for range 200 {
		d := g.document()
		root := reflect.ValueOf(d.Index)
		if d.Detail != nil {
			root = reflect.ValueOf(d.Detail)
		}
		eachLeaf(root.Elem(), "", func(leaf reflect.Value, pointer string) {
			before := reflect.New(leaf.Type()).Elem()
			before.Set(leaf)
			for _, bad := range outside(leaf.Addr().Interface(), pointer) {
				leaf.Set(reflect.ValueOf(bad.value).Convert(leaf.Type()))
				_, err := json.Marshal(d)
				invalid, ok := errors.AsType[*activityschema.InvalidError](err)
				if !ok || len(invalid.Problems) != 1 || invalid.Problems[0].Pointer != pointer || invalid.Problems[0].Keyword != bad.keyword {
					t.Fatalf("%s = %#v: error %v, want one of %s there", pointer, bad.value, err, bad.keyword)
				}
				if !strings.Contains(err.Error(), fmt.Sprintf("%q", pointer)) {
					t.Errorf("error %v does not name %s", err, pointer)
				}
				tried[bad.keyword]++
			}
			leaf.Set(before)
		})
		written(t, d) // undone, it can be written
	}
	for _, keyword := range []string{"const", "enum", "minLength", "minimum", "format", "number", "utf-8"} {
		if tried[keyword] < 10 {
			t.Errorf("%d values were tried for %s: the test proves little", tried[keyword], keyword)
		}
	}
}

type outsider struct {
	value   any
	keyword string
}

// outside returns values that cannot stand where p points to.
func outside(p any, pointer string) []outsider {
	switch p.(type) {
	case *activityschema.Sport, *activityschema.SubSport, *activityschema.Privacy, *activityschema.Source:
		return []outsider{{"rowing", "enum"}, {"", "enum"}, {"Public", "enum"}, {"\xff", "utf-8"}}
	case *activityschema.Time:
		return []outsider{
			{activityschema.Time{Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "format"},
			{activityschema.Time{Time: time.Date(-1, 12, 31, 23, 59, 59, 0, time.UTC)}, "format"},
			// The zone cannot be written, and in UTC the year has five digits.
			{activityschema.Time{Time: time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -59))}, "format"},
		}
	case *activityschema.Null[float64]:
		return []outsider{{activityschema.Some(math.NaN()), "number"}, {activityschema.Some(math.Inf(-1)), "number"}}
	case *float64:
		return []outsider{{math.NaN(), "number"}, {math.Inf(1), "number"}, {math.Inf(-1), "number"}}
	case *int64:
		if strings.HasSuffix(pointer, "/index") {
			return []outsider{{int64(-1), "minimum"}, {int64(math.MinInt64), "minimum"}}
		}
	case *string:
		bad := []outsider{{"a\xc3(", "utf-8"}, {"\xed\xa0\x80", "utf-8"}}
		switch {
		case pointer == "/bas_version":
			bad = append(bad, outsider{"", "const"}, outsider{"1.1", "const"})
		case strings.HasSuffix(pointer, "/id"), strings.HasSuffix(pointer, "/handle"):
			bad = append(bad, outsider{"", "minLength"})
		}
		return bad
	}
	return nil
}

// eachLeaf visits what within v is written as a string or a number, each with
// its JSON Pointer. Custom members are left out.
func eachLeaf(v reflect.Value, pointer string, visit func(leaf reflect.Value, pointer string)) {
	switch v.Addr().Interface().(type) {
	case *activityschema.Time, *activityschema.Null[float64], *activityschema.Null[int64]:
		visit(v, pointer)
		return
	case *map[string]json.RawMessage:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachLeaf(v.Elem(), pointer, visit)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			eachLeaf(v.Index(i), fmt.Sprint(pointer, "/", i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachLeaf(v.Field(i), pointer+"/"+tagOf(v.Type().Field(i)), visit)
		}
	default:
		visit(v, pointer)
	}
}

func TestCustomMemberNeverBringsMoreThanItsValue(t *testing.T) {
	for _, c := range []struct{ name, value, pointer, keyword string }{
		{"a", ``, "/custom/a", activityschema.KeywordSyntax},
		{"~/", `{`, "/custom/~0~1", activityschema.KeywordSyntax},
		{"a", `1,"x":2`, "/custom/a", activityschema.KeywordSyntax},
		{"a", `1},"privacy":"public","x":{"y":1`, "/custom/a", activityschema.KeywordSyntax},
		{"a", `1 2`, "/custom/a", activityschema.KeywordSyntax},
		{"a", "\"\xff\"", "/custom/a", activityschema.KeywordUTF8},
		{"\xff", `1`, "/custom/\xff", activityschema.KeywordUTF8},
		{"a", `{"b":[1e400]}`, "/custom/a/b/0", activityschema.KeywordNumber},
		{"a", `{"b":1,"\u0062":2}`, "/custom/a/b", activityschema.KeywordDuplicate},
		{"a", `{"\ud800":1}`, "/custom/a/\ufffd", activityschema.KeywordUTF8},
	} {
		d := newGenerator(3).detail()
		d.Custom = map[string]json.RawMessage{c.name: json.RawMessage(c.value)}
		_, err := json.Marshal(d)
		invalid, ok := errors.AsType[*activityschema.InvalidError](err)
		if !ok || !slices.Equal(places(invalid.Problems), []string{c.pointer + " " + c.keyword}) {
			t.Errorf("%q: %s: error %v, want %s at %q", c.name, c.value, err, c.keyword, c.pointer)
		}
	}
	deep := newGenerator(3).detail()
	deep.Custom = map[string]json.RawMessage{"a": json.RawMessage(strings.Repeat("[", 63) + strings.Repeat("]", 63))}
	if _, err := json.Marshal(deep); !strings.Contains(fmt.Sprint(err), "deep") {
		t.Errorf("65 levels: error %v", err)
	}
}

func TestProblemIsNeverLeftOutOfTheCount(t *testing.T) {
	d := newGenerator(4).detail()
	d.Timeseries.Lat = make(activityschema.Column[float64], 3*activityschema.MaxProblems)
	for i := range d.Timeseries.Lat {
		d.Timeseries.Lat[i] = activityschema.Some(math.NaN())
	}
	_, err := json.Marshal(d)
	invalid, ok := errors.AsType[*activityschema.InvalidError](err)
	if !ok || len(invalid.Problems) != activityschema.MaxProblems || !strings.Contains(err.Error(), "99 more problems") {
		t.Errorf("error %v", err)
	}
}

func TestDocumentOfNoFormOrTwoIsNeverWritten(t *testing.T) {
	x, d := newGenerator(5).index(), newGenerator(5).detail()
	for _, document := range []activityschema.Document{{}, {Index: &x, Detail: &d}} {
		if data, err := json.Marshal(document); err == nil {
			t.Errorf("written as %s", data)
		}
	}
}

// encoding/json alone would take members of another letter case, a null in
// place of a required string, and a document of the other form.
func TestInvalidDocumentIsNeverUnmarshalled(t *testing.T) {
	for name, data := range corpus(t, "invalid", leastInvalid) {
		if !json.Valid(data) {
			continue
		}
		x, d, either := newGenerator(6).index(), newGenerator(6).detail(), activityschema.Document{}
		before := fmt.Sprintf("%+v %+v", x, d)
		for _, into := range []any{&x, &d, &either} {
			err := json.Unmarshal(data, into)
			if invalid, ok := errors.AsType[*activityschema.InvalidError](err); !ok || len(invalid.Problems) == 0 {
				t.Errorf("%s into %T: error %v", name, into, err)
			}
		}
		if after := fmt.Sprintf("%+v %+v", x, d); after != before || either.Index != nil || either.Detail != nil {
			t.Errorf("%s: refused and read all the same", name)
		}
	}
	if err := json.Unmarshal(document(t, "index-full.json"), new(activityschema.Detail)); err == nil {
		t.Error("an index was taken for a detail")
	}
	if err := json.Unmarshal(document(t, "detail-full.json"), new(activityschema.Index)); err == nil {
		t.Error("a detail was taken for an index")
	}
	if _, ok := errors.AsType[*activityschema.RangeError](json.Unmarshal(document(t, "detail-integers-as-written.json"), new(activityschema.Document))); !ok {
		t.Error("no error for integers beyond 64 bits")
	}
	var d activityschema.Detail
	if err := json.Unmarshal(document(t, "detail-full.json"), &d); err != nil || d.ID != "2026-05-17-ride" || len(d.Laps) != 2 {
		t.Errorf("detail %+v, error %v", d, err)
	}
	var x activityschema.Index
	if err := json.Unmarshal(document(t, "index-full.json"), &x); err != nil || x.Owner.Handle == "" || len(x.Activities) == 0 {
		t.Errorf("index %+v, error %v", x, err)
	}
}

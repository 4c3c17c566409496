package activityschema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// FuzzDecode: no input makes the decoder panic; Decode refuses what Validate
// refuses; and what it decodes is written as a valid document which decodes to
// the same.
func FuzzDecode(f *testing.F) {
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
	g := newGenerator(9)
	for range 20 {
		f.Add(written(f, g.document()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		saturated, saturatedErr := activityschema.DecodeDocument(data, true)
		d, found, err := activityschema.Decode(t.Context(), bytes.NewReader(data))
		if diff := cmp.Diff(problems(t, data), found); diff != "" {
			t.Fatalf("(-Validate +Decode):\n%s", diff)
		}
		if len(found) > 0 {
			if d != nil || err != nil {
				t.Fatalf("problems %+v, and %+v, error %v", found, d, err)
			}
			return
		}
		if saturatedErr != nil {
			t.Fatalf("saturated: %v", saturatedErr)
		}
		if e, ok := errors.AsType[*activityschema.RangeError](err); ok && e.Pointer != "" && d == nil {
			written(t, saturated)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, saturated, sameDocument); diff != "" {
			t.Fatalf("(-decoded +saturated):\n%s", diff)
		}
		var again activityschema.Document
		if err := json.Unmarshal(written(t, d), &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*d, again, sameDocument); diff != "" {
			t.Fatalf("(-decoded +written and decoded):\n%s", diff)
		}
	})
}

// FuzzColumn: no input makes a column panic, and one that was read is written
// as it reads.
func FuzzColumn(f *testing.F) {
	for _, seed := range []string{`null`, `[]`, `[1.0,null, -0]`, `[1e3,10e-1,9223372036854775808]`, `[0.1e`, `[-`, `[1`, `["1"]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var numbers numbers
		if numbers.UnmarshalJSON(data) == nil {
			sameColumn(t, numbers)
		}
		var integers integers
		if integers.UnmarshalJSON(data) == nil {
			sameColumn(t, integers)
		}
		var list activityschema.Integers
		if list.UnmarshalJSON(data) == nil {
			sameColumn(t, list)
		}
	})
}

func sameColumn[C any](t *testing.T, column C) {
	var again C
	if err := json.Unmarshal(written(t, column), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(column, again, sameDocument); diff != "" {
		t.Fatalf("(-read +written and read):\n%s", diff)
	}
}

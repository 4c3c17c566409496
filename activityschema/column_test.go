package activityschema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

type (
	numbers  = activityschema.Column[float64]
	integers = activityschema.Column[int64]
)

func TestColumnIsNeverReadAsAnother(t *testing.T) {
	one, two := activityschema.Some(1.0), activityschema.Some(int64(-2))
	for _, c := range []struct {
		text string
		want any // of the type to read into
	}{
		{`null`, numbers(nil)},
		{`[]`, numbers{}},
		{" [ \n] ", numbers{}},
		{`[null]`, numbers{{}}},
		{"[ 1.0 , null,\t1e0\r\n, 10e-1 ]", numbers{one, {}, one, one}},
		{`[0, -0]`, numbers{activityschema.Some(0.0), activityschema.Some(math.Copysign(0, -1))}},
		{`null`, integers(nil)},
		{`[]`, integers{}},
		{`[null,-2,-2.0,-20e-1,null]`, integers{{}, two, two, two, {}}},
		{`[]`, activityschema.Integers{}},
		{`[ 1 ,2.0,-0]`, activityschema.Integers{1, 2, 0}},
	} {
		var got any
		var err error
		switch c.want.(type) {
		case numbers:
			got, err = read[numbers](c.text)
		case integers:
			got, err = read[integers](c.text)
		default:
			got, err = read[activityschema.Integers](c.text)
		}
		if diff := cmp.Diff(c.want, got, sameDocument); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", c.text, err, diff)
		}
	}
}

// read is json.Unmarshal over a column that holds something already.
func read[T any](text string) (T, error) {
	var v T
	if err := json.Unmarshal([]byte(`[7]`), &v); err != nil {
		return v, err
	}
	err := json.Unmarshal([]byte(text), &v)
	return v, err
}

func TestColumnNeverTakesWhatIsNoColumn(t *testing.T) {
	for _, text := range []string{`1`, `"[1]"`, `{}`, `{"a":1}`, `true`, `[true]`, `["1"]`, `[[1]]`, `[1,{}]`, `[[]]`, `[1,[2,3]]`} {
		if v, err := read[numbers](text); err == nil || len(v) != 1 {
			t.Errorf("%s: %v, error %v", text, v, err)
		}
		if v, err := read[integers](text); err == nil || len(v) != 1 {
			t.Errorf("%s: %v, error %v", text, v, err)
		}
		if v, err := read[activityschema.Integers](text); err == nil || len(v) != 1 {
			t.Errorf("%s: %v, error %v", text, v, err)
		}
	}
	for _, text := range []string{`null`, `[null]`, `[1,1.5]`, `[1e-1]`} {
		if v, err := read[activityschema.Integers](text); err == nil {
			t.Errorf("%s: %v", text, v)
		}
	}
	for _, text := range []string{`[1.5]`, `[1.0000000000000000001]`, `[123e-3]`, `[1e-99999999999999999999]`} {
		if v, err := read[integers](text); err == nil || !strings.Contains(err.Error(), "not an integer") {
			t.Errorf("%s: %v, error %v", text, v, err)
		}
	}
	if v, err := read[numbers](`[1e400]`); err == nil {
		t.Errorf("[1e400]: %v", v)
	}
	if e, ok := errors.AsType[*activityschema.RangeError](readError[integers](`[null,1e19]`)); !ok || e.Pointer != "/1" {
		t.Errorf("[null,1e19]: %v", e)
	}
	for _, text := range []string{"", "[", "[1", "[1,", "[1 2]", "[1]]", "[nul]", "[-]", "[.5]", "[1", "nul", "[1]x", "[null"} {
		if new(numbers).UnmarshalJSON([]byte(text)) == nil || new(integers).UnmarshalJSON([]byte(text)) == nil || new(activityschema.Integers).UnmarshalJSON([]byte(text)) == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func readError[T any](text string) error {
	_, err := read[T](text)
	return err
}

func TestColumnNeverWritesWhatItCannotRead(t *testing.T) {
	for _, c := range []struct {
		column any
		want   string
	}{
		{numbers(nil), `null`},
		{numbers{}, `[]`},
		{numbers{{Value: math.NaN()}, activityschema.Some(46.0661), activityschema.Some(1e21), activityschema.Some(-1e-7)}, `[null,46.0661,1e+21,-1e-07]`},
		{integers{{Value: 7}, activityschema.Some(int64(math.MinInt64))}, `[null,-9223372036854775808]`},
		{activityschema.Integers(nil), `[]`},
		{activityschema.Integers{0, -1}, `[0,-1]`},
	} {
		if got := string(written(t, c.column)); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := json.Marshal(numbers{{}, activityschema.Some(bad)})
		if e, ok := errors.AsType[*activityschema.InvalidError](err); !ok || e.Problems[0].Pointer != "/1" {
			t.Errorf("%v: error %v", bad, err)
		}
	}
}

// The short way of reading a number is exact: strconv agrees to the last bit.
func TestNumberIsNeverRoundedTwice(t *testing.T) {
	g := newGenerator(7)
	var literals []string
	for range 50_000 {
		digits := strconv.FormatUint(g.Uint64()>>g.IntN(64), 10)
		point := g.IntN(len(digits) + 1)
		literal := digits[:point]
		if literal == "" {
			literal = "0"
		}
		if point < len(digits) {
			literal += "." + strings.Repeat("0", g.IntN(2)*g.IntN(25)) + digits[point:] + strings.Repeat("0", g.IntN(2)*g.IntN(25))
		}
		if g.IntN(4) == 0 {
			literal += fmt.Sprintf("e%d", g.IntN(60)-30)
		}
		if g.IntN(2) == 0 {
			literal = "-" + literal
		}
		literals = append(literals, literal)
	}
	literals = append(literals, "9007199254740992", "9007199254740993", "9007199254740992.5", "0.9007199254740993", "1e22", "1e23", "8.5e-323", "4e-324", "1e-400",
		"179769313486231570000000000000000000000", "0.1", "123456789012345678901234567890", "9999999999999999999", "99999999999999999999", "0.00000000000000000000001")
	var got numbers
	if err := json.Unmarshal([]byte("["+strings.Join(literals, ",")+"]"), &got); err != nil {
		t.Fatal(err)
	}
	for i, literal := range literals {
		want, err := strconv.ParseFloat(literal, 64)
		if err != nil {
			t.Fatal(err)
		}
		if !got[i].Valid || math.Float64bits(got[i].Value) != math.Float64bits(want) {
			t.Errorf("%s: %v, want %v", literal, got[i], want)
		}
	}
}

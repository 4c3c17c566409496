package activityschema_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/activityschema"
)

// A generator makes random values of the document types, of edge values more
// than of others. All of them can be written. The seed is fixed.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 1))} }

func (g generator) index() activityschema.Index {
	var x activityschema.Index
	g.fill(reflect.ValueOf(&x).Elem())
	return x
}

func (g generator) detail() activityschema.Detail {
	var d activityschema.Detail
	g.fill(reflect.ValueOf(&d).Elem())
	return d
}

// document makes an index or a detail.
func (g generator) document() activityschema.Document {
	if g.IntN(2) == 0 {
		return activityschema.Document{Index: new(g.index())}
	}
	return activityschema.Document{Detail: new(g.detail())}
}

// fill sets v and all within it to random values.
func (g generator) fill(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *activityschema.Time:
		*p = g.time()
		return
	case *activityschema.Sport, *activityschema.SubSport, *activityschema.Privacy, *activityschema.Source:
		v.SetString(oneOf(g, enumOf[v.Type().Name()]))
		return
	case *activityschema.Null[float64]:
		*p = activityschema.Null[float64]{Value: g.number(), Valid: g.IntN(4) > 0}
		return
	case *activityschema.Null[int64]:
		*p = activityschema.Null[int64]{Value: g.integer(), Valid: g.IntN(4) > 0}
		return
	case *map[string]json.RawMessage:
		*p = g.custom()
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if g.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem())
		}
	case reflect.Slice:
		if g.IntN(4) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), g.IntN(4), 4))
		}
		for i := range v.Len() {
			g.fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			g.fill(v.Index(i))
		}
	case reflect.String:
		v.SetString(g.text())
	case reflect.Int64:
		v.SetInt(g.integer())
	case reflect.Float64:
		v.SetFloat(g.number())
	case reflect.Struct:
		for i := range v.NumField() {
			g.fill(v.Field(i))
			switch tagOf(v.Type().Field(i)) {
			case "bas_version":
				v.Field(i).SetString(activityschema.Version)
			case "id", "handle":
				v.Field(i).SetString("x" + g.text())
			case "index":
				v.Field(i).SetInt(v.Field(i).Int() & math.MaxInt64)
			}
		}
	default:
		panic("no values of " + v.Type().String())
	}
}

// tagOf returns the member name of a field.
func tagOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// enumOf are the specification's values by Go type.
var enumOf = func() map[string][]string {
	values := map[string][]string{}
	for name, shape := range map[string]string{"Sport": "sport", "SubSport": "sub_sport", "Privacy": "privacy", "Source": "source"} {
		for _, v := range schemaOf(shape)["enum"].([]any) {
			if text, ok := v.(string); ok {
				values[name] = append(values[name], text)
			}
		}
	}
	return values
}()

func oneOf[T any](g generator, values []T) T { return values[g.IntN(len(values))] }

func (g generator) text() string {
	return oneOf(g, []string{"", "x", "été 🚴", `"\/`, "\x00\x1f\n\r\t\x7f", "<&>\u2028\u2029", "\ufffd", "{[,:]}", "null", strings.Repeat("é", 300)})
}

func (g generator) integer() int64 {
	if g.IntN(2) == 0 {
		return oneOf(g, []int64{0, 1, -1, 9, 10, 1<<53 + 1, -1<<53 - 1, 1e18, 999_999_999_999_999_999, math.MaxInt64, -math.MaxInt64, math.MinInt64})
	}
	return int64(g.Uint64()) >> g.IntN(64)
}

func (g generator) number() float64 {
	switch g.IntN(3) {
	case 0:
		return oneOf(g, []float64{0, math.Copysign(0, -1), 1, -1.5, 1e21, 9.99e20, 1e-6, 9.9e-7, 1 << 53, 1<<53 + 2, 0.1 + 0.2,
			math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 2.2250738585072014e-308})
	case 1:
		return math.Round(g.Float64()*3.6e8-1.8e8) / 1e6 // a coordinate
	}
	for {
		if f := math.Float64frombits(g.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
}

// time makes a Go time of some zone, or one that was read.
func (g generator) time() activityschema.Time {
	if g.IntN(3) == 0 {
		var t activityschema.Time
		text := oneOf(g, []string{
			"2016-12-31T23:59:60Z", "2016-12-31t15:59:60.250-08:00", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:60z",
			"2026-05-17T06:30:00.12345678901234Z", "2026-05-17T06:30:00.500-00:00", "2024-02-29t06:30:00+00:00",
		})
		if err := t.UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
		return t
	}
	zone := oneOf(g, []*time.Location{
		time.UTC, time.FixedZone("", 2*3600), time.FixedZone("", -(23*3600 + 59*60)), time.FixedZone("LMT", 1172),
		time.FixedZone("", -59), time.FixedZone("", 24*3600), time.FixedZone("", -100*3600),
	})
	nanosecond := oneOf(g, []int{0, 0, 1, 999_999_999, 500_000_000})
	year := oneOf(g, []int{1, 1582, 1969, 1970, 2026, 9998})
	return activityschema.Time{Time: time.Date(year, time.Month(1+g.IntN(12)), 1+g.IntN(28), g.IntN(24), g.IntN(60), g.IntN(60), nanosecond, zone)}
}

func (g generator) custom() map[string]json.RawMessage {
	if g.IntN(4) == 0 {
		return nil
	}
	object := map[string]json.RawMessage{}
	for range g.IntN(4) {
		value := json.RawMessage(oneOf(g, []string{
			`null`, `true`, `0`, `-0.0`, `1e300`, `12345678901234567890.123456789`, `"\ud83d \u003c<"`, `""`, ` [ 1 , { "a" : [ ] } ] `,
			`{"a":{"a":{"~/":1}},"b":[[[null]]]}`, `[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]`,
		}))
		if g.IntN(8) == 0 {
			value = nil
		}
		object[fmt.Sprint(oneOf(g, []string{"", "t", "ID", "~/", "été", "\"\\", "a\n"}), g.IntN(2))] = value
	}
	return object
}

// sameDocument compares what two documents say: times as written, custom
// members as JSON, what lies behind a null not at all, nor what decoding replaced.
var sameDocument = cmp.Options{
	cmp.Comparer(func(a, b activityschema.Time) bool { return a.String() == b.String() && a.Equal(b) }),
	cmp.Comparer(func(a, b json.RawMessage) bool { return reflect.DeepEqual(rawValue(a), rawValue(b)) }),
	cmpopts.IgnoreFields(activityschema.Document{}, "LoneSurrogates"),
	cmp.Comparer(sameNull[int64]),
	cmp.Comparer(sameNull[float64]),
}

func sameNull[T int64 | float64](a, b activityschema.Null[T]) bool {
	return a.Valid == b.Valid && (!a.Valid || a.Value == b.Value && math.Signbit(float64(a.Value)) == math.Signbit(float64(b.Value)))
}

// rawValue decodes a custom member with its numbers as written.
func rawValue(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// asWritten replaces what is nil and written all the same.
func asWritten(d activityschema.Document) activityschema.Document {
	if d.Index != nil {
		x := *d.Index
		if x.Activities == nil {
			x.Activities = []activityschema.Summary{}
		}
		return activityschema.Document{Index: &x}
	}
	x := *d.Detail
	if x.Laps == nil {
		x.Laps = []activityschema.Lap{}
	}
	if x.Timeseries.T == nil {
		x.Timeseries.T = activityschema.Integers{}
	}
	if x.Custom == nil {
		x.Custom = map[string]json.RawMessage{}
	}
	return activityschema.Document{Detail: &x}
}

// written marshals v, which must go well.
func written(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

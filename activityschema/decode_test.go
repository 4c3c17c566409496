package activityschema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

func TestDecodedDocumentRoundTrips(t *testing.T) {
	for name, data := range corpus(t, "valid", leastValid) {
		decoded, found, err := activityschema.Decode(t.Context(), bytes.NewReader(data))
		if name == "detail-integers-as-written.json" {
			if err != nil || decoded == nil || len(found) != 2 || found[0].Pointer != "/timeseries/t/3" ||
				found[0].Keyword != activityschema.KeywordInteger || found[0].Line == 0 {
				t.Errorf("%s: %+v, %v; want two integers that do not fit", name, found, err)
			}
			continue
		}
		if err != nil || found != nil || (decoded.Index == nil) == (decoded.Detail == nil) {
			t.Fatalf("%s: %v, %+v, %v", name, decoded, found, err)
		}
		again := written(t, decoded)
		if found := problems(t, again); len(found) > 0 {
			t.Errorf("%s: written with problems %+v", name, found)
		}
		equal(t, fmt.Sprintf("%s (-read +written)", name), content(t, again), content(t, data))
	}
}

// content decodes a document to any, without nulls that stand for absence.
func content(t *testing.T, data []byte) any {
	t.Helper()
	var root map[string]any
	must(t, json.Unmarshal(data, &root))
	optional := func(object any, but string) {
		maps.DeleteFunc(object.(map[string]any), func(name string, v any) bool { return v == nil && name != but })
	}
	optional(root, "")
	for _, list := range []string{"laps", "activities"} {
		items, _ := root[list].([]any)
		for _, item := range items {
			optional(item, "duration_s")
		}
	}
	for _, name := range []string{"owner", "timeseries"} {
		if root[name] != nil {
			optional(root[name], "")
		}
	}
	activities, _ := root["activities"].([]any)
	for _, summary := range activities {
		optional(summary, "")
	}
	return root
}

func TestInvalidDocumentIsNotDecoded(t *testing.T) {
	for name, data := range corpus(t, "invalid", leastInvalid) {
		decoded, found, err := activityschema.Decode(t.Context(), bytes.NewReader(data))
		if err != nil || decoded != nil {
			t.Errorf("%s: decoded to %+v, error %v", name, decoded, err)
		}
		equal(t, fmt.Sprintf("%s (-Validate +Decode)", name), found, problems(t, data))
	}
}

func TestUnreadableDocumentIsNotDecoded(t *testing.T) {
	broken := errors.New("the disk is gone")
	whole := bytes.NewReader(document(t, "index-full.json"))
	decoded, found, err := activityschema.Decode(t.Context(), io.MultiReader(whole, iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || decoded != nil || found != nil {
		t.Errorf("%+v, %+v, error %v; want %v", decoded, found, err, broken)
	}
	decoded, found, err = activityschema.Decode(t.Context(), iotest.OneByteReader(bytes.NewReader(document(t, "index-full.json"))))
	if err != nil || found != nil || decoded.Index == nil || len(decoded.Index.Activities) == 0 {
		t.Errorf("read byte by byte: %+v, %+v, %v", decoded, found, err)
	}
}

// Member order, white space, and escapes say nothing.
func TestSpellingDoesNotChangeTheDecodedDocument(t *testing.T) {
	plain := `{"bas_version":"1.0","owner":{"handle":"mira","display_name":"Mira"},"generated_at":"2026-05-17T20:00:00Z","activities":[]}`
	other := "\r\n{\t\"activities\" :\n[ ] , \"\\u0067enerated_at\": \"2026-05-17\\u005420:00:00Z\", \"owner\" : {\"avatar_url\":null," +
		"\"display_name\":\"M\\u0069ra\",\"handle\":\"mira\" } ,\"bas_version\": \"1.\\u0030\"} \n"
	if diff := cmp.Diff(decoded(t, plain), decoded(t, other), sameDocument); diff != "" {
		t.Errorf("(-plain +other):\n%s", diff)
	}
}

// decoded returns text as a document, which it must be.
func decoded(t *testing.T, text string) *activityschema.Document {
	t.Helper()
	d, found, err := activityschema.Decode(t.Context(), strings.NewReader(text))
	if err != nil || found != nil {
		t.Fatalf("problems %+v, error %v", found, err)
	}
	return d
}

func TestIntegersDecodeExactly(t *testing.T) {
	const beyond = true
	for _, c := range []struct {
		literal string
		want    int64
		beyond  bool
	}{
		{"0", 0, false},
		{"-0", 0, false},
		{"0.000", 0, false},
		{"-0e0", 0, false},
		{"0e99999999999999999999", 0, false},
		{"0.0E-99999999999999999999", 0, false},
		{"1.0", 1, false},
		{"1e3", 1000, false},
		{"1E+3", 1000, false},
		{"10e-1", 1, false},
		{"-20e-1", -2, false},
		{"1.5e1", 15, false},
		{"12345.6789e4", 123456789, false},
		{"0.000000000000000000001e21", 1, false},
		{"1000000000000000000000e-3", 1e18, false},
		{"9007199254740993", 1<<53 + 1, false},
		{"9007199254740993.0", 1<<53 + 1, false},
		{"-9007199254740993e0", -1<<53 - 1, false},
		{"999999999999999999", 999_999_999_999_999_999, false},
		{"9223372036854775807", math.MaxInt64, false},
		{"9.223372036854775807e18", math.MaxInt64, false},
		{"92233720368547758070e-1", math.MaxInt64, false},
		{"-9223372036854775807", -math.MaxInt64, false},
		{"-9223372036854775808", math.MinInt64, false},
		{"-9223372036854775808.000", math.MinInt64, false},
		{"9223372036854775808", math.MaxInt64, beyond},
		{"-9223372036854775809", math.MinInt64, beyond},
		{"9999999999999999999", math.MaxInt64, beyond},
		{"18446744073709551616", math.MaxInt64, beyond},
		{"18446744073709551617.0", math.MaxInt64, beyond},
		{"100000000000000000000000000000000000000000", math.MaxInt64, beyond},
		{"1e19", math.MaxInt64, beyond},
		{"1e300", math.MaxInt64, beyond},
		{"-1e300", math.MinInt64, beyond},
	} {
		for _, place := range []struct {
			pointer, before, after string
			at                     func(d *activityschema.Detail) int64
		}{
			{"/timeseries/t/1", `"timeseries":{"t":[7, `, `]},"laps":[]`, func(d *activityschema.Detail) int64 { return d.Timeseries.T[1] }},
			{"/timeseries/power_w/2", `"timeseries":{"t":[],"power_w":[null,7,`, ` ,7]},"laps":[]`, func(d *activityschema.Detail) int64 { return d.Timeseries.PowerW[2].Value }},
			{"/laps/1/duration_s", `"timeseries":{"t":[]},"laps":[{"index":0,"started_at":"2026-05-17T06:30:00Z","duration_s":null},{"index":1,"started_at":"2026-05-17T06:30:00Z","duration_s":`,
				`}]`, func(d *activityschema.Detail) int64 { return *d.Laps[1].DurationS }},
		} {
			text := `{"bas_version":"1.0","id":"x","title":"","sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"public","custom":{},` +
				place.before + c.literal + place.after + "}"
			d, found, err := activityschema.Decode(t.Context(), strings.NewReader(text))
			if err != nil || place.at(d.Detail) != c.want {
				t.Errorf("%s at %s: %+v, error %v, want %d", c.literal, place.pointer, d, err, c.want)
			}
			if (len(found) == 1) != c.beyond || c.beyond &&
				(found[0].Pointer != place.pointer || !strings.HasPrefix(text[found[0].Offset:], c.literal)) {
				t.Errorf("%s at %s: problems %+v", c.literal, place.pointer, found)
			}
		}
	}
}

func TestDecodedCustomMemberKeepsItsText(t *testing.T) {
	text := `{"bas_version":"1.0","id":"x","title":"","sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"public","laps":[],"timeseries":{"t":[]},` +
		`"custom":{"n": 1.000000000000000000001 ,"o": { "a" : [ 1, "]}" ] },"":null}}`
	data := []byte(text)
	d, err := activityschema.DecodeValid(activityschema.FormDetail, data)
	must(t, err)
	clear(data) // the document does not keep hold of what it was read from
	want := map[string]jsontext.Value{"n": jsontext.Value("1.000000000000000000001"), "o": jsontext.Value(`{ "a" : [ 1, "]}" ] }`), "": jsontext.Value("null")}
	got := d.Detail.Custom
	same(t, fmt.Sprintf("%q, %q", got, want), fmt.Sprintf("%q", got), fmt.Sprintf("%q", want))
}

// written returns a value as JSON.
func written(t *testing.T, d any) []byte {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatalf("%v: %+v", err, d)
	}
	return data
}

// sameDocument compares times as instants.
var sameDocument = cmp.Comparer(func(a, b activityschema.Time) bool { return a.Equal(b) })

func TestInvalidValueIsNotWritten(t *testing.T) {
	for name, change := range map[string]func(d *activityschema.Detail){
		"/id":           func(d *activityschema.Detail) { d.ID = "" },
		"/bas_version":  func(d *activityschema.Detail) { d.Version = "1.1" },
		"/sport":        func(d *activityschema.Detail) { d.Sport = "rowing" },
		"/laps/0/index": func(d *activityschema.Detail) { d.Laps = []activityschema.Lap{{Index: -1}} },
		"/timeseries/lat/1": func(d *activityschema.Detail) {
			d.Timeseries.Lat = activityschema.Column[float64]{{}, activityschema.Some(math.NaN())}
		},
		"/timeseries/speed_kmh/0": func(d *activityschema.Detail) {
			d.Timeseries.SpeedKmh = activityschema.Column[float64]{activityschema.Some(math.Inf(1))}
		},
		"/distance_m": func(d *activityschema.Detail) { nan := math.NaN(); d.DistanceM = &nan },
		"/title":      func(d *activityschema.Detail) { d.Title = "\xff" },
		"/started_at": func(d *activityschema.Detail) { d.StartedAt.Time = d.StartedAt.AddDate(9000, 0, 0) },
		"/custom/a":   func(d *activityschema.Detail) { d.Custom = map[string]jsontext.Value{"a": jsontext.Value("{")} },
	} {
		d := decoded(t, string(document(t, "detail-minimal.json"))).Detail
		change(d)
		if data, err := json.Marshal(d); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %s, error %v", name, data, err)
		}
	}
	for _, d := range []activityschema.Document{{},
		{Index: new(activityschema.Index), Detail: new(activityschema.Detail)}} {
		if data, err := json.Marshal(d); err == nil {
			t.Errorf("neither form, or both: %s", data)
		}
	}
}

// What is nil is written as the format has it.
func TestNilIsWrittenAsTheFormatHasIt(t *testing.T) {
	d := decoded(t, string(document(t, "detail-minimal.json")))
	d.Detail.Laps, d.Detail.Custom, d.Detail.Timeseries = nil, nil,
		activityschema.Timeseries{HRBpm: activityschema.Column[int64]{{}, activityschema.Some[int64](140)}}
	var got map[string]any
	must(t, json.Unmarshal(written(t, d), &got))
	want := map[string]any{"laps": []any{}, "custom": map[string]any{}, "timeseries": map[string]any{"t": []any{}, "hr_bpm": []any{nil, 140.0}}}
	for name, value := range want {
		equal(t, name, got[name], value)
	}
}

// encoding/json takes a document whole, and no other.
func TestUnmarshalTakesOnlyAValidDocumentOfItsForm(t *testing.T) {
	index, detail := document(t, "index-full.json"), document(t, "detail-full.json")
	var x activityschema.Index
	var d activityschema.Detail
	if err := errors.Join(json.Unmarshal(index, &x), json.Unmarshal(detail, &d)); err != nil ||
		len(x.Activities) == 0 || len(d.Laps) == 0 {
		t.Fatal(err)
	}
	if err := json.Unmarshal(detail, &x); err == nil || !strings.Contains(err.Error(), "detail document") {
		t.Errorf("a detail as an index: %v", err)
	}
	if err := json.Unmarshal(index, &d); err == nil || !strings.Contains(err.Error(), "index document") {
		t.Errorf("an index as a detail: %v", err)
	}
	err := json.Unmarshal([]byte(`{"laps":[]}`), &d)
	if invalid, ok := errors.AsType[*activityschema.InvalidError](err); !ok || len(invalid.Problems) == 0 {
		t.Errorf("an invalid detail: %v", err)
	}
}

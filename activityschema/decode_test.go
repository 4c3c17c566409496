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

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

func TestDecodedDocumentIsNeverWrittenAsAnother(t *testing.T) {
	for name, data := range corpus(t, "valid", leastValid) {
		decoded, found, err := activityschema.Decode(t.Context(), bytes.NewReader(data))
		if name == "detail-integers-as-written.json" {
			if e, ok := errors.AsType[*activityschema.RangeError](err); !ok || e.Pointer != "/timeseries/t/3" || decoded != nil || found != nil {
				t.Errorf("%s: %v, %+v, %v; want the range error of /timeseries/t/3", name, decoded, found, err)
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
		if diff := cmp.Diff(content(t, data), content(t, again)); diff != "" {
			t.Errorf("%s (-read +written):\n%s", name, diff)
		}
	}
}

// content decodes a document to any, without nulls that stand for absence.
func content(t *testing.T, data []byte) any {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
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

func TestInvalidDocumentIsNeverDecoded(t *testing.T) {
	for name, data := range corpus(t, "invalid", leastInvalid) {
		decoded, found, err := activityschema.Decode(t.Context(), bytes.NewReader(data))
		if err != nil || decoded != nil {
			t.Errorf("%s: decoded to %+v, error %v", name, decoded, err)
		}
		if diff := cmp.Diff(problems(t, data), found); diff != "" {
			t.Errorf("%s (-Validate +Decode):\n%s", name, diff)
		}
	}
}

func TestUnreadableDocumentIsNeverDecoded(t *testing.T) {
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
func TestDocumentIsNeverDecodedByItsLooks(t *testing.T) {
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

func TestIntegerIsNeverDecodedToAnother(t *testing.T) {
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
		{"-9223372036854775809", -math.MaxInt64, beyond},
		{"9999999999999999999", math.MaxInt64, beyond},
		{"18446744073709551616", math.MaxInt64, beyond},
		{"18446744073709551617.0", math.MaxInt64, beyond},
		{"100000000000000000000000000000000000000000", math.MaxInt64, beyond},
		{"1e19", math.MaxInt64, beyond},
		{"1e300", math.MaxInt64, beyond},
		{"-1e300", -math.MaxInt64, beyond},
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
			saturated, saturatedErr := activityschema.DecodeDocument([]byte(text), true)
			if found != nil || saturatedErr != nil || place.at(saturated.Detail) != c.want {
				t.Errorf("%s at %s: problems %+v, saturated %+v, %v; want %d", c.literal, place.pointer, found, saturated, saturatedErr, c.want)
			}
			if c.beyond {
				if e, ok := errors.AsType[*activityschema.RangeError](err); !ok || e.Pointer != place.pointer || !strings.Contains(err.Error(), place.pointer) {
					t.Errorf("%s: error %v, want the range error of %s", c.literal, err, place.pointer)
				}
			} else if err != nil || place.at(d.Detail) != c.want {
				t.Errorf("%s at %s: %+v, error %v, want %d", c.literal, place.pointer, d, err, c.want)
			}
		}
	}
}

// What lint decodes was validated before; all the same nothing makes the
// decoder panic, and a document cut short is not taken for a whole one.
func TestCutDocumentIsNeverDecoded(t *testing.T) {
	for _, name := range []string{"detail-full.json", "index-full.json", "detail-custom-is-free.json"} {
		data := bytes.TrimSpace(document(t, name))
		for i := range data {
			if d, err := activityschema.DecodeDocument(data[:i], true); err == nil {
				t.Fatalf("%s up to byte %d: %+v", name, i, d)
			}
		}
	}
	for _, text := range []string{
		"", "null", "[]", "{}", `{"custom":{}}`[:12], `{"laps":{}}`, `{"laps":[1]}`, `{"laps":[{"index":1.5}]}`, `{"bbox":[1,2,3,4,5]}`, `{"title":"\q"}`,
		`{"started_at":"today"}`, `{"started_at":1}`, `{"timeseries":{"t":null}}`, `{"timeseries":{"t":[1,]}}`, `{"timeseries":{"lat":[nul]}}`,
		`{"timeseries":{"lat":["1"]}}`, `{"timeseries":{"lat":[1e999]}}`, `{"timeseries":{"lat":[-]}}`, `{"custom":{"a":}}`, `{"bas_version":"1.0"}`,
	} {
		if d, err := activityschema.DecodeDocument([]byte(text), true); err == nil {
			t.Errorf("%s: %+v", text, d)
		}
	}
}

func TestDecodedCustomMemberIsNeverChanged(t *testing.T) {
	text := `{"bas_version":"1.0","id":"x","title":"","sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"public","laps":[],"timeseries":{"t":[]},` +
		`"custom":{"n": 1.000000000000000000001 ,"s":"\ud83d","o": { "a" : [ 1, "]}" ] },"":null}}`
	data := []byte(text)
	d, err := activityschema.DecodeDocument(data, false)
	if err != nil {
		t.Fatal(err)
	}
	clear(data) // the document does not keep hold of what it was read from
	want := map[string]json.RawMessage{"n": json.RawMessage("1.000000000000000000001"), "s": json.RawMessage(`"\ud83d"`), "o": json.RawMessage(`{ "a" : [ 1, "]}" ] }`), "": json.RawMessage("null")}
	if got := d.Detail.Custom; fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%q, want %q", got, want)
	}
}

package activityschema_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

func TestEmbeddedSchemaCompiles(t *testing.T) {
	if err := activityschema.Ready(); err != nil {
		t.Error(err)
	}
	if err := activityschema.CompilePlan(activityschema.Schema()); err != nil {
		t.Error(err)
	}
}

// What the scanner does not implement stops the program before its first
// document, and so does a schema that breaks what the scanner rests on.
func TestUnsupportedSchemaFailsToCompile(t *testing.T) {
	type object = map[string]any
	for name, c := range map[string]struct {
		change func(root, defs object)
		says   string
	}{
		"keyword at the root":        {func(root, _ object) { root["minProperties"] = 1 }, `unknown object member name "minProperties"`},
		"$id":                        {func(root, _ object) { root["$id"] = "https://example.org" }, `unknown object member name "$id"`},
		"three forms":                {func(root, _ object) { root["oneOf"] = append(root["oneOf"].([]any), object{}) }, "oneOf is not over the two forms"},
		"forms turned round":         {func(root, _ object) { o := root["oneOf"].([]any); o[0], o[1] = o[1], o[0] }, "oneOf does not refer to the form index"},
		"keyword beside a form":      {func(root, _ object) { root["oneOf"].([]any)[0].(object)["type"] = "object" }, "has a keyword beside it"},
		"unknown keyword":            {func(_, defs object) { defs["lap"].(object)["maxProperties"] = 3 }, `unknown object member name "maxProperties"`},
		"keyword deep inside":        {func(_, defs object) { defs["sport"].(object)["pattern"] = "." }, `unknown object member name "pattern"`},
		"misspelt keyword":           {func(_, defs object) { defs["bbox"].(object)["MinItems"] = 1 }, `unknown object member name "MinItems"`},
		"keyword beside a reference": {func(_, defs object) { property(defs, "detail", "sport")["minLength"] = 1 }, "has a keyword beside it"},
		"reference to nothing":       {func(_, defs object) { property(defs, "detail", "sport")["$ref"] = "#/$defs/x" }, "leads nowhere"},
		"reference to itself": {func(_, defs object) {
			defs["lap"].(object)["properties"].(object)["index"] = object{"$ref": "#/$defs/lap"}
		}, "refers to itself"},
		"unknown type":              {func(_, defs object) { defs["sport"].(object)["type"] = "text" }, `type "text" is not supported`},
		"type that is no text":      {func(_, defs object) { defs["sport"].(object)["type"] = []any{"string", 1} }, "/$defs/sport/type/1"},
		"no type":                   {func(_, defs object) { delete(defs["sport"].(object), "type") }, "without a type"},
		"no types":                  {func(_, defs object) { defs["sport"].(object)["type"] = []any{} }, "without a type"},
		"unknown format":            {func(_, defs object) { property(defs, "lap", "started_at")["format"] = "date" }, "only date-time, 0 and false"},
		"minimum that is not 0":     {func(_, defs object) { property(defs, "lap", "index")["minimum"] = 1 }, "only date-time, 0 and false"},
		"negative minimum":          {func(_, defs object) { property(defs, "lap", "index")["minimum"] = -1 }, "only date-time, 0 and false"},
		"fraction of an item":       {func(_, defs object) { defs["bbox"].(object)["minItems"] = 1.5 }, "/$defs/bbox/minItems"},
		"negative length":           {func(_, defs object) { property(defs, "detail", "id")["minLength"] = -1 }, "/$defs/detail/properties/id/minLength"},
		"length that is no number":  {func(_, defs object) { defs["bbox"].(object)["maxItems"] = "4" }, "/$defs/bbox/maxItems"},
		"const that is no text":     {func(_, defs object) { property(defs, "detail", "bas_version")["const"] = 1 }, "/$defs/detail/properties/bas_version/const"},
		"const of a number":         {func(_, defs object) { property(defs, "detail", "bas_version")["type"] = []any{"string", "number"} }, "const: only a string"},
		"enum of numbers":           {func(_, defs object) { defs["sport"].(object)["enum"] = []any{"x", 1} }, "/$defs/sport/enum/1"},
		"enum that is no list":      {func(_, defs object) { defs["sport"].(object)["enum"] = "cycling" }, "/$defs/sport/enum"},
		"enum that hides null":      {func(_, defs object) { defs["source"].(object)["enum"] = []any{"wahoo"} }, "null where the type allows it"},
		"enum of objects":           {func(_, defs object) { defs["sport"].(object)["type"] = []any{"string", "object"} }, "enum: only strings"},
		"open object with members":  {func(_, defs object) { delete(defs["lap"].(object), "additionalProperties") }, "must list its members and forbid others"},
		"closed object without any": {func(_, defs object) { property(defs, "detail", "custom")["additionalProperties"] = false }, "must list its members and forbid others"},
		"additional members":        {func(_, defs object) { defs["lap"].(object)["additionalProperties"] = true }, "only date-time, 0 and false"},
		"schema of additional ones": {func(_, defs object) { defs["lap"].(object)["additionalProperties"] = object{"type": "null"} }, "/$defs/lap/additionalProperties"},
		"free object that requires": {func(_, defs object) { property(defs, "detail", "custom")["required"] = []any{"x"} }, `member "x" is not listed`},
		"required, but not listed":  {func(_, defs object) { defs["lap"].(object)["required"] = []any{"lap"} }, `member "lap" is not listed`},
		"required is no list":       {func(_, defs object) { defs["lap"].(object)["required"] = "index" }, "/$defs/lap/required"},
		"items is no schema":        {func(_, defs object) { defs["bbox"].(object)["items"] = true }, "/$defs/bbox/items"},
		"member is no schema":       {func(_, defs object) { defs["lap"].(object)["properties"].(object)["index"] = true }, "/$defs/lap/properties/index"},
		"no member":                 {func(_, defs object) { defs["lap"].(object)["properties"] = object{} }, "must list its members and forbid others"},
		"form that is no object":    {func(_, defs object) { defs["index"].(object)["type"] = []any{"object", "null"} }, "is no closed object"},
		"form that is free": {func(_, defs object) {
			defs["index"] = object{"type": "object"}
		}, "is no closed object"},
		"forms that overlap": {func(_, defs object) {
			for _, name := range []string{"owner", "generated_at", "activities"} {
				defs["detail"].(object)["properties"].(object)[name] = defs["index"].(object)["properties"].(object)[name]
			}
		}, "no member that an index must have is forbidden in a detail"},
		"member that tells the form in both": {func(_, defs object) {
			defs["detail"].(object)["properties"].(object)["shards"] = object{"type": "null"}
		}, `member "shards" differs between the forms`},
		"member that tells the form in none": {func(_, defs object) {
			delete(defs["index"].(object)["properties"].(object), "shards")
		}, "member shards is not one of the form index alone"},
		"member of both that differs": {func(_, defs object) {
			property(defs, "index", "bas_version")["const"] = "1.1"
		}, `member "bas_version" differs between the forms`},
	} {
		var root object
		must(t, json.Unmarshal(activityschema.Schema(), &root))
		c.change(root, root["$defs"].(object))
		schema, err := json.Marshal(root)
		must(t, err)
		if err := activityschema.CompilePlan(schema); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
	if err := activityschema.CompilePlan([]byte("{")); err == nil {
		t.Error("a schema that is no JSON compiles")
	}
}

// property returns the schema of one member of a definition.
func property(defs map[string]any, object, name string) map[string]any {
	return defs[object].(map[string]any)["properties"].(map[string]any)[name].(map[string]any)
}

// What the embedded schema does not make use of is right all the same.
func TestOtherSchemasEqualTheOracle(t *testing.T) {
	values := []string{
		`null`, `true`, `false`, `-1`, `-0`, `0`, `1.0`, `1.5`, `-1.5`, `1e2`, `-1e2`, `12345678901234567890`, `-12345678901234567890`,
		`""`, `"a"`, `"b"`, `"ab"`, `"abc"`, `"äö"`, `"äöü"`, `"\u00e4öü"`, `"🚴🚴"`, `"\ud83d\udeb4🚴x"`, `"` + strings.Repeat("ä", 300) + `"`,
		`{}`, `{"a":1}`, `[]`, `[0]`, `[-1]`, `[1,-1]`, `[-1,1]`, `[1,null]`, `[1,1]`, `[1.5]`, `[null]`, `[null,null]`, `[null,1]`, `[1,null,2]`, `["abc"]`, `["ab",1]`, `[true]`,
		`[[]]`, `[[1],[2]]`, `[[1,2]]`, `[[null]]`, `[{}]`, `[1,[2,{"a":[3]}]]`,
	}
	accepted := 0
	for _, row := range []string{
		`{"type":"string","minLength":3}`,
		`{"type":["string","integer"],"minLength":2,"minimum":0}`,
		`{"type":"string","enum":["a","abc"],"minLength":2}`,
		`{"type":["null","string"],"enum":[null,"äöü"]}`,
		`{"type":"string","const":""}`,
		`{"type":"number","minimum":0}`,
		`{"type":"boolean"}`,
		`{"type":["boolean","array","null"]}`,
		`{"type":["object","number"]}`,
		`{"type":"array","items":{"type":"integer","minimum":0}}`,
		`{"type":"array","items":{"type":["number","null"],"minimum":0}}`,
		`{"type":"array","items":{"type":"null"},"maxItems":2}`,
		`{"type":"array","items":{"type":["string","integer"],"minLength":3}}`,
		`{"type":"array","items":{"type":["number","boolean"]},"minItems":1}`,
		`{"type":"array","items":{"type":"array","items":{"type":"number"},"maxItems":1}}`,
		`{"type":"array","items":{"type":"object"},"minItems":1,"maxItems":1}`,
		`{"type":"array","maxItems":0}`,
	} {
		var root map[string]any
		must(t, json.Unmarshal(activityschema.Schema(), &root))
		root["$defs"].(map[string]any)["detail"].(map[string]any)["properties"].(map[string]any)["gear"] = json.RawMessage(row)
		schema, err := json.Marshal(root)
		must(t, err)
		oracle := compile(t, decode(t, []byte(row)))
		for _, value := range values {
			data := []byte(`{"bas_version":"1.0","id":"x","title":"","sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"public","laps":[],"timeseries":{"t":[]},"custom":{},"gear":` + value + `}`)
			found, err := activityschema.ValidateAgainst(t.Context(), schema, bytes.NewReader(data))
			if err != nil {
				t.Fatalf("%s: %v", row, err)
			}
			want := oracle.Validate(decode(t, []byte(value))) == nil
			if want {
				accepted++
			}
			if got := len(found) == 0; got != want {
				t.Errorf("%.60s by %s: %v, want accepted %t", value, row, found, want)
			}
		}
	}
	if accepted < 80 {
		t.Errorf("only %d values were to be accepted", accepted)
	}
}

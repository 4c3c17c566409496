package activityschema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// A field is one row of a table of the specification; shape is a key of shapes
// or the name of another table, "[]" before it means an array of them.
type field struct {
	name, shape string
	required    bool
}

const required = true

// shapes are the value types of the specification in the schema's words.
var shapes = map[string]string{
	"string":          `{"type":"string"}`,
	"string, min 1":   `{"type":"string","minLength":1}`,
	"string|null":     `{"type":["string","null"]}`,
	"date-time":       `{"type":"string","format":"date-time"}`,
	"version":         `{"type":"string","const":"1.0"}`,
	"integer":         `{"type":"integer"}`,
	"integer, min 0":  `{"type":"integer","minimum":0}`,
	"integer|null":    `{"type":["integer","null"]}`,
	"number|null":     `{"type":["number","null"]}`,
	"object":          `{"type":"object"}`,
	"sport":           `{"type":"string","enum":["cycling","running","hiking","walking","swimming","other"]}`,
	"sub_sport":       `{"type":["string","null"],"enum":["road","mountain","gravel","indoor","trail","track",null]}`,
	"privacy":         `{"type":"string","enum":["public","blur_start","no_gps","private"]}`,
	"source":          `{"type":["string","null"],"enum":["strava_export","garmin_connect","wahoo","komoot","gpx_file","fit_file","tcx_file","karoo","manual",null]}`,
	"latlng":          `{"type":["array","null"],"items":{"type":"number"},"minItems":2,"maxItems":2}`,
	"bbox":            `{"type":["array","null"],"items":{"type":"number"},"minItems":4,"maxItems":4}`,
	"[]integer":       `{"type":"array","items":{"type":"integer"}}`,
	"[]integer|null":  `{"type":"array","items":{"type":["integer","null"]}}`,
	"[]number|null":   `{"type":"array","items":{"type":["number","null"]}}`,
	"[]number|null 0": `{"type":["array","null"],"items":{"type":["number","null"]}}`,
}

// tables are the specification's objects; each forbids members not listed.
var tables = map[string][]field{
	"lap": {
		{"index", "integer, min 0", required},
		{"started_at", "date-time", required},
		{"duration_s", "integer|null", required},
		{"distance_m", "number|null", false},
		{"elevation_gain_m", "number|null", false},
		{"avg_speed_kmh", "number|null", false},
		{"avg_hr_bpm", "integer|null", false},
		{"avg_power_w", "integer|null", false},
	},
	"timeseries": {
		{"t", "[]integer", required},
		{"lat", "[]number|null 0", false},
		{"lon", "[]number|null 0", false},
		{"elevation_m", "[]number|null", false},
		{"speed_kmh", "[]number|null", false},
		{"hr_bpm", "[]integer|null", false},
		{"cadence_rpm", "[]integer|null", false},
		{"power_w", "[]integer|null", false},
		{"temperature_c", "[]number|null", false},
	},
	"activity_summary": {
		{"id", "string, min 1", required},
		{"title", "string", required},
		{"sport", "sport", required},
		{"sub_sport", "sub_sport", false},
		{"started_at", "date-time", required},
		{"distance_m", "number|null", false},
		{"duration_s", "integer|null", false},
		{"moving_time_s", "integer|null", false},
		{"elevation_gain_m", "number|null", false},
		{"avg_speed_kmh", "number|null", false},
		{"max_speed_kmh", "number|null", false},
		{"avg_hr_bpm", "integer|null", false},
		{"max_hr_bpm", "integer|null", false},
		{"avg_cadence_rpm", "integer|null", false},
		{"avg_power_w", "integer|null", false},
		{"source", "source", false},
		{"privacy", "privacy", required},
		{"detail_url", "string|null", false},
		{"track_url", "string|null", false},
	},
	"owner": {
		{"handle", "string, min 1", required},
		{"display_name", "string", required},
		{"avatar_url", "string|null", false},
	},
	"shard": {
		{"year", "integer", required},
		{"url", "string", required},
		{"count", "integer", required},
	},
	"index": {
		{"bas_version", "version", required},
		{"owner", "owner", required},
		{"generated_at", "date-time", required},
		{"shards", "[]shard", false},
		{"activities", "[]activity_summary", required},
	},
	"detail": {
		{"bas_version", "version", required},
		{"id", "string, min 1", required},
		{"title", "string", required},
		{"description", "string|null", false},
		{"sport", "sport", required},
		{"sub_sport", "sub_sport", false},
		{"started_at", "date-time", required},
		{"distance_m", "number|null", false},
		{"duration_s", "integer|null", false},
		{"moving_time_s", "integer|null", false},
		{"elevation_gain_m", "number|null", false},
		{"elevation_loss_m", "number|null", false},
		{"avg_speed_kmh", "number|null", false},
		{"max_speed_kmh", "number|null", false},
		{"avg_hr_bpm", "integer|null", false},
		{"max_hr_bpm", "integer|null", false},
		{"avg_cadence_rpm", "integer|null", false},
		{"avg_power_w", "integer|null", false},
		{"max_power_w", "integer|null", false},
		{"gear", "string|null", false},
		{"device", "string|null", false},
		{"bbox", "bbox", false},
		{"start_latlng", "latlng", false},
		{"end_latlng", "latlng", false},
		{"laps", "[]lap", required},
		{"timeseries", "timeseries", required},
		{"source", "source", false},
		{"source_file", "string|null", false},
		{"source_hash", "string|null", false},
		{"strava_id", "string|null", false},
		{"duplicate_of", "string|null", false},
		{"privacy", "privacy", required},
		{"custom", "object", required},
	},
}

// schemaOf writes the schema that the tables ask for.
func schemaOf(shape string) map[string]any {
	if text, ok := shapes[shape]; ok {
		var schema map[string]any
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			panic(err)
		}
		return schema
	}
	if item, ok := strings.CutPrefix(shape, "[]"); ok {
		return map[string]any{"type": "array", "items": schemaOf(item)}
	}
	properties, names := map[string]any{}, []string{}
	for _, f := range tables[shape] {
		properties[f.name] = schemaOf(f.shape)
		if f.required {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return map[string]any{
		"type": "object", "additionalProperties": false, "required": names, "properties": properties,
	}
}

// published returns the schema as published, references expanded and
// annotations taken away.
func published(t *testing.T, schema, defs map[string]any, at string) map[string]any {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		def, _ := defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		if def == nil {
			t.Fatalf("%s refers to %s, which does not exist", at, ref)
		}
		return published(t, def, defs, at)
	}
	plain := maps.Clone(schema)
	delete(plain, "title")
	delete(plain, "description")
	if names, ok := schema["required"].([]any); ok {
		sorted := []string{} // the order says nothing
		for _, name := range names {
			sorted = append(sorted, name.(string))
		}
		slices.Sort(sorted)
		plain["required"] = sorted
	}
	if items, ok := schema["items"].(map[string]any); ok {
		plain["items"] = published(t, items, defs, at+"[]")
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		members := map[string]any{}
		for name, member := range properties {
			members[name] = published(t, member.(map[string]any), defs, at+"."+name)
		}
		plain["properties"] = members
	}
	return plain
}

func readSchema(t *testing.T) (root, defs map[string]any) {
	t.Helper()
	if err := json.Unmarshal(activityschema.Schema(), &root); err != nil {
		t.Fatalf("the schema is not JSON: %v", err)
	}
	defs, _ = root["$defs"].(map[string]any)
	return root, defs
}

func TestSchemaEqualsTheSpecificationsTables(t *testing.T) {
	root, defs := readSchema(t)
	same(t, "$schema", root["$schema"], "https://json-schema.org/draft/2020-12/schema")
	want := []any{map[string]any{"$ref": "#/$defs/index"}, map[string]any{"$ref": "#/$defs/detail"}}
	equal(t, "oneOf", root["oneOf"], want)
	for name := range tables {
		def, _ := defs[name].(map[string]any)
		if diff := cmp.Diff(schemaOf(name), published(t, def, defs, name)); diff != "" {
			t.Errorf("$defs/%s (-specification +schema):\n%s", name, diff)
		}
	}
	for _, name := range []string{"sport", "sub_sport", "privacy", "source", "latlng", "bbox"} {
		def, _ := defs[name].(map[string]any)
		if diff := cmp.Diff(schemaOf(name), published(t, def, defs, name)); diff != "" {
			t.Errorf("$defs/%s (-specification +schema):\n%s", name, diff)
		}
	}
	if got, want := len(defs), len(tables)+6; got != want {
		t.Errorf("%d definitions, want %d: %v", got, want, slices.Sorted(maps.Keys(defs)))
	}
	lacks(t, "the schema has an $id: it is served by many hosts, and the engine races over it",
		string(activityschema.Schema()), `"$id"`)
}

func TestSchemaDescribesEveryPropertyAndUnit(t *testing.T) {
	units := map[string]string{
		"_m": "metres", "_s": "seconds", "_kmh": "kilometres per hour", "_bpm": "beats per minute",
		"_rpm": "revolutions per minute", "_w": "watts", "_c": "degrees Celsius", "lat": "degrees", "lon": "degrees",
	}
	_, defs := readSchema(t)
	for object, fields := range tables {
		def := defs[object].(map[string]any)
		for _, f := range fields {
			property := def["properties"].(map[string]any)[f.name].(map[string]any)
			if ref, ok := property["$ref"].(string); ok && property["title"] == nil {
				property = defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
			}
			title, _ := property["title"].(string)
			description, _ := property["description"].(string)
			if title == "" || !strings.HasSuffix(description, ".") {
				t.Errorf("%s.%s: title %q, description %q", object, f.name, title, description)
			}
			for suffix, unit := range units {
				if strings.HasSuffix(f.name, suffix) && !strings.Contains(description, unit) {
					t.Errorf("%s.%s: description %q does not name the unit %s", object, f.name, description, unit)
				}
			}
		}
	}
}

func TestSchemaReturnsACopy(t *testing.T) {
	clear(activityschema.Schema())
	if !json.Valid(activityschema.Schema()) {
		t.Error("a caller overwrote the embedded schema")
	}
	if found := problems(t, document(t, "detail-full.json")); len(found) > 0 {
		t.Errorf("after a caller changed its copy: %v", found)
	}
}

package activityschema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A random document, with each of its values in turn broken in each way that
// the published schema and I-JSON know: the breakage is found, exactly there
// and as what it is, and nothing else is.
func TestSingleBreakageIsNeverMissed(t *testing.T) {
	root, defs := readSchema(t)
	for _, form := range root["oneOf"].([]any) {
		b := &breaker{T: t, generator: newGenerator(8), found: map[string]int{}}
		schema := published(t, form.(map[string]any), defs, "")
		for range 6 {
			var v any = b.index()
			if schema["properties"].(map[string]any)["laps"] != nil {
				v = b.detail()
			}
			b.root = decode(t, written(t, v))
			b.value(schema, b.root, "", func(v any) { b.root = v })
			if found := problems(t, encode(nil, b.root)); len(found) > 0 {
				t.Fatalf("the document was not restored: %+v", found)
			}
		}
		keywords := []string{"type", "required", "additionalProperties", "const", "enum", "format", "minLength", "duplicate", "number"}
		if schema["properties"].(map[string]any)["laps"] != nil {
			keywords = append(keywords, "minimum", "minItems", "maxItems")
		}
		for _, keyword := range keywords {
			if b.found[keyword] < 3 {
				t.Errorf("breakages %v: too few of %s to prove anything", b.found, keyword)
			}
		}
	}
}

// A breaker holds a decoded document that is valid but for one breakage.
type breaker struct {
	*testing.T
	generator
	root  any
	found map[string]int // breakages by keyword
}

// twice is a member that is to stand twice in its object.
type twice struct{ value any }

// try lets one value be bad, checks what is found, and puts the value back.
func (b *breaker) try(set func(any), good, bad any, pointer, keyword string) {
	b.Helper()
	set(bad)
	data := encode(nil, b.root)
	set(good)
	found := places(problems(b.T, data))
	if !slices.Equal(found, []string{pointer + " " + keyword}) {
		b.Fatalf("found %q, want %q %s in\n%s", found, pointer, keyword, data)
	}
	b.found[keyword]++
}

// value breaks v, which schema describes and which set puts in its place, and
// all within v.
func (b *breaker) value(schema map[string]any, v any, pointer string, set func(any)) {
	try := func(bad any, keyword string) { b.try(set, v, bad, pointer, keyword) }
	try(json.Number("-1e309"), "number")
	if schema != nil {
		for _, bad := range b.wrongTypes(schema) {
			try(bad, "type")
		}
		if schema["const"] != nil {
			try("", "const")
			try("1.1", "const")
		}
		if schema["enum"] != nil {
			try("", "enum")
			try("unlisted", "enum")
			try("Public", "enum")
		}
		if schema["minLength"] != nil {
			try("", "minLength")
		}
		if schema["minimum"] != nil {
			try(json.Number("-1"), "minimum")
			try(json.Number("-1e300"), "minimum")
		}
		if schema["format"] != nil {
			for _, bad := range []string{"", "2026-05-17", "2026-05-17T06:30:00", "2026-02-29T06:30:00Z", "2026-05-17T24:00:00Z", "2026-05-17T06:30:60Z", "2026-05-17 06:30:00Z", "2026-05-17T06:30:00+2:00"} {
				try(bad, "format")
			}
		}
	}
	switch v := v.(type) {
	case map[string]any:
		b.object(schema, v, pointer, set)
	case []any:
		b.array(schema, v, pointer, set)
	}
}

// wrongTypes returns a value of each JSON type that schema does not allow.
func (b *breaker) wrongTypes(schema map[string]any) []any {
	allowed, ok := schema["type"].([]any)
	if !ok {
		allowed = []any{schema["type"]}
	}
	var wrong []any
	for _, c := range []struct {
		name   string
		values []any
	}{
		{"null", []any{nil}},
		{"boolean", []any{true, false}},
		{"integer", []any{json.Number("1"), json.Number("2.0")}},
		{"number", []any{json.Number("1.5"), json.Number("1.0000000000000000001")}},
		{"string", []any{"x", "1", "null"}},
		{"array", []any{[]any{}, []any{nil}}},
		{"object", []any{map[string]any{}, map[string]any{"t": nil}}},
	} {
		if !slices.Contains(allowed, any(c.name)) && (c.name != "integer" || !slices.Contains(allowed, any("number"))) {
			wrong = append(wrong, oneOf(b.generator, c.values))
		}
	}
	return wrong
}

func (b *breaker) object(schema, object map[string]any, pointer string, set func(any)) {
	try := func(change func(o map[string]any), pointer, keyword string) {
		bad := maps.Clone(object)
		change(bad)
		b.try(set, object, bad, pointer, keyword)
	}
	required, _ := schema["required"].([]string)
	for _, name := range required {
		try(func(o map[string]any) { delete(o, name) }, pointer, "required")
	}
	properties, _ := schema["properties"].(map[string]any)
	if schema["additionalProperties"] == false {
		names := append(allNames(), "~/", "Id", "id\x00")
		for range 6 {
			if name := oneOf(b.generator, names); properties[name] == nil {
				value := oneOf(b.generator, []any{nil, json.Number("1"), "x", []any{}, map[string]any{"id": "x"}})
				try(func(o map[string]any) { o[name] = value }, under(pointer, name), "additionalProperties")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		try(func(o map[string]any) { o[name] = twice{o[name]} }, under(pointer, name), "duplicate")
		member, _ := properties[name].(map[string]any)
		b.value(member, object[name], under(pointer, name), func(v any) { object[name] = v })
	}
}

func (b *breaker) array(schema map[string]any, array []any, pointer string, set func(any)) {
	if schema["minItems"] != nil {
		for n := range array {
			b.try(set, array, array[:n], pointer, "minItems")
		}
	}
	if schema["maxItems"] != nil {
		b.try(set, array, append(slices.Clone(array), array[0]), pointer, "maxItems")
		b.try(set, array, append(slices.Clone(array), array...), pointer, "maxItems")
	}
	items, _ := schema["items"].(map[string]any)
	for i, item := range array {
		b.value(items, item, under(pointer, strconv.Itoa(i)), func(v any) { array[i] = v })
	}
}

// under returns the pointer of a member or an item.
func under(pointer, token string) string {
	return pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

// encode appends a decoded document to out; twice is what encoding/json cannot
// write.
func encode(out []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		next := byte('{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			values := []any{v[name]}
			if again, ok := v[name].(twice); ok {
				values = []any{again.value, again.value}
			}
			for _, value := range values {
				out = append(encode(append(out, next), name), ':')
				out = encode(out, value)
				next = ','
			}
		}
		if next == '{' {
			out = append(out, next)
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, item := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = encode(out, item)
		}
		return append(out, ']')
	case json.Number:
		return append(out, v...)
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(out, data...)
}

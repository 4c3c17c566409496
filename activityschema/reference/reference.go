// Package reference gives a second opinion on activity documents. It only reports whether a
// document is valid, by a general implementation of JSON Schema, github.com/qri-io/jsonschema,
// and the schema that package activityschema publishes. The command uses it, and so do tests that
// compare it with package activityschema. It takes at least twenty times as long, and the tree of
// the document in memory.
package reference

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/qri-io/jsonpointer"
	"github.com/qri-io/jsonschema"

	"github.com/cairn-id/cairn/activityschema"
)

// mu is held during validation: the library resolves references as it meets them, in an
// unsynchronized registry of the process.
var mu sync.Mutex

// Valid reports whether data is a valid document. The error is for a schema that cannot be
// compiled and for a done ctx.
func Valid(ctx context.Context, data []byte) (bool, error) {
	schema, err := load()
	if err != nil {
		return false, fmt.Errorf("compiling the activity schema: %w", err)
	}
	root, ok := decode(data)
	if !ok {
		return false, ctx.Err()
	}
	mu.Lock()
	defer mu.Unlock()
	state := schema.Validate(ctx, root)
	return len(*state.Errs) == 0, ctx.Err()
}

// decode returns the tree of a document that is I-JSON (RFC 7493).
func decode(data []byte) (any, bool) {
	if !jsontext.Value(data).IsValid() { // UTF-8, no repeated member, no lone surrogate, nothing after the value
		return nil, false
	}
	var root any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&root) != nil {
		return nil, false
	}
	return plain(root, 0)
}

// plain replaces the numbers of a tree. It returns false for a number beyond the range of a
// double, and for a tree that is too deep.
func plain(v any, depth int) (_ any, ok bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if v[name], ok = plain(member, depth+1); !ok {
				return nil, false
			}
		}
		return v, depth < activityschema.MaxDepth
	case []any:
		for i, item := range v {
			if v[i], ok = plain(item, depth+1); !ok {
				return nil, false
			}
		}
		return v, depth < activityschema.MaxDepth
	case json.Number:
		_, err := strconv.ParseFloat(v.String(), 64)
		return alike(v.String()), err == nil
	}
	return v, true
}

// alike returns a number of the same sign that is an integer if and only if text is one. The
// schema asks no more of numbers. The library holds numbers as float64 and refuses integers from
// 2^63 on; 1.0000000000000000001 would become 1.
func alike(text string) float64 {
	exact, ok := new(big.Rat).SetString(text)
	if !ok { // an exponent below minus a million
		exact = big.NewRat(1, 2)
		if text[0] == '-' {
			exact.Neg(exact)
		}
	}
	if exact.IsInt() {
		return float64(exact.Sign())
	}
	return float64(exact.Sign()) / 2
}

// load compiles the schema once. The registry of keywords is process-wide, so it is filled here,
// before any use.
var load = sync.OnceValues(func() (*jsonschema.Schema, error) {
	jsonschema.LoadDraft2019_09()
	jsonschema.RegisterKeyword("format", func() jsonschema.Keyword { return new(format) })
	jsonschema.RegisterKeyword("additionalProperties", func() jsonschema.Keyword { return new(closed) })
	var published map[string]any
	if err := json.Unmarshal(activityschema.Schema(), &published); err != nil {
		return nil, err
	}
	delete(published, "$schema")
	listNames(published)
	text, err := json.Marshal(published)
	if err != nil {
		return nil, err
	}
	schema := new(jsonschema.Schema)
	return schema, json.Unmarshal(text, schema)
})

// listNames sets additionalProperties to the names of the members where it forbids others.
func listNames(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			listNames(item)
		}
	case map[string]any:
		for _, value := range v {
			listNames(value)
		}
		if properties, ok := v["properties"].(map[string]any); ok && v["additionalProperties"] == false {
			v["additionalProperties"] = slices.Sorted(maps.Keys(properties))
		}
	}
}

// leaf has the methods of keywords without subschemas.
type leaf struct{}

// Register implements jsonschema.Keyword.
func (leaf) Register(string, *jsonschema.SchemaRegistry) {}

// Resolve implements jsonschema.Keyword.
func (leaf) Resolve(jsonpointer.Pointer, string) *jsonschema.Schema { return nil }

// closed implements additionalProperties as a list of names. The library's own implementation
// uses a list into which the names of nested objects leak.
type closed struct {
	leaf
	names []string
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *closed) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &k.names) }

// ValidateKeyword implements jsonschema.Keyword.
func (k *closed) ValidateKeyword(_ context.Context, state *jsonschema.ValidationState, data any) {
	object, _ := data.(map[string]any)
	for name := range object {
		if !slices.Contains(k.names, name) {
			state.AddError(data, "a member is not listed")
		}
	}
}

// format implements date-time. The library's own implementation follows time.Parse, which accepts
// one-digit hours and offsets up to +24:60 but no leap second.
type format struct{ leaf }

// UnmarshalJSON implements json.Unmarshaler: there is no other format.
func (*format) UnmarshalJSON([]byte) error { return nil }

// ValidateKeyword implements jsonschema.Keyword.
func (*format) ValidateKeyword(_ context.Context, state *jsonschema.ValidationState, data any) {
	if text, ok := data.(string); ok && new(activityschema.Time).UnmarshalText([]byte(text)) != nil {
		state.AddError(data, "not a date-time")
	}
}

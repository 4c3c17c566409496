// Package reference gives a second opinion on activity documents: a general
// implementation of JSON Schema, github.com/qri-io/jsonschema, reads the schema that
// package activityschema publishes and says whether a document is valid, and nothing
// else. It is for the command and for tests that hold package activityschema
// against it; it takes twenty times as long, and the tree of the document in
// memory.
package reference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/qri-io/jsonpointer"
	"github.com/qri-io/jsonschema"

	"github.com/cairn-id/cairn/activityschema"
)

// Valid tells whether data is a valid document. The error is for the schema, which
// could not be compiled, and for ctx being done.
func Valid(ctx context.Context, data []byte) (bool, error) {
	schema, err := load()
	if err != nil {
		return false, fmt.Errorf("compiling the activity schema: %w", err)
	}
	root, ok := decode(data)
	if !ok {
		return false, ctx.Err()
	}
	state := schema.Validate(ctx, root)
	return len(*state.Errs) == 0, ctx.Err()
}

// decode returns the tree of a document that is I-JSON (RFC 7493).
func decode(data []byte) (any, bool) {
	if !jsontext.Value(data).IsValid() { // UTF-8, no member twice, no half surrogate pair, nothing after the value
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

// A fraction is a number that is no integer, however near: qri-io/jsonschema holds
// numbers as float64, to which 1.0000000000000000001 is 1.
type fraction float64

// plain replaces the numbers of a tree, integers by float64. It is false for a
// number beyond the range of a double, and for a tree that is too deep.
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
		f, err := strconv.ParseFloat(v.String(), 64)
		if err != nil {
			return nil, false
		}
		if f == 0 { // an exponent of any size
			if mantissa, _, _ := strings.Cut(strings.ToLower(v.String()), "e"); strings.ContainsAny(mantissa, "123456789") {
				return fraction(f), true
			}
			return f, true
		}
		if exact, ok := new(big.Rat).SetString(v.String()); ok && exact.IsInt() {
			return f, true
		}
		return fraction(f), true
	}
	return v, true
}

// load compiles the schema once. The registry of keywords is process-wide and not
// synchronised, and the first validation registers every schema within: both
// happen here, before any other use.
var load = sync.OnceValues(func() (*jsonschema.Schema, error) {
	jsonschema.LoadDraft2019_09()
	jsonschema.RegisterKeyword("type", func() jsonschema.Keyword { return new(typeKeyword) })
	jsonschema.RegisterKeyword("format", func() jsonschema.Keyword { return new(formatKeyword) })
	jsonschema.RegisterKeyword("additionalProperties", func() jsonschema.Keyword { return new(closedKeyword) })
	var published map[string]any
	if err := json.Unmarshal(activityschema.Schema(), &published); err != nil {
		return nil, err
	}
	defs, _ := published["$defs"].(map[string]any)
	delete(published, "$defs")
	delete(published, "$schema")
	expanded, err := expand(published, defs, 0)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(expanded)
	if err != nil {
		return nil, err
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(text, schema); err != nil {
		return nil, err
	}
	schema.Validate(context.Background(), map[string]any{})
	return schema, nil
})

// expand replaces references by what they refer to: the library resolves them
// lazily and unsynchronised, and would fetch others over the network. A closed
// object is given the names that it lists.
func expand(v any, defs map[string]any, depth int) (any, error) {
	if depth > activityschema.MaxDepth {
		return nil, errors.New("the schema refers to itself")
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			item, err := expand(v[i], defs, depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = item
		}
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			def, ok := defs[strings.TrimPrefix(ref, "#/$defs/")]
			if !ok {
				return nil, fmt.Errorf("reference %q leads nowhere", ref)
			}
			return expand(def, defs, depth+1)
		}
		copied := map[string]any{}
		for name, value := range v {
			member, err := expand(value, defs, depth+1)
			if err != nil {
				return nil, err
			}
			copied[name] = member
		}
		if properties, ok := v["properties"].(map[string]any); ok && v["additionalProperties"] == false {
			names := []string{}
			for name := range properties {
				names = append(names, name)
			}
			copied["additionalProperties"] = names
		}
		return copied, nil
	}
	return v, nil
}

// leaf is what the keywords without subschemas have in common.
type leaf struct{}

// Register implements jsonschema.Keyword.
func (leaf) Register(string, *jsonschema.SchemaRegistry) {}

// Resolve implements jsonschema.Keyword.
func (leaf) Resolve(jsonpointer.Pointer, string) *jsonschema.Schema { return nil }

// closedKeyword is additionalProperties, as the names that an object lists. The
// library's own trusts a list into which the names of nested objects have leaked.
type closedKeyword struct {
	leaf
	names []string
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *closedKeyword) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &k.names) }

// ValidateKeyword implements jsonschema.Keyword.
func (k *closedKeyword) ValidateKeyword(ctx context.Context, state *jsonschema.ValidationState, data any) {
	object, _ := data.(map[string]any)
	for name := range object {
		if !slices.Contains(k.names, name) {
			state.AddError(data, "a member is not listed")
		}
	}
}

// typeKeyword is the list of types. The library's own takes the string "true" for a
// boolean, and refuses integers from 2^63 on.
type typeKeyword struct {
	leaf
	allowed []string
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *typeKeyword) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		k.allowed = make([]string, 1)
		return json.Unmarshal(data, &k.allowed[0])
	}
	return json.Unmarshal(data, &k.allowed)
}

// ValidateKeyword implements jsonschema.Keyword.
func (k *typeKeyword) ValidateKeyword(_ context.Context, state *jsonschema.ValidationState, data any) {
	found := "object"
	switch data.(type) {
	case nil:
		found = "null"
	case bool:
		found = "boolean"
	case string:
		found = "string"
	case float64:
		found = "integer"
	case fraction:
		found = "number"
	case []any:
		found = "array"
	}
	if !slices.Contains(k.allowed, found) && !(found == "integer" && slices.Contains(k.allowed, "number")) {
		state.AddError(data, "of another type")
	}
}

// formatKeyword is the format date-time. The library's own follows time.Parse, which
// takes one-digit hours and offsets up to +24:60, and knows no leap second.
type formatKeyword struct{ leaf }

// UnmarshalJSON implements json.Unmarshaler.
func (*formatKeyword) UnmarshalJSON(data []byte) error {
	if string(data) != `"date-time"` {
		return fmt.Errorf("format %s is not supported", data)
	}
	return nil
}

var dateTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ValidateKeyword implements jsonschema.Keyword.
func (*formatKeyword) ValidateKeyword(_ context.Context, state *jsonschema.ValidationState, data any) {
	text, ok := data.(string)
	if !ok {
		return
	}
	text = strings.ToUpper(text)
	if !dateTime.MatchString(text) {
		state.AddError(data, "not a date-time")
		return
	}
	leap := text[17:19] == "60"
	if leap {
		text = text[:17] + "59" + text[19:]
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || leap && at.UTC().Format("15:04") != "23:59" {
		state.AddError(data, "not a date-time")
	}
}

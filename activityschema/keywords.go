package activityschema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/qri-io/jsonpointer"
	"github.com/qri-io/jsonschema"
)

// The keywords of the schema, as qri-io/jsonschema v0.2.1 is made to run them.
// Its own additionalProperties trusts a list into which the names of nested
// objects have leaked, its type refuses integers from 2^63 on, its format
// follows time.Parse, and its properties and items go on to the end whatever
// was found: these five are ours. The others are its own, each wrapped to note
// which keyword failed.

type keywordMaker struct {
	name string
	make jsonschema.KeyMaker
}

// keywords in the order in which one value is checked. The type comes first:
// what fails at the same value after it says nothing new.
var keywords = []keywordMaker{
	{"type", func() jsonschema.Keyword { return new(typeKeyword) }},
	{"const", own("const", jsonschema.NewConst)},
	{"enum", own("enum", jsonschema.NewEnum)},
	{"format", func() jsonschema.Keyword { return new(formatKeyword) }},
	{"minLength", own("minLength", jsonschema.NewMinLength)},
	{"minimum", own("minimum", jsonschema.NewMinimum)},
	{"minItems", own("minItems", jsonschema.NewMinItems)},
	{"maxItems", own("maxItems", jsonschema.NewMaxItems)},
	{"required", own("required", jsonschema.NewRequired)},
	{"additionalProperties", func() jsonschema.Keyword { return new(closedKeyword) }},
	{"properties", func() jsonschema.Keyword { return new(propertiesKeyword) }},
	{"items", func() jsonschema.Keyword { return new(itemsKeyword) }},
}

// registerKeywords puts them in place of the library's. The registry is
// process-wide and not synchronised: this is called once, before any schema is
// built, and no other package of the program uses the library.
func registerKeywords() {
	jsonschema.LoadDraft2019_09()
	for i, k := range keywords {
		jsonschema.RegisterKeyword(k.name, k.make)
		jsonschema.SetKeywordOrder(k.name, i+1)
	}
}

// failed is what a KeyError carries in its InvalidValue: which keyword failed
// and what it expects, for required the name that is missing.
type failed struct{ keyword, expected string }

// report notes that keyword failed at the value st looks at, or at its member
// if one is named.
func report(st *jsonschema.ValidationState, keyword, expected string, member ...string) {
	if full(st) {
		return
	}
	at := st.InstanceLocation.RawDescendant(member...).String()
	if n := len(*st.Errs); n > 0 && (*st.Errs)[n-1].PropertyPath == at {
		if before, _ := (*st.Errs)[n-1].InvalidValue.(failed); before.keyword == "type" {
			return
		}
	}
	st.AddSubErrors(jsonschema.KeyError{PropertyPath: at, InvalidValue: failed{keyword, expected}})
}

func full(st *jsonschema.ValidationState) bool { return len(*st.Errs) >= mostCollected }

// leaf is what the keywords without subschemas have in common.
type leaf struct{}

// Register implements jsonschema.Keyword.
func (leaf) Register(string, *jsonschema.SchemaRegistry) {}

// Resolve implements jsonschema.Keyword; nothing refers into a schema whose
// references are expanded.
func (leaf) Resolve(jsonpointer.Pointer, string) *jsonschema.Schema { return nil }

// ownKeyword runs a keyword of the library and reports its errors as ours.
type ownKeyword struct {
	leaf
	name     string
	own      jsonschema.Keyword
	expected string
}

func own(name string, newKeyword jsonschema.KeyMaker) jsonschema.KeyMaker {
	return func() jsonschema.Keyword { return &ownKeyword{name: name, own: newKeyword()} }
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *ownKeyword) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	k.expected = wanted(k.name, value)
	return json.Unmarshal(data, k.own)
}

// ValidateKeyword implements jsonschema.Keyword.
func (k *ownKeyword) ValidateKeyword(ctx context.Context, st *jsonschema.ValidationState, data any) {
	switch v := data.(type) {
	case whole:
		data = float64(v)
	case fraction:
		data = float64(v)
	}
	sub := st.NewSubState()
	sub.Errs = &[]jsonschema.KeyError{}
	k.own.ValidateKeyword(ctx, sub, data)
	for _, e := range *sub.Errs {
		expected := k.expected
		if k.name == "required" { // "title" value is required
			expected = strings.SplitN(e.Message, `"`, 3)[1]
		}
		report(st, k.name, expected)
	}
}

// typeKeyword is a list of the types that are allowed.
type typeKeyword struct {
	leaf
	allowed  []string
	expected string
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *typeKeyword) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	k.expected = wanted("type", value)
	if one, ok := value.(string); ok {
		k.allowed = []string{one}
		return nil
	}
	return json.Unmarshal(data, &k.allowed)
}

// ValidateKeyword implements jsonschema.Keyword.
func (k *typeKeyword) ValidateKeyword(_ context.Context, st *jsonschema.ValidationState, data any) {
	got := typeOf(data)
	if slices.Contains(k.allowed, got) || got == "integer" && slices.Contains(k.allowed, "number") {
		return
	}
	report(st, "type", k.expected)
}

func typeOf(data any) string {
	switch data.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case whole:
		return "integer"
	case fraction:
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// formatKeyword is the format date-time, the only one of the schema.
type formatKeyword struct{ leaf }

// UnmarshalJSON implements json.Unmarshaler.
func (*formatKeyword) UnmarshalJSON(data []byte) error {
	if string(data) != `"date-time"` {
		return fmt.Errorf("format %s is not supported", data)
	}
	return nil
}

// ValidateKeyword implements jsonschema.Keyword.
func (*formatKeyword) ValidateKeyword(_ context.Context, st *jsonschema.ValidationState, data any) {
	if s, ok := data.(string); ok && !isDateTime(s) {
		report(st, "format", wanted("format", nil))
	}
}

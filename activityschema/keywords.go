package activityschema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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

// failed marks a KeyError, in its InvalidValue, with the keyword that failed.
type failed string

// report notes that keyword failed at the value st looks at, or at its member
// if one is named.
func report(st *jsonschema.ValidationState, keyword, message string, member ...string) {
	if full(st) {
		return
	}
	at := st.InstanceLocation.RawDescendant(member...).String()
	if n := len(*st.Errs); n > 0 && (*st.Errs)[n-1].InvalidValue == failed("type") && (*st.Errs)[n-1].PropertyPath == at {
		return
	}
	st.AddSubErrors(jsonschema.KeyError{PropertyPath: at, InvalidValue: failed(keyword), Message: message})
}

func full(st *jsonschema.ValidationState) bool { return len(*st.Errs) >= MaxProblems }

// below is the state in which the members or items of what st looks at are
// validated, one after the other. Nothing is joined back into st, where names
// of a nested object would pass for evaluated; the errors are shared, so that
// full counts those of the whole document.
type below struct{ parent, child *jsonschema.ValidationState }

func newBelow(st *jsonschema.ValidationState) below { return below{st, st.NewSubState()} }

func (b below) validate(ctx context.Context, s *jsonschema.Schema, token string, v any) {
	b.child.DescendInstanceFromState(b.parent, token)
	s.ValidateKeyword(ctx, b.child, v)
}

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
	name string
	own  jsonschema.Keyword
}

func own(name string, newKeyword jsonschema.KeyMaker) jsonschema.KeyMaker {
	return func() jsonschema.Keyword { return &ownKeyword{name: name, own: newKeyword()} }
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *ownKeyword) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, k.own) }

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
		report(st, k.name, strings.TrimRight(e.Message, ": "))
	}
}

// typeKeyword is a list of the types that are allowed.
type typeKeyword struct {
	leaf
	allowed []string
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *typeKeyword) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
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
	report(st, "type", "must be "+strings.Join(k.allowed, " or ")+", not "+got)
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
		report(st, "format", "must be a date-time of RFC 3339 with its zone, such as 2026-05-17T08:30:00Z")
	}
}

// closedKeyword is additionalProperties: false.
type closedKeyword struct{ leaf }

// UnmarshalJSON implements json.Unmarshaler.
func (*closedKeyword) UnmarshalJSON(data []byte) error {
	if string(data) != "false" {
		return fmt.Errorf("additionalProperties %s is not supported, only false", data)
	}
	return nil
}

// ValidateKeyword implements jsonschema.Keyword. It asks the properties beside
// it, never the state's evaluated names: those hold names of nested objects.
func (*closedKeyword) ValidateKeyword(_ context.Context, st *jsonschema.ValidationState, data any) {
	object, ok := data.(map[string]any)
	if !ok {
		return
	}
	listed, _ := st.Local.JSONProp("properties").(*propertiesKeyword)
	var unlisted []string
	for name := range object {
		if listed == nil || listed.schemas[name] == nil {
			unlisted = append(unlisted, name)
		}
	}
	slices.Sort(unlisted)
	for _, name := range unlisted[:min(len(unlisted), MaxProblems)] {
		report(st, "additionalProperties", "member "+quote(name)+" is not part of the format here", name)
	}
}

// propertiesKeyword is properties, visited in the order of their names.
type propertiesKeyword struct {
	leaf
	names   []string
	schemas map[string]*jsonschema.Schema
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *propertiesKeyword) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &k.schemas); err != nil {
		return err
	}
	for name := range k.schemas {
		k.names = append(k.names, name)
	}
	slices.Sort(k.names)
	return nil
}

// Register implements jsonschema.Keyword. It reaches every schema, because a
// schema that is not registered yet registers itself, unsynchronised, when it
// first validates.
func (k *propertiesKeyword) Register(uri string, registry *jsonschema.SchemaRegistry) {
	for _, s := range k.schemas {
		s.Register(uri, registry)
	}
}

// ValidateKeyword implements jsonschema.Keyword.
func (k *propertiesKeyword) ValidateKeyword(ctx context.Context, st *jsonschema.ValidationState, data any) {
	object, ok := data.(map[string]any)
	if !ok {
		return
	}
	members := newBelow(st)
	for _, name := range k.names {
		if v, ok := object[name]; ok && !full(st) {
			members.validate(ctx, k.schemas[name], name, v)
		}
	}
}

// itemsKeyword is items with one schema for all items.
type itemsKeyword struct {
	leaf
	schema *jsonschema.Schema
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *itemsKeyword) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &k.schema) }

// Register implements jsonschema.Keyword, as that of propertiesKeyword does.
func (k *itemsKeyword) Register(uri string, registry *jsonschema.SchemaRegistry) {
	k.schema.Register(uri, registry)
}

// ValidateKeyword implements jsonschema.Keyword. A column may have a million
// items: it stops when ctx is done or enough is known.
func (k *itemsKeyword) ValidateKeyword(ctx context.Context, st *jsonschema.ValidationState, data any) {
	array, ok := data.([]any)
	if !ok {
		return
	}
	items := newBelow(st)
	for i, v := range array {
		if full(st) || i%1024 == 0 && ctx.Err() != nil {
			return
		}
		items.validate(ctx, k.schema, strconv.Itoa(i), v)
	}
}

package activityschema

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/qri-io/jsonschema"
)

// The keywords of the schema that apply schemas to members and items.

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
	for _, name := range unlisted[:min(len(unlisted), mostCollected)] {
		report(st, "additionalProperties", "", name)
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

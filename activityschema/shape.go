package activityschema

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// kinds is a set of kinds of JSON values.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindInteger
	kindFraction // a number that is not an integer
	kindString
	kindArray
	kindObject
)

var kindsByType = map[string]kinds{
	"null": kindNull, "boolean": kindBoolean, "integer": kindInteger, "number": kindInteger | kindFraction,
	"string": kindString, "array": kindArray, "object": kindObject,
}

// A shape is a schema: the keywords that the walker implements, and their compiled form. Any
// other keyword, or other use of one, is an error.
type shape struct {
	Title                string            `json:"title"`
	Description          string            `json:"description"`
	Ref                  string            `json:"$ref"`
	Type                 typeNames         `json:"type"`
	Const                *string           `json:"const"`
	Enum                 []*string         `json:"enum"`
	Format               string            `json:"format"`
	MinLength            uint32            `json:"minLength"`
	Minimum              *float64          `json:"minimum"`
	Items                *shape            `json:"items"`
	MinItems             uint32            `json:"minItems"`
	MaxItems             *uint32           `json:"maxItems"`
	Properties           map[string]*shape `json:"properties"`
	AdditionalProperties *bool             `json:"additionalProperties"`
	Required             []string          `json:"required"`

	kinds   kinds              // of Type
	members map[string]*member // of Properties; nil if the object is free-form
}

// typeNames are the types that a schema allows, one or more.
type typeNames []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *typeNames) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		*t = make(typeNames, 1)
		return json.Unmarshal(data, &(*t)[0])
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// A member is a member that a closed object may have.
type member struct {
	name  string
	shape *shape
	bit   uint64 // identifies a required member of its object, else 0
	form  Form   // for a member of a document, the form that lists it; empty if both do
}

// anything is the shape of values that the schema does not constrain. They must still be I-JSON.
var anything = &shape{kinds: math.MaxUint8}

func (sh *shape) compile(defs map[string]*shape, depth int) (*shape, error) {
	if depth > MaxDepth {
		return nil, errors.New("the schema refers to itself")
	}
	if sh.Ref != "" {
		def := defs[strings.TrimPrefix(sh.Ref, "#/$defs/")]
		alone := shape{Title: sh.Title, Description: sh.Description, Ref: sh.Ref}
		if def == nil || !reflect.DeepEqual(*sh, alone) {
			return nil, fmt.Errorf("reference %q leads nowhere, or has a keyword beside it", sh.Ref)
		}
		return def.compile(defs, depth+1)
	}
	c := *sh
	for _, name := range sh.Type {
		if kindsByType[name] == 0 {
			return nil, fmt.Errorf("type %q is not supported", name)
		}
		c.kinds |= kindsByType[name]
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	var err error
	if sh.Items != nil {
		if c.Items, err = sh.Items.compile(defs, depth+1); err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sh.Properties)) { // sorted, so that errors are deterministic
		value, err := sh.Properties[name].compile(defs, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.list(&member{name: name, shape: value})
	}
	for i, name := range sh.Required {
		if c.members[name] == nil || i == 64 { // the bits of a word
			return nil, fmt.Errorf("required member %q is not listed, or one too many", name)
		}
		c.members[name].bit = 1 << i
	}
	return &c, nil
}

func (sh *shape) list(m *member) {
	if sh.members == nil {
		sh.members = map[string]*member{}
	}
	sh.members[m.name] = m
}

// check refuses uses of keywords that the walker does not implement.
func (sh *shape) check() error {
	closed := sh.AdditionalProperties != nil
	nullListed := slices.Contains(sh.Enum, nil)
	switch {
	case sh.kinds == 0:
		return errors.New("a schema without a type is not supported")
	case sh.Format != "" && sh.Format != "date-time",
		sh.Minimum != nil && *sh.Minimum != 0, closed && *sh.AdditionalProperties:
		return errors.New("format, minimum and additionalProperties: only date-time, 0 and false are supported")
	case sh.Const != nil && (sh.Enum != nil || sh.kinds != kindString):
		return errors.New("const: only a string is supported")
	case sh.Enum != nil && sh.kinds|kindNull != kindString|kindNull,
		sh.Enum != nil && nullListed != (sh.kinds&kindNull != 0):
		return errors.New("enum: only strings are supported, and null where the type allows it")
	case closed != (len(sh.Properties) > 0), slices.Contains(slices.Collect(maps.Values(sh.Properties)), nil):
		return errors.New("an object must list its members and forbid others, or do neither")
	}
	return nil
}

// textKeyword returns the keyword that lists the allowed texts, and the texts, or "".
func (sh *shape) textKeyword() (string, []*string) {
	if sh.Const != nil {
		return "const", []*string{sh.Const}
	}
	if sh.Enum != nil {
		return "enum", sh.Enum
	}
	return "", nil
}

func (sh *shape) expected(keyword string) string {
	switch keyword {
	case "type":
		return alternatives(sh.Type)
	case "const":
		return quote(*sh.Const)
	case "enum":
		var texts []string
		for _, text := range sh.Enum {
			texts = append(texts, "null")
			if text != nil {
				texts[len(texts)-1] = quote(*text)
			}
		}
		return "one of " + alternatives(texts)
	case "format":
		return "a date-time of RFC 3339 with its zone, such as 2026-05-17T08:30:00Z"
	case "minLength":
		return "a string of at least " + amount(sh.MinLength, "character")
	case "minimum":
		return fmt.Sprintf("%v or more", *sh.Minimum)
	case "minItems":
		return "an array of at least " + amount(sh.MinItems, "item")
	}
	return "an array of at most " + amount(*sh.MaxItems, "item")
}

// alternatives joins a list as in "a, b or c".
func alternatives(list []string) string {
	last := len(list) - 1
	if last == 0 {
		return list[0]
	}
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

func amount[T int | uint32](n T, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprint(n, " ", thing, "s")
}

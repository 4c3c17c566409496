package activityschema

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// kinds is a set of kinds of JSON values.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindInteger
	kindFraction // a number that is no integer
	kindString
	kindArray
	kindObject
)

var kindsByType = map[string]kinds{
	"null": kindNull, "boolean": kindBoolean, "integer": kindInteger, "number": kindInteger | kindFraction,
	"string": kindString, "array": kindArray, "object": kindObject,
}

// A shape is a schema made ready for the walker.
type shape struct {
	kinds    kinds
	expected map[string]string // what a keyword expects, in words

	texts       []string // those of const or enum; null is told by kinds
	textKeyword string   // const, enum, or "" if neither is there
	dateTime    bool
	minLength   int
	notNegative bool // minimum 0

	items              *shape // nil allows anything
	minItems, maxItems int

	// An object is closed, and has no members but these, or free-form.
	closed   bool
	members  map[string]*member
	required []*member // in the order of the schema
}

// A member is one that a closed object may have.
type member struct {
	name  string
	bit   uint64 // of its object's members, one each
	shape *shape
	form  Form // the form that lists it, of the members of a document; empty if both do
}

// anything is the shape of what the schema says nothing of. I-JSON it must be.
var anything = &shape{kinds: math.MaxUint8, maxItems: math.MaxInt}

var errUnsupported = errors.New("not supported with this value")

// compileShape compiles a schema. It refuses every keyword, and every use of one,
// that the walker does not implement.
func compileShape(schema map[string]any, defs map[string]map[string]any, depth int) (*shape, error) {
	if depth > MaxDepth {
		return nil, errors.New("the schema refers to itself")
	}
	schema = maps.Clone(schema)
	delete(schema, "title")
	delete(schema, "description")
	if ref, ok := schema["$ref"].(string); ok {
		def := defs[strings.TrimPrefix(ref, "#/$defs/")]
		if def == nil || len(schema) > 1 {
			return nil, fmt.Errorf("reference %q leads nowhere, or has a keyword beside it", ref)
		}
		return compileShape(def, defs, depth+1)
	}
	sh := &shape{expected: map[string]string{}, maxItems: math.MaxInt}
	for _, keyword := range slices.Sorted(maps.Keys(schema)) { // for an error to be the same at every run
		if err := sh.apply(keyword, schema[keyword], defs, depth); err != nil {
			return nil, fmt.Errorf("%s: %w", keyword, err)
		}
		sh.expected[keyword] = wanted(keyword, schema[keyword])
	}
	if err := sh.require(schema["required"]); err != nil {
		return nil, fmt.Errorf("required: %w", err)
	}
	return sh, sh.check(schema)
}

func (sh *shape) apply(keyword string, value any, defs map[string]map[string]any, depth int) error {
	ok := true
	switch keyword {
	case "type":
		sh.kinds, ok = kindsOf(value)
	case "const":
		sh.textKeyword = keyword
		sh.texts, ok = textsOf([]any{value}, false)
	case "enum":
		sh.textKeyword = keyword
		sh.texts, ok = textsOf(value, true)
	case "format":
		sh.dateTime = true
		ok = value == "date-time"
	case "minLength":
		sh.minLength, ok = natural(value)
	case "minimum":
		sh.notNegative = true
		ok = value == 0.0
	case "minItems":
		sh.minItems, ok = natural(value)
	case "maxItems":
		sh.maxItems, ok = natural(value)
	case "items":
		items, isSchema := value.(map[string]any)
		if !isSchema {
			return errUnsupported
		}
		var err error
		sh.items, err = compileShape(items, defs, depth+1)
		return err
	case "additionalProperties":
		sh.closed, ok = true, value == false
	case "properties":
		return sh.listAll(value, defs, depth)
	case "required": // after the properties
	default:
		return errors.New("the keyword is not supported")
	}
	if !ok {
		return errUnsupported
	}
	return nil
}

// check refuses what only together is not supported.
func (sh *shape) check(schema map[string]any) error {
	_, constant := schema["const"]
	enum, enumerated := schema["enum"].([]any)
	switch {
	case sh.kinds == 0:
		return errors.New("a schema without a type is not supported")
	case constant && (enumerated || sh.kinds != kindString):
		return errors.New("const: only a string is supported")
	case enumerated && sh.kinds != kindString && sh.kinds != kindString|kindNull:
		return errors.New("enum: only strings and null are supported")
	case enumerated && sh.kinds&kindNull != 0 && !slices.Contains(enum, nil):
		return errors.New("enum: null, which the type allows, must be listed")
	case sh.closed != (sh.members != nil), len(sh.required) > 0 && !sh.closed:
		return errors.New("an object must list its members and forbid others, or do neither")
	}
	return nil
}

// listAll takes the properties over.
func (sh *shape) listAll(value any, defs map[string]map[string]any, depth int) error {
	schemas, ok := value.(map[string]any)
	if !ok || len(schemas) == 0 {
		return errUnsupported
	}
	sh.members = map[string]*member{}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		schema, ok := schemas[name].(map[string]any)
		if !ok {
			return errUnsupported
		}
		value, err := compileShape(schema, defs, depth+1)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := sh.list(name, value); err != nil {
			return err
		}
	}
	return nil
}

// list adds a member.
func (sh *shape) list(name string, value *shape) error {
	const most = 64 // the bits of a word
	if len(sh.members) == most {
		return fmt.Errorf("more than %d members are not supported", most)
	}
	sh.members[name] = &member{name: name, bit: 1 << len(sh.members), shape: value}
	return nil
}

// require takes the list of required members over.
func (sh *shape) require(value any) error {
	if value == nil {
		return nil
	}
	names, ok := textsOf(value, false)
	if !ok {
		return errUnsupported
	}
	for _, name := range names {
		m := sh.members[name]
		if m == nil {
			return fmt.Errorf("member %q is not listed", name)
		}
		sh.required = append(sh.required, m)
	}
	return nil
}

func kindsOf(value any) (kinds, bool) {
	names, ok := value.([]any)
	if !ok {
		names = []any{value}
	}
	var set kinds
	for _, name := range names {
		text, _ := name.(string)
		kind, known := kindsByType[text]
		if !known {
			return 0, false
		}
		set |= kind
	}
	return set, true
}

// textsOf returns the strings of a list; with nullable null may be among them.
func textsOf(value any, nullable bool) ([]string, bool) {
	items, ok := value.([]any)
	var texts []string
	for _, item := range items {
		text, isString := item.(string)
		if isString {
			texts = append(texts, text)
		}
		ok = ok && (isString || nullable && item == nil)
	}
	return texts, ok
}

func natural(value any) (int, bool) {
	f, ok := value.(float64)
	return int(f), ok && f >= 0 && f <= math.MaxInt32 && f == math.Trunc(f)
}

package activityschema

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
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

// A shape is a schema made ready for the scanner.
type shape struct {
	kinds    kinds
	expected map[string]string // what a keyword expects, in words

	hasConst  bool
	constant  string
	enum      []string // nil if the keyword is not there; null is told by kinds
	dateTime  bool
	minLength int
	keepsText bool // one of the above is there: the text of a string is needed

	notNegative bool // minimum 0

	items              *shape // nil allows anything
	minItems, maxItems int
	column             bool // the shape is one of number, integer, with null or without: as an item, a sample of a column

	// An object is closed, and its members are properties, or free-form.
	closed     bool
	properties []property
	byLength   [mostName + 1][]uint8 // properties by the length of their name
	required   []uint8               // properties, in the order of the schema
	slot       int                   // first of its slots in scanner.next
}

// A property is a member that a closed object may have.
type property struct {
	name   string
	quoted string // as it stands in a document: quotes around, a colon after
	shape  *shape
	form   Form // the form that lists it, of the members of a document; empty if both do
}

const (
	mostProperties = 64 // of one object: they are bits of one word
	mostName       = 60 // bytes of a listed name: within lookahead, with what is around it
)

// anything is the shape of what the schema says nothing of. I-JSON it must be.
var anything = &shape{kinds: math.MaxUint8, maxItems: math.MaxInt}

// compileShape compiles a schema whose references are expanded. It refuses
// every keyword, and every use of one, that the scanner does not implement.
func compileShape(schema map[string]any) (*shape, error) {
	sh := &shape{expected: map[string]string{}, maxItems: math.MaxInt}
	for _, keyword := range slices.Sorted(maps.Keys(schema)) { // for an error to be the same at every run
		if err := sh.apply(keyword, schema[keyword]); err != nil {
			return nil, fmt.Errorf("%s: %w", keyword, err)
		}
		sh.expected[keyword] = wanted(keyword, schema[keyword])
	}
	if sh.closed {
		if err := sh.require(schema["required"]); err != nil {
			return nil, fmt.Errorf("required: %w", err)
		}
	}
	return sh, sh.check(schema)
}

var errUnsupported = errors.New("not supported with this value")

func (sh *shape) apply(keyword string, value any) error {
	ok := true
	switch keyword {
	case "type":
		sh.kinds, ok = kindsOf(value)
	case "const":
		sh.hasConst, sh.keepsText = true, true
		sh.constant, ok = value.(string)
	case "enum":
		sh.keepsText = true
		sh.enum, ok = enumOf(value)
	case "format":
		sh.dateTime, sh.keepsText = true, true
		ok = value == "date-time"
	case "minLength":
		sh.keepsText = true
		sh.minLength, ok = natural(value)
	case "minimum":
		sh.notNegative = true
		ok = value == 0.0
	case "minItems":
		sh.minItems, ok = natural(value)
	case "maxItems":
		sh.maxItems, ok = natural(value)
	case "items":
		var err error
		if sh.items, err = compileMember(value); err != nil {
			return err
		}
	case "additionalProperties":
		sh.closed, ok = true, value == false
	case "properties":
		return sh.list(value)
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
	_, enumerated := schema["enum"]
	_, required := schema["required"]
	switch {
	case sh.kinds == 0:
		return errors.New("a schema without a type is not supported")
	case sh.hasConst && sh.kinds != kindString:
		return errors.New("const: only a string is supported")
	case enumerated && sh.kinds != kindString && sh.kinds != kindString|kindNull:
		return errors.New("enum: only strings and null are supported")
	case enumerated && sh.kinds&kindNull != 0 && !slices.Contains(schema["enum"].([]any), nil):
		return errors.New("enum: null, which the type allows, must be listed")
	case sh.closed != (sh.properties != nil), required && !sh.closed:
		return errors.New("an object must list its members and forbid others, or do neither")
	}
	const number = kindInteger | kindFraction
	sh.column = sh.kinds&number != 0 && sh.kinds&^(number|kindNull) == 0 && !sh.notNegative
	return nil
}

// list takes the properties over, in the order of their names.
func (sh *shape) list(value any) error {
	members, ok := value.(map[string]any)
	if !ok || len(members) == 0 || len(members) > mostProperties {
		return errUnsupported
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		member, err := compileMember(members[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := sh.add(property{name: name, shape: member}); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

// add lists one property.
func (sh *shape) add(p property) error {
	for i := range len(p.name) {
		// Names are compared as bytes of the document, and counted as characters.
		if c := p.name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return errors.New("a name with such a character is not supported")
		}
	}
	if len(p.name) > mostName {
		return errors.New("a name as long as that is not supported")
	}
	p.quoted = `"` + p.name + `":`
	sh.byLength[len(p.name)] = append(sh.byLength[len(p.name)], uint8(len(sh.properties)))
	sh.properties = append(sh.properties, p)
	return nil
}

// require takes the list of required members over.
func (sh *shape) require(value any) error {
	names, ok := value.([]any)
	if value != nil && !ok {
		return errUnsupported
	}
	for _, name := range names {
		text, _ := name.(string)
		i := sh.find([]byte(text))
		if i < 0 {
			return fmt.Errorf("member %v is not listed", name)
		}
		sh.required = append(sh.required, uint8(i))
	}
	return nil
}

// find returns the property of a name, or isUnlisted.
func (sh *shape) find(name []byte) int {
	if len(name) <= mostName {
		for _, i := range sh.byLength[len(name)] {
			if sh.properties[i].name == string(name) {
				return int(i)
			}
		}
	}
	return isUnlisted
}

func compileMember(value any) (*shape, error) {
	schema, ok := value.(map[string]any)
	if !ok {
		return nil, errUnsupported
	}
	return compileShape(schema)
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

// enumOf returns the strings of a list of strings and null.
func enumOf(value any) ([]string, bool) {
	items, ok := value.([]any)
	texts := []string{}
	for _, item := range items {
		text, isString := item.(string)
		if isString {
			texts = append(texts, text)
		}
		ok = ok && (isString && len(text) <= mostKept || item == nil)
	}
	return texts, ok
}

func natural(value any) (int, bool) {
	f, ok := value.(float64)
	return int(f), ok && f >= 0 && f <= math.MaxInt32 && f == math.Trunc(f)
}

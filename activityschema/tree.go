package activityschema

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// errEnough ends the walk once enough problems are collected.
var errEnough = errors.New("enough problems")

// treeBuilder reads a valid JSON text token by token and looks for what a
// tree cannot show any more: members of one name, and numbers as written.
type treeBuilder struct {
	ctx      context.Context
	data     []byte
	dec      *json.Decoder
	path     []step
	before   int // offset of data at which the last token had not begun yet
	tokens   int
	most     int // problems to collect
	problems problemList
}

func (b *treeBuilder) token() (json.Token, error) {
	// ctx.Err takes a lock: not at every number of a time series.
	if b.tokens++; b.tokens%4096 == 0 {
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
	}
	b.before = int(b.dec.InputOffset())
	return b.dec.Token()
}

func (b *treeBuilder) value() (any, error) {
	token, err := b.token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return b.object()
		}
		return b.array()
	case json.Number:
		n, ok := number(string(v))
		if !ok {
			return nil, b.report(KeywordNumber, "beyond the range of a double (RFC 7493, section 2.2)")
		}
		return n, nil
	default:
		return v, nil
	}
}

func (b *treeBuilder) object() (any, error) {
	object := map[string]any{}
	for b.dec.More() {
		token, err := b.token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		b.path = append(b.path, step{name: name, index: -1})
		_, twice := object[name]
		half := strings.ContainsRune(name, utf8.RuneError) && halfSurrogate(b.data[b.before:b.dec.InputOffset()])
		if half {
			// Such names all decode to the same: they cannot be told apart.
			err = b.report(KeywordUTF8, "the member's name has half a surrogate pair (RFC 7493, section 2.1)")
		} else if twice {
			err = b.report(KeywordDuplicate, memberNamed(name)+" occurs twice in one object")
		}
		if err != nil {
			return nil, err
		}
		member, err := b.value()
		if err != nil {
			return nil, err
		}
		if !half {
			object[name] = member
		}
		b.path = b.path[:len(b.path)-1]
	}
	_, err := b.token() // the closing brace
	return object, err
}

func (b *treeBuilder) array() (any, error) {
	array := []any{}
	for b.dec.More() {
		b.path = append(b.path, step{index: len(array)})
		v, err := b.value()
		if err != nil {
			return nil, err
		}
		array = append(array, v)
		b.path = b.path[:len(b.path)-1]
	}
	_, err := b.token() // the closing bracket
	return array, err
}

// report notes a problem at the last token read; errEnough says to stop.
func (b *treeBuilder) report(keyword, message string) error {
	start := b.before
	for start < len(b.data) && strings.IndexByte(" \t\r\n,:", b.data[start]) >= 0 {
		start++
	}
	b.problems.add(Problem{
		Pointer: cutPointer(pointer(b.path)),
		Offset:  int64(start),
		Keyword: keyword,
		Message: lineAndColumn(b.data, start) + ": " + message,
	})
	if b.problems.full(b.most) {
		return errEnough
	}
	return nil
}

// A step leads from an object to a member or, with index 0 or more, from an
// array to an item.
type step struct {
	name  string
	index int
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes path as a JSON Pointer (RFC 6901).
func pointer(path []step) string {
	var s strings.Builder
	for _, p := range path {
		s.WriteByte('/')
		if p.index >= 0 {
			s.WriteString(strconv.Itoa(p.index))
		} else {
			s.WriteString(pointerEscapes.Replace(p.name))
		}
	}
	return s.String()
}

// whole and fraction are the numbers of a tree. Whether a number is an integer
// is told by its digits, not by the nearest double: 1.0000000000000000001 is
// none, 1e300 is one.
type (
	whole    float64
	fraction float64
)

// number reads a JSON number; false means that it lies beyond a double.
func number(literal string) (any, bool) {
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, false
	}
	if isWhole(literal) {
		return whole(f), true
	}
	return fraction(f), true
}

// isWhole tells whether a JSON number has no fractional part: 3, 3.0, 30e-1.
func isWhole(literal string) bool {
	e := strings.IndexAny(literal, "eE")
	if e < 0 {
		e = len(literal)
	}
	units, decimals, _ := strings.Cut(literal[:e], ".")
	digits := strings.TrimRight(units+decimals, "0")
	if digits == "" || digits == "-" {
		return true
	}
	exponent := 0
	if e < len(literal) {
		var err error
		if exponent, err = strconv.Atoi(literal[e+1:]); err != nil {
			return false // 1e-99999999999999999999: an exponent as far up would be beyond a double
		}
	}
	// The value is digits times ten to the power of this.
	return exponent-len(decimals)+len(units)+len(decimals)-len(digits) >= 0
}

// halfSurrogate tells whether a JSON string literal escapes a surrogate that
// is not followed by its other half.
func halfSurrogate(literal []byte) bool {
	for i := 0; i < len(literal); i++ {
		if literal[i] != '\\' {
			continue
		}
		i++
		unit, ok := escapedUnit(literal[i-1:])
		if !ok {
			continue
		}
		i += 4
		if !utf16.IsSurrogate(unit) {
			continue
		}
		low, _ := escapedUnit(literal[i+1:])
		if utf16.DecodeRune(unit, low) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit returns the UTF-16 unit of the escape (backslash, u, four hex
// digits) that s begins with.
func escapedUnit(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(unit), err == nil
}

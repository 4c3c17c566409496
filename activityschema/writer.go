package activityschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// A writer encodes a document. What JSON cannot say becomes a problem with its
// pointer, which encoding/json could not tell; and where encoding/json would
// mend invalid UTF-8 in silence, it is a problem as well.
type writer struct {
	out      []byte
	path     []byte // JSON Pointer of the value being written
	problems []Problem
}

// result returns what was written, or an *InvalidError.
func (w *writer) result() ([]byte, error) {
	if len(w.problems) > 0 {
		return nil, &InvalidError{Problems: w.problems}
	}
	return w.out, nil
}

func (w *writer) report(keyword, message string) {
	if len(w.problems) < MaxProblems {
		w.problems = append(w.problems, Problem{Pointer: string(w.path), Keyword: keyword, Message: message})
	}
}

// below runs write with name at the end of the path.
func (w *writer) below(name string, write func()) {
	before := len(w.path)
	w.path = append(append(w.path, '/'), pointerEscapes.Replace(name)...)
	write()
	w.path = w.path[:before]
}

// value writes v, which is addressable. A nil slice is an empty array: optional
// ones do not come here.
func (w *writer) value(v reflect.Value) {
	switch v := v.Addr().Interface().(type) {
	case *Time:
		w.time(*v)
		return
	case *Integers:
		w.integers(*v)
		return
	case *Column[float64]:
		writeColumn(w, *v, w.number)
		return
	case *Column[int64]:
		writeColumn(w, *v, w.integer)
		return
	case *map[string]json.RawMessage:
		w.custom(*v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			w.null()
		} else {
			w.value(v.Elem())
		}
	case reflect.String:
		w.text(v.String())
	case reflect.Int64:
		w.integer(v.Int())
	case reflect.Float64:
		w.number(v.Float())
	case reflect.Array, reflect.Slice:
		w.list(v.Len(), func(i int) { w.value(v.Index(i)) })
	default:
		w.object(v)
	}
}

// object writes a struct by the tags of its fields.
func (w *writer) object(v reflect.Value) {
	next := byte('{')
	for _, m := range members[v.Type()].all {
		field := v.Field(m.field)
		if m.optional && field.IsZero() {
			continue
		}
		w.out = append(append(append(w.out, next, '"'), m.name...), '"', ':')
		w.below(m.name, func() { w.value(field) })
		next = ','
	}
	w.out = append(w.out, '}')
}

// custom writes an object of members that are JSON already.
func (w *writer) custom(object map[string]json.RawMessage) {
	w.out = append(w.out, '{')
	for i, name := range slices.Sorted(maps.Keys(object)) {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.below(name, func() {
			w.text(name)
			w.out = append(w.out, ':')
			switch value := object[name]; {
			case value == nil:
				w.null()
			case !utf8.Valid(value):
				w.report(KeywordUTF8, "not UTF-8")
			case !json.Valid(value):
				// Written as it is, it could bring members beside its own.
				w.report(KeywordSyntax, "not JSON")
			default:
				w.out = append(w.out, value...)
			}
		})
	}
	w.out = append(w.out, '}')
}

// list writes an array of n items.
func (w *writer) list(n int, item func(i int)) {
	w.out = append(w.out, '[')
	for i := range n {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		before := len(w.path)
		w.path = strconv.AppendInt(append(w.path, '/'), int64(i), 10)
		item(i)
		w.path = w.path[:before]
	}
	w.out = append(w.out, ']')
}

func (w *writer) null() { w.out = append(w.out, "null"...) }

func (w *writer) time(t Time) {
	text, err := t.AppendText(nil)
	if err != nil {
		w.report("format", err.Error())
	}
	w.text(string(text))
}

func (w *writer) integer(n int64) { w.out = strconv.AppendInt(w.out, n, 10) }

// number writes f in the shortest form that reads back as f, with an exponent
// from 1e21 up and below 1e-6, as encoding/json does.
func (w *writer) number(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.report(KeywordNumber, fmt.Sprintf("%v is no number to JSON", f))
		return
	}
	format := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	w.out = strconv.AppendFloat(w.out, f, format, -1, 64)
}

const hexDigits = "0123456789abcdef"

// text writes a string. It escapes only what RFC 8259, section 7, wants
// escaped.
func (w *writer) text(s string) {
	if !utf8.ValidString(s) {
		w.report(KeywordUTF8, "not UTF-8")
		return
	}
	w.out = append(w.out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			w.out = append(w.out, '\\', c)
		case c < ' ':
			w.out = append(w.out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			w.out = append(w.out, c)
		}
	}
	w.out = append(w.out, '"')
}

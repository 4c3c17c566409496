package activityschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// A reader decodes a valid document in one pass. Validate has looked at the
// document before, so that it checks only what keeps it from running astray.
//
// encoding/json would not do: it takes no integer written 1.0, and scans a
// column twice before it hands it over.
type reader struct {
	data []byte
	at   int
	// saturate puts the nearer end of the range in place of an integer beyond
	// 64 bits.
	saturate bool
	// path is where the reader is, without what lies within custom.
	path       []pathToken
	surrogates LoneSurrogates
}

var errUnexpected = errors.New("not a value that the format has there")

// peek returns the next byte that is no white space, or 0 at the end.
func (r *reader) peek() byte {
	for ; r.at < len(r.data); r.at++ {
		if c := r.data[r.at]; c > ' ' {
			return c
		}
	}
	return 0
}

// take steps over the byte c if it is the next.
func (r *reader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.at++
	return true
}

// null steps over a null if it is the next.
func (r *reader) null() bool {
	if r.peek() != 'n' || !bytes.HasPrefix(r.data[r.at:], []byte("null")) {
		return false
	}
	r.at += len("null")
	return true
}

// into reads the next value into v, which is addressable.
func (r *reader) into(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if r.null() {
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return r.into(v.Elem())
	case reflect.String:
		text, err := r.text()
		v.SetString(text)
		return err
	case reflect.Int64:
		n, err := r.integer()
		v.SetInt(n)
		return err
	case reflect.Float64:
		f, err := r.number()
		v.SetFloat(f)
		return err
	case reflect.Array:
		n := 0
		return r.array(func() error {
			if n++; n > v.Len() {
				return errUnexpected
			}
			return r.into(v.Index(n - 1))
		})
	}
	var err error
	switch v := v.Addr().Interface().(type) {
	case *Time:
		var text string
		if text, err = r.text(); err == nil {
			err = v.read(text)
		}
	case *Integers:
		*v, err = r.integers()
	case *Column[float64]:
		*v, err = readColumn(r, parseNumber)
	case *Column[int64]:
		*v, err = readColumn(r, parseInteger)
	case *map[string]json.RawMessage:
		*v = map[string]json.RawMessage{}
		err = r.object(func(name []byte) error {
			value, err := r.skip()
			(*v)[string(name)] = bytes.Clone(value)
			if err == nil {
				r.surrogates.within(value, r.path)
			}
			return err
		})
	default:
		err = r.compound(reflect.ValueOf(v).Elem())
	}
	return err
}

// compound reads an array into a slice, or an object into a struct by the tags
// of its fields.
func (r *reader) compound(v reflect.Value) error {
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return r.array(func() error {
			v.Grow(1)
			v.SetLen(v.Len() + 1)
			return r.into(v.Index(v.Len() - 1))
		})
	}
	list := members[v.Type()]
	return r.object(func(name []byte) error {
		field, ok := list.named[string(name)]
		if !ok {
			_, err := r.skip()
			return err
		}
		return r.into(v.Field(field))
	})
}

// object reads an object; member reads the value of each member.
func (r *reader) object(member func(name []byte) error) error {
	if !r.take('{') {
		return errUnexpected
	}
	if r.take('}') {
		return nil
	}
	for {
		name, err := r.unquoted()
		if err != nil {
			return err
		}
		if !r.take(':') {
			return errUnexpected
		}
		r.path = append(r.path, pathToken{name: name})
		if err := member(name); err != nil {
			return under(string(name), err)
		}
		r.path = r.path[:len(r.path)-1]
		if r.take('}') {
			return nil
		}
		if !r.take(',') {
			return errUnexpected
		}
	}
}

// array reads an array; item reads each item.
func (r *reader) array(item func() error) error {
	if !r.take('[') {
		return errUnexpected
	}
	if r.take(']') {
		return nil
	}
	for n := 0; ; n++ {
		r.path = append(r.path, pathToken{item: n})
		if err := item(); err != nil {
			return under(strconv.Itoa(n), err)
		}
		r.path = r.path[:len(r.path)-1]
		if r.take(']') {
			return nil
		}
		if !r.take(',') {
			return errUnexpected
		}
	}
}

// literal steps over a string and returns it with its quotation marks.
func (r *reader) literal() ([]byte, error) {
	if r.peek() != '"' {
		return nil, errUnexpected
	}
	first := r.at
	for r.at++; r.at < len(r.data); r.at++ {
		switch r.data[r.at] {
		case '\\':
			r.at++
		case '"':
			r.at++
			return r.data[first:r.at], nil
		}
	}
	r.at = len(r.data)
	return nil, errUnexpected
}

func (r *reader) text() (string, error) {
	r.peek()
	first := r.at
	text, err := r.unquoted()
	if err == nil {
		r.surrogates.in(r.data[first:r.at], r.path)
	}
	return string(text), err
}

// unquoted steps over a string and returns what it says, valid as long as the
// data of the reader is.
func (r *reader) unquoted() ([]byte, error) {
	literal, err := r.literal()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(literal, '\\') < 0 {
		return literal[1 : len(literal)-1], nil
	}
	var text string
	err = json.Unmarshal(literal, &text)
	return []byte(text), err
}

// skip steps over the next value and returns it as it is written.
func (r *reader) skip() ([]byte, error) {
	r.peek()
	first, depth := r.at, 0
	for {
		switch c := r.peek(); c {
		case 0:
			return nil, errUnexpected
		case '"':
			if _, err := r.literal(); err != nil {
				return nil, err
			}
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		case ',', ':':
			r.at++
		default:
			for r.at < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:]}"), r.data[r.at]) < 0 {
				r.at++
			}
		}
		if depth <= 0 {
			return r.data[first:r.at], nil
		}
	}
}

func (r *reader) number() (float64, error) {
	r.peek()
	f, size, err := parseNumber(r.data[r.at:])
	r.at += size
	return f, err
}

func (r *reader) integer() (int64, error) {
	r.peek()
	n, size, err := parseInteger(r.data[r.at:])
	r.at += size
	return n, r.judge(err)
}

// judge turns errRange into what the caller of the reader asked for.
func (r *reader) judge(err error) error {
	switch {
	case !errors.Is(err, errRange):
		return err
	case r.saturate:
		return nil
	}
	return &RangeError{}
}

// under puts a reference token before the pointer of a RangeError, on its way
// up from the value at fault, and before the text of another error.
func under(token string, err error) error {
	if e, ok := errors.AsType[*RangeError](err); ok {
		e.Pointer = "/" + pointerEscapes.Replace(token) + e.Pointer
		return e
	}
	return fmt.Errorf("%.60q: %w", token, err)
}

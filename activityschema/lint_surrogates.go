package activityschema

import (
	"bytes"
	"strconv"
)

// LoneSurrogates are the texts in which decoding has replaced half a surrogate
// pair by U+FFFD (RFC 7493, section 2.1). There may be a million.
type LoneSurrogates struct {
	// Pointers are the places of the first of them, MaxFindingsPerCode at most, as
	// JSON Pointers (RFC 6901).
	Pointers []string
	// More is how many others there are.
	More int
}

// in looks at a string as it is written, quotation marks and all, at path.
func (s *LoneSurrogates) in(literal []byte, path []pathToken) {
	switch {
	case !escapesUnits(literal) || !halfSurrogate(literal):
	case len(s.Pointers) < MaxFindingsPerCode:
		s.Pointers = append(s.Pointers, pointerOf(path))
	default:
		s.More++
	}
}

// A pathToken is a member, or an item of an array if name is nil. It costs a reader nothing.
type pathToken struct {
	name []byte
	item int
}

func pointerOf(path []pathToken) string {
	tokens := make([]string, len(path))
	for i, p := range path {
		if tokens[i] = string(p.name); p.name == nil {
			tokens[i] = strconv.Itoa(p.item)
		}
	}
	return pointerTo(tokens)
}

// escapesUnits tells whether text has an escape of a UTF-16 unit; nearly none has.
func escapesUnits(text []byte) bool { return bytes.Contains(text, []byte(`\u`)) }

// within looks at all strings of a value as it is written, at path. Member names
// need no look: half a pair in one is a problem of the schema.
func (s *LoneSurrogates) within(value []byte, path []pathToken) {
	if !escapesUnits(value) {
		return
	}
	// A json.Decoder would have replaced them.
	r := &reader{data: value, path: path}
	var walk func() error
	walk = func() error {
		switch r.peek() {
		case '{':
			if len(r.path) > MaxDepth {
				return errUnexpected
			}
			return r.object(func([]byte) error { return walk() })
		case '[':
			if len(r.path) > MaxDepth {
				return errUnexpected
			}
			return r.array(walk)
		case '"':
			literal, err := r.literal()
			s.in(literal, r.path)
			return err
		}
		_, err := r.skip()
		return err
	}
	_ = walk() // the value is valid, or was not validated and has no places
}

// loneSurrogates tells of texts that other readers see otherwise.
func (l *linter) loneSurrogates(found LoneSurrogates) {
	for _, place := range found.Pointers {
		l.add(CodeLoneSurrogate, place, "has half a surrogate pair, which is no character (RFC 7493, section 2.1): readers replace it, or refuse the document")
	}
	for range found.More {
		l.room(CodeLoneSurrogate)
	}
}

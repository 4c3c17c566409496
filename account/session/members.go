package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep objects and arrays may nest; session tokens need 3.
const maxDepth = 6

// latestSecond is the end of the year 9999, beyond which RFC 3339 has no times.
const latestSecond = 253402300799

var errNotMembers = errors.New("not one JSON object with distinct members")

// members splits a JSON object by the exact names of its members. It exists
// because encoding/json matches names without regard to case and lets the last of
// two equal members win: with either, two parsers can read two different tokens.
// Repeated members are refused at every depth, as are invalid UTF-8 and
// anything after the object.
func members(data []byte) (map[string]json.RawMessage, error) {
	// From here on the text is known to be one JSON value, so the reader below may
	// go by its first bytes and cannot run past the end.
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, errNotMembers
	}
	r := reader{data: data}
	r.space()
	if r.data[r.at] != '{' {
		return nil, errNotMembers
	}
	return r.object(maxDepth)
}

// reader walks over text that json.Valid has accepted.
type reader struct {
	data []byte
	at   int
}

// object reads the object that begins at r.at, and leaves r.at behind it.
func (r *reader) object(depth int) (map[string]json.RawMessage, error) {
	if depth == 0 {
		return nil, errNotMembers
	}
	found := make(map[string]json.RawMessage)
	for {
		r.at++ // the opening brace or a comma
		r.space()
		if r.data[r.at] == '}' {
			break
		}
		raw := r.quoted()
		name, ok := text(raw)
		if _, again := found[name]; !ok || again {
			return nil, errNotMembers
		}
		r.space()
		r.at++ // the colon
		r.space()
		begin := r.at
		if err := r.value(depth - 1); err != nil {
			return nil, err
		}
		found[name] = json.RawMessage(r.data[begin:r.at])
		r.space()
		if r.data[r.at] == '}' {
			break
		}
	}
	r.at++
	return found, nil
}

func (r *reader) array(depth int) error {
	if depth == 0 {
		return errNotMembers
	}
	for {
		r.at++ // the opening bracket or a comma
		r.space()
		if r.data[r.at] == ']' {
			break
		}
		if err := r.value(depth - 1); err != nil {
			return err
		}
		r.space()
		if r.data[r.at] == ']' {
			break
		}
	}
	r.at++
	return nil
}

func (r *reader) value(depth int) error {
	switch r.data[r.at] {
	case '{':
		_, err := r.object(depth)
		return err
	case '[':
		return r.array(depth)
	case '"':
		r.quoted()
	default: // a number, true, false or null; something follows, for it is inside an object
		r.at += bytes.IndexAny(r.data[r.at:], ",]} \t\r\n")
	}
	return nil
}

// quoted steps over a string and returns it with its quotation marks.
func (r *reader) quoted() []byte {
	begin := r.at
	for r.at++; r.data[r.at] != '"'; r.at++ {
		if r.data[r.at] == '\\' {
			r.at++
		}
	}
	r.at++
	return r.data[begin:r.at]
}

func (r *reader) space() {
	for r.at < len(r.data) && bytes.IndexByte([]byte(" \t\r\n"), r.data[r.at]) >= 0 {
		r.at++
	}
}

// text reads a JSON string out of members, and nothing that Go would turn into one.
func text(value json.RawMessage) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), true
	}
	var s string
	return s, json.Unmarshal(value, &s) == nil
}

// texts reads a JSON array of strings.
func texts(value json.RawMessage) ([]string, bool) {
	if len(value) == 0 || value[0] != '[' {
		return nil, false
	}
	var elements []json.RawMessage
	if json.Unmarshal(value, &elements) != nil {
		return nil, false
	}
	list := make([]string, len(elements))
	for i, e := range elements {
		var ok bool
		if list[i], ok = text(e); !ok {
			return nil, false
		}
	}
	return list, true
}

// integer reads digits alone: no sign, fraction or exponent, up to limit. Fractions
// are legal in a NumericDate (RFC 7519 section 2), but Cairn writes whole seconds, and
// through a float64 a huge number would become some other time.
func integer(value json.RawMessage, limit int64) (int64, bool) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil && n <= limit
}

// absent reports whether an optional member is missing or null. Null is for claims
// that only describe; nothing that decides may be null.
func absent(value json.RawMessage) bool {
	return value == nil || string(value) == "null"
}

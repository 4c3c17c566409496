package activityschema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// parse turns data into the tree that the schema engine walks: map[string]any,
// []any, string, bool, nil, and numbers as whole or fraction. Data that is not
// I-JSON (RFC 7493) yields problems instead. The error is ctx's.
//
// encoding/json alone will not do: it keeps the last of two members of one
// name and mends invalid UTF-8 in silence, so that two readers of one file
// could see two different activities.
func parse(ctx context.Context, data []byte) (any, []Problem, error) {
	if p := checkText(data); p != nil {
		return nil, []Problem{*p}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	b := &treeBuilder{ctx: ctx, data: data, dec: dec}
	root, err := b.value()
	switch {
	case len(b.problems) > 0 && (err == nil || errors.Is(err, errEnough)):
		return nil, b.problems, nil
	case err != nil:
		return nil, nil, err
	}
	return root, nil, nil
}

// checkText returns what is wrong with data as one JSON text, or nil. After it
// every token of data can be read and no recursion goes deeper than MaxDepth.
func checkText(data []byte) *Problem {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return &Problem{Keyword: KeywordBOM, Message: "begins with a byte order mark, which JSON does not allow"}
	}
	if off := invalidUTF8(data); off >= 0 {
		return &Problem{Keyword: KeywordUTF8, Message: place(data, off) + ": not UTF-8"}
	}
	// Before the syntax, because encoding/json has a depth limit of its own
	// and would call it an error of syntax.
	if off := tooDeep(data); off >= 0 {
		return &Problem{Keyword: KeywordDepth, Message: fmt.Sprintf("%s: nested deeper than %d objects and arrays", place(data, off), MaxDepth)}
	}
	if json.Valid(data) {
		return nil
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &Problem{Keyword: KeywordSyntax, Message: "empty: there is no JSON value"}
	}
	first := json.NewDecoder(bytes.NewReader(data))
	if err := first.Decode(new(ignored)); err == nil {
		end := int(first.InputOffset())
		off := end + len(data[end:]) - len(bytes.TrimLeft(data[end:], " \t\r\n"))
		return &Problem{Keyword: KeywordTrailingData, Message: place(data, off) + ": something follows the JSON value"}
	}
	// Unmarshal, not the decoder: only its offsets are those of data.
	err := json.Unmarshal(data, new(ignored))
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return &Problem{Keyword: KeywordSyntax, Message: "not JSON"}
	}
	off := min(max(int(syntax.Offset)-1, 0), len(data))
	return &Problem{Keyword: KeywordSyntax, Message: place(data, off) + ": not JSON: " + syntax.Error()}
}

// ignored takes any JSON value and keeps nothing of it.
type ignored struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*ignored) UnmarshalJSON([]byte) error { return nil }

// invalidUTF8 returns the offset of the first byte which is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for off := 0; ; {
		r, n := utf8.DecodeRune(data[off:])
		if r == utf8.RuneError && n == 1 {
			return off
		}
		off += n
	}
}

// tooDeep returns the offset of the bracket that goes beyond MaxDepth, or -1.
// It is exact for JSON; what is not JSON is refused anyway.
func tooDeep(data []byte) int {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// place names the position of data[off] for people, counted from 1.
func place(data []byte, off int) string {
	before := data[:off]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte{'\n'})+1, utf8.RuneCount(line)+1)
}

// quote shows a member name in a message: control characters escaped, a long
// name cut.
func quote(name string) string {
	const most = 60
	n := 0
	for i := range name {
		if n++; n > most {
			return strconv.Quote(name[:i]) + "..."
		}
	}
	return strconv.Quote(name)
}

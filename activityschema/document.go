package activityschema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// parse turns data into the tree that the schema library walks: map[string]any,
// []any, string, bool, nil, and numbers as whole or fraction. Data that is not
// I-JSON (RFC 7493) yields problems instead, at most most. The error is ctx's.
//
// encoding/json alone will not do: it keeps the last of two members of one
// name and mends invalid UTF-8 in silence, so that two readers of one file
// could see two different activities.
func parse(ctx context.Context, data []byte, most int) (any, []Problem, error) {
	if p := checkText(data); p != nil {
		return nil, []Problem{*p}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	b := &treeBuilder{ctx: ctx, data: data, dec: dec, most: most}
	root, err := b.value()
	switch {
	case len(b.problems.problems) > 0 && (err == nil || errors.Is(err, errEnough)):
		return nil, b.problems.problems, nil
	case err != nil:
		return nil, nil, err
	}
	return root, nil, nil
}

// checkText returns what is wrong with data as one JSON text, or nil: of all
// that is, what comes first. After it every token of data can be read and no
// recursion goes deeper than MaxDepth.
func checkText(data []byte) *Problem {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return &Problem{Keyword: KeywordBOM, Message: "begins with a byte order mark, which JSON does not allow"}
	}
	// In this order, for what is wrong at one place. encoding/json has a depth
	// limit of its own, which is greater, and calls it an error of syntax.
	faults := []Problem{
		{Keyword: KeywordUTF8, Offset: int64(invalidUTF8(data)), Message: "not UTF-8"},
		syntaxFault(data),
		{Keyword: KeywordDepth, Offset: int64(tooDeep(data)), Message: fmt.Sprintf("nested deeper than %d objects and arrays", MaxDepth)},
	}
	var first *Problem
	for _, fault := range faults {
		if fault.Offset >= 0 && (first == nil || fault.Offset < first.Offset) {
			first = &fault
		}
	}
	if first != nil && first.Message != isEmpty {
		first.Message = lineAndColumn(data, int(first.Offset)) + ": " + first.Message
	}
	return first
}

const isEmpty = "empty: there is no JSON value"

// syntaxFault returns where and why data is not one JSON value; its offset is
// negative if it is one.
func syntaxFault(data []byte) Problem {
	rest := withoutSpace(data)
	switch {
	case json.Valid(data):
		return Problem{Offset: -1}
	case len(rest) == 0:
		return Problem{Keyword: KeywordSyntax, Offset: int64(len(data)), Message: isEmpty}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(new(ignored)); err == nil {
		after := withoutSpace(data[dec.InputOffset():])
		return Problem{Keyword: KeywordTrailingData, Offset: int64(len(data) - len(after)), Message: "something follows the JSON value"}
	}
	// Unmarshal, not the decoder: only its offsets are those of data. The byte
	// added is one that JSON has nowhere: at the latest there it stops.
	err := json.Unmarshal(append(bytes.Clone(data), 0), new(ignored))
	fault := Problem{Keyword: KeywordSyntax, Offset: int64(len(data)), Message: "not JSON: it ends too early"}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset <= int64(len(data)) {
		fault.Offset, fault.Message = syntax.Offset-1, "not JSON: "+syntax.Error()
	}
	return fault
}

// withoutSpace returns data from where its white space ends.
func withoutSpace(data []byte) []byte { return bytes.TrimLeft(data, " \t\r\n") }

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

// lineAndColumn names the position of data[off] for people, counted from 1.
func lineAndColumn(data []byte, off int) string {
	before := data[:off]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte{'\n'})+1, utf8.RuneCount(line)+1)
}

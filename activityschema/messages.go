package activityschema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Keywords of problems without a JSON Schema keyword: the document is too large or not I-JSON
// (RFC 7493).
const (
	KeywordSize         = "size" // larger than Options.MaxBytes
	KeywordBOM          = "byte-order-mark"
	KeywordUTF8         = "utf-8"         // not UTF-8, or half a surrogate pair
	KeywordDepth        = "depth"         // nested deeper than MaxDepth
	KeywordSyntax       = "syntax"        // not JSON (RFC 8259), or empty
	KeywordTrailingData = "trailing-data" // something after the JSON value
	KeywordDuplicate    = "duplicate"     // a repeated member name in one object
	KeywordNumber       = "number"        // a number beyond the range of a double
	KeywordInteger      = "integer"       // an integer beyond 64 bits; only from Decode, because the format allows it
)

// A Place is a position in a document.
type Place struct {
	Offset int64 `json:"offset"` // in bytes from 0
	Line   int   `json:"line"`   // from 1
	Column int   `json:"column"` // from 1, in characters
}

// A Problem is one departure of a document from the format.
type Problem struct {
	// Pointer is the place in the document, an RFC 6901 JSON Pointer. Empty means the whole
	// document. For a missing member it is the object that lacks it. It contains member names of
	// the document unescaped, so quote it (%q) before it reaches a terminal. If it would be
	// longer than a megabyte, it leads to an enclosing object or array.
	Pointer string `json:"pointer"`
	// Place is where the value begins or, for additionalProperties and duplicate, the member's
	// name.
	Place
	// Keyword is the JSON Schema keyword that failed (type, required,
	// additionalProperties, enum, ...) or one of the Keyword constants.
	Keyword string `json:"keyword"`
	// Message says in plain words what is wrong, what was found and what was expected. It is safe
	// to print.
	Message string `json:"message"`
	// Found shows the value found, such as string "rowing", number 2.5 or null, shortened if it
	// is long. It is safe to print but, like Message, reveals a piece of the document. It is
	// empty if there is no value.
	Found string `json:"found,omitempty"`
	// Expected describes the right value, such as integer or null. It is empty if the keyword
	// alone says it. It is safe to print.
	Expected string `json:"expected,omitempty"`
}

// mostText bounds the text of a result and the length of a pointer, in bytes. Without it a
// document with long member names could cause a result many times its size.
const mostText = 1 << 20

// A problemList is a list of problems that is full at a given number or at mostText.
type problemList struct {
	problems []Problem
	text     int
}

func (l *problemList) full(most int) bool { return len(l.problems) >= most || l.text >= mostText }

func (l *problemList) add(p Problem) {
	for len(p.Pointer) > mostText {
		p.Pointer = p.Pointer[:strings.LastIndexByte(p.Pointer, '/')]
	}
	l.problems = append(l.problems, p)
	l.text += len(p.Pointer) + len(p.Message) + len(p.Found) + len(p.Expected)
}

// inOrder sorts problems by place and returns as many as a result may have.
func inOrder(problems []Problem, most int) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Offset, b.Offset) })
	var result problemList
	for _, p := range problems {
		if result.full(most) {
			break
		}
		result.add(p)
	}
	return result.problems
}

// bothForms is what is expected of a document without a member that indicates its form.
const bothForms = "an index document (owner, generated_at, activities) " +
	"or an activity detail document (id, laps, timeseries, custom)"

func problem(pointer string, at Place, keyword, expected, found string) Problem {
	message := "must be " + expected + ", not " + found
	switch keyword {
	case "required":
		message = expected + " is missing"
	case "additionalProperties":
		message = found + " is not part of the format here"
	case "oneOf":
		message = "must be " + expected
	}
	return Problem{Pointer: pointer, Place: at, Keyword: keyword, Message: message, Found: found, Expected: expected}
}

func memberNamed(name string) string { return "member " + quote(name) }

// mostShown is the maximum number of characters of the document in a message.
const mostShown = 60

func shown(raw []byte, kind kinds) string {
	what := "number "
	switch kind {
	case kindObject:
		return "object"
	case kindArray:
		return "array"
	case kindString:
		return "string " + quote(string(unquoted(raw)))
	case kindNull, kindBoolean:
		return string(raw)
	case kindInteger:
		what = "integer "
	}
	if len(raw) > mostShown {
		return what + string(raw[:mostShown]) + "..."
	}
	return what + string(raw)
}

// quote quotes a text of the document for a message: control characters are escaped, a long text
// is shortened.
func quote(text string) string {
	n := 0
	for i := range text {
		if n++; n > mostShown {
			return strconv.Quote(text[:i]) + "..."
		}
	}
	return strconv.Quote(text)
}

package activityschema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Keywords of the problems that have no JSON Schema keyword: the
// document is too large or not I-JSON (RFC 7493).
const (
	KeywordSize         = "size" // larger than Options.MaxBytes
	KeywordBOM          = "byte-order-mark"
	KeywordUTF8         = "utf-8"         // not UTF-8, or half a surrogate pair
	KeywordDepth        = "depth"         // nested deeper than MaxDepth
	KeywordSyntax       = "syntax"        // not JSON (RFC 8259), or empty
	KeywordTrailingData = "trailing-data" // something after the JSON value
	KeywordDuplicate    = "duplicate"     // a member name twice in one object
	KeywordNumber       = "number"        // a number beyond the range of a double
	KeywordInteger      = "integer"       // an integer beyond 64 bits; of Decode, for the format allows it
)

// A Place is a position in a document.
type Place struct {
	Offset int64 `json:"offset"` // in bytes from 0
	Line   int   `json:"line"`   // from 1
	Column int   `json:"column"` // from 1, in characters
}

// A Problem is one departure of a document from the format.
type Problem struct {
	// Pointer is the place in the document, an RFC 6901 JSON Pointer; empty
	// means the whole document. For a missing member it is the object that
	// lacks it. It repeats member names of the document as they are, so
	// quote it (%q) before it reaches a terminal. Where it would be longer than
	// a megabyte it leads to an object or array on the way.
	Pointer string `json:"pointer"`
	// Place is where the value begins, or for additionalProperties and duplicate
	// the member's name.
	Place
	// Keyword is the JSON Schema keyword that failed (type, required,
	// additionalProperties, enum, ...) or one of the Keyword constants.
	Keyword string `json:"keyword"`
	// Message says in plain words what is wrong, what was found and what was
	// expected. It is safe to print.
	Message string `json:"message"`
	// Found shows the value that is there, such as string "rowing", number 2.5
	// or null; a long one is cut. It is safe to print, but shows who reads it a
	// piece of the document, as Message does. Empty if there is no value.
	Found string `json:"found,omitempty"`
	// Expected says what would be right, such as integer or null; empty where
	// the keyword says it all. It is safe to print.
	Expected string `json:"expected,omitempty"`
}

// mostText is about how much text an answer may have, in bytes, and the most
// that a pointer has: a document of long member names must not make an answer
// many times its size.
const mostText = 1 << 20

// problemList is a list of problems that is full at some number of them, or at
// mostText.
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

// inOrder sorts problems by their place and returns as many as an answer may
// have.
func inOrder(problems []Problem, most int) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Offset, b.Offset) })
	var answer problemList
	for _, p := range problems {
		if answer.full(most) {
			break
		}
		answer.add(p)
	}
	return answer.problems
}

// formsWanted is expected of a document of which no member tells its form.
const formsWanted = "an index document (owner, generated_at, activities) or an activity detail document (id, laps, timeseries, custom)"

// problem returns the problem of a value that was found where a keyword expects another.
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

// memberNamed shows a member by its name.
func memberNamed(name string) string { return "member " + quote(name) }

// mostShown is how many characters of the document a message repeats at most.
const mostShown = 60

// shown shows a value that was found.
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

// quote shows a text of the document in a message: control characters escaped,
// a long text cut.
func quote(text string) string {
	n := 0
	for i := range text {
		if n++; n > mostShown {
			return strconv.Quote(text[:i]) + "..."
		}
	}
	return strconv.Quote(text)
}

package activityschema

// Keywords of the problems which no JSON Schema keyword stands for: the
// document is too large or not I-JSON (RFC 7493).
const (
	KeywordSize         = "size" // larger than Options.MaxBytes
	KeywordBOM          = "byte-order-mark"
	KeywordUTF8         = "utf-8"         // not UTF-8, or a member name with half a surrogate pair
	KeywordDepth        = "depth"         // nested deeper than MaxDepth
	KeywordSyntax       = "syntax"        // not JSON (RFC 8259), or empty
	KeywordTrailingData = "trailing-data" // something after the JSON value
	KeywordDuplicate    = "duplicate"     // a member name twice in one object
	KeywordNumber       = "number"        // a number beyond the range of a double
)

// A Problem is one departure of a document from the format.
type Problem struct {
	// Pointer is the place in the document, an RFC 6901 JSON Pointer; empty
	// means the whole document. For a missing member it is the object that
	// lacks it. It repeats member names of the document as they are, so
	// quote it (%q) before it reaches a terminal. Where it would be longer than
	// a megabyte it leads to an object or array on the way.
	Pointer string `json:"pointer"`
	// Offset is the same place in bytes from 0: where the value begins, or for
	// additionalProperties and duplicate the member's name.
	Offset int64 `json:"offset"`
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

// A Form is one of the two forms of a document.
type Form string

// The forms. The empty Form means that a document is of neither.
const (
	FormIndex  Form = "index"
	FormDetail Form = "detail"
)

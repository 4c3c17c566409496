package activityschema

import (
	"context"
	"fmt"
	"io"
)

// Limits of one validation.
const (
	MaxBytes    = 256 << 20 // size of a document, in bytes
	MaxDepth    = 64        // objects and arrays within one another, the document itself included
	MaxProblems = 100       // problems returned; a document may have more
)

// Keywords of the problems which no JSON Schema keyword stands for: the
// document is too large or not I-JSON (RFC 7493).
const (
	KeywordSize         = "size" // larger than MaxBytes
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
	// quote it (%q) before it reaches a terminal.
	Pointer string `json:"pointer"`
	// Keyword is the JSON Schema keyword that failed (type, required,
	// additionalProperties, enum, ...) or one of the Keyword constants.
	Keyword string `json:"keyword"`
	// Message says in plain words what is wrong. It is safe to print.
	Message string `json:"message"`
}

// Validate reads one document from r to the end and returns where it departs
// from the format, at most MaxProblems problems in an order that is the same
// at every run; none means that the document is valid.
//
// The problems are those of the form that the document was meant to be, told
// by its members (owner and activities, or laps and timeseries). A document
// that is not I-JSON is reported as such and not looked at any further.
//
// The error is for r failing and for ctx being done, both wrapped; the problems
// are then nil. ctx is looked at between reads and during the validation, but a
// Read that blocks is not interrupted. Validate may be called concurrently.
func Validate(ctx context.Context, r io.Reader) ([]Problem, error) {
	return validate(ctx, r, MaxBytes)
}

func validate(ctx context.Context, r io.Reader, limit int64) ([]Problem, error) {
	forms, err := loadForms()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(contextReader{ctx, r}, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	if int64(len(data)) > limit {
		return []Problem{{Keyword: KeywordSize, Message: fmt.Sprintf("larger than %d bytes", limit)}}, nil
	}
	root, problems, err := parse(ctx, data)
	if err == nil && len(problems) == 0 {
		problems = forms.check(ctx, root)
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("validating the document: %w", err)
	}
	return problems, nil
}

// contextReader stops between two reads once its context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

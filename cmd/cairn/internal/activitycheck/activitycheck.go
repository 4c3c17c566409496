// Package activitycheck checks activity documents one by one, so that the command and the service
// give the same answer. It leaves to them where the documents come from, and the comparison of the
// documents of a folder.
package activitycheck

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/activityschema/reference"
)

// A Checker checks documents. It may be used concurrently.
type Checker struct {
	MaxProblems int  // 0 means activityschema.MaxProblems
	Reference   bool // the verdict is that of package reference
	Lint        bool
	Ignore      []string // findings to omit: CODE or CODE:POINTER
	Strict      bool     // a document with warnings does not pass
}

// An Answer is the result for one document.
type Answer struct {
	// Valid reports whether the document is valid. It may have findings even so.
	Valid bool `json:"valid"`
	// Form is what the document was meant to be: index, detail, or empty if that is unknown.
	Form     activityschema.Form      `json:"form"`
	Problems []activityschema.Problem `json:"problems"`
	Findings []Finding                `json:"findings"`
}

// A Finding is a finding of the linter with its place in the document.
type Finding struct {
	activityschema.Finding
	activityschema.Place
}

// Passes reports whether a document is valid and has no errors, and with Strict no warnings.
func (c *Checker) Passes(a Answer) bool {
	return a.Valid && !slices.ContainsFunc(a.Findings, func(f Finding) bool {
		return c.Strict || f.Severity == activityschema.SeverityError
	})
}

// Check validates a document while it reads it, and keeps it for the linter unless it is too large. The
// Document is nil if it is not valid or not linted. The error is from r.
func (c *Checker) Check(ctx context.Context, r io.Reader) (Answer, *activityschema.Document, error) {
	a := Answer{Problems: []activityschema.Problem{}, Findings: []Finding{}}
	var kept keeper
	if c.Lint {
		kept.most = activityschema.MaxLintBytes
	}
	if c.Reference {
		kept.most = activityschema.MaxBytes
	}
	r = io.TeeReader(r, &kept)
	form, problems, err := activityschema.Options{MaxProblems: c.MaxProblems}.Validate(ctx, r)
	if err == nil && c.Reference {
		_, err = io.Copy(io.Discard, r) // keep the rest: Validate stops at a syntax error
	}
	if err != nil {
		return a, nil, err
	}
	a.Form, a.Problems = form, append(a.Problems, problems...)
	if kind := recording(kept.head); kind != "" && len(problems) > 0 {
		a.Problems = []activityschema.Problem{{
			Place: activityschema.Place{Line: 1, Column: 1}, Keyword: activityschema.KeywordSyntax,
			Message: "a " + kind + " recording, not an activity document: " +
				"convert it to the JSON that cairn activity schema describes",
		}}
		return a, nil, nil
	}
	data := bytes.Join(kept.blocks, nil)
	if c.Reference {
		a.Problems = []activityschema.Problem{}
		if ok, err := reference.Valid(ctx, data); err != nil {
			return a, nil, err
		} else if !ok || kept.dropped() {
			a.Problems = append(a.Problems, activityschema.Problem{
				Place: activityschema.Place{Line: 1, Column: 1}, Keyword: "reference",
				Message: "refused by the reference implementation, which gives no place: leave --engine out to see it",
			})
		}
	}
	if a.Valid = len(a.Problems) == 0; !a.Valid || !c.Lint {
		return a, nil, nil
	}
	if kept.size > activityschema.MaxLintBytes {
		return a, nil, c.Add(&a, []byte("{}"), []activityschema.Finding{activityschema.NotLinted()})
	}
	if free(data) > mostFree {
		unread := activityschema.NotLinted()
		unread.Message = "custom has too many members and items: neither its sense nor its privacy has been checked"
		return a, nil, c.Add(&a, []byte("{}"), []activityschema.Finding{unread})
	}
	document, err := activityschema.DecodeValid(form, data)
	if err != nil {
		return a, nil, err
	}
	return a, document, c.Add(&a, data, activityschema.Lint(document))
}

// mostFree bounds what the linter takes for custom, of which each comma or colon may stand for 200 bytes of memory.
const mostFree = 250_000

// free counts the characters of a valid document's custom that separate or begin a value.
func free(data []byte) (n int) {
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() == '"' {
		var value jsontext.Value
		if name, _ := dec.ReadToken(); name.String() != "custom" {
			err = dec.SkipValue()
			continue
		}
		value, err = dec.ReadValue()
		for _, mark := range []string{",", ":", "[", "{"} {
			n += bytes.Count(value, []byte(mark))
		}
	}
	return n
}

// Add adds findings about a document to an answer, except ignored ones. It adds their places and
// keeps the findings in that order.
func (c *Checker) Add(a *Answer, data []byte, found []activityschema.Finding) error {
	found = slices.DeleteFunc(slices.Clone(found), c.ignores)
	if len(found) == 0 {
		return nil
	}
	var pointers []string
	for _, f := range found {
		pointers = append(pointers, f.Pointer)
	}
	places, err := activityschema.Locate(data, pointers)
	if err != nil {
		return err
	}
	for i, f := range found {
		a.Findings = append(a.Findings, Finding{f, places[i]})
	}
	slices.SortStableFunc(a.Findings, func(a, b Finding) int { return cmp.Compare(a.Offset, b.Offset) })
	return nil
}

func (c *Checker) ignores(f activityschema.Finding) bool {
	return slices.ContainsFunc(c.Ignore, func(ignored string) bool {
		code, pointer, _ := strings.Cut(ignored, ":")
		return code == f.Code && (pointer == "" || f.Pointer == pointer || strings.HasPrefix(f.Pointer, pointer+"/"))
	})
}

// A keeper keeps a document up to a size, in the blocks in which it is written: one growing slice would
// need three times as much memory.
type keeper struct {
	most, size int
	blocks     [][]byte
	head       []byte // up to headBytes of the beginning
}

const headBytes = 1024

// recording returns the format of a file that devices and services write, or "" for any other file.
func recording(head []byte) string {
	markup := bytes.HasPrefix(bytes.TrimLeft(head, "\ufeff \t\r\n"), []byte("<"))
	switch {
	case len(head) >= 12 && string(head[8:12]) == ".FIT":
		return "FIT"
	case !markup:
	case bytes.Contains(head, []byte("<gpx")):
		return "GPX"
	case bytes.Contains(head, []byte("<TrainingCenterDatabase")):
		return "TCX"
	}
	return ""
}

func (k *keeper) dropped() bool { return k.size > k.most }

// Write implements io.Writer.
func (k *keeper) Write(p []byte) (int, error) {
	k.size += len(p)
	k.head = append(k.head, p[:min(len(p), headBytes-len(k.head))]...)
	if k.dropped() {
		k.blocks = nil
	} else {
		k.blocks = append(k.blocks, bytes.Clone(p))
	}
	return len(p), nil
}

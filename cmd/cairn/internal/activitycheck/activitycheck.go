// Package activitycheck validates and lints one activity document, and says the same
// by the command and by the service. It leaves to others where the document comes from
// and how the answer is shown.
package activitycheck

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/activityschema/reference"
)

const (
	// SmallBytes is the size up to which documents are kept to be linted, as many at
	// once as there are jobs; of larger ones one at a time.
	SmallBytes = 4 << 20
	// lintBytes is the size up to which a document is linted.
	lintBytes = activityschema.MaxLintBytes
)

// A Checker checks documents one by one. It may be used concurrently.
type Checker struct {
	Options   activityschema.Options
	Reference bool // the verdict is that of package reference
	Lint      bool
	Ignore    []string // findings that are left out: CODE or CODE:POINTER
	Strict    bool     // warnings fail, too

	large chan struct{} // held while a document beyond SmallBytes is in memory
}

// New returns a checker as c says.
func New(c Checker) *Checker {
	c.large = make(chan struct{}, 1)
	return &c
}

// An Answer is what is said about one document, the same by the command and by
// the service.
type Answer struct {
	// Valid tells whether the document is valid, whatever the findings are.
	Valid bool `json:"valid"`
	// Form is what the document was meant to be: index, detail, or empty if
	// nothing tells.
	Form     activityschema.Form      `json:"form"`
	Problems []activityschema.Problem `json:"problems"`
	Findings []LocatedFinding         `json:"findings"`
}

// A LocatedFinding is a finding with its place.
type LocatedFinding struct {
	activityschema.Finding
	activityschema.Place
}

// Passes tells whether nothing is said that fails a document.
func (c *Checker) Passes(a Answer) bool {
	return a.Valid && !slices.ContainsFunc(a.Findings, func(f LocatedFinding) bool { return c.Strict || f.Severity == activityschema.SeverityError })
}

// Check validates a document as it streams by, and keeps it to be linted unless it is
// too large for that. The document is for the comparison with others; it is nil if it is
// not valid or not linted.
func (c *Checker) Check(ctx context.Context, r io.Reader) (Answer, *activityschema.Document, error) {
	kept := &keeper{ctx: ctx, checker: c, most: lintBytes}
	defer kept.release()
	if c.Reference {
		kept.most = activityschema.MaxBytes
	}
	if c.Lint || c.Reference {
		r = io.TeeReader(r, kept)
	}
	form, problems, err := c.Options.Validate(ctx, r)
	if err != nil {
		return Answer{}, nil, err
	}
	a := Answer{Valid: len(problems) == 0, Form: form, Problems: append([]activityschema.Problem{}, problems...), Findings: []LocatedFinding{}}
	if c.Reference {
		if _, err := io.Copy(io.Discard, r); err != nil { // of what is not JSON the rest
			return Answer{}, nil, err
		}
		if a.Valid, err = c.verdict(ctx, kept); err != nil {
			return Answer{}, nil, err
		}
		if a.Problems = []activityschema.Problem{}; !a.Valid {
			a.Problems = append(a.Problems, activityschema.Problem{
				Place: activityschema.Place{Line: 1, Column: 1}, Keyword: "reference",
				Message: "refused by the reference implementation, which does not say where: leave --engine out to see",
			})
		}
	}
	if !a.Valid || !c.Lint {
		return a, nil, nil
	}
	if kept.dropped || kept.size > lintBytes {
		found := activityschema.NotLinted()
		a.Findings, err = c.Locate(ctx, strings.NewReader("{}"), []activityschema.Finding{found})
		return a, nil, err
	}
	data := bytes.Join(kept.blocks, nil)
	document, _, err := activityschema.DecodeValid(ctx, form, data)
	if err != nil {
		return Answer{}, nil, err
	}
	a.Findings, err = c.Locate(ctx, bytes.NewReader(data), activityschema.Lint(document))
	return a, document, err
}

func (c *Checker) verdict(ctx context.Context, kept *keeper) (bool, error) {
	if kept.dropped {
		return false, nil // larger than MaxBytes
	}
	return reference.Valid(ctx, bytes.Join(kept.blocks, nil))
}

// Locate returns those that are not ignored, with their places in a document and in
// their order.
func (c *Checker) Locate(ctx context.Context, r io.Reader, found []activityschema.Finding) ([]LocatedFinding, error) {
	out := []LocatedFinding{}
	var pointers []string
	for _, f := range found {
		if !slices.ContainsFunc(c.Ignore, func(ignored string) bool { return ignores(ignored, f) }) {
			out = append(out, LocatedFinding{Finding: f})
			pointers = append(pointers, f.Pointer)
		}
	}
	if len(out) == 0 {
		return out, nil
	}
	places, err := activityschema.Locate(ctx, r, pointers)
	if err != nil {
		return out, err
	}
	for i := range out {
		out[i].Place = places[i]
	}
	InOrder(out)
	return out, nil
}

// ignores tells whether CODE or CODE:POINTER is about a finding.
func ignores(ignored string, f activityschema.Finding) bool {
	code, pointer, _ := strings.Cut(ignored, ":")
	return code == f.Code && (pointer == "" || f.Pointer == pointer || strings.HasPrefix(f.Pointer, pointer+"/"))
}

// InOrder sorts findings by their place, as problems are.
func InOrder(findings []LocatedFinding) {
	slices.SortStableFunc(findings, func(a, b LocatedFinding) int { return cmp.Compare(a.Offset, b.Offset) })
}

// A keeper keeps a document up to a size. It waits, as soon as the document is large,
// until no other large one is in memory.
type keeper struct {
	ctx     context.Context
	checker *Checker
	most    int
	blocks  [][]byte
	size    int
	dropped bool
	holds   bool
}

// Write implements io.Writer.
func (k *keeper) Write(p []byte) (int, error) {
	if k.size += len(p); k.size > k.most {
		k.dropped, k.blocks = true, nil
		k.release()
		return len(p), nil
	}
	if k.size > SmallBytes && !k.holds {
		select {
		case k.checker.large <- struct{}{}:
			k.holds = true
		case <-k.ctx.Done():
			return 0, fmt.Errorf("waiting for memory: %w", k.ctx.Err())
		}
	}
	k.blocks = append(k.blocks, bytes.Clone(p))
	return len(p), nil
}

func (k *keeper) release() {
	if k.holds {
		k.holds = false
		<-k.checker.large
	}
}

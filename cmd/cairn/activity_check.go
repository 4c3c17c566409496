package main

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
	// smallBytes is the size up to which documents are kept to be linted, as many at
	// once as there are jobs; of larger ones one at a time.
	smallBytes = 4 << 20
	// lintBytes is the size up to which a document is linted.
	lintBytes = activityschema.MaxLintBytes
)

// A checker checks documents one by one. It may be used concurrently.
type checker struct {
	options   activityschema.Options
	reference bool // the verdict is that of package reference
	lint      bool
	ignore    []string // findings that are left out: CODE or CODE:POINTER
	strict    bool     // warnings fail, too

	large chan struct{} // held while a document beyond smallBytes is in memory
}

func newChecker(c checker) *checker {
	c.large = make(chan struct{}, 1)
	return &c
}

// An answer is what is said about one document, the same by the command and by
// the service.
type answer struct {
	// Valid tells whether the document is valid, whatever the findings are.
	Valid bool `json:"valid"`
	// Form is what the document was meant to be: index, detail, or empty if
	// nothing tells.
	Form     activityschema.Form      `json:"form"`
	Problems []activityschema.Problem `json:"problems"`
	Findings []locatedFinding         `json:"findings"`
}

// A locatedFinding is a finding with its place.
type locatedFinding struct {
	activityschema.Finding
	activityschema.Place
}

// passes tells whether nothing is said that fails a document.
func (c *checker) passes(a answer) bool {
	return a.Valid && !slices.ContainsFunc(a.Findings, func(f locatedFinding) bool { return c.strict || f.Severity == activityschema.SeverityError })
}

// check reads and checks one document. The document is for the comparison with
// others; it is nil if it is not valid or not linted.
func (c *checker) check(ctx context.Context, s *source) (answer, *activityschema.Document, error) {
	f, err := s.open()
	if err != nil {
		return answer{}, nil, err
	}
	defer func() { _ = f.Close() }()
	return c.checkReader(ctx, f)
}

// checkReader validates a document as it streams by, and keeps it to be linted unless
// it is too large for that.
func (c *checker) checkReader(ctx context.Context, r io.Reader) (answer, *activityschema.Document, error) {
	kept := &keeper{ctx: ctx, checker: c, most: lintBytes}
	defer kept.release()
	if c.reference {
		kept.most = activityschema.MaxBytes
	}
	if c.lint || c.reference {
		r = io.TeeReader(r, kept)
	}
	form, problems, err := c.options.Validate(ctx, r)
	if err != nil {
		return answer{}, nil, plainError(err)
	}
	a := answer{Valid: len(problems) == 0, Form: form, Problems: append([]activityschema.Problem{}, problems...), Findings: []locatedFinding{}}
	if c.reference {
		if _, err := io.Copy(io.Discard, r); err != nil { // of what is not JSON the rest
			return answer{}, nil, plainError(err)
		}
		if a.Valid, err = c.verdict(ctx, kept); err != nil {
			return answer{}, nil, err
		}
		if a.Problems = []activityschema.Problem{}; !a.Valid {
			a.Problems = append(a.Problems, activityschema.Problem{
				Place: activityschema.Place{Line: 1, Column: 1}, Keyword: "reference",
				Message: "refused by the reference implementation, which does not say where: leave --engine out to see",
			})
		}
	}
	if !a.Valid || !c.lint {
		return a, nil, nil
	}
	if kept.dropped || kept.size > lintBytes {
		found := activityschema.NotLinted()
		a.Findings, err = c.findings(ctx, []byte("{}"), []activityschema.Finding{found})
		return a, nil, err
	}
	data := bytes.Join(kept.blocks, nil)
	document, err := activityschema.DecodeValid(form, data)
	if err != nil {
		return answer{}, nil, err
	}
	a.Findings, err = c.findings(ctx, data, activityschema.Lint(document))
	return a, document, err
}

func (c *checker) verdict(ctx context.Context, kept *keeper) (bool, error) {
	if kept.dropped {
		return false, nil // larger than MaxBytes
	}
	return reference.Valid(ctx, bytes.Join(kept.blocks, nil))
}

// findings returns those that are not ignored, with their places in a document and in
// their order.
func (c *checker) findings(ctx context.Context, data []byte, found []activityschema.Finding) ([]locatedFinding, error) {
	out := []locatedFinding{}
	var pointers []string
	for _, f := range found {
		if !slices.ContainsFunc(c.ignore, func(ignored string) bool { return ignores(ignored, f) }) {
			out = append(out, locatedFinding{Finding: f})
			pointers = append(pointers, f.Pointer)
		}
	}
	if len(out) == 0 {
		return out, nil
	}
	places, err := activityschema.Locate(data, pointers)
	if err != nil {
		return out, err
	}
	for i := range out {
		out[i].Place = places[i]
	}
	inOrder(out)
	return out, nil
}

// ignores tells whether CODE or CODE:POINTER is about a finding.
func ignores(ignored string, f activityschema.Finding) bool {
	code, pointer, _ := strings.Cut(ignored, ":")
	return code == f.Code && (pointer == "" || f.Pointer == pointer || strings.HasPrefix(f.Pointer, pointer+"/"))
}

// inOrder sorts findings by their place, as problems are.
func inOrder(findings []locatedFinding) {
	slices.SortStableFunc(findings, func(a, b locatedFinding) int { return cmp.Compare(a.Offset, b.Offset) })
}

// A keeper keeps a document up to a size. It waits, as soon as the document is large,
// until no other large one is in memory.
type keeper struct {
	ctx     context.Context
	checker *checker
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
	if k.size > smallBytes && !k.holds {
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

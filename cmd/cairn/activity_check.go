package main

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/cairn-id/cairn/activityschema"
)

// A checker checks documents one by one. It may be used concurrently.
type checker struct {
	options      activityschema.Options
	lint         bool
	allowPrivacy bool // privacy findings are warnings
	strict       bool // warnings fail, too

	// large is held while a document beyond wholeBytes is in memory.
	large chan struct{}
}

// An answer is what is said about one document, the same by the command and by
// the service.
type answer struct {
	// Valid tells whether the document is valid, whatever the findings are.
	Valid bool `json:"valid"`
	// Form is what the document was meant to be: index, detail, or empty if
	// nothing tells.
	Form     activityschema.Form `json:"form"`
	Problems []locatedProblem    `json:"problems"`
	Findings []locatedFinding    `json:"findings"`
}

// inspected is what one look at the bytes of a document has shown.
type inspected struct {
	form     activityschema.Form
	problems []activityschema.Problem
	document *activityschema.Document // of a valid document, nil without lint
}

// inspect validates data, and decodes it if it is valid and to be linted.
func (c *checker) inspect(ctx context.Context, data []byte) (inspected, error) {
	form, problems, err := c.options.ValidateForm(ctx, bytes.NewReader(data))
	got := inspected{form: form, problems: problems}
	if err == nil && len(problems) == 0 && c.lint {
		got.document, err = activityschema.DecodeForLint(data)
	}
	return got, err
}

// findings returns what lint says, with privacy as severe as it is to be taken.
func (c *checker) findings(found []activityschema.Finding) []locatedFinding {
	out := make([]locatedFinding, 0, len(found))
	for _, f := range found {
		if c.allowPrivacy {
			f.Severity = activityschema.SeverityWarning
		}
		out = append(out, locatedFinding{Finding: f})
	}
	return out
}

// answer puts together what is said about the document in data.
func (c *checker) answer(data []byte, got inspected) answer {
	a := answer{Valid: len(got.problems) == 0, Form: got.form, Problems: located(got.problems), Findings: []locatedFinding{}}
	_ = placeProblems(bytes.NewReader(data), a.Problems) // memory does not fail
	if got.document != nil {
		a.Findings = c.findings(activityschema.Lint(got.document))
		placeFindings(data, a.Findings)
		inOrder(a.Findings)
	}
	return a
}

func located(problems []activityschema.Problem) []locatedProblem {
	out := make([]locatedProblem, len(problems))
	for i, p := range problems {
		out[i].Problem = p
	}
	return out
}

// passes tells whether nothing is said that fails a document.
func (c *checker) passes(a answer) bool {
	if !a.Valid {
		return false
	}
	for _, f := range a.Findings {
		if c.strict || f.Severity == activityschema.SeverityError {
			return false
		}
	}
	return true
}

// buffers are reused between documents that are read whole.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// check reads and checks one document. The document is for the comparison with
// others; it is nil if it is not valid or not linted.
func (c *checker) check(ctx context.Context, s *source) (answer, *activityschema.Document, error) {
	f, err := s.open()
	if err != nil {
		return answer{}, nil, err
	}
	defer func() { _ = f.Close() }()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	head, whole, err := readAll(f, (*buf)[:0], wholeBytes)
	*buf = head[:0]
	switch {
	case err != nil:
		return answer{}, nil, err
	case whole:
		return c.checkBytes(ctx, head)
	case !s.once && c.options.Engine == activityschema.EngineFast:
		return c.checkStream(ctx, s, io.MultiReader(bytes.NewReader(head), f))
	}
	if err := c.hold(ctx); err != nil {
		return answer{}, nil, err
	}
	defer c.release()
	data, _, err := readAll(f, bytes.Clone(head), largest)
	if err != nil {
		return answer{}, nil, err
	}
	return c.checkBytes(ctx, data)
}

func (c *checker) checkBytes(ctx context.Context, data []byte) (answer, *activityschema.Document, error) {
	got, err := c.inspect(ctx, data)
	if err != nil {
		return answer{}, nil, err
	}
	return c.answer(data, got), got.document, nil
}

// checkStream validates a large document as it streams by. It is read a second
// time for the lines of the problems, or to be linted.
func (c *checker) checkStream(ctx context.Context, s *source, r io.Reader) (answer, *activityschema.Document, error) {
	counted := &countingReader{r: r}
	form, problems, err := c.options.ValidateForm(ctx, counted)
	if err != nil {
		return answer{}, nil, err
	}
	a := answer{Valid: len(problems) == 0, Form: form, Problems: located(problems), Findings: []locatedFinding{}}
	if a.Valid && !c.lint {
		return a, nil, nil
	}
	if a.Valid {
		if err := c.hold(ctx); err != nil {
			return answer{}, nil, err
		}
		defer c.release()
	}
	again, err := s.open()
	if err != nil {
		return answer{}, nil, err
	}
	defer func() { _ = again.Close() }()
	if !a.Valid {
		return a, nil, placeProblems(contextReader{ctx, again}, a.Problems)
	}
	data, _, err := readAll(contextReader{ctx, again}, make([]byte, 0, counted.n+1), largest)
	if err != nil {
		return answer{}, nil, err
	}
	return c.checkBytes(ctx, data)
}

// load reads a document as a whole. Who loads one calls release when done.
func (c *checker) load(ctx context.Context, s *source) (data []byte, release func(), err error) {
	f, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	data, whole, err := readAll(contextReader{ctx, f}, nil, wholeBytes)
	if err != nil || whole {
		return data, func() {}, err
	}
	if err := c.hold(ctx); err != nil {
		return nil, nil, err
	}
	if data, _, err = readAll(contextReader{ctx, f}, data, largest); err != nil {
		c.release()
		return nil, nil, err
	}
	return data, c.release, nil
}

// hold waits until no other large document is in memory.
func (c *checker) hold(ctx context.Context) error {
	select {
	case c.large <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *checker) release() { <-c.large }

// A countingReader counts the bytes it hands on.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// A contextReader stops between two reads once its context is done.
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

package activityschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Limits of one validation.
const (
	MaxBytes    = 256 << 20 // size of a document, in bytes
	MaxDepth    = 64        // objects and arrays within one another, the document itself included
	MaxProblems = 100       // problems returned; a document may have more
)

// An Engine is an implementation of the validation. Both have the same opinion
// of every document.
type Engine string

// The engines; the empty Engine is EngineFast.
const (
	EngineFast Engine = "fast" // one pass over the bytes, compiled from the schema
	EngineQri  Engine = "qri"  // a schema library walks the tree of the document
	EngineBoth Engine = "both" // both, and ErrEnginesDiffer if their verdicts do
)

// ErrEnginesDiffer is returned by EngineBoth for a document which one engine
// accepts and the other does not.
var ErrEnginesDiffer = errors.New("the engines differ over the document")

// Options of a validation. The zero Options are those of Validate.
type Options struct {
	Engine      Engine // empty means EngineFast
	MaxBytes    int64  // size up to which a document is read; 0 means MaxBytes
	MaxProblems int    // problems returned at most, 1000 or fewer; 0 means MaxProblems
}

// withDefaults returns the options with nothing left open.
func (o Options) withDefaults() Options {
	if o.Engine == "" {
		o.Engine = EngineFast
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = MaxBytes
	}
	o.MaxBytes = min(o.MaxBytes, math.MaxInt64-1) // one more is read
	if o.MaxProblems <= 0 {
		o.MaxProblems = MaxProblems
	}
	o.MaxProblems = min(o.MaxProblems, mostCollected)
	return o
}

// Ready compiles the embedded schema for all engines, and reports why one could
// not work. A program that calls it as it starts cannot fail over the schema
// later, and its first validation is as fast as any.
func Ready() error {
	_, fast := loadPlan()
	_, qri := loadForms()
	return errors.Join(fast, qri)
}

// Validate reads one document from r and returns where it departs from the
// format, in the order of the document, the same at every run; none means that
// the document is valid. There are at most MaxProblems problems, of about a
// megabyte of text together; of a document that has more the first are found,
// and what its objects lack may not be among them.
//
// The problems are those of the form that the document was meant to be, told
// by its members (owner and activities, or laps and timeseries). A document
// that is not I-JSON is reported as such and not looked at any further.
//
// It takes one pass and less than a megabyte of memory, whatever the size of the
// document; only member names cost more: one that is long, up to a few megabytes,
// and those of an object of custom, as long as it lasts, some fifty bytes each. r
// is read to its end unless enough is known before.
//
// The error is for r failing and for ctx being done, both wrapped; the problems
// are then nil. ctx is looked at before each read, of at most 64 KiB, but a Read
// that blocks is not interrupted. Validate may be called concurrently.
func Validate(ctx context.Context, r io.Reader) ([]Problem, error) {
	return Options{}.Validate(ctx, r)
}

// Validate is the function Validate with options.
func (o Options) Validate(ctx context.Context, r io.Reader) ([]Problem, error) {
	_, problems, err := o.ValidateForm(ctx, r)
	return problems, err
}

// ValidateForm is Validate which also returns the form that the document was
// meant to be: empty if no member tells, and if the document is not I-JSON.
func (o Options) ValidateForm(ctx context.Context, r io.Reader) (Form, []Problem, error) {
	form, problems, err := o.withDefaults().run(ctx, r)
	if err != nil {
		return "", nil, fmt.Errorf("validating the document: %w", err)
	}
	return form, problems, nil
}

func (o Options) run(ctx context.Context, r io.Reader) (Form, []Problem, error) {
	switch o.Engine {
	case EngineFast:
		return scan(ctx, r, o)
	case EngineQri, EngineBoth:
	default:
		return "", nil, fmt.Errorf("engine %q: want %s, %s or %s", o.Engine, EngineFast, EngineQri, EngineBoth)
	}
	data, err := io.ReadAll(io.LimitReader(contextReader{ctx, r}, o.MaxBytes+1))
	if err != nil {
		return "", nil, err
	}
	form, problems, err := walk(ctx, data, o)
	if err != nil || o.Engine == EngineQri {
		return form, problems, err
	}
	form, fast, err := scan(ctx, bytes.NewReader(data), o)
	if err != nil {
		return "", nil, err
	}
	return form, fast, compareVerdicts(fast, problems)
}

// compareVerdicts returns ErrEnginesDiffer, with what one engine found, if the
// other found nothing.
func compareVerdicts(fast, qri []Problem) error {
	if (len(fast) == 0) == (len(qri) == 0) {
		return nil
	}
	refusing := EngineFast
	if len(fast) == 0 {
		refusing = EngineQri
	}
	const most = 5
	var places []string
	for _, p := range slices.Concat(fast, qri) {
		if len(places) == most {
			places = append(places, "...")
			break
		}
		places = append(places, p.Keyword+" at "+quote(p.Pointer))
	}
	return fmt.Errorf("%w: only %s finds %s", ErrEnginesDiffer, refusing, strings.Join(places, ", "))
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

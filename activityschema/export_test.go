package activityschema

import (
	"context"
	"io"
)

// CompilePlan compiles another schema than the embedded one.
func CompilePlan(schema []byte) error {
	_, err := compilePlan(schema)
	return err
}

// ValidateAgainst is Validate with another schema.
func ValidateAgainst(ctx context.Context, schema []byte, r io.Reader) ([]Problem, error) {
	p, err := compilePlan(schema)
	if err != nil {
		return nil, err
	}
	_, problems, err := newScanner(windowSize).run(ctx, r, Options{}.withDefaults(), p)
	return problems, err
}

// ValidateThrough is Validate through a window of size bytes instead of
// windowSize: each place of the document comes to lie at its edge at one size.
func ValidateThrough(ctx context.Context, r io.Reader, size int) ([]Problem, error) {
	p, err := loadPlan()
	if err != nil {
		return nil, err
	}
	_, problems, err := newScanner(size).run(ctx, r, Options{}.withDefaults(), p)
	return problems, err
}

// CompareVerdicts is what EngineBoth does with the problems of the engines.
var CompareVerdicts = compareVerdicts

// LeastWindow is the smallest size that a window can have.
const LeastWindow = lookahead

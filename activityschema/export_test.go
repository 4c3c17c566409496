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
	_, problems, err := Options{}.validate(ctx, r, p)
	return problems, err
}

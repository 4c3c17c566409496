package errorsx_test

import (
	"errors"
	"testing"

	"github.com/ory/x/errorsx"
	traced "github.com/pkg/errors"
)

// rootless is an error that may have a cause and has none, as fosite's have.
type rootless struct{}

func (rootless) Error() string                 { return "rootless" }
func (rootless) Cause() error                  { return nil }
func (rootless) StackTrace() traced.StackTrace { return nil }

func TestCauseIsTheInnermostError(t *testing.T) {
	plain := errors.New("plain")
	for _, test := range []struct {
		name     string
		of, want error
	}{
		{"nil", nil, nil},
		{"no cause", plain, plain},
		{"wrapped twice", traced.WithMessage(traced.WithStack(plain), "outer"), plain},
		{"a cause that is nil", traced.WithStack(rootless{}), rootless{}},
	} {
		if got := errorsx.Cause(test.of); got != test.want {
			t.Errorf("%s: Cause is %v, want %v", test.name, got, test.want)
		}
	}
}

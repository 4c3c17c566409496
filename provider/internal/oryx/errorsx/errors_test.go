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

func TestWithStackAddsOneStack(t *testing.T) {
	if got := errorsx.WithStack(nil); got != nil {
		t.Errorf("nil became %v", got)
	}
	for _, err := range []error{errors.New("plain"), rootless{}} {
		first := errorsx.WithStack(err)
		if with, ok := first.(interface{ StackTrace() traced.StackTrace }); !ok || len(with.StackTrace()) == 0 {
			t.Errorf("%v has no stack", err)
		}
		if !errors.Is(first, err) || first.Error() != err.Error() {
			t.Errorf("%v became %v", err, first)
		}
		if again := errorsx.WithStack(first); again != first {
			t.Errorf("%v has a second stack", err)
		}
	}
}

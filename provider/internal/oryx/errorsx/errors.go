// Package errorsx has the part of github.com/ory/x/errorsx that fosite v0.49.0
// uses: where an error came from, and what else it may carry.
package errorsx

import "github.com/pkg/errors"

// An error of fosite has each of these methods, and fosite asserts it.
type (
	// StatusCodeCarrier is an error with an HTTP status code.
	StatusCodeCarrier interface{ StatusCode() int }
	// StatusCarrier is an error with the text of an HTTP status.
	StatusCarrier interface{ Status() string }
	// RequestIDCarrier is an error that knows the request it belongs to.
	RequestIDCarrier interface{ RequestID() string }
	// ReasonCarrier is an error with an explanation for the caller.
	ReasonCarrier interface{ Reason() string }
	// DebugCarrier is an error with an explanation for the operator.
	DebugCarrier interface{ Debug() string }
)

// Cause follows the Cause methods of err to the innermost error.
func Cause(err error) error {
	for {
		outer, ok := err.(interface{ Cause() error })
		if !ok {
			return err
		}
		inner := outer.Cause()
		if inner == nil {
			return err
		}
		err = inner
	}
}

// WithStack gives err the stack of its caller, unless it has a stack already.
// It returns nil for nil.
func WithStack(err error) error {
	if traced, ok := err.(interface{ StackTrace() errors.StackTrace }); ok && len(traced.StackTrace()) != 0 {
		return err
	}
	return errors.WithStack(err)
}

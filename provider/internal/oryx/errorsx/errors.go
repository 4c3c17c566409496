// Package errorsx has the part of github.com/ory/x/errorsx that fosite v0.49.0
// uses: what an error may carry.
package errorsx

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

// WithStack returns err as it is. Ory's adds the stack of its caller, which fosite pays several
// times in a request that succeeds (each handler refuses what is not for it), and no one here reads.
func WithStack(err error) error { return err }

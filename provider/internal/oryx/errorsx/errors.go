// Package errorsx has the part of github.com/ory/x/errorsx that fosite v0.49.0 uses.
package errorsx

// fosite asserts that its errors implement these interfaces.
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

// WithStack returns err unchanged. Ory's version records the stack, which nobody reads here.
// fosite calls it several times even in a successful request, because each handler refuses
// requests of others.
func WithStack(err error) error { return err }

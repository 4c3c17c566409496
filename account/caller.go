package account

import (
	"slices"
	"time"
)

// Caller is who asks for an operation and from where: a person in a session, somebody who has only
// proven something (a password, the link of a mail), or the operator at the command line. The
// context has the language of the answer.
type Caller struct {
	User    User    // signed in, or has just proven their identity; zero: nobody
	Session Session // of the request, with its proofs; zero: none
	// Name is the handle of the user, "operator", or empty.
	Name string
	// Address is the client's address in canonical form; empty for the operator.
	Address, UserAgent, RequestID string
	Device                        string // a short name from the User-Agent, or empty

	operator bool
	Browser  Browser
	// Shared means that others use the browser too: see Session.Shared.
	Shared bool
}

// Browser holds what the cookies of a browser claim. Nothing in it is verified.
type Browser struct {
	Logins, Tokens []string          // host-only cookies and session tokens
	Marks          []string          // of known devices
	Step           string            // the sealed first step of a sign-in
	Passkey        string            // what binds a challenge to a browser without a session
	Bound          map[string]string // bound cookies by the ends of their names
}

// Operator returns the caller at the command line, who needs no further proof.
func Operator() Caller { return Caller{Name: "operator", operator: true} }

// As returns the caller after they have proven to be u.
func (c Caller) As(u User) Caller {
	c.User, c.Name = u, u.Handle
	return c
}

// In returns the caller in a session.
func (c Caller) In(u User, session Session) Caller {
	c = c.As(u)
	c.Session = session
	return c
}

// Audit returns the audit row of an act, with what it ends. detail must not contain a secret or a code.
func (c Caller) Audit(at time.Time, act Act, target, detail string) Audit {
	return Audit{
		At: at, Actor: c.Name, Action: act.Action, Ends: act.Ends, Target: target, Detail: detail,
		Address: c.Address, RequestID: c.RequestID, Session: c.Session.ID, Proof: act.Proof,
		ConfirmedAt: c.Session.ConfirmedAt, AMR: c.Session.AMR,
	}
}

// FreshFor is how long a proof of identity allows what the thief of a session must not do: change
// how the account is signed in to, or administer others.
const FreshFor = 10 * time.Minute

// Fresh reports whether the caller has recently proven their identity by everything that the
// account requires now. If the user has a second factor, neither the password alone nor a session
// from before the factor is enough.
func (c Caller) Fresh(now time.Time) bool {
	if c.operator {
		return true
	}
	// A proof of the future is one of a clock that was ahead.
	return now.Sub(c.Session.ConfirmedAt).Abs() <= FreshFor && c.Strong()
}

// Strong reports whether the session was opened with everything that the account requires now.
func (c Caller) Strong() bool {
	return !c.User.SecondFactor || slices.Contains(c.Session.AMR, MethodMultiFactor)
}

package account

import (
	"slices"
	"time"
)

// Caller is who asks for an operation, and from where: a person in a session, somebody who has
// only proven something (a password, the link of a mail), or the operator at the command line. The
// language in which they are answered is that of the context.
type Caller struct {
	User    User    // who is signed in, or has just proven who they are; zero: nobody
	Session Session // in which they ask, with its proofs; zero: none
	// Name is the handle of the user, "operator", or empty.
	Name string
	// Address is the client's, in canonical form; empty for the operator.
	Address, UserAgent, RequestID string
	Device                        string // a short name from the User-Agent, or empty

	operator bool
	browser  browser
}

// browser is what the cookies of a browser say. None of it is verified.
type browser struct {
	logins, tokens []string // host-only cookies and session tokens
	marks          []string // of known devices
	step           string   // the sealed first step of a sign-in
	passkey        string   // what binds a challenge to a browser without a session
}

// Operator is the caller at the command line, of whom no further proof is asked.
func Operator() Caller { return Caller{Name: "operator", operator: true} }

// as is the caller after they have proven to be u.
func (c Caller) as(u User) Caller {
	c.User, c.Name = u, u.Handle
	return c
}

// Audit makes the audit row of an operation. detail never has a secret or a code.
func (c Caller) Audit(at time.Time, action, target, detail string) Audit {
	return Audit{
		At: at, Actor: c.Name, Action: action, Target: target, Detail: detail, Address: c.Address, RequestID: c.RequestID,
	}
}

// freshFor is how long a proof of who somebody is lets them do what a thief of their
// session must not: change how the account is signed in to, or administer others.
const freshFor = 10 * time.Minute

// fresh reports whether the caller has recently proven who they are, by all that their account
// asks for now: of a user with a second factor the password alone proves nothing, nor does a
// session from before the factor.
func (c Caller) fresh(now time.Time) bool {
	if c.operator {
		return true
	}
	return c.Session.ID != "" && !now.After(c.Session.ConfirmedAt.Add(freshFor)) && c.strong()
}

// strong reports whether the session was opened by all that the account asks for now.
func (c Caller) strong() bool {
	return !c.User.SecondFactor || slices.Contains(c.Session.AMR, MethodMultiFactor)
}

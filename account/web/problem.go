// Package web is how the service speaks HTTP: problems, JSON in and out, forms,
// the id and the log line of a request, rate limits, and a cache for what is read at
// every request.
//
// It knows nothing of people or protocols: packages account, admin and provider
// bring their own problems and decide.
package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/templates"
)

// Problem is an error response (RFC 9457). Packages declare theirs as variables and compare them
// with errors.Is, which compares the code.
type Problem struct {
	Type      string       `json:"type"`
	Title     string       `json:"title"`
	Status    int          `json:"status"`
	Detail    string       `json:"detail"` // a sentence a person can use
	Code      string       `json:"code"`
	RequestID string       `json:"request_id,omitempty"`
	Errors    []FieldError `json:"errors,omitempty"`
	Methods   []string     `json:"methods,omitempty"` // with which a sign-in can go on

	retryAfter time.Duration
	interrupts bool           // see Interrupting
	text       templates.Text // of Detail, with {name} for args
	args       []any
}

// FieldError describes what is wrong with one member of a request.
type FieldError struct {
	Pointer string         `json:"pointer"` // RFC 6901
	Detail  templates.Text `json:"detail"`

	text templates.Text // of Detail, with {name} for args; empty: Detail is the whole text
	args []any
}

// Fault returns a FieldError. args are pairs of a name and a value, which replaces {name} in the
// text.
func Fault(pointer string, text templates.Text, args ...any) FieldError {
	return FieldError{pointer, templates.Text(english.Text(text, args...)), text, args}
}

// english is the language of a Problem before In.
var english *templates.Language

// Pointer returns the JSON pointer (RFC 6901) to a member of a body.
func Pointer(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// Problems of every package.
var (
	ErrRateLimited = NewProblem(429, "rate_limited", "Too many attempts. Wait a few minutes, then try again.")
	ErrBusy        = NewProblem(503, "busy",
		"Too many people are signing in right now. Try again in a few seconds.")
	// ErrUnavailable is in the chain of every failure of the database without a problem of its own:
	// 503, never "not found" or "not signed in". A canceled request is not a failure and has only
	// context.Canceled.
	ErrUnavailable = NewProblem(503, "unavailable",
		"The service cannot reach its database right now. Try again in a few seconds.")

	ErrInvalidCursor = NewProblem(400, "invalid_cursor",
		"This cursor is not from this service. Start again without it.")

	// ErrOutdated refuses a form because of what has changed since it was shown.
	ErrOutdated = NewProblem(409, "page_outdated",
		"This page was out of date, so nothing was changed. Check it, then try again.")

	errTimeout  = NewProblem(503, "unavailable", "This took too long. Try again in a few seconds.")
	errInternal = NewProblem(500, "internal_error",
		"Something went wrong. If it happens again, give the operator the request ID.")
)

// Refusal marks the answers of the domain, which a store passes on as they are.
func (p *Problem) Refusal() {}

// NewProblem returns a problem.
func NewProblem(status int, code string, text templates.Text, fields ...FieldError) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code,
		Detail: string(text), Errors: fields, text: text}
}

// ForField returns a problem about one member of a request, or field of a form; args are as in
// With.
func ForField(status int, code, pointer string, text templates.Text, args ...any) *Problem {
	return NewProblem(status, code, text, FieldError{Pointer: pointer}).With(text, args...)
}

// With returns the same problem with another sentence; args are pairs of a name and a value, which
// replaces {name} in it (templates.Language.Text).
func (p *Problem) With(text templates.Text, args ...any) *Problem {
	c := *p
	c.text, c.args, c.Detail, c.Errors = text, args, english.Text(text, args...), nil
	for _, f := range p.Errors {
		c.Errors = append(c.Errors, Fault(f.Pointer, text, args...))
	}
	return &c
}

// For returns the same problem about these members of the request.
func (p *Problem) For(fields ...FieldError) *Problem {
	c := *p
	c.Errors = fields
	return &c
}

// In returns the same problem in the language of a reader.
func (p *Problem) In(l *templates.Language) *Problem {
	c := *p
	c.Detail, c.Errors = l.Text(p.text, p.args...), nil
	for _, f := range p.Errors {
		f.Detail = templates.Text(l.Text(cmp.Or(f.text, f.Detail), f.args...))
		c.Errors = append(c.Errors, f)
	}
	return &c
}

// ByField returns the sentence about each wrong member by the name of its field in a form: "address.country".
func (p *Problem) ByField() map[string]string {
	faults := map[string]string{}
	for _, f := range p.Errors {
		faults[strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")] = string(f.Detail)
	}
	return faults
}

// Error implements error, for the log. It contains nothing that the caller sent.
func (p *Problem) Error() string { return strings.ReplaceAll(p.Code, "_", " ") }

// Is implements errors.Is.
func (p *Problem) Is(target error) bool {
	t, ok := target.(*Problem)
	return ok && t.Code == p.Code
}

// Interrupting returns the same problem, marked so that no page shows it beside its form: see
// Refusal.
func (p *Problem) Interrupting() *Problem {
	c := *p
	c.interrupts = true
	return &c
}

// RateLimited returns the error of an exhausted limit.
func RateLimited(wait time.Duration) error {
	var p *Problem
	switch minutes := int((wait + time.Minute - 1) / time.Minute); { // rounded up to what a person would say
	case minutes <= 1:
		p = ErrRateLimited.With("Too many attempts. Try again in a minute.")
	case minutes <= 90:
		p = ErrRateLimited.With("Too many attempts. Try again in {count} minutes.", "count", minutes)
	default:
		p = ErrRateLimited.With("Too many attempts. Try again in {count} hours.", "count", (minutes+59)/60)
	}
	p.retryAfter = wait
	return p
}

// ProblemOf returns the response for an error. An error without a problem becomes a 500 without
// details, and known is false.
func ProblemOf(err error) (p *Problem, known bool) {
	switch {
	case errors.As(err, &p):
	case errors.Is(err, context.DeadlineExceeded):
		p = errTimeout
	default:
		p = errInternal
	}
	c := *p
	c.Errors = append([]FieldError(nil), p.Errors...)
	if c.Status == http.StatusServiceUnavailable {
		c.retryAfter = max(c.retryAfter, 2*time.Second)
	}
	return &c, p != errInternal
}

// Reasons returns the code of a refusal and the pointers to its fields for the log, separated by spaces.
func Reasons(err error) string {
	p, _ := ProblemOf(err)
	codes := []string{p.Code}
	for _, f := range p.Errors {
		codes = append(codes, f.Pointer)
	}
	return strings.Join(codes, " ")
}

// Busy returns ErrBusy for somebody who should come back after the given time, or a few seconds.
func Busy(wait time.Duration) error {
	p := *ErrBusy
	p.retryAfter = wait
	return &p
}

// RetryAfter returns how long to wait, in whole seconds; 0 if the problem does not say.
func (p *Problem) RetryAfter() time.Duration { return p.retryAfter.Truncate(time.Second) }

// SetRetryAfter sets the header if the problem says to wait.
func (p *Problem) SetRetryAfter(w http.ResponseWriter) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(p.retryAfter.Seconds())))
	}
}

// AllFaults returns one problem that names every wrong member, with the code of the first. An error
// that is not a problem takes precedence.
func AllFaults(errs ...error) error {
	var all *Problem
	for _, err := range errs {
		if err == nil {
			continue
		}
		p, known := ProblemOf(err)
		if !known {
			return err
		}
		if all == nil {
			all = p
		} else {
			all.Errors = append(all.Errors, p.Errors...)
		}
	}
	if all == nil {
		return nil
	}
	return all
}

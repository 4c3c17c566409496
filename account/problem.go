package account

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/templates"
)

// Problem is an error as clients read it (RFC 9457).
type Problem struct {
	Type      string       `json:"type"`
	Title     string       `json:"title"`
	Status    int          `json:"status"`
	Detail    string       `json:"detail"` // a sentence a person can use
	Code      string       `json:"code"`
	RequestID string       `json:"request_id,omitempty"`
	Errors    []FieldError `json:"errors,omitempty"`
	Methods   []string     `json:"methods,omitempty"` // second factors that would do

	retryAfter time.Duration
}

// FieldError says what is wrong with one member of a request.
type FieldError struct {
	Pointer string `json:"pointer"` // RFC 6901
	Detail  string `json:"detail"`
}

// Error implements error, so that a handler can return a ready problem.
func (p *Problem) Error() string { return p.Code }

// NewProblem makes a problem for cases that need no sentinel.
func NewProblem(status int, code, detail string, fields ...FieldError) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail, Errors: fields}
}

// limited is ErrRateLimited with the time to wait.
type limited struct{ wait time.Duration }

func (l limited) Error() string { return ErrRateLimited.Error() }
func (l limited) Unwrap() error { return ErrRateLimited }

// RateLimited makes the error of a limit that was reached.
func RateLimited(wait time.Duration) error { return limited{wait} }

// problems is the one table from inner errors to answers.
var problems = []struct {
	err    error
	status int
	code   string
	detail string
	field  string
}{
	{ErrNotAuthenticated, 401, "not_authenticated", "You are not signed in. Sign in and try again.", ""},
	{ErrAdminRequired, 403, "admin_required", "Only an administrator can do this.", ""},
	{ErrInvalidCredentials, 401, "invalid_credentials", "The handle or the password is not right.", ""},
	{ErrSuspended, 403, "account_suspended", "This account is suspended. Ask an administrator of your community.", ""},
	{ErrRateLimited, 429, "rate_limited", "Too many attempts. Wait a while and try again.", ""},
	{ErrBusy, 503, "busy", "Too many people are signing in at this moment. Try again in a few seconds.", ""},
	{ErrUserNotFound, 404, "user_not_found", "There is no user with this handle.", ""},
	{ErrSessionNotFound, 404, "session_not_found", "There is no such session.", ""},
	{ErrInviteNotFound, 404, "invite_not_found", "There is no such invite.", ""},
	{ErrAppNotFound, 404, "app_not_found", "This application has no access to your account.", ""},
	{ErrStatusListNotFound, 404, "status_list_not_found", "There is no such status list.", ""},
	{ErrInvalidHandle, 400, "invalid_handle", "A handle has 1 to 30 letters a-z, digits, - or _, and begins and ends with a letter or digit. A few names are reserved.", "/handle"},
	{ErrInvalidDisplayName, 400, "invalid_display_name", "A display name has 1 to 60 characters and no control characters.", "/display_name"},
	{ErrInvalidEmail, 400, "invalid_email", "This is not an email address.", "/email"},
	{ErrInvalidText, 400, "invalid_text", "The text is too long or has control characters.", ""},
	{ErrWeakPassword, 400, "weak_password", "Choose a longer or less common password.", "/password"},
	{ErrInvalidInvite, 400, "invalid_invite", "This invite is unknown, used or expired. Ask the person who invited you for a new one.", ""},
	{ErrInvalidResetCode, 400, "invalid_reset_code", "The handle and the code do not go together, or the code is used or expired. Ask an administrator for a new one.", ""},
	{ErrInvalidPreference, 400, "invalid_preference", "Preferences are at most 100 keys of at most 64 bytes with strings of at most 4,096 bytes.", ""},
	{ErrInvalidSettings, 400, "invalid_settings", "These settings cannot be used.", ""},
	{ErrInvalidCursor, 400, "invalid_cursor", "The cursor is not one that this service gave. Start again without it.", ""},
	{ErrUnknownFlag, 400, "unknown_flag", "There is no such access flag. An administrator can add flags in the settings.", ""},
	{ErrHandleTaken, 409, "handle_taken", "This handle is taken. Choose another one.", "/handle"},
	{ErrRegistrationFull, 403, "registration_full", "No further members can register here at this time.", ""},
	{ErrInviteLimit, 403, "invite_limit_reached", "You have no invites left.", ""},
	{ErrInviteUsed, 409, "invite_used", "This invite has been used and cannot be removed.", ""},
	{ErrLastAdmin, 409, "last_admin", "This is the last active administrator. Make somebody else an administrator first.", ""},
	{ErrOwnAccount, 409, "own_account", "You cannot do this to your own account.", ""},
	{ErrNotInitialized, 503, "not_initialized", "This installation is not set up yet.", ""},
	{ErrUnavailable, 503, "unavailable", "The service cannot reach its database at this moment. Try again in a few seconds.", ""},
	{context.DeadlineExceeded, 503, "unavailable", "The service took too long. Try again in a few seconds.", ""},
}

// ProblemOf turns an error into an answer. What the table does not know is a
// 500 without details; known tells which it was.
func ProblemOf(err error) (p *Problem, known bool) {
	var ready *Problem
	if errors.As(err, &ready) {
		c := *ready
		return &c, true
	}
	for _, row := range problems {
		if !errors.Is(err, row.err) {
			continue
		}
		p = NewProblem(row.status, row.code, row.detail)
		var w *weakPassword
		if errors.As(err, &w) {
			p.Detail = w.reason
		}
		if row.field != "" && row.status == http.StatusBadRequest {
			p.Errors = []FieldError{{Pointer: row.field, Detail: p.Detail}}
		}
		var l limited
		if errors.As(err, &l) {
			p.retryAfter, p.Detail = l.wait, "Too many attempts. Try again in "+waiting(l.wait)+"."
		} else if row.status == http.StatusServiceUnavailable {
			p.retryAfter = 2 * time.Second
		}
		return p, true
	}
	return NewProblem(500, "internal_error", "Something went wrong. If it happens again, tell the operator the request id."), false
}

// StatusClientGone is for the log alone (the number that nginx gave it).
const StatusClientGone = 499

// Abandoned tells whether err is what became of a request whose client has hung
// up. Nobody reads the answer and nothing is wrong here: a stranger who hangs up must
// not fill the log with failures. Fail is the answer.
func Abandoned(r *http.Request, err error) bool {
	return errors.Is(r.Context().Err(), context.Canceled) && (errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable))
}

// waiting rounds a time to wait up to what a person would say.
func waiting(d time.Duration) string {
	switch minutes := int((d + time.Minute - 1) / time.Minute); {
	case minutes <= 1:
		return "a minute"
	case minutes <= 90:
		return strconv.Itoa(minutes) + " minutes"
	default:
		return strconv.Itoa((minutes+59)/60) + " hours"
	}
}

// Fail answers with the problem of err: as HTML to a browser that asked for a
// page, as problem+json else. The text of unknown errors stays in the log.
func (s *Service) Fail(w http.ResponseWriter, r *http.Request, err error) {
	p, known := ProblemOf(err)
	if Abandoned(r, err) || p.Status >= http.StatusInternalServerError && errors.Is(r.Context().Err(), context.Canceled) {
		p = NewProblem(StatusClientGone, "client_gone", "The client has closed the connection.")
		p.Title = "Client Closed Request"
		s.WriteProblem(w, r, p)
		return
	}
	if !known || errors.Is(err, ErrUnavailable) {
		s.log.ErrorContext(r.Context(), "request failed", "error", err, "request_id", RequestID(r.Context()))
	}
	s.WriteProblem(w, r, p)
}

// WriteProblem writes a ready problem in the form the request wants.
func (s *Service) WriteProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	p.RequestID = RequestID(r.Context())
	noteDefault(r.Context(), p.Code)
	p.setRetryAfter(w)
	if s.wantsPage(r) {
		err := s.pages.Render(w, r, p.Status, templates.Error{
			Status: p.Status, Title: p.Title, Detail: p.Detail, RequestID: p.RequestID, BackURL: s.Path("/account/"),
		})
		if err != nil {
			s.log.ErrorContext(r.Context(), "error page", "error", err)
		}
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers only: cannot happen
		body = []byte(`{"type":"about:blank","status":500,"code":"internal_error"}`)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

func (p *Problem) setRetryAfter(w http.ResponseWriter) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(p.retryAfter.Seconds())))
	}
}

// wantsPage tells a person's browser from a program.
func (s *Service) wantsPage(r *http.Request) bool {
	path := strings.TrimPrefix(r.URL.Path, s.basePath)
	return !strings.HasPrefix(path, "/api/") && strings.Contains(r.Header.Get("Accept"), "text/html")
}

package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

type (
	claimsKey  struct{}
	failureKey struct{}
)

// Middleware serves requests with a valid session cookie, with its Claims in the context, and
// passes every other one to onFailure, which gets the reason from FailureFromContext. onFailure may
// redirect to the sign-in page, or call the next handler itself for visitors. A nil onFailure
// answers with application/problem+json: 401 not_authenticated, 401 second_factor_required for
// ErrInsufficientAuthentication, 503 temporarily_unavailable if keys or status lists could not be
// fetched, 500 internal_error for a wrong setting.
//
// Refusals get Cache-Control: no-store before onFailure runs, and every response Vary: Cookie.
func Middleware(v *Verifier, onFailure http.Handler) func(http.Handler) http.Handler {
	if onFailure == nil {
		onFailure = http.HandlerFunc(v.refuse)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Vary", "Cookie")
			c, err := v.VerifyRequest(r)
			if err != nil {
				w.Header().Set("Cache-Control", "no-store")
				ctx := context.WithValue(r.Context(), failureKey{}, err)
				onFailure.ServeHTTP(w, r.WithContext(ctx))
				return
			}
			ctx := context.WithValue(r.Context(), claimsKey{}, c)
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// FromContext returns the claims that Middleware has put into the context, and reports whether
// there are any.
func FromContext(ctx context.Context) (Claims, bool) {
	c, ok := ctx.Value(claimsKey{}).(Claims)
	return c, ok
}

// FailureFromContext returns why Middleware refused the request, for an onFailure handler. It is
// nil if the request was not refused.
func FailureFromContext(ctx context.Context) error {
	err, _ := ctx.Value(failureKey{}).(error)
	return err
}

// refuse answers with a problem (RFC 9457) that has the members of Cairn's own.
func (v *Verifier) refuse(w http.ResponseWriter, r *http.Request) {
	err := FailureFromContext(r.Context())
	status, code, detail := http.StatusInternalServerError, "internal_error",
		"Sessions are not set up in this application."
	switch {
	case errors.Is(err, ErrKeysUnavailable), errors.Is(err, ErrStatusUnavailable):
		status, code, detail = http.StatusServiceUnavailable, "temporarily_unavailable",
			"Your session cannot be checked right now. Try again soon."
		w.Header().Set("Retry-After", "10")
	case errors.Is(err, ErrInsufficientAuthentication):
		status, code = http.StatusUnauthorized, "second_factor_required"
		detail = "Sign in again with a second factor to continue."
		if v.RequireACR == ACRPhishingResistant {
			detail = "Sign in again with a passkey to continue."
		}
		// RFC 9470 section 3 has these parameters.
		challenge := `Cookie realm="cairn", error="insufficient_user_authentication", acr_values="` + v.RequireACR + `"`
		w.Header().Set("WWW-Authenticate", challenge)
	case errors.Is(err, ErrNoCookie), errors.Is(err, ErrInvalid):
		status, code, detail = http.StatusUnauthorized, "not_authenticated", "Sign in to continue."
		// RFC 9110 section 11.6.1 requires a challenge. Browsers show no dialogue for this scheme,
		// which has no credentials to type.
		w.Header().Set("WWW-Authenticate", `Cookie realm="cairn"`)
	}
	writeProblem(w, status, code, detail)
}

func writeProblem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"about:blank","title":%q,"status":%d,"detail":%q,"code":%q}`+"\n", http.StatusText(status),
		status, detail, code)
}

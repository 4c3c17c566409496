package provider

import (
	"errors"
	"math"
	"mime"
	"net/http"
	"strconv"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account/web"
)

// readClientRequest is how every endpoint begins that clients call themselves
// (token, revocation, introspection, pushed requests): method, limit, form. It
// answers and returns false when the request cannot be one.
func (p *Provider) readClientRequest(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		p.oauthError(w, r, http.StatusMethodNotAllowed, "invalid_request")
		return false
	}
	wait, err := p.limits.Take(r.Context(), web.LimitToken, web.ClientAddress(r))
	if err != nil {
		p.tokenError(w, r, err)
		return false
	}
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		p.oauthError(w, r, http.StatusTooManyRequests, "slow_down")
		return false
	}
	if status := readClientForm(w, r); status != http.StatusOK {
		p.oauthError(w, r, status, "invalid_request")
		return false
	}
	return true
}

// readClientForm returns the status for what cannot be a client's request, or
// 200.
func readClientForm(w http.ResponseWriter, r *http.Request) int {
	mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mt != "application/x-www-form-urlencoded" || r.Header.Get("Content-Encoding") != "" {
		return http.StatusBadRequest
	}
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
	if err := r.ParseForm(); err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return http.StatusRequestEntityTooLarge
		}
		return http.StatusBadRequest
	}
	for _, v := range r.PostForm {
		if len(v) > 1 { // RFC 6749 section 3.2: parameters must not be repeated
			return http.StatusBadRequest
		}
	}
	// Credentials in a URL end up in logs and histories.
	for _, name := range []string{"client_secret", "client_assertion", "code", "refresh_token", "code_verifier", "access_token", "token"} {
		if r.URL.Query().Has(name) {
			return http.StatusBadRequest
		}
	}
	return http.StatusOK
}

// authenticated is the client of a request to an endpoint in which fosite has
// no part, or nil when the refusal was sent.
func (p *Provider) authenticated(w http.ResponseWriter, r *http.Request) *Client {
	found, err := p.authenticateClient(r.Context(), r, r.PostForm)
	if err != nil {
		p.tokenError(w, r, err)
		return nil
	}
	c, ok := found.(*Client)
	if !ok {
		p.tokenError(w, r, fosite.ErrServerError.WithDebug("a client of another type"))
		return nil
	}
	return c
}

package session

import (
	"errors"
	"net/http"
	"slices"
)

// cookieNames are the names of Cairn's cookie, the best protected first: only the host itself can
// set the first one, only https the second, any host of the site the third.
var cookieNames = []string{"__Host-cairn_session", "__Secure-cairn_session", "cairn_session"}

// maxTried is the maximum number of different cookies of a request that are verified. A sibling
// host may add some beside the genuine one (cookie tossing), and browsers keep at most about 180
// per site; each can cost a signature check.
const maxTried = 64

// VerifyRequest returns the claims of the first valid session cookie of r. Without one it fails
// with ErrNoCookie, or with the most specific error of Verify: ErrKeysUnavailable and
// ErrStatusUnavailable before ErrRevoked and ErrExpired before ErrInvalid. A valid cookie of a
// lower class than RequireACR ends the search with ErrInsufficientAuthentication: the visitor's
// identity does not depend on RequireACR.
func (v *Verifier) VerifyRequest(r *http.Request) (Claims, error) {
	if err := v.Check(); err != nil {
		return Claims{}, err
	}
	names := cookieNames
	if v.CookieName != "" {
		names = []string{v.CookieName}
	}
	failure := ErrNoCookie
	var tried []string
	for _, name := range names {
		for _, cookie := range r.CookiesNamed(name) {
			if len(tried) == maxTried {
				return Claims{}, failure
			}
			if slices.Contains(tried, cookie.Value) {
				continue
			}
			tried = append(tried, cookie.Value)
			c, err := v.Verify(r.Context(), cookie.Value)
			if err == nil || errors.Is(err, ErrInsufficientAuthentication) {
				return c, err
			}
			if weight(err) > weight(failure) {
				failure = err
			}
		}
	}
	return Claims{}, failure
}

// weight orders failures. A cookie that could not be judged outweighs bad ones, because it may be
// the genuine one.
func weight(err error) int {
	switch {
	case errors.Is(err, ErrNoCookie):
		return 0
	case errors.Is(err, ErrExpired), errors.Is(err, ErrRevoked):
		return 2
	case errors.Is(err, ErrInvalid):
		return 1
	}
	return 3
}

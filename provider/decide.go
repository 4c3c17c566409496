package provider

import (
	"slices"
	"strconv"
	"time"

	"github.com/cairn-id/cairn/account"
)

// verdict is what happens to an authorization request.
type verdict int

const (
	refused     verdict = iota // answer with an error
	proceed                    // issue a code
	login                      // show the sign-in page, then decide again
	consent                    // show the consent page, then decide again
	setUpFactor                // show the page on which to set up a second factor, then decide again
)

// authzState is everything that decides an authorization request.
type authzState struct {
	client *Client
	access
	acr       acrRequest
	prompts   []string
	maxAge    time.Duration // negative: not asked for
	hintSub   string        // sub of a verified id_token_hint, or empty
	badHint   bool
	loginHint string    // canonical handle of login_hint, or empty
	arrived   time.Time // first arrival of the request, whole seconds
	returned  bool      // came back with a continuation
	proofSeen string    // fingerprint of the session at first arrival
	identity  *account.Identity
	reach     string // the best class that the user can sign in with
	// needsFactor tells that the settings demand a second factor of the user.
	needsFactor bool
	consented   []string
	decision    string   // allow, deny or empty
	leftOut     []string // optional scopes that the user leaves out
}

// fingerprint tells one sign-in from the next in the same browser.
func fingerprint(id *account.Identity) string {
	if id == nil {
		return ""
	}
	return shortHash(string(id.Session.TokenHash))
}

// signedInSince tells whether the user has signed in since the
// request first arrived. The comparison with the session seen then, not only of
// whole seconds, keeps a sign-in in the same second from counting.
func (q authzState) signedInSince() bool {
	return q.returned && fingerprint(q.identity) != q.proofSeen && !q.identity.Session.AuthTime.Before(q.arrived)
}

// decide is pure: request, session and stored consent in, verdict out.
// The pages never call one another; each comes back here.
func decide(q authzState) (verdict, *oauthError) {
	silent := slices.Contains(q.prompts, "none")
	if q.identity == nil || q.needsSignIn() {
		if silent {
			return refused, errLoginRequired
		}
		return login, nil
	}
	if q.badHint {
		return refused, errInvalidRequest
	}
	if q.expectsAnother() {
		// Another user than the client expects. One chance to sign in as that
		// person, not a loop.
		if silent || q.signedInSince() {
			return refused, errLoginRequired
		}
		return login, nil
	}
	if f := q.client.RequireFlag; f != "" && !q.identity.User.Has(f) {
		return refused, errAccessDenied
	}
	if v, problem := q.decideACR(silent); v != proceed {
		return v, problem
	}
	return q.decideConsent(silent)
}

// needsSignIn covers prompt=login, prompt=select_account and max_age. A request
// for max_age=0 is one for a fresh sign-in (OpenID Connect Core section 3.1.2.1).
func (q authzState) needsSignIn() bool {
	if q.signedInSince() {
		return false
	}
	if slices.Contains(q.prompts, "login") || slices.Contains(q.prompts, "select_account") || q.maxAge == 0 {
		return true
	}
	return q.maxAge > 0 && q.arrived.Sub(q.identity.Session.AuthTime) > q.maxAge
}

// freshSignIn says what the sign-in page is for when a user is signed in: to
// confirm the same account, unless the request leaves open which, or asks for another.
func (q authzState) freshSignIn() string {
	switch {
	case q.identity == nil:
		return ""
	case slices.Contains(q.prompts, "select_account"), q.expectsAnother(), q.loginHint != "" && q.loginHint != q.identity.User.Handle:
		return account.FreshChoose
	}
	return account.FreshConfirm
}

// expectsAnother tells whether the request names another user than who is signed in.
func (q authzState) expectsAnother() bool {
	return q.hintSub != "" && q.hintSub != q.identity.User.Sub || !q.claims.admits(q.identity.User.Sub)
}

func (q authzState) decideConsent(silent bool) (verdict, *oauthError) {
	if q.decision == decisionDeny {
		return refused, errAccessDenied
	}
	missing := slices.ContainsFunc(q.agreed, func(s string) bool { return !slices.Contains(q.consented, s) })
	// What was allowed is stored before the decision comes back (nothing, when no
	// scope was asked for): one without it is from before the user removed the application.
	if q.decision == decisionAllow && !missing {
		return proceed, nil
	}
	if !q.looksForConsent() || !slices.Contains(q.prompts, "consent") && (q.consented != nil || len(q.leftOut) > 0) && !missing {
		return proceed, nil
	}
	if silent {
		return refused, errConsentRequired
	}
	return consent, nil
}

// looksForConsent tells whether it matters what the user has agreed to before.
func (q authzState) looksForConsent() bool {
	return !q.client.Trusted || slices.Contains(q.prompts, "consent")
}

var knownPrompts = []string{"none", "login", "consent", "select_account"}

// parseMaxAge reads seconds; absent is -1, anything but a number is refused.
func parseMaxAge(s string) (time.Duration, bool) {
	if s == "" {
		return -1, true
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, false
	}
	return time.Duration(n) * time.Second, true
}

package provider

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/site"
)

// verdict is the decision about an authorization request.
type verdict int

const (
	refused     verdict = iota // answer with an error
	proceed                    // issue a code
	login                      // show the sign-in page, then decide again
	consent                    // show the consent page, then decide again
	setUpFactor                // show the page that sets up a second factor, then decide again
	repeat                     // let the browser send the request by GET, then decide again
	notAllowed                 // show who may use the application, then answer with the error
)

// authzState is the input of decide.
type authzState struct {
	client *Client
	access
	acr       acrRequest
	prompts   []string
	maxAge    time.Duration // negative: not asked for
	hintSub   string        // sub of a verified id_token_hint, or empty
	badHint   bool
	loginHint string    // canonical handle or address of login_hint, or empty
	begun     time.Time // see authorization
	arrived   time.Time // first arrival of the request, whole seconds
	posted    bool      // it came by POST from the client's page
	returned  bool      // it came back with a continuation
	leaves    bool      // the user who may not use the application has seen the page and goes back
	proofSeen string    // fingerprint of the session at first arrival
	chosen    string    // id of the session whose user goes on with it, for prompt=select_account
	identity  *person.Identity
	bestACR   string // the best class that the user can sign in with
	// needsFactor reports whether the settings require a second factor of the user.
	needsFactor bool
	consented   []string
	decision    string  // allow, deny or empty
	redirectURI string  // empty for a device
	apis        apis    // that the client may use
	lasts       lasting // how the grant outlives the session
	newLasting  lasting // of these, the ways in which no living grant of the session for the client lasts
	now         time.Time
	leftOut     []string // optional scopes that the user leaves out
}

// fingerprint distinguishes the sign-ins of one browser.
func fingerprint(id *person.Identity) string {
	if id == nil {
		return ""
	}
	return shortHash(string(id.Session.TokenHash))
}

// signedInSince reports whether the user has signed in since the request first arrived. Times are
// whole seconds, so it also compares the session with the one at arrival: an earlier sign-in in
// the same second does not count.
func (q authzState) signedInSince() bool {
	return q.returned && fingerprint(q.identity) != q.proofSeen && !q.identity.Session.AuthTime.Before(q.arrived)
}

// decide maps request, session and stored consent to a verdict, without side effects. Pages do
// not redirect to each other: each returns here.
func decide(q authzState) (verdict, *oauthError) {
	if q.posted && q.identity == nil {
		// A form of another site comes without the cookie (SameSite=Lax). GET brings the cookie if
		// there is one.
		return repeat, nil
	}
	silent := slices.Contains(q.prompts, "none")
	if q.identity == nil || q.needsSignIn() {
		if silent {
			return refused, errLoginRequired
		}
		return login, nil
	}
	if q.badHint {
		return refused, errBadHint
	}
	if q.expectsAnother() {
		// The client expects another user. There is one chance to sign in as that user, not a loop.
		if silent || q.signedInSince() {
			return refused, errLoginRequired.because(otherUser, "")
		}
		return login, nil
	}
	if !q.client.admits(q.identity.User) {
		if silent || q.leaves {
			return refused, errNotAllowed
		}
		return notAllowed, errNotAllowed
	}
	if q.client.lacksEmail(q.identity.User) {
		if silent || q.leaves {
			return refused, errNoVerifiedEmail
		}
		return notAllowed, errNoVerifiedEmail
	}
	if v, problem := q.decideACR(silent); v != proceed {
		return v, problem
	}
	if q.decision != decisionDeny && q.needsProof() {
		if silent {
			return refused, errLoginRequired
		}
		return login, nil
	}
	return q.decideConsent(silent)
}

// needsSignIn implements prompt=login, prompt=select_account, prompt=create and max_age. max_age=0 requires a
// new sign-in (OpenID Connect Core section 3.1.2.1).
func (q authzState) needsSignIn() bool {
	if q.signedInSince() {
		return false
	}
	if q.maxAge == 0 || slices.ContainsFunc(q.prompts, func(s string) bool {
		return s == "login" || s == promptSelectAccount && q.chosen != q.identity.Session.ID ||
			s == promptCreate && q.wantsToJoin()
	}) {
		return true
	}
	return q.maxAge > 0 && q.arrived.Sub(q.identity.Session.AuthTime) > q.maxAge
}

// wantsToJoin reports whether prompt=create still asks for a new account: there is none, or one from
// before the request, without a sign-in since it began.
func (q authzState) wantsToJoin() bool {
	return slices.Contains(q.prompts, promptCreate) && (q.identity == nil ||
		!q.identity.User.CreatedAt.After(q.begun) && !q.identity.Session.AuthTime.After(q.begun))
}

// freshSignIn returns why a signed-in user sees the sign-in page: to confirm the same account, or
// to choose one if the request leaves that open or asks for another.
func (q authzState) freshSignIn() string {
	selects := slices.Contains(q.prompts, promptSelectAccount)
	if selects && q.chosen == "" {
		if q.chosen = q.identity.Session.ID; !q.needsSignIn() && !q.expectsAnother() {
			return site.FreshSelect // nothing but the choice is missing
		}
	}
	switch {
	case selects, q.expectsAnother(),
		q.loginHint != "" && account.HandleKey(q.loginHint) != account.HandleKey(q.identity.User.Handle) &&
			!strings.EqualFold(q.loginHint, q.identity.User.Email):
		return site.FreshChoose
	}
	return site.FreshConfirm
}

// expectsAnother reports whether the request names another user than the one signed in.
func (q authzState) expectsAnother() bool {
	return q.hintSub != "" && q.hintSub != q.identity.User.Sub || !q.claims.admits(q.identity.User.Sub)
}

func (q authzState) decideConsent(silent bool) (verdict, *oauthError) {
	if q.decision == decisionDeny {
		return refused, errAccessDenied
	}
	missing := slices.ContainsFunc(q.agreed, func(s string) bool { return !slices.Contains(q.consented, s) })
	// Consent is stored before the decision comes back (an empty one if no scope was requested).
	// A decision without stored consent predates the removal of the application by the user.
	if q.decision == decisionAllow && !missing {
		return proceed, nil
	}
	decided := q.consented != nil || len(q.leftOut) > 0
	if !q.needsConsentLookup() || !slices.Contains(q.prompts, "consent") && decided && !missing {
		return proceed, nil
	}
	if silent {
		return refused, errConsentRequired
	}
	return consent, nil
}

// needsConsentLookup reports whether the decision depends on earlier consent.
func (q authzState) needsConsentLookup() bool {
	return !q.client.Trusted || slices.Contains(q.prompts, "consent")
}

// promptSelectAccount asks which account to use, without a new sign-in of the one that is signed in.
const promptSelectAccount = "select_account"

// promptCreate asks for the page on which people join (Initiating User Registration via OpenID Connect
// 1.0).
const promptCreate = "create"

var knownPrompts = []string{"none", "login", "consent", promptSelectAccount, promptCreate}

// parseMaxAge reads seconds. An absent value is -1; anything but a number is refused.
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

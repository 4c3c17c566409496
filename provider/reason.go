package provider

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// reason says in the log line why a request was refused. The list is fixed, so that operators can
// search and count; docs/troubleshooting.md has the remedy for each.
type reason string

const (
	// The form of the request.
	badMethod        reason = "method"
	badForm          reason = "form"
	tooLarge         reason = "too_large"
	tooMany          reason = "rate_limited"
	inQuery          reason = "query_parameter"
	missingParameter reason = "missing_parameter"
	repeated         reason = "repeated_parameter"
	unsupported      reason = "unsupported_parameter"
	badParameter     reason = "parameter"

	// One parameter: the reason has its name.
	badChallenge    reason = "code_challenge"
	badMethodOfPKCE reason = "code_challenge_method"
	badClaims       reason = "claims"
	badHint         reason = "id_token_hint"
	badJKT          reason = "dpop_jkt"
	badMaxAge       reason = "max_age"
	badPrompt       reason = "prompt"
	badRedirect     reason = "redirect_uri"
	badResource     reason = "resource"
	badResponseMode reason = "response_mode"
	badResponseType reason = "response_type"
	badScope        reason = "scope"
	badVerifier     reason = "code_verifier"
	badGrantType    reason = "grant_type"

	// The person, or the answer of the person.
	acrUnmet        reason = "acr"
	denied          reason = "denied"
	flagMissing     reason = "flag"
	emailUnverified reason = "email_unverified"
	noSession       reason = "login_required"
	noConsent       reason = "consent_required"
	noSecondFactor  reason = "second_factor"
	otherUser       reason = "other_user"
	accountEnded    reason = "account_ended"
	weakSignIn      reason = "weak_sign_in"

	// The way through the pages.
	notPushed      reason = "not_pushed"
	expiredRequest reason = "expired_request"
	oldConsentForm reason = "consent_form"
	oldLogoutForm  reason = "logout_form"
	badLogout      reason = "logout_request"
	unknownDevice  reason = "device_code"

	// Who the client is.
	clientUnknown    reason = "client_unknown"
	clientDocument   reason = "client_description"
	clientPublic     reason = "client_public"
	grantNotAllowed  reason = "grant_not_allowed"
	authMethod       reason = "auth_method"
	authTwice        reason = "auth_twice"
	authMalformed    reason = "auth_malformed"
	authDiffers      reason = "auth_client_id"
	noSecret         reason = "secret_missing"
	wrongSecret      reason = "secret_wrong"
	secretLineEnd    reason = "secret_line_end"
	secretNotEncoded reason = "secret_not_encoded"
	publicSecret     reason = "secret_of_public_client"
	badAssertion     reason = "assertion"
	usedAssertion    reason = "assertion_used"

	// Codes and tokens.
	codeUnknown    reason = "code_unknown"
	codeUsed       reason = "code_used"
	codeExpired    reason = "code_expired"
	refreshUnknown reason = "refresh_unknown"
	refreshUsed    reason = "refresh_used"
	refreshExpired reason = "refresh_expired"
	grantEnded     reason = "grant_ended"
	devicePending  reason = "device_pending"
	deviceTooSoon  reason = "device_too_soon"
	deviceExpired  reason = "device_expired"
	badProof       reason = "dpop_proof"
	wantsNonce     reason = "dpop_nonce"
	otherKey       reason = "dpop_key"
	noToken        reason = "token_missing"
	badToken       reason = "token_invalid"
	openidMissing  reason = "token_scope"

	// The service.
	unavailable  reason = "unavailable"
	failed       reason = "failed"
	noSigningKey reason = "no_signing_key"
)

// RefusedSignIn is a refused request of an application, for who mends it.
type RefusedSignIn struct {
	ClientID  string // "": it named no registered client
	RequestID string // which error pages show
	Reason    string // as in the log
	SignedIn  bool   // somebody was signed in
	RefusedAt time.Time
}

// KeptRefusals is how many refused sign-ins of a client are stored: so many of people who are signed in, and so
// many of others, whom anybody can add.
const KeptRefusals = 20

// note puts the reason into the log line.
func (r reason) note(ctx context.Context) { web.NoteReason(ctx, string(r)) }

// pageReasons maps the codes of problems on pages.
var pageReasons = map[string]reason{
	"expired_request": expiredRequest, "consent_form": oldConsentForm, "logout_form": oldLogoutForm,
	"device_code": unknownDevice, "device_browser": unknownDevice,
	"invalid_request": badForm, "rate_limited": tooMany, "unavailable": unavailable,
}

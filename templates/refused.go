package templates

import (
	"slices"
	"strings"
	"time"
)

// RefusedRow is a refused sign-in to an application.
type RefusedRow struct {
	ClientID  string // "": it named no registered application
	RequestID string // the number that the person saw
	Reason    string // as in the log
	SignedIn  bool   // somebody was signed in
	RefusedAt time.Time
}

type explainedRefusal struct {
	sentence Text
	command  string // that mends it, with ID for the id of the client
}

var (
	wrongProof = explainedRefusal{"The application authenticated in a way it is not registered for.",
		"cairn client show ID"}
	wrongRequest = explainedRefusal{"There is a mistake in the request of the application.", "cairn explain URL"}
	wrongPKCE    = explainedRefusal{"The application did not use PKCE correctly.", "cairn explain URL"}
	wrongCode    = explainedRefusal{"The application used its code twice or too late.", "cairn doctor"}
	weakFactor   = explainedRefusal{"The person needs a stronger way to sign in.", "cairn explain URL --user USER"}
	ownFailure   = explainedRefusal{"This service failed. Its log says why.", "journalctl -u cairn"}
)

// refusals has what an administrator is told, by reason. Reasons that belong to healthy applications are left
// out, such as the answers to a silent question whether somebody is signed in.
var refusals = map[string]explainedRefusal{
	"client_unknown": {"No application is registered with the ID in the request.", "cairn client list"},
	"redirect_uri": {"The address to return to is not registered.",
		"cairn client update ID --add-redirect-uri URI"},
	"flag":             {"The person does not have the permission for it.", "cairn user flags USER +PERMISSION"},
	"email_unverified": {"The person has no verified email address.", "cairn user update USER --email-verified"},
	"denied":           {"The person declined.", ""},
	"other_user":       {"The application expected another person.", ""},
	"account_ended":    {"The account is suspended or deleted.", "cairn user unsuspend USER"},
	"expired_request":  {"The person took too long.", ""},
	"secret_wrong":     {"The application sent a wrong secret.", "cairn client rotate-secret ID"},
	"secret_missing":   {"The application sent no secret.", "cairn client show ID"},
	"secret_line_end":  {"The secret in the application ends with a space or a line break.", ""},
	"acr":              weakFactor, "weak_sign_in": weakFactor,
	"code_challenge": wrongPKCE, "code_challenge_method": wrongPKCE, "code_verifier": wrongPKCE,
	"code_unknown": wrongCode, "code_used": wrongCode, "code_expired": wrongCode,
	"secret_not_encoded": wrongProof, "secret_of_public_client": wrongProof, "auth_method": wrongProof,
	"auth_twice": wrongProof, "auth_malformed": wrongProof, "auth_client_id": wrongProof, "assertion": wrongProof,
	"assertion_used": wrongProof, "grant_not_allowed": wrongProof, "dpop_proof": wrongProof, "dpop_key": wrongProof,
	"missing_parameter": wrongRequest, "repeated_parameter": wrongRequest, "unsupported_parameter": wrongRequest,
	"parameter": wrongRequest, "claims": wrongRequest, "id_token_hint": wrongRequest, "max_age": wrongRequest,
	"prompt": wrongRequest, "resource": wrongRequest, "response_mode": wrongRequest, "response_type": wrongRequest,
	"scope": wrongRequest, "grant_type": wrongRequest, "not_pushed": wrongRequest, "dpop_jkt": wrongRequest,
	"query_parameter": wrongRequest, "form": wrongRequest, "too_large": wrongRequest,
	"no_signing_key": ownFailure, "failed": ownFailure, "unavailable": ownFailure,
}

// ExplainsRefusal reports whether there is something to tell about a reason.
func ExplainsRefusal(reason string) bool { return refusals[reason].sentence != "" }

// Sentence returns why the sign-in was refused, "" for a reason of a later version.
func (r RefusedRow) Sentence() Text { return refusals[r.Reason].sentence }

// Command returns the operator's command that mends it, "" for none.
func (r RefusedRow) Command() string {
	return strings.ReplaceAll(refusals[r.Reason].command, "ID", r.ClientID)
}

// shownRefused is how many refused sign-ins the page shows of an application. A search finds the others.
const shownRefused = 5

// RefusedOf returns the last refused sign-ins of an application, "" for those of none.
func (p AdminApplications) RefusedOf(id string) []RefusedRow {
	rows := slices.DeleteFunc(slices.Clone(p.Refused), func(r RefusedRow) bool { return r.ClientID != id })
	return rows[:min(len(rows), shownRefused)]
}

// Found returns the refused sign-ins whose number begins with Number.
func (p AdminApplications) Found() []RefusedRow {
	return slices.DeleteFunc(slices.Clone(p.Refused), func(r RefusedRow) bool {
		return !strings.HasPrefix(strings.ToLower(r.RequestID), strings.ToLower(p.Number))
	})
}

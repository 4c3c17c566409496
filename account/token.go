package account

import (
	"slices"
	"strconv"

	"github.com/cairn-id/cairn/account/session"
)

// SessionAudience is the audience of session tokens. No client may have it as its id, or its ID
// tokens would be session tokens.
const SessionAudience = session.Audience

// SessionLifetime is the maximum lifetime of a session token.
const SessionLifetime = session.Lifetime

// StatusClaim is the claim status of a token with an index in the token status lists of the issuer
// (draft-ietf-oauth-status-list section 6.1).
func StatusClaim(issuer string, list, index int) map[string]session.StatusRef {
	return map[string]session.StatusRef{"status_list": {Index: index,
		URI: issuer + "/oauth2/status/" + strconv.Itoa(list)}}
}

// Authentication context classes (acr) of sign-ins, weakest first.
const (
	ACRPassword          = session.ACRPassword
	ACRTwoFactors        = session.ACRTwoFactors
	ACRPhishingResistant = session.ACRPhishingResistant
)

// ACR returns the authentication context class of a sign-in by its methods (RFC 8176).
func ACR(amr []string) string {
	switch {
	case slices.Contains(amr, MethodHardwareKey), slices.Contains(amr, MethodSoftwareKey):
		return ACRPhishingResistant
	case slices.Contains(amr, MethodMultiFactor) && slices.Contains(amr, MethodPassword):
		return ACRTwoFactors
	}
	return ACRPassword
}

// ShownMethods returns the methods of a sign-in for applications. A recovery code alone (see
// package person) is one factor.
func ShownMethods(amr []string) []string {
	if ACR(amr) == ACRPassword {
		return slices.DeleteFunc(slices.Clone(amr), func(m string) bool { return m == MethodMultiFactor })
	}
	return amr
}

// SatisfiesACR reports whether the class of a sign-in is the required one or stronger. Every class
// satisfies "", and none an unknown one.
func SatisfiesACR(class, required string) bool {
	return session.Claims{ACR: class}.SatisfiesACR(required)
}

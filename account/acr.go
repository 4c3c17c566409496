package account

import (
	"slices"

	"github.com/cairn-id/cairn/account/session"
)

// The classes of sign-ins (acr), weakest first.
const (
	ACRPassword          = session.ACRPassword
	ACRTwoFactors        = session.ACRTwoFactors
	ACRPhishingResistant = session.ACRPhishingResistant
)

// ACR returns the class of a sign-in by its methods (RFC 8176).
func ACR(amr []string) string {
	switch {
	case slices.Contains(amr, MethodHardwareKey), slices.Contains(amr, MethodSoftwareKey):
		return ACRPhishingResistant
	case slices.Contains(amr, MethodMultiFactor):
		return ACRTwoFactors
	}
	return ACRPassword
}

// SatisfiesACR reports whether a sign-in of this class is one of class required or a
// stronger one. Every class satisfies "", none an unknown one.
func SatisfiesACR(class, required string) bool {
	return session.Claims{ACR: class}.SatisfiesACR(required)
}

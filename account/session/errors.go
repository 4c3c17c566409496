package session

import (
	"errors"
	"fmt"
)

// Errors of the methods Verify and VerifyRequest; compare with errors.Is.
var (
	// ErrNoCookie means that the request carries no cookie of the session's name.
	ErrNoCookie = errors.New("session: no session cookie")

	// ErrNoToken means that the request carries no access token.
	ErrNoToken = errors.New("session: no access token")

	// ErrInvalid means that the token is not a session token, or not an access token, of the issuer.
	ErrInvalid = errors.New("session: invalid token")

	// ErrExpired means that a valid token is past its exp. It is also ErrInvalid.
	ErrExpired = fmt.Errorf("%w: expired", ErrInvalid)

	// ErrRevoked means that the session of a valid token was revoked: signed out, ended, suspended,
	// deleted. It is also ErrInvalid.
	ErrRevoked = fmt.Errorf("%w: revoked", ErrInvalid)

	// ErrInsufficientAuthentication means that the session is valid, and that the person signed in
	// with less than Verifier.RequireACR (RFC 9470). It is not ErrInvalid: the person is known, and
	// must sign in again with a second factor.
	ErrInsufficientAuthentication = errors.New("session: insufficient authentication")

	// ErrUnknownKey means that the current key set has no key with this kid. A KeySet returns it;
	// Verify returns it together with ErrInvalid.
	ErrUnknownKey = errors.New("session: unknown key")

	// ErrKeysUnavailable means that the key could not be looked up now: the key
	// set did not answer, or the context ended first. It says nothing about the token.
	ErrKeysUnavailable = errors.New("session: keys unavailable")

	// ErrStatusUnavailable means that the status list could not be fetched, and that there is no
	// usable copy. It says nothing about the session.
	ErrStatusUnavailable = errors.New("session: status unavailable")
)

// invalid returns ErrInvalid with a reason. Reasons are constants, because text from the token
// would end up in logs.
func invalid(reason string) error {
	return fmt.Errorf("%w: %s", ErrInvalid, reason)
}

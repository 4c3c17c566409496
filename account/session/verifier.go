package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// defaultLeeway is the tolerated difference between the clocks of the issuer and the application.
const defaultLeeway = 30 * time.Second

// Verifier verifies session tokens. Set its fields before the first use and do not change them
// afterwards; then all methods may be called concurrently.
type Verifier struct {
	// Issuer is Cairn's base URL, byte for byte as in its discovery document.
	Issuer string

	// Audience is the required aud; "" means the constant Audience.
	Audience string

	// Secret is the shared HS256 secret, at least 32 bytes; nil refuses HS256. An empty secret that
	// is not nil is a mistake that Check reports.
	Secret []byte

	// SecretUntil is when HS256 tokens are no longer accepted, at the end of a change to RS256
	// (cairn keys migrate --until); zero means when they expire.
	SecretUntil time.Time

	// Keys are the issuer's RSA public keys; nil refuses RS256.
	Keys KeySet

	// Status reports which sessions were revoked since they were issued. If it is nil, an ended
	// session stays valid here until it expires. If it is set, a token without a reference into a
	// status list is refused.
	Status StatusChecker

	// RequireACR is the lowest accepted class of sign-in: ACRTwoFactors or ACRPhishingResistant; ""
	// accepts every sign-in. Verify fails with ErrInsufficientAuthentication for a valid session of
	// a lower class.
	RequireACR string

	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// Leeway is how far times in a token may be off; 0 means 30 seconds, a negative
	// value none at all.
	Leeway time.Duration

	// CookieName is the full name of the cookie, with its prefix; "" means the
	// three default names, the best guarded one first.
	CookieName string
}

// Verify returns the claims of a session token. The error is ErrInvalid for an invalid token
// (ErrExpired, ErrRevoked and ErrUnknownKey are more specific), ErrKeysUnavailable if the key could
// not be looked up, ErrStatusUnavailable if it is not known whether the session was revoked,
// ErrInsufficientAuthentication for a valid session of a lower class than RequireACR, and the error
// of Check for a wrong setting. ctx limits the wait for keys and lists.
func (v *Verifier) Verify(ctx context.Context, token string) (Claims, error) {
	if err := v.Check(); err != nil {
		return Claims{}, err
	}
	payload, alg, err := v.verifySignature(ctx, token, tokenType, maxToken)
	if err != nil {
		return Claims{}, err
	}
	c, err := v.claims(payload)
	if err != nil {
		return Claims{}, err
	}
	c.Algorithm = string(alg)
	if err := v.notRevoked(ctx, c); err != nil {
		return Claims{}, err
	}
	if !c.SatisfiesACR(v.RequireACR) {
		return Claims{}, ErrInsufficientAuthentication
	}
	return c, nil
}

// notRevoked looks up the session in its status list.
func (v *Verifier) notRevoked(ctx context.Context, c Claims) error {
	if v.Status == nil {
		return nil
	}
	if c.Status == nil {
		return invalid("no reference into a status list")
	}
	revoked, err := v.Status.Revoked(ctx, *c.Status)
	switch {
	case revoked && err == nil:
		return ErrRevoked
	case err == nil, errors.Is(err, ErrInvalid), errors.Is(err, ErrStatusUnavailable):
		return err
	}
	return fmt.Errorf("%w: %w", ErrStatusUnavailable, err)
}

// minSecret is the minimum length of an HS256 secret in bytes (RFC 7518 section 3.2).
const minSecret = 32

// Check reports a setting with which the verifier would refuse every token, or accept wrong ones.
// Call it at start; Verify fails with the same error.
func (v *Verifier) Check() error {
	if v == nil {
		return errors.New("session: there is no verifier")
	}
	if err := v.checkTrust("verifier"); err != nil {
		return err
	}
	if v.RequireACR != "" && !slices.Contains(acrClasses, v.RequireACR) {
		return errors.New("session: the verifier requires an unknown acr: set 2 or phr, or none")
	}
	if c, ok := v.Status.(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return err
		}
	}
	list, ok := v.Status.(*RemoteStatusList)
	if !ok {
		return nil
	}
	switch rules := list.rules; {
	case rules.Issuer != v.Issuer:
		return errors.New("session: the verifier and its status list have different issuers: give both the same")
	case v.Keys != nil && rules.Keys == nil:
		// An issuer that signs session tokens with a private key signs the lists with it.
		return errors.New("session: the verifier has keys and its status list has none: give both the same")
	case rules.Secret != nil && !v.SecretUntil.IsZero() &&
		(rules.SecretUntil.IsZero() || rules.SecretUntil.After(v.SecretUntil)):
		return errors.New("session: the verifier has an end of its secret and its status list none, or a later one: " +
			"give both the same")
	}
	return nil
}

// checkTrust reports what is wrong with the issuer, the secret or the keys of owner.
func (v *Verifier) checkTrust(owner string) error {
	secret := bytes.TrimSpace(v.Secret)
	switch {
	case !isWebAddress(v.Issuer):
		return fmt.Errorf("session: the issuer of the %s is not an address of http or https with a host: set it to "+
			"the base URL of Cairn", owner)
	case v.Secret == nil && v.Keys == nil:
		return fmt.Errorf("session: the %s has neither a secret nor keys: set one of them", owner)
	case v.Secret != nil && len(v.Secret) < minSecret:
		return fmt.Errorf("session: the secret of the %s has %d bytes, at least %d are needed: print it with cairn "+
			"show-secret", owner, len(v.Secret), minSecret)
	case v.Secret != nil && len(secret) == 0:
		return fmt.Errorf("session: the secret of the %s is blank: print it with cairn show-secret", owner)
	case bytes.HasPrefix(secret, []byte("-----BEGIN ")):
		// A public key as HMAC secret would let any client sign.
		return fmt.Errorf("session: the secret of the %s is a PEM block: a public key belongs into Keys", owner)
	case v.Keys == nil && !v.SecretUntil.IsZero():
		return fmt.Errorf("session: the %s has SecretUntil and no keys: from then on nobody would be signed in", owner)
	}
	if keys, static := v.Keys.(keyMap); static && v.Secret != nil && len(keys) == 0 {
		return nil // there will be keys, and the secret counts
	}
	if c, ok := v.Keys.(interface{ Check() error }); ok {
		return c.Check()
	}
	return nil
}

// isWebAddress reports whether s is a URL that can be fetched.
func isWebAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
}

func (v *Verifier) now() time.Time { return wallClock(v.Now) }

// wallClock reads a clock (nil: time.Now) without the monotonic reading, which stands still while
// the machine is suspended, so that an old copy would seem young afterwards.
func wallClock(clock func() time.Time) time.Time {
	if clock == nil {
		clock = time.Now
	}
	return clock().Round(0)
}

func (v *Verifier) leeway() time.Duration {
	if v.Leeway == 0 {
		return defaultLeeway
	}
	return max(v.Leeway, 0)
}

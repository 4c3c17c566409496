package session

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
)

// minSecret is the least length of an HS256 secret in bytes (RFC 7518 section 3.2).
const minSecret = 32

// Check reports a setting with which the verifier would refuse every token, or
// believe the wrong ones. Call it at start; Verify fails with the same error.
func (v *Verifier) Check() error {
	if v == nil {
		return errors.New("session: there is no verifier")
	}
	if err := v.checkTrust("verifier"); err != nil {
		return err
	}
	if c, ok := v.Status.(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return err
		}
	}
	if list, ok := v.Status.(*RemoteStatusList); ok {
		return v.checkList(list.rules)
	}
	return nil
}

// checkTrust reports what is wrong with that by which signatures are believed. owner is
// who has it, for the error.
func (v *Verifier) checkTrust(owner string) error {
	switch {
	case v.Issuer == "":
		return fmt.Errorf("session: the %s has no issuer: set it to the base URL of Cairn", owner)
	case !isWebAddress(v.Issuer):
		return fmt.Errorf("session: the issuer of the %s is not an address of http or https with a host: set it to the base URL of Cairn", owner)
	case v.Secret == nil && v.Keys == nil:
		return fmt.Errorf("session: the %s has neither a secret nor keys: set one of them", owner)
	case v.Secret != nil && len(v.Secret) < minSecret:
		return fmt.Errorf("session: the secret of the %s has %d bytes, at least %d are needed: print it with cairn show-secret", owner, len(v.Secret), minSecret)
	case v.Secret != nil && len(bytes.TrimSpace(v.Secret)) == 0:
		return fmt.Errorf("session: the secret of the %s is blank: print it with cairn show-secret", owner)
	case bytes.HasPrefix(bytes.TrimSpace(v.Secret), []byte("-----BEGIN ")):
		// A public key as HMAC secret would let anybody sign.
		return fmt.Errorf("session: the secret of the %s is a PEM block: a public key belongs into Keys", owner)
	case v.Keys == nil && !v.SecretUntil.IsZero():
		return fmt.Errorf("session: the %s has an end of its secret and no keys: from then on nobody would be signed in", owner)
	}
	if keys, static := v.Keys.(keyMap); static && v.Secret != nil && len(keys) == 0 {
		return nil // there will be keys, and the secret counts
	}
	if c, ok := v.Keys.(interface{ Check() error }); ok {
		return c.Check()
	}
	return nil
}

// checkList reports by what the verifier and its status list cannot go together.
func (v *Verifier) checkList(rules *Verifier) error {
	switch {
	case rules.Issuer != v.Issuer:
		return errors.New("session: the verifier and its status list have different issuers: give both the same")
	case v.Keys != nil && rules.Keys == nil:
		// Who signs session tokens with a private key signs the lists with it.
		return errors.New("session: the verifier has keys and its status list has none: give both the same")
	case rules.Secret != nil && !v.SecretUntil.IsZero() && (rules.SecretUntil.IsZero() || rules.SecretUntil.After(v.SecretUntil)):
		return errors.New("session: the verifier has an end of its secret and its status list none, or a later one: give both the same")
	}
	return nil
}

// isWebAddress tells whether a text is an address that can be asked.
func isWebAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != ""
}

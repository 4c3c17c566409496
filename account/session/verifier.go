package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// defaultLeeway is how far the clocks of the issuer and the application may differ.
const defaultLeeway = 30 * time.Second

// Verifier holds what session tokens are verified with. Its fields are set before
// the first use and not changed afterwards; then all methods may be called from
// many goroutines.
type Verifier struct {
	// Issuer is Cairn's base URL, byte for byte as in its discovery document.
	Issuer string

	// Audience is the aud that is asked for; "" means the constant Audience.
	Audience string

	// Secret is the shared HS256 secret, at least 32 bytes; nil refuses HS256. A
	// blank secret that is not nil is a mistake that Check tells.
	Secret []byte

	// SecretUntil is when HS256 tokens cease to count, at the end of a change to RS256 (cairn
	// keys migrate --until); zero means when they expire.
	SecretUntil time.Time

	// Keys are the issuer's RSA public keys; nil refuses RS256.
	Keys KeySet

	// Status tells which sessions were taken back since they were issued; nil means that nobody
	// asks, and that a session which its owner or an administrator has ended goes on here until it
	// expires. With it a token without a reference into a status list is refused.
	Status StatusChecker

	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// Leeway is how far times in a token may be off; 0 means 30 seconds, a negative
	// value none at all.
	Leeway time.Duration

	// CookieName is the full name of the cookie, with its prefix; "" means the
	// three default names, the best guarded one first.
	CookieName string
}

// Verify returns the claims of a session token. The error is ErrInvalid for a token
// that is none (ErrExpired, ErrRevoked and ErrUnknownKey say more), ErrKeysUnavailable when
// the key could not be looked up, ErrStatusUnavailable when it cannot be said whether the
// session was taken back, and Check's error for a verifier that is not set up.
// ctx bounds the wait for keys and lists.
func (v *Verifier) Verify(ctx context.Context, token string) (Claims, error) {
	if err := v.Check(); err != nil {
		return Claims{}, err
	}
	payload, alg, err := v.verifySignature(ctx, token, sessionToken)
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
	return c, nil
}

// verifySignature returns the payload of a token of this kind that the issuer has signed.
func (v *Verifier) verifySignature(ctx context.Context, token string, kind tokenKind) ([]byte, jose.SignatureAlgorithm, error) {
	h, err := readHeader(token, kind)
	if err != nil {
		return nil, "", err
	}
	key, err := v.key(ctx, h)
	if err != nil {
		return nil, "", err
	}
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{h.alg})
	if err != nil {
		// The cause may quote the token.
		return nil, "", invalid("not a signed token")
	}
	payload, err := jws.Verify(key)
	if err != nil {
		return nil, "", invalid("the signature does not match")
	}
	return payload, h.alg, nil
}

// key returns the only key that may verify a token with this header. The type of the
// key follows from the algorithm here and nowhere else: were it the other way round, a
// public key could be taken for an HMAC secret.
func (v *Verifier) key(ctx context.Context, h header) (any, error) {
	if h.alg == jose.HS256 {
		if v.Secret == nil {
			return nil, invalid("HS256 is not in use")
		}
		if !v.SecretUntil.IsZero() && !v.now().Before(v.SecretUntil) {
			return nil, invalid("HS256 is no longer in use")
		}
		return v.Secret, nil
	}
	if v.Keys == nil {
		return nil, invalid("RS256 is not in use")
	}
	k, err := v.Keys.Key(ctx, h.kid)
	switch {
	case errors.Is(err, ErrUnknownKey):
		return nil, fmt.Errorf("%w: %w", ErrInvalid, ErrUnknownKey)
	case errors.Is(err, ErrKeysUnavailable):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, err)
	case k == nil || k.KeyID != h.kid:
		return nil, fmt.Errorf("%w: %w", ErrInvalid, ErrUnknownKey)
	}
	pub, ok := signingKey(k)
	if !ok {
		return nil, invalid("the key of this kid is not an RSA signing key of 2048 bits or more")
	}
	return pub, nil
}

func (v *Verifier) audience() string {
	if v.Audience == "" {
		return Audience
	}
	return v.Audience
}

// now is without the monotonic reading, which stands still while the machine is suspended: an old
// copy of a status list would be young after that.
func (v *Verifier) now() time.Time {
	if v.Now == nil {
		return time.Now().Round(0)
	}
	return v.Now().Round(0)
}

func (v *Verifier) leeway() time.Duration {
	switch {
	case v.Leeway == 0:
		return defaultLeeway
	case v.Leeway < 0:
		return 0
	}
	return v.Leeway
}

package session

import (
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"errors"

	"github.com/go-jose/go-jose/v4"
)

const (
	minModulus = 2048  // bits; RFC 7518 section 3.3
	maxModulus = 16384 // bits; beyond it, one check costs milliseconds
)

// KeySet finds the issuer's public keys. Verifier.Check, and with it each Verify,
// calls its method Check() error, if it has one.
type KeySet interface {
	// Key returns the key with this kid, never nil without an error. It returns
	// ErrUnknownKey if the set is current and has none, and any other error, best
	// ErrKeysUnavailable, if that cannot be said now. It must be safe for many
	// goroutines, must return soon after ctx ends, and must treat kid as text from
	// a stranger: a key into a map, never a path, an address or part of a query.
	Key(ctx context.Context, kid string) (*jose.JSONWebKey, error)
}

// keyMap is a KeySet that does not change.
type keyMap map[string]jose.JSONWebKey

// NewStaticKeySet returns a KeySet of these keys: keys kept in a file, or the service's
// own. Private parts are dropped, and keys other than RSA are left out. A key
// without a kid goes by its RFC 7638 thumbprint (SHA-256, base64url), as in
// Cairn's key set. Of two keys with one kid the first counts.
func NewStaticKeySet(keys ...jose.JSONWebKey) KeySet {
	m := make(keyMap, len(keys))
	for i := range keys {
		k, ok := publicPart(&keys[i])
		if !ok {
			continue
		}
		if _, there := m[k.KeyID]; !there {
			m[k.KeyID] = k
		}
	}
	return m
}

// Check reports that there is no key that can verify anything. Verifier.Check calls it.
func (m keyMap) Check() error {
	for _, k := range m {
		if _, ok := signingKey(&k); ok {
			return nil
		}
	}
	return errors.New("session: the key set holds no RSA signing key of 2048 bits or more")
}

// Key implements KeySet.
func (m keyMap) Key(_ context.Context, kid string) (*jose.JSONWebKey, error) {
	k, ok := m[kid]
	if !ok {
		return nil, ErrUnknownKey
	}
	return &k, nil
}

// publicPart returns the public half of an RSA key with its kid, use and alg.
func publicPart(k *jose.JSONWebKey) (jose.JSONWebKey, bool) {
	var pub *rsa.PublicKey
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		pub = key
	case crypto.Signer: // also a key that never leaves its hardware
		pub, _ = key.Public().(*rsa.PublicKey)
	}
	if pub == nil || pub.N == nil {
		return jose.JSONWebKey{}, false
	}
	out := jose.JSONWebKey{Key: pub, KeyID: k.KeyID, Use: k.Use, Algorithm: k.Algorithm}
	if out.KeyID == "" {
		sum, err := out.Thumbprint(crypto.SHA256)
		if err != nil {
			return jose.JSONWebKey{}, false
		}
		out.KeyID = base64.RawURLEncoding.EncodeToString(sum)
	}
	return out, true
}

// signingKey returns the RSA public key of k if k is meant for RS256 signatures and
// strong enough for them.
func signingKey(k *jose.JSONWebKey) (*rsa.PublicKey, bool) {
	if k.Use != "" && k.Use != "sig" {
		return nil, false
	}
	if k.Algorithm != "" && k.Algorithm != string(jose.RS256) {
		return nil, false
	}
	pub, ok := k.Key.(*rsa.PublicKey)
	if !ok || pub == nil || pub.N == nil {
		return nil, false
	}
	if bits := pub.N.BitLen(); bits < minModulus || bits > maxModulus {
		return nil, false
	}
	return pub, pub.E > 2 && pub.E%2 == 1
}

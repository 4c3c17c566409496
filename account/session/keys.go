package session

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

const (
	minModulus = 2048  // bits; RFC 7518 section 3.3
	maxModulus = 16384 // bits; beyond it, one check costs milliseconds

	maxKeySetBytes = 256 << 10 // of an answer, after decompression
)

// KeySet returns the issuer's public keys. Verifier.Check, and so each Verify, calls its method
// Check() error, if it has one.
type KeySet interface {
	// Key returns the key with this kid, never nil without an error. It returns ErrUnknownKey if
	// the set is current and has no such key, and another error, preferably ErrKeysUnavailable, if
	// that is not known now. It must be safe for concurrent use and return soon after ctx ends. It
	// must treat kid as text from a stranger: a key into a map, never a path, an address or part of
	// a query.
	Key(ctx context.Context, kid string) (*jose.JSONWebKey, error)
}

// keyMap is a KeySet that does not change. It has only signing keys, by kid.
type keyMap map[string]jose.JSONWebKey

// NewStaticKeySet returns a KeySet of these keys, for keys in a file or the service's own. Private
// parts are dropped, and keys other than RSA, P-256 and Ed25519 are ignored. Session tokens are
// only verified with RSA keys. The kid of a key without one is its RFC 7638 thumbprint (SHA-256,
// base64url), as in Cairn's key set. Of two keys with one kid the first counts.
func NewStaticKeySet(keys ...jose.JSONWebKey) KeySet {
	m := make(keyMap, len(keys))
	for _, k := range keys {
		if signer, private := k.Key.(crypto.Signer); private { // perhaps one that never leaves its hardware
			k.Key = signer.Public()
		}
		pub, alg := signingKey(&k)
		ok := alg != ""
		if ok && k.KeyID == "" {
			sum, err := k.Thumbprint(crypto.SHA256)
			k.KeyID, ok = base64.RawURLEncoding.EncodeToString(sum), err == nil
		}
		if _, there := m[k.KeyID]; ok && !there {
			m[k.KeyID] = jose.JSONWebKey{Key: pub, KeyID: k.KeyID, Use: k.Use, Algorithm: k.Algorithm}
		}
	}
	return m
}

// Check returns an error if no key can verify anything. Verifier.Check calls it.
func (m keyMap) Check() error {
	if len(m) == 0 {
		return errors.New("session: the key set has no signing key: an RSA key of at least 2048 bits, P-256 or Ed25519")
	}
	return nil
}

// Key implements KeySet.
func (m keyMap) Key(_ context.Context, kid string) (*jose.JSONWebKey, error) {
	k, ok := m[kid]
	if !ok {
		return nil, ErrUnknownKey
	}
	return &k, nil
}

// signingKey returns the public key of k and its only algorithm: RS256, ES256 or EdDSA, or "" if k
// is not for signatures of this algorithm or too weak.
func signingKey(k *jose.JSONWebKey) (pub any, alg jose.SignatureAlgorithm) {
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		if key != nil && key.N != nil && key.N.BitLen() >= minModulus && key.N.BitLen() <= maxModulus &&
			key.E > 2 && key.E%2 == 1 {
			alg = jose.RS256
		}
	case *ecdsa.PublicKey:
		if key != nil && key.Curve == elliptic.P256() && k.Valid() {
			alg = jose.ES256
		}
	case ed25519.PublicKey:
		if len(key) == ed25519.PublicKeySize {
			alg = jose.EdDSA
		}
	}
	if k.Use != "" && k.Use != "sig" || k.Algorithm != "" && k.Algorithm != string(alg) {
		return nil, ""
	}
	return k.Key, alg
}

// RemoteOptions are the settings of a RemoteKeySet. Zero and negative durations
// mean the default.
type RemoteOptions struct {
	// Client makes the requests. Nil means a client of its own, which gives up a connection within
	// 8 seconds if nobody answers. Your own gives it up after two fetches without a response, or
	// sooner with pings (http.Transport.HTTP2, SendPingTimeout). Redirects to another host or
	// scheme are never followed, even if the client would.
	Client *http.Client

	MinInterval time.Duration // least time between the starts of two fetches; default 10 s
	// Age at which the copy is fetched again; at twice this age requests wait for it; default 10 min.
	MaxAge  time.Duration
	Timeout time.Duration    // longest time a fetch may take; default 5 s
	Now     func() time.Time // the clock; nil means time.Now
}

// RemoteKeySet is a KeySet with a copy of the issuer's published key set. NewRemoteKeySet returns
// one. It needs no closing and is safe for concurrent use.
type RemoteKeySet struct {
	url         string
	client      *webClient
	minInterval time.Duration
	maxAge      time.Duration
	timeout     time.Duration
	clock       func() time.Time

	mu        sync.Mutex
	keys      keyMap        // the last good copy; nil before the first
	fetched   time.Time     // when the fetch of keys began
	attempted time.Time     // when the last fetch began, good or not
	failure   error         // of the last finished fetch; nil if it was good
	flight    chan struct{} // closed when the fetch that is out ends; nil when there is none
}

// NewRemoteKeySet returns the key set at url, Cairn's `/.well-known/jwks.json`. It makes
// no request before the first key is asked for, so an application can start before
// Cairn does.
func NewRemoteKeySet(url string, opts RemoteOptions) *RemoteKeySet {
	return &RemoteKeySet{
		url:         url,
		client:      newClient(opts.Client),
		minInterval: orDefault(opts.MinInterval, 10*time.Second),
		maxAge:      orDefault(opts.MaxAge, 10*time.Minute),
		timeout:     orDefault(opts.Timeout, 5*time.Second),
		clock:       opts.Now,
	}
}

// Check reports a setting with which no key would ever be found. Verifier.Check calls it.
func (s *RemoteKeySet) Check() error {
	if s == nil || s.client == nil {
		return errors.New("session: the key set is not set up: make it with NewRemoteKeySet")
	}
	if !isWebAddress(s.url) { // it may hold a password
		return errors.New("session: the address of the key set is not one of http or https with a host")
	}
	return nil
}

// Key implements KeySet. It returns a known key at once, also from an old copy, which is then
// renewed in the background. For an unknown kid, or with a copy older than twice MaxAge, it waits
// for a fetch, unless the last one began less than MinInterval ago. If the fetch fails, or one has
// just failed, the old copy is used.
func (s *RemoteKeySet) Key(ctx context.Context, kid string) (*jose.JSONWebKey, error) {
	now := wallClock(s.clock)
	s.mu.Lock()
	k, known := s.keys[kid]
	old := reached(now, s.fetched, 2*s.maxAge) && (s.failure == nil || reached(now, s.attempted, s.maxAge))
	if s.flight == nil && (!known || reached(now, s.fetched, s.maxAge)) && reached(now, s.attempted, s.minInterval) {
		s.attempted, s.flight = now, make(chan struct{})
		go s.fetch(now)
	}
	flight, failure := s.flight, s.failure
	s.mu.Unlock()
	if flight != nil && (!known || old) {
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: waiting for the key set: %w", ErrKeysUnavailable, ctx.Err())
		}
		s.mu.Lock()
		k, known = s.keys[kid]
		failure = s.failure
		s.mu.Unlock()
	}
	switch {
	case known:
		return &k, nil
	case failure != nil:
		// The key may be a new one of an issuer that cannot be reached.
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, failure)
	}
	return nil, ErrUnknownKey
}

// expire makes the copy too old to use, because the issuer signs with another key and may have
// removed the former one.
func (s *RemoteKeySet) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = time.Time{}
}

// fetch runs with its own context, because many requests wait for it and one that gives up must not
// end it for the others.
func (s *RemoteKeySet) fetch(began time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	var keys keyMap
	_, body, err := s.client.get(ctx, s.url, maxKeySetBytes,
		http.Header{"Accept": {"application/jwk-set+json, application/json"}})
	if err == nil {
		keys, err = parseKeySet(body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure = err; err != nil {
		s.failure = fmt.Errorf("fetching the key set: %w", err)
	} else {
		s.keys, s.fetched = keys, began
	}
	close(s.flight)
	s.flight = nil
}

// parseKeySet reads a JWK Set key by key, so that a key of an unknown kind does not spoil the rest
// (RFC 7517 section 5). A set without any usable key is an error: it is more likely a mistake than
// a wish to end every session, and must not replace a good copy.
func parseKeySet(body []byte) (keyMap, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("the answer is not a JWK set")
	}
	var usable []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		// A key published with its private part is no longer secret.
		if k.UnmarshalJSON(raw) == nil && k.IsPublic() && k.Use == "sig" && isKeyID(k.KeyID) {
			usable = append(usable, k)
		}
	}
	keys, _ := NewStaticKeySet(usable...).(keyMap)
	if len(keys) == 0 {
		return nil, errors.New("the answer holds no signing key")
	}
	return keys, nil
}

// reached reports whether d has passed since then. It is true if the clock was set back, because
// waiting for it to catch up could take years.
func reached(now, then time.Time, d time.Duration) bool {
	passed := now.Sub(then)
	return passed < 0 || passed >= d
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

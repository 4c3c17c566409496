package session_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"testing"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

// countingKeySet counts how often it is asked.
type countingKeySet struct {
	session.KeySet
	asked int
}

func (s *countingKeySet) Key(ctx context.Context, id string) (*jose.JSONWebKey, error) {
	s.asked++
	return s.KeySet.Key(ctx, id)
}

// singleKey answers every kid with one key, as a careless KeySet would.
type singleKey struct{ key jose.JSONWebKey }

func (s singleKey) Key(context.Context, string) (*jose.JSONWebKey, error) { return &s.key, nil }

// failingKeySet fails with err, and without a key when err is nil.
type failingKeySet struct{ err error }

func (s failingKeySet) Key(context.Context, string) (*jose.JSONWebKey, error) { return nil, s.err }

func TestStaticKeySetNeverGivesPrivateParts(t *testing.T) {
	set := session.NewStaticKeySet(jose.JSONWebKey{Key: rsaKey(), KeyID: kid, Use: "sig", Algorithm: "RS256"})
	k, err := set.Key(t.Context(), kid)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := k.Key.(*rsa.PublicKey); !ok || k.KeyID != kid || k.Use != "sig" || k.Algorithm != "RS256" {
		t.Errorf("key of type %T, kid %q, use %q, alg %q", k.Key, k.KeyID, k.Use, k.Algorithm)
	}
	k.Key = nil // the caller's copy, not the set's
	v := verifier()
	v.Keys = set
	if _, err := v.Verify(t.Context(), rsToken(good())); err != nil {
		t.Error(err)
	}
}

func TestStaticKeySetKnowsRSAKeysAlone(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other := newRSA(2048)
	set := session.NewStaticKeySet(
		jose.JSONWebKey{Key: ec, KeyID: "ec"}, jose.JSONWebKey{Key: &ec.PublicKey, KeyID: "ec-public"}, jose.JSONWebKey{Key: secret, KeyID: "oct"}, jose.JSONWebKey{KeyID: "none"},
		jose.JSONWebKey{Key: (*rsa.PublicKey)(nil), KeyID: "nil"}, jose.JSONWebKey{Key: &rsa.PublicKey{}, KeyID: "blank"},
		publicJWK(rsaKey(), kid), publicJWK(other, kid), jose.JSONWebKey{Key: other},
	)
	for _, id := range []string{"ec", "ec-public", "oct", "none", "nil", "blank", "", "KEY-1"} {
		if k, err := set.Key(t.Context(), id); !errors.Is(err, session.ErrUnknownKey) || k != nil {
			t.Errorf("%q: %v, %v", id, k, err)
		}
	}
	if k, err := set.Key(t.Context(), kid); err != nil || !k.Key.(*rsa.PublicKey).Equal(rsaKey().Public()) {
		t.Errorf("of two keys with one kid the second counts: %v", err)
	}
	sum, err := (&jose.JSONWebKey{Key: &other.PublicKey}).Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Key(t.Context(), base64.RawURLEncoding.EncodeToString(sum)); err != nil {
		t.Errorf("a key without a kid is not found by its thumbprint: %v", err)
	}
}

func TestKeySetErrorsSayWhoIsToBlame(t *testing.T) {
	v := verifier()
	for _, tt := range []struct {
		name                          string
		err                           error
		invalid, unknown, unavailable bool
	}{
		{"unknown", session.ErrUnknownKey, true, true, false},
		{"no key and no error", nil, true, true, false},
		{"unavailable", session.ErrKeysUnavailable, false, false, true},
		{"some other error", errors.New("disk on fire"), false, false, true},
		{"context", context.Canceled, false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v.Keys = failingKeySet{tt.err}
			_, err := v.Verify(t.Context(), rsToken(good()))
			if errors.Is(err, session.ErrInvalid) != tt.invalid || errors.Is(err, session.ErrUnknownKey) != tt.unknown || errors.Is(err, session.ErrKeysUnavailable) != tt.unavailable {
				t.Errorf("got %v", err)
			}
			if tt.unavailable && !errors.Is(err, tt.err) {
				t.Errorf("%v does not wrap %v", err, tt.err)
			}
			if _, err := v.Verify(t.Context(), hsToken(good())); err != nil {
				t.Errorf("HS256 needs the key set: %v", err)
			}
		})
	}
}

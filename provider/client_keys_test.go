package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

func TestUnfitKeyIsNeverRegistered(t *testing.T) {
	k := newAssertionKeys()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	one := func(key crypto.PublicKey, change func(*jose.JSONWebKey)) []byte {
		j := jose.JSONWebKey{Key: key, KeyID: "1"}
		if change != nil {
			change(&j)
		}
		return keySet(t, j)
	}
	// with puts a member of its own into the key's JSON.
	with := func(key crypto.PublicKey, name string, value any) []byte {
		b, err := json.Marshal(jose.JSONWebKey{Key: key})
		members := map[string]any{}
		if err == nil {
			err = json.Unmarshal(b, &members)
		}
		if err != nil {
			t.Fatal(err)
		}
		members[name] = value
		if b, err = json.Marshal(map[string]any{"keys": []any{members}}); err != nil {
			t.Fatal(err)
		}
		return b
	}
	many := make([]jose.JSONWebKey, maxClientKeys+1)
	for i := range many {
		many[i] = jose.JSONWebKey{Key: &k.ec.PublicKey, KeyID: rand.Text()}
	}
	for name, c := range map[string]struct {
		set  []byte
		want string
	}{
		"nothing": {nil, "not a key set"}, "a key": {[]byte(`{"kty":"RSA"}`), "not a key set"}, "no keys": {[]byte(`{"keys":[]}`), "not a key set"}, "text": {[]byte(`x`), "not a key set"}, "large": {make([]byte, maxClientKeySet+1), "32 KiB"},
		"private": {one(k.rsa, nil), "public half"}, "private EC": {one(k.ec, nil), "public half"}, "symmetric": {one([]byte("0123456789abcdef0123456789abcdef"), nil), "public half"},
		"short": {one(&small.PublicKey, nil), "2048"}, "P-384": {one(&p384.PublicKey, nil), "P-256"}, "for encryption": {one(&k.rsa.PublicKey, func(j *jose.JSONWebKey) { j.Use = "enc" }), "use"},
		"RS512": {one(&k.rsa.PublicKey, func(j *jose.JSONWebKey) { j.Algorithm = "RS512" }), "alg"}, "HS256": {one(&k.rsa.PublicKey, func(j *jose.JSONWebKey) { j.Algorithm = "HS256" }), "alg"}, "RS256 on EC": {one(&k.ec.PublicKey, func(j *jose.JSONWebKey) { j.Algorithm = "RS256" }), "alg"},
		"same kid":         {keySet(t, jose.JSONWebKey{Key: &k.rsa.PublicKey, KeyID: "1"}, jose.JSONWebKey{Key: &k.ec.PublicKey, KeyID: "1"}), "same kid"},
		"too many":         {keySet(t, many...), "more than 16"},
		"leftover prime":   {with(&k.rsa.PublicKey, "p", "AQAB"), "public half"},
		"exponent one":     {with(&k.rsa.PublicKey, "e", "AQ"), "RSA|can be read"},
		"even exponent":    {with(&k.rsa.PublicKey, "e", "AQAA"), "RSA"},
		"off the curve":    {with(&k.ec.PublicKey, "y", strings.Repeat("A", 43)), "can be read"},
		"for decryption":   {with(&k.ec.PublicKey, "key_ops", []string{"decrypt"}), "key_ops"},
		"kid with a break": {one(&k.ec.PublicKey, func(j *jose.JSONWebKey) { j.KeyID = "a\nb" }), "kid"},
		"long kid":         {one(&k.ec.PublicKey, func(j *jose.JSONWebKey) { j.KeyID = strings.Repeat("k", maxKeyID+1) }), "kid"},
		"unreadable":       {[]byte(`{"keys":[{"kty":"RSA","n":"!","e":"AQAB"}]}`), "cannot be read|can be read"},
	} {
		_, err := CheckClientKeys(c.set)
		if err == nil || !slices.ContainsFunc(strings.Split(c.want, "|"), func(w string) bool { return strings.Contains(err.Error(), w) }) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := CheckClientKeys(keySet(t, many[:maxClientKeys]...)); err != nil {
		t.Errorf("%d keys: %v", maxClientKeys, err)
	}
	kept, err := CheckClientKeys(one(&k.ec.PublicKey, nil))
	if err != nil || !strings.Contains(string(kept), `"use":"sig"`) {
		t.Errorf("kept %s: %v", kept, err)
	}
}

// A key set that was kept by other means is held to the same rules when it is used.
func TestUnfitKeyNeverVerifies(t *testing.T) {
	k := newAssertionKeys()
	rsaKey := jose.JSONWebKey{Key: &k.rsa.PublicKey}
	for name, c := range map[string]struct {
		set      []byte
		kid, alg string
		want     bool
	}{
		"fits": {keySet(t, rsaKey), "", "RS256", true}, "two fit": {keySet(t, rsaKey, jose.JSONWebKey{Key: &k.otherRSA.PublicKey}), "", "RS256", false}, "one of two by kid": {keySet(t, jose.JSONWebKey{Key: &k.rsa.PublicKey, KeyID: "a"}, jose.JSONWebKey{Key: &k.otherRSA.PublicKey, KeyID: "b"}), "b", "PS256", true},
		"one of two by alg": {keySet(t, rsaKey, jose.JSONWebKey{Key: &k.ec.PublicKey}), "", "ES256", true}, "private": {keySet(t, jose.JSONWebKey{Key: k.rsa}), "", "RS256", false}, "for encryption": {keySet(t, jose.JSONWebKey{Key: &k.rsa.PublicKey, Use: "enc"}), "", "RS256", false},
		"a kid that the key lacks": {keySet(t, rsaKey), "a", "RS256", false}, "unreadable beside it": {[]byte(strings.Replace(string(keySet(t, rsaKey)), `[`, `[{"kty":"X"},7,`, 1)), "", "RS256", true}, "no set": {nil, "", "RS256", false},
	} {
		if _, ok := (&Client{JWKS: c.set}).keyFor(c.kid, c.alg); ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// signingKey is that of a client.
type signingKey struct{ key jose.JSONWebKey }

// newSigningKey also writes the public key set to a file.
func newSigningKey(file string) (*signingKey, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	k := &signingKey{jose.JSONWebKey{Key: private, KeyID: "one", Algorithm: "ES256", Use: "sig"}}
	b, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{k.key.Public()}})
	if err != nil {
		return nil, err
	}
	return k, os.WriteFile(file, b, 0o600)
}

// sign signs claims; header are names and values of its header.
func (k *signingKey) sign(claims map[string]any, header map[jose.HeaderKey]any) string {
	o := &jose.SignerOptions{ExtraHeaders: header}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: k.key}, o)
	if err != nil {
		panic(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return token
}

// assertion authenticates a client (RFC 7523 section 3).
func (k *signingKey) assertion(issuer, clientID, jti string, now time.Time) string {
	return k.sign(map[string]any{"iss": clientID, "sub": clientID, "aud": issuer, "jti": jti, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}, nil)
}

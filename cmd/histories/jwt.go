package main

import (
	"compress/zlib"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
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

// claims are those of a session or access token, and of a list with the bits of such tokens
// (draft-ietf-oauth-status-list).
type claims struct {
	Sid    string   `json:"sid"`
	AMR    []string `json:"amr"`
	Expiry int64    `json:"exp"`
	Status struct {
		List struct {
			Index int    `json:"idx"`
			URI   string `json:"uri"`
		} `json:"status_list"`
	} `json:"status"`
	List struct {
		Data string `json:"lst"`
	} `json:"status_list"`
}

func claimsOf(token string) (c claims) {
	if parts := strings.Split(token, "."); len(parts) == 3 {
		b, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(b, &c)
	}
	return c
}

// bitOf returns the status of an index in a Status List Token (draft-ietf-oauth-status-list section 5.1).
func bitOf(token string, index int) (bool, error) {
	packed, err := base64.RawURLEncoding.DecodeString(claimsOf(token).List.Data)
	if err != nil {
		return false, err
	}
	z, err := zlib.NewReader(strings.NewReader(string(packed)))
	if err != nil {
		return false, err
	}
	list, err := io.ReadAll(z)
	if err != nil || index/8 >= len(list) {
		return false, errors.Join(err, errors.New("no such index"))
	}
	return list[index/8]>>(index%8)&1 == 1, nil
}

package httpd

import (
	"encoding/base64"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/config"
)

// signedBy makes a JWT with a private key file, under the key's kid or another.
func signedBy(t *testing.T, keyFile, kid string, claims map[string]any) string {
	t.Helper()
	keys, err := config.LoadSigningKeys(keyFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := keys[0]
	if kid != "" {
		key.KeyID = kid
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// symmetricJWT is a JWT with an HMAC key, or with alg none when there is none.
func symmetricJWT(t *testing.T, key []byte, claims map[string]any) string {
	t.Helper()
	if key == nil {
		part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
		return part(`{"alg":"none","typ":"JWT"}`) + "." + part(indent(t, claims)) + "."
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Attack 23.
func TestForgedHintNeverGetsACode(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	secret := s.addClient("app", nil)
	rp, other := s.relyingParty("app", secret), s.relyingParty("other", s.addClient("other", nil))
	b, token := s.signedInTokens(rp, "ada")
	b.authorize(other.authURL(), "ada")
	genuine, _ := token.Extra("id_token").(string)
	otherToken, err := other.exchange(b.authorize(other.authURL(), "ada").Get("code"))
	if err != nil {
		t.Fatal(err)
	}
	foreign, _ := otherToken.Extra("id_token").(string)
	kid := jwtHeader(t, genuine)["kid"].(string)
	attacker := t.TempDir() + "/key.pem"
	if _, err := config.GenerateKey(attacker, 2048); err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"iss": s.URL, "aud": "app", "sub": u.Sub, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	with := func(name string, value any) map[string]any {
		c := maps.Clone(claims)
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	header, payload, _ := strings.Cut(genuine, ".")
	for name, hint := range map[string]string{
		"alg none": symmetricJWT(t, nil, claims), "HS256 with the client secret": symmetricJWT(t, []byte(secret), claims), "HS256 with the shared secret": symmetricJWT(t, s.secret, claims),
		"attacker's key": signedBy(t, attacker, "", claims), "attacker's key under our kid": signedBy(t, attacker, kid, claims),
		"session cookie": b.cookie("cairn_session"), "other client's ID token": foreign, "access token": token.AccessToken, "refresh token": token.RefreshToken,
		"audience of the cookie": signedBy(t, s.key, "", with("aud", "activity")), "two audiences": signedBy(t, s.key, "", with("aud", []string{"app", "other"})), "no audience": signedBy(t, s.key, "", with("aud", nil)),
		"other issuer": signedBy(t, s.key, "", with("iss", s.URL+"/")), "no subject": signedBy(t, s.key, "", with("sub", nil)), "kid of nobody": signedBy(t, s.key, "nobody", claims),
		"signature cut off": genuine[:strings.LastIndex(genuine, ".")+1], "changed payload": header + "." + "A" + payload[1:], "garbage": "x", "dots": "..", "many dots": strings.Repeat(".", 3000),
		"JSON serialization": `{"payload":"x","signatures":[]}`, "four parts": genuine + ".x", "NUL": "\x00.\x00.\x00",
	} {
		for _, prompt := range []string{"", "none"} {
			_, got := answerOf(t, b.get(rp.authURL("id_token_hint", hint, "prompt", prompt)))
			if got.Get("error") != "invalid_request" || got.Has("code") {
				t.Errorf("%s, prompt %q: %v", name, prompt, got)
			}
		}
		if got := b.get(rp.authURL("id_token_hint", hint)); len(hint) > 20 && strings.Contains(got.Header.Get("Location"), url.QueryEscape(hint)) {
			t.Errorf("%s is sent back", name)
		}
	}
	for name, hint := range map[string]string{"genuine": genuine, "expired": signedBy(t, s.key, "", with("exp", time.Now().Add(-48*time.Hour).Unix()))} {
		if _, got := answerOf(t, b.get(rp.authURL("id_token_hint", hint, "prompt", "none"))); got.Get("code") == "" {
			t.Errorf("%s hint: %v", name, got)
		}
	}
}

// A hint about somebody else: no code for who happens to be signed in.
func TestHintOfAnotherPersonNeverGetsACode(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addUser("eve")
	rp := s.relyingParty("app", s.addClient("app", nil))
	_, token := s.signedInTokens(rp, "eve")
	hint, _ := token.Extra("id_token").(string)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	if got := b.authorize(rp.authURL("id_token_hint", hint, "prompt", "none"), "ada"); got.Get("error") != "login_required" || got.Has("code") {
		t.Errorf("silently: %v", got)
	}
	if got := b.authorize(rp.authURL("id_token_hint", hint), "ada"); got.Get("error") != "login_required" || got.Has("code") {
		t.Errorf("signed in again as the wrong person: %v", got)
	}
	if got := b.authorize(rp.authURL("id_token_hint", hint), "eve"); got.Get("code") == "" {
		t.Errorf("signed in as the right one: %v", got)
	}
}

// A hint by the key before a rotation is genuine as long as the key is published.
func TestRotatedKeyNeverVoidsAHint(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	secret := s.addClient("app", nil)
	b := s.browser()
	b.authorize(s.relyingParty("app", secret).authURL(), "ada")
	fresh := t.TempDir() + "/key.pem"
	if _, err := config.GenerateKey(fresh, 2048); err != nil {
		t.Fatal(err)
	}
	rotated := startService(t, serviceOptions{Store: s.store, Key: fresh, Settings: func(c *config.Settings) { c.AdditionalKeyFiles = []string{s.key} }})
	rp := rotated.relyingParty("app", secret)
	nb := rotated.browser()
	nb.authorize(rp.authURL(), "ada")
	hint := signedBy(t, s.key, "", map[string]any{"iss": rotated.URL, "aud": "app", "sub": u.Sub, "iat": 1, "exp": 2})
	if got := nb.authorize(rp.authURL("id_token_hint", hint, "prompt", "none"), "ada"); got.Get("code") == "" {
		t.Errorf("hint by the retired key: %v", got)
	}
	if kid := jwtHeader(t, nb.cookie("cairn_session"))["kid"]; kid == jwtHeader(t, hint)["kid"] {
		t.Error("the retired key still signs")
	}
}

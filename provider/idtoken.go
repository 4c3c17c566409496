package provider

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account"
)

// idTokenSigner signs and verifies ID tokens. The first key signs.
type idTokenSigner struct {
	issuer string
	signer jose.Signer
	public []jose.JSONWebKey // all keys, for hints
	now    func() time.Time
}

func newIDTokenSigner(issuer string, signingKey any, keys []jose.JSONWebKey, now func() time.Time) (*idTokenSigner, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: signingKey}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("ID token signer: %w", err)
	}
	s := &idTokenSigner{issuer: issuer, signer: signer, now: now}
	for _, k := range keys {
		s.public = append(s.public, k.Public())
	}
	return s, nil
}

// idTokenClaims are the claims of the ID token of a grant (OpenID Connect Core section
// 2). aud is a string: one audience needs no azp.
func idTokenClaims(issuer string, u account.User, c *Client, g *Grant, atHash string, now time.Time) map[string]any {
	var scopes []string
	if c.IDTokenClaims {
		scopes = g.Scopes
	}
	claims := claimsOf(u, c, scopes, storedClaims(g.Claims, c).IDToken)
	for name, v := range map[string]any{
		"iss": issuer, "sub": g.Sub, "aud": c.ID, "iat": now.Unix(), "exp": now.Add(IDTokenLifetime).Unix(), "auth_time": g.AuthTime.Unix(),
		"sid": g.SessionID, "jti": rand.Text(), "amr": g.methods(),
	} {
		claims[name] = v
	}
	for name, v := range map[string]string{"acr": g.ACR, "nonce": g.Nonce, "at_hash": atHash} {
		if v != "" {
			claims[name] = v
		}
	}
	return claims
}

func (s *idTokenSigner) sign(claims map[string]any) (string, error) {
	token, err := jwt.Signed(s.signer).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign ID token: %w", err)
	}
	return token, nil
}

// hintSubject is hint for a request that names its client. It returns the sub.
func (s *idTokenSigner) hintSubject(hint, clientID string) (string, error) {
	c, err := s.hint(hint)
	if err != nil {
		return "", err
	}
	if c.Audience[0] != clientID {
		return "", errors.New("hint of another client")
	}
	return c.Subject, nil
}

// hint verifies an id_token_hint (OpenID Connect Core section 3.1.2.1, RP-Initiated
// Logout section 2): an ID token of ours, signed by any published key, RS256 only;
// an expired one is fine. Logout tokens and status lists have another type. The claims have a subject
// and exactly one audience, which may be the session cookie's.
func (s *idTokenSigner) hint(hint string) (jwt.Claims, error) {
	var c jwt.Claims
	if len(hint) > 8<<10 || strings.Count(hint, ".") != 2 {
		return c, errors.New("not a token")
	}
	t, err := jwt.ParseSigned(hint, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return c, fmt.Errorf("read hint: %w", err)
	}
	if len(t.Headers) != 1 {
		return c, errors.New("not a token with one signature")
	}
	if typ, ok := t.Headers[0].ExtraHeaders[jose.HeaderType].(string); ok && !strings.EqualFold(typ, "JWT") {
		return c, errors.New("a token of another type")
	}
	for _, k := range s.public {
		if t.Headers[0].KeyID != k.KeyID {
			continue
		}
		if err := t.Claims(k.Key, &c); err != nil {
			return c, fmt.Errorf("verify hint: %w", err)
		}
		if c.Issuer != s.issuer || len(c.Audience) != 1 || c.Subject == "" {
			return c, errors.New("hint of another issuer")
		}
		return c, nil
	}
	return c, errors.New("hint of an unknown key")
}

package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
)

// idTokenSigner makes ID tokens with go-jose v4. It implements
// openid.OpenIDConnectTokenStrategy in place of fosite's, which has no kid, adds the
// unregistered claim rat and refuses short nonces after the code is spent.
type idTokenSigner struct {
	issuer string
	signer jose.Signer
	public []jose.JSONWebKey // all keys, for hints
	now    func() time.Time
}

func newIDTokenSigner(issuer string, keys []jose.JSONWebKey, now func() time.Time) (*idTokenSigner, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: keys[0]}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("ID token signer: %w", err)
	}
	s := &idTokenSigner{issuer: issuer, signer: signer, now: now}
	for _, k := range keys {
		s.public = append(s.public, k.Public())
	}
	return s, nil
}

// activeUserKey carries the user whom the token endpoint has just checked.
type activeUserKey struct{}

func withActiveUser(ctx context.Context, u account.User) context.Context {
	return context.WithValue(ctx, activeUserKey{}, u)
}

// GenerateIDToken implements openid.OpenIDConnectTokenStrategy (OpenID Connect
// Core section 2). aud is a string: one audience needs no azp.
func (s *idTokenSigner) GenerateIDToken(ctx context.Context, lifespan time.Duration, r fosite.Requester) (string, error) {
	session, ok := r.GetSession().(*GrantSession)
	if !ok || session.Subject == "" {
		return "", errors.New("grant without a subject")
	}
	client, ok := r.GetClient().(*Client)
	if !ok {
		return "", errors.New("grant without a client")
	}
	now := s.now().UTC().Truncate(time.Second)
	claims := map[string]any{}
	if u, ok := ctx.Value(activeUserKey{}).(account.User); ok {
		var scopes fosite.Arguments
		if client.IDTokenClaims {
			scopes = r.GetGrantedScopes()
		}
		claims = claimsOf(u, client, scopes, storedClaims(session.Claims, client).IDToken)
	}
	claims["iss"] = s.issuer
	claims["sub"] = session.Subject
	claims["aud"] = client.ID
	claims["iat"] = now.Unix()
	claims["exp"] = now.Add(lifespan).Unix()
	claims["auth_time"] = session.AuthTime.Unix()
	claims["sid"] = session.SessionID
	if session.ACR != "" {
		claims["acr"] = session.ACR
	}
	claims["jti"] = rand.Text()
	if h := session.atHash.AccessTokenHash; h != "" {
		claims["at_hash"] = h
	}
	// A refreshed ID token has no nonce; what the refresh request sends under
	// that name is not ours.
	refreshed := false
	if ar, ok := r.(fosite.AccessRequester); ok {
		refreshed = ar.GetGrantTypes().ExactOne("refresh_token")
	}
	if nonce := r.GetRequestForm().Get("nonce"); nonce != "" && !refreshed {
		claims["nonce"] = nonce
	}
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

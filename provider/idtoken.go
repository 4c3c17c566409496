package provider

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account"
)

// signingAlgorithms lists the algorithms for tokens that clients receive.
var signingAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// signers maps algorithms to signers of one token type. The first private key of each algorithm
// signs.
type signers map[string]jose.Signer

// newSigners returns the signers of the keys. fast, unless nil, signs in place of the first key.
func newSigners(kind jose.ContentType, keys []jose.JSONWebKey, fast jose.OpaqueSigner) (signers, error) {
	all := signers{}
	for i, k := range keys {
		if k.IsPublic() || all[k.Algorithm] != nil {
			continue
		}
		sk := jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.Algorithm), Key: k}
		if i == 0 && fast != nil {
			sk.Key = fast
		}
		var err error
		if all[k.Algorithm], err = jose.NewSigner(sk, (&jose.SignerOptions{}).WithType(kind)); err != nil {
			return nil, fmt.Errorf("signer of %s: %w", kind, err)
		}
	}
	return all, nil
}

// errNoKey means that the key for a client's registered algorithm is missing.
var errNoKey = errors.New("no key for the algorithm of the client: name a private key of that type with " +
	"--additional-key-file, or register another algorithm with cairn client update --id-token-alg")

func (s signers) of(c *Client) (jose.Signer, error) {
	signer := s[c.IDTokenAlgorithm()]
	if signer == nil {
		return nil, fmt.Errorf("client %s, %s: %w", c.ID, c.IDTokenAlgorithm(), errNoKey)
	}
	return signer, nil
}

// algorithms returns the algorithms for discovery, which always include RS256 (OpenID Connect
// Discovery section 3).
func (s signers) algorithms() []jose.SignatureAlgorithm {
	noSigner := func(a jose.SignatureAlgorithm) bool { return s[string(a)] == nil }
	return slices.DeleteFunc(slices.Clone(signingAlgorithms), noSigner)
}

// canSign returns an error that wraps errNoKey if no key can sign the tokens of a request, which is
// refused before it gets a code.
func (p *Provider) canSign(req *authorization, a access) error {
	return canSign(p.idTokens.signers, p.accessTokens, req, a)
}

func canSign(idTokens signers, accessTokens *accessTokenSigner, req *authorization, a access) error {
	if slices.Contains(a.granted, "openid") {
		if _, err := idTokens.of(req.client); err != nil {
			return err
		}
	}
	t := &accessTarget{apis: slices.DeleteFunc(slices.Clone(req.apis), func(api *API) bool {
		return !slices.Contains(a.resources, api.URI)
	})}
	if t.opaque() {
		return nil
	}
	_, err := accessTokens.signerFor(t)
	return err
}

// CheckKeys returns the clients whose algorithm no key can sign.
func CheckKeys(clients []*Client, keys []jose.JSONWebKey) (without []*Client) {
	return slices.DeleteFunc(slices.Clone(clients), func(c *Client) bool { return signs(keys, c.IDTokenAlgorithm()) })
}

// CheckAPIKeys is CheckKeys for the JWT access tokens of APIs.
func CheckAPIKeys(all []*API, keys []jose.JSONWebKey) (without []*API) {
	return slices.DeleteFunc(slices.Clone(all), func(a *API) bool {
		return a.Algorithm == "" || a.Opaque || signs(keys, a.Algorithm)
	})
}

func signs(keys []jose.JSONWebKey, algorithm string) bool {
	return slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool { return !k.IsPublic() && k.Algorithm == algorithm })
}

type idTokenSigner struct {
	issuer string
	signers
	now func() time.Time
}

func newIDTokenSigner(
	issuer string, keys []jose.JSONWebKey, fast jose.OpaqueSigner, now func() time.Time,
) (*idTokenSigner, error) {
	all, err := newSigners("JWT", keys, fast)
	if err != nil {
		return nil, err
	}
	return &idTokenSigner{issuer, all, now}, nil
}

// idTokenClaims returns the claims of a grant's ID token (OpenID Connect Core section 2). aud is
// a string, so azp is not needed.
func idTokenClaims(issuer string, u account.User, c *Client, g *Grant, atHash string, now time.Time) map[string]any {
	var scopes []string
	if c.IDTokenClaims {
		scopes = c.scopesLeft(g)
	}
	claims := claimsOf(u, c, scopes, storedClaims(g.Claims, c).IDToken)
	c.addOwnClaims(claims, claimInIDToken, u, g)
	for name, v := range map[string]any{
		"iss": issuer, "sub": g.Sub, "aud": c.ID, "iat": now.Unix(), "exp": now.Add(idTokenLifetime).Unix(),
		"auth_time": g.AuthTime.Unix(), "jti": rand.Text(), "amr": g.methods(),
	} {
		claims[name] = v
	}
	sid := ""
	if c.BackchannelLogoutURI != "" { // others cannot use it, and conformance tests warn of claims without a use
		sid = g.SessionID
	}
	for name, v := range map[string]string{"acr": g.ACR, "nonce": g.Nonce, "at_hash": atHash, "sid": sid} {
		if v != "" {
			claims[name] = v
		}
	}
	return claims
}

func (s *idTokenSigner) sign(c *Client, claims map[string]any) (string, error) {
	signer, err := s.of(c)
	if err != nil {
		return "", err
	}
	return signed(signer, claims, "ID token")
}

// signed returns a token of a kind with these claims.
func signed(signer jose.Signer, claims map[string]any, kind string) (string, error) {
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign %s: %w", kind, err)
	}
	return token, nil
}

// hintSubject returns the sub of a hint for a request of the given client.
func (rs *rules) hintSubject(hint, clientID string) (string, error) {
	c, err := rs.hint(hint)
	if err != nil {
		return "", err
	}
	if c.Audience[0] != clientID {
		return "", errors.New("hint of another client")
	}
	return c.Subject, nil
}

// hint verifies an id_token_hint (OpenID Connect Core section 3.1.2.1, RP-Initiated Logout
// section 2): an ID token of this service, possibly expired, signed by a published key with that
// key's algorithm. Logout tokens and status lists have another type. The claims have a subject
// and exactly one audience, which may be that of the session cookie.
func (rs *rules) hint(hint string) (jwt.Claims, error) {
	var c jwt.Claims
	t, err := jwt.ParseSigned(hint, signingAlgorithms)
	if err != nil {
		return c, fmt.Errorf("read hint: %w", err)
	}
	if typ, ok := t.Headers[0].ExtraHeaders[jose.HeaderType].(string); ok && !strings.EqualFold(typ, "JWT") {
		return c, errors.New("a token of another type")
	}
	for _, k := range rs.public {
		if t.Headers[0].KeyID != k.KeyID || t.Headers[0].Algorithm != k.Algorithm {
			continue
		}
		if err := t.Claims(k.Key, &c); err != nil {
			return c, fmt.Errorf("verify hint: %w", err)
		}
		if c.Issuer != rs.issuer || len(c.Audience) != 1 || c.Subject == "" {
			return c, errors.New("hint of another issuer")
		}
		return c, nil
	}
	return c, errors.New("hint of an unknown key")
}

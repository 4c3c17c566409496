package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
)

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	maxAssertion  = 8 << 10 // bytes
	maxJTI        = 256     // bytes
	// assertionLifetime is how far ahead exp may lie: as long as a stolen
	// assertion that was not used is worth something.
	assertionLifetime = 5 * time.Minute
	// assertionSkew is how far the client's clock may be ahead of ours.
	assertionSkew = 30 * time.Second
)

// authenticateAssertion is private_key_jwt (RFC 7523 section 3, OpenID Connect
// Core section 9). Whatever is wrong is fosite.ErrInvalidClient; only a failing
// database is another error.
func (p *Provider) authenticateAssertion(ctx context.Context, r *http.Request, form url.Values) (*Client, error) {
	refused := func(why error) (*Client, error) { return nil, fosite.ErrInvalidClient.WithWrap(why) }
	if p.assertions == nil || form.Get("client_assertion_type") != assertionType || form.Get("client_secret") != "" || len(r.Header.Values("Authorization")) > 0 {
		return refused(errors.New("no assertion, or another method beside it"))
	}
	t, claims, aud, err := readAssertion(form.Get("client_assertion"))
	if err != nil {
		return refused(err)
	}
	id := claims.Issuer
	if claims.Subject != id || form.Get("client_id") != "" && form.Get("client_id") != id {
		return refused(errors.New("iss, sub and client_id differ"))
	}
	found, err := p.clients.GetClient(ctx, id)
	if errors.Is(err, account.ErrUnavailable) {
		return nil, err
	}
	c, ok := found.(*Client)
	if err != nil || !ok || c.AuthMethod != AuthJWT {
		return refused(errors.New("not a client with this method"))
	}
	key, ok := c.keyFor(t.Headers[0].KeyID, t.Headers[0].Algorithm)
	if !ok {
		return refused(errors.New("no key fits, or several"))
	}
	if err := t.Claims(key, &jwt.Claims{}); err != nil {
		return refused(fmt.Errorf("verify assertion: %w", err))
	}
	if err := p.checkAssertion(claims, aud); err != nil {
		return refused(err)
	}
	// Last: only a genuine assertion leaves a trace.
	err = p.assertions.SpendAssertion(ctx, c.ID, claims.ID, claims.Expiry.Time().UTC())
	if errors.Is(err, fosite.ErrJTIKnown) {
		return refused(err)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// readAssertion reads the claims, which nothing has proven yet, and aud where it
// is a string: jwt.Claims does not tell it from a list of one.
func readAssertion(raw string) (*jwt.JSONWebToken, jwt.Claims, string, error) {
	var c jwt.Claims
	var audience struct {
		Aud any `json:"aud"`
	}
	if len(raw) > maxAssertion || strings.Count(raw, ".") != 2 {
		return nil, c, "", errors.New("not a token")
	}
	t, err := jwt.ParseSigned(raw, assertionAlgorithms)
	if err != nil {
		return nil, c, "", fmt.Errorf("read assertion: %w", err)
	}
	if len(t.Headers) != 1 || t.Headers[0].ExtraHeaders[jose.HeaderKey("b64")] != nil {
		return nil, c, "", errors.New("not a plain token")
	}
	if err := t.UnsafeClaimsWithoutVerification(&c, &audience); err != nil {
		return nil, c, "", fmt.Errorf("read assertion: %w", err)
	}
	aud, _ := audience.Aud.(string)
	return t, c, aud, nil
}

// checkAssertion holds the claims to RFC 7523 section 3. There is one audience,
// the issuer or the token endpoint whatever the endpoint in use: an assertion that another
// server may take too could have come from there.
func (p *Provider) checkAssertion(c jwt.Claims, aud string) error {
	if aud != p.issuer && aud != p.issuer+"/oauth2/token" {
		return errors.New("aud is not one string, the issuer or the token endpoint")
	}
	if c.ID == "" || len(c.ID) > maxJTI {
		return errors.New("no jti, or a long one")
	}
	now := p.clock()
	if c.Expiry == nil || !now.Before(c.Expiry.Time()) || c.Expiry.Time().After(now.Add(assertionLifetime+assertionSkew)) {
		return errors.New("exp is missing, over or too far ahead")
	}
	if c.NotBefore != nil && c.NotBefore.Time().After(now.Add(assertionSkew)) {
		return errors.New("nbf is ahead")
	}
	if c.IssuedAt != nil && (c.IssuedAt.Time().After(now.Add(assertionSkew)) || c.Expiry.Time().Sub(c.IssuedAt.Time()) > assertionLifetime+assertionSkew) {
		return errors.New("iat is ahead, or the assertion lives too long")
	}
	return nil
}

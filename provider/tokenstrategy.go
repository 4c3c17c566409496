package provider

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"

	"github.com/cairn-id/cairn/account/web"
)

// tokenStrategy makes and checks codes and tokens: 32 random bytes, a dot and
// their HMAC, each in base64url. It gives the signature, by which all of them are
// looked up, only of what this service made and only as it was written.
//
// fosite's own gives it of any text with a dot. With that, a stranger's text
// reaches the database; another first half with a known signature is taken for a
// second use and ends the owner's grant; and the texts that decode to the same
// bytes (unused bits, line ends) all are the token.
type tokenStrategy struct {
	*oauth2.HMACSHAStrategyUnPrefixed
}

var _ oauth2.CoreStrategy = tokenStrategy{}

// AccessTokenSignature implements oauth2.AccessTokenStrategy; empty for what is
// no token.
func (s tokenStrategy) AccessTokenSignature(ctx context.Context, token string) string {
	return s.signature(ctx, token)
}

// RefreshTokenSignature implements oauth2.RefreshTokenStrategy.
func (s tokenStrategy) RefreshTokenSignature(ctx context.Context, token string) string {
	return s.signature(ctx, token)
}

// AuthorizeCodeSignature implements oauth2.AuthorizeCodeStrategy.
func (s tokenStrategy) AuthorizeCodeSignature(ctx context.Context, token string) string {
	return s.signature(ctx, token)
}

func (s tokenStrategy) signature(ctx context.Context, token string) string {
	key, signature, ok := strings.Cut(token, ".")
	if !ok || !canonical(key) || !canonical(signature) || s.Enigma.Validate(ctx, token) != nil {
		return ""
	}
	return signature
}

// canonical tells whether a text is the base64url of 32 bytes as it is written
// here. The decoder alone skips line ends even when it is strict.
func canonical(s string) bool {
	if len(s) != base64.RawURLEncoding.EncodedLen(32) || strings.ContainsAny(s, "\r\n") {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return err == nil
}

// reuseGuard stands between fosite and the storage where a code or a refresh
// token is used a second time. fosite drops an error of the revocation after a
// code and answers invalid_grant while the tokens live; the guard keeps it for the
// token endpoint. What was revoked before needs no second revocation and is no
// second use.
type reuseGuard struct{ Storage }

// GetAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage.
func (g reuseGuard) GetAuthorizeCodeSession(ctx context.Context, signature string, s fosite.Session) (fosite.Requester, error) {
	r, err := g.Storage.GetAuthorizeCodeSession(ctx, signature, s)
	return r, seen(ctx, err)
}

// GetRefreshTokenSession implements oauth2.RefreshTokenStorage.
func (g reuseGuard) GetRefreshTokenSession(ctx context.Context, signature string, s fosite.Session) (fosite.Requester, error) {
	r, err := g.Storage.GetRefreshTokenSession(ctx, signature, s)
	return r, seen(ctx, err)
}

// InvalidateAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage.
func (g reuseGuard) InvalidateAuthorizeCodeSession(ctx context.Context, signature string) error {
	return lost(ctx, g.Storage.InvalidateAuthorizeCodeSession(ctx, signature))
}

// RotateRefreshToken implements oauth2.RefreshTokenStorage.
func (g reuseGuard) RotateRefreshToken(ctx context.Context, grantID, signature string) error {
	return lost(ctx, g.Storage.RotateRefreshToken(ctx, grantID, signature))
}

// lost notes a second use that came at the moment of the first.
func lost(ctx context.Context, err error) error {
	second := errors.Is(err, fosite.ErrInvalidatedAuthorizeCode) || errors.Is(err, fosite.ErrInactiveToken)
	if c := CacheFrom(ctx); c != nil && second && !errors.Is(err, ErrGrantRevoked) {
		c.reused = true
	}
	return err
}

func seen(ctx context.Context, err error) error {
	if c := CacheFrom(ctx); c != nil && errors.Is(err, ErrGrantRevoked) {
		c.revoked = true
	}
	return err
}

// RevokeAccessToken implements oauth2.TokenRevocationStorage.
func (g reuseGuard) RevokeAccessToken(ctx context.Context, grantID string) error {
	return g.revoke(ctx, grantID, g.Storage.RevokeAccessToken)
}

// RevokeRefreshToken implements oauth2.TokenRevocationStorage.
func (g reuseGuard) RevokeRefreshToken(ctx context.Context, grantID string) error {
	return g.revoke(ctx, grantID, g.Storage.RevokeRefreshToken)
}

func (g reuseGuard) revoke(ctx context.Context, grantID string, how func(context.Context, string) error) error {
	c := CacheFrom(ctx)
	if c == nil {
		return how(ctx, grantID)
	}
	if c.revoked {
		return nil
	}
	c.reused = true
	err := how(ctx, grantID)
	if err != nil {
		c.revocation = err
	}
	return err
}

// noteReuse names a second use in the log line: it means a thief or a broken
// client. The names are those that operators watch for.
func noteReuse(ctx context.Context, grantType string) {
	if c := CacheFrom(ctx); c == nil || !c.reused {
		return
	}
	if grantType == "refresh_token" {
		web.Note(ctx, "refresh_reuse")
		return
	}
	web.Note(ctx, "code_replay")
}

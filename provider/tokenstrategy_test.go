package provider

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
	"github.com/ory/fosite/token/hmac"
)

func newTestStrategy(secret string) tokenStrategy {
	config := (&Provider{}).config([]byte(strings.Repeat(secret, 32)))
	return tokenStrategy{oauth2.NewHMACSHAStrategyUnPrefixed(&hmac.HMACStrategy{Config: config}, config)}
}

func TestSignatureIsNeverGivenOfWhatWasNotMadeHere(t *testing.T) {
	s, ctx := newTestStrategy("a"), t.Context()
	token, signature, err := s.GenerateAccessToken(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.AccessTokenSignature(ctx, token) != signature || s.RefreshTokenSignature(ctx, token) != signature || s.AuthorizeCodeSignature(ctx, token) != signature || signature == "" {
		t.Fatal("the genuine token has no signature")
	}
	foreign, _, err := newTestStrategy("b").GenerateAccessToken(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, sig, _ := strings.Cut(token, ".")
	for _, bad := range []string{"", ".", "a", "a.b", foreign, "." + sig, key + ".", key, sig + "." + key, token + "=", token + "\n", token[:9] + "\n" + token[9:], token + ".x", strings.Repeat("A", 43) + "." + sig, strings.Repeat("a", 1<<20)} {
		if got := s.AccessTokenSignature(ctx, bad); got != "" {
			t.Errorf("%.60q has the signature %q", bad, got)
		}
	}
	// 32 bytes leave two bits of the 43rd character unused: of four texts one counts.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, c := range alphabet {
		other := key[:42] + string(c)
		if bytes, err := base64.RawURLEncoding.DecodeString(other); err == nil && base64.RawURLEncoding.EncodeToString(bytes) != other && s.AccessTokenSignature(ctx, other+"."+sig) != "" {
			t.Errorf("%s is taken for %s", other, key)
		}
	}
}

// brokenStorage fails where grants are revoked, or knows them as revoked.
type brokenStorage struct {
	Storage
	err     error
	revoked int
}

func (b *brokenStorage) RevokeAccessToken(context.Context, string) error { b.revoked++; return b.err }

func (b *brokenStorage) RevokeRefreshToken(context.Context, string) error { b.revoked++; return b.err }

func (b *brokenStorage) GetRefreshTokenSession(context.Context, string, fosite.Session) (fosite.Requester, error) {
	return &fosite.Request{}, errors.Join(fosite.ErrInactiveToken, ErrGrantRevoked)
}

func TestFailedRevocationIsNeverForgotten(t *testing.T) {
	away := errors.New("away")
	storage := &brokenStorage{err: away}
	g, ctx := reuseGuard{storage}, WithRequestCache(t.Context())
	if err := g.RevokeAccessToken(ctx, "x"); !errors.Is(err, away) {
		t.Errorf("%v", err)
	}
	storage.err = nil
	if err := g.RevokeRefreshToken(ctx, "x"); err != nil || !errors.Is(CacheFrom(ctx).revocation, away) || !CacheFrom(ctx).reused {
		t.Errorf("%v: the second, good revocation hides the first: %+v", err, CacheFrom(ctx))
	}
	// What is revoked already is neither revoked again nor a second use.
	ctx = WithRequestCache(t.Context())
	if _, err := g.GetRefreshTokenSession(ctx, "x", nil); !errors.Is(err, fosite.ErrInactiveToken) {
		t.Errorf("%v", err)
	}
	before := storage.revoked
	if err := g.RevokeRefreshToken(ctx, "x"); err != nil || storage.revoked != before || CacheFrom(ctx).reused {
		t.Errorf("%v: revoked %d times", err, storage.revoked-before)
	}
	// Without a cache the guard stands aside.
	if err := g.RevokeRefreshToken(t.Context(), "x"); err != nil || storage.revoked != before+1 {
		t.Errorf("%v: revoked %d times", err, storage.revoked-before)
	}
}

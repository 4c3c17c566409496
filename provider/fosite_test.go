package provider

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ory/fosite"
)

func newTestStrategy(secret string) tokenStrategy {
	return newTokenStrategy(fositeConfig("https://id.example.org", []byte(strings.Repeat(secret, 32))))
}

func TestOnlyOwnTokensHaveASignature(t *testing.T) {
	s, ctx := newTestStrategy("a"), t.Context()
	token, signature, err := s.GenerateAccessToken(ctx, nil)
	must(t, err)
	if s.AccessTokenSignature(ctx, token) != signature || s.RefreshTokenSignature(ctx, token) != signature ||
		s.AuthorizeCodeSignature(ctx, token) != signature || signature == "" {
		t.Fatal("the genuine token has no signature")
	}
	foreign, _, err := newTestStrategy("b").GenerateAccessToken(ctx, nil)
	must(t, err)
	key, sig, _ := strings.Cut(token, ".")
	for _, bad := range []string{"", ".", "a", "a.b", foreign, "." + sig, key + ".", key, sig + "." + key, token + "=", token + "\n", token[:9] + "\n" + token[9:], token + ".x", strings.Repeat("A", 43) + "." + sig, strings.Repeat("a", 1<<20)} {
		if got := s.AccessTokenSignature(ctx, bad); got != "" {
			t.Errorf("%.60q has the signature %q", bad, got)
		}
	}
	if _, ok := decodeToken(strings.Repeat("A", 42) + "\n"); ok {
		t.Error("a line end is skipped")
	}
	// 32 bytes leave two bits of the 43rd character unused: of four texts one counts.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, c := range alphabet {
		other := key[:42] + string(c)
		if bytes, err := base64.RawURLEncoding.DecodeString(other); err == nil &&
			base64.RawURLEncoding.EncodeToString(bytes) != other && s.AccessTokenSignature(ctx, other+"."+sig) != "" {
			t.Errorf("%s is taken for %s", other, key)
		}
	}
}

// brokenStorage fails where grants are revoked.
type brokenStorage struct {
	GrantStore
	err     error
	revoked int
}

func (b *brokenStorage) RevokeGrant(context.Context, string, time.Time) error {
	b.revoked++
	return b.err
}

func (b *brokenStorage) Token(context.Context, string) (*Token, error) {
	return &Token{Refresh: true, Grant: &Grant{ClientID: "app", Revoked: true}}, nil
}

func TestFailedRevocationIsKept(t *testing.T) {
	away := errors.New("away")
	grants := &brokenStorage{err: away}
	s, x := fositeStorage{grants, time.Now}, &exchange{client: &Client{ID: "app"}}
	ctx := withExchange(t.Context(), x)
	fails(t, "RevokeAccessToken", s.RevokeAccessToken(ctx, "x"), away)
	grants.err = nil
	if err := s.RevokeRefreshToken(ctx, "x"); err != nil || !errors.Is(x.revocation, away) || !x.reused {
		t.Errorf("%v: the second, good revocation hides the first: %+v", err, x)
	}
	// What is revoked already is neither revoked again nor a second use.
	x = &exchange{client: x.client}
	ctx = withExchange(t.Context(), x)
	if r, err := s.GetRefreshTokenSession(ctx, "x", nil); !errors.Is(err, fosite.ErrInactiveToken) || r == nil {
		t.Errorf("%v %v", r, err)
	}
	before := grants.revoked
	if err := s.RevokeRefreshToken(ctx, "x"); err != nil || grants.revoked != before || x.reused {
		t.Errorf("%v: revoked %d times", err, grants.revoked-before)
	}
}

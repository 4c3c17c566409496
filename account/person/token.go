package person

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
)

// maxTokenBytes keeps the whole cookie under the 4,096 bytes that browsers keep.
const maxTokenBytes = 4000

// minter signs session tokens: HS256 with the shared secret, or RS256 with the first key if there
// is one. It is safe for concurrent use.
type minter struct {
	issuer    string
	algorithm string
	key       jose.SigningKey
	keyID     string // empty: the shared secret
	signer    jose.Signer
	overhead  int // bytes of a token besides its payload
}

func newMinter(issuer string, secret []byte, keys []jose.JSONWebKey, fast jose.OpaqueSigner) (*minter, error) {
	opts := (&jose.SignerOptions{}).WithType("JWT")
	sk := jose.SigningKey{Algorithm: jose.HS256, Key: secret}
	if len(keys) > 0 {
		sk = jose.SigningKey{Algorithm: jose.RS256, Key: keys[0]} // the JWK brings the kid header
		if fast != nil {
			sk.Key = fast
		}
	}
	signer, err := jose.NewSigner(sk, opts)
	if err != nil {
		return nil, fmt.Errorf("session token signer: %w", err)
	}
	m := &minter{issuer: issuer, algorithm: string(sk.Algorithm), key: sk, signer: signer}
	if len(keys) > 0 {
		m.keyID = keys[0].KeyID
	}
	empty, err := jwt.Signed(signer).Claims(struct{}{}).Serialize()
	if err != nil {
		return nil, fmt.Errorf("sign session token: %w", err)
	}
	m.overhead = len(empty) - base64.RawURLEncoding.EncodedLen(len("{}"))
	return m, nil
}

// sessionClaims is the exact payload of the session token.
type sessionClaims struct {
	Issuer   string                       `json:"iss"`
	Subject  string                       `json:"sub"`
	Audience string                       `json:"aud"`
	IssuedAt int64                        `json:"iat"`
	Expires  int64                        `json:"exp"`
	AuthTime int64                        `json:"auth_time"`
	AMR      []string                     `json:"amr"`
	ACR      string                       `json:"acr"`
	ID       string                       `json:"jti"`
	Session  string                       `json:"sid"`
	Handle   string                       `json:"preferred_username"`
	Name     string                       `json:"name"`
	Groups   []string                     `json:"groups"`
	Status   map[string]session.StatusRef `json:"status"`
}

// sessionToken signs the token of a session, with the flags that the settings allow in it.
func (s *Service) sessionToken(ctx context.Context, u account.User, row *account.Session, jti string) (string, error) {
	u, err := s.withTokenFlags(ctx, u)
	if err != nil {
		return "", err
	}
	return s.minter.token(u, row, jti)
}

// checkToken returns the error that sessionToken would return for its length, of a session that is not stored
// yet: nobody gets the token of a session that stays behind an error.
func (s *Service) checkToken(ctx context.Context, u account.User, row *account.Session) error {
	u, err := s.withTokenFlags(ctx, u)
	if err != nil {
		return err
	}
	longest := *row
	longest.StatusList, longest.StatusIndex = math.MaxInt32, math.MaxInt32
	payload, err := json.Marshal(s.minter.claims(u, &longest, rand.Text()))
	if err != nil {
		return err
	}
	return tokenFits(s.minter.overhead + base64.RawURLEncoding.EncodedLen(len(payload)))
}

// withTokenFlags returns the user with those of the flags that the settings allow in the session token.
func (s *Service) withTokenFlags(ctx context.Context, u account.User) (account.User, error) {
	v, err := s.sharedSettings(ctx)
	if err == nil && len(v.SessionFlags) > 0 {
		u.Flags = slices.DeleteFunc(slices.Clone(u.Flags), func(f string) bool {
			return !slices.Contains(v.SessionFlags, f)
		})
	}
	return u, err
}

func tokenFits(bytes int) error {
	if bytes > maxTokenBytes {
		return fmt.Errorf("session token of %d bytes is too long for a cookie", bytes)
	}
	return nil
}

func (m *minter) claims(u account.User, s *account.Session, jti string) sessionClaims {
	return sessionClaims{
		Issuer: m.issuer, Subject: u.Sub, Audience: account.SessionAudience, IssuedAt: s.AuthTime.Unix(),
		Expires:  s.ExpiresAt.Unix(),
		AuthTime: s.AuthTime.Unix(), AMR: account.ShownMethods(s.AMR), ACR: account.ACR(s.AMR),
		ID: jti, Session: s.ID, Handle: u.Handle, Name: u.DisplayName, Groups: append([]string{}, u.Flags...),
		Status: account.StatusClaim(m.issuer, s.StatusList, s.StatusIndex),
	}
}

func (m *minter) token(u account.User, s *account.Session, jti string) (string, error) {
	t, err := jwt.Signed(m.signer).Claims(m.claims(u, s, jti)).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign session token: %w", err)
	}
	return t, tokenFits(len(t))
}

// CheckSecrets signs a session token with the secret, or with the first key if there are keys, and
// verifies it as another application would.
func CheckSecrets(ctx context.Context, issuer string, secret []byte, keys []jose.JSONWebKey, now time.Time) error {
	m, err := newMinter(issuer, secret, keys, nil)
	if err != nil {
		return err
	}
	n := &account.Session{
		ID: rand.Text(), AuthTime: now, ExpiresAt: now.Add(account.SessionLifetime), StatusList: 1,
		AMR: []string{account.MethodPassword},
	}
	token, err := m.token(account.User{Sub: rand.Text(), Handle: "check", Flags: []string{}}, n, rand.Text())
	if err != nil {
		return err
	}
	verifier := session.Verifier{Issuer: issuer, Secret: secret, Now: func() time.Time { return now }}
	if len(keys) > 0 {
		public := make([]jose.JSONWebKey, len(keys))
		for i, k := range keys {
			public[i] = k.Public()
		}
		verifier.Secret, verifier.Keys = nil, session.NewStaticKeySet(public...)
	}
	if _, err := verifier.Verify(ctx, token); err != nil {
		return fmt.Errorf("verify a session token: %w", err)
	}
	return nil
}

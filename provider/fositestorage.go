package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
	"github.com/ory/fosite/handler/openid"
	"github.com/ory/fosite/handler/pkce"
	"github.com/ory/fosite/storage"
)

// fositeStorage implements fosite's storage on a GrantStore. Its transaction collects the tokens,
// and committing it is one call of the GrantStore.
type fositeStorage struct {
	grants GrantStore
	now    func() time.Time
}

// fosite's helpers assert types only at run time: without BeginTX they would silently work
// without a transaction.
var _ interface {
	fosite.Storage
	oauth2.CoreStorage
	oauth2.TokenRevocationStorage
	openid.OpenIDConnectRequestStorage
	pkce.PKCERequestStorage
	storage.Transactional
} = fositeStorage{}

var errNotUsed = errors.New("fosite does not do this here")

// GetClient returns the client of the request, the only one that newCode names.
func (fositeStorage) GetClient(ctx context.Context, _ string) (fosite.Client, error) {
	return fositeClient{exchangeFrom(ctx).client}, nil
}

func (fositeStorage) ClientAssertionJWTValid(context.Context, string) error { return errNotUsed }
func (fositeStorage) SetClientAssertionJWT(context.Context, string, time.Time) error {
	return errNotUsed
}

// CreateAuthorizeCodeSession stores the grant with its code, challenge and nonce in one row.
func (s fositeStorage) CreateAuthorizeCodeSession(ctx context.Context, signature string, r fosite.Requester) error {
	g := sessionOf(r).grant
	id, err := newGrantID()
	if err != nil {
		return err
	}
	g.ID, g.CodeSignature, g.CreatedAt = id, signature, r.GetRequestedAt().UTC()
	return s.grants.CreateGrant(ctx, g)
}

// newGrantID returns an id that sorts by time (RFC 9562 section 5.7), so that databases append to
// their indexes.
func newGrantID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make id of grant: %w", err)
	}
	return id.String(), nil
}

// code returns the grant of a code of the request's client. Another client's code is not found;
// otherwise presenting it would end the owner's grant.
func (s fositeStorage) code(ctx context.Context, signature string) (*Grant, *fosite.Request, error) {
	x := exchangeFrom(ctx)
	if x.code == nil {
		g, err := s.grants.GrantOfCode(ctx, signature)
		if err != nil {
			return nil, nil, notFound(err)
		}
		x.code, x.session = g, &grantSession{grant: g}
	}
	r, err := x.request(x.session)
	return x.code, r, err
}

func (x *exchange) request(s *grantSession) (*fosite.Request, error) {
	g := s.grant
	if x.client.ID != g.ClientID {
		return nil, fosite.ErrNotFound
	}
	form := url.Values{"redirect_uri": {g.RedirectURI}}
	if g.CodeChallenge != "" {
		form.Set("code_challenge", g.CodeChallenge)
		form.Set("code_challenge_method", "S256")
	}
	scopes := x.client.scopesLeft(g) // fosite would refuse the rest with them
	return &fosite.Request{
		ID: g.ID, RequestedAt: g.CreatedAt, Client: fositeClient{x.client}, Session: s, Form: form,
		RequestedScope: scopes, GrantedScope: scopes,
		RequestedAudience: fosite.Arguments{}, GrantedAudience: fosite.Arguments{},
	}, nil
}

func notFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fosite.ErrNotFound
	}
	return err
}

// GetAuthorizeCodeSession returns a used code together with the error, and fosite then revokes
// its grant. A code of a revoked grant does not count as a second use.
func (s fositeStorage) GetAuthorizeCodeSession(
	ctx context.Context, signature string, _ fosite.Session,
) (fosite.Requester, error) {
	g, r, err := s.code(ctx, signature)
	if err != nil {
		return nil, err
	}
	if g.Revoked {
		exchangeFrom(ctx).revoked = true
	}
	if x := exchangeFrom(ctx); x.polled && g.CodeUsed {
		return nil, fosite.ErrNotFound
	}
	if g.Revoked || g.CodeUsed {
		return r, fosite.ErrInvalidatedAuthorizeCode
	}
	return r, nil
}

// GetPKCERequestSession returns ErrNotFound for a code without a challenge.
func (s fositeStorage) GetPKCERequestSession(
	ctx context.Context, signature string, _ fosite.Session,
) (fosite.Requester, error) {
	g, r, err := s.code(ctx, signature)
	if err != nil {
		return nil, err
	}
	if g.CodeChallenge == "" {
		return nil, fosite.ErrNotFound
	}
	return r, nil
}

// GetOpenIDConnectSession receives the whole code, just after it was spent. Without the scope
// openid it returns ErrNotFound.
func (s fositeStorage) GetOpenIDConnectSession(
	ctx context.Context, code string, _ fosite.Requester,
) (fosite.Requester, error) {
	_, signature, _ := strings.Cut(code, ".")
	g, r, err := s.code(ctx, signature)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(g.Scopes, "openid") {
		return nil, fosite.ErrNotFound
	}
	return r, nil
}

// GetRefreshTokenSession returns a rotated or revoked token together with the error, and fosite
// then revokes its grant.
func (s fositeStorage) GetRefreshTokenSession(
	ctx context.Context, signature string, _ fosite.Session,
) (fosite.Requester, error) {
	t, err := s.grants.Token(ctx, signature)
	if err != nil {
		return nil, notFound(err)
	}
	x := exchangeFrom(ctx)
	t.Expires = x.client.refreshUntil(t.Expires, t.Grant) // which may end sooner than when it was issued
	x.refresh = t
	r, err := x.request(&grantSession{grant: t.Grant, refreshExpires: t.Expires})
	if err != nil || !t.Refresh {
		return nil, fosite.ErrNotFound
	}
	x.bound, x.kept = t.JKT, x.client.isFAPI()
	if t.Grant.Revoked {
		x.revoked = true
	}
	if t.Grant.Revoked || !t.Rotated.IsZero() && !x.client.inGrace(t.Rotated, s.now()) {
		return r, fosite.ErrInactiveToken
	}
	return r, nil
}

// DeletePKCERequestSession does nothing: fosite calls it before it checks the verifier, and a
// second attempt would find no challenge.
func (fositeStorage) DeletePKCERequestSession(context.Context, string) error { return nil }

// The following are stored with the code or deleted with its grant.

func (fositeStorage) CreatePKCERequestSession(context.Context, string, fosite.Requester) error {
	return nil
}
func (fositeStorage) CreateOpenIDConnectSession(context.Context, string, fosite.Requester) error {
	return nil
}
func (fositeStorage) DeleteOpenIDConnectSession(context.Context, string) error { return nil }
func (fositeStorage) DeleteAccessTokenSession(context.Context, string) error   { return nil }
func (fositeStorage) DeleteRefreshTokenSession(context.Context, string) error  { return nil }
func (fositeStorage) GetAccessTokenSession(context.Context, string, fosite.Session) (fosite.Requester, error) {
	return nil, errNotUsed
}

// BeginTX implements storage.Transactional. What follows is collected until Commit.
func (fositeStorage) BeginTX(ctx context.Context) (context.Context, error) {
	x := exchangeFrom(ctx)
	x.spend, x.issued = func(context.Context, []Token) error { return nil }, nil
	return ctx, nil
}

// InvalidateAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage.
func (s fositeStorage) InvalidateAuthorizeCodeSession(ctx context.Context, signature string) error {
	g, _, err := s.code(ctx, signature)
	if err != nil {
		return err
	}
	return exchangeFrom(ctx).collect(func(ctx context.Context, issued []Token) error {
		g.CodeUsed = true // kept for the ID token, but no longer as an unused code
		return s.grants.SpendCode(ctx, g.ID, issued)
	})
}

// RotateRefreshToken implements oauth2.RefreshTokenStorage.
func (s fositeStorage) RotateRefreshToken(ctx context.Context, grantID, signature string) error {
	x := exchangeFrom(ctx)
	return x.collect(func(ctx context.Context, issued []Token) error {
		if x.kept {
			until := x.client.refreshUntil(s.now().Add(x.client.refreshLifetime()), x.refresh.Grant)
			return s.grants.KeepRefreshToken(ctx, grantID, signature, until, issued)
		}
		return s.grants.RotateRefreshToken(ctx, grantID, signature, issued)
	})
}

// CreateAccessTokenSession implements oauth2.AccessTokenStorage.
func (s fositeStorage) CreateAccessTokenSession(ctx context.Context, signature string, _ fosite.Requester) error {
	x := exchangeFrom(ctx)
	return x.collect(nil, x.target.stored(signature, s.now()))
}

// CreateRefreshTokenSession implements oauth2.RefreshTokenStorage.
func (fositeStorage) CreateRefreshTokenSession(ctx context.Context, signature, _ string, r fosite.Requester) error {
	x, session := exchangeFrom(ctx), sessionOf(r)
	t := Token{
		Signature: signature, Refresh: true, Expires: x.client.refreshUntil(session.refreshExpires, session.grant),
	}
	if x.kept {
		return nil
	}
	if x.client.IsPublic() { // others authenticate (RFC 9449 section 5)
		t.JKT = x.jkt
	}
	return x.collect(nil, t)
}

func (x *exchange) collect(spend func(context.Context, []Token) error, issued ...Token) error {
	if spend != nil {
		x.spend = spend
	}
	x.issued = append(x.issued, issued...)
	return nil
}

// Commit implements storage.Transactional.
func (fositeStorage) Commit(ctx context.Context) error {
	x := exchangeFrom(ctx)
	err := x.spend(ctx, x.issued)
	x.spend, x.issued = nil, nil
	if errors.Is(err, ErrSpent) && !errors.Is(err, ErrGrantRevoked) {
		x.reused = true // concurrently with the first use
	}
	return err
}

// Rollback implements storage.Transactional, also after a failed Commit.
func (fositeStorage) Rollback(ctx context.Context) error {
	x := exchangeFrom(ctx)
	x.spend, x.issued = nil, nil
	return nil
}

// RevokeAccessToken is called by fosite, like RevokeRefreshToken, to end the grant of a code or
// refresh token that is used a second time. After a code, fosite drops the first error and
// answers invalid_grant while the tokens still work, so the error is kept in revocation for the
// token endpoint. A grant that is already revoked needs no second revocation and does not count
// as a second use.
func (s fositeStorage) RevokeAccessToken(ctx context.Context, grantID string) error {
	x := exchangeFrom(ctx)
	if x.revoked {
		return nil
	}
	x.reused = true
	err := s.grants.RevokeGrant(ctx, grantID, s.now())
	if x.revoked = err == nil; err != nil {
		x.revocation = err
	}
	return err
}

// RevokeRefreshToken revokes the grant like RevokeAccessToken.
func (s fositeStorage) RevokeRefreshToken(ctx context.Context, grantID string) error {
	return s.RevokeAccessToken(ctx, grantID)
}

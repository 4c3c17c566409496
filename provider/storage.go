package provider

import (
	"context"
	"errors"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
	"github.com/ory/fosite/handler/openid"
	"github.com/ory/fosite/handler/pkce"
	"github.com/ory/fosite/storage"
)

// ErrClientNotFound is returned by the methods that manage clients.
var (
	ErrClientNotFound = errors.New("client not found")
	ErrClientExists   = errors.New("client id taken")
)

// Storage is what the provider needs of a database. The interfaces of fosite
// are named once here, so that a missing method does not compile: the storage
// helpers of fosite only assert types at run time, and a hidden BeginTX would
// silently turn atomicity off.
//
// Beyond fosite's own comments:
//   - a grant is one row: code signature, PKCE challenge, redirect URI, nonce,
//     session; tokens are rows that name it. Only signatures are stored.
//   - InvalidateAuthorizeCodeSession and RotateRefreshToken are conditional
//     updates; the loser gets fosite.ErrInvalidatedAuthorizeCode or
//     fosite.ErrInactiveToken.
//   - a used code and a rotated or revoked refresh token are returned together
//     with fosite.ErrInvalidatedAuthorizeCode and fosite.ErrInactiveToken.
//   - the grant's client is compared with the authenticated client of the
//     fosite.AccessRequest in the context: on mismatch fosite.ErrNotFound, or
//     a foreign client could end the owner's grant.
//   - an empty signature is fosite.ErrNotFound without a query.
//   - the session argument may be nil and is not used: the returned requester's
//     session is a *GrantSession.
//   - the OpenID Connect methods get the full code: it is cut at "." and only
//     its signature half is looked at. DeletePKCERequestSession and
//     DeleteOpenIDConnectSession do nothing: the challenge stays with the code.
//   - any other error wraps account.ErrUnavailable.
type Storage interface {
	fosite.ClientManager
	oauth2.CoreStorage
	oauth2.TokenRevocationStorage
	openid.OpenIDConnectRequestStorage
	pkce.PKCERequestStorage
	storage.Transactional

	// ConsentedScopes returns the scopes the user granted the client, nil when none.
	ConsentedScopes(ctx context.Context, sub, clientID string) ([]string, error)
	// SaveConsent adds scopes to what the user granted the client.
	SaveConsent(ctx context.Context, sub, clientID string, scopes []string, now time.Time) error
	// RevokeGrant revokes a grant with all its tokens; no error when there is none.
	RevokeGrant(ctx context.Context, grantID string, now time.Time) error
}

// ClientStore is what the operator's commands and the administrator's page need.
type ClientStore interface {
	// CreateClient. ErrClientExists.
	CreateClient(ctx context.Context, c *Client) error
	// Client. ErrClientNotFound.
	Client(ctx context.Context, id string) (*Client, error)
	// Clients in the order of their names.
	Clients(ctx context.Context) ([]*Client, error)
}

// RequestCache lives for one token request: the code's row is read once though
// fosite asks for it four times.
type RequestCache struct{ Code any }

type requestCacheKey struct{}

// WithRequestCache puts an empty cache into the context.
func WithRequestCache(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestCacheKey{}, &RequestCache{})
}

// CacheFrom returns the request's cache, or nil when there is none.
func CacheFrom(ctx context.Context) *RequestCache {
	c, _ := ctx.Value(requestCacheKey{}).(*RequestCache)
	return c
}

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

// ErrGrantRevoked comes with fosite.ErrInvalidatedAuthorizeCode or
// fosite.ErrInactiveToken where the grant was revoked: no second use of its code
// or token, or not the first one.
var ErrGrantRevoked = errors.New("grant revoked")

// Storage is what the provider needs of a database. The interfaces of fosite
// are named once here, so that a missing method does not compile: the storage
// helpers of fosite only assert types at run time, and a hidden BeginTX would
// silently turn atomicity off.
//
// Beyond fosite's own comments:
//   - a grant is one row: code signature, PKCE challenge, redirect URI, nonce,
//     session; tokens are rows that name it. Only signatures are stored.
//   - InvalidateAuthorizeCodeSession and RotateRefreshToken are conditional
//     updates. Of several calls at once the loser (but for the grace of the client)
//     is a second use (RFC 6749 section 4.1.2, RFC 9700 section 4.14.2): it revokes
//     the grant, commits the transaction of the context and gets
//     fosite.ErrInvalidatedAuthorizeCode or fosite.ErrInactiveToken, with ErrGrantRevoked
//     where nothing was left to revoke.
//   - a used code and a rotated or revoked refresh token are returned together
//     with fosite.ErrInvalidatedAuthorizeCode and fosite.ErrInactiveToken, of
//     a revoked grant also with ErrGrantRevoked.
//   - the grant's client is compared with the authenticated client of the
//     fosite.AccessRequest in the context: on mismatch fosite.ErrNotFound, or
//     a foreign client could end the owner's grant.
//   - an empty signature is fosite.ErrNotFound without a query.
//   - the session argument may be nil and is not used: the returned requester's
//     session is a *GrantSession.
//   - the OpenID Connect methods get the full code: it is cut at "." and only
//     its signature half is looked at. DeletePKCERequestSession and
//     DeleteOpenIDConnectSession do nothing: the challenge stays with the code.
//   - an access token whose session has no Subject (client_credentials) belongs
//     to a client alone: it is kept and found like the others, and RevokeGrant
//     takes the id of its request.
//   - any other error wraps account.ErrUnavailable, or context.Canceled.
type Storage interface {
	fosite.ClientManager
	// Clients is that of ClientStore.
	Clients(ctx context.Context) ([]*Client, error)
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

// PushedRequests keeps pushed authorization requests (RFC 9126). The query never
// holds client authentication.
type PushedRequests interface {
	// SavePushedRequest keeps the query of a request under the hash of its
	// request_uri's random part.
	SavePushedRequest(ctx context.Context, hash []byte, clientID, query string, expires time.Time) error
	// TakePushedRequest returns and removes it, once. fosite.ErrNotFound when it
	// is unknown, taken, expired or another client's.
	TakePushedRequest(ctx context.Context, hash []byte, clientID string, now time.Time) (query string, err error)
}

// Assertions remembers client assertions (RFC 7523): each jti once per client.
type Assertions interface {
	// SpendAssertion remembers the jti until it expires; fosite.ErrJTIKnown when
	// the client has used it before, under any concurrency.
	SpendAssertion(ctx context.Context, clientID, jti string, expires time.Time) error
}

// LogoutNotice is a logout token that is to be sent to one client (OpenID
// Connect Back-Channel Logout). The deed that ends a session writes it in the same
// transaction, for every client with a backchannel_logout_uri that has a grant of the session.
type LogoutNotice struct {
	ID        int64
	ClientID  string
	Sub       string
	SessionID string
	CreatedAt time.Time
	Attempts  int // that have failed
}

// LogoutOutbox is the queue of notices; several instances may share it.
type LogoutOutbox interface {
	// DueLogouts returns at most limit notices whose time has come and leases
	// them: nobody else gets them before now+lease.
	DueLogouts(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]LogoutNotice, error)
	// LogoutDone removes a notice: delivered, or given up.
	LogoutDone(ctx context.Context, id int64) error
	// LogoutFailed counts a failure and sets the time of the next attempt.
	LogoutFailed(ctx context.Context, id int64, next time.Time) error
}

// ClientStore is what the operator's commands and the administrator's page need.
type ClientStore interface {
	// CreateClient. ErrClientExists, or the *RegistrationError of Client.Check.
	CreateClient(ctx context.Context, c *Client) error
	// Client. ErrClientNotFound.
	Client(ctx context.Context, id string) (*Client, error)
	// Clients in the order of their names.
	Clients(ctx context.Context) ([]*Client, error)
}

// ClientManagement is what the operator does with registered clients.
type ClientManagement interface {
	// UpdateClient replaces everything but the id, the secrets and CreatedAt. ErrClientNotFound,
	// or the *RegistrationError of Client.Check.
	UpdateClient(ctx context.Context, c *Client) error
	// RotateClientSecret adds the hash of a new secret; the present ones end at
	// until (at once when until is not after now). ErrClientNotFound.
	RotateClientSecret(ctx context.Context, id string, hash []byte, now, until time.Time) error
	// RemoveClient removes the client with its secrets, consents, grants and
	// tokens. ErrClientNotFound.
	RemoveClient(ctx context.Context, id string) error
}

// RequestCache lives for one token request: the code's row is read once though
// fosite asks for it four times.
type RequestCache struct {
	Code any

	revoked    bool  // the grant was revoked before this request
	reused     bool  // a code or refresh token came a second time
	revocation error // what kept its grant from being revoked
}

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

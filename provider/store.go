package provider

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account"
)

// storageRefusal is an error by which the domain refuses an operation, as *web.Problem is.
type storageRefusal string

// Error implements error.
func (r storageRefusal) Error() string { return string(r) }

// Refusal marks the type: any other error is a failure.
func (r storageRefusal) Refusal() {}

// Errors of the storage interfaces. Any other error wraps account.ErrUnavailable, or
// context.Canceled.
var (
	ErrClientNotFound = storageRefusal("client not found")
	ErrClientExists   = storageRefusal("client id taken")
	// ErrNotFound: no such code, token or pushed request.
	ErrNotFound = storageRefusal("code or token not found")
	// ErrSpent: the code, refresh token or client assertion was used before.
	ErrSpent = storageRefusal("used before")
	// ErrSessionRenewed: the session got another token between the decision and the grant.
	ErrSessionRenewed = storageRefusal("the session has another token")
	// ErrConsentRemoved: the user removed the application between the decision and the grant.
	ErrConsentRemoved = storageRefusal("the consent was removed")
	// ErrGrantRevoked: the grant was already revoked, so this does not count as a second use.
	ErrGrantRevoked = storageRefusal("grant revoked")
)

// Grant is a stored authorization: what the user allowed one client in one session. A client's
// own token (client_credentials) has a grant without Sub and code.
type Grant struct {
	ID        string
	ClientID  string
	Sub       string
	SessionID string // sid of the browser's session
	// SessionToken is the hash of the token of that session when it was read. It is not stored.
	SessionToken []byte
	Scopes       []string
	Resources    []string // URIs of its APIs (RFC 8707)
	// StatusList and StatusIndex are its place in the token status lists, assigned by the store
	// to a grant for an API; else 0.
	StatusList, StatusIndex int

	CodeSignature string
	CodeExpires   time.Time
	RedirectURI   string
	CodeChallenge string // S256
	DPoPJKT       string // thumbprint of the key that the code is bound to (RFC 9449 section 10), or empty
	Nonce         string
	AMR           []string // of the session (RFC 8176)
	ACR           string
	// Claims is the supported part of the claims request parameter (OpenID Connect Core section
	// 5.5): compact JSON of names, or empty.
	Claims    string
	AuthTime  time.Time
	CreatedAt time.Time

	CodeUsed bool
	Revoked  bool
	// Longer reports whether a live access token was issued for more than AccessTokenLifetime, or the
	// code has still to be redeemed. It is not stored.
	Longer bool

	// Consented lists the scopes that the user must still have granted to the client when the grant is
	// stored: the user may remove the application after the consent was read. Empty: none are needed.
	Consented []string

	// Told is recorded with a grant that outlives its session, and its mails are sent, unless that
	// was done for the same client within account.LastingTold. Nil: nothing is recorded.
	Told *account.Audit

	// User is the grant's user as stored when the grant was read, with the fields that claims
	// need: without the password hash, the inviter and the times. It is nil for a client's own
	// token and for a deleted user. CreateGrant ignores it.
	User *account.User
}

// Token is an access or refresh token. Only its signature is stored or, for a JWT, its jti.
type Token struct {
	Signature string
	Refresh   bool
	Issued    time.Time // when it was stored
	Expires   time.Time
	Audience  []string // URIs of APIs and of userinfo; empty: userinfo only
	// Narrowed reports whether its scopes are Scopes instead of those of the grant. Both are only
	// for storing: the Grant of a token that was read has the scopes of the token.
	Narrowed bool
	Scopes   []string
	// Rotated is when a refresh token was first used, zero if it was not.
	Rotated time.Time
	JKT     string // thumbprint of the key that the token is bound to (RFC 9449), or empty
	Grant   *Grant
}

// GrantStore stores grants with their codes and tokens. Operations that may happen once are
// conditional updates whose affected rows are counted: of concurrent calls, one succeeds. An
// empty signature returns ErrNotFound without a query.
type GrantStore interface {
	// CreateGrant stores a grant with its code if its session still exists; otherwise it returns
	// account.ErrSessionNotFound, or ErrSessionRenewed if the session has another token than
	// SessionToken. It returns ErrConsentRemoved if one of Consented is no longer granted.
	CreateGrant(ctx context.Context, g *Grant) error
	// LivingGrants returns the grants of a user's session for a client that have a live code or token, with
	// their Scopes, Resources, RedirectURI and Longer alone.
	LivingGrants(ctx context.Context, sub, sessionID, clientID string, now time.Time) ([]Grant, error)
	// GrantOfCode returns a grant by the signature of its code, even a used or revoked one, or
	// ErrNotFound.
	GrantOfCode(ctx context.Context, signature string) (*Grant, error)
	// SpendCode marks the code of a grant as used and stores the tokens issued for it, in one
	// transaction. For a used code it returns ErrSpent and revokes the grant (RFC 6749 section
	// 4.1.2); if the grant was already revoked, the error is ErrGrantRevoked too. A second use of
	// a device's code revokes nothing, because devices poll.
	SpendCode(ctx context.Context, grantID string, issued []Token) error
	// RotateRefreshToken is SpendCode for a refresh token of the grant (RFC 9700 section 4.14.2).
	// A token can be rotated again during the grace of its client, which begins with the first
	// rotation.
	RotateRefreshToken(ctx context.Context, grantID, signature string, issued []Token) error
	// KeepRefreshToken stores the tokens issued for a refresh token that stays valid until
	// expires. For a token that was rotated before, it returns ErrSpent like RotateRefreshToken.
	KeepRefreshToken(ctx context.Context, grantID, signature string, expires time.Time, issued []Token) error
	// CreateClientToken stores a client's access token for itself and, if it has an audience,
	// sets StatusList and StatusIndex of its grant.
	CreateClientToken(ctx context.Context, t *Token) error
	// Token returns an access or refresh token with its grant, even if it has expired, was
	// rotated or is revoked. The grant lacks the fields of its code. Unknown tokens and those of
	// a removed client are ErrNotFound.
	Token(ctx context.Context, signature string) (*Token, error)
	// RevokeGrant revokes a grant with all its tokens. An unknown id is not an error.
	RevokeGrant(ctx context.Context, id string, now time.Time) error
}

// Storage is the database of a Provider.
type Storage interface {
	GrantStore
	DeviceStore
	logoutOutbox
	// Client returns ErrClientNotFound for an unknown client.
	Client(ctx context.Context, id string) (*Client, error)
	// Clients returns the clients sorted by name.
	Clients(ctx context.Context) ([]*Client, error)
	// Allowances returns the allowances sorted by URL.
	Allowances(ctx context.Context) ([]Allowance, error)
	// KeepDocumentClient stores a client that brought its own description, before rows refer to
	// it. Changed redirect URIs end the consents to it. At most MaxDocuments are kept; any that
	// nothing refers to may be removed.
	KeepDocumentClient(ctx context.Context, c *Client) error
	// APIs returns the APIs sorted by URI.
	APIs(ctx context.Context) ([]*API, error)

	// HasPasskey reports whether a user has a passkey of one of the relying party ids.
	HasPasskey(ctx context.Context, sub string, rpIDs []string) (bool, error)
	// ConsentedScopes returns the scopes that the user granted the client, or nil.
	ConsentedScopes(ctx context.Context, sub, clientID string) ([]string, error)
	// RefusedScopes returns the optional scopes that the user left out.
	RefusedScopes(ctx context.Context, sub, clientID string) ([]string, error)
	// SaveConsent adds scopes to those that the user granted the client, and refused to those
	// that the user left out. The last decision determines which of the two contains a scope: what
	// is left out after it was granted ends the earlier grants.
	SaveConsent(
		ctx context.Context, sub, clientID string, scopes []string, now time.Time, a account.Audit, refused ...string,
	) error

	// SavePushedRequest stores the query of a pushed authorization request (RFC 9126) under the
	// hash of the random part of its request_uri. It never contains client authentication.
	SavePushedRequest(ctx context.Context, hash []byte, clientID, query string, expires time.Time) error
	// PushedRequest returns the query. An unknown or expired request, or another client's, is
	// ErrNotFound.
	PushedRequest(ctx context.Context, hash []byte, clientID string, now time.Time) (query string, err error)
	// SpendAssertion remembers the jti of a client assertion (RFC 7523), of a DPoP proof or of a
	// pushed request until it expires. It returns ErrSpent on any later use, concurrent ones
	// included.
	SpendAssertion(ctx context.Context, clientID, jti string, expires time.Time) error
}

// LogoutNotice is a pending logout token for one client (OpenID Connect Back-Channel Logout). The
// transaction that ends a session writes one for every client with a backchannel_logout_uri and a
// grant of the session.
type LogoutNotice struct {
	ID        int64
	ClientID  string
	Sub       string
	SessionID string
	CreatedAt time.Time
	Attempts  int // failed ones
}

// logoutOutbox is the queue of notices; several instances may share it.
type logoutOutbox interface {
	// DueLogouts returns and leases at most limit notices that are due: no other process gets
	// them before now+lease.
	DueLogouts(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]LogoutNotice, error)
	// LogoutDone removes a notice that was delivered or given up.
	LogoutDone(ctx context.Context, id int64) error
	// LogoutFailed counts a failure and sets the time of the next attempt.
	LogoutFailed(ctx context.Context, id int64, next time.Time) error
}

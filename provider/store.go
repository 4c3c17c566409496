package provider

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-id/cairn/account"
)

// Errors of the storage interfaces. Any other error wraps account.ErrUnavailable, or
// context.Canceled.
var (
	ErrClientNotFound = errors.New("client not found")
	ErrClientExists   = errors.New("client id taken")
	// ErrNotFound: no such code, token or pushed request.
	ErrNotFound = errors.New("code or token not found")
	// ErrSpent: the code, refresh token or client assertion was used before.
	ErrSpent = errors.New("used before")
	// ErrGrantRevoked: the grant was revoked, so this was no second use.
	ErrGrantRevoked = errors.New("grant revoked")
)

// Grant is a stored authorization: what the user allowed one client in one session.
// A client's own token (client_credentials) has a grant too, without a Sub and a code.
type Grant struct {
	ID        string
	ClientID  string
	Sub       string
	SessionID string // sid of the browser's session
	Scopes    []string
	Resources []string // URIs of the APIs that it is for (RFC 8707)
	// StatusList and StatusIndex are its place in the token status lists, given by the store
	// where it is for an API; else 0.
	StatusList, StatusIndex int

	CodeSignature string
	CodeExpires   time.Time
	RedirectURI   string
	CodeChallenge string // S256
	DPoPJKT       string // thumbprint of the key that the code is bound to (RFC 9449 section 10), or empty
	Nonce         string
	AMR           []string // of the session (RFC 8176)
	ACR           string
	// Claims is the claims request parameter (OpenID Connect Core section 5.5)
	// as far as it is honoured: compact JSON of names, or empty.
	Claims    string
	AuthTime  time.Time
	CreatedAt time.Time

	CodeUsed bool
	Revoked  bool

	// User is who gave it, as stored at the moment at which the grant was read, in so far as claims are
	// made of it: without the password hash, the inviter and the times. nil for a client's
	// own token and where the user was deleted. CreateGrant does not look at it.
	User *account.User
}

// Token is an access or refresh token. Only its signature is stored; of a JWT, its jti.
type Token struct {
	Signature string
	Refresh   bool
	Issued    time.Time // when it was stored
	Expires   time.Time
	Audience  []string // URIs of APIs, and of userinfo; none: userinfo alone
	// Narrowed says that its scopes are Scopes and not those of the grant. Both are for storing:
	// where a Token is found, its Grant has the scopes of the token.
	Narrowed bool
	Scopes   []string
	// Rotated is when a refresh token was first used; zero: it was not.
	Rotated time.Time
	JKT     string // thumbprint of the key that the token is bound to (RFC 9449), or empty
	Grant   *Grant
}

// GrantStore keeps grants with their codes and tokens. What may happen once is a
// conditional update whose affected rows are counted: of several calls at once, one
// succeeds. An empty signature is ErrNotFound without a query.
type GrantStore interface {
	// CreateGrant stores a grant with its code, while the session lives in which it was
	// given. account.ErrSessionNotFound.
	CreateGrant(ctx context.Context, g *Grant) error
	// GrantOfCode finds a grant by the signature of its code, used and revoked ones too.
	// ErrNotFound.
	GrantOfCode(ctx context.Context, signature string) (*Grant, error)
	// SpendCode marks the code of a grant as used and stores the tokens issued for it, in one
	// transaction. ErrSpent when it was used before: this second use has revoked the
	// grant then (RFC 6749 section 4.1.2), or has ErrGrantRevoked too where nothing was
	// left to revoke. That of a device's code revokes nothing: devices poll.
	SpendCode(ctx context.Context, grantID string, issued []Token) error
	// RotateRefreshToken is SpendCode for a refresh token of the grant (RFC 9700 section
	// 4.14.2). In the grace of its client, which begins with the first rotation, a token
	// can be rotated again.
	RotateRefreshToken(ctx context.Context, grantID, signature string, issued []Token) error
	// KeepRefreshToken stores the tokens issued for a refresh token that stays valid, until expires. ErrSpent as
	// RotateRefreshToken where it was rotated before.
	KeepRefreshToken(ctx context.Context, grantID, signature string, expires time.Time, issued []Token) error
	// CreateClientToken stores an access token that a client got for itself, and sets StatusList and
	// StatusIndex of its grant where it has an audience.
	CreateClientToken(ctx context.Context, t *Token) error
	// Token finds an access or refresh token with its grant, also one that has expired,
	// was rotated or is of a revoked grant; the grant is without what belongs to its code. ErrNotFound; so is a token of a removed client.
	Token(ctx context.Context, signature string) (*Token, error)
	// RevokeGrant revokes a grant with all its tokens; no error when there is none.
	RevokeGrant(ctx context.Context, id string, now time.Time) error
}

// Storage is what the provider needs of a database.
type Storage interface {
	GrantStore
	DeviceStore
	LogoutOutbox
	// Client and Clients are those of ClientStore.
	Client(ctx context.Context, id string) (*Client, error)
	Clients(ctx context.Context) ([]*Client, error)
	// Allowances is that of AllowanceStore.
	Allowances(ctx context.Context) ([]Allowance, error)
	// KeepDocumentClient stores a client that brought its own description, for the rows that name it. Other redirect
	// URIs than before end the consents to it. At most MaxDocuments are kept: of those that nothing names, any may go.
	KeepDocumentClient(ctx context.Context, c *Client) error
	// APIs is that of APIStore.
	APIs(ctx context.Context) ([]*API, error)

	// HasPasskey tells whether a user can sign in with a passkey.
	HasPasskey(ctx context.Context, sub string) (bool, error)
	// ConsentedScopes returns the scopes the user granted the client, nil when none.
	ConsentedScopes(ctx context.Context, sub, clientID string) ([]string, error)
	// RefusedScopes returns the optional scopes that the user left out.
	RefusedScopes(ctx context.Context, sub, clientID string) ([]string, error)
	// SaveConsent adds scopes to what the user granted the client, and refused to what the
	// user left out; a scope is in one of the two, by the last decision.
	SaveConsent(ctx context.Context, sub, clientID string, scopes []string, now time.Time, a account.Audit, refused ...string) error

	// SavePushedRequest keeps the query of a pushed authorization request (RFC 9126)
	// under the hash of its request_uri's random part. It never holds client authentication.
	SavePushedRequest(ctx context.Context, hash []byte, clientID, query string, expires time.Time) error
	// PushedRequest returns its query. ErrNotFound when it is unknown, expired or another client's.
	PushedRequest(ctx context.Context, hash []byte, clientID string, now time.Time) (query string, err error)
	// SpendAssertion remembers the jti of a client assertion (RFC 7523), of a DPoP proof or of a pushed request
	// until it expires; ErrSpent when it was used before, under any concurrency.
	SpendAssertion(ctx context.Context, clientID, jti string, expires time.Time) error
}

// LogoutNotice is a logout token that is to be sent to one client (OpenID Connect
// Back-Channel Logout). The transaction that ends a session writes it, for every client
// with a backchannel_logout_uri that has a grant of the session.
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
	// them: no other process gets them before now+lease.
	DueLogouts(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]LogoutNotice, error)
	// LogoutDone removes a notice: delivered, or given up.
	LogoutDone(ctx context.Context, id int64) error
	// LogoutFailed counts a failure and sets the time of the next attempt.
	LogoutFailed(ctx context.Context, id int64, next time.Time) error
}

// ClientStore is what the operator does with clients.
type ClientStore interface {
	// CreateClient. ErrClientExists, or the *RegistrationError of Client.Check.
	CreateClient(ctx context.Context, c *Client) error
	// Client. ErrClientNotFound.
	Client(ctx context.Context, id string) (*Client, error)
	// Clients in the order of their names.
	Clients(ctx context.Context) ([]*Client, error)
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

package account

import (
	"context"
	"time"
)

// LastingTold is how long the owner of an account is not told again that the same application may act
// while they are away.
const LastingTold = 30 * 24 * time.Hour

// MaxClientID is the length of the longest client id, in bytes. It may be a URL.
const MaxClientID = 512

// AppStore keeps the applications (OAuth clients) that have access to an account by a consent, or
// by a grant with a usable code or token.
type AppStore interface {
	// Apps lists them in the order of their names.
	Apps(ctx context.Context, sub string, now time.Time) ([]App, error)
	// OfferedApps returns the registered applications that sign people in and those with the given ids, in the
	// order of their names, except those without a sign-in.
	OfferedApps(ctx context.Context, letIn []string) ([]App, error)
	// RemoveApp deletes the consent and revokes the client's grants of the user. ErrAppNotFound if
	// Apps would not list it.
	RemoveApp(ctx context.Context, sub, clientID string, now time.Time, a Audit) error
}

// App is an application that the user gave access.
type App struct {
	ClientID   string
	ClientName string
	RequireACR string // authentication context class that its sign-ins need, or empty
	Scopes     []string
	GrantedAt  time.Time
	LastUsedAt time.Time // last token issued, zero: never

	// Only OfferedApps sets these.
	// RequireFlags and RequireAll are as in HasFlags.
	RequireFlags []string
	RequireAll   bool
	HomeURI      string // where it is found, or empty
	RedirectURIs []string
	Logo         string // hash of its logo, or empty
}

package account

import (
	"context"
	"time"
)

// Store is what account needs of a database. Every method is atomic: it does
// all or nothing. Times are UTC in whole seconds. Errors are the
// sentinels named at each method; any other error wraps ErrUnavailable, or
// context.Canceled where the caller has given up, and must never be read as "not found". Lookups with an empty key return the
// not-found sentinel without a query. Deleted users are never returned.
//
// What may happen once (an invite, a reset code, the last administrator, a
// handle, the invite limit) holds under any concurrency and over several
// processes that share the database.
type Store interface {
	UserStore
	SessionStore
	InviteStore
	ResetStore
	SettingsStore
	AppStore
	// Audit returns audit rows, newest first, older than the id before (0 means
	// from the newest), at most limit.
	Audit(ctx context.Context, before int64, limit int) ([]Audit, error)
	// Ping tells whether the database answers and its schema is this program's.
	Ping(ctx context.Context) error
}

// UserStore keeps users, flags and preferences.
type UserStore interface {
	// UserByHandle takes a canonical handle. ErrUserNotFound.
	UserByHandle(ctx context.Context, handle string) (User, error)
	// UserBySub. ErrUserNotFound.
	UserBySub(ctx context.Context, sub string) (User, error)
	// Users lists users, a page after q.After, and where the next page goes on (empty:
	// there is none). Without a query all users, in the order of handles, after which the
	// next page goes on. With one those who have, for each word of the query, a word of
	// handle, display name or email that begins with it (case-insensitive), in the order
	// of these words; ErrInvalidCursor when q.After is no place in that list.
	Users(ctx context.Context, q UserQuery) (users []User, next string, err error)
	// CreateUser adds a user without an invite, with its Flags and given Sub. ErrHandleTaken (also
	// by a deleted user).
	CreateUser(ctx context.Context, u User, a Audit) error
	// ChangeUser lets change work on the user alone, keeps of it
	// DisplayName, Email, EmailVerified and Profile, with an audit row unless a is nil, and
	// returns the user after it. An error of change is returned and nothing is changed.
	// change may be called more than once and must depend on its argument alone. ErrUserNotFound.
	ChangeUser(ctx context.Context, sub string, change func(*User) error, now time.Time, a *Audit) (User, error)
	// UpgradeHash replaces the password hash only where it still is old. Not an
	// error when it no longer is.
	UpgradeHash(ctx context.Context, sub, old, hash string) error
	// ChangePassword sets the hash only where it still is old (else
	// ErrInvalidCredentials), ends every session but keepSession, revokes every
	// grant and voids reset codes.
	ChangePassword(ctx context.Context, sub, old, hash, keepSession string, now time.Time) error
	// Suspend marks the user, ends all sessions, revokes all grants and voids
	// reset codes. Repeating it changes nothing and is no error. ErrUserNotFound; ErrLastAdmin when no
	// other administrator that is not suspended would remain.
	Suspend(ctx context.Context, sub, reason string, now time.Time, a Audit) error
	// Unsuspend lifts a suspension; what was ended stays ended. ErrUserNotFound.
	Unsuspend(ctx context.Context, sub string, now time.Time, a Audit) error
	// DeleteUser removes the personal data, sessions' addresses, preferences,
	// consents, open invites and codes, ends sessions, revokes grants and keeps the handle as taken.
	// ErrUserNotFound, ErrLastAdmin.
	DeleteUser(ctx context.Context, sub string, now time.Time, a Audit) error
	// SetFlags turns the named flags on or off and returns those that are on,
	// sorted. With signOut a flag that is taken away ends every session of the user.
	// ErrUserNotFound, ErrLastAdmin.
	SetFlags(ctx context.Context, sub string, flags map[string]bool, signOut bool, now time.Time, a Audit) ([]string, error)
	// Preferences returns a user's preferences, never nil.
	Preferences(ctx context.Context, sub string) (map[string]string, error)
	// MergePreferences sets the values that are not nil and deletes the others;
	// ErrInvalidPreference when more than max keys would remain (nothing changed).
	MergePreferences(ctx context.Context, sub string, change map[string]*string, max int) (map[string]string, error)
}

// UserQuery selects users.
type UserQuery struct {
	Query string // blank: all
	After string // where the page before said to go on, empty: from the start
	Limit int
}

// SessionStore keeps signed-in browsers.
type SessionStore interface {
	// CreateSession adds s for s.Sub, sets s.StatusList and s.StatusIndex and
	// the user's last login. Where the user has MaxSessions live ones already, it ends the oldest as EndSession does. Only while the user is neither suspended
	// (ErrSuspended) nor deleted (ErrUserNotFound) and the password hash still is
	// verifiedHash (ErrInvalidCredentials): a session must not be born after what would have ended it.
	CreateSession(ctx context.Context, s *Session, verifiedHash string) error
	// Reauthenticate stores a fresh sign-in in the same browser: s.AuthTime,
	// ExpiresAt, TokenHash, LoginHash, Address, UserAgent and Algorithm of the live
	// session s.ID of s.Sub. It revokes the token before and sets s.StatusList and
	// s.StatusIndex again. The conditions and errors of CreateSession, and
	// ErrSessionNotFound when the session is no longer live.
	Reauthenticate(ctx context.Context, s *Session, verifiedHash string) error
	// Session returns a session by its id with its user, live or ended;
	// ErrSessionNotFound, also when the user is deleted.
	Session(ctx context.Context, id string) (Session, User, error)
	// SessionByLoginHash is Session by the hash of the host-only login cookie.
	SessionByLoginHash(ctx context.Context, hash []byte) (Session, User, error)
	// Sessions lists the live sessions of a user, newest first, at most MaxSessions.
	Sessions(ctx context.Context, sub string, now time.Time) ([]Session, error)
	// TouchSessions notes when sessions (by id) were last seen: of those that have not
	// ended, and where it is later than what is stored.
	TouchSessions(ctx context.Context, seen map[string]time.Time) error
	// EndSession ends one session of the user and revokes its unspent codes and its grants that have
	// no offline_access. ErrSessionNotFound when it is not the user's or already ended.
	EndSession(ctx context.Context, sub, id string, now time.Time) error
	// EndOtherSessions ends all but one (keep may be empty: all) and says how many.
	EndOtherSessions(ctx context.Context, sub, keep string, now time.Time) (int, error)
	// RevokeSessions is EndSession, or with an empty id EndOtherSessions of all, by
	// another user: with its audit row. ErrUserNotFound; ErrSessionNotFound
	// for an id that is not live.
	RevokeSessions(ctx context.Context, sub, id string, now time.Time, a Audit) (int, error)
	// KnownAddress tells whether the user has signed in from this address
	// within the kept sessions, ended or not.
	KnownAddress(ctx context.Context, sub, address string) (bool, error)
	// StatusVersion is a number that differs after each change of a status list;
	// ErrStatusListNotFound for one that never was or has died with its last session.
	StatusVersion(ctx context.Context, list int) (int64, error)
	// StatusVersions is StatusVersion of all lists.
	StatusVersions(ctx context.Context) (map[int]int64, error)
	// RevokedIndices returns the indices of one status list whose tokens were
	// revoked, sorted: also of those that expired not long ago, for verifiers allow for
	// clocks that differ. It changes with StatusVersion alone, and read after it is at
	// least as new. No other token gets such an index before every copy of a list that
	// has it is past StatusListLifetime.
	RevokedIndices(ctx context.Context, list int) ([]int, error)
	// HS256Sessions counts the live sessions whose token is signed with the shared
	// secret, or may be, and says when the last of them expires.
	HS256Sessions(ctx context.Context, now time.Time) (live int, last time.Time, err error)
	// EndHS256Sessions ends them, as EndOtherSessions does, and says how many.
	EndHS256Sessions(ctx context.Context, now time.Time) (int, error)
}

// InviteQuery selects invites of a user.
type InviteQuery struct {
	Sub   string
	After InvitePlace // after which to go on, zero: from the newest
	Limit int
}

// InvitePlace is a place in a list of invites.
type InvitePlace struct {
	CreatedAt time.Time
	Code      string
}

// InviteStore keeps invites. Codes are canonical (16 characters, no dashes).
type InviteStore interface {
	// CreateInvite adds an invite; ErrInviteLimit when the creator already has
	// limit (negative: none) invites that are open or used.
	CreateInvite(ctx context.Context, i Invite, limit int) error
	// Invites lists invites of a user, newest first.
	Invites(ctx context.Context, q InviteQuery) ([]Invite, error)
	// Invite returns an invite by its code. ErrInviteNotFound; also when its creator is suspended or deleted.
	Invite(ctx context.Context, code string) (Invite, error)
	// DeleteInvite removes an unused invite of the user. ErrInviteNotFound, ErrInviteUsed.
	DeleteInvite(ctx context.Context, sub, code string) error
	// Register spends the invite, creates the user and, when s is not nil, the
	// session, in one transaction. Checked in this order: ErrInvalidInvite (unknown, used,
	// expired, creator suspended or deleted), ErrRegistrationFull (maxUsers > 0 and reached),
	// ErrHandleTaken. A refusal leaves the invite open. u.InvitedBy is set by the store.
	Register(ctx context.Context, code string, u User, s *Session, maxUsers int, now time.Time) error
}

// ResetStore keeps hashed password reset codes, at most one valid one a user.
type ResetStore interface {
	// CreateResetCode replaces any earlier code of the user. ErrUserNotFound.
	CreateResetCode(ctx context.Context, sub string, hash []byte, expires, now time.Time, a Audit) error
	// ResetCodeValid tells whether the code would be accepted now.
	ResetCodeValid(ctx context.Context, handle string, hash []byte, now time.Time) (bool, error)
	// ResetPassword spends the code, sets the password hash, ends every session
	// and revokes every grant of the user. ErrInvalidResetCode for an unknown handle and a
	// wrong, used or expired code alike.
	ResetPassword(ctx context.Context, handle string, codeHash []byte, passwordHash string, now time.Time) error
}

// SettingsStore keeps the installation's settings and secrets.
type SettingsStore interface {
	// Settings returns the stored settings. ErrNotInitialized before init.
	Settings(ctx context.Context) (Settings, error)
	// AmendSettings lets change work on the settings alone, stores
	// all but HS256Until and returns them. change says what it has changed, for the detail of the
	// audit row; nothing is stored where it says nothing. An error of change is returned and
	// nothing is changed. change may be called more than once. ErrNotInitialized.
	AmendSettings(ctx context.Context, change func(*Settings) (changed string, err error), a Audit) (Settings, error)
	// SetHS256Until stores Settings.HS256Until. ErrNotInitialized.
	SetHS256Until(ctx context.Context, until time.Time, a Audit) error
	// Secret returns a secret stored by Initialize (SecretJWT, SecretInstallation). ErrNotInitialized.
	Secret(ctx context.Context, name string) ([]byte, error)
	// Initialize stores settings and secrets where there are none yet and tells
	// whether it stored anything; what exists is left as it is.
	Initialize(ctx context.Context, s Settings, secrets map[string][]byte) (bool, error)
}

// Names of stored secrets.
const (
	SecretJWT          = "jwt"          // shared with the activity application
	SecretInstallation = "installation" // never leaves the service; other keys are derived from it
)

// AppStore shows a user the applications (OAuth clients) that have access to the
// account: by a consent, or by a grant with a code or token that can be used.
type AppStore interface {
	// Apps lists them in the order of names.
	Apps(ctx context.Context, sub string, now time.Time) ([]App, error)
	// RemoveApp deletes the consent and revokes the client's grants of the user.
	// ErrAppNotFound when Apps would not list it.
	RemoveApp(ctx context.Context, sub, clientID string, now time.Time) error
}

// App is an application that the user has let in.
type App struct {
	ClientID   string
	ClientName string
	Scopes     []string
	GrantedAt  time.Time
	LastUsedAt time.Time // last token issued, zero: never
}

// Audit is one administrative act.
type Audit struct {
	ID        int64
	At        time.Time
	Actor     string // handle, or "operator" for the command line
	Action    string // user.suspend, user.flags, ...
	Target    string // handle or name of what was changed
	Detail    string // never a secret or a code
	Address   string
	RequestID string
}

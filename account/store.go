package account

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/templates"
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
	BulkStore
	SessionStore
	InviteStore
	ResetStore
	EmailStore
	SettingsStore
	AppStore
	PasskeyStore
	MailStore
	FactorStore
	AuditStore
	// Ping reports whether the database answers and its schema is this program's or newer.
	Ping(ctx context.Context) error
}

// UserStore keeps users, flags and preferences.
type UserStore interface {
	// UserByHandle takes a canonical handle. ErrUserNotFound.
	UserByHandle(ctx context.Context, handle string) (User, error)
	// UserBySub. ErrUserNotFound.
	UserBySub(ctx context.Context, sub string) (User, error)
	// Users lists the users that fit a query, a page after q.After, and where the next page
	// goes on (empty: there is none). Without words in q.Query in the order of q.Sort. With
	// them those who have, for each, a word of handle, display name or email that begins with
	// it (case-insensitive), in the order of these words, or where few users pass the filters
	// in that of q.Sort. ErrInvalidCursor when q.After is no place in that list.
	Users(ctx context.Context, q UserQuery) (users []User, next string, err error)
	// CountUsers counts the users that fit a query. Where they are many it is not exact: there
	// are n or more.
	CountUsers(ctx context.Context, q UserQuery) (n int, exact bool, err error)
	// CreateUser adds a user without an invite, with its Flags and given Sub. ErrHandleTaken (also
	// by a deleted user), ErrEmailTaken.
	CreateUser(ctx context.Context, u User, a Audit) error
	// AddUser is CreateUser with a password reset code, unless c has no hash.
	AddUser(ctx context.Context, u User, c ResetCode, a Audit) error
	// ChangeUser lets change work on the user alone, keeps of it
	// DisplayName, Email, EmailVerified, EmailAskedAt and Profile, with an audit row unless a is nil
	// (change may set its Mails and KeepEmail), and returns the user after it. An error of change is returned and nothing is changed.
	// change may be called more than once and must depend on its argument alone. ErrUserNotFound, ErrEmailTaken.
	ChangeUser(ctx context.Context, sub string, change func(*User) error, now time.Time, a *Audit) (User, error)
	// UpgradeHash replaces the password hash only where it still is old. Not an
	// error when it no longer is.
	UpgradeHash(ctx context.Context, sub, old, hash string) error
	// ForeignHash returns the least password hash that sorts after a text, byte by byte, and is not of the form of
	// password.NewHasher; "" when there is none.
	ForeignHash(ctx context.Context, after string) (string, error)
	// ChangePassword sets the hash only where it still is old (else
	// ErrInvalidCredentials), ends every session but keepSession, revokes every
	// grant and voids reset codes.
	ChangePassword(ctx context.Context, sub, old, hash, keepSession string, now time.Time, a Audit) error
	// Suspend marks the user, ends all sessions, revokes all grants and voids
	// reset codes. Repeating it changes nothing and is no error. ErrUserNotFound; ErrLastAdmin when no
	// other administrator that is not suspended would remain.
	Suspend(ctx context.Context, sub, reason string, now time.Time, a Audit) error
	// Unsuspend lifts a suspension; what was ended stays ended. ErrUserNotFound.
	Unsuspend(ctx context.Context, sub string, now time.Time, a Audit) error
	// DeleteUser removes the personal data, sessions' addresses, preferences,
	// consents, open invites and codes, ends sessions, revokes grants and keeps the handle as taken.
	// Audit rows keep the handle and lose the addresses of what the user did.
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

// UserQuery selects users: those that pass all filters.
type UserQuery struct {
	Query          string // blank: all
	Flag           string // who has it; empty: all
	Suspended      bool
	NeverSignedIn  bool
	NoSecondFactor bool
	Sort           string // SortHandle if empty
	After          string // where the page before said to go on, empty: from the start
	Limit          int
}

// ManyUsers is how many users are counted at most where a count is not kept.
const ManyUsers = 10_000

// Orders of users.
const (
	SortHandle     = "handle"
	SortNewest     = "newest"
	SortLastSignIn = "last_sign_in" // the latest first, who never did at the end
)

// SessionStore keeps signed-in browsers.
type SessionStore interface {
	// CreateSession adds s for s.Sub, sets s.StatusList and s.StatusIndex and
	// the user's last login, and counts the sign-in (SignIns). Where the user has MaxSessions live ones already, it ends the oldest as EndSession does. Only while the user is neither suspended
	// (ErrSuspended) nor deleted (ErrUserNotFound) and the password hash still is
	// verifiedHash (ErrInvalidCredentials): a session must not be born after what would have ended it.
	CreateSession(ctx context.Context, s *Session, verifiedHash string, a Audit) error
	// Reauthenticate stores a fresh sign-in in the same browser: s.AuthTime,
	// ExpiresAt, TokenHash, LoginHash, Address, UserAgent and Algorithm of the live
	// session s.ID of s.Sub. It revokes the token before and sets s.StatusList and
	// s.StatusIndex again. The conditions and errors of CreateSession, and
	// ErrSessionNotFound when the session is no longer live.
	Reauthenticate(ctx context.Context, s *Session, verifiedHash string, a Audit) error
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
	EndSession(ctx context.Context, sub, id string, now time.Time, a Audit) error
	// EndOtherSessions ends all but one (keep may be empty: all) and says how many; without
	// any there is no audit row. ErrUserNotFound.
	EndOtherSessions(ctx context.Context, sub, keep string, now time.Time, a Audit) (int, error)
	// EndAllAccess ends every session and revokes every grant of the user, and says how many sessions; without
	// either there is no audit row. ErrUserNotFound.
	EndAllAccess(ctx context.Context, sub string, now time.Time, a Audit) (int, error)
	// DisownSession ends a session that was not the user's, if it is live, revokes every grant that it made, makes its
	// address unknown and voids the marks of known devices. It returns when the session began.
	// ErrSessionNotFound when it is no longer kept.
	DisownSession(ctx context.Context, sub, id string, now time.Time, a Audit) (began time.Time, err error)
	// KnownAddress reports whether the user has signed in from this address
	// within the kept sessions, ended or not, and has disowned none of those.
	KnownAddress(ctx context.Context, sub, address string) (bool, error)
	statuslist.Store
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
	CreateInvite(ctx context.Context, i Invite, limit int, a Audit) error
	// Invites lists invites of a user, newest first.
	Invites(ctx context.Context, q InviteQuery) ([]Invite, error)
	// Invite returns an invite by its code. ErrInviteNotFound; also when its creator is suspended or deleted.
	Invite(ctx context.Context, code string) (Invite, error)
	// DeleteInvite removes an unused invite of the user. ErrInviteNotFound, ErrInviteUsed.
	DeleteInvite(ctx context.Context, sub, code string, a Audit) error
	// OpenInvites lists the invites of all that can be used at a time, those first that stay
	// open longest, but for the first that are skipped: their codes are not for addresses.
	OpenInvites(ctx context.Context, now time.Time, skip, limit int) ([]Invite, error)
	// CountOpenInvites counts them.
	CountOpenInvites(ctx context.Context, now time.Time) (int, error)
	// RevokeInvite removes an unused invite of anybody and returns it as it was; its creator
	// is the target of the audit row. ErrInviteNotFound, ErrInviteUsed.
	RevokeInvite(ctx context.Context, code string, a Audit) (Invite, error)
	// RevokeBranch removes the open invites of a user and of all who came by their invites or
	// by those of these people, and says how many; without any there is no audit row.
	RevokeBranch(ctx context.Context, sub string, now time.Time, a Audit) (int, error)
	// Branches lists those who came by an invite of the user, or with an empty sub who came
	// without one of a member and have invited somebody, in the order of handles after a handle.
	Branches(ctx context.Context, sub, after string, since, now time.Time, limit int) ([]Branch, error)
	// Register spends the invite, creates the user and, when s is not nil, the
	// session, in one transaction. Checked in this order: ErrInvalidInvite (unknown, used,
	// expired, creator suspended or deleted), ErrRegistrationFull (maxUsers > 0 and reached),
	// ErrHandleTaken. A refusal leaves the invite open. u.InvitedBy is set by the store.
	Register(ctx context.Context, code string, u User, s *Session, maxUsers int, now time.Time, a Audit) error
}

// Branch is a user in the tree of invites.
type Branch struct {
	User    User
	Invited int // who came by their invites
	Active  int // of these, who have signed in since a time
	Open    int // open invites of their own
}

// ResetStore keeps hashed password reset codes: at most one that an administrator has
// made and one that was mailed a user.
type ResetStore interface {
	// CreateResetCode replaces any earlier code of the user. ErrUserNotFound.
	CreateResetCode(ctx context.Context, sub string, hash []byte, expires, now time.Time, a Audit) error
	// CreateMailedResetCode replaces the code that was mailed before, not that of an
	// administrator. ErrUserNotFound, also for a user who is suspended, whose address is another
	// one, or who has a password and has not verified the address.
	CreateMailedResetCode(ctx context.Context, sub, email string, hash []byte, expires, now time.Time) error
	// ResetCodeValid reports whether the code would be accepted now.
	ResetCodeValid(ctx context.Context, handle string, hash []byte, now time.Time) (bool, error)
	// ResetPassword spends the code, sets the password hash, ends every session
	// and revokes every grant of the user. A code that was mailed proves the address, unless another
	// account has proven it. ErrInvalidResetCode for an unknown handle and a
	// wrong, used or expired code alike.
	ResetPassword(ctx context.Context, handle string, codeHash []byte, passwordHash string, now time.Time, a Audit) error
}

// FactorStore keeps second factors. User.SecondFactor is set while there is an
// authenticator app or a passkey. Recovery codes come with the first of them and go with
// the last.
type FactorStore interface {
	// Factors describes the second factors of a user.
	Factors(ctx context.Context, sub string) (Factors, error)
	// AddTOTP adds an authenticator app and reports whether it is the first factor: see NewFactor. ErrFactorExists.
	AddTOTP(ctx context.Context, sub string, t TOTP, n NewFactor) (first bool, err error)
	// UseTOTP accepts the code of a time step, and reports whether it was later than that of
	// any code accepted before (RFC 6238 section 5.2).
	UseTOTP(ctx context.Context, sub string, step int64, now time.Time) (bool, error)
	// RemoveTOTP removes the authenticator app: see OldFactor. ErrFactorNotFound.
	RemoveTOTP(ctx context.Context, sub string, o OldFactor) error
	// ReplaceRecoveryCodes voids the recovery codes before. ErrFactorNotFound when the user
	// has no second factor. session is where it was asked for: ErrNotAuthenticated when that
	// has ended, so that nothing new opens an account after its sessions were ended. Empty:
	// in none.
	ReplaceRecoveryCodes(ctx context.Context, sub, session string, codes [][]byte, now time.Time, a Audit) error
	// UseRecoveryCode spends a code, and reports whether it was good.
	UseRecoveryCode(ctx context.Context, sub string, hash []byte, now time.Time, a Audit) (bool, error)
	// ResetFactors removes all second factors and recovery codes, ends every session and
	// revokes every grant of the user. ErrUserNotFound.
	ResetFactors(ctx context.Context, sub string, now time.Time, a Audit) error
	// SpendOnce reports whether this is the first time that it is called with the hash: of
	// something that is good once, until it expires by itself.
	SpendOnce(ctx context.Context, hash []byte, expires time.Time) (bool, error)
}

// NewFactor is how a second factor is added, in one transaction. With the first one User.SecondFactor is set, the
// hashes of recovery codes are stored, and the other sessions end as in EndOtherSessions, or lose
// MethodMultiFactor where they are kept: what they have proven was another factor.
//
// ErrNotAuthenticated when the session, in which it is asked for, has ended: nothing new opens an account after its
// sessions were ended. ErrReauthenticationRequired when the user has a second factor and the session has not
// proven one. ErrUserNotFound.
type NewFactor struct {
	Session    string
	KeepOthers bool
	Codes      [][]byte
	Now        time.Time
	Audit      Audit
}

// OldFactor is how a second factor is removed, in one transaction. With the last one go User.SecondFactor and the
// recovery codes. The other sessions end unless they are kept, and those that a removed passkey opened in any
// case. ErrFactorDemanded when no other factor would be left that satisfies Demanded. ErrNotAuthenticated and
// ErrReauthenticationRequired as for NewFactor.
type OldFactor struct {
	Session    string
	KeepOthers bool
	Demanded   string // an authentication context class: "", ACRTwoFactors or ACRPhishingResistant (a passkey)
	Now        time.Time
	Audit      Audit
}

// EmailStore keeps what the addresses of users can do. ErrInvalidLink is for all that is
// used, too old, unknown or not about the address that the user has now.
type EmailStore interface {
	// UserByEmail returns the user with this verified address (case-insensitive). ErrUserNotFound.
	UserByEmail(ctx context.Context, email string) (User, error)
	// AskVerification sets User.EmailAskedAt while the address of the user is this one and
	// not verified. ErrInvalidLink.
	AskVerification(ctx context.Context, sub, email string, asked time.Time, a Audit) error
	// VerifyEmail marks the address as verified, once for what was asked for at that time
	// and within VerificationLifetime. ErrInvalidLink, ErrEmailTaken.
	VerifyEmail(ctx context.Context, sub, email string, asked, now time.Time, a Audit) error
	// EmailChange returns a change of address that can be undone. ErrInvalidLink.
	EmailChange(ctx context.Context, id string, now time.Time) (EmailChange, error)
	// FormerEmails lists the changes of the user's address that can be undone, oldest first.
	FormerEmails(ctx context.Context, sub string, now time.Time) ([]EmailChange, error)
	// UndoEmailChange gives the user the former address again, which is verified unless another
	// account has proven it since, ends every session, revokes every grant and voids reset codes. The
	// changes that came after it can no longer be undone; those before it can. The user is the
	// actor of the audit row. ErrInvalidLink.
	UndoEmailChange(ctx context.Context, id string, now time.Time, a Audit) error
	// QueueMail stores a mail of its own, without an audit row.
	QueueMail(ctx context.Context, m Mail, now time.Time) error
}

// EmailChange is a verified address that the user has replaced.
type EmailChange struct {
	ID        string
	Sub       string
	Email     string // before
	ChangedAt time.Time
	ExpiresAt time.Time
}

// Factors are the second factors of a user.
type Factors struct {
	TOTP          *TOTP // nil: none
	Passkeys      int
	RecoveryCodes int // that are left
	CodesMadeAt   time.Time
}

// TOTP is an authenticator app (RFC 6238): SHA-1, six digits, 30 seconds.
type TOTP struct {
	Secret     string // base32
	LastStep   int64  // time step of the last accepted code
	CreatedAt  time.Time
	LastUsedAt time.Time // zero: only when it was added
}

// PasskeyStore keeps passkeys.
type PasskeyStore interface {
	// Passkeys lists those of a user, oldest first, never nil.
	Passkeys(ctx context.Context, sub string) ([]Passkey, error)
	// Passkey returns one by its credential id, with its user. ErrPasskeyNotFound.
	Passkey(ctx context.Context, id []byte) (Passkey, User, error)
	// AddPasskey adds p and reports whether it is the first factor: see NewFactor. ErrPasskeyExists, ErrPasskeyLimit
	// when the user has limit.
	AddPasskey(ctx context.Context, p Passkey, limit int, n NewFactor) (first bool, err error)
	// RenamePasskey changes the name of one of the user's. ErrPasskeyNotFound.
	RenamePasskey(ctx context.Context, sub string, id []byte, name string, a Audit) error
	// RemovePasskey removes one of the user's: see OldFactor. ErrPasskeyNotFound.
	RemovePasskey(ctx context.Context, sub string, id []byte, o OldFactor) error
	// UsePasskey stores SignCount, BackupState and LastUsedAt of p. Where the count is not
	// higher than the stored one, and not both are zero, it writes the audit row and tells so.
	// ErrPasskeyNotFound.
	UsePasskey(ctx context.Context, p Passkey, a Audit) (wentBack bool, err error)
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
	// Logo returns the picture of the installation, nil where there is none; its hash is
	// Settings.Logo.
	Logo(ctx context.Context) (png []byte, err error)
	// ClientLogo returns the logo of an application by its hash, nil where there is none.
	ClientLogo(ctx context.Context, hash string) (png []byte, err error)
	// SetLogo replaces it; nil removes it. ErrNotInitialized.
	SetLogo(ctx context.Context, png []byte, hash string, a Audit) error
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
	// OfferedApps returns the applications with a home page, and those of these ids, in the
	// order of their names; none that people cannot sign in to.
	OfferedApps(ctx context.Context, letIn []string) ([]App, error)
	// RemoveApp deletes the consent and revokes the client's grants of the user.
	// ErrAppNotFound when Apps would not list it.
	RemoveApp(ctx context.Context, sub, clientID string, now time.Time, a Audit) error
}

// App is an application that the user has let in.
type App struct {
	ClientID   string
	ClientName string
	RequireACR string // authentication context class that its sign-ins need, or empty
	Scopes     []string
	GrantedAt  time.Time
	LastUsedAt time.Time // last token issued, zero: never

	// Those that OfferedApps reads.
	RequireFlag string // access flag that a user needs, or empty
	HomeURI     string // where it is found, or empty
	Logo        string // hash of its logo, or empty
}

// MailStore is the outbox of mails, which Audit.Mails fill; several instances may share it.
type MailStore interface {
	// MailsAdded has a value when this process has added mails since it was last read.
	MailsAdded() <-chan struct{}
	// DueMails returns at most limit mails whose time has come and leases them: no other
	// process gets them before now+lease.
	DueMails(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]QueuedMail, error)
	// MailDone removes a mail: sent, or given up with an audit row. No error, and no row,
	// where it was removed already.
	MailDone(ctx context.Context, id int64, a *Audit) error
	// MailFailed counts a failure and sets the time of the next attempt.
	MailFailed(ctx context.Context, id int64, failure string, next time.Time) error
	// MailState is what waits.
	MailState(ctx context.Context) (MailState, error)
}

// QueuedMail is a mail in the outbox.
type QueuedMail struct {
	ID int64
	Mail
	CreatedAt time.Time
	Attempts  int // that have failed
}

// MailState is how the outbox of mails stands.
type MailState struct {
	Waiting int
	Failing int       // of them have failed, and are tried again
	Oldest  time.Time // zero: none waits
	Failure string    // why the last attempt of one that waits has failed; no address in it
}

// AuditStore reads and adds to the audit log, most of whose rows are written by the
// methods that do what they tell of.
type AuditStore interface {
	// AuditLog returns audit rows, newest first.
	AuditLog(ctx context.Context, q AuditQuery) ([]Audit, error)
	// Record adds a row. With once it adds none where there is one of the same action and
	// target that is younger.
	Record(ctx context.Context, a Audit, once time.Duration) error
	// SignIns counts the sign-ins of each of so many days (UTC), the first of which is that of from.
	SignIns(ctx context.Context, from time.Time, days int) ([]int, error)
}

// AuditQuery selects audit rows. What is zero does not restrict them.
type AuditQuery struct {
	Person   string    // handle of the actor or the target
	Kind     string    // an action, or its beginning: "user" or "user." for all user.*
	From, To time.Time // To is the first second that is not asked for
	Before   int64     // id of a row, than which all are older
	Limit    int
}

// Audit is a row of the audit log: what somebody did that matters for an account.
type Audit struct {
	ID        int64
	At        time.Time
	Actor     string // handle, or "operator" for the command line; empty: somebody who has proved nothing
	Action    string // user.suspend, user.flags, ...
	Target    string // handle or name of what was changed
	Detail    string // never a secret or a code
	Address   string
	RequestID string
	// Mails are to be sent because of it: they are stored with the row, or not at all.
	Mails []Mail
	// KeepEmail is for a change of the address: the id under which the verified address
	// before is kept, so that its owner can undo the change. Empty: neither this change nor
	// those before can be undone from now on.
	KeepEmail string
	// EndOthers is for a change of the address: the other sessions end with it, but for Session.
	EndOthers bool
	// Session is the session in which it is asked for; one that has ended refuses a change of the
	// address (ErrNotAuthenticated). Empty: in none.
	Session string
}

// Row is what pages show of it.
func (a Audit) Row() templates.AuditRow {
	return templates.AuditRow{
		At: a.At, Actor: a.Actor, Action: a.Action, Target: a.Target, Detail: a.Detail, Address: a.Address, RequestID: a.RequestID,
	}
}

// Mail is a message that waits to be sent. What it says is made when it is sent, from
// the kind and the data, in the language.
type Mail struct {
	Kind     string
	Sub      string // whom it is about, or empty
	Address  string
	Language string            // BCP 47; empty: English
	Data     map[string]string // never a secret or a code
}

// with adds mails to the row.
func (a Audit) with(mails ...Mail) Audit {
	a.Mails = append(a.Mails, mails...)
	return a
}

package account

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/account/web"
)

// ImportedCode is the reset code of a user who was imported without a password.
type ImportedCode struct {
	Sub, Handle string
	ResetCode
}

// Bulk is the argument of BulkStore.AddUsers.
type Bulk struct {
	Users       []User
	Codes       []ImportedCode
	Preferences map[string]map[string]string // by sub
	MaxUsers    int                          // 0 means no limit
	// DefaultFlags are those that the audit rows do not name.
	DefaultFlags []string
}

// BulkStore does much at once.
type BulkStore interface {
	// AllOrNone calls do with a Store whose operations are one transaction: an error of do undoes all of them. do may
	// run more than once.
	AllOrNone(ctx context.Context, doing string, do func(Store) error) error
	// AddUsers adds everything or nothing, with an audit row for each user besides a.
	// ErrHandleTaken if a handle or a sub is taken, ErrEmailTaken if two accounts would have the
	// same verified address, ErrRegistrationFull if there would be more than MaxUsers.
	AddUsers(ctx context.Context, b Bulk, a Audit) error
	// TakenUsers returns what is taken: the handles with the same HandleKey and the subs, also of
	// deleted users, and addresses (in lower case) that another account has verified.
	TakenUsers(ctx context.Context, handles, subs, emails []string) (taken []string, err error)
}

// Store is the database of this package. Every method does everything or nothing. Times are UTC in
// whole seconds. Errors are the sentinels named at each method. Any other error wraps
// ErrUnavailable, or context.Canceled if the caller gave up, and must never be read as "not found".
// Lookups with an empty key return the not-found sentinel without a query. Deleted users are never
// returned.
//
// What may happen only once (an invite, a reset code, the last administrator, a handle, the invite
// limit) is guaranteed under any concurrency, also by several processes that share the database.
type Store interface {
	UserStore
	BulkStore
	SessionStore
	InviteStore
	JoinStore
	ResetStore
	EmailStore
	SettingsStore
	AppStore
	PasskeyStore
	MailStore
	FactorStore
	AuditStore
}

// UserStore keeps users, flags and preferences.
type UserStore interface {
	// UserByHandle takes a canonical handle, and finds the account with the same HandleKey. ErrUserNotFound.
	UserByHandle(ctx context.Context, handle string) (User, error)
	// UserBySub. ErrUserNotFound.
	UserBySub(ctx context.Context, sub string) (User, error)
	// UsersByHandle returns the users with these canonical handles, in their order. Those without one are
	// left out.
	UsersByHandle(ctx context.Context, handles []string) ([]User, error)
	// UsersByEmail returns the users with these addresses (case-insensitive), verified or not.
	UsersByEmail(ctx context.Context, emails []string) ([]User, error)
	// NewUsersByEmail returns at most 20 active users who never had a password and have this address
	// (case-insensitive), which is not verified, the oldest first.
	NewUsersByEmail(ctx context.Context, email string) ([]User, error)
	// Users returns a page of the users that match a query, after q.After, and the place of the
	// next page (empty: there is none), in the order of q.Sort. They have, for each word of q.Query,
	// a word of handle, display name or email that begins with it (case-insensitive).
	// ErrInvalidCursor if q.After is no place in that list.
	Users(ctx context.Context, q UserQuery) (users []User, next string, err error)
	// CountUsers counts the users that match a query. If there are many, exact is false: there are
	// n or more.
	CountUsers(ctx context.Context, q UserQuery) (n int, exact bool, err error)
	// CreateUser adds a user without an invite, with its Flags and given Sub. ErrHandleTaken (also
	// by a deleted user), ErrEmailTaken.
	CreateUser(ctx context.Context, u User, a Audit) error
	// AddUser is CreateUser with a password reset code, unless c has no hash.
	AddUser(ctx context.Context, u User, c ResetCode, a Audit) error
	// ChangeUser calls change with the user and stores DisplayName, Email, EmailVerified,
	// EmailAskedAt, Profile and Photo of the result. Another Profile.Picture deletes the stored picture. It is stored
	// with an audit row unless a is nil (change may set its Mails and KeepEmail). It returns the changed user. If
	// change returns an error, nothing is stored. change may be called more than once and must depend only on its
	// argument. ErrUserNotFound, ErrEmailTaken.
	ChangeUser(ctx context.Context, sub string, change func(*User) error, now time.Time, a *Audit) (User, error)
	// UserPicture returns the picture with the hash, of a user who is not suspended, or nil.
	UserPicture(ctx context.Context, hash string) (jpeg []byte, err error)
	// UpgradeHash replaces the password hash if it still is old. It is no error if it is not.
	UpgradeHash(ctx context.Context, sub, old, hash string) error
	// ForeignHash returns the smallest password hash that sorts after a text, byte by byte, and
	// does not have the form of password.NewHasher, or "".
	ForeignHash(ctx context.Context, after string) (string, error)
	// ChangePassword sets the hash if it still is old (otherwise ErrInvalidCredentials). keep is the
	// session of the request; nil: there is none. It stores
	// TokenHash, LoginHash and Algorithm of keep, revokes its previous token and sets keep.StatusList
	// and keep.StatusIndex again. ErrSessionNotFound if keep is no longer live.
	ChangePassword(ctx context.Context, sub, old, hash string, keep *Session, now time.Time, a Audit) error
	// RemovePassword sets NoPassword if the hash still is old (otherwise ErrInvalidCredentials).
	// ErrLastWayIn if the user has no passkey of one of the relying party ids, or no recovery code.
	// ErrReauthenticationRequired as for NewFactor.
	RemovePassword(ctx context.Context, sub, old string, rpIDs []string, n NewFactor) error
	// SuspendAll suspends the users whose subs rows has, all or none, ends all sessions, revokes all
	// grants and voids reset codes, with an audit row each. What ends is the same for all. Repeating it
	// changes nothing and is no error. ErrUserNotFound; ErrLastAdmin if no other administrator would
	// remain who is not suspended, and has no end.
	SuspendAll(ctx context.Context, reason string, now time.Time, rows map[string]Audit) error
	// Unsuspend lifts a suspension, and removes an end of the account that has passed. What the
	// suspension ended does not come back. ErrUserNotFound.
	Unsuspend(ctx context.Context, sub string, now time.Time, a Audit) error
	// LockUser stores a later User.LockedUntil while User.Unlocks is the given one. It is no error if there is
	// no such user.
	LockUser(ctx context.Context, sub string, unlocks int64, until time.Time) error
	// UnlockUser adds one to User.Unlocks and User.FactorUnlocks and clears User.LockedUntil.
	// ErrUserNotFound.
	UnlockUser(ctx context.Context, sub string, now time.Time, a Audit) error
	// DeleteUser removes the personal data, sessions' addresses, preferences,
	// consents, open invites and codes, ends sessions, revokes grants and keeps the handle as taken.
	// Audit rows keep the handle and lose the addresses of what the user did.
	// ErrUserNotFound, ErrLastAdmin.
	DeleteUser(ctx context.Context, sub string, now time.Time, a Audit) error
	// SetFlagsOfAll changes the named flags of the users whose subs rows has, and their ends, all or none,
	// and returns those that are on, sorted, with an audit row each. If a user loses one, Ends of the rows
	// applies, which is the same for all. With FlagAdmin, the open invites end that only administrators
	// may make. ErrUserNotFound; ErrLastAdmin as for SuspendAll, also if FlagAdmin gets an end.
	SetFlagsOfAll(ctx context.Context, change FlagChange, now time.Time, rows map[string]Audit) (
		after map[string][]string, err error)
	EndStore
	// Preferences returns a user's preferences, never nil.
	Preferences(ctx context.Context, sub string) (map[string]string, error)
	// MergePreferences sets the values that are not nil and deletes the others. a is not recorded: see Audit.Bound.
	// ErrInvalidPreference if more than max keys would remain; then nothing changes.
	MergePreferences(ctx context.Context, sub string, change map[string]*string, max int, a Audit) (
		map[string]string, error)
}

// EndStore keeps when accounts and flags end by themselves. Every user that is read is as the ends
// have it by the clock of the store: see User.EndsAt.
type EndStore interface {
	// SetEndOfAll sets when the accounts of the users end whose subs rows has, all or none; zero: never.
	// An account that has ended is no longer suspended then. ErrUserNotFound, ErrLastAdmin as for
	// SuspendAll.
	SetEndOfAll(ctx context.Context, ends, now time.Time, rows map[string]Audit) error
	// EndDue ends what depends on accounts and flags that have ended: EndAccount and EndFlags, with an audit
	// row each. It returns when something ends next, zero: nothing does.
	EndDue(ctx context.Context) (next time.Time, err error)
	// ClockSettled reports whether the clock is trusted with what cannot be undone. It is not for an hour,
	// with a warning in the log, after the wall clock has moved by more than a day against the monotonic one
	// since the last call, and at the first call after a gap of more than 30 days to the last row.
	ClockSettled(ctx context.Context) (bool, error)
	// EndsToTell lists what ends and of which the users were not told by the last of EndNotices, the
	// earliest first, nothing of users who are suspended.
	EndsToTell(ctx context.Context, limit int) ([]ComingEnd, error)
	// EndTold notes that the user was told of an end, with the mails. If that was done, or the end
	// was changed, nothing happens.
	EndTold(ctx context.Context, e ComingEnd, mails []Mail) error
}

// UserQuery selects the users that pass all filters.
type UserQuery struct {
	Query          string // empty: all
	Flag           string // users who have it; empty: all
	Suspended      bool
	EndingBy       time.Time // users who have an end from now to then, of the account or a flag; zero: all
	InvitedBy      string    // handle of the member whose invite it was; empty: all
	NotSince       time.Time // users who have neither joined nor signed in since; zero: all
	NeverSignedIn  bool
	NoSecondFactor bool   // users whose password alone opens a session
	Demanding      string // with that: the flags whose holders are asked for a passkey that they have, with spaces
	App            string // id of a client that users have consented to or have a grant of; empty: all
	Sort           string // SortHandle if empty
	After          string // place returned with the previous page; empty: the start
	Limit          int
}

// ManyUsers is how many users are counted at most if no count is stored.
const ManyUsers = 10_000

// ManyFound is how many of the users that match a query are counted at most.
const ManyFound = 501

// Orders of users.
const (
	SortHandle     = "handle"
	SortNewest     = "newest"
	SortLastSignIn = "last_sign_in" // latest first, and at the end those who never did
)

// SessionStore keeps signed-in browsers.
type SessionStore interface {
	// CreateSession adds s for s.Sub, sets s.StatusList and s.StatusIndex and the user's last
	// login, and counts the sign-in (SignIns). If the user already has MaxSessions live sessions,
	// it ends one as EndSession does: see Surplus. The user must be neither suspended (ErrSuspended) nor
	// deleted (ErrUserNotFound), and the password hash must still be verifiedHash
	// (ErrInvalidCredentials), so that no session outlives what should have ended it.
	CreateSession(ctx context.Context, s *Session, verifiedHash string, a Audit) error
	// Reauthenticate stores a fresh sign-in in the same browser: s.AuthTime, ExpiresAt, TokenHash,
	// LoginHash, Address, UserAgent and Algorithm of the live session s.ID of s.Sub. It revokes the
	// previous token and sets s.StatusList and s.StatusIndex again. It has the conditions and
	// errors of CreateSession, and ErrSessionNotFound if the session is no longer live.
	Reauthenticate(ctx context.Context, s *Session, verifiedHash string, a Audit) error
	// BindDevice stores n.DeviceKey with the live session, unless it has a key or another sign-in.
	// ErrSessionNotFound.
	BindDevice(ctx context.Context, n Session, a Audit) error
	// ProveDevice stores that the key of the session was proven, unless it was before or is another one.
	ProveDevice(ctx context.Context, n Session, at time.Time) error
	// Session returns a session by its id with its user, live or ended. ErrSessionNotFound, also if
	// the user is deleted.
	Session(ctx context.Context, id string) (Session, User, error)
	// SessionByLoginHash is Session by the hash of the host-only login cookie.
	SessionByLoginHash(ctx context.Context, hash []byte) (Session, User, error)
	// Sessions lists the live sessions of a user, newest first, at most MaxSessions.
	Sessions(ctx context.Context, sub string, now time.Time) ([]Session, error)
	// TouchSessions stores when live sessions (by id) were last seen, if that is later than the
	// stored time.
	TouchSessions(ctx context.Context, seen map[string]time.Time) error
	// EndSession ends one session of the user and revokes its unspent codes and its grants without
	// offline_access. ErrSessionNotFound if it is not the user's or has already ended.
	EndSession(ctx context.Context, sub, id string, now time.Time, a Audit) error
	// EndSessions ends what a.Ends says and returns the number of sessions. If there is neither a
	// session nor a grant to end, it writes no audit row. ErrUserNotFound.
	EndSessions(ctx context.Context, sub string, now time.Time, a Audit) (int, error)
	// MadeByOthers returns what EndOtherSessions would end, and what was given in the other sessions.
	MadeByOthers(ctx context.Context, sub, keep string, now time.Time) (Made, error)
	// DisownSession handles a session that was not the user's: a.Ends applies, since the session
	// began (a.Since if it is no longer stored), and code becomes the user's reset code. If it was done before, it
	// changes only the code, and only while the password is disowned since at most again; otherwise ErrInvalidLink. A
	// user without a password gets no code.
	DisownSession(ctx context.Context, sub, id string, code ResetCode, again time.Duration, now time.Time,
		a Audit) (Disowned, error)
	// KnownAddress reports whether the user has signed in from this address since then in a session,
	// live or ended, whose address no act has made unknown, or has used a reset code there.
	KnownAddress(ctx context.Context, sub, address string, since time.Time) (bool, error)
	// RecentSignIn reports whether anybody has signed in from this address since then. If userAgent is
	// not empty, the session must have it and must not have ended.
	RecentSignIn(ctx context.Context, address, userAgent string, since time.Time) (bool, error)
	statuslist.Store
	// HS256Sessions counts the live sessions whose token is or may be signed with the shared
	// secret, and returns when the last of them expires.
	HS256Sessions(ctx context.Context, now time.Time) (live int, last time.Time, err error)
	// EndHS256Sessions ends them as EndOtherSessions does, and returns how many.
	EndHS256Sessions(ctx context.Context, now time.Time) (int, error)
}

// Disowned is what a person did who disowned a session: since when they disown what was made, and which factors were
// removed with it.
type Disowned struct {
	Since   time.Time
	Removed []MadeFactor
}

// Made is what the sessions of a user but one have made and lives: the sessions themselves, the
// applications with a usable grant, open invites, and what an administrator gave others.
type Made struct {
	Sessions, Invites int
	Apps              []App   // with ClientID and ClientName
	Given             []Given // by name
}

// Given is what an administrator gave somebody to get into an account: see EndedGiven.
type Given struct {
	Name string // the user's handle, or the address of an accepted request
	At   time.Time
}

// InviteQuery selects invites of a user.
type InviteQuery struct {
	Sub   string      // empty: those of the operator
	After InvitePlace // start after this place; zero: with the newest
	Limit int
}

// InvitePlace is a place in a list of invites.
type InvitePlace struct {
	CreatedAt time.Time
	Code      string
}

// InviteStore keeps invites. Codes are canonical (16 characters, no dashes).
type InviteStore interface {
	// CreateInvite adds an invite. ErrInviteLimit if with it the invites of the creator would count
	// for more than limit people (see Invite.Charged); a negative limit means none.
	CreateInvite(ctx context.Context, i Invite, limit int, a Audit) error
	// Invites lists invites of a user, newest first.
	Invites(ctx context.Context, q InviteQuery) ([]Invite, error)
	// Invite returns an invite by its code. ErrInviteNotFound, also if its creator is suspended or
	// deleted, or no longer an administrator and one that only administrators may make.
	Invite(ctx context.Context, code string) (Invite, error)
	// DeleteInvite removes an open invite of the user; one that somebody has used stays, closed. ErrInviteNotFound,
	// ErrInviteUsed.
	DeleteInvite(ctx context.Context, sub, code string, a Audit) error
	// OpenInvites lists the invites of a user, or with an empty sub those of everybody, that can be
	// used at a time, without the first skip. Those that stay open longest come first. Pages are
	// numbered, because codes do not belong in addresses.
	OpenInvites(ctx context.Context, sub string, now time.Time, skip, limit int) ([]Invite, error)
	// CountOpenInvites counts them.
	CountOpenInvites(ctx context.Context, now time.Time) (int, error)
	// RevokeInvite removes an open invite of anybody, as DeleteInvite does, and returns it. Its creator is the target
	// of the audit row. ErrInviteNotFound, ErrInviteUsed.
	RevokeInvite(ctx context.Context, code string, a Audit) (Invite, error)
	// RevokeBranch removes the open invites of a user and of everybody below in the tree of
	// invites, and returns how many. If there are none, it writes no audit row.
	RevokeBranch(ctx context.Context, sub string, now time.Time, a Audit) (int, error)
	// Branches lists the users invited by a user, in the order of handles after a handle. With an
	// empty sub it lists those who joined without the invite of a member and have invited somebody.
	Branches(ctx context.Context, sub, after string, since, now time.Time, limit int) ([]Branch, error)
	// Register spends one use of the invite and creates the user, with the first passkey unless it is nil, and,
	// unless s is nil, the session in one transaction. ErrPasskeyExists. It checks in this order: ErrInvalidInvite
	// (unknown, used, expired, creator suspended or deleted), ErrRegistrationFull (maxUsers > 0 and reached),
	// ErrHandleTaken. A refusal leaves the invite open. The store sets u.InvitedBy.
	Register(ctx context.Context, code string, u User, first *FirstPasskey, s *Session, maxUsers int,
		now time.Time, a Audit) error
}

// JoinStore keeps requests to join, which an administrator decides. Those that have expired count as gone.
type JoinStore interface {
	// AddJoinRequest adds a request, or replaces that of the same address, and spends the link by which it came.
	// ErrInvalidLink if that was spent before; ErrJoinFull if there are most others: then
	// nothing is spent.
	AddJoinRequest(ctx context.Context, r JoinRequest, link []byte, most int, a Audit) error
	// JoinMailAt returns when the next mail of a request to join leaves: as many as the rate at once, further ones
	// at that pace. ErrRateLimited if that is more than JoinMailWait later: then none is counted.
	JoinMailAt(ctx context.Context, rate web.Rate, now time.Time) (time.Time, error)
	// JoinsUntold reports whether requests were added since administrators were told, and when that
	// was. TellJoins tells them with the mails, unless they were told since before.
	JoinsUntold(ctx context.Context) (some bool, told time.Time, err error)
	TellJoins(ctx context.Context, before, now time.Time, mails []Mail) error
	// JoinRequests lists the requests, oldest first.
	JoinRequests(ctx context.Context, now time.Time) ([]JoinRequest, error)
	// JoinRequest returns a request. ErrJoinNotFound.
	JoinRequest(ctx context.Context, id string, now time.Time) (JoinRequest, error)
	// DecideJoinRequest deletes a request, and adds the invite unless it is nil. ErrJoinNotFound.
	DecideJoinRequest(ctx context.Context, id string, i *Invite, a Audit) error
}

// Branch is a user in the tree of invites.
type Branch struct {
	User    User
	Invited int // users who joined with their invites
	Active  int // of these, those who have signed in since a time
	Open    int // their own open invites
	// By is the invite with which they joined, with its note and its time; zero: unknown.
	By Invite
}

// ResetStore keeps hashed password reset codes: for a user at most one of an administrator and one
// that was mailed.
type ResetStore interface {
	// CreateResetCode replaces any earlier code of the user. ErrUserNotFound.
	CreateResetCode(ctx context.Context, sub string, hash []byte, expires, now time.Time, a Audit) error
	// CreateMailedResetCode replaces the previous mailed code, not that of an administrator. mail is the id of the
	// mail in the outbox that it is for: if that is gone, what it gives is void. 0: no mail.
	// ErrUserNotFound, also for a user who is suspended, has another address, or has a password and
	// has not verified the address.
	CreateMailedResetCode(
		ctx context.Context, mail int64, sub, email string, hash []byte, expires, now time.Time,
	) error
	// ResetCodeValid reports whether the code would be accepted now.
	ResetCodeValid(ctx context.Context, handle string, hash []byte, now time.Time) (bool, error)
	// ResetPassword spends the code and sets the password hash; a.Ends applies, Unverify only to a code
	// that was not mailed. A mailed code verifies the address, unless another account has verified
	// it. It unlocks the user, but adds to User.FactorUnlocks by a mailed code only once in RemedyRest,
	// and makes the address of the audit row known (see KnownAddress).
	// ErrInvalidResetCode for an unknown handle as well as for a wrong, used or expired code.
	ResetPassword(ctx context.Context, handle string, codeHash []byte, passwordHash string,
		now time.Time, a Audit) error
	// ResetToPasskey is ResetPassword of a user who has no password, and gets a passkey in its place.
	ResetToPasskey(ctx context.Context, handle string, codeHash []byte, first FirstPasskey,
		now time.Time, a Audit) error
}

// FactorStore keeps second factors. User.SecondFactor is the choice of a second step, which is off without an
// authenticator app and a passkey. Recovery codes are created and deleted with it.
type FactorStore interface {
	// Factors returns the second factors of a user.
	Factors(ctx context.Context, sub string) (Factors, error)
	// RecentFactors lists the factors that NamedFactors may select, oldest first, never nil. keep is the session of the
	// request.
	RecentFactors(ctx context.Context, sub, keep string, now time.Time) ([]MadeFactor, error)
	// HasPasskey reports whether a user has a passkey of one of the relying party ids.
	HasPasskey(ctx context.Context, sub string, rpIDs []string) (bool, error)
	// SetSecondStep sets User.SecondFactor: see NewFactor. ErrNoStep without a factor, or without a password;
	// ErrStepOfApp while there is an authenticator app. ErrReauthenticationRequired as for NewFactor, and if the
	// session has proven no factor, or another request was first.
	SetSecondStep(ctx context.Context, sub string, on bool, n NewFactor) error
	// AddTOTP adds an authenticator app and reports whether it set User.SecondFactor: see NewFactor. ErrFactorExists.
	AddTOTP(ctx context.Context, sub string, t TOTP, n NewFactor) (first bool, err error)
	// UseTOTP stores the time step of a code and reports whether it was later than that of any
	// earlier code (RFC 6238 section 5.2).
	UseTOTP(ctx context.Context, sub string, step int64, now time.Time) (bool, error)
	// RemoveTOTP removes the authenticator app: see OldFactor. ErrFactorNotFound.
	RemoveTOTP(ctx context.Context, sub string, o OldFactor) error
	// ReplaceRecoveryCodes replaces the recovery codes. ErrFactorNotFound if the user has no second
	// factor. ErrReauthenticationRequired as for NewFactor.
	ReplaceRecoveryCodes(ctx context.Context, sub string, codes []RecoveryCode, now time.Time, a Audit) error
	// RecoveryCode returns the unused code of a user with the name or the hash, or the zero value, and
	// how many unused codes there are.
	RecoveryCode(ctx context.Context, sub, name string, hash []byte) (code RecoveryCode, left int, err error)
	// UseRecoveryCode spends a code by its hash, and reports whether it was valid.
	UseRecoveryCode(ctx context.Context, sub string, hash []byte, now time.Time, a Audit) (bool, error)
	// ResetFactors removes all second factors and recovery codes, ends every session and
	// revokes every grant of the user. ErrUserNotFound.
	ResetFactors(ctx context.Context, sub string, now time.Time, a Audit) error
	// SpendOnce reports whether it is the first call with the hash, before the expiry, of something
	// that may be used once.
	SpendOnce(ctx context.Context, hash []byte, expires time.Time) (bool, error)
}

// NewFactor describes how to add a second factor in one transaction. Unless WayIn is set, it sets User.SecondFactor;
// that stores the hashes of recovery codes, and Audit.Ends applies. With the first one, sessions lose
// MethodMultiFactor, because they proved another factor.
//
// ErrReauthenticationRequired if the user has chosen a second step that
// the session has not proven. ErrUserNotFound.
type NewFactor struct {
	Codes []RecoveryCode // nil: User.SecondFactor is known to be set
	// WayIn adds a passkey that leaves User.SecondFactor as it is. End ends what Audit.Ends says all the same.
	WayIn, End bool
	Now        time.Time
	Audit      Audit
}

// OldFactor describes how to remove a second factor in one transaction. The last one takes
// User.SecondFactor and the recovery codes with it. Audit.Ends applies; sessions that a removed passkey opened end in
// any case. ErrFactorDemanded if no remaining factor would satisfy Demanded. ErrLastWayIn if a user without a password
// would have no passkey. ErrReauthenticationRequired as for NewFactor.
type OldFactor struct {
	RPIDs    []string // see PasskeyHosts: a user without a password keeps a passkey of one of these
	Demanded string   // an authentication context class: "", ACRTwoFactors or ACRPhishingResistant (a passkey)
	Now      time.Time
	Audit    Audit
}

// EmailStore keeps verifications and changes of addresses. ErrInvalidLink means used, too old,
// unknown, or not about the current address of the user.
type EmailStore interface {
	// UserByEmail returns the user with this verified address (case-insensitive). ErrUserNotFound.
	UserByEmail(ctx context.Context, email string) (User, error)
	// AskVerification sets User.EmailAskedAt if this is still User.Unproven. ErrInvalidLink.
	AskVerification(ctx context.Context, sub, email string, asked time.Time, a Audit) error
	// CancelEmail drops the address that waits. ErrNoEmailToVerify.
	CancelEmail(ctx context.Context, sub string, a Audit) error
	// VerifyEmail marks the address as verified, once for each request and within VerificationLifetime. With
	// a.KeepEmail it is the one that waits, which takes the place of the other; a.Ends applies, except to the session
	// that asked for it and what that keeps. If an undo could restore it, later changes can no longer be undone, as
	// after that undo. ErrInvalidLink, ErrEmailTaken.
	VerifyEmail(ctx context.Context, sub, email string, asked, now time.Time, a Audit) error
	// EmailChange returns a change of address that can still be undone. ErrInvalidLink.
	EmailChange(ctx context.Context, id string, now time.Time) (EmailChange, error)
	// FormerEmails lists the changes of the user's address that can still be undone, oldest first.
	FormerEmails(ctx context.Context, sub string, now time.Time) ([]EmailChange, error)
	// UndoEmailChange restores the former address, as verified unless another account has verified
	// it since. a.Ends applies, since the change, and to factors since the session that made it began. code becomes the
	// user's reset code as in DisownSession. Later changes can no longer be undone; earlier ones can. The user is the
	// actor of the audit row. ErrInvalidLink.
	UndoEmailChange(ctx context.Context, id string, code ResetCode, now time.Time, a Audit) (Disowned, error)
	// QueueMail stores a mail without an audit row.
	QueueMail(ctx context.Context, m Mail, now time.Time) error
}

// EmailChange is a verified address that the user has replaced.
type EmailChange struct {
	ID        string
	Sub       string
	Email     string    // before
	ChangedAt time.Time // when it was asked for
	ExpiresAt time.Time
}

// Factors are the second factors of a user.
type Factors struct {
	TOTP          *TOTP // nil: none
	Passkeys      int
	PasskeyHosts  []string // the relying party id of each
	RecoveryCodes int      // that are left
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
	// Passkey returns a passkey by its credential id, with its user. ErrPasskeyNotFound.
	Passkey(ctx context.Context, id []byte) (Passkey, User, error)
	// StampPasskeys sets the relying party id of passkeys that have none.
	StampPasskeys(ctx context.Context, rpID string) error
	// PasskeysElsewhere counts the passkeys of other relying party ids than the given ones.
	PasskeysElsewhere(ctx context.Context, rpIDs []string) (PasskeysElsewhere, error)
	// OlderPasskeyHost returns that of the relying party ids, besides the present one, which most
	// passkeys have, or "".
	OlderPasskeyHost(ctx context.Context, rpIDs []string, present string) (string, error)
	// AddPasskey adds p and reports whether it is the first factor: see NewFactor. ErrPasskeyExists, ErrPasskeyLimit
	// when the user has limit.
	AddPasskey(ctx context.Context, p Passkey, limit int, n NewFactor) (first bool, err error)
	// RenamePasskey renames a passkey of the user. ErrPasskeyNotFound.
	RenamePasskey(ctx context.Context, sub string, id []byte, name string, a Audit) error
	// RemovePasskey removes a passkey of the user: see OldFactor. ErrPasskeyNotFound.
	RemovePasskey(ctx context.Context, sub string, id []byte, o OldFactor) error
	// UsePasskey stores SignCount, BackupState and LastUsedAt of p. If the count is not higher than
	// the stored one, and not both are zero, it writes the audit row and returns true.
	// ErrPasskeyNotFound.
	UsePasskey(ctx context.Context, p Passkey, a Audit) (wentBack bool, err error)
}

// SettingsStore keeps the installation's settings and secrets.
type SettingsStore interface {
	// Settings returns the stored settings. ErrNotInitialized before init.
	Settings(ctx context.Context) (Settings, error)
	// AmendSettings calls change with the settings, stores all but HS256Until and returns them.
	// change returns the names of what it changed, for the audit row; if it changed nothing,
	// nothing is stored. If it returns an error, nothing is stored either. change may be called
	// more than once. ErrNotInitialized.
	AmendSettings(ctx context.Context, change func(*Settings) (changed string, err error), a Audit) (Settings, error)
	// SetHS256Until stores Settings.HS256Until. ErrNotInitialized.
	SetHS256Until(ctx context.Context, until time.Time, a Audit) error
	// Logo returns the picture of the installation, whose hash is Settings.Logo, or nil.
	Logo(ctx context.Context) (png []byte, err error)
	// ClientLogo returns the logo of an application, or the picture for the dark scheme, by its hash, or nil.
	ClientLogo(ctx context.Context, hash string) (png []byte, err error)
	// SetLogo replaces the picture, or that for the dark scheme, and removes it if nil; the one for the dark
	// scheme goes with the other. ErrNotInitialized.
	SetLogo(ctx context.Context, dark bool, png []byte, hash string, a Audit) error
	// Initialize stores settings and secrets that do not exist yet and reports whether it stored
	// anything. It never changes what exists.
	Initialize(ctx context.Context, s Settings, secrets map[string][]byte) (bool, error)
}

// Names of stored secrets.
const (
	SecretJWT          = "jwt"          // shared with the activity application
	SecretInstallation = "installation" // never leaves the service; other keys are derived from it
)

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

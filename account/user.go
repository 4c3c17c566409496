package account

import (
	"context"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account/text"

	"golang.org/x/net/idna"
)

// Flags of a new installation; settings may add more, and remove all but FlagAdmin.
const (
	FlagAdmin    = "admin"
	FlagActivity = "activity"
)

// User is a person with an account. Times are UTC in whole seconds; the zero
// time means never.
type User struct {
	Sub           string // stable opaque id, never the handle, never given again
	Handle        string // canonical; unique for ever
	DisplayName   string
	Email         string
	EmailVerified bool
	Pending       PendingEmail
	EmailAskedAt  time.Time // when the latest verification mail was requested
	Language      string    // BCP 47: in which the user joined or was added; "": not known. Profile.Locale goes first
	Profile       Profile
	PasswordHash  string   // PHC string; empty: none yet; or NoPassword
	Flags         []string // those that are on, sorted
	SuspendedAt   time.Time
	SuspendReason string
	// EndsAt is when the account ends automatically; zero: never. From then on it is suspended, since
	// EndsAt. FlagEnds is the same for Flags that have an end: from then on they are not among Flags.
	EndsAt      time.Time
	FlagEnds    map[string]time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
	LastLoginAt time.Time
	InvitedBy   string // handle of the member whose invite it was, or empty
	// SecondFactor is the choice of a second step: a password alone opens no session. Settings and applications may
	// demand it of a user with a passkey who has not chosen it: see person.Service. It is set while there is an
	// authenticator app or no password, and never without a factor.
	SecondFactor bool
	// DevicesVoidedAt is when the marks of known devices were last voided: see package person.
	DevicesVoidedAt time.Time
	// EmailChangedAt is when the user changed the address; zero: an administrator did, or nobody. The
	// user of a session does not have it.
	EmailChangedAt time.Time
	// PasswordDisownedAt is since when the password is known to somebody else, and opens nothing; zero:
	// it is not. The user of a session does not have it.
	PasswordDisownedAt time.Time
	// Unlocks and FactorUnlocks count how often the failures of the account were cleared: see
	// AccountCounters.
	Unlocks, FactorUnlocks int64
	// Photo is a new picture for ChangeUser. No user that is read has it.
	Photo Photo
	// LockedUntil is when the limits of the account allow the next attempt: strangers after wrong passwords,
	// everybody after wrong codes.
	LockedUntil time.Time
}

// PendingEmail is an address that waits: it takes the place of the verified one when its link is opened.
type PendingEmail struct {
	Email string // empty: none
	// The user of a session has none of the rest: since when, for which session, and what that keeps of the others.
	At      time.Time
	Session string
	Keep    Keep
}

// Unproven returns the address that a mail can verify: the one that waits, or that of the user; or "".
func (u User) Unproven() string {
	if u.EmailVerified {
		return u.Pending.Email
	}
	return u.Email
}

// NoPassword is the PasswordHash of a user who signs in with passkeys alone. It is the hash of no
// password. An empty one is of a user who was added and has not set a password yet: their address
// counts as theirs.
const NoPassword = "!"

// LostPassword is the PasswordHash in the place of a password that somebody else removed, until its owner sets a new
// one: a hash, of no password that can be found.
const LostPassword = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$" +
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// Passwordless reports whether the user signs in with passkeys alone.
func (u User) Passwordless() bool { return u.PasswordHash == NoPassword }

// Suspended reports whether an administrator has suspended the user, or the account has ended.
func (u User) Suspended() bool { return !u.SuspendedAt.IsZero() }

// Ended reports whether the account has ended automatically.
func (u User) Ended() bool { return u.Suspended() && u.SuspendedAt.Equal(u.EndsAt) }

// Locked returns LockedUntil, or the zero Time if it has passed.
func (u User) Locked(now time.Time) time.Time {
	if !u.LockedUntil.After(now) {
		return time.Time{}
	}
	return u.LockedUntil
}

// Has reports whether an access flag is on.
func (u User) Has(flag string) bool { return slices.Contains(u.Flags, flag) }

// HasFlags reports whether a user has all of the flags or, unless all is set, one of them. Without flags
// it is true.
func HasFlags(u User, flags []string, all bool) bool {
	if all || len(flags) == 0 {
		return !slices.ContainsFunc(flags, func(f string) bool { return !u.Has(f) })
	}
	return slices.ContainsFunc(flags, u.Has)
}

// FlagMap is the wire form of flags: every known flag with its state.
func (u User) FlagMap(known []string) map[string]bool {
	m := make(map[string]bool, len(known))
	for _, f := range known {
		m[f] = false
	}
	for _, f := range u.Flags {
		m[f] = true
	}
	return m
}

var flagForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// CheckDisplayName trims and checks a display name: 1 to 60 runes, no control,
// format (bidi, zero-width) or private characters except the joiners that
// scripts and emoji need.
func CheckDisplayName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n > 60 || !utf8.ValidString(name) || !text.Printable(name) ||
		!strings.ContainsFunc(name, visible) {
		return "", errInvalidDisplayName
	}
	return name, nil
}

// visible reports whether a character alone can be seen. A name of joiners or fillers would be
// unreadable.
func visible(r rune) bool {
	return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && r != '\u115f' && r != '\u1160' &&
		r != '\u3164' && r != '\uffa0' && r != '\u2800'
}

// CheckReason checks an administrator's note on a suspension: at most 200
// runes, no control characters.
func CheckReason(s string) (string, error) {
	s, ok := text.Check(s, 200)
	if !ok {
		return "", ErrInvalidText
	}
	return s, nil
}

// CheckEmail checks an address (RFC 5322 addr-spec, at most 254 bytes); the
// empty string means none. Its letters A-Z become lower case: applications
// compare addresses byte by byte. An international domain becomes ASCII, which
// every server for mail takes.
func CheckEmail(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return "", nil
	}
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > 254 || !text.Printable(s) {
		return "", ErrInvalidEmail
	}
	at := strings.LastIndexByte(s, '@') + 1
	if beyondASCII := func(r rune) bool { return r > '~' }; strings.ContainsFunc(s[at:], beyondASCII) {
		domain, err := idna.Lookup.ToASCII(s[at:])
		if s = s[:at] + domain; err != nil || len(s) > 254 {
			return "", ErrInvalidEmail
		}
	}
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' { // no other letters: databases would not find what was stored before
			r += 'a' - 'A'
		}
		return r
	}, s), nil
}

const mailLabel = `[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?`

var mailDomain = regexp.MustCompile(`^` + mailLabel + `(?:\.` + mailLabel + `)*$`)

// CheckNewEmail is CheckEmail for an address that is not stored yet. It also refuses what cannot exist and was stored
// by earlier versions: punctuation beyond ASCII, such as the quotation marks of a text, a local part over 64 bytes, and
// a domain that DNS cannot have (RFC 5321 section 4.5.3.1.1, RFC 1035 section 2.3.4).
func CheckNewEmail(s string) (string, error) {
	const inDomains = "\u00b7\u05f3\u05f4\u3002\u30fb\uff0e\uff61" // full stops, and RFC 5892 appendix A
	stray := func(r rune) bool {
		return r > '~' && unicode.In(r, unicode.P, unicode.Z) && !strings.ContainsRune(inDomains, r)
	}
	email, err := CheckEmail(s)
	at := strings.LastIndexByte(email, '@')
	if email != "" && (at > 64 || !mailDomain.MatchString(email[at+1:]) ||
		strings.ContainsFunc(strings.TrimSpace(s), stray)) {
		return "", ErrInvalidEmail
	}
	return email, err
}

// EmailClaim returns the address as applications get it. One stored by an
// earlier version may have capitals: those of its domain mean nothing (RFC 5321
// section 2.4).
func (u User) EmailClaim() string {
	at := strings.LastIndexByte(u.Email, '@') + 1
	return u.Email[:at] + strings.ToLower(u.Email[at:])
}

// CheckFlag reports whether a name can be an access flag.
func CheckFlag(name string) error {
	if !flagForm.MatchString(name) {
		return ErrUnknownFlag
	}
	return nil
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
	// CountUsers is Users with the number of all users that match the query.
	CountUsers(ctx context.Context, q UserQuery) (UserPage, error)
	// CreateUser adds a user without an invite, with its Flags and given Sub. ErrHandleTaken (also
	// by a deleted user), ErrEmailTaken.
	CreateUser(ctx context.Context, u User, a Audit) error
	// AddUser is CreateUser with a password reset code, unless c has no hash. ErrRegistrationFull if there would be
	// more than maxUsers (0: no limit).
	AddUser(ctx context.Context, u User, c ResetCode, maxUsers int, a Audit) error
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
	// remain who is not suspended, and has no end. An end that those whom somebody else suspends gave in the last
	// seven days, where nobody else would remain, falls with them, with an audit row.
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

// UserPage is a page of the users that match a query, and how many match it.
type UserPage struct {
	Users []User
	Next  string
	Total int // a lower bound unless Exact
	Exact bool
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

// Limits of the preferences of one user: number of keys, and bytes.
const (
	MaxPreferences     = 100
	MaxPreferenceKey   = 64
	MaxPreferenceValue = 4096
)

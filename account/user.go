package account

import (
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account/text"
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
	// EndsAt is when the account ends by itself; zero: never. From then on it is suspended, since
	// EndsAt. FlagEnds is the same for Flags that have an end: from then on they are not among Flags.
	EndsAt      time.Time
	FlagEnds    map[string]time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
	LastLoginAt time.Time
	InvitedBy   string // handle of the member whose invite it was, or empty
	// SecondFactor is the choice of a second step: a password alone opens no session. Settings and applications may
	// demand it of a user with a passkey who has not chosen it: see Service.AsksSecondStep. It is set while there is an
	// authenticator app or no password, and never without a factor.
	SecondFactor bool
	// DevicesVoidedAt is when the marks of known devices were last voided: see Service.markMade.
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

// Passwordless reports whether the user signs in with passkeys alone.
func (u User) Passwordless() bool { return u.PasswordHash == NoPassword }

// Suspended reports whether an administrator has suspended the user, or the account has ended.
func (u User) Suspended() bool { return !u.SuspendedAt.IsZero() }

// Ended reports whether the account has ended by itself.
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
		return "", ErrInvalidDisplayName
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
// compare addresses byte by byte.
func CheckEmail(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return "", nil
	}
	a, err := mail.ParseAddress(s)
	if err != nil || a.Name != "" || a.Address != s || len(s) > 254 || !text.Printable(s) ||
		strings.ContainsAny(s, " <>\"") {
		return "", ErrInvalidEmail
	}
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' { // no other letters: databases would not find what was stored before
			r += 'a' - 'A'
		}
		return r
	}, s), nil
}

// mailboxOf returns the mailbox of an address: other addresses of it differ by what follows a plus, and by
// dots where the provider ignores them.
func mailboxOf(email string) string {
	at := max(0, strings.LastIndexByte(email, '@'))
	local, domain := strings.ToLower(email[:at]), strings.ToLower(email[at:])
	if plus := strings.IndexByte(local, '+'); plus > 0 {
		local = local[:plus]
	}
	if domain == "@gmail.com" || domain == "@googlemail.com" {
		local, domain = strings.ReplaceAll(local, ".", ""), "@gmail.com"
	}
	return local + domain
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

package account

import (
	"context"
	"crypto/sha256"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/account/web"
)

// Session is a signed-in browser. The session token (a JWT in the cookie) names the session by sid
// and proves it by jti. Only the hash of the jti is stored, so neither a copy of the database nor
// the shared HS256 secret alone opens a session.
type Session struct {
	ID          string // sid, public
	Sub         string
	TokenHash   []byte // SHA-256 of the token's jti
	LoginHash   []byte // SHA-256 of the host-only cookie; nil without a cookie domain
	CreatedAt   time.Time
	AuthTime    time.Time // of the last sign-in
	LastSeenAt  time.Time
	ExpiresAt   time.Time
	EndedAt     time.Time
	Address     string // canonical client address at the last sign-in, never of a mere visit: see KnownAddress
	UserAgent   string
	StatusList  int // token status list and index, assigned by the store
	StatusIndex int
	Algorithm   string // of the token's signature; empty when it was made before that was noted
	// AMR holds the authentication methods of the sign-in (RFC 8176).
	AMR []string
	// ConfirmedAt is when the person last proved who they are: not before AuthTime.
	ConfirmedAt time.Time
	Passkey     []byte // credential id of the passkey that opened it, or nil
	// DeviceKey is the P-256 key of the browser, uncompressed, or nil; it binds since DeviceProvenAt: see Bound.
	DeviceKey      []byte
	DeviceProvenAt time.Time
	// TimeStep is that of the authenticator app's code with which it is being opened, 0 for none. It is
	// not stored: the store checks that the app was not removed since.
	TimeStep int64
	// KnownSince is when the mark was made with which the browser came to the sign-in, zero without one.
	KnownSince time.Time
}

// Authentication methods (RFC 8176) that sessions have.
const (
	MethodPassword    = "pwd"
	MethodOTP         = "otp" // a code of an authenticator app, or a recovery code
	MethodHardwareKey = "hwk" // a passkey that stays in its device
	MethodSoftwareKey = "swk" // a passkey that may be copied to others
	MethodUser        = "user"
	// MethodMultiFactor is in every session that a user with a second factor can have.
	MethodMultiFactor = "mfa"
)

// Live reports whether the session is live at the given time.
func (s Session) Live(now time.Time) bool { return s.EndedAt.IsZero() && now.Before(s.ExpiresAt) }

// SharedLifetime is less than Settings.SessionDays can be, and is thereby the stored sign of a shared
// computer.
const SharedLifetime = 12 * time.Hour

// Shared reports whether the session is on a shared computer. Its browser keeps the cookies until it is
// closed and is not remembered as a known one.
func (s Session) Shared() bool { return s.ExpiresAt.Sub(s.AuthTime) <= SharedLifetime }

// MaxAge returns the Max-Age of the session's cookies, in seconds; 0 for cookies without one.
func (s Session) MaxAge() int {
	if s.Shared() {
		return 0
	}
	return int(s.ExpiresAt.Sub(s.AuthTime) / time.Second)
}

// MaxSessions is the maximum number of live sessions of a user.
const MaxSessions = 100

// AlgorithmRS256 is the Session.Algorithm of tokens signed with a private key. Tokens of any other
// algorithm may be signed with the shared secret.
const AlgorithmRS256 = "RS256"

// HS256Over reports whether tokens that the shared secret signed are refused by now.
func (s Settings) HS256Over(now time.Time) bool {
	return !s.HS256Until.IsZero() && !now.Before(s.HS256Until)
}

// HashSecret returns the stored form of a random secret of 128 bits or more, which has too much entropy
// to be found by search.
func HashSecret(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}

// IsSessionID reports whether text can be an id of ours, which saves a query.
func IsSessionID(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }

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
	// DisownSession handles a session that was not the user's, with those of the last FactorUndo that are of the
	// SameHand, and what later ones made but the Owners: a.Ends applies, since the first of them began, and code
	// becomes the user's reset code. If it was done before, it changes only the code, and only while the password is
	// disowned since at most again; otherwise ErrInvalidLink. A user without a password gets no code. mailed is the
	// address that the link was mailed to: unless it is the verified one, or an undo could restore it, ErrInvalidLink;
	// later ones can no longer be undone. A password that a code has set since the session ended stays, if the link
	// was mailed to the verified address.
	DisownSession(ctx context.Context, sub, id, mailed string, code ResetCode, again time.Duration, now time.Time,
		a Audit) (Disowned, error)
	// KnownAddress reports whether the user has signed in from this address since then in a session,
	// live or ended, whose address no act has made unknown, or has used a reset code there.
	KnownAddress(ctx context.Context, sub, address string, since time.Time) (bool, error)
	// DisownedMark reports whether an act has made the address unknown of the last session of a browser whose mark was
	// made then. Sessions are remembered for a while after they would have expired.
	DisownedMark(ctx context.Context, sub string, made time.Time) (bool, error)
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

// NotMeLifetime is how long the link in the notice of a sign-in is good.
const NotMeLifetime = 7 * 24 * time.Hour

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

// Bound reports whether the session is bound to its device: its key is registered and was proven since.
func (s Session) Bound() bool { return !s.DeviceProvenAt.IsZero() }

// Surplus returns which n of the live sessions of a user end to make room. The oldest are first in list.
//
// Somebody who signs in again and again pushes out their own sessions, and not that of the owner. What shares an
// address or the mark of a browser is of one hand. The oldest goes of the hand that has most, and there of the browser
// that has most; what came without a mark counts as one browser an address. A household has some browsers at one
// address: as many with a mark count as one. Where each hand has one session, one that came late goes: not those of
// old, and not the last fifth, of which the owner may be with a new browser.
func Surplus(list []Session, n int) (ids []string) {
	for list = slices.Clone(list); len(ids) < n; {
		next := map[string]string{} // of the same hand
		root := func(key string) string {
			for next[key] != "" {
				key = next[key]
			}
			return key
		}
		browser, ofHand, ofBrowser := make([]string, len(list)), map[string]int{}, map[string]int{}
		marked, known := map[string]bool{}, map[string]int{}
		for i, s := range list {
			address := "at " + customer(s.Address)
			if browser[i] = address; !s.KnownSince.IsZero() {
				browser[i] = strconv.FormatInt(s.KnownSince.Unix(), 36)
				marked[browser[i]] = true
			}
			ofBrowser[browser[i]]++
			if a, b := root(address), root(browser[i]); a != b {
				next[a] = b
			}
		}
		for _, b := range browser {
			ofHand[root(b)]++
		}
		for b := range marked {
			known[root(b)] = min(known[root(b)]+1, household)
		}
		most, rank := 0, 0
		for i, b := range browser {
			if r := (ofHand[root(b)]-max(0, known[root(b)]-1))*len(list) + ofBrowser[b]; r > rank {
				most, rank = i, r
			}
		}
		if rank == len(list)+1 { // of one session
			by := slices.Clone(list)
			slices.SortStableFunc(by, func(a, b Session) int { return came(a).Compare(came(b)) })
			late := by[len(by)-1-len(by)/5].ID
			most = slices.IndexFunc(list, func(s Session) bool { return s.ID == late })
		}
		ids, list = append(ids, list[most].ID), slices.Delete(list, most, most+1)
	}
	return ids
}

// household is how many known browsers at one address Surplus takes for those of one household.
const household = 4

// came returns when the browser of a session came first, as far as is known.
func came(s Session) time.Time {
	if s.KnownSince.IsZero() {
		return s.CreatedAt
	}
	return s.KnownSince
}

// customer returns the network of the customer who has an address.
func customer(address string) string {
	if a, err := netip.ParseAddr(address); err == nil {
		return web.Networks(a)[1].String()
	}
	return address
}

// SameHand returns those of the sessions of a user that began since a time and before s, and which share the mark of a
// browser or the address with it. An address where the account was before that time is the owner's home, and a mark
// from before is of the owner's browser: they say nothing. Nor does an address where no home is known.
func (s Session) SameHand(list []Session, since time.Time) (earlier []Session) {
	home := map[string]bool{}
	for _, n := range list {
		if came(n).Before(since) {
			home[customer(n.Address)] = true
		}
	}
	for _, n := range list {
		at := customer(n.Address)
		if !came(n).Before(since) && n.CreatedAt.Before(s.CreatedAt) &&
			(came(n).Equal(s.KnownSince) || at == customer(s.Address) && len(home) > 0 && !home[at]) {
			earlier = append(earlier, n)
		}
	}
	return earlier
}

// KeyMade is when a passkey was made, and the id of the session that made it.
type KeyMade struct {
	By string
	At time.Time
}

// Owners returns those of the sessions of a user, oldest first, that began after s and are the owner's, who came back:
// with a password that a code set at the time code, with the mark of a browser from before since, or with a passkey of
// keys from before it or of one of these; or from home, where s was not, after an administrator reset the factors.
// A zero time is none.
func (s Session) Owners(
	list []Session, since time.Time, keys map[string]KeyMade, code, factors time.Time,
) (ids []string) {
	home := map[string]bool{}
	after := func(n Session, at time.Time) bool { // at which all sessions ended
		return !at.IsZero() && !n.CreatedAt.Before(at) && (n.EndedAt.IsZero() || n.EndedAt.After(at))
	}
	for _, n := range list {
		at, key := customer(n.Address), keys[string(n.Passkey)]
		switch {
		case n.CreatedAt.Before(since):
			home[at] = true
		case n.ID == s.ID:
		case !n.KnownSince.IsZero() && n.KnownSince.Before(since) && !n.KnownSince.Equal(s.KnownSince),
			!key.At.IsZero() && (key.At.Before(since) || slices.Contains(ids, key.By)),
			slices.Contains(n.AMR, MethodPassword) && after(n, code),
			home[at] && at != customer(s.Address) && after(n, factors):
			ids = append(ids, n.ID)
		}
	}
	return ids
}

package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Session is a signed-in browser: a row. The session token (a JWT in the
// cookie) names it by sid and proves it by jti; only the hash of the jti is
// stored, so that neither a copy of the database nor the shared HS256 secret
// alone opens a session.
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
	// AMR are the authentication methods of the sign-in (RFC 8176).
	AMR []string
	// ConfirmedAt is when the person last proved who they are: not before AuthTime.
	ConfirmedAt time.Time
	Passkey     []byte // credential id of the passkey that opened it, or nil
}

// Authentication methods (RFC 8176) that sessions have.
const (
	MethodPassword    = "pwd"
	MethodOTP         = "otp" // a code of an authenticator app, or a recovery code
	MethodHardwareKey = "hwk" // a passkey that stays in its device
	MethodSoftwareKey = "swk" // a passkey that may be copied to others
	MethodUser        = "user"
	// MethodMultiFactor is in every session that may be made of a user with a second factor.
	MethodMultiFactor = "mfa"
)

// Live reports whether the session is live at the given time.
func (s Session) Live(now time.Time) bool { return s.EndedAt.IsZero() && now.Before(s.ExpiresAt) }

// MaxSessions is how many live sessions a user has at most.
const MaxSessions = 100

// Identity is who a request comes from.
type Identity struct {
	User    User
	Session Session

	algorithm string // of the token that proves the session; the row's where the host-only cookie does
	foreign   bool   // see liveSessions
}

// newSession prepares a session, and the secrets that only the browser gets.
func (s *Service) newSession(c Caller, p proven) (*Session, SignedIn) {
	now, jti := s.now(), rand.Text()
	n := &Session{
		ID: uuid.NewString(), Sub: p.user.Sub, TokenHash: hashOf(jti), CreatedAt: now, AuthTime: now, LastSeenAt: now, ConfirmedAt: now,
		ExpiresAt: now.Add(session.Lifetime), Address: c.Address, UserAgent: c.UserAgent, Algorithm: s.minter.algorithm,
		AMR: p.amr, Passkey: p.passkey,
	}
	out := SignedIn{User: p.user, token: jti}
	if s.cookies.login != "" {
		out.login = rand.Text() + rand.Text() // 260 bits
		n.LoginHash = hashOf(out.login)
	}
	return n, out
}

// identities are the sessions that cookies prove, whatever their state. An error is a failure of the database.
type identities iter.Seq2[*Identity, error]

// sessionProof finds the sessions that one kind of cookie of a browser proves.
type sessionProof func(ctx context.Context, b browser) identities

// sessionProofs are those of this service, of which only the first one opens it. With a cookie domain that is the
// host-only cookie: a sibling host or a holder of the shared secret cannot make one.
func (s *Service) sessionProofs() []sessionProof {
	if s.cookies.login != "" {
		return []sessionProof{s.byLogin, s.byToken}
	}
	return []sessionProof{s.byToken}
}

// live is the session that is live and its user, who is not suspended.
func (s *Service) live(ctx context.Context, of identities) (*Identity, error) {
	id, err := s.findSession(ctx, of)
	if err != nil {
		return nil, err
	}
	now := s.now()
	if !id.Session.Live(now) || id.User.Suspended() {
		return nil, ErrNotAuthenticated
	}
	web.NoteUser(ctx, id.User.Sub)
	templates.SetMemberLanguage(ctx, id.User.Profile.Locale)
	if now.Sub(id.Session.LastSeenAt) >= touchInterval {
		s.visits.note(id.Session.ID, now)
	}
	return id, nil
}

// findSession returns one of the sessions whatever its state, a live one if there are several. A token that has
// ceased to count proves none.
func (s *Service) findSession(ctx context.Context, of identities) (*Identity, error) {
	var found *Identity
	for id, err := range of {
		if err != nil {
			return nil, err
		}
		switch retired, err := s.retired(ctx, id.algorithm); {
		case err != nil:
			return nil, err
		case retired:
			continue
		}
		if found == nil || id.Session.Live(s.now()) {
			found = id
		}
		if found.Session.Live(s.now()) {
			break
		}
	}
	if found == nil {
		return nil, ErrNotAuthenticated
	}
	return found, nil
}

// liveSessions are the live sessions that any cookie of a browser proves, each once; foreign are those that do not
// open this service.
func (s *Service) liveSessions(ctx context.Context, b browser) ([]*Identity, error) {
	var live []*Identity
	for i, proof := range s.proofs {
		for id, err := range proof(ctx, b) {
			if err != nil {
				return nil, err
			}
			known := slices.ContainsFunc(live, func(other *Identity) bool { return other.Session.ID == id.Session.ID })
			if known || !id.Session.Live(s.now()) {
				continue
			}
			if id.foreign, err = s.retired(ctx, id.algorithm); err != nil {
				return nil, err
			}
			id.foreign = id.foreign || id.User.Suspended() || i > 0
			live = append(live, id)
		}
	}
	return live, nil
}

// byLogin finds the sessions that the host-only cookies prove.
func (s *Service) byLogin(ctx context.Context, b browser) identities {
	return func(yield func(*Identity, error) bool) {
		for _, value := range b.logins[:min(len(b.logins), maxLookups)] {
			if len(value) < 40 || len(value) > 64 {
				continue
			}
			row, u, err := s.store.SessionByLoginHash(ctx, hashOf(value))
			if errors.Is(err, ErrSessionNotFound) {
				continue
			}
			if !yield(&Identity{User: u, Session: row, algorithm: row.Algorithm}, err) || err != nil {
				return
			}
		}
	}
}

// byToken finds the sessions that the session tokens prove. Planted cookies of the same name may come before the
// genuine one: it tries each.
func (s *Service) byToken(ctx context.Context, b browser) identities {
	return func(yield func(*Identity, error) bool) {
		lookups := 0
		for _, value := range b.tokens[:min(len(b.tokens), maxVerified)] {
			token, err := s.prove(ctx, value)
			if err != nil {
				continue
			}
			if lookups++; lookups > maxLookups {
				return
			}
			row, u, err := s.store.Session(ctx, token.sid)
			if errors.Is(err, ErrSessionNotFound) {
				continue
			}
			if err == nil && (row.Sub != token.sub || subtle.ConstantTimeCompare(row.TokenHash, token.jtiHash) != 1) {
				continue
			}
			if !yield(&Identity{User: u, Session: row, algorithm: token.algorithm}, err) || err != nil {
				return
			}
		}
	}
}

// AlgorithmRS256 is Session.Algorithm of tokens signed with a private key; any
// other one may be signed with the shared secret.
const AlgorithmRS256 = "RS256"

// retired reports whether a token of this algorithm has ceased to count because it may
// be signed with the shared secret: Settings.HS256Until has come, and there is a key
// with which its owner can get another one.
func (s *Service) retired(ctx context.Context, algorithm string) (bool, error) {
	if s.minter.algorithm != AlgorithmRS256 || algorithm == AlgorithmRS256 {
		return false, nil
	}
	v, err := s.Settings(ctx)
	if err != nil {
		return false, err
	}
	return v.hs256Over(s.now()), nil
}

func (s Settings) hs256Over(now time.Time) bool {
	return !s.HS256Until.IsZero() && !now.Before(s.HS256Until)
}

// hashOf is how the store keeps random secrets of 128 bits and more: enough
// entropy that a plain SHA-256 cannot be searched.
func hashOf(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}

// How much work a header full of cookies of our name can cause: signatures to
// verify, and rows to look up.
const (
	maxVerified = 64
	maxLookups  = 8
)

// provenToken is what a session token of which the signature is good says of its session.
// Whether that lives is read from the store at each request.
type provenToken struct {
	sub, sid, algorithm string
	jtiHash             []byte
	from, until         time.Time // when it may be taken for proven without another look
}

const (
	provenFor = time.Minute
	// maxProven bounds the memory of all of them to about 2 MB.
	maxProven = 4096
)

// provenTokens remembers session tokens whose signature was verified, so that a browser
// that comes again does not cost another verification, by the SHA-256 of the whole token: one
// that differs in its signature alone is another. Only what was verified is kept, so that
// strangers cannot fill it; of more than there is room for, the older half goes.
type provenTokens struct {
	mu          sync.Mutex
	young, aged map[[sha256.Size]byte]provenToken
}

func (p *provenTokens) find(key [sha256.Size]byte, now time.Time) (provenToken, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.young[key]
	if !ok {
		t, ok = p.aged[key]
	}
	return t, ok && !now.Before(t.from) && now.Before(t.until)
}

func (p *provenTokens) keep(key [sha256.Size]byte, t provenToken) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.young == nil || len(p.young) == maxProven/2 {
		p.young, p.aged = map[[sha256.Size]byte]provenToken{}, p.young
	}
	p.young[key] = t
}

// prove verifies a session token. Keys change only with a restart, which forgets all.
func (s *Service) prove(ctx context.Context, token string) (provenToken, error) {
	key, now := sha256.Sum256([]byte(token)), s.clock()
	if t, ok := s.proven.find(key, now); ok {
		return t, nil
	}
	c, err := s.verifier.Verify(ctx, token)
	if err != nil {
		return provenToken{}, err
	}
	t := provenToken{sub: c.Subject, sid: c.SessionID, algorithm: c.Algorithm, jtiHash: hashOf(c.ID), from: now, until: now.Add(provenFor)}
	if c.ExpiresAt.Before(t.until) {
		t.until = c.ExpiresAt
	}
	s.proven.keep(key, t)
	return t, nil
}

// isProven reports whether the signature of a session token was verified a moment ago.
func (s *Service) isProven(token string) bool {
	_, ok := s.proven.find(sha256.Sum256([]byte(token)), s.clock())
	return ok
}

// SessionEntry is a session as lists show it, to its user and to administrators.
type SessionEntry struct {
	ID         string    `json:"id"`
	Current    bool      `json:"current"` // the one that asks
	Device     string    `json:"device"`  // a short name from the User-Agent, or empty
	UserAgent  string    `json:"user_agent"`
	Address    string    `json:"address"`
	CreatedAt  time.Time `json:"created_at"`
	AuthTime   time.Time `json:"auth_time"`
	LastSeenAt time.Time `json:"last_seen_at"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// SessionEntries describes sessions; current is the id of the one that asks.
func SessionEntries(list []Session, current string) []SessionEntry {
	out := make([]SessionEntry, 0, len(list))
	for _, s := range list {
		out = append(out, SessionEntry{
			ID: s.ID, Current: s.ID == current, Device: web.Device(s.UserAgent), UserAgent: s.UserAgent, Address: s.Address,
			CreatedAt: s.CreatedAt.UTC(), AuthTime: s.AuthTime.UTC(), LastSeenAt: s.LastSeenAt.UTC(), ExpiresAt: s.ExpiresAt.UTC(),
		})
	}
	return out
}

// SessionRows is SessionEntries for pages.
func SessionRows(list []Session, current string) []templates.SessionRow {
	out := make([]templates.SessionRow, 0, len(list))
	for _, s := range list {
		browser, system := web.BrowserAndSystem(s.UserAgent)
		out = append(out, templates.SessionRow{
			ID: s.ID, Current: s.ID == current, Browser: browser, System: system, Address: s.Address,
			CreatedAt: s.AuthTime, LastSeenAt: s.LastSeenAt, ExpiresAt: s.ExpiresAt, Methods: methodTexts(s.AMR),
		})
	}
	return out
}

// methodTexts are the factors of a sign-in in words.
func methodTexts(amr []string) (texts []templates.Text) {
	for _, m := range amr {
		switch m {
		case MethodPassword:
			texts = append(texts, "Password")
		case MethodOTP:
			texts = append(texts, "Code")
		case MethodHardwareKey, MethodSoftwareKey:
			texts = append(texts, "Passkey")
		}
	}
	return texts
}

// cursor is the cursor of the page after a session.
func (s Session) cursor() string {
	return web.Cursor(strconv.FormatInt(s.CreatedAt.Unix(), 10) + "." + s.ID)
}

// isSessionID spares a query for what is no id of ours.
func isSessionID(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }

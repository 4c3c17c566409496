package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
	// ConfirmedAt is when the person last proved who they are, by a sign-in or any
	// factor: not before AuthTime.
	ConfirmedAt time.Time
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

// Live tells whether the session is live at the given time.
func (s Session) Live(now time.Time) bool { return s.EndedAt.IsZero() && now.Before(s.ExpiresAt) }

// MaxSessions is how many live sessions a user has at most.
const MaxSessions = 100

// Identity is who a request comes from.
type Identity struct {
	User    User
	Session Session

	algorithm string // of the token that proves the session; the row's where the host-only cookie does
}

// newSession prepares a session, signed in by the methods of amr (RFC 8176), and the
// secrets that only the browser gets.
func (s *Service) newSession(sub string, r *http.Request, amr ...string) (*Session, browserSecrets) {
	secrets := browserSecrets{jti: rand.Text()}
	now := s.now()
	n := &Session{
		ID: uuid.NewString(), Sub: sub, TokenHash: hashOf(secrets.jti), CreatedAt: now, AuthTime: now, LastSeenAt: now,
		ExpiresAt: now.Add(session.Lifetime), Address: web.ClientAddress(r), UserAgent: cut(r.UserAgent(), 256), Algorithm: s.minter.algorithm, AMR: amr, ConfirmedAt: now,
	}
	if s.cookies.login != "" {
		secrets.login = rand.Text() + rand.Text() // 260 bits
		n.LoginHash = hashOf(secrets.login)
	}
	return n, secrets
}

// Current finds the live session of a request. ErrNotAuthenticated when there
// is none; any other error is a failure of the database (503, never 401).
func (s *Service) Current(r *http.Request) (*Identity, error) { return s.live(r, s.eachProof()) }

// sessionProofs calls yield with the sessions that cookies of a request prove.
type sessionProofs func(r *http.Request, yield func(*Identity) bool) error

// eachProof are those of this service. With a cookie domain only the host-only cookie
// counts: a sibling host or a holder of the shared secret cannot make one.
func (s *Service) eachProof() sessionProofs {
	if s.cookies.login != "" {
		return s.eachByLogin
	}
	return s.eachByToken
}

// live is the session that is live and its user, who is not suspended.
func (s *Service) live(r *http.Request, each sessionProofs) (*Identity, error) {
	id, err := s.findSession(r, each)
	if err != nil {
		return nil, err
	}
	now := s.now()
	if !id.Session.Live(now) || id.User.Suspended() {
		return nil, ErrNotAuthenticated
	}
	web.NoteUser(r.Context(), id.User.Sub)
	templates.SetMemberLanguage(r.Context(), id.User.Profile.Locale)
	if now.Sub(id.Session.LastSeenAt) >= touchInterval {
		s.visits.note(id.Session.ID, now)
	}
	return id, nil
}

// findSession returns the session row that the request's cookies prove,
// whatever its state, a live one if there are several. A token that has ceased to
// count proves none.
func (s *Service) findSession(r *http.Request, each sessionProofs) (*Identity, error) {
	var found *Identity
	var failed error
	err := each(r, func(id *Identity) bool {
		var over bool
		if over, failed = s.retired(r.Context(), id.algorithm); over || failed != nil {
			return failed == nil
		}
		if found == nil || id.Session.Live(s.now()) {
			found = id
		}
		return !found.Session.Live(s.now())
	})
	if err := cmp.Or(err, failed); err != nil {
		return nil, err
	}
	if found == nil {
		return nil, ErrNotAuthenticated
	}
	return found, nil
}

// eachByLogin calls yield with the sessions that the host-only cookies prove.
func (s *Service) eachByLogin(r *http.Request, yield func(*Identity) bool) error {
	if s.cookies.login == "" {
		return nil
	}
	for _, c := range firstCookies(r.CookiesNamed(s.cookies.login), maxLookups) {
		if len(c.Value) < 40 || len(c.Value) > 64 {
			continue
		}
		row, u, err := s.store.SessionByLoginHash(r.Context(), hashOf(c.Value))
		if errors.Is(err, ErrSessionNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("find session: %w", err)
		}
		if !yield(&Identity{User: u, Session: row, algorithm: row.Algorithm}) {
			return nil
		}
	}
	return nil
}

// eachByToken calls yield with the sessions that the session tokens prove. Planted
// cookies of the same name may stand before the genuine one: it tries each.
func (s *Service) eachByToken(r *http.Request, yield func(*Identity) bool) error {
	lookups := 0
	for _, c := range firstCookies(r.CookiesNamed(s.cookies.session), maxVerified) {
		token, err := s.prove(r.Context(), c.Value)
		if err != nil {
			continue
		}
		if lookups++; lookups > maxLookups {
			break
		}
		row, u, err := s.store.Session(r.Context(), token.sid)
		if errors.Is(err, ErrSessionNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("find session: %w", err)
		}
		if row.Sub != token.sub || subtle.ConstantTimeCompare(row.TokenHash, token.jtiHash) != 1 {
			continue
		}
		if !yield(&Identity{User: u, Session: row, algorithm: token.algorithm}) {
			return nil
		}
	}
	return nil
}

// endSessions ends the sessions whose cookies the request has and the browser is
// about to lose, or those of one user if sub is not empty, and returns the user of
// one. Other applications may go by a token that this service does not accept any more, or,
// with a cookie domain, not by itself: its holder may end the session.
func (s *Service) endSessions(r *http.Request, sub string) (ended string, err error) {
	now, proven := s.now(), map[string]User{} // by session
	note := func(id *Identity) bool {
		if id.Session.Live(now) && (sub == "" || id.User.Sub == sub) {
			proven[id.Session.ID] = id.User
		}
		return true
	}
	if err := errors.Join(s.eachByLogin(r, note), s.eachByToken(r, note)); err != nil {
		return "", err
	}
	for id, user := range proven {
		err := s.store.EndSession(r.Context(), user.Sub, id, now, ActorFor(r, user).Own(now, "session.end", id))
		if err != nil && !errors.Is(err, ErrSessionNotFound) {
			return "", fmt.Errorf("end session: %w", err)
		}
		ended = user.Sub
	}
	return ended, nil
}

// How much work a header full of cookies of our name can cause: signatures to
// verify, and rows to look up.
const (
	maxVerified = 64
	maxLookups  = 8
)

func firstCookies(c []*http.Cookie, n int) []*http.Cookie { return c[:min(len(c), n)] }

// SignOut ends the sessions of the request, if any, and clears its cookies. With sub
// only those of one user are ended: who may sign out one may not sign out others.
func (s *Service) SignOut(w http.ResponseWriter, r *http.Request, sub string) error {
	ended, err := s.endSessions(r, sub)
	if err != nil {
		return err
	}
	if ended != "" {
		web.NoteUser(r.Context(), ended)
		web.Note(r.Context(), "logout")
	}
	s.clearCookies(w)
	return nil
}

type identityKey struct{}

// IdentityFrom returns the identity that RequireSession put into the context.
func IdentityFrom(ctx context.Context) *Identity {
	id, _ := ctx.Value(identityKey{}).(*Identity)
	return id
}

// RequireSession serves next with the identity in the context, or answers 401.
func (s *Service) RequireSession(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, "", false)
}

// RequireAdmin is RequireSession for administrators; others get 403. The flag
// is read from the store at each request: losing it works at once.
func (s *Service) RequireAdmin(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, FlagAdmin, false)
}

// RequirePage is RequireSession for pages: who is not signed in is sent to the
// sign-in page.
func (s *Service) RequirePage(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, "", true)
}

// RequireAdminPage is RequireAdmin for pages.
func (s *Service) RequireAdminPage(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, FlagAdmin, true)
}

func (s *Service) require(next http.HandlerFunc, flag string, page bool) http.HandlerFunc {
	return s.Do(func(w http.ResponseWriter, r *http.Request) error {
		id, err := s.Current(r)
		switch {
		case page && errors.Is(err, ErrNotAuthenticated):
			return s.Redirect(w, r, "/login/")
		case err != nil:
			return err
		case flag != "" && !id.User.Has(flag):
			return ErrAdminRequired
		}
		if err := s.CheckSecondFactor(r.Context(), id); err != nil && !s.forFactors(r, err) {
			if page && (errors.Is(err, ErrSecondFactorRequired) || errors.Is(err, ErrSecondFactorSetupRequired)) {
				return s.sendToFactor(w, r, err)
			}
			return err
		}
		next(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
		return nil
	})
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
			ID: s.ID, Current: s.ID == current, Device: Device(s.UserAgent), UserAgent: s.UserAgent, Address: s.Address,
			CreatedAt: s.CreatedAt.UTC(), AuthTime: s.AuthTime.UTC(), LastSeenAt: s.LastSeenAt.UTC(), ExpiresAt: s.ExpiresAt.UTC(),
		})
	}
	return out
}

// SessionRows is SessionEntries for pages.
func SessionRows(list []Session, current string) []templates.SessionRow {
	out := make([]templates.SessionRow, 0, len(list))
	for _, s := range list {
		browser, system := browserAndSystem(s.UserAgent)
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

const (
	sessionPage    = 50 // sessions a page of the API
	latestSessions = 20 // sessions that pages show at first
)

// ShownSessions are those that a page shows: the latest, or as many as there are if
// its address asks for all; more tells whether there are others.
func ShownSessions(r *http.Request, list []Session) (shown []Session, more bool) {
	if len(list) <= latestSessions || r.URL.Query().Get("sessions") == "all" {
		return list, false
	}
	return list[:latestSessions], true
}

// cursor is the cursor of the page after a session.
func (s Session) cursor() string {
	return web.Cursor(strconv.FormatInt(s.CreatedAt.Unix(), 10) + "." + s.ID)
}

// pageOf is the page of a list that the request asks for, and the cursor of the next
// one: the sessions older than the one of the cursor, which may have ended since.
func pageOf(r *http.Request, list []Session) (page []Session, next *string, err error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, nil, ErrInvalidCursor
	}
	key, err := web.ReadCursor(q)
	if err != nil {
		return nil, nil, err
	}
	if key != "" {
		at, id, _ := strings.Cut(key, ".")
		seconds, err := strconv.ParseInt(at, 10, 64)
		after := Session{ID: id, CreatedAt: time.Unix(seconds, 0)}
		if err != nil || !isSessionID(id) || after.cursor() != q.Get("cursor") {
			return nil, nil, ErrInvalidCursor
		}
		list = slices.DeleteFunc(list, func(s Session) bool {
			return cmp.Or(s.CreatedAt.Compare(after.CreatedAt), cmp.Compare(s.ID, id)) >= 0
		})
	}
	if len(list) <= sessionPage {
		return list, nil, nil
	}
	cursor := list[sessionPage-1].cursor()
	return list[:sessionPage], &cursor, nil
}

// isSessionID spares a query for what is no id of ours.
func isSessionID(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }

type sessionList struct {
	Sessions   []SessionEntry `json:"sessions"`
	NextCursor *string        `json:"next_cursor"` // null: the last page
}

func (s *Service) apiSessions(w http.ResponseWriter, r *http.Request) error {
	id := IdentityFrom(r.Context())
	list, err := s.store.Sessions(r.Context(), id.User.Sub, s.now())
	if err != nil {
		return err
	}
	page, next, err := pageOf(r, list)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, sessionList{Sessions: SessionEntries(page, id.Session.ID), NextCursor: next})
}

// endOwnSession ends a session of the signed-in user, perhaps the one that asks.
func (s *Service) endOwnSession(w http.ResponseWriter, r *http.Request) error {
	id, sid := IdentityFrom(r.Context()), operand(r, "id")
	if !isSessionID(sid) {
		return ErrSessionNotFound
	}
	err := s.store.EndSession(r.Context(), id.User.Sub, sid, s.now(), s.ownAudit(r, "session.end", sid))
	if err == nil && sid == id.Session.ID {
		s.clearCookies(w)
	}
	return web.Noted(r.Context(), "session_ended", err)
}

func (s *Service) endOtherSessions(_ http.ResponseWriter, r *http.Request) error {
	id := IdentityFrom(r.Context())
	_, err := s.store.EndOtherSessions(r.Context(), id.User.Sub, id.Session.ID, s.now(), s.ownAudit(r, "session.end_others", ""))
	return web.Noted(r.Context(), "sessions_ended", err)
}

const (
	// touchInterval is how often a visit of a session is written down at most.
	touchInterval = time.Minute
	// visitInterval is how often collected visits are written.
	visitInterval = 5 * time.Second
	// visitTimeout bounds the last batch: a stop does not wait for a database that is away.
	visitTimeout = 5 * time.Second
	// maxVisits is how many wait at most. Those beyond it are noted again by the next
	// request of their session.
	maxVisits = 10_000
)

// visits are the sessions that were seen and when, until they are written. No
// request waits for that: it is a write, and another process may hold the database.
type visits struct {
	mu   sync.Mutex
	seen map[string]time.Time // by session
}

// note keeps the later of two visits.
func (v *visits) note(session string, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, known := v.seen[session]
	if !known && len(v.seen) >= maxVisits || at.Before(before) {
		return
	}
	if v.seen == nil {
		v.seen = map[string]time.Time{}
	}
	v.seen[session] = at
}

// take empties it.
func (v *visits) take() map[string]time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.seen
	v.seen = nil
	return seen
}

// seenStore lists sessions with the visits that are not written yet.
type seenStore struct {
	Store
	visits *visits
}

// Sessions implements SessionStore.
func (s seenStore) Sessions(ctx context.Context, sub string, now time.Time) ([]Session, error) {
	list, err := s.Store.Sessions(ctx, sub, now)
	s.visits.mu.Lock()
	defer s.visits.mu.Unlock()
	for i, n := range list {
		if at, ok := s.visits.seen[n.ID]; ok && at.After(n.LastSeenAt) {
			list[i].LastSeenAt = at
		}
	}
	return list, err
}

// WriteVisits writes when sessions were last seen, in batches. It returns when ctx
// ends, and then has written what came before.
func (s *Service) WriteVisits(ctx context.Context) {
	tick := time.NewTicker(visitInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.writeVisits(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), visitTimeout)
			defer cancel()
			s.writeVisits(last)
			return
		}
	}
}

func (s *Service) writeVisits(ctx context.Context) {
	batch := s.visits.take()
	if len(batch) == 0 {
		return
	}
	if err := s.store.TouchSessions(ctx, batch); err != nil {
		for session, at := range batch {
			s.visits.note(session, at)
		}
		if ctx.Err() == nil {
			s.log.Warn("visits of sessions not written yet", "sessions", len(batch), "error", err)
		}
	}
}

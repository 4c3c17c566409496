package person

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Identity is the user and session of a request.
type Identity struct {
	User    account.User
	Session account.Session

	algorithm string // of the token that proves the session, or that of the row
	foreign   bool   // see liveSessions
}

// SignedIn is the result of a successful sign-in, with the secrets for the browser.
type SignedIn struct {
	User    account.User
	Session account.Session

	Token string   // the session token; empty: the browser keeps its own
	Login string   // the value of the host-only cookie, where there is one
	Marks []string // of known devices; nil: the browser keeps its own
	Step  string   // the first of two steps, sealed; with ErrSecondFactorRequired alone
}

// Proven is a successful proof of identity.
type Proven struct {
	user    account.User // read before the proof
	amr     []string     // RFC 8176
	passkey []byte       // the credential id of the passkey, if it was one
	step    int64        // the time step of the authenticator app's code, if it was one
	first   bool         // it has just been chosen, by the code for a first password
}

// ProvenByPasskey is the proof by a passkey with user verification.
func ProvenByPasskey(u account.User, k account.Passkey) Proven {
	return Proven{user: u, amr: []string{k.Method(), account.MethodUser, account.MethodMultiFactor}, passkey: k.ID}
}

// openSession creates the session of a user after the proof. It refuses if the user has changed
// since they were read, or has a second factor that is not among the methods. The same person in
// the same browser keeps the session and its sid, which clients know; only its secrets are new.
func (s *Service) openSession(ctx context.Context, c account.Caller, p Proven) (SignedIn, error) {
	former, err := s.liveSessions(ctx, c.Browser)
	if err != nil {
		return SignedIn{}, err
	}
	for _, id := range former {
		if id.User.Sub != p.user.Sub || id.foreign {
			continue
		}
		out, err := s.renewSession(ctx, c, id.Session, p, account.SignInAgain)
		if !errors.Is(err, account.ErrSessionNotFound) { // it has ended meanwhile
			return out, err
		}
	}
	return s.saveSession(ctx, c, p, account.Session{}, account.SignIn, func(row *account.Session,
		a account.Audit) error {
		if err := s.Store().CreateSession(ctx, row, p.user.PasswordHash, a); err != nil {
			return sessionCreateError("create session", err)
		}
		return s.endEach(ctx, c, former) // the browser's previous cookie is about to be overwritten
	})
}

// renewSession gives a session a new proof and new secrets, and revokes the previous token. The
// session may be a copy, whose browser becomes a known one too. ErrSessionNotFound.
func (s *Service) renewSession(
	ctx context.Context, c account.Caller, old account.Session, p Proven, act account.Act,
) (SignedIn, error) {
	return s.saveSession(ctx, c, p, old, act, func(row *account.Session, a account.Audit) error {
		if err := s.Store().Reauthenticate(ctx, row, p.user.PasswordHash, a); err != nil {
			return sessionCreateError("sign in again", err)
		}
		return nil
	})
}

// saveSession finishes a sign-in. write stores the session, which takes the place of old unless that
// is zero, with its audit row and the mails to its owner. Then the token is signed.
func (s *Service) saveSession(
	ctx context.Context, c account.Caller, p Proven, old account.Session, act account.Act,
	write func(*account.Session, account.Audit) error,
) (SignedIn, error) {
	marks, err := s.knownMarks(ctx, c.Browser, p.user)
	if err != nil {
		return SignedIn{}, err
	}
	c.Browser.Marks = marks
	row, out := s.newSession(c, p)
	if old.ID != "" {
		row.ID, row.CreatedAt = old.ID, old.CreatedAt
		row.DeviceKey, row.DeviceProvenAt = old.DeviceKey, old.DeviceProvenAt
		if old.Shared() && !c.Shared { // a confirmation does not ask again whose computer it is
			row.ExpiresAt = old.ExpiresAt
		}
	}
	if err := s.checkToken(ctx, p.user, row); err != nil {
		return SignedIn{}, err
	}
	a := s.signInAudit(c.As(p.user), act, row)
	notices, err := s.newDeviceNotices(ctx, c, p, row)
	if err != nil {
		return SignedIn{}, err
	}
	if err := write(row, a.With(notices...)); err != nil {
		return SignedIn{}, err
	}
	// Read again: a flag that was lost before the session was stored ended no session, and one that is
	// lost from now on ends this one.
	if p.user, err = s.Store().UserBySub(ctx, p.user.Sub); err != nil {
		return SignedIn{}, sessionCreateError("read user", err)
	}
	out.User = p.user
	shown := shownFactors(p.amr)
	if !row.Shared() {
		out.Marks = s.withMark(c.Browser.Marks, p.user)
	} else if left := s.withoutMark(c.Browser.Marks, p.user); len(left) < len(c.Browser.Marks) {
		out.Marks = left // of a reset, or from before others used the browser too
	}
	web.NoteUser(ctx, p.user.Sub)
	web.NoteSignIn(ctx, web.SignInSuccess, shown)
	out.Session = *row
	out.Token, err = s.sessionToken(ctx, p.user, row, out.Token)
	return out, err
}

// newSession returns a session to store, with the secrets that only the browser gets.
func (s *Service) newSession(c account.Caller, p Proven) (*account.Session, SignedIn) {
	now, jti := s.Now(), rand.Text()
	n := &account.Session{
		ID: uuid.NewString(), Sub: p.user.Sub, TokenHash: account.HashSecret(jti),
		CreatedAt: now, AuthTime: now, LastSeenAt: now,
		ConfirmedAt: now,
		ExpiresAt:   now.Add(s.sessionLifetime()), Address: c.Address, UserAgent: c.UserAgent,
		Algorithm: s.minter.algorithm,
		AMR:       p.amr, Passkey: p.passkey, TimeStep: p.step,
	}
	n.KnownSince, _ = s.markMade(s.markIn(c.Browser, p.user), p.user)
	if c.Shared {
		n.ExpiresAt = now.Add(account.SharedLifetime)
	}
	out := SignedIn{User: p.user, Token: jti}
	if s.cookies.Login != "" {
		out.Login = rand.Text() + rand.Text() // 260 bits
		n.LoginHash = account.HashSecret(out.Login)
	}
	return n, out
}

// sessionLifetime returns how long a new session lives.
func (s *Service) sessionLifetime() time.Duration {
	v, err := s.sharedSettings(context.Background())
	if err != nil || v.SessionDays < 1 { // then no session is stored either
		return session.Lifetime
	}
	return min(session.Lifetime, time.Duration(v.SessionDays)*24*time.Hour)
}

// sessionCreateError converts the error of creating a session: an account that was deleted while
// its password was compared is answered like an unknown one.
func sessionCreateError(doing string, err error) error {
	if errors.Is(err, account.ErrUserNotFound) {
		return account.ErrInvalidCredentials
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Factors of sign-ins, as they are counted.
const (
	factorPassword = "password"
	factorCode     = "code" // of an authenticator app, or a recovery code, after the password
	factorPasskey  = "passkey"
)

func shownFactors(amr []string) string {
	var shown []string
	for _, of := range [][2]string{
		{account.MethodPassword, factorPassword}, {account.MethodOTP, factorCode}, {account.MethodUser, factorPasskey},
	} {
		if slices.Contains(amr, of[0]) {
			shown = append(shown, of[1])
		}
	}
	return strings.Join(shown, "+")
}

// signInAudit returns the audit row of a sign-in, with its methods and the device.
func (s *Service) signInAudit(c account.Caller, act account.Act, n *account.Session) account.Audit {
	detail := strings.Join(n.AMR, " ")
	if c.Device != "" {
		detail += ", " + c.Device
	}
	return s.audit(c, act, c.Name, detail)
}

// identities returns the sessions that cookies prove, in any state. An error is a failure of the
// database.
type identities iter.Seq2[*Identity, error]

// sessionProof finds the sessions proven by one kind of cookie.
type sessionProof func(ctx context.Context, b account.Browser) identities

// sessionProofs returns the proofs that this service accepts. Only the first one opens it. With a
// cookie domain that is the host-only cookie, which neither a sibling host nor a holder of the
// shared secret can make.
func (s *Service) sessionProofs() []sessionProof {
	if s.cookies.Login != "" {
		return []sessionProof{s.byLogin, s.byToken}
	}
	return []sessionProof{s.byToken}
}

// Identify returns the live session of a browser. ErrNotAuthenticated if there is none,
// ErrDeviceProofRequired if only the proof of its device is missing; any other error is a failure of the
// database.
func (s *Service) Identify(ctx context.Context, b account.Browser) (*Identity, error) {
	id, err := s.live(ctx, s.proofs[0](ctx, b))
	if err == nil && s.unproven(id.Session, b) {
		return nil, s.refuseUnproven(ctx, id)
	}
	return id, err
}

// SessionToEnd is Identify for a sign-out, which needs no proof of the device.
func (s *Service) SessionToEnd(ctx context.Context, b account.Browser) (*Identity, error) {
	return s.live(ctx, s.proofs[0](ctx, b))
}

// LastSession returns the session of a browser in any state. ErrNotAuthenticated if there is none.
func (s *Service) LastSession(ctx context.Context, b account.Browser) (*Identity, error) {
	return s.findSession(ctx, s.proofs[0](ctx, b))
}

// IdentityOf returns the identity of a person who has just signed in.
func (s *Service) IdentityOf(in SignedIn) *Identity {
	return &Identity{User: in.User, Session: in.Session, algorithm: s.minter.algorithm}
}

// live returns the live session, whose user is not suspended.
func (s *Service) live(ctx context.Context, of identities) (*Identity, error) {
	id, err := s.findSession(ctx, of)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	// A session of a clock that was ahead does not live before it began: what it makes would be older than it.
	if !id.Session.Live(now) || id.User.Suspended() || id.Session.AuthTime.After(now.Add(time.Minute)) {
		return nil, account.ErrNotAuthenticated
	}
	web.NoteUser(ctx, id.User.Sub)
	templates.SetMember(ctx, id.User.Handle, id.User.Profile.Locale, id.User.Profile.Zoneinfo)
	if now.Sub(id.Session.LastSeenAt) >= touchInterval {
		s.visits.note(id.Session.ID, now)
	}
	return id, nil
}

// findSession returns one of the sessions in any state, a live one if there is one. A token that is
// no longer accepted proves none.
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
		if found == nil || id.Session.Live(s.Now()) {
			found = id
		}
		if found.Session.Live(s.Now()) {
			break
		}
	}
	if found == nil {
		return nil, account.ErrNotAuthenticated
	}
	return found, nil
}

// liveSessions returns the live sessions that any cookie of a browser proves, each once. foreign is
// set on those that do not open this service.
func (s *Service) liveSessions(ctx context.Context, b account.Browser) ([]*Identity, error) {
	var live []*Identity
	for i, proof := range s.proofs {
		for id, err := range proof(ctx, b) {
			if err != nil {
				return nil, err
			}
			known := slices.ContainsFunc(live, func(other *Identity) bool { return other.Session.ID == id.Session.ID })
			if known || !id.Session.Live(s.Now()) {
				continue
			}
			if id.foreign, err = s.retired(ctx, id.algorithm); err != nil {
				return nil, err
			}
			id.foreign = id.foreign || i > 0 || s.unproven(id.Session, b)
			live = append(live, id)
		}
	}
	return live, nil
}

// byLogin returns the sessions that the host-only cookies prove.
func (s *Service) byLogin(ctx context.Context, b account.Browser) identities {
	return func(yield func(*Identity, error) bool) {
		for _, value := range b.Logins[:min(len(b.Logins), maxLookups)] {
			row, u, err := s.Store().SessionByLoginHash(ctx, account.HashSecret(value))
			if errors.Is(err, account.ErrSessionNotFound) {
				continue
			}
			if !yield(&Identity{User: u, Session: row, algorithm: row.Algorithm}, err) || err != nil {
				return
			}
		}
	}
}

// byToken returns the sessions that the session tokens prove. It tries each, because an attacker's
// cookie of the same name may come before the genuine one.
func (s *Service) byToken(ctx context.Context, b account.Browser) identities {
	return func(yield func(*Identity, error) bool) {
		lookups := 0
		for _, value := range b.Tokens[:min(len(b.Tokens), maxVerified)] {
			token, err := s.prove(ctx, value)
			if err != nil {
				continue
			}
			if lookups++; lookups > maxLookups {
				return
			}
			row, u, err := s.Store().Session(ctx, token.sid)
			if errors.Is(err, account.ErrSessionNotFound) {
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

// retired reports whether tokens of this algorithm are no longer accepted because the shared secret
// may have signed them: Settings.HS256Until has passed, and there is a key to sign new ones with.
func (s *Service) retired(ctx context.Context, algorithm string) (bool, error) {
	if s.minter.algorithm != account.AlgorithmRS256 || algorithm == account.AlgorithmRS256 {
		return false, nil
	}
	v, err := s.Settings(ctx)
	if err != nil {
		return false, err
	}
	return v.HS256Over(s.Now()), nil
}

// Limits of the work that a header full of our cookies can cause: signatures to verify, and rows to
// read.
const (
	maxVerified = 64
	maxLookups  = 8
)

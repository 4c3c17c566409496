package account

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// Credentials are what a person enters to sign in.
type Credentials struct {
	Handle   string `json:"handle"`
	Password string `json:"password"`
	OTP      string `json:"otp"`
}

// SignedIn is the result of a successful sign-in, with the secrets for the browser.
type SignedIn struct {
	User    User
	Session Session

	token string   // the session token; empty: the browser keeps its own
	login string   // the value of the host-only cookie, where there is one
	marks []string // of known devices; nil: the browser keeps its own
	step  string   // the first of two steps, sealed; with ErrSecondFactorRequired alone
}

// proven is a successful proof of identity.
type proven struct {
	user    User     // read before the proof
	amr     []string // RFC 8176
	passkey []byte   // the credential id of the passkey, if it was one
}

var (
	passwordAlone   = []string{MethodPassword}
	passwordAndCode = []string{MethodPassword, MethodOTP, MethodMultiFactor}
)

// SignIn checks the credentials and creates the session. An unknown handle and a wrong password
// give the same error at the same cost. ErrSuspended comes only after the right password.
//
// ErrSecondFactorRequired comes after the right password of a user with a second factor: the
// browser gets a cookie with which the code alone continues.
func (s *Service) SignIn(ctx context.Context, c Caller, in Credentials) (SignedIn, error) {
	out, err := s.signIn(ctx, c, in)
	switch {
	case errors.Is(err, ErrInvalidCredentials):
		web.NoteSignIn(ctx, web.SignInFailed, factorPassword)
	case errors.Is(err, ErrInvalidOTP):
		web.NoteSignIn(ctx, web.SignInFailed, factorCode)
	case errors.Is(err, ErrSuspended):
		web.NoteSignIn(ctx, web.SignInSuspended, factorPassword)
	}
	return out, err
}

func (s *Service) signIn(ctx context.Context, c Caller, in Credentials) (SignedIn, error) {
	if in.Handle == "" && in.Password == "" && in.OTP != "" {
		return s.secondStep(ctx, c, in.OTP)
	}
	u, err := s.checkPassword(ctx, c, in.Handle, in.Password)
	if err != nil {
		return SignedIn{}, err
	}
	if u.SecondFactor && in.OTP != "" {
		if err := s.checkOTP(ctx, c.as(u), in.OTP); err != nil {
			return SignedIn{}, err
		}
		return s.openSession(ctx, c, proven{user: u, amr: passwordAndCode})
	}
	if !u.SecondFactor {
		out, err := s.openSession(ctx, c, proven{user: u, amr: passwordAlone})
		if !errors.Is(err, ErrSecondFactorRequired) { // a factor was added meanwhile
			return out, err
		}
	}
	return s.askSecondFactor(ctx, u)
}

// checkPassword finds the user by a handle or a verified address and compares the password, within
// the limits. The limits count the typed text, because a limit must not reveal whose address an
// address is.
func (s *Service) checkPassword(ctx context.Context, c Caller, typed, password string) (User, error) {
	typed = withoutAt(typed)
	// Limits are checked before anything costs processor time.
	address := web.LimitKey{Name: web.LimitLogin, Key: c.Address}
	if err := s.limits.Blocked(ctx, address); err != nil {
		return User{}, err
	}
	u, err := s.userNamed(ctx, typed)
	if err != nil {
		return User{}, err
	}
	key := accountKey(typed)
	account := s.accountLimit(ctx, c, key, u)
	signIns := web.LimitKey{Name: web.LimitSignIn, Key: key + " " + c.Address}
	for _, limit := range []web.LimitKey{account, signIns} {
		if err := s.limits.Blocked(ctx, limit); err != nil {
			return User{}, err
		}
	}
	refusal, err := s.refusals.Get(ctx, "")
	if err != nil {
		return User{}, err
	}
	leave, err := s.hasher.Enter(ctx, key)
	if err != nil {
		return User{}, err
	}
	defer leave()
	// In the slot: at most one attempt per core runs at once.
	err = s.limits.Guess(ctx, []web.LimitKey{address, account}, ErrInvalidCredentials, func() error {
		if !s.hasher.Match(u.PasswordHash, password, refusal) || u.Sub == "" {
			return ErrInvalidCredentials
		}
		return nil
	})
	if err == nil {
		err = s.limits.Count(ctx, signIns)
	}
	if err != nil {
		return User{}, err
	}
	if u.Suspended() {
		return User{}, s.refuseSuspended(ctx, c.as(u))
	}
	if s.hasher.Outdated(u.PasswordHash) {
		s.upgradeHash(ctx, &u, password)
	}
	return u, nil
}

// userNamed returns the user with the handle, or the only one with the verified address, or the
// zero User. Each costs one statement.
func (s *Service) userNamed(ctx context.Context, typed string) (User, error) {
	var u User
	var err error
	if strings.Contains(typed, "@") {
		email, invalid := CheckEmail(typed)
		if invalid != nil {
			return User{}, nil
		}
		u, err = s.store.UserByEmail(ctx, email)
	} else {
		handle, invalid := CanonicalHandle(typed)
		if invalid != nil {
			return User{}, nil
		}
		u, err = s.store.UserByHandle(ctx, handle)
	}
	if err != nil && !errors.Is(err, ErrUserNotFound) {
		return User{}, fmt.Errorf("find user: %w", err)
	}
	return u, nil
}

// checkOTP accepts a code of the authenticator app of the caller's account or a recovery code, each
// once, under the limits of a sign-in. Codes of apps can be guessed, so they have another limit
// from which no address is exempt. Only somebody with the password or the session can exhaust it,
// and it does not apply to recovery codes.
func (s *Service) checkOTP(ctx context.Context, c Caller, typed string) error {
	u := c.User
	limits := []web.LimitKey{{Name: web.LimitLogin, Key: c.Address}, s.accountLimit(ctx, c, u.Handle, u)}
	code, isTOTP := totpCode(typed)
	if isTOTP {
		limits = append(limits,
			web.LimitKey{Name: web.LimitSecondFactor, Key: u.Sub, Exempt: func(refusal error) error {
				s.recordLimited(ctx, c, u, "session.limited", refusal)
				return refusal
			}})
	}
	return s.limits.Guess(ctx, limits, ErrInvalidOTP, func() (err error) {
		good := false
		if isTOTP {
			good, err = s.useTOTP(ctx, u.Sub, code)
		} else {
			good, err = s.useRecoveryCode(ctx, c, typed)
		}
		if err == nil && !good {
			s.recordRefusal(ctx, s.audit(c, "factor.refused", c.Name, ""))
			err = ErrInvalidOTP
		}
		return err
	})
}

// useTOTP accepts a code of the user's authenticator app once.
func (s *Service) useTOTP(ctx context.Context, sub, code string) (bool, error) {
	f, err := s.store.Factors(ctx, sub)
	if err != nil || f.TOTP == nil {
		return false, err
	}
	step, ok := timeStep(f.TOTP.Secret, code, s.now(), f.TOTP.LastStep)
	if !ok {
		return false, nil
	}
	return s.store.UseTOTP(ctx, sub, step, s.now())
}

// useRecoveryCode spends a recovery code of the caller's account and notifies the owner. Codes of
// an earlier version are shorter.
func (s *Service) useRecoveryCode(ctx context.Context, c Caller, typed string) (bool, error) {
	code := canonicalCode(typed, resetCodeLength)
	if code == "" {
		code = canonicalCode(typed, inviteCodeLength)
	}
	if code == "" {
		return false, nil
	}
	a, err := s.begin(ctx, c, "factor.recovery_code_used", "")
	if err != nil {
		return false, err
	}
	return s.store.UseRecoveryCode(ctx, c.User.Sub, HashSecret(code), s.now(), a)
}

// accountLimit returns the limit key of the failures of an account; u may be the zero User.
// Addresses from which the account signed in before are exempt, so that strangers cannot lock an
// owner out; their own limit still holds.
func (s *Service) accountLimit(ctx context.Context, c Caller, key string, u User) web.LimitKey {
	return web.LimitKey{Name: web.LimitLoginAccount, Key: key, Exempt: func(refusal error) error {
		known, err := s.store.KnownAddress(ctx, cmp.Or(u.Sub, nobody), c.Address)
		switch {
		case err != nil:
			return fmt.Errorf("find known address: %w", err)
		case known:
			return nil
		}
		s.recordLimited(ctx, c, u, "session.limited", refusal)
		return refusal
	}}
}

// accountKey folds a typed handle or address, so that another spelling does not give further
// attempts.
func accountKey(typed string) string {
	if h, err := CanonicalHandle(typed); err == nil {
		return h
	}
	return strings.ToLower(text.Cut(strings.TrimSpace(typed), 64))
}

// upgradeHash replaces a hash of an older form. A failure does not refuse the sign-in.
func (s *Service) upgradeHash(ctx context.Context, u *User, password string) {
	hash, err := s.hasher.Rehash(password)
	if err == nil {
		err = s.store.UpgradeHash(ctx, u.Sub, u.PasswordHash, hash)
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			s.log.WarnContext(ctx, "password hash not upgraded", "user", u.Sub, "error", err)
		}
		return
	}
	u.PasswordHash = hash
}

// refuseSuspended returns ErrSuspended, after the right proof.
func (s *Service) refuseSuspended(ctx context.Context, c Caller) error {
	s.recordRefusal(ctx, s.audit(c, "session.refused", c.Name, "suspended"))
	return ErrSuspended
}

// signInStep is a sign-in after the right password, sealed in a cookie of that browser. It is good
// for one session.
type signInStep struct {
	Sub      string `json:"sub"`
	Password []byte `json:"password"` // see passwordMark: a new password voids the step
	Nonce    string `json:"nonce"`
}

const signInSeal = "second-factor"

// passwordMark identifies the password of a user in sealed values of a browser.
func (s *Service) passwordMark(u User) []byte {
	m := hmac.New(sha256.New, s.deviceKey)
	_, _ = fmt.Fprintf(m, "password %s %s", u.Sub, u.PasswordHash)
	return m.Sum(nil)
}

// askSecondFactor returns ErrSecondFactorRequired with the methods of u and the cookie to continue
// with.
func (s *Service) askSecondFactor(ctx context.Context, u User) (SignedIn, error) {
	step, err := s.seal.Seal(signInSeal, signInStep{Sub: u.Sub, Password: s.passwordMark(u), Nonce: rand.Text()})
	if err != nil {
		return SignedIn{}, err
	}
	web.NoteUser(ctx, u.Sub)
	return SignedIn{step: step}, s.secondFactorRequired(ctx, u)
}

// secondFactorRequired returns ErrSecondFactorRequired with the methods of u.
func (s *Service) secondFactorRequired(ctx context.Context, u User) error {
	f, err := s.store.Factors(ctx, u.Sub)
	if err != nil {
		return err
	}
	p := *ErrSecondFactorRequired
	p.Methods = s.factorMethods(f)
	return &p
}

// pendingSignIn returns the user whose password was recently right in this browser.
// ErrSignInExpired if there is none, ErrSuspended.
func (s *Service) pendingSignIn(ctx context.Context, c Caller) (User, signInStep, error) {
	var step signInStep
	if c.browser.step == "" || s.seal.Open(signInSeal, c.browser.step, &step) != nil {
		return User{}, step, ErrSignInExpired
	}
	u, err := s.store.UserBySub(ctx, step.Sub)
	switch {
	case errors.Is(err, ErrUserNotFound):
		return User{}, step, ErrSignInExpired
	case err != nil:
		return User{}, step, err
	case !u.SecondFactor || !hmac.Equal(s.passwordMark(u), step.Password):
		return User{}, step, ErrSignInExpired
	case u.Suspended():
		return User{}, step, ErrSuspended
	}
	return u, step, nil
}

// secondStep checks the code after the password.
func (s *Service) secondStep(ctx context.Context, c Caller, otp string) (SignedIn, error) {
	u, step, err := s.pendingSignIn(ctx, c)
	if err != nil {
		return SignedIn{}, err
	}
	if err := s.checkOTP(ctx, c.as(u), otp); err != nil {
		return SignedIn{}, err
	}
	return s.finishSignIn(ctx, c, step, proven{user: u, amr: passwordAndCode})
}

// PasskeySecondStep checks the passkey after the password.
func (s *Service) PasskeySecondStep(ctx context.Context, c Caller, in answeredCeremony) (SignedIn, error) {
	u, step, err := s.pendingSignIn(ctx, c)
	if err != nil {
		return SignedIn{}, err
	}
	p, err := s.provePasskey(ctx, c, ceremonySecondFactor, step.Nonce, in)
	switch {
	case err != nil:
		return SignedIn{}, err
	case p.user.Sub != u.Sub:
		return SignedIn{}, ErrInvalidPasskey
	}
	p.user, p.amr = u, append([]string{MethodPassword}, p.amr...)
	return s.finishSignIn(ctx, c, step, p)
}

// finishSignIn creates the session of a pending sign-in after the second factor was proven, once.
func (s *Service) finishSignIn(ctx context.Context, c Caller, step signInStep, p proven) (SignedIn, error) {
	first, err := s.store.SpendOnce(ctx, HashSecret(step.Nonce), s.now().Add(2*sealLifetimes[signInSeal]))
	switch {
	case err != nil:
		return SignedIn{}, err
	case !first:
		return SignedIn{}, ErrSignInExpired
	}
	return s.openSession(ctx, c, p)
}

// PasskeySignIn signs in the owner of the passkey. It needs no other step.
func (s *Service) PasskeySignIn(ctx context.Context, c Caller, in answeredCeremony) (SignedIn, error) {
	p, err := s.provePasskey(ctx, c, ceremonySignIn, c.browser.passkey, in)
	if err != nil {
		return SignedIn{}, err
	}
	return s.openSession(ctx, c, p)
}

// Confirmation is what a signed-in person enters to prove their identity again.
type Confirmation struct {
	Password string `json:"password"`
	OTP      string `json:"otp"`
}

// Confirm makes the session of the caller fresh by the proof that a sign-in requires, and gives it
// a new token. ErrInvalidCredentials, ErrInvalidOTP; ErrSecondFactorRequired if only the password
// was right.
func (s *Service) Confirm(ctx context.Context, c Caller, in Confirmation) (SignedIn, error) {
	u, err := s.verifyPassword(ctx, c, in.Password)
	if err != nil {
		return SignedIn{}, err
	}
	p := proven{user: u, amr: passwordAlone}
	if u.SecondFactor {
		if in.OTP == "" {
			return SignedIn{}, s.secondFactorRequired(ctx, u)
		}
		if err := s.checkOTP(ctx, c, in.OTP); err != nil {
			return SignedIn{}, err
		}
		p.amr = passwordAndCode
	}
	return s.confirmed(ctx, c, p)
}

// PasskeyConfirm is Confirm by a passkey with user verification.
func (s *Service) PasskeyConfirm(ctx context.Context, c Caller, in answeredCeremony) (SignedIn, error) {
	p, err := s.provePasskey(ctx, c, ceremonyConfirm, c.Session.ID, in)
	switch {
	case err != nil:
		return SignedIn{}, err
	case p.user.Sub != c.User.Sub:
		return SignedIn{}, ErrInvalidPasskey
	}
	return s.confirmed(ctx, c, p)
}

func (s *Service) confirmed(ctx context.Context, c Caller, p proven) (SignedIn, error) {
	out, err := s.renewSession(ctx, c, c.Session, p, "session.confirm")
	if errors.Is(err, ErrSessionNotFound) {
		err = ErrNotAuthenticated
	}
	return out, web.Noted(ctx, "confirmed", err)
}

// verifyPassword checks the password of the signed-in user, under the limits of a sign-in. The
// returned user has the verified hash, which may be newer than the caller's.
func (s *Service) verifyPassword(ctx context.Context, c Caller, password string) (User, error) {
	got, err := s.checkPassword(ctx, c, c.User.Handle, password)
	if err == nil && got.Sub != c.User.Sub || errors.Is(err, ErrInvalidCredentials) {
		err = errWrongPassword
	}
	return got, err
}

// openSession creates the session of a user after the proof. It refuses if the user has changed
// since they were read, or has a second factor that is not among the methods. The same person in
// the same browser keeps the session and its sid, which clients know; only its secrets are new.
func (s *Service) openSession(ctx context.Context, c Caller, p proven) (SignedIn, error) {
	former, err := s.liveSessions(ctx, c.browser)
	if err != nil {
		return SignedIn{}, err
	}
	for _, id := range former {
		if id.User.Sub != p.user.Sub || id.foreign {
			continue
		}
		out, err := s.renewSession(ctx, c, id.Session, p, "session.reauthenticate")
		if !errors.Is(err, ErrSessionNotFound) { // it has ended meanwhile
			return out, err
		}
	}
	return s.saveSession(ctx, c, p, Session{}, "session.create", func(row *Session, a Audit) error {
		if err := s.store.CreateSession(ctx, row, p.user.PasswordHash, a); err != nil {
			return sessionCreateError("create session", err)
		}
		return s.endEach(ctx, c, former) // the browser's previous cookie is about to be overwritten
	})
}

// renewSession gives a session a new proof and new secrets, and revokes the previous token. The
// session may be a copy, whose browser becomes a known one too. ErrSessionNotFound.
func (s *Service) renewSession(ctx context.Context, c Caller, old Session, p proven, action string) (SignedIn, error) {
	return s.saveSession(ctx, c, p, old, action, func(row *Session, a Audit) error {
		if err := s.store.Reauthenticate(ctx, row, p.user.PasswordHash, a); err != nil {
			return sessionCreateError("sign in again", err)
		}
		return nil
	})
}

// saveSession finishes a sign-in. write stores the session, which takes the place of old unless that
// is zero, with its audit row and the mails to its owner. Then the token is signed.
func (s *Service) saveSession(
	ctx context.Context, c Caller, p proven, old Session, action string, write func(*Session, Audit) error,
) (SignedIn, error) {
	row, out := s.newSession(c, p)
	if old.ID != "" {
		row.ID, row.CreatedAt = old.ID, old.CreatedAt
	}
	a := s.signInAudit(c.as(p.user), action, row)
	notices, err := s.newDeviceNotices(ctx, c, p.user, row)
	if err != nil {
		return SignedIn{}, err
	}
	if err := write(row, a.with(notices...)); err != nil {
		return SignedIn{}, err
	}
	// Read again: a flag that was lost before the session was stored ended no session, and one that is
	// lost from now on ends this one.
	if p.user, err = s.store.UserBySub(ctx, p.user.Sub); err != nil {
		return SignedIn{}, sessionCreateError("read user", err)
	}
	out.User = p.user
	shown := shownFactors(p.amr)
	if s.MailEnabled() {
		out.marks = s.withMark(c.browser.marks, p.user)
	}
	web.NoteUser(ctx, p.user.Sub)
	web.NoteSignIn(ctx, web.SignInSuccess, shown)
	out.Session = *row
	out.token, err = s.minter.token(p.user, row, out.token)
	return out, err
}

// markOf returns the mark of a user, which nobody else can make. A sign-in that was not the user's
// voids earlier marks.
func (s *Service) markOf(u User) string {
	m := hmac.New(sha256.New, s.deviceKey)
	m.Write([]byte(u.Sub))
	if !u.DevicesVoidedAt.IsZero() {
		_, _ = fmt.Fprintf(m, " %d", u.DevicesVoidedAt.Unix())
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))[:deviceMark]
}

// withMark returns the marks of a browser with that of a user, the latest first.
func (s *Service) withMark(marks []string, u User) []string {
	mark := s.markOf(u)
	marks = slices.DeleteFunc(slices.Clone(marks), func(m string) bool { return m == mark })
	return append([]string{mark}, marks[:min(len(marks), maxDeviceUsers-1)]...)
}

// newDeviceNotices returns the mails that notify the user of a sign-in in a browser without their
// mark. There are none for the very first sign-in. u is the user before the sign-in.
func (s *Service) newDeviceNotices(ctx context.Context, c Caller, u User, n *Session) ([]Mail, error) {
	known := slices.ContainsFunc(c.browser.marks,
		func(m string) bool { return hmac.Equal([]byte(m), []byte(s.markOf(u))) })
	if known || u.LastLoginAt.IsZero() {
		return nil, nil
	}
	return s.boundedNotices(ctx, u, MailNewDevice, "device", c.Device, "address", n.Address, "session", n.ID)
}

// SignOut ends the live sessions that the browser's cookies prove. If sub is not empty, it ends
// only those of that user: who may sign out one user may not sign out others. It also ends sessions
// by tokens that this service does not accept, or not alone, because other applications may rely on
// them.
func (s *Service) SignOut(ctx context.Context, c Caller, sub string) error {
	live, err := s.liveSessions(ctx, c.browser)
	if err != nil {
		return err
	}
	live = slices.DeleteFunc(live, func(id *Identity) bool { return sub != "" && id.User.Sub != sub })
	if err := s.endEach(ctx, c, live); err != nil || len(live) == 0 {
		return err
	}
	web.NoteUser(ctx, live[0].User.Sub)
	web.Note(ctx, "logout")
	return nil
}

// endEach ends sessions. It is no error if one has already ended.
func (s *Service) endEach(ctx context.Context, c Caller, live []*Identity) error {
	for _, id := range live {
		a := s.audit(c.as(id.User), "session.end", id.User.Handle, id.Session.ID)
		err := s.store.EndSession(ctx, id.User.Sub, id.Session.ID, s.now(), a)
		if err != nil && !errors.Is(err, ErrSessionNotFound) {
			return fmt.Errorf("end session: %w", err)
		}
	}
	return nil
}

// Factors of sign-ins, as they are counted.
const (
	factorPassword = "password"
	factorCode     = "code" // of an authenticator app, or a recovery code, after the password
	factorPasskey  = "passkey"
)

func shownFactors(amr []string) string {
	password := slices.Contains(amr, MethodPassword)
	switch {
	case password && slices.Contains(amr, MethodOTP):
		return factorPassword + "+" + factorCode
	case password && len(amr) > 1:
		return factorPassword + "+" + factorPasskey
	case password:
		return factorPassword
	}
	return factorPasskey
}

// signInAudit returns the audit row of a sign-in, with its methods and the device.
func (s *Service) signInAudit(c Caller, action string, n *Session) Audit {
	detail := strings.Join(n.AMR, " ")
	if c.Device != "" {
		detail += ", " + c.Device
	}
	return s.audit(c, action, c.Name, detail)
}

// audit returns the audit row of something that happens now.
func (s *Service) audit(c Caller, action, target, detail string) Audit {
	return c.Audit(s.now(), action, target, detail)
}

// refusalMemory is how long further refusals of an account are not recorded, so that guesses do not
// fill the audit log.
const refusalMemory = 15 * time.Minute

// recordRefusal records that an account refused somebody. A failure to record does not change the
// response.
func (s *Service) recordRefusal(ctx context.Context, a Audit) {
	if err := s.store.Record(ctx, a, refusalMemory); err != nil && !errors.Is(err, context.Canceled) {
		s.log.WarnContext(ctx, "refusal not in the audit log", "action", a.Action, "error", err)
	}
}

// nobody is the sub of no user. The queries for an existing account are also run for others: a
// refusal costs no hash, so its time would tell them apart.
const nobody = "nobody"

// recordLimited is recordRefusal for an account over a limit; u may be the zero User.
func (s *Service) recordLimited(ctx context.Context, c Caller, u User, action string, refusal error) {
	switch {
	case !errors.Is(refusal, web.ErrRateLimited):
	case u.Sub == "":
		_, _ = s.store.KnownAddress(ctx, nobody, nobody) // instead of reading the audit log
	default:
		s.recordRefusal(ctx, s.audit(c.as(User{}), action, u.Handle, ""))
	}
}

// sessionCreateError converts the error of creating a session: an account that was deleted while
// its password was compared is answered like an unknown one.
func sessionCreateError(doing string, err error) error {
	if errors.Is(err, ErrUserNotFound) {
		return ErrInvalidCredentials
	}
	return fmt.Errorf("%s: %w", doing, err)
}

package person

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// Credentials are what a person enters to sign in.
type Credentials struct {
	Handle   string `json:"handle"`
	Password string `json:"password"`
	OTP      string `json:"otp"`
	Shared   bool   `json:"shared_computer"` // see Caller.Shared
	// Demanded asks for the second step that the application demands whose sign-in it is: see AsksSecondStep.
	Demanded bool `json:"-"`
}

// PurposeAgain is the purpose of hidden Credentials in a page that sends them once more.
const PurposeAgain = "sign-in again"

var (
	passwordAlone   = []string{account.MethodPassword}
	passwordAndCode = []string{account.MethodPassword, account.MethodOTP, account.MethodMultiFactor}
)

// SignIn checks the credentials and creates the session. An unknown handle and a wrong password
// give the same error at the same cost. ErrSuspended comes only after the right password.
//
// ErrSecondFactorRequired comes after the right password of a user who is asked for a second step: the
// browser gets a cookie with which SecondStep continues.
func (s *Service) SignIn(ctx context.Context, c account.Caller, in Credentials) (SignedIn, error) {
	c.Shared = in.Shared
	u, err := s.checkPassword(ctx, c, in.Handle, in.Password)
	p := Proven{user: u, amr: passwordAlone}
	asks := false
	if err == nil {
		asks, err = s.AsksSecondStep(ctx, u, in.Demanded)
	}
	if asks {
		p.amr, err = passwordAndCode, account.ErrSecondFactorRequired
		if in.OTP != "" {
			p.step, err = s.checkOTP(ctx, c.As(u), in.OTP)
		}
	}
	var out SignedIn
	if err == nil {
		out, err = s.openSession(ctx, c, p)
	}
	if errors.Is(err, account.ErrSecondFactorRequired) { // or a factor was added meanwhile
		return s.askSecondFactor(ctx, c, u)
	}
	return out, noteFailed(ctx, err)
}

// SecondStep checks the code after the right password, in the browser that SignIn gave a cookie, and
// creates the session. ErrSignInExpired, ErrInvalidOTP, ErrSuspended.
func (s *Service) SecondStep(ctx context.Context, c account.Caller, otp string) (SignedIn, error) {
	u, step, err := s.PendingSignIn(ctx, c)
	c.Shared = step.Shared
	p := Proven{user: u, amr: passwordAndCode}
	if err == nil {
		p.step, err = s.checkOTP(ctx, c.As(u), otp)
	}
	if err == nil {
		err = s.spendStep(ctx, step)
	}
	var out SignedIn
	if err == nil {
		out, err = s.openSession(ctx, c, p)
	}
	return out, noteFailed(ctx, err)
}

// noteFailed notes why a sign-in failed, for the log and the metrics, and returns err.
func noteFailed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, account.ErrInvalidCredentials):
		web.NoteSignIn(ctx, web.SignInFailed, factorPassword)
	case errors.Is(err, account.ErrInvalidOTP):
		web.NoteSignIn(ctx, web.SignInFailed, factorCode)
	case errors.Is(err, account.ErrSuspended):
		web.NoteSignIn(ctx, web.SignInSuspended, factorPassword)
	}
	return err
}

// checkPassword finds the user by a handle or a verified address and compares the password, within
// the limits.
func (s *Service) checkPassword(ctx context.Context, c account.Caller, typed, password string) (account.User, error) {
	typed = withoutAt(typed)
	u, err := s.UserNamed(ctx, typed)
	if err != nil {
		return account.User{}, err
	}
	s.noteAccount(ctx, u, typed)
	key := account.AccountKey(typed)
	limits := s.signInLimits(ctx, c, key, u)
	signIns := web.LimitKey{Name: web.LimitSignIn, Key: key + " " + c.Address}
	// Limits are checked before anything costs processor time.
	for _, limit := range []web.LimitKey{limits.own, signIns} {
		if err := s.Limits().Blocked(ctx, limit); err != nil {
			return account.User{}, s.limited(ctx, c, u, account.LimitSignIns, err)
		}
	}
	refused, err := s.refusedThere(ctx, c, limits.address, limits.account)
	if err = s.limited(ctx, c, u, account.LimitSignIns, cmp.Or(err, refused)); err != nil && refused == nil {
		return account.User{}, err
	}
	work, err := s.refusals.Get(ctx, "")
	if err != nil {
		return account.User{}, err
	}
	leave, err := s.hasher.Enter(ctx, key)
	if err != nil {
		return account.User{}, err
	}
	defer leave()
	if refused != nil {
		s.hasher.Match("", password, work)
		return account.User{}, refused
	}
	// In the slot: at most one attempt per core runs at once.
	err = s.Limits().Guess(ctx, limits.keys(), account.ErrInvalidCredentials, func() error {
		if !s.hasher.Match(u.PasswordHash, password, work) {
			return account.ErrInvalidCredentials
		}
		return nil
	})
	if err == nil {
		err = s.Limits().Count(ctx, signIns)
	}
	err = s.limited(ctx, c, u, account.LimitSignIns, err)
	if errors.Is(err, account.ErrInvalidCredentials) {
		s.noteLocked(ctx, u, limits.account)
		err = limits.orExempted(ctx, err)
	}
	if err != nil {
		return account.User{}, err
	}
	switch {
	case u.Suspended():
		return account.User{}, s.RefuseSuspended(ctx, c.As(u))
	case !u.PasswordDisownedAt.IsZero():
		return account.User{}, errPasswordDisowned
	}
	if s.hasher.Outdated(u.PasswordHash) {
		s.upgradeHash(ctx, &u, password)
	}
	return u, nil
}

// refusedThere returns the refusal of a limit that counts the mistakes of others too. Where some account
// is known, its time must not tell that this one is not: the caller does the work of a guess before it
// returns refused, and returns err at once.
func (s *Service) refusedThere(ctx context.Context, c account.Caller, limits ...web.LimitKey) (refused, err error) {
	for _, limit := range limits {
		if refused = s.Limits().Blocked(ctx, limit); refused != nil {
			break
		}
	}
	if refused == nil {
		return nil, nil
	}
	some, err := s.Store().RecentSignIn(ctx, c.Address, "", s.Now().Add(-knownFor))
	if err != nil || !some || !errors.Is(refused, web.ErrRateLimited) {
		return nil, cmp.Or(err, refused)
	}
	return refused, nil
}

// UserNamed returns the user with the handle, or the only one with the verified address, or the
// zero User. Each costs one statement.
func (s *Service) UserNamed(ctx context.Context, typed string) (account.User, error) {
	var u account.User
	var err error
	if strings.Contains(typed, "@") {
		email, _ := account.CheckEmail(typed) // nobody's, if it is none
		u, err = s.Store().UserByEmail(ctx, email)
	} else {
		handle, _ := account.CanonicalHandle(typed) // likewise
		u, err = s.Store().UserByHandle(ctx, handle)
	}
	if err != nil && !errors.Is(err, account.ErrUserNotFound) {
		return account.User{}, fmt.Errorf("find user: %w", err)
	}
	return u, nil
}

// checkOTP accepts a code of the authenticator app of the caller's account or a recovery code, each
// once, under the limits of a sign-in. Codes of apps and of 60 bits can be guessed, so each kind has
// another limit from which no address is exempt. Only somebody with the password or the session can
// exhaust that of codes of apps; for the other see typedCode.limits.
func (s *Service) checkOTP(ctx context.Context, c account.Caller, typed string) (step int64, err error) {
	u := c.User
	key := account.AccountKey(u.Handle)
	of := s.signInLimits(ctx, c, key, u)
	limits := of.keys()
	code, isTOTP := totpCode(typed)
	s.noteAccount(ctx, u, "")
	var recovery typedCode
	if isTOTP {
		limits = append(limits, web.LimitKey{Name: web.LimitSecondFactor,
			Key: account.CounterKey(web.LimitSecondFactor, u.Sub, u)})
	} else {
		if recovery, err = s.findRecoveryCode(ctx, u.Sub, typed); err != nil {
			return 0, err
		}
		leave, err := s.hasher.Enter(ctx, key)
		if err != nil {
			return 0, err
		}
		defer leave()
		limits = append(limits, recovery.limits(u.Sub, u)...)
	}
	err = s.Limits().Guess(ctx, limits, account.ErrInvalidOTP, func() (err error) {
		good := false
		if isTOTP {
			step, good, err = s.useTOTP(ctx, u.Sub, code)
		} else {
			good, err = s.useRecoveryCode(ctx, c, recovery)
		}
		if err == nil && !good {
			s.recordRefusal(ctx, s.audit(c, account.RefuseFactor, c.Name, ""))
			err = account.ErrInvalidOTP
		}
		return err
	})
	if errors.Is(err, account.ErrInvalidOTP) || errors.Is(err,
		web.ErrRateLimited) { // a mailed code forgets the lock alone
		s.noteLocked(ctx, u, limits[2:]...)
	}
	return step, s.limited(ctx, c, u, account.LimitSignIns, err)
}

// useTOTP accepts a code of the user's authenticator app once, and returns its time step.
func (s *Service) useTOTP(ctx context.Context, sub, code string) (step int64, good bool, err error) {
	f, err := s.Store().Factors(ctx, sub)
	if err != nil || f.TOTP == nil {
		return 0, false, err
	}
	step, ok := timeStep(f.TOTP.Secret, code, s.Now())
	if !ok {
		return 0, false, nil
	}
	good, err = s.Store().UseTOTP(ctx, sub, step, s.Now())
	return step, good, err
}

// knownFor is how long the address of a sign-in stays known.
const knownFor = 30 * 24 * time.Hour

// signInLimits are the limits of guesses at an account from one place. They count the typed text,
// because a limit must not reveal whose address an address is.
type signInLimits struct {
	own, address, account web.LimitKey
	// exempted is the refusal from which the address exempts the caller, or nil. A wrong password gets
	// it too: otherwise the answer would tell a stranger there that the account is known.
	exempted   error
	exemptedBy string // the limit
}

// orExempted returns the refusal from which the caller was exempt, or else err.
func (l *signInLimits) orExempted(ctx context.Context, err error) error {
	if l.exempted == nil {
		return err
	}
	web.NoteLimit(ctx, l.exemptedBy)
	return l.exempted
}

func (l *signInLimits) keys() []web.LimitKey { return []web.LimitKey{l.own, l.address, l.account} }

// signInLimits returns the limits for what was typed; u may be the zero User.
//
// Mistakes of others keep nobody out. Where the account is known, by the mark of the browser or by
// the address of a recent sign-in, only the limit of its own refuses: that of guesses at this
// account from this address or, with a mark, in this browser.
func (s *Service) signInLimits(ctx context.Context, c account.Caller, key string, u account.User) *signInLimits {
	mark := s.markIn(c.Browser, u)
	known := sync.OnceValues(func() (bool, error) {
		return s.Store().KnownAddress(ctx, cmp.Or(u.Sub, nobody), c.Address, s.Now().Add(-knownFor))
	})
	l := &signInLimits{
		own: web.LimitKey{Name: web.LimitLogin,
			Key: cmp.Or(mark, c.Address) + " " + account.CounterKey(web.LimitLogin, key, u)},
		address: web.LimitKey{Name: web.LimitLoginAddress, Key: c.Address},
		account: web.LimitKey{Name: web.LimitLoginAccount, Key: account.CounterKey(web.LimitLoginAccount, key, u)},
	}
	for _, limit := range []*web.LimitKey{&l.address, &l.account} {
		limit.Exempt = func(refusal error) error {
			if mark != "" {
				return nil
			}
			known, err := known()
			switch {
			case err != nil:
				return fmt.Errorf("find known address: %w", err)
			case !known:
				return refusal
			case l.exempted == nil: // the first, as for a stranger
				l.exempted, l.exemptedBy = refusal, limit.Name
			}
			return nil
		}
	}
	return l
}

// noteLocked stores for how long limits of the account refuse, strangers or, after wrong codes, everybody, for
// those who help its owner. A failure to store it does not change the response.
func (s *Service) noteLocked(ctx context.Context, u account.User, limits ...web.LimitKey) {
	var err error
	for _, limit := range limits {
		wait, failed := s.Limits().Wait(ctx, limit)
		if failed == nil && wait > 0 {
			failed = s.Store().LockUser(ctx, cmp.Or(u.Sub, nobody), u.Unlocks, s.Now().Add(wait))
		}
		err = cmp.Or(err, failed)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.WarnContext(ctx, "lock of an account not stored", "user", u.Sub, "error", err)
	}
}

// upgradeHash replaces a hash of an older form. A failure does not refuse the sign-in.
func (s *Service) upgradeHash(ctx context.Context, u *account.User, password string) {
	hash, err := s.hasher.Rehash(password)
	if err == nil {
		err = s.Store().UpgradeHash(ctx, u.Sub, u.PasswordHash, hash)
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			s.log.WarnContext(ctx, "password hash not upgraded", "user", u.Sub, "error", err)
		}
		return
	}
	u.PasswordHash = hash
}

// suspension returns ErrSuspended, or ErrEnded, which is one too.
func suspension(u account.User) error {
	if u.Ended() {
		return account.ErrEnded
	}
	return account.ErrSuspended
}

// RefuseSuspended returns ErrSuspended, after the right proof.
func (s *Service) RefuseSuspended(ctx context.Context, c account.Caller) error {
	s.recordRefusal(ctx, s.audit(c, account.RefuseSuspended, c.Name, "suspended"))
	return suspension(c.User)
}

// signInStep is a sign-in after the right password, sealed in a cookie of that browser. It is good
// for one session.
type signInStep struct {
	Sub      string `json:"sub"`
	Password []byte `json:"password"` // see passwordMark: a new password voids the step
	Nonce    string `json:"nonce"`
	Shared   bool   `json:"shared"`
	Demanded bool   `json:"demanded"` // the user has not chosen it
}

const signInSeal = "second-factor"

// SignInStepLifetime is how long a second step may follow the first.
const SignInStepLifetime = 5 * time.Minute

// passwordMark identifies the password of a user in sealed values of a browser.
func (s *Service) passwordMark(u account.User) []byte {
	m := hmac.New(sha256.New, s.deviceKey)
	_, _ = fmt.Fprintf(m, "password %s %s", u.Sub, u.PasswordHash)
	return m.Sum(nil)
}

// askSecondFactor returns ErrSecondFactorRequired with the methods of u and the cookie to continue
// with.
func (s *Service) askSecondFactor(ctx context.Context, c account.Caller, u account.User) (SignedIn, error) {
	step, err := s.seal.Seal(signInSeal, signInStep{Sub: u.Sub, Password: s.passwordMark(u), Nonce: rand.Text(),
		Shared: c.Shared, Demanded: !u.SecondFactor})
	if err != nil {
		return SignedIn{}, err
	}
	web.NoteUser(ctx, u.Sub)
	return SignedIn{Step: step}, s.secondFactorRequired(ctx, u)
}

// secondFactorRequired returns ErrSecondFactorRequired with the methods of u.
func (s *Service) secondFactorRequired(ctx context.Context, u account.User) error {
	f, err := s.Store().Factors(ctx, u.Sub)
	if err != nil {
		return err
	}
	p := *account.ErrSecondFactorRequired
	p.Methods = s.FactorMethods(f)
	return &p
}

// PendingSignIn returns the user whose password was recently right in this browser.
// ErrSignInExpired if there is none, ErrSuspended.
func (s *Service) PendingSignIn(ctx context.Context, c account.Caller) (account.User, signInStep, error) {
	var step signInStep
	if s.seal.Open(signInSeal, c.Browser.Step, &step) != nil {
		return account.User{}, step, account.ErrSignInExpired
	}
	u, err := s.Store().UserBySub(ctx, step.Sub)
	switch {
	case errors.Is(err, account.ErrUserNotFound):
		return account.User{}, step, account.ErrSignInExpired
	case err != nil:
		return account.User{}, step, err
	case !u.SecondFactor && !step.Demanded, !hmac.Equal(s.passwordMark(u), step.Password),
		!u.PasswordDisownedAt.IsZero():
		return account.User{}, step, account.ErrSignInExpired
	case u.Suspended():
		return account.User{}, step, suspension(u)
	}
	return u, step, nil
}

// SecondStepProven signs in the user of PendingSignIn after the passkey that follows the password.
func (s *Service) SecondStepProven(
	ctx context.Context, c account.Caller, u account.User, step signInStep, p Proven,
) (SignedIn, error) {
	if p.user.Sub != u.Sub {
		return SignedIn{}, account.ErrInvalidPasskey
	}
	if err := s.spendStep(ctx, step); err != nil {
		return SignedIn{}, err
	}
	c.Shared = step.Shared
	p.user, p.amr = u, append([]string{account.MethodPassword}, p.amr...)
	return s.openSession(ctx, c, p)
}

// spendStep spends a pending sign-in after the second factor was proven. ErrSignInExpired if it is
// already spent.
func (s *Service) spendStep(ctx context.Context, step signInStep) error {
	first, err := s.Store().SpendOnce(ctx, account.HashSecret(step.Nonce), s.Now().Add(2*SignInStepLifetime))
	if err == nil && !first {
		err = account.ErrSignInExpired
	}
	return err
}

// SignInProven signs in the owner of a passkey, who needs no other step.
func (s *Service) SignInProven(ctx context.Context, c account.Caller, p Proven) (SignedIn, error) {
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
func (s *Service) Confirm(ctx context.Context, c account.Caller, in Confirmation) (SignedIn, error) {
	u, err := s.verifyPassword(ctx, c, in.Password)
	if err != nil {
		return SignedIn{}, err
	}
	p := Proven{user: u, amr: passwordAlone}
	asks, err := s.AsksSecondStep(ctx, u, false)
	if err != nil {
		return SignedIn{}, err
	}
	if asks {
		if in.OTP == "" {
			return SignedIn{}, s.secondFactorRequired(ctx, u)
		}
		if p.step, err = s.checkOTP(ctx, c, in.OTP); err != nil {
			return SignedIn{}, err
		}
		p.amr = passwordAndCode
	}
	return s.confirmed(ctx, c, p)
}

// ConfirmProven is Confirm by a passkey.
func (s *Service) ConfirmProven(ctx context.Context, c account.Caller, p Proven) (SignedIn, error) {
	if p.user.Sub != c.User.Sub {
		return SignedIn{}, account.ErrInvalidPasskey
	}
	return s.confirmed(ctx, c, p)
}

func (s *Service) confirmed(ctx context.Context, c account.Caller, p Proven) (SignedIn, error) {
	out, err := s.renewSession(ctx, c, c.Session, p, account.ConfirmIdentity)
	if errors.Is(err, account.ErrSessionNotFound) {
		err = account.ErrNotAuthenticated
	}
	return out, web.Noted(ctx, "confirmed", err)
}

// verifyPassword checks the password of the signed-in user, under the limits of a sign-in. The
// returned user has the verified hash, which may be newer than the caller's.
func (s *Service) verifyPassword(ctx context.Context, c account.Caller, password string) (account.User, error) {
	got, err := s.checkPassword(ctx, c, c.User.Handle, password)
	if err == nil && got.Sub != c.User.Sub || errors.Is(err, account.ErrInvalidCredentials) {
		err = account.ErrWrongPassword
	}
	return got, err
}

// audit returns the audit row of something that happens now.
func (s *Service) audit(c account.Caller, act account.Act, target, detail string) account.Audit {
	return c.Audit(s.Now(), act, target, detail)
}

// refusalMemory is how long further refusals of an account are not recorded, so that guesses do not
// fill the audit log.
const refusalMemory = 15 * time.Minute

// recordRefusal records that an account refused somebody. A failure to record does not change the
// response.
func (s *Service) recordRefusal(ctx context.Context, a account.Audit) {
	if err := s.Store().Record(ctx, a, refusalMemory); err != nil && !errors.Is(err, context.Canceled) {
		s.log.WarnContext(ctx, "refusal not in the audit log", "action", a.Action, "error", err)
	}
}

// nobody is the sub of no user. The queries for an existing account are also run for others: a
// refusal costs no hash, so its time would tell them apart.
const nobody = "nobody"

// limited records, if err is the refusal of a limit, that an account refused somebody; u may be the zero User. It
// returns err. A stranger may not know of the account, so the time is the same without one.
func (s *Service) limited(ctx context.Context, c account.Caller, u account.User, act account.Act, err error) error {
	switch {
	case !errors.Is(err, web.ErrRateLimited):
	case u.Sub == "":
		_, _ = s.Store().KnownAddress(ctx, nobody, nobody, time.Time{}) // instead of reading the audit log
	default:
		s.recordRefusal(ctx, s.audit(c.As(account.User{}), act, u.Handle, ""))
	}
	return err
}

// noteAccount notes for the log whose account somebody tries: u, or if there is none, a keyed hash of what was
// typed, by which an operator sees that it is the same again.
func (s *Service) noteAccount(ctx context.Context, u account.User, typed string) {
	whose := u.Sub
	if whose == "" {
		m := hmac.New(sha256.New, s.typedKey)
		_, _ = m.Write([]byte(account.AccountKey(typed)))
		whose = fmt.Sprintf("hmac:%x", m.Sum(nil)[:8])
	}
	web.NoteAccount(ctx, whose)
}

// errPasswordDisowned comes only after the right password, which somebody else knows: see NotMeLinked.
var errPasswordDisowned = web.NewProblem(403, "password_disowned",
	"Someone else was reported to know this password, so it no longer works. Set a new one with “Forgot your "+
		"password?”, or ask an administrator of your club.")

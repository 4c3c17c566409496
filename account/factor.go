package account

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// What a sign-in can go on with after the password.
const (
	FactorTOTP         = "totp"
	FactorPasskey      = "passkey"
	FactorRecoveryCode = "recovery_code"
)

// methods are the ways in which the user can prove a second factor.
func (f Factors) methods() []string {
	methods := []string{}
	for _, m := range []struct {
		name string
		has  bool
	}{{FactorTOTP, f.TOTP != nil}, {FactorPasskey, f.Passkeys > 0}, {FactorRecoveryCode, f.RecoveryCodes > 0}} {
		if m.has {
			methods = append(methods, m.name)
		}
	}
	return methods
}

// factorMethods are the ways in which the user can prove a second factor here: passkeys
// of another issuer are of no use.
func (s *Service) factorMethods(f Factors) []string {
	if s.passkeys.party == nil {
		f.Passkeys = 0
	}
	return f.methods()
}

// checkOTP accepts a code of the authenticator app of the caller's account or a recovery code, each once,
// under the limits of a sign-in. A code of an app can be guessed, so it has another limit
// from which no address is exempt: only who knows the password, or has the session,
// can use that up, and a recovery code is not held by it.
func (s *Service) checkOTP(ctx context.Context, c Caller, typed string) error {
	u := c.User
	limits := []web.LimitKey{{Name: web.LimitLogin, Key: c.Address}, s.accountLimit(ctx, c, u.Handle, u)}
	code, isTOTP := totpCode(typed)
	if isTOTP {
		limits = append(limits, web.LimitKey{Name: web.LimitSecondFactor, Key: u.Sub, Exempt: func(refusal error) error {
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
			s.recordRefusal(ctx, c.own(s.now(), "factor.refused", ""))
			err = ErrInvalidOTP
		}
		return err
	})
}

// recoveryCodes is how many a user gets at once.
const recoveryCodes = 10

// newRecoveryCodes draws codes of 130 bits, as they are shown, and what is stored of them.
func newRecoveryCodes() (shown []string, hashes [][]byte) {
	for range recoveryCodes {
		c := newCode(resetCodeLength)
		shown, hashes = append(shown, grouped(c)), append(hashes, hashOf(c))
	}
	return shown, hashes
}

// useRecoveryCode spends a recovery code of the caller's account, whose owner is told. Codes that were made by an
// earlier version are shorter.
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
	good, err := s.store.UseRecoveryCode(ctx, c.User.Sub, hashOf(code), s.now(), a)
	if good {
		web.Note(ctx, "recovery_code_used")
	}
	return good, err
}

// RenewRecoveryCodes voids the recovery codes before. The owner is told: each of the new ones opens the account as
// well as another factor.
func (s *Service) RenewRecoveryCodes(ctx context.Context, c Caller) ([]string, error) {
	a, err := s.begin(ctx, c, "factor.recovery_codes", "")
	if err != nil {
		return nil, err
	}
	codes, hashes := newRecoveryCodes()
	err = s.store.ReplaceRecoveryCodes(ctx, c.User.Sub, c.Session.ID, hashes, s.now(), a)
	if err != nil {
		return nil, err
	}
	web.Note(ctx, "recovery_codes")
	return codes, nil
}

// AddedFactor is what follows from a new second factor.
type AddedFactor struct {
	SignedIn          // the session, which the factor has proven too
	Codes    []string // recovery codes, which come with the first factor; else nil
}

// addFactor adds a second factor by add, which reports whether it is the first, and gives the session the proof of
// it: the person goes on where they were.
func (s *Service) addFactor(ctx context.Context, c Caller, keepOthers bool, factor, method, name string, add func(NewFactor) (bool, error)) (out AddedFactor, err error) {
	if !c.strong() {
		return out, ErrReauthenticationRequired // the account has a second factor by now
	}
	c.Session.ConfirmedAt = s.now() // see BeginTOTP
	a, err := s.begin(ctx, c, "factor.add", strings.TrimSpace(factor+" "+name), "factor", factor, "name", name)
	if err != nil {
		return out, err
	}
	codes, hashes := newRecoveryCodes()
	first, err := add(NewFactor{Session: c.Session.ID, KeepOthers: keepOthers, Codes: hashes, Now: s.now(), Audit: a})
	if err != nil {
		return out, err
	}
	web.Note(ctx, "factor_added")
	amr := slices.Clone(c.Session.AMR)
	if first {
		out.Codes = codes
		amr = slices.DeleteFunc(amr, func(m string) bool { return m != MethodPassword }) // the rest was by factors that are gone
	}
	adds := []string{method, MethodMultiFactor}
	if method != MethodOTP {
		adds = append(adds, MethodUser)
	}
	for _, m := range adds {
		if !slices.Contains(amr, m) {
			amr = append(amr, m)
		}
	}
	if !first && len(amr) == len(c.Session.AMR) {
		return out, nil
	}
	p := proven{user: c.User, amr: amr, passkey: c.Session.Passkey}
	if out.SignedIn, err = s.renewSession(ctx, c, c.Session, p, "session.confirm"); err != nil {
		s.log.WarnContext(ctx, "session not renewed after a second factor was added", "error", err) // the codes are shown only now
	}
	return out, nil
}

// removeFactor removes a second factor by remove. The other sessions end, unless keepOthers. The last factor stays
// while it is demanded: ErrFactorDemanded.
func (s *Service) removeFactor(ctx context.Context, c Caller, keepOthers bool, factor, name string, remove func(OldFactor) error) error {
	a, err := s.begin(ctx, c, "factor.remove", strings.TrimSpace(factor+" "+name), "factor", factor, "name", name)
	if err != nil {
		return err
	}
	demanded, err := s.demandedACR(ctx, c.User)
	if err != nil {
		return err
	}
	o := OldFactor{Session: c.Session.ID, KeepOthers: keepOthers, Demanded: demanded, Now: s.now(), Audit: a}
	return web.Noted(ctx, "factor_removed", remove(o))
}

// factorList are the second factors of a user as they see them, and as the export has them.
type factorList struct {
	TOTP          *factorEntry `json:"totp"` // null: none
	Passkeys      int          `json:"passkeys"`
	RecoveryCodes int          `json:"recovery_codes"` // that are left
}

type factorEntry struct {
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

func (f Factors) list() factorList {
	out := factorList{Passkeys: f.Passkeys, RecoveryCodes: f.RecoveryCodes}
	if f.TOTP != nil {
		out.TOTP = &factorEntry{f.TOTP.CreatedAt.UTC(), TimeOrNull(f.TOTP.LastUsedAt)}
	}
	return out
}

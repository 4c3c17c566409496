package person

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

const (
	recoveryCodes      = 10 // that a user gets at once
	recoveryCodeLength = 16 // short enough to be typed from paper
	recoveryCodeName   = 4  // the first group
)

// newRecoveryCodes returns random codes as they are shown and as they are stored.
func (s *Service) newRecoveryCodes(ctx context.Context) (shown []string, codes []account.RecoveryCode, err error) {
	for len(codes) < recoveryCodes {
		c := account.NewCode(recoveryCodeLength)
		name := c[:recoveryCodeName]
		if slices.ContainsFunc(codes, func(other account.RecoveryCode) bool { return other.Name == name }) {
			continue
		}
		hash, err := s.hasher.Hash(ctx, c[recoveryCodeName:])
		if err != nil {
			return nil, nil, err
		}
		shown = append(shown, account.Grouped(c))
		codes = append(codes, account.RecoveryCode{Name: name, Hash: []byte(hash)})
	}
	return shown, codes, nil
}

// typedCode is what somebody typed as a recovery code, with the stored one that it names, if any.
type typedCode struct {
	secret string // that the hash is of; empty: it cannot be a code
	stored account.RecoveryCode
	left   int // unused codes of the account
}

// findRecoveryCode looks for the unused code that a typed one names.
func (s *Service) findRecoveryCode(ctx context.Context, sub, typed string) (t typedCode, err error) {
	for _, length := range []int{recoveryCodeLength, account.ResetCodeLength} {
		if c := account.CanonicalCode(typed, length); c != "" {
			t.stored, t.left, err = s.Store().RecoveryCode(ctx, sub, c[:recoveryCodeName], account.HashSecret(c))
			t.secret = c[recoveryCodeName:]
			if t.stored.Name == "" {
				t.secret = c
			}
		}
	}
	return t, err
}

// limits returns the limits that a guess of the code comes under besides those of the address and the
// account. Only who knows the name of a code can guess it, so no stranger exhausts the limit; nor does
// who guesses codes of the app, because these have a limit of their own.
func (t typedCode) limits(sub string, u account.User) []web.LimitKey {
	if t.stored.Name == "" {
		return nil
	}
	key := account.CounterKey(web.LimitSecondFactor, "recovery "+sub, u)
	return []web.LimitKey{{Name: web.LimitSecondFactor, Key: key}}
}

// useRecoveryCode spends a recovery code of the caller's account and notifies the owner. It costs the
// same whether there is such a code or not. The caller holds a slot of the hasher.
func (s *Service) useRecoveryCode(ctx context.Context, c account.Caller, t typedCode) (bool, error) {
	refusal, err := s.refusals.Get(ctx, "")
	if err != nil || t.secret == "" {
		return false, err
	}
	hash := ""
	if t.stored.Name != "" {
		hash = string(t.stored.Hash)
	}
	good := s.hasher.Match(hash, t.secret, refusal)
	if t.stored.Name == "" {
		good = bytes.Equal(t.stored.Hash, account.HashSecret(t.secret)) // found by it
	}
	if !good || c.User.Suspended() { // who is refused then, and has it for their return
		return good, nil
	}
	a, err := s.begin(ctx, c, account.UseRecoveryCode, "", "left", strconv.Itoa(t.left-1))
	if err != nil {
		return false, err
	}
	return s.Store().UseRecoveryCode(ctx, c.User.Sub, t.stored.Hash, s.Now(), a)
}

// RenewRecoveryCodes replaces the recovery codes. The owner is notified, because each new code
// opens the account like another factor.
func (s *Service) RenewRecoveryCodes(ctx context.Context, c account.Caller) ([]string, error) {
	a, err := s.begin(ctx, c, account.RenewRecoveryCodes, "", "session", c.Session.ID)
	if err != nil {
		return nil, err
	}
	shown, codes, err := s.newRecoveryCodes(ctx)
	if err == nil {
		err = s.Store().ReplaceRecoveryCodes(ctx, c.User.Sub, codes, s.Now(), a)
	}
	if err != nil {
		return nil, err
	}
	web.Note(ctx, "recovery_codes")
	return shown, nil
}

// Recover signs in to an account without a password by a recovery code, when every passkey is lost. The
// session is fresh, so that it can add a new one. errInvalidRecovery, at the same cost whether there is
// such an account or not; ErrSuspended.
//
// The limits of the address are those of a sign-in, with the same exemptions. That of the account is of a
// guesser who knows the name of a code: no stranger keeps the owner out.
func (s *Service) Recover(ctx context.Context, c account.Caller, typed, code string) (SignedIn, error) {
	typed = withoutAt(typed)
	u, err := s.UserNamed(ctx, typed)
	if err != nil {
		return SignedIn{}, err
	}
	s.noteAccount(ctx, u, typed)
	there := s.signInLimits(ctx, c, account.AccountKey(typed), u)
	if err := s.Limits().Blocked(ctx, there.own); err != nil {
		return SignedIn{}, s.limited(ctx, c, u, account.LimitSignIns, err)
	}
	refused, err := s.refusedThere(ctx, c, there.address)
	if err = s.limited(ctx, c, u, account.LimitSignIns, cmp.Or(err, refused)); err != nil && refused == nil {
		return SignedIn{}, err
	}
	sub := nobody
	if u.Passwordless() {
		sub = u.Sub
	}
	t, err := s.findRecoveryCode(ctx, sub, code)
	if err != nil {
		return SignedIn{}, err
	}
	leave, err := s.hasher.Enter(ctx, account.AccountKey(typed))
	if err != nil {
		return SignedIn{}, err
	}
	defer leave()
	if refused != nil {
		t.stored = account.RecoveryCode{} // none is used
		_, err := s.useRecoveryCode(ctx, c, t)
		return SignedIn{}, cmp.Or(err, refused)
	}
	limits := append(t.limits(sub, u), there.own, there.address)
	err = s.Limits().Guess(ctx, limits, errInvalidRecovery, func() error {
		good, err := s.useRecoveryCode(ctx, c.As(u), t)
		if err == nil && !good {
			err = errInvalidRecovery
		}
		return err
	})
	if err != nil {
		s.noteLocked(ctx, u, t.limits(sub, u)...)
	}
	err = s.limited(ctx, c, u, account.LimitSignIns, err)
	if errors.Is(err, errInvalidRecovery) {
		web.NoteSignIn(ctx, web.SignInFailed, factorCode)
		err = there.orExempted(ctx, err)
	}
	if err != nil {
		return SignedIn{}, err
	}
	if u.Suspended() {
		return SignedIn{}, s.RefuseSuspended(ctx, c.As(u))
	}
	return s.openSession(ctx, c, Proven{user: u, amr: []string{account.MethodOTP, account.MethodMultiFactor}})
}

// errInvalidRecovery is the refusal of Service.Recover, whatever is wrong.
var errInvalidRecovery = web.ForField(401, "invalid_recovery_code", "/code",
	"The user name and the code do not match, the code was already used, or the account has a password.")

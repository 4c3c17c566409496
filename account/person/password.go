package person

import (
	"cmp"
	"context"
	"errors"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
)

// RemovePassword leaves the caller with passkeys alone, and returns the recovery codes of somebody who had none. The
// other sessions end, except what is kept, and this one gets a new token. ErrLastWayIn without a passkey that works
// here; ErrSecondFactorRequired to a session that has not proven one.
func (s *Service) RemovePassword(
	ctx context.Context, c account.Caller, keep account.Keep,
) (out AddedFactor, err error) {
	f, err := s.Store().Factors(ctx, c.User.Sub)
	if err != nil {
		return out, err
	}
	a, err := s.begin(ctx, c, account.RemovePassword, "", "session", c.Session.ID)
	if err != nil || c.User.Passwordless() {
		return out, err
	}
	n := account.NewFactor{Now: s.Now()}
	if err = s.proveFactor(ctx, c); err == nil && f.RecoveryCodes == 0 {
		out.Codes, n.Codes, err = s.newRecoveryCodes(ctx)
	}
	if errors.Is(err, account.ErrNoStep) {
		err = account.ErrLastWayIn
	}
	if err != nil {
		return AddedFactor{}, err
	}
	out.SignedIn, err = s.renewing(ctx, c, a.Keeping(keep), c.User, func(a account.Audit) error {
		n.Audit = a
		return s.Store().RemovePassword(ctx, c.User.Sub, c.User.PasswordHash, s.passkeyHosts, n)
	})
	if err = web.Noted(ctx, "password_removed", err); err != nil {
		return AddedFactor{}, err
	}
	return out, nil
}

// ChangePassword sets a new password of the caller, who proves the old one if there is one. It ends their other
// sessions and every grant, and gives this session a new token, so that a copy of its cookie ends
// too. What also names is void or removed too; with NoSecondStep the first password of somebody who had none is enough
// alone. ErrInvalidCredentials, ErrWeakPassword, ErrStepOfApp, ErrFactorDemanded.
func (s *Service) ChangePassword(
	ctx context.Context, c account.Caller, current, password string, also account.Keep,
) (SignedIn, error) {
	a, err := s.begin(ctx, c, account.ChangePassword, "")
	if err != nil {
		return SignedIn{}, err
	}
	u, weak := c.User, s.weak(ctx, password, c.User.Handle, "/new_password")
	if also.NoSecondStep = also.NoSecondStep && u.Passwordless(); also.NoSecondStep {
		mails, failed := s.Notices(ctx, u, account.DropSecondStep.Told, "factor", account.FactorChoice, "session",
			c.Session.ID)
		if err = cmp.Or(s.maySkipStep(ctx, u), failed); err != nil {
			return SignedIn{}, err
		}
		a = a.With(mails...)
	}
	if !u.Passwordless() { // then the act needs a fresh session instead
		if u, err = s.verifyPassword(ctx, c, current); errors.Is(err, account.ErrInvalidCredentials) {
			err = web.AllFaults(err, weak)
		}
	}
	if err = cmp.Or(err, weak); err != nil {
		return SignedIn{}, err
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return SignedIn{}, err
	}
	a = a.Keeping(account.Keep{Void: also.Void, Remove: also.Remove, NoSecondStep: also.NoSecondStep})
	out, err := s.renewing(ctx, c, a, u, func(a account.Audit) error {
		return s.Store().ChangePassword(ctx, u.Sub, u.PasswordHash, hash, a.Renew, s.Now(), a)
	})
	if err != nil {
		return SignedIn{}, err
	}
	web.Note(ctx, "password_changed")
	if !out.Session.Shared() {
		out.Marks = s.withMark(c.Browser.Marks, out.User) // they were voided
	}
	return out, nil
}

// renewing has act store the caller's session with new secrets, so that a copy of its cookie ends with the others.
func (s *Service) renewing(
	ctx context.Context, c account.Caller, a account.Audit, u account.User, act func(a account.Audit) error,
) (SignedIn, error) {
	n, out := s.newSession(c, Proven{user: u})
	row := c.Session // with its times and methods: no session becomes fresh
	row.TokenHash, row.LoginHash, row.Algorithm = n.TokenHash, n.LoginHash, n.Algorithm
	err := s.checkToken(ctx, u, &row)
	if err == nil {
		a.Renew = &row
		err = act(a)
	}
	if err == nil {
		out.User, err = s.Store().UserBySub(ctx, u.Sub)
	}
	if err != nil {
		return SignedIn{}, err
	}
	out.Session = row
	out.Token, err = s.sessionToken(ctx, out.User, &row, out.Token)
	return out, err
}

// hashNew returns the hash of a new password that follows the rules.
func (s *Service) hashNew(ctx context.Context, chosen, handle string) (string, error) {
	if err := s.weak(ctx, chosen, handle, "/password"); err != nil {
		return "", err
	}
	return s.hasher.Hash(ctx, chosen)
}

// weak returns ErrWeakPassword about a member of the request, nil for a password that follows the rules.
func (s *Service) weak(ctx context.Context, chosen, handle, pointer string) error {
	settings, err := s.Settings(ctx)
	if err == nil {
		err = password.Check(chosen, handle, settings.MinPassword)
	}
	if p, _ := web.ProblemOf(err); errors.Is(err, account.ErrWeakPassword) {
		p.Errors[0].Pointer = pointer
		return p
	}
	return err
}

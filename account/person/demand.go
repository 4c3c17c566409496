package person

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// NeedsSecondFactor reports whether the settings require a second factor of the user.
func (s *Service) NeedsSecondFactor(ctx context.Context, u account.User) (bool, error) {
	v, err := s.sharedSettings(ctx)
	return v.NeedsSecondFactor(u), err
}

// CheckSecondFactor refuses everything else to a session that lacks a required second factor. It
// looks at both the factors that the user has now and the methods of the session.
// ErrSecondFactorSetupRequired if the user has none, ErrSecondFactorRequired if the session has not
// proven it.
func (s *Service) CheckSecondFactor(ctx context.Context, id *Identity) error {
	proven := slices.Contains(id.Session.AMR, account.MethodMultiFactor)
	if need, err := s.NeedsSecondFactor(ctx, id.User); err != nil || !need {
		return err
	}
	switch asks, err := s.AsksSecondStep(ctx, id.User, true); {
	case err != nil || asks && proven:
		return err
	case asks:
		return account.ErrSecondFactorRequired
	}
	return account.ErrSecondFactorSetupRequired
}

// AsksSecondStep reports whether the password of the user is not enough to sign in: they chose that, or have a passkey
// that works here where a second factor is demanded, by an application as the caller says, or by the settings. Whoever
// knows the password cannot set up one of their own then.
func (s *Service) AsksSecondStep(ctx context.Context, u account.User, demanded bool) (bool, error) {
	if u.SecondFactor {
		return true, nil
	}
	if !demanded {
		need, err := s.NeedsSecondFactor(ctx, u)
		if err != nil || !need {
			return false, err
		}
	}
	return s.Store().HasPasskey(ctx, u.Sub, s.passkeyHosts)
}

// proveFactor returns ErrSecondFactorRequired, which pages answer by asking for the factor, unless the session has
// proven one. ErrNoStep if the user has none that works here.
func (s *Service) proveFactor(ctx context.Context, c account.Caller) error {
	if slices.Contains(c.Session.AMR, account.MethodMultiFactor) {
		return nil
	}
	err := s.secondFactorRequired(ctx, c.User)
	if p, _ := web.ProblemOf(err); errors.Is(err, account.ErrSecondFactorRequired) {
		if len(p.Methods) == 0 {
			return account.ErrNoStep
		}
		return p.Interrupting()
	}
	return err
}

// MayAddFactor returns why the caller may not begin to add a factor: ErrReauthenticationRequired, ErrNotAuthenticated
// where the session has ended since the head of the request, or ErrSecondFactorRequired to a session that has not
// proven the factor that the settings or an application demand.
func (s *Service) MayAddFactor(ctx context.Context, c account.Caller) error {
	if err := s.Allow(c, account.AddFactor); err != nil {
		return err
	}
	n, u, err := s.Store().Session(ctx, c.Session.ID) // again: see Audit.Bound
	if errors.Is(err, account.ErrSessionNotFound) || err == nil && (!n.Live(s.Now()) || u.Suspended()) {
		err = account.ErrNotAuthenticated
	}
	if err == nil {
		_, err = s.factorDemanded(ctx, c)
	}
	return err
}

// factorDemanded is demandedACR of the caller. ErrSecondFactorRequired if something is demanded, and the caller has a
// factor that the session has not proven.
func (s *Service) factorDemanded(ctx context.Context, c account.Caller) (demanded string, err error) {
	demanded, err = s.demandedACR(ctx, c.User)
	if err == nil && demanded != "" {
		err = s.proveFactor(ctx, c)
	}
	if errors.Is(err, account.ErrNoStep) { // the first one
		err = nil
	}
	return demanded, err
}

// ChooseSecondStep sets whether a second step is asked after the caller's password, and returns the recovery codes that
// come with it. Whoever switches it on or off has proven a factor. Switched on, it ends the other sessions, except what
// is kept; this one gets a new token. ErrSecondFactorRequired, ErrNoStep, ErrStepOfApp, ErrFactorDemanded.
func (s *Service) ChooseSecondStep(
	ctx context.Context, c account.Caller, keep account.Keep, on bool,
) (out AddedFactor, err error) {
	act := account.AskSecondStep
	if !on {
		act = account.DropSecondStep
	}
	if err := s.Allow(c, act); err != nil {
		return out, err
	}
	if len(keep.Remove) > 0 && (!on || c.User.SecondFactor) { // nothing ends
		return out, account.ErrFactorsNamed
	}
	if on == c.User.SecondFactor {
		return out, nil
	}
	if err = s.proveFactor(ctx, c); err == nil && !on {
		err = s.maySkipStep(ctx, c.User)
	}
	if err != nil {
		return out, err
	}
	a, err := s.begin(ctx, c, act, "", "factor", account.FactorChoice, "session", c.Session.ID)
	n := account.NewFactor{Now: s.Now()}
	if err == nil && on {
		out.Codes, n.Codes, err = s.newRecoveryCodes(ctx)
	}
	if err == nil {
		out.SignedIn, err = s.renewing(ctx, c, a.Keeping(keep), c.User, func(a account.Audit) error {
			n.Audit = a
			return s.Store().SetSecondStep(ctx, c.User.Sub, on, n)
		})
	}
	if err != nil {
		return AddedFactor{}, err
	}
	web.Note(ctx, "second_step_chosen")
	return out, nil
}

// maySkipStep returns ErrFactorDemanded if the settings require a second factor of the user.
func (s *Service) maySkipStep(ctx context.Context, u account.User) error {
	need, err := s.NeedsSecondFactor(ctx, u)
	if err == nil && need {
		err = account.ErrFactorDemanded.With("Your account needs a second step after the password.")
	}
	return err
}

// demandedACR returns the authentication context class that the settings, or an application with
// access to the account, require of the user's sign-ins; "" for none.
func (s *Service) demandedACR(ctx context.Context, u account.User) (string, error) {
	need, err := s.NeedsSecondFactor(ctx, u)
	if err != nil {
		return "", err
	}
	apps, err := s.Store().Apps(ctx, u.Sub, s.Now())
	demanded := ""
	for _, a := range apps {
		if a.RequireACR == account.ACRPhishingResistant {
			return a.RequireACR, nil
		}
		need = need || a.RequireACR == account.ACRTwoFactors
	}
	if need {
		demanded = account.ACRTwoFactors
	}
	return demanded, err
}

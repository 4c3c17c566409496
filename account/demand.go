package account

import (
	"context"
	"slices"
)

// NeedsSecondFactor reports whether the user has a flag whose holders must have a second
// factor.
func (s Settings) NeedsSecondFactor(u User) bool {
	return slices.ContainsFunc(s.SecondFactorFlags, u.Has)
}

// NeedsSecondFactor reports whether the settings demand a second factor of the user.
func (s *Service) NeedsSecondFactor(ctx context.Context, u User) (bool, error) {
	v, err := s.sharedSettings(ctx)
	return v.NeedsSecondFactor(u), err
}

// OfferSecondFactor reports whether administrators can do without a second factor, which pages mention.
func (a *Administration) OfferSecondFactor(ctx context.Context) (bool, error) {
	v, err := a.Settings(ctx)
	return !slices.Contains(v.SecondFactorFlags, FlagAdmin), err
}

// CheckSecondFactor keeps the session of somebody who needs a second factor from everything else, by what they have now
// as well as by what the session has proven: ErrSecondFactorSetupRequired where they have none, and
// ErrSecondFactorRequired where the session has not proven it.
func (s *Service) CheckSecondFactor(ctx context.Context, id *Identity) error {
	if id.User.SecondFactor && slices.Contains(id.Session.AMR, MethodMultiFactor) {
		return nil
	}
	switch need, err := s.NeedsSecondFactor(ctx, id.User); {
	case err != nil || !need:
		return err
	case id.User.SecondFactor:
		return ErrSecondFactorRequired
	}
	return ErrSecondFactorSetupRequired
}

// demandedACR is the authentication context class that the settings demand of the user's sign-ins, or an application
// that has access to the account; "" for none.
func (s *Service) demandedACR(ctx context.Context, u User) (string, error) {
	need, err := s.NeedsSecondFactor(ctx, u)
	if err != nil {
		return "", err
	}
	apps, err := s.store.Apps(ctx, u.Sub, s.now())
	demanded := ""
	for _, a := range apps {
		if a.RequireACR == ACRPhishingResistant {
			return a.RequireACR, nil
		}
		need = need || a.RequireACR == ACRTwoFactors
	}
	if need {
		demanded = ACRTwoFactors
	}
	return demanded, err
}

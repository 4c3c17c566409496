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

// NeedsSecondFactor reports whether the settings require a second factor of the user.
func (s *Service) NeedsSecondFactor(ctx context.Context, u User) (bool, error) {
	v, err := s.sharedSettings(ctx)
	return v.NeedsSecondFactor(u), err
}

// CheckSecondFactor refuses everything else to a session that lacks a required second factor. It
// looks at both the factors that the user has now and the methods of the session.
// ErrSecondFactorSetupRequired if the user has none, ErrSecondFactorRequired if the session has not
// proven it.
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

// demandedACR returns the authentication context class that the settings, or an application with
// access to the account, require of the user's sign-ins; "" for none.
func (s *Service) demandedACR(ctx context.Context, u User) (string, error) {
	need, err := s.NeedsSecondFactor(ctx, u)
	if err != nil {
		return "", err
	}
	apps, err := s.store.Apps(ctx, u.Sub, s.Now())
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

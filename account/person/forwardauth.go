package person

import (
	"context"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

var errFlagMissing = web.NewProblem(403, "flag_required",
	"Your account cannot use this application. Ask an administrator of your club.")

// CheckAccess returns the user of an application that requires all of these flags.
func (s *Service) CheckAccess(ctx context.Context, b account.Browser, flags []string) (*Identity, error) {
	id, err := s.ByToken(ctx, b)
	if err == nil {
		err = s.CheckSecondFactor(ctx, id)
	}
	if err == nil && slices.ContainsFunc(flags, func(f string) bool { return !id.User.Has(f) }) {
		err = errFlagMissing
	}
	return id, err
}

// ByToken returns the live session of the session tokens alone, which applications get too. With
// a cookie domain they open nothing of this service.
func (s *Service) ByToken(ctx context.Context, b account.Browser) (*Identity, error) {
	return s.live(ctx, s.byToken(ctx, b))
}

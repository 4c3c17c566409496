package account

import (
	"context"
	"fmt"
	"time"
)

// AlgorithmRS256 is Session.Algorithm of tokens signed with a private key; any
// other one may be signed with the shared secret.
const AlgorithmRS256 = "RS256"

// retired tells whether the session's token has ceased to count because it may be
// signed with the shared secret: Settings.HS256Until has come, and there is a key
// with which its owner can get another one.
func (s *Service) retired(ctx context.Context, row Session) (bool, error) {
	if s.minter.algorithm != AlgorithmRS256 || row.Algorithm == AlgorithmRS256 {
		return false, nil
	}
	v, err := s.Settings(ctx)
	if err != nil {
		return false, err
	}
	return v.hs256Over(s.now()), nil
}

func (s Settings) hs256Over(now time.Time) bool {
	return !s.HS256Until.IsZero() && !now.Before(s.HS256Until)
}

// retireInterval is how soon after its end date a session with an HS256 token is in
// the status list. This service itself refuses it at once.
const retireInterval = time.Minute

// RetireHS256 ends the sessions whose tokens have ceased to count, so that other
// applications hear of it. It returns when ctx ends.
func (s *Service) RetireHS256(ctx context.Context) {
	if s.minter.algorithm != AlgorithmRS256 {
		return
	}
	tick := time.NewTicker(retireInterval)
	defer tick.Stop()
	for {
		if err := s.retireHS256(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("sessions with HS256 tokens not ended", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Service) retireHS256(ctx context.Context) error {
	v, err := s.Settings(ctx)
	if err != nil || !v.hs256Over(s.now()) {
		return err
	}
	n, err := s.store.EndHS256Sessions(ctx, s.now())
	if err != nil {
		return fmt.Errorf("end HS256 sessions: %w", err)
	}
	if n > 0 {
		s.log.Info("sessions with HS256 tokens ended", "sessions", n)
	}
	return nil
}

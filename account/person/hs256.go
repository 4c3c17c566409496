package person

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-id/cairn/account"
)

// retireInterval is how often the end date is read, because the operator may set it while the
// service runs.
const retireInterval = time.Minute

// RetireHS256 ends the sessions whose tokens are no longer accepted, so that other applications
// learn of it. It returns when ctx ends.
func (s *Service) RetireHS256(ctx context.Context) {
	if s.minter.algorithm != account.AlgorithmRS256 {
		return
	}
	for {
		next, err := s.retireHS256(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("sessions with HS256 tokens not ended", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// retireHS256 returns the time until its next call.
func (s *Service) retireHS256(ctx context.Context) (next time.Duration, err error) {
	v, err := s.Settings(ctx)
	if err != nil || v.HS256Until.IsZero() {
		return retireInterval, err
	}
	if left := v.HS256Until.Sub(s.Now()); left > 0 {
		return min(left, retireInterval), nil
	}
	n, err := s.Store().EndHS256Sessions(ctx, s.Now())
	if err != nil {
		return retireInterval, fmt.Errorf("end HS256 sessions: %w", err)
	}
	if n > 0 {
		s.log.Info("sessions with HS256 tokens ended", "sessions", n)
	}
	return retireInterval, nil
}

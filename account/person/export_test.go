package person

import (
	"context"
	"time"
)

// RetireOnce is one turn of RetireHS256.
func (s *Service) RetireOnce(ctx context.Context) (time.Duration, error) { return s.retireHS256(ctx) }

// ProvenTokens are how many session tokens are remembered.
func (s *Service) ProvenTokens() int { return len(s.proven.young) + len(s.proven.aged) }

const MaxProvenTokens = maxProven

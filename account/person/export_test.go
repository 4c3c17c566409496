package person

// ProvenTokens are how many session tokens are remembered.
func (s *Service) ProvenTokens() int { return len(s.proven.young) + len(s.proven.aged) }

const MaxProvenTokens = maxProven

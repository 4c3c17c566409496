package account

// What only the fuzz tests of parsers need.
const (
	InviteCodeLength = inviteCodeLength
)

var (
	NewCode    = newCode
	Grouped    = grouped
	AccountKey = accountKey
)

// ProvenTokens are how many session tokens are remembered.
func (s *Service) ProvenTokens() int { return len(s.proven.young) + len(s.proven.aged) }

const MaxProvenTokens = maxProven

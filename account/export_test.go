package account

// What only the fuzz tests of parsers need.
const (
	InviteCodeLength = inviteCodeLength
	ResetCodeLength  = resetCodeLength
)

var (
	NewCode       = newCode
	CanonicalCode = canonicalCode
	Grouped       = grouped
	AccountKey    = accountKey
)

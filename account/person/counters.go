package person

import (
	"fmt"

	"github.com/cairn-id/cairn/account"
)

// counterKey returns the key of the account u under a limit of AccountCounters, as the remedies have
// left it. User.Unlocks counts every remedy, User.FactorUnlocks those that clear what ClearsOnce.
func counterKey(limit, key string, u account.User) string {
	unlocks := int64(0)
	for _, c := range account.AccountCounters {
		switch {
		case c.Limit != limit:
		case c.Clear[account.RemedyMailedCode] == account.ClearsAlways:
			unlocks = u.Unlocks
		case c.Clear[account.RemedyMailedCode] == account.ClearsOnce:
			unlocks = u.FactorUnlocks
		}
	}
	if unlocks == 0 {
		return key
	}
	return fmt.Sprintf("%s\x00%d", key, unlocks) // nobody can type NUL
}

package account

import (
	"fmt"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// Remedy is what clears counters of an account.
type Remedy int

// Remedies.
const (
	RemedyUnlock     Remedy = iota // `cairn user unlock` and the button of an administrator
	RemedyGivenCode                // a used reset code that an administrator or the operator gave
	RemedyMailedCode               // a used reset code that was mailed
)

// Remedies are all of them.
var Remedies = []Remedy{RemedyUnlock, RemedyGivenCode, RemedyMailedCode}

// Clearing is when a remedy clears a counter.
type Clearing int

// Clearings.
const (
	ClearsNever Clearing = iota
	ClearsAlways
	ClearsOnce // in RemedyRest
)

// RemedyRest is how long a remedy that clears once does not clear again.
const RemedyRest = 24 * time.Hour

// AccountCounter is a limit that can refuse the owner of an account.
type AccountCounter struct {
	Limit string
	Clear [3]Clearing // by Remedy
}

// AccountCounters are all limits that can refuse the owner of an account. docs/settings.md shows them.
//
// Whoever has the mailbox can use a mailed code every few minutes. Were the guesses of a second factor
// cleared each time, it would not stop them.
var AccountCounters = []AccountCounter{
	{web.LimitLogin, [3]Clearing{ClearsAlways, ClearsAlways, ClearsAlways}},
	{web.LimitLoginAccount, [3]Clearing{ClearsAlways, ClearsAlways, ClearsAlways}},
	{web.LimitSecondFactor, [3]Clearing{ClearsAlways, ClearsAlways, ClearsOnce}},
	{web.LimitSignIn, [3]Clearing{}},       // counts right passwords
	{web.LimitResetAccount, [3]Clearing{}}, // a right code is always taken
	{web.LimitVerify, [3]Clearing{}},       // the link of the same mail is always taken
}

// CounterKey returns the key of the account u under a limit of AccountCounters, as the remedies have
// left it. User.Unlocks counts every remedy, User.FactorUnlocks those that clear what ClearsOnce.
func CounterKey(limit, key string, u User) string {
	unlocks := int64(0)
	for _, c := range AccountCounters {
		switch {
		case c.Limit != limit:
		case c.Clear[RemedyMailedCode] == ClearsAlways:
			unlocks = u.Unlocks
		case c.Clear[RemedyMailedCode] == ClearsOnce:
			unlocks = u.FactorUnlocks
		}
	}
	if unlocks == 0 {
		return key
	}
	return fmt.Sprintf("%s\x00%d", key, unlocks) // nobody can type NUL
}

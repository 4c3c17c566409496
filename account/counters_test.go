package account_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
)

// The table in docs/settings.md is that of account.AccountCounters. UPDATE_DOCS=1 writes it.
func TestSettingsShowTheTableOfCounters(t *testing.T) {
	clearings := map[account.Clearing]string{
		account.ClearsNever: "-", account.ClearsAlways: "clears", account.ClearsOnce: "clears once in 24 hours",
	}
	var b strings.Builder
	b.WriteString("| counter | `cairn user unlock`, *Unlock sign-in* | a given reset code | a mailed reset code |\n|---|---|---|---|\n")
	for _, c := range account.AccountCounters {
		fmt.Fprintf(&b, "| `%s` |", c.Limit)
		for _, r := range account.Remedies {
			fmt.Fprintf(&b, " %s |", clearings[c.Clear[r]])
		}
		b.WriteString("\n")
	}
	checkTable(t, "../docs/settings.md", "counters", b.String())
}

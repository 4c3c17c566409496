package register

import (
	"fmt"
	"strings"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

// replacement is a list that a flag replaces. Without a flag it is that of a client's required flags, of which none
// is left.
type replacement struct {
	flag       string
	old, given []string
}

// confirmReplacements asks before entries are removed that no flag names, and before a client that required a flag
// requires none. An empty list removes all of them and says so itself.
func confirmReplacements(p *cli.Program, yes bool, lists ...replacement) error {
	for _, l := range lists {
		lost := without(l.old, append([]string{"openid"}, l.given...)) // openid always stays
		if yes || len(l.given) == 0 && l.flag != "" || len(lost) == 0 {
			continue
		}
		text := fmt.Sprintf("--%s replaces the list, which removes %s", l.flag, strings.Join(lost, " "))
		instead := fmt.Sprintf(", or change single entries with --add-%s and --remove-%[1]s", l.flag)
		if l.flag == "" {
			text, instead = "without a required flag everybody may use this client", ""
		}
		if err := confirmLoss(p, text, instead); err != nil {
			return err
		}
	}
	return nil
}

// confirmLoss asks on a terminal; without one --yes, or what can be done instead, has to say it.
func confirmLoss(p *cli.Program, text, instead string) error {
	if !cli.IsTerminal(p.Stdin) {
		return cli.UsageError(text + ": add --yes" + instead)
	}
	return cli.MustAgree(p, text+". Continue? [y/N] ")
}

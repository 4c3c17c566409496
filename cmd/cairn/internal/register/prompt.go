package register

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/store"
)

// replacement is a list that a flag replaces.
type replacement struct {
	flag       string
	old, given []string
}

// confirmReplacements asks before entries are removed that no flag names. An empty list removes all of
// them and says so itself; see confirmOpening.
func confirmReplacements(p *cli.Program, yes bool, lists ...replacement) error {
	for _, l := range lists {
		lost := slices.DeleteFunc(slices.Clone(l.old), func(s string) bool {
			return s == "openid" || slices.Contains(l.given, s) // openid always stays
		})
		if yes || len(l.given) == 0 || len(lost) == 0 {
			continue
		}
		text := fmt.Sprintf("--%s replaces the list, which removes %s", l.flag, strings.Join(lost, " "))
		instead := fmt.Sprintf(", or change single entries with --add-%s and --remove-%s", l.flag, l.flag)
		if err := confirmLoss(p, text, instead); err != nil {
			return err
		}
	}
	return nil
}

// confirmOpening asks before a client that required a flag requires none.
func confirmOpening(p *cli.Program, yes bool, before, after []string) error {
	if yes || len(before) == 0 || len(after) > 0 {
		return nil
	}
	return confirmLoss(p, "without a required flag everybody may use this client", "")
}

// confirmLoss asks on a terminal; without one --yes, or what can be done instead, has to say it.
func confirmLoss(p *cli.Program, text, instead string) error {
	if !cli.IsTerminal(p.Stdin) {
		return cli.UsageError(text + ": add --yes" + instead)
	}
	return cli.MustAgree(p, text+". Continue? [y/N] ")
}

// ifUnchanged calls do in a transaction if same still holds there: an answer takes its time.
func ifUnchanged(
	p *cli.Program, st *store.Store, what string,
	same func(*store.Store) (bool, error), do func(*store.Store) error,
) error {
	return st.Together(p.Ctx, "update "+what, func(tx *store.Store) error {
		switch ok, err := same(tx); {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("the %s was changed meanwhile, and nothing was changed now: look at it again", what)
		}
		return do(tx)
	})
}

package people

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

// GivePassword checks a new user, makes the handle canonical, and then reads or generates the password.
// quiet is set if the command would hide a generated password.
func GivePassword(
	p *cli.Program, n *account.NewUser, settings account.Settings, file string, generate, quiet bool,
) error {
	u, err := n.Check(settings)
	if problem, known := web.ProblemOf(err); err != nil && known {
		return cli.UsageError(faults(problem, newUserFlags))
	} else if err != nil {
		return err
	}
	n.Handle = u.Handle
	switch {
	case file != "" && generate:
		return cli.UsageError("give --password-file or --generate-password, not both")
	case generate && quiet:
		return cli.UsageError("-q would hide the generated password: leave -q out, or use -o json")
	case generate:
		n.Password = passwords.Generate(settings.MinPassword)
	case file != "":
		b, err := p.ReadSecret(file, 4096)
		if err != nil {
			return fmt.Errorf("--password-file: %w", err)
		}
		line, _, _ := strings.Cut(string(b), "\n")
		n.Password = strings.TrimRight(line, "\r")
	case cli.IsTerminal(p.Stdin):
		if n.Password, err = promptPassword(p, settings.MinPassword); err != nil {
			return err
		}
	default:
		return cli.UsageError("--password-file FILE (- for standard input), --generate-password or " +
			"--without-password is needed: a password is never taken from a flag's value")
	}
	if err := passwords.Check(n.Password, n.Handle, settings.MinPassword); err != nil {
		problem, _ := web.ProblemOf(err)
		return errors.New(problem.Detail)
	}
	return nil
}

// promptPassword prompts twice, without echo.
func promptPassword(p *cli.Program, least int) (string, error) {
	return cli.PromptSecret(p, fmt.Sprintf("Password (%d to 128 characters): ", least), true)
}

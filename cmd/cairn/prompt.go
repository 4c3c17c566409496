package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
)

// givePassword checks a new user, makes the handle canonical, and then reads or generates the password.
// quiet is set if the command would hide a generated password.
func givePassword(p *program, n *account.NewUser, settings account.Settings, file string, generate, quiet bool) error {
	u, err := n.Check(settings)
	if problem, known := web.ProblemOf(err); err != nil && known {
		return usageError{faults(problem, newUserFlags)}
	} else if err != nil {
		return err
	}
	n.Handle = u.Handle
	switch {
	case file != "" && generate:
		return usageError{"give --password-file or --generate-password, not both"}
	case generate && quiet:
		return usageError{"-q would hide the generated password: leave -q out, or use -o json"}
	case generate:
		n.Password = passwords.Generate(settings.MinPassword)
	case file != "":
		b, err := p.readSecret(file, 4096)
		if err != nil {
			return fmt.Errorf("--password-file: %w", err)
		}
		line, _, _ := strings.Cut(string(b), "\n")
		n.Password = strings.TrimRight(line, "\r")
	case isTerminal(p.stdin):
		if n.Password, err = promptPassword(p, settings.MinPassword); err != nil {
			return err
		}
	default:
		return usageError{"--password-file FILE (- for standard input), --generate-password or --without-password is needed: " +
			"a password is never taken from a flag's value"}
	}
	if err := passwords.Check(n.Password, n.Handle, settings.MinPassword); err != nil {
		problem, _ := web.ProblemOf(err)
		return errors.New(problem.Detail)
	}
	return nil
}

// onlyNow returns a secret with a note that it is not shown again.
func onlyNow(secret string) string {
	if secret == "" {
		return ""
	}
	return secret + "   (shown only now)"
}

// promptPassword prompts twice, without echo.
func promptPassword(p *program, least int) (string, error) {
	return promptSecret(p, fmt.Sprintf("Password (%d to 128 characters): ", least), true)
}

// promptSecret prompts without echo, and twice for a new secret.
func promptSecret(p *program, prompt string, twice bool) (string, error) {
	prompts := []string{prompt}
	if twice {
		prompts = append(prompts, "The same again: ")
	}
	answers := make([]string, len(prompts))
	for i, prompt := range prompts {
		fmt.Fprint(p.stderr, prompt)
		b, err := term.ReadPassword(int(p.stdin.(*os.File).Fd()))
		fmt.Fprintln(p.stderr)
		if err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		answers[i] = string(b)
	}
	if answers[0] != answers[len(answers)-1] {
		return "", errors.New("the two answers differ: start again")
	}
	return answers[0], nil
}

// confirm asks for confirmation on a terminal. Without a terminal it requires --yes.
func confirm(p *program, yes bool, prompt string) error {
	if yes {
		return nil
	}
	if !isTerminal(p.stdin) {
		return usageError{prompt + " This cannot be undone: add --yes"}
	}
	return mustAgree(p, prompt+" This cannot be undone. [y/N] ")
}

// mustAgree asks on a terminal and returns an error unless the answer is yes.
func mustAgree(p *program, question string) error {
	answer, err := ask(p, question)
	if err != nil {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// ask prints a prompt and reads one line.
func ask(p *program, prompt string) (string, error) {
	fmt.Fprint(p.stderr, prompt)
	line, err := bufio.NewReader(p.stdin).ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || line == "") {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func isTerminal(r any) bool {
	f, ok := r.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// PromptSecret prompts without echo, and twice for a new secret.
func PromptSecret(p *Program, prompt string, twice bool) (string, error) {
	prompts := []string{prompt}
	if twice {
		prompts = append(prompts, "The same again: ")
	}
	answers := make([]string, len(prompts))
	fd := int(p.Stdin.(*os.File).Fd())
	for i, prompt := range prompts {
		fmt.Fprint(p.Stderr, prompt)
		before, _ := term.GetState(fd)
		b, err := interruptible(p.Ctx, func() ([]byte, error) { return term.ReadPassword(fd) })
		if p.Ctx.Err() != nil && before != nil {
			_ = term.Restore(fd, before) // it echoes again
		}
		fmt.Fprintln(p.Stderr)
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

// Confirm asks for confirmation on a terminal. Without a terminal it requires --yes.
func Confirm(p *Program, yes bool, prompt string) error {
	if yes {
		return nil
	}
	if !IsTerminal(p.Stdin) {
		return UsageError(prompt + " This cannot be undone: add --yes")
	}
	return MustAgree(p, prompt+" This cannot be undone. [y/N] ")
}

// MustAgree asks on a terminal and returns an error unless the answer is yes.
func MustAgree(p *Program, question string) error {
	answer, err := Ask(p, question)
	if err != nil {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// Ask prints a prompt and reads one line.
func Ask(p *Program, prompt string) (string, error) {
	fmt.Fprint(p.Stderr, prompt)
	line, err := interruptible(p.Ctx, func() (string, error) { return bufio.NewReader(p.Stdin).ReadString('\n') })
	if err != nil && (!errors.Is(err, io.EOF) || line == "") {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

func IsTerminal(r any) bool {
	f, ok := r.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

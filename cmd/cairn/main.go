// Command cairn is the identity of a sports-activity community: accounts, a
// session cookie that other applications verify on their own, and an OpenID
// Connect provider. This package is where the others meet: the command line,
// the wiring of the HTTP service (handler.go) and its middleware.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/config"
)

// Exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// cli is the command line.
type cli struct {
	config.Files

	Init       initCommand       `cmd:"" help:"Create the database, the first administrator and the secrets."`
	Serve      serveCommand      `cmd:"" help:"Run the service."`
	ShowSecret showSecretCommand `cmd:"" help:"Print the shared secret for the secrets file of other applications."`
	Client     clientCommand     `cmd:"" help:"Register and manage OAuth 2.0 clients."`
	User       userCommand       `cmd:"" help:"Manage users."`
	Session    sessionCommand    `cmd:"" help:"List and end sessions."`
	Invite     inviteCommand     `cmd:"" help:"Create, list and revoke invites."`
	Keys       keysCommand       `cmd:"" help:"Generate and list signing keys."`
	Explain    explainCommand    `cmd:"" help:"Say what would become of an authorization request, and why."`
	Activity   activityCommand   `cmd:"" help:"Check activity files."`
	Demo       demoCommand       `cmd:"" help:"Try everything: a service and an application that uses it, in a folder of its own."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
}

// program is what every command's Run gets.
type program struct {
	ctx    context.Context
	name   string // as it was called: what is printed to be pasted begins with it
	env    *config.Environment
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

func main() {
	ownerOnly()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// exited carries an exit code out of kong, which wants to end the process
// after it has printed a help text.
type exited int

// run is the program without the process around it.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(exited)
			if !ok {
				panic(r)
			}
			code = int(e)
		}
	}()
	env := config.NewEnvironment(environ)
	p := &program{ctx: ctx, name: calledAs(os.Args[0]), env: env, stdin: stdin, stdout: stdout, stderr: stderr}
	parser, err := kong.New(&cli{}, append(config.Options(env),
		kong.Name("cairn"),
		kong.Description("Accounts, sessions and OpenID Connect for a sports-activity community."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Bind(p),
	)...)
	if err != nil {
		fmt.Fprintf(stderr, "cairn: %s\n", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return complain(stderr, err)
	}
	for _, warning := range config.UnknownEnvironment(environ) {
		fmt.Fprintf(stderr, "cairn: warning: %s\n", warning)
	}
	if err := parsed.Run(); err != nil {
		return complain(stderr, err)
	}
	return exitDone
}

// calledAs is what somebody types to run the program again.
func calledAs(arg0 string) string {
	if strings.Contains(arg0, "go-build") {
		return "go run ./cmd/cairn" // go run deletes the program that it ran
	}
	return config.ShellQuote(arg0)
}

// usageError is a wrong use of a command, found after parsing.
type usageError struct{ text string }

func (u usageError) Error() string { return u.text }

// exitError ends a command with a code and without a message of its own.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// complain prints an error as one line that says what to do next.
func complain(stderr io.Writer, err error) int {
	var silent exitError
	if errors.As(err, &silent) {
		return int(silent)
	}
	code := exitFailed
	line := strings.Join(strings.Fields(err.Error()), " ")
	var parse *kong.ParseError
	var usage usageError
	switch {
	case errors.As(err, &parse) && parse.ExitCode() != exitFailed:
		code = exitUsage
		if !strings.Contains(line, "--help") {
			line += "; see cairn --help"
		}
	case errors.As(err, &usage):
		code = exitUsage
	}
	fmt.Fprintf(stderr, "cairn: %s\n", line)
	return code
}

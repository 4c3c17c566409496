// Command cairn is the identity service of a sports-activity community: accounts, a session cookie that
// other applications verify locally, and an OpenID Connect provider. This package is the command line;
// internal/httpd is the HTTP service.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
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
	PrintVersion kong.VersionFlag `name:"version" help:"Print the version."`

	Demo demoCommand `cmd:"" group:"try" help:"Try a service and an application that uses it, in a folder of its own."`

	Init  initCommand  `cmd:"" group:"run" help:"Set up a database, first administrator, key and cairn.yaml."`
	Serve serveCommand `cmd:"" group:"run" help:"Run the service."`

	Client     clientCommand     `cmd:"" group:"apps" help:"Register and manage applications (OAuth 2.0 clients)."`
	API        apiCommand        `cmd:"" group:"apps" help:"Register and manage APIs (audiences of access tokens)."`
	Apply      applyCommand      `cmd:"" group:"apps" help:"Make clients, APIs, allowances and settings what a file says."`
	Export     exportCommand     `cmd:"" group:"apps" help:"Print the registrations as a file for apply."`
	Explain    explainCommand    `cmd:"" reads:"" group:"apps" help:"Explain the answer to an authorization request."`
	ShowSecret showSecretCommand `cmd:"" reads:"" group:"apps" help:"Print the secret that verifies HS256 session cookies."`

	Invite  inviteCommand  `cmd:"" group:"people" help:"Create, list and revoke invites."`
	Join    joinCommand    `cmd:"" group:"people" help:"List and decide requests to join."`
	User    userCommand    `cmd:"" group:"people" help:"Manage users."`
	Session sessionCommand `cmd:"" group:"people" help:"List and end sessions."`

	Settings    settingsCommand    `cmd:"" group:"operate" help:"Change the name, registration, limits and flags."`
	Audit       auditCommand       `cmd:"" group:"operate" help:"Read the audit log."`
	Mail        mailCommand        `cmd:"" group:"operate" help:"Test the mail settings."`
	Backup      backupCommand      `cmd:"" group:"operate" help:"Back up the installation, and check backups."`
	Restore     restoreCommand     `cmd:"" reads:"" group:"operate" help:"Restore a backup into an empty place."`
	Copy        copyCommand        `cmd:"" group:"operate" help:"Copy the installation between SQLite and PostgreSQL."`
	Migrate     migrateCommand     `cmd:"" group:"operate" help:"Migrate the database to the schema of this program."`
	Keys        keysCommand        `cmd:"" group:"operate" help:"Generate and list keys, seal secrets, and migrate from HS256."`
	Doctor      doctorCommand      `cmd:"" group:"operate" help:"Check the deployment and say how to fix problems."`
	Healthcheck healthcheckCommand `cmd:"" group:"operate" help:"Check that the service is ready, for a container."`
	Activity    activityCommand    `cmd:"" group:"files" help:"Make and check activity files."`
	Help        helpCommand        `cmd:"" group:"operate" help:"Show the help of a command."`
	Version     versionCommand     `cmd:"" group:"operate" help:"Print the version."`
	Man         manCommand         `cmd:"" group:"operate" help:"Print the manual page."`
	Completion  completionCommand  `cmd:"" group:"operate" help:"Print a shell completion script."`

	ImportLegacy importLegacyCommand `cmd:"" group:"people" help:"Import users, preferences, settings and invites from the database of the older Python service."`
}

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command, such as client add; the whole program if not given."`
}

// Run does what --help does.
func (c *helpCommand) Run(k *kong.Kong) error {
	_, err := k.Parse(append(c.Command, "--help"))
	return err
}

// program is the environment that every command's Run gets.
type program struct {
	ctx    context.Context
	name   string // as it was called; printed commands begin with it
	env    *config.Environment
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

// read reads a file, or standard input for -, up to a limit.
func (p *program) read(file string, limit int64) ([]byte, error) {
	r := p.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		r = f
	}
	return io.ReadAll(io.LimitReader(r, limit))
}

// readSecret is read for a secret of the operator alone. It warns of a file that others can read.
func (p *program) readSecret(file string, limit int64) ([]byte, error) {
	if info, err := os.Stat(file); file != "-" && err == nil && info.Mode().IsRegular() && config.OpenTo(info.Mode(), 0o044) {
		fmt.Fprintf(p.stderr, "cairn: other users of this machine can read %s (mode %04o): run chmod 600 on it\n", file, info.Mode().Perm())
	}
	return p.read(file, limit)
}

func main() {
	ownerOnly()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// exited is the panic value that carries an exit code out of kong, which ends the process after it has
// printed a help text.
type exited int

// run runs the program and returns its exit code.
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
	stderr = withColors(stderr, env)
	p := &program{ctx: ctx, name: calledAs(os.Args[0]), env: env, stdin: stdin, stdout: stdout, stderr: stderr}
	parser, err := kong.New(&cli{}, append(config.Options(env),
		kong.Name("cairn"),
		kong.Description(description(p.name)),
		kong.Vars{"version": versionLine()},
		kong.ExplicitGroups([]kong.Group{
			{Key: "try", Title: "Try it:"}, {Key: "run", Title: "Set up and run:"},
			{Key: "apps", Title: "Applications:"}, {Key: "people", Title: "People:"},
			{Key: "operate", Title: "Operate:"}, {Key: "files", Title: "Activity files:"},
		}),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Bind(p),
	)...)
	if err != nil {
		fmt.Fprintf(stderr, "cairn: %s\n", err)
		return exitFailed
	}
	if isGroup(parser.Model.Node, args) {
		args = append(args, "--help")
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return complain(stderr, err)
	}
	if err := givenOnce(parsed); err != nil {
		return complain(stderr, err)
	}
	for _, warning := range config.UnknownEnvironment(environ) {
		fmt.Fprintf(stderr, "cairn: warning: %s\n", warning)
	}
	if warning := env.Warning(); warning != "" {
		fmt.Fprintf(stderr, "cairn: warning: %s\n", warning)
	}
	if err := parsed.Run(); err != nil {
		return complain(stderr, err)
	}
	return exitDone
}

// isGroup reports whether the arguments name a command that only groups others.
func isGroup(n *kong.Node, args []string) bool {
	for _, arg := range args {
		i := slices.IndexFunc(n.Children, func(c *kong.Node) bool {
			return c.Type == kong.CommandNode && c.Name == arg
		})
		if i < 0 {
			return false
		}
		n = n.Children[i]
	}
	return len(n.Children) > 0 && n.DefaultCmd == nil && len(n.Positional) == 0
}

// givenOnce refuses a second value of a flag that is tagged once. Otherwise the last one would win, which
// is less strict than what was written.
func givenOnce(parsed *kong.Context) error {
	given := map[string]bool{}
	for _, path := range parsed.Path {
		if path.Flag == nil || path.Resolved || !path.Flag.Tag.Has("once") {
			continue
		}
		if given[path.Flag.Name] {
			return usagef("--%s is given twice, and takes one value", path.Flag.Name)
		}
		given[path.Flag.Name] = true
	}
	return nil
}

// description returns the first help text; name is how the program was called.
func description(name string) string {
	return "Accounts, sessions and OpenID Connect for a sports club.\n\n" +
		"To try it: " + name + " demo. To set it up: " + name +
		" init --handle NAME --generate-password --generate-key key.pem, then " + name + " serve."
}

// calledAs returns the command line that runs the program again.
func calledAs(arg0 string) string {
	if strings.Contains(arg0, "go-build") {
		return "go run ./cmd/cairn" // go run deletes the program that it ran
	}
	return config.ShellQuote(arg0)
}

// usageError is incorrect use of a command, found after parsing.
type usageError struct{ text string }

func (u usageError) Error() string { return u.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// exitError ends a command with a code and without a message of its own.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// commandOf returns the command that was recognized, such as "cairn client add".
func commandOf(parsed *kong.Context) string {
	command := "cairn"
	if parsed != nil {
		for _, path := range parsed.Path {
			if path.Command != nil {
				command = path.Command.FullPath()
			}
		}
	}
	return command
}

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
			line += "; see " + commandOf(parse.Context) + " --help"
		}
	case errors.As(err, &usage):
		code = exitUsage
	}
	name := "cairn:"
	if _, ok := stderr.(colorTerminal); ok {
		name = painted(red, name)
	}
	fmt.Fprintf(stderr, "%s %s\n", name, line)
	return code
}

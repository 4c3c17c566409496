// Package cli is what the commands of cairn share: how a command line is run, what it prints and asks, and how the
// installation is opened. It knows no command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/config"
)

// Exit codes of every command.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Program is the environment that every command's Run gets.
type Program struct {
	Ctx     context.Context
	Name    string // as it was called; printed commands begin with it
	Env     *config.Environment
	Environ []string // as os.Environ returns it
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer

	stopsItself chan struct{} // closed by StopsItself
	notWritten  error         // the first of Stdout
}

// Read reads a file, or standard input for -, up to a limit.
func (p *Program) Read(file string, limit int64) ([]byte, error) {
	return p.read(file, limit, func(string, os.FileInfo) error { return nil })
}

// ReadOwned is Read for a file that decides who may sign in where. It refuses one that others may write.
func (p *Program) ReadOwned(file string, limit int64) ([]byte, error) {
	return p.read(file, limit, func(path string, info os.FileInfo) error {
		err := config.CheckWriters(path, info)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return err
	})
}

// read ends with the program: a pipe may never answer.
func (p *Program) read(file string, limit int64, check func(string, os.FileInfo) error) ([]byte, error) {
	return interruptible(p.Ctx, func() ([]byte, error) {
		if file == "-" {
			return io.ReadAll(io.LimitReader(p.Stdin, limit))
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err == nil {
			err = check(file, info)
		}
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(f, limit))
	})
}

// interruptible calls do and returns its result, or at once the error of a context that is done. What do still waits
// for then ends with the process.
func interruptible[T any](ctx context.Context, do func() (T, error)) (T, error) {
	var value T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = do()
	}()
	select {
	case <-done:
		return value, err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// ReadSecret is Read for a secret of the operator alone. It warns of a file that others can read.
func (p *Program) ReadSecret(file string, limit int64) ([]byte, error) {
	info, err := os.Stat(file)
	if file != "-" && err == nil && info.Mode().IsRegular() && config.OpenTo(info.Mode(), 0o044) {
		fmt.Fprintf(p.Stderr, "cairn: other users of this machine can read %s (mode %04o): run chmod 600 on it\n",
			file, info.Mode().Perm())
	}
	return p.Read(file, limit)
}

// exited is the panic value that carries an exit code out of kong, which ends the process after it has
// printed a help text.
type exited int

// NewProgram returns the environment of a command.
func NewProgram(ctx context.Context, environ []string, stdin io.Reader, stdout, stderr io.Writer) *Program {
	env := config.NewEnvironment(environ)
	p := &Program{
		Ctx: ctx, Name: calledAs(os.Args[0]), Env: env, Environ: environ,
		Stdin: stdin, Stderr: withColors(stderr, env), stopsItself: make(chan struct{}),
	}
	p.Stdout = output{stdout, &p.notWritten}
	return p
}

// StopsItself says that from now on the command ends after a signal in a time of its own.
func (p *Program) StopsItself() { close(p.stopsItself) }

// stopGrace is the time that a command has to end after a signal. It may wait for a pipe, which ends with the process.
const stopGrace = 5 * time.Second

// Run parses the arguments, runs the command that they name and returns the exit code. commands is a pointer
// to the struct of the command line.
func (p *Program) Run(commands any, args []string, options ...kong.Option) int {
	ended := make(chan int, 1)
	go func() { ended <- p.run(commands, args, options) }()
	select {
	case code := <-ended:
		return code
	case <-p.Ctx.Done():
	}
	select {
	case code := <-ended:
		return code
	case <-p.stopsItself:
		return <-ended
	case <-time.After(stopGrace):
		return complain(p.Stderr, errors.New("ended by a signal"))
	}
}

func (p *Program) run(commands any, args []string, options []kong.Option) (code int) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(exited)
			if !ok {
				panic(r)
			}
			code = int(e)
		}
	}()
	parser, err := kong.New(commands, slices.Concat(config.Options(p.Env), options, []kong.Option{
		Help(commands),
		kong.Name("cairn"),
		kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Bind(p),
	})...)
	if err != nil {
		fmt.Fprintf(p.Stderr, "cairn: %s\n", err)
		return ExitFailed
	}
	if isGroup(parser.Model.Node, args) {
		args = append(args, "--help")
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return complain(p.Stderr, err)
	}
	if err := givenOnce(parsed); err != nil {
		return complain(p.Stderr, err)
	}
	for _, warning := range config.UnknownEnvironment(p.Environ) {
		fmt.Fprintf(p.Stderr, "cairn: warning: %s\n", warning)
	}
	if warning := p.Env.Warning(); warning != "" {
		fmt.Fprintf(p.Stderr, "cairn: warning: %s\n", warning)
	}
	err = parsed.Run()
	if p.notWritten != nil && (err == nil || errors.Is(err, p.notWritten)) {
		err = fmt.Errorf("%w: what was done stays done, and a code or secret that was not shown is replaced by "+
			"user reset-code, client rotate-secret or api rotate-secret", p.notWritten)
	}
	if err != nil {
		return complain(p.Stderr, err)
	}
	return ExitDone
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
			return Usagef("--%s is given twice, and takes one value", path.Flag.Name)
		}
		given[path.Flag.Name] = true
	}
	return nil
}

// calledAs returns the command line that runs the program again.
func calledAs(arg0 string) string {
	if strings.Contains(arg0, "go-build") {
		return "go run ./cmd/cairn" // go run deletes the program that it ran
	}
	return config.ShellQuote(arg0)
}

// UsageError is incorrect use of a command, found after parsing.
type UsageError string

func (u UsageError) Error() string { return string(u) }

func Usagef(format string, args ...any) error { return UsageError(fmt.Sprintf(format, args...)) }

// ExitError ends a command with a code and without a message of its own.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

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
	var silent ExitError
	if errors.As(err, &silent) {
		return int(silent)
	}
	code := ExitFailed
	line := strings.Join(strings.Fields(err.Error()), " ")
	var parse *kong.ParseError
	var usage UsageError
	switch {
	case errors.As(err, &parse) && parse.ExitCode() != ExitFailed:
		code = ExitUsage
		if !strings.Contains(line, "--help") {
			line += "; see " + commandOf(parse.Context) + " --help"
		}
	case errors.As(err, &usage):
		code = ExitUsage
	}
	name := "cairn:"
	if _, ok := stderr.(colorTerminal); ok {
		name = painted(Red, name)
	}
	fmt.Fprintf(stderr, "%s %s\n", name, line)
	return code
}

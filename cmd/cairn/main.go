// Command cairn is the identity service of a sports-activity community: accounts, a session cookie that
// other applications verify locally, and an OpenID Connect provider. This package is the command line;
// internal/httpd is the HTTP service.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/cmd/cairn/internal/archive"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/people"
	"github.com/cairn-id/cairn/cmd/cairn/internal/recordings"
	"github.com/cairn-id/cairn/cmd/cairn/internal/register"
	"github.com/cairn-id/cairn/config"
)

// commands is the command line. What has no help tag has its text in internal/cli/help.txt.
type commands struct {
	config.Files
	PrintVersion kong.VersionFlag `name:"version"`

	Demo demoCommand `cmd:"" group:"try"`

	Init  initCommand  `cmd:"" group:"run"`
	Serve serveCommand `cmd:"" group:"run"`

	Client     register.ClientCommand    `cmd:"" group:"apps"`
	API        register.APICommand       `cmd:"" group:"apps"`
	Apply      register.ApplyCommand     `cmd:"" group:"apps"`
	Export     register.ExportCommand    `cmd:"" group:"apps"`
	Explain    explainCommand            `cmd:"" reads:"" group:"apps"`
	ShowSecret archive.ShowSecretCommand `cmd:"" reads:"" group:"apps"`

	Invite  people.InviteCommand  `cmd:"" group:"people"`
	Join    people.JoinCommand    `cmd:"" group:"people"`
	User    people.UserCommand    `cmd:"" group:"people"`
	Session people.SessionCommand `cmd:"" group:"people"`

	Settings    register.SettingsCommand `cmd:"" group:"operate"`
	Audit       people.AuditCommand      `cmd:"" group:"operate"`
	Mail        mailCommand              `cmd:"" group:"operate"`
	Backup      archive.BackupCommand    `cmd:"" group:"operate"`
	Restore     archive.RestoreCommand   `cmd:"" reads:"" group:"operate"`
	Copy        archive.CopyCommand      `cmd:"" group:"operate"`
	Migrate     archive.MigrateCommand   `cmd:"" group:"operate"`
	Keys        archive.KeysCommand      `cmd:"" group:"operate"`
	Doctor      doctorCommand            `cmd:"" group:"operate"`
	Healthcheck healthcheckCommand       `cmd:"" group:"operate"`
	Activity    recordings.Command       `cmd:"" group:"files"`
	Help        helpCommand              `cmd:"" group:"operate"`
	Version     cli.VersionCommand       `cmd:"" group:"operate"`
	Man         manCommand               `cmd:"" group:"operate"`
	Completion  completionCommand        `cmd:"" group:"operate"`
	Complete    completeCommand          `cmd:"" hidden:""`
}

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command, such as client add; the whole program if not given."`
}

// Run does what --help does.
func (c *helpCommand) Run(k *kong.Kong) error {
	_, err := k.Parse(append(c.Command, "--help"))
	return err
}

func main() {
	cli.OwnerOnly()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer context.AfterFunc(ctx, stop)() // a second signal ends the process
	os.Exit(Run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// Run runs the program and returns its exit code.
func Run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if asksForJSON(args) {
		return diagnoseInJSON(stdout, stderr, func(stdout, stderr io.Writer) int {
			return run(ctx, args, environ, stdin, stdout, stderr)
		})
	}
	return run(ctx, args, environ, stdin, stdout, stderr)
}

func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := cli.NewProgram(ctx, environ, stdin, stdout, stderr)
	return p.Run(&commands{}, args,
		kong.Description(description(p.Name)),
		kong.Vars{"version": cli.VersionLine()},
		kong.ExplicitGroups([]kong.Group{
			{Key: "try", Title: "Try it:"}, {Key: "run", Title: "Set up and run:"},
			{Key: "apps", Title: "Applications:"}, {Key: "people", Title: "People:"},
			{Key: "operate", Title: "Operate:"}, {Key: "files", Title: "Activity files:"},
		}),
	)
}

// description returns the first help text; name is how the program was called.
func description(name string) string {
	return "Accounts, sessions and OpenID Connect for a sports club.\n\n" +
		"To try it: " + name + " demo. To set it up: " + name +
		" init --handle NAME --generate-password --generate-key key.pem, then " + name + " serve."
}

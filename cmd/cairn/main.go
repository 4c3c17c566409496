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

// commands is the command line.
type commands struct {
	config.Files
	PrintVersion kong.VersionFlag `name:"version" help:"Print the version."`

	Demo demoCommand `cmd:"" group:"try" help:"Try a service and an application that uses it, in a folder of its own."`

	Init  initCommand  `cmd:"" group:"run" help:"Set up a database, first administrator, key and cairn.yaml."`
	Serve serveCommand `cmd:"" group:"run" help:"Run the service."`

	Client     register.ClientCommand    `cmd:"" group:"apps" help:"Register and manage applications (OAuth 2.0 clients)."`
	API        register.APICommand       `cmd:"" group:"apps" help:"Register and manage APIs (audiences of access tokens)."`
	Apply      register.ApplyCommand     `cmd:"" group:"apps" help:"Make clients, APIs, allowances and settings what a file says."`
	Export     register.ExportCommand    `cmd:"" group:"apps" help:"Print the registrations as a file for apply."`
	Explain    explainCommand            `cmd:"" reads:"" group:"apps" help:"Explain the answer to an authorization request."`
	ShowSecret archive.ShowSecretCommand `cmd:"" reads:"" group:"apps" help:"Print the secret that verifies HS256 session cookies."`

	Invite  people.InviteCommand  `cmd:"" group:"people" help:"Create, list and revoke invites."`
	Join    people.JoinCommand    `cmd:"" group:"people" help:"List and decide requests to join."`
	User    people.UserCommand    `cmd:"" group:"people" help:"Manage users."`
	Session people.SessionCommand `cmd:"" group:"people" help:"List and end sessions."`

	Settings    register.SettingsCommand `cmd:"" group:"operate" help:"Change the name, registration, limits and flags."`
	Audit       people.AuditCommand      `cmd:"" group:"operate" help:"Read the audit log."`
	Mail        mailCommand              `cmd:"" group:"operate" help:"Test the mail settings."`
	Backup      archive.BackupCommand    `cmd:"" group:"operate" help:"Back up the installation, and check backups."`
	Restore     archive.RestoreCommand   `cmd:"" reads:"" group:"operate" help:"Restore a backup into an empty place."`
	Copy        archive.CopyCommand      `cmd:"" group:"operate" help:"Copy the installation between SQLite and PostgreSQL."`
	Migrate     archive.MigrateCommand   `cmd:"" group:"operate" help:"Migrate the database to the schema of this program."`
	Keys        archive.KeysCommand      `cmd:"" group:"operate" help:"Generate and list keys, seal secrets, and migrate from HS256."`
	Doctor      doctorCommand            `cmd:"" group:"operate" help:"Check the deployment and say how to fix problems."`
	Healthcheck healthcheckCommand       `cmd:"" group:"operate" help:"Check that the service is ready, for a container."`
	Activity    recordings.Command       `cmd:"" group:"files" help:"Make and check activity files."`
	Help        helpCommand              `cmd:"" group:"operate" help:"Show the help of a command."`
	Version     cli.VersionCommand       `cmd:"" group:"operate" help:"Print the version."`
	Man         manCommand               `cmd:"" group:"operate" help:"Print the manual page."`
	Completion  completionCommand        `cmd:"" group:"operate" help:"Print a shell completion script."`
	Complete    completeCommand          `cmd:"" hidden:"" help:"Print the words that complete a command line."`
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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

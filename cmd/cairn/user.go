package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

type userCommand struct {
	Add       addUserCommand       `cmd:"" help:"Add a user without an invite."`
	List      listUsersCommand     `cmd:"" help:"List the users."`
	Show      showUserCommand      `cmd:"" help:"Show a user with their sessions and applications."`
	Update    updateUserCommand    `cmd:"" help:"Change a user's name, email address and profile."`
	Flags     userFlagsCommand     `cmd:"" help:"Turn access flags of a user on (+FLAG) and off (-FLAG)."`
	Suspend   suspendUserCommand   `cmd:"" help:"Shut a user out at once: sessions, codes and tokens end."`
	Unsuspend unsuspendUserCommand `cmd:"" help:"Let a user sign in again."`
	Delete    deleteUserCommand    `cmd:"" help:"Remove a user's personal data; the handle stays taken."`
	ResetCode resetCodeCommand     `cmd:"" name:"reset-code" help:"Issue a password reset code, for somebody who is locked out."`
}

// withUser opens the database and finds the user that a command is about.
func withUser(p *program, database, handle string, do func(*account.Administration, account.User) error) error {
	st, err := openDatabase(p.ctx, database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	office := account.NewAdministration(st, nil)
	u, err := findUser(p, office, handle)
	if err != nil {
		return err
	}
	return inWords(u, do(office, u))
}

func findUser(p *program, office *account.Administration, handle string) (account.User, error) {
	u, err := office.User(p.ctx, handle)
	if errors.Is(err, account.ErrUserNotFound) {
		return u, fmt.Errorf("there is no user %s: cairn user list shows them", printable(handle))
	}
	return u, err
}

// printable leaves a handle as it is typed, and quotes what is none.
func printable(handle string) string {
	if h, err := account.CanonicalHandle(handle); err == nil && h == handle {
		return h
	}
	return strconv.Quote(handle)
}

// inWords says at the command line what the service says in its own places.
func inWords(u account.User, err error) error {
	switch {
	case errors.Is(err, account.ErrLastAdmin):
		return fmt.Errorf("%s is the last active administrator: make somebody else one first, with cairn user flags HANDLE +admin", u.Handle)
	case errors.Is(err, account.ErrUserNotFound):
		return fmt.Errorf("there is no user %s any more", u.Handle)
	}
	return err
}

type addUserCommand struct {
	databaseFlags
	output
	Handle           string   `arg:"" help:"Handle of the new user."`
	DisplayName      string   `help:"Name that others see; the handle if not given."`
	Email            string   `placeholder:"ADDRESS" help:"Email address. It is not verified unless --email-verified says so."`
	EmailVerified    bool     `help:"Tell applications that the address has been verified."`
	PasswordFile     string   `placeholder:"FILE" help:"File with the password, - for standard input."`
	GeneratePassword bool     `help:"Make a password and print it once."`
	Flag             []string `placeholder:"FLAG" help:"Access flag to turn on; the default flags if not given. Repeatable."`
}

// Run adds the user with the given or the default flags.
func (c *addUserCommand) Run(p *program) error {
	handle, err := account.CanonicalHandle(c.Handle)
	if err != nil {
		return usageError{"the handle has 1 to 30 letters a-z, digits, - or _, and begins and ends with a letter or digit"}
	}
	if c.DisplayName == "" {
		c.DisplayName = handle
	}
	name, err := account.CheckDisplayName(c.DisplayName)
	if err != nil {
		return usageError{"--display-name: 1 to 60 characters, no control characters"}
	}
	u := account.User{Sub: uuid.NewString(), Handle: handle, DisplayName: name}
	err = account.UserChange{"email": c.Email, "email_verified": strconv.FormatBool(c.EmailVerified)}.Apply(&u)
	if p, _ := web.ProblemOf(err); err != nil {
		return usageError{"--" + strings.ReplaceAll(faults(p), "_", "-")}
	}
	if c.PasswordFile != "" && c.GeneratePassword {
		return usageError{"give --password-file or --generate-password, not both"}
	}
	if c.GeneratePassword && c.Quiet {
		return errHiddenPassword
	}
	st, err := openDatabase(p.ctx, c.Database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	settings, err := st.Settings(p.ctx)
	if err != nil {
		return err
	}
	flags := settings.DefaultFlags
	if len(c.Flag) > 0 {
		flags = c.Flag
	}
	for _, f := range flags {
		if !slices.Contains(settings.Flags, f) {
			return fmt.Errorf("--flag: there is no flag %q here: cairn settings set flags adds one", f)
		}
	}
	password, err := choosePassword(p, handle, c.PasswordFile, c.GeneratePassword, isTerminal(p.stdin) && c.PasswordFile != "-")
	if err != nil {
		return err
	}
	hasher, err := account.NewHasher()
	if err != nil {
		return err
	}
	if u.PasswordHash, err = hasher.Hash(p.ctx, password); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	u.Flags, u.CreatedAt, u.UpdatedAt = flags, now, now
	if err := st.CreateUser(p.ctx, u, operator("user.create", handle, "")); err != nil {
		if errors.Is(err, account.ErrHandleTaken) {
			return fmt.Errorf("the handle %s is taken: choose another one (a deleted user's handle is never given again)", handle)
		}
		return err
	}
	if !c.GeneratePassword {
		password = ""
	}
	switch {
	case c.Quiet:
		fmt.Fprintln(p.stdout, u.Sub)
		return nil
	case c.Format == "json":
		return writeJSON(p.stdout, map[string]any{"sub": u.Sub, "handle": handle, "password": password, "flags": flags})
	}
	shown := password
	if shown != "" {
		shown += "   (shown only now)"
	}
	return writePairs(p.stdout, [][2]string{{"handle", handle}, {"sub", u.Sub}, {"password", shown}})
}

type resetCodeCommand struct {
	databaseFlags
	output
	Handle string `arg:"" help:"Handle of the user."`
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Public address of the service, for the link."`
}

// Run prints a code that voids the one before.
func (c *resetCodeCommand) Run(p *program) error {
	return withUser(p, c.Database, c.Handle, func(office *account.Administration, u account.User) error {
		code, err := office.IssueResetCode(p.ctx, account.Operator(), u)
		if err != nil {
			return err
		}
		url, until := account.ResetURL(c.Issuer, u.Handle, code), code.ExpiresAt.Format(time.RFC3339)
		return c.done(p, code.Code, map[string]string{"handle": u.Handle, "code": code.Code, "url": url, "expires_at": until},
			[][2]string{{"handle", u.Handle}, {"code", code.Code}, {"link", url}, {"valid until", until}})
	})
}

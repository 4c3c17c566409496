package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
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
	ResetCode resetCodeCommand     `cmd:"" name:"reset-code" help:"Issue a password reset code, for a user who is locked out."`

	Import importUsersCommand `cmd:"" help:"Add the users of another system, with their password hashes: all of a CSV or JSON file or none."`
	Export exportUsersCommand `cmd:"" help:"Write all users as CSV or JSON, as user import reads them."`

	ResetFactors resetFactorsCommand `cmd:"" name:"reset-factors" help:"Remove the second factors of a user who has lost them; all sessions end."`
}

// oneUser are the flags and the argument of a command about one user.
type oneUser struct {
	databaseFlags
	output
	Handle string `arg:"" help:"Handle of the user."`
}

// withUser opens the database and finds the user.
func (c oneUser) withUser(p *program, do func(*account.Administration, account.User) error) error {
	return c.withUsers(p, func(users *account.Administration) error {
		u, err := findUser(p, users, c.Handle)
		if err != nil {
			return err
		}
		switch err = do(users, u); {
		case errors.Is(err, account.ErrLastAdmin):
			const first = "make somebody else one who has a password, with cairn user flags HANDLE +admin"
			return fmt.Errorf("%s is the last administrator who can sign in: %s", u.Handle, first)
		case errors.Is(err, account.ErrUserNotFound):
			return fmt.Errorf("there is no user %s any more", u.Handle)
		}
		return err
	})
}

func findUser(p *program, users *account.Administration, handle string) (account.User, error) {
	u, err := users.User(p.ctx, handle)
	if errors.Is(err, account.ErrUserNotFound) {
		if h, err := account.CanonicalHandle(handle); err != nil || h != handle {
			handle = strconv.Quote(handle)
		}
		return u, fmt.Errorf("there is no user %s: cairn user list shows them", handle)
	}
	return u, err
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
	hasher, err := passwords.NewHasher()
	if err != nil {
		return err
	}
	return c.withUsers(p, func(users *account.Administration) error {
		settings, err := users.Settings(p.ctx)
		if err != nil {
			return err
		}
		n := account.NewUser{Handle: c.Handle, DisplayName: c.DisplayName, Email: c.Email, EmailVerified: c.EmailVerified, Flags: c.Flag, AnyHandle: true}
		if err := givePassword(p, &n, settings, c.PasswordFile, c.GeneratePassword, c.Quiet); err != nil {
			return err
		}
		u, err := users.Create(p.ctx, account.Operator(), hasher, n)
		if errors.Is(err, account.ErrHandleTaken) {
			return fmt.Errorf("the handle %s is taken: choose another one (a deleted user's handle is never given again)", n.Handle)
		}
		if errors.Is(err, account.ErrEmailTaken) {
			return fmt.Errorf("--email: another account has verified %s", n.Email)
		}
		if err != nil {
			return err
		}
		if !c.GeneratePassword {
			n.Password = ""
		}
		document := map[string]any{
			"sub": u.Sub, "handle": u.Handle, "password": n.Password, "flags": listed(u.Flags),
			"email": u.Email, "email_verified": u.EmailVerified,
		}
		labels := pairs{{"handle", u.Handle}, {"sub", u.Sub}, {"email", c.emailState(u)}, {"password", onlyNow(n.Password)}}
		return c.print(p, u.Sub, document, labels)
	})
}

// emailState is the address of the new user with how it is proven.
func (c *addUserCommand) emailState(u account.User) string {
	switch {
	case u.Email == "":
		return ""
	case u.EmailVerified:
		return u.Email + " (verified)"
	case c.MailServer != "":
		return u.Email + " (not verified until its owner opens a mailed link: the account page sends it)"
	}
	return u.Email + " (not verified: without mail it can only be marked, with cairn user update --email-verified)"
}

// userRow is a user as the commands print it. The claims of the profile that
// are set are beside the other members, as in /api/me.
type userRow struct {
	Sub           string     `json:"sub"`
	Handle        string     `json:"handle"`
	DisplayName   string     `json:"display_name"`
	Email         string     `json:"email"`
	EmailVerified bool       `json:"email_verified"`
	Flags         []string   `json:"flags"` // those that are on
	Suspended     bool       `json:"suspended"`
	SuspendReason string     `json:"suspend_reason,omitempty"`
	InvitedBy     string     `json:"invited_by,omitempty"`
	CreatedAt     time.Time  `json:"created_at"`
	LastLoginAt   *time.Time `json:"last_login_at"` // null: never
	account.Profile
}

func userRowOf(u account.User) userRow {
	return userRow{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified, Flags: listed(u.Flags),
		Suspended: u.Suspended(), SuspendReason: u.SuspendReason, InvitedBy: u.InvitedBy, CreatedAt: u.CreatedAt.UTC(),
		LastLoginAt: web.TimeOrNull(u.LastLoginAt), Profile: u.Profile,
	}
}

func dateOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

type listUsersCommand struct {
	databaseFlags
	Format string `name:"output" short:"o" enum:"table,json" default:"table" help:"table or json."`
	Quiet  bool   `short:"q" help:"Print handles only."`
	Query  string `placeholder:"WORDS" help:"Only users with words that begin with these, in their handle, name or email address."`
}

// Run lists users in the order of their handles, or with a query in that of the words
// found.
func (c *listUsersCommand) Run(p *program) error {
	return c.withUsers(p, func(users *account.Administration) error {
		out := output{c.Format, c.Quiet}.list(p, "HANDLE", "NAME", "EMAIL", "FLAGS", "STATE", "LAST SIGN-IN")
		for after, more := "", true; more; more = after != "" {
			page, next, err := users.Users(p.ctx, account.UserQuery{Query: c.Query, After: after, Limit: pageSize})
			if err != nil {
				return err
			}
			for _, u := range page {
				state := map[bool]string{true: "suspended", false: "active"}[u.Suspended()]
				if err := out.add(u.Handle, userRowOf(u), u.Handle, u.DisplayName, u.Email, strings.Join(u.Flags, " "), state, dateOrNever(u.LastLoginAt)); err != nil {
					return err
				}
			}
			after = next
		}
		return out.end()
	})
}

type showUserCommand struct{ oneUser }

// Run shows one user; hashes and codes are never among it.
func (c *showUserCommand) Run(p *program) error {
	return c.withUser(p, func(users *account.Administration, u account.User) error {
		access, err := users.Access(p.ctx, u)
		if err != nil {
			return err
		}
		labels := userLabels(u)
		for _, s := range access.Sessions {
			labels = append(labels, [2]string{"session", fmt.Sprintf("%s, %s at %s, last seen %s", s.ID, web.Device(s.UserAgent), s.Address, dateOrNever(s.LastSeenAt))})
		}
		for _, a := range access.Apps {
			labels = append(labels, [2]string{"application", fmt.Sprintf("%s (%s): %s", a.ClientID, a.ClientName, strings.Join(a.Scopes, " "))})
		}
		document := struct {
			userRow
			Sessions []account.SessionEntry `json:"sessions"`
			Apps     []account.AppEntry     `json:"apps"`
		}{userRowOf(u), account.SessionEntries(access.Sessions, ""), account.AppEntries(access.Apps)}
		return c.print(p, u.Sub, document, labels)
	})
}

// userLabels are the labels and values of a user, without what is empty.
func userLabels(u account.User) pairs {
	email, phone := u.Email, u.Profile.PhoneNumber
	if u.EmailVerified {
		email += " (verified)"
	}
	if u.Profile.PhoneNumberVerified {
		phone += " (verified)"
	}
	suspended := ""
	if u.Suspended() {
		suspended = dateOrNever(u.SuspendedAt)
		if u.SuspendReason != "" {
			suspended += ": " + u.SuspendReason
		}
	}
	f := u.Profile
	labels := pairs{
		{"handle", u.Handle}, {"sub", u.Sub}, {"name", u.DisplayName}, {"email", email}, {"flags", strings.Join(u.Flags, " ")}, {"suspended", suspended},
		{"invited by", u.InvitedBy}, {"created", dateOrNever(u.CreatedAt)}, {"last sign-in", dateOrNever(u.LastLoginAt)},
		{"given_name", f.GivenName}, {"family_name", f.FamilyName}, {"middle_name", f.MiddleName}, {"nickname", f.Nickname}, {"profile", f.Page},
		{"picture", f.Picture}, {"website", f.Website}, {"gender", f.Gender}, {"birthdate", f.Birthdate}, {"zoneinfo", f.Zoneinfo}, {"locale", f.Locale},
		{"phone_number", phone},
	}
	if a := f.Address; a != nil {
		for _, m := range (pairs{
			{"formatted", a.Formatted}, {"street_address", a.StreetAddress}, {"locality", a.Locality}, {"region", a.Region}, {"postal_code", a.PostalCode}, {"country", a.Country},
		}) {
			labels = append(labels, [2]string{"address." + m[0], strings.ReplaceAll(m[1], "\n", " / ")})
		}
	}
	return labels
}

type updateUserCommand struct {
	oneUser
	userChange
}

// userChange are the options of user update; what is nil was not given.
type userChange struct {
	DisplayName   *string  `help:"Name that others see."`
	Email         *string  `placeholder:"ADDRESS" help:"Email address. It is not verified unless --email-verified says so."`
	ClearEmail    bool     `help:"Remove the email address."`
	EmailVerified *bool    `negatable:"" help:"Tell applications that the address has been verified."`
	Set           []string `sep:"none" placeholder:"CLAIM=VALUE" help:"Set a claim of the profile, as given_name=Ada, phone_number_verified=true or address.locality=Roma. Repeatable."`
	Unset         []string `placeholder:"CLAIM" help:"Remove a claim of the profile. Repeatable."`
}

// Run changes what is given, all of it or nothing.
func (c *updateUserCommand) Run(p *program) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	return c.withUser(p, func(users *account.Administration, u account.User) error {
		u, err := users.Amend(p.ctx, account.Operator(), u, change)
		if problem := (*web.Problem)(nil); errors.As(err, &problem) && len(problem.Errors) > 0 {
			return usageError{faults(problem, nil)}
		}
		if err != nil {
			return err
		}
		return c.print(p, u.Sub, userRowOf(u), userLabels(u))
	})
}

func (c *updateUserCommand) change() (account.UserChange, error) {
	out := account.UserChange{}
	switch {
	case reflect.ValueOf(c.userChange).IsZero():
		return out, usageError{"nothing to change is given; see cairn user update --help"}
	case c.ClearEmail && c.Email != nil:
		return out, usageError{"give --email or --clear-email, not both"}
	case c.ClearEmail:
		out["email"] = ""
	case c.Email != nil:
		out["email"] = *c.Email
	}
	if c.DisplayName != nil {
		out["display_name"] = *c.DisplayName
	}
	if c.EmailVerified != nil {
		out["email_verified"] = strconv.FormatBool(*c.EmailVerified)
	}
	claims := slices.DeleteFunc(account.UserMembers(), func(name string) bool { return strings.HasPrefix(name, "email") || name == "display_name" })
	for i, claim := range slices.Concat(c.Set, c.Unset) {
		flag, name, value := "--unset", claim, ""
		if i < len(c.Set) {
			flag = "--set"
			if name, value, _ = strings.Cut(claim, "="); value == "" {
				return out, usageError{fmt.Sprintf("--set %q: write it as given_name=Ada; --unset removes a claim", claim)}
			}
		}
		if !slices.Contains(claims, name) {
			return out, usageError{fmt.Sprintf("%s: there is no claim %q; the claims are %s", flag, name, strings.Join(claims, ", "))}
		}
		if _, twice := out[name]; twice {
			return out, usageError{fmt.Sprintf("%s: %s is given more than once", flag, name)}
		}
		out[name] = value
	}
	return out, nil
}

// newUserFlags are the flags that set the members of a new user.
var newUserFlags = map[string]string{"display_name": "--display-name", "email": "--email", "email_verified": "--email-verified", "flags": "--flag"}

// faults puts all that is refused into one line, with the flags of its members.
func faults(p *web.Problem, flags map[string]string) string {
	var words []string
	for _, f := range p.Errors {
		member := strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")
		words = append(words, cmp.Or(flags[member], member)+": "+string(f.Detail))
	}
	if words == nil {
		return p.Detail
	}
	return strings.Join(words, " ")
}

// userFlagsCommand takes all its arguments as they are, or -admin would be read
// as options: those of the command come before the handle.
type userFlagsCommand struct {
	databaseFlags
	output
	Words []string `arg:"" passthrough:"" name:"handle-and-flags" help:"HANDLE +FLAG -FLAG..., after the options."`
}

// Run turns the named flags on or off and leaves the others.
func (c *userFlagsCommand) Run(p *program) error {
	flags := map[string]bool{}
	for _, word := range c.Words[1:] {
		name := strings.TrimLeft(word, "+-")
		if len(name) != len(word)-1 || account.CheckFlag(name) != nil {
			return usageError{fmt.Sprintf("%q: write +FLAG to turn a flag on and -FLAG to turn it off; options come before the handle", word)}
		}
		if _, twice := flags[name]; twice {
			return usageError{fmt.Sprintf("the flag %s is given more than once", name)}
		}
		flags[name] = word[0] == '+'
	}
	if len(flags) == 0 {
		return usageError{"no flag is given: write +FLAG to turn one on and -FLAG to turn it off"}
	}
	return oneUser{c.databaseFlags, c.output, c.Words[0]}.withUser(p, func(users *account.Administration, u account.User) error {
		on, err := users.SetFlags(p.ctx, account.Operator(), u, flags)
		if errors.Is(err, account.ErrUnknownFlag) {
			settings, err := users.Settings(p.ctx)
			if err != nil {
				return err
			}
			return fmt.Errorf("there is no such flag here: the flags are %s, and cairn settings set flags changes them", strings.Join(settings.Flags, ", "))
		}
		if err != nil {
			return err
		}
		return c.print(p, u.Sub, map[string]any{"handle": u.Handle, "flags": listed(on)}, pairs{{"handle", u.Handle}, {"flags", strings.Join(on, " ")}})
	})
}

type suspendUserCommand struct {
	oneUser
	Reason     string `help:"Why, for the audit log: at most 200 characters. Other administrators read it."`
	TellReason bool   `help:"Mail the reason to the user too."`
}

// Run suspends; it is done at once, also in the browsers of the user.
func (c *suspendUserCommand) Run(p *program) error {
	return c.withUser(p, func(users *account.Administration, u account.User) error {
		err := users.Suspend(p.ctx, account.Operator(), u, c.Reason, c.TellReason)
		if errors.Is(err, account.ErrInvalidText) {
			return usageError{"--reason: at most 200 characters, no control characters"}
		}
		if err != nil {
			return err
		}
		return c.print(p, u.Sub, map[string]any{"handle": u.Handle, "suspended": true}, pairs{{"suspended", u.Handle}})
	})
}

type unsuspendUserCommand struct{ oneUser }

// Run lifts a suspension; what was ended stays ended.
func (c *unsuspendUserCommand) Run(p *program) error {
	return c.withUser(p, func(users *account.Administration, u account.User) error {
		if err := users.Unsuspend(p.ctx, account.Operator(), u); err != nil {
			return err
		}
		return c.print(p, u.Sub, map[string]any{"handle": u.Handle, "suspended": false}, pairs{{"can sign in again", u.Handle}})
	})
}

type deleteUserCommand struct {
	oneUser
	Yes bool `help:"Do not ask."`
}

// Run deletes the user after a confirmation.
func (c *deleteUserCommand) Run(p *program) error {
	return c.withUser(p, func(users *account.Administration, u account.User) error {
		if err := confirm(p, c.Yes, fmt.Sprintf("Delete the user %s (%s) with all personal data?", u.Handle, u.DisplayName)); err != nil {
			return err
		}
		if err := users.Delete(p.ctx, account.Operator(), u); err != nil {
			return err
		}
		return c.print(p, u.Sub, map[string]any{"handle": u.Handle, "deleted": true}, pairs{{"deleted", u.Handle}})
	})
}

type resetCodeCommand struct {
	oneUser
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Public address of the service, for the link."`
}

// Run prints a code that voids the one before.
func (c *resetCodeCommand) Run(p *program) error {
	return c.withUser(p, func(users *account.Administration, u account.User) error {
		code, err := users.IssueResetCode(p.ctx, account.Operator(), u)
		if err != nil {
			return err
		}
		url, until := account.ResetURL(c.Issuer, u.Handle, code), code.ExpiresAt.Format(time.RFC3339)
		return c.print(p, code.Code, map[string]string{"handle": u.Handle, "code": code.Code, "url": url, "expires_at": until},
			pairs{{"handle", u.Handle}, {"code", code.Code}, {"link", url}, {"valid until", until}})
	})
}

type resetFactorsCommand struct{ oneUser }

// Run leaves the password as the only thing that the user signs in with.
func (c *resetFactorsCommand) Run(p *program) error {
	return c.withUser(p, func(users *account.Administration, u account.User) error {
		if err := users.ResetFactors(p.ctx, account.Operator(), u); err != nil {
			return err
		}
		return c.print(p, u.Sub, map[string]any{"handle": u.Handle, "second_factor": false}, pairs{{"signs in with the password alone", u.Handle}})
	})
}

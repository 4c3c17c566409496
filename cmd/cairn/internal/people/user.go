// Package people has the commands about users, their invites, requests and sessions, and the audit log.
package people

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/templates"
)

type UserCommand struct {
	Add       addUserCommand       `cmd:""`
	List      listUsersCommand     `cmd:"" reads:""`
	Show      showUserCommand      `cmd:"" reads:""`
	Update    updateUserCommand    `cmd:""`
	Set       setUserCommand       `cmd:""`
	Flags     userFlagsCommand     `cmd:""`
	Suspend   suspendUserCommand   `cmd:""`
	Unsuspend unsuspendUserCommand `cmd:""`
	Unlock    unlockUserCommand    `cmd:""`
	Delete    deleteUserCommand    `cmd:""`
	ResetCode resetCodeCommand     `cmd:""`

	Import importUsersCommand `cmd:""`
	Export exportUsersCommand `cmd:"" reads:""`

	ResetFactors resetFactorsCommand `cmd:""`
}

// oneUser holds the flags and the argument of a command about one user.
type oneUser struct {
	cli.DatabaseFlags
	cli.Output
	Handle string `arg:"" ids:"user" help:"Handle of the user."`
}

// withUser opens the database and finds the user.
func (c oneUser) withUser(p *cli.Program, do func(*roster.Administration, account.User) error) error {
	return c.WithUsers(p, func(users *roster.Administration) error {
		u, err := FindUser(p, users, c.Handle)
		if err != nil {
			return err
		}
		switch err = do(users, u); {
		case errors.Is(err, account.ErrLastAdmin):
			const remedy = "first make another user with a password an administrator: cairn user flags HANDLE +admin"
			return fmt.Errorf("%s is the last administrator who can sign in and has no end: %s", u.Handle, remedy)
		case errors.Is(err, account.ErrUserNotFound):
			return fmt.Errorf("the user %s no longer exists", u.Handle)
		}
		return err
	})
}

func FindUser(p *cli.Program, users *roster.Administration, handle string) (account.User, error) {
	u, err := users.User(p.Ctx, handle)
	if errors.Is(err, account.ErrUserNotFound) {
		if p, _ := web.ProblemOf(err); p.Detail != account.ErrUserNotFound.Detail { // it names one with other dots
			return u, errors.New(p.Detail)
		}
		if h, err := account.CanonicalHandle(handle); err != nil || h != handle {
			handle = strconv.Quote(handle)
		}
		return u, fmt.Errorf("there is no user %s: cairn user list shows them", handle)
	}
	return u, err
}

type addUserCommand struct {
	cli.DatabaseFlags
	cli.Output
	Handle           string `arg:"" help:"Handle of the new user."`
	DisplayName      string `help:"Name that others see; the handle if not given."`
	Email            string `placeholder:"ADDRESS" help:"Email address; unverified without --email-verified."`
	EmailVerified    bool   `help:"Mark the address as verified, also for applications."`
	PasswordFile     string `placeholder:"FILE" help:"File with the password, - for standard input."`
	GeneratePassword bool   `help:"Generate a password and print it once."`
	WithoutPassword  bool
	Flag             []string `placeholder:"FLAG" help:"Access flag; the default flags if not given. Repeatable."`
	Issuer           string   `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" hidden:""`
}

// Run adds the user with the given or the default flags.
func (c *addUserCommand) Run(p *cli.Program) error {
	hasher, err := passwords.NewHasher()
	if err != nil {
		return err
	}
	return c.WithUsers(p, func(users *roster.Administration) error {
		settings, err := users.Settings(p.Ctx)
		if err != nil {
			return err
		}
		n := account.NewUser{
			Handle: c.Handle, DisplayName: c.DisplayName, Email: c.Email, EmailVerified: c.EmailVerified,
			Flags: c.Flag, AnyHandle: true,
		}
		var u account.User
		var code account.ResetCode
		if c.WithoutPassword {
			if err := c.checkWithout(n, settings); err != nil {
				return err
			}
			u, code, err = users.Add(p.Ctx, account.Operator(), n)
		} else {
			if err := GivePassword(p, &n, settings, c.PasswordFile, c.GeneratePassword, c.Quiet); err != nil {
				return err
			}
			u, err = users.Create(p.Ctx, account.Operator(), hasher, n)
		}
		if errors.Is(err, account.ErrHandleTaken) {
			const format = "the handle %s is taken: choose another one (a deleted user's handle is never reused)"
			return fmt.Errorf(format, n.Handle)
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
			"sub": u.Sub, "handle": u.Handle, "password": n.Password, "flags": cli.Listed(u.Flags),
			"email": u.Email, "email_verified": u.EmailVerified,
		}
		labels := cli.Pairs{
			{"handle", u.Handle}, {"sub", u.Sub}, {"email", c.emailState(u)}, {"password", cli.OnlyNow(n.Password)},
		}
		switch {
		case code.Hash != nil:
			url, until := account.ResetURL(c.Issuer, u.Handle, code), code.ExpiresAt.Format(time.RFC3339)
			document["url"], document["expires_at"] = url, until
			labels = append(labels, [2]string{"link", cli.OnlyNow(url)}, [2]string{"valid until", until})
		case c.WithoutPassword:
			labels = append(labels, [2]string{"link", "mailed to " + u.Email})
		}
		return c.Print(p, u.Sub, document, labels)
	})
}

// checkWithout checks the flags of a user without a password, before anything is stored.
func (c *addUserCommand) checkWithout(n account.NewUser, settings account.Settings) error {
	mailed := c.MailServer != "" && c.Email != ""
	switch _, err := n.Check(settings); {
	case c.PasswordFile != "" || c.GeneratePassword:
		return cli.UsageError("give --without-password, --password-file or --generate-password: one of them")
	case err != nil:
		if problem, known := web.ProblemOf(err); known {
			return cli.UsageError(faults(problem, newUserFlags))
		}
		return err
	case c.Quiet && !mailed:
		return cli.UsageError("-q would hide the link: leave -q out, or use -o json")
	}
	return nil
}

// emailState returns the new user's address with its state of verification.
func (c *addUserCommand) emailState(u account.User) string {
	switch {
	case u.Email == "":
		return ""
	case u.EmailVerified:
		return u.Email + " (verified)"
	case c.MailServer != "":
		return u.Email + " (not verified until its owner opens a mailed link: the account page sends it)"
	}
	return u.Email + " (not verified: without mail, only cairn user update --email-verified can mark it)"
}

// userRow is a user as the commands print it. The profile's claims are members of the same object,
// as in /api/me.
type userRow struct {
	Sub           string   `json:"sub"`
	Handle        string   `json:"handle"`
	DisplayName   string   `json:"display_name"`
	Email         string   `json:"email"`
	EmailVerified bool     `json:"email_verified"`
	Flags         []string `json:"flags"` // those that are on
	Suspended     bool     `json:"suspended"`
	SuspendReason string   `json:"suspend_reason,omitempty"`
	InvitedBy     string   `json:"invited_by,omitempty"`
	entry.Ends
	CreatedAt   time.Time  `json:"created_at"`
	LastLoginAt *time.Time `json:"last_login_at"` // null: never
	account.Profile
}

func userRowOf(u account.User) userRow {
	return userRow{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified,
		Flags: cli.Listed(u.Flags), Suspended: u.Suspended(), SuspendReason: u.SuspendReason, InvitedBy: u.InvitedBy,
		Ends: entry.EndsOf(u), CreatedAt: u.CreatedAt.UTC(), LastLoginAt: web.TimeOrNull(u.LastLoginAt),
		Profile: u.Profile,
	}
}

type listUsersCommand struct {
	cli.DatabaseFlags
	Format string `name:"output" short:"o" enum:"table,json" default:"table" help:"table or json."`
	Quiet  bool   `short:"q" help:"Print only handles."`
	Query  string `placeholder:"WORDS" help:"Only users whose handle, name or email has words beginning with these."`
	Ending string `placeholder:"30d" help:"Only users whose account, or a flag, ends within so many days."`
}

// Run lists users in the order of their handles, or with a query in the order of the words found.
func (c *listUsersCommand) Run(p *cli.Program) error {
	days, err := strconv.Atoi(strings.TrimSuffix(c.Ending, "d"))
	if c.Ending != "" && (err != nil || days < 1 || days > 36_600) {
		return cli.UsageError("--ending: write days, as 30d")
	}
	return c.WithUsers(p, func(users *roster.Administration) error {
		q := account.UserQuery{Query: c.Query, Limit: cli.PageSize}
		if c.Ending != "" {
			q.EndingBy = users.Now().AddDate(0, 0, days)
		}
		out := cli.Output{Format: c.Format, Quiet: c.Quiet}.List(p, "HANDLE", "NAME", "EMAIL", "FLAGS", "STATE", "ENDS",
			"LAST SIGN-IN")
		zone := users.Zone(p.Ctx)
		for more := true; more; more = q.After != "" && out.Err == nil {
			page, next, err := users.Users(p.Ctx, q)
			if err != nil {
				return err
			}
			for _, u := range page {
				state := "active"
				switch {
				case u.Ended():
					state = "ended"
				case u.Suspended():
					state = "suspended"
				}
				seen := cli.DateOrNever(u.LastLoginAt)
				row := []string{u.Handle, u.DisplayName, u.Email, flagsUntil(u.Flags, u.FlagEnds, zone), state,
					account.LastDay(u.EndsAt, zone), seen}
				out.Add(u.Handle, userRowOf(u), row...)
			}
			q.After = next
		}
		return out.End()
	})
}

// flagsUntil returns flags with their last days.
func flagsUntil(flags []string, ends map[string]time.Time, zone *time.Location) string {
	words := slices.Clone(flags)
	for i, f := range words {
		if day := account.LastDay(ends[f], zone); day != "" {
			words[i] = f + "@" + day
		}
	}
	return strings.Join(words, " ")
}

type showUserCommand struct{ oneUser }

// Run shows one user without hashes and codes.
func (c *showUserCommand) Run(p *cli.Program) error {
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		access, err := users.Access(p.Ctx, u)
		if err != nil {
			return err
		}
		locked := u.Locked(users.Now())
		labels := userLabels(u, users.Zone(p.Ctx))
		if !locked.IsZero() {
			text := cli.DateOrNever(locked) + ", by wrong passwords or codes: cairn user unlock " + u.Handle
			labels = append(labels, [2]string{"locked until", text})
		}
		for _, s := range access.Sessions {
			device, seen := web.Device(s.UserAgent), cli.DateOrNever(s.LastSeenAt)
			text := fmt.Sprintf("%s, %s at %s, last seen %s", s.ID, device, s.Address, seen)
			labels = append(labels, [2]string{"session", text})
		}
		for _, a := range access.Apps {
			text := fmt.Sprintf("%s (%s): %s", a.ClientID, a.ClientName, strings.Join(a.Scopes, " "))
			labels = append(labels, [2]string{"application", text})
		}
		document := struct {
			userRow
			Pending     string          `json:"email_pending"` // empty: none waits
			LockedUntil *time.Time      `json:"locked_until"`  // null: not locked
			SecondStep  bool            `json:"second_step"`
			Sessions    []entry.Session `json:"sessions"`
			Apps        []entry.App     `json:"apps"`
		}{userRowOf(u), u.Pending.Email, web.TimeOrNull(locked), u.SecondFactor,
			entry.Sessions(access.Sessions, "", access.Passkeys), entry.Apps(access.Apps)}
		return c.Print(p, u.Sub, document, labels)
	})
}

// userLabels returns the labels and values of a user.
func userLabels(u account.User, zone *time.Location) cli.Pairs {
	email, phone := u.Email, u.Profile.PhoneNumber
	if u.EmailVerified {
		email += " (verified)"
	}
	if u.Pending.Email != "" {
		email += "; " + u.Pending.Email + " waits for its link"
	}
	if u.Profile.PhoneNumberVerified {
		phone += " (verified)"
	}
	suspended := ""
	if u.Suspended() {
		suspended = cli.DateOrNever(u.SuspendedAt)
		if u.SuspendReason != "" {
			suspended += ": " + u.SuspendReason
		}
	}
	ends := ""
	if !u.EndsAt.IsZero() {
		ends = "after " + account.LastDay(u.EndsAt, zone)
	}
	passwordless, step := "", "not chosen"
	if u.SecondFactor {
		step = "asked for after the password"
	}
	if u.Passwordless() {
		passwordless, step = "none: passkeys alone", ""
	}
	f := u.Profile
	labels := cli.Pairs{
		{"handle", u.Handle}, {"sub", u.Sub}, {"name", u.DisplayName}, {"email", email},
		{"flags", flagsUntil(u.Flags, u.FlagEnds, zone)}, {"suspended", suspended}, {"ends", ends},
		{"invited by", u.InvitedBy}, {"password", passwordless},
		{"second step", step},
		{"created", cli.DateOrNever(u.CreatedAt)}, {"last sign-in", cli.DateOrNever(u.LastLoginAt)},
	}
	for _, name := range account.UserMembers() {
		value := strings.ReplaceAll(f.Text(name), "\n", " / ")
		if name == "phone_number" {
			value = phone
		}
		if value != "" {
			labels = append(labels, [2]string{name, value})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Attributes)) {
		labels = append(labels, [2]string{account.AttributePrefix + name, f.Attributes[name]})
	}
	return labels
}

type setUserCommand struct {
	oneUser
	Values []string `arg:"" name:"name=value" sep:"none" help:"Attribute and its value; an empty value clears it."`
}

// Run sets the given attributes, all of them or none.
func (c *setUserCommand) Run(p *cli.Program) error {
	change := account.UserChange{}
	for _, text := range c.Values {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := change[account.AttributePrefix+name]; !ok || twice {
			return cli.Usagef("%q: write each attribute once, as member_number=4711; member_number= clears it", text)
		}
		change[account.AttributePrefix+name] = value
	}
	return c.amend(p, change)
}

// userFlagsCommand parses its own arguments, because kong would read -admin as options. The options
// of the command come before the handle.
type userFlagsCommand struct {
	cli.DatabaseFlags
	cli.Output
	Words []string `arg:"" ids:"user" passthrough:"" name:"handle-and-flags"`
}

// Run turns the named flags on or off. Other flags are unchanged.
func (c *userFlagsCommand) Run(p *cli.Program) error {
	if _, err := c.change(time.Local); err != nil {
		return err
	}
	one := oneUser{c.DatabaseFlags, c.Output, c.Words[0]}
	return one.withUser(p, func(users *roster.Administration, u account.User) error {
		flags, err := c.change(users.Zone(p.Ctx))
		if err != nil {
			return err
		}
		did, err := users.RecentActs(p.Ctx, u)
		if err != nil {
			return err
		}
		on, err := users.SetFlags(p.Ctx, account.Operator(), u, flags)
		if errors.Is(err, account.ErrUnknownFlag) {
			settings, err := users.Settings(p.Ctx)
			if err != nil {
				return err
			}
			const format = "there is no such flag here: the flags are %s, and cairn settings set flags --add adds one"
			return fmt.Errorf(format, strings.Join(settings.Flags, ", "))
		}
		if errors.Is(err, account.ErrEndPast) {
			return cli.UsageError("a last day is in the past: -FLAG turns a flag off now")
		}
		if err != nil {
			return err
		}
		if f, named := flags[account.FlagAdmin]; !named || f.On {
			did = did[:0]
		}
		done := map[string]any{"handle": u.Handle, "flags": cli.Listed(on), "recent_acts": did}
		pairs := cli.Pairs{{"handle", u.Handle}, {"flags", strings.Join(on, " ")}}
		return c.Print(p, u.Sub, done, append(pairs, didLabels(did)...))
	})
}

// change returns the change that the words say, with days of a time zone.
func (c *userFlagsCommand) change(zone *time.Location) (account.FlagChange, error) {
	flags := account.FlagChange{}
	for _, word := range c.Words[1:] {
		state := strings.TrimLeft(word, "+-")
		name, typed, ends := strings.Cut(state, "@")
		if len(state) != len(word)-1 || account.CheckFlag(name) != nil || ends && word[0] == '-' {
			const format = "%q: write +FLAG to turn a flag on, +FLAG@2030-12-24 until a day, and -FLAG to turn it " +
				"off; options come before the handle"
			return nil, cli.Usagef(format, word)
		}
		if _, twice := flags[name]; twice {
			return nil, cli.Usagef("the flag %s is given more than once", name)
		}
		f := account.FlagState{On: word[0] == '+', SetEnd: ends}
		if ends && typed != "never" {
			at, err := account.ParseEnd(typed, zone)
			if err != nil || at.IsZero() {
				return nil, cli.Usagef("%q: write the last day as in +%s@2030-12-24, or +%s@never", word, name, name)
			}
			f.EndsAt = at
		}
		flags[name] = f
	}
	if len(flags) == 0 {
		return nil, cli.UsageError("no flag is given: write +FLAG to turn one on and -FLAG to turn it off")
	}
	return flags, nil
}

type suspendUserCommand struct {
	oneUser
	Reason     string `help:"Reason for the audit log, which administrators read: at most 200 characters."`
	TellReason bool   `help:"Also mail the reason to the user."`
}

// Run suspends the user. This takes effect at once, even in the user's browsers.
func (c *suspendUserCommand) Run(p *cli.Program) error {
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		did, err := users.RecentActs(p.Ctx, u)
		if err != nil {
			return err
		}
		err = users.Suspend(p.Ctx, account.Operator(), u, c.Reason, c.TellReason)
		if errors.Is(err, account.ErrInvalidText) {
			return cli.UsageError("--reason: at most 200 characters, without control characters")
		}
		if err != nil {
			return err
		}
		done := map[string]any{"handle": u.Handle, "suspended": true, "recent_acts": did}
		return c.Print(p, u.Sub, done, append(cli.Pairs{{"suspended", u.Handle}}, didLabels(did)...))
	})
}

// didLabels says what somebody did as an administrator, and how it is undone.
func didLabels(list []roster.RecentAct) (labels cli.Pairs) {
	for _, r := range list {
		label, text := "setting changed", r.Name+", before: "+r.Detail
		switch r.Kind {
		case templates.ActAccount:
			label, text = "account added", r.Name+": cairn user suspend "+r.Name
		case templates.ActLift:
			label, text = "suspension lifted", r.Name+": cairn user suspend "+r.Name
		case templates.ActReset:
			label, text = "password changed with a code", r.Name+": cairn user suspend "+r.Name
		case templates.ActAddress:
			label, text = "address changed", r.Name+": cairn user update "+r.Name+" --no-email-verified"
			if r.Unjoined {
				text = r.Name + ": cairn user update " + r.Name + " --email="
			}
		case templates.ActPermission:
			label, text = "permission given", r.Name+" "+r.Detail+": cairn user flags "+r.Name+" -"+r.Detail
		case templates.ActCode:
			label, text = "code or link voided", r.Name
		case templates.ActSuspension:
			label, text = "suspended", r.Name+": cairn user unsuspend "+r.Name
		case templates.ActLoss:
			label, text = "permission taken", r.Name+" "+r.Detail+": cairn user flags "+r.Name+" +"+r.Detail
		case templates.ActOther:
			label, text = r.Detail, r.Name
		}
		labels = append(labels, [2]string{label, cli.DateOrNever(r.At) + ", " + text})
	}
	return labels
}

type unsuspendUserCommand struct{ oneUser }

// Run lifts a suspension. Sessions, codes and tokens that it ended remain ended.
func (c *unsuspendUserCommand) Run(p *cli.Program) error {
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		if err := users.Unsuspend(p.Ctx, account.Operator(), u); err != nil {
			return err
		}
		done := map[string]any{"handle": u.Handle, "suspended": false}
		return c.Print(p, u.Sub, done, cli.Pairs{{"can sign in again", u.Handle}})
	})
}

type unlockUserCommand struct{ oneUser }

// Run clears the failed sign-ins, which takes effect at once in a running service.
func (c *unlockUserCommand) Run(p *cli.Program) error {
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		if err := users.Unlock(p.Ctx, account.Operator(), u); err != nil {
			return err
		}
		done := map[string]any{"handle": u.Handle, "locked": false}
		return c.Print(p, u.Sub, done, cli.Pairs{{"can try again", u.Handle}})
	})
}

type deleteUserCommand struct {
	oneUser
	Yes bool `help:"Do not ask."`
}

// Run deletes the user after a confirmation.
func (c *deleteUserCommand) Run(p *cli.Program) error {
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		question := fmt.Sprintf("Delete the user %s (%s) with all personal data?", u.Handle, u.DisplayName)
		if err := cli.Confirm(p, c.Yes, question); err != nil {
			return err
		}
		did, err := users.RecentActs(p.Ctx, u)
		if err != nil {
			return err
		}
		if err := users.Delete(p.Ctx, account.Operator(), u); err != nil {
			return err
		}
		done := map[string]any{"handle": u.Handle, "deleted": true, "recent_acts": did}
		return c.Print(p, u.Sub, done, append(cli.Pairs{{"deleted", u.Handle}}, didLabels(did)...))
	})
}

type resetCodeCommand struct {
	oneUser
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Public address of the service."`
}

// Run issues a code, which invalidates the previous one.
func (c *resetCodeCommand) Run(p *cli.Program) error {
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		code, err := users.IssueResetCode(p.Ctx, account.Operator(), u)
		if err != nil {
			return err
		}
		url, until := account.ResetURL(c.Issuer, u.Handle, code), code.ExpiresAt.Format(time.RFC3339)
		issued := map[string]string{"handle": u.Handle, "code": code.Code, "url": url, "expires_at": until}
		return c.Print(p, code.Code, issued,
			cli.Pairs{{"handle", u.Handle}, {"code", code.Code}, {"link", url}, {"valid until", until}})
	})
}

type resetFactorsCommand struct{ oneUser }

// Run removes the second factors. The user then signs in with only the password, if there is one.
func (c *resetFactorsCommand) Run(p *cli.Program) error {
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		if err := users.ResetFactors(p.Ctx, account.Operator(), u); err != nil {
			return err
		}
		open, err := users.OpenInvites(p.Ctx, u, 0, account.PageOfInvites)
		if err != nil {
			return err
		}
		codes := []string{} // whoever had the account may have made them
		for _, i := range open {
			codes = append(codes, i.Shown())
		}
		done := map[string]any{"handle": u.Handle, "second_factor": false, "open_invites": codes}
		next := "signs in with only the password"
		if u.Passwordless() {
			next = "has no password: run cairn user reset-code for"
		}
		labels := cli.Pairs{{next, u.Handle}}
		if len(codes) > 0 {
			remedy := strings.Join(codes, ", ") + ": cairn invite revoke ends those that the user did not make"
			labels = append(labels, [2]string{"open invites", remedy})
		}
		return c.Print(p, u.Sub, done, labels)
	})
}

package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type updateUserCommand struct {
	oneUser
	userChange
	More  []string `arg:"" optional:"" name:"more" ids:"user"`
	Ends  string   `placeholder:"DATE"`
	NoEnd bool     `help:"Remove the end of the account."`
}

// userChange holds the options of user update. An option that is not given is nil.
type userChange struct {
	DisplayName   *string  `help:"Name that others see."`
	Email         *string  `placeholder:"ADDRESS"`
	EmailVerified *bool    `negatable:"" help:"Mark the address as verified, also for applications."`
	Set           []string `sep:"none" placeholder:"CLAIM=VALUE"`
	Unset         []string `placeholder:"CLAIM" help:"Remove a claim of the profile. Repeatable."`
}

// Run updates the given fields, all of them or none.
func (c *updateUserCommand) Run(p *cli.Program) error {
	if c.Ends != "" || c.NoEnd {
		return c.setEnd(p)
	}
	if len(c.More) > 0 {
		return cli.UsageError("several users take only --ends or --no-end")
	}
	change, err := c.change()
	if err != nil {
		return err
	}
	return c.amend(p, change)
}

// setEnd sets or removes the end of the account, which is an act of its own.
func (c *updateUserCommand) setEnd(p *cli.Program) error {
	if c.Ends != "" && c.NoEnd || !reflect.ValueOf(c.userChange).IsZero() {
		return cli.UsageError("give --ends or --no-end alone")
	}
	if len(c.More) > 0 {
		return c.WithUsers(p, func(users *roster.Administration) error { return c.setEnds(p, users) })
	}
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		ends, err := c.end(p.Ctx, users)
		if err != nil {
			return err
		}
		if err := users.SetEnd(p.Ctx, account.Operator(), u, ends); err != nil {
			return c.endError(err)
		}
		if u, err = users.User(p.Ctx, u.Handle); err != nil {
			return err
		}
		return c.Print(p, u.Sub, userRowOf(u), userLabels(u, users.Zone(p.Ctx)))
	})
}

// setEnds is setEnd for several users.
func (c *updateUserCommand) setEnds(p *cli.Program, users *roster.Administration) error {
	ends, err := c.end(p.Ctx, users)
	if err != nil {
		return err
	}
	var list []account.User
	for _, handle := range append([]string{c.Handle}, c.More...) {
		u, err := FindUser(p, users, handle)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(o account.User) bool { return o.Sub == u.Sub }) {
			list = append(list, u)
		}
	}
	plan, err := users.ChangeMany(p.Ctx, account.Operator(), list, users.EndingAt(ends))
	var obstructed *roster.Obstructed
	if errors.As(err, &obstructed) {
		var lines []string
		for _, o := range obstructed.Plan.Obstacles {
			lines = append(lines, o.User.Handle+": "+o.Reason.Error())
		}
		return fmt.Errorf("nothing was changed: %s", strings.Join(lines, "; "))
	}
	if err != nil {
		return c.endError(err)
	}
	n := len(plan.Change)
	return c.Print(p, fmt.Sprint(n), map[string]int{"changed": n, "unchanged": len(plan.Same)},
		cli.Pairs{{"changed", fmt.Sprint(n)}, {"unchanged", fmt.Sprint(len(plan.Same))}})
}

// end returns the end that the flags say.
func (c *updateUserCommand) end(ctx context.Context, users *roster.Administration) (time.Time, error) {
	ends, err := account.ParseEnd(c.Ends, users.Zone(ctx))
	return ends, c.endError(err)
}

func (c *updateUserCommand) endError(err error) error {
	switch {
	case errors.Is(err, account.ErrInvalidEnd):
		return cli.Usagef("--ends %q: write the last day, as 2030-12-24", c.Ends)
	case errors.Is(err, account.ErrEndPast):
		return cli.Usagef("--ends %s is in the past: cairn user suspend %s ends the account now", c.Ends, c.Handle)
	}
	return err
}

// amend makes the change and prints the user.
func (c oneUser) amend(p *cli.Program, change account.UserChange) error {
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		u, err := users.Amend(p.Ctx, account.Operator(), u, change)
		if problem := (*web.Problem)(nil); errors.As(err, &problem) && len(problem.Errors) > 0 {
			if name, err := undeclared(p, users, change); err != nil || name != "" {
				return cmp.Or(err, error(cli.Usagef("there is no attribute %q here: "+
					"cairn settings set attributes --add %[1]s declares it", name)))
			}
			return cli.UsageError(faults(problem, nil))
		}
		if err != nil {
			return err
		}
		return c.Print(p, u.Sub, userRowOf(u), userLabels(u, users.Zone(p.Ctx)))
	})
}

// undeclared returns the first attribute of a change that could be declared and is not, or "".
func undeclared(p *cli.Program, users *roster.Administration, change account.UserChange) (string, error) {
	settings, err := users.Settings(p.Ctx)
	for _, member := range slices.Sorted(maps.Keys(change)) {
		name, ok := strings.CutPrefix(member, account.AttributePrefix)
		if ok && change[member] != "" && account.CheckFlag(name) == nil && !slices.Contains(settings.Attributes, name) {
			return name, err
		}
	}
	return "", err
}

func (c *updateUserCommand) change() (account.UserChange, error) {
	out := account.UserChange{}
	if reflect.ValueOf(c.userChange).IsZero() {
		return out, cli.UsageError("no field to update is given; see cairn user update --help")
	}
	if c.Email != nil {
		out["email"] = *c.Email
	}
	if c.DisplayName != nil {
		out["display_name"] = *c.DisplayName
	}
	if c.EmailVerified != nil {
		out["email_verified"] = strconv.FormatBool(*c.EmailVerified)
	}
	claims := slices.DeleteFunc(account.UserMembers(), func(name string) bool {
		return strings.HasPrefix(name, "email") || name == "display_name"
	})
	for i, claim := range slices.Concat(c.Set, c.Unset) {
		flag, name, value := "--unset", claim, ""
		if i < len(c.Set) {
			flag = "--set"
			if name, value, _ = strings.Cut(claim, "="); value == "" {
				return out, cli.Usagef("--set %q: write it as given_name=Ada; --unset removes a claim", claim)
			}
		}
		if !slices.Contains(claims, name) {
			return out, cli.Usagef("%s: there is no claim %q; the claims are %s", flag, name,
				strings.Join(claims, ", "))
		}
		if _, twice := out[name]; twice {
			return out, cli.Usagef("%s: %s is given more than once", flag, name)
		}
		out[name] = value
	}
	return out, nil
}

// newUserFlags are the flags that set the members of a new user.
var newUserFlags = map[string]string{
	"display_name": "--display-name", "email": "--email", "email_verified": "--email-verified", "flags": "--flag",
}

// faults joins the errors of a problem into one line. It names each member by its flag.
func faults(p *web.Problem, flags map[string]string) string {
	var words []string
	for _, f := range p.Errors {
		member := strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")
		words = append(words, cmp.Or(flags[member], member)+": "+faultText(f))
	}
	if words == nil {
		return p.Detail
	}
	return strings.Join(words, " ")
}

// faultText returns the text of a fault. Where it sends the reader to a page, it has the command instead.
func faultText(f web.FieldError) string {
	return strings.Replace(string(f.Detail), ". An administrator can add it in the settings.",
		": cairn settings set flags --add FLAG adds it", 1)
}

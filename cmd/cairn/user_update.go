package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

type updateUserCommand struct {
	databaseFlags
	output
	userChange
	Handle string `arg:"" help:"Handle of the user."`
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
	return withUser(p, c.Database, c.Handle, func(office *account.Administration, u account.User) error {
		u, err := office.Amend(p.ctx, account.Operator(), u, change)
		if problem := (*web.Problem)(nil); errors.As(err, &problem) && len(problem.Errors) > 0 {
			return usageError{faults(problem)}
		}
		if err != nil {
			return err
		}
		return c.done(p, u.Sub, userRowOf(u), userPairs(u))
	})
}

func (c *updateUserCommand) change() (account.UserChange, error) {
	out := account.UserChange{}
	if reflect.ValueOf(c.userChange).IsZero() {
		return out, usageError{"nothing to change is given; see cairn user update --help"}
	}
	if c.DisplayName != nil {
		out["display_name"] = *c.DisplayName
	}
	if c.ClearEmail && c.Email != nil {
		return out, usageError{"give --email or --clear-email, not both"}
	}
	if c.ClearEmail {
		out["email"] = ""
	}
	if c.Email != nil {
		out["email"] = *c.Email
	}
	if c.EmailVerified != nil {
		out["email_verified"] = strconv.FormatBool(*c.EmailVerified)
	}
	known := slices.DeleteFunc(account.UserMembers(), func(name string) bool { return strings.HasPrefix(name, "email") || name == "display_name" })
	add := func(flag, name, value string) error {
		if !slices.Contains(known, name) {
			return usageError{fmt.Sprintf("--%s: there is no claim %q; the claims are %s", flag, name, strings.Join(known, ", "))}
		}
		if _, twice := out[name]; twice {
			return usageError{fmt.Sprintf("--%s: %s is given more than once", flag, name)}
		}
		out[name] = value
		return nil
	}
	for _, s := range c.Set {
		name, value, ok := strings.Cut(s, "=")
		if !ok || value == "" {
			return out, usageError{fmt.Sprintf("--set %q: write it as given_name=Ada; --unset removes a claim", s)}
		}
		if err := add("set", name, value); err != nil {
			return out, err
		}
	}
	for _, name := range c.Unset {
		if err := add("unset", name, ""); err != nil {
			return out, err
		}
	}
	return out, nil
}

// faults puts all that is refused into one line.
func faults(p *web.Problem) string {
	var words []string
	for _, f := range p.Errors {
		words = append(words, strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")+": "+f.Detail)
	}
	if words == nil {
		return p.Detail
	}
	return strings.Join(words, " ")
}

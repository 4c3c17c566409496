package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-id/cairn/account"
)

// userFlagsCommand takes all its arguments as they are, or -admin would be read
// as options: those of the command stand before the handle.
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
			return usageError{fmt.Sprintf("%q: write +FLAG to turn a flag on and -FLAG to turn it off; options stand before the handle", word)}
		}
		if _, twice := flags[name]; twice {
			return usageError{fmt.Sprintf("the flag %s is given more than once", name)}
		}
		flags[name] = word[0] == '+'
	}
	if len(flags) == 0 {
		return usageError{"no flag is given: write +FLAG to turn one on and -FLAG to turn it off"}
	}
	return withUser(p, c.Database, c.Words[0], func(office *account.Administration, u account.User) error {
		on, err := office.SetFlags(p.ctx, account.Operator(), u, flags)
		if errors.Is(err, account.ErrUnknownFlag) {
			settings, err := office.Settings(p.ctx)
			if err != nil {
				return err
			}
			return fmt.Errorf("there is no such flag here: the flags are %s, and cairn settings set flags changes them", strings.Join(settings.Flags, ", "))
		}
		if err != nil {
			return err
		}
		return c.done(p, u.Sub, map[string]any{"handle": u.Handle, "flags": listed(on)}, [][2]string{{"handle", u.Handle}, {"flags", strings.Join(on, " ")}})
	})
}

type suspendUserCommand struct {
	databaseFlags
	output
	Handle string `arg:"" help:"Handle of the user."`
	Reason string `help:"Why, for other administrators: at most 200 characters."`
}

// Run suspends; it is done at once, also in the browsers of the user.
func (c *suspendUserCommand) Run(p *program) error {
	return withUser(p, c.Database, c.Handle, func(office *account.Administration, u account.User) error {
		err := office.Suspend(p.ctx, account.Operator(), u, c.Reason)
		if errors.Is(err, account.ErrInvalidText) {
			return usageError{"--reason: at most 200 characters, no control characters"}
		}
		if err != nil {
			return err
		}
		return c.done(p, u.Sub, map[string]any{"handle": u.Handle, "suspended": true}, [][2]string{{"suspended", u.Handle}})
	})
}

type unsuspendUserCommand struct {
	databaseFlags
	output
	Handle string `arg:"" help:"Handle of the user."`
}

// Run lifts a suspension; what was ended stays ended.
func (c *unsuspendUserCommand) Run(p *program) error {
	return withUser(p, c.Database, c.Handle, func(office *account.Administration, u account.User) error {
		if err := office.Unsuspend(p.ctx, account.Operator(), u); err != nil {
			return err
		}
		return c.done(p, u.Sub, map[string]any{"handle": u.Handle, "suspended": false}, [][2]string{{"can sign in again", u.Handle}})
	})
}

type deleteUserCommand struct {
	databaseFlags
	output
	Handle string `arg:"" help:"Handle of the user."`
	Yes    bool   `help:"Do not ask."`
}

// Run deletes once somebody has said that it is meant.
func (c *deleteUserCommand) Run(p *program) error {
	return withUser(p, c.Database, c.Handle, func(office *account.Administration, u account.User) error {
		if err := confirm(p, c.Yes, fmt.Sprintf("Delete the user %s (%s) with all personal data?", u.Handle, u.DisplayName)); err != nil {
			return err
		}
		if err := office.Delete(p.ctx, account.Operator(), u); err != nil {
			return err
		}
		return c.done(p, u.Sub, map[string]any{"handle": u.Handle, "deleted": true}, [][2]string{{"deleted", u.Handle}})
	})
}

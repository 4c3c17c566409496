package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cairn-id/cairn/account"
)

type sessionCommand struct {
	List listSessionsCommand `cmd:"" help:"List where a user is signed in."`
	End  endSessionCommand   `cmd:"" help:"Sign a user out of one browser, or of all."`
}

type listSessionsCommand struct {
	databaseFlags
	output
	Handle string `arg:"" help:"Handle of the user."`
}

// Run lists the live sessions, newest first.
func (c *listSessionsCommand) Run(p *program) error {
	return withUser(p, c.Database, c.Handle, func(office *account.Administration, u account.User) error {
		sessions, err := office.Sessions(p.ctx, u)
		if err != nil {
			return err
		}
		switch {
		case c.Quiet:
			for _, s := range sessions {
				fmt.Fprintln(p.stdout, s.ID)
			}
			return nil
		case c.Format == "json":
			return writeJSON(p.stdout, account.SessionEntries(sessions, ""))
		}
		table := make([][]string, 0, len(sessions))
		for _, s := range sessions {
			table = append(table, []string{s.ID, account.Device(s.UserAgent), s.Address, dateOrNever(s.LastSeenAt), dateOrNever(s.ExpiresAt)})
		}
		return writeTable(p.stdout, []string{"SESSION", "DEVICE", "ADDRESS", "LAST SEEN", "EXPIRES"}, table)
	})
}

type endSessionCommand struct {
	databaseFlags
	output
	Handle string   `arg:"" help:"Handle of the user."`
	ID     []string `arg:"" optional:"" help:"Ids of the sessions, as session list shows them."`
	All    bool     `help:"End every session of the user."`
}

// Run ends sessions; a browser that has one finds itself signed out at its next
// request.
func (c *endSessionCommand) Run(p *program) error {
	if c.All == (len(c.ID) > 0) {
		return usageError{"name the sessions to end, or give --all"}
	}
	return withUser(p, c.Database, c.Handle, func(office *account.Administration, u account.User) error {
		ended, err := 0, error(nil)
		if c.All {
			ended, err = office.EndSessions(p.ctx, account.Operator(), u)
		} else {
			ended, err = endSessions(p.ctx, office, u, c.ID)
		}
		if err != nil {
			return err
		}
		return c.done(p, u.Sub, map[string]any{"handle": u.Handle, "ended": ended}, [][2]string{{"sessions ended", fmt.Sprint(ended)}})
	})
}

// endSessions ends all of the sessions, or none when one of them is not there.
func endSessions(ctx context.Context, office *account.Administration, u account.User, ids []string) (int, error) {
	live, err := office.Sessions(ctx, u)
	if err != nil {
		return 0, err
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range ids {
		if !slices.ContainsFunc(live, func(s account.Session) bool { return s.ID == id }) {
			return 0, fmt.Errorf("%s has no live session %q: nothing was changed; cairn session list %s shows them", u.Handle, id, u.Handle)
		}
	}
	ended := 0
	for _, id := range ids {
		switch err := office.EndSession(ctx, account.Operator(), u, id); {
		case err == nil:
			ended++
		case !errors.Is(err, account.ErrSessionNotFound): // else it has ended in this moment
			return ended, fmt.Errorf("after %d sessions were ended: %w", ended, err)
		}
	}
	return ended, nil
}

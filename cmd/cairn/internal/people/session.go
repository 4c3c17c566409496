package people

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type SessionCommand struct {
	List listSessionsCommand `cmd:"" reads:""`
	End  endSessionCommand   `cmd:""`
}

type listSessionsCommand struct{ oneUser }

// Run lists the live sessions, newest first.
func (c *listSessionsCommand) Run(p *cli.Program) error {
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		access, err := users.Access(p.Ctx, u)
		if err != nil {
			return err
		}
		out := c.List(p, "SESSION", "DEVICE", "ADDRESS", "LAST SEEN", "EXPIRES", "BOUND")
		for i, entry := range entry.Sessions(access.Sessions, "", access.Passkeys) {
			s := access.Sessions[i]
			seen, expires := cli.DateOrNever(s.LastSeenAt), cli.DateOrNever(s.ExpiresAt)
			bound := ""
			if s.Bound() {
				bound = "to its device"
			}
			out.Add(s.ID, entry, s.ID, web.Device(s.UserAgent), s.Address, seen, expires, bound)
		}
		return out.End()
	})
}

type endSessionCommand struct {
	oneUser
	ID  []string `arg:"" optional:"" help:"Ids of the sessions, from session list."`
	All bool     `help:"End every session of the user."`
}

// Run ends the named sessions, or none of them if one does not exist. A browser with such a session is
// signed out at its next request.
func (c *endSessionCommand) Run(p *cli.Program) error {
	if c.All == (len(c.ID) > 0) {
		return cli.UsageError("name the sessions to end, or give --all")
	}
	return c.withUser(p, func(users *roster.Administration, u account.User) error {
		ended, err := 0, error(nil)
		if c.All {
			ended, err = users.EndSessions(p.Ctx, account.Operator(), u, account.Keep{})
		} else {
			ended, err = c.endNamed(p, users, u)
		}
		if err != nil {
			return err
		}
		done := map[string]any{"handle": u.Handle, "ended": ended}
		return c.Print(p, u.Sub, done, cli.Pairs{{"sessions ended", fmt.Sprint(ended)}})
	})
}

func (c *endSessionCommand) endNamed(p *cli.Program, users *roster.Administration, u account.User) (n int, err error) {
	live, err := users.Sessions(p.Ctx, u)
	if err != nil {
		return 0, err
	}
	ids := slices.Compact(slices.Sorted(slices.Values(c.ID)))
	for _, id := range ids {
		if !slices.ContainsFunc(live, func(s account.Session) bool { return s.ID == id }) {
			return 0, fmt.Errorf("%s has no live session %q: nothing was changed; cairn session list %s shows them",
				u.Handle, id, u.Handle)
		}
	}
	for _, id := range ids {
		switch err := users.EndSession(p.Ctx, account.Operator(), u, id); {
		case err == nil:
			n++
		case !errors.Is(err, account.ErrSessionNotFound): // else it has just ended
			return n, fmt.Errorf("after %d sessions were ended: %w", n, err)
		}
	}
	return n, nil
}

package people

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type JoinCommand struct {
	List   listJoinCommand   `cmd:"" reads:""`
	Accept acceptJoinCommand `cmd:""`
	Refuse refuseJoinCommand `cmd:""`
}

type listJoinCommand struct {
	cli.DatabaseFlags
	cli.Output
}

// Run lists the requests, oldest first.
func (c *listJoinCommand) Run(p *cli.Program) error {
	return c.WithUsers(p, func(users *roster.Administration) error {
		list, err := users.JoinRequests(p.Ctx)
		if err != nil {
			return err
		}
		out := c.List(p, "ID", "ASKED", "NAME", "EMAIL", "REASON")
		for _, j := range list {
			asked := j.AskedAt.UTC().Format(time.RFC3339)
			out.Add(j.ID, j, j.ID, asked, j.Name, j.Email, j.Reason)
		}
		return out.End()
	})
}

// oneRequest holds the flags and the argument of a decision.
type oneRequest struct {
	cli.DatabaseFlags
	ID   string `arg:"" help:"Id of the request: cairn join list shows it."`
	Note string `help:"A sentence for the mail, at most 200 characters."`
}

type joinDecision = func(a *roster.Administration, ctx context.Context, by account.Caller, id, note string) error

type acceptJoinCommand struct {
	oneRequest
	App *string `placeholder:"CLIENT"`
}

// Run accepts the request.
func (c *acceptJoinCommand) Run(p *cli.Program) error {
	return c.decide(p, func(a *roster.Administration, ctx context.Context, by account.Caller, id, note string) error {
		if c.App != nil && *c.App != "" {
			apps, err := a.Store().OfferedApps(ctx, []string{*c.App})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(apps, func(app account.App) bool { return app.ClientID == *c.App }) {
				return cli.UsageError("--app: no application has this client id: cairn client list shows them")
			}
		}
		return a.AcceptJoin(ctx, by, id, note, c.App)
	})
}

type refuseJoinCommand struct{ oneRequest }

// Run refuses the request.
func (c *refuseJoinCommand) Run(p *cli.Program) error {
	return c.decide(p, (*roster.Administration).RefuseJoin)
}

func (c oneRequest) decide(p *cli.Program, do joinDecision) error {
	return c.WithUsers(p, func(users *roster.Administration) error {
		err := do(users, p.Ctx, account.Operator(), c.ID, c.Note)
		switch {
		case errors.Is(err, account.ErrJoinNotFound):
			return errors.New("there is no such request: cairn join list shows them")
		case errors.Is(err, account.ErrMailOff):
			return errors.New("the answer goes by mail: set smtp-url (docs/mail.md)")
		case errors.Is(err, account.ErrInvalidText):
			return cli.UsageError("--note: at most 200 characters, without control characters")
		}
		return err
	})
}

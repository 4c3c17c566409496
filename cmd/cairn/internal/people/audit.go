package people

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/admin"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/templates"
)

type AuditCommand struct {
	List listAuditCommand `cmd:"" reads:""`
}

type listAuditCommand struct {
	cli.DatabaseFlags
	cli.Output
	User   string `placeholder:"HANDLE" ids:"user"`
	Action string `placeholder:"NAME" help:"Only this action, such as user.suspend, or all of a kind: user."`
	Since  string `placeholder:"TIME" help:"Only newer entries: 24h, 7d, or a day (UTC) such as 2026-11-01."`
	Limit  int    `default:"100" help:"Maximum number of rows; 0 for all."`
}

// Run prints the rows as they are read.
func (c *listAuditCommand) Run(p *cli.Program) error {
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	return c.WithUsers(p, func(users *roster.Administration) error {
		out := c.List(p, "TIME", "WHAT HAPPENED", "ADDRESS")
		remaining := c.Limit
		err := users.EachAudit(p.Ctx, q, func(a account.Audit) error {
			if remaining--; c.Limit > 0 && remaining < 0 {
				return errEnough
			}
			e := admin.AuditEntryOf(a, nil, users.Zone(p.Ctx))
			at := e.At.Format(time.DateTime)
			out.Add(fmt.Sprint(a.ID), e, at, cli.Printable(e.Sentence), cli.Printable(a.Address))
			return out.Err
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
		if out.Printed == 0 && q.Person != "" && q.Person != account.Operator().Name { // a deleted user has entries
			if _, err := FindUser(p, users, q.Person); err != nil {
				return err
			}
		}
		return out.End()
	})
}

// errEnough ends a list at its limit.
var errEnough = errors.New("enough entries")

// query reads the flags. It refuses invalid values before the database is opened.
func (c *listAuditCommand) query(now time.Time) (q account.AuditQuery, err error) {
	if c.Limit < 0 {
		return q, cli.UsageError("--limit: give 0 or a positive number")
	}
	if q.Person = c.User; q.Person != "" {
		if q.Person, err = account.CanonicalHandle(q.Person); err != nil {
			return q, cli.UsageError("--user: this is not a handle; cairn user list shows them")
		}
	}
	var names []string
	for _, a := range templates.AuditActions {
		kind, _, _ := strings.Cut(a.Name, ".")
		names = append(names, a.Name, kind)
	}
	if q.Kind = strings.TrimSuffix(c.Action, "."); q.Kind != "" && !slices.Contains(names, q.Kind) {
		hint := "docs/api.md lists them"
		if best, near := config.NearestName(q.Kind, names); near {
			hint = "did you mean " + best + "?"
		}
		return q, cli.Usagef("--action: there is no action %q: %s", q.Kind, hint)
	}
	if c.Since == "" {
		return q, nil
	}
	if q.From, err = time.Parse(time.DateOnly, c.Since); err == nil {
		return q, nil
	}
	hours := c.Since
	if days, ok := strings.CutSuffix(hours, "d"); ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n > 0 && n <= 3650 {
			hours = fmt.Sprintf("%dh", n*24)
		}
	}
	d, err := time.ParseDuration(hours)
	if err != nil || d <= 0 {
		return q, cli.UsageError("--since: a time such as 24h or 7d, or a day such as 2026-11-01")
	}
	q.From = now.Add(-d)
	return q, nil
}

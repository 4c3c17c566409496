package people

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/store"
)

type InviteCommand struct {
	Add    addInviteCommand    `cmd:""`
	List   listInvitesCommand  `cmd:"" reads:""`
	Revoke revokeInviteCommand `cmd:""`
}

type addInviteCommand struct {
	cli.DatabaseFlags
	cli.Output
	Note   string
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040"`

	Flag        []string `placeholder:"FLAG"`
	Uses        int      `default:"1"`
	Expires     string   `default:"14d" placeholder:"14d"`
	AccountEnds string   `placeholder:"DATE"`

	Domain string `placeholder:"DOMAIN"`
}

// Run creates an invite, with which people can register, and prints its code.
func (c *addInviteCommand) Run(p *cli.Program) error {
	return c.WithUsers(p, func(users *roster.Administration) error {
		terms := account.InviteTerms{Note: c.Note, Flags: c.Flag, Uses: &c.Uses, Domain: c.Domain,
			AccountEnds: c.AccountEnds}
		if days, err := strconv.Atoi(strings.TrimSuffix(c.Expires, "d")); err == nil {
			terms.Days = &days
		} else if terms.Until, err = account.ParseEnd(c.Expires, users.Zone(p.Ctx)); err != nil ||
			terms.Until.IsZero() {
			return cli.UsageError("--expires: write the last day, as 2030-12-24, or days from now, as 30d")
		}
		i, err := users.NewOperatorInvite(p.Ctx, account.Operator(), terms)
		if problem, ok := web.ProblemOf(err); ok && len(problem.Errors) > 0 {
			field := strings.TrimPrefix(problem.Errors[0].Pointer, "/")
			flag := map[string]string{"flags": "flag", "days": "expires", "account_ends": "account-ends"}[field]
			return cli.UsageError("--" + cmp.Or(flag, field) + ": " + faultText(problem.Errors[0]))
		}
		switch {
		case errors.Is(err, account.ErrInvalidText):
			return cli.UsageError("--note: at most 200 characters, without control characters")
		case errors.Is(err, account.ErrMailOff):
			return errors.New("--domain: the address is proven by mail: set smtp-url (docs/mail.md)")
		case err != nil:
			return err
		}
		url, until := account.InviteURL(c.Issuer, i), i.ExpiresAt.Format(time.RFC3339)
		return c.Print(p, i.Shown(), map[string]string{"code": i.Shown(), "url": url, "expires_at": until},
			cli.Pairs{{"code", i.Shown()}, {"link", url}, {"valid until", until}})
	})
}

type listInvitesCommand struct {
	cli.DatabaseFlags
	cli.Output
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Public address of the service."`
	Open   bool   `help:"Only those that can still be used."`
}

// inviteRow is an invite in the operator's list.
type inviteRow struct {
	Code      string   `json:"code"`
	URL       string   `json:"url"`
	CreatedBy *string  `json:"created_by"` // handle; null: the operator, or a deleted user
	Note      string   `json:"note"`
	MailedTo  *string  `json:"mailed_to"`
	Uses      int      `json:"uses"`
	Joined    []string `json:"joined"` // handles
	Flags     []string `json:"flags"`
	Domain    *string  `json:"domain"`
	entry.InviteEnds
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	Used      bool       `json:"used"`
	UsedBy    *string    `json:"used_by"` // handle
	UsedAt    *time.Time `json:"used_at"`
}

// Run lists invites, newest first.
func (c *listInvitesCommand) Run(p *cli.Program) error {
	return c.WithStore(p, func(st *store.Store) error {
		now := time.Now().In(account.NewBase(st, nil).Zone(p.Ctx))
		out := c.List(p, "CODE", "FROM", "STATE", "VALID UNTIL", "USED", "FLAGS", "ACCOUNT ENDS", "FOR", "NOTE")
		for after := (account.InvitePlace{}); ; {
			page, err := st.AllInvites(p.Ctx, after, cli.PageSize)
			if err != nil {
				return err
			}
			for _, i := range page {
				after = i.Place()
				if c.Open && !i.Open(now) {
					continue
				}
				row := inviteRow{
					Code: i.Shown(), URL: account.InviteURL(c.Issuer, i), CreatedBy: nameOrNull(i.Inviter),
					Note: i.Note, MailedTo: web.TextOrNull(i.MailedTo), Uses: i.Uses, Joined: cli.Listed(i.Joined),
					Flags: cli.Listed(i.Flags), Domain: web.TextOrNull(i.Domain), InviteEnds: entry.InviteEndsOf(i),
					CreatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC(),
					Used: !i.UsedAt.IsZero(), UsedBy: nameOrNull(i.UsedBy), UsedAt: web.TimeOrNull(i.UsedAt),
				}
				until := cli.DateOrNever(i.ExpiresAt)
				out.Add(row.Code, row, row.Code, inviteMaker(i), inviteState(i, now), until,
					fmt.Sprintf("%d/%d", i.Used, i.Uses), flagsUntil(i.Flags, i.FlagEnds, now.Location()),
					account.LastDay(i.AccountEnds, now.Location()), cmp.Or(i.MailedTo, i.Domain), i.Note)
			}
			if len(page) < cli.PageSize || out.Err != nil {
				return out.End()
			}
		}
	})
}

func nameOrNull(handle string) *string {
	if handle == "" {
		return nil
	}
	return &handle
}

func inviteMaker(i account.Invite) string {
	switch {
	case i.CreatedBy == "":
		return "(operator)"
	case i.Inviter == "":
		return "(deleted)"
	}
	return i.Inviter
}

func inviteState(i account.Invite, now time.Time) string {
	switch {
	case i.Open(now):
		return "open"
	case i.UsedAt.IsZero():
		return "expired"
	case i.UsedBy == "" || i.Uses > 1:
		return "used"
	}
	return "used by " + i.UsedBy
}

type revokeInviteCommand struct {
	cli.DatabaseFlags
	cli.Output
	Code string `arg:"" help:"Code of the invite, with or without dashes."`
}

// Run removes the invite. Its link no longer works.
func (c *revokeInviteCommand) Run(p *cli.Program) error {
	code := account.CanonicalInviteCode(c.Code)
	if code == "" {
		return cli.UsageError("this is not an invite code, which has 16 characters: cairn invite list shows them")
	}
	return c.WithStore(p, func(st *store.Store) error {
		i, err := st.RevokeInvite(p.Ctx, code, cli.Operator(account.RevokeInvite, "", ""))
		switch {
		case errors.Is(err, account.ErrInviteNotFound):
			return errors.New("there is no such invite: cairn invite list shows them")
		case errors.Is(err, account.ErrInviteUsed):
			return errors.New("this invite has been used: cairn invite list shows by whom, " +
				"and cairn user suspend HANDLE shuts that user out")
		case err != nil:
			return err
		}
		revoked := map[string]any{"code": i.Shown(), "revoked": true}
		return c.Print(p, i.Shown(), revoked, cli.Pairs{{"revoked", i.Shown()}, {"from", inviteMaker(i)}})
	})
}

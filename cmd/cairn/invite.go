package main

import (
	"fmt"
	"time"

	"github.com/cairn-id/cairn/account"
)

type inviteCommand struct {
	Add addInviteCommand `cmd:"" help:"Create an invite."`
}

type addInviteCommand struct {
	databaseFlags
	output
	Note   string `help:"What the invite is for; its owner sees it."`
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Public address of the service, for the link."`
}

// Run prints a code that one person can register with.
func (c *addInviteCommand) Run(p *program) error {
	i, err := account.NewInvite("", c.Note, time.Now())
	if err != nil {
		return usageError{"--note: at most 200 characters, no control characters"}
	}
	st, err := openDatabase(p.ctx, c.Database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	if err := st.CreateInvite(p.ctx, i, -1); err != nil {
		return err
	}
	url := account.InviteURL(c.Issuer, i)
	switch {
	case c.Quiet:
		fmt.Fprintln(p.stdout, i.Shown())
		return nil
	case c.Format == "json":
		return writeJSON(p.stdout, map[string]string{"code": i.Shown(), "url": url, "expires_at": i.ExpiresAt.Format(time.RFC3339)})
	}
	return writePairs(p.stdout, [][2]string{{"code", i.Shown()}, {"link", url}, {"valid until", i.ExpiresAt.Format(time.RFC3339)}})
}

package letter

import (
	"context"
	"errors"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// mailedInvite finds the open invite that a mail is about. errMailPointless if there is none.
func (p *Post) mailedInvite(ctx context.Context, m account.Mail) (invite account.Invite, by account.User, err error) {
	if m.Sub != "" {
		by, err = p.store.UserBySub(ctx, m.Sub)
		// Who accepted a request may have gone since: the invite that it left open tells.
		gone := by.Suspended() && m.Data["welcome"] == ""
		if errors.Is(err, account.ErrUserNotFound) || err == nil && gone {
			err = errMailPointless
		}
		if err != nil {
			return invite, by, err
		}
	}
	err = p.accounts.EachInvite(ctx, by, func(i account.Invite) error {
		if i.Hash() == m.Data["invite"] {
			invite = i
			return errFound
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return invite, by, err
	}
	if !invite.Open(p.accounts.Now()) { // or not found
		return invite, by, errMailPointless
	}
	return invite, by, nil
}

// errFound ends the search for an invite.
var errFound = errors.New("found")

func (p *Post) composeInvite(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	invite, u, err := p.mailedInvite(ctx, m)
	if err != nil {
		return templates.Mail{}, err
	}
	asked := m.Data["asked"] != "" // by its reader, or somebody who wrote their address
	if asked {
		switch known, err := p.store.UserByEmail(ctx, m.Address); {
		case err == nil:
			return p.composeHaveAccount(ctx, l, known, nil), nil
		case !errors.Is(err, account.ErrUserNotFound):
			return templates.Mail{}, err
		}
	}
	address, err := p.accounts.MailedInviteURL(invite, m.Address, m.Data["name"])
	if err != nil {
		return templates.Mail{}, err
	}
	texts := []any{"handle", u.Handle, "instance", p.accounts.InstanceName(), "note", templates.MailNote(invite.Note)}
	var out templates.Mail
	var opening string
	switch {
	case m.Data["welcome"] != "":
		out.Subject = l.Text("Welcome: {instance}", texts...)
		opening = l.Text("Your request to join “{instance}” was accepted. Open the link to choose a user name and "+
			"a password.", texts...)
	case u.Handle == "":
		out.Subject = l.Text("You are invited: {instance}", texts...)
		opening = l.Text("You are invited to join “{instance}”. Open the link to choose a user name and a "+
			"password.", texts...)
	default:
		out.Subject = l.Text("@{handle} invites you: {instance}", texts...)
		opening = l.Text("@{handle} invites you to join “{instance}”. Open the link to choose a user name and a "+
			"password.", texts...)
	}
	out.Paragraphs = []string{opening}
	if invite.Note != "" {
		out.Paragraphs = append(out.Paragraphs, l.Text("“{note}”", texts...))
	}
	until := p.clock(m, l, invite.ExpiresAt)
	out.Link = &templates.MailLink{Label: l.Text("Accept invite"), URL: account.LeadingTo(address, m.Data["app"])}
	out.Notes = []string{l.Text("The invite is for one person, until {time}.", "time", until)}
	if left := invite.Uses - invite.Used; left > 1 {
		out.Notes[0] = l.Text("The invite is for {n} people, until {time}. Only this link proves that the address is "+
			"yours.",
			"n", left, "time", until)
	}
	switch {
	case asked:
		out.Reason = l.Text("You get this email because someone entered your address.")
	case m.Data["welcome"] != "":
		out.Reason = l.Text("You get this email because you asked to join.")
	default:
		out.Reason = l.Text("You get this email because @{handle} entered your address. If you do not know them, "+
			"ignore it.", "handle", u.Handle)
	}
	return out, nil
}

package letter

import (
	"context"
	"errors"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// composeHaveAccount composes the mail to somebody who asks to join, and has an account. join sends the request for
// another person with the address, nil: there is none.
func (p *Post) composeHaveAccount(
	ctx context.Context, l *templates.Language, u account.User, join *templates.MailLink,
) templates.Mail {
	texts := []any{"handle", u.Handle, "instance", p.accounts.InstanceName()}
	out := templates.Mail{
		Subject: l.Text("You already have an account: {instance}", texts...),
		Paragraphs: []string{l.Text("Someone asked to join “{instance}” with this address. You already have an "+
			"account: @{handle}. To sign in again, select “Forgot your password?” on the sign-in page.", texts...)},
		Link:   &templates.MailLink{Label: l.Text("Sign in"), URL: p.accounts.Web().URL("/login/")},
		Notes:  []string{l.Text("If this wasn’t you, ignore this email. Nothing changes.")},
		Reason: recipientReason(l, u.Handle),
	}
	if u.Suspended() { // no password lets them in
		why := l.Text("This account is suspended. Ask an administrator of your club.")
		if u.Ended() {
			why = l.Text("This account has expired. Ask an administrator of your club.")
		}
		out.Paragraphs, out.Link = []string{why, p.contactLine(ctx, l)}, nil
	} else if join != nil {
		out.Paragraphs = append(out.Paragraphs, l.Text("If you asked for another person who uses this address, such "+
			"as your child, open the other link."))
		out.Link, out.More = nil, []templates.MailLink{*out.Link, *join}
	}
	return out
}

func (p *Post) composeJoin(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	address, err := p.accounts.JoinURL(account.JoinRequest{Name: m.Data["name"], Email: m.Address,
		Reason: m.Data["reason"], Language: l.Tag(), App: m.Data["app"]})
	if err != nil {
		return templates.Mail{}, err
	}
	send := &templates.MailLink{Label: l.Text("Send request"), URL: address}
	u, err := p.store.UserByEmail(ctx, m.Address)
	if err == nil {
		return p.composeHaveAccount(ctx, l, u, send), nil
	}
	if !errors.Is(err, account.ErrUserNotFound) {
		return templates.Mail{}, err
	}
	return templates.Mail{
		Subject: l.Text("Your request to join: {instance}", "instance", p.accounts.InstanceName()),
		Paragraphs: []string{l.Text("Someone asked to join “{instance}” with this address. If this was you, open "+
			"the link to send the request to the administrators.", "instance", p.accounts.InstanceName())},
		Link: send,
		Notes: []string{l.Text("The link works once, within a day."),
			l.Text("If this wasn’t you, ignore this email. Nothing changes.")},
		Reason: l.Text("You get this email because someone entered your address."),
	}, nil
}

// composeJoinsAsked says how many requests wait. What strangers wrote is not in it.
func (p *Post) composeJoinsAsked(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	u, err := p.store.UserBySub(ctx, m.Sub)
	if errors.Is(err, account.ErrUserNotFound) || err == nil &&
		(u.Suspended() || !u.Has(account.FlagAdmin) || u.Email != m.Address || !u.EmailVerified) {
		err = errMailPointless
	}
	if err != nil {
		return templates.Mail{}, err
	}
	list, err := p.store.JoinRequests(ctx, p.accounts.Now())
	if err == nil && len(list) == 0 {
		err = errMailPointless
	}
	return templates.Mail{
		Subject:    l.Text("Requests to join"),
		Paragraphs: []string{l.Text("{count} people are waiting to join.", "count", len(list))},
		Link: &templates.MailLink{Label: l.Text("See requests"),
			URL: p.accounts.Web().URL("/admin/invites#requests")},
		Notes:  []string{l.Text("You get this email at most once an hour.")},
		Reason: recipientReason(l, u.Handle),
	}, err
}

func (p *Post) composeJoinRefused(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	instance := p.accounts.InstanceName()
	out := templates.Mail{
		Subject:    l.Text("Your request to join: {instance}", "instance", instance),
		Paragraphs: []string{l.Text("Your request to join was declined: {instance}", "instance", instance)},
		Notes:      []string{l.Text("Your request has been deleted.")},
		Reason:     l.Text("You get this email because you asked to join."),
	}
	if note := m.Data["text"]; note != "" {
		out.Paragraphs = append(out.Paragraphs, l.Text("“{note}”", "note", templates.MailNote(note)))
	}
	out.Paragraphs = append(out.Paragraphs, p.contactLine(ctx, l))
	return out, nil
}

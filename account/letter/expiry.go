package letter

import (
	"context"
	"errors"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// composeEnds composes the mail to a user about an end that comes, unless it was changed.
func (p *Post) composeEnds(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	u, err := p.store.UserBySub(ctx, m.Sub)
	names, at := strings.Fields(m.Data["names"]), timeOf(m, "ends")
	stands := !u.Suspended() && u.EndsAt.Equal(at)
	if len(names) > 0 {
		stands = !u.Suspended() && u.FlagEnds[names[0]].Equal(at)
	}
	switch {
	case errors.Is(err, account.ErrUserNotFound), err == nil && !stands:
		return templates.Mail{}, errMailPointless
	case err != nil:
		return templates.Mail{}, err
	}
	for i, name := range names {
		names[i] = flagName(l, name)
	}
	texts := []any{"handle", u.Handle, "time", p.end(m, l, at), "flags", strings.Join(names, ", ")}
	out := templates.Mail{Reason: recipientReason(l, u.Handle)}
	if len(names) == 0 {
		out.Subject = l.Text("Your account expires soon")
		out.Paragraphs = []string{l.Text("Your account @{handle} expires on {time}. After that, you cannot sign in, "+
			"and applications cannot use it. Nothing is deleted.", texts...)}
	} else {
		out.Subject = l.Text("Your permissions expire soon")
		out.Paragraphs = []string{l.Text("On {time}, your account @{handle} loses these permissions: {flags}",
			texts...)}
	}
	out.Paragraphs = append(out.Paragraphs, l.Text("To stay, ask an administrator to change the date."),
		p.contactLine(ctx, l))
	return out, nil
}

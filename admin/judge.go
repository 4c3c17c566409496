package admin

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// Bounds of what Judge accepts.
const (
	keyDays    = 365
	backupDays = 7 // since the last backup, or without one while people sign in
)

// Judge returns what is not as it should be, each point with the remedy. The overview and cairn doctor show the same
// list; the codes are the names of cairn doctor. The texts are in the language of the context.
func Judge(ctx context.Context, users *account.Administration, o Options) (list []templates.Warning, err error) {
	l, now := templates.LanguageOf(ctx), users.Now()
	settings, err := users.Settings(ctx)
	if err != nil {
		return nil, err
	}
	if o.KeyCreated != nil {
		if at, err := o.KeyCreated(); err == nil && daysBetween(at, now) > keyDays {
			list = append(list, templates.Warning{
				Code: "key-age", Text: l.Text("The key that signs is {count} days old.", "count", daysBetween(at, now)),
				Remedy:  l.Text("Make a new one, and keep the old one as an additional key until what it has signed has expired."),
				Command: "cairn keys generate next.pem",
			})
		}
		old, err := users.HS256Sessions(ctx)
		if err != nil {
			return nil, err
		}
		if old > 0 && settings.HS256Until.IsZero() {
			list = append(list, templates.Warning{
				Code: "hs256-sessions", Text: l.Text("{count} sessions are still signed with the shared secret.", "count", old),
				Remedy:  l.Text("They end within 30 days of their sign-in; an earlier end can be set."),
				Command: "cairn keys migrate --until 14d",
			})
		}
	}
	if o.LastBackup != nil {
		at, err := o.LastBackup(ctx)
		if err != nil {
			return nil, err
		}
		counts, err := users.SignIns(ctx, chartDays)
		if err != nil {
			return nil, err
		}
		w := templates.Warning{
			Code: "backup", Text: l.Text("There was never a backup."), Advice: true,
			Remedy: l.Text("Make one every night, on the server."), Command: "cairn backup FILE",
		}
		for _, n := range counts[:chartDays-backupDays] {
			w.Advice = w.Advice && n == 0 // it is new
		}
		days := daysBetween(at, now)
		if !at.IsZero() {
			w.Text, w.Advice = l.Text("The last backup is {count} days old.", "count", days), false
		}
		if days >= backupDays {
			list = append(list, w)
		}
	}
	if o.Mail {
		state, err := users.MailState(ctx)
		if err != nil {
			return nil, err
		}
		if state.Failing > 0 {
			list = append(list, templates.Warning{
				Code: "mail-server", Text: l.Text("{count} mails could not be sent yet.", "count", state.Failing),
				Remedy:  l.Text("They are tried again for a day. The log has the reason, and a test shows it."),
				Command: "cairn mail test ADDRESS",
			})
		}
	}
	n, _, err := users.CountUsers(ctx, account.UserQuery{Flag: account.FlagAdmin, NoSecondFactor: true})
	if err != nil {
		return nil, err
	}
	if n > 0 {
		list = append(list, templates.Warning{
			Code: "second-factor", Text: l.Text("{count} administrators have no second factor.", "count", n), Advice: true,
			Remedy: l.Text("They add one under Security in their account."), Path: "/admin/users/?flag=admin&no_second_factor=true",
		})
	}
	if len(settings.SecondFactorFlags) == 0 {
		list = append(list, templates.Warning{
			Code: "second-factor-optional", Text: l.Text("Nobody has to have a second factor."), Advice: true,
			Remedy: l.Text("Demand one at least of those who administer."), Path: "/admin/settings#security",
			Command: "cairn settings set second_factor_flags admin",
		})
	}
	return list, nil
}

func daysBetween(from, to time.Time) int { return int(to.Sub(from).Hours() / 24) }

package admin

import (
	"context"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/templates"
)

// Thresholds of Judge.
const (
	keyDays    = 365
	backupDays = 7 // since the last backup, or of sign-ins without any backup
	// clockTolerance is how far the clocks of instances may differ.
	clockTolerance = 5 * time.Minute
)

// Judge returns the problems of the installation, each with its remedy. The overview and cairn
// doctor show the same list; the codes are the check names of cairn doctor. The texts are in the
// language of the context.
func Judge(ctx context.Context, users *roster.Administration, o Options) (list []templates.Warning, err error) {
	l, now := templates.LanguageOf(ctx), users.Now()
	add := func(code string, advice bool, text, remedy, path, command string) {
		w := templates.Warning{Code: code, Advice: advice, Text: text, Remedy: remedy, Path: path, Command: command}
		list = append(list, w)
	}
	settings, err := users.Settings(ctx)
	if err != nil {
		return nil, err
	}
	if o.KeyCreated != nil {
		if at, err := o.KeyCreated(); err == nil && daysBetween(at, now) > keyDays {
			add("key-age", false, l.Text("The signing key is {count} days old.", "count", daysBetween(at, now)),
				l.Text("Create a new one. Keep the old one as an additional key until its signatures have expired."),
				"", "cairn keys generate next.pem")
		}
		old, err := users.HS256Sessions(ctx)
		if err != nil {
			return nil, err
		}
		if old > 0 && settings.HS256Until.IsZero() {
			add("hs256-sessions", false,
				l.Text("{count} sessions are still signed with the shared secret.", "count", old),
				l.Text("They end within 30 days of their sign-in. You can set an earlier date."),
				"", "cairn keys migrate --until 14d")
		}
	}
	at, err := o.LastBackup(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := users.SignIns(ctx, chartDays)
	if err != nil {
		return nil, err
	}
	used := slices.Max(counts[:chartDays-backupDays]) > 0
	text := l.Text("There is no backup yet.")
	if !at.IsZero() {
		used, text = true, l.Text("The last backup is {count} days old.", "count", daysBetween(at, now))
	}
	ahead := at.After(now.Add(clockTolerance))
	if ahead {
		text = l.Text("The last backup is dated {date}, which is in the future: the clock was wrong.",
			"date", at.Format(time.DateOnly))
	}
	if ahead || daysBetween(at, now) >= backupDays {
		add("backup", !used, text, l.Text("Make one every night on the server."), "", "cairn backup FILE")
	}
	if o.Mail {
		state, err := users.MailState(ctx)
		if err != nil {
			return nil, err
		}
		if state.Failing > 0 {
			add("mail-server", false, l.Text("{count} emails could not be sent yet.", "count", state.Failing),
				l.Text("They are retried for a day. For the reason, see the log or send a test email."),
				"", "cairn mail test ADDRESS")
		}
	}
	weak, err := users.CountUsers(ctx, account.UserQuery{Flag: account.FlagAdmin, NoSecondFactor: true, Limit: 1})
	if err != nil {
		return nil, err
	}
	if n := weak.Total; n > 0 {
		add("second-factor", true, l.Text("{count} administrators sign in with a password alone.", "count", n),
			l.Text("They can switch on a second step under Security in their account."),
			"/admin/users/?flag=admin&no_second_factor=true", "")
	}
	if len(settings.SecondFactorFlags) == 0 {
		add("second-factor-optional", true, l.Text("Nobody needs a second factor."),
			l.Text("Require one, at least for administrators."),
			"/admin/settings#security", "cairn settings set second_factor_flags admin")
	}
	return list, nil
}

func daysBetween(from, to time.Time) int { return int(to.Sub(from).Hours() / 24) }

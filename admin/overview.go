package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

const (
	chartDays = 30
	// How old a key or a backup may get until an administrator is told.
	keyLifetime    = 365 * 24 * time.Hour
	backupLifetime = 7 * 24 * time.Hour
)

func (s *Service) overviewPage(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	page := templates.AdminOverview{Answer: answerTo(r)}
	var err error
	if page.Members, _, err = s.users.CountUsers(ctx, account.UserQuery{}); err != nil {
		return err
	}
	if page.OpenInvites, err = s.users.CountOpenInvites(ctx); err != nil {
		return err
	}
	counts, err := s.users.SignIns(ctx, chartDays)
	if err != nil {
		return err
	}
	today := s.users.Now()
	for i, n := range counts {
		page.SignIns = append(page.SignIns, templates.DayCount{Day: today.AddDate(0, 0, i+1-len(counts)), Count: n})
	}
	if page.Warnings, err = s.warnings(ctx); err != nil {
		return err
	}
	if page.Steps, err = s.nextSteps(ctx); err != nil {
		return err
	}
	s.accounts.Show(w, r, http.StatusOK, page)
	return nil
}

// warnings are what an administrator has to see to, each with the remedy.
func (s *Service) warnings(ctx context.Context) (list []templates.Warning, err error) {
	l, now := templates.LanguageOf(ctx), s.users.Now()
	if s.options.KeyCreated != nil {
		if at, err := s.options.KeyCreated(); err == nil && now.Sub(at) > keyLifetime {
			list = append(list, templates.Warning{
				Code: "old_key", Text: l.Text("The key that signs is more than a year old."),
				Remedy:  l.Text("The operator makes a new one and names the old one as an additional key until what it has signed has expired."),
				Command: "cairn keys generate",
			})
		}
		old, err := s.users.HS256Sessions(ctx)
		if err != nil {
			return nil, err
		}
		if old > 0 {
			list = append(list, templates.Warning{
				Code: "hs256_sessions", Text: l.Text("{count} sessions are still signed with the shared secret.", "count", old),
				Remedy:  l.Text("They end by themselves within 30 days of their sign-in; the operator can set an earlier end."),
				Command: "cairn keys migrate",
			})
		}
	}
	if s.options.LastBackup != nil {
		at, err := s.options.LastBackup(ctx)
		if err != nil {
			return nil, err
		}
		if now.Sub(at) > backupLifetime {
			list = append(list, templates.Warning{
				Code: "no_backup", Text: l.Text("There was no backup within a week."), Remedy: l.Text("The operator makes one, best every night."), Command: "cairn backup FILE",
			})
		}
	}
	if s.options.MailFailing != nil {
		failing, err := s.options.MailFailing(ctx)
		if err != nil {
			return nil, err
		}
		if failing > 0 {
			list = append(list, templates.Warning{
				Code: "mail_failing", Text: l.Text("{count} mails could not be sent yet.", "count", failing),
				Remedy:  l.Text("They are tried again for a day. The operator finds the reason in the log, or by sending a test."),
				Command: "cairn mail test ADDRESS",
			})
		}
	}
	q := account.UserQuery{Flag: account.FlagAdmin, NoSecondFactor: true}
	if n, _, err := s.users.CountUsers(ctx, q); err != nil {
		return nil, err
	} else if n > 0 {
		list = append(list, templates.Warning{
			Code: "no_second_factor", Text: l.Text("{count} administrators have no second factor.", "count", n),
			Remedy: l.Text("They add one under Security in their account. A setting can demand it."), Path: "/admin/users/?flag=admin&no_second_factor=true",
		})
	}
	settings, err := s.users.Settings(ctx)
	if err != nil {
		return nil, err
	}
	if len(settings.SecondFactorFlags) == 0 {
		list = append(list, templates.Warning{
			Code: "second_factor_optional", Text: l.Text("Nobody has to have a second factor."), Remedy: l.Text("Demand one at least of those who administer."), Path: "/admin/settings#security",
		})
	}
	return list, nil
}

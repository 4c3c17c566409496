package admin

import (
	"net/http"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/templates"
)

const chartDays = 30

func (s *Service) overviewPage(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	page := templates.AdminOverview{Answer: answerTo(r)}
	members, err := s.users.CountUsers(ctx, account.UserQuery{Limit: 1})
	if err != nil {
		return err
	}
	page.Members = members.Total
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
	if page.Warnings, err = Judge(ctx, s.users, s.options); err != nil {
		return err
	}
	page.Requests, page.EndingDays = s.accounts.WaitingRequests(), account.EndNotices[0]
	until := s.users.Now().AddDate(0, 0, page.EndingDays)
	soon, err := s.users.CountUsers(ctx, account.UserQuery{EndingBy: until, Limit: 1})
	if err != nil {
		return err
	}
	page.Ending = soon.Total
	page.Mail, page.Email = s.accounts.MailEnabled(), site.IdentityFrom(ctx).User.Email
	if page.Mail {
		state, err := s.users.MailState(ctx)
		if err != nil {
			return err
		}
		page.MailWaiting, page.MailFailing, page.MailFailure = state.Waiting, state.Failing, state.Failure
	}
	if page.LastBackup, err = s.options.LastBackup(ctx); err != nil {
		return err
	}
	if page.Steps, err = s.nextSteps(ctx, site.IdentityFrom(ctx).User); err != nil {
		return err
	}
	page.Warnings = slices.DeleteFunc(page.Warnings, func(w templates.Warning) bool { // an advice stands once
		return w.Advice && slices.ContainsFunc(page.Steps, func(n templates.NextStep) bool { return n.Name == w.Code })
	})
	s.accounts.Show(w, r, http.StatusOK, page)
	return nil
}

// testMailForm mails the administrator's own address. The page shows then whether the mail waits, or why it fails.
func (s *Service) testMailForm(w http.ResponseWriter, r *http.Request) error {
	if err := s.users.SendTestMail(r.Context(), s.accounts.Caller(r)); err != nil {
		return err
	}
	return s.accounts.Redirect(w, r, "/admin/?notice=test-mail#service")
}

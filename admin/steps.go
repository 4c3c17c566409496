package admin

import (
	"context"
	"net/http"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// nextSteps returns the steps after init, or none once all are done or an administrator closed
// the list.
func (s *Service) nextSteps(ctx context.Context, u account.User) ([]templates.NextStep, error) {
	settings, err := s.users.Settings(ctx)
	if err != nil || !settings.NextSteps {
		return nil, err
	}
	members, err := s.users.CountUsers(ctx, account.UserQuery{Limit: 1})
	if err != nil {
		return nil, err
	}
	invites, err := s.users.CountOpenInvites(ctx)
	if err != nil {
		return nil, err
	}
	clients, err := s.options.Applications(ctx)
	if err != nil {
		return nil, err
	}
	l := templates.LanguageOf(ctx)
	known := settings.Language != "" && settings.TimeZone != ""
	steps := []templates.NextStep{
		{ // English is the language of most servers, whatever their people speak
			Name: "language", Text: l.Text("Choose the language and the time zone of emails"),
			Path: "/admin/settings#general", Done: known && (settings.Language != "en" || l.Tag() == "en"),
		},
		{Name: "email", Text: l.Text("Add and verify your own email address"), Path: "/account/profile#email",
			Done: u.EmailVerified || u.Email != "" && !s.accounts.MailEnabled()},
		{Name: "invite", Text: l.Text("Invite someone"), Path: "/account/invites",
			Done: members.Total > 1 || invites > 0},
		{
			Name: "application", Text: l.Text("Register an application for members to sign in to"),
			Command: "cairn client add --help", Done: len(clients) > 0,
		},
	}
	at, err := s.options.LastBackup(ctx)
	if err != nil {
		return nil, err
	}
	steps = append(steps, templates.NextStep{
		Name: "backup", Text: l.Text("Set up daily backups with backup-dir, or make a backup"),
		Command: "cairn backup FILE", Done: !at.IsZero(),
	})
	if !slices.ContainsFunc(steps, func(step templates.NextStep) bool { return !step.Done }) {
		return nil, nil
	}
	return steps, nil
}

func (s *Service) closeStepsForm(w http.ResponseWriter, r *http.Request) error {
	if err := s.users.CloseNextSteps(r.Context(), s.accounts.Caller(r)); err != nil {
		return err
	}
	return s.accounts.Redirect(w, r, "/admin/")
}

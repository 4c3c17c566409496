package person

import (
	"context"

	"github.com/cairn-id/cairn/account/web"

	"github.com/cairn-id/cairn/account"
)

// boundedNotices returns the notices of an act that can be repeated at will, within the limit of
// mails: the first ones inform, and more would fill the mailbox. If the limit cannot be read, they
// are sent.
func (s *Service) boundedNotices(
	ctx context.Context, u account.User, kind string, data ...string,
) ([]account.Mail, error) {
	mails, err := s.Notices(ctx, u, kind, data...)
	if err != nil || len(mails) == 0 {
		return nil, err
	}
	if wait, err := s.Limits().Take(ctx, web.LimitMail, kind+":"+u.Sub); err == nil && wait > 0 {
		return nil, nil
	}
	return mails, nil
}

// BeginExport begins the export of all stored data of the caller, who is notified; see Store.Record.
func (s *Service) BeginExport(ctx context.Context, c account.Caller) (account.Audit, error) {
	a, err := s.begin(ctx, c, account.ExportAccount, "")
	if err == nil {
		a.Mails, err = s.boundedNotices(ctx, c.User, account.MailExported)
	}
	return a, err
}

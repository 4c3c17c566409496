package person

import (
	"context"
	"fmt"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// DeleteAccount removes the caller's personal data. They prove the password if there is one. With a second factor
// they also need a fresh session, or send a code. ErrLastAdmin.
func (s *Service) DeleteAccount(ctx context.Context, c account.Caller, in Confirmation) error {
	u := c.User
	err := s.Allow(c, account.DeleteAccount)
	if !u.Passwordless() {
		u, err = s.verifyPassword(ctx, c, in.Password)
	}
	if err == nil && in.OTP != "" && u.SecondFactor {
		if _, err = s.checkOTP(ctx, c, in.OTP); err == nil {
			c.Session.ConfirmedAt, c.Session.AMR = s.Now(), passwordAndCode
		}
	}
	if err != nil {
		return err
	}
	a, err := s.begin(ctx, c, account.DeleteAccount, "")
	if err != nil {
		return err
	}
	a.Address = "" // the address is personal data, so the audit row has none
	if err := s.Store().DeleteUser(ctx, u.Sub, s.Now(), a); err != nil {
		return fmt.Errorf("delete own account: %w", err)
	}
	web.Note(ctx, "account_deleted")
	return nil
}

// BeginExport begins the export of all stored data of the caller, who is notified; see Store.Record.
func (s *Service) BeginExport(ctx context.Context, c account.Caller) (account.Audit, error) {
	a, err := s.begin(ctx, c, account.ExportAccount, "")
	if err == nil {
		a.Mails, err = s.boundedNotices(ctx, c.User, account.MailExported)
	}
	return a, err
}

package person

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// ChangeProfile changes the caller's profile. With another email address the other sessions end, except what is kept:
// at once, or when the new address counts (see PendingEmail). What keep removes and voids it does at once.
func (s *Service) ChangeProfile(
	ctx context.Context, c account.Caller, change account.UserChange, keep account.Keep,
) (account.User, error) {
	for {
		u, err := s.changeProfile(ctx, c, change, keep)
		if !errors.Is(err, errEmailMoved) {
			return u, web.Noted(ctx, "profile_changed", err)
		}
		if c.User, err = s.Store().UserBySub(ctx, c.User.Sub); err != nil {
			return u, err
		}
	}
}

// errEmailMoved means that another request changed the address, which decides who is notified of
// this change.
var errEmailMoved = errors.New("the email address has changed in the meantime")

func (s *Service) changeProfile(
	ctx context.Context, c account.Caller, change account.UserChange, keep account.Keep,
) (account.User, error) {
	u := c.User
	draft := u // a refusal costs no write
	err := change.Apply(&draft)
	if err == nil && draft.Email == u.Email && len(keep.Remove) > 0 { // nothing ends
		err = account.ErrFactorsNamed
	}
	detail := change.Changed(u)
	if err != nil || detail == "" {
		return u, err
	}
	if draft.Email == u.Email {
		row, err := s.begin(ctx, c, account.ChangeProfile, detail)
		if err != nil {
			return u, err
		}
		return s.Store().ChangeUser(ctx, u.Sub, func(now *account.User) error {
			row.Detail = change.Changed(*now)
			if err := change.Apply(now); err != nil {
				return err
			}
			return sameEmail(*now, u)
		}, s.Now(), &row)
	}
	waits := s.MailEnabled() && u.EmailVerified && draft.Email != ""
	row, err := s.beginNewEmail(ctx, c, draft.Email, detail, waits)
	if err != nil {
		return u, err
	}
	row = row.Keeping(keep)
	verify := false
	if draft.Email != "" && s.MailEnabled() {
		err := s.verificationLimit(ctx, u)
		if err != nil && !errors.Is(err, web.ErrRateLimited) {
			return u, err
		}
		verify = err == nil
	}
	told := row.Mails
	return s.Store().ChangeUser(ctx, u.Sub, func(now *account.User) error {
		if err := sameEmail(*now, u); err != nil {
			return err
		}
		if err := change.Apply(now); err != nil {
			return err
		}
		if waits {
			now.Pending = account.PendingEmail{Email: now.Email, At: s.Now(), Session: c.Session.ID,
				Keep: account.Keep{Sessions: keep.Sessions, Apps: row.KeepApps}}
			now.Email, now.EmailVerified = u.Email, true
		}
		if row.Mails = slices.Clone(told); verify {
			row.Mails = append(row.Mails, s.askVerification(ctx, now)...)
		}
		return nil
	}, s.Now(), &row)
}

func sameEmail(now, before account.User) error {
	if now.Email != before.Email || now.EmailVerified != before.EmailVerified {
		return errEmailMoved
	}
	return nil
}

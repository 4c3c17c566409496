package person

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// sameVerification is how long a further mail repeats the code of the previous one, because
// mails may arrive in another order.
const sameVerification = time.Hour

// Verifiable reports whether the latest mail can still verify the address.
func (s *Service) Verifiable(u account.User) bool {
	return s.Now().Sub(u.EmailAskedAt) < account.VerificationLifetime
}

// Shares reports whether the address of u is that of a family, verified for another account: it came with an invite or
// a list. Of one that was typed into the profile, for which a mail was sent, nobody learns whose it is.
func (s *Service) Shares(ctx context.Context, u account.User) (bool, error) {
	if !s.MailEnabled() || !u.EmailAskedAt.IsZero() {
		return false, nil
	}
	return s.OfFamily(ctx, u)
}

// EmailCode returns the code of six digits that verifies the address. It is derived from the
// account, the address and the time of the request, and stored nowhere.
func (s *Service) EmailCode(u account.User) string {
	m := hmac.New(sha256.New, s.emailKey)
	_, _ = fmt.Fprintf(m, "%s %d %s", u.Sub, u.EmailAskedAt.Unix(), u.Unproven())
	return fmt.Sprintf("%06d", binary.BigEndian.Uint64(m.Sum(nil))%1_000_000)
}

// beginEmailChange begins an act that changes the caller's address. The owner of the previous verified
// address is notified and can undo the change, and so can everybody who can still undo an earlier
// change.
func (s *Service) beginEmailChange(
	ctx context.Context, c account.Caller, act account.Act, to, detail string,
) (account.Audit, error) {
	row, err := s.begin(ctx, c, act, detail)
	if err != nil {
		return row, err
	}
	row.KeepEmail, row.Mails = uuid.NewString(), nil
	if !s.MailEnabled() {
		return row, nil
	}
	former, err := s.Store().FormerEmails(ctx, c.User.Sub, s.Now())
	if err != nil {
		return row, err
	}
	former = slices.DeleteFunc(former, func(f account.EmailChange) bool {
		return strings.EqualFold(f.Email, c.User.Email) || strings.EqualFold(f.Email, to)
	})
	if u := c.User; u.EmailVerified {
		former = append(former, account.EmailChange{ID: row.KeepEmail, Email: u.Email})
	}
	for _, f := range former {
		row.Mails = append(row.Mails, account.UserMail(ctx, c.User, f.Email, account.MailEmailChanged, s.Now(),
			"change", f.ID, account.MailFormer, "true"))
	}
	return row, nil
}

// beginNewEmail begins to change the caller's address at once, or to let the new one wait.
func (s *Service) beginNewEmail(
	ctx context.Context, c account.Caller, to, detail string, waits bool,
) (account.Audit, error) {
	if !waits {
		return s.beginEmailChange(ctx, c, account.ChangeEmail, to, detail)
	}
	return s.begin(ctx, c, account.RequestEmail, detail, "session", c.Session.ID)
}

// askVerification returns the mail that verifies the address of u.
func (s *Service) askVerification(ctx context.Context, u *account.User) []account.Mail {
	if !s.MailEnabled() || u.Unproven() == "" {
		return nil
	}
	if now := s.Now(); now.Sub(u.EmailAskedAt) >= sameVerification {
		u.EmailAskedAt = now
	}
	return []account.Mail{account.UserMail(ctx, *u, u.Unproven(), account.MailVerify, s.Now(), "asked",
		strconv.FormatInt(u.EmailAskedAt.Unix(), 10))}
}

// verificationLimit counts a mail to an address that a user entered, so that nobody fills the
// mailbox of another person.
func (s *Service) verificationLimit(ctx context.Context, u account.User) error {
	return s.Limits().Count(ctx, web.LimitKey{Name: web.LimitMail, Key: "verify:" + u.Sub})
}

// SendVerification sends the mail again.
func (s *Service) SendVerification(ctx context.Context, c account.Caller) error {
	u := c.User
	if !s.MailEnabled() {
		return s.WithContact(ctx, account.ErrMailOff, mailOffContact)
	}
	if err := s.verificationLimit(ctx, u); err != nil {
		return err
	}
	a, err := s.begin(ctx, c, account.AskVerification, "")
	if err != nil {
		return err
	}
	mails := s.askVerification(ctx, &u)
	err = s.Store().AskVerification(ctx, u.Sub, u.Unproven(), u.EmailAskedAt, a.With(mails...))
	if errors.Is(err, account.ErrInvalidLink) {
		err = account.ErrNoEmailToVerify
	}
	return web.Noted(ctx, "verification_sent", err)
}

// VerifyByCode verifies the address of the caller with the code of the mail. ErrEmailTaken.
func (s *Service) VerifyByCode(ctx context.Context, c account.Caller, typed string) error {
	u := c.User
	if u.Unproven() == "" {
		return account.ErrNoEmailToVerify
	}
	code := strings.NewReplacer(" ", "", "-", "").Replace(text.Cut(typed, 32))
	err := s.Limits().Guess(ctx, []web.LimitKey{{Name: web.LimitVerify, Key: u.Sub}}, account.ErrInvalidEmailCode,
		func() error {
			if !s.Verifiable(u) || subtle.ConstantTimeCompare([]byte(code), []byte(s.EmailCode(u))) != 1 {
				return account.ErrInvalidEmailCode
			}
			return nil
		})
	if err != nil {
		return err
	}
	return s.verifyEmail(ctx, c, u, u.EmailAskedAt)
}

func (s *Service) verifyEmail(ctx context.Context, c account.Caller, u account.User, asked time.Time) error {
	begin := func() (account.Audit, error) { return s.begin(ctx, c.As(u), account.VerifyEmail, "") }
	if u.EmailVerified {
		begin = func() (account.Audit, error) {
			return s.beginEmailChange(ctx, c.As(u), account.ReplaceEmail, u.Pending.Email, "")
		}
	}
	a, err := begin()
	if err != nil {
		return err
	}
	return web.Noted(ctx, "email_verified", s.Store().VerifyEmail(ctx, u.Sub, u.Unproven(), asked, s.Now(), a))
}

// CancelEmail drops the caller's address that waits. ErrNoEmailToVerify.
func (s *Service) CancelEmail(ctx context.Context, c account.Caller) error {
	return s.cancelEmail(ctx, c, account.CancelEmail)
}

func (s *Service) cancelEmail(ctx context.Context, c account.Caller, act account.Act) error {
	a, err := s.begin(ctx, c, act, "")
	if err != nil {
		return err
	}
	return web.Noted(ctx, "email_cancelled", s.Store().CancelEmail(ctx, c.User.Sub, a))
}

package account

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account/web"
)

const (
	// VerificationLifetime is how long link and code of a mail verify an address.
	VerificationLifetime = 24 * time.Hour
	// UndoLifetime is how long the owner of the address before can undo a change.
	UndoLifetime = 7 * 24 * time.Hour
	// sameVerification is how long a further mail has the code of the one before: mails
	// do not always come in the order in which they were sent.
	sameVerification = time.Hour
)

// userNamed returns the user who has the handle, or alone has the verified address, or
// the zero User: one statement for each.
func (s *Service) userNamed(ctx context.Context, typed string) (User, error) {
	var u User
	var err error
	if strings.Contains(typed, "@") {
		email, invalid := CheckEmail(typed)
		if invalid != nil {
			return User{}, nil
		}
		u, err = s.store.UserByEmail(ctx, email)
	} else {
		handle, invalid := CanonicalHandle(typed)
		if invalid != nil {
			return User{}, nil
		}
		u, err = s.store.UserByHandle(ctx, handle)
	}
	if err != nil && !errors.Is(err, ErrUserNotFound) {
		return User{}, fmt.Errorf("find user: %w", err)
	}
	return u, nil
}

// verifiable tells whether the address can be verified by the latest mail.
func (s *Service) verifiable(u User) bool {
	return u.Email != "" && !u.EmailVerified && !u.EmailAskedAt.IsZero() && s.now().Sub(u.EmailAskedAt) < VerificationLifetime
}

// emailCode is the code of six digits by which the address can be verified. It is bound
// to the account, the address and when it was asked for, and is stored nowhere.
func (s *Service) emailCode(u User) string {
	m := hmac.New(sha256.New, s.emailKey)
	_, _ = fmt.Fprintf(m, "%s %d %s", u.Sub, u.EmailAskedAt.Unix(), u.Email)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint64(m.Sum(nil))%1_000_000)
}

// changeEmail adds to a change of the user's own address what it brings about: the mail
// that verifies the new one, and the one by which the owner of the former undoes it.
// It may run more than once.
func (s *Service) changeEmail(ctx context.Context, before User, after *User, verify bool, a *Audit) {
	a.Mails, a.KeepEmail = nil, ""
	if before.Email == after.Email {
		return
	}
	a.KeepEmail = uuid.NewString()
	if !s.MailEnabled() {
		return
	}
	if before.EmailVerified {
		a.Mails = append(a.Mails, userMail(ctx, before, before.Email, MailEmailChanged, s.now(), "change", a.KeepEmail))
	}
	if verify {
		a.Mails = append(a.Mails, s.askVerification(ctx, after)...)
	}
}

// askVerification makes the mail by which the address of u is verified.
func (s *Service) askVerification(ctx context.Context, u *User) []Mail {
	if !s.MailEnabled() || u.Email == "" || u.EmailVerified {
		return nil
	}
	if now := s.now(); now.Sub(u.EmailAskedAt) >= sameVerification {
		u.EmailAskedAt = now
	}
	return []Mail{userMail(ctx, *u, u.Email, MailVerify, s.now(), "asked", strconv.FormatInt(u.EmailAskedAt.Unix(), 10))}
}

// verificationLimit counts a mail to an address that a user has entered: nobody shall
// fill the mailbox of another.
func (s *Service) verificationLimit(ctx context.Context, u User) (wait time.Duration, err error) {
	return s.limits.Take(ctx, web.LimitMail, "verify:"+u.Sub)
}

// sendVerification sends the mail once more.
func (s *Service) sendVerification(_ http.ResponseWriter, r *http.Request) error {
	ctx, u := r.Context(), IdentityFrom(r.Context()).User
	switch {
	case !s.MailEnabled():
		return s.withContact(ctx, ErrMailOff, mailOffContact)
	case u.Email == "" || u.EmailVerified:
		return ErrNoEmailToVerify
	}
	if wait, err := s.verificationLimit(ctx, u); err != nil || wait > 0 {
		if err == nil {
			err = web.RateLimited(wait)
		}
		return err
	}
	a := s.ownAudit(r, "email.ask", "").with(s.askVerification(ctx, &u)...)
	err := s.store.AskVerification(ctx, u.Sub, u.Email, u.EmailAskedAt, a)
	if errors.Is(err, ErrInvalidLink) {
		err = ErrNoEmailToVerify
	}
	return web.Noted(ctx, "verification_sent", err)
}

// verifyByCode verifies the address of the signed-in user by the code of the mail.
func (s *Service) verifyByCode(r *http.Request, typed string) error {
	ctx, u := r.Context(), IdentityFrom(r.Context()).User
	if u.Email == "" || u.EmailVerified {
		return ErrNoEmailToVerify
	}
	code := strings.NewReplacer(" ", "", "-", "").Replace(cut(typed, 32))
	err := s.limits.Guess(ctx, []web.LimitKey{{Name: web.LimitVerify, Key: u.Sub}}, ErrInvalidEmailCode, func() error {
		if !s.verifiable(u) || subtle.ConstantTimeCompare([]byte(code), []byte(s.emailCode(u))) != 1 {
			return ErrInvalidEmailCode
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.verifyEmail(r, u, u.EmailAskedAt)
}

func (s *Service) verifyEmail(r *http.Request, u User, asked time.Time) error {
	a := ActorFor(r, u).Own(s.now(), "email.verify", "")
	return web.Noted(r.Context(), "email_verified", s.store.VerifyEmail(r.Context(), u.Sub, u.Email, asked, s.now(), a))
}

func (s *Service) apiVerifyEmail(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Code string `json:"code"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := s.verifyByCode(r, in.Code); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

func (s *Service) verifyForm(_ http.ResponseWriter, r *http.Request) error {
	return s.verifyByCode(r, r.PostForm.Get("code"))
}

// maskedEmail lets who knows an address recognise it, and tells others little.
func maskedEmail(email string) string {
	local, domain, _ := strings.Cut(email, "@")
	return string([]rune(local)[:min(1, len([]rune(local)))]) + "…@" + domain
}

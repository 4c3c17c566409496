package account

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// ResetCodeLifetime is how long a password reset code can be used.
const ResetCodeLifetime = 24 * time.Hour

// ResetCode is a fresh code; it is shown once and stored hashed.
type ResetCode struct {
	Code      string // canonical
	ExpiresAt time.Time
	Hash      []byte
}

// NewResetCode draws a code of 130 bits.
func NewResetCode(now time.Time) ResetCode {
	c := newCode(resetCodeLength)
	return ResetCode{Code: c, ExpiresAt: now.UTC().Truncate(time.Second).Add(ResetCodeLifetime), Hash: hashOf(c)}
}

// Shown is the code in groups, as people read and copy it.
func (c ResetCode) Shown() string { return grouped(c.Code) }

// ResetURL is the link that opens the reset page of the issuer with handle and
// code filled in.
func ResetURL(issuer, handle string, c ResetCode) string {
	return issuer + "/reset-password/?" + url.Values{"handle": {handle}, "code": {c.Code}}.Encode()
}

// ResetURL is the link to this service's page.
func (s *Service) ResetURL(handle string, c ResetCode) string { return ResetURL(s.URL(""), handle, c) }

// Reset is what a person enters to set a new password.
type Reset struct {
	Handle   string `json:"handle"`
	Code     string `json:"code"`
	Password string `json:"password"`
}

// ResetPassword spends a code. It neither signs in nor lifts a suspension; a refused password does not burn the
// code.
//
// A right code is always taken: nobody guesses 130 bits, and who sends wrong ones must not keep the owner out. Wrong
// ones count for the address that sends them, and for what was typed as the account.
func (s *Service) ResetPassword(ctx context.Context, c Caller, in Reset) (User, error) {
	handle, code, err := s.checkReset(ctx, c, in)
	if err != nil {
		if errors.Is(err, ErrInvalidResetCode) {
			web.Note(ctx, "reset_refused")
		}
		return User{}, err
	}
	u, err := s.userNamed(ctx, handle)
	if err != nil {
		return User{}, err
	}
	hash, err := s.hashNew(ctx, in.Password, handle)
	if err != nil {
		return User{}, err
	}
	a, err := s.begin(ctx, c.as(u), "password.reset", "")
	if err != nil {
		return User{}, err
	}
	a.Actor, a.Target = handle, handle
	return u, web.Noted(ctx, "password_reset", s.store.ResetPassword(ctx, handle, hashOf(code), hash, s.now(), a))
}

// checkReset finds the account of a right code.
func (s *Service) checkReset(ctx context.Context, c Caller, in Reset) (handle, code string, err error) {
	typed := withoutAt(in.Handle)
	if handle, err = s.handleOf(ctx, typed); err != nil {
		return "", "", err
	}
	if code = canonicalCode(in.Code, resetCodeLength); code != "" {
		valid, err := s.store.ResetCodeValid(ctx, handle, hashOf(code), s.now())
		if err != nil || valid {
			return handle, code, err
		}
	}
	limits := []web.LimitKey{
		{Name: web.LimitReset, Key: c.Address},
		{Name: web.LimitResetAccount, Key: accountKey(typed), Exempt: func(refusal error) error {
			u, err := s.userNamed(ctx, handle)
			s.recordLimited(ctx, c, u, "password.limited", refusal)
			return cmp.Or(err, refusal)
		}},
	}
	return "", "", s.limits.Guess(ctx, limits, ErrInvalidResetCode, func() error { return ErrInvalidResetCode })
}

// handleOf is the handle of the account that was named by it or by its verified
// address. What names none is returned in a form that is nobody's handle.
func (s *Service) handleOf(ctx context.Context, typed string) (string, error) {
	if handle, err := CanonicalHandle(typed); err == nil {
		return handle, nil
	}
	nobody := "@" + accountKey(typed)
	if !strings.Contains(typed, "@") {
		return nobody, nil
	}
	u, err := s.userNamed(ctx, typed)
	return cmp.Or(u.Handle, nobody), err
}

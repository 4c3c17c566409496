package account

import (
	"context"
	"net/url"
	"time"
)

// ResetCodeLifetime is the lifetime of a password reset code.
const ResetCodeLifetime = 24 * time.Hour

// WelcomeLifetime is the lifetime of the code with which somebody who was added chooses a first password.
const WelcomeLifetime = 14 * 24 * time.Hour

// ResetCode is a new code. It is shown once, and only its hash is stored.
type ResetCode struct {
	Code      string // canonical
	ExpiresAt time.Time
	Hash      []byte
}

// NewResetCode returns a random code of 130 bits.
func NewResetCode(now time.Time) ResetCode {
	c := NewCode(ResetCodeLength)
	return ResetCode{Code: c, ExpiresAt: now.UTC().Truncate(time.Second).Add(ResetCodeLifetime), Hash: HashSecret(c)}
}

// NewWelcomeCode is NewResetCode for somebody who is added.
func NewWelcomeCode(now time.Time) ResetCode {
	c := NewResetCode(now)
	c.ExpiresAt = now.UTC().Truncate(time.Second).Add(WelcomeLifetime)
	return c
}

// Shown returns the code in groups, as people read and copy it.
func (c ResetCode) Shown() string { return Grouped(c.Code) }

// ResetURL returns the link to the reset page of the issuer with handle and code filled in.
func ResetURL(issuer, handle string, c ResetCode) string {
	return issuer + "/reset-password/?" + url.Values{"handle": {handle}, "code": {c.Code}}.Encode()
}

// ResetStore keeps hashed password reset codes: for a user at most one of an administrator and one
// that was mailed.
type ResetStore interface {
	// CreateResetCode replaces any earlier code of the user. ErrUserNotFound.
	CreateResetCode(ctx context.Context, sub string, hash []byte, expires, now time.Time, a Audit) error
	// CreateMailedResetCode replaces the previous mailed code, not that of an administrator. mail is the id of the
	// mail in the outbox that it is for: if that is gone, what it gives is void. 0: no mail.
	// ErrUserNotFound, also for a user who is suspended, has another address, or has a password and
	// has not verified the address.
	CreateMailedResetCode(
		ctx context.Context, mail int64, sub, email string, hash []byte, expires, now time.Time,
	) error
	// ResetCodeValid reports whether the code would be accepted now.
	ResetCodeValid(ctx context.Context, handle string, hash []byte, now time.Time) (bool, error)
	// ResetPassword spends the code and sets the password hash; a.Ends applies, Unverify only to a code
	// that was not mailed. A mailed code verifies the address, unless another account has verified
	// it. It unlocks the user, but adds to User.FactorUnlocks by a mailed code only once in RemedyRest,
	// and makes the address of the audit row known (see KnownAddress).
	// ErrInvalidResetCode for an unknown handle as well as for a wrong, used or expired code.
	ResetPassword(ctx context.Context, handle string, codeHash []byte, passwordHash string,
		now time.Time, a Audit) error
	// ResetToPasskey is ResetPassword of a user who has no password, and gets a passkey in its place.
	ResetToPasskey(ctx context.Context, handle string, codeHash []byte, first FirstPasskey,
		now time.Time, a Audit) error
}

// MailedResetLifetime is the lifetime of a reset code that was mailed.
const MailedResetLifetime = time.Hour

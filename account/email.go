package account

import (
	"context"
	"strings"
	"time"
)

const (
	// VerificationLifetime is the lifetime of the link and the code that verify an address.
	VerificationLifetime = 24 * time.Hour
	// UndoLifetime is how long the owner of the previous address can undo a change.
	UndoLifetime = 7 * 24 * time.Hour
)

// MaskedEmail returns an address so that only people who know it recognise it.
func MaskedEmail(email string) string {
	local, domain, _ := strings.Cut(email, "@")
	return string([]rune(local)[:min(1, len([]rune(local)))]) + "…@" + domain
}

// EmailStore keeps verifications and changes of addresses. ErrInvalidLink means used, too old,
// unknown, or not about the current address of the user.
type EmailStore interface {
	// UserByEmail returns the user with this verified address (case-insensitive). ErrUserNotFound.
	UserByEmail(ctx context.Context, email string) (User, error)
	// AskVerification sets User.EmailAskedAt if this is still User.Unproven. ErrInvalidLink.
	AskVerification(ctx context.Context, sub, email string, asked time.Time, a Audit) error
	// CancelEmail drops the address that waits. ErrNoEmailToVerify.
	CancelEmail(ctx context.Context, sub string, a Audit) error
	// VerifyEmail marks the address as verified, once for each request and within VerificationLifetime. With
	// a.KeepEmail it is the one that waits, which takes the place of the other; a.Ends applies, except to the session
	// that asked for it and what that keeps. If an undo could restore it, later changes can no longer be undone, as
	// after that undo. ErrInvalidLink, ErrEmailTaken.
	VerifyEmail(ctx context.Context, sub, email string, asked, now time.Time, a Audit) error
	// EmailChange returns a change of address that can still be undone. ErrInvalidLink.
	EmailChange(ctx context.Context, id string, now time.Time) (EmailChange, error)
	// FormerEmails lists the changes of the user's address that can still be undone, oldest first.
	FormerEmails(ctx context.Context, sub string, now time.Time) ([]EmailChange, error)
	// UndoEmailChange restores the former address, as verified unless another account has verified
	// it since. a.Ends applies, since the change, and to factors since the session that made it began. code becomes the
	// user's reset code as in DisownSession. Later changes can no longer be undone; earlier ones can. The user is the
	// actor of the audit row. ErrInvalidLink.
	UndoEmailChange(ctx context.Context, id string, code ResetCode, now time.Time, a Audit) (Disowned, error)
	// QueueMail stores a mail without an audit row.
	QueueMail(ctx context.Context, m Mail, now time.Time) error
}

// EmailChange is a verified address that the user has replaced.
type EmailChange struct {
	ID        string
	Sub       string
	Email     string // before
	ExpiresAt time.Time
}

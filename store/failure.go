package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// refusals are the errors with a meaning that a deed can end with. Everything
// else is a failure of the database.
var refusals = []error{
	account.ErrUserNotFound, account.ErrSessionNotFound, account.ErrInviteNotFound, account.ErrAppNotFound, account.ErrStatusListNotFound, account.ErrNotInitialized,
	account.ErrInvalidCredentials, account.ErrSuspended, account.ErrInvalidInvite, account.ErrInvalidResetCode, account.ErrInvalidPreference,
	account.ErrHandleTaken, account.ErrInvalidCursor, account.ErrRegistrationFull, account.ErrInviteLimit, account.ErrInviteUsed, account.ErrLastAdmin,
	provider.ErrClientNotFound, provider.ErrClientExists, provider.ErrNotFound, provider.ErrSpent,
	account.ErrUnavailable, // already wrapped
}

// fail wraps the error of an operation: a refusal keeps its meaning, the end that
// the caller has put to it is context.Canceled, anything else is
// account.ErrUnavailable, a deadline too. nil stays nil.
func fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, r := range refusals {
		if errors.Is(err, r) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, account.ErrUnavailable, err)
}

// canceled adds context.Canceled to what a driver says after the caller has given
// up: that the transaction is over, or the database busy.
func canceled(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Canceled, err)
}

// expect is the error of a statement, or none when it changed or found nothing.
func expect(res *gorm.DB, none error) error {
	if res.Error != nil {
		return res.Error
	}
	if res.RowsAffected == 0 {
		return none
	}
	return nil
}

// again tells whether PostgreSQL gave a transaction up so that another could
// go on; it has had no effect and can be repeated.
func again(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01") // serialization_failure, deadlock_detected
}

// odd tells whether a key cannot be in the database: empty, or what only one of
// the two databases would take. Such a key is not looked up.
func odd(key string) bool {
	return key == "" || strings.ContainsRune(key, 0) || !utf8.ValidString(key)
}

// storable is a text without what PostgreSQL refuses: for remarks that must not
// make a deed fail.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}

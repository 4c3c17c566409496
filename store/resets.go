package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// CreateResetCode implements account.Store.
func (s *Store) CreateResetCode(ctx context.Context, sub string, hash []byte, expires, now time.Time, a account.Audit) error {
	return s.write(ctx, "create reset code", func(tx *gorm.DB) error {
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		err := tx.Exec(`INSERT INTO reset_codes (sub, hash, created_at, expires_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (sub) DO UPDATE SET hash = excluded.hash, created_at = excluded.created_at, expires_at = excluded.expires_at`,
			sub, hash, toUnix(now), toUnix(expires)).Error
		if err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// validCode finds whose code it is. ErrInvalidResetCode.
func validCode(db *gorm.DB, handle string, hash []byte, now time.Time) (sub string, err error) {
	if invalidKey(handle) || len(hash) == 0 {
		return "", account.ErrInvalidResetCode
	}
	err = expect(db.Raw(`SELECT u.sub FROM users u JOIN reset_codes r ON r.sub = u.sub
		WHERE u.handle = ? AND u.deleted_at = 0 AND r.hash = ? AND r.expires_at > ?`, handle, hash, toUnix(now)).Find(&sub), account.ErrInvalidResetCode)
	return sub, err
}

// ResetCodeValid implements account.Store.
func (s *Store) ResetCodeValid(ctx context.Context, handle string, hash []byte, now time.Time) (bool, error) {
	_, err := validCode(s.conn(ctx), handle, hash, now)
	if errors.Is(err, account.ErrInvalidResetCode) {
		return false, nil
	}
	return err == nil, fail("check reset code", err)
}

// ResetPassword implements account.Store.
func (s *Store) ResetPassword(ctx context.Context, handle string, codeHash []byte, passwordHash string, now time.Time) error {
	return s.write(ctx, "reset password", func(tx *gorm.DB) error {
		// Looking first keeps guesses from locking the row of the user.
		sub, err := validCode(tx, handle, codeHash, now)
		if err != nil {
			return err
		}
		set := tx.Exec("UPDATE users SET password_hash = ?, updated_at = ? WHERE sub = ? AND deleted_at = 0", passwordHash, toUnix(now), sub)
		if err := expect(set, account.ErrInvalidResetCode); err != nil {
			return err
		}
		spend := tx.Exec("DELETE FROM reset_codes WHERE sub = ? AND hash = ? AND expires_at > ?", sub, codeHash, toUnix(now))
		if err := expect(spend, account.ErrInvalidResetCode); err != nil {
			return err
		}
		return revokeAccess(tx, sub, "", now)
	})
}

package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// UpgradeHash implements account.Store.
func (s *Store) UpgradeHash(ctx context.Context, sub, old, hash string) error {
	if odd(sub) || odd(old) {
		return nil
	}
	return s.writeOne(ctx, "upgrade password hash", func(db *gorm.DB) error {
		return db.Exec("UPDATE users SET password_hash = ? WHERE sub = ? AND password_hash = ? AND deleted_at = 0", hash, sub, old).Error
	})
}

// ChangePassword implements account.Store.
func (s *Store) ChangePassword(ctx context.Context, sub, old, hash, keepSession string, now time.Time) error {
	if odd(sub) || odd(old) {
		return account.ErrInvalidCredentials
	}
	return s.write(ctx, "change password", func(tx *gorm.DB) error {
		set := tx.Exec("UPDATE users SET password_hash = ?, updated_at = ? WHERE sub = ? AND password_hash = ? AND deleted_at = 0", hash, seconds(now), sub, old)
		if err := expect(set, account.ErrInvalidCredentials); err != nil {
			return err
		}
		keepSession = storable(keepSession)
		// A code that is being made in that session holds its row: it is waited for, and
		// its grant revoked with the others.
		if err := tx.Exec("UPDATE sessions SET ended_at = ended_at WHERE id = ? AND sub = ?", keepSession, sub).Error; err != nil {
			return err
		}
		return endAll(tx, sub, keepSession, now)
	})
}

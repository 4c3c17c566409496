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

// ChangePassword implements account.Store. It revokes also the grants of
// sessions that ended earlier: whoever knew the old password may hold them.
func (s *Store) ChangePassword(ctx context.Context, sub, old, hash, keepSession string, now time.Time) error {
	if odd(sub) || odd(old) {
		return account.ErrInvalidCredentials
	}
	return s.write(ctx, "change password", func(tx *gorm.DB) error {
		set := tx.Exec("UPDATE users SET password_hash = ?, updated_at = ? WHERE sub = ? AND password_hash = ? AND deleted_at = 0", hash, seconds(now), sub, old)
		if err := expect(set, account.ErrInvalidCredentials); err != nil {
			return err
		}
		return endAll(tx, sub, storable(keepSession), now)
	})
}

// endAll takes back whatever a person or a thief holds: sessions and grants
// (but those of the session keep, if not empty) and reset codes. The row of the
// user must have been changed or locked before, in the same transaction: a
// session that is being made waits for that row and then finds it changed. The
// clients of the sessions are told.
func endAll(tx *gorm.DB, sub, keep string, now time.Time) error {
	// Sessions before grants: a grant that is being made holds its session.
	var ended []string
	err := tx.Raw("UPDATE sessions SET ended_at = ? WHERE sub = ? AND id <> ? AND ended_at = 0 RETURNING id", seconds(now), sub, keep).Find(&ended).Error
	if err != nil {
		return err
	}
	err = tx.Exec("UPDATE grants SET revoked_at = ? WHERE sub = ? AND sid <> ? AND revoked_at = 0", seconds(now), sub, keep).Error
	if err != nil {
		return err
	}
	if err := noteLogouts(tx, sub, ended, now); err != nil {
		return err
	}
	return tx.Exec("DELETE FROM reset_codes WHERE sub = ?", sub).Error
}

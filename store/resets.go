package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// CreateResetCode implements account.Store.
func (s *Store) CreateResetCode(
	ctx context.Context, sub string, hash []byte, expires, now time.Time, a account.Audit,
) error {
	return s.write(ctx, "create reset code", func(tx *engine.Tx) error {
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		if err := setResetCode(tx, sub, hash, expires, now); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

func setResetCode(tx *engine.Tx, sub string, hash []byte, expires, now time.Time) error {
	return tx.Exec(`INSERT INTO reset_codes (sub, hash, created_at, expires_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (sub) DO UPDATE
		SET hash = excluded.hash, created_at = excluded.created_at, expires_at = excluded.expires_at`,
		sub, hash, toUnix(now), toUnix(expires)).Error
}

// validCode returns the user of a valid code. ErrInvalidResetCode.
func validCode(db *gorm.DB, handle string, hash []byte, now time.Time) (sub string, err error) {
	if invalidKey(handle) || len(hash) == 0 {
		return "", account.ErrInvalidResetCode
	}
	found := db.Raw(`SELECT u.sub FROM users u
		JOIN (SELECT sub, hash, expires_at FROM reset_codes
			UNION ALL SELECT sub, hash, expires_at FROM mailed_reset_codes) r ON r.sub = u.sub
		WHERE `+handleKey+` = ? AND u.deleted_at = 0 AND r.hash = ? AND r.expires_at > ?`,
		account.HandleKey(handle), hash, toUnix(now)).Find(&sub)
	return sub, expect(found, account.ErrInvalidResetCode)
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
func (s *Store) ResetPassword(
	ctx context.Context, handle string, codeHash []byte, passwordHash string, now time.Time, a account.Audit,
) error {
	return s.write(ctx, "reset password", func(tx *engine.Tx) error {
		// Checking first keeps guesses from locking the user's row.
		sub, err := validCode(tx.DB, handle, codeHash, now)
		if err != nil {
			return err
		}
		set := tx.Exec(`UPDATE users SET password_hash = ?, password_disowned_at = 0, updated_at = ?
			WHERE sub = ? AND deleted_at = 0`, passwordHash, toUnix(now), sub)
		if err := expect(set, account.ErrInvalidResetCode); err != nil {
			return err
		}
		spend := func(table string) *gorm.DB {
			return tx.Exec("DELETE FROM "+table+" WHERE sub = ? AND hash = ? AND expires_at > ?",
				sub, codeHash, toUnix(now))
		}
		given, mailed := spend("reset_codes"), false
		if given.Error == nil && given.RowsAffected == 0 {
			mailed = true
			given = spend("mailed_reset_codes")
		}
		if err := expect(given, account.ErrInvalidResetCode); err != nil {
			return err
		}
		a := a
		if mailed {
			if err := verifyEmailByCode(tx, sub); err != nil {
				return err
			}
			a.Ends.Unverify = false // the code proves the mailbox
		}
		out, err := end(tx, sub, "", a, now)
		if err != nil {
			return err
		}
		// After end, which may forget known addresses: whoever has the code is the owner.
		if err := clearFailures(tx, sub); err != nil {
			return err
		}
		err = tx.Exec("UPDATE users SET reset_address = ?, reset_at = ? WHERE sub = ?",
			sanitize(a.Address), toUnix(now), sub).Error
		if err != nil {
			return err
		}
		return insertAudit(tx, out.noted(a))
	})
}

// verifyEmailByCode marks the address to which a code was mailed as verified: after a change of
// address the code would be gone. If another account has verified it since, that one keeps it.
func verifyEmailByCode(tx *engine.Tx, sub string) error {
	u, err := userBy(tx.DB, "u.sub", sub, tx.Now())
	if err != nil || u.Email == "" || u.EmailVerified {
		return err
	}
	switch err := claimEmail(tx, u.Email, sub); {
	case errors.Is(err, account.ErrEmailTaken):
		return nil
	case err != nil:
		return err
	}
	return tx.Exec("UPDATE users SET email_verified = (1 = 1), email_asked_at = 0 WHERE sub = ?", sub).Error
}

// CreateMailedResetCode implements account.Store.
func (s *Store) CreateMailedResetCode(
	ctx context.Context, sub, email string, hash []byte, expires, now time.Time,
) error {
	if invalidKey(sub) || invalidKey(email) {
		return account.ErrUserNotFound
	}
	return s.write(ctx, "create mailed reset code", func(tx *engine.Tx) error {
		u, err := lockedUser(tx, sub)
		if err != nil {
			return err
		}
		if u.Email != email || !u.EmailVerified && u.PasswordHash != "" || u.Suspended() {
			return account.ErrUserNotFound
		}
		return tx.Exec(`INSERT INTO mailed_reset_codes (sub, hash, created_at, expires_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (sub) DO UPDATE
			SET hash = excluded.hash, created_at = excluded.created_at, expires_at = excluded.expires_at`,
			sub, hash, toUnix(now), toUnix(expires)).Error
	})
}

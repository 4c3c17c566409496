package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// CreateResetCode implements account.Store.
func (s *Store) CreateResetCode(
	ctx context.Context, sub string, hash []byte, expires, now time.Time, a account.Audit,
) error {
	return s.act(ctx, "create reset code", a, func(tx *engine.Tx) {
		lockUser(tx, sub)
		setResetCode(tx, sub, a.Session, hash, expires, now)
		insertAudit(tx, a)
	}, sub)
}

// setOwnCode stores the code of a link of the user's own: they made it themselves.
func setOwnCode(tx *engine.Tx, sub string, code account.ResetCode, now time.Time) {
	setResetCode(tx, sub, "", code.Hash, code.ExpiresAt, now)
	tx.Exec("UPDATE reset_codes SET made_by = sub WHERE sub = ?", sub)
}

// voidMailboxCodes voids the codes of a user that prove a mailbox: the mailed one, and that of a link.
func voidMailboxCodes(tx *engine.Tx, sub string) {
	tx.Exec("DELETE FROM mailed_reset_codes WHERE sub = ?", sub)
	tx.Exec("DELETE FROM reset_codes WHERE sub = ? AND made_by = sub", sub)
}

// setResetCode stores a code that a user made in a session, "" for the operator.
func setResetCode(tx *engine.Tx, sub, session string, hash []byte, expires, now time.Time) {
	tx.Exec(`INSERT INTO reset_codes (sub, made_by, session_id, hash, created_at, expires_at)
		VALUES (?, coalesce((SELECT s.sub FROM sessions s WHERE s.id = ?), ''), ?, ?, ?, ?)
		ON CONFLICT (sub) DO UPDATE SET made_by = excluded.made_by, session_id = excluded.session_id,
		hash = excluded.hash, created_at = excluded.created_at, expires_at = excluded.expires_at`,
		sub, sanitize(session), sanitize(session), hash, toUnix(now), toUnix(expires))
}

// validCode returns the user of a valid code, whose account has not ended by the clock since it was made.
// ErrInvalidResetCode.
func validCode(db *gorm.DB, handle string, hash []byte, now time.Time, clock int64) (sub string, err error) {
	if invalidKey(handle) {
		return "", account.ErrInvalidResetCode
	}
	found := db.Raw(`SELECT u.sub FROM users u
		JOIN (SELECT sub, hash, created_at, expires_at FROM reset_codes
			UNION ALL SELECT sub, hash, created_at, expires_at FROM mailed_reset_codes) r ON r.sub = u.sub
		WHERE `+handleKey+` = @handle AND u.deleted_at = 0 AND r.hash = @hash AND r.expires_at > @now
		AND r.created_at <= @soon
		AND (u.ends_at = 0 OR u.ends_at > @clock OR u.ends_at <= r.created_at)`, map[string]any{
		"handle": account.HandleKey(handle), "hash": hash, "now": toUnix(now), "clock": clock,
		"soon": toUnix(now.Add(time.Minute)), // a code of a clock that was ahead is not good for longer
	}).Find(&sub)
	return sub, expect(found, account.ErrInvalidResetCode)
}

// ResetCodeValid implements account.Store.
func (s *Store) ResetCodeValid(ctx context.Context, handle string, hash []byte, now time.Time) (bool, error) {
	_, err := validCode(s.conn(ctx), handle, hash, now, s.Now())
	if errors.Is(err, account.ErrInvalidResetCode) {
		return false, nil
	}
	return err == nil, fail("check reset code", err)
}

// ResetPassword implements account.Store.
func (s *Store) ResetPassword(
	ctx context.Context, handle string, codeHash []byte, passwordHash string, now time.Time, a account.Audit,
) error {
	return s.resetPassword(ctx, handle, codeHash, passwordHash, now, a, func(*engine.Tx, string) {})
}

// ResetToPasskey implements account.Store.
func (s *Store) ResetToPasskey(
	ctx context.Context, handle string, codeHash []byte, first account.FirstPasskey, now time.Time, a account.Audit,
) error {
	return s.resetPassword(ctx, handle, codeHash, account.NoPassword, now, a, func(tx *engine.Tx, sub string) {
		tx.Expect(tx.Exec("UPDATE users SET second_factor = (1 = 1) WHERE sub = ? AND sub = ?", sub, first.Passkey.Sub),
			account.ErrInvalidResetCode)
		insertPasskey(tx, first.Passkey, a.Session)
		replaceRecoveryCodes(tx, sub, a.Session, first.Codes, first.Passkey.CreatedAt)
	})
}

// resetPassword is ResetPassword, which also does what follows.
func (s *Store) resetPassword(
	ctx context.Context, handle string, codeHash []byte, passwordHash string, now time.Time, a account.Audit,
	also func(tx *engine.Tx, sub string),
) error {
	return s.write(ctx, "reset password", func(tx *engine.Tx) {
		// Checking first keeps guesses from locking the user's row.
		sub, err := validCode(tx.DB, handle, codeHash, now, tx.Now())
		tx.Refuse(err)
		tx.Expect(tx.Exec(`UPDATE users SET password_hash = ?, password_disowned_at = 0, updated_at = ?
			WHERE sub = ? AND deleted_at = 0`, passwordHash, toUnix(now), sub), account.ErrInvalidResetCode)
		spend := func(table string) int64 {
			return tx.Exec("DELETE FROM "+table+" WHERE sub = ? AND hash = ? AND expires_at > ?",
				sub, codeHash, toUnix(now))
		}
		var own []string // of a link, which proves the mailbox, and has no session
		tx.Find(&own, "SELECT session_id FROM reset_codes WHERE sub = ? AND hash = ? AND made_by = sub", sub, codeHash)
		mailed := spend("reset_codes") == 0
		a := a
		if mailed {
			tx.Expect(spend("mailed_reset_codes"), account.ErrInvalidResetCode)
			verifyEmailByCode(tx, sub)
			a.Ends.Unverify = false // the code proves the mailbox
		}
		a.Ends.Unverify = a.Ends.Unverify && !slices.Contains(own, "") // the link has done it
		out := end(tx, sub, "", a, now)
		also(tx, sub)
		// After end, which may forget known addresses: whoever has the code is the owner.
		clearFailures(tx, sub)
		if !mailed && len(own) == 0 || tx.Exec(`UPDATE users SET factor_mailed_at = ?
			WHERE sub = ? AND (factor_mailed_at <= ? OR factor_mailed_at > ?)`,
			toUnix(now), sub, toUnix(now.Add(-account.RemedyRest)), toUnix(now.Add(time.Minute))) > 0 {
			clearFactorFailures(tx, sub)
		}
		tx.Exec("UPDATE users SET reset_address = ?, reset_at = ? WHERE sub = ?",
			sanitize(a.Address), toUnix(now), sub)
		insertAudit(tx, out.noted(a))
	})
}

// verifyEmailByCode marks the address to which a code was mailed as verified: after a change of
// address the code would be gone. If another account has verified it since, that one keeps it.
func verifyEmailByCode(tx *engine.Tx, sub string) {
	u, err := userBy(tx.DB, "u.sub", sub, tx.Now())
	tx.Refuse(err)
	if !u.EmailVerified && !emailTaken(tx, u.Email, sub) {
		tx.Exec("UPDATE users SET email_verified = (1 = 1), email_asked_at = 0 WHERE sub = ?", sub)
	}
}

// CreateMailedResetCode implements account.Store. The row of the mail is locked: whoever voids what was given deletes
// it before the codes, and has come before or waits.
func (s *Store) CreateMailedResetCode(
	ctx context.Context, mail int64, sub, email string, hash []byte, expires, now time.Time,
) error {
	return s.write(ctx, "create mailed reset code", func(tx *engine.Tx) {
		u := lockedUser(tx, sub)
		if u.Email != email || !u.EmailVerified && u.PasswordHash != "" || u.Suspended() {
			tx.Refuse(account.ErrUserNotFound)
		}
		by := struct {
			MadeBy, SessionID string
			CreatedAt         int64
		}{CreatedAt: toUnix(now)}
		if mail != 0 {
			tx.Expect(tx.Find(&by, `UPDATE mail_outbox SET attempts = attempts WHERE id = ?
				RETURNING made_by, session_id, created_at`, mail), account.ErrUserNotFound)
		}
		tx.Exec(`INSERT INTO mailed_reset_codes (sub, made_by, session_id, hash, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (sub) DO UPDATE
			SET made_by = excluded.made_by, session_id = excluded.session_id, hash = excluded.hash,
			created_at = excluded.created_at, expires_at = excluded.expires_at`,
			sub, by.MadeBy, by.SessionID, hash, by.CreatedAt, toUnix(expires))
	})
}

package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// Factors implements account.Store.
func (s *Store) Factors(ctx context.Context, sub string) (account.Factors, error) {
	var f account.Factors
	if invalidKey(sub) {
		return f, nil
	}
	var counts struct{ Passkeys, Codes int }
	err := s.conn(ctx).Raw(`SELECT (SELECT count(*) FROM passkeys WHERE sub = ?) AS passkeys,
		(SELECT count(*) FROM recovery_codes WHERE sub = ? AND used_at = 0) AS codes`, sub, sub).Find(&counts).Error
	if err != nil {
		return f, fail("find factors", err)
	}
	f.Passkeys, f.RecoveryCodes = counts.Passkeys, counts.Codes
	var rows []totpRow
	if err := s.conn(ctx).Raw("SELECT "+totpColumns+" FROM totp WHERE sub = ?", sub).Find(&rows).Error; err != nil {
		return f, fail("find authenticator app", err)
	}
	for _, r := range rows {
		secret, err := s.open(totpSecret, sub, r.Secret)
		if err != nil {
			return f, fail("find authenticator app", err)
		}
		f.TOTP = &account.TOTP{Secret: secret, LastStep: r.LastStep, CreatedAt: fromUnix(r.CreatedAt), LastUsedAt: fromUnix(r.LastUsedAt)}
	}
	return f, nil
}

type totpRow struct {
	Sub        string
	Secret     string
	LastStep   int64
	CreatedAt  int64 `gorm:"autoCreateTime:false"`
	LastUsedAt int64
}

var totpColumns = columnsOf[totpRow]("totp")

// lockInSession is lockUser for what somebody does in a session, unless that is empty:
// who ends the sessions of a user locks the row too, and came before or waits.
// ErrNotAuthenticated when the session is no longer live.
func lockInSession(tx *gorm.DB, sub, session string, now time.Time) error {
	if err := lockUser(tx, sub); err != nil || session == "" {
		return err
	}
	var live []int
	err := tx.Raw("SELECT 1 FROM sessions WHERE id = ? AND sub = ? AND ended_at = 0 AND expires_at > ?", sanitize(session), sub, toUnix(now)).Find(&live).Error
	if err == nil && len(live) == 0 {
		return account.ErrNotAuthenticated
	}
	return err
}

// factorAdded marks the user, whose row is locked, after a row of a second factor was
// added. With the first one it stores the hashes of recovery codes, and says so.
func factorAdded(tx *gorm.DB, sub string, codes [][]byte, now time.Time) (stored bool, err error) {
	mark := tx.Exec("UPDATE users SET second_factor = true, updated_at = ? WHERE sub = ? AND NOT second_factor", toUnix(now), sub)
	if mark.Error != nil || mark.RowsAffected == 0 {
		return false, mark.Error
	}
	return true, replaceRecoveryCodes(tx, sub, codes, now)
}

// factorRemoved undoes the mark, and the recovery codes go, when the last row of a
// second factor was removed. The row of the user is locked.
func factorRemoved(tx *gorm.DB, sub string, now time.Time) error {
	last := tx.Exec(`UPDATE users SET second_factor = false, updated_at = ? WHERE sub = ? AND second_factor
		AND NOT EXISTS (SELECT 1 FROM totp WHERE sub = users.sub) AND NOT EXISTS (SELECT 1 FROM passkeys WHERE sub = users.sub)`, toUnix(now), sub)
	if last.Error != nil || last.RowsAffected == 0 {
		return last.Error
	}
	return execEach(tx, sub, "DELETE FROM recovery_codes WHERE sub = ?")
}

func replaceRecoveryCodes(tx *gorm.DB, sub string, codes [][]byte, now time.Time) error {
	if err := execEach(tx, sub, "DELETE FROM recovery_codes WHERE sub = ?"); err != nil {
		return err
	}
	for _, hash := range codes {
		if err := tx.Exec("INSERT INTO recovery_codes (sub, hash, created_at) VALUES (?, ?, ?)", sub, hash, toUnix(now)).Error; err != nil {
			return err
		}
	}
	return nil
}

// AddTOTP implements account.Store.
func (s *Store) AddTOTP(ctx context.Context, sub, session string, t account.TOTP, codes [][]byte, now time.Time, a account.Audit) (stored bool, err error) {
	err = s.write(ctx, "add authenticator app", func(tx *gorm.DB) (err error) {
		if err := lockInSession(tx, sub, session, now); err != nil {
			return err
		}
		k, err := s.sealer(tx)
		if err != nil {
			return err
		}
		add := tx.Exec("INSERT INTO totp (sub, secret, last_step, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (sub) DO NOTHING", sub, k.seal(totpSecret, sub, t.Secret), t.LastStep, toUnix(now))
		if err := expect(add, account.ErrFactorExists); err != nil {
			return err
		}
		if stored, err = factorAdded(tx, sub, codes, now); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
	return stored && err == nil, err
}

// UseTOTP implements account.Store.
func (s *Store) UseTOTP(ctx context.Context, sub string, step int64, now time.Time) (later bool, err error) {
	if invalidKey(sub) {
		return false, nil
	}
	err = s.writeOne(ctx, "accept time step", func(db *gorm.DB) error {
		use := db.Exec("UPDATE totp SET last_step = ?, last_used_at = ? WHERE sub = ? AND last_step < ?", step, toUnix(now), sub, step)
		later = use.RowsAffected == 1
		return use.Error
	})
	return later && err == nil, err
}

// RemoveTOTP implements account.Store.
func (s *Store) RemoveTOTP(ctx context.Context, sub string, now time.Time, a account.Audit) error {
	return s.write(ctx, "remove authenticator app", func(tx *gorm.DB) error {
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		if err := expect(tx.Exec("DELETE FROM totp WHERE sub = ?", sub), account.ErrFactorNotFound); err != nil {
			return err
		}
		if err := factorRemoved(tx, sub, now); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// ReplaceRecoveryCodes implements account.Store.
func (s *Store) ReplaceRecoveryCodes(ctx context.Context, sub, session string, codes [][]byte, now time.Time, a account.Audit) error {
	return s.write(ctx, "replace recovery codes", func(tx *gorm.DB) error {
		if err := lockInSession(tx, sub, session, now); err != nil {
			return err
		}
		u, err := userBy(tx, "sub", sub)
		if err != nil {
			return err
		}
		if !u.SecondFactor {
			return account.ErrFactorNotFound
		}
		if err := replaceRecoveryCodes(tx, sub, codes, now); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// UseRecoveryCode implements account.Store.
func (s *Store) UseRecoveryCode(ctx context.Context, sub string, hash []byte, now time.Time, a account.Audit) (bool, error) {
	if invalidKey(sub) {
		return false, nil
	}
	err := s.write(ctx, "use recovery code", func(tx *gorm.DB) error {
		use := tx.Exec("UPDATE recovery_codes SET used_at = ? WHERE sub = ? AND hash = ? AND used_at = 0", toUnix(now), sub, hash)
		if err := expect(use, account.ErrFactorNotFound); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
	if errors.Is(err, account.ErrFactorNotFound) {
		return false, nil
	}
	return err == nil, err
}

// ResetFactors implements account.Store.
func (s *Store) ResetFactors(ctx context.Context, sub string, now time.Time, a account.Audit) error {
	return s.write(ctx, "reset factors", func(tx *gorm.DB) error {
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		if err := execEach(tx, sub, "DELETE FROM totp WHERE sub = ?", "DELETE FROM passkeys WHERE sub = ?", "DELETE FROM recovery_codes WHERE sub = ?",
			"UPDATE users SET second_factor = false WHERE sub = ?"); err != nil {
			return err
		}
		if err := revokeAccess(tx, sub, "", now); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// ConfirmSession implements account.Store.
func (s *Store) ConfirmSession(ctx context.Context, sub, id string, now time.Time) error {
	if invalidKey(sub) || invalidKey(id) {
		return account.ErrSessionNotFound
	}
	return s.writeOne(ctx, "confirm session", func(db *gorm.DB) error {
		return expect(db.Exec("UPDATE sessions SET confirmed_at = ? WHERE id = ? AND sub = ? AND ended_at = 0 AND expires_at > ?", toUnix(now), id, sub, toUnix(now)), account.ErrSessionNotFound)
	})
}

// SpendOnce implements account.Store.
func (s *Store) SpendOnce(ctx context.Context, hash []byte, expires time.Time) (first bool, err error) {
	err = s.writeOne(ctx, "spend once", func(db *gorm.DB) error {
		// A slice right after a parenthesis would become a list.
		spend := db.Exec("INSERT INTO spent (expires_at, hash) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", toUnix(expires), hash)
		first = spend.RowsAffected == 1
		return spend.Error
	})
	return first && err == nil, err
}

package store

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// UpgradeHash implements account.Store.
func (s *Store) UpgradeHash(ctx context.Context, sub, old, hash string) error {
	return s.writeOne(ctx, "upgrade password hash", func(db *gorm.DB) error {
		return db.Exec(`UPDATE users SET password_hash = ?
			WHERE sub = ? AND password_hash = ? AND deleted_at = 0`, hash, sub, old).Error
	})
}

// ForeignHash implements account.Store.
func (s *Store) ForeignHash(ctx context.Context, after string) (string, error) {
	column := "password_hash"
	if s.Dialect() == Postgres {
		column += ` COLLATE "C"`
	}
	var row userRow // empty if there is none
	err := s.conn(ctx).Raw("SELECT password_hash FROM users "+
		"WHERE substr(password_hash, 1, 31) <> '$argon2id$v=19$m=19456,t=2,p=1$' AND password_hash <> '' "+
		"AND "+column+" > ? ORDER BY "+column+" LIMIT 1", after).Find(&row).Error
	return row.PasswordHash, fail("hash of another form", err)
}

// ChangePassword implements account.Store.
func (s *Store) ChangePassword(
	ctx context.Context, sub, old, hash string, keep *account.Session, now time.Time, a account.Audit,
) error {
	if invalidKey(old) {
		return account.ErrInvalidCredentials
	}
	if keep != nil {
		a.Session, a.Renew = keep.ID, keep
	}
	return s.act(ctx, "change password", a, func(tx *engine.Tx) {
		tx.Expect(tx.Exec(`UPDATE users SET password_hash = ?, password_disowned_at = 0, reset_at = 0, updated_at = ?
			WHERE sub = ? AND password_hash = ? AND deleted_at = 0`, hash, toUnix(now), sub, old),
			account.ErrInvalidCredentials)
		if a.NoSecondStep {
			dropSecondStep(tx, sub, a.Session, now)
		}
		insertAudit(tx, s.endRenewing(tx, sub, a, now).noted(a))
	})
}

// endRenewing ends what the act ends, and replaces the token of the session that it renews.
func (s *Store) endRenewing(tx *engine.Tx, sub string, a account.Audit, now time.Time) ended {
	if a.Renew == nil {
		return end(tx, sub, "", a, now)
	}
	// An authorization code that is being created in that session holds its row. Wait for it,
	// so that its grant is revoked with the others.
	former := s.lockToken(tx, a.Renew, now)
	out := end(tx, sub, "", a, now, former)
	replaceToken(tx, a.Renew)
	return out
}

// RemovePassword implements account.Store.
func (s *Store) RemovePassword(
	ctx context.Context, sub, old string, rpIDs []string, n account.NewFactor,
) error {
	return s.act(ctx, "remove password", n.Audit, func(tx *engine.Tx) {
		u := lockedUser(tx, sub)
		if u.PasswordHash != old {
			tx.Refuse(account.ErrInvalidCredentials)
		}
		keepWayIn(tx, sub, rpIDs)
		provenFactor(tx, sub, n.Audit.Session)
		var codes []int
		switch tx.Find(&codes, "SELECT 1 FROM recovery_codes WHERE sub = ? AND used_at = 0 LIMIT 1", sub); {
		case len(codes)+len(n.Codes) == 0:
			tx.Refuse(account.ErrLastWayIn)
		case !u.SecondFactor:
			askSecondStep(tx, sub, n)
		case len(n.Codes) > 0:
			replaceRecoveryCodes(tx, sub, n.Audit.Session, n.Codes, n.Now)
		}
		tx.Exec("UPDATE users SET password_hash = ?, password_disowned_at = 0, updated_at = ? WHERE sub = ?",
			account.NoPassword, toUnix(n.Now), sub)
		insertAudit(tx, s.endRenewing(tx, sub, n.Audit, n.Now).noted(n.Audit))
	})
}

// keepWayIn returns account.ErrLastWayIn if the user has no passkey of one of the relying party ids.
func keepWayIn(tx *engine.Tx, sub string, rpIDs []string) {
	var found []int
	tx.Expect(tx.Find(&found, "SELECT 1 FROM passkeys WHERE sub = ? AND rp_id IN ? LIMIT 1", sub,
		slices.Concat(rpIDs, []string{""})), account.ErrLastWayIn)
}

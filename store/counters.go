package store

import (
	"context"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// countUser counts a user who is being added, and is account.ErrRegistrationFull when
// there are limit already (0: no limit). The row of the counter is locked after
// invites and before the lists of takeIndex: one registration comes after the other.
func countUser(tx *gorm.DB, limit int) error {
	return expect(tx.Exec("UPDATE counters SET value = value + 1 WHERE name = 'users' AND (CAST(? AS BIGINT) <= 0 OR value < ?)", limit, limit), account.ErrRegistrationFull)
}

// discountUser is countUser for one who is being deleted.
func discountUser(tx *gorm.DB) error {
	return tx.Exec("UPDATE counters SET value = value - 1 WHERE name = 'users'").Error
}

// recountUsers mends the counter after an earlier version has added or deleted users.
func (s *Store) recountUsers(ctx context.Context) error {
	for {
		// Both in one statement, so that they are of one moment; and what others
		// count meanwhile is not lost.
		var is struct{ Counted, There int64 }
		err := s.conn(ctx).Raw("SELECT value AS counted, (SELECT count(*) FROM users WHERE deleted_at = 0) AS there FROM counters WHERE name = 'users'").Find(&is).Error
		if err != nil || is.Counted == is.There {
			return fail("count users", err)
		}
		var mended int64
		err = s.writeOne(ctx, "count users", func(db *gorm.DB) error {
			res := db.Exec("UPDATE counters SET value = ? WHERE name = 'users' AND value = ?", is.There, is.Counted)
			mended = res.RowsAffected
			return res.Error
		})
		if err != nil || mended == 1 {
			return err
		}
	}
}

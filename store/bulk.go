package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
)

const (
	// bulkTimeout is how long a transaction of AddUsers may take: a million users.
	bulkTimeout = 10 * time.Minute
	// bulkRows is how many rows one statement adds or looks for. A user has 17 columns, and a
	// statement of SQLite at most 32,766 values.
	bulkRows = 500
)

// AddUsers implements account.Store. The counter of users comes last: who registers
// meanwhile does not wait for it until then.
func (s *Store) AddUsers(ctx context.Context, b account.Bulk, a account.Audit) error {
	var refused error // of the change of settings
	err := s.writeAlone(ctx, "add users", bulkTimeout, func(tx *gorm.DB) error {
		refused = nil
		if b.Settings != nil {
			row := a
			row.Action, row.Target = "settings.update", "settings"
			_, err := amendSettings(tx, func(v *account.Settings) (changed string, err error) {
				changed, refused = b.Settings(v)
				return changed, refused
			}, row)
			if err != nil {
				return err
			}
		}
		for users := range slices.Chunk(b.Users, bulkRows) {
			if err := addUsers(tx, users, a); err != nil {
				return err
			}
		}
		for _, c := range b.Codes {
			if err := setResetCode(tx, c.Sub, c.Hash, c.ExpiresAt, a.At); err != nil {
				return err
			}
		}
		var preferences []preferenceRow
		for sub, of := range b.Preferences {
			for name, value := range of {
				preferences = append(preferences, preferenceRow{sub, name, value})
			}
		}
		if len(preferences) > 0 {
			if err := tx.Table("preferences").CreateInBatches(&preferences, bulkRows).Error; err != nil {
				return err
			}
		}
		for _, i := range b.Invites {
			if err := s.insertInvite(tx, i, " ON CONFLICT (code) DO NOTHING"); err != nil {
				return err
			}
		}
		if err := insertAudit(tx, a); err != nil {
			return err
		}
		counted := tx.Exec("UPDATE counters SET value = value + ? WHERE name = 'users' AND (CAST(? AS BIGINT) <= 0 OR value + ? <= ?)",
			len(b.Users), b.MaxUsers, len(b.Users), b.MaxUsers)
		return expect(counted, account.ErrRegistrationFull)
	})
	return cmp.Or(refused, err)
}

// addUsers adds some of them, with the words by which they are found, and an audit row each.
func addUsers(tx *gorm.DB, users []account.User, a account.Audit) error {
	type auditRow struct {
		At                                                int64
		Actor, Action, Target, Detail, Address, RequestID string
	}
	var rows []userRow
	var flags []flagRow
	var words []userWord
	var audit []auditRow
	for _, u := range users {
		rows = append(rows, newUserRow(u))
		for _, f := range u.Flags {
			flags = append(flags, flagRow{u.Sub, f})
		}
		for _, w := range wordsOf(u) {
			words = append(words, userWord{w, u.Handle})
		}
		audit = append(audit, auditRow{toUnix(a.At), sanitize(a.Actor), "user.create", u.Handle, "imported", sanitize(a.Address), sanitize(a.RequestID)})
	}
	added := tx.Table("users").Clauses(clause.OnConflict{DoNothing: true}).Create(&rows)
	if added.Error != nil {
		return added.Error
	}
	if added.RowsAffected != int64(len(rows)) {
		return account.ErrHandleTaken
	}
	if len(flags) > 0 {
		if err := tx.Table("user_flags").CreateInBatches(&flags, bulkRows).Error; err != nil {
			return err
		}
	}
	if err := addWords(tx, words); err != nil {
		return err
	}
	return tx.Table("audit").Create(&audit).Error
}

// TakenUsers implements account.Store.
func (s *Store) TakenUsers(ctx context.Context, handles, subs []string) (takenHandles, takenSubs []string, err error) {
	look := func(column string, keys []string) (taken []string, err error) {
		keys = slices.DeleteFunc(slices.Clone(keys), invalidKey)
		for some := range slices.Chunk(keys, bulkRows) {
			var found []string
			if err := s.conn(ctx).Raw("SELECT "+column+" FROM users WHERE "+column+" IN ?", some).Find(&found).Error; err != nil {
				return nil, err
			}
			taken = append(taken, found...)
		}
		return taken, nil
	}
	takenHandles, err = look("handle", handles)
	if err == nil {
		takenSubs, err = look("sub", subs)
	}
	return takenHandles, takenSubs, fail("look for users", err)
}

package store

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

const (
	// bulkTimeout bounds a transaction of AddUsers: a million users.
	bulkTimeout = 10 * time.Minute
	// bulkRows is how many rows one statement adds or looks up. A user has 28 columns, and a
	// statement of SQLite at most 32,766 values.
	bulkRows = 500
)

// AddUsers implements account.Store. The counter of users and the verified addresses come last, so
// that registrations and verifications meanwhile do not wait longer than needed.
func (s *Store) AddUsers(ctx context.Context, b account.Bulk, a account.Audit) error {
	return s.writeAlone(ctx, "add users", bulkTimeout, func(tx *engine.Tx) {
		checkActor(tx, a)
		for users := range slices.Chunk(b.Users, bulkRows) {
			addUsers(tx, users, b.DefaultFlags, a)
		}
		for _, c := range b.Codes {
			setResetCode(tx, c.Sub, a.Session, c.Hash, c.ExpiresAt, a.At)
		}
		insertAudit(tx, a)
		tx.Expect(tx.Exec(`UPDATE counters SET value = value + ?
			WHERE name = 'users' AND (CAST(? AS BIGINT) <= 0 OR value + ? <= ?)`,
			len(b.Users), b.MaxUsers, len(b.Users), b.MaxUsers), account.ErrRegistrationFull)
		claimEmails(tx, b.Users)
	})
}

// addUsers adds one batch of users with an audit row each.
func addUsers(tx *engine.Tx, users []account.User, usual []string, a account.Audit) {
	var rows []userRow
	var flags []flagRow
	var audit []account.Audit
	for _, u := range users {
		rows = append(rows, newUserRow(u))
		flags = append(flags, flagRows(u)...)
		one := a
		one.Action, one.Target, one.Mails = account.AddUser.Action, u.Handle, nil
		one.Detail = "imported" + account.Unusual(u.Flags, usual)
		audit = append(audit, one)
	}
	added := tx.Ran(tx.Table("users").Clauses(clause.OnConflict{DoNothing: true}).Create(&rows))
	if added != int64(len(rows)) {
		tx.Refuse(account.ErrHandleTaken)
	}
	addFlags(tx, flags)
	insertAudits(tx, audit)
}

// claimEmails is claimEmail for users who have just been added.
func claimEmails(tx *engine.Tx, users []account.User) {
	var subs []string
	for _, u := range users {
		if u.EmailVerified {
			subs = append(subs, u.Sub)
		}
	}
	if len(subs) == 0 {
		return
	}
	lockEmails(tx)
	for some := range slices.Chunk(subs, bulkRows) {
		var others []string
		taken := tx.Find(&others, `SELECT o.sub FROM users u
			JOIN users o ON lower(o.email) = lower(u.email) AND o.sub <> u.sub
			WHERE u.sub IN ? AND o.email_verified AND o.deleted_at = 0 LIMIT 1`, some)
		if taken > 0 {
			tx.Refuse(account.ErrEmailTaken)
		}
	}
}

// TakenUsers implements account.Store.
func (s *Store) TakenUsers(ctx context.Context, handles, subs, emails []string) (taken []string, err error) {
	for _, of := range []struct {
		shown, column, condition string
		keys                     []string
	}{
		{"u.handle", handleKey, "", each(handles, account.HandleKey)}, {"u.sub", "u.sub", "", subs},
		{"lower(u.email)", "lower(u.email)", " AND u.email_verified AND u.deleted_at = 0", emails},
	} {
		keys := slices.DeleteFunc(slices.Clone(of.keys), invalidKey)
		for some := range slices.Chunk(keys, bulkRows) {
			var found []string
			query := "SELECT " + of.shown + " FROM users u WHERE " + of.column + " IN ?" + of.condition
			if err := s.conn(ctx).Raw(query, some).Find(&found).Error; err != nil {
				return nil, fail("look for users", err)
			}
			taken = append(taken, found...)
		}
	}
	return taken, nil
}

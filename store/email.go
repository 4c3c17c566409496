package store

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// UserByEmail implements account.Store.
func (s *Store) UserByEmail(ctx context.Context, email string) (account.User, error) {
	if invalidKey(email) {
		return account.User{}, account.ErrUserNotFound
	}
	var rows []storedUser // two, if an earlier version has verified the address for two users
	err := s.conn(ctx).Raw("SELECT "+userColumns+` FROM users u
		WHERE lower(u.email) = lower(?) AND u.email_verified AND u.deleted_at = 0 LIMIT 2`, email).Find(&rows).Error
	if err == nil && len(rows) != 1 {
		err = account.ErrUserNotFound
	}
	if err != nil {
		return account.User{}, fail("user by email", err)
	}
	return rows[0].userAt(s.Now()), nil
}

// lockEmails makes every other operation that verifies an address wait for the end of the
// transaction. It comes after the rows of users and counters.
func lockEmails(tx *engine.Tx) {
	tx.Exec("UPDATE locks SET taken = taken + 1 WHERE name = 'verified-emails'")
}

// emailTaken reports whether another account has verified the address.
func emailTaken(tx *engine.Tx, email, sub string) bool {
	lockEmails(tx)
	var others []string
	return tx.Find(&others, `SELECT sub FROM users
		WHERE lower(email) = lower(?) AND email_verified AND deleted_at = 0 AND sub <> ? LIMIT 1`, email, sub) > 0
}

// claimEmail refuses with account.ErrEmailTaken if another account has verified the address.
func claimEmail(tx *engine.Tx, email, sub string) {
	if emailTaken(tx, email, sub) {
		tx.Refuse(account.ErrEmailTaken)
	}
}

// AskVerification implements account.Store.
func (s *Store) AskVerification(ctx context.Context, sub, email string, asked time.Time, a account.Audit) error {
	if invalidKey(sub) || invalidKey(email) {
		return account.ErrInvalidLink
	}
	return s.act(ctx, "ask for verification", a, func(tx *engine.Tx) {
		tx.Expect(tx.Exec(`UPDATE users SET email_asked_at = ?
			WHERE sub = ? AND email = ? AND NOT email_verified AND deleted_at = 0`, toUnix(asked), sub, email),
			account.ErrInvalidLink)
		insertAudit(tx, a)
	})
}

// VerifyEmail implements account.Store.
func (s *Store) VerifyEmail(ctx context.Context, sub, email string, asked, now time.Time, a account.Audit) error {
	if invalidKey(sub) || invalidKey(email) || asked.IsZero() {
		return account.ErrInvalidLink
	}
	return s.write(ctx, "verify email", func(tx *engine.Tx) {
		lockUserOr(tx, sub, account.ErrInvalidLink)
		claimEmail(tx, email, sub)
		tx.Expect(tx.Exec(`UPDATE users SET email_verified = (1 = 1), email_asked_at = 0, updated_at = ?
			WHERE sub = ? AND email = ? AND email_asked_at = ? AND email_asked_at > ? AND deleted_at = 0`,
			toUnix(now), sub, email, toUnix(asked), toUnix(now.Add(-account.VerificationLifetime))),
			account.ErrInvalidLink)
		// Who reads the mails of a former address could undo the change from it, and with that the
		// later ones: the addresses in between must not take it away again.
		tx.Exec(`UPDATE email_changes SET undone_at = ? WHERE sub = ? AND undone_at = 0 AND seq >
			(SELECT min(seq) FROM email_changes
				WHERE sub = ? AND lower(email) = lower(?) AND undone_at = 0 AND expires_at > ?)`,
			toUnix(now), sub, sub, email, toUnix(now))
		insertAudit(tx, a)
	})
}

type emailChangeRow struct {
	ID        string
	Sub       string
	Email     string
	Verified  bool
	ChangedAt int64
	ExpiresAt int64
	UndoneAt  int64
	Seq       int64 // counts the changes of a user
	SessionID string
}

func (r emailChangeRow) change() account.EmailChange {
	return account.EmailChange{
		ID: r.ID, Sub: r.Sub, Email: r.Email, ChangedAt: fromUnix(r.ChangedAt), ExpiresAt: fromUnix(r.ExpiresAt),
	}
}

// keepEmail stores the former address for an undo, as account.Audit asks, in the transaction of its
// change.
func keepEmail(tx *engine.Tx, before account.User, a account.Audit, now time.Time) {
	if a.KeepEmail == "" {
		tx.Exec("DELETE FROM email_changes WHERE sub = ?", before.Sub)
		return
	}
	if !before.EmailVerified {
		return
	}
	var last int64
	tx.Find(&last, "SELECT coalesce(max(seq), 0) FROM email_changes WHERE sub = ?", before.Sub)
	tx.Ran(tx.Table("email_changes").Create(&emailChangeRow{
		ID: a.KeepEmail, Sub: before.Sub, Email: before.Email, Verified: true, Seq: last + 1, SessionID: a.Session,
		ChangedAt: toUnix(now), ExpiresAt: toUnix(now.Add(account.UndoLifetime)),
	}))
}

var selectEmailChange = "SELECT " + columnsOf[emailChangeRow]("email_changes") + ` FROM email_changes
	WHERE undone_at = 0 AND expires_at > ?`

// EmailChange implements account.Store.
func (s *Store) EmailChange(ctx context.Context, id string, now time.Time) (account.EmailChange, error) {
	if invalidKey(id) {
		return account.EmailChange{}, account.ErrInvalidLink
	}
	var row emailChangeRow
	found := s.conn(ctx).Raw(selectEmailChange+" AND id = ?", toUnix(now), id).Find(&row)
	if err := expect(found, account.ErrInvalidLink); err != nil {
		return account.EmailChange{}, fail("find change of email", err)
	}
	return row.change(), nil
}

// FormerEmails implements account.Store.
func (s *Store) FormerEmails(ctx context.Context, sub string, now time.Time) ([]account.EmailChange, error) {
	if invalidKey(sub) {
		return nil, nil
	}
	var rows []emailChangeRow
	err := s.conn(ctx).Raw(selectEmailChange+" AND sub = ? ORDER BY seq, changed_at", toUnix(now),
		sub).Find(&rows).Error
	return each(rows, emailChangeRow.change), fail("list changes of email", err)
}

// UndoEmailChange implements account.Store.
func (s *Store) UndoEmailChange(
	ctx context.Context, id string, code account.ResetCode, now time.Time, a account.Audit,
) (out account.Disowned, err error) {
	if invalidKey(id) {
		return out, account.ErrInvalidLink
	}
	err = s.write(ctx, "undo change of email", func(tx *engine.Tx) {
		var row emailChangeRow
		tx.Expect(tx.Find(&row, selectEmailChange+" AND id = ?", toUnix(now), id), account.ErrInvalidLink)
		u := lockedUser(tx, row.Sub)
		tx.Expect(tx.Exec("UPDATE email_changes SET undone_at = ? WHERE id = ? AND undone_at = 0", toUnix(now), id),
			account.ErrInvalidLink)
		// Later addresses are not the owner's: none of them may undo this.
		tx.Exec(`UPDATE email_changes SET undone_at = ?
			WHERE sub = ? AND (seq > ? OR seq = ? AND changed_at > ?) AND undone_at = 0`,
			toUnix(now), row.Sub, row.Seq, row.Seq, row.ChangedAt)
		if emailTaken(tx, row.Email, row.Sub) {
			row.Verified = false
		}
		tx.Exec(`UPDATE users SET email = ?, email_verified = ?, email_asked_at = 0, search = ?,
			email_changed_at = 0, email_session_id = '', updated_at = ? WHERE sub = ?`,
			row.Email, row.Verified, unindexed, toUnix(now), row.Sub)
		removeWords(tx, u.Handle)
		a := a
		a.Actor, a.Target, a.Since = u.Handle, u.Handle, fromUnix(row.ChangedAt)
		out = account.Disowned{Since: a.Since, Removed: disown(tx, u, row.SessionID, code, now, a)}
	})
	return out, err
}

// QueueMail implements account.Store.
func (s *Store) QueueMail(ctx context.Context, m account.Mail, now time.Time) error {
	return s.write(ctx, "queue mail", func(tx *engine.Tx) { insertMails(tx, []account.Mail{m}, now) })
}

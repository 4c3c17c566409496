package store

import (
	"context"
	"encoding/json"
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
	if email == "" {
		return account.ErrInvalidLink
	}
	return s.act(ctx, "ask for verification", a, func(tx *engine.Tx) {
		tx.Expect(tx.Exec(`UPDATE users SET email_asked_at = ?
			WHERE sub = ? AND (email = ? AND NOT email_verified OR email_pending = ? AND email_verified)
			AND deleted_at = 0`, toUnix(asked), sub, email, email),
			account.ErrInvalidLink)
		insertAudit(tx, a)
	})
}

// What an UPDATE of users sets when the address that waits takes the place of the verified one, and when none waits
// any more.
const (
	replacesEmail = `, email = email_pending, search = @none, email_changed_at = @now,
		email_session_id = email_pending_session_id`
	noneWaits = `, email_pending = '', email_pending_at = 0, email_pending_session_id = '', email_pending_keep = ''`
)

// dropPending drops the addresses that wait of the users for whom a condition holds. The condition may use args.
func dropPending(tx *engine.Tx, condition string, args map[string]any) int64 {
	return tx.Exec("UPDATE users SET email_asked_at = 0"+noneWaits+
		" WHERE email_pending <> '' AND deleted_at = 0 AND "+condition, args)
}

// keepText returns what is stored of account.PendingEmail.Keep: JSON, or "" if it keeps nothing.
func keepText(k account.Keep) string {
	if !k.Sessions && len(k.Apps) == 0 {
		return ""
	}
	text, _ := json.Marshal(k)
	return string(text)
}

// keepOf reads what keepText has written. Anything else keeps nothing.
func keepOf(text string) (k account.Keep) {
	_ = json.Unmarshal([]byte(text), &k)
	return k
}

// CancelEmail implements account.Store.
func (s *Store) CancelEmail(ctx context.Context, sub string, a account.Audit) error {
	return s.act(ctx, "cancel change of email", a, func(tx *engine.Tx) {
		tx.Expect(dropPending(tx, "sub = @sub", map[string]any{"sub": sanitize(sub)}), account.ErrNoEmailToVerify)
		insertAudit(tx, a)
	}, sub)
}

// VerifyEmail implements account.Store.
func (s *Store) VerifyEmail(ctx context.Context, sub, email string, asked, now time.Time, a account.Audit) error {
	return s.write(ctx, "verify email", func(tx *engine.Tx) {
		lockUserOr(tx, sub, account.ErrInvalidLink)
		claimEmail(tx, email, sub)
		a, set, where := a, "", "email = @email AND NOT email_verified"
		if a.KeepEmail != "" {
			set, where = replacesEmail+noneWaits, "email_pending = @email AND email_verified"
		}
		before, err := userBy(tx.DB, "u.sub", sub, tx.Now())
		tx.Refuse(err)
		tx.Expect(tx.Exec("UPDATE users SET email_verified = (1 = 1), email_asked_at = 0, updated_at = @now"+set+
			" WHERE sub = @sub AND "+where+" AND email_asked_at = @asked AND email_asked_at > @after",
			map[string]any{"sub": sub, "email": email, "now": toUnix(now), "none": unindexed, "asked": toUnix(asked),
				"after": toUnix(now.Add(-account.VerificationLifetime))}), account.ErrInvalidLink)
		if a.KeepEmail != "" {
			a.Session = before.Pending.Session
			a = a.Keeping(before.Pending.Keep)
			keepEmail(tx, before, a, before.Pending.At, now)
			tx.Exec("DELETE FROM mailed_reset_codes WHERE sub = ?", sub)
			a = end(tx, sub, "", a, now).noted(a)
			removeWords(tx, before.Handle)
		}
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
		ID: r.ID, Sub: r.Sub, Email: r.Email, ExpiresAt: fromUnix(r.ExpiresAt),
	}
}

// keepEmail stores the former address for an undo, as account.Audit asks, in the transaction of its
// change, which was asked for at a time.
func keepEmail(tx *engine.Tx, before account.User, a account.Audit, asked, now time.Time) {
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
		ChangedAt: toUnix(asked), ExpiresAt: toUnix(now.Add(account.UndoLifetime)),
	}))
}

var selectEmailChange = "SELECT " + engine.ColumnsOf[emailChangeRow]("email_changes") + ` FROM email_changes
	WHERE undone_at = 0 AND expires_at > ?`

// EmailChange implements account.Store.
func (s *Store) EmailChange(ctx context.Context, id string, now time.Time) (account.EmailChange, error) {
	var row emailChangeRow
	found := s.conn(ctx).Raw(selectEmailChange+" AND id = ?", toUnix(now), id).Find(&row)
	if err := expect(found, account.ErrInvalidLink); err != nil {
		return account.EmailChange{}, fail("find change of email", err)
	}
	return row.change(), nil
}

// FormerEmails implements account.Store.
func (s *Store) FormerEmails(ctx context.Context, sub string, now time.Time) ([]account.EmailChange, error) {
	var rows []emailChangeRow
	err := s.conn(ctx).Raw(selectEmailChange+" AND sub = ? ORDER BY seq, changed_at", toUnix(now),
		sub).Find(&rows).Error
	return each(rows, emailChangeRow.change), fail("list changes of email", err)
}

// UndoEmailChange implements account.Store.
func (s *Store) UndoEmailChange(
	ctx context.Context, id string, code account.ResetCode, now time.Time, a account.Audit,
) (out account.Disowned, err error) {
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
		began := row.ChangedAt
		tx.Find(&began, "SELECT created_at FROM sessions WHERE id = ?", row.SessionID)
		a := a
		a.Actor, a.Target, a.Since = u.Handle, u.Handle, fromUnix(min(began, row.ChangedAt))
		out = disown(tx, u, row.SessionID, code, false, now, a)
	})
	return out, err
}

// QueueMail implements account.Store.
func (s *Store) QueueMail(ctx context.Context, m account.Mail, now time.Time) error {
	return s.write(ctx, "queue mail", func(tx *engine.Tx) { insertMails(tx, []account.Mail{m}, now) })
}

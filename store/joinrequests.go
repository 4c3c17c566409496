package store

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/engine"
)

// joinRequestRow is an account.JoinRequest with how its members are stored.
type joinRequestRow struct {
	ID, Name, Email, Mailbox, Reason, Language, App string
	AskedAt, ExpiresAt                              time.Time `gorm:"serializer:unix"`
}

func (r joinRequestRow) request() account.JoinRequest { return account.JoinRequest(r) }

const selectJoinRequest = `SELECT id, email, mailbox, name, reason, language, app, asked_at, expires_at
	FROM join_requests WHERE `

// AddJoinRequest implements account.Store.
func (s *Store) AddJoinRequest(
	ctx context.Context, r account.JoinRequest, link []byte, most int, a account.Audit,
) error {
	return s.write(ctx, "add request to join", func(tx *engine.Tx) {
		tx.Exec("UPDATE locks SET taken = taken + 1 WHERE name = 'join-requests'")
		tx.Expect(tx.Exec("INSERT INTO spent (expires_at, hash) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING",
			toUnix(r.ExpiresAt), link), account.ErrInvalidLink)
		args := map[string]any{"now": toUnix(r.AskedAt), "mailbox": sanitize(r.Mailbox), "name": sanitize(r.Name),
			"email": sanitize(r.Email), "id": r.ID, "reason": sanitize(r.Reason), "language": sanitize(r.Language),
			"app": sanitize(r.App), "expires": toUnix(r.ExpiresAt)}
		again := tx.Exec(`UPDATE join_requests SET reason = @reason, language = @language, app = @app, asked_at = @now,
			expires_at = @expires WHERE mailbox = @mailbox AND email = @email AND name = @name`, args)
		if again == 0 {
			var open struct{ Waiting, Mailbox int }
			tx.Find(&open, `SELECT (SELECT count(*) FROM join_requests WHERE expires_at > @now) AS waiting,
				(SELECT count(*) FROM join_requests WHERE mailbox = @mailbox AND expires_at > @now) AS mailbox`, args)
			if open.Waiting >= most || open.Mailbox >= account.MaxJoinMailbox {
				tx.Refuse(account.ErrJoinFull)
			}
			tx.Exec(`INSERT INTO join_requests (id, email, mailbox, name, reason, language, app, asked_at,
				expires_at) VALUES (@id, @email, @mailbox, @name, @reason, @language, @app, @now, @expires)`, args)
		}
		tx.Exec(`INSERT INTO counters (name, value) VALUES (?, 1)
			ON CONFLICT (name) DO UPDATE SET value = counters.value + 1`, joinsUntold)
		insertAudit(tx, a)
	})
}

// JoinMailAt implements account.Store. The counter is when, in milliseconds, all mails so far would have left at the
// pace of the rate. One that a clock which was ahead has left begins anew.
func (s *Store) JoinMailAt(ctx context.Context, rate web.Rate, now time.Time) (at time.Time, err error) {
	pace := rate.Window.Milliseconds() / int64(rate.Count)
	last := now.Add(rate.Window + account.JoinMailWait).UnixMilli()
	args := map[string]any{"name": joinMails, "now": now.UnixMilli(), "first": now.UnixMilli() + pace, "pace": pace,
		"last": last, "beyond": last + pace}
	err = s.write(ctx, "pace mails of requests to join", func(tx *engine.Tx) {
		tx.Expect(tx.Exec(`INSERT INTO counters (name, value) VALUES (@name, @first)
			ON CONFLICT (name) DO UPDATE SET value = CASE WHEN counters.value BETWEEN @now AND @last
				THEN counters.value + @pace ELSE @first END
			WHERE counters.value < @last OR counters.value > @beyond`, args), web.RateLimited(rate.Window))
		var left int64
		tx.Find(&left, "SELECT value FROM counters WHERE name = ?", joinMails)
		if at = time.UnixMilli(left).Add(-rate.Window); at.Before(now) {
			at = now
		}
	})
	return at, err
}

// Counters: how many requests were stored since administrators were told, when that was, and see JoinMailAt.
const joinsUntold, joinsTold, joinMails = "joins-untold", "joins-told", "join-mails"

// JoinsUntold implements account.Store.
func (s *Store) JoinsUntold(ctx context.Context) (some bool, told time.Time, err error) {
	var row struct {
		Untold bool
		Told   int64
	}
	err = s.conn(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM counters WHERE name = ? AND value > 0) AS untold,
		coalesce((SELECT value FROM counters WHERE name = ?), 0) AS told`, joinsUntold, joinsTold).Find(&row).Error
	return row.Untold, fromUnix(row.Told), fail("find requests to join that are not told", err)
}

// TellJoins implements account.Store. With the lock of AddJoinRequest no request is missed.
func (s *Store) TellJoins(ctx context.Context, before, now time.Time, mails []account.Mail) error {
	return s.write(ctx, "tell of requests to join", func(tx *engine.Tx) {
		tx.Exec("UPDATE locks SET taken = taken + 1 WHERE name = 'join-requests'")
		told := tx.Exec(`INSERT INTO counters (name, value) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE counters.value = ?`,
			joinsTold, toUnix(now), toUnix(before))
		if told > 0 {
			tx.Exec("UPDATE counters SET value = 0 WHERE name = ?", joinsUntold)
			insertMails(tx, mails, now)
		}
	})
}

// JoinRequests implements account.Store.
func (s *Store) JoinRequests(ctx context.Context, now time.Time) ([]account.JoinRequest, error) {
	var rows []joinRequestRow
	err := s.conn(ctx).Raw(selectJoinRequest+"expires_at > ? ORDER BY expires_at, id", toUnix(now)).Find(&rows).Error
	return each(rows, joinRequestRow.request), fail("list requests to join", err)
}

// JoinRequest implements account.Store.
func (s *Store) JoinRequest(ctx context.Context, id string, now time.Time) (account.JoinRequest, error) {
	var row joinRequestRow
	found := s.conn(ctx).Raw(selectJoinRequest+"id = ? AND expires_at > ?", sanitize(id), toUnix(now)).Find(&row)
	return row.request(), fail("find request to join", expect(found, account.ErrJoinNotFound))
}

// DecideJoinRequest implements account.Store.
func (s *Store) DecideJoinRequest(ctx context.Context, id string, i *account.Invite, a account.Audit) error {
	return s.act(ctx, "decide request to join", a, func(tx *engine.Tx) {
		tx.Expect(tx.Exec("DELETE FROM join_requests WHERE id = ? AND expires_at > ?", sanitize(id), toUnix(a.At)),
			account.ErrJoinNotFound)
		if i != nil {
			if i.CreatedBy != "" {
				mayInvite(tx, *i, -1)
			}
			s.insertInvite(tx, *i)
		}
		insertAudit(tx, a)
	})
}

package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// A mail waits for those to its address before it until they were tried: people read them in the order
// of what happened. Requests whose account has yet to be looked up have no address, and wait for nothing; nor does any
// mail for one that leaves later automatically (see JoinMailAt).
var mailOutbox = engine.Outbox{
	Table: "mail_outbox", Columns: "id, kind, sub, address, language, data, created_at, attempts", Rows: "mails",
	Free: ` AND (address = '' OR NOT EXISTS (SELECT 1 FROM mail_outbox former
		WHERE former.address = mail_outbox.address AND former.id < mail_outbox.id AND former.attempts = 0
			AND former.created_at <= mail_outbox.created_at))`,
}

// insertMails adds mails to the outbox in the transaction of the change that they report.
func insertMails(tx *engine.Tx, mails []account.Mail, now time.Time) {
	for some := range slices.Chunk(mails, bulkRows) {
		var values []any
		for _, m := range some {
			data, err := json.Marshal(m.Data)
			if err != nil {
				tx.Refuse(fmt.Errorf("encode mail: %w", err))
				return
			}
			values = append(values, m.Kind, m.Sub, sanitize(m.Address), m.Language, string(data), toUnix(now),
				toUnix(now), sanitize(m.Session), sanitize(m.Session))
		}
		const row = "(?, ?, ?, ?, ?, ?, ?, ?, coalesce((SELECT s.sub FROM sessions s WHERE s.id = ?), ''))"
		tx.Exec(`INSERT INTO mail_outbox (kind, sub, address, language, data, created_at, next_at, session_id, made_by)
			VALUES `+repeated(row, len(some)), values...)
		tx.Announce()
	}
}

// MailsAdded implements account.MailStore.
func (s *Store) MailsAdded() <-chan struct{} { return s.Announced() }

type mailRow struct {
	ID                                 int64
	Kind, Sub, Address, Language, Data string
	CreatedAt                          time.Time `gorm:"autoCreateTime:false;serializer:unix"`
	Attempts                           int
}

// DueMails implements account.MailStore. Oldest first.
func (s *Store) DueMails(
	ctx context.Context, now time.Time, lease time.Duration, limit int,
) ([]account.QueuedMail, error) {
	rows, err := engine.LeaseDue[mailRow](ctx, s.DB, mailOutbox, now, lease, limit)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b mailRow) int { return cmp.Compare(a.ID, b.ID) })
	return each(rows, mailRow.mail), nil
}

func (r mailRow) mail() account.QueuedMail {
	m := account.QueuedMail{
		CreatedAt: r.CreatedAt, Attempts: r.Attempts,
		Mail: account.Mail{ID: r.ID, Kind: r.Kind, Sub: r.Sub, Address: r.Address, Language: r.Language},
	}
	_ = json.Unmarshal([]byte(r.Data), &m.Data) // as written by insertMails
	return m
}

// MailDone implements account.MailStore.
func (s *Store) MailDone(ctx context.Context, id int64, a *account.Audit) error {
	if a == nil {
		return mailOutbox.Remove(ctx, s.DB, id)
	}
	return s.write(ctx, "give up mail", func(tx *engine.Tx) {
		if tx.Exec("DELETE FROM mail_outbox WHERE id = ?", id) > 0 {
			insertAudit(tx, *a)
		}
	})
}

// MailFailed implements account.MailStore.
func (s *Store) MailFailed(ctx context.Context, id int64, failure string, next time.Time) error {
	return s.writeOne(ctx, "put off mail", func(db *gorm.DB) error {
		return db.Exec(`UPDATE mail_outbox SET attempts = attempts + 1, failure = ?, next_at = ?, leased_until = 0
			WHERE id = ?`, sanitize(failure), toUnix(next), id).Error
	})
}

// MailState implements account.MailStore.
func (s *Store) MailState(ctx context.Context) (account.MailState, error) {
	var state struct {
		Waiting, Failing int
		Oldest           time.Time `gorm:"serializer:unix"`
		Failure          string
	}
	err := s.conn(ctx).Raw(`SELECT count(*) AS waiting, coalesce(min(created_at), 0) AS oldest,
		coalesce(sum(CASE WHEN attempts > 0 THEN 1 ELSE 0 END), 0) AS failing,
		coalesce((SELECT failure FROM mail_outbox WHERE attempts > 0 ORDER BY next_at DESC LIMIT 1), '') AS failure
		FROM mail_outbox`).Find(&state).Error
	return account.MailState(state), fail("state of the mails", err)
}

// returnOutboxes makes messages due that a clock that was ahead put off: the longest wait for another try
// is shorter than noticeMemory.
func (s *Store) returnOutboxes(ctx context.Context, now time.Time) error {
	args := map[string]any{"now": toUnix(now), "ahead": toUnix(now.Add(noticeMemory))}
	for _, table := range []string{"mail_outbox", "logout_outbox"} {
		for _, future := range []string{"next_at > @ahead", "next_at <= @now AND leased_until > @ahead"} {
			var found []int
			err := s.conn(ctx).Raw("SELECT 1 FROM "+table+" WHERE "+future+" LIMIT 1", args).Find(&found).Error
			if err == nil && len(found) > 0 {
				err = s.write(ctx, "send what was put off", func(tx *engine.Tx) {
					tx.Exec("UPDATE "+table+" SET next_at = @now, leased_until = 0, created_at = CASE "+
						"WHEN created_at > @now THEN @now ELSE created_at END WHERE "+future, args)
				})
			}
			if err != nil {
				return fail("look for messages of the future", err)
			}
		}
	}
	return nil
}

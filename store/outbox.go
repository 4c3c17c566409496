package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/provider"
)

// noticeBatch is how many sessions one statement names: databases bound it.
const noticeBatch = 1000

// addNotices writes what the clients of the sessions are to be told, in the
// transaction that has ended them. It comes after their grants were revoked: a
// code that is being exchanged then either was spent before, and counts, or
// no longer can be.
func addNotices(tx *gorm.DB, sub string, sessions []string, now time.Time) error {
	for ids := range slices.Chunk(sessions, noticeBatch) {
		err := tx.Exec(`INSERT INTO logout_outbox (client_id, sub, sid, created_at, next_at)
			SELECT DISTINCT g.client_id, g.sub, g.sid, CAST(? AS BIGINT), CAST(? AS BIGINT) FROM grants g JOIN clients k ON k.id = g.client_id
			WHERE g.sub = ? AND g.sid IN ? AND g.code_used_at > 0 AND k.backchannel_logout_uri <> '' AND k.removed_at = 0`, toUnix(now), toUnix(now), sub, ids).Error
		if err != nil {
			return err
		}
		// What was kept for this is for the sweep to look at again.
		err = tx.Exec("UPDATE grants SET sweep_at = code_expires_at WHERE sub = ? AND sid IN ? AND sweep_at > code_expires_at", sub, ids).Error
		if err != nil {
			return err
		}
	}
	return nil
}

type noticeRow struct {
	ID        int64
	ClientID  string
	Sub       string
	Sid       string
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	Attempts  int
}

// leaseDue takes the notices that are due; the others who ask at the same time
// pass over them.
func (s *Store) leaseDue() string {
	others := ""
	if s.dialect == Postgres {
		others = " FOR UPDATE SKIP LOCKED"
	}
	return `WITH due AS (SELECT id FROM logout_outbox WHERE next_at <= ? AND leased_until <= ? ORDER BY next_at, id LIMIT ?` + others + `)
		UPDATE logout_outbox SET leased_until = ? WHERE id IN (SELECT id FROM due) RETURNING id, client_id, sub, sid, created_at, attempts`
}

// DueLogouts implements provider.LogoutOutbox. Oldest first.
func (s *Store) DueLogouts(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]provider.LogoutNotice, error) {
	if limit <= 0 {
		return nil, nil
	}
	// Mostly nothing is due, and finding that out needs no write lock.
	var due int64
	err := s.conn(ctx).Raw("SELECT count(*) FROM (SELECT 1 FROM logout_outbox WHERE next_at <= ? AND leased_until <= ? LIMIT 1) due", toUnix(now), toUnix(now)).Find(&due).Error
	if err != nil || due == 0 {
		return nil, fail("look for logout notices", err)
	}
	var rows []noticeRow
	err = s.writeOne(ctx, "lease logout notices", func(db *gorm.DB) error {
		rows = nil
		return db.Raw(s.leaseDue(), toUnix(now), toUnix(now), limit, toUnix(now.Add(lease))).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b noticeRow) int { return cmp.Compare(a.ID, b.ID) })
	return each(rows, noticeRow.notice), nil
}

func (r noticeRow) notice() provider.LogoutNotice {
	return provider.LogoutNotice{ID: r.ID, ClientID: r.ClientID, Sub: r.Sub, SessionID: r.Sid, CreatedAt: fromUnix(r.CreatedAt), Attempts: r.Attempts}
}

// LogoutDone implements provider.LogoutOutbox. No error when it was deleted already.
func (s *Store) LogoutDone(ctx context.Context, id int64) error {
	return s.writeOne(ctx, "remove logout notice", func(db *gorm.DB) error {
		return db.Exec("DELETE FROM logout_outbox WHERE id = ?", id).Error
	})
}

// LogoutFailed implements provider.LogoutOutbox. It ends the lease.
func (s *Store) LogoutFailed(ctx context.Context, id int64, next time.Time) error {
	return s.writeOne(ctx, "put off logout notice", func(db *gorm.DB) error {
		return db.Exec("UPDATE logout_outbox SET attempts = attempts + 1, next_at = ?, leased_until = 0 WHERE id = ?", toUnix(next), id).Error
	})
}

package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

// Of the first notices that are due, at most four of a client are leased at once: one that does not answer delays no
// other. Beyond these, which is many more than a client has while it answers, they go by their time alone.
var logoutOutbox = engine.Outbox{
	Table: "logout_outbox", Columns: "id, client_id, sub, sid, created_at, attempts", Rows: "logout notices",
	Free: ` AND id NOT IN (SELECT id FROM (
			SELECT id, row_number() OVER (PARTITION BY client_id ORDER BY next_at, id) AS place FROM (
				SELECT id, client_id, next_at FROM logout_outbox WHERE next_at <= @now ORDER BY next_at, id LIMIT 2000
			) first) places WHERE place > 4)`,
}

// noticeBatch is how many sessions one statement names: databases bound it.
const noticeBatch = 1000

// addNotices queues the logout notices for the clients of the sessions, in the transaction that has
// ended them. It comes after the revocation of their grants: a code that is being exchanged either
// was spent before, and counts, or cannot be spent any longer.
func addNotices(tx *engine.Tx, subs, sessions []string, now time.Time) {
	for ids := range slices.Chunk(sessions, noticeBatch) {
		tx.Exec(`INSERT INTO logout_outbox (client_id, sub, sid, created_at, next_at)
			SELECT DISTINCT g.client_id, g.sub, g.sid, CAST(? AS BIGINT), CAST(? AS BIGINT)
			FROM grants g JOIN clients k ON k.id = g.client_id
			WHERE g.sub IN ? AND g.sid IN ? AND g.code_used_at > 0
			AND k.backchannel_logout_uri <> '' AND k.removed_at = 0`, toUnix(now), toUnix(now), subs, ids)
		// The sweep checks again the grants that were kept for this.
		tx.Exec(`UPDATE grants SET sweep_at = code_expires_at
			WHERE sub IN ? AND sid IN ? AND sweep_at > code_expires_at`, subs, ids)
	}
}

// noticeRow is a provider.LogoutNotice with how its members are stored.
type noticeRow struct {
	ID            int64
	ClientID, Sub string
	SessionID     string    `gorm:"column:sid"`
	CreatedAt     time.Time `gorm:"autoCreateTime:false;serializer:unix"`
	Attempts      int
}

func (r noticeRow) notice() provider.LogoutNotice { return provider.LogoutNotice(r) }

// DueLogouts implements provider.LogoutOutbox. Oldest first.
func (s *Store) DueLogouts(
	ctx context.Context, now time.Time, lease time.Duration, limit int,
) ([]provider.LogoutNotice, error) {
	rows, err := engine.LeaseDue[noticeRow](ctx, s.DB, logoutOutbox, now, lease, limit)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b noticeRow) int { return cmp.Compare(a.ID, b.ID) })
	return each(rows, noticeRow.notice), nil
}

// LogoutDone implements provider.LogoutOutbox.
func (s *Store) LogoutDone(ctx context.Context, id int64) error {
	return logoutOutbox.Remove(ctx, s.DB, id)
}

// LogoutFailed implements provider.LogoutOutbox.
func (s *Store) LogoutFailed(ctx context.Context, id int64, next time.Time) error {
	return logoutOutbox.RetryAt(ctx, s.DB, id, next)
}

// LogoutState returns how many logout notices wait and since when the oldest does, the zero time if
// none waits.
func (s *Store) LogoutState(ctx context.Context) (waiting int, oldest time.Time, err error) {
	var row struct {
		Waiting int
		Oldest  int64
	}
	err = s.conn(ctx).Raw(`SELECT count(*) AS waiting, coalesce(min(created_at), 0) AS oldest
		FROM logout_outbox`).Find(&row).Error
	return row.Waiting, fromUnix(row.Oldest), fail("state of the logout notices", err)
}

package store

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account"
)

// ClientUse is how much a client is used.
type ClientUse struct {
	Users  int       // with a consent or a grant, counted up to account.ManyUsers
	LastAt time.Time // last known authorization or token, zero: never
}

// ClientUses returns how much each client is used. It reads no more of the indexes than it counts.
func (s *Store) ClientUses(ctx context.Context, ids []string) (map[string]ClientUse, error) {
	out := make(map[string]ClientUse, len(ids))
	for _, id := range ids {
		var row struct{ Users, LastAt int64 }
		err := s.conn(ctx).Raw(`SELECT
			(SELECT count(*) FROM (
				SELECT sub FROM (SELECT sub FROM consents WHERE client_id = ? LIMIT ?) c
				UNION SELECT sub FROM (SELECT sub FROM grants WHERE client_id = ? ORDER BY created_at DESC LIMIT ?) g
			) u) AS users,
			(SELECT coalesce(max(at), 0) FROM (
				SELECT max(created_at) AS at FROM grants WHERE client_id = ? UNION ALL
				SELECT max(last_used_at) FROM (SELECT last_used_at FROM consents WHERE client_id = ? LIMIT ?) k
			) t) AS last_at`,
			id, account.ManyUsers, id, account.ManyUsers, id, id, account.ManyUsers).Find(&row).Error
		if err != nil {
			return nil, fail("count users of clients", err)
		}
		out[id] = ClientUse{Users: min(int(row.Users), account.ManyUsers), LastAt: fromUnix(row.LastAt)}
	}
	return out, nil
}

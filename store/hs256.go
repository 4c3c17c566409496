package store

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// notRS256 is the condition that the shared secret may have signed the token of a session: it may
// for one that is older than the column.
const notRS256 = "algorithm <> '" + account.AlgorithmRS256 + "'"

// HS256Sessions implements account.Store.
func (s *Store) HS256Sessions(ctx context.Context, now time.Time) (live int, last time.Time, err error) {
	var row struct {
		Live int
		Last int64
	}
	err = s.conn(ctx).Raw(`SELECT count(*) AS live, coalesce(max(expires_at), 0) AS last FROM sessions
		WHERE ended_at = 0 AND expires_at > ? AND `+notRS256, toUnix(now)).Find(&row).Error
	if err != nil {
		return 0, time.Time{}, fail("count HS256 sessions", err)
	}
	return row.Live, fromUnix(row.Last), nil
}

// IssuedRS256 reports whether tokens signed with a private key may be in use: of a session, or of a
// grant, which needs a private key.
func (s *Store) IssuedRS256(ctx context.Context) (bool, error) {
	var rows []int
	err := s.conn(ctx).Raw(`SELECT 1 WHERE EXISTS (SELECT 1 FROM grants)
		OR EXISTS (SELECT 1 FROM sessions WHERE algorithm = ?)`, account.AlgorithmRS256).Find(&rows).Error
	return len(rows) > 0, fail("look for RS256 tokens", err)
}

// EndHS256Sessions implements account.Store, one short transaction a user.
func (s *Store) EndHS256Sessions(ctx context.Context, now time.Time) (total int, err error) {
	for after := ""; ; {
		var subs []string
		err := s.conn(ctx).Raw(`SELECT DISTINCT sub FROM sessions
			WHERE ended_at = 0 AND expires_at > ? AND `+notRS256+" AND sub > ? ORDER BY sub LIMIT ?",
			toUnix(now), after, largestBatch).Find(&subs).Error
		if err != nil || len(subs) == 0 {
			return total, fail("look for HS256 sessions", err)
		}
		for _, sub := range subs {
			n, err := s.endHS256(ctx, sub, now)
			if err != nil && !errors.Is(err, account.ErrUserNotFound) { // deleted since
				return total, err
			}
			total, after = total+n, sub
		}
	}
}

func (s *Store) endHS256(ctx context.Context, sub string, now time.Time) (n int, err error) {
	err = s.write(ctx, "end HS256 sessions", func(tx *engine.Tx) {
		lockUser(tx, sub)
		const grants = `sid IN
			(SELECT id FROM sessions s WHERE s.sub = @sub AND s.ended_at = @now AND s.` + notRS256 + ")"
		args := map[string]any{}
		n = endSessions(tx, sub, now, "expires_at > @now AND "+notRS256, grants+signOutGrants, args).live
	})
	return n, err
}

// SetHS256Until implements account.Store.
func (s *Store) SetHS256Until(ctx context.Context, until time.Time, a account.Audit) error {
	return s.write(ctx, "set the end of HS256", func(tx *engine.Tx) {
		tx.Expect(tx.Exec("UPDATE settings SET hs256_until = ? WHERE id = 1", toUnix(until)), account.ErrNotInitialized)
		insertAudit(tx, a)
	})
}

package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// ofSecret is the condition that the token of a session may be signed with the
// shared secret: one from before the algorithm was noted may be.
const ofSecret = "algorithm <> '" + account.AlgorithmRS256 + "'"

// HS256Sessions implements account.Store.
func (s *Store) HS256Sessions(ctx context.Context, now time.Time) (live int, last time.Time, err error) {
	var row struct {
		Live int
		Last int64
	}
	err = s.conn(ctx).Raw("SELECT count(*) AS live, coalesce(max(expires_at), 0) AS last FROM sessions WHERE ended_at = 0 AND expires_at > ? AND "+ofSecret, seconds(now)).Find(&row).Error
	if err != nil {
		return 0, time.Time{}, fail("count HS256 sessions", err)
	}
	return row.Live, moment(row.Last), nil
}

// IssuedRS256 tells whether tokens that a private key has signed may be in use: a session's, or those of a grant, of
// which there are none without a key.
func (s *Store) IssuedRS256(ctx context.Context) (bool, error) {
	var rows []int
	err := s.conn(ctx).Raw("SELECT 1 WHERE EXISTS (SELECT 1 FROM grants) OR EXISTS (SELECT 1 FROM sessions WHERE algorithm = ?)", account.AlgorithmRS256).Find(&rows).Error
	return len(rows) > 0, fail("look for RS256 tokens", err)
}

// EndHS256Sessions implements account.Store: user by user, so that no transaction
// is long.
func (s *Store) EndHS256Sessions(ctx context.Context, now time.Time) (total int, err error) {
	for after := ""; ; {
		var subs []string
		err := s.conn(ctx).Raw("SELECT DISTINCT sub FROM sessions WHERE ended_at = 0 AND expires_at > ? AND "+ofSecret+" AND sub > ? ORDER BY sub LIMIT ?",
			seconds(now), after, largestBatch).Find(&subs).Error
		if err != nil || len(subs) == 0 {
			return total, fail("look for HS256 sessions", err)
		}
		for _, sub := range subs {
			n, err := s.endHS256(ctx, sub, now)
			if err != nil && !errors.Is(err, account.ErrUserNotFound) { // deleted meanwhile
				return total, err
			}
			total, after = total+n, sub
		}
	}
}

func (s *Store) endHS256(ctx context.Context, sub string, now time.Time) (n int, err error) {
	err = s.write(ctx, "end HS256 sessions", func(tx *gorm.DB) error {
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		const theirs = " AND sid IN (SELECT id FROM sessions s WHERE s.sub = grants.sub AND s.ended_at = ? AND s." + ofSecret + ")" + keepsOffline
		ended, err := endSessions(tx, ending{
			sub: sub, where: " AND expires_at > ? AND " + ofSecret, args: []any{seconds(now)}, grants: theirs, with: []any{seconds(now)},
		}, now)
		n = len(ended)
		return err
	})
	return n, err
}

// SetHS256Until implements account.Store.
func (s *Store) SetHS256Until(ctx context.Context, until time.Time, a account.Audit) error {
	return s.write(ctx, "set the end of HS256", func(tx *gorm.DB) error {
		if err := expect(tx.Exec("UPDATE settings SET hs256_until = ? WHERE id = 1", seconds(until)), account.ErrNotInitialized); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

const (
	// sweepMargin keeps rows a little longer than they count: clocks differ.
	sweepMargin = time.Hour
	// pushedMargin is that of pushed requests, which live a minute and are large:
	// whoever knows the id of a public client can push as fast as the limit allows.
	pushedMargin = 5 * time.Minute
	// indexRest is how long a status list index whose bit was cleared is not given
	// again: longer than anybody may use a copy of the list in which it is set.
	indexRest = account.StatusListLifetime + sweepMargin
	// inviteMemory is how long its owner still sees an invite that nobody used.
	inviteMemory = 30 * 24 * time.Hour
	// sweepBatch is how many rows one transaction deletes: others wait for it.
	sweepBatch = 500
	// noticeMemory is longer than anybody tries to deliver a logout notice.
	noticeMemory = 3 * 24 * time.Hour
)

// SweepResult is how many rows were deleted.
type SweepResult struct {
	Sessions, Revocations, StatusLists, Tokens, Grants, Invites, ResetCodes, RateCounters, Assertions, ClientTokens, PushedRequests, LogoutNotices int64
}

// tellsOfSession is the condition that a grant g is still needed when its
// session ends, to tell the client (noteLogouts): the newest one, or a client that
// comes again every minute would leave a row each time.
const tellsOfSession = `g.code_used_at > 0
	AND EXISTS (SELECT 1 FROM sessions s JOIN clients k ON k.id = g.client_id WHERE s.id = g.sid AND s.ended_at = 0 AND k.backchannel_logout_uri <> '')
	AND NOT EXISTS (SELECT 1 FROM grants n WHERE n.sub = g.sub AND n.client_id = g.client_id AND n.sid = g.sid AND n.code_used_at > 0
		AND (n.created_at, n.id) > (g.created_at, g.id))`

// Sweep deletes what has expired, in small batches. Nothing depends on it:
// expired rows are refused whether they are there or not. Used invites stay; a
// grant stays as long as a token of it, so that a code or refresh token used twice is
// recognised, and the last one of a session at a client that wants to hear of its end.
// After an error the result says what was deleted before.
func (s *Store) Sweep(ctx context.Context, now time.Time) (SweepResult, error) {
	var r SweepResult
	dead := seconds(now.Add(-sweepMargin))
	var err error
	if r.Tokens, err = s.sweepTokens(ctx, dead); err != nil {
		return r, err
	}
	if err = s.noteRevocations(ctx, now); err != nil {
		return r, err
	}
	if r.Revocations, err = s.sweepRevocations(ctx, now); err != nil {
		return r, err
	}
	for _, t := range []struct {
		count *int64
		doing string
		query string // arguments: dead, how many at most, and dead again, for rows that were renewed meanwhile
		dead  int64
	}{
		{&r.Sessions, "sweep sessions", "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires_at <= ? LIMIT ?) AND expires_at <= ?", dead},
		{&r.Grants, "sweep grants", `DELETE FROM grants WHERE id IN (SELECT g.id FROM grants g WHERE g.code_expires_at <= ?
			AND NOT EXISTS (SELECT 1 FROM tokens t WHERE t.grant_id = g.id) AND NOT (` + tellsOfSession + `) LIMIT ?) AND code_expires_at <= ?`, dead},
		{&r.Invites, "sweep invites", "DELETE FROM invites WHERE code IN (SELECT code FROM invites WHERE used_at = 0 AND expires_at <= ? LIMIT ?) AND used_at = 0 AND expires_at <= ?",
			seconds(now.Add(-inviteMemory))},
		{&r.ResetCodes, "sweep reset codes", "DELETE FROM reset_codes WHERE sub IN (SELECT sub FROM reset_codes WHERE expires_at <= ? LIMIT ?) AND expires_at <= ?", dead},
		{&r.RateCounters, "sweep rate counters", `DELETE FROM rate_counters WHERE (name, key_hash, started_at) IN
			(SELECT name, key_hash, started_at FROM rate_counters WHERE expires_at <= ? LIMIT ?) AND expires_at <= ?`, seconds(now)},
		{&r.Assertions, "sweep client assertions", `DELETE FROM client_assertions WHERE (client_id, jti_hash) IN
			(SELECT client_id, jti_hash FROM client_assertions WHERE expires_at <= ? LIMIT ?) AND expires_at <= ?`, dead},
		{&r.ClientTokens, "sweep client tokens", "DELETE FROM client_tokens WHERE sig IN (SELECT sig FROM client_tokens WHERE expires_at <= ? LIMIT ?) AND expires_at <= ?", dead},
		{&r.PushedRequests, "sweep pushed requests", "DELETE FROM pushed_requests WHERE hash IN (SELECT hash FROM pushed_requests WHERE expires_at <= ? LIMIT ?) AND expires_at <= ?",
			seconds(now.Add(-pushedMargin))},
		{&r.LogoutNotices, "sweep logout notices", "DELETE FROM logout_outbox WHERE id IN (SELECT id FROM logout_outbox WHERE created_at <= ? LIMIT ?) AND created_at <= ?",
			seconds(now.Add(-noticeMemory))},
	} {
		if *t.count, err = s.sweepTable(ctx, t.doing, t.query, t.dead); err != nil {
			return r, err
		}
	}
	r.StatusLists, err = s.sweepStatusLists(ctx)
	return r, err
}

// sweepStatusLists ends the lists of which no session and no revocation is left.
// The newest one stays: it is still being filled, and its number must not come
// again.
func (s *Store) sweepStatusLists(ctx context.Context) (n int64, err error) {
	err = s.writeOne(ctx, "sweep status lists", func(db *gorm.DB) error {
		res := db.Exec(`DELETE FROM status_lists WHERE id < (SELECT max(id) FROM status_lists)
			AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.status_list = status_lists.id)
			AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.status_list = status_lists.id)`)
		n = res.RowsAffected
		return res.Error
	})
	return n, err
}

func (s *Store) sweepTable(ctx context.Context, doing, query string, dead int64) (total int64, err error) {
	for {
		var n int64
		err := s.writeOne(ctx, doing, func(db *gorm.DB) error {
			res := db.Exec(query, dead, sweepBatch, dead)
			n = res.RowsAffected
			return res.Error
		})
		if total += n; err != nil || n < sweepBatch {
			return total, err
		}
	}
}

// sweepTokens also keeps when an application was last used, which the tokens
// tell as long as they are there.
func (s *Store) sweepTokens(ctx context.Context, dead int64) (total int64, err error) {
	type use struct{ sub, client string }
	for {
		var n int64
		err := s.write(ctx, "sweep tokens", func(tx *gorm.DB) error {
			var rows []struct {
				Sig, Sub, ClientID string
				IssuedAt           int64
			}
			err := tx.Raw(`SELECT t.sig, g.sub, g.client_id, t.issued_at FROM tokens t JOIN grants g ON g.id = t.grant_id
				WHERE t.expires_at <= ? ORDER BY t.sig LIMIT ?`, dead, sweepBatch).Find(&rows).Error
			if err != nil || len(rows) == 0 {
				n = 0
				return err
			}
			last := map[use]int64{}
			signatures := make([]string, 0, len(rows))
			for _, r := range rows {
				signatures = append(signatures, r.Sig)
				u := use{r.Sub, r.ClientID}
				last[u] = max(last[u], r.IssuedAt)
			}
			for u, at := range last {
				err := tx.Exec("UPDATE consents SET last_used_at = ? WHERE sub = ? AND client_id = ? AND last_used_at < ?", at, u.sub, u.client, at).Error
				if err != nil {
					return err
				}
			}
			res := tx.Exec("DELETE FROM tokens WHERE sig IN ?", signatures)
			n = res.RowsAffected
			return res.Error
		})
		if err != nil || n == 0 {
			return total, err
		}
		total += n
	}
}

// sweepRevocations clears the bits of tokens that have expired, and later, when no
// verifier can have a copy in which they are set, frees their indices.
func (s *Store) sweepRevocations(ctx context.Context, now time.Time) (total int64, err error) {
	for {
		var cleared []revocation
		err := s.write(ctx, "clear revocations", func(tx *gorm.DB) error {
			cleared = nil
			err := tx.Raw(`UPDATE revocations SET cleared_at = ? WHERE (status_list, status_index) IN
				(SELECT status_list, status_index FROM revocations WHERE expires_at <= ? AND cleared_at = 0 LIMIT ?) RETURNING status_list, status_index, expires_at`,
				seconds(now), seconds(now.Add(-sweepMargin)), sweepBatch).Find(&cleared).Error
			if err != nil {
				return err
			}
			return changeLists(tx, cleared)
		})
		if err != nil {
			return total, err
		}
		if len(cleared) < sweepBatch {
			break
		}
	}
	return s.sweepTable(ctx, "sweep revocations", `DELETE FROM revocations WHERE (status_list, status_index) IN
		(SELECT status_list, status_index FROM revocations WHERE cleared_at > 0 AND cleared_at <= ? LIMIT ?) AND cleared_at > 0 AND cleared_at <= ?`,
		seconds(now.Add(-indexRest)))
}

// noteRevocations finds ended sessions whose bit nobody has set: an instance of an
// earlier version may have ended them beside this one.
func (s *Store) noteRevocations(ctx context.Context, now time.Time) error {
	return s.write(ctx, "note revocations", func(tx *gorm.DB) error {
		var missing []revocation
		err := tx.Raw(`SELECT status_list, status_index, expires_at FROM sessions s WHERE ended_at > 0 AND expires_at > ?
			AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.status_list = s.status_list AND r.status_index = s.status_index) LIMIT ?`, seconds(now), sweepBatch).Find(&missing).Error
		if err != nil || len(missing) == 0 {
			return err
		}
		return revoke(tx, missing)
	})
}

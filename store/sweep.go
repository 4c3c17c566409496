package store

import (
	"context"
	"maps"
	"slices"
	"strings"
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
	// noticeMemory is longer than anybody tries to deliver a logout notice.
	noticeMemory = 3 * 24 * time.Hour
)

// SweepResult is how many rows were deleted.
type SweepResult struct {
	Sessions, Revocations, StatusLists, Tokens, Grants, Invites, ResetCodes, RateCounters, Assertions, ClientTokens, PushedRequests, LogoutNotices, Clients int64
}

// Sweep deletes what has expired. Nothing depends on it: expired rows are refused
// whether they are there or not. Used invites stay; a grant stays as long as a token
// of it, so that a code or refresh token used twice is recognised, and the last one of
// a session at a client that wants to hear of its end. After an error the result says
// what was deleted before.
//
// It works beside the service on tables of any size: rows are found outside the
// writer, page by page along an index on their time, and then deleted by their keys
// with the condition repeated, in batches so small that nobody waits long (batches).
func (s *Store) Sweep(ctx context.Context, now time.Time) (SweepResult, error) {
	var r SweepResult
	dead := seconds(now.Add(-sweepMargin))
	expired := func(count *int64, table string, key ...string) func() error {
		return func() error {
			return s.sweepExpired(ctx, count, expiring{table: table, key: key, at: "expires_at", until: dead})
		}
	}
	for _, step := range []func() error{
		func() error { return s.sweepTokens(ctx, &r.Tokens, dead) },
		func() error { return s.noteRevocations(ctx, now) },
		func() error { return s.sweepRevocations(ctx, &r.Revocations, now) },
		expired(&r.Sessions, "sessions", "id"),
		func() error { return s.sweepGrants(ctx, &r.Grants, dead) },
		func() error {
			return s.sweepExpired(ctx, &r.Invites, expiring{"invites", []string{"code"}, "expires_at", "used_at = 0", seconds(now.Add(-inviteMemory))})
		},
		expired(&r.ResetCodes, "reset_codes", "sub"),
		func() error {
			return s.sweepExpired(ctx, &r.RateCounters, expiring{"rate_counters", []string{"name", "key_hash", "started_at"}, "expires_at", "", seconds(now)})
		},
		expired(&r.Assertions, "client_assertions", "client_id", "jti_hash"),
		expired(&r.ClientTokens, "client_tokens", "sig"),
		func() error {
			return s.sweepExpired(ctx, &r.PushedRequests, expiring{"pushed_requests", []string{"hash"}, "expires_at", "", seconds(now.Add(-pushedMargin))})
		},
		func() error {
			return s.sweepExpired(ctx, &r.LogoutNotices, expiring{"logout_outbox", []string{"id"}, "created_at", "", seconds(now.Add(-noticeMemory))})
		},
		func() error { return s.sweepStatusLists(ctx, &r.StatusLists) },
		func() error { return s.sweepClients(ctx, &r.Clients) },
		func() error { return s.makeWords(ctx) },
		func() error { return s.giveBackSpace(ctx) },
	} {
		if err := step(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// expiring are the rows of a table whose time has come.
type expiring struct {
	table string
	key   []string // tells them apart
	at    string   // their time, which has an index that goes on with the key
	and   string   // a further condition on a number, or empty
	until int64
}

// expiredRow is the time of a row and its key.
type expiredRow []any

// page is the next rows after the given one (nil: from the first).
func (s *Store) page(ctx context.Context, e expiring, after expiredRow, limit int) ([]expiredRow, error) {
	columns := strings.Join(append([]string{e.at}, e.key...), ", ")
	query, args := "SELECT "+columns+" FROM "+e.table+" WHERE "+e.at+" <= ?", []any{e.until}
	if e.and != "" {
		query += " AND " + e.and
	}
	if after != nil {
		query, args = query+" AND ("+columns+") > ("+repeated("?", len(after))+")", append(args, after...)
	}
	// GORM's own deadline would end before the rows are read.
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.conn(ctx).Raw(query+" ORDER BY "+columns+" LIMIT ?", append(args, limit)...).Rows()
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []expiredRow
	for rows.Next() {
		row, into := make(expiredRow, 1+len(e.key)), make([]any, 1+len(e.key))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// named is the condition that a row is one of these and its time has still come. They
// are found by their keys: the + keeps the databases from the index on the time, which
// a condition on it would suggest.
func (s *Store) named(e expiring, rows []expiredRow) (condition string, args []any) {
	keys, list, one := strings.Join(e.key, ", "), "", "?"
	if len(e.key) > 1 {
		keys, one = "("+keys+")", "("+repeated("?", len(e.key))+")"
		if s.dialect == SQLite { // which wants a table where PostgreSQL takes a list
			list = "VALUES "
		}
	}
	for _, r := range rows {
		args = append(args, r[1:]...)
	}
	// A blank after the bracket: GORM would make a list of the bytes of what comes there.
	condition = keys + " IN ( " + list + repeated(one, len(rows)) + ") AND +" + e.at + " <= ?"
	if e.and != "" {
		condition += " AND +" + e.and
	}
	return condition, append(args, e.until)
}

func (s *Store) sweepExpired(ctx context.Context, count *int64, e expiring) error {
	doing := "sweep " + e.table
	var last expiredRow
	return s.batches(ctx, doing, func(b *batch) (bool, error) {
		rows, err := s.page(ctx, e, last, b.rows)
		if err != nil || len(rows) == 0 {
			return false, fail(doing, err)
		}
		last = rows[len(rows)-1]
		condition, args := s.named(e, rows)
		return len(rows) == b.rows, b.delete(count, "DELETE FROM "+e.table+" WHERE "+condition, args...)
	})
}

// deadToken is an expired token with what tells whose it was.
type deadToken struct {
	Sig, Sub, ClientID  string
	IssuedAt, ExpiresAt int64
}

// sweepTokens also keeps when an application was last used, which the tokens
// tell as long as they are there.
func (s *Store) sweepTokens(ctx context.Context, count *int64, dead int64) error {
	var last deadToken
	return s.batches(ctx, "sweep tokens", func(b *batch) (bool, error) {
		var rows []deadToken
		err := s.conn(ctx).Raw(`SELECT t.sig, g.sub, g.client_id, t.issued_at, t.expires_at FROM tokens t JOIN grants g ON g.id = t.grant_id
			WHERE t.expires_at <= ? AND (t.expires_at, t.sig) > (?, ?) ORDER BY t.expires_at, t.sig LIMIT ?`,
			dead, last.ExpiresAt, last.Sig, b.rows).Find(&rows).Error
		if err != nil || len(rows) == 0 {
			return false, fail("sweep tokens", err)
		}
		last = rows[len(rows)-1]
		uses, err := s.unnotedUses(ctx, rows)
		if err != nil {
			return false, fail("sweep tokens", err)
		}
		signatures := make([]string, len(rows))
		for i, r := range rows {
			signatures[i] = r.Sig
		}
		var n int64
		err = b.write(func(tx *gorm.DB) error {
			for _, u := range uses {
				err := tx.Exec("UPDATE consents SET last_used_at = ? WHERE sub = ? AND client_id = ? AND last_used_at < ?", u.LastUsedAt, u.Sub, u.ClientID, u.LastUsedAt).Error
				if err != nil {
					return err
				}
			}
			res := tx.Exec("DELETE FROM tokens WHERE sig IN ? AND +expires_at <= ?", signatures, dead)
			n = res.RowsAffected
			return res.Error
		})
		*count += n
		return len(rows) == b.rows, err
	})
}

// appUse is when a user last used an application.
type appUse struct {
	Sub, ClientID string
	LastUsedAt    int64
}

// unnotedUses are the uses that tokens tell and consents do not, in one order, so that
// two instances do not wait for one another.
func (s *Store) unnotedUses(ctx context.Context, tokens []deadToken) ([]appUse, error) {
	newest, subs := map[[2]string]int64{}, map[string]bool{}
	for _, t := range tokens {
		app := [2]string{t.Sub, t.ClientID}
		newest[app], subs[t.Sub] = max(newest[app], t.IssuedAt), true
	}
	var noted, out []appUse
	err := s.conn(ctx).Raw("SELECT sub, client_id, min(last_used_at) AS last_used_at FROM consents WHERE sub IN ? GROUP BY sub, client_id ORDER BY sub, client_id",
		slices.Collect(maps.Keys(subs))).Find(&noted).Error
	for _, u := range noted {
		if at := newest[[2]string{u.Sub, u.ClientID}]; at > u.LastUsedAt {
			out = append(out, appUse{u.Sub, u.ClientID, at})
		}
	}
	return out, err
}

// repeated is a list of n times the same.
func repeated(one string, n int) string { return strings.Repeat(one+", ", n-1) + one }

// tellsOfSession is the condition that a grant g is still needed when its
// session s ends, to tell the client k (addNotices): the newest one, or a client that
// comes again every minute would leave a row each time.
const tellsOfSession = `s.ended_at = 0 AND k.backchannel_logout_uri <> '' AND k.removed_at = 0 AND g.code_used_at > 0
	AND NOT EXISTS (SELECT 1 FROM grants n WHERE n.sub = g.sub AND n.client_id = g.client_id AND n.sid = g.sid AND n.code_used_at > 0
		AND (n.created_at, n.id) > (g.created_at, g.id))`

// dueGrant is a grant to look at, with the ends of all that may hold it.
type dueGrant struct {
	ID                                  string
	SweepAt                             int64
	CodeUntil, TokenUntil, SessionUntil int64
}

// lookStep lets grants of about one time be put off together, in seconds.
const lookStep = 600

// sweepGrants looks at each grant when what held it, as far as it was known then, has
// ended: it deletes the grant, or puts the look off to the end of what holds it now.
// So a grant is looked at a few times in its life, however often there is a sweep.
func (s *Store) sweepGrants(ctx context.Context, count *int64, dead int64) error {
	last := dueGrant{SweepAt: -1}
	return s.batches(ctx, "sweep grants", func(b *batch) (bool, error) {
		var rows []dueGrant
		err := s.conn(ctx).Raw(`SELECT g.id, g.sweep_at, g.code_expires_at AS code_until,
			coalesce((SELECT max(t.expires_at) FROM tokens t WHERE t.grant_id = g.id), 0) AS token_until,
			coalesce((SELECT s.expires_at FROM sessions s JOIN clients k ON k.id = g.client_id WHERE s.id = g.sid AND `+tellsOfSession+`), 0) AS session_until
			FROM grants g WHERE g.sweep_at <= ? AND (g.sweep_at, g.id) > (?, ?) ORDER BY g.sweep_at, g.id LIMIT ?`,
			dead, last.SweepAt, last.ID, b.rows).Find(&rows).Error
		if err != nil || len(rows) == 0 {
			return false, fail("sweep grants", err)
		}
		last = rows[len(rows)-1]
		var gone []string
		later := map[int64][]string{}
		for _, g := range rows {
			if until := max(g.CodeUntil, g.TokenUntil, g.SessionUntil); until > dead {
				look := (until + lookStep - 1) / lookStep * lookStep
				later[look] = append(later[look], g.ID)
			} else {
				gone = append(gone, g.ID)
			}
		}
		if len(later) > 0 {
			err := b.write(func(tx *gorm.DB) error {
				for _, look := range slices.Sorted(maps.Keys(later)) {
					if err := tx.Exec("UPDATE grants SET sweep_at = ? WHERE id IN ?", look, later[look]).Error; err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return false, err
			}
		}
		if len(gone) == 0 {
			return len(rows) == b.rows, nil
		}
		return len(rows) == b.rows, b.delete(count, `DELETE FROM grants AS g WHERE g.id IN ? AND g.code_expires_at <= ? AND NOT EXISTS (SELECT 1 FROM tokens t WHERE t.grant_id = g.id)
			AND NOT EXISTS (SELECT 1 FROM sessions s JOIN clients k ON k.id = g.client_id WHERE s.id = g.sid AND `+tellsOfSession+")", gone, dead)
	})
}

// sweepRevocations clears the bits of tokens that have expired, and later, when no
// verifier can have a copy in which they are set, frees their indices.
func (s *Store) sweepRevocations(ctx context.Context, count *int64, now time.Time) error {
	const doing = "clear revocations"
	key := []string{"status_list", "status_index"}
	set := expiring{"revocations", key, "expires_at", "cleared_at = 0", seconds(now.Add(-sweepMargin))}
	var last expiredRow
	err := s.batches(ctx, doing, func(b *batch) (bool, error) {
		rows, err := s.page(ctx, set, last, b.rows)
		if err != nil || len(rows) == 0 {
			return false, fail(doing, err)
		}
		last = rows[len(rows)-1]
		return len(rows) == b.rows, b.write(func(tx *gorm.DB) error {
			condition, args := s.named(set, rows)
			var cleared []revocation
			err := tx.Raw("UPDATE revocations SET cleared_at = ? WHERE "+condition+" RETURNING status_list, status_index, expires_at", append([]any{seconds(now)}, args...)...).Find(&cleared).Error
			if err != nil {
				return err
			}
			return changeLists(tx, cleared)
		})
	})
	if err != nil {
		return err
	}
	return s.sweepExpired(ctx, count, expiring{"revocations", key, "cleared_at", "cleared_at > 0", seconds(now.Add(-indexRest))})
}

// endedSession is a session with its place in the lists.
type endedSession struct {
	ID      string
	EndedAt int64
	Token   revocation `gorm:"embedded"`
	Missing bool
}

// noteRevocations finds ended sessions whose bit nobody has set: an instance of an
// earlier version may have ended them beside this one. It looks at those that ended
// since it last looked, the first time at all.
func (s *Store) noteRevocations(ctx context.Context, now time.Time) error {
	last := endedSession{EndedAt: s.revocationsNoted.Load()}
	err := s.batches(ctx, "note revocations", func(b *batch) (bool, error) {
		var rows []endedSession
		err := s.conn(ctx).Raw(`SELECT s.id, s.ended_at, s.status_list, s.status_index, s.expires_at, s.expires_at > ? AND r.status_list IS NULL AS missing
			FROM sessions s LEFT JOIN revocations r ON r.status_list = s.status_list AND r.status_index = s.status_index
			WHERE s.ended_at > 0 AND (s.ended_at, s.id) > (?, ?) ORDER BY s.ended_at, s.id LIMIT ?`,
			seconds(now), last.EndedAt, last.ID, b.rows).Find(&rows).Error
		if err != nil || len(rows) == 0 {
			return false, fail("note revocations", err)
		}
		last = rows[len(rows)-1]
		var missing []revocation
		for _, r := range rows {
			if r.Missing {
				missing = append(missing, r.Token)
			}
		}
		if len(missing) == 0 {
			return len(rows) == b.rows, nil
		}
		return len(rows) == b.rows, b.write(func(tx *gorm.DB) error { return revoke(tx, missing) })
	})
	if err == nil {
		s.revocationsNoted.Store(seconds(now.Add(-sweepMargin))) // the clocks of instances differ
	}
	return err
}

// sweepStatusLists ends the lists of which no session and no revocation is left.
// The newest one stays: it is still being filled, and its number must not come
// again.
func (s *Store) sweepStatusLists(ctx context.Context, count *int64) error {
	const empty = `id < (SELECT max(id) FROM status_lists)
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.status_list = status_lists.id)
		AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.status_list = status_lists.id)`
	return s.batches(ctx, "sweep status lists", func(b *batch) (bool, error) {
		var lists []int64
		err := s.conn(ctx).Raw("SELECT id FROM status_lists WHERE " + empty).Find(&lists).Error
		if err != nil || len(lists) == 0 {
			return false, fail("sweep status lists", err)
		}
		return false, b.delete(count, "DELETE FROM status_lists WHERE id IN ? AND "+empty, lists)
	})
}

package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/store/engine"
)

const (
	// sweepMargin keeps rows a little longer than they are valid: clocks differ.
	sweepMargin = time.Hour
	// pushedMargin is the margin of pushed requests, which live a minute and are large: anyone who
	// knows the id of a public client can push as fast as the limit allows.
	pushedMargin = 5 * time.Minute
	// indexRest is how long a cleared status list index is not reused: longer than an application
	// may use a copy of the list in which its bit is set.
	indexRest = statuslist.Lifetime + sweepMargin
	// inviteMemory is how long the creator of an expired invite still sees it.
	inviteMemory = 30 * 24 * time.Hour
	// noticeMemory is how long undelivered notices and mails are kept, longer than delivery is
	// retried.
	noticeMemory = 3 * 24 * time.Hour
	// refusalMemory is how long refused sign-ins are kept at most.
	refusalMemory = 30 * 24 * time.Hour
)

// SweepResult counts the deleted rows.
type SweepResult struct {
	Sessions, Revocations, StatusLists, Tokens, Grants, Invites, ResetCodes, MailedResetCodes, RateCounters int64
	Assertions, ClientTokens, Devices, PushedRequests, LogoutNotices, Spent, Mails, EmailChanges            int64
	Audit, Clients, JoinRequests, FormerCodes, RefusedSignIns                                               int64
}

// Sweep deletes what has expired. Nothing depends on it: expired rows are refused whether they are
// there or not. Used invites stay. A grant stays as long as one of its tokens, so that a code or
// refresh token used twice is recognised; the last grant of a session at a client with back-channel
// logout stays as long as the session. After an error the result counts what was deleted before.
//
// It works beside the service on tables of any size: it finds rows along an index on their time, in
// batches so small that no request waits long.
func (s *Store) Sweep(ctx context.Context, now time.Time) (SweepResult, error) {
	var r SweepResult
	until := toUnix(now.Add(-sweepMargin))
	steps := []func() error{
		func() error { return s.returnOutboxes(ctx, now) },
		func() error { return s.sweepTokens(ctx, &r.Tokens, until) },
		func() error { return s.noteRevocations(ctx, now) },
		func() error { return s.clearRevocations(ctx, now) },
	}
	for _, e := range []struct {
		count          *int64
		table, key, at string
		and            string
		until          int64
	}{
		{&r.Revocations, "revocations", "status_list, status_index", "cleared_at", "cleared_at > 0",
			toUnix(now.Add(-indexRest))},
		// The links about a session outlive it: what it made is known by its row.
		{&r.Sessions, "sessions", "id", "expires_at", "", toUnix(now.Add(-account.NotMeLifetime - 24*time.Hour))},
		{&r.Invites, "invites", "code", "expires_at", "used_at = 0 AND used = 0", toUnix(now.Add(-inviteMemory))},
		{&r.ResetCodes, "reset_codes", "sub", "expires_at", "", until},
		{&r.MailedResetCodes, "mailed_reset_codes", "sub", "expires_at", "", until},
		{&r.RateCounters, "rate_counters", "name, key_hash, started_at", "expires_at", "", toUnix(now)},
		{&r.Assertions, "client_assertions", "client_id, jti_hash", "expires_at", "", until},
		{&r.ClientTokens, "client_tokens", "sig", "expires_at", "", until},
		{&r.Devices, "device_requests", "code_sig", "expires_at", "", toUnix(now.Add(-pushedMargin))},
		{&r.PushedRequests, "pushed_requests", "hash", "expires_at", "", toUnix(now.Add(-pushedMargin))},
		{&r.Spent, "spent", "hash", "expires_at", "", until},
		{&r.Mails, "mail_outbox", "id", "created_at", "", toUnix(now.Add(-noticeMemory))},
		{&r.FormerCodes, "former_recovery_codes", "sub, hash", "replaced_at", "",
			toUnix(now.Add(-account.FactorUndo - time.Hour))},
		{&r.EmailChanges, "email_changes", "id", "expires_at", "", until},
		{&r.JoinRequests, "join_requests", "id", "expires_at", "", until},
		{&r.RefusedSignIns, "refused_sign_ins", "client_id, signed_in, refused_at, request_id", "refused_at", "",
			toUnix(now.Add(-refusalMemory))},
		{&r.LogoutNotices, "logout_outbox", "id", "created_at", "", toUnix(now.Add(-noticeMemory))},
	} {
		steps = append(steps, func() error {
			rows := expired{table: e.table, key: e.key, at: e.at, and: e.and, until: e.until}
			return s.sweepExpired(ctx, e.count, rows)
		})
	}
	for _, step := range append(steps,
		func() error { return s.sweepGrants(ctx, &r.Grants, until) },
		func() error { return s.sweepStatusLists(ctx, &r.StatusLists) },
		func() error { return s.sweepClients(ctx, &r.Clients) },
		func() error { return s.sweepAudit(ctx, &r.Audit, now) },
		func() error { return s.indexUsers(ctx) },
		func() error { return s.shrinkFile(ctx) },
	) {
		if err := step(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// expired selects the expired rows of a table.
type expired struct {
	table string
	key   string // the columns of a unique key
	at    string // their time, which has an index
	and   string // a further condition, or empty
	until int64
	from  int64 // older rows are deleted already, but still in PostgreSQL's index
}

// batch returns the condition on the oldest rows. They are deleted by their keys: the + keeps the
// databases from the index on the time. The time is compared again for a row that another process
// has changed meanwhile.
func (e expired) batch(rows int) (condition string, args []any) {
	and := ""
	if e.and != "" {
		and = " AND " + e.and
	}
	const oldest = `(%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE %[3]s >= ? AND %[3]s <= ?%[4]s
		ORDER BY %[3]s LIMIT ?) AND +%[3]s <= ?`
	return fmt.Sprintf(oldest, e.table, e.key, e.at, and), []any{e.from, e.until, rows, e.until}
}

func (s *Store) sweepExpired(ctx context.Context, count *int64, e expired) error {
	return s.batches(ctx, "sweep "+e.table, func(b *batch) (bool, error) {
		var gone []int64 // their times
		err := b.write(func(tx *engine.Tx) {
			gone = nil
			batch, args := e.batch(b.rows)
			tx.Find(&gone, "DELETE FROM "+e.table+" WHERE "+batch+" RETURNING "+e.at, args...)
		})
		if err != nil || len(gone) == 0 {
			return false, err
		}
		*count, e.from = *count+int64(len(gone)), slices.Max(gone)
		return len(gone) == b.rows, nil
	})
}

// sweepTokens also saves when an application was last used, which the tokens show while they exist.
func (s *Store) sweepTokens(ctx context.Context, count *int64, until int64) error {
	e := expired{table: "tokens", key: "sig", at: "expires_at", until: until}
	return s.batches(ctx, "sweep tokens", func(b *batch) (bool, error) {
		var gone []struct {
			GrantID             string
			IssuedAt, ExpiresAt int64
		}
		err := b.write(func(tx *engine.Tx) {
			gone = nil
			batch, args := e.batch(b.rows)
			tx.Find(&gone, "DELETE FROM tokens WHERE "+batch+" RETURNING grant_id, issued_at, expires_at", args...)
			if len(gone) == 0 {
				return
			}
			args = nil
			for _, t := range gone {
				args = append(args, t.GrantID, t.IssuedAt)
			}
			tx.Exec("WITH gone (grant_id, at) AS (VALUES "+repeated("(?, CAST(? AS BIGINT))", len(gone))+`)
				UPDATE consents SET last_used_at = used.at
				FROM (SELECT g.sub, g.client_id, max(gone.at) AS at
					FROM gone JOIN grants g ON g.id = gone.grant_id GROUP BY g.sub, g.client_id) used
				WHERE consents.sub = used.sub AND consents.client_id = used.client_id
				AND consents.last_used_at < used.at`, args...)
		})
		if err != nil {
			return false, err
		}
		*count += int64(len(gone))
		for _, t := range gone {
			e.from = max(e.from, t.ExpiresAt)
		}
		return len(gone) == b.rows, nil
	})
}

// neededUntil is when nothing needs a grant g any longer, as far as is known: its code, its tokens,
// and its session s, of whose end the client k is to be notified (addNotices). Only the newest
// grant of a session counts for that, or a client that comes back every minute would leave a row
// each time.
const neededUntil = `(SELECT max(t) FROM (
	SELECT g.code_expires_at AS t
	UNION ALL SELECT max(expires_at) FROM tokens WHERE grant_id = g.id
	UNION ALL SELECT s.expires_at FROM sessions s JOIN clients k ON k.id = g.client_id
		WHERE s.id = g.sid AND s.ended_at = 0
		AND k.backchannel_logout_uri <> '' AND k.removed_at = 0 AND g.code_used_at > 0
		AND NOT EXISTS (SELECT 1 FROM grants n
			WHERE n.sub = g.sub AND n.client_id = g.client_id AND n.sid = g.sid AND n.code_used_at > 0
			AND (n.created_at, n.id) > (g.created_at, g.id))) needed)`

// sweepGrants checks each grant when its known need has ended: it deletes the grant, or puts the
// check off to the end of its current need. So a grant is checked a few times in its life, however
// often the sweep runs.
func (s *Store) sweepGrants(ctx context.Context, count *int64, until int64) error {
	from := int64(-1)
	return s.batches(ctx, "sweep grants", func(b *batch) (bool, error) {
		var due []struct {
			ID      string
			SweepAt int64
		}
		err := s.conn(ctx).Raw(`SELECT id, sweep_at FROM grants WHERE sweep_at >= ? AND sweep_at <= ?
			ORDER BY sweep_at LIMIT ?`, from, until, b.rows).Find(&due).Error
		if err != nil || len(due) == 0 {
			return false, fail("sweep grants", err)
		}
		ids := make([]string, len(due))
		for i, g := range due {
			ids[i], from = g.ID, g.SweepAt
		}
		n, err := b.exec("DELETE FROM grants AS g WHERE id IN ? AND "+neededUntil+" <= ?", ids, until)
		*count += n
		if err == nil {
			_, err = b.exec("UPDATE grants AS g SET sweep_at = "+neededUntil+" WHERE id IN ?", ids)
		}
		return len(due) == b.rows, err
	})
}

// clearRevocations clears the bits of expired tokens. Their indices become free later, when no
// verifier can have a copy in which they are set.
func (s *Store) clearRevocations(ctx context.Context, now time.Time) error {
	e := expired{table: "revocations", key: "status_list, status_index", at: "expires_at", and: "cleared_at = 0",
		until: toUnix(now.Add(-sweepMargin))}
	return s.batches(ctx, "clear revocations", func(b *batch) (bool, error) {
		var cleared []revocation
		err := b.write(func(tx *engine.Tx) {
			cleared = nil
			batch, args := e.batch(b.rows)
			tx.Find(&cleared, "UPDATE revocations SET cleared_at = ? WHERE "+batch+` AND cleared_at = 0
				RETURNING status_list, status_index, expires_at`,
				append([]any{toUnix(now)}, args...)...)
			changeLists(tx, cleared)
		})
		for _, r := range cleared {
			e.from = max(e.from, r.ExpiresAt)
		}
		return len(cleared) == b.rows, err
	})
}

// noteRevocations sets the missing bits of ended sessions and revoked grants: an instance of an
// earlier version may have ended them beside this one. It checks those that ended since its last
// run, and all of them the first time.
func (s *Store) noteRevocations(ctx context.Context, now time.Time) error {
	err := s.batches(ctx, "note revocations", func(b *batch) (bool, error) {
		var missing []revocation
		err := s.conn(ctx).Raw(`SELECT s.status_list, s.status_index, s.expires_at FROM (
				SELECT status_list, status_index, expires_at FROM sessions WHERE ended_at > @noted AND ended_at > 0
				UNION ALL SELECT status_list, status_index, revoked_at + `+apiTokenLifetime+` FROM grants
				WHERE revoked_at > @noted AND revoked_at > 0 AND status_list > 0) s
			WHERE s.expires_at > @now
			AND NOT EXISTS (SELECT 1 FROM revocations r
				WHERE r.status_list = s.status_list AND r.status_index = s.status_index)
			AND NOT EXISTS (SELECT 1 FROM status_lists l WHERE l.id = s.status_list AND l.issued = @whole)
			LIMIT @rows`, map[string]any{
			"noted": s.revocationsNoted.Load(), "now": toUnix(now), "whole": wholeList, "rows": b.rows,
		}).Find(&missing).Error
		if err != nil || len(missing) == 0 {
			return false, fail("note revocations", err)
		}
		return len(missing) == b.rows, b.write(func(tx *engine.Tx) { revoke(tx, missing) })
	})
	if err == nil {
		s.revocationsNoted.Store(toUnix(now.Add(-sweepMargin))) // the clocks of instances differ
	}
	return err
}

// sweepStatusLists deletes the lists without sessions, tokens and revocations. The newest one
// stays: it is still being filled, and its number must not be reused.
func (s *Store) sweepStatusLists(ctx context.Context, count *int64) error {
	const empty = `id < (SELECT max(id) FROM status_lists)
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.status_list = status_lists.id)
		AND NOT EXISTS (SELECT 1 FROM grants g WHERE g.status_list = status_lists.id AND g.status_list > 0)
		AND NOT EXISTS (SELECT 1 FROM client_tokens t WHERE t.status_list = status_lists.id AND t.status_list > 0)
		AND NOT EXISTS (SELECT 1 FROM revocations r WHERE r.status_list = status_lists.id)`
	return s.batches(ctx, "sweep status lists", func(b *batch) (bool, error) {
		var lists []int64
		err := s.conn(ctx).Raw("SELECT id FROM status_lists WHERE " + empty).Find(&lists).Error
		if err != nil || len(lists) == 0 {
			return false, fail("sweep status lists", err)
		}
		*count, err = b.exec("DELETE FROM status_lists WHERE id IN ? AND "+empty, lists)
		return false, err
	})
}

// freeShare is the inverse of the share of a file's pages that stays free for later writes.
const freeShare = 20

// shrinkFile makes a SQLite file smaller by its free pages. Files of earlier versions keep theirs
// for later writes.
func (s *Store) shrinkFile(ctx context.Context) error {
	const doing = "give back space"
	if s.Dialect() != SQLite {
		return nil
	}
	number := func(pragma string) (n int64, err error) {
		err = s.conn(ctx).Raw("PRAGMA " + pragma).Find(&n).Error
		return n, err
	}
	const incremental = 2
	if mode, err := number("auto_vacuum"); err != nil || mode != incremental {
		return fail(doing, err)
	}
	before := int64(math.MaxInt64)
	return s.batches(ctx, doing, func(b *batch) (bool, error) {
		pages, err := number("page_count")
		if err != nil {
			return false, fail(doing, err)
		}
		free, err := number("freelist_count")
		if err != nil || free <= pages/freeShare || free >= before {
			return false, fail(doing, err)
		}
		before = free
		return true, b.write(func(tx *engine.Tx) {
			// It frees one page a step, so all of its rows, which are empty, have to be read.
			rows, err := tx.DB.Raw("PRAGMA incremental_vacuum(" + strconv.Itoa(b.rows) + ")").Rows()
			if err != nil {
				tx.Refuse(err)
				return
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
			}
			tx.Refuse(rows.Err())
		})
	})
}

// Bounds of a batch. Its size follows the time that batches take here, so that no request waits
// long even on a slow disk.
const (
	firstBatch   = 200
	largestBatch = 500 // also within the parameters of one SQLite statement
	smallBatch   = 30
	batchTime    = 10 * time.Millisecond
	shortestRest = time.Millisecond
	longestRest  = time.Second
)

// batch is one of the writes of a long operation.
type batch struct {
	ctx   context.Context
	store *Store
	doing string
	rows  int           // how many to write
	held  time.Duration // the longest that others had to wait
}

// write is one transaction of the batch. do may run more than once.
func (b *batch) write(do func(tx *engine.Tx)) error {
	var begin time.Time
	err := b.store.writeAlone(b.ctx, b.doing, b.store.Timeout()+b.store.Timeout()/2, func(tx *engine.Tx) {
		begin = b.store.Time() // after the wait for other writers
		do(tx)
	})
	if err == nil {
		b.held = max(b.held, b.store.Time().Sub(begin))
	}
	return err
}

// exec is write for one statement and returns the number of affected rows.
func (b *batch) exec(query string, args ...any) (n int64, err error) {
	err = b.write(func(tx *engine.Tx) { n = tx.Exec(query, args...) })
	return n, err
}

// batches calls do until more is false. After each batch it rests half as long as that batch has
// kept others from writing. Writers of this process wait in a queue; those of other processes poll,
// and can get in during the rest. A million tokens take less than five minutes.
func (s *Store) batches(ctx context.Context, doing string, do func(b *batch) (more bool, err error)) error {
	for rows := firstBatch; ; {
		b := &batch{ctx: ctx, store: s, doing: doing, rows: rows}
		more, err := do(b)
		if err != nil || !more {
			return err
		}
		switch {
		case b.held > batchTime:
			rows = max(rows/2, smallBatch)
		case b.held < batchTime/2:
			rows = min(rows*2, largestBatch)
		}
		if b.held == 0 {
			continue // nothing was written
		}
		t := time.NewTimer(min(max(b.held/2, shortestRest), longestRest))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fail(doing, ctx.Err())
		}
	}
}

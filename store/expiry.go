package store

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// An account and each of its flags may end automatically. From that second on every read finds the account
// suspended, and the flag gone, by the clock of the store: see userAt and the conditions below. EndDue
// carries that out: it ends sessions and grants, and leaves the rows as they are, so that a clock that was
// ahead has ended nothing else when it is right again. Somebody who lets the user in again ends the rest.

// Conditions at a time, the argument.
const (
	// userActive holds for a user v who is neither deleted nor suspended.
	userActive = "v.deleted_at = 0 AND v.suspended_at = 0 AND (v.ends_at = 0 OR v.ends_at > ?)"
	// flagInForce holds for a flag f.
	flagInForce = "(f.ends_at = 0 OR f.ends_at > ?)"
	// accountEndDue and flagEndDue hold for ends at @now that are not carried out.
	accountEndDue = "ends_at > 0 AND suspended_at = 0 AND end_done = 0 AND ends_at <= @now"
	flagEndDue    = "ends_at > 0 AND end_done = 0 AND ends_at <= @now"
)

// flagsAt reads the column of userFlags: the flags that are in force at a time, sorted, and when those
// end that have an end, else nil.
func flagsAt(column string, now int64) (flags []string, ends map[string]time.Time) {
	flags = strings.Fields(column)
	if strings.Contains(column, ":") {
		ends = parseFlagEnds(flags)
		flags = slices.DeleteFunc(flags, func(f string) bool {
			name, _, _ := strings.Cut(f, ":")
			return strings.Contains(f, ":") && toUnix(ends[name]) <= now
		})
		for i, f := range flags {
			flags[i], _, _ = strings.Cut(f, ":")
		}
		for name, at := range ends {
			if toUnix(at) <= now {
				delete(ends, name)
			}
		}
	}
	slices.Sort(flags)
	return flags, ends
}

// parseFlagEnds reads words of the form flag:seconds, and ignores others.
func parseFlagEnds(words []string) map[string]time.Time {
	var ends map[string]time.Time
	for _, word := range words {
		name, at, has := strings.Cut(word, ":")
		if seconds, err := strconv.ParseInt(at, 10, 64); has && err == nil {
			if ends == nil {
				ends = map[string]time.Time{}
			}
			ends[name] = fromUnix(seconds)
		}
	}
	return ends
}

// formatFlagEnds is the reverse of parseFlagEnds.
func formatFlagEnds(ends map[string]time.Time) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		words = append(words, name+":"+strconv.FormatInt(toUnix(ends[name]), 10))
	}
	return strings.Join(words, " ")
}

// suspendedAt returns since when a user is suspended: since the end of the account at the latest.
func suspendedAt(suspended, ends, now int64) time.Time {
	if suspended == 0 && ends > 0 && ends <= now {
		suspended = ends
	}
	return fromUnix(suspended)
}

// SetEndOfAll implements account.Store.
func (s *Store) SetEndOfAll(ctx context.Context, ends, now time.Time, rows map[string]account.Audit) error {
	return s.changeAccessOf(ctx, "set end of accounts", rows, func(tx *engine.Tx, users []account.User) {
		users = slices.DeleteFunc(users, func(u account.User) bool { return u.EndsAt.Equal(ends) })
		if len(users) == 0 { // somebody was faster
			return
		}
		if !ends.IsZero() {
			keepAdministrator(tx, rows[users[0].Sub], false, users...)
		}
		again := slices.DeleteFunc(slices.Clone(users), func(u account.User) bool { return !u.Ended() })
		if len(again) > 0 {
			tx.Exec("UPDATE users SET suspended_at = 0 WHERE sub IN ?", subsOf(again))
			endOf(tx, subsOf(again), "", account.Audit{Ends: account.EndsAtReturn}, now)
		}
		tx.Exec("UPDATE users SET ends_at = ?, end_told = ?, end_done = 0, updated_at = ? WHERE sub IN ?",
			toUnix(ends), account.EndTold(ends, now), toUnix(now), subsOf(users))
		insertAudits(tx, each(users, func(u account.User) account.Audit {
			row := rows[u.Sub]
			if u.Ended() {
				row.Former = u.EndsAt.UTC().Format(time.RFC3339)
			}
			return row
		}))
	})
}

// liftEnds takes away the ends that administrators got in the last seven days from those who lose by an act of
// somebody else (@lose), or from whoever has no power any more: a thief would stay as the last one.
func liftEnds(tx *engine.Tx, a account.Audit, args map[string]any) {
	args["since"], args["now"], args["actor"] = toUnix(a.At.Add(-account.Recently)), tx.Now(), a.Actor
	for _, e := range []struct{ table, of, given, action, detail string }{
		{"users", "", "a.action = 'user.end'", account.SetEnd.Action, "never"},
		{"user_flags", "flag = @admin AND ", "a.action = 'user.flags' AND a.detail LIKE '%admin=on@%'",
			account.SetFlags.Action, account.FlagAdmin + "=on"},
	} {
		var handles []string
		tx.Find(&handles, "UPDATE "+e.table+" SET ends_at = 0, end_told = 0 WHERE "+e.of+`ends_at > @now AND ends_at > 0
			AND sub IN (SELECT u.sub FROM users u JOIN user_flags f ON f.sub = u.sub AND f.flag = @admin
			JOIN audit a ON a.target = u.handle AND a.at >= @since AND `+e.given+`
			JOIN users v ON v.handle = a.actor AND v.handle <> @actor
			WHERE u.sub NOT IN @lose AND (v.sub IN @lose OR v.suspended_at > 0 OR NOT EXISTS
			(SELECT 1 FROM user_flags g WHERE g.sub = v.sub AND g.flag = @admin)))
			RETURNING (SELECT w.handle FROM users w WHERE w.sub = `+e.table+".sub)", args)
		for _, a.Target = range handles {
			a.Action, a.Detail, a.Mails = e.action, e.detail, nil
			insertAudit(tx, a)
		}
	}
}

// EndDue implements account.Store. A user at a time: a season may end for all at the same second.
func (s *Store) EndDue(ctx context.Context) (next time.Time, err error) {
	const doing = "find what has ended"
	if err := s.reopenEnds(ctx); err != nil {
		return next, err
	}
	for {
		now := s.Now()
		var subs []string
		err := s.conn(ctx).Raw("SELECT sub FROM users WHERE "+accountEndDue+
			" UNION SELECT sub FROM user_flags WHERE "+flagEndDue+" LIMIT @most",
			map[string]any{"now": now, "most": pageSize(0)}).Find(&subs).Error
		if err != nil {
			return next, fail(doing, err)
		}
		for _, sub := range subs {
			err := s.write(ctx, "end automatically", func(tx *engine.Tx) {
				// Without a lock of its own a row of a user who was deleted meanwhile ends too.
				tx.Exec("UPDATE users SET updated_at = updated_at WHERE sub = ?", sub)
				endDueOf(tx, sub)
			})
			if err != nil {
				return next, err
			}
		}
		if len(subs) > 0 {
			continue
		}
		var at int64
		err = s.conn(ctx).Raw(`SELECT coalesce(min(at), 0) FROM (
			SELECT min(ends_at) AS at FROM users WHERE ends_at > ? AND ends_at > 0 AND suspended_at = 0
			UNION ALL SELECT min(ends_at) FROM user_flags WHERE ends_at > ? AND ends_at > 0) ends`,
			now, now).Find(&at).Error
		return fromUnix(at), fail(doing, err)
	}
}

// reopenEnds makes ends due again that were carried out while the clock was ahead.
func (s *Store) reopenEnds(ctx context.Context) error {
	const coming = " WHERE end_done = 1 AND ends_at > @now"
	var found []int
	args := map[string]any{"now": s.Now()}
	find := s.conn(ctx).Raw("SELECT 1 FROM users"+coming+" UNION SELECT 1 FROM user_flags"+coming, args).Find(&found)
	if find.Error != nil || len(found) == 0 {
		return fail("find ends that were carried out early", find.Error)
	}
	return s.write(ctx, "reopen ends", func(tx *engine.Tx) {
		tx.Exec("UPDATE users SET end_done = 0"+coming, args)
		tx.Exec("UPDATE user_flags SET end_done = 0"+coming, args)
	})
}

// endDueOf carries out the end of the account of a user, whose row is locked, and of the flags, if that is due.
func endDueOf(tx *engine.Tx, sub string) {
	now := tx.Now()
	at := fromUnix(now)
	args := map[string]any{"sub": sub, "now": now}
	var handles []string
	tx.Find(&handles, "UPDATE users SET end_done = 1, updated_at = @now WHERE sub = @sub AND deleted_at = 0 AND "+
		accountEndDue+" RETURNING handle", args)
	for _, handle := range handles {
		row := account.ByItself(at, account.EndAccount, handle, "")
		insertAudit(tx, end(tx, sub, "", row, at).noted(row))
	}
	var flags []string
	tx.Find(&flags, "UPDATE user_flags SET end_done = 1 WHERE sub = @sub AND "+flagEndDue+" RETURNING flag", args)
	if len(flags) == 0 {
		return
	}
	slices.Sort(flags)
	var handle string
	tx.Find(&handle, "UPDATE users SET updated_at = ? WHERE sub = ? RETURNING handle", now, sub)
	v, err := settingsOf(tx.DB)
	tx.Refuse(err)
	row := account.ByItself(at, account.EndFlags, handle, strings.Join(flags, " "))
	if !v.SignOutOnFlagLoss {
		row.Ends = account.Ending{}
	}
	insertAudit(tx, end(tx, sub, "", row, at, revokeUnfit(tx, at, "g.sub = @sub", args)...).noted(row))
}

// endDueOfAll is endDueOf for users, of whom few are due.
func endDueOfAll(tx *engine.Tx, subs []string) {
	var due []string
	tx.Find(&due, "SELECT sub FROM users WHERE sub IN @subs AND "+accountEndDue+
		" UNION SELECT sub FROM user_flags WHERE sub IN @subs AND "+flagEndDue,
		map[string]any{"subs": subs, "now": tx.Now()})
	for _, sub := range due {
		endDueOf(tx, sub)
	}
}

// endWithFlags ends what an act ends by which users lose some of the flags.
func endWithFlags(
	tx *engine.Tx, losers []account.User, flags []string, a account.Audit, now time.Time, also ...revocation,
) map[string]ended {
	out := endOf(tx, subsOf(losers), "", a, now, also...)
	if !slices.Contains(flags, account.FlagAdmin) {
		return out
	}
	former := slices.DeleteFunc(slices.Clone(losers), func(u account.User) bool { return !u.Has(account.FlagAdmin) })
	addInvites(out, voidGiven(tx, "1 = 1", map[string]any{"now": toUnix(now), "subs": subsOf(former)}))
	addInvites(out, closeAdminInvites(tx, former, now))
	return out
}

// closeAdminInvites closes the open invites that users could make only as administrators.
func closeAdminInvites(tx *engine.Tx, users []account.User, now time.Time) (closed map[string]int) {
	_, closed = closeInvites(tx, "created_by IN @subs AND by_admin",
		map[string]any{"now": toUnix(now), "subs": subsOf(users)})
	return closed
}

// endRow is an account or a flag that ends.
type endRow struct {
	Sub, Flag string
	EndsAt    int64
	EndTold   int
}

// EndsToTell implements account.Store.
func (s *Store) EndsToTell(ctx context.Context, limit int) (all []account.ComingEnd, err error) {
	now := fromUnix(s.Now())
	for i, days := range account.EndNotices { // the earliest notice first
		until, from := now.Add(account.EndNotice(days)), now
		if i+1 < len(account.EndNotices) {
			from = now.Add(account.EndNotice(account.EndNotices[i+1]))
		}
		const untold = "ends_at > ? AND ends_at <= ? AND (end_told = 0 OR end_told > ?)"
		some, err := s.comingEnds(ctx, "find ends to tell", untold,
			limit, toUnix(from), toUnix(until), days)
		if err != nil {
			return nil, err
		}
		for j := range some {
			some[j].Days = days
		}
		all = append(all, some...)
	}
	return all, nil
}

// comingEnds finds what ends by a condition on ends_at and end_told, of users who are not suspended.
// What ends of a user at the same time is one, and the account alone if that ends.
func (s *Store) comingEnds(
	ctx context.Context, doing, condition string, limit int, args ...any,
) ([]account.ComingEnd, error) {
	var rows []endRow
	err := s.conn(ctx).Raw("SELECT sub, '' AS flag, ends_at, end_told FROM users"+
		" WHERE ends_at > 0 AND suspended_at = 0 AND "+condition+
		" UNION ALL SELECT sub, flag, ends_at, end_told FROM user_flags f WHERE ends_at > 0 AND "+condition+
		" AND EXISTS (SELECT 1 FROM users u WHERE u.sub = f.sub AND u.suspended_at = 0)"+
		" ORDER BY 3, 1, 2 LIMIT ?", slices.Concat(args, args, []any{limit})...).Find(&rows).Error
	if err != nil {
		return nil, fail(doing, err)
	}
	byUser, err := s.usersBySub(ctx, each(rows, func(r endRow) string { return r.Sub }))
	if err != nil {
		return nil, fail(doing, err)
	}
	var out []account.ComingEnd
	for _, r := range rows {
		u, found := byUser[r.Sub]
		if !found {
			continue
		}
		at := fromUnix(r.EndsAt)
		same := len(out) > 0 && out[len(out)-1].User.Sub == r.Sub && out[len(out)-1].At.Equal(at)
		if !same {
			out = append(out, account.ComingEnd{User: u, At: at, Account: r.Flag == ""})
		}
		if r.Flag != "" {
			e := &out[len(out)-1]
			e.Flags = append(e.Flags, r.Flag)
		}
	}
	return out, nil
}

// usersBySub reads users who are not deleted.
func (s *Store) usersBySub(ctx context.Context, subs []string) (map[string]account.User, error) {
	found := map[string]account.User{}
	for some := range slices.Chunk(subs, bulkRows) {
		var rows []storedUser
		err := s.conn(ctx).Raw("SELECT "+userColumns+" FROM users u WHERE u.sub IN ? AND u.deleted_at = 0",
			some).Find(&rows).Error
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			found[r.Row.Sub] = r.userAt(s.Now())
		}
	}
	return found, nil
}

// EndTold implements account.Store.
func (s *Store) EndTold(ctx context.Context, e account.ComingEnd, mails []account.Mail) error {
	return s.write(ctx, "note that an end was told", func(tx *engine.Tx) {
		const set = " SET end_told = @days WHERE sub = @sub AND ends_at = @at AND (end_told = 0 OR end_told > @days)"
		args := map[string]any{"days": e.Days, "sub": e.User.Sub, "at": toUnix(e.At),
			"flags": append([]string{""}, e.Flags...)}
		var told int64
		if e.Account {
			told = tx.Exec("UPDATE users"+set, args)
		}
		if told += tx.Exec("UPDATE user_flags"+set+" AND flag IN @flags", args); told > 0 {
			insertMails(tx, mails, fromUnix(tx.Now()))
		}
	})
}

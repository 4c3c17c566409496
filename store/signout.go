package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// signOutGrants is the condition on grants that a sign-out revokes. offline_access outlives the
// session (OpenID Connect Core section 11), except as a code that no client has spent yet.
const signOutGrants = " AND (NOT offline OR code_used_at = 0)"

// endSessions is endSessionsOf for one user, @sub.
func endSessions(
	tx *engine.Tx, sub string, now time.Time, sessions, grants string, args map[string]any, also ...revocation,
) ended {
	args["sub"] = sub
	return endSessionsOf(tx, []string{sub}, now, sessions, grants, args, also...)[sub]
}

// endSessionsOf ends the live sessions of users that meet one condition and revokes the users'
// grants that meet another. It adds the tokens of these sessions to the status list and notifies
// their clients. The conditions may use args, @subs and @now. also are further tokens for the list.
//
// The users' rows are locked. Sessions come before grants, because a grant that is being created
// holds its session. Lists come last: see takeIndex.
func endSessionsOf(
	tx *engine.Tx, subs []string, now time.Time, sessions, grants string, args map[string]any, also ...revocation,
) map[string]ended {
	args["subs"], args["now"] = subs, toUnix(now)
	out := map[string]ended{}
	var rows []struct {
		ID, Sub string
		Token   revocation `gorm:"embedded"`
	}
	query := "UPDATE sessions SET ended_at = @now WHERE sub IN @subs AND ended_at = 0 AND " + sessions +
		" RETURNING id, sub, status_list, status_index, expires_at"
	tx.Find(&rows, query, args)
	ids, tokens := make([]string, len(rows)), make([]revocation, len(rows))
	for i, r := range rows {
		ids[i], tokens[i] = r.ID, r.Token
		of := out[r.Sub]
		of.sessions = append(of.sessions, r.ID)
		if r.Token.ExpiresAt > toUnix(now) {
			of.live++
		}
		out[r.Sub] = of
	}
	tx.NoteRevoked(revokedSession, len(rows))
	revoked := revokedGrants(tx, now, "sub IN @subs AND "+grants, args)
	apps := map[[2]string]bool{}
	for _, r := range revoked {
		if app := [2]string{r.Sub, r.ClientID}; !apps[app] {
			apps[app] = true
			of := out[r.Sub]
			of.apps++
			out[r.Sub] = of
		}
	}
	addNotices(tx, subs, ids, now)
	revoke(tx, slices.Concat(tokens, tokensOf(revoked), also))
	return out
}

// ended is what an act has ended.
type ended struct {
	sessions []string // their ids
	live     int      // of these, those that had not expired
	apps     int      // whose grants were revoked
	invites  int
	factors  []account.MadeFactor // that were removed
}

// end is endOf for one user.
func end(tx *engine.Tx, sub, id string, a account.Audit, now time.Time, also ...revocation) ended {
	return endOf(tx, []string{sub}, id, a, now, also...)[sub]
}

// endOf ends what an act on users ends (account.Audit.Ends). id is the session that the act names, empty for
// the others; also are further tokens for the status list. The same transaction must have changed or locked
// the users' rows before: a session that is being created waits for that row and then finds it changed.
func endOf(
	tx *engine.Tx, subs []string, id string, a account.Audit, now time.Time, also ...revocation,
) map[string]ended {
	e, args := a.Ends, map[string]any{
		"subs": subs, "id": sanitize(id), "keep": sanitize(a.Session), "since": toUnix(a.Since), "now": toUnix(now),
		"apps": append([]string{""}, a.KeepApps...), "void": a.Void,
	}
	exec := func(on bool, statement string) {
		if on {
			tx.Exec(statement, args)
		}
	}
	exec(e.Consents, "DELETE FROM consents WHERE sub IN @subs AND granted_at >= @since")
	exec(e.Codes, "DELETE FROM reset_codes WHERE sub IN @subs")
	exec(e.Codes, "DELETE FROM mailed_reset_codes WHERE sub IN @subs")
	exec(e.Unverify, `UPDATE users SET email_verified = (1 = 0)
		WHERE sub IN @subs AND email_verified AND email_changed_at >= @since AND email_changed_at > 0`)
	exec(e.Password, "UPDATE users SET password_disowned_at = @now WHERE sub IN @subs")
	// Later than the last time, so that no mark of the same second stays.
	exec(e.Marks, `UPDATE users SET devices_voided_at =
		CASE WHEN devices_voided_at >= @now THEN devices_voided_at + 1 ELSE @now END WHERE sub IN @subs`)
	exec(e.Addresses != account.NoAddresses, "UPDATE users SET reset_address = '' WHERE sub IN @subs")
	these := func(column string) string { return endedSessions(e, column) }
	switch e.Pending {
	case account.SessionPending:
		dropPending(tx, "sub IN @subs AND "+these("email_pending_session_id"), args)
	case account.AllPending:
		dropPending(tx, "sub IN @subs", args)
	}
	exec(e.Codes,
		"UPDATE users SET email_asked_at = 0 WHERE sub IN @subs AND email_asked_at > 0 AND email_pending = ''")
	switch e.Addresses {
	case account.SessionAddresses:
		exec(true, "UPDATE sessions SET disowned = (1 = 1) WHERE sub IN @subs AND "+these("id"))
	case account.AllAddresses:
		exec(true, "UPDATE sessions SET disowned = (1 = 1) WHERE sub IN @subs")
	}
	grants := "1 = 0"
	switch e.Grants {
	case account.OnlineGrants:
		grants = these("sid") + signOutGrants
	case account.SessionGrants:
		grants = these("sid") + " AND client_id NOT IN @apps"
		exec(true, "DELETE FROM consents WHERE sub IN @subs AND client_id NOT IN @apps AND "+these("session_id"))
	case account.GroupGrants:
		grants = these("sid") + " AND (NOT offline OR code_used_at = 0 OR status_list > 0)"
	case account.AllGrants:
		grants = "1 = 1"
	}
	invites := ""
	switch e.Invites {
	case account.StaleInvites:
		invites = "stale AND " + these("session_id")
	case account.SessionInvites:
		invites = these("session_id")
	case account.RecentInvites:
		invites = "(stale OR created_at >= @since)"
	case account.AllInvites:
		invites = "1 = 1"
	}
	factors, closed := endFactors(tx, id, a, now, args), map[string]int{}
	if invites != "" {
		_, closed = closeInvites(tx, "created_by IN @subs AND NOT ("+acceptedRequest+") AND "+invites, args)
	}
	given := voidBy(tx, a, args)
	out := endSessionsOf(tx, subs, now, these("id"), grants, args, also...)
	addInvites(out, closed)
	addInvites(out, given)
	return addFactors(out, factors)
}

// endedSessions selects the sessions that end, by a column that has their ids.
func endedSessions(e account.Ending, column string) string {
	switch e.Sessions {
	case account.OneSession:
		return column + " = @id"
	case account.OtherSessions:
		return column + " <> @keep"
	case account.AllSessions:
		return "1 = 1"
	}
	return "1 = 0"
}

// addFactors adds the factors that were removed.
func addFactors(out map[string]ended, removed map[string][]account.MadeFactor) map[string]ended {
	for sub, factors := range removed {
		of := out[sub]
		of.factors = factors
		out[sub] = of
	}
	return out
}

// addInvites adds numbers of invites that were ended, by creator.
func addInvites(out map[string]ended, closed map[string]int) {
	for sub, n := range closed {
		of := out[sub]
		of.invites += n
		out[sub] = of
	}
}

// noted returns the audit row with what was ended. Its mails name the removed factors.
func (e ended) noted(a account.Audit) account.Audit {
	var words []string
	for _, part := range []struct {
		name string
		n    int
	}{{"sessions", e.live}, {"applications", e.apps}, {"invites", e.invites}} {
		if part.n > 0 {
			words = append(words, fmt.Sprintf("%s %d", part.name, part.n))
		}
	}
	if removed := account.FactorNames(e.factors); removed != "" {
		words = append(words, strings.ReplaceAll(removed, "\n", ", "))
		a.Mails = slices.Clone(a.Mails)
		for i := range a.Mails {
			a.Mails[i].Data = maps.Clone(a.Mails[i].Data)
			a.Mails[i].Data[account.MailRemoved] = removed
		}
	}
	if len(words) > 0 {
		a.Detail = strings.TrimSpace(a.Detail + " (ended: " + strings.Join(words, ", ") + ")")
	}
	return a
}

// signOutSurplus ends those of the live sessions of a user that are more than keep, to make room for a new one: see
// account.Surplus.
func signOutSurplus(tx *engine.Tx, sub string, keep int, now time.Time) {
	var more []string
	tx.Find(&more, "SELECT s.id "+newestSessions+" ORDER BY s.created_at DESC, s.id DESC LIMIT ? OFFSET ?",
		sub, toUnix(now), noticeBatch, keep)
	if len(more) == 0 {
		return
	}
	var rows []sessionRow
	tx.Find(&rows, "SELECT s.id, s.created_at, s.address, s.known_since "+newestSessions+
		" ORDER BY s.created_at, s.id LIMIT ?", sub, toUnix(now), keep+len(more))
	ids := account.Surplus(each(rows, sessionRow.session), len(more))
	endSessions(tx, sub, now, "id IN @ids", "sid IN @ids"+signOutGrants, map[string]any{"ids": ids})
}

// EndSession implements account.Store.
func (s *Store) EndSession(ctx context.Context, sub, id string, now time.Time, a account.Audit) error {
	return s.act(ctx, "end session", a, func(tx *engine.Tx) {
		lockUserOr(tx, sub, account.ErrSessionNotFound)
		if out := end(tx, sub, id, a, now); len(out.sessions) == 0 {
			tx.Refuse(account.ErrSessionNotFound)
		}
		insertAudit(tx, a)
	}, sub)
}

// EndSessions implements account.Store.
func (s *Store) EndSessions(ctx context.Context, sub string, now time.Time, a account.Audit) (n int, err error) {
	err = s.act(ctx, "end sessions", a, func(tx *engine.Tx) {
		lockUser(tx, sub)
		out := s.endRenewing(tx, sub, a, now)
		if n = out.live; n > 0 || out.apps > 0 || out.invites > 0 || len(out.factors) > 0 || len(a.Void) > 0 {
			insertAudit(tx, out.noted(a))
		}
	}, sub)
	return n, err
}

// DisownSession implements account.Store.
func (s *Store) DisownSession(
	ctx context.Context, sub, id, mailed string, code account.ResetCode, again time.Duration, now time.Time,
	a account.Audit,
) (out account.Disowned, err error) {
	err = s.write(ctx, "disown session", func(tx *engine.Tx) {
		u := lockedUser(tx, sub)
		current, owners := checkMailbox(tx, u, mailed, now)
		if !current { // the other mailboxes may be a thief's
			tx.Exec("UPDATE users SET email_verified = (1 = 0) WHERE sub = ? AND email_changed_at >= ?", sub,
				toUnix(now.Add(-account.Recently)))
			tx.Exec(`UPDATE email_changes SET undone_at = @now WHERE sub = @sub AND undone_at = 0 AND seq >
				(SELECT min(seq) FROM email_changes WHERE sub = @sub AND undone_at = 0 AND expires_at > @now
					AND lower(email) = lower(@mailed))`,
				map[string]any{"sub": sub, "mailed": sanitize(mailed), "now": toUnix(now)})
		}
		var row struct {
			CreatedAt         int64
			Reported, Renewed bool
		}
		tx.Expect(tx.Find(&row, `SELECT s.created_at, s.reported_at <> 0 AS reported,
			s.created_at < u.reset_at AND u.reset_at <= ? AS renewed
			FROM sessions s JOIN users u ON u.sub = s.sub WHERE s.id = ? AND s.sub = ?`, toUnix(now), id, sub),
			account.ErrInvalidLink)
		if row.Reported {
			if now.After(u.PasswordDisownedAt.Add(again)) { // also where a new one was set
				tx.Refuse(account.ErrInvalidLink)
				return
			}
			setOwnCode(tx, sub, code, now)
			out.Since = fromUnix(row.CreatedAt)
			return
		}
		reported := toUnix(now)
		if !owners {
			reported = -reported
		}
		tx.Exec("UPDATE sessions SET reported_at = ? WHERE id = ?", reported, id)
		a := a
		a.Since, a.Ends.Password = fromUnix(row.CreatedAt), !row.Renewed || !current
		out = disown(tx, u, id, code, current, now, a)
	})
	return out, err
}

// checkMailbox refuses a link that was mailed to an address which is not the owner's any more: whoever changed it reads
// the notices that came meanwhile, also after the undo. It reports whether it is the present address, and whether it is
// that from before every change that can be undone.
func checkMailbox(tx *engine.Tx, u account.User, mailed string, now time.Time) (current, first bool) {
	var former []string
	tx.Find(&former, "SELECT email FROM email_changes WHERE sub = ? AND undone_at = 0 AND expires_at > ? ORDER BY seq",
		u.Sub, toUnix(now))
	i := slices.IndexFunc(former, func(email string) bool { return strings.EqualFold(email, mailed) })
	current = u.EmailVerified && strings.EqualFold(u.Email, mailed)
	if !current && i < 0 {
		tx.Refuse(account.ErrInvalidLink)
	}
	return current, i == 0 || current && len(former) == 0
}

// disown ends what somebody else may hold of the account of u since their session id, or the first of the same hand,
// and writes the row. The code sets a new password. The mailbox alone gives none to an account that has none,
// unless one of these or a later session that falls removed it, as recently as a factor that falls. A
// reset after a change of address is the owner's if the link went to the present address (current), or if a session was
// reported in between by the mailbox from before: the present one may be a thief's.
func disown(
	tx *engine.Tx, u account.User, id string, code account.ResetCode, current bool, now time.Time, a account.Audit,
) account.Disowned {
	args := map[string]any{"sub": u.Sub, "handle": u.Handle, "now": toUnix(now), "since": toUnix(a.Since),
		"current": current, "moved": max(1, toUnix(u.EmailChangedAt)), "reset": account.ResetFactors.Action,
		"remove": account.RemovePassword.Action, "opened": account.SignIn.Action, "lost": account.LostPassword,
		"young": toUnix(now.Add(-account.FactorUndo))}
	var rows []sessionRow
	tx.Find(&rows, `SELECT s.id, s.created_at, s.ended_at, s.address, s.known_since, s.passkey, s.amr FROM sessions s
		WHERE s.sub = @sub ORDER BY s.created_at, s.id`, args)
	list, reported := each(rows, sessionRow.session), account.Session{ID: id}
	var opened []string
	tx.Find(&opened, `SELECT session_id FROM audit WHERE target = @handle AND at >= @since AND action = @opened
		AND detail LIKE '`+account.MethodPassword+`%'`, args)
	for i, n := range list {
		if slices.Contains(opened, n.ID) {
			list[i].AMR = append(n.AMR, account.MethodPassword)
		}
	}
	var made []struct {
		ID        []byte
		SessionID string
		CreatedAt int64 `gorm:"autoCreateTime:false"`
	}
	tx.Find(&made, "SELECT id, session_id, created_at FROM passkeys WHERE sub = @sub", args)
	keys := map[string]account.KeyMade{}
	for _, k := range made {
		keys[string(k.ID)] = account.KeyMade{By: k.SessionID, At: fromUnix(k.CreatedAt)}
	}
	if i := slices.IndexFunc(list, func(n account.Session) bool { return n.ID == id }); i >= 0 {
		reported = list[i]
		delete(keys, string(reported.Passkey))
		for _, n := range reported.SameHand(list, now.Add(-account.FactorUndo)) {
			a.Earlier = append(a.Earlier, n.ID)
			delete(keys, string(n.Passkey))
			if n.CreatedAt.Before(a.Since) {
				a.Since = n.CreatedAt
			}
		}
	}
	var renewed struct{ Password, Factors int64 }
	tx.Find(&renewed, `SELECT
		coalesce((SELECT u.reset_at FROM users u WHERE u.sub = @sub AND u.reset_at > @since AND u.reset_at <= @now
			AND (@current OR EXISTS (SELECT 1 FROM sessions s
				WHERE s.sub = @sub AND s.reported_at BETWEEN @moved AND u.reset_at))), 0) AS password,
		coalesce((SELECT max(at) FROM audit WHERE target = @handle AND action = @reset AND at > @since AND at <= @now),
			0) AS factors`, args)
	a.Owners = reported.Owners(list, a.Since, keys, fromUnix(renewed.Password), fromUnix(renewed.Factors))
	args["earlier"], args["owners"] = append([]string{""}, a.Earlier...), append(a.Owners, "none")
	lost := u.Passwordless() && tx.Exec(`UPDATE users SET password_hash = @lost WHERE sub = @sub
		AND EXISTS (SELECT 1 FROM sessions s
			WHERE s.sub = @sub AND (s.created_at >= @since AND s.id NOT IN @owners OR s.id IN @earlier)
			AND s.id = (SELECT session_id FROM audit WHERE target = @handle AND at >= @young AND action = @remove
				ORDER BY at DESC, id DESC LIMIT 1))`, args) > 0
	if lost {
		u.PasswordHash = account.LostPassword
	}
	a.Ends.Password = lost || a.Ends.Password && !u.Passwordless()
	out := end(tx, u.Sub, id, a, now)
	if !u.Passwordless() {
		setOwnCode(tx, u.Sub, code, now)
	}
	insertAudit(tx, out.noted(a))
	return account.Disowned{Since: a.Since, Removed: out.factors}
}

// MadeByOthers implements account.Store.
func (s *Store) MadeByOthers(ctx context.Context, sub, keep string, now time.Time) (account.Made, error) {
	const doing = "list what other sessions made"
	var made account.Made
	at := toUnix(now)
	var counts struct{ Sessions, Invites int }
	err := s.conn(ctx).Raw(`SELECT
		(SELECT count(*) FROM sessions WHERE sub = ? AND id <> ? AND ended_at = 0 AND expires_at > ?) AS sessions,
		(SELECT count(*) FROM invites
			WHERE created_by = ? AND session_id <> ? AND NOT (`+acceptedRequest+`)
				AND used_at = 0 AND expires_at > ?) AS invites`,
		sub, keep, at, sub, keep, at).Find(&counts).Error
	if err != nil {
		return made, fail(doing, err)
	}
	var rows []appRow
	err = s.conn(ctx).Raw(`SELECT k.id AS client_id, k.name FROM clients k WHERE EXISTS
		(SELECT 1 FROM grants g WHERE g.client_id = k.id AND g.sub = ? AND g.sid <> ? AND `+liveGrant+`)
		ORDER BY k.name, k.id`, sub, keep, at, at).Find(&rows).Error
	if err == nil {
		made.Given, err = s.givenBy(ctx, sub, keep, now)
	}
	made.Sessions, made.Invites, made.Apps = counts.Sessions, counts.Invites, each(rows, appRow.app)
	return made, fail(doing, err)
}

// Kinds of engine.Observer.Revoked: sessions, grants, and tokens that clients got for themselves.
const (
	revokedSession = "session"
	revokedGrant   = "grant"
	revokedToken   = "token"
)

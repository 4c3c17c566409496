package store

import (
	"context"
	"errors"
	"fmt"
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
) (ended, error) {
	args["sub"] = sub
	out, err := endSessionsOf(tx, []string{sub}, now, sessions, grants, args, also...)
	return out[sub], err
}

// endSessionsOf ends the live sessions of users that meet one condition and revokes the users'
// grants that meet another. It adds the tokens of these sessions to the status list and notifies
// their clients. The conditions may use args, @subs and @now. also are further tokens for the list.
//
// The users' rows are locked. Sessions come before grants, because a grant that is being created
// holds its session. Lists come last: see takeIndex.
func endSessionsOf(
	tx *engine.Tx, subs []string, now time.Time, sessions, grants string, args map[string]any, also ...revocation,
) (map[string]ended, error) {
	args["subs"], args["now"] = subs, toUnix(now)
	out := map[string]ended{}
	var rows []struct {
		ID, Sub string
		Token   revocation `gorm:"embedded"`
	}
	query := "UPDATE sessions SET ended_at = @now WHERE sub IN @subs AND ended_at = 0 AND " + sessions +
		" RETURNING id, sub, status_list, status_index, expires_at"
	if err := tx.Raw(query, args).Find(&rows).Error; err != nil {
		return out, err
	}
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
	revoked, err := revokedGrants(tx, now, "sub IN @subs AND "+grants, args)
	if err != nil {
		return out, err
	}
	apps := map[[2]string]bool{}
	for _, r := range revoked {
		if app := [2]string{r.Sub, r.ClientID}; !apps[app] {
			apps[app] = true
			of := out[r.Sub]
			of.apps++
			out[r.Sub] = of
		}
	}
	if err := addNotices(tx, subs, ids, now); err != nil {
		return out, err
	}
	return out, revoke(tx, slices.Concat(tokens, tokensOf(revoked), also))
}

// ended is what an act has ended.
type ended struct {
	sessions []string // their ids
	live     int      // of these, those that had not expired
	apps     int      // whose grants were revoked
	invites  int
}

// end is endOf for one user.
func end(
	tx *engine.Tx, sub, id string, a account.Audit, now time.Time, also ...revocation,
) (ended, error) {
	out, err := endOf(tx, []string{sub}, id, a, now, also...)
	return out[sub], err
}

// endOf ends what an act on users ends (account.Audit.Ends). id is the session that the act names, empty for
// the others; also are further tokens for the status list. The same transaction must have changed or locked
// the users' rows before: a session that is being created waits for that row and then finds it changed.
func endOf(
	tx *engine.Tx, subs []string, id string, a account.Audit, now time.Time, also ...revocation,
) (out map[string]ended, err error) {
	if len(subs) == 0 {
		return nil, nil
	}
	e, args := a.Ends, map[string]any{
		"subs": subs, "id": sanitize(id), "keep": sanitize(a.Session), "since": toUnix(a.Since), "now": toUnix(now),
		"apps": append([]string{""}, a.KeepApps...),
	}
	exec := func(on bool, statement string) {
		if on && err == nil {
			err = tx.Exec(statement, args).Error
		}
	}
	exec(e.Codes, "DELETE FROM reset_codes WHERE sub IN @subs")
	exec(e.Codes, "DELETE FROM mailed_reset_codes WHERE sub IN @subs")
	exec(e.Codes, "UPDATE users SET email_asked_at = 0 WHERE sub IN @subs AND email_asked_at > 0")
	exec(e.Unverify, `UPDATE users SET email_verified = (1 = 0)
		WHERE sub IN @subs AND email_verified AND email_changed_at >= @since AND email_changed_at > 0`)
	exec(e.Password, "UPDATE users SET password_disowned_at = @now WHERE sub IN @subs")
	// Later than the last time, so that no mark of the same second stays.
	exec(e.Marks, `UPDATE users SET devices_voided_at =
		CASE WHEN devices_voided_at >= @now THEN devices_voided_at + 1 ELSE @now END WHERE sub IN @subs`)
	exec(e.Addresses != account.NoAddresses, "UPDATE users SET reset_address = '' WHERE sub IN @subs")
	// these selects sessions by a column that has their ids.
	these := func(column string) string {
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
		exec(e.Invites == account.RecentInvites, "DELETE FROM consents WHERE sub IN @subs AND granted_at >= @since")
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
	if err != nil {
		return out, err
	}
	var voided map[string]int
	if invites != "" {
		if _, voided, err = closeInvites(tx, "created_by IN @subs AND "+invites, args); err != nil {
			return out, err
		}
	}
	out, err = endSessionsOf(tx, subs, now, these("id"), grants, args, also...)
	for sub, n := range voided {
		of := out[sub]
		of.invites = n
		out[sub] = of
	}
	return out, err
}

// noted returns the audit row with what was ended.
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
	if len(words) > 0 {
		a.Detail = strings.TrimSpace(a.Detail + " (ended: " + strings.Join(words, ", ") + ")")
	}
	return a
}

// signOutOldest ends all live sessions of a user except the newest keep, to make room for a new
// one.
func signOutOldest(tx *engine.Tx, sub string, keep int, now time.Time) error {
	for {
		var ids []string
		err := tx.Raw("SELECT s.id "+newestSessions+" ORDER BY s.created_at DESC, s.id DESC LIMIT ? OFFSET ?",
			sub, toUnix(now), noticeBatch, keep).Find(&ids).Error
		if err != nil || len(ids) == 0 {
			return err
		}
		_, err = endSessions(tx, sub, now, "id IN @ids", "sid IN @ids"+signOutGrants, map[string]any{"ids": ids})
		if err != nil || len(ids) < noticeBatch {
			return err
		}
	}
}

// EndSession implements account.Store.
func (s *Store) EndSession(ctx context.Context, sub, id string, now time.Time, a account.Audit) error {
	if invalidKey(sub) || invalidKey(id) {
		return account.ErrSessionNotFound
	}
	return s.write(ctx, "end session", func(tx *engine.Tx) error {
		if err := lockUser(tx, sub); errors.Is(err, account.ErrUserNotFound) {
			return account.ErrSessionNotFound
		} else if err != nil {
			return err
		}
		out, err := end(tx, sub, id, a, now)
		switch {
		case err != nil:
			return err
		case len(out.sessions) == 0:
			return account.ErrSessionNotFound
		}
		return insertAudit(tx, a)
	})
}

// EndSessions implements account.Store.
func (s *Store) EndSessions(ctx context.Context, sub string, now time.Time, a account.Audit) (n int, err error) {
	err = s.write(ctx, "end sessions", func(tx *engine.Tx) error {
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		out, err := end(tx, sub, "", a, now)
		if n = out.live; err != nil || n == 0 && out.apps == 0 && out.invites == 0 {
			return err
		}
		return insertAudit(tx, out.noted(a))
	})
	return n, err
}

// DisownSession implements account.Store.
func (s *Store) DisownSession(
	ctx context.Context, sub, id string, code account.ResetCode, again time.Duration, now time.Time, a account.Audit,
) (began time.Time, err error) {
	if invalidKey(sub) || invalidKey(id) {
		return began, account.ErrUserNotFound
	}
	err = s.write(ctx, "disown session", func(tx *engine.Tx) error {
		u, err := lockedUser(tx, sub)
		if err != nil {
			return err
		}
		row := struct {
			CreatedAt int64
			Reported  bool
		}{CreatedAt: toUnix(a.Since)}
		query := "SELECT created_at, reported_at > 0 AS reported FROM sessions WHERE id = ? AND sub = ?"
		found := tx.Raw(query, id, sub).Find(&row)
		if found.Error != nil {
			return found.Error
		}
		if found.RowsAffected == 0 { // the link may outlive the row: on a shared computer by days
			first := tx.Exec("INSERT INTO spent (expires_at, hash) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING",
				toUnix(now.Add(account.NotMeLifetime)), account.HashSecret("not me "+id))
			if first.Error != nil {
				return first.Error
			}
			row.Reported = first.RowsAffected == 0
		}
		began = fromUnix(row.CreatedAt)
		if row.Reported {
			if at := u.PasswordDisownedAt; at.IsZero() || now.After(at.Add(again)) {
				return account.ErrInvalidLink
			}
			return setResetCode(tx, sub, code.Hash, code.ExpiresAt, now)
		}
		if err := tx.Exec("UPDATE sessions SET reported_at = ? WHERE id = ?", toUnix(now), id).Error; err != nil {
			return err
		}
		a := a
		a.Since = began
		if u.Passwordless() { // the mailbox alone must not give it a password
			a.Ends.Password = false
		}
		out, err := end(tx, sub, id, a, now)
		if err != nil {
			return err
		}
		if !a.Ends.Password {
			return insertAudit(tx, out.noted(a))
		}
		if err := setResetCode(tx, sub, code.Hash, code.ExpiresAt, now); err != nil {
			return err
		}
		return insertAudit(tx, out.noted(a))
	})
	return began, err
}

// MadeByOthers implements account.Store.
func (s *Store) MadeByOthers(ctx context.Context, sub, keep string, now time.Time) (account.Made, error) {
	const doing = "list what other sessions made"
	var made account.Made
	if invalidKey(sub) {
		return made, nil
	}
	at := toUnix(now)
	var counts struct{ Sessions, Invites int }
	err := s.conn(ctx).Raw(`SELECT
		(SELECT count(*) FROM sessions WHERE sub = ? AND id <> ? AND ended_at = 0 AND expires_at > ?) AS sessions,
		(SELECT count(*) FROM invites
			WHERE created_by = ? AND (session_id <> ? OR session_id = '') AND used_at = 0 AND expires_at > ?) AS invites`,
		sub, keep, at, sub, keep, at).Find(&counts).Error
	if err != nil {
		return made, fail(doing, err)
	}
	var rows []appRow
	err = s.conn(ctx).Raw(`SELECT k.id AS client_id, k.name FROM clients k WHERE EXISTS
		(SELECT 1 FROM grants g WHERE g.client_id = k.id AND g.sub = ? AND g.sid <> ? AND `+liveGrant+`)
		ORDER BY k.name, k.id`, sub, keep, at, at).Find(&rows).Error
	made.Sessions, made.Invites, made.Apps = counts.Sessions, counts.Invites, each(rows, appRow.app)
	return made, fail(doing, err)
}

// Kinds of engine.Observer.Revoked: sessions, grants, and tokens that clients got for themselves.
const (
	revokedSession = "session"
	revokedGrant   = "grant"
	revokedToken   = "token"
)

package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account"
)

// signOutGrants is the condition on grants that a sign-out revokes. offline_access outlives the
// session (OpenID Connect Core section 11), except as a code that no client has spent yet.
const signOutGrants = " AND (NOT offline OR code_used_at = 0)"

// endSessions ends the live sessions of a user that meet one condition and revokes the user's
// grants that meet another. It adds the tokens of these sessions to the status list and notifies
// their clients. The conditions may use args, @sub and @now. also are further tokens for the list.
//
// The user's row is locked. Sessions come before grants, because a grant that is being created
// holds its session. Lists come last: see takeIndex.
func endSessions(
	tx *transaction, sub string, now time.Time, sessions, grants string, args map[string]any, also ...revocation,
) (out ended, err error) {
	args["sub"], args["now"] = sub, toUnix(now)
	var rows []struct {
		ID    string
		Token revocation `gorm:"embedded"`
	}
	query := "UPDATE sessions SET ended_at = @now WHERE sub = @sub AND ended_at = 0 AND " + sessions +
		" RETURNING id, status_list, status_index, expires_at"
	if err := tx.Raw(query, args).Find(&rows).Error; err != nil {
		return out, err
	}
	tokens := make([]revocation, len(rows))
	for i, r := range rows {
		out.sessions, tokens[i] = append(out.sessions, r.ID), r.Token
		if r.Token.ExpiresAt > toUnix(now) {
			out.live++
		}
	}
	tx.noteRevoked(revokedSession, len(rows))
	n, forAPIs, err := revokeGrants(tx, now, "sub = @sub AND "+grants, args)
	if err != nil {
		return out, err
	}
	out.grants = int(n)
	if err := addNotices(tx, sub, out.sessions, now); err != nil {
		return out, err
	}
	return out, revoke(tx, slices.Concat(tokens, forAPIs, also))
}

// ended is what an act has ended.
type ended struct {
	sessions []string // their ids
	live     int      // of these, those that had not expired
	grants   int
}

// end ends what an act ends (account.Audit.Ends). id is the session that the act names, empty for the others; also are
// further tokens for the status list. The same transaction must have changed or locked the user's
// row before: a session that is being created waits for that row and then finds it changed.
func end(
	tx *transaction, sub, id string, a account.Audit, now time.Time, also ...revocation,
) (out ended, err error) {
	e := a.Ends
	if e.Codes {
		err := execEach(tx, sub, "DELETE FROM reset_codes WHERE sub = ?", "DELETE FROM mailed_reset_codes WHERE sub = ?")
		if err != nil {
			return out, err
		}
	}
	if e.Marks {
		if err := tx.Exec("UPDATE users SET devices_voided_at = ? WHERE sub = ?", toUnix(now), sub).Error; err != nil {
			return out, err
		}
	}
	these, of := "1 = 0", "1 = 0" // the sessions, and the condition on the grants that they made
	switch e.Sessions {
	case account.OneSession:
		these, of = "id = @id", "sid = @id"
	case account.OtherSessions:
		these, of = "id <> @keep", "sid <> @keep"
	case account.AllSessions:
		these, of = "1 = 1", "1 = 1"
	}
	grants := "1 = 0"
	switch e.Grants {
	case account.OnlineGrants:
		grants = of + signOutGrants
	case account.SessionGrants:
		grants = of
	case account.GroupGrants:
		grants = of + " AND (NOT offline OR code_used_at = 0 OR status_list > 0)"
	case account.AllGrants:
		grants = "1 = 1"
	}
	args := map[string]any{"id": sanitize(id), "keep": sanitize(a.Session)}
	return endSessions(tx, sub, now, these, grants, args, also...)
}

// signOutOldest ends all live sessions of a user except the newest keep, to make room for a new
// one.
func signOutOldest(tx *transaction, sub string, keep int, now time.Time) error {
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
	return s.write(ctx, "end session", func(tx *transaction) error {
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
	err = s.write(ctx, "end sessions", func(tx *transaction) error {
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		out, err := end(tx, sub, "", a, now)
		if n = out.live; err != nil || n == 0 && out.grants == 0 {
			return err
		}
		return insertAudit(tx, a)
	})
	return n, err
}

// DisownSession implements account.Store.
func (s *Store) DisownSession(
	ctx context.Context, sub, id string, now time.Time, a account.Audit,
) (began time.Time, err error) {
	if invalidKey(sub) || invalidKey(id) {
		return began, account.ErrSessionNotFound
	}
	err = s.write(ctx, "disown session", func(tx *transaction) error {
		if err := lockUser(tx, sub); errors.Is(err, account.ErrUserNotFound) {
			return account.ErrSessionNotFound
		} else if err != nil {
			return err
		}
		var row struct {
			CreatedAt int64
			Disowned  bool
		}
		found := tx.Raw("SELECT created_at, disowned FROM sessions WHERE id = ? AND sub = ?", id, sub).Find(&row)
		if err := expect(found, account.ErrSessionNotFound); err != nil {
			return err
		}
		if began = fromUnix(row.CreatedAt); row.Disowned {
			return nil // done already
		}
		if err := tx.Exec("UPDATE sessions SET disowned = (1 = 1) WHERE id = ?", id).Error; err != nil {
			return err
		}
		if _, err := end(tx, sub, id, a, now); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
	return began, err
}

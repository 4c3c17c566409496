package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// signOutGrants is the condition on grants that a sign-out revokes. offline_access outlives the
// session (OpenID Connect Core section 11), except as a code that no client has spent yet.
const signOutGrants = " AND (NOT offline OR code_used_at = 0)"

// endSessions ends the live sessions of a user that meet one condition and revokes the user's
// grants that meet another. It adds the tokens of these sessions to the status list and notifies
// their clients. It returns the ids of the sessions. The conditions may use args, @sub and @now. also
// are further tokens for the list.
//
// The user's row is locked. Sessions come before grants, because a grant that is being created
// holds its session. Lists come last: see takeIndex.
func endSessions(
	tx *gorm.DB, sub string, now time.Time, sessions, grants string, args map[string]any, also ...revocation,
) ([]string, error) {
	args["sub"], args["now"] = sub, toUnix(now)
	var rows []struct {
		ID    string
		Token revocation `gorm:"embedded"`
	}
	query := "UPDATE sessions SET ended_at = @now WHERE sub = @sub AND ended_at = 0 AND " + sessions +
		" RETURNING id, status_list, status_index, expires_at"
	err := tx.Raw(query, args).Find(&rows).Error
	if err != nil {
		return nil, err
	}
	ids, tokens := make([]string, len(rows)), make([]revocation, len(rows))
	for i, r := range rows {
		ids[i], tokens[i] = r.ID, r.Token
	}
	noteRevoked(tx.Statement.Context, revokedSession, int64(len(rows)))
	_, forAPIs, err := revokeGrants(tx, now, "sub = @sub AND "+grants, args)
	if err != nil {
		return nil, err
	}
	if err := addNotices(tx, sub, ids, now); err != nil {
		return nil, err
	}
	return ids, revoke(tx, slices.Concat(tokens, forAPIs, also))
}

// revokeAccess ends all that a user or a thief holds: sessions (except keep, if not empty), every
// grant, also of sessions that ended earlier, reset codes, and further tokens. The same transaction
// must have changed or locked the user's row before: a session that is being created waits for that
// row and then finds it changed.
func revokeAccess(tx *gorm.DB, sub, keep string, now time.Time, also ...revocation) error {
	err := execEach(tx, sub, "DELETE FROM reset_codes WHERE sub = ?", "DELETE FROM mailed_reset_codes WHERE sub = ?")
	if err != nil {
		return err
	}
	_, err = endSessions(tx, sub, now, "id <> @keep", "sub = @sub", map[string]any{"keep": keep}, also...)
	return err
}

// signOut ends one session. ErrSessionNotFound.
func signOut(tx *gorm.DB, sub, id string, now time.Time) error {
	ended, err := endSessions(tx, sub, now, "id = @id", "sid = @id"+signOutGrants, map[string]any{"id": id})
	if err == nil && len(ended) == 0 {
		return account.ErrSessionNotFound
	}
	return err
}

// signOutOthers ends all sessions except keep, which may be empty, and returns how many.
func signOutOthers(tx *gorm.DB, sub, keep string, now time.Time) (int, error) {
	ended, err := endSessions(tx, sub, now, "id <> @keep AND expires_at > @now", "sid <> @keep"+signOutGrants,
		map[string]any{"keep": keep})
	return len(ended), err
}

// signOutOldest ends all live sessions of a user except the newest keep, to make room for a new
// one.
func signOutOldest(tx *gorm.DB, sub string, keep int, now time.Time) error {
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
	return s.write(ctx, "end session", func(tx *gorm.DB) error {
		if err := lockUser(tx, sub); errors.Is(err, account.ErrUserNotFound) {
			return account.ErrSessionNotFound
		} else if err != nil {
			return err
		}
		if err := signOut(tx, sub, id, now); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// EndOtherSessions implements account.Store.
func (s *Store) EndOtherSessions(
	ctx context.Context, sub, keep string, now time.Time, a account.Audit,
) (n int, err error) {
	err = s.write(ctx, "end other sessions", func(tx *gorm.DB) (err error) {
		if err = lockUser(tx, sub); err != nil {
			return err
		}
		if n, err = signOutOthers(tx, sub, sanitize(keep), now); err != nil || n == 0 {
			return err
		}
		return insertAudit(tx, a)
	})
	return n, err
}

// EndAllAccess implements account.Store.
func (s *Store) EndAllAccess(ctx context.Context, sub string, now time.Time, a account.Audit) (n int, err error) {
	err = s.write(ctx, "end all access", func(tx *gorm.DB) error {
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		var granted []int
		err := tx.Raw("SELECT 1 FROM grants WHERE sub = ? AND revoked_at = 0 LIMIT 1", sub).Find(&granted).Error
		if err != nil {
			return err
		}
		ended, err := endSessions(tx, sub, now, "expires_at > @now", "sub = @sub", map[string]any{})
		if n = len(ended); err != nil || n == 0 && len(granted) == 0 {
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
	err = s.write(ctx, "disown session", func(tx *gorm.DB) error {
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
		if err := tx.Exec("UPDATE users SET devices_voided_at = ? WHERE sub = ?", toUnix(now), sub).Error; err != nil {
			return err
		}
		if err := tx.Exec("UPDATE sessions SET disowned = (1 = 1) WHERE id = ?", id).Error; err != nil {
			return err
		}
		if _, err := endSessions(tx, sub, now, "id = @id", "sid = @id", map[string]any{"id": id}); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
	return began, err
}

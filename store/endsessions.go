package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// ending is the choice of sessions that end together.
type ending struct {
	sub    string // theirs; the row of the user is locked
	where  string // further conditions on sessions, with their args; empty: all
	args   []any
	grants string // further conditions on the grants that end with them
	with   []any
}

// keepsOffline leaves alone the grants that a sign-out does not touch
// (offline_access), but not a code that nobody has spent yet.
const keepsOffline = " AND (NOT offline OR code_used_at = 0)"

// endSessions ends sessions that have not ended: they and the grants made in them
// count no more, their tokens are in the status list, and their clients will be
// told. It returns their ids. Sessions come before grants: a grant that is being
// made holds its session. Lists come last: see takeIndex.
func endSessions(tx *gorm.DB, e ending, now time.Time) ([]string, error) {
	var rows []struct {
		ID    string
		Token revocation `gorm:"embedded"`
	}
	err := tx.Raw("UPDATE sessions SET ended_at = ? WHERE sub = ? AND ended_at = 0"+e.where+" RETURNING id, status_list, status_index, expires_at",
		append([]any{seconds(now), e.sub}, e.args...)...).Find(&rows).Error
	if err != nil {
		return nil, err
	}
	ids, tokens := make([]string, 0, len(rows)), make([]revocation, 0, len(rows))
	for _, r := range rows {
		ids, tokens = append(ids, r.ID), append(tokens, r.Token)
	}
	err = tx.Exec("UPDATE grants SET revoked_at = ? WHERE sub = ? AND revoked_at = 0"+e.grants, append([]any{seconds(now), e.sub}, e.with...)...).Error
	if err != nil {
		return nil, err
	}
	if err := noteLogouts(tx, e.sub, ids, now); err != nil {
		return nil, err
	}
	return ids, revoke(tx, tokens)
}

// endAll ends whatever a person or a thief holds: sessions (but keep, if not
// empty), every grant, also of sessions that ended earlier, and reset codes. The row
// of the user must have been changed or locked before, in the same transaction: a
// session that is being made waits for that row and then finds it changed.
func endAll(tx *gorm.DB, sub, keep string, now time.Time) error {
	if err := tx.Exec("DELETE FROM reset_codes WHERE sub = ?", sub).Error; err != nil {
		return err
	}
	_, err := endSessions(tx, ending{sub: sub, where: " AND id <> ?", args: []any{keep}}, now)
	return err
}

// endEverywhere signs a user out of all browsers but keep, which may be empty.
func endEverywhere(tx *gorm.DB, sub, keep string, now time.Time) ([]string, error) {
	return endSessions(tx, ending{
		sub: sub, where: " AND id <> ? AND expires_at > ?", args: []any{keep, seconds(now)}, grants: " AND sid <> ?" + keepsOffline, with: []any{keep},
	}, now)
}

// EndSession implements account.Store.
func (s *Store) EndSession(ctx context.Context, sub, id string, now time.Time) error {
	if odd(sub) || odd(id) {
		return account.ErrSessionNotFound
	}
	return s.write(ctx, "end session", func(tx *gorm.DB) error {
		if err := lockUser(tx, sub); errors.Is(err, account.ErrUserNotFound) {
			return account.ErrSessionNotFound
		} else if err != nil {
			return err
		}
		return endOne(tx, sub, id, now)
	})
}

func endOne(tx *gorm.DB, sub, id string, now time.Time) error {
	one := []any{id}
	ended, err := endSessions(tx, ending{sub: sub, where: " AND id = ?", args: one, grants: " AND sid = ?" + keepsOffline, with: one}, now)
	if err == nil && len(ended) == 0 {
		return account.ErrSessionNotFound
	}
	return err
}

// endOldest ends the live sessions of a user but the newest keep, to make room for one
// more. The row of the user is locked: nobody else makes one meanwhile.
func endOldest(tx *gorm.DB, sub string, keep int, now time.Time) error {
	for {
		var ids []string
		err := tx.Raw("SELECT s.id "+newestSessions+" ORDER BY s.created_at DESC, s.id DESC LIMIT ? OFFSET ?", sub, seconds(now), noticeBatch, keep).Find(&ids).Error
		if err != nil || len(ids) == 0 {
			return err
		}
		_, err = endSessions(tx, ending{sub: sub, where: " AND id IN ?", args: []any{ids}, grants: " AND sid IN ?" + keepsOffline, with: []any{ids}}, now)
		if err != nil || len(ids) < noticeBatch {
			return err
		}
	}
}

// EndOtherSessions implements account.Store.
func (s *Store) EndOtherSessions(ctx context.Context, sub, keep string, now time.Time) (int, error) {
	if odd(sub) {
		return 0, nil
	}
	var ended []string
	err := s.write(ctx, "end other sessions", func(tx *gorm.DB) error {
		err := lockUser(tx, sub)
		if err == nil {
			ended, err = endEverywhere(tx, sub, storable(keep), now)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(ended), nil
}

// RevokeSessions implements account.Store.
func (s *Store) RevokeSessions(ctx context.Context, sub, id string, now time.Time, a account.Audit) (n int, err error) {
	if odd(sub) || id != "" && odd(id) {
		return 0, account.ErrSessionNotFound
	}
	err = s.write(ctx, "take sessions", func(tx *gorm.DB) error {
		err := lockUser(tx, sub)
		switch {
		case err != nil:
		case id != "":
			n, err = 1, endOne(tx, sub, id, now)
		default:
			var ended []string
			ended, err = endEverywhere(tx, sub, "", now)
			n = len(ended)
		}
		if err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
	return n, err
}

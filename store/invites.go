package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/seal"
)

type inviteRow struct {
	Code          string
	SealedCode    string
	CreatedBy     string
	Inviter       string
	Note          string
	MailedTo      string
	CreatedAt     int64 `gorm:"autoCreateTime:false"`
	ExpiresAt     int64
	UsedAt        int64
	Uses, Used    int
	Flags         string
	Domain        string
	FlagEnds      string // see parseFlagEnds
	AccountEndsAt int64
	ByAdmin       bool
	Party         string
	Registrar     string
}

// selectInvite names people only while they have an account.
const selectInvite = `SELECT i.code, i.sealed_code, coalesce(i.created_by, '') AS created_by,
	coalesce(c.handle, '') AS inviter, i.note, i.mailed_to, i.created_at, i.expires_at,
	i.used_at, i.uses, i.used, i.flags, i.domain,
	i.account_ends_at, i.flag_ends,
	i.by_admin, coalesce(i.used_by, '') AS party,
	coalesce((SELECT r.handle FROM users r WHERE r.sub = i.used_by AND r.deleted_at = 0), '') AS registrar
	FROM invites i LEFT JOIN users c ON c.sub = i.created_by `

// inviteCounts is the condition that an invite's creator may still vouch for it. An invite of the
// operator has no creator. The time is given twice.
const inviteCounts = `(created_by IS NULL OR ` + acceptedRequest + ` OR EXISTS
	(SELECT 1 FROM users v WHERE v.sub = created_by AND ` + userActive + `
		AND (NOT by_admin OR EXISTS (SELECT 1 FROM user_flags f
			WHERE f.sub = v.sub AND f.flag = 'admin' AND ` + flagInForce + `))))`

// closeInvites ends the open invites that meet a condition, and returns how many, also by creator. Those
// that somebody has used stay, closed: they count, and say who came.
func closeInvites(tx *engine.Tx, condition string, args map[string]any) (n int, by map[string]int) {
	by = map[string]int{}
	for _, statement := range []string{"DELETE FROM invites WHERE used_at = 0 AND used = 0 AND ",
		"UPDATE invites SET used_at = @now, uses = used WHERE used_at = 0 AND used > 0 AND "} {
		var creators []string
		tx.Find(&creators, statement+condition+" RETURNING coalesce(created_by, '')", args)
		for n += len(creators); len(creators) > 0; creators = creators[1:] {
			by[creators[0]]++
		}
	}
	return n, by
}

// invite converts a row and opens its code. The code is empty if it was lost with a data key.
func (s *Store) invite(r inviteRow) (account.Invite, error) {
	code := r.Code
	if r.SealedCode != "" {
		var err error
		if code, err = s.sealer.Open(seal.InviteCode, r.Code, r.SealedCode); err != nil {
			return account.Invite{}, err
		}
	}
	i := account.Invite{
		Code: code, CreatedBy: r.CreatedBy, Inviter: r.Inviter, Note: r.Note, MailedTo: r.MailedTo,
		CreatedAt: fromUnix(r.CreatedAt), ExpiresAt: fromUnix(r.ExpiresAt), UsedAt: fromUnix(r.UsedAt),
		UsedBy: r.Registrar,
		Uses:   r.Uses, Used: r.Used, Flags: strings.Fields(r.Flags), Domain: r.Domain, ByAdmin: r.ByAdmin,
		AccountEnds: fromUnix(r.AccountEndsAt), FlagEnds: parseFlagEnds(strings.Fields(r.FlagEnds)),
	}
	if r.UsedAt > 0 {
		i.Used = max(1, i.Used) // an earlier version does not count
	}
	return i, nil
}

// findInvites reads invites; query continues selectInvite.
func (s *Store) findInvites(ctx context.Context, doing, query string, args ...any) ([]account.Invite, error) {
	var rows []inviteRow
	if err := s.conn(ctx).Raw(selectInvite+query, args...).Find(&rows).Error; err != nil {
		return nil, fail(doing, err)
	}
	joined, err := s.joinedWith(ctx, rows)
	if err != nil {
		return nil, fail(doing, err)
	}
	list := make([]account.Invite, 0, len(rows))
	for _, r := range rows {
		i, err := s.invite(r)
		if err != nil {
			return nil, fail(doing, err)
		}
		i.Joined = joined[r.Party]
		list = append(list, i)
	}
	return list, nil
}

// joinedWith returns the handles of those who joined with the invites, by their party.
func (s *Store) joinedWith(ctx context.Context, rows []inviteRow) (map[string][]string, error) {
	var parties []string
	for _, r := range rows {
		if r.Party != "" {
			parties = append(parties, r.Party)
		}
	}
	joined := map[string][]string{}
	if parties == nil {
		return joined, nil
	}
	var people []struct{ Invite, Handle string }
	err := s.conn(ctx).Raw(`SELECT invite, handle FROM users
		WHERE invite IN ? AND invite <> '' AND deleted_at = 0 ORDER BY handle`, parties).Find(&people).Error
	for _, p := range people {
		joined[p.Invite] = append(joined[p.Invite], p.Handle)
	}
	return joined, err
}

// CreateInvite implements account.Store. ErrUserNotFound or ErrSuspended if the creator is deleted
// or suspended.
func (s *Store) CreateInvite(ctx context.Context, i account.Invite, limit int, a account.Audit) error {
	return s.act(ctx, "create invite", a, func(tx *engine.Tx) {
		if i.CreatedBy != "" {
			mayInvite(tx, i, limit)
		}
		s.insertInvite(tx, i)
		insertAudit(tx, a)
	})
}

func (s *Store) insertInvite(tx *engine.Tx, i account.Invite) {
	code, sealed := i.Code, ""
	if k := s.sealer.In(tx); k != nil {
		code = k.Hash(i.Code)
		sealed = k.Seal(seal.InviteCode, code, i.Code)
	}
	tx.Exec(`INSERT INTO invites (code, sealed_code, created_by, note, mailed_to, created_at, expires_at, session_id,
		stale, uses, flags, domain, by_admin, account_ends_at, flag_ends)
		VALUES (?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		code, sealed, i.CreatedBy, sanitize(i.Note), sanitize(i.MailedTo), toUnix(i.CreatedAt),
		toUnix(i.ExpiresAt), sanitize(i.SessionID),
		i.Stale, max(1, i.Uses), strings.Join(i.Flags, " "), i.Domain, i.ByAdmin, toUnix(i.AccountEnds),
		formatFlagEnds(i.FlagEnds))
}

// mayInvite checks the limit of a user, whose row it locks against another invite meanwhile.
func mayInvite(tx *engine.Tx, i account.Invite, limit int) {
	u := lockedUser(tx, i.CreatedBy)
	switch {
	case u.Suspended():
		tx.Refuse(account.ErrSuspended)
	case i.ByAdmin && !u.Has(account.FlagAdmin): // lost meanwhile: it would come back with the flag
		tx.Refuse(account.ErrAdminRequired)
	}
	if limit < 0 {
		return
	}
	var count int64
	// As Invite.Charged.
	tx.Find(&count, `SELECT coalesce(sum(CASE WHEN used_at = 0 AND expires_at > ? THEN uses
		WHEN used_at > 0 AND used = 0 THEN 1 ELSE used END), 0) FROM invites WHERE created_by = ?`,
		toUnix(i.CreatedAt), i.CreatedBy)
	if count+int64(max(1, i.Uses)) > int64(limit) {
		tx.Refuse(account.ErrInviteLimit)
	}
}

// Invites implements account.Store.
func (s *Store) Invites(ctx context.Context, q account.InviteQuery) ([]account.Invite, error) {
	if q.Sub == "" {
		return s.listInvites(ctx, "i.created_by IS NULL AND i.code <> ?", "", q.After, q.Limit)
	}
	return s.listInvites(ctx, "i.created_by = ?", q.Sub, q.After, q.Limit)
}

// AllInvites lists the invites of all users and the operator, newest first.
func (s *Store) AllInvites(ctx context.Context, after account.InvitePlace, limit int) ([]account.Invite, error) {
	return s.listInvites(ctx, "i.code <> ?", "", after, limit)
}

func (s *Store) listInvites(
	ctx context.Context, where, arg string, after account.InvitePlace, limit int,
) ([]account.Invite, error) {
	const doing = "list invites"
	query, args := "WHERE "+where, []any{arg}
	if after != (account.InvitePlace{}) {
		at := toUnix(after.CreatedAt)
		code, err := s.sealer.InvitePlace(s.conn(ctx), sanitize(after.Code))
		if err != nil {
			return nil, fail(doing, err)
		}
		query, args = query+" AND i.created_at <= ? AND (i.created_at < ? OR i.code > ?)", append(args, at, at, code)
	}
	query, args = query+" ORDER BY i.created_at DESC, i.code LIMIT ?", append(args, pageSize(limit))
	return s.findInvites(ctx, doing, query, args...)
}

// OpenInvites implements account.Store.
func (s *Store) OpenInvites(
	ctx context.Context, sub string, now time.Time, skip, limit int,
) ([]account.Invite, error) {
	query, args := "WHERE i.used_at = 0 AND i.expires_at > ?", []any{toUnix(now)}
	if sub != "" {
		query, args = query+" AND i.created_by = ?", append(args, sanitize(sub))
	}
	return s.findInvites(ctx, "list open invites", query+" ORDER BY i.expires_at DESC, i.code DESC LIMIT ? OFFSET ?",
		append(args, pageSize(limit), skip)...)
}

// CountOpenInvites implements account.Store.
func (s *Store) CountOpenInvites(ctx context.Context, now time.Time) (int, error) {
	var n int64
	err := s.conn(ctx).Raw(`SELECT count(*) FROM invites
		WHERE used_at = 0 AND expires_at > ?`, toUnix(now)).Find(&n).Error
	return int(n), fail("count open invites", err)
}

// RevokeBranch implements account.Store. It walks the tree in batches: in a recursive statement
// SQLite may read all users for each one.
func (s *Store) RevokeBranch(ctx context.Context, sub string, now time.Time, a account.Audit) (int, error) {
	const atOnce = 500
	revoked := 0
	err := s.writeAlone(ctx, "revoke invites of a branch", s.Timeout(), func(tx *engine.Tx) {
		checkActor(tx, a)
		revoked = 0
		branch, seen := []string{sub}, map[string]bool{sub: true} // guards against a cycle
		for from := 0; from < len(branch); {
			part := branch[from:min(from+atOnce, len(branch))]
			from += len(part)
			n, _ := closeInvites(tx, "expires_at > @now AND created_by IN @part",
				map[string]any{"now": toUnix(now), "part": part})
			revoked += n
			var below []string
			tx.Find(&below, "SELECT sub FROM users WHERE invited_by IN ? AND deleted_at = 0", part)
			for _, b := range below {
				if !seen[b] {
					branch, seen[b] = append(branch, b), true
				}
			}
		}
		if revoked == 0 {
			return
		}
		a.Detail = fmt.Sprint(revoked)
		insertAudit(tx, a)
	})
	return revoked, err
}

// Branches implements account.Store. One query counts for the whole page, because a user may have
// invited many.
func (s *Store) Branches(
	ctx context.Context, sub, after string, since, now time.Time, limit int,
) ([]account.Branch, error) {
	const doing = "list branches of invites"
	where, args := "u.invited_by = ?", []any{sub}
	if sub == "" {
		where = `u.invited_by IS NULL
			AND EXISTS (SELECT 1 FROM users i WHERE i.invited_by = u.sub AND i.deleted_at = 0)`
		args = nil
	}
	var users []storedUser
	err := s.conn(ctx).Raw("SELECT "+userColumns+" FROM users u WHERE "+where+` AND u.deleted_at = 0 AND u.handle > ?
		ORDER BY u.handle LIMIT ?`, append(args, sanitize(after), pageSize(limit))...).Find(&users).Error
	if err != nil || len(users) == 0 {
		return []account.Branch{}, fail(doing, err)
	}
	subs := each(users, func(u storedUser) string { return u.Row.Sub })
	type count struct {
		Sub                   string
		Invited, Active, Open int
	}
	var counted []count
	err = s.conn(ctx).Raw(`SELECT u.sub,
		(SELECT count(*) FROM users i WHERE i.invited_by = u.sub AND i.deleted_at = 0) AS invited,
		(SELECT count(*) FROM users i WHERE i.invited_by = u.sub AND i.deleted_at = 0 AND last_login_at >= ?) AS active,
		(SELECT count(*) FROM invites i WHERE i.created_by = u.sub AND i.used_at = 0 AND i.expires_at > ?) AS open
		FROM users u WHERE u.sub IN ?`, toUnix(since), toUnix(now), subs).Find(&counted).Error
	if err != nil {
		return nil, fail(doing, err)
	}
	counts := make(map[string]count, len(users))
	for _, c := range counted {
		counts[c.Sub] = c
	}
	var came []struct {
		Sub, Note string
		CreatedAt int64 `gorm:"autoCreateTime:false"`
	}
	err = s.conn(ctx).Raw(`SELECT u.sub, i.note, i.created_at FROM users u JOIN invites i ON i.used_by = u.invite
		WHERE u.sub IN ? AND i.used_by IS NOT NULL`, subs).Find(&came).Error
	by := map[string]account.Invite{}
	for _, c := range came {
		by[c.Sub] = account.Invite{Note: c.Note, CreatedAt: fromUnix(c.CreatedAt)}
	}
	return each(users, func(u storedUser) account.Branch {
		c := counts[u.Row.Sub]
		return account.Branch{
			User: u.userAt(s.Now()), Invited: c.Invited, Active: c.Active, Open: c.Open, By: by[u.Row.Sub],
		}
	}), fail(doing, err)
}

// Invite implements account.Store.
func (s *Store) Invite(ctx context.Context, code string) (account.Invite, error) {
	if invalidKey(code) {
		return account.Invite{}, account.ErrInviteNotFound
	}
	keys, err := s.sealer.InviteCodes(s.conn(ctx), code)
	if err != nil {
		return account.Invite{}, fail("find invite", err)
	}
	found, err := s.findInvites(ctx, "find invite", "WHERE i.code IN ? AND "+inviteCounts, keys, s.Now(), s.Now())
	if err == nil && len(found) == 0 {
		err = account.ErrInviteNotFound
	}
	if err != nil {
		return account.Invite{}, err
	}
	return found[0], nil
}

// DeleteInvite implements account.Store.
func (s *Store) DeleteInvite(ctx context.Context, sub, code string, a account.Audit) error {
	if invalidKey(code) {
		return account.ErrInviteNotFound
	}
	return s.act(ctx, "delete invite", a, func(tx *engine.Tx) {
		keys, err := s.sealer.InviteCodes(tx.DB, code)
		tx.Refuse(err)
		gone, _ := closeInvites(tx, "code IN @keys AND created_by = @sub",
			map[string]any{"now": toUnix(a.At), "keys": keys, "sub": sub})
		if gone == 1 {
			insertAudit(tx, a)
			return
		}
		var used int64
		if tx.Find(&used, "SELECT count(*) FROM invites WHERE code IN ? AND created_by = ?", keys, sub); used > 0 {
			tx.Refuse(account.ErrInviteUsed)
		}
		tx.Refuse(account.ErrInviteNotFound)
	})
}

// RevokeInvite implements account.Store. code is canonical.
func (s *Store) RevokeInvite(ctx context.Context, code string, a account.Audit) (account.Invite, error) {
	var row inviteRow
	err := s.act(ctx, "revoke invite", a, func(tx *engine.Tx) {
		row = inviteRow{}
		keys, err := s.sealer.InviteCodes(tx.DB, code)
		tx.Refuse(err)
		tx.Expect(tx.Find(&row, selectInvite+"WHERE i.code IN ?", keys), account.ErrInviteNotFound)
		gone, _ := closeInvites(tx, "code IN @keys", map[string]any{"now": toUnix(a.At), "keys": keys})
		tx.Expect(int64(gone), account.ErrInviteUsed)
		a.Target = row.Inviter
		insertAudit(tx, a)
	})
	if err != nil {
		return account.Invite{}, err
	}
	i, err := s.invite(row)
	return i, fail("revoke invite", err)
}

// Register implements account.Store.
func (s *Store) Register(
	ctx context.Context, code string, u account.User, first *account.FirstPasskey, n *account.Session, maxUsers int,
	now time.Time, a account.Audit,
) error {
	if invalidKey(code) {
		return account.ErrInvalidInvite
	}
	return s.write(ctx, "register", func(tx *engine.Tx) {
		keys, err := s.sealer.InviteCodes(tx.DB, code)
		tx.Refuse(err)
		tx.Expect(tx.Exec(`UPDATE invites SET used = used + 1, used_by = coalesce(used_by, ?),
			used_at = CASE WHEN used + 1 >= uses THEN CAST(? AS BIGINT) ELSE 0 END
			WHERE code IN ? AND used_at = 0 AND expires_at > ? AND `+
			inviteCounts, u.Sub, toUnix(now), keys, toUnix(now), s.Now(), s.Now()), account.ErrInvalidInvite)
		var invite struct{ Creator, Party string }
		tx.Find(&invite, "SELECT coalesce(created_by, '') AS creator, used_by AS party FROM invites WHERE code IN ?",
			keys)
		insertUser(tx, u, invite.Creator, maxUsers)
		tx.Exec("UPDATE users SET invite = ? WHERE sub = ?", invite.Party, u.Sub)
		if first != nil {
			insertPasskey(tx, first.Passkey, "") // see youngFactor
			replaceRecoveryCodes(tx, u.Sub, "", first.Codes, u.CreatedAt)
		}
		if n == nil {
			insertAudit(tx, a)
			return
		}
		insertSession(tx, n)
		insertSignIn(tx, n, a)
	})
}

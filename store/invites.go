package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

type inviteRow struct {
	Code      string
	CreatedBy string
	Inviter   string
	Note      string
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	ExpiresAt int64
	UsedAt    int64
	Registrar string
}

// selectInvite names people only while they have an account.
const selectInvite = `SELECT i.code, coalesce(i.created_by, '') AS created_by, coalesce(c.handle, '') AS inviter, i.note, i.created_at, i.expires_at, i.used_at,
	coalesce((SELECT r.handle FROM users r WHERE r.sub = i.used_by AND r.deleted_at = 0), '') AS registrar
	FROM invites i LEFT JOIN users c ON c.sub = i.created_by `

// inviteCounts is the condition that an invite's creator can still vouch for
// it; an invite of the operator has no creator.
const inviteCounts = "(created_by IS NULL OR EXISTS (SELECT 1 FROM users v WHERE v.sub = created_by AND v.deleted_at = 0 AND v.suspended_at = 0))"

func (r inviteRow) invite() account.Invite {
	return account.Invite{
		Code: r.Code, CreatedBy: r.CreatedBy, Inviter: r.Inviter, Note: r.Note, CreatedAt: fromUnix(r.CreatedAt), ExpiresAt: fromUnix(r.ExpiresAt),
		UsedAt: fromUnix(r.UsedAt), UsedBy: r.Registrar,
	}
}

// CreateInvite implements account.Store. ErrUserNotFound and ErrSuspended for a
// creator that is deleted or suspended.
func (s *Store) CreateInvite(ctx context.Context, i account.Invite, limit int) error {
	return s.write(ctx, "create invite", func(tx *gorm.DB) error {
		if i.CreatedBy != "" {
			if err := mayInvite(tx, i, limit); err != nil {
				return err
			}
		}
		return tx.Exec("INSERT INTO invites (code, created_by, note, created_at, expires_at) VALUES (?, nullif(?, ''), ?, ?, ?)",
			i.Code, i.CreatedBy, sanitize(i.Note), toUnix(i.CreatedAt), toUnix(i.ExpiresAt)).Error
	})
}

// mayInvite counts while no other invite of the same user can be made.
func mayInvite(tx *gorm.DB, i account.Invite, limit int) error {
	u, err := lockedUser(tx, i.CreatedBy)
	if err != nil {
		return err
	}
	if u.Suspended() {
		return account.ErrSuspended
	}
	if limit < 0 {
		return nil
	}
	var count int64
	err = tx.Raw("SELECT count(*) FROM invites WHERE created_by = ? AND (used_at > 0 OR expires_at > ?)", i.CreatedBy, toUnix(i.CreatedAt)).Find(&count).Error
	if err != nil {
		return err
	}
	if count >= int64(limit) {
		return account.ErrInviteLimit
	}
	return nil
}

// Invites implements account.Store.
func (s *Store) Invites(ctx context.Context, q account.InviteQuery) ([]account.Invite, error) {
	if invalidKey(q.Sub) {
		return []account.Invite{}, nil
	}
	return s.listInvites(ctx, "i.created_by = ?", q.Sub, q.After, q.Limit)
}

// AllInvites lists the invites of all users and the operator, newest first.
func (s *Store) AllInvites(ctx context.Context, after account.InvitePlace, limit int) ([]account.Invite, error) {
	return s.listInvites(ctx, "i.code <> ?", "", after, limit)
}

func (s *Store) listInvites(ctx context.Context, whose, arg string, after account.InvitePlace, limit int) ([]account.Invite, error) {
	query, args := selectInvite+"WHERE "+whose, []any{arg}
	if after != (account.InvitePlace{}) {
		at := toUnix(after.CreatedAt)
		query, args = query+" AND i.created_at <= ? AND (i.created_at < ? OR i.code > ?)", append(args, at, at, sanitize(after.Code))
	}
	var rows []inviteRow
	err := s.conn(ctx).Raw(query+" ORDER BY i.created_at DESC, i.code LIMIT ?", append(args, pageSize(limit))...).Find(&rows).Error
	return each(rows, inviteRow.invite), fail("list invites", err)
}

// Invite implements account.Store.
func (s *Store) Invite(ctx context.Context, code string) (account.Invite, error) {
	if invalidKey(code) {
		return account.Invite{}, account.ErrInviteNotFound
	}
	var row inviteRow
	if err := expect(s.conn(ctx).Raw(selectInvite+"WHERE i.code = ? AND "+inviteCounts, code).Find(&row), account.ErrInviteNotFound); err != nil {
		return account.Invite{}, fail("find invite", err)
	}
	return row.invite(), nil
}

// DeleteInvite implements account.Store.
func (s *Store) DeleteInvite(ctx context.Context, sub, code string) error {
	if invalidKey(sub) || invalidKey(code) {
		return account.ErrInviteNotFound
	}
	return s.write(ctx, "delete invite", func(tx *gorm.DB) error {
		gone := tx.Exec("DELETE FROM invites WHERE code = ? AND created_by = ? AND used_at = 0", code, sub)
		if gone.Error != nil || gone.RowsAffected == 1 {
			return gone.Error
		}
		var used int64
		if err := tx.Raw("SELECT count(*) FROM invites WHERE code = ? AND created_by = ?", code, sub).Find(&used).Error; err != nil {
			return err
		}
		if used > 0 {
			return account.ErrInviteUsed
		}
		return account.ErrInviteNotFound
	})
}

// RevokeInvite removes an unused invite, of any creator, and returns it as it
// was. code is canonical. account.ErrInviteNotFound, account.ErrInviteUsed.
func (s *Store) RevokeInvite(ctx context.Context, code string, a account.Audit) (account.Invite, error) {
	if invalidKey(code) {
		return account.Invite{}, account.ErrInviteNotFound
	}
	var row inviteRow
	err := s.write(ctx, "revoke invite", func(tx *gorm.DB) error {
		row = inviteRow{}
		if err := expect(tx.Raw(selectInvite+"WHERE i.code = ?", code).Find(&row), account.ErrInviteNotFound); err != nil {
			return err
		}
		if err := expect(tx.Exec("DELETE FROM invites WHERE code = ? AND used_at = 0", code), account.ErrInviteUsed); err != nil {
			return err
		}
		a.Target = row.Inviter
		return insertAudit(tx, a)
	})
	if err != nil {
		return account.Invite{}, err
	}
	return row.invite(), nil
}

// Register implements account.Store.
func (s *Store) Register(ctx context.Context, code string, u account.User, n *account.Session, maxUsers int, now time.Time) error {
	if invalidKey(code) {
		return account.ErrInvalidInvite
	}
	return s.write(ctx, "register", func(tx *gorm.DB) error {
		spend := tx.Exec("UPDATE invites SET used_at = ?, used_by = ? WHERE code = ? AND used_at = 0 AND expires_at > ? AND "+inviteCounts, toUnix(now), u.Sub, code, toUnix(now))
		if err := expect(spend, account.ErrInvalidInvite); err != nil {
			return err
		}
		var creator string
		if err := tx.Raw("SELECT coalesce(created_by, '') FROM invites WHERE code = ?", code).Find(&creator).Error; err != nil {
			return err
		}
		if err := insertUser(tx, u, creator, maxUsers); err != nil {
			return err
		}
		if n == nil {
			return nil
		}
		return insertSession(tx, n)
	})
}

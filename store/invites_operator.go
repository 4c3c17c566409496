package store

import (
	"context"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// RevokeInvite removes an unused invite, whoever made it, and returns it as it
// was. code is canonical. account.ErrInviteNotFound, account.ErrInviteUsed.
func (s *Store) RevokeInvite(ctx context.Context, code string, a account.Audit) (account.Invite, error) {
	if odd(code) {
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

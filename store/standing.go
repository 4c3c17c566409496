package store

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// lockAdministrators is a row of the table locks, held while somebody may cease to be
// one.
const lockAdministrators = "administrators"

// lockRule makes every other deed under the same rule wait for the end of the
// transaction. It comes before any other row. The UPDATE is what PostgreSQL
// waits for; on SQLite the transaction itself already excludes the others.
func lockRule(tx *gorm.DB, name string) error {
	return tx.Exec("UPDATE locks SET taken = taken + 1 WHERE name = ?", name).Error
}

// keepAdministrator is account.ErrLastAdmin when u is the last administrator
// who can act.
func keepAdministrator(tx *gorm.DB, u account.User) error {
	if !u.Has(account.FlagAdmin) || u.Suspended() {
		return nil
	}
	var others int64
	err := tx.Raw(`SELECT count(*) FROM user_flags f JOIN users u ON u.sub = f.sub
		WHERE f.flag = ? AND u.sub <> ? AND u.deleted_at = 0 AND u.suspended_at = 0`, account.FlagAdmin, u.Sub).Find(&others).Error
	if err != nil {
		return err
	}
	if others == 0 {
		return account.ErrLastAdmin
	}
	return nil
}

// changeStanding reads a user while nobody else's standing can change.
func (s *Store) changeStanding(ctx context.Context, doing, sub string, do func(tx *gorm.DB, u account.User) error) error {
	return s.write(ctx, doing, func(tx *gorm.DB) error {
		if err := lockRule(tx, lockAdministrators); err != nil {
			return err
		}
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		u, err := userBy(tx, selectUserBySub, sub)
		if err != nil {
			return err
		}
		return do(tx, u)
	})
}

// Suspend implements account.Store.
func (s *Store) Suspend(ctx context.Context, sub, reason string, now time.Time, a account.Audit) error {
	return s.changeStanding(ctx, "suspend user", sub, func(tx *gorm.DB, u account.User) error {
		if u.Suspended() {
			return nil
		}
		if err := keepAdministrator(tx, u); err != nil {
			return err
		}
		err := tx.Exec("UPDATE users SET suspended_at = ?, suspend_reason = ?, updated_at = ? WHERE sub = ?", seconds(now), reason, seconds(now), sub).Error
		if err != nil {
			return err
		}
		if err := endAll(tx, sub, "", now); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// Unsuspend implements account.Store.
func (s *Store) Unsuspend(ctx context.Context, sub string, now time.Time, a account.Audit) error {
	return s.changeStanding(ctx, "unsuspend user", sub, func(tx *gorm.DB, u account.User) error {
		if !u.Suspended() {
			return nil
		}
		err := tx.Exec("UPDATE users SET suspended_at = 0, suspend_reason = '', updated_at = ? WHERE sub = ?", seconds(now), sub).Error
		if err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// deleteTraces are what goes with a user. Sessions stay as bare rows until they
// expire: their index says "revoked" and must not be given to another.
var deleteTraces = []string{
	"UPDATE sessions SET address = '', user_agent = '', token_hash = NULL, login_hash = NULL WHERE sub = ?",
	"DELETE FROM preferences WHERE sub = ?",
	"DELETE FROM consents WHERE sub = ?",
	"DELETE FROM user_flags WHERE sub = ?",
}

// deleteInvites comes before the other traces: invites are locked before the counter
// of users. Used invites stay, for those who came by them, without the note.
var deleteInvites = []string{
	"UPDATE invites SET note = '' WHERE created_by = ?",
	"DELETE FROM invites WHERE created_by = ? AND used_at = 0",
}

// DeleteUser implements account.Store.
func (s *Store) DeleteUser(ctx context.Context, sub string, now time.Time, a account.Audit) error {
	return s.changeStanding(ctx, "delete user", sub, func(tx *gorm.DB, u account.User) error {
		if err := keepAdministrator(tx, u); err != nil {
			return err
		}
		err := putPerson(tx, account.User{Sub: sub, Handle: u.Handle}, map[string]any{
			"deleted_at": seconds(now), "updated_at": seconds(now), "password_hash": "", "profile": "", "suspended_at": 0, "suspend_reason": "", "last_login_at": 0, "invited_by": nil,
		})
		if err != nil {
			return err
		}
		if err := execEach(tx, deleteInvites, sub); err != nil {
			return err
		}
		if err := discountUser(tx); err != nil {
			return err
		}
		if err := endAll(tx, sub, "", now); err != nil {
			return err
		}
		if err := execEach(tx, deleteTraces, sub); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// execEach does the statements, each with sub.
func execEach(tx *gorm.DB, statements []string, sub string) error {
	for _, statement := range statements {
		if err := tx.Exec(statement, sub).Error; err != nil {
			return err
		}
	}
	return nil
}

// SetFlags implements account.Store.
func (s *Store) SetFlags(ctx context.Context, sub string, flags map[string]bool, signOut bool, now time.Time, a account.Audit) ([]string, error) {
	var after []string
	err := s.changeStanding(ctx, "set flags", sub, func(tx *gorm.DB, u account.User) error {
		if on, named := flags[account.FlagAdmin]; named && !on {
			if err := keepAdministrator(tx, u); err != nil {
				return err
			}
		}
		var add, remove []string
		after = slices.Clone(u.Flags)
		for name, on := range flags {
			switch {
			case on && !u.Has(name):
				add, after = append(add, name), append(after, name)
			case !on && u.Has(name):
				remove = append(remove, name)
			}
		}
		slices.Sort(after)
		after = slices.DeleteFunc(after, func(f string) bool { return slices.Contains(remove, f) })
		if err := addFlags(tx, sub, add); err != nil {
			return err
		}
		if len(remove) > 0 {
			if err := tx.Exec("DELETE FROM user_flags WHERE sub = ? AND flag IN ?", sub, remove).Error; err != nil {
				return err
			}
		}
		if err := tx.Exec("UPDATE users SET updated_at = ? WHERE sub = ?", seconds(now), sub).Error; err != nil {
			return err
		}
		if err := insertAudit(tx, a); err != nil || !signOut || len(remove) == 0 {
			return err
		}
		_, err := endEverywhere(tx, sub, "", now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

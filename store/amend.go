package store

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// ChangeUser implements account.Store.
func (s *Store) ChangeUser(ctx context.Context, sub string, change func(*account.User) error, now time.Time, a *account.Audit) (account.User, error) {
	const doing = "change user"
	var u account.User
	var refused error // of change: not a failure of the database
	err := s.write(ctx, doing, func(tx *gorm.DB) error {
		refused = nil
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		var err error
		if u, err = userBy(tx, selectUserBySub, sub); err != nil {
			return err
		}
		amended := u
		if amended.Profile.Address != nil {
			own := *amended.Profile.Address
			amended.Profile.Address = &own
		}
		if refused = change(&amended); refused != nil {
			return refused
		}
		u.DisplayName, u.Email, u.EmailVerified, u.Profile = amended.DisplayName, amended.Email, amended.EmailVerified, amended.Profile
		u.UpdatedAt = moment(seconds(now))
		profile, err := profileText(u.Profile)
		if err != nil {
			return err
		}
		err = putPerson(tx, u, map[string]any{"profile": profile, "updated_at": seconds(now)})
		if err != nil || a == nil {
			return err
		}
		return insertAudit(tx, *a)
	})
	if refused != nil {
		return account.User{}, fmt.Errorf("%s: %w", doing, refused)
	}
	if err != nil {
		return account.User{}, err
	}
	return u, nil
}

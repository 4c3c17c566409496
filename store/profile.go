package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairn-id/cairn/account"
)

// profileText is how a profile is stored: JSON, nothing for an empty one.
func profileText(p account.Profile) (string, error) {
	if p == (account.Profile{}) {
		return "", nil
	}
	b, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode profile: %w", err)
	}
	return string(b), nil
}

// changed is what change makes of a copy of p.
func changed(p account.Profile, change func(*account.Profile) error) (account.Profile, error) {
	if p.Address != nil {
		own := *p.Address
		p.Address = &own
	}
	if err := change(&p); err != nil {
		return account.Profile{}, err
	}
	if p.Address != nil && *p.Address == (account.Address{}) {
		p.Address = nil
	}
	if p.PhoneNumber == "" {
		p.PhoneNumberVerified = false
	}
	return p, nil
}

// changedProfile also takes care of a phone number that was verified and became
// another: done once more from "not verified", it shows whether change vouches
// for the new number or the mark is left over from the old one.
func changedProfile(before account.Profile, change func(*account.Profile) error) (account.Profile, error) {
	after, err := changed(before, change)
	if err != nil || after.PhoneNumber == before.PhoneNumber || !before.PhoneNumberVerified || !after.PhoneNumberVerified {
		return after, err
	}
	before.PhoneNumberVerified = false
	return changed(before, change)
}

// SetProfile implements account.Store.
func (s *Store) SetProfile(ctx context.Context, sub string, change func(*account.Profile) error, now time.Time) (account.User, error) {
	return s.amend(ctx, "set profile", sub, now, nil, func(u *account.User) (err error) {
		u.Profile, err = changedProfile(u.Profile, change)
		return err
	})
}

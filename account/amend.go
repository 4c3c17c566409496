package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// UserChange is what an administrator or the operator changes of a user; what
// is nil stays.
type UserChange struct {
	DisplayName *string
	Email       *string // empty: none
	// EmailVerified marks the address. An address that becomes another is not
	// verified unless this says so.
	EmailVerified *bool
	// Claims are those of the profile by their names, also phone_number_verified.
	Claims []ClaimValue
}

// Amend changes a user and returns them as they are then. A *Problem that names
// everything that is refused; ErrUnknownClaim. The audit row has the names of what was
// changed and no values.
func (a *Administration) Amend(ctx context.Context, by Actor, u User, c UserChange) (User, error) {
	var claims, marks []ClaimValue
	var names []string
	for _, v := range c.Claims {
		if !slices.Contains(ProfileClaimNames(), v.Name) {
			return User{}, ErrUnknownClaim
		}
		names = append(names, v.Name)
		if v.Name == phoneVerified {
			marks = append(marks, v)
			continue
		}
		claims = append(claims, v)
	}
	claims = append(claims, marks...) // the mark is for the number that is given beside it
	for name, given := range map[string]bool{"display_name": c.DisplayName != nil, "email": c.Email != nil, "email_verified": c.EmailVerified != nil} {
		if given {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	change := func(u *User) error {
		return allFaults(c.amendName(u), c.amendEmail(u), setClaims(claims, u.Profile.Set))
	}
	amended, err := a.store.AmendUser(ctx, u.Sub, change, a.Now(), by.Audit(a.Now(), "user.amend", u.Handle, strings.Join(slices.Compact(names), " ")))
	if err != nil {
		return User{}, fmt.Errorf("amend user: %w", err)
	}
	Note(ctx, "user_amended")
	return amended, nil
}

func (c UserChange) amendName(u *User) error {
	if c.DisplayName == nil {
		return nil
	}
	name, err := CheckDisplayName(*c.DisplayName)
	if err == nil {
		u.DisplayName = name
	}
	return err
}

func (c UserChange) amendEmail(u *User) error {
	if c.Email != nil {
		email, err := CheckEmail(*c.Email)
		if err != nil {
			return err
		}
		u.EmailVerified = u.EmailVerified && email == u.Email
		u.Email = email
	}
	if c.EmailVerified == nil {
		return nil
	}
	if *c.EmailVerified && u.Email == "" {
		return invalidClaim("email_verified", "There is no email address that could be verified.")
	}
	u.EmailVerified = *c.EmailVerified
	return nil
}

package account

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account/web"
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

// ReadUserChange reads an administrator's request for a change of display name
// and email; null removes the email. A *Problem names everything of the wrong type.
func ReadUserChange(w http.ResponseWriter, r *http.Request) (UserChange, error) {
	var in struct {
		DisplayName   given     `json:"display_name"`
		Email         given     `json:"email"`
		EmailVerified givenBool `json:"email_verified"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return UserChange{}, err
	}
	var c UserChange
	var faults []web.FieldError
	text := func(name string, g given, to **string) {
		if g.wrong {
			faults = append(faults, web.FieldError{Pointer: "/" + name, Detail: "must be a string"})
		}
		if g.set {
			*to = &g.value
		}
	}
	text("display_name", in.DisplayName, &c.DisplayName)
	text("email", in.Email, &c.Email)
	if in.EmailVerified.wrong {
		faults = append(faults, web.FieldError{Pointer: "/email_verified", Detail: "must be a boolean"})
	}
	if in.EmailVerified.set {
		c.EmailVerified = &in.EmailVerified.value
	}
	if faults != nil {
		return UserChange{}, web.BadRequest("A member has the wrong type.", faults...)
	}
	return c, nil
}

// Amend changes a user and returns them as they are then. A *Problem that names
// everything that is refused; ErrUnknownClaim. The audit row has the names of what was
// given and no values; without anything given there is none.
func (a *Administration) Amend(ctx context.Context, by Actor, u User, c UserChange) (User, error) {
	var names []string
	for _, v := range c.Claims {
		names = append(names, v.Name)
	}
	for name, given := range map[string]bool{"display_name": c.DisplayName != nil, "email": c.Email != nil, "email_verified": c.EmailVerified != nil} {
		if given {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return u, nil
	}
	slices.Sort(names)
	amended, err := a.store.AmendUser(ctx, u.Sub, c.Apply, a.Now(), by.Audit(a.Now(), "user.amend", u.Handle, strings.Join(slices.Compact(names), " ")))
	if err != nil {
		return User{}, fmt.Errorf("amend user: %w", err)
	}
	web.Note(ctx, "user_amended")
	return amended, nil
}

// Apply changes u, which may be a user that is not stored yet. A *Problem that
// names everything that is refused; ErrUnknownClaim.
func (c UserChange) Apply(u *User) error {
	var claims, marks []ClaimValue
	for _, v := range c.Claims {
		if !slices.Contains(ProfileClaimNames(), v.Name) {
			return ErrUnknownClaim
		}
		if v.Name == phoneVerified {
			marks = append(marks, v)
			continue
		}
		claims = append(claims, v)
	}
	claims = append(claims, marks...) // the mark is for the number that is given beside it
	return allFaults(c.amendName(u), c.amendEmail(u), setClaims(claims, u.Profile.Set))
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

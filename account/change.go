package account

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account/web"
)

// given is a member that a request may leave out; null is the empty text.
type given struct {
	set   bool
	value string
	wrong bool // not a string
}

// UnmarshalJSON never fails, so that the answer can name every member at fault.
func (g *given) UnmarshalJSON(b []byte) error {
	g.set = true
	g.wrong = json.Unmarshal(b, &g.value) != nil
	return nil
}

// givenBool is true or false, or left out; null is neither.
type givenBool struct{ set, value, wrong bool }

// UnmarshalJSON never fails, like that of given.
func (g *givenBool) UnmarshalJSON(b []byte) error {
	g.set = true
	g.wrong = string(b) == "null" || json.Unmarshal(b, &g.value) != nil
	return nil
}

// givenAddress is an address that a request may leave out; it replaces the one
// before, and null removes it.
type givenAddress struct {
	set     bool
	members map[string]given
	wrong   bool // not an object
}

// UnmarshalJSON never fails, like that of given.
func (g *givenAddress) UnmarshalJSON(b []byte) error {
	g.set = true
	g.wrong = json.Unmarshal(b, &g.members) != nil
	return nil
}

// profileChange is what a person may change about themselves: nothing else.
// Whether an address or a number is verified is not for them to say.
type profileChange struct {
	DisplayName given        `json:"display_name"`
	Email       given        `json:"email"`
	GivenName   given        `json:"given_name"`
	FamilyName  given        `json:"family_name"`
	MiddleName  given        `json:"middle_name"`
	Nickname    given        `json:"nickname"`
	Profile     given        `json:"profile"`
	Picture     given        `json:"picture"`
	Website     given        `json:"website"`
	Gender      given        `json:"gender"`
	Birthdate   given        `json:"birthdate"`
	Zoneinfo    given        `json:"zoneinfo"`
	Locale      given        `json:"locale"`
	PhoneNumber given        `json:"phone_number"`
	Address     givenAddress `json:"address"`
}

// ClaimValue is a claim of a Profile by its name, with its new value; empty removes it.
type ClaimValue struct{ Name, Value string }

// claims lists what is given beyond name and email. It returns a *Problem that
// names what has the wrong type.
func (c *profileChange) claims() ([]ClaimValue, error) {
	var out []ClaimValue
	var faults []web.FieldError
	text := func(pointer string) {
		faults = append(faults, web.FieldError{Pointer: pointer, Detail: "must be a string"})
	}
	for _, g := range []struct {
		name string
		given
	}{{"display_name", c.DisplayName}, {"email", c.Email}} {
		if g.wrong {
			text("/" + g.name)
		}
	}
	for _, g := range []struct {
		name string
		given
	}{
		{"given_name", c.GivenName}, {"family_name", c.FamilyName}, {"middle_name", c.MiddleName}, {"nickname", c.Nickname}, {"profile", c.Profile},
		{"picture", c.Picture}, {"website", c.Website}, {"gender", c.Gender}, {"birthdate", c.Birthdate}, {"zoneinfo", c.Zoneinfo}, {"locale", c.Locale},
		{"phone_number", c.PhoneNumber},
	} {
		if g.wrong {
			text("/" + g.name)
		}
		if g.set {
			out = append(out, ClaimValue{g.name, g.value})
		}
	}
	if c.Address.wrong {
		faults = append(faults, web.FieldError{Pointer: "/address", Detail: "must be an object"})
	}
	if c.Address.set {
		for _, name := range addressMembers {
			out = append(out, ClaimValue{"address." + name, c.Address.members[name].value})
		}
	}
	detail := "A member has the wrong type."
	for name, g := range c.Address.members {
		switch {
		case !slices.Contains(addressMembers, name):
			detail = "The body has a member that is not known here."
			faults = append(faults, web.FieldError{Pointer: "/address/" + cut(name, 64), Detail: "not known"})
		case g.wrong:
			text("/address/" + name)
		}
	}
	if faults != nil {
		slices.SortFunc(faults, func(a, b web.FieldError) int { return strings.Compare(a.Pointer, b.Pointer) })
		return nil, web.BadRequest(detail, faults...)
	}
	return out, nil
}

func (s *Service) apiPatchMe(w http.ResponseWriter, r *http.Request) {
	var in profileChange
	if err := web.ReadJSON(w, r, &in); err != nil {
		s.Fail(w, r, err)
		return
	}
	id := IdentityFrom(r.Context())
	u, err := s.changeProfile(r, id.User, in)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	s.answerMe(w, r, u, id.Session)
}

func (s *Service) changeProfile(r *http.Request, u User, in profileChange) (User, error) {
	claims, err := in.claims()
	if err != nil {
		return User{}, err
	}
	var name, email *string
	var nameErr, emailErr error
	if in.DisplayName.set {
		in.DisplayName.value, nameErr = CheckDisplayName(in.DisplayName.value)
		name = &in.DisplayName.value
	}
	if in.Email.set {
		in.Email.value, emailErr = CheckEmail(in.Email.value)
		email = &in.Email.value
	}
	change := func(p *Profile) error { return setClaims(claims, p.setOwn) }
	draft := u.Profile
	if err := allFaults(nameErr, emailErr, change(&draft)); err != nil {
		return User{}, err
	}
	if name == nil && email == nil && len(claims) == 0 {
		return u, nil
	}
	if name != nil || email != nil {
		u, err = s.store.UpdateProfile(r.Context(), u.Sub, name, email, s.now())
	}
	if err == nil && len(claims) > 0 {
		u, err = s.store.SetProfile(r.Context(), u.Sub, change, s.now())
	}
	if err != nil {
		return User{}, fmt.Errorf("change profile: %w", err)
	}
	web.Note(r.Context(), "profile_changed")
	return u, nil
}

// setClaims sets one claim after the other and collects what is refused.
func setClaims(claims []ClaimValue, set func(name, value string) error) error {
	var faults []error
	for _, c := range claims {
		faults = append(faults, set(c.Name, c.Value))
	}
	return allFaults(faults...)
}

// allFaults is one problem that names every member at fault, with the code of
// the first.
func allFaults(errs ...error) error {
	var all *web.Problem
	for _, err := range errs {
		if err == nil {
			continue
		}
		p, _ := web.ProblemOf(err)
		if all == nil {
			all = p
			continue
		}
		all.Errors = append(all.Errors, p.Errors...)
	}
	if all == nil {
		return nil
	}
	return all
}

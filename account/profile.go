package account

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Profile holds the standard claims of a person (OpenID Connect Core section 5.1) that not every
// user has. Empty means not given.
type Profile struct {
	GivenName   string `json:"given_name,omitempty"`
	FamilyName  string `json:"family_name,omitempty"`
	MiddleName  string `json:"middle_name,omitempty"`
	Nickname    string `json:"nickname,omitempty"`
	Page        string `json:"profile,omitempty"` // URL, like Picture and Website
	Picture     string `json:"picture,omitempty"`
	Website     string `json:"website,omitempty"`
	Gender      string `json:"gender,omitempty"`
	Birthdate   string `json:"birthdate,omitempty"` // YYYY-MM-DD, 0000-MM-DD or YYYY
	Zoneinfo    string `json:"zoneinfo,omitempty"`  // name of the time zone database
	Locale      string `json:"locale,omitempty"`    // BCP 47
	PhoneNumber string `json:"phone_number,omitempty"`
	// PhoneNumberVerified is set only by an administrator or the operator.
	PhoneNumberVerified bool     `json:"phone_number_verified,omitempty"`
	Address             *Address `json:"address,omitempty"`
	// Attributes are what administrators have entered, by the names that Settings.Attributes declares.
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Address is the address claim (OpenID Connect Core section 5.1.1). Formatted and StreetAddress may
// have several lines.
type Address struct {
	Formatted     string `json:"formatted,omitempty"`
	StreetAddress string `json:"street_address,omitempty"`
	Locality      string `json:"locality,omitempty"`
	Region        string `json:"region,omitempty"`
	PostalCode    string `json:"postal_code,omitempty"`
	Country       string `json:"country,omitempty"`
}

// userMember is a member of a user that can be changed: its name in the API and its rule. set
// stores a value, trimmed, or refuses it with a *Problem. at is for texts of the Profile.
type userMember struct {
	name string
	set  func(u *User, value string) error
	at   func(*Profile) *string
}

// userMembers are in the order in which they are set: a mark follows its member.
var userMembers = []userMember{
	{"display_name", func(u *User, value string) error {
		name, err := CheckDisplayName(value)
		if err == nil {
			u.DisplayName = name
		}
		return err
	}, nil},
	{"email", func(u *User, value string) error {
		email, err := CheckEmail(value)
		if err == nil && !strings.EqualFold(email, u.Email) { // one stored in capitals stays
			if _, err = CheckNewEmail(value); err != nil {
				return err
			}
			u.Email, u.EmailVerified, u.EmailAskedAt = email, false, time.Time{}
		}
		return err
	}, nil},
	verified("email_verified", "There is no email address to mark as verified.",
		func(u *User) (string, *bool) { return u.Email, &u.EmailVerified }),
	claim("given_name", text.Line(100), func(p *Profile) *string { return &p.GivenName }),
	claim("family_name", text.Line(100), func(p *Profile) *string { return &p.FamilyName }),
	claim("middle_name", text.Line(100), func(p *Profile) *string { return &p.MiddleName }),
	claim("nickname", text.Line(100), func(p *Profile) *string { return &p.Nickname }),
	claim("profile", text.WebAddress, func(p *Profile) *string { return &p.Page }),
	claim("picture", text.WebAddress, func(p *Profile) *string { return &p.Picture }),
	claim("website", text.WebAddress, func(p *Profile) *string { return &p.Website }),
	claim("gender", text.Line(50), func(p *Profile) *string { return &p.Gender }),
	claim("birthdate", text.Birthdate, func(p *Profile) *string { return &p.Birthdate }),
	claim("zoneinfo", text.Zoneinfo, func(p *Profile) *string { return &p.Zoneinfo }),
	claim("locale", text.Locale, func(p *Profile) *string { return &p.Locale }),
	claim("phone_number", text.PhoneNumber, func(p *Profile) *string { return &p.PhoneNumber }),
	verified("phone_number_verified", "There is no phone number to mark as verified.",
		func(u *User) (string, *bool) { return u.Profile.PhoneNumber, &u.Profile.PhoneNumberVerified }),
	claim("address.formatted", text.Lines(500), func(p *Profile) *string { return &p.Address.Formatted }),
	claim("address.street_address", text.Lines(200), func(p *Profile) *string { return &p.Address.StreetAddress }),
	claim("address.locality", text.Line(100), func(p *Profile) *string { return &p.Address.Locality }),
	claim("address.region", text.Line(100), func(p *Profile) *string { return &p.Address.Region }),
	claim("address.postal_code", text.Line(20), func(p *Profile) *string { return &p.Address.PostalCode }),
	claim("address.country", text.Line(100), func(p *Profile) *string { return &p.Address.Country }),
}

// claim is a text of the Profile. check returns the value to store, or a sentence that says what is
// accepted.
func claim(name string, check text.Rule, at func(*Profile) *string) userMember {
	return userMember{name, func(u *User, value string) error {
		kept, no := "", text.Refusal{}
		if value != "" {
			kept, no = check(value)
		}
		if no.Text != "" {
			return invalidClaim(name, no)
		}
		p := u.Profile
		own := Address{} // a copy: the original belongs to the caller
		if p.Address != nil {
			own = *p.Address
		}
		p.Address = &own
		to := at(&p)
		if name == "phone_number" && kept != *to {
			p.PhoneNumberVerified = false
		}
		*to = kept
		if own == (Address{}) {
			p.Address = nil
		}
		u.Profile = p
		return nil
	}, at}
}

// Text returns a claim of UserMembers that is a text, such as nickname or address.locality, or "".
func (p *Profile) Text(member string) string {
	i := slices.IndexFunc(userMembers, func(m userMember) bool { return m.name == member && m.at != nil })
	if i < 0 || p.Address == nil && strings.HasPrefix(member, "address.") {
		return ""
	}
	return *userMembers[i].at(p)
}

// verified is a mark that only an administrator or the operator sets.
func verified(name string, nothing templates.Text, at func(*User) (of string, mark *bool)) userMember {
	return userMember{name, func(u *User, value string) error {
		of, mark := at(u)
		switch {
		case value != "" && value != "true" && value != "false":
			return invalidClaim(name, text.Refusal{Text: "Enter true or false."})
		case value == "true" && of == "":
			return invalidClaim(name, text.Refusal{Text: nothing})
		}
		*mark = value == "true"
		return nil
	}, nil}
}

func invalidClaim(name string, no text.Refusal) error {
	return web.ForField(400, "invalid_profile", PointerTo(name), no.Text, "max", no.Max)
}

// AttributePrefix begins the members of a UserChange that set attributes.
const AttributePrefix = "attributes."

// maxAttribute is the length of the longest value of an attribute, in characters.
const maxAttribute = 200

var errNoSuchAttribute = text.Refusal{Text: "This attribute is not in the settings of this service."}

// setAttribute is the rule of an attribute.
func setAttribute(u *User, member, value string) error {
	name := strings.TrimPrefix(member, AttributePrefix)
	if value != "" {
		if CheckFlag(name) != nil {
			return invalidClaim(text.Cut(member, 64), errNoSuchAttribute)
		}
		if _, no := text.Line(maxAttribute)(value); no.Text != "" {
			return invalidClaim(member, no)
		}
	}
	all := maps.Clone(u.Profile.Attributes) // the original belongs to the caller
	delete(all, name)
	if value != "" {
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
	}
	u.Profile.Attributes = all
	return nil
}

// Undeclared refuses attributes that the settings do not declare. One that they no longer declare can
// only be cleared.
func (c UserChange) Undeclared(declared []string) error {
	var refused []error
	for _, member := range slices.Sorted(maps.Keys(c)) {
		name, ok := strings.CutPrefix(member, AttributePrefix)
		if ok && strings.TrimSpace(c[member]) != "" && !slices.Contains(declared, name) {
			refused = append(refused, invalidClaim(AttributePrefix+text.Cut(name, 64), errNoSuchAttribute))
		}
	}
	return web.AllFaults(refused...)
}

func PointerTo(member string) string { return "/" + strings.ReplaceAll(member, ".", "/") }

// UserChange is a change of a user: new values by member (UserMembers). An empty value removes the
// old one; other members stay.
type UserChange map[string]string

// UserMembers returns the names of the members that can be changed. Those of the address have the
// form address.locality.
func UserMembers() []string {
	var names []string
	for _, m := range userMembers {
		names = append(names, m.name)
	}
	return names
}

// Apply changes u, which need not be stored. The error is a *Problem that names everything refused,
// With the code of the first fault. A new email address or phone number is not verified unless the
// change says so.
func (c UserChange) Apply(u *User) error {
	for name := range c {
		if !strings.HasPrefix(name, AttributePrefix) && !slices.Contains(UserMembers(), name) {
			return web.BadRequest("The body contains an unknown member.",
				web.FieldError{Pointer: PointerTo(text.Cut(name, 64)), Detail: "unknown"})
		}
	}
	var refused []error
	last := "" // the last refused member, whose mark is skipped
	for _, m := range userMembers {
		value, given := c[m.name]
		if !given || m.name == last+"_verified" {
			continue
		}
		if err := m.set(u, strings.TrimSpace(value)); err != nil {
			last, refused = m.name, append(refused, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if strings.HasPrefix(name, AttributePrefix) {
			if err := setAttribute(u, name, strings.TrimSpace(c[name])); err != nil {
				refused = append(refused, err)
			}
		}
	}
	return web.AllFaults(refused...)
}

// Changed returns the names of the members that the change makes different, for the audit row.
func (c UserChange) Changed(u User) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		after := u
		if err := (UserChange{name: c[name]}).Apply(&after); err != nil || !reflect.DeepEqual(after, u) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// OwnMember reports whether people may change a member of themselves. They may not say that an
// address or a number is verified, and attributes are the administrators'.
func OwnMember(name string) bool {
	return !strings.HasSuffix(name, "_verified") && !strings.HasPrefix(name, AttributePrefix)
}

package templates

import (
	"slices"
	"strings"
	"time"
)

// Account is the first page of a person's account: their profile.
type Account struct {
	Member
	// Values are the members of the profile by name: what is stored, or what was typed and refused.
	Values map[string]string
	// FieldErrors are sentences by member.
	FieldErrors map[string]string
	// EmailVerified and PhoneVerified are about what is stored.
	EmailVerified, PhoneVerified bool
	// Verify is the address that has yet to be verified by mail, "" for none; VerifyCode says that a mail with a code
	// went to it.
	Verify     string
	VerifyCode bool
	// KeepOthers is the choice, in a form that was refused, that the other sessions stay.
	KeepOthers bool
}

func (Account) page() (string, bool) { return "account", false }

func (p Account) fault(field string) (string, bool) {
	if m := p.FieldErrors[field]; m != "" {
		return m, true
	}
	return p.Member.fault(field)
}

// shownFirst and shownOnDemand are the members in the order of the form.
var (
	shownFirst    = []string{"display_name", "email", "given_name", "family_name", "locale"}
	shownOnDemand = []string{
		"middle_name", "nickname", "birthdate", "gender", "phone_number", "zoneinfo", "website", "profile", "picture",
		"address.street_address", "address.postal_code", "address.locality", "address.region", "address.country", "address.formatted",
	}
)

// Focus is the first member that was refused.
func (p Account) Focus() string {
	for _, name := range slices.Concat(shownFirst, shownOnDemand) {
		if isInvalid(p, name) {
			return name
		}
	}
	return ""
}

// Open says that the members on demand are shown from the start, as one of them was refused.
func (p Account) Open() bool {
	return slices.ContainsFunc(shownOnDemand, func(name string) bool { return isInvalid(p, name) })
}

// ProfileField is a member of the profile in the form.
type ProfileField struct {
	P                                     Account
	Name, Label, Type, Autocomplete, Hint string // of type "lines": a text of several lines
}

func profileField(p Account, name, label, kind, autocomplete, hint string) ProfileField {
	return ProfileField{p, name, label, kind, autocomplete, hint}
}

// ID is the id of the field: the name, which is another's for the profile page.
func (f ProfileField) ID() string {
	if f.Name == "profile" {
		return "profile_page"
	}
	return f.Name
}

// DescribedBy is the aria-describedby of the field.
func (f ProfileField) DescribedBy() string {
	if f.Hint == "" {
		return describedBy(f.P, f.Name)
	}
	return describedBy(f.P, f.Name, f.Name+"-hint")
}

// Birthday is what the field of the birthday has: without its year the day stands in a leap year. Type is "text" for
// what is no day.
func (p Account) Birthday() (b struct {
	Type, Value string
	NoYear      bool
}) {
	day, hidden := strings.CutPrefix(p.Values["birthdate"], "0000-")
	b.Type, b.Value, b.NoYear = "date", p.Values["birthdate"], hidden
	if hidden {
		b.Value = "2000-" + day
	}
	if _, err := time.Parse(time.DateOnly, b.Value); err != nil && b.Value != "" {
		b.Type, b.Value, b.NoYear = "text", p.Values["birthdate"], false
	}
	return b
}

// Choice is a value that can be selected, with what people read.
type Choice struct {
	Value, Text string
	Selected    bool
}

// Languages are the languages that can be chosen, each in its own words, and the one that
// is stored where it is another.
func (p Account) Languages() []Choice {
	chosen := p.Values["locale"]
	var out []Choice
	for _, l := range languages().languages {
		out = append(out, Choice{l.tag, l.Text("English"), l.tag == chosen}) // its translation is the name of that language
	}
	if chosen != "" && !slices.ContainsFunc(out, func(c Choice) bool { return c.Selected }) {
		out = append(out, Choice{chosen, chosen, true})
	}
	return out
}

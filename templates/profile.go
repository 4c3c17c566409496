package templates

import (
	"slices"
	"strings"
	"time"
)

// AccountProfile is the page of a person's profile.
type AccountProfile struct {
	Member
	// Values has the members of the profile by name: as stored, or as typed and refused.
	Values map[string]string
	// Shown is as in AdminUser, of the only form.
	Shown string
	// Picture is the hash of the uploaded picture at {base}/picture/HASH.jpg, "" for none.
	Picture       string
	EmailVerified bool // the stored one
	// Verify is the address still to be verified by mail, "" for none. VerifyCode reports whether a
	// mail with a code was sent to it.
	Verify     string
	VerifyCode bool
	// Shared reports whether the address cannot be verified: another account of a family has verified it.
	Shared bool
	// Waits reports whether Verify takes the place of the verified address.
	Waits bool
	// Ends lists what another email address ends.
	Ends *Ends
}

func (AccountProfile) page() (string, bool) { return "account-profile", false }

// shownFirst and shownOnDemand are the members in the order of the form.
var (
	shownFirst    = []string{"display_name", "email"}
	shownOnDemand = []string{
		"given_name", "family_name", "locale", "nickname", "middle_name", "birthdate", "gender", "phone_number",
		"zoneinfo", "website", "profile", "picture",
		"address.street_address", "address.postal_code", "address.locality", "address.region", "address.country",
		"address.formatted",
	}
)

// Focus returns the first member that was refused.
func (p AccountProfile) Focus() string {
	for _, name := range slices.Concat(shownFirst, shownOnDemand) {
		if isInvalid(p, name) {
			return name
		}
	}
	return ""
}

// Open reports whether the members of shownOnDemand are shown initially, because one was refused.
func (p AccountProfile) Open() bool {
	return slices.ContainsFunc(shownOnDemand, func(name string) bool { return isInvalid(p, name) })
}

// profileMember is a member of the profile in the form.
type profileMember struct {
	P                                     AccountProfile
	Name, Label, Type, Autocomplete, Hint string // Type "lines" is a text of several lines
}

func profileField(p AccountProfile, name, label, kind, autocomplete, hint string) profileMember {
	return profileMember{p, name, label, kind, autocomplete, hint}
}

// ID returns the id of the field. That is the name, but the id "profile" belongs to the section.
func (f profileMember) ID() string {
	if f.Name == "profile" {
		return "profile_page"
	}
	return f.Name
}

// DescribedBy returns the aria-describedby of the field.
func (f profileMember) DescribedBy() string {
	if f.Hint == "" {
		return describedBy(f.P, f.Name)
	}
	return describedBy(f.P, f.Name, f.Name+"-hint")
}

// Birthday returns the content of the birthday field. A day without its year is shown in a leap
// year. Type is "text" if the value is not a day.
func (p AccountProfile) Birthday() (b struct {
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

// Choice is a value to select, with the text that people read.
type Choice struct {
	Value, Text string
	Selected    bool
}

// Languages returns the languages to choose from, each by its own name, and the stored one if it is
// not among them.
func (p AccountProfile) Languages() []Choice { return languageChoices(p.Values["locale"]) }

func languageChoices(chosen string) []Choice {
	var out []Choice
	for _, l := range languages().languages {
		name := l.Text("English") // each translation is the name of its own language
		out = append(out, Choice{l.tag, name, l.tag == chosen})
	}
	if chosen != "" && !slices.ContainsFunc(out, func(c Choice) bool { return c.Selected }) {
		out = append(out, Choice{chosen, chosen, true})
	}
	return out
}

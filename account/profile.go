package account

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/cairn-id/cairn/account/web"
)

// Profile are the standard claims of a person (OpenID Connect Core section 5.1)
// beyond those that every user has. Empty means not given.
type Profile struct {
	GivenName           string   `json:"given_name,omitempty"`
	FamilyName          string   `json:"family_name,omitempty"`
	MiddleName          string   `json:"middle_name,omitempty"`
	Nickname            string   `json:"nickname,omitempty"`
	Page                string   `json:"profile,omitempty"` // URL, like Picture and Website
	Picture             string   `json:"picture,omitempty"`
	Website             string   `json:"website,omitempty"`
	Gender              string   `json:"gender,omitempty"`
	Birthdate           string   `json:"birthdate,omitempty"` // YYYY-MM-DD, 0000-MM-DD or YYYY
	Zoneinfo            string   `json:"zoneinfo,omitempty"`  // name of the time zone database
	Locale              string   `json:"locale,omitempty"`    // BCP 47
	PhoneNumber         string   `json:"phone_number,omitempty"`
	PhoneNumberVerified bool     `json:"phone_number_verified,omitempty"` // set only by an administrator or the operator
	Address             *Address `json:"address,omitempty"`
}

// Address is the address claim (OpenID Connect Core section 5.1.1). The first two
// may have several lines.
type Address struct {
	Formatted     string `json:"formatted,omitempty"`
	StreetAddress string `json:"street_address,omitempty"`
	Locality      string `json:"locality,omitempty"`
	Region        string `json:"region,omitempty"`
	PostalCode    string `json:"postal_code,omitempty"`
	Country       string `json:"country,omitempty"`
}

// addressMembers are the members of the address claim.
var addressMembers = []string{"formatted", "street_address", "locality", "region", "postal_code", "country"}

// shownProfile is a Profile as its owner sees it: a number that is not verified
// says so.
type shownProfile struct {
	Profile
	PhoneNumberVerified *bool `json:"phone_number_verified,omitempty"`
}

func shown(p Profile) shownProfile {
	out := shownProfile{Profile: p}
	if p.PhoneNumber != "" {
		out.PhoneNumberVerified = &p.PhoneNumberVerified
	}
	return out
}

// profileClaim is one text of a Profile: its name as a claim, its place and its
// rule, which returns what is stored or a sentence that says what is accepted.
type profileClaim struct {
	name  string
	at    func(*Profile) *string
	check func(string) (kept, refusal string)
}

// profileClaims are in the order of the specification.
var profileClaims = []profileClaim{
	{"given_name", func(p *Profile) *string { return &p.GivenName }, line(100)},
	{"family_name", func(p *Profile) *string { return &p.FamilyName }, line(100)},
	{"middle_name", func(p *Profile) *string { return &p.MiddleName }, line(100)},
	{"nickname", func(p *Profile) *string { return &p.Nickname }, line(100)},
	{"profile", func(p *Profile) *string { return &p.Page }, webAddress},
	{"picture", func(p *Profile) *string { return &p.Picture }, webAddress},
	{"website", func(p *Profile) *string { return &p.Website }, webAddress},
	{"gender", func(p *Profile) *string { return &p.Gender }, line(50)},
	{"birthdate", func(p *Profile) *string { return &p.Birthdate }, birthdate},
	{"zoneinfo", func(p *Profile) *string { return &p.Zoneinfo }, zoneinfo},
	{"locale", func(p *Profile) *string { return &p.Locale }, locale},
	{"phone_number", func(p *Profile) *string { return &p.PhoneNumber }, phoneNumber},
	{"address.formatted", func(p *Profile) *string { return &p.address().Formatted }, lines(500)},
	{"address.street_address", func(p *Profile) *string { return &p.address().StreetAddress }, lines(200)},
	{"address.locality", func(p *Profile) *string { return &p.address().Locality }, line(100)},
	{"address.region", func(p *Profile) *string { return &p.address().Region }, line(100)},
	{"address.postal_code", func(p *Profile) *string { return &p.address().PostalCode }, line(20)},
	{"address.country", func(p *Profile) *string { return &p.address().Country }, line(100)},
}

// phoneVerified is the claim that only an administrator or the operator sets.
const phoneVerified = "phone_number_verified"

// ErrUnknownClaim is for a name that is no claim of a Profile.
var ErrUnknownClaim = errors.New("unknown claim")

// ProfileClaimNames are the names that Set knows; members of the address are
// written address.locality.
func ProfileClaimNames() []string {
	var names []string
	for _, c := range profileClaims {
		names = append(names, c.name)
		if c.name == "phone_number" {
			names = append(names, phoneVerified)
		}
	}
	return names
}

// Set changes one claim by its name, also phone_number_verified, for an
// administrator or the operator; an empty value removes it. A new phone number is no longer verified.
// ErrUnknownClaim, or a *Problem that says what is accepted.
func (p *Profile) Set(name, value string) error {
	if name != phoneVerified {
		return p.setOwn(name, value)
	}
	switch {
	case value != "" && value != "true" && value != "false":
		return invalidClaim(name, "This is true or false.")
	case value == "true" && p.PhoneNumber == "":
		return invalidClaim(name, "There is no phone number that could be verified.")
	}
	p.PhoneNumberVerified = value == "true"
	return nil
}

// setOwn changes what people may change of themselves.
func (p *Profile) setOwn(name, value string) error {
	i := slices.IndexFunc(profileClaims, func(c profileClaim) bool { return c.name == name })
	if i < 0 {
		return ErrUnknownClaim
	}
	kept, refusal := "", ""
	if value = strings.TrimSpace(value); value != "" {
		kept, refusal = profileClaims[i].check(value)
	}
	if refusal != "" {
		return invalidClaim(name, refusal)
	}
	// A copy of the address: the one before belongs to whoever gave the profile.
	if p.Address != nil {
		own := *p.Address
		p.Address = &own
	}
	at := profileClaims[i].at(p)
	if name == "phone_number" && kept != *at {
		p.PhoneNumberVerified = false
	}
	*at = kept
	if p.Address != nil && *p.Address == (Address{}) {
		p.Address = nil
	}
	return nil
}

// address is where the members of the address are, made when there is none.
func (p *Profile) address() *Address {
	if p.Address == nil {
		p.Address = &Address{}
	}
	return p.Address
}

func invalidClaim(name, refusal string) error {
	pointer := "/" + strings.ReplaceAll(name, ".", "/")
	return web.NewProblem(http.StatusBadRequest, "invalid_profile", refusal, web.FieldError{Pointer: pointer, Detail: refusal})
}

// line is the rule for a text of at most max characters in one line.
func line(max int) func(string) (string, string) {
	refusal := fmt.Sprintf("This has at most %d characters, in one line and without control characters.", max)
	return func(s string) (string, string) {
		if _, err := checkText(s, max); err != nil {
			return "", refusal
		}
		return s, ""
	}
}

// lines is the rule for a text of at most max characters and 10 lines.
func lines(max int) func(string) (string, string) {
	refusal := fmt.Sprintf("This has at most %d characters in at most 10 lines, and no control characters.", max)
	return func(s string) (string, string) {
		s = strings.ReplaceAll(s, "\r\n", "\n")
		if strings.Count(s, "\n") >= 10 || utf8.RuneCountInString(s) > max {
			return "", refusal
		}
		for l := range strings.SplitSeq(s, "\n") {
			if _, err := checkText(l, max); err != nil {
				return "", refusal
			}
		}
		return s, ""
	}
}

// webAddress keeps javascript: and the like away from the pages of the
// applications that show the claim.
func webAddress(s string) (string, string) {
	u, err := url.Parse(s)
	if err != nil || len(s) > 2000 || !printable(s) || strings.ContainsAny(s, " <>\"\\^`{|}") ||
		u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.Hostname() == "" || u.User != nil {
		return "", "This is a web address such as https://example.org/me, with at most 2,000 characters and without a user name."
	}
	return s, ""
}

var yearAlone = regexp.MustCompile(`^[1-9][0-9]{3}$`)

// birthdate accepts a day, a day without its year (0000-03-31) and a year.
func birthdate(s string) (string, string) {
	// Year 0 is a leap year: 0000-02-29 is a birthday.
	if _, err := time.Parse(time.DateOnly, s); err != nil && !yearAlone.MatchString(s) {
		return "", "This is a date such as 1990-03-31, or 0000-03-31 without the year, or the year alone."
	}
	return s, ""
}

var zoneForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}$`)

func zoneinfo(s string) (string, string) {
	const refusal = "This is the name of a time zone such as Europe/Rome."
	if len(s) > 64 || !zoneForm.MatchString(s) || s == "Local" {
		return "", refusal
	}
	if _, err := time.LoadLocation(s); err != nil && zonesKnown() {
		return "", refusal
	}
	return s, ""
}

// zonesKnown tells whether this system has the time zone database; without it
// the form of the name has to do. (Compiling it in would cost every installation
// its memory.)
var zonesKnown = sync.OnceValue(func() bool {
	_, err := time.LoadLocation("Europe/Rome")
	return err == nil
})

// locale keeps the canonical spelling: en_us becomes en-US.
func locale(s string) (string, string) {
	if len(s) <= 35 {
		if tag, err := language.Parse(s); err == nil && tag != language.Und {
			return tag.String(), ""
		}
	}
	return "", "This is a language such as it or en-GB (BCP 47)."
}

var (
	phoneForm       = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	phoneSeparators = strings.NewReplacer(" ", "", "-", "", ".", "", "(", "", ")", "", "/", "")
)

// phoneNumber keeps E.164: a plus sign and 7 to 15 digits.
func phoneNumber(s string) (string, string) {
	if kept := phoneSeparators.Replace(s); len(s) <= 40 && phoneForm.MatchString(kept) {
		return kept, ""
	}
	return "", "This is a phone number with its country, such as +39 06 1234567."
}

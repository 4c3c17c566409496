package account

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
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

// userMember is what can be changed of a user: its name in the API, as a claim, and
// its rule. set keeps a value, trimmed, or refuses it with a *Problem.
type userMember struct {
	name string
	set  func(u *User, value string) error
}

// userMembers are in the order in which they are set: a mark after what it is about.
var userMembers = []userMember{
	{"display_name", func(u *User, value string) error {
		name, err := CheckDisplayName(value)
		if err == nil {
			u.DisplayName = name
		}
		return err
	}},
	{"email", func(u *User, value string) error {
		email, err := CheckEmail(value)
		if err == nil {
			if email != u.Email {
				u.EmailVerified, u.EmailAskedAt = false, time.Time{}
			}
			u.Email = email
		}
		return err
	}},
	verified("email_verified", "There is no email address that could be verified.", func(u *User) (string, *bool) { return u.Email, &u.EmailVerified }),
	claim("given_name", line(100), func(p *Profile) *string { return &p.GivenName }),
	claim("family_name", line(100), func(p *Profile) *string { return &p.FamilyName }),
	claim("middle_name", line(100), func(p *Profile) *string { return &p.MiddleName }),
	claim("nickname", line(100), func(p *Profile) *string { return &p.Nickname }),
	claim("profile", webAddress, func(p *Profile) *string { return &p.Page }),
	claim("picture", webAddress, func(p *Profile) *string { return &p.Picture }),
	claim("website", webAddress, func(p *Profile) *string { return &p.Website }),
	claim("gender", line(50), func(p *Profile) *string { return &p.Gender }),
	claim("birthdate", birthdate, func(p *Profile) *string { return &p.Birthdate }),
	claim("zoneinfo", zoneinfo, func(p *Profile) *string { return &p.Zoneinfo }),
	claim("locale", locale, func(p *Profile) *string { return &p.Locale }),
	claim("phone_number", phoneNumber, func(p *Profile) *string { return &p.PhoneNumber }),
	verified("phone_number_verified", "There is no phone number that could be verified.", func(u *User) (string, *bool) { return u.Profile.PhoneNumber, &u.Profile.PhoneNumberVerified }),
	claim("address.formatted", lines(500), func(p *Profile) *string { return &p.Address.Formatted }),
	claim("address.street_address", lines(200), func(p *Profile) *string { return &p.Address.StreetAddress }),
	claim("address.locality", line(100), func(p *Profile) *string { return &p.Address.Locality }),
	claim("address.region", line(100), func(p *Profile) *string { return &p.Address.Region }),
	claim("address.postal_code", line(20), func(p *Profile) *string { return &p.Address.PostalCode }),
	claim("address.country", line(100), func(p *Profile) *string { return &p.Address.Country }),
}

// refusal says what is accepted, with {max}; without text there is none.
type refusal struct {
	text templates.Text
	max  int
}

// claim is a text of the Profile; check returns what is kept, or a sentence that says
// what is accepted.
func claim(name string, check func(string) (kept string, no refusal), at func(*Profile) *string) userMember {
	return userMember{name, func(u *User, value string) error {
		kept, no := "", refusal{}
		if value != "" {
			kept, no = check(value)
		}
		if no.text != "" {
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
	}}
}

// verified is a mark that only an administrator or the operator sets.
func verified(name string, nothing templates.Text, at func(*User) (of string, mark *bool)) userMember {
	return userMember{name, func(u *User, value string) error {
		of, mark := at(u)
		switch {
		case value != "" && value != "true" && value != "false":
			return invalidClaim(name, refusal{text: "This is true or false."})
		case value == "true" && of == "":
			return invalidClaim(name, refusal{text: nothing})
		}
		*mark = value == "true"
		return nil
	}}
}

func invalidClaim(name string, no refusal) error {
	return web.ForField(400, "invalid_profile", pointerTo(name), no.text, "max", no.max)
}

func pointerTo(member string) string { return "/" + strings.ReplaceAll(member, ".", "/") }

// UserChange is a change of a user: new values by member (UserMembers); an empty one
// removes what was there, and what is not named stays.
type UserChange map[string]string

// UserMembers are the names of what can be changed; members of the address are
// written address.locality.
func UserMembers() []string {
	var names []string
	for _, m := range userMembers {
		names = append(names, m.name)
	}
	return names
}

// Apply changes u, which may be a user that is not stored yet. A *Problem that names
// everything that is refused, with the code of the first. A new email address or phone
// number is not verified unless the change says so.
func (c UserChange) Apply(u *User) error {
	for name := range c {
		if !slices.Contains(UserMembers(), name) {
			return web.BadRequest("The body has a member that is not known here.", web.FieldError{Pointer: pointerTo(cut(name, 64)), Detail: "not known"})
		}
	}
	var refused []error
	last := "" // the member that was refused last: its mark is not looked at
	for _, m := range userMembers {
		value, given := c[m.name]
		if !given || m.name == last+"_verified" {
			continue
		}
		if err := m.set(u, strings.TrimSpace(value)); err != nil {
			last, refused = m.name, append(refused, err)
		}
	}
	return allFaults(refused...)
}

// ownMember reports whether people may change a member of themselves: whether an address or a
// number is verified is not for them to say.
func ownMember(name string) bool { return !strings.HasSuffix(name, "_verified") }

// ChangeProfile changes the caller. With another email address the other sessions end, unless keepOthers.
func (s *Service) ChangeProfile(ctx context.Context, c Caller, change UserChange, keepOthers bool) (User, error) {
	for {
		u, err := s.changeProfile(ctx, c, change, keepOthers)
		if !errors.Is(err, errEmailMoved) {
			return u, web.Noted(ctx, "profile_changed", err)
		}
		if c.User, err = s.store.UserBySub(ctx, c.User.Sub); err != nil {
			return u, err
		}
	}
}

// errEmailMoved: the address was changed by another request. Who is told of this change depends on it.
var errEmailMoved = errors.New("the email address has changed in the meantime")

func (s *Service) changeProfile(ctx context.Context, c Caller, change UserChange, keepOthers bool) (User, error) {
	u := c.User
	draft := u // what is refused costs no write
	if err := change.Apply(&draft); err != nil || len(change) == 0 {
		return u, err
	}
	detail := strings.Join(slices.Sorted(maps.Keys(change)), " ")
	if draft.Email == u.Email {
		row, err := s.begin(ctx, c, "profile.change", detail)
		if err != nil {
			return u, err
		}
		return s.store.ChangeUser(ctx, u.Sub, func(now *User) error {
			if err := change.Apply(now); err != nil {
				return err
			}
			return sameEmail(*now, u)
		}, s.now(), &row)
	}
	row, err := s.beginEmailChange(ctx, c, detail)
	if err != nil {
		return u, err
	}
	row.EndOthers = !keepOthers
	verify := false
	if draft.Email != "" && s.MailEnabled() {
		wait, err := s.verificationLimit(ctx, u)
		if err != nil {
			return u, err
		}
		verify = wait == 0
	}
	told := row.Mails
	return s.store.ChangeUser(ctx, u.Sub, func(now *User) error {
		if err := sameEmail(*now, u); err != nil {
			return err
		}
		if err := change.Apply(now); err != nil {
			return err
		}
		if row.Mails = slices.Clone(told); verify {
			row.Mails = append(row.Mails, s.askVerification(ctx, now)...)
		}
		return nil
	}, s.now(), &row)
}

func sameEmail(now, before User) error {
	if now.Email != before.Email || now.EmailVerified != before.EmailVerified {
		return errEmailMoved
	}
	return nil
}

// line is the rule for a text of at most max characters in one line.
func line(max int) func(string) (string, refusal) {
	return func(s string) (string, refusal) {
		if _, err := checkText(s, max); err != nil {
			return "", refusal{"This has at most {max} characters, in one line and without control characters.", max}
		}
		return s, refusal{}
	}
}

// lines is the rule for a text of at most max characters and 10 lines.
func lines(max int) func(string) (string, refusal) {
	no := refusal{"This has at most {max} characters in at most 10 lines, and no control characters.", max}
	return func(s string) (string, refusal) {
		s = strings.ReplaceAll(s, "\r\n", "\n")
		if strings.Count(s, "\n") >= 10 || utf8.RuneCountInString(s) > max {
			return "", no
		}
		for l := range strings.SplitSeq(s, "\n") {
			if _, err := checkText(l, max); err != nil {
				return "", no
			}
		}
		return s, refusal{}
	}
}

// webAddress keeps javascript: and the like away from the pages of the
// applications that show the claim.
func webAddress(s string) (string, refusal) {
	u, err := url.Parse(s)
	if err != nil || len(s) > 2000 || !printable(s) || strings.ContainsAny(s, " <>\"\\^`{|}") ||
		u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.Hostname() == "" || u.User != nil {
		return "", refusal{text: "This is a web address such as https://example.org/me, with at most 2,000 characters and without a user name."}
	}
	return s, refusal{}
}

var yearAlone = regexp.MustCompile(`^[1-9][0-9]{3}$`)

// birthdate accepts a day, a day without its year (0000-03-31) and a year.
func birthdate(s string) (string, refusal) {
	// Year 0 is a leap year: 0000-02-29 is a birthday.
	if _, err := time.Parse(time.DateOnly, s); err != nil && !yearAlone.MatchString(s) {
		return "", refusal{text: "This is a date such as 1990-03-31, or 0000-03-31 without the year, or the year alone."}
	}
	return s, refusal{}
}

var zoneForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}$`)

func zoneinfo(s string) (string, refusal) {
	no := refusal{text: "This is the name of a time zone such as Europe/Rome."}
	if len(s) > 64 || !zoneForm.MatchString(s) || s == "Local" {
		return "", no
	}
	if _, err := time.LoadLocation(s); err != nil && zonesKnown() {
		return "", no
	}
	return s, refusal{}
}

// zonesKnown tells whether this system has the time zone database; without it
// the form of the name has to do. (Compiling it in would cost every installation
// its memory.)
var zonesKnown = sync.OnceValue(func() bool {
	_, err := time.LoadLocation("Europe/Rome")
	return err == nil
})

// locale keeps the canonical spelling: en_us becomes en-US.
func locale(s string) (string, refusal) {
	if len(s) <= 35 {
		if tag, err := language.Parse(s); err == nil && tag != language.Und {
			return tag.String(), refusal{}
		}
	}
	return "", refusal{text: "This is a language such as it or en-GB (BCP 47)."}
}

var (
	phoneForm       = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	phoneSeparators = strings.NewReplacer(" ", "", "-", "", ".", "", "(", "", ")", "", "/", "")
)

// phoneNumber keeps E.164: a plus sign and 7 to 15 digits.
func phoneNumber(s string) (string, refusal) {
	if kept := phoneSeparators.Replace(s); len(s) <= 40 && phoneForm.MatchString(kept) {
		return kept, refusal{}
	}
	return "", refusal{text: "This is a phone number with its country, such as +39 06 1234567."}
}

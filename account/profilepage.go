package account

import (
	"net/http"
	"strings"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Service) profilePage(r *http.Request, m templates.Member) (templates.Page, error) {
	return s.describeProfile(r, m), nil
}

func (s *Service) describeProfile(r *http.Request, m templates.Member) templates.Account {
	u := IdentityFrom(r.Context()).User
	f, a := u.Profile, Address{}
	if f.Address != nil {
		a = *f.Address
	}
	page := templates.Account{Member: m, EmailVerified: u.EmailVerified, PhoneVerified: f.PhoneNumberVerified, Values: map[string]string{
		"display_name": u.DisplayName, "email": u.Email,
		"given_name": f.GivenName, "family_name": f.FamilyName, "middle_name": f.MiddleName, "nickname": f.Nickname, "profile": f.Page, "picture": f.Picture,
		"website": f.Website, "gender": f.Gender, "birthdate": f.Birthdate, "zoneinfo": f.Zoneinfo, "locale": f.Locale, "phone_number": f.PhoneNumber,
		"address.formatted": a.Formatted, "address.street_address": a.StreetAddress, "address.locality": a.Locality,
		"address.region": a.Region, "address.postal_code": a.PostalCode, "address.country": a.Country,
	}}
	if s.MailEnabled() && u.Email != "" && !u.EmailVerified {
		page.Verify, page.VerifyCode = u.Email, s.verifiable(u)
	}
	return page
}

// refusedProfile is the page with what was typed, and at each field what is wrong with it.
func (s *Service) refusedProfile(r *http.Request, m templates.Member, faults []web.FieldError) templates.Account {
	page := s.describeProfile(r, m)
	page.Error = templates.LanguageOf(r.Context()).Text("Nothing is saved: {count} entries have to be corrected.", "count", len(faults))
	page.FieldErrors = map[string]string{}
	for _, f := range faults {
		page.FieldErrors[strings.ReplaceAll(f.Pointer[1:], "/", ".")] = string(f.Detail)
	}
	for name := range page.Values {
		if r.PostForm.Has(name) {
			page.Values[name] = cutLines(r.PostForm.Get(name))
		}
	}
	return page
}

func (s *Service) profileForm(_ http.ResponseWriter, r *http.Request) error {
	c := UserChange{}
	for _, name := range UserMembers() {
		if ownMember(name) && r.PostForm.Has(name) {
			c[name] = r.PostForm.Get(name)
		}
	}
	_, err := s.changeProfile(r, c)
	return err
}

// cutLines is what was typed, bounded, to show it again.
func cutLines(typed string) string {
	lines := strings.SplitN(typed, "\n", 12)
	for i, l := range lines {
		lines[i] = cut(l, 2001)
	}
	return strings.Join(lines[:min(len(lines), 11)], "\n")
}

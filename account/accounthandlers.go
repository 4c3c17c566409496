package account

import (
	"net/http"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// memberPage returns a page of a person's account. m holds what all these pages show, with the
// answer to a form if there is one.
type memberPage func(r *http.Request, m templates.Member) (templates.Page, error)

// memberPages maps the rest of the path under /account/ to a page.
func (s *Service) memberPages() map[string]memberPage {
	return map[string]memberPage{
		"": s.profilePage, "security": s.securityPage, "devices": s.devicesPage, "apps": s.appsPage,
		"invites": s.invitesPage, "data": s.dataPage,
	}
}

// notices are the messages that a page of the account shows after a form, with the page and the
// section of the form. The query names a notice and never brings text.
var notices = map[string]struct {
	page, section string
	text          templates.Text
}{
	"profile-saved":     {"", "profile", "Your profile is saved."},
	"email-verified":    {"", "verify-email", "Your email address is verified."},
	"verification-sent": {"", "verify-email", "The mail is on its way. Open its link or enter its code here."},
	"password-changed": {"security", "password",
		"Your password is changed. Your other sessions have ended, and applications have lost their access."},
	"passkey-added":   {"security", "passkeys", "The passkey is added."},
	"passkey-renamed": {"security", "passkeys", "The passkey is renamed."},
	"passkey-removed": {"security", "passkeys",
		"The passkey is removed. Delete it in your device or password manager, too."},
	"totp-added": {"security", "second-factor", "Your authenticator app is set up."},
	"totp-removed": {"security", "second-factor",
		"Your authenticator app is removed. Delete its entry in the app too."},
	"session-ended":   {"devices", "sessions", "The session has ended."},
	"sessions-ended":  {"devices", "sessions", "All other sessions have ended."},
	"invite-created":  {"invites", "invites", "The invite is ready. Send its link to the person you invite."},
	"invite-mailed":   {"invites", "invites", "The invite is on its way by mail. Its link is also below."},
	"invite-deleted":  {"invites", "invites", "The invite is deleted."},
	"app-removed":     {"apps", "apps", "The application no longer has access to your account."},
	"account-deleted": {"data", "data", ""},
}

// accountPage returns the handler of a page, which shows the notice that the query names if it
// belongs to the page.
func (s *Service) accountPage(name string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		m := s.member(r)
		if done := notices[r.URL.Query().Get("notice")]; done.page == name && done.text != "" {
			m.Answer = templates.Answer{Section: done.section,
				Notice: templates.LanguageOf(r.Context()).Text(done.text)}
		}
		return s.showMember(w, r, http.StatusOK, name, m)
	}
}

// accountForm returns the handler of a form. It runs the operation and redirects to the page of the
// form, so that reloading does not repeat it. If the operation is refused, the page shows the
// reason.
func (s *Service) accountForm(notice string, do operation) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := web.ReadForm(w, r); err != nil {
			return err
		}
		at := notices[notice]
		switch err := do(w, r); {
		case err != nil:
			return s.accountRefused(w, r, at.page, at.section, err)
		case notice == "account-deleted":
			s.clearCookies(w)
			s.Show(w, r, http.StatusOK, templates.SignedOut{Deleted: true})
			return nil
		case notice == "invite-created" && strings.TrimSpace(r.PostForm.Get("email")) != "":
			return s.Redirect(w, r, "/account/invites?notice=invite-mailed#invites")
		}
		return s.Redirect(w, r, "/account/"+at.page+"?notice="+notice+"#"+at.section)
	}
}

// accountRefused shows the page with the reason of a refusal, and with what was typed unless it is
// secret.
func (s *Service) accountRefused(w http.ResponseWriter, r *http.Request, page, section string, cause error) error {
	p, err := web.Refusal(w, r, cause)
	if err != nil {
		return err
	}
	m := s.member(r)
	m.Answer, m.ErrorField = templates.Answer{Section: section, Error: p.Detail, ErrorCode: p.Code},
		refusedField(section, p)
	if section == "passkeys" {
		m.PasskeyName = text.Cut(r.PostForm.Get("name"), 60)
	}
	if section == "profile" && len(p.Errors) > 0 {
		s.Show(w, r, p.Status, s.refusedProfile(r, m, p.Errors))
		return nil
	}
	return s.showMember(w, r, p.Status, page, m)
}

// refusedField returns the name of the field that a refusal is about, or "" if the page finds it by
// the code.
func refusedField(section string, p *web.Problem) string {
	switch {
	case section == "verify-email" && p.Code == ErrInvalidEmailCode.Code:
		return "code"
	case section == "invites" && p.Code == ErrInvalidEmail.Code:
		return "email"
	case section == "invites" && p.Code == "invalid_text":
		return "note"
	case section == "data" && p.Code == "invalid_credentials":
		return "password"
	}
	return ""
}

// member returns what every page shows about the person who requests it.
func (s *Service) member(r *http.Request) templates.Member {
	u := IdentityFrom(r.Context()).User
	return templates.Member{Handle: u.Handle, DisplayName: u.DisplayName, Admin: u.Has(FlagAdmin), Flags: u.Flags}
}

func (s *Service) showMember(
	w http.ResponseWriter, r *http.Request, status int, name string, m templates.Member,
) error {
	page, err := s.memberPages()[name](r, m)
	if err != nil {
		return err
	}
	s.Show(w, r, status, page)
	return nil
}

// securityPage has sections that other files describe.
func (s *Service) securityPage(r *http.Request, m templates.Member) (templates.Page, error) {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return nil, err
	}
	page := templates.AccountSecurity{Member: m, MinPassword: settings.MinPassword}
	for _, describe := range []func(*http.Request, *templates.AccountSecurity) error{s.describeRequiredFactor,
		s.describePasskeys, s.describeFactors, s.describeHistory} {
		if err := describe(r, &page); err != nil {
			return nil, err
		}
	}
	return page, nil
}

func (s *Service) devicesPage(r *http.Request, m templates.Member) (templates.Page, error) {
	id := IdentityFrom(r.Context())
	live, err := s.store.Sessions(r.Context(), id.User.Sub, s.now())
	if err != nil {
		return nil, err
	}
	sessions, more := ShownSessions(r, live)
	if !slices.ContainsFunc(sessions, func(n Session) bool { return n.ID == id.Session.ID }) {
		sessions = append(sessions, id.Session) // people look for the one they use
	}
	return templates.AccountDevices{Member: m, Sessions: SessionRows(sessions, id.Session.ID), MoreSessions: more}, nil
}

func (s *Service) appsPage(r *http.Request, m templates.Member) (templates.Page, error) {
	apps, err := s.appsFor(r.Context(), IdentityFrom(r.Context()).User)
	if err != nil {
		return nil, err
	}
	page := templates.AccountApps{Member: m, Apps: AppRows(apps)}
	for i := range page.Apps {
		if s.scopeTexts != nil {
			page.Apps[i].Sees = s.scopeTexts(r.Context(), page.Apps[i].Scopes)
		}
	}
	return page, nil
}

func (s *Service) invitesPage(r *http.Request, m templates.Member) (templates.Page, error) {
	u := IdentityFrom(r.Context()).User
	remaining, err := s.invitesLeft(r.Context(), u)
	if err != nil {
		return nil, err
	}
	// Only the latest: /api/invites and the export have all.
	invites, err := s.store.Invites(r.Context(), InviteQuery{Sub: u.Sub, Limit: pageOfInvites})
	if err != nil {
		return nil, err
	}
	page, now := templates.AccountInvites{Member: m, InvitesRemaining: remaining, Mail: s.MailEnabled()}, s.now()
	for _, i := range invites {
		used := !i.UsedAt.IsZero()
		page.Invites = append(page.Invites, templates.InviteRow{
			Code: i.Shown(), URL: s.InviteURL(i), Note: i.Note, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
			Used: used, UsedAt: i.UsedAt, UsedBy: i.UsedBy, Expired: !used && !i.Open(now),
		})
	}
	return page, nil
}

// invitePage shows an open invite of the person, to be printed.
func (s *Service) invitePage(w http.ResponseWriter, r *http.Request) error {
	code, m := CanonicalInviteCode(r.URL.Query().Get("code")), s.member(r)
	i, err := s.store.Invite(r.Context(), code)
	if err == nil && (i.CreatedBy != IdentityFrom(r.Context()).User.Sub || !i.Open(s.now())) {
		err = ErrInviteNotFound
	}
	if err != nil {
		return err
	}
	s.Show(w, r, http.StatusOK,
		templates.AccountInviteSlip{Member: m, Code: i.Shown(), URL: s.InviteURL(i), Note: i.Note,
			ExpiresAt: i.ExpiresAt})
	return nil
}

func (s *Service) dataPage(_ *http.Request, m templates.Member) (templates.Page, error) {
	return templates.AccountData{Member: m}, nil
}

func (s *Service) profilePage(r *http.Request, m templates.Member) (templates.Page, error) {
	return s.describeProfile(r, m), nil
}

func (s *Service) describeProfile(r *http.Request, m templates.Member) templates.Account {
	u := IdentityFrom(r.Context()).User
	f, a := u.Profile, Address{}
	if f.Address != nil {
		a = *f.Address
	}
	page := templates.Account{Member: m, EmailVerified: u.EmailVerified, PhoneVerified: f.PhoneNumberVerified,
		Values: map[string]string{
			"display_name": u.DisplayName, "email": u.Email, "given_name": f.GivenName,
			"family_name": f.FamilyName, "middle_name": f.MiddleName, "nickname": f.Nickname,
			"profile": f.Page, "picture": f.Picture, "website": f.Website, "gender": f.Gender,
			"birthdate": f.Birthdate, "zoneinfo": f.Zoneinfo, "locale": f.Locale, "phone_number": f.PhoneNumber,
			"address.formatted": a.Formatted, "address.street_address": a.StreetAddress,
			"address.locality": a.Locality, "address.region": a.Region,
			"address.postal_code": a.PostalCode, "address.country": a.Country,
		}}
	if s.MailEnabled() && u.Email != "" && !u.EmailVerified {
		page.Verify, page.VerifyCode = u.Email, s.verifiable(u)
	}
	return page
}

// refusedProfile returns the page with what was typed and the fault of each field.
func (s *Service) refusedProfile(r *http.Request, m templates.Member, faults []web.FieldError) templates.Account {
	page := s.describeProfile(r, m)
	page.KeepOthers = keepOthers(r)
	page.Error = templates.LanguageOf(r.Context()).Text("Nothing is saved: {count} entries have to be corrected.",
		"count", len(faults))
	page.FieldErrors = map[string]string{}
	for _, f := range faults {
		page.FieldErrors[strings.ReplaceAll(f.Pointer[1:], "/", ".")] = string(f.Detail)
	}
	for name := range page.Values {
		if r.PostForm.Has(name) {
			page.Values[name] = text.CutLines(r.PostForm.Get(name))
		}
	}
	return page
}

func (s *Service) profileForm(_ http.ResponseWriter, r *http.Request) error {
	c := UserChange{}
	if b := r.PostForm.Get("birthdate"); r.PostForm.Has("birthdate_no_year") && len(b) == len("1990-03-31") {
		r.PostForm.Set("birthdate", "0000"+b[4:])
	}
	for _, name := range UserMembers() {
		if ownMember(name) && r.PostForm.Has(name) {
			c[name] = r.PostForm.Get(name)
		}
	}
	_, err := s.ChangeProfile(r.Context(), s.Caller(r), c, keepOthers(r))
	return err
}

// shownHistory is how many rows the page shows. It may show fewer, because only rows about this
// person are taken from the readHistory rows read.
const shownHistory, readHistory = 20, 100

// describeHistory adds the recent activity on the account to the page.
func (s *Service) describeHistory(r *http.Request, page *templates.AccountSecurity) error {
	rows, err := s.store.AuditLog(r.Context(), AuditQuery{Person: page.Handle, Limit: readHistory})
	for _, a := range rows {
		if a.Target != page.Handle || len(page.History) == shownHistory {
			continue
		}
		if a.Actor != page.Handle && a.Actor != "" {
			a.Address = "" // the address of another person
		}
		page.History = append(page.History, a.Row())
	}
	return err
}

package site

import (
	"errors"
	"net/http"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// memberPage returns a page of a person's account. m holds what all these pages show, with the
// answer to a form if there is one.
type memberPage func(r *http.Request, m templates.Member) (templates.Page, error)

// memberPages maps the rest of the path under /account/ to a page.
func (s *Site) memberPages() map[string]memberPage {
	return map[string]memberPage{
		"": s.homePage, "profile": s.profilePage,
		"security": s.securityPage, "devices": s.devicesPage, "apps": s.appsPage,
		"invites": s.invitesPage, "data": s.dataPage, "publish/": s.publishPage, "welcome": s.welcomePage,
	}
}

// notices are the messages that a page of the account shows after a form, with the page and the
// section of the form. The query names a notice and never brings text.
var notices = map[string]struct {
	page, section string
	text          templates.Text
}{
	"profile-saved":   {"profile", "profile", "Your profile is saved."},
	"picture-set":     {"profile", "photo", "Your picture is saved."},
	"picture-removed": {"profile", "photo", "Your picture is removed."},
	"email-verified":  {"profile", "verify-email", "Your email address is verified."},
	"email-cancelled": {"profile", "verify-email",
		"The change of address is cancelled. Your address stays the same."},
	"verification-sent": {"profile", "verify-email", "We have sent the email. Open its link or enter its code here."},
	"password-changed": {"security", "password",
		"Your password is changed. You are signed out everywhere else, and applications no longer have access."},
	"password-removed": {"security", "password", "Your password is removed. From now on, sign in with a passkey."},
	"passkey-added":    {"security", "passkeys", "The passkey is added. You can change its name here."},
	"passkey-renamed":  {"security", "passkeys", "The passkey is renamed."},
	"passkey-removed": {"security", "passkeys",
		"The passkey is removed. Delete it from your device or password manager too."},
	"totp-added": {"security", "second-factor", "Your authenticator app is set up."},
	"totp-removed": {"security", "second-factor",
		"Your authenticator app is removed. Delete its entry in the app too."},
	"second-step-on": {"security", "second-step", "From now on, you need a second step after your password."},
	"second-step-off": {"security", "second-step",
		"Your password alone is enough now. Your recovery codes no longer work."},
	"recovery-used": {"security", "recovery", "You used a recovery code to sign in, and it no longer works. If you " +
		"have lost your app or passkey, remove it here and set up a new one."},
	"session-ended":   {"devices", "sessions", "The device is signed out."},
	"sessions-ended":  {"devices", "sessions", "You are signed out everywhere else."},
	"invite-created":  {"invites", "invites", "The invite is ready. Send the link to the person you want to invite."},
	"invite-mailed":   {"invites", "invites", "We have emailed the invite. You can also copy its link below."},
	"invite-deleted":  {"invites", "invites", "The invite is deleted."},
	"app-removed":     {"apps", "apps", "The application no longer has access to your account."},
	"account-deleted": {"data", "data", ""},
}

// accountPage returns the handler of a page, which shows the notice that the query names if it
// belongs to the page.
func (s *Site) accountPage(name string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		m := s.member(r)
		if _, err := r.Cookie(s.hostOnly(offerCookie)); name == "" && err == nil {
			s.setOffer(w, -1)
			if m.Offer, err = s.passkeys.MayOffer(r.Context(), s.Caller(r)); err != nil {
				return err
			}
		}
		if done := notices[r.URL.Query().Get("notice")]; done.page == name && done.text != "" {
			m.Answer = templates.Answer{Section: done.section,
				Notice: templates.LanguageOf(r.Context()).Text(done.text)}
			if done.section == "profile" {
				m.Signals = s.passkeys.PasskeyDetails(IdentityFrom(r.Context()).User)
			}
		}
		return s.showMember(w, r, http.StatusOK, name, m)
	}
}

// accountForm returns the handler of a form. It runs the operation and redirects to the page of the
// form, so that reloading does not repeat it. If the operation is refused, the page shows the
// reason.
func (s *Site) accountForm(notice string, do operation) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := web.ReadForm(w, r, "flag", keepApp, voidGiven, removeFactor); err != nil {
			return err
		}
		at := notices[notice]
		switch err := do(w, r); {
		case errors.Is(err, errShown):
			return nil
		case err != nil:
			return s.accountRefused(w, r, at.page, at.section, err)
		case notice == "account-deleted":
			s.clearCookies(w)
			s.Show(w, r, http.StatusOK, templates.SignedOut{Deleted: true})
			return nil
		case notice == "invite-created" && strings.TrimSpace(r.PostForm.Get("email")) != "":
			return s.Redirect(w, r, "/account/invites?notice=invite-mailed#invites")
		case notice == "invite-created" && r.PostForm.Get("app") != "":
			path := account.LeadingTo("/account/invites?notice="+notice, r.PostForm.Get("app"))
			return s.Redirect(w, r, path+"#invites")
		}
		return s.Redirect(w, r, "/account/"+at.page+"?notice="+notice+"#"+at.section)
	}
}

// maxShown limits what was typed into a line of a refused form when it is shown again, in characters. It is more than
// any line accepts.
const maxShown = 1000

// accountRefused shows the page with the reason of a refusal, and with what was typed unless it is
// secret.
func (s *Site) accountRefused(w http.ResponseWriter, r *http.Request, page, section string, cause error) error {
	p, err := web.Refusal(w, r, cause)
	if err != nil {
		return err
	}
	m := s.member(r)
	m.ErrorField, m.FieldErrors = refusedField(section, p), p.ByField()
	m.Answer = templates.NewAnswer(templates.LanguageOf(r.Context()), section, p.Detail, p.Code, m.FieldErrors)
	switch {
	case section == "passkeys" && r.PostForm.Has("id"): // the name of another one
		m.FieldErrors = nil
	case section == "passkeys":
		newPasskey(r, &m)
	case section == "profile":
		page, err := s.refusedProfile(r, m)
		if err != nil {
			return err
		}
		s.Show(w, r, p.Status, page)
		return nil
	}
	return s.showMember(w, r, p.Status, page, m)
}

// refusedField returns the name of the field that a refusal is about, or "" if the page finds it by
// the code.
func refusedField(section string, p *web.Problem) string {
	switch {
	case section == "verify-email" && p.Code == account.ErrInvalidEmailCode.Code:
		return "code"
	case section == "photo":
		return "picture-file"
	case section == "data" && p.Code == "invalid_credentials":
		return "password"
	}
	return ""
}

// member returns what every page shows about the person who requests it.
func (s *Site) member(r *http.Request) templates.Member {
	u := IdentityFrom(r.Context()).User
	return templates.Member{Handle: u.Handle, DisplayName: u.DisplayName, Admin: u.Has(account.FlagAdmin),
		Flags: u.Flags, EndsAt: u.EndsAt, FlagEnds: account.FlagEndRows(u.Flags, u.FlagEnds),
		Passwordless: u.Passwordless(), Publish: u.Has(account.FlagActivity)}
}

func (s *Site) showMember(
	w http.ResponseWriter, r *http.Request, status int, name string, m templates.Member,
) error {
	page, err := s.memberPages()[name](r, m)
	if err != nil {
		return err
	}
	s.Show(w, r, status, page)
	return nil
}

package account

import (
	"net/http"
	"slices"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// notices are what the account page can say after a form, and the section that the
// form belongs to; the query names a notice, it never brings text.
var notices = map[string]struct{ section, text string }{
	"profile-saved":    {"profile", "Your profile is saved."},
	"password-changed": {"password", "Your password is changed. Your other sessions have ended, and applications have lost their access."},
	"session-ended":    {"sessions", "The session has ended."},
	"sessions-ended":   {"sessions", "All other sessions have ended."},
	"invite-created":   {"invites", "The invite is ready. Send its link to the person you invite."},
	"invite-deleted":   {"invites", "The invite is deleted."},
	"app-removed":      {"apps", "The application no longer has access to your account."},
	"account-deleted":  {"data", ""},
}

// accountForm runs the operation behind a form and sends the browser back to the page,
// so that reloading does not repeat it; a refusal shows the page with the reason.
func (s *Service) accountForm(notice string, do operation) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := web.ReadForm(w, r); err != nil {
			return err
		}
		section := notices[notice].section
		switch err := do(w, r); {
		case err != nil:
			return s.accountRefused(w, r, section, err)
		case notice == "account-deleted":
			s.Show(w, r, http.StatusOK, templates.SignedOut{Deleted: true})
			return nil
		}
		return s.Redirect(w, r, "/account/?notice="+notice+"#"+section)
	}
}

func (s *Service) profileForm(_ http.ResponseWriter, r *http.Request) error {
	c := UserChange{}
	for _, name := range []string{"display_name", "email"} {
		if r.PostForm.Has(name) {
			c[name] = r.PostForm.Get(name)
		}
	}
	_, err := s.changeProfile(r, c)
	return err
}

func (s *Service) accountPage(w http.ResponseWriter, r *http.Request) error {
	page, err := s.describeAccount(r)
	if err != nil {
		return err
	}
	done := notices[r.URL.Query().Get("notice")]
	page.Section, page.Notice = done.section, done.text
	s.Show(w, r, http.StatusOK, page)
	return nil
}

// accountRefused shows the page with what was refused, and with what was typed
// where that is no secret.
func (s *Service) accountRefused(w http.ResponseWriter, r *http.Request, section string, cause error) error {
	p, err := web.Refusal(w, r, cause)
	if err != nil {
		return err
	}
	page, err := s.describeAccount(r)
	if err != nil {
		return err
	}
	page.Answer, page.ErrorField = templates.Answer{Section: section, Error: p.Detail, ErrorCode: p.Code}, refusedField(section, p)
	if section == "profile" {
		page.DisplayName, page.Email = cut(r.PostForm.Get("display_name"), 64), cut(r.PostForm.Get("email"), 256)
	}
	s.Show(w, r, p.Status, page)
	return nil
}

// refusedField names the field a refusal is about; "" lets the page go by the code.
func refusedField(section string, p *web.Problem) string {
	switch {
	case section == "profile" && len(p.Errors) > 0:
		return p.Errors[0].Pointer[1:]
	case section == "invites" && p.Code == "invalid_text":
		return "note"
	case section == "data" && p.Code == "invalid_credentials":
		return "password"
	}
	return ""
}

func (s *Service) describeAccount(r *http.Request) (templates.Account, error) {
	ctx, id := r.Context(), IdentityFrom(r.Context())
	u := id.User
	settings, err := s.Settings(ctx)
	if err != nil {
		return templates.Account{}, err
	}
	live, err := s.store.Sessions(ctx, u.Sub, s.now())
	if err != nil {
		return templates.Account{}, err
	}
	sessions, more := ShownSessions(r, live)
	if !slices.ContainsFunc(sessions, func(n Session) bool { return n.ID == id.Session.ID }) {
		sessions = append(sessions, id.Session) // people look for the one they use
	}
	apps, err := s.store.Apps(ctx, u.Sub, s.now())
	if err != nil {
		return templates.Account{}, err
	}
	remaining, err := s.invitesLeft(ctx, u)
	if err != nil {
		return templates.Account{}, err
	}
	// The latest; /api/invites and the export have all.
	invites, err := s.store.Invites(ctx, InviteQuery{Sub: u.Sub, Limit: pageOfInvites})
	if err != nil {
		return templates.Account{}, err
	}
	page := templates.Account{
		Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified, Admin: u.Has(FlagAdmin), Flags: u.Flags,
		Sessions: SessionRows(sessions, id.Session.ID), MoreSessions: more, InvitesRemaining: remaining, Apps: AppRows(apps), MinPassword: settings.MinPassword,
	}
	now := s.now()
	for _, i := range invites {
		used := !i.UsedAt.IsZero()
		page.Invites = append(page.Invites, templates.InviteRow{
			Code: i.Shown(), URL: s.InviteURL(i), Note: i.Note, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
			Used: used, UsedBy: i.UsedBy, Expired: !used && !i.Open(now),
		})
	}
	return page, nil
}

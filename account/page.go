package account

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// notices are what the account page can say after a form, and the section that the
// form stands in; the query names one, it never brings text.
var notices = map[string]struct{ section, text string }{
	"profile-saved":    {"profile", "Your profile is saved."},
	"password-changed": {"password", "Your password is changed. Your other sessions have ended, and applications have lost their access."},
	"session-ended":    {"sessions", "The session has ended."},
	"sessions-ended":   {"sessions", "All other sessions have ended."},
	"invite-created":   {"invites", "The invite is ready. Send its link to the person you invite."},
	"invite-deleted":   {"invites", "The invite is deleted."},
	"app-removed":      {"apps", "The application no longer has access to your account."},
}

func (s *Service) mountAccountPage(m *mux.Router) {
	s.Handle(m, "/account/", web.Methods{"GET": s.RequirePage(s.accountPage)})
	form := func(path, notice string, do accountDeed) {
		s.Handle(m, path, web.Methods{"POST": s.RequirePage(s.accountForm(notice, do))})
	}
	form("/account/profile", "profile-saved", s.profileForm)
	form("/account/password", "password-changed", func(_ http.ResponseWriter, r *http.Request) error {
		return s.ChangePassword(r, r.PostForm.Get("current_password"), r.PostForm.Get("new_password"))
	})
	form("/account/sessions/end", "session-ended", func(w http.ResponseWriter, r *http.Request) error {
		return s.endOwnSession(w, r, r.PostForm.Get("id"))
	})
	form("/account/sessions/end-others", "sessions-ended", func(_ http.ResponseWriter, r *http.Request) error {
		return s.endOtherSessions(r)
	})
	form("/account/invites", "invite-created", func(_ http.ResponseWriter, r *http.Request) error {
		_, err := s.CreateInvite(r.Context(), IdentityFrom(r.Context()).User, r.PostForm.Get("note"))
		return err
	})
	form("/account/invites/delete", "invite-deleted", func(_ http.ResponseWriter, r *http.Request) error {
		return s.deleteInvite(r.Context(), IdentityFrom(r.Context()).User, r.PostForm.Get("code"))
	})
	form("/account/apps/remove", "app-removed", func(_ http.ResponseWriter, r *http.Request) error {
		return s.removeApp(r, r.PostForm.Get("client_id"))
	})
	s.Handle(m, "/account/delete", web.Methods{"POST": s.RequirePage(s.deleteForm)})
}

// accountDeed does what a form of the account page asks; the form is read already.
type accountDeed func(w http.ResponseWriter, r *http.Request) error

// accountForm does the deed and sends the browser back to the page, so that
// reloading does not repeat it; a refusal shows the page with the reason.
func (s *Service) accountForm(notice string, do accountDeed) http.HandlerFunc {
	section := notices[notice].section
	return func(w http.ResponseWriter, r *http.Request) {
		if err := web.ReadForm(w, r); err != nil {
			s.Fail(w, r, err)
			return
		}
		if err := do(w, r); err != nil {
			s.accountRefused(w, r, section, err)
			return
		}
		http.Redirect(w, r, s.Path("/account/?notice="+notice+"#"+section), http.StatusSeeOther)
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

func (s *Service) deleteForm(w http.ResponseWriter, r *http.Request) {
	if err := web.ReadForm(w, r); err != nil {
		s.Fail(w, r, err)
		return
	}
	if err := s.deleteMe(w, r, r.PostForm.Get("password")); err != nil {
		s.accountRefused(w, r, "data", err)
		return
	}
	s.Show(w, r, http.StatusOK, templates.SignedOut{Deleted: true})
}

func (s *Service) accountPage(w http.ResponseWriter, r *http.Request) {
	page, err := s.describeAccount(r)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	done := notices[r.URL.Query().Get("notice")]
	page.Section, page.Notice = done.section, done.text
	s.Show(w, r, http.StatusOK, page)
}

// accountRefused shows the page with what was refused, and with what was typed
// where that is no secret.
func (s *Service) accountRefused(w http.ResponseWriter, r *http.Request, section string, cause error) {
	p, known := web.ProblemOf(cause)
	if !known || p.Status == http.StatusServiceUnavailable {
		s.Fail(w, r, cause)
		return
	}
	page, err := s.describeAccount(r)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	web.NoteDefault(r.Context(), p.Code)
	p.SetRetryAfter(w)
	page.Answer, page.ErrorField = templates.Answer{Section: section, Error: p.Detail, ErrorCode: p.Code}, refusedField(section, p)
	if section == "profile" {
		page.DisplayName, page.Email = cut(r.PostForm.Get("display_name"), 64), cut(r.PostForm.Get("email"), 256)
	}
	s.Show(w, r, p.Status, page)
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
	sessions, more, err := shownSessions(ctx, s.store, u.Sub, AllSessions(r), s.now())
	if err != nil {
		return templates.Account{}, err
	}
	if !slices.ContainsFunc(sessions, func(n Session) bool { return n.ID == id.Session.ID }) {
		sessions = append(sessions, id.Session) // people look for the one they use
	}
	apps, err := s.appsOf(ctx, u.Sub)
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
		return templates.Account{}, fmt.Errorf("list invites: %w", err)
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

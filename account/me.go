package account

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// me is a user as they see themselves.
type me struct {
	Sub           string          `json:"sub"`
	Handle        string          `json:"handle"`
	DisplayName   string          `json:"display_name"`
	Email         string          `json:"email"` // empty: none
	EmailVerified bool            `json:"email_verified"`
	Flags         map[string]bool `json:"flags"`
	CreatedAt     time.Time       `json:"created_at"`
	Session       meSession       `json:"session"`
	shownProfile                  // the claims that are set
}

type meSession struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *Service) apiMe(w http.ResponseWriter, r *http.Request) error {
	return s.answerMe(w, r, IdentityFrom(r.Context()).User)
}

func (s *Service) apiPatchMe(w http.ResponseWriter, r *http.Request) error {
	c, err := ReadUserChange(w, r, ownMember)
	if err != nil {
		return err
	}
	u, err := s.changeProfile(r, c)
	if err != nil {
		return err
	}
	return s.answerMe(w, r, u)
}

func (s *Service) answerMe(w http.ResponseWriter, r *http.Request, u User) error {
	flags, err := s.flagsOf(r, u)
	if err != nil {
		return err
	}
	row := IdentityFrom(r.Context()).Session
	return web.WriteJSON(w, http.StatusOK, me{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified,
		Flags: flags, CreatedAt: u.CreatedAt.UTC(),
		Session:      meSession{ID: row.ID, CreatedAt: row.CreatedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC()},
		shownProfile: shown(u.Profile),
	})
}

func (s *Service) apiPutPassword(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Current string `json:"current_password"`
		New     string `json:"new_password"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	err := s.ChangePassword(r, in.Current, in.New)
	if p, _ := web.ProblemOf(err); errors.Is(err, ErrWeakPassword) {
		p.Errors[0].Pointer = "/new_password"
		return p
	}
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

func (s *Service) passwordForm(_ http.ResponseWriter, r *http.Request) error {
	return s.ChangePassword(r, r.PostForm.Get("current_password"), r.PostForm.Get("new_password"))
}

// ChangePassword sets a new password of the signed-in user, who proves the old
// one, and ends their other sessions. ErrInvalidCredentials, ErrWeakPassword.
func (s *Service) ChangePassword(r *http.Request, current, password string) error {
	ctx, id := r.Context(), IdentityFrom(r.Context())
	u, err := s.verifyPassword(r, id.User, current)
	if err != nil {
		return err
	}
	hash, err := s.hashNew(ctx, password, u.Handle)
	if err != nil {
		return err
	}
	return web.Noted(ctx, "password_changed", s.store.ChangePassword(ctx, u.Sub, u.PasswordHash, hash, id.Session.ID, s.now(), s.ownAudit(r, "password.change", "").with(s.notices(ctx, u, MailPasswordChanged)...)))
}

// ownAudit is the audit row of what the signed-in user does with their own account.
func (s *Service) ownAudit(r *http.Request, action, detail string) Audit {
	return ActorOf(r).Own(s.now(), action, detail)
}

func (s *Service) apiDeleteMe(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Password string `json:"password"`
		OTP      string `json:"otp"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := s.deleteMe(w, r, in.Password, in.OTP); err != nil {
		return err
	}
	return web.NoContent(w)
}

func (s *Service) deleteForm(w http.ResponseWriter, r *http.Request) error {
	return s.deleteMe(w, r, r.PostForm.Get("password"), "")
}

// deleteMe asks for the password, and who has a second factor for a fresh proof or a code too.
func (s *Service) deleteMe(w http.ResponseWriter, r *http.Request, password, otp string) error {
	ctx, id := r.Context(), IdentityFrom(r.Context())
	stale := id.User.SecondFactor && !s.Fresh(id)
	if stale && otp == "" {
		return ErrReauthenticationRequired
	}
	u, err := s.verifyPassword(r, id.User, password)
	if err == nil && stale {
		err = s.checkOTP(r, u, otp)
	}
	if err != nil {
		return err
	}
	// Their address is personal data: the audit row goes without it.
	a := Audit{At: s.now(), Actor: u.Handle, Action: "user.delete", Target: u.Handle, RequestID: web.RequestID(ctx)}
	if err := s.store.DeleteUser(ctx, u.Sub, s.now(), a.with(s.notices(ctx, u, MailDeleted)...)); err != nil && !errors.Is(err, ErrUserNotFound) {
		return fmt.Errorf("delete own account: %w", err)
	}
	s.clearCookies(w)
	web.Note(ctx, "account_deleted")
	return nil
}

// Bounds of the preferences of one user: numbers of keys and of bytes.
const (
	maxPreferences     = 100
	maxPreferenceKey   = 64
	maxPreferenceValue = 4096
)

func (s *Service) apiPreferences(w http.ResponseWriter, r *http.Request) error {
	prefs, err := s.store.Preferences(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, prefs)
}

// apiPutPreferences merges: text sets, null deletes. The whole body is refused when
// one member is.
func (s *Service) apiPutPreferences(w http.ResponseWriter, r *http.Request) error {
	var in map[string]any
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	change := make(map[string]*string, len(in))
	for k, v := range in {
		text, isText := v.(string)
		pointer, detail := web.Pointer(k), templates.Text("")
		switch {
		case k == "" || len(k) > maxPreferenceKey || !printable(k):
			pointer, detail = "", "a key has 1 to 64 bytes and no control characters"
		case v != nil && !isText:
			detail = "must be a string, or null to delete it"
		case len(text) > maxPreferenceValue:
			detail = "a value has at most 4,096 bytes"
		}
		if detail != "" {
			return ErrInvalidPreference.For(web.FieldError{Pointer: pointer, Detail: detail})
		}
		if change[k] = nil; v != nil {
			change[k] = &text
		}
	}
	prefs, err := s.store.MergePreferences(r.Context(), IdentityFrom(r.Context()).User.Sub, change, maxPreferences)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, prefs)
}

// AppEntry is an application with access to a user's account, as lists show it.
type AppEntry struct {
	ClientID   string     `json:"client_id"`
	ClientName string     `json:"client_name"`
	Scopes     []string   `json:"scopes"`
	GrantedAt  time.Time  `json:"granted_at"`
	LastUsedAt *time.Time `json:"last_used_at"` // null: never
}

// AppEntries describes applications.
func AppEntries(list []App) []AppEntry {
	out := make([]AppEntry, 0, len(list))
	for _, a := range list {
		scopes := a.Scopes
		if scopes == nil {
			scopes = []string{}
		}
		out = append(out, AppEntry{ClientID: a.ClientID, ClientName: a.ClientName, Scopes: scopes, GrantedAt: a.GrantedAt.UTC(), LastUsedAt: TimeOrNull(a.LastUsedAt)})
	}
	return out
}

// AppRows is AppEntries for pages.
func AppRows(list []App) []templates.AppRow {
	out := make([]templates.AppRow, 0, len(list))
	for _, a := range list {
		out = append(out, templates.AppRow{ClientID: a.ClientID, Name: a.ClientName, Scopes: a.Scopes, GrantedAt: a.GrantedAt, LastUsedAt: a.LastUsedAt})
	}
	return out
}

func (s *Service) apiApps(w http.ResponseWriter, r *http.Request) error {
	list, err := s.store.Apps(r.Context(), IdentityFrom(r.Context()).User.Sub, s.now())
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]AppEntry{"apps": AppEntries(list)})
}

func (s *Service) removeApp(_ http.ResponseWriter, r *http.Request) error {
	clientID := operand(r, "client_id")
	// Only what can be an id reaches the database: PostgreSQL fails on NUL.
	if clientID == "" || len(clientID) > 256 || cut(clientID, 256) != clientID {
		return ErrAppNotFound
	}
	err := s.store.RemoveApp(r.Context(), IdentityFrom(r.Context()).User.Sub, clientID, s.now(), s.ownAudit(r, "app.remove", clientID))
	return web.Noted(r.Context(), "app_removed", err)
}

// export is all that is stored of a user, but for what proves who they are
// (hashes): a copy of it must not open the account.
type export struct {
	ExportedAt  time.Time         `json:"exported_at"`
	Issuer      string            `json:"issuer"`
	User        exportedUser      `json:"user"`
	Preferences map[string]string `json:"preferences"`
	Sessions    []SessionEntry    `json:"sessions"`
	Apps        []AppEntry        `json:"apps"`
	Factors     factorList        `json:"factors"`
	Passkeys    []passkeyEntry    `json:"passkeys"`
	Invites     web.List          `json:"invites"` // there may be many
}

type exportedUser struct {
	Sub           string          `json:"sub"`
	Handle        string          `json:"handle"`
	DisplayName   string          `json:"display_name"`
	Email         string          `json:"email"`
	EmailVerified bool            `json:"email_verified"`
	Flags         map[string]bool `json:"flags"`
	InvitedBy     *string         `json:"invited_by"`
	CreatedAt     time.Time       `json:"created_at"`
	UpdatedAt     time.Time       `json:"updated_at"`
	LastLoginAt   *time.Time      `json:"last_login_at"`
	shownProfile                  // the claims that are set
}

type exportedInvite struct {
	inviteEntry
	Note string `json:"note"`
}

func (s *Service) apiExport(w http.ResponseWriter, r *http.Request) error {
	out, err := s.exportOf(r)
	if err != nil {
		return err
	}
	a := s.ownAudit(r, "account.export", "").with(s.boundedNotices(r.Context(), IdentityFrom(r.Context()).User, MailExported)...)
	if err := s.store.Record(r.Context(), a, 0); err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="account.json"`)
	if err = web.StreamJSON(w, s.clock, out); err != nil {
		w.Header().Del("Content-Disposition")
	}
	return err
}

func (s *Service) exportOf(r *http.Request) (export, error) {
	ctx, id := r.Context(), IdentityFrom(r.Context())
	u := id.User
	flags, err := s.flagsOf(r, u)
	if err != nil {
		return export{}, err
	}
	prefs, err := s.store.Preferences(ctx, u.Sub)
	if err != nil {
		return export{}, err
	}
	sessions, err := s.store.Sessions(ctx, u.Sub, s.now())
	if err != nil {
		return export{}, err
	}
	apps, err := s.store.Apps(ctx, u.Sub, s.now())
	if err != nil {
		return export{}, err
	}
	factors, err := s.store.Factors(ctx, u.Sub)
	if err != nil {
		return export{}, err
	}
	keys, err := s.store.Passkeys(ctx, u.Sub)
	if err != nil {
		return export{}, err
	}
	return export{
		ExportedAt: s.now(), Issuer: s.URL(""), Preferences: prefs,
		User: exportedUser{
			Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified, Flags: flags,
			InvitedBy: TextOrNull(u.InvitedBy), CreatedAt: u.CreatedAt.UTC(), UpdatedAt: u.UpdatedAt.UTC(), LastLoginAt: TimeOrNull(u.LastLoginAt),
			shownProfile: shown(u.Profile),
		},
		Sessions: SessionEntries(sessions, id.Session.ID), Apps: AppEntries(apps), Factors: factors.list(), Passkeys: passkeyEntries(keys),
		Invites: s.listInvites(ctx, u, func(i Invite) any { return exportedInvite{s.inviteEntry(i), i.Note} }),
	}, nil
}

// TimeOrNull is how answers write a time that may never have been.
func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// TextOrNull is how answers write a text that may be missing.
func TextOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

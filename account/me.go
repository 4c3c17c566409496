package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// ChangePassword sets a new password of the caller, who proves the old one. It ends their other
// sessions and every grant, and gives this session a new token, so that a copy of its cookie ends
// too. ErrInvalidCredentials, ErrWeakPassword.
func (s *Service) ChangePassword(ctx context.Context, c Caller, current, password string) (SignedIn, error) {
	a, err := s.begin(ctx, c, "password.change", "")
	if err != nil {
		return SignedIn{}, err
	}
	u, err := s.verifyPassword(ctx, c, current)
	if err != nil {
		return SignedIn{}, err
	}
	hash, err := s.hashNew(ctx, password, u.Handle)
	if err != nil {
		return SignedIn{}, err
	}
	n, out := s.newSession(c, proven{user: u})
	row := c.Session // with its times and methods: the password alone makes no session fresh
	row.TokenHash, row.LoginHash, row.Algorithm = n.TokenHash, n.LoginHash, n.Algorithm
	err = s.store.ChangePassword(ctx, u.Sub, u.PasswordHash, hash, &row, s.now(), a)
	if errors.Is(err, ErrSessionNotFound) {
		err = ErrNotAuthenticated
	}
	if err != nil {
		return SignedIn{}, err
	}
	web.Note(ctx, "password_changed")
	out.Session = row
	out.token, err = s.minter.token(u, &row, out.token)
	return out, err
}

// DeleteAccount removes the caller's personal data. They prove the password. With a second factor
// they also need a fresh session, or send a code. ErrLastAdmin.
func (s *Service) DeleteAccount(ctx context.Context, c Caller, in Confirmation) error {
	if err := s.allow(c, "account.delete"); err != nil && in.OTP == "" {
		return err
	}
	u, err := s.verifyPassword(ctx, c, in.Password)
	if err == nil && in.OTP != "" && u.SecondFactor {
		if err = s.checkOTP(ctx, c, in.OTP); err == nil {
			c.Session.ConfirmedAt, c.Session.AMR = s.now(), passwordAndCode
		}
	}
	if err != nil {
		return err
	}
	a, err := s.begin(ctx, c, "account.delete", "")
	if err != nil {
		return err
	}
	a.Action, a.Address = "user.delete", "" // the address is personal data, so the audit row has none
	if err := s.store.DeleteUser(ctx, u.Sub, s.now(), a); err != nil && !errors.Is(err, ErrUserNotFound) {
		return fmt.Errorf("delete own account: %w", err)
	}
	web.Note(ctx, "account_deleted")
	return nil
}

// EndSession ends a session of the caller. The session of the request needs no further proof.
func (s *Service) EndSession(ctx context.Context, c Caller, id string) error {
	action := "session.end"
	if id == c.Session.ID {
		action = "session.sign_out"
	}
	a, err := s.begin(ctx, c, action, id)
	if err != nil {
		return err
	}
	if !isSessionID(id) {
		return ErrSessionNotFound
	}
	a.Action = "session.end"
	return web.Noted(ctx, "session_ended", s.store.EndSession(ctx, c.User.Sub, id, s.now(), a))
}

// EndOtherSessions ends all sessions of the caller except that of the request.
func (s *Service) EndOtherSessions(ctx context.Context, c Caller) error {
	a, err := s.begin(ctx, c, "session.end_others", "")
	if err != nil {
		return err
	}
	_, err = s.store.EndOtherSessions(ctx, c.User.Sub, c.Session.ID, s.now(), a)
	return web.Noted(ctx, "sessions_ended", err)
}

// AppEntry is an application with access to a user's account, as lists have it.
type AppEntry struct {
	ClientID   string     `json:"client_id"`
	ClientName string     `json:"client_name"`
	Scopes     []string   `json:"scopes"`
	GrantedAt  time.Time  `json:"granted_at"`
	LastUsedAt *time.Time `json:"last_used_at"` // null: never
}

// AppEntries returns the entries of applications.
func AppEntries(list []App) []AppEntry {
	out := make([]AppEntry, 0, len(list))
	for _, a := range list {
		scopes := a.Scopes
		if scopes == nil {
			scopes = []string{}
		}
		out = append(out,
			AppEntry{ClientID: a.ClientID, ClientName: a.ClientName, Scopes: scopes, GrantedAt: a.GrantedAt.UTC(),
				LastUsedAt: web.TimeOrNull(a.LastUsedAt)})
	}
	return out
}

// AppRows returns the rows of applications for pages.
func AppRows(list []App) []templates.AppRow {
	out := make([]templates.AppRow, 0, len(list))
	for _, a := range list {
		out = append(out,
			templates.AppRow{ClientID: a.ClientID, Name: a.ClientName, Scopes: a.Scopes, GrantedAt: a.GrantedAt,
				LastUsedAt: a.LastUsedAt, HomeURI: a.HomeURI, Logo: a.Logo})
	}
	return out
}

// appsFor returns the applications that a user may use: those with a home page and those with
// access to the account, except those whose access flag the user lacks.
func (s *Service) appsFor(ctx context.Context, u User) ([]App, error) {
	had, err := s.store.Apps(ctx, u.Sub, s.now())
	if err != nil {
		return nil, err
	}
	var ids []string
	letIn := make(map[string]App, len(had))
	for _, a := range had {
		ids, letIn[a.ClientID] = append(ids, a.ClientID), a
	}
	offered, err := s.store.OfferedApps(ctx, ids)
	apps := slices.DeleteFunc(offered, func(a App) bool { return a.RequireFlag != "" && !u.Has(a.RequireFlag) })
	for i := range apps {
		before := letIn[apps[i].ClientID]
		apps[i].Scopes, apps[i].GrantedAt, apps[i].LastUsedAt = before.Scopes, before.GrantedAt, before.LastUsedAt
	}
	return apps, err
}

// MaxClientID is the length of the longest client id, in bytes. It may be a URL.
const MaxClientID = 512

// RemoveApp removes the access of an application to the caller's account. ErrAppNotFound.
func (s *Service) RemoveApp(ctx context.Context, c Caller, clientID string) error {
	a, err := s.begin(ctx, c, "app.remove", clientID)
	if err != nil {
		return err
	}
	// Only a possible id reaches the database: PostgreSQL fails on NUL.
	if clientID == "" || len(clientID) > MaxClientID || text.Cut(clientID, MaxClientID) != clientID {
		return ErrAppNotFound
	}
	return web.Noted(ctx, "app_removed", s.store.RemoveApp(ctx, c.User.Sub, clientID, s.now(), a))
}

// export contains all stored data of a user except the hashes of secrets, so that a copy does not
// open the account.
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
	ownUser
	InvitedBy   *string    `json:"invited_by"`
	UpdatedAt   time.Time  `json:"updated_at"`
	LastLoginAt *time.Time `json:"last_login_at"`
}

type exportedInvite struct {
	inviteEntry
	Note string `json:"note"`
}

// Export returns all stored data of the caller and notifies them.
func (s *Service) Export(ctx context.Context, c Caller) (any, error) {
	a, err := s.begin(ctx, c, "account.export", "")
	if err != nil {
		return nil, err
	}
	out, err := s.exportOf(ctx, c)
	if err != nil {
		return nil, err
	}
	if a.Mails, err = s.boundedNotices(ctx, c.User, MailExported); err != nil {
		return nil, err
	}
	return out, s.store.Record(ctx, a, 0)
}

func (s *Service) exportOf(ctx context.Context, c Caller) (export, error) {
	u := c.User
	flags, err := s.flagsOf(ctx, u)
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
			ownUser: ownUserOf(u, flags), InvitedBy: web.TextOrNull(u.InvitedBy), UpdatedAt: u.UpdatedAt.UTC(),
			LastLoginAt: web.TimeOrNull(u.LastLoginAt),
		},
		Sessions: SessionEntries(sessions, c.Session.ID), Apps: AppEntries(apps), Factors: factors.list(),
		Passkeys: passkeyEntries(keys),
		Invites:  s.listInvites(ctx, u, func(i Invite) any { return exportedInvite{s.inviteEntry(i), i.Note} }),
	}, nil
}

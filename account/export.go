package account

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// export contains all stored data of a user except the hashes of secrets, so that a copy does not
// open the account.
type export struct {
	ExportedAt  time.Time         `json:"exported_at"`
	Issuer      string            `json:"issuer"`
	User        exportedUser      `json:"user"`
	Preferences map[string]string `json:"preferences"`
	Sessions    []SessionEntry    `json:"sessions"`
	Apps        []AppEntry        `json:"apps"`
	Factors     FactorList        `json:"factors"`
	Passkeys    []PasskeyEntry    `json:"passkeys"`
	Picture     []byte            `json:"picture_jpeg,omitempty"` // that the user has uploaded
	Invites     web.List          `json:"invites"`                // there may be many
}

type exportedUser struct {
	OwnUser
	InvitedBy   *string    `json:"invited_by"`
	Language    string     `json:"language"` // in which they joined or were added
	UpdatedAt   time.Time  `json:"updated_at"`
	LastLoginAt *time.Time `json:"last_login_at"`
}

type exportedInvite struct {
	inviteEntry
	Note string `json:"note"`
}

// Export returns all stored data of the caller and notifies them.
func (s *Service) Export(ctx context.Context, c Caller) (any, error) {
	a, err := s.begin(ctx, c, ExportAccount, "")
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
	flags, err := s.FlagsOf(ctx, u)
	if err != nil {
		return export{}, err
	}
	prefs, err := s.store.Preferences(ctx, u.Sub)
	if err != nil {
		return export{}, err
	}
	sessions, err := s.store.Sessions(ctx, u.Sub, s.Now())
	if err != nil {
		return export{}, err
	}
	apps, err := s.store.Apps(ctx, u.Sub, s.Now())
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
	picture, err := s.store.UserPicture(ctx, s.PhotoOf(u))
	if err != nil {
		return export{}, err
	}
	return export{
		ExportedAt: s.Now(), Issuer: s.site.URL(""), Preferences: prefs,
		User: exportedUser{
			OwnUser: OwnUserOf(u, flags), InvitedBy: web.TextOrNull(u.InvitedBy), Language: u.Language,
			UpdatedAt: u.UpdatedAt.UTC(), LastLoginAt: web.TimeOrNull(u.LastLoginAt),
		},
		Sessions: SessionEntries(sessions, c.Session.ID, keys), Apps: AppEntries(apps), Factors: factors.Entries(u),
		Passkeys: PasskeyEntries(keys), Picture: picture,
		Invites: s.ListInvites(ctx, u, func(i Invite) any { return exportedInvite{s.InviteEntry(i), i.Note} }),
	}, nil
}

// OwnUser is a user as the user sees it, in answers and in the export.
type OwnUser struct {
	Sub           string          `json:"sub"`
	Handle        string          `json:"handle"`
	DisplayName   string          `json:"display_name"`
	Email         string          `json:"email"` // empty: none
	EmailVerified bool            `json:"email_verified"`
	EmailPending  string          `json:"email_pending"` // empty: none waits
	Flags         map[string]bool `json:"flags"`
	CreatedAt     time.Time       `json:"created_at"`
	ShownEnds
	shownProfile // the claims that are set
}

func OwnUserOf(u User, flags map[string]bool) OwnUser {
	return OwnUser{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified,
		EmailPending: u.Pending.Email, Flags: flags, CreatedAt: u.CreatedAt.UTC(), ShownEnds: u.Ends(), shownProfile: shown(u.Profile),
	}
}

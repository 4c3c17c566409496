package site

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/web"
)

// exported contains all stored data of a user except the hashes of secrets, so that a copy does not
// open the account.
type exported struct {
	ExportedAt  time.Time         `json:"exported_at"`
	Issuer      string            `json:"issuer"`
	User        exportedUser      `json:"user"`
	Preferences map[string]string `json:"preferences"`
	Sessions    []entry.Session   `json:"sessions"`
	Apps        []entry.App       `json:"apps"`
	Factors     entry.Factors     `json:"factors"`
	Passkeys    []entry.Passkey   `json:"passkeys"`
	Picture     []byte            `json:"picture_jpeg,omitempty"` // that the user has uploaded
	Invites     web.List          `json:"invites"`                // there may be many
}

type exportedUser struct {
	entry.User
	InvitedBy   *string    `json:"invited_by"`
	Language    string     `json:"language"` // in which they joined or were added
	UpdatedAt   time.Time  `json:"updated_at"`
	LastLoginAt *time.Time `json:"last_login_at"`
}

type exportedInvite struct {
	entry.Invite
	Note string `json:"note"`
}

// exportOf returns all stored data of the caller.
func (s *Site) exportOf(ctx context.Context, c account.Caller) (exported, error) {
	u := c.User
	flags, err := s.FlagsOf(ctx, u)
	if err != nil {
		return exported{}, err
	}
	prefs, err := s.Store().Preferences(ctx, u.Sub)
	if err != nil {
		return exported{}, err
	}
	sessions, err := s.Store().Sessions(ctx, u.Sub, s.Now())
	if err != nil {
		return exported{}, err
	}
	apps, err := s.Store().Apps(ctx, u.Sub, s.Now())
	if err != nil {
		return exported{}, err
	}
	factors, err := s.Store().Factors(ctx, u.Sub)
	if err != nil {
		return exported{}, err
	}
	keys, err := s.Store().Passkeys(ctx, u.Sub)
	if err != nil {
		return exported{}, err
	}
	picture, err := s.Store().UserPicture(ctx, s.PhotoOf(u))
	if err != nil {
		return exported{}, err
	}
	return exported{
		ExportedAt: s.Now(), Issuer: s.URL(""), Preferences: prefs,
		User: exportedUser{
			User: entry.UserOf(u, flags), InvitedBy: web.TextOrNull(u.InvitedBy), Language: u.Language,
			UpdatedAt: u.UpdatedAt.UTC(), LastLoginAt: web.TimeOrNull(u.LastLoginAt),
		},
		Sessions: entry.Sessions(sessions, c.Session.ID, keys), Apps: entry.Apps(apps),
		Factors:  entry.FactorsOf(factors, u),
		Passkeys: entry.Passkeys(keys), Picture: picture,
		Invites: s.ListInvites(ctx, u, func(i account.Invite) any {
			return exportedInvite{entry.InviteOf(i, s.InviteURL), i.Note}
		}),
	}, nil
}

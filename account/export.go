package account

import (
	"fmt"
	"net/http"
	"time"
)

// export is all that is stored of a user, but for what proves who they are
// (hashes): a copy of it must not open the account.
type export struct {
	ExportedAt  time.Time         `json:"exported_at"`
	Issuer      string            `json:"issuer"`
	User        exportedUser      `json:"user"`
	Preferences map[string]string `json:"preferences"`
	Sessions    []SessionEntry    `json:"sessions"`
	Apps        []AppEntry        `json:"apps"`
	Invites     []exportedInvite  `json:"invites"`
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

func (s *Service) apiExport(w http.ResponseWriter, r *http.Request) {
	out, err := s.exportOf(r)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Disposition", `attachment; filename="account.json"`)
	s.streamJSON(w, r, out, "invites", func(add func(entries ...any) error) error {
		return s.eachInvite(r.Context(), IdentityFrom(r.Context()).User, func(page []Invite) error {
			for i, e := range s.inviteEntries(page) {
				if err := add(exportedInvite{e, page[i].Note}); err != nil {
					return err
				}
			}
			return add()
		})
	})
}

// exportOf is the export without the invites, of which there may be many.
func (s *Service) exportOf(r *http.Request) (export, error) {
	ctx, id := r.Context(), IdentityFrom(r.Context())
	u := id.User
	flags, err := s.flagsOf(r, u)
	if err != nil {
		return export{}, err
	}
	prefs, err := s.store.Preferences(ctx, u.Sub)
	if err != nil {
		return export{}, fmt.Errorf("read preferences: %w", err)
	}
	sessions, err := everySession(ctx, s.store, u.Sub, s.now())
	if err != nil {
		return export{}, err
	}
	apps, err := s.appsOf(ctx, u.Sub)
	if err != nil {
		return export{}, err
	}
	return export{
		ExportedAt: s.now(), Issuer: s.URL(""), Preferences: prefs,
		User: exportedUser{
			Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified, Flags: flags,
			InvitedBy: textOrNull(u.InvitedBy), CreatedAt: u.CreatedAt.UTC(), UpdatedAt: u.UpdatedAt.UTC(), LastLoginAt: TimeOrNull(u.LastLoginAt),
			shownProfile: shown(u.Profile),
		},
		Sessions: SessionEntries(sessions, id.Session.ID), Apps: AppEntries(apps), Invites: []exportedInvite{},
	}, nil
}

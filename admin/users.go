package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// userEntry is a user as the list shows them.
type userEntry struct {
	Sub         string          `json:"sub"`
	Handle      string          `json:"handle"`
	DisplayName string          `json:"display_name"`
	Email       string          `json:"email"`
	Flags       map[string]bool `json:"flags"`
	Suspended   bool            `json:"suspended"`
	CreatedAt   time.Time       `json:"created_at"`
	LastLoginAt *time.Time      `json:"last_login_at"` // null: never
	InvitedBy   *string         `json:"invited_by"`    // handle
}

type userList struct {
	Users      []userEntry `json:"users"`
	NextCursor *string     `json:"next_cursor"` // null: the last page
}

// userDetail is one user with what they use.
type userDetail struct {
	userEntry
	EmailVerified bool                   `json:"email_verified"`
	SuspendedAt   *time.Time             `json:"suspended_at"`
	SuspendReason string                 `json:"suspend_reason"`
	Sessions      []account.SessionEntry `json:"sessions"`
	Apps          []account.AppEntry     `json:"apps"`
}

func entryOf(u account.User, known []string) userEntry {
	return userEntry{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, Flags: u.FlagMap(known), Suspended: u.Suspended(),
		CreatedAt: u.CreatedAt.UTC(), LastLoginAt: account.TimeOrNull(u.LastLoginAt), InvitedBy: orNull(u.InvitedBy),
	}
}

func (s *Service) listUsers(w http.ResponseWriter, r *http.Request) {
	users, next, err := s.usersOf(r)
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	settings, err := s.office.Settings(r.Context())
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	out := userList{Users: make([]userEntry, 0, len(users)), NextCursor: orNull(next)}
	for _, u := range users {
		out.Users = append(out.Users, entryOf(u, settings.Flags))
	}
	web.WriteJSON(w, http.StatusOK, out)
}

// usersOf finds the page of users that a request asks for, and the cursor of
// the next one.
func (s *Service) usersOf(r *http.Request) ([]account.User, string, error) {
	p, err := readPage(r)
	if err != nil {
		return nil, "", err
	}
	if p.key != "" && p.query == "" {
		if h, err := account.CanonicalHandle(p.key); err != nil || h != p.key {
			return nil, "", account.ErrInvalidCursor
		}
	}
	users, next, err := s.office.Users(r.Context(), account.UserQuery{Query: p.query, After: p.key, Limit: p.limit})
	if err != nil || next == "" {
		return users, "", err
	}
	return users, account.Cursor(next), nil
}

// target is the user that the path names.
func (s *Service) target(r *http.Request) (account.User, error) {
	return s.office.User(r.Context(), mux.Vars(r)["handle"])
}

func (s *Service) showUser(w http.ResponseWriter, r *http.Request) {
	u, err := s.target(r)
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	out, err := s.detailOf(r.Context(), u)
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, out)
}

// amendable tells what administrators may change of others.
func amendable(member string) bool {
	return member == "display_name" || member == "email" || member == "email_verified"
}

// amendUser answers as showUser does, with the user after the change.
func (s *Service) amendUser(w http.ResponseWriter, r *http.Request) {
	u, err := s.target(r)
	var change account.UserChange
	if err == nil {
		change, err = account.ReadUserChange(w, r, amendable)
	}
	if err == nil {
		u, err = s.office.Amend(r.Context(), account.ActorOf(r), u, change)
	}
	var out userDetail
	if err == nil {
		out, err = s.detailOf(r.Context(), u)
	}
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, out)
}

func (s *Service) detailOf(ctx context.Context, u account.User) (userDetail, error) {
	settings, err := s.office.Settings(ctx)
	if err != nil {
		return userDetail{}, err
	}
	access, err := s.office.Access(ctx, u)
	if err != nil {
		return userDetail{}, err
	}
	return userDetail{
		userEntry: entryOf(u, settings.Flags), EmailVerified: u.EmailVerified,
		SuspendedAt: account.TimeOrNull(u.SuspendedAt), SuspendReason: u.SuspendReason,
		Sessions: account.SessionEntries(access.Sessions, account.IdentityFrom(ctx).Session.ID), Apps: account.AppEntries(access.Apps),
	}, nil
}

package account

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account/web"
)

// InviteLifetime is how long an invite can be used.
const InviteLifetime = 14 * 24 * time.Hour

// Invite lets one person register. Its code stays readable so that its owner
// can show it again.
type Invite struct {
	Code      string // canonical, 16 characters
	CreatedBy string // sub; empty for an invite of the operator
	Inviter   string // handle of the creator, filled by the store
	Note      string
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    time.Time
	UsedBy    string // handle of who registered, filled by the store
}

// Open tells whether the invite can be used.
func (i Invite) Open(now time.Time) bool { return i.UsedAt.IsZero() && now.Before(i.ExpiresAt) }

// Place is the place of the invite in a list.
func (i Invite) Place() InvitePlace { return InvitePlace{i.CreatedAt, i.Code} }

// Shown is the code in groups of four.
func (i Invite) Shown() string { return grouped(i.Code) }

// CanonicalInviteCode is a code as it is stored, of one that was typed in any
// case, with or without dashes and spaces; "" for what cannot be a code.
func CanonicalInviteCode(typed string) string { return canonicalCode(typed, inviteCodeLength) }

// NewInvite makes an invite of a user (or of the operator: empty sub).
func NewInvite(sub, note string, now time.Time) (Invite, error) {
	note, err := checkText(note, 200)
	if err != nil {
		return Invite{}, err
	}
	now = now.UTC().Truncate(time.Second)
	return Invite{Code: newCode(inviteCodeLength), CreatedBy: sub, Note: note, CreatedAt: now, ExpiresAt: now.Add(InviteLifetime)}, nil
}

// CreateInvite makes an invite of the signed-in user within the limits.
func (s *Service) CreateInvite(ctx context.Context, u User, note string) (Invite, error) {
	settings, err := s.Settings(ctx)
	if err != nil {
		return Invite{}, err
	}
	wait, err := s.limits.Take(ctx, web.LimitInvite, u.Sub)
	if err != nil {
		return Invite{}, err
	}
	if wait > 0 {
		return Invite{}, web.RateLimited(wait)
	}
	i, err := NewInvite(u.Sub, note, s.now())
	if err != nil {
		return Invite{}, err
	}
	if err := s.store.CreateInvite(ctx, i, settings.inviteLimit(u)); err != nil {
		return Invite{}, fmt.Errorf("create invite: %w", err)
	}
	web.Note(ctx, "invite_created")
	return i, nil
}

// InviteURL is the link that opens the registration page of the issuer with
// the code filled in.
func InviteURL(issuer string, i Invite) string { return issuer + "/register/?code=" + i.Shown() }

// InviteURL is the link to this service's page.
func (s *Service) InviteURL(i Invite) string { return InviteURL(s.URL(""), i) }

// Registration is what a new member enters.
type Registration struct {
	Code        string `json:"code"`
	Handle      string `json:"handle"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name"`
	Email       string `json:"email"` // stored as not verified
}

// Register redeems an invite, creates the user and signs the browser in.
func (s *Service) Register(w http.ResponseWriter, r *http.Request, in Registration) (User, error) {
	u, err := s.register(w, r, in)
	if err != nil {
		if errors.Is(err, ErrUnavailable) || errors.Is(err, web.ErrRateLimited) {
			return User{}, err
		}
		web.Note(r.Context(), "register_refused")
		return User{}, err
	}
	web.NoteUser(r.Context(), u.Sub)
	web.Note(r.Context(), "registered")
	return u, nil
}

func (s *Service) register(w http.ResponseWriter, r *http.Request, in Registration) (User, error) {
	ctx := r.Context()
	settings, err := s.Settings(ctx)
	if err != nil {
		return User{}, err
	}
	if settings.Registration == RegistrationClosed {
		return User{}, ErrRegistrationFull
	}
	// The invite first: without a good one nothing is said about handles.
	invite, err := s.openInvite(r, in.Code)
	if err != nil {
		return User{}, err
	}
	u, err := newMember(in, settings, s.now())
	if err != nil {
		return User{}, err
	}
	if u.PasswordHash, err = s.hasher.Hash(ctx, in.Password); err != nil {
		return User{}, err
	}
	row, secrets := s.newSession(u.Sub, r)
	if err := s.store.Register(ctx, invite.Code, u, row, settings.MaxUsers, s.now()); err != nil {
		return User{}, fmt.Errorf("register: %w", err)
	}
	if _, err := s.endSessions(r, ""); err != nil {
		return User{}, err
	}
	return u, s.setCookies(w, u, row, secrets)
}

// errUnknownInvite is ErrInvalidInvite for a code that does not exist, which is
// what a guess looks like; people are told the same as for a used one.
var errUnknownInvite = fmt.Errorf("%w: unknown code", ErrInvalidInvite)

// openInvite finds an invite that can be used now, within the limit. ErrInvalidInvite.
//
// Only what could be a guess at a code counts: somebody who looks for a free handle
// with a good invite is no attacker, nor is a crowd behind one address that shares a
// link which one of them has used.
func (s *Service) openInvite(r *http.Request, typed string) (i Invite, err error) {
	err = s.limits.Guess(r.Context(), []web.LimitKey{{Name: web.LimitRegister, Key: web.ClientAddress(r)}}, errUnknownInvite, func() error {
		code := canonicalCode(typed, inviteCodeLength)
		if code == "" {
			return errUnknownInvite
		}
		i, err = s.store.Invite(r.Context(), code)
		switch {
		case errors.Is(err, ErrInviteNotFound):
			return errUnknownInvite
		case err != nil:
			return fmt.Errorf("find invite: %w", err)
		case !i.Open(s.now()):
			return ErrInvalidInvite
		}
		return nil
	})
	return i, err
}

func newMember(in Registration, settings Settings, now time.Time) (User, error) {
	handle, err := CheckNewHandle(in.Handle)
	if err != nil {
		return User{}, err
	}
	if in.DisplayName == "" {
		in.DisplayName = handle
	}
	name, err := CheckDisplayName(in.DisplayName)
	if err != nil {
		return User{}, err
	}
	email, err := CheckEmail(in.Email)
	if err != nil {
		return User{}, err
	}
	if err := CheckPassword(in.Password, handle, settings.MinPassword); err != nil {
		return User{}, err
	}
	return User{Sub: uuid.NewString(), Handle: handle, DisplayName: name, Email: email, Flags: settings.DefaultFlags, CreatedAt: now, UpdatedAt: now, LastLoginAt: now}, nil
}

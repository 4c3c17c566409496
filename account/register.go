package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-id/cairn/account/web"
)

// Registration is the input of a new member.
type Registration struct {
	Code        string `json:"code"`
	Handle      string `json:"handle"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name"`
	Email       string `json:"email"` // stored as not verified, unless Mailed is for it
	Mailed      string `json:"-"`     // the sealed value of the link in a mailed invite, or empty
}

// Register redeems an invite, creates the user and makes their first session.
func (s *Service) Register(ctx context.Context, c Caller, in Registration) (SignedIn, error) {
	out, err := s.register(ctx, c, in)
	if err != nil {
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, web.ErrRateLimited) {
			web.Note(ctx, "register_refused")
		}
		return SignedIn{}, err
	}
	web.NoteUser(ctx, out.User.Sub)
	web.Note(ctx, "registered")
	return out, nil
}

func (s *Service) register(ctx context.Context, c Caller, in Registration) (SignedIn, error) {
	settings, err := s.Settings(ctx)
	if err != nil {
		return SignedIn{}, err
	}
	if settings.Registration == RegistrationClosed {
		return SignedIn{}, ErrRegistrationFull
	}
	// The invite is checked first: without a valid one the response says nothing about handles.
	invite, err := s.OpenInvite(ctx, c, in.Code)
	if err != nil {
		return SignedIn{}, err
	}
	n := NewUser{Handle: in.Handle, DisplayName: in.DisplayName, Email: in.Email, Password: in.Password}
	u, err := CreateUser(ctx, s.hasher, settings, n, s.Now())
	if err != nil {
		return SignedIn{}, err
	}
	u.EmailVerified = u.Email != "" && strings.EqualFold(u.Email, s.InvitedAddress(invite, in.Mailed))
	u.LastLoginAt = u.CreatedAt
	p := proven{user: u, amr: passwordAlone}
	row, out := s.newSession(c, p)
	a, err := s.begin(ctx, c.as(u), Register, invitedBy(invite))
	if err != nil {
		return SignedIn{}, err
	}
	mails := s.askVerification(ctx, &u)
	if err := s.store.Register(ctx, invite.Code, u, row, settings.MaxUsers, s.Now(), a.with(mails...)); err != nil {
		return SignedIn{}, fmt.Errorf("register: %w", err)
	}
	former, err := s.liveSessions(ctx, c.Browser)
	if err == nil {
		err = s.endEach(ctx, c, former)
	}
	if err != nil {
		return SignedIn{}, err
	}
	out.Marks = s.withMark(c.Browser.Marks, u)
	out.User, out.Session = u, *row
	out.Token, err = s.minter.token(u, row, out.Token)
	return out, err
}

// invitedBy returns the detail of the audit row that names the inviter.
func invitedBy(i Invite) string { return "invited by " + cmp.Or(i.Inviter, Operator().Name) }

package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// Registration is the input of a new member.
type Registration struct {
	Code        string `json:"code"`
	Handle      string `json:"handle"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name"`
	Email       string `json:"email"`           // stored as not verified, unless Mailed is for it
	Mailed      string `json:"mailed"`          // the sealed value of the link in a mailed invite, or empty
	Shared      bool   `json:"shared_computer"` // see Caller.Shared
	// Passkey returns the new passkey in the place of a password; nil: it is
	// the password.
	Passkey func(context.Context) (Passkey, error) `json:"-"`
}

// Registered is a new member in their first session.
type Registered struct {
	SignedIn
	Codes []string // recovery codes, which come with a passkey
}

// Register redeems an invite, creates the user and makes their first session.
func (s *Service) Register(ctx context.Context, c Caller, in Registration) (Registered, error) {
	out, err := s.register(ctx, c, in)
	if err != nil {
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, web.ErrRateLimited) {
			web.Note(ctx, "register_refused")
			web.NoteReason(ctx, web.Reasons(err))
		}
		return Registered{}, err
	}
	web.NoteUser(ctx, out.User.Sub)
	web.Note(ctx, "registered")
	return out, nil
}

func (s *Service) register(ctx context.Context, c Caller, in Registration) (out Registered, err error) {
	c.Shared = in.Shared
	settings, invite, err := s.MayRegister(ctx, c, in.Code)
	if err != nil {
		return out, err
	}
	mailedTo := s.InvitedAddress(invite, in.Mailed)
	if in.Email, err = invite.AddressOf(in.Email, mailedTo); err != nil {
		return out, err
	}
	n := NewUser{Handle: in.Handle, DisplayName: in.DisplayName, Email: in.Email, Password: in.Password,
		Flags: invite.granted(settings), Language: requestLanguage(ctx)}
	var u User
	var first *FirstPasskey
	p := Proven{amr: passwordAlone}
	if in.Passkey == nil {
		u, err = CreateUser(ctx, s.hasher, settings, n, s.Now())
	} else if u, err = CreateUser(ctx, nil, settings, n, s.Now()); err == nil {
		u, first, err = s.firstPasskey(ctx, u, in.Passkey)
	}
	if err != nil {
		return out, err
	}
	if first != nil {
		p.amr, p.passkey = []string{first.Passkey.Method(), MethodUser, MethodMultiFactor}, first.Passkey.ID
		out.Codes = first.shown
	}
	shared, err := s.SharedAddress(ctx, invite, mailedTo)
	if err != nil {
		return out, err
	}
	proven := u.Email != "" && strings.EqualFold(u.Email, mailedTo)
	u.EmailVerified = proven && !shared
	u.LastLoginAt = u.CreatedAt
	invite.limit(&u)
	p.user = u
	row, signedIn := s.newSession(c, p)
	a, err := s.begin(ctx, c.As(u), Register, invitedBy(invite)+Unusual(u.Flags, settings.DefaultFlags))
	if err != nil {
		return out, err
	}
	if err := s.checkToken(ctx, u, row); err != nil {
		return out, err
	}
	var mails []Mail
	if !proven {
		mails = s.askVerification(ctx, &u)
	}
	if u.Has(FlagAdmin) {
		told, err := s.NewAdministrator(ctx, cmp.Or(invite.Inviter, Operator().Name), u)
		if err != nil {
			return out, err
		}
		mails = append(mails, told...)
	}
	err = s.store.Register(ctx, invite.Code, u, first, row, settings.MaxUsers, s.Now(), a.With(mails...))
	if errors.Is(err, ErrInvalidInvite) { // somebody else was faster
		if invite, found := s.store.Invite(ctx, invite.Code); found == nil {
			err = s.spentInvite(ctx, invite)
		}
	}
	if err != nil {
		return out, fmt.Errorf("register: %w", err)
	}
	former, err := s.liveSessions(ctx, c.Browser)
	if err == nil {
		err = s.endEach(ctx, c, former)
	}
	if err != nil {
		return out, err
	}
	if !row.Shared() {
		signedIn.Marks = s.withMark(c.Browser.Marks, u)
	}
	signedIn.User, signedIn.Session = u, *row
	signedIn.Token, err = s.sessionToken(ctx, u, row, signedIn.Token)
	out.SignedIn = signedIn
	return out, err
}

// limit gives a new user the ends of the invite. A flag that has ended by now is left out.
func (i Invite) limit(u *User) {
	u.EndsAt = i.AccountEnds
	for f, at := range i.FlagEnds {
		switch held := slices.Index(u.Flags, f); {
		case held >= 0 && at.After(u.CreatedAt):
			if u.FlagEnds == nil {
				u.FlagEnds = map[string]time.Time{}
			}
			u.FlagEnds[f] = at
		case held >= 0:
			u.Flags = slices.Delete(u.Flags, held, held+1)
		}
	}
}

// MayRegister returns the open invite of a code. It is checked first: without a valid one the response
// says nothing about handles.
func (s *Service) MayRegister(ctx context.Context, c Caller, code string) (Settings, Invite, error) {
	settings, err := s.Settings(ctx)
	if err == nil && settings.Registration == RegistrationClosed {
		err = ErrRegistrationFull
	}
	if err != nil {
		return settings, Invite{}, err
	}
	invite, err := s.OpenInvite(ctx, c, code)
	return settings, invite, err
}

// AddressOf returns the address of whoever joins with the invite. Where the invite is for certain addresses, it is the
// proven one, which its owner need not type. errAddressNotProven.
func (i Invite) AddressOf(typed, proven string) (string, error) {
	switch typed := strings.TrimSpace(typed); {
	case i.Domain == "":
		return typed, nil
	case proven == "" || !i.Admits(proven) || typed != "" && !strings.EqualFold(typed, proven):
		return "", errAddressNotProven
	}
	return proven, nil
}

// SharedAddress reports whether the address that an invite was mailed to is verified for another account: who joins
// with it has it too, unverified. An invite for a domain wants an address that no account has: see Store.Register.
func (s *Service) SharedAddress(ctx context.Context, i Invite, mailedTo string) (bool, error) {
	if i.Domain != "" && !strings.Contains(i.Domain, "@") {
		return false, nil
	}
	return s.ofFamily(ctx, User{Email: mailedTo})
}

// FirstPasskey is the passkey with which somebody joins, in the place of a password.
type FirstPasskey struct {
	Passkey Passkey
	Codes   []RecoveryCode

	shown []string // the codes
}

// firstPasskey gives a new user, who is not stored yet, the passkey and its recovery codes.
func (s *Service) firstPasskey(
	ctx context.Context, u User, create func(context.Context) (Passkey, error),
) (User, *FirstPasskey, error) {
	k, err := create(ctx)
	if err != nil {
		return u, nil, err
	}
	k.CreatedAt = u.CreatedAt // what was made at joining is told by its time
	first := &FirstPasskey{Passkey: k}
	u.Sub, u.PasswordHash, u.SecondFactor = k.Sub, NoPassword, true
	first.shown, first.Codes, err = s.newRecoveryCodes(ctx)
	return u, first, err
}

// invitedBy returns the detail of the audit row that names the inviter.
func invitedBy(i Invite) string { return "invited by " + cmp.Or(i.Inviter, Operator().Name) }

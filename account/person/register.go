package person

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account"
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
	Passkey func(context.Context) (account.Passkey, error) `json:"-"`
}

// Registered is a new member in their first session.
type Registered struct {
	SignedIn
	Codes []string // recovery codes, which come with a passkey
}

// Register redeems an invite, creates the user and makes their first session.
func (s *Service) Register(ctx context.Context, c account.Caller, in Registration) (Registered, error) {
	out, err := s.register(ctx, c, in)
	if err != nil {
		if !errors.Is(err, account.ErrUnavailable) && !errors.Is(err, web.ErrRateLimited) {
			web.Note(ctx, "register_refused")
			web.NoteReason(ctx, web.Reasons(err))
		}
		return Registered{}, err
	}
	web.NoteUser(ctx, out.User.Sub)
	web.Note(ctx, "registered")
	return out, nil
}

func (s *Service) register(ctx context.Context, c account.Caller, in Registration) (out Registered, err error) {
	c.Shared = in.Shared
	settings, invite, err := s.MayRegister(ctx, c, in.Code)
	if err != nil {
		return out, err
	}
	mailedTo := s.InvitedAddress(invite, in.Mailed)
	if in.Email, err = invite.AddressOf(in.Email, mailedTo); err != nil {
		return out, err
	}
	n := account.NewUser{Handle: in.Handle, DisplayName: in.DisplayName, Email: in.Email, Password: in.Password,
		Flags: invite.Granted(settings), Language: account.RequestLanguage(ctx)}
	var u account.User
	var first *account.FirstPasskey
	p := Proven{amr: passwordAlone}
	if in.Passkey == nil {
		u, err = account.CreateUser(ctx, s.hasher, settings, n, s.Now())
	} else if u, err = account.CreateUser(ctx, nil, settings, n, s.Now()); err == nil {
		u, first, err = s.firstPasskey(ctx, u, in.Passkey)
	}
	if err != nil {
		return out, err
	}
	if first != nil {
		p.amr, p.passkey = []string{first.Passkey.Method(), account.MethodUser, account.MethodMultiFactor},
			first.Passkey.ID
		out.Codes = first.Shown
	}
	shared, err := s.SharedAddress(ctx, invite, mailedTo)
	if err != nil {
		return out, err
	}
	proven := u.Email != "" && strings.EqualFold(u.Email, mailedTo)
	u.EmailVerified = proven && !shared
	u.LastLoginAt = u.CreatedAt
	invite.Limit(&u)
	p.user = u
	row, signedIn := s.newSession(c, p)
	a, err := s.begin(ctx, c.As(u), account.Register, invitedBy(invite)+account.Unusual(u.Flags, settings.DefaultFlags))
	if err != nil {
		return out, err
	}
	if err := s.checkToken(ctx, u, row); err != nil {
		return out, err
	}
	var mails []account.Mail
	if !proven {
		mails = s.askVerification(ctx, &u)
	}
	if u.Has(account.FlagAdmin) {
		told, err := s.NewAdministrator(ctx, cmp.Or(invite.Inviter, account.Operator().Name), u)
		if err != nil {
			return out, err
		}
		mails = append(mails, told...)
	}
	err = s.Store().Register(ctx, invite.Code, u, first, row, settings.MaxUsers, s.Now(), a.With(mails...))
	if errors.Is(err, account.ErrInvalidInvite) { // somebody else was faster
		if invite, found := s.Store().Invite(ctx, invite.Code); found == nil {
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

// MayRegister returns the open invite of a code. It is checked first: without a valid one the response
// says nothing about handles.
func (s *Service) MayRegister(
	ctx context.Context, c account.Caller, code string,
) (account.Settings, account.Invite, error) {
	settings, err := s.Settings(ctx)
	if err == nil {
		err = s.MayJoin(ctx, settings)
	}
	if err != nil {
		return settings, account.Invite{}, err
	}
	invite, err := s.OpenInvite(ctx, c, code)
	return settings, invite, err
}

// MayJoin returns ErrRegistrationFull while nobody can join.
func (s *Service) MayJoin(ctx context.Context, settings account.Settings) error {
	if settings.Registration == account.RegistrationClosed {
		return account.ErrRegistrationFull
	}
	if settings.MaxUsers == 0 {
		return nil
	}
	there, err := s.Store().CountUsers(ctx, account.UserQuery{Limit: 1})
	if err == nil && there.Total >= settings.MaxUsers {
		err = account.ErrRegistrationFull
	}
	return err
}

// SharedAddress reports whether the address that an invite was mailed to is verified for another account: who joins
// with it has it too, unverified. An invite for a domain wants an address that no account has: see Store.Register.
func (s *Service) SharedAddress(ctx context.Context, i account.Invite, mailedTo string) (bool, error) {
	if i.Domain != "" && !strings.Contains(i.Domain, "@") {
		return false, nil
	}
	return s.OfFamily(ctx, account.User{Email: mailedTo})
}

// firstPasskey gives a new user, who is not stored yet, the passkey and its recovery codes.
func (s *Service) firstPasskey(
	ctx context.Context, u account.User, create func(context.Context) (account.Passkey, error),
) (account.User, *account.FirstPasskey, error) {
	k, err := create(ctx)
	if err != nil {
		return u, nil, err
	}
	k.CreatedAt = u.CreatedAt // what was made at joining is told by its time
	first := &account.FirstPasskey{Passkey: k}
	u.Sub, u.PasswordHash, u.SecondFactor = k.Sub, account.NoPassword, true
	first.Shown, first.Codes, err = s.newRecoveryCodes(ctx)
	return u, first, err
}

// invitedBy returns the detail of the audit row that names the inviter.
func invitedBy(i account.Invite) string {
	return "invited by " + cmp.Or(i.Inviter, account.Operator().Name)
}

// withoutAt removes the @ of a handle that was typed as pages show it. New handles are not changed
// by it.
func withoutAt(typed string) string { return strings.TrimPrefix(strings.TrimSpace(typed), "@") }

// ProposeHandle returns a free handle for somebody who joins: the one given, or that of their name, or one with a
// number, "" for none. Only who has a valid invite is told of handles.
func (s *Service) ProposeHandle(ctx context.Context, handle, name string) (string, error) {
	base, err := account.CanonicalHandle(handle)
	if err != nil {
		base = account.HandleOf(name)
	}
	all := []string{base}
	for n := 2; n < 10; n++ {
		all = append(all, strings.TrimRight(base[:min(len(base), account.MaxHandle-1)], "-_.")+strconv.Itoa(n))
	}
	taken, err := s.Store().TakenUsers(ctx, all, nil, nil)
	if err != nil {
		return "", err
	}
	used := map[string]bool{}
	for _, h := range slices.Concat(taken, account.ReservedHandles) {
		used[account.HandleKey(h)] = true
	}
	if i := slices.IndexFunc(all, func(h string) bool { return !used[account.HandleKey(h)] }); i >= 0 {
		return all[i], nil
	}
	return "", nil
}

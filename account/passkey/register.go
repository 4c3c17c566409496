package passkey

import (
	"context"
	"fmt"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
)

const ceremonyRegister = "register"

// BeginRegisterPasskey returns a challenge for the passkey of a new member. It refuses what Register
// would refuse, because a passkey that is made in vain stays in its device.
func (s *Service) BeginRegisterPasskey(
	ctx context.Context, c account.Caller, in person.Registration,
) (begunCeremony, error) {
	var none begunCeremony
	if s.party == nil {
		return none, s.unavailable
	}
	settings, invite, err := s.accounts.MayRegister(ctx, c, in.Code)
	if err == nil {
		in.Email, err = invite.AddressOf(in.Email, s.accounts.InvitedAddress(invite, in.Mailed))
	}
	if err != nil {
		return none, err
	}
	u, err := account.NewUser{Handle: in.Handle, DisplayName: in.DisplayName, Email: in.Email}.Check(settings)
	if err != nil {
		return none, err
	}
	switch taken, err := s.accounts.Store().TakenUsers(ctx, []string{u.Handle}, nil, nil); {
	case err != nil:
		return none, err
	case len(taken) > 0:
		return none, account.ErrHandleTaken
	}
	return s.beginFirst(c, u)
}

// beginFirst returns a challenge for the passkey of somebody who has no session yet.
func (s *Service) beginFirst(c account.Caller, u account.User) (begunCeremony, error) {
	options, session, err := s.party.BeginRegistration(passkeyUser{User: u},
		webauthn.WithRegistrationRelyingPartyName(s.accounts.InstanceName()))
	if err != nil {
		return begunCeremony{}, fmt.Errorf("begin passkey: %w", err)
	}
	return s.beginCeremony(ceremonyRegister, u.Sub, c.Browser.Passkey, session.Challenge, options.Response)
}

// firstPasskey returns what creates the passkey that was made, nil if none was.
func (s *Service) firstPasskey(
	c account.Caller, made AnsweredCeremony,
) func(context.Context) (account.Passkey, error) {
	if len(made.Credential) == 0 {
		return nil
	}
	return func(ctx context.Context) (account.Passkey, error) {
		return s.createdPasskey(ctx, c, ceremonyRegister, c.Browser.Passkey, made)
	}
}

// Register is person.Service.Register, with a passkey in the place of a password if one was made.
func (s *Service) Register(
	ctx context.Context, c account.Caller, in person.Registration, made AnsweredCeremony,
) (person.Registered, error) {
	in.Passkey = s.firstPasskey(c, made)
	return s.accounts.Register(ctx, c, in)
}

// BeginWelcome returns a challenge for the passkey of somebody who has been added, never had a password and has the
// code to choose one.
func (s *Service) BeginWelcome(ctx context.Context, c account.Caller, handle, code string) (begunCeremony, error) {
	var none begunCeremony
	if s.party == nil {
		return none, s.unavailable
	}
	code = account.CanonicalCode(code, account.ResetCodeLength)
	valid, first, err := s.accounts.ResetCodeValid(ctx, handle, code)
	if err == nil && !(valid && first) {
		err = account.ErrInvalidResetCode
	}
	if err != nil {
		return none, err
	}
	u, err := s.accounts.UserNamed(ctx, handle)
	if err != nil {
		return none, err
	}
	return s.beginFirst(c, u)
}

// Reset is person.Service.ResetPassword, with a passkey in the place of a password if one was made.
func (s *Service) Reset(
	ctx context.Context, c account.Caller, in person.Reset, made AnsweredCeremony,
) (person.Registered, error) {
	in.Passkey = s.firstPasskey(c, made)
	return s.accounts.ResetPassword(ctx, c, in)
}

package passkey

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// MayOffer reports whether the browser of the caller may make a passkey without asking: see AddPasskey.
// Who must have a second factor sets it up on purpose.
func (s *Service) MayOffer(ctx context.Context, c account.Caller) (bool, error) {
	settings, err := s.accounts.Settings(ctx)
	if err != nil || !settings.OfferPasskeys || s.party == nil {
		return false, err
	}
	if settings.NeedsSecondFactor(c.User) && !c.User.SecondFactor {
		return false, nil
	}
	keys, err := s.accounts.Store().Passkeys(ctx, c.User.Sub)
	return len(s.UsablePasskeys(keys)) == 0, err
}

// BeginAddPasskey returns a challenge for a new passkey of the caller. ErrPasskeyLimit. For offered see
// AddPasskey.
func (s *Service) BeginAddPasskey(ctx context.Context, c account.Caller, offered bool) (begunCeremony, error) {
	var none begunCeremony
	if err := s.accounts.MayAddFactor(ctx, c); err != nil {
		return none, err
	}
	if s.party == nil {
		return none, s.unavailable
	}
	purpose, options := ceremonyAdd, []webauthn.RegistrationOption{
		webauthn.WithRegistrationRelyingPartyName(s.accounts.InstanceName()),
	}
	mediation := protocol.MediationDefault
	if offered {
		may, err := s.MayOffer(ctx, c)
		if err != nil {
			return none, err
		}
		if !may {
			return none, account.ErrPasskeysUnavailable.With("You cannot add a passkey.")
		}
		// Nobody touches the authenticator or is verified; each use later asks for that.
		selection := s.party.Config.AuthenticatorSelection
		selection.UserVerification = protocol.VerificationPreferred
		purpose, mediation = ceremonyOffer, protocol.MediationConditional
		options = append(options, webauthn.WithAuthenticatorSelection(selection))
	}
	keys, err := s.accounts.Store().Passkeys(ctx, c.User.Sub)
	if err != nil {
		return none, err
	}
	if len(keys) >= account.MaxPasskeys {
		return none, account.ErrPasskeyLimit
	}
	u := passkeyUser{c.User, keys}
	options = append(options,
		webauthn.WithExclusions(webauthn.Credentials(u.WebAuthnCredentials()).CredentialDescriptors()))
	begun, session, err := s.party.BeginMediatedRegistration(u, mediation, options...)
	if err != nil {
		return none, fmt.Errorf("begin passkey: %w", err)
	}
	return s.beginCeremony(purpose, u.Sub, c.Session.ID, session.Challenge, begun.Response)
}

// AddPasskey verifies and stores a new credential of the caller. Without a name it is named after
// its authenticator. It is a way in, and the rest stays as it is: see account.NewWay for secondStep, with which the
// other sessions end, except what is kept. An offered one was made by the browser without asking.
func (s *Service) AddPasskey(
	ctx context.Context, c account.Caller, in AnsweredCeremony, name string, keep account.Keep,
	secondStep, offered bool,
) (k account.Passkey, out person.AddedFactor, err error) {
	if err := s.accounts.MayAddFactor(ctx, c); err != nil {
		return k, out, err
	}
	if name != "" {
		if name, err = passkeyName(name); err != nil {
			return k, out, err
		}
	}
	purpose := ceremonyAdd
	if offered {
		purpose = ceremonyOffer
	}
	k, err = s.createdPasskey(ctx, c, purpose, c.Session.ID, in)
	if err != nil {
		return k, out, err
	}
	k.Name = cmp.Or(name, k.Name)
	w := person.NewWay{Factor: account.FactorPasskey, Method: k.Method(), Name: k.Name, Passkey: k.ID,
		SecondStep: secondStep, Unproven: offered}
	out, err = s.accounts.AddFactor(ctx, c, keep, w, func(n account.NewFactor) (bool, error) {
		return s.accounts.Store().AddPasskey(ctx, k, account.MaxPasskeys, n)
	})
	return k, out, err
}

// createdPasskey verifies the answer to a challenge for a new passkey, which is not stored yet. It
// is of the user whom the challenge was for, and named after its authenticator.
func (s *Service) createdPasskey(
	ctx context.Context, c account.Caller, purpose, browser string, in AnsweredCeremony,
) (k account.Passkey, err error) {
	if s.party == nil {
		return k, s.unavailable
	}
	begun, err := s.openCeremony(in.State, purpose, browser)
	if err != nil {
		return k, err
	}
	answer, err := protocol.ParseCredentialCreationResponseBytes(in.Credential)
	if err != nil {
		return k, account.ErrInvalidPasskey
	}
	rpID := s.party.Config.RPID
	session := begun.session(rpID)
	if purpose == ceremonyOffer {
		session.Mediation, session.UserVerification = protocol.MediationConditional, protocol.VerificationPreferred
	}
	got, err := s.party.CreateCredential(passkeyUser{User: account.User{Sub: begun.Sub}}, session, answer)
	if err != nil {
		return k, account.ErrInvalidPasskey
	}
	if err := s.spendCeremony(ctx, begun); err != nil {
		return k, err
	}
	k = account.Passkey{
		ID: got.ID, Sub: begun.Sub, RPID: rpID, PublicKey: got.PublicKey, AAGUID: got.Authenticator.AAGUID,
		Name:       cmp.Or(authenticatorName(got.Authenticator.AAGUID), deviceName(ctx, c), "Passkey"),
		Attachment: string(got.Authenticator.Attachment), SignCount: got.Authenticator.SignCount,
		BackupEligible: got.Flags.BackupEligible, BackupState: got.Flags.BackupState, CreatedAt: s.accounts.Now(),
	}
	for _, t := range got.Transport {
		if slices.Contains(transports, t) { // other browsers do not know other values
			k.Transports = append(k.Transports, string(t))
		}
	}
	return k, nil
}

var transports = []protocol.AuthenticatorTransport{protocol.USB, protocol.NFC, protocol.BLE, protocol.SmartCard,
	protocol.Hybrid, protocol.Internal}

// deviceName names the browser of the caller in their language, or "".
func deviceName(ctx context.Context, c account.Caller) string {
	if c.Device == "" {
		return ""
	}
	browser, system, _ := strings.Cut(c.Device, " on ") // web.Device
	return templates.LanguageOf(ctx).Device(browser, system)
}

// passkeyName checks the name that somebody gives a passkey. ErrInvalidPasskeyName.
func passkeyName(text string) (string, error) {
	name, err := account.CheckDisplayName(text)
	if err != nil {
		err = account.ErrInvalidPasskeyName
	}
	return name, err
}

// RenamePasskey renames one of the caller's passkeys.
func (s *Service) RenamePasskey(ctx context.Context, c account.Caller, id, name string) (account.Passkey, error) {
	name, err := passkeyName(name)
	if err != nil {
		return account.Passkey{}, err
	}
	k, err := s.ownPasskey(ctx, c, id)
	if err != nil {
		return account.Passkey{}, err
	}
	a, err := s.accounts.Begin(ctx, c, account.RenamePasskey, c.User, k.Name)
	if err != nil {
		return account.Passkey{}, err
	}
	k.Name = name
	return k, web.Noted(ctx, "passkey_renamed", s.accounts.Store().RenamePasskey(ctx, k.Sub, k.ID, name, a))
}

// RemovePasskey removes one of the caller's passkeys and ends the other sessions that it opened.
// ErrFactorDemanded.
func (s *Service) RemovePasskey(
	ctx context.Context, c account.Caller, id string, keep account.Keep,
) (out person.SignedIn, err error) {
	if err := s.accounts.Allow(c, account.RemoveFactor); err != nil {
		return out, err
	}
	k, err := s.ownPasskey(ctx, c, id)
	if err != nil {
		return out, err
	}
	return s.accounts.RemoveFactor(ctx, c, keep, account.FactorPasskey, k.Name, func(o account.OldFactor) error {
		return s.accounts.Store().RemovePasskey(ctx, k.Sub, k.ID, o)
	})
}

// ownPasskey returns the caller's passkey with that id. ErrPasskeyNotFound.
func (s *Service) ownPasskey(ctx context.Context, c account.Caller, text string) (account.Passkey, error) {
	id, err := passkeyID(text)
	if err != nil {
		return account.Passkey{}, err
	}
	keys, err := s.accounts.Store().Passkeys(ctx, c.User.Sub)
	if err != nil {
		return account.Passkey{}, err
	}
	i := slices.IndexFunc(keys, func(k account.Passkey) bool { return bytes.Equal(k.ID, id) })
	if i < 0 {
		return account.Passkey{}, account.ErrPasskeyNotFound
	}
	return keys[i], nil
}

// authenticatorName returns the name of the authenticator's model, or "" if its AAGUID is unknown.
func authenticatorName(aaguid []byte) string {
	id, _ := uuid.FromBytes(aaguid) // on failure the nil UUID, which no authenticator has
	return authenticators[id.String()]
}

// authenticators are common models by AAGUID, as published in the FIDO Metadata Service, and for
// password managers in the list of passkeydeveloper.
var authenticators = map[string]string{
	"fbfc3007-154e-4ecc-8c0b-6e020557d7bd": "iCloud Keychain",
	"dd4ec289-e01d-41c9-bb89-70fa845d4bf2": "iCloud Keychain",
	"ea9b8d66-4d01-1d21-3ce4-b6b48cb575d4": "Google Password Manager",
	"adce0002-35bc-c60a-648b-0b25f1f05503": "Chrome on Mac",
	"08987058-cadc-4b81-b6e1-30de50dcbe96": "Windows Hello",
	"9ddd1817-af5a-4672-a2b9-3e3dd95000a9": "Windows Hello",
	"6028b017-b1d4-4c02-b4b3-afcdafc96bb2": "Windows Hello",
	"53414d53-554e-4700-0000-000000000000": "Samsung Pass",
	"bada5566-a7aa-401f-bd96-45619a55120d": "1Password",
	"d548826e-79b4-db40-a3d8-11116f7e8349": "Bitwarden",
	"531126d6-e717-415c-9320-3d9aa6981239": "Dashlane",
	"f3809540-7f14-49c1-a8b3-8f813b225541": "Enpass",
	"fdb141b2-5d84-443e-8a35-4698c205a502": "KeePassXC",
	"0ea242b4-43c4-4a1b-8b17-dd6d0b6baec6": "Keeper",
	"b84e4048-15dc-4dd0-8640-f4f60813c8af": "NordPass",
	"50726f74-6f6e-5061-7373-50726f746f6e": "Proton Pass",
	"cb69481e-8ff7-4039-93ec-0a2729a154a8": "YubiKey 5",
	"ee882879-721c-4913-9775-3dfcce97072a": "YubiKey 5",
	"19083c3d-8383-4b18-bc03-8f1c9ab2fd1b": "YubiKey 5",
	"fa2b99dc-9e39-4257-8f92-4a30d23c4118": "YubiKey 5 NFC",
	"2fc0579f-8113-47ea-b116-bb5a8db9202a": "YubiKey 5 NFC",
	"a25342c0-3cdc-4414-8e46-f4807fca511c": "YubiKey 5 NFC",
	"c5ef55ff-ad9a-4b9f-b580-adebafe026d0": "YubiKey 5Ci",
	"a02167b9-ae71-4ac7-9a07-06432ebb6f1c": "YubiKey 5Ci",
	"d8522d9f-575b-4866-88a9-ba99fa02f35b": "YubiKey Bio",
}

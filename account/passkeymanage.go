package account

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// passkeysPath is where the passkeys of a member are.
const passkeysPath = securityPath + "#passkeys"

// passkeyEndpoints serves A Well-Known URL for Relying Party Passkey Endpoints (W3C).
func (s *Service) passkeyEndpoints(w http.ResponseWriter, _ *http.Request) error {
	if s.passkeys.party == nil {
		return s.passkeys.unavailable
	}
	return web.WriteJSON(w, http.StatusOK, map[string]string{"enroll": s.URL(passkeysPath), "manage": s.URL(passkeysPath)})
}

// passkeyEntry is a passkey as its owner sees it.
type passkeyEntry struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	BackupEligible bool       `json:"backup_eligible"`
	BackupState    bool       `json:"backup_state"`
	CreatedAt      time.Time  `json:"created_at"`
	LastUsedAt     *time.Time `json:"last_used_at"` // null: never
}

func (k Passkey) shownID() string { return base64.RawURLEncoding.EncodeToString(k.ID) }

func (k Passkey) entry() passkeyEntry {
	return passkeyEntry{ID: k.shownID(), Name: k.Name, BackupEligible: k.BackupEligible, BackupState: k.BackupState, CreatedAt: k.CreatedAt.UTC(), LastUsedAt: TimeOrNull(k.LastUsedAt)}
}

func (s *Service) apiPasskeys(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.store.Passkeys(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]passkeyEntry{"passkeys": passkeyEntries(keys)})
}

func passkeyEntries(keys []Passkey) []passkeyEntry {
	entries := make([]passkeyEntry, 0, len(keys))
	for _, k := range keys {
		entries = append(entries, k.entry())
	}
	return entries
}

// describePasskeys fills in the section of passkeys.
func (s *Service) describePasskeys(r *http.Request, page *templates.AccountSecurity) error {
	keys, err := s.store.Passkeys(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return err
	}
	page.Passkeys.Full = len(keys) >= maxPasskeys
	if s.passkeys.party == nil {
		page.Passkeys.Unavailable = s.passkeys.unavailable.In(templates.LanguageOf(r.Context())).Detail
	}
	for _, k := range keys {
		page.Passkeys.Rows = append(page.Passkeys.Rows, templates.PasskeyRow{ID: k.shownID(), Name: k.Name, Synced: k.BackupState, CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt})
	}
	return nil
}

func (s *Service) apiBeginAddPasskey(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	if s.passkeys.party == nil {
		return s.passkeys.unavailable
	}
	id := IdentityFrom(r.Context())
	keys, err := s.store.Passkeys(r.Context(), id.User.Sub)
	if err != nil {
		return err
	}
	if len(keys) >= maxPasskeys {
		return ErrPasskeyLimit
	}
	u := passkeyUser{id.User, keys}
	options, session, err := s.passkeys.party.BeginRegistration(u,
		webauthn.WithExclusions(webauthn.Credentials(u.WebAuthnCredentials()).CredentialDescriptors()), webauthn.WithRegistrationRelyingPartyName(s.InstanceName()))
	if err != nil {
		return fmt.Errorf("begin passkey: %w", err)
	}
	return s.beginCeremony(w, ceremonyAdd, u.Sub, id.Session.ID, session.Challenge, options.Response)
}

func (s *Service) apiAddPasskey(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		passkeyAnswer
		Name string `json:"name"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	k, codes, err := s.addPasskey(r, in.answered(), in.Name)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusCreated, struct {
		passkeyEntry
		RecoveryCodes []string `json:"recovery_codes"` // null: there are some already
	}{k.entry(), codes})
}

func (s *Service) addPasskeyForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	in, _ := passkeyInForm(r)
	const done = "passkey-added"
	switch _, codes, err := s.addPasskey(r, in, r.PostForm.Get("name")); {
	case err != nil:
		return s.accountRefused(w, r, notices[done].page, notices[done].section, err)
	case codes != nil:
		s.Show(w, r, http.StatusOK, templates.RecoveryCodes{Codes: codes, First: true})
		return nil
	}
	return s.Redirect(w, r, securityPath+"?notice="+done+"#"+notices[done].section)
}

// addPasskey verifies a new credential of the signed-in user and keeps it. Without a name
// it is called after its authenticator. The codes are those that come with the first factor.
func (s *Service) addPasskey(r *http.Request, in answeredCeremony, name string) (k Passkey, codes []string, err error) {
	ctx, id := r.Context(), IdentityFrom(r.Context())
	if s.passkeys.party == nil {
		return Passkey{}, nil, s.passkeys.unavailable
	}
	if name != "" {
		if name, err = passkeyName(name); err != nil {
			return Passkey{}, nil, err
		}
	}
	c, err := s.openCeremony(in.State, ceremonyAdd, id.Session.ID)
	if err != nil {
		return Passkey{}, nil, err
	}
	if c.Sub != id.User.Sub {
		return Passkey{}, nil, ErrPasskeyExpired
	}
	answer, err := protocol.ParseCredentialCreationResponseBytes(in.Credential)
	if err != nil {
		return Passkey{}, nil, ErrInvalidPasskey
	}
	got, err := s.passkeys.party.CreateCredential(passkeyUser{User: id.User}, c.session(), answer)
	if err != nil || len(got.ID) == 0 || len(got.ID) > maxCredentialID {
		return Passkey{}, nil, ErrInvalidPasskey
	}
	if err := s.spendCeremony(ctx, c); err != nil {
		return Passkey{}, nil, err
	}
	k = Passkey{
		ID: got.ID, Sub: id.User.Sub, Name: cmp.Or(name, authenticatorName(got.Authenticator.AAGUID), Device(r.UserAgent()), "Passkey"), PublicKey: got.PublicKey,
		AAGUID: got.Authenticator.AAGUID, Attachment: string(got.Authenticator.Attachment), SignCount: got.Authenticator.SignCount,
		BackupEligible: got.Flags.BackupEligible, BackupState: got.Flags.BackupState, CreatedAt: s.now(),
	}
	for _, t := range got.Transport {
		if slices.Contains(transports, t) { // what else a browser says here means nothing to others
			k.Transports = append(k.Transports, string(t))
		}
	}
	codes, hashes := newRecoveryCodes()
	stored, err := s.store.AddPasskey(ctx, id.Session.ID, k, maxPasskeys, hashes, s.passkeyAudit(r, id.User, "factor.add", MailFactorAdded, k))
	if err != nil {
		return Passkey{}, nil, err
	}
	web.Note(ctx, "factor_added")
	if !stored {
		codes = nil
	}
	return k, codes, nil
}

var transports = []protocol.AuthenticatorTransport{protocol.USB, protocol.NFC, protocol.BLE, protocol.SmartCard, protocol.Hybrid, protocol.Internal}

// passkeyName checks a name that somebody gives a passkey. ErrInvalidPasskeyName.
func passkeyName(text string) (string, error) {
	name, err := CheckDisplayName(text)
	if err != nil {
		return "", ErrInvalidPasskeyName
	}
	return name, nil
}

func (s *Service) apiRenamePasskey(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Name string `json:"name"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	k, err := s.renamePasskey(r, in.Name)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, k.entry())
}

func (s *Service) renamePasskeyForm(_ http.ResponseWriter, r *http.Request) error {
	_, err := s.renamePasskey(r, r.PostForm.Get("name"))
	return err
}

func (s *Service) renamePasskey(r *http.Request, name string) (Passkey, error) {
	name, err := passkeyName(name)
	if err != nil {
		return Passkey{}, err
	}
	k, err := s.ownPasskey(r)
	if err != nil {
		return Passkey{}, err
	}
	k.Name = name
	return k, web.Noted(r.Context(), "passkey_renamed", s.store.RenamePasskey(r.Context(), k.Sub, k.ID, name))
}

// removePasskey removes one of the signed-in user's.
func (s *Service) removePasskey(_ http.ResponseWriter, r *http.Request) error {
	k, err := s.ownPasskey(r)
	if err != nil {
		return err
	}
	a := s.passkeyAudit(r, IdentityFrom(r.Context()).User, "factor.remove", MailFactorRemoved, k)
	return web.Noted(r.Context(), "factor_removed", s.store.RemovePasskey(r.Context(), k.Sub, k.ID, s.now(), a))
}

// ownPasskey is the passkey that an operation of its owner is about. ErrPasskeyNotFound.
func (s *Service) ownPasskey(r *http.Request) (Passkey, error) {
	id, err := passkeyID(operand(r, "id"))
	if err != nil {
		return Passkey{}, err
	}
	keys, err := s.store.Passkeys(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return Passkey{}, err
	}
	i := slices.IndexFunc(keys, func(k Passkey) bool { return bytes.Equal(k.ID, id) })
	if i < 0 {
		return Passkey{}, ErrPasskeyNotFound
	}
	return keys[i], nil
}

// authenticatorName names the model of an authenticator; "" where its AAGUID is not known
// or tells nothing.
func authenticatorName(aaguid []byte) string {
	id, err := uuid.FromBytes(aaguid)
	if err != nil {
		return ""
	}
	return authenticators[id.String()]
}

// authenticators are common ones by AAGUID, as their makers publish them: in the FIDO
// Metadata Service, and for password managers in the list of passkeydeveloper.
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

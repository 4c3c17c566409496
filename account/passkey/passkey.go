// Package passkey runs the ceremonies of Web Authentication: it challenges browsers, verifies their answers and
// tells them which passkeys are good. It alone knows the library. What a passkey proves, and what an act with
// one requires and ends, is in package account.
package passkey

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// Party is the relying party of an issuer, or the reason why there is none.
type Party struct {
	party       *webauthn.WebAuthn // of new passkeys
	hosts       []string           // see PasskeyHosts
	origins     []string           // see Service.PasskeyOrigins
	unavailable *web.Problem
}

// Hosts returns the relying party ids of the passkeys that browsers use here, first that of the issuer's
// host. There are none without passkeys.
func (p Party) Hosts() []string { return p.hosts }

// Service begins and verifies the ceremonies of passkeys. It is safe for concurrent use.
type Service struct {
	Party

	accounts  *person.Service
	olderHost *web.Cache[string] // see OlderPasskeys
}

// New returns the passkeys of a service whose Options have the hosts of the party.
func New(accounts *person.Service, party Party) *Service {
	s := &Service{Party: party, accounts: accounts}
	s.olderHost = web.NewCache(time.Minute, accounts.Now, func(ctx context.Context, _ string) (string, error) {
		return accounts.Store().OlderPasskeyHost(ctx, party.hosts, party.party.Config.RPID)
	})
	return s
}

// PasskeysUnavailable returns why there are no passkeys here, or nil if there are.
func (s *Service) PasskeysUnavailable() *web.Problem {
	if s.party == nil {
		return s.unavailable
	}
	return nil
}

// NewParty returns the relying party of an issuer. Its id is rpID, a parent of the host, or else the
// host, which must be a name. Browsers support passkeys only on https and on localhost.
func NewParty(issuer, rpID string, origins []string) (Party, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return Party{}, fmt.Errorf("issuer: %w", err)
	}
	host := u.Hostname()
	local := host == "localhost" || strings.HasSuffix(host, ".localhost")
	if _, err := netip.ParseAddr(host); err == nil {
		return Party{unavailable: account.ErrPasskeysUnavailable.With("Passkeys are not available here because this " +
			"service is used by its IP address. The operator can give it a name with https.")}, nil
	}
	if u.Scheme != "https" && !local {
		return Party{unavailable: account.ErrPasskeysUnavailable.With("Passkeys are not available here because this " +
			"service does not use https. The operator can set it up.")}, nil
	}
	rpID = cmp.Or(rpID, host)
	party, err := webauthn.New(&webauthn.Config{
		RPID: rpID, RPDisplayName: rpID, RPOrigins: append([]string{u.Scheme + "://" + u.Host}, origins...),
		// Some password managers report outputs of extensions that nobody asked for.
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore,
		AttestationPreference:             protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			RequireResidentKey: protocol.ResidentKeyRequired(), ResidentKey: protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return Party{unavailable: account.ErrPasskeysUnavailable.With("Passkeys are not available here because the " +
			"name of this service is incomplete. The operator can give it a name such as id.example.org.",
		)}, nil
	}
	return Party{party: party, hosts: account.PasskeyHosts(issuer), origins: origins}, nil
}

// passkeyUser implements webauthn.User.
type passkeyUser struct {
	account.User
	keys []account.Passkey
}

func (u passkeyUser) WebAuthnID() []byte          { return []byte(u.Sub) }
func (u passkeyUser) WebAuthnName() string        { return u.Handle }
func (u passkeyUser) WebAuthnDisplayName() string { return u.DisplayName }

func (u passkeyUser) WebAuthnCredentials() []webauthn.Credential {
	out := make([]webauthn.Credential, len(u.keys))
	for i, k := range u.keys {
		c := webauthn.Credential{ID: k.ID, PublicKey: k.PublicKey,
			Flags: webauthn.CredentialFlags{BackupEligible: k.BackupEligible, BackupState: k.BackupState}}
		c.Authenticator = webauthn.Authenticator{AAGUID: k.AAGUID, SignCount: k.SignCount,
			Attachment: protocol.AuthenticatorAttachment(k.Attachment)}
		for _, t := range k.Transports {
			c.Transport = append(c.Transport, protocol.AuthenticatorTransport(t))
		}
		out[i] = c
	}
	return out
}

// Purposes of a challenge.
const (
	CeremonySignIn       = "sign-in"
	CeremonySecondFactor = "second-factor"
	CeremonyConfirm      = "confirm"
	ceremonyAdd          = "add"
	ceremonyOffer        = "offer"
)

// ceremony describes a challenge. It is sealed and travels through the browser, so that showing the
// sign-in page writes nothing.
type ceremony struct {
	Purpose   string `json:"p"`
	Challenge string `json:"c"`
	Sub       string `json:"u,omitempty"` // the user who must answer, or empty
	Browser   []byte `json:"b"`           // hash of the secret that identifies the browser
}

// begunCeremony is the response to a begin.
type begunCeremony struct {
	State     string `json:"state"`
	PublicKey any    `json:"publicKey"`
}

// AnsweredCeremony is the response of the browser.
type AnsweredCeremony struct {
	State      string
	Credential []byte // PublicKeyCredential as JSON
}

// beginCeremony seals the challenge for a browser.
func (s *Service) beginCeremony(purpose, sub, browser, challenge string, options any) (begunCeremony, error) {
	c := ceremony{Purpose: purpose, Challenge: challenge, Sub: sub, Browser: account.HashSecret(browser)}
	state, err := s.accounts.Sealer().Seal(account.PurposePasskey, c)
	return begunCeremony{State: state, PublicKey: options}, err
}

// openCeremony opens a state. ErrPasskeyExpired also if it is for another purpose or browser.
func (s *Service) openCeremony(state, purpose, browser string) (ceremony, error) {
	var c ceremony
	err := s.accounts.Sealer().Open(account.PurposePasskey, state, &c)
	if err != nil || c.Purpose != purpose || browser == "" ||
		subtle.ConstantTimeCompare(c.Browser, account.HashSecret(browser)) != 1 {
		return ceremony{}, account.ErrPasskeyExpired
	}
	return c, nil
}

// spendCeremony accepts a challenge once, over all instances. ErrPasskeyExpired.
func (s *Service) spendCeremony(ctx context.Context, c ceremony) error {
	first, err := s.accounts.Store().SpendOnce(ctx, account.HashSecret(account.PurposePasskey+" "+c.Challenge),
		s.accounts.Now().Add(account.PasskeyTime+time.Minute))
	if err == nil && !first {
		return account.ErrPasskeyExpired
	}
	return err
}

func (c ceremony) session(rpID string) webauthn.SessionData {
	return webauthn.SessionData{RelyingPartyID: rpID, Challenge: c.Challenge, UserID: []byte(c.Sub),
		UserVerification: protocol.VerificationRequired, CredParams: webauthn.CredentialParametersDefault()}
}

// BeginPasskey starts a proof by passkey: a sign-in with a discoverable credential, the second step
// of a sign-in, or the confirmation of the signed-in user. older starts a sign-in with one of
// OlderPasskeys.
func (s *Service) BeginPasskey(
	ctx context.Context, c account.Caller, purpose string, older bool,
) (begunCeremony, error) {
	var none begunCeremony
	if s.party == nil {
		return none, s.unavailable
	}
	switch purpose {
	case "", CeremonySignIn:
		rpID := s.party.Config.RPID
		if older {
			host, err := s.OlderPasskeys(ctx)
			if err != nil {
				return none, err
			}
			rpID = cmp.Or(host, rpID)
		}
		options, session, err := s.party.BeginDiscoverableLogin(webauthn.WithLoginRelyingPartyID(rpID))
		if err != nil {
			return none, fmt.Errorf("begin passkey: %w", err)
		}
		return s.beginCeremony(CeremonySignIn, "", c.Browser.Passkey, session.Challenge, options.Response)
	case CeremonySecondFactor:
		u, step, err := s.accounts.PendingSignIn(ctx, c)
		if err != nil {
			return none, err
		}
		return s.beginProof(ctx, purpose, u.Sub, step.Nonce)
	case CeremonyConfirm:
		return s.beginProof(ctx, purpose, c.User.Sub, c.Session.ID)
	}
	return none, ErrPasskeyPurpose
}

var ErrPasskeyPurpose = web.BadRequest("The member purpose has an unknown value.",
	web.FieldError{Pointer: "/purpose", Detail: "unknown"})

// beginProof is BeginPasskey for a known user.
func (s *Service) beginProof(ctx context.Context, purpose, sub, browser string) (begunCeremony, error) {
	keys, err := s.accounts.Store().Passkeys(ctx, sub)
	if err != nil {
		return begunCeremony{}, err
	}
	if keys = s.UsablePasskeys(keys); len(keys) == 0 {
		return begunCeremony{}, account.ErrPasskeyNotFound
	}
	// A challenge is for one id: that of new passkeys, if the user has one.
	rpID := s.party.Config.RPID
	of := func(k account.Passkey) bool { return s.rpID(k) == rpID }
	if !slices.ContainsFunc(keys, of) {
		rpID = s.rpID(keys[len(keys)-1])
	}
	keys = slices.DeleteFunc(keys, func(k account.Passkey) bool { return !of(k) })
	options, session, err := s.party.BeginLogin(passkeyUser{account.User{Sub: sub}, keys},
		webauthn.WithLoginRelyingPartyID(rpID))
	if err != nil {
		return begunCeremony{}, fmt.Errorf("begin passkey: %w", err)
	}
	return s.beginCeremony(purpose, sub, browser, session.Challenge, options.Response)
}

// provePasskey verifies the answer to a challenge and stores the use of the passkey. No limit counts
// it: a passkey cannot be guessed. ErrInvalidPasskey whatever is wrong, ErrPasskeyExpired, and
// ErrSuspended after a right answer.
func (s *Service) provePasskey(
	ctx context.Context, by account.Caller, purpose, browser string, in AnsweredCeremony,
) (p person.Proven, err error) {
	if s.party == nil {
		return p, s.unavailable
	}
	c, err := s.openCeremony(in.State, purpose, browser)
	if err != nil {
		return p, err
	}
	u, k, err := s.verifyPasskey(ctx, c, in.Credential)
	if errors.Is(err, account.ErrInvalidPasskey) {
		web.NoteSignIn(ctx, web.SignInFailed, account.FactorPasskey)
	}
	if err != nil {
		return p, err
	}
	if err := s.spendCeremony(ctx, c); err != nil {
		return p, err
	}
	if u.Suspended() {
		web.NoteSignIn(ctx, web.SignInSuspended, account.FactorPasskey)
		return p, s.accounts.RefuseSuspended(ctx, by.As(u))
	}
	if err := s.usePasskey(ctx, by.As(u), k); err != nil {
		return p, err
	}
	return person.ProvenByPasskey(u, k), nil
}

// SignIn signs in the owner of the passkey. It needs no other step.
func (s *Service) SignIn(ctx context.Context, c account.Caller, in AnsweredCeremony) (person.SignedIn, error) {
	p, err := s.provePasskey(ctx, c, CeremonySignIn, c.Browser.Passkey, in)
	if err != nil {
		return person.SignedIn{}, err
	}
	return s.accounts.SignInProven(ctx, c, p)
}

// SecondStep checks the passkey after the password.
func (s *Service) SecondStep(ctx context.Context, c account.Caller, in AnsweredCeremony) (person.SignedIn, error) {
	u, step, err := s.accounts.PendingSignIn(ctx, c)
	if err != nil {
		return person.SignedIn{}, err
	}
	p, err := s.provePasskey(ctx, c, CeremonySecondFactor, step.Nonce, in)
	if err != nil {
		return person.SignedIn{}, err
	}
	return s.accounts.SecondStepProven(ctx, c, u, step, p)
}

// Confirm is person.Service.Confirm by a passkey with user verification.
func (s *Service) Confirm(ctx context.Context, c account.Caller, in AnsweredCeremony) (person.SignedIn, error) {
	p, err := s.provePasskey(ctx, c, CeremonyConfirm, c.Session.ID, in)
	if err != nil {
		return person.SignedIn{}, err
	}
	return s.accounts.ConfirmProven(ctx, c, p)
}

// verifyPasskey finds the credential of an assertion and verifies it. The returned passkey has the
// count and backup state of the assertion.
func (s *Service) verifyPasskey(
	ctx context.Context, c ceremony, credential []byte,
) (account.User, account.Passkey, error) {
	answer, err := protocol.ParseCredentialRequestResponseBytes(credential)
	if err != nil {
		return account.User{}, account.Passkey{}, s.refusePasskey(ctx, account.Passkey{}, refusedForm)
	}
	k, u, err := s.accounts.Store().Passkey(ctx, answer.RawID)
	if err != nil {
		if errors.Is(err, account.ErrPasskeyNotFound) {
			return account.User{}, account.Passkey{}, s.refusePasskey(ctx, account.Passkey{ID: answer.RawID},
				refusedUnknown)
		}
		return account.User{}, account.Passkey{}, err
	}
	if !s.accounts.PasskeyUsable(k.RPID) {
		return account.User{}, account.Passkey{}, s.refusePasskey(ctx, k, refusedHost)
	}
	if s.validatePasskey(c, u, k, answer) != nil {
		return account.User{}, account.Passkey{}, s.refusePasskey(ctx, k, s.whyRefused(c, u, k, answer))
	}
	k.SignCount, k.BackupState = answer.Response.AuthenticatorData.Counter,
		answer.Response.AuthenticatorData.Flags.HasBackupState()
	return u, k, nil
}

// validatePasskey verifies an answer with a passkey of u.
func (s *Service) validatePasskey(
	c ceremony, u account.User, k account.Passkey, answer *protocol.ParsedCredentialAssertionData,
) (err error) {
	owner, session := passkeyUser{u, []account.Passkey{k}}, c.session(s.rpID(k))
	if c.Sub == "" {
		find := func(_, _ []byte) (webauthn.User, error) { return owner, nil }
		_, _, err = s.party.ValidatePasskeyLogin(find, session, answer)
	} else {
		_, err = s.party.ValidateLogin(owner, session, answer) // it compares the id of the user
	}
	return err
}

// Why a passkey was refused, for the log.
const (
	refusedForm         = "not a credential"
	refusedUnknown      = "unknown here"
	refusedOwner        = "of another user"
	refusedOrigin       = "answered on another site"
	refusedHost         = "made for another host"
	refusedVerification = "without user verification"
	refusedKind         = "its kind changed" // whether it may be copied to other devices
	refusedSignature    = "wrong signature"  // also of another challenge
	refusedRemoved      = "removed meanwhile"
)

// whyRefused returns why validatePasskey refused an answer.
func (s *Service) whyRefused(
	c ceremony, u account.User, k account.Passkey, answer *protocol.ParsedCredentialAssertionData,
) string {
	data, handle := answer.Response.AuthenticatorData, answer.Response.UserHandle
	host := sha256.Sum256([]byte(s.rpID(k)))
	switch {
	case c.Sub != "" && c.Sub != u.Sub, len(handle) > 0 && string(handle) != u.Sub:
		return refusedOwner
	case !slices.Contains(s.party.Config.RPOrigins, answer.Response.CollectedClientData.Origin):
		return refusedOrigin
	case !bytes.Equal(data.RPIDHash, host[:]):
		return refusedHost
	case !data.Flags.HasUserVerified():
		return refusedVerification
	}
	k.BackupEligible = !k.BackupEligible
	if s.validatePasskey(c, u, k, answer) == nil {
		return refusedKind
	}
	return refusedSignature
}

// refusePasskey returns ErrInvalidPasskey and logs the reason, which only a person who has the
// passkey learns.
func (s *Service) refusePasskey(ctx context.Context, k account.Passkey, reason string) error {
	s.accounts.Log().InfoContext(ctx, "passkey refused", "reason", reason, "user", k.Sub, "passkey",
		text.Cut(k.ShownID(), 64), "request_id", web.RequestID(ctx))
	if reason == refusedKind {
		return account.ErrInvalidPasskey.With("This passkey has changed since you added it. Sign in another way, " +
			"remove it, then add it again.")
	}
	return account.ErrInvalidPasskey
}

// usePasskey stores a use. A count that went back may mean that the key was copied, or that the
// authenticator was reset. So the owner is notified, and the passkey still works.
func (s *Service) usePasskey(ctx context.Context, c account.Caller, k account.Passkey) error {
	k.LastUsedAt = s.accounts.Now()
	a, err := s.accounts.Begin(ctx, c, account.NoticeCounter, c.User, "passkey "+k.Name, "name", k.Name)
	if err != nil {
		return err
	}
	wentBack, err := s.accounts.Store().UsePasskey(ctx, k, a)
	if wentBack {
		s.accounts.Log().WarnContext(ctx, "sign count of a passkey went back", "user", c.User.Sub,
			"passkey", k.ShownID(), "request_id", c.RequestID)
	}
	if errors.Is(err, account.ErrPasskeyNotFound) {
		return s.refusePasskey(ctx, k, refusedRemoved)
	}
	return err
}

// passkeyID decodes the id of a passkey in paths and forms. ErrPasskeyNotFound.
func passkeyID(text string) ([]byte, error) {
	id, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, account.ErrPasskeyNotFound
	}
	return id, nil
}

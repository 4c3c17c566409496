package account

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

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// Passkey is a WebAuthn credential of a user.
type Passkey struct {
	ID             []byte // credential id, at most maxCredentialID bytes
	Sub            string
	RPID           string // relying party id; empty: the host of the issuer, see Service.CheckPasskeys
	Name           string
	PublicKey      []byte // COSE
	AAGUID         []byte // of the model of the authenticator
	Transports     []string
	Attachment     string // platform, cross-platform or empty
	SignCount      uint32
	BackupEligible bool // may be copied to other devices
	BackupState    bool // has been
	CreatedAt      time.Time
	LastUsedAt     time.Time // zero: never
}

const (
	MaxPasskeys     = 20   // of a user
	maxCredentialID = 1023 // bytes, Web Authentication Level 3 section 5.8.3
)

// passkeys holds the relying party, or the reason why there is none.
type passkeys struct {
	party       *webauthn.WebAuthn // of new passkeys
	hosts       []string           // see PasskeyHosts
	origins     []string           // see Service.PasskeyOrigins
	unavailable *web.Problem
}

// PasskeysUnavailable returns why there are no passkeys here, or nil if there are.
func (s *Service) PasskeysUnavailable() *web.Problem {
	if s.passkeys.party == nil {
		return s.passkeys.unavailable
	}
	return nil
}

// newPasskeys returns the relying party of an issuer. Its id is rpID, a parent of the host, or else the
// host, which must be a name. Browsers support passkeys only on https and on localhost.
func newPasskeys(issuer, rpID string, origins []string) (passkeys, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return passkeys{}, fmt.Errorf("issuer: %w", err)
	}
	host := u.Hostname()
	local := host == "localhost" || strings.HasSuffix(host, ".localhost")
	if _, err := netip.ParseAddr(host); err == nil {
		return passkeys{unavailable: ErrPasskeysUnavailable.With("There are no passkeys here, because this service " +
			"is reached by an IP address. Whoever runs it can give it a name and write https with that name as its " +
			"issuer.")}, nil
	}
	if u.Scheme != "https" && !local {
		return passkeys{unavailable: ErrPasskeysUnavailable.With("There are no passkeys here, because this service " +
			"is reached by plain http. Whoever runs it can set up https and write that address as its issuer.")}, nil
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
		return passkeys{unavailable: ErrPasskeysUnavailable.With("There are no passkeys here, because the name of " +
			"this service is not a whole one like id.example.org. Whoever runs it can write such a name as its issuer.",
		)}, nil
	}
	return passkeys{party: party, hosts: PasskeyHosts(issuer), origins: origins}, nil
}

// passkeyUser implements webauthn.User.
type passkeyUser struct {
	User
	keys []Passkey
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

// sealPasskey is the purpose of sealed ceremonies. passkeyTime is their lifetime, the library's
// default for the browser.
const (
	sealPasskey = "passkey"
	PasskeyTime = 5 * time.Minute
)

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
	c := ceremony{Purpose: purpose, Challenge: challenge, Sub: sub, Browser: HashSecret(browser)}
	state, err := s.seal.Seal(sealPasskey, c)
	return begunCeremony{State: state, PublicKey: options}, err
}

// openCeremony opens a state. ErrPasskeyExpired also if it is for another purpose or browser.
func (s *Service) openCeremony(state, purpose, browser string) (ceremony, error) {
	var c ceremony
	if err := s.seal.Open(sealPasskey, state, &c); err != nil || c.Purpose != purpose || browser == "" ||
		subtle.ConstantTimeCompare(c.Browser, HashSecret(browser)) != 1 {
		return ceremony{}, ErrPasskeyExpired
	}
	return c, nil
}

// spendCeremony accepts a challenge once, over all instances. ErrPasskeyExpired.
func (s *Service) spendCeremony(ctx context.Context, c ceremony) error {
	first, err := s.store.SpendOnce(ctx, HashSecret(sealPasskey+" "+c.Challenge), s.Now().Add(PasskeyTime+time.Minute))
	if err == nil && !first {
		return ErrPasskeyExpired
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
func (s *Service) BeginPasskey(ctx context.Context, c Caller, purpose string, older bool) (begunCeremony, error) {
	var none begunCeremony
	if s.passkeys.party == nil {
		return none, s.passkeys.unavailable
	}
	switch purpose {
	case "", CeremonySignIn:
		rpID := s.passkeys.party.Config.RPID
		if older {
			host, err := s.OlderPasskeys(ctx)
			if err != nil {
				return none, err
			}
			rpID = cmp.Or(host, rpID)
		}
		options, session, err := s.passkeys.party.BeginDiscoverableLogin(webauthn.WithLoginRelyingPartyID(rpID))
		if err != nil {
			return none, fmt.Errorf("begin passkey: %w", err)
		}
		return s.beginCeremony(CeremonySignIn, "", c.Browser.Passkey, session.Challenge, options.Response)
	case CeremonySecondFactor:
		u, step, err := s.PendingSignIn(ctx, c)
		if err != nil {
			return none, err
		}
		return s.beginProof(ctx, purpose, u.Sub, step.Nonce)
	case CeremonyConfirm:
		if c.Session.ID == "" {
			return none, ErrNotAuthenticated
		}
		return s.beginProof(ctx, purpose, c.User.Sub, c.Session.ID)
	}
	return none, ErrPasskeyPurpose
}

var ErrPasskeyPurpose = web.BadRequest("The member purpose has an unknown value.",
	web.FieldError{Pointer: "/purpose", Detail: "not known"})

// beginProof is BeginPasskey for a known user.
func (s *Service) beginProof(ctx context.Context, purpose, sub, browser string) (begunCeremony, error) {
	keys, err := s.store.Passkeys(ctx, sub)
	if err != nil {
		return begunCeremony{}, err
	}
	if keys = s.UsablePasskeys(keys); len(keys) == 0 {
		return begunCeremony{}, ErrPasskeyNotFound
	}
	// A challenge is for one id: that of new passkeys, if the user has one.
	rpID := s.passkeys.party.Config.RPID
	of := func(k Passkey) bool { return s.passkeys.rpID(k) == rpID }
	if !slices.ContainsFunc(keys, of) {
		rpID = s.passkeys.rpID(keys[len(keys)-1])
	}
	keys = slices.DeleteFunc(keys, func(k Passkey) bool { return !of(k) })
	options, session, err := s.passkeys.party.BeginLogin(passkeyUser{User{Sub: sub}, keys},
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
	ctx context.Context, by Caller, purpose, browser string, in AnsweredCeremony,
) (p proven, err error) {
	if s.passkeys.party == nil {
		return p, s.passkeys.unavailable
	}
	c, err := s.openCeremony(in.State, purpose, browser)
	if err != nil {
		return p, err
	}
	u, k, err := s.verifyPasskey(ctx, c, in.Credential)
	if errors.Is(err, ErrInvalidPasskey) {
		web.NoteSignIn(ctx, web.SignInFailed, factorPasskey)
	}
	if err != nil {
		return p, err
	}
	if err := s.spendCeremony(ctx, c); err != nil {
		return p, err
	}
	if u.Suspended() {
		web.NoteSignIn(ctx, web.SignInSuspended, factorPasskey)
		return p, s.refuseSuspended(ctx, by.as(u))
	}
	if err := s.usePasskey(ctx, by.as(u), k); err != nil {
		return p, err
	}
	return proven{user: u, amr: []string{k.method(), MethodUser, MethodMultiFactor}, passkey: k.ID}, nil
}

// method returns the authentication method (RFC 8176) of the passkey.
func (k Passkey) method() string {
	if k.BackupEligible {
		return MethodSoftwareKey
	}
	return MethodHardwareKey
}

// verifyPasskey finds the credential of an assertion and verifies it. The returned passkey has the
// count and backup state of the assertion.
func (s *Service) verifyPasskey(ctx context.Context, c ceremony, credential []byte) (User, Passkey, error) {
	answer, err := protocol.ParseCredentialRequestResponseBytes(credential)
	if err != nil || len(answer.RawID) > maxCredentialID {
		return User{}, Passkey{}, s.refusePasskey(ctx, Passkey{}, refusedForm)
	}
	k, u, err := s.store.Passkey(ctx, answer.RawID)
	if err != nil {
		if errors.Is(err, ErrPasskeyNotFound) {
			return User{}, Passkey{}, s.refusePasskey(ctx, Passkey{ID: answer.RawID}, refusedUnknown)
		}
		return User{}, Passkey{}, err
	}
	if !s.passkeys.usable(k.RPID) {
		return User{}, Passkey{}, s.refusePasskey(ctx, k, refusedHost)
	}
	if s.validatePasskey(c, u, k, answer) != nil {
		return User{}, Passkey{}, s.refusePasskey(ctx, k, s.whyRefused(c, u, k, answer))
	}
	k.SignCount, k.BackupState = answer.Response.AuthenticatorData.Counter,
		answer.Response.AuthenticatorData.Flags.HasBackupState()
	return u, k, nil
}

// validatePasskey verifies an answer with a passkey of u.
func (s *Service) validatePasskey(
	c ceremony, u User, k Passkey, answer *protocol.ParsedCredentialAssertionData,
) (err error) {
	owner, session := passkeyUser{u, []Passkey{k}}, c.session(s.passkeys.rpID(k))
	if c.Sub == "" {
		find := func(_, _ []byte) (webauthn.User, error) { return owner, nil }
		_, _, err = s.passkeys.party.ValidatePasskeyLogin(find, session, answer)
	} else {
		_, err = s.passkeys.party.ValidateLogin(owner, session, answer) // it compares the id of the user
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
	c ceremony, u User, k Passkey, answer *protocol.ParsedCredentialAssertionData,
) string {
	data, handle := answer.Response.AuthenticatorData, answer.Response.UserHandle
	host := sha256.Sum256([]byte(s.passkeys.rpID(k)))
	switch {
	case c.Sub != "" && c.Sub != u.Sub, len(handle) > 0 && string(handle) != u.Sub:
		return refusedOwner
	case !slices.Contains(s.passkeys.party.Config.RPOrigins, answer.Response.CollectedClientData.Origin):
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
func (s *Service) refusePasskey(ctx context.Context, k Passkey, reason string) error {
	s.log.InfoContext(ctx, "passkey refused", "reason", reason, "user", k.Sub, "passkey",
		text.Cut(k.ShownID(), 64), "request_id", web.RequestID(ctx))
	if reason == refusedKind {
		return ErrInvalidPasskey.With("This passkey has changed since it was added here. Sign in another way, remove " +
			"it and add it again.")
	}
	return ErrInvalidPasskey
}

// usePasskey stores a use. A count that went back may mean that the key was copied, or that the
// authenticator was reset. So the owner is notified, and the passkey still works.
func (s *Service) usePasskey(ctx context.Context, c Caller, k Passkey) error {
	k.LastUsedAt = s.Now()
	a, err := s.begin(ctx, c, NoticeCounter, "passkey "+k.Name, "name", k.Name)
	if err != nil {
		return err
	}
	wentBack, err := s.store.UsePasskey(ctx, k, a)
	if wentBack {
		s.log.WarnContext(ctx, "sign count of a passkey went back", "user", c.User.Sub, "passkey", k.ShownID(),
			"request_id", c.RequestID)
	}
	if errors.Is(err, ErrPasskeyNotFound) {
		return s.refusePasskey(ctx, k, refusedRemoved)
	}
	return err
}

// passkeyID decodes the id of a passkey in paths and forms. ErrPasskeyNotFound.
func passkeyID(text string) ([]byte, error) {
	id, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(id) == 0 || len(id) > maxCredentialID || bytes.ContainsAny([]byte(text), "\r\n") {
		return nil, ErrPasskeyNotFound
	}
	return id, nil
}

package person

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// Device Bound Session Credentials (W3C, editor's draft of 2026-02-17): the browser makes a key that cannot leave
// the device, and proves it every few minutes. Each proof gives it a bound cookie that lives shortly, without which
// the session opens nothing of this service. Only the key and the used challenges are stored: challenges, cookies and
// the names of sessions in the protocol are stamped values.
const (
	// boundCookieLife is the Max-Age of a bound cookie. The service takes it boundLeeway longer.
	boundCookieLife = 5 * time.Minute
	boundLeeway     = time.Minute
	// firstCookieLife is that of the cookie of a registration, so that the first proof follows at once.
	firstCookieLife = 10 * time.Second
	// challengeLife is how soon a proof follows its challenge, and a registration the sign-in.
	challengeLife  = 2 * time.Minute
	maxDeviceProof = 4 << 10 // bytes
)

// Problems of device binding.
var (
	// ErrDeviceProofRequired means that the session is bound to its device, and the proof is missing.
	ErrDeviceProofRequired = web.NewProblem(401, "device_proof_required",
		"Your browser has to show that it is still the one you signed in with. Try again in a moment.")
	// ErrDeviceProof refuses a proof. After the challenge of the answer the browser makes another one.
	ErrDeviceProof = web.NewProblem(403, "invalid_device_proof", "The proof from this device is not valid.")
	// errDeviceUnknown refuses what names no session.
	errDeviceUnknown = web.NewProblem(400, "unknown_device_session", "The proof from this device is not valid.")
)

// Bound is the answer to a proof of a device.
type Bound struct {
	ID     string        // the session_identifier
	Cookie string        // the end of the name of the bound cookie: see boundName
	Value  string        // of the bound cookie
	Life   time.Duration // of the bound cookie
	// Challenge comes with a refusal alone: Chromium signs 6 times in 9 minutes, and signs a challenge that it has
	// kept for longer in vain.
	Challenge string
	Ended     bool // the binding: nothing but ID is set
}

// boundName returns what tells the bound cookie of a session from those of others in the same browser.
func boundName(session string) string { return text.Cut(session, 8) }

// keyMark names the key of a session in stamped values.
func keyMark(s account.Session) string {
	sum := sha256.Sum256(s.DeviceKey)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

func boundCookie(n account.Session) string { return "bound cookie " + n.ID + " " + keyMark(n) }

func registrationOf(n account.Session) string {
	return "device registration " + n.ID + n.AuthTime.UTC().String()
}

// boundID returns the session_identifier, which stays the same for as long as the key does.
func (s *Service) boundID(n account.Session) string {
	name := n.ID + "." + keyMark(n)
	return name + "." + s.markCode("device session "+name)
}

func (s *Service) deviceChallenge(of string) string {
	nonce := rand.Text()[:16]
	return nonce + s.stamp("device challenge "+of+" "+nonce, s.Now())
}

// lives reports whether a stamp is not older than the duration.
func (s *Service) lives(stamp, of string, life time.Duration) bool {
	at, ok := s.stamped(stamp, of)
	age := s.Now().Sub(at)
	return ok && age >= -boundLeeway && age <= life
}

// unproven reports whether the session is bound to its device and the browser has not proven it recently.
func (s *Service) unproven(n account.Session, b account.Browser) bool {
	return s.binding && n.Bound() && !s.lives(b.Bound[boundName(n.ID)], boundCookie(n), boundCookieLife+boundLeeway)
}

// DeviceRegistration returns what asks the browser that has just signed in to register a key: a challenge, and what
// allows it, which is in no cookie. They are empty where the session cannot be bound, or is.
func (s *Service) DeviceRegistration(in SignedIn) (challenge, authorization string) {
	if !s.binding || in.Token == "" || len(in.Session.DeviceKey) > 0 {
		return "", ""
	}
	id := in.Session.ID
	return s.deviceChallenge(id), id + "." + s.stamp(registrationOf(in.Session), s.Now())
}

// deviceClaims are the claims of a proof.
type deviceClaims struct {
	Challenge     string `json:"jti"`
	Authorization string `json:"authorization"`
}

// openDeviceProof verifies a proof with the key, or if that is nil, with the one in its header, which it returns.
func openDeviceProof(proof string, key *ecdsa.PublicKey) (*ecdsa.PublicKey, deviceClaims, error) {
	var c deviceClaims
	if len(proof) > maxDeviceProof {
		return nil, c, ErrDeviceProof
	}
	t, err := jwt.ParseSigned(proof, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(t.Headers) != 1 || t.Headers[0].ExtraHeaders[jose.HeaderType] != "dbsc+jwt" {
		return nil, c, ErrDeviceProof
	}
	if own := t.Headers[0].JSONWebKey; key == nil && own != nil {
		key, _ = own.Key.(*ecdsa.PublicKey)
	}
	if key == nil || key.Curve != elliptic.P256() || t.Claims(key, &c) != nil {
		return nil, c, ErrDeviceProof
	}
	return key, c, nil
}

// openChallenge spends a challenge, which counts once.
func (s *Service) openChallenge(ctx context.Context, challenge, of string) error {
	nonce, stamp := text.Cut(challenge, 16), ""
	stamp = strings.TrimPrefix(challenge, nonce)
	if !s.lives(stamp, "device challenge "+of+" "+nonce, challengeLife) {
		return ErrDeviceProof
	}
	first, err := s.Store().SpendOnce(ctx, account.HashSecret(nonce), s.Now().Add(2*challengeLife))
	if err == nil && !first {
		err = ErrDeviceProof
	}
	return err
}

// RegisterDevice binds a session to the key of a proof, once and soon after its sign-in. The session counts as bound
// after the first proof that follows: a browser that cannot give one must not lock its owner out. ErrDeviceProof.
func (s *Service) RegisterDevice(ctx context.Context, c account.Caller, proof string) (Bound, error) {
	key, claims, err := openDeviceProof(proof, nil)
	if err != nil {
		return Bound{}, err
	}
	id, stamp, _ := strings.Cut(claims.Authorization, ".")
	if !s.binding || !account.IsSessionID(id) {
		return Bound{}, ErrDeviceProof
	}
	n, u, err := s.Store().Session(ctx, id)
	switch {
	case errors.Is(err, account.ErrSessionNotFound):
		return Bound{}, ErrDeviceProof
	case err != nil:
		return Bound{}, err
	case !n.Live(s.Now()), u.Suspended(), !s.lives(stamp, registrationOf(n), challengeLife):
		return Bound{}, ErrDeviceProof
	}
	if err := s.openChallenge(ctx, claims.Challenge, id); err != nil {
		return Bound{}, err
	}
	if n.DeviceKey, err = key.Bytes(); err != nil {
		return Bound{}, ErrDeviceProof
	}
	c = c.As(u)
	c.Session = n
	err = s.Store().BindDevice(ctx, n, s.audit(c, account.BindDevice, u.Handle, id))
	if errors.Is(err, account.ErrSessionNotFound) { // it has a key, or has ended
		err = ErrDeviceProof
	}
	if err != nil {
		return Bound{}, err
	}
	web.NoteUser(ctx, u.Sub)
	web.Note(ctx, "device_bound")
	return s.bound(n, firstCookieLife), nil
}

// RefreshDevice answers a proof of the session's key; without a proof, or after a wrong one, with a challenge and
// ErrDeviceProof. errDeviceUnknown, web.ErrBusy.
func (s *Service) RefreshDevice(ctx context.Context, id, proof string) (Bound, error) {
	name, mac := id[:max(0, strings.LastIndexByte(id, '.'))], id[strings.LastIndexByte(id, '.')+1:]
	session, mark, _ := strings.Cut(name, ".")
	if !hmac.Equal([]byte(mac), []byte(s.markCode("device session "+name))) || !account.IsSessionID(session) {
		return Bound{}, errDeviceUnknown
	}
	n, u, err := s.Store().Session(ctx, session)
	switch {
	case err != nil && !errors.Is(err, account.ErrSessionNotFound):
		return Bound{}, err
	case err != nil, !n.Live(s.Now()), u.Suspended(), keyMark(n) != mark:
		return Bound{ID: id, Ended: true}, nil
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), n.DeviceKey)
	if err != nil {
		return Bound{}, err
	}
	_, claims, err := openDeviceProof(proof, key)
	if err == nil {
		// After the proof: whoever lacks the key cannot use up what the owner's browser may do.
		if wait, err := s.deviceLimits.Take(ctx, limitProofs, n.ID); err != nil || wait > 0 {
			return Bound{}, cmp.Or(err, error(web.ErrBusy)) // 503: after 429 the browser would give the key up
		}
		err = s.openChallenge(ctx, claims.Challenge, id)
	}
	if err != nil {
		return Bound{Challenge: s.deviceChallenge(id)}, err
	}
	if !n.Bound() {
		if err := s.Store().ProveDevice(ctx, n, s.Now()); err != nil {
			return Bound{}, err
		}
	}
	web.NoteUser(ctx, u.Sub)
	return s.bound(n, boundCookieLife), nil
}

func (s *Service) bound(n account.Session, life time.Duration) Bound {
	return Bound{ID: s.boundID(n), Cookie: boundName(n.ID), Value: s.stamp(boundCookie(n), s.Now()), Life: life}
}

// How many proofs of a session are taken; how many requests without one from another address, in an hour, its owner is
// told about, and how often.
const (
	limitProofs                 = "device-proofs"
	limitUnproven, manyUnproven = "device-unproven", 10
	limitDeviceMail             = "device-mail"
)

var deviceLimits = map[string]web.Rate{limitProofs: {Count: 60, Window: 10 * time.Minute},
	limitUnproven: {Count: manyUnproven, Window: time.Hour}, limitDeviceMail: {Count: 1, Window: 24 * time.Hour}}

// refuseUnproven returns ErrDeviceProofRequired. It does not end the session: whoever has its cookies could. Its owner
// is told if it happens often elsewhere.
func (s *Service) refuseUnproven(ctx context.Context, id *Identity) error {
	web.Note(ctx, ErrDeviceProofRequired.Code)
	web.Observe(ctx, web.Observer.Unproven)
	n, address := id.Session, ""
	if a := web.Address(ctx); a.IsValid() {
		address = web.AddressKey(a)
	}
	if address == "" || address == n.Address {
		return ErrDeviceProofRequired
	}
	if wait, err := s.deviceLimits.Take(ctx, limitUnproven, n.ID); err != nil || wait == 0 {
		return ErrDeviceProofRequired
	}
	if wait, err := s.deviceLimits.Take(ctx, limitDeviceMail, n.ID); err != nil || wait > 0 {
		return ErrDeviceProofRequired
	}
	c := account.Caller{Address: address, RequestID: web.RequestID(ctx)}.In(id.User, id.Session)
	mails, err := s.Notices(ctx, id.User, account.RefuseDevice.Told, "device", "", "address", address, "session", n.ID)
	if err != nil {
		s.log.WarnContext(ctx, "no mail about a copied session", "error", err)
	}
	s.recordRefusal(ctx, s.audit(c, account.RefuseDevice, id.User.Handle, n.ID).With(mails...))
	return ErrDeviceProofRequired
}

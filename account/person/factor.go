package person

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// RecentFactorRows returns the rows of Store.RecentFactors for pages.
func (s *Service) RecentFactorRows(ctx context.Context, u account.User, keep string) ([]templates.FactorRow, error) {
	list, err := s.Store().RecentFactors(ctx, u.Sub, keep, s.Now())
	return account.FactorRowsOf(list), err
}

// FactorMethods returns the ways in which the user can prove a second factor with this issuer: passkeys are bound to
// theirs.
func (s *Service) FactorMethods(f account.Factors) []string {
	f.Passkeys = s.CountUsablePasskeys(f)
	methods := []string{}
	for _, m := range []struct {
		name string
		has  bool
	}{{account.FactorTOTP, f.TOTP != nil}, {account.FactorPasskey, f.Passkeys > 0}, {account.FactorRecoveryCode,
		f.RecoveryCodes > 0}} {
		if m.has {
			methods = append(methods, m.name)
		}
	}
	return methods
}

// AddedFactor is the result of what may draw recovery codes: a new second factor, or what is asked from then on.
type AddedFactor struct {
	SignedIn          // the session, which a new factor has proven too
	Codes    []string // recovery codes, which come with the first factor; else nil
}

// NewWay describes what AddFactor adds.
type NewWay struct {
	Factor, Method, Name string
	Passkey              []byte // its id, nil: none
	// SecondStep asks for a second step after the password from then on. Without it a passkey is a way in and changes
	// nothing else, unless the settings require a second factor of the user.
	SecondStep bool
	// Unproven has not shown who uses it.
	Unproven bool
}

// AddFactor adds a factor by calling add, which reports whether it switched the second step on; only then the other
// sessions end, except what is kept. The session then has proven the factor too, so the person can continue.
// ErrSecondFactorRequired to a session that has not proven the factor that an application demands of the user.
func (s *Service) AddFactor(
	ctx context.Context, c account.Caller, keep account.Keep, w NewWay, add func(account.NewFactor) (bool, error),
) (out AddedFactor, err error) {
	if _, err := s.factorDemanded(ctx, c); err != nil {
		return out, err
	}
	required, err := s.NeedsSecondFactor(ctx, c.User)
	if err != nil {
		return out, err
	}
	c.Session.ConfirmedAt = s.Now() // see BeginTOTP
	asked := (w.SecondStep || required || c.User.Passwordless()) && !c.User.SecondFactor && !w.Unproven
	data := []string{"factor", w.Factor, "name", w.Name, "session", c.Session.ID}
	if asked {
		data = append(data, account.FactorChoice, "true")
	}
	a, err := s.begin(ctx, c, account.AddFactor, strings.TrimSpace(w.Factor+" "+w.Name), data...)
	if err != nil {
		return out, err
	}
	var shown []string
	var codes []account.RecoveryCode
	if asked {
		if shown, codes, err = s.newRecoveryCodes(ctx); err != nil {
			return out, err
		}
	}
	wayIn, ends := !asked && !c.User.SecondFactor, keep.End || len(keep.Remove)+len(keep.Void) > 0
	first, err := add(account.NewFactor{Codes: codes, WayIn: wayIn, End: ends, Now: s.Now(), Audit: a.Keeping(keep)})
	if err != nil {
		return out, err
	}
	web.Note(ctx, "factor_added")
	if w.Unproven {
		return out, nil
	}
	amr := slices.Clone(c.Session.AMR)
	if first {
		out.Codes = shown
	}
	passkey := c.Session.Passkey
	if passkey == nil && !c.User.SecondFactor { // the other methods used factors that were removed
		amr = slices.DeleteFunc(amr, func(m string) bool { return m != account.MethodPassword })
	}
	if passkey == nil && wayIn {
		passkey = w.Passkey
	}
	adds := []string{w.Method, account.MethodMultiFactor}
	if w.Method != account.MethodOTP {
		adds = append(adds, account.MethodUser)
	}
	for _, m := range adds {
		if !slices.Contains(amr, m) {
			amr = append(amr, m)
		}
	}
	if !first && len(amr) == len(c.Session.AMR) {
		return out, nil
	}
	p := Proven{user: c.User, amr: amr, passkey: passkey}
	if out.SignedIn, err = s.renewSession(ctx, c, c.Session, p, account.ConfirmIdentity); err != nil {
		// Do not fail: the codes are shown only once.
		s.log.WarnContext(ctx, "session not renewed after a second factor was added", "error", err)
	}
	return out, nil
}

// RemoveFactor removes a second factor by calling remove. The other sessions end, except what is kept, and this one
// gets a new token. ErrFactorDemanded if it is the last one and a factor is required; ErrSecondFactorRequired as
// AddFactor.
func (s *Service) RemoveFactor(
	ctx context.Context, c account.Caller, keep account.Keep, factor, name string, remove func(account.OldFactor) error,
) (out SignedIn, err error) {
	a, err := s.begin(ctx, c, account.RemoveFactor, strings.TrimSpace(factor+" "+name), "factor", factor, "name", name)
	if err != nil {
		return out, err
	}
	demanded, err := s.factorDemanded(ctx, c)
	if err != nil {
		return out, err
	}
	out, err = s.renewing(ctx, c, a.Keeping(keep), c.User, func(a account.Audit) error {
		return remove(account.OldFactor{Demanded: demanded, RPIDs: s.passkeyHosts, Now: s.Now(), Audit: a})
	})
	return out, web.Noted(ctx, "factor_removed", err)
}

const (
	totpSeal   = "totp"
	totpPeriod = 30 // seconds
	totpSkew   = 1  // steps that a clock may differ
)

// totpCode normalizes a code of an authenticator app, which some apps show in groups.
func totpCode(typed string) (string, bool) {
	code := strings.Join(strings.Fields(typed), "")
	return code, len(code) == otp.DigitsSix.Length()
}

// timeStep returns the time step of a code. The store accepts each once: see UseTOTP.
func timeStep(secret, code string, now time.Time) (int64, bool) {
	current := now.Unix() / totpPeriod
	opts := hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}
	for _, step := range []int64{current, current - totpSkew, current + totpSkew} {
		good, err := hotp.ValidateCustom(code, uint64(step), secret, opts) //nolint:gosec // after 1970
		if err == nil && good {
			return step, true
		}
	}
	return 0, false
}

// enrolment is a new secret for an authenticator app, sealed and bound to a session that was fresh.
type enrolment struct {
	Session string `json:"session"`
	Secret  []byte `json:"secret"`
}

// totpSecretBytes is the length that RFC 4226 section 4 recommends.
const totpSecretBytes = 20

// BeginTOTP creates a secret for the caller. ErrFactorExists, and the errors of MayAddFactor.
func (s *Service) BeginTOTP(ctx context.Context, c account.Caller) (*otp.Key, string, error) {
	if err := s.MayAddFactor(ctx, c); err != nil {
		return nil, "", err
	}
	f, err := s.Store().Factors(ctx, c.User.Sub)
	if err != nil {
		return nil, "", err
	}
	if f.TOTP != nil {
		return nil, "", account.ErrFactorExists
	}
	e := enrolment{Session: c.Session.ID, Secret: make([]byte, totpSecretBytes)}
	_, _ = rand.Read(e.Secret) // never fails (crypto/rand)
	token, err := s.seal.Seal(totpSeal, e)
	if err != nil {
		return nil, "", err
	}
	key, err := s.totpKey(c.User, e.Secret)
	return key, token, err
}

// totpKey returns the otpauth URI of a secret. A colon in the name would split the label.
func (s *Service) totpKey(u account.User, secret []byte) (*otp.Key, error) {
	issuer := cmp.Or(strings.ReplaceAll(s.InstanceName(), ":", " "), templates.DefaultInstanceName)
	issuer, name := text.Percent(issuer), text.Percent(u.Handle)
	return otp.NewKeyFromURL("otpauth://totp/" + issuer + ":" + name + "?algorithm=SHA1&digits=6&issuer=" + issuer +
		"&period=30&secret=" + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret))
}

// OpenEnrolment returns the secret of a token. ErrEnrolmentExpired if it was not made for this
// session, or too long ago.
func (s *Service) OpenEnrolment(c account.Caller, token string) (*otp.Key, error) {
	var e enrolment
	if s.seal.Open(totpSeal, token, &e) != nil || e.Session != c.Session.ID {
		return nil, account.ErrEnrolmentExpired
	}
	return s.totpKey(c.User, e.Secret)
}

// ConfirmTOTP adds the authenticator app that shows the right code. The session was fresh when the
// secret was made, which is proof enough for the lifetime of the token. With the first factor the
// other sessions end, except what is kept.
func (s *Service) ConfirmTOTP(
	ctx context.Context, c account.Caller, token, typed string, keep account.Keep,
) (AddedFactor, error) {
	key, err := s.OpenEnrolment(c, token)
	if err != nil {
		return AddedFactor{}, err
	}
	code, _ := totpCode(typed)
	step, ok := timeStep(key.Secret(), code, s.Now())
	if !ok {
		return AddedFactor{}, account.ErrInvalidOTP.With(
			"This is not the code from the app. Check the clock of your device, then enter the code that it shows now.")
	}
	w := NewWay{Factor: account.FactorTOTP, Method: account.MethodOTP, SecondStep: true}
	return s.AddFactor(ctx, c, keep, w, func(n account.NewFactor) (bool, error) {
		return s.Store().AddTOTP(ctx, c.User.Sub, account.TOTP{Secret: key.Secret(), LastStep: step}, n)
	})
}

// RemoveTOTP removes the authenticator app. ErrFactorDemanded, ErrFactorNotFound.
func (s *Service) RemoveTOTP(ctx context.Context, c account.Caller, keep account.Keep) (SignedIn, error) {
	return s.RemoveFactor(ctx, c, keep, account.FactorTOTP, "", func(o account.OldFactor) error {
		return s.Store().RemoveTOTP(ctx, c.User.Sub, o)
	})
}

// PasskeyUsable reports whether browsers use passkeys of the relying party id here.
func (s *Service) PasskeyUsable(rpID string) bool {
	return len(s.passkeyHosts) > 0 && slices.Contains(s.passkeyHosts, cmp.Or(rpID, s.passkeyHosts[0]))
}

// CountUsablePasskeys counts the passkeys that browsers use here.
func (s *Service) CountUsablePasskeys(f account.Factors) (n int) {
	for _, host := range f.PasskeyHosts {
		if s.PasskeyUsable(host) {
			n++
		}
	}
	return n
}

package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"github.com/cairn-id/cairn/templates"
)

const (
	totpSeal   = "totp"
	totpPeriod = 30 // seconds
	totpSkew   = 1  // steps that a clock may differ
)

// totpCode reads a code of an authenticator app, which some show in groups.
func totpCode(typed string) (string, bool) {
	code := strings.Join(strings.Fields(typed), "")
	if len(code) != otp.DigitsSix.Length() || strings.Trim(code, "0123456789") != "" {
		return "", false
	}
	return code, true
}

// timeStep finds the time step of a code, later than that of the last one accepted.
func timeStep(secret, code string, now time.Time, last int64) (int64, bool) {
	current := now.Unix() / totpPeriod
	opts := hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}
	for _, step := range []int64{current, current - totpSkew, current + totpSkew} {
		good, err := hotp.ValidateCustom(code, uint64(step), secret, opts) //nolint:gosec // after 1970
		if err == nil && good && step > last {
			return step, true
		}
	}
	return 0, false
}

// useTOTP accepts a code of the user's authenticator app, which then no longer works.
func (s *Service) useTOTP(ctx context.Context, sub, code string) (bool, error) {
	f, err := s.store.Factors(ctx, sub)
	if err != nil || f.TOTP == nil {
		return false, err
	}
	step, ok := timeStep(f.TOTP.Secret, code, s.now(), f.TOTP.LastStep)
	if !ok {
		return false, nil
	}
	return s.store.UseTOTP(ctx, sub, step, s.now())
}

// enrolment is a secret that was drawn for an authenticator app, sealed and bound to a
// session that was fresh.
type enrolment struct {
	Sub     string `json:"sub"`
	Session string `json:"session"`
	Secret  []byte `json:"secret"`
}

// totpSecretBytes is what RFC 4226 section 4 recommends.
const totpSecretBytes = 20

// BeginTOTP draws a secret for the caller. ErrFactorExists.
func (s *Service) BeginTOTP(ctx context.Context, c Caller) (*otp.Key, string, error) {
	if err := s.allow(c, "factor.add"); err != nil {
		return nil, "", err
	}
	f, err := s.store.Factors(ctx, c.User.Sub)
	if err != nil {
		return nil, "", err
	}
	if f.TOTP != nil {
		return nil, "", ErrFactorExists
	}
	e := enrolment{Sub: c.User.Sub, Session: c.Session.ID, Secret: make([]byte, totpSecretBytes)}
	_, _ = rand.Read(e.Secret) // never fails (crypto/rand)
	token, err := s.seal.Seal(totpSeal, e)
	if err != nil {
		return nil, "", err
	}
	key, err := s.totpKey(c.User, e.Secret)
	return key, token, err
}

// totpKey is a secret as apps read it. A colon in the name would divide the label.
func (s *Service) totpKey(u User, secret []byte) (*otp.Key, error) {
	issuer := cmp.Or(strings.ReplaceAll(s.InstanceName(), ":", " "), templates.DefaultInstanceName)
	return totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: u.Handle, Secret: secret})
}

// openEnrolment returns the secret of a token. ErrEnrolmentExpired for one that was not made for this session, or
// too long ago.
func (s *Service) openEnrolment(c Caller, token string) (*otp.Key, error) {
	var e enrolment
	if s.seal.Open(totpSeal, token, &e) != nil || e.Sub != c.User.Sub || e.Session != c.Session.ID {
		return nil, ErrEnrolmentExpired
	}
	return s.totpKey(c.User, e.Secret)
}

// ConfirmTOTP adds the authenticator app that shows the right code. The token says that the session was fresh when
// the secret was drawn, which is proof enough for as long as it lives. With the first factor the other
// sessions end, unless keepOthers.
func (s *Service) ConfirmTOTP(ctx context.Context, c Caller, token, typed string, keepOthers bool) (AddedFactor, error) {
	key, err := s.openEnrolment(c, token)
	if err != nil {
		return AddedFactor{}, err
	}
	code, _ := totpCode(typed)
	step, ok := timeStep(key.Secret(), code, s.now(), 0)
	if !ok {
		return AddedFactor{}, ErrInvalidOTP.With(
			"This is not the code of the app. Check the clock of the device and enter the code that it shows now.")
	}
	return s.addFactor(ctx, c, keepOthers, FactorTOTP, MethodOTP, "", func(n NewFactor) (bool, error) {
		return s.store.AddTOTP(ctx, c.User.Sub, TOTP{Secret: key.Secret(), LastStep: step}, n)
	})
}

// RemoveTOTP removes the authenticator app. ErrFactorDemanded, ErrFactorNotFound.
func (s *Service) RemoveTOTP(ctx context.Context, c Caller, keepOthers bool) error {
	return s.removeFactor(ctx, c, keepOthers, FactorTOTP, "", func(o OldFactor) error {
		return s.store.RemoveTOTP(ctx, c.User.Sub, o)
	})
}

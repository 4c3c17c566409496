package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

const (
	securityPath = "/account/security"
	totpPath     = securityPath + "/totp"
	totpSeal     = "totp"
)

const (
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
	for _, step := range []int64{current, current - totpSkew, current + totpSkew} {
		good, err := hotp.ValidateCustom(code, uint64(step), secret, hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}) //nolint:gosec // after 1970
		if err == nil && good && step > last {
			return step, true
		}
	}
	return 0, false
}

// useTOTP accepts a code of the user's authenticator app, which then works no more.
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

// drawTOTP draws a secret for the signed-in user. ErrFactorExists.
func (s *Service) drawTOTP(r *http.Request) (*otp.Key, string, error) {
	id := IdentityFrom(r.Context())
	f, err := s.store.Factors(r.Context(), id.User.Sub)
	if err != nil {
		return nil, "", err
	}
	if f.TOTP != nil {
		return nil, "", ErrFactorExists
	}
	e := enrolment{Sub: id.User.Sub, Session: id.Session.ID, Secret: make([]byte, totpSecretBytes)}
	_, _ = rand.Read(e.Secret) // never fails (crypto/rand)
	token, err := s.seal.Seal(totpSeal, e)
	if err != nil {
		return nil, "", err
	}
	key, err := s.totpKey(id.User, e.Secret)
	return key, token, err
}

// totpKey is a secret as apps read it. A colon in the name would divide the label.
func (s *Service) totpKey(u User, secret []byte) (*otp.Key, error) {
	return totp.Generate(totp.GenerateOpts{Issuer: cmp.Or(strings.ReplaceAll(s.InstanceName(), ":", " "), templates.DefaultInstanceName), AccountName: u.Handle, Secret: secret})
}

// openEnrolment is ErrEnrolmentExpired for a token that was not made for this session lately.
func (s *Service) openEnrolment(r *http.Request, token string) (enrolment, error) {
	id := IdentityFrom(r.Context())
	var e enrolment
	if s.seal.Open(totpSeal, token, &e) != nil || e.Sub != id.User.Sub || e.Session != id.Session.ID {
		return e, ErrEnrolmentExpired
	}
	return e, nil
}

// confirmTOTP adds the authenticator app that shows the right code. The token says that
// the session was fresh when the secret was drawn. The codes are those that come with
// the first factor.
func (s *Service) confirmTOTP(r *http.Request, token, typed string) (codes []string, err error) {
	ctx, id := r.Context(), IdentityFrom(r.Context())
	e, err := s.openEnrolment(r, token)
	if err != nil {
		return nil, err
	}
	key, err := s.totpKey(id.User, e.Secret)
	if err != nil {
		return nil, err
	}
	code, _ := totpCode(typed)
	step, ok := timeStep(key.Secret(), code, s.now(), 0)
	if !ok {
		return nil, ErrInvalidOTP.With("This is not the code of the app. Check the clock of the device and enter the code that it shows now.")
	}
	codes, hashes := newRecoveryCodes()
	stored, err := s.store.AddTOTP(ctx, id.User.Sub, id.Session.ID, TOTP{Secret: key.Secret(), LastStep: step}, hashes, s.now(), s.factorAudit(r, "factor.add", MailFactorAdded, FactorTOTP))
	if err != nil {
		return nil, err
	}
	web.Note(ctx, "factor_added")
	if !stored {
		return nil, nil
	}
	return codes, nil
}

func (s *Service) removeTOTP(_ http.ResponseWriter, r *http.Request) error {
	err := s.store.RemoveTOTP(r.Context(), IdentityFrom(r.Context()).User.Sub, s.now(), s.factorAudit(r, "factor.remove", MailFactorRemoved, FactorTOTP))
	return web.Noted(r.Context(), "factor_removed", err)
}

func (s *Service) apiBeginTOTP(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	key, token, err := s.drawTOTP(r)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string]string{"secret": key.Secret(), "uri": key.URL(), "token": token})
}

func (s *Service) apiConfirmTOTP(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Token string `json:"token"`
		Code  string `json:"code"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	codes, err := s.confirmTOTP(r, in.Token, in.Code)
	if p, _ := web.ProblemOf(err); errors.Is(err, ErrInvalidOTP) {
		p.Errors[0].Pointer = "/code"
		return p
	}
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		OK            bool     `json:"ok"`
		RecoveryCodes []string `json:"recovery_codes"` // null: there are some already
	}{true, codes})
}

func (s *Service) totpPage(w http.ResponseWriter, r *http.Request) error {
	key, token, err := s.drawTOTP(r)
	if errors.Is(err, ErrFactorExists) {
		return s.Redirect(w, r, securityPath)
	}
	if err != nil {
		return err
	}
	s.Show(w, r, http.StatusOK, templates.TOTP{Secret: key.Secret(), URI: key.URL(), Token: token})
	return nil
}

// totpForm shows the same secret again after a wrong code.
func (s *Service) totpForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	token := r.PostForm.Get("token")
	codes, err := s.confirmTOTP(r, token, r.PostForm.Get("code"))
	switch {
	case errors.Is(err, ErrEnrolmentExpired), errors.Is(err, ErrFactorExists), errors.Is(err, ErrNotAuthenticated):
		return s.Redirect(w, r, totpPath)
	case err == nil && codes == nil:
		return s.Redirect(w, r, securityPath+"?notice=totp-added#second-factor")
	case err == nil:
		s.Show(w, r, http.StatusOK, templates.RecoveryCodes{Codes: codes, First: true})
		return nil
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	e, err := s.openEnrolment(r, token)
	if err != nil {
		return err
	}
	key, err := s.totpKey(IdentityFrom(r.Context()).User, e.Secret)
	if err != nil {
		return err
	}
	s.Show(w, r, p.Status, templates.TOTP{Secret: key.Secret(), URI: key.URL(), Token: token, Error: p.Detail, ErrorCode: p.Code})
	return nil
}

func (s *Service) removeTOTPForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	if err := s.removeTOTP(w, r); err != nil && !errors.Is(err, ErrFactorNotFound) {
		return err
	}
	return s.Redirect(w, r, securityPath+"?notice=totp-removed#second-factor")
}

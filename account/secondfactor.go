package account

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

const (
	secondFactorPath = "/login/second-factor/"
	signInSeal       = "second-factor"
)

// signInStep is a sign-in of which the password was right, sealed in a cookie of the
// browser that knew it. It is good for one session.
type signInStep struct {
	Sub      string `json:"sub"`
	Password []byte `json:"password"` // hash of the password hash: another password ends it
	Nonce    string `json:"nonce"`
}

func (s *Service) stepCookie(value string, maxAge int) *http.Cookie {
	name := "cairn_second_factor"
	if s.https {
		name = "__Host-" + name
	}
	c := s.cookie(name, value, "")
	c.MaxAge = maxAge
	return c
}

// askSecondFactor keeps in the browser that the password of u was right, and is
// ErrSecondFactorRequired with what u can go on with.
func (s *Service) askSecondFactor(w http.ResponseWriter, r *http.Request, u User) error {
	f, err := s.store.Factors(r.Context(), u.Sub)
	if err != nil {
		return err
	}
	sealed, err := s.seal.Seal(signInSeal, signInStep{Sub: u.Sub, Password: hashOf(u.PasswordHash), Nonce: rand.Text()})
	if err != nil {
		return err
	}
	http.SetCookie(w, s.stepCookie(sealed, int(sealLifetimes[signInSeal].Seconds())))
	web.NoteUser(r.Context(), u.Sub)
	p := *ErrSecondFactorRequired
	p.Methods = s.factorMethods(f)
	return &p
}

// pendingSignIn is the user whose password was right in this browser lately. ErrSignInExpired
// when there is none, ErrSuspended.
func (s *Service) pendingSignIn(r *http.Request) (User, signInStep, error) {
	var step signInStep
	c, err := r.Cookie(s.stepCookie("", 0).Name)
	if err != nil || s.seal.Open(signInSeal, c.Value, &step) != nil {
		return User{}, step, ErrSignInExpired
	}
	u, err := s.store.UserBySub(r.Context(), step.Sub)
	switch {
	case errors.Is(err, ErrUserNotFound):
		return User{}, step, ErrSignInExpired
	case err != nil:
		return User{}, step, err
	case !u.SecondFactor || subtle.ConstantTimeCompare(hashOf(u.PasswordHash), step.Password) != 1:
		return User{}, step, ErrSignInExpired
	case u.Suspended():
		return User{}, step, s.suspended(r.Context())
	}
	return u, step, nil
}

// finishSignIn makes the session of a pending sign-in after the second factor was
// proved, once.
func (s *Service) finishSignIn(w http.ResponseWriter, r *http.Request, u User, step signInStep, amr ...string) (User, error) {
	first, err := s.store.SpendOnce(r.Context(), hashOf(step.Nonce), s.now().Add(2*sealLifetimes[signInSeal]))
	if err != nil {
		return User{}, err
	}
	http.SetCookie(w, s.stepCookie("", -1))
	if !first {
		return User{}, ErrSignInExpired
	}
	return s.openSession(w, r, u, amr...)
}

// secondStep is the code after the password.
func (s *Service) secondStep(w http.ResponseWriter, r *http.Request, otp string) (User, error) {
	u, step, err := s.pendingSignIn(r)
	if err != nil {
		return User{}, err
	}
	if err := s.checkOTP(r, u, otp); err != nil {
		return User{}, err
	}
	return s.finishSignIn(w, r, u, step, MethodPassword, MethodOTP, MethodMultiFactor)
}

// checkOTP accepts a code of the user's authenticator app or a recovery code, each once,
// under the limits of a sign-in. A code of an app can be guessed, so it has another limit
// from which no address is exempt: only who knows the password, or has the session,
// can use that up, and a recovery code is not held by it.
func (s *Service) checkOTP(r *http.Request, u User, typed string) error {
	ctx := r.Context()
	limits := []web.LimitKey{{Name: web.LimitLogin, Key: web.ClientAddress(r)}, s.accountLimit(r, u.Handle, u)}
	code, isTOTP := totpCode(typed)
	if isTOTP {
		limits = append(limits, web.LimitKey{Name: web.LimitSecondFactor, Key: u.Sub, Exempt: func(refusal error) error {
			s.recordLimited(r, u, "session.limited", refusal)
			return refusal
		}})
	}
	return s.limits.Guess(ctx, limits, ErrInvalidOTP, func() (err error) {
		good := false
		if isTOTP {
			good, err = s.useTOTP(ctx, u.Sub, code)
		} else {
			good, err = s.useRecoveryCode(r, u, typed)
		}
		if err == nil && !good {
			s.recordRefusal(ctx, ActorFor(r, u).Own(s.now(), "factor.refused", ""))
			err = ErrInvalidOTP
		}
		return err
	})
}

// onward is the query with which the pages of a sign-in hand on what it is for.
func onward(v, more url.Values) string {
	q := url.Values{}
	if c := continuation(v); c != "" {
		q.Set("continue", c)
	}
	if fresh := v.Get("fresh"); fresh == FreshConfirm || fresh == FreshChoose {
		q.Set("fresh", fresh)
	}
	for name := range more {
		q.Set(name, more.Get(name))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func (s *Service) secondFactorPage(w http.ResponseWriter, r *http.Request) error {
	return s.showSecondFactor(w, r, http.StatusOK, r.URL.Query(), templates.SecondFactor{})
}

// showSecondFactor shows the form to the browser in which the password was right; the
// others begin again.
func (s *Service) showSecondFactor(w http.ResponseWriter, r *http.Request, status int, v url.Values, page templates.SecondFactor) error {
	u, _, err := s.pendingSignIn(r)
	if errors.Is(err, ErrSignInExpired) {
		return s.Redirect(w, r, "/login/"+onward(v, url.Values{"expired": {"1"}}))
	}
	if err != nil {
		return err
	}
	f, err := s.store.Factors(r.Context(), u.Sub)
	if err != nil {
		return err
	}
	page.Handle, page.Methods, page.Fresh = u.Handle, s.factorMethods(f), v.Get("fresh")
	page.Continue, _ = s.continuation(r, v)
	page.NoPasskeys = s.noPasskeys(r.Context(), f)
	s.Show(w, r, status, page)
	return nil
}

func (s *Service) secondFactorForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	next, _ := s.continuation(r, r.PostForm)
	var err error
	if passkey, ok := passkeyInForm(r); ok {
		_, err = s.passkeySecondStep(w, r, passkey)
	} else {
		_, err = s.SignIn(w, r, Credentials{OTP: cut(r.PostForm.Get("otp"), 100) + " "}) // a field left empty is a wrong code
	}
	switch {
	case err == nil:
		return s.afterSignIn(w, r, next)
	case errors.Is(err, ErrSignInExpired), errors.Is(err, ErrInvalidCredentials):
		return s.Redirect(w, r, "/login/"+onward(r.PostForm, url.Values{"expired": {"1"}}))
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	return s.showSecondFactor(w, r, p.Status, r.PostForm, templates.SecondFactor{Error: p.Detail, ErrorCode: p.Code, Recovery: r.PostForm.Has("recovery")})
}

package account

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// freshFor is how long a proof of who somebody is lets them do what a thief of their
// session must not: change how the account is signed in to, or administer others.
const freshFor = 10 * time.Minute

// Fresh tells whether the person has lately proved who they are, by a sign-in or by
// any factor they have.
func (s *Service) Fresh(id *Identity) bool {
	return !s.now().After(id.Session.ConfirmedAt.Add(freshFor))
}

// RequireFresh lets h do its work only where the proof is fresh. Else a program gets
// ErrReauthenticationRequired and a browser the page that asks for a factor and leads back to the path
// back, which is local and answers to GET. It stands behind RequireSession or one like it.
func (s *Service) RequireFresh(back string, h web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.Fresh(IdentityFrom(r.Context())) {
			return h(w, r)
		}
		return s.AskConfirmation(w, r, back)
	}
}

// AskConfirmation answers where RequireFresh would not let through.
func (s *Service) AskConfirmation(w http.ResponseWriter, r *http.Request, back string) error {
	if s.WantsPage(r) {
		return s.Redirect(w, r, "/account/confirm?"+url.Values{"next": {back}}.Encode())
	}
	return ErrReauthenticationRequired
}

// confirmation is what a signed-in person enters to prove again who they are: either.
type confirmation struct {
	Password string `json:"password"`
	OTP      string `json:"otp"`
}

// confirm checks it under the limits of a sign-in.
func (s *Service) confirm(r *http.Request, in confirmation) error {
	u := IdentityFrom(r.Context()).User
	var err error
	if in.OTP != "" {
		err = s.checkOTP(r, u, in.OTP)
	}
	if err == nil && (in.OTP == "" || in.Password != "") {
		_, err = s.verifyPassword(r, u, in.Password)
	}
	if err != nil {
		return err
	}
	return s.confirmed(r)
}

// confirmed makes the session of the request fresh, after a proof.
func (s *Service) confirmed(r *http.Request) error {
	id := IdentityFrom(r.Context())
	return web.Noted(r.Context(), "confirmed", s.store.ConfirmSession(r.Context(), id.User.Sub, id.Session.ID, s.now()))
}

func (s *Service) apiConfirm(w http.ResponseWriter, r *http.Request) error {
	var in confirmation
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := s.confirm(r, in); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// localPath is a path of this service that a browser may be sent to; what is none leads
// to the account.
func localPath(path string) string {
	control := func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || len(path) > 512 || strings.ContainsFunc(path, control) {
		return "/account/"
	}
	return path
}

func (s *Service) confirmPage(w http.ResponseWriter, r *http.Request) error {
	return s.showConfirm(w, r, http.StatusOK, templates.Confirm{Next: localPath(r.URL.Query().Get("next"))})
}

func (s *Service) showConfirm(w http.ResponseWriter, r *http.Request, status int, page templates.Confirm) error {
	u := IdentityFrom(r.Context()).User
	f, err := s.store.Factors(r.Context(), u.Sub)
	if err != nil {
		return err
	}
	page.Handle, page.Methods = u.Handle, s.factorMethods(f)
	s.Show(w, r, status, page)
	return nil
}

func (s *Service) confirmForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	f := r.PostForm
	next := localPath(f.Get("next"))
	var err error
	if passkey, ok := passkeyInForm(r); ok {
		err = s.passkeyConfirm(r, passkey)
	} else {
		err = s.confirm(r, confirmation{Password: f.Get("password"), OTP: f.Get("otp")})
	}
	if err == nil {
		return s.Redirect(w, r, next)
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	return s.showConfirm(w, r, p.Status, templates.Confirm{Next: next, Error: p.Detail, ErrorCode: p.Code})
}

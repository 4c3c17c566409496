package site

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// Caller returns the caller of a request, with the session of RequireSession if there is one.
func (s *Site) Caller(r *http.Request) account.Caller {
	c := account.Caller{Browser: s.sessionCookies(r)}
	if id := IdentityFrom(r.Context()); id != nil {
		c = c.In(id.User, id.Session)
	}
	c.Address, c.RequestID = web.ClientAddress(r), web.RequestID(r.Context())
	c.UserAgent, c.Device = text.Cut(r.UserAgent(), 256), web.Device(r.UserAgent())
	for name, value := range map[string]*string{s.stepCookie("", 0).Name: &c.Browser.Step,
		s.hostOnly(passkeyCookie): &c.Browser.Passkey} {
		if cookie, err := r.Cookie(name); err == nil {
			*value = cookie.Value
		}
	}
	if cookie, err := r.Cookie(s.hostOnly(deviceCookie)); err == nil {
		c.Browser.Marks = person.ReadMarks(cookie.Value)
	}
	return c
}

// CallerIn returns the caller of a request in a session.
func (s *Site) CallerIn(r *http.Request, id *person.Identity) account.Caller {
	return s.Caller(r).In(id.User, id.Session)
}

// sessionCookies returns the cookies of a request that may prove a session.
func (s *Site) sessionCookies(r *http.Request) (b account.Browser) {
	for _, c := range r.CookiesNamed(s.Cookies().Session) {
		b.Tokens = append(b.Tokens, c.Value)
	}
	if s.Cookies().Login != "" {
		for _, c := range r.CookiesNamed(s.Cookies().Login) {
			b.Logins = append(b.Logins, c.Value)
		}
	}
	if slices.ContainsFunc(r.Header["Cookie"], func(line string) bool { return strings.Contains(line, boundCookie) }) {
		b.Bound = map[string]string{}
		for _, c := range r.Cookies() {
			if of, ok := strings.CutPrefix(c.Name, boundCookie); ok {
				b.Bound[of] = c.Value
			}
		}
	}
	return b
}

// Current returns the live session of a request. ErrNotAuthenticated if there is none, ErrDeviceProofRequired as
// Fail answers it; any other error is a failure of the database (503, never 401).
func (s *Site) Current(r *http.Request) (*person.Identity, error) {
	id, err := s.Identify(r.Context(), s.sessionCookies(r))
	if errors.Is(err, person.ErrDeviceProofRequired) && s.WantsPage(r) && s.reloads(r) >= maxReloads {
		err = account.ErrNotAuthenticated
	}
	return id, err
}

type identityKey struct{}

// IdentityFrom returns the identity that RequireSession put into the context.
func IdentityFrom(ctx context.Context) *person.Identity {
	id, _ := ctx.Value(identityKey{}).(*person.Identity)
	return id
}

// withIdentity returns the request with the identity of a signed-in user.
func withIdentity(r *http.Request, id *person.Identity) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, id))
}

// RequireSession serves next with the identity in the context, or answers 401.
func (s *Site) RequireSession(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, "", false)
}

// RequireAdmin is RequireSession for administrators; others get 403. It reads the flag from the
// store for each request, so the loss of the flag takes effect at once.
func (s *Site) RequireAdmin(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, account.FlagAdmin, false)
}

// requirePage is RequireSession for pages: it redirects to the sign-in page.
func (s *Site) requirePage(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, "", true)
}

// RequireAdminPage is RequireAdmin for pages.
func (s *Site) RequireAdminPage(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, account.FlagAdmin, true)
}

func (s *Site) require(next http.HandlerFunc, flag string, page bool) http.HandlerFunc {
	return s.Do(func(w http.ResponseWriter, r *http.Request) error {
		id, err := s.Current(r)
		switch {
		case page && errors.Is(err, account.ErrNotAuthenticated):
			return s.signInFirst(w, r, url.Values{})
		case err != nil:
			return err
		case flag != "" && !id.User.Has(flag):
			return account.ErrAdminRequired
		}
		if err := s.CheckSecondFactor(r.Context(), id); err != nil && !s.forFactors(r, err) {
			if page && (errors.Is(err, account.ErrSecondFactorRequired) ||
				errors.Is(err, account.ErrSecondFactorSetupRequired)) {
				return s.sendToFactor(w, r, err)
			}
			return err
		}
		next(w, withIdentity(r, id))
		return nil
	})
}

// factorPaths are the paths, with everything below them, where a second factor is set up.
var factorPaths = []string{
	"/account/security", "/account/passkeys", "/api/me/factors", "/api/me/totp", "/api/me/passkeys",
	"/api/me/recovery-codes",
}

// forFactors reports whether a request serves to set up a second factor, or changes nothing there.
func (s *Site) forFactors(r *http.Request, refusal error) bool {
	path := strings.TrimPrefix(r.URL.Path, s.Path(""))
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch path {
	case "/api/me":
		return reads
	case "/account/confirm", "/api/auth/confirm", "/api/auth/passkey/finish": // they prove the factor
		return true
	}
	return (reads || errors.Is(refusal, account.ErrSecondFactorSetupRequired)) &&
		slices.ContainsFunc(factorPaths, func(p string) bool {
			return path == p || strings.HasPrefix(path, p+"/")
		})
}

// sendToFactor redirects from a page to the one that resolves the refusal.
func (s *Site) sendToFactor(w http.ResponseWriter, r *http.Request, refusal error) error {
	if errors.Is(refusal, account.ErrSecondFactorRequired) {
		return s.signInFirst(w, r, url.Values{"fresh": {FreshConfirm}})
	}
	return s.Redirect(w, r, securityPath)
}

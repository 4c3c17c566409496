package account

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// Mount registers the account endpoints (JSON and pages) on the router of the base path. The first
// matching path wins.
func (s *Service) Mount(m *mux.Router) {
	handle := func(path string, methods web.Methods) { s.Handle(m, path, methods) }
	signedIn := func(h web.Handler) http.HandlerFunc { return s.RequireSession(s.Do(h)) }
	page := func(h web.Handler) http.HandlerFunc { return s.RequirePage(s.Do(s.Form(h))) }
	form := func(notice string, do operation) http.HandlerFunc { return page(s.accountForm(notice, do)) }

	handle("/api/auth/login", web.Methods{"POST": s.Do(s.apiLogin)})
	handle("/api/auth/confirm", web.Methods{"POST": signedIn(s.apiConfirm)})
	handle("/api/auth/passkey/begin", web.Methods{"POST": s.Do(s.apiPasskeyBegin)})
	handle("/api/auth/passkey/finish", web.Methods{"POST": s.Do(s.apiPasskeyFinish)})
	handle("/api/auth/logout", web.Methods{"POST": s.Do(s.apiLogout)})
	handle("/api/auth/reset-password", web.Methods{"POST": s.Do(s.apiResetPassword)})
	handle("/api/auth/forgot-password", web.Methods{"POST": s.Do(s.apiForgotPassword)})
	handle("/api/verify", web.Methods{"GET": s.Do(s.apiVerify)})
	handle("/api/register", web.Methods{"POST": s.Do(s.apiRegister)})
	handle("/api/me",
		web.Methods{"GET": signedIn(s.apiMe), "PATCH": signedIn(s.apiPatchMe), "DELETE": signedIn(s.apiDeleteMe)})
	handle("/api/me/password", web.Methods{"PUT": signedIn(s.apiPutPassword)})
	handle("/api/me/email/verify", web.Methods{"POST": signedIn(s.apiVerifyEmail)})
	handle("/api/me/email/send-verification", web.Methods{"POST": signedIn(noContent(s.sendVerification))})
	handle("/api/me/prefs", web.Methods{"GET": signedIn(s.apiPreferences), "PUT": signedIn(s.apiPutPreferences)})
	handle("/api/me/sessions", web.Methods{"GET": signedIn(s.apiSessions)})
	handle("/api/me/sessions/end-others", web.Methods{"POST": signedIn(noContent(s.endOtherSessions))})
	handle("/api/me/sessions/{id}", web.Methods{"DELETE": signedIn(noContent(s.endOwnSession))})
	handle("/api/me/apps", web.Methods{"GET": signedIn(s.apiApps)})
	// An id may be a URL.
	handle("/api/me/apps/{client_id:(?s:.+)}", web.Methods{"DELETE": signedIn(noContent(s.removeApp))})
	handle("/api/me/factors", web.Methods{"GET": signedIn(s.apiFactors)})
	handle("/api/me/totp", web.Methods{
		"POST": signedIn(s.apiBeginTOTP), "DELETE": signedIn(noContent(keeping(s.removeTOTP))),
	})
	handle("/api/me/totp/confirm", web.Methods{"POST": signedIn(s.apiConfirmTOTP)})
	handle("/api/me/recovery-codes", web.Methods{"POST": signedIn(s.apiRecoveryCodes)})
	handle("/api/me/export", web.Methods{"GET": signedIn(s.export)})
	handle("/api/me/passkeys", web.Methods{"GET": signedIn(s.apiPasskeys), "POST": signedIn(s.apiAddPasskey)})
	handle("/api/me/passkeys/begin", web.Methods{"POST": signedIn(s.apiBeginAddPasskey)})
	handle("/api/me/passkeys/{id}", web.Methods{
		"PATCH": signedIn(s.apiRenamePasskey), "DELETE": signedIn(noContent(keeping(s.removePasskey))),
	})
	handle("/api/invites", web.Methods{"GET": signedIn(s.apiInvites), "POST": signedIn(s.apiCreateInvite)})
	handle("/api/invites/{code}", web.Methods{"DELETE": signedIn(noContent(s.deleteInvite))})

	handle("/login/", web.Methods{"GET": s.Do(s.loginPage), "POST": s.Do(s.loginForm)})
	handle("/login/second-factor/", web.Methods{"GET": s.Do(s.secondFactorPage), "POST": s.Do(s.secondFactorForm)})
	handle("/logout/", web.Methods{"GET": s.Do(s.logoutPage), "POST": s.Do(s.logoutForm)})
	handle("/register/", web.Methods{"GET": s.Do(s.registerPage), "POST": s.Do(s.registerForm)})
	handle("/reset-password/", web.Methods{"GET": s.Do(s.resetPage), "POST": s.Do(s.resetForm)})
	handle("/forgot-password/", web.Methods{"GET": s.Do(s.forgotPage), "POST": s.Do(s.forgotForm)})
	for purpose, find := range map[string]findLinked{purposeVerify: s.verifyLinked, purposeUndo: s.undoLinked,
		purposeNotMe: s.notMeLinked} {
		follow := s.Do(s.followLink(purpose, find))
		handle("/"+purpose+"/", web.Methods{"GET": follow, "POST": follow})
	}
	handle("/.well-known/change-password", web.Methods{"GET": s.Do(s.changePasswordPage)})
	handle("/.well-known/passkey-endpoints", web.Methods{"GET": s.Do(s.passkeyEndpoints)})
	for name := range s.memberPages() {
		methods := web.Methods{"GET": page(s.accountPage(name))}
		if name == "invites" {
			methods["POST"] = form("invite-created", s.inviteForm)
		}
		handle("/account/"+name, methods)
	}
	handle("/account/invites/slip", web.Methods{"GET": page(s.invitePage)})
	handle("/account/profile", web.Methods{"POST": form("profile-saved", s.profileForm)})
	handle("/account/verify-email", web.Methods{"POST": form("email-verified", s.verifyForm)})
	handle("/account/send-verification", web.Methods{"POST": form("verification-sent", s.sendVerification)})
	handle("/account/password", web.Methods{"POST": form("password-changed", s.passwordForm)})
	handle("/account/passkeys", web.Methods{"POST": page(s.addPasskeyForm)})
	handle("/account/passkeys/rename", web.Methods{"POST": form("passkey-renamed", s.renamePasskeyForm)})
	handle("/account/passkeys/remove",
		web.Methods{"POST": form("passkey-removed", s.asking("factor.remove", s.removePasskey))})
	handle("/account/sessions/end", web.Methods{"POST": form("session-ended", s.endOwnSession)})
	handle("/account/sessions/end-others", web.Methods{"POST": form("sessions-ended", s.endOtherSessions)})
	handle("/account/invites/delete", web.Methods{"POST": form("invite-deleted", s.deleteInvite)})
	handle("/account/apps/remove", web.Methods{"POST": form("app-removed", s.removeApp)})
	handle("/account/confirm", web.Methods{"GET": page(s.confirmPage), "POST": page(s.confirmForm)})
	handle(totpPath, web.Methods{"GET": page(s.totpPage), "POST": page(s.totpForm)})
	handle(totpPath+"/remove", web.Methods{"POST": form("totp-removed", s.asking("factor.remove", s.removeTOTPForm))})
	handle("/account/security/recovery-codes", web.Methods{"POST": page(s.recoveryCodesForm)})
	handle("/account/export", web.Methods{"POST": page(s.export)})
	handle("/account/delete", web.Methods{"POST": form("account-deleted", s.deleteForm)})
	s.Handle(m, "/logo/{hash}.png", web.Methods{"GET": s.Do(s.serveLogo)})
	s.Handle(m, "/oauth2/status/{list}", web.Methods{"GET": s.StatusLists.ServeHTTP})
}

// An operation serves an endpoint of the API, which answers 204, and a form of the account page.
// Its parameter is in the path of the endpoint, or in a field of the form.
type operation func(w http.ResponseWriter, r *http.Request) error

// parameter returns a parameter of an operation.
func parameter(r *http.Request, name string) string {
	if inPath, ok := mux.Vars(r)[name]; ok {
		return inPath
	}
	return r.PostForm.Get(name)
}

// keepOthers reports whether the person chose to keep the other sessions.
func keepOthers(r *http.Request) bool { return r.PostForm.Get("keep_other_sessions") != "" }

// noContent returns the handler of an operation of the API. The body of a POST may be an empty
// object.
func noContent(do operation) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodPost {
			if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
				return err
			}
		}
		if err := do(w, r); err != nil {
			return err
		}
		return web.NoContent(w)
	}
}

// keeping returns an operation that reads the choice of keepOthers from an optional JSON body.
func keeping(do operation) operation {
	return func(w http.ResponseWriter, r *http.Request) error {
		var in struct {
			Keep bool `json:"keep_other_sessions"`
		}
		if err := web.ReadOptionalJSON(w, r, &in); err != nil {
			return err
		}
		r.PostForm = map[string][]string{}
		if in.Keep {
			r.PostForm.Set("keep_other_sessions", "true")
		}
		return do(w, r)
	}
}

// okAnswer is the response when there is nothing else to say.
type okAnswer struct {
	OK bool `json:"ok"`
}

// Caller returns the caller of a request, with the session of RequireSession if there is one.
func (s *Service) Caller(r *http.Request) Caller {
	c := Caller{browser: s.sessionCookies(r)}
	if id := IdentityFrom(r.Context()); id != nil {
		c = c.in(id)
	}
	c.Address, c.RequestID = web.ClientAddress(r), web.RequestID(r.Context())
	c.UserAgent, c.Device = text.Cut(r.UserAgent(), 256), web.Device(r.UserAgent())
	for name, value := range map[string]*string{s.stepCookie("", 0).Name: &c.browser.step,
		s.hostOnly(passkeyCookie): &c.browser.passkey} {
		if cookie, err := r.Cookie(name); err == nil {
			*value = cookie.Value
		}
	}
	if cookie, err := r.Cookie(s.hostOnly(deviceCookie)); err == nil {
		c.browser.marks = readMarks(cookie.Value)
	}
	return c
}

// CallerIn returns the caller of a request in a session.
func (s *Service) CallerIn(r *http.Request, id *Identity) Caller { return s.Caller(r).in(id) }

func (c Caller) in(id *Identity) Caller {
	c = c.as(id.User)
	c.Session = id.Session
	return c
}

// sessionCookies returns the cookies of a request that may prove a session.
func (s *Service) sessionCookies(r *http.Request) (b browser) {
	for _, c := range r.CookiesNamed(s.cookies.session) {
		b.tokens = append(b.tokens, c.Value)
	}
	if s.cookies.login != "" {
		for _, c := range r.CookiesNamed(s.cookies.login) {
			b.logins = append(b.logins, c.Value)
		}
	}
	return b
}

// Current returns the live session of a request. ErrNotAuthenticated if there is none; any other
// error is a failure of the database (503, never 401).
func (s *Service) Current(r *http.Request) (*Identity, error) {
	return s.live(r.Context(), s.proofs[0](r.Context(), s.sessionCookies(r)))
}

// SignOutBrowser ends the sessions of the request, if any, and clears its cookies; see SignOut.
func (s *Service) SignOutBrowser(w http.ResponseWriter, r *http.Request, sub string) error {
	if err := s.SignOut(r.Context(), s.Caller(r), sub); err != nil {
		return err
	}
	s.clearCookies(w)
	return nil
}

type identityKey struct{}

// IdentityFrom returns the identity that RequireSession put into the context.
func IdentityFrom(ctx context.Context) *Identity {
	id, _ := ctx.Value(identityKey{}).(*Identity)
	return id
}

// withIdentity returns the request with the identity of a signed-in user.
func withIdentity(r *http.Request, id *Identity) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, id))
}

// RequireSession serves next with the identity in the context, or answers 401.
func (s *Service) RequireSession(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, "", false)
}

// RequireAdmin is RequireSession for administrators; others get 403. It reads the flag from the
// store for each request, so the loss of the flag takes effect at once.
func (s *Service) RequireAdmin(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, FlagAdmin, false)
}

// RequirePage is RequireSession for pages: it redirects to the sign-in page.
func (s *Service) RequirePage(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, "", true)
}

// RequireAdminPage is RequireAdmin for pages.
func (s *Service) RequireAdminPage(next http.HandlerFunc) http.HandlerFunc {
	return s.require(next, FlagAdmin, true)
}

func (s *Service) require(next http.HandlerFunc, flag string, page bool) http.HandlerFunc {
	return s.Do(func(w http.ResponseWriter, r *http.Request) error {
		id, err := s.Current(r)
		switch {
		case page && errors.Is(err, ErrNotAuthenticated):
			return s.Redirect(w, r, "/login/")
		case err != nil:
			return err
		case flag != "" && !id.User.Has(flag):
			return ErrAdminRequired
		}
		if err := s.CheckSecondFactor(r.Context(), id); err != nil && !s.forFactors(r, err) {
			if page && (errors.Is(err, ErrSecondFactorRequired) || errors.Is(err, ErrSecondFactorSetupRequired)) {
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
func (s *Service) forFactors(r *http.Request, refusal error) bool {
	path := strings.TrimPrefix(r.URL.Path, s.Path(""))
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch path {
	case "/api/me":
		return reads
	case "/account/confirm", "/api/auth/confirm", "/api/auth/passkey/finish": // they prove the factor
		return true
	}
	return (reads || errors.Is(refusal, ErrSecondFactorSetupRequired)) &&
		slices.ContainsFunc(factorPaths, func(p string) bool {
			return path == p || strings.HasPrefix(path, p+"/")
		})
}

// sendToFactor redirects from a page to the one that resolves the refusal.
func (s *Service) sendToFactor(w http.ResponseWriter, r *http.Request, refusal error) error {
	if errors.Is(refusal, ErrSecondFactorRequired) {
		return s.Redirect(w, r, "/login/?fresh="+FreshConfirm)
	}
	return s.Redirect(w, r, securityPath)
}

// serveLogo serves the picture with that hash, which browsers may cache; 404 for any other hash.
func (s *Service) serveLogo(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	hash, picture := mux.Vars(r)["hash"], []byte(nil)
	if hash == v.Logo {
		picture, err = s.store.Logo(r.Context())
	} else {
		picture, err = s.store.ClientLogo(r.Context(), hash)
	}
	if err != nil {
		return err
	}
	if picture == nil {
		return web.NewProblem(http.StatusNotFound, "not_found", "There is nothing at this address.")
	}
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(picture))
	return nil
}

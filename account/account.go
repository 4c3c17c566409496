// Package account owns the people of an installation: users, their access
// flags, sessions, passwords, invites, reset codes, preferences and settings,
// the rules about them, and the HTTP handlers (JSON and pages) through which
// people use them.
//
// It leaves to others: how things are stored (package store implements Store),
// the administrator's API (package admin), OpenID Connect (package provider)
// and the verification of the session token (package account/session, which
// other applications import too).
package account

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Options are what a Service is made of. Store, Issuer, Secret, Key, Hasher, Limits
// and Pages are required.
type Options struct {
	Store  Store
	Issuer string // the issuer exactly as configured, without a trailing slash
	Secret []byte // the shared HS256 secret, at least 32 bytes
	// Key is the installation's secret, from which the keys of what travels through a
	// browser or a mail are derived; at least 32 bytes, never the shared secret.
	Key []byte
	// Keys is the RSA key set: the first one signs, all verify. Empty means
	// that session tokens are HS256.
	Keys            []jose.JSONWebKey
	Signer          jose.OpaqueSigner // signs in the place of the first key; nil: the key itself
	CookieName      string            // full name, with its __Host- or __Secure- prefix
	CookieDomain    string            // empty: host-only
	LoginCookieName string            // empty unless CookieDomain is set
	StatusTTL       time.Duration     // of the status lists, whole seconds; 0 means DefaultStatusTTL
	Hasher          *Hasher
	Limits          *web.Limits
	Pages           *templates.Renderer
	Mail            mail.Sender      // nil: no mails are sent
	Now             func() time.Time // nil means time.Now
	Log             *slog.Logger     // nil means slog.Default
}

// Service applies the rules and serves the account endpoints. It is safe for
// concurrent use.
type Service struct {
	*web.Site
	store      Store
	https      bool
	minter     *minter
	verifier   *session.Verifier
	proven     provenTokens
	cookies    cookieNames
	hasher     *Hasher
	limits     *web.Limits
	seal       *web.Sealer
	passkeys   passkeys
	emailKey   []byte // of the codes that verify addresses
	deviceKey  []byte // of the marks of known devices
	pages      *templates.Renderer
	mails      mail.Sender // nil: none are sent
	clock      func() time.Time
	log        *slog.Logger
	settings   *web.Cache[Settings]
	statuses   *web.Cache[packedStatus] // by the number of the list
	statusTTL  time.Duration
	waiters    statusWaiters
	visits     visits
	shownCodes shownCodes
	// applications names the application of a continuation; nil without OpenID Connect.
	applications func(ctx context.Context, continuation string) string
	// scopeTexts say what an application has by its scopes; nil without OpenID Connect.
	scopeTexts func(scopes []string) []templates.Text
}

// sealLifetimes are the purposes of sealed values, with how long they are valid.
var sealLifetimes = map[string]time.Duration{
	purposeVerify: VerificationLifetime, purposeUndo: UndoLifetime, purposeNotMe: 7 * 24 * time.Hour,
	signInSeal:  5 * time.Minute,
	totpSeal:    freshFor,
	sealPasskey: passkeyTime,
	sealReturn:  time.Hour,
}

// New makes a Service; it fails on options that cannot work.
func New(o Options) (*Service, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	site, err := web.NewSite(o.Issuer, o.Pages, o.Log)
	if err != nil {
		return nil, err
	}
	s := &Service{
		Site: site, https: strings.HasPrefix(o.Issuer, "https:"),
		cookies: cookieNames{session: o.CookieName, domain: o.CookieDomain, login: o.LoginCookieName},
		hasher:  o.Hasher, limits: o.Limits, pages: o.Pages, mails: o.Mail, clock: o.Now, log: o.Log,
	}
	s.settings = web.NewCache(settingsTTL, o.Now, func(ctx context.Context, _ string) (Settings, error) { return o.Store.Settings(ctx) })
	s.store = seenStore{o.Store, &s.visits}
	s.statuses = web.NewCache(statusGeneration, o.Now, s.signStatus)
	s.statusTTL = cmp.Or(o.StatusTTL, DefaultStatusTTL)
	s.waiters.versions, s.waiters.log = o.Store.StatusVersions, o.Log
	if s.seal, err = web.NewSealer(o.Key, sealLifetimes, o.Now); err != nil {
		return nil, err
	}
	if s.passkeys, err = newPasskeys(o.Issuer); err != nil {
		return nil, err
	}
	if s.emailKey, err = hkdf.Key(sha256.New, o.Key, nil, "cairn email code", 32); err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	if s.deviceKey, err = hkdf.Key(sha256.New, o.Key, nil, "cairn device", 32); err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	if s.minter, err = newMinter(o.Issuer, o.Secret, o.Keys, o.Signer); err != nil {
		return nil, err
	}
	s.verifier = &session.Verifier{Issuer: o.Issuer, Secret: o.Secret, Now: o.Now, CookieName: o.CookieName}
	if len(o.Keys) > 0 {
		s.verifier.Keys = session.NewStaticKeySet(o.Keys...)
	}
	if err := s.verifier.Check(); err != nil {
		return nil, fmt.Errorf("session verifier: %w", err)
	}
	return s, nil
}

// now is the current time in whole UTC seconds: what the store keeps.
func (s *Service) now() time.Time { return s.clock().UTC().Truncate(time.Second) }

// Mount registers the account endpoints (JSON and pages) on the router of the
// base path. The first path that fits counts.
func (s *Service) Mount(m *mux.Router) {
	handle := func(path string, methods web.Methods) { s.Handle(m, path, methods) }
	signedIn := func(h web.Handler) http.HandlerFunc { return s.RequireSession(s.Do(h)) }
	page := func(h web.Handler) http.HandlerFunc { return s.RequirePage(s.Do(h)) }

	handle("/api/auth/login", web.Methods{"POST": s.Do(s.apiLogin)})
	handle("/api/auth/confirm", web.Methods{"POST": signedIn(s.apiConfirm)})
	handle("/api/auth/passkey/begin", web.Methods{"POST": s.Do(s.apiPasskeyBegin)})
	handle("/api/auth/passkey/finish", web.Methods{"POST": s.Do(s.apiPasskeyFinish)})
	handle("/api/auth/logout", web.Methods{"POST": s.Do(s.apiLogout)})
	handle("/api/auth/reset-password", web.Methods{"POST": s.Do(s.apiResetPassword)})
	handle("/api/auth/forgot-password", web.Methods{"POST": s.Do(s.apiForgotPassword)})
	handle("/api/verify", web.Methods{"GET": s.Do(s.apiVerify)})
	handle("/api/register", web.Methods{"POST": s.Do(s.apiRegister)})
	handle("/api/me", web.Methods{"GET": signedIn(s.apiMe), "PATCH": signedIn(s.apiPatchMe), "DELETE": signedIn(s.apiDeleteMe)})
	handle("/api/me/password", web.Methods{"PUT": signedIn(s.apiPutPassword)})
	handle("/api/me/email/verify", web.Methods{"POST": signedIn(s.apiVerifyEmail)})
	handle("/api/me/email/send-verification", web.Methods{"POST": signedIn(noContent(s.sendVerification))})
	handle("/api/me/prefs", web.Methods{"GET": signedIn(s.apiPreferences), "PUT": signedIn(s.apiPutPreferences)})
	handle("/api/me/sessions", web.Methods{"GET": signedIn(s.apiSessions)})
	handle("/api/me/sessions/end-others", web.Methods{"POST": signedIn(noContent(s.endOtherSessions))})
	handle("/api/me/sessions/{id}", web.Methods{"DELETE": signedIn(noContent(s.endOwnSession))})
	handle("/api/me/apps", web.Methods{"GET": signedIn(s.apiApps)})
	handle("/api/me/apps/{client_id}", web.Methods{"DELETE": signedIn(noContent(s.removeApp))})
	handle("/api/me/factors", web.Methods{"GET": signedIn(s.apiFactors)})
	handle("/api/me/totp", web.Methods{"POST": signedIn(s.RequireFresh("", s.apiBeginTOTP)), "DELETE": signedIn(s.RequireFresh("", noContent(s.removeTOTP)))})
	handle("/api/me/totp/confirm", web.Methods{"POST": signedIn(s.apiConfirmTOTP)})
	handle("/api/me/recovery-codes", web.Methods{"POST": signedIn(s.RequireFresh("", s.apiRecoveryCodes))})
	handle("/api/me/export", web.Methods{"GET": signedIn(s.apiExport)})
	handle("/api/me/passkeys", web.Methods{"GET": signedIn(s.apiPasskeys), "POST": signedIn(s.RequireFresh(passkeysPath, s.apiAddPasskey))})
	handle("/api/me/passkeys/begin", web.Methods{"POST": signedIn(s.RequireFresh(passkeysPath, s.apiBeginAddPasskey))})
	handle("/api/me/passkeys/{id}", web.Methods{"PATCH": signedIn(s.apiRenamePasskey), "DELETE": signedIn(s.RequireFresh(passkeysPath, noContent(s.removePasskey)))})
	handle("/api/invites", web.Methods{"GET": signedIn(s.apiInvites), "POST": signedIn(s.apiCreateInvite)})
	handle("/api/invites/{code}", web.Methods{"DELETE": signedIn(noContent(s.deleteInvite))})

	handle("/login/", web.Methods{"GET": s.Do(s.loginPage), "POST": s.Do(s.loginForm)})
	handle("/login/second-factor/", web.Methods{"GET": s.Do(s.secondFactorPage), "POST": s.Do(s.secondFactorForm)})
	handle("/logout/", web.Methods{"GET": s.Do(s.logoutPage), "POST": s.Do(s.logoutForm)})
	handle("/register/", web.Methods{"GET": s.Do(s.registerPage), "POST": s.Do(s.registerForm)})
	handle("/reset-password/", web.Methods{"GET": s.Do(s.resetPage), "POST": s.Do(s.resetForm)})
	handle("/forgot-password/", web.Methods{"GET": s.Do(s.forgotPage), "POST": s.Do(s.forgotForm)})
	for purpose, find := range map[string]func(*http.Request, string) (linked, error){purposeVerify: s.verifyLinked, purposeUndo: s.undoLinked, purposeNotMe: s.notMeLinked} {
		handle("/"+purpose+"/", web.Methods{"GET": s.Do(s.linkPage(purpose, find)), "POST": s.Do(s.linkForm(purpose, find))})
	}
	handle("/.well-known/change-password", web.Methods{"GET": s.Do(s.changePasswordPage)})
	handle("/.well-known/passkey-endpoints", web.Methods{"GET": s.Do(s.passkeyEndpoints)})
	handle("/account/", web.Methods{"GET": page(s.accountPage(""))})
	handle("/account/security", web.Methods{"GET": page(s.accountPage("security"))})
	handle("/account/devices", web.Methods{"GET": page(s.accountPage("devices"))})
	handle("/account/apps", web.Methods{"GET": page(s.accountPage("apps"))})
	handle("/account/invites", web.Methods{"GET": page(s.accountPage("invites")), "POST": page(s.accountForm("invite-created", s.inviteForm))})
	handle("/account/invites/slip", web.Methods{"GET": page(s.invitePage)})
	handle("/account/data", web.Methods{"GET": page(s.accountPage("data"))})
	handle("/account/profile", web.Methods{"POST": page(s.accountForm("profile-saved", s.profileForm))})
	handle("/account/verify-email", web.Methods{"POST": page(s.accountForm("email-verified", s.verifyForm))})
	handle("/account/send-verification", web.Methods{"POST": page(s.accountForm("verification-sent", s.sendVerification))})
	handle("/account/password", web.Methods{"POST": page(s.accountForm("password-changed", s.passwordForm))})
	handle("/account/passkeys", web.Methods{"POST": page(s.RequireFresh(passkeysPath, s.addPasskeyForm))})
	handle("/account/passkeys/rename", web.Methods{"POST": page(s.accountForm("passkey-renamed", s.renamePasskeyForm))})
	handle("/account/passkeys/remove", web.Methods{"POST": page(s.RequireFresh(passkeysPath, s.accountForm("passkey-removed", s.removePasskey)))})
	handle("/account/sessions/end", web.Methods{"POST": page(s.accountForm("session-ended", s.endOwnSession))})
	handle("/account/sessions/end-others", web.Methods{"POST": page(s.accountForm("sessions-ended", s.endOtherSessions))})
	handle("/account/invites/delete", web.Methods{"POST": page(s.accountForm("invite-deleted", s.deleteInvite))})
	handle("/account/apps/remove", web.Methods{"POST": page(s.accountForm("app-removed", s.removeApp))})
	handle("/account/confirm", web.Methods{"GET": page(s.confirmPage), "POST": page(s.confirmForm)})
	handle(totpPath, web.Methods{"GET": page(s.RequireFresh(totpPath, s.totpPage)), "POST": page(s.totpForm)})
	handle(totpPath+"/remove", web.Methods{"POST": page(s.RequireFresh(securityPath, s.removeTOTPForm))})
	handle("/account/security/recovery-codes", web.Methods{"POST": page(s.RequireFresh(securityPath, s.recoveryCodesForm))})
	handle("/account/delete", web.Methods{"POST": page(s.accountForm("account-deleted", s.deleteForm))})
	m.HandleFunc("/logo/{hash}.png", s.Do(s.serveLogo)).Methods(http.MethodGet, http.MethodHead)
	s.mountStatus(m)
}

// An operation is behind an endpoint of the API, which answers 204, and behind a form
// of the account page: what it is about is in the path there and in a field here.
type operation func(w http.ResponseWriter, r *http.Request) error

// operand is what an operation is about.
func operand(r *http.Request, name string) string {
	if inPath, ok := mux.Vars(r)[name]; ok {
		return inPath
	}
	return r.PostForm.Get(name)
}

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

// okAnswer is the answer where there is nothing else to say.
type okAnswer struct {
	OK bool `json:"ok"`
}

package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Credentials are what a person enters to sign in.
type Credentials struct {
	Handle   string `json:"handle"`
	Password string `json:"password"`
	OTP      string `json:"otp"`
}

// SignIn checks the credentials, makes the session and sets the cookies. An
// unknown handle and a wrong password are one error and cost the same;
// ErrSuspended is only shown after the right password.
//
// ErrSecondFactorRequired after the right password of a user with a second factor: the
// browser then has a cookie with which the code alone goes on.
func (s *Service) SignIn(w http.ResponseWriter, r *http.Request, in Credentials) (User, error) {
	ctx := r.Context()
	u, err := s.signIn(w, r, in)
	switch {
	case errors.Is(err, ErrInvalidCredentials):
		web.NoteSignIn(ctx, web.SignInFailed, factorPassword)
	case errors.Is(err, ErrInvalidOTP):
		web.NoteSignIn(ctx, web.SignInFailed, factorCode)
	case errors.Is(err, ErrSuspended):
		web.NoteSignIn(ctx, web.SignInSuspended, factorPassword)
	}
	return u, err
}

func (s *Service) signIn(w http.ResponseWriter, r *http.Request, in Credentials) (User, error) {
	if in.Handle == "" && in.Password == "" && in.OTP != "" {
		return s.secondStep(w, r, in.OTP)
	}
	u, err := s.authenticate(r, in)
	if err != nil {
		return User{}, err
	}
	if u.SecondFactor && in.OTP != "" {
		if err := s.checkOTP(r, u, in.OTP); err != nil {
			return User{}, err
		}
		return s.openSession(w, r, u, MethodPassword, MethodOTP, MethodMultiFactor)
	}
	if !u.SecondFactor {
		signedIn, err := s.openSession(w, r, u, MethodPassword)
		if !errors.Is(err, ErrSecondFactorRequired) { // added since
			return signedIn, err
		}
	}
	return User{}, s.askSecondFactor(w, r, u)
}

// openSession makes the session of a user who has proved who they are by the methods
// of amr (RFC 8176), and sets the cookies. u is as it was read before the proof: what
// has changed since refuses the session, as does a second factor that is not in amr.
func (s *Service) openSession(w http.ResponseWriter, r *http.Request, u User, amr ...string) (User, error) {
	ctx := r.Context()
	row, secrets := s.newSession(u.Sub, r, amr...)
	// The same person in the same browser keeps the session (and its sid, which
	// clients know); only what proves it is new.
	if old, err := s.Current(r); err == nil && old.User.Sub == u.Sub {
		row.ID, row.CreatedAt = old.Session.ID, old.Session.CreatedAt
		err = s.store.Reauthenticate(ctx, row, u.PasswordHash, s.signInAudit(r, u, "session.reauthenticate", row))
		if err == nil {
			web.NoteSignIn(ctx, web.SignInSuccess, shownFactors(amr))
			s.rememberDevice(w, r, u.Sub)
			return u, s.setCookies(w, u, row, secrets)
		}
		if !errors.Is(err, ErrSessionNotFound) {
			return User{}, sessionCreateError("sign in again", err)
		}
		row, secrets = s.newSession(u.Sub, r, amr...)
	}
	a := s.signInAudit(r, u, "session.create", row).with(s.newDeviceNotices(ctx, r, u, row)...)
	if err := s.store.CreateSession(ctx, row, u.PasswordHash, a); err != nil {
		return User{}, sessionCreateError("create session", err)
	}
	// The cookie that the browser had before is about to be overwritten.
	if _, err := s.endSessions(r, ""); err != nil {
		return User{}, err
	}
	web.NoteUser(ctx, u.Sub)
	web.NoteSignIn(ctx, web.SignInSuccess, shownFactors(amr))
	s.rememberDevice(w, r, u.Sub)
	return u, s.setCookies(w, u, row, secrets)
}

// What is shown for a sign-in, as it is counted.
const (
	factorPassword = "password"
	factorCode     = "code" // of an authenticator app, or a recovery code, after the password
	factorPasskey  = "passkey"
)

// shownFactors tells it by the methods that were proved.
func shownFactors(amr []string) string {
	password := slices.Contains(amr, MethodPassword)
	switch {
	case password && slices.Contains(amr, MethodOTP):
		return factorPassword + "+" + factorCode
	case password && len(amr) > 1:
		return factorPassword + "+" + factorPasskey
	case password:
		return factorPassword
	}
	return factorPasskey
}

// signInAudit tells by which methods somebody has signed in, and with what device.
func (s *Service) signInAudit(r *http.Request, u User, action string, n *Session) Audit {
	detail := strings.Join(n.AMR, " ")
	if device := Device(n.UserAgent); device != "" {
		detail += ", " + device
	}
	return ActorFor(r, u).Own(s.now(), action, detail)
}

// refusalMemory is how long a refusal of an account is not recorded again: whoever
// guesses does not fill the audit log.
const refusalMemory = 15 * time.Minute

// recordRefusal writes down that an account refused somebody. Not to have done so is not
// worth another answer.
func (s *Service) recordRefusal(ctx context.Context, a Audit) {
	if err := s.store.Record(ctx, a, refusalMemory); err != nil && !errors.Is(err, context.Canceled) {
		s.log.WarnContext(ctx, "refusal not in the audit log", "action", a.Action, "error", err)
	}
}

// nobody is the sub of no user: what is looked up for accounts that there are is looked up
// for the others too. A refusal costs no hash, and its time would tell.
const nobody = "nobody"

// recordLimited is recordRefusal for an account that is over a limit; u may be nobody.
func (s *Service) recordLimited(r *http.Request, u User, action string, refusal error) {
	switch {
	case !errors.Is(refusal, web.ErrRateLimited):
	case u.Sub == "":
		_, _ = s.store.KnownAddress(r.Context(), nobody, nobody) // in place of the look at the audit log
	default:
		s.recordRefusal(r.Context(), ActorFor(r, User{}).Audit(s.now(), action, u.Handle, ""))
	}
}

// sessionCreateError is the error of a session that was not made: an account that
// was deleted while its password was compared answers as an unknown one.
func sessionCreateError(doing string, err error) error {
	if errors.Is(err, ErrUserNotFound) {
		return ErrInvalidCredentials
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// authenticate is the password check with its limits.
func (s *Service) authenticate(r *http.Request, in Credentials) (User, error) {
	in.Handle = withoutAt(in.Handle)
	ctx := r.Context()
	// Before anything costs: an address or account over its limit waits.
	address := web.LimitKey{Name: web.LimitLogin, Key: web.ClientAddress(r)}
	if err := s.limits.Blocked(ctx, address); err != nil {
		return User{}, err
	}
	u, err := s.userNamed(ctx, in.Handle)
	if err != nil {
		return User{}, err
	}
	key := accountKey(in.Handle)
	if u.Sub != "" {
		key = u.Handle // by whichever of its names: they give no further attempts
	}
	account := s.accountLimit(r, key, u)
	if err := s.limits.Blocked(ctx, account); err != nil {
		return User{}, err
	}
	leave, err := s.hasher.enter(ctx)
	if err != nil {
		return User{}, err
	}
	defer leave()
	// Inside the slot: at most one attempt a core is in flight.
	err = s.limits.Guess(ctx, []web.LimitKey{address, account}, ErrInvalidCredentials, func() error {
		if !s.hasher.match(u.PasswordHash, in.Password) || u.Sub == "" {
			return ErrInvalidCredentials
		}
		return nil
	})
	if err != nil {
		return User{}, err
	}
	if u.Suspended() {
		s.recordRefusal(ctx, ActorFor(r, u).Own(s.now(), "session.refused", "suspended"))
		return User{}, s.suspended(ctx)
	}
	if s.hasher.outdated(u.PasswordHash) {
		s.upgradeHash(ctx, &u, in.Password)
	}
	return u, nil
}

// accountLimit is what failures count for under the limit of an account; u may be nobody.
func (s *Service) accountLimit(r *http.Request, key string, u User) web.LimitKey {
	return web.LimitKey{Name: web.LimitLoginAccount, Key: key, Exempt: func(refusal error) error {
		err := s.exemptKnown(r.Context(), u.Sub, web.ClientAddress(r), refusal)
		s.recordLimited(r, u, "session.limited", err)
		return err
	}}
}

// exemptKnown lifts the refusal of the account's limit from an address from which
// the account was signed in to before: strangers cannot lock an owner out. The
// address's own limit holds.
func (s *Service) exemptKnown(ctx context.Context, sub, address string, refusal error) error {
	known, err := s.store.KnownAddress(ctx, cmp.Or(sub, nobody), address)
	if err != nil {
		return fmt.Errorf("find known address: %w", err)
	}
	if known {
		return nil
	}
	return refusal
}

// upgradeHash replaces a hash of an older form. Failing is not worth refusing
// the sign-in for.
func (s *Service) upgradeHash(ctx context.Context, u *User, password string) {
	d, err := s.hasher.argon.Hash(opaque(password))
	if err == nil {
		err = s.store.UpgradeHash(ctx, u.Sub, u.PasswordHash, d.Encode())
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return
		}
		s.log.WarnContext(ctx, "password hash not upgraded", "user", u.Sub, "error", err)
		return
	}
	u.PasswordHash = d.Encode()
}

// verifyPassword checks the password of a signed-in user before a dangerous
// act, under the same limits as a sign-in. The user it returns has the hash that
// was verified, which may be newer than that of u.
func (s *Service) verifyPassword(r *http.Request, u User, password string) (User, error) {
	got, err := s.authenticate(r, Credentials{Handle: u.Handle, Password: password})
	if err != nil {
		return User{}, err
	}
	if got.Sub != u.Sub {
		return User{}, ErrInvalidCredentials
	}
	return got, nil
}

// accountKey folds what was typed as a handle, so that spelling it differently
// does not give further attempts.
func accountKey(typed string) string {
	if h, err := CanonicalHandle(typed); err == nil {
		return h
	}
	return strings.ToLower(cut(strings.TrimSpace(typed), 64))
}

type signedIn struct {
	OK          bool            `json:"ok"`
	Handle      string          `json:"handle"`
	DisplayName string          `json:"display_name"`
	Flags       map[string]bool `json:"flags"`
}

func (s *Service) apiLogin(w http.ResponseWriter, r *http.Request) error {
	var in Credentials
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	u, err := s.SignIn(w, r, in)
	if err != nil {
		return err
	}
	flags, err := s.flagsOf(r, u)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, signedIn{OK: true, Handle: u.Handle, DisplayName: u.DisplayName, Flags: flags})
}

func (s *Service) flagsOf(r *http.Request, u User) (map[string]bool, error) {
	settings, err := s.Settings(r.Context())
	return u.FlagMap(settings.Flags), err
}

// Why a signed-in user sees the sign-in page; it only changes
// what the page offers, authorize decides.
const (
	// FreshConfirm asks for the password of the same account again.
	FreshConfirm = "confirm"
	// FreshChoose asks which account to use.
	FreshChoose = "choose"
)

// loginPage shows the form, or sends on who is signed in already.
func (s *Service) loginPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page, id, err := s.describeLogin(r, q)
	if err != nil {
		return err
	}
	if id != nil && page.Fresh == "" {
		if !s.loops(r, page.Continue) {
			return s.afterSignIn(w, r, page.Continue)
		}
		page.Fresh, page.Handle, page.HandleFixed = FreshConfirm, id.User.Handle, true
	}
	if q.Has("expired") {
		page.Ended = ErrSignInExpired.In(templates.LanguageOf(r.Context())).Detail
	}
	if hint, err := CanonicalHandle(q.Get("handle")); err == nil && !page.HandleFixed {
		page.Handle = hint
	}
	return s.showLogin(w, r, http.StatusOK, page)
}

// describeLogin is the page for the request's session and what v says it is for.
// The continuation is opaque here: only package provider, which sealed it, looks inside.
func (s *Service) describeLogin(r *http.Request, v url.Values) (templates.Login, *Identity, error) {
	page := templates.Login{}
	page.Continue, page.ClientName = s.continuation(r, v)
	id, err := s.Current(r)
	if errors.Is(err, ErrNotAuthenticated) {
		page.Handle, page.Ended, err = s.endedSession(r)
		return page, nil, err
	}
	if err != nil {
		return page, nil, err
	}
	switch fresh := v.Get("fresh"); fresh {
	case FreshConfirm:
		page.Fresh, page.Handle, page.HandleFixed = fresh, id.User.Handle, true
	case FreshChoose:
		page.Fresh, page.SignedInAs = fresh, id.User.Handle
	}
	return page, id, nil
}

// endedSession says whose session the request's cookie was and why it is over:
// only to the browser that presents the cookie that proved it.
func (s *Service) endedSession(r *http.Request) (handle, why string, err error) {
	id, err := s.findSession(r, s.eachProof())
	ctx, text := r.Context(), templates.Text("")
	l := templates.LanguageOf(ctx)
	switch {
	case errors.Is(err, ErrNotAuthenticated):
		return "", "", nil
	case err != nil:
		return "", "", err
	case id.User.Suspended():
		return id.User.Handle, s.suspended(ctx).In(l).Detail, nil
	case id.Session.EndedAt.IsZero():
		text = "Your session has expired. Sign in again."
	default:
		text = "Your session was ended elsewhere: in another browser, by a new password or by an administrator. Sign in again."
	}
	return id.User.Handle, l.Text(text), nil
}

// suspended is ErrSuspended with how to reach an administrator.
func (s *Service) suspended(ctx context.Context) *web.Problem {
	return s.withContact(ctx, ErrSuspended, "This account is suspended. Ask an administrator of your community. Contact: {contact}")
}

// NameApplications sets how the sign-in page learns the name of the application
// that a continuation is for, "" for none, and its language
// (templates.SetApplicationLanguage). Call it before the first request.
func (s *Service) NameApplications(name func(ctx context.Context, continuation string) string) {
	s.applications = name
}

// DescribeScopes sets how pages say what an application has by its scopes; before the
// service serves.
func (s *Service) DescribeScopes(texts func(scopes []string) []templates.Text) { s.scopeTexts = texts }

// continuation is the sealed authorization request that a page goes on with, and the
// name of its application; the page speaks the language that this asks for.
func (s *Service) continuation(r *http.Request, v url.Values) (sealed, application string) {
	sealed = continuation(v)
	if back, ok := s.opened(sealed); ok {
		return sealed, hostOf(back)
	}
	if s.applications != nil && sealed != "" {
		application = s.applications(r.Context(), sealed)
	}
	return sealed, application
}

func (s *Service) showLogin(w http.ResponseWriter, r *http.Request, status int, page templates.Login) error {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	page.Passkeys = s.passkeys.party != nil
	page.RegisterOpen, page.Mail = settings.Registration != RegistrationClosed, s.MailEnabled()
	s.Show(w, r, status, page)
	return nil
}

func (s *Service) loginForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	next, _ := s.continuation(r, r.PostForm)
	in := Credentials{Handle: r.PostForm.Get("handle"), Password: r.PostForm.Get("password")}
	var err error
	if passkey, ok := passkeyInForm(r); ok {
		_, err = s.passkeySignIn(w, r, passkey)
	} else {
		_, err = s.SignIn(w, r, in)
	}
	switch {
	case err == nil:
		return s.afterSignIn(w, r, next)
	case errors.Is(err, ErrSecondFactorRequired):
		return s.Redirect(w, r, secondFactorPath+onward(r.PostForm, nil))
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page, _, err := s.describeLogin(r, r.PostForm)
	if err != nil {
		return err
	}
	page.Error, page.ErrorCode, page.Ended = p.Detail, p.Code, ""
	switch {
	case !page.HandleFixed:
		page.Handle = cut(in.Handle, 64)
	case p.Code == ErrInvalidCredentials.Code:
		page.Error = templates.LanguageOf(r.Context()).Text("The password is not right.") // there is no other field to change
	}
	return s.showLogin(w, r, p.Status, page)
}

// afterSignIn sends a fresh session on: back to authorize with the continuation, or
// the application behind a proxy, or to the account page. Never to an address that the
// caller gave.
func (s *Service) afterSignIn(w http.ResponseWriter, r *http.Request, next string) error {
	if next == "" {
		return s.Redirect(w, r, "/account/")
	}
	if back, ok := s.opened(next); ok {
		http.Redirect(w, r, back, http.StatusSeeOther)
		return nil
	}
	return s.Redirect(w, r, "/oauth2/authorize?"+url.Values{"continue": {next}}.Encode())
}

// continuation takes the sealed value if it has the form of one
// (base64url "." base64url); anything else is dropped.
func continuation(v url.Values) string {
	c := v.Get("continue")
	if len(c) > 12<<10 || strings.Count(c, ".") != 1 {
		return ""
	}
	if strings.Trim(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return ""
	}
	return c
}

func (s *Service) apiLogout(w http.ResponseWriter, r *http.Request) error {
	if err := s.SignOut(w, r, ""); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

func (s *Service) logoutPage(w http.ResponseWriter, r *http.Request) error {
	id, err := s.Current(r)
	if err != nil && !errors.Is(err, ErrNotAuthenticated) {
		return err
	}
	page := templates.Logout{}
	if id != nil {
		page.SignedIn, page.Handle = true, id.User.Handle
	}
	s.Show(w, r, http.StatusOK, page)
	return nil
}

func (s *Service) logoutForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	id, err := s.Current(r)
	if err == nil || errors.Is(err, ErrNotAuthenticated) {
		err = s.SignOut(w, r, "") // without a session too: other applications may still go by the cookie
	}
	switch {
	case err != nil:
		return err
	case id == nil:
		s.Show(w, r, http.StatusOK, templates.Logout{})
	default:
		s.Show(w, r, http.StatusOK, templates.SignedOut{})
	}
	return nil
}

package account

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

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
	out, err := s.SignIn(r.Context(), s.Caller(r), in)
	return s.answerSignedIn(w, r, out, err)
}

// answerSignedIn sets the cookies of a sign-in and answers with the user.
func (s *Service) answerSignedIn(w http.ResponseWriter, r *http.Request, out SignedIn, err error) error {
	s.setCookies(w, out)
	if err != nil {
		return s.withAdminContact(r.Context(), err)
	}
	u := out.User
	flags, err := s.flagsOf(r.Context(), u)
	if err != nil {
		return err
	}
	s.forgetStep(w, r)
	return web.WriteJSON(w, http.StatusOK,
		signedIn{OK: true, Handle: u.Handle, DisplayName: u.DisplayName, Flags: flags})
}

// forgetStep clears the cookie of a finished sign-in in two steps.
func (s *Service) forgetStep(w http.ResponseWriter, r *http.Request) {
	if c := s.stepCookie("", -1); len(r.CookiesNamed(c.Name)) > 0 {
		http.SetCookie(w, c)
	}
}

// Why a signed-in user sees the sign-in page. It only changes the page; authorize decides.
const (
	// FreshConfirm asks for the password of the same account again.
	FreshConfirm = "confirm"
	// FreshChoose asks which account to use.
	FreshChoose = "choose"
)

// loginPage shows the form, or redirects a signed-in user.
func (s *Service) loginPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page, id, err := s.describeLogin(w, r, q)
	if err != nil {
		return err
	}
	if id != nil && page.Fresh == "" {
		if !s.wouldReturn(r, page.Continue) {
			return s.afterSignIn(w, r, id.User, page.Continue)
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

// describeLogin returns the page for the session of the request and the purpose in v. The
// continuation is opaque here: only package provider, which sealed it, opens it.
func (s *Service) describeLogin(
	w http.ResponseWriter, r *http.Request, v url.Values,
) (templates.Login, *Identity, error) {
	page := templates.Login{}
	var application templates.Application
	page.Continue, application = s.continuation(w, r, v)
	page.ClientName, page.ClientLogo = application.Name, application.Logo
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

// endedSession returns whose session the request's cookie was and why it ended. Only the browser
// with the cookie that proved the session learns this.
func (s *Service) endedSession(r *http.Request) (handle, why string, err error) {
	ctx, text := r.Context(), templates.Text("")
	id, err := s.findSession(ctx, s.proofs[0](ctx, s.sessionCookies(r)))
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
		text = "Your session was ended elsewhere: in another browser, by a new password or by an administrator. " +
			"Sign in again."
	}
	return id.User.Handle, l.Text(text), nil
}

// withAdminContact returns err. For ErrSuspended it adds how to reach an administrator.
func (s *Service) withAdminContact(ctx context.Context, err error) error {
	if errors.Is(err, ErrSuspended) {
		return s.suspended(ctx)
	}
	return err
}

// suspended returns ErrSuspended with how to reach an administrator.
func (s *Service) suspended(ctx context.Context) *web.Problem {
	return s.withContact(ctx, ErrSuspended,
		"This account is suspended. Ask an administrator of your community. Contact: {contact}")
}

// NameApplications sets how the sign-in page gets the name, logo and language
// (templates.SetApplicationLanguage) of the application of a continuation; zero for none. Call it
// before the first request.
func (s *Service) NameApplications(name func(ctx context.Context, continuation string) templates.Application) {
	s.applications = name
}

// DescribeScopes sets how pages describe the scopes of an application. Call it before the first
// request.
func (s *Service) DescribeScopes(texts func(ctx context.Context, scopes []string) []string) {
	s.scopeTexts = texts
}

// continuation returns the sealed authorization request that a page continues with, and its
// application. The page gets the application's language, and a popup keeps its opener.
func (s *Service) continuation(
	w http.ResponseWriter, r *http.Request, v url.Values,
) (sealed string, application templates.Application) {
	sealed = continuation(v)
	if back, ok := s.openReturn(sealed); ok {
		return sealed, templates.Application{Name: web.HostOf(back)}
	}
	if s.applications != nil && sealed != "" {
		application = s.applications(r.Context(), sealed)
	}
	if application.Name != "" {
		web.KeepOpener(w)
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
	next, _ := s.continuation(w, r, r.PostForm)
	in := Credentials{Handle: r.PostForm.Get("handle"), Password: r.PostForm.Get("password")}
	var out SignedIn
	var err error
	if passkey, ok := passkeyInForm(r, ""); ok {
		out, err = s.PasskeySignIn(r.Context(), s.Caller(r), passkey)
	} else {
		out, err = s.SignIn(r.Context(), s.Caller(r), in)
	}
	s.setCookies(w, out)
	switch {
	case err == nil:
		return s.afterSignIn(w, r, out.User, next)
	case errors.Is(err, ErrSecondFactorRequired):
		return s.Redirect(w, r, secondFactorPath+signInQuery(r.PostForm, nil))
	}
	p, err := web.Refusal(w, r, s.withAdminContact(r.Context(), err))
	if err != nil {
		return err
	}
	page, _, err := s.describeLogin(w, r, r.PostForm)
	if err != nil {
		return err
	}
	page.Error, page.ErrorCode, page.Ended = p.Detail, p.Code, ""
	switch {
	case !page.HandleFixed:
		page.Handle = text.Cut(in.Handle, 64)
	case p.Code == ErrInvalidCredentials.Code:
		page.Error = errWrongPassword.In(templates.LanguageOf(r.Context())).Detail // there is no other field to change
	}
	return s.showLogin(w, r, p.Status, page)
}

// afterSignIn redirects a fresh session to authorize with the continuation, to the application
// behind a proxy, or to the account page; administrators of a new installation go to their
// overview. It never redirects to an address from the request.
func (s *Service) afterSignIn(w http.ResponseWriter, r *http.Request, u User, next string) error {
	if next == "" {
		if s.nextSteps != nil && u.Has(FlagAdmin) {
			if open, err := s.nextSteps(r.Context()); err != nil {
				s.log.WarnContext(r.Context(), "the next steps are not known", "error", err)
			} else if open {
				return s.Redirect(w, r, "/admin/")
			}
		}
		return s.Redirect(w, r, "/account/")
	}
	if back, ok := s.openReturn(next); ok {
		http.Redirect(w, r, back, http.StatusSeeOther)
		return nil
	}
	return s.Redirect(w, r, "/oauth2/authorize?"+url.Values{"continue": {next}}.Encode())
}

// continuation returns the sealed value if it has the form of one (base64url "." base64url), and ""
// otherwise.
func continuation(v url.Values) string {
	c := v.Get("continue")
	if len(c) > 12<<10 || strings.Count(c, ".") != 1 || strings.Trim(c, base64urlAlphabet+".") != "" {
		return ""
	}
	return c
}

func (s *Service) apiLogout(w http.ResponseWriter, r *http.Request) error {
	if err := s.SignOutBrowser(w, r, ""); err != nil {
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
		err = s.SignOutBrowser(w, r, "") // even without a session: other applications may still accept the cookie
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

const secondFactorPath = "/login/second-factor/"

// signInQuery returns the query with which the pages of a sign-in pass on their purpose.
func signInQuery(v, more url.Values) string {
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

// showSecondFactor shows the form in the browser in which the password was right. Other browsers
// start again.
func (s *Service) showSecondFactor(
	w http.ResponseWriter, r *http.Request, status int, v url.Values, page templates.SecondFactor,
) error {
	page.Continue, _ = s.continuation(w, r, v)
	u, _, err := s.pendingSignIn(r.Context(), s.Caller(r))
	if errors.Is(err, ErrSignInExpired) {
		return s.Redirect(w, r, "/login/"+signInQuery(v, url.Values{"expired": {"1"}}))
	}
	if err != nil {
		return s.withAdminContact(r.Context(), err)
	}
	f, err := s.store.Factors(r.Context(), u.Sub)
	if err != nil {
		return err
	}
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	page.Contact = settings.Contact
	page.Handle, page.Methods, page.Fresh = u.Handle, s.factorMethods(f), v.Get("fresh")
	page.NoPasskeys = s.noPasskeys(r.Context(), f)
	s.Show(w, r, status, page)
	return nil
}

func (s *Service) secondFactorForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	next, _ := s.continuation(w, r, r.PostForm)
	var out SignedIn
	var err error
	if passkey, ok := passkeyInForm(r, ""); ok {
		out, err = s.PasskeySecondStep(r.Context(), s.Caller(r), passkey)
	} else {
		otp := text.Cut(r.PostForm.Get("otp"), 100) + " " // a field left empty is a wrong code
		out, err = s.SignIn(r.Context(), s.Caller(r), Credentials{OTP: otp})
	}
	switch {
	case err == nil:
		s.setCookies(w, out)
		s.forgetStep(w, r)
		return s.afterSignIn(w, r, out.User, next)
	case errors.Is(err, ErrSignInExpired), errors.Is(err, ErrInvalidCredentials):
		return s.Redirect(w, r, "/login/"+signInQuery(r.PostForm, url.Values{"expired": {"1"}}))
	}
	p, err := web.Refusal(w, r, s.withAdminContact(r.Context(), err))
	if err != nil {
		return err
	}
	return s.showSecondFactor(w, r, p.Status, r.PostForm,
		templates.SecondFactor{Error: p.Detail, ErrorCode: p.Code, Recovery: r.PostForm.Has("recovery")})
}

// apiPasskeyBegin returns a challenge.
func (s *Service) apiPasskeyBegin(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Purpose string `json:"purpose"` // empty: sign-in
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	c := s.Caller(r)
	switch in.Purpose {
	case "", ceremonySignIn:
		c.browser.passkey = s.givePasskeyCookie(w, c.browser.passkey)
	case ceremonyConfirm:
		id, err := s.Current(r)
		if err != nil {
			return err
		}
		c = c.in(id)
	}
	begun, err := s.BeginPasskey(r.Context(), c, in.Purpose)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, begun)
}

// passkeyAnswer is the body of a finish request.
type passkeyAnswer struct {
	State      string          `json:"state"`
	Credential json.RawMessage `json:"credential"`
}

func (a passkeyAnswer) answered() answeredCeremony {
	return answeredCeremony{State: a.State, Credential: a.Credential}
}

// apiPasskeyFinish signs in, or confirms the signed-in user.
func (s *Service) apiPasskeyFinish(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		passkeyAnswer
		Purpose string `json:"purpose"` // that of the begin request
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	switch in.Purpose {
	case "", ceremonySignIn:
		out, err := s.PasskeySignIn(r.Context(), s.Caller(r), in.answered())
		return s.answerSignedIn(w, r, out, err)
	case ceremonySecondFactor:
		out, err := s.PasskeySecondStep(r.Context(), s.Caller(r), in.answered())
		return s.answerSignedIn(w, r, out, err)
	case ceremonyConfirm:
		s.RequireSession(s.Do(func(w http.ResponseWriter, r *http.Request) error {
			out, err := s.PasskeyConfirm(r.Context(), s.Caller(r), in.answered())
			return s.answerConfirmed(w, out, err)
		}))(w, r)
		return nil
	}
	return errPasskeyPurpose
}

// passkeyInForm returns the answer that the script put into a form of a page.
func passkeyInForm(r *http.Request, prefix string) (answeredCeremony, bool) {
	in := answeredCeremony{State: r.PostForm.Get(prefix + "state"),
		Credential: []byte(r.PostForm.Get(prefix + "credential"))}
	return in, len(in.Credential) > 0
}

// The set-up cookie keeps the way back of a browser that an application sent here to set up a
// factor, and what is missing: "passkey." or "any.".
const (
	setUpLifetime  = 10 * time.Minute
	maxSetUpCookie = 3500 // browsers drop what has more than 4,096 bytes
)

func (s *Service) setUpCookie(value string, maxAge time.Duration) *http.Cookie {
	c := s.cookie(s.hostOnly("cairn_set_up"), value, "")
	c.MaxAge = int(maxAge / time.Second)
	return c
}

// SetUpFactor redirects to the page where the user can set up a second factor, or a passkey, and
// from there to the continuation.
func (s *Service) SetUpFactor(w http.ResponseWriter, r *http.Request, continuation string, passkey bool) {
	if len(continuation) <= maxSetUpCookie {
		missing := "any."
		if passkey {
			missing = "passkey."
		}
		http.SetCookie(w, s.setUpCookie(missing+continuation, setUpLifetime))
	}
	_ = s.Redirect(w, r, securityPath)
}

// FactorSetUp clears the cookie of SetUpFactor.
func (s *Service) FactorSetUp(w http.ResponseWriter, r *http.Request) {
	if c := s.setUpCookie("", -time.Second); len(r.CookiesNamed(c.Name)) > 0 {
		http.SetCookie(w, c)
	}
}

// noPasskeys returns why the user's passkeys do not work here, or "" if they do.
func (s *Service) noPasskeys(ctx context.Context, f Factors) string {
	if f.Passkeys > 0 && s.passkeys.party == nil {
		return s.passkeys.unavailable.In(templates.LanguageOf(ctx)).Detail
	}
	return ""
}

package site

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
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

func (s *Site) apiLogin(w http.ResponseWriter, r *http.Request, in person.Credentials) error {
	var out person.SignedIn
	var err error
	if in.Handle == "" && in.Password == "" && in.OTP != "" {
		out, err = s.SecondStep(r.Context(), s.Caller(r), in.OTP)
	} else {
		out, err = s.SignIn(r.Context(), s.Caller(r), in)
	}
	return s.answerSignedIn(w, r, out, err)
}

// answerSignedIn sets the cookies of a sign-in and answers with the user.
func (s *Site) answerSignedIn(w http.ResponseWriter, r *http.Request, out person.SignedIn, err error) error {
	s.setCookies(w, out)
	if err != nil {
		return s.withAdminContact(r.Context(), err)
	}
	u := out.User
	flags, err := s.FlagsOf(r.Context(), u)
	if err != nil {
		return err
	}
	s.forgetStep(w, r)
	return web.WriteJSON(w, http.StatusOK,
		signedIn{OK: true, Handle: u.Handle, DisplayName: u.DisplayName, Flags: flags})
}

// forgetStep clears the cookie of a finished sign-in in two steps.
func (s *Site) forgetStep(w http.ResponseWriter, r *http.Request) {
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
	// FreshSelect is FreshChoose, and the account that is signed in may be used as it is.
	FreshSelect = "select"
)

// SelectPath takes the form that goes on with the account that is signed in.
const SelectPath = "/oauth2/select-account"

// loginPage shows the form, or redirects a signed-in user.
func (s *Site) loginPage(w http.ResponseWriter, r *http.Request) error {
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
	if id == nil && page.Ended == "" {
		if page.Ended, err = s.lostCookie(r); err != nil {
			return err
		}
	}
	if q.Has("expired") {
		page.Ended = account.ErrSignInExpired.In(templates.LanguageOf(r.Context())).Detail
	}
	page.Unsent = q.Has(unsentField)
	if hint, ok := person.AccountName(q.Get("handle")); ok && !page.HandleFixed {
		page.Handle = hint
	}
	return s.showLogin(w, r, http.StatusOK, page)
}

// describeLogin returns the page for the session of the request and the purpose in v. The
// continuation is opaque here: only package provider, which sealed it, opens it.
func (s *Site) describeLogin(
	w http.ResponseWriter, r *http.Request, v url.Values,
) (templates.Login, *person.Identity, error) {
	page := templates.Login{}
	var application templates.Application
	page.Continue, application = s.continuation(w, r, v)
	page.ClientName, page.ClientLogo = application.Name, application.Logo
	id, err := s.Current(r)
	if errors.Is(err, account.ErrNotAuthenticated) {
		page.Handle, page.Ended, err = s.endedSession(r)
		return page, nil, err
	}
	if err != nil {
		return page, nil, err
	}
	switch fresh := v.Get("fresh"); fresh {
	case FreshConfirm:
		page.Fresh, page.Handle, page.HandleFixed = fresh, id.User.Handle, true
	case FreshChoose, FreshSelect:
		page.Fresh, page.SignedInAs = fresh, id.User.Handle
		page.SignedInName = cmp.Or(id.User.DisplayName, id.User.Handle)
		if fresh == FreshSelect && application.Name != "" {
			page.SelectToken, err = s.offerAccount(page.Continue, id)
		}
	}
	return page, id, err
}

// endedSession returns whose session the request's cookie was and why it ended. Only the browser
// with the cookie that proved the session learns this.
func (s *Site) endedSession(r *http.Request) (handle, why string, err error) {
	ctx, text := r.Context(), templates.Text("")
	id, err := s.LastSession(ctx, s.sessionCookies(r))
	l := templates.LanguageOf(ctx)
	switch {
	case errors.Is(err, account.ErrNotAuthenticated):
		return "", "", nil
	case err != nil:
		return "", "", err
	case id.User.Suspended():
		return id.User.Handle, s.suspended(ctx, id.User.Ended()).In(l).Detail, nil
	case id.Session.Live(s.Now()):
		text = "This browser could not show that it is still the one you signed in with. Sign in again."
	case id.Session.EndedAt.IsZero():
		text = "Your session has expired. Sign in again."
	default:
		text = "You were signed out: from another browser, by a new password or by an administrator. Sign in again."
	}
	return id.User.Handle, l.Text(text), nil
}

// cookieTime is how soon after a sign-in its cookie must come back.
const cookieTime = 10 * time.Second

// lostCookie returns what to do if the browser has just signed in and kept no cookie. Without a
// cookie only the address and the User-Agent tell, and that a page of this service led here, as far
// as the browser says so.
func (s *Site) lostCookie(r *http.Request) (string, error) {
	cookies, from := s.sessionCookies(r), r.Header.Get("Sec-Fetch-Site")
	referer, err := url.Parse(r.Referer())
	if len(cookies.Tokens)+len(cookies.Logins) > 0 || r.UserAgent() == "" || from != "" && from != "same-origin" ||
		err != nil || r.Referer() != "" && referer.Host != r.Host {
		return "", nil
	}
	ctx := r.Context()
	c := s.Caller(r)
	lost, err := s.Store().RecentSignIn(ctx, c.Address, c.UserAgent, s.Now().Add(-cookieTime))
	if err != nil || !lost {
		return "", err
	}
	host := r.Host
	if forwarded := r.Header.Get("X-Forwarded-Host"); forwarded != "" && web.FromProxy(ctx) {
		host = forwarded
	}
	l, issuer := templates.LanguageOf(ctx), s.URL("")
	if u, err := url.Parse(issuer); err == nil && !strings.EqualFold(host, u.Host) {
		return l.Text("Your browser did not keep the cookie for this sign-in. Open {url} and sign in there.",
			"url", issuer), nil
	}
	return l.Text("Your browser did not keep the cookie for this sign-in. Allow cookies for this service, then sign " +
		"in again."), nil
}

// withAdminContact returns err. For ErrSuspended it adds how to reach an administrator.
func (s *Site) withAdminContact(ctx context.Context, err error) error {
	if errors.Is(err, account.ErrSuspended) {
		var p *web.Problem
		return s.suspended(ctx, errors.As(err, &p) && p == account.ErrEnded)
	}
	return err
}

// suspended returns ErrSuspended with how to reach an administrator.
func (s *Site) suspended(ctx context.Context, ended bool) *web.Problem {
	if ended {
		return s.WithContact(ctx, account.ErrEnded,
			"This account has expired. Ask an administrator of your club. Contact: {contact}")
	}
	return s.WithContact(ctx, account.ErrSuspended,
		"This account is suspended. Ask an administrator of your club. Contact: {contact}")
}

// NameApplications sets how the sign-in page gets the name, logo and language
// (templates.SetApplicationLanguage) of the application of a continuation; zero for none. Call it
// before the first request.
func (s *Site) NameApplications(name func(ctx context.Context, continuation string) templates.Application) {
	s.applications = name
}

// OfferAccount sets how the sign-in page gets the token of the form that goes on with a continuation as the account
// that is signed in. Call it before the first request.
func (s *Site) OfferAccount(token func(continuation string, id *person.Identity) (string, error)) {
	s.offerAccount = token
}

// ShowNextSteps makes administrators start on their overview after a sign-in, while open returns
// true.
func (s *Site) ShowNextSteps(open func(context.Context, account.User) (bool, error)) {
	s.nextSteps = open
}

// DescribeScopes sets how pages describe the scopes of an application. Call it before the first
// request.
func (s *Site) DescribeScopes(texts func(ctx context.Context, scopes []string) []string) {
	s.scopeTexts = texts
}

// continuation returns the sealed authorization request that a page continues with, and its
// application. The page gets the application's language, and a popup keeps its opener.
func (s *Site) continuation(
	w http.ResponseWriter, r *http.Request, v url.Values,
) (sealed string, application templates.Application) {
	sealed = continuation(v)
	if back, ok := s.openReturn(sealed); ok {
		return sealed, templates.Application{Name: web.HostOf(back)}
	}
	if s.applications != nil && sealed != "" {
		application = s.applications(r.Context(), sealed)
	}
	if application.Gone && s.openPage(sealed) == "" {
		sealed = "" // the sign-in leads to the account
	}
	if application.Name != "" {
		web.KeepOpener(w)
	}
	return sealed, application
}

func (s *Site) showLogin(w http.ResponseWriter, r *http.Request, status int, page templates.Login) error {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	page.Passkeys = s.passkeys.PasskeysUnavailable() == nil
	older, err := s.passkeys.OlderPasskeys(r.Context())
	if err != nil {
		return err
	}
	page.OlderPasskeys = older != ""
	page.RegisterOpen, page.Mail = settings.Registration != account.RegistrationClosed, s.MailEnabled()
	s.Show(w, r, status, page)
	return nil
}

func (s *Site) loginForm(w http.ResponseWriter, r *http.Request) error {
	next, application := s.continuation(w, r, r.PostForm)
	in := person.Credentials{Handle: r.PostForm.Get("handle"), Password: r.PostForm.Get("password"),
		Shared: r.PostForm.Has("shared_computer")}
	var before person.Credentials // of a sign-in that found the service busy
	again := s.Sealer().OpenHidden(person.PurposeAgain, r.PostForm.Get("again"), &before) == nil
	if again {
		in = before
	}
	// An application that verifies the cookie itself sends people without a continuation.
	in.Demanded = application.SecondStep || next == "" && r.PostForm.Get("fresh") == FreshConfirm
	var out person.SignedIn
	var err error
	answer, ok := passkeyInForm(r)
	if ok {
		c := s.Caller(r)
		c.Shared = in.Shared
		out, err = s.passkeys.SignIn(r.Context(), c, answer)
	} else {
		out, err = s.SignIn(r.Context(), s.Caller(r), in)
	}
	s.enter(w, out)
	switch {
	case err == nil:
		if !ok && !out.Session.Shared() {
			s.setOffer(w, 300)
		}
		return s.afterSignIn(w, r, out.User, next)
	case errors.Is(err, account.ErrSecondFactorRequired):
		return s.Redirect(w, r, secondFactorPath+signInQuery(r.PostForm, nil))
	case errors.Is(err, web.ErrBusy) && !again:
		return s.showBusy(w, r, in, err)
	}
	p, err := web.Refusal(w, r, s.withAdminContact(r.Context(), err))
	if err != nil {
		return err
	}
	page, _, err := s.describeLogin(w, r, r.PostForm)
	if err != nil {
		return err
	}
	if page.Signals, err = s.passkeys.ForgetPasskey(r.Context(), answer.Credential); err != nil {
		return err
	}
	page.Error, page.ErrorCode, page.Ended, page.Shared = p.Detail, p.Code, "", in.Shared
	switch {
	case !page.HandleFixed:
		page.Handle = text.Cut(in.Handle, 64)
	case p.Code == account.ErrInvalidCredentials.Code:
		// there is no other field to change
		page.Error = account.ErrWrongPassword.In(templates.LanguageOf(r.Context())).Detail
	}
	return s.showLogin(w, r, p.Status, page)
}

// showBusy shows a page that sends what was typed once more, when cause says. Nobody can read it there.
func (s *Site) showBusy(w http.ResponseWriter, r *http.Request, in person.Credentials, cause error) error {
	p, _ := web.ProblemOf(cause)
	p = p.In(templates.LanguageOf(r.Context()))
	p.SetRetryAfter(w)
	web.NoteDefault(r.Context(), p.Code)
	page, _, err := s.describeLogin(w, r, r.PostForm)
	if err != nil {
		return err
	}
	page.Error, page.ErrorCode, page.Ended = p.Detail, p.Code, ""
	page.AgainAfter = int(p.RetryAfter().Seconds())
	if page.Again, err = s.Sealer().Hide(person.PurposeAgain, in); err != nil {
		return err
	}
	return s.showLogin(w, r, p.Status, page)
}

// afterSignIn redirects a fresh session to authorize with the continuation, to the application
// behind a proxy, or to the account page; administrators of a new installation go to their
// overview. It never redirects to an address from the request.
func (s *Site) afterSignIn(w http.ResponseWriter, r *http.Request, u account.User, next string) error {
	if next == "" {
		if s.nextSteps != nil && u.Has(account.FlagAdmin) {
			if open, err := s.nextSteps(r.Context(), u); err != nil {
				s.Log().WarnContext(r.Context(), "the next steps are not known", "error", err)
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
	if path := s.openPage(next); path != "" {
		return s.Redirect(w, r, path)
	}
	return s.Redirect(w, r, "/oauth2/authorize?"+url.Values{"continue": {next}}.Encode())
}

// unsentField says in the address of the sign-in page that a form was sent without a session.
const unsentField = "unsent"

// signInFirst leads from a page to the sign-in page and back, with the query q. What a form had is not kept.
func (s *Site) signInFirst(w http.ResponseWriter, r *http.Request, q url.Values) error {
	if r.Method == http.MethodPost {
		q.Set(unsentField, "1")
	}
	return s.Redirect(w, r, "/login/"+s.wayTo(r, q))
}

// wayTo returns the query of the sign-in page with the page of the request to come back to: that of the form, for
// a form. The overview of the account needs none.
func (s *Site) wayTo(r *http.Request, q url.Values) string {
	path := r.URL.RequestURI()
	if from, err := url.Parse(r.Referer()); r.Method == http.MethodPost {
		path = ""
		if err == nil && from.Host == r.Host {
			path = from.RequestURI()
		}
	}
	path = strings.TrimPrefix(path, s.Path(""))
	ours := strings.HasPrefix(path, "/account/") || strings.HasPrefix(path, "/admin/")
	if ours && path != "/account/" {
		if sealed, err := s.Sealer().Seal(person.PurposePage, path); err == nil {
			q.Set("continue", sealed)
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// openPage returns the local path of a continuation of this kind, or "".
func (s *Site) openPage(continuation string) (path string) {
	if s.Sealer().Open(person.PurposePage, continuation, &path) != nil {
		return ""
	}
	return web.LocalPath(path)
}

// afterRecovery redirects somebody who signed in with a recovery code to the security page, which says
// how many codes are left and keeps the way to the application.
func (s *Site) afterRecovery(w http.ResponseWriter, r *http.Request, u account.User, next string) error {
	if _, behindProxy := s.openReturn(next); behindProxy {
		return s.afterSignIn(w, r, u, next)
	}
	if next != "" {
		s.keepWay(w, next, setUpRecovered)
	}
	return s.Redirect(w, r, securityPath+"?notice=recovery-used#recovery")
}

// continuation returns the sealed value if it has the form of one (base64url "." base64url), and ""
// otherwise.
func continuation(v url.Values) string {
	c := v.Get("continue")
	if len(c) > 12<<10 || strings.Count(c, ".") != 1 || strings.Trim(c, web.Base64URL+".") != "" {
		return ""
	}
	return c
}

const secondFactorPath = "/login/second-factor/"

// signInQuery returns the query with which the pages of a sign-in pass on their purpose.
func signInQuery(v, more url.Values) string {
	q := url.Values{}
	if c := continuation(v); c != "" {
		q.Set("continue", c)
	}
	if fresh := v.Get("fresh"); fresh == FreshConfirm || fresh == FreshChoose || fresh == FreshSelect {
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

func (s *Site) secondFactorPage(w http.ResponseWriter, r *http.Request) error {
	return s.showSecondFactor(w, r, s.Caller(r), http.StatusOK, r.URL.Query(), templates.SecondFactor{})
}

// showSecondFactor shows the form in the browser in which the password was right. Other browsers
// start again.
func (s *Site) showSecondFactor(
	w http.ResponseWriter, r *http.Request, c account.Caller, status int, v url.Values, page templates.SecondFactor,
) error {
	page.Continue, _ = s.continuation(w, r, v)
	u, _, err := s.PendingSignIn(r.Context(), c)
	if errors.Is(err, account.ErrSignInExpired) {
		return s.Redirect(w, r, "/login/"+signInQuery(v, url.Values{"expired": {"1"}}))
	}
	if err != nil {
		return s.withAdminContact(r.Context(), err)
	}
	f, err := s.Store().Factors(r.Context(), u.Sub)
	if err != nil {
		return err
	}
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	page.Contact = settings.Contact
	page.Handle, page.Methods, page.Fresh = u.Handle, s.FactorMethods(f), v.Get("fresh")
	page.NoPasskeys = s.noPasskeys(r.Context(), f)
	s.Show(w, r, status, page)
	return nil
}

func (s *Site) secondFactorForm(w http.ResponseWriter, r *http.Request) error {
	next, _ := s.continuation(w, r, r.PostForm)
	var out person.SignedIn
	var err error
	answer, ok := passkeyInForm(r)
	if ok {
		out, err = s.passkeys.SecondStep(r.Context(), s.Caller(r), answer)
	} else {
		out, err = s.SecondStep(r.Context(), s.Caller(r), text.Cut(r.PostForm.Get("otp"), 100))
	}
	switch {
	case err == nil:
		s.enter(w, out)
		s.forgetStep(w, r)
		if r.PostForm.Has("recovery") {
			return s.afterRecovery(w, r, out.User, next)
		}
		if !ok && !out.Session.Shared() {
			s.setOffer(w, 300)
		}
		return s.afterSignIn(w, r, out.User, next)
	case errors.Is(err, account.ErrSignInExpired), errors.Is(err, account.ErrInvalidCredentials):
		return s.Redirect(w, r, "/login/"+signInQuery(r.PostForm, url.Values{"expired": {"1"}}))
	}
	p, err := web.Refusal(w, r, s.withAdminContact(r.Context(), err))
	if err != nil {
		return err
	}
	return s.showSecondFactor(w, r, s.Caller(r), p.Status, r.PostForm,
		templates.SecondFactor{Error: p.Detail, ErrorCode: p.Code, Recovery: r.PostForm.Has("recovery")})
}

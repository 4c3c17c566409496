package account

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Mount registers the account endpoints (JSON and pages) on the router of the
// base path.
func (s *Service) Mount(m *mux.Router) {
	s.Handle(m, "/api/auth/login", web.Methods{"POST": s.apiLogin})
	s.Handle(m, "/api/auth/logout", web.Methods{"POST": s.apiLogout})
	s.Handle(m, "/login/", web.Methods{"GET": s.loginPage, "POST": s.loginForm})
	s.Handle(m, "/logout/", web.Methods{"GET": s.logoutPage, "POST": s.logoutForm})
	s.mountRegister(m)
	s.mountResets(m)
	s.mountInvites(m)
	s.mountMe(m)
	s.mountAccountPage(m)
	s.mountStatus(m)
}

// SignedIn is the answer to a successful sign-in.
type signedIn struct {
	OK          bool            `json:"ok"`
	Handle      string          `json:"handle"`
	DisplayName string          `json:"display_name"`
	Flags       map[string]bool `json:"flags"`
}

func (s *Service) apiLogin(w http.ResponseWriter, r *http.Request) {
	var in Credentials
	if err := web.ReadJSON(w, r, &in); err != nil {
		s.Fail(w, r, err)
		return
	}
	u, err := s.SignIn(w, r, in)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	flags, err := s.flagsOf(r, u)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, signedIn{OK: true, Handle: u.Handle, DisplayName: u.DisplayName, Flags: flags})
}

func (s *Service) flagsOf(r *http.Request, u User) (map[string]bool, error) {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return nil, err
	}
	return u.FlagMap(settings.Flags), nil
}

type okAnswer struct {
	OK bool `json:"ok"`
}

func (s *Service) apiLogout(w http.ResponseWriter, r *http.Request) {
	if err := s.SignOut(w, r, ""); err != nil {
		s.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// What a sign-in page of somebody who is signed in already is for; it only changes
// what the page offers, authorize decides.
const (
	// FreshConfirm asks for the password of the same account again.
	FreshConfirm = "confirm"
	// FreshChoose asks which account to use.
	FreshChoose = "choose"
)

// loginPage shows the form, or sends on who is signed in already.
func (s *Service) loginPage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	page, id, err := s.describeLogin(r, q)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	if id != nil && page.Fresh == "" {
		http.Redirect(w, r, s.afterSignIn(page.Continue), http.StatusSeeOther)
		return
	}
	if hint, err := CanonicalHandle(q.Get("handle")); err == nil && !page.HandleFixed {
		page.Handle = hint
	}
	s.showLogin(w, r, http.StatusOK, page)
}

// describeLogin is the page for the request's session and what v says it is for.
// The continuation is opaque here: only package provider, which sealed it, looks inside.
func (s *Service) describeLogin(r *http.Request, v url.Values) (templates.Login, *Identity, error) {
	page := templates.Login{Continue: continuation(v)}
	if s.applications != nil && page.Continue != "" {
		page.ClientName = s.applications(r.Context(), page.Continue)
	}
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
// to nobody else than who presents the cookie that was its proof.
func (s *Service) endedSession(r *http.Request) (handle, why string, err error) {
	id, err := s.findSession(r)
	switch {
	case errors.Is(err, ErrNotAuthenticated):
		return "", "", nil
	case err != nil:
		return "", "", err
	case id.User.Suspended():
		why = "Your account is suspended. Ask an administrator of your community." + s.contact(r.Context())
	case id.Session.EndedAt.IsZero():
		why = "Your session has expired. Sign in again."
	default:
		why = "Your session was ended elsewhere: in another browser, by a new password or by an administrator. Sign in again."
	}
	return id.User.Handle, why, nil
}

// NameApplications sets how the sign-in page learns the name of the application
// that a continuation is for; "" for none. Call it before the first request.
func (s *Service) NameApplications(name func(ctx context.Context, continuation string) string) {
	s.applications = name
}

func (s *Service) showLogin(w http.ResponseWriter, r *http.Request, status int, page templates.Login) {
	settings, err := s.Settings(r.Context())
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	page.RegisterOpen = settings.Registration != RegistrationClosed
	s.Show(w, r, status, page)
}

func (s *Service) loginForm(w http.ResponseWriter, r *http.Request) {
	if err := web.ReadForm(w, r); err != nil {
		s.Fail(w, r, err)
		return
	}
	in := Credentials{Handle: r.PostForm.Get("handle"), Password: r.PostForm.Get("password")}
	next := continuation(r.PostForm)
	if _, err := s.SignIn(w, r, in); err != nil {
		p, known := web.ProblemOf(err)
		if !known || p.Status == http.StatusServiceUnavailable {
			s.Fail(w, r, err)
			return
		}
		web.NoteDefault(r.Context(), p.Code)
		p.SetRetryAfter(w)
		page, _, err := s.describeLogin(r, r.PostForm)
		if err != nil {
			s.Fail(w, r, err)
			return
		}
		page.Error, page.ErrorCode, page.Ended = p.Detail, p.Code, ""
		switch {
		case !page.HandleFixed:
			page.Handle = cut(in.Handle, 64)
		case p.Code == "invalid_credentials":
			page.Error = "The password is not right." // there is no other field to change
		}
		s.showLogin(w, r, p.Status, page)
		return
	}
	http.Redirect(w, r, s.afterSignIn(next), http.StatusSeeOther)
}

// afterSignIn is where a fresh session goes: back to authorize with the
// continuation, or to the account page. Never to an address that the caller gave.
func (s *Service) afterSignIn(next string) string {
	if next == "" {
		return s.Path("/account/")
	}
	return s.Path("/oauth2/authorize") + "?" + url.Values{"continue": {next}}.Encode()
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

func (s *Service) logoutPage(w http.ResponseWriter, r *http.Request) {
	id, err := s.Current(r)
	if err != nil && !errors.Is(err, ErrNotAuthenticated) {
		s.Fail(w, r, err)
		return
	}
	page := templates.Logout{}
	if id != nil {
		page.SignedIn, page.Handle = true, id.User.Handle
	}
	s.Show(w, r, http.StatusOK, page)
}

func (s *Service) logoutForm(w http.ResponseWriter, r *http.Request) {
	if err := web.ReadForm(w, r); err != nil {
		s.Fail(w, r, err)
		return
	}
	id, err := s.Current(r)
	if err == nil || errors.Is(err, ErrNotAuthenticated) {
		err = s.SignOut(w, r, "") // without a session too: other applications may still go by the cookie
	}
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	if id == nil {
		s.Show(w, r, http.StatusOK, templates.Logout{})
		return
	}
	s.Show(w, r, http.StatusOK, templates.SignedOut{})
}

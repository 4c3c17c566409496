// Package demoapp is the application that the command demo runs beside the service: what
// the developers of other applications write. It is a relying party on go-oidc and
// x/oauth2 that takes back-channel logout, and, for applications on the same host, it
// verifies the session cookie with account/session and asks for the list of revoked
// sessions. It knows nothing else of Cairn.
package demoapp

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account/session"
)

//go:embed demo.html demo.svg
var files embed.FS

// Config is what the developer of an application is told, and its own address.
type Config struct {
	Issuer, URL, ClientID, ClientSecret string

	// Owner is the handle of the member whose activities the application shows, and Activities writes the
	// page of them: the private ones too for the owner alone.
	Owner      string
	Activities func(w io.Writer, isOwner bool) error
}

// App is the application.
type App struct {
	config   Config
	page     *template.Template
	verifier *session.Verifier
	status   *session.RemoteStatusList // of verifier
	logins   sync.Map                  // of login by state: those that wait for the callback
	sessions sync.Map                  // of user by the secret in the browser's cookie

	mu       sync.Mutex
	provider *oidc.Provider // discovered at the first sign-in
}

// login is bound to the browser by a cookie.
type login struct{ verifier, nonce string }

// user has the claims of userinfo and of the ID token.
type user struct {
	Name      string   `json:"name"`
	Handle    string   `json:"preferred_username"`
	Subject   string   `json:"sub"`
	Email     string   `json:"email"`
	Groups    []string `json:"groups"`
	SessionID string   `json:"sid"` // logout tokens name it
	IDToken   string   `json:"-"`   // proves at sign-out who asks
}

// view is what demo.html shows.
type view struct {
	Issuer  string
	Owner   string // whose activities there are, or empty
	User    *user
	Ended   bool // there was a user, until the service said otherwise
	Cookie  *session.Claims
	Revoked bool   // there is a cookie, and it was revoked
	Reason  string // why there is no cookie
	Nonce   string // of the page's script
}

// New returns the application; nothing is fetched before it is asked for a page.
func New(c Config) (*App, error) {
	page, err := template.ParseFS(files, "demo.html")
	if err != nil {
		return nil, fmt.Errorf("demo page: %w", err)
	}
	keys := session.NewRemoteKeySet(c.Issuer+"/.well-known/jwks.json", session.RemoteOptions{})
	status := session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: c.Issuer, Keys: keys})
	v := &session.Verifier{Issuer: c.Issuer, Keys: keys, Status: status}
	if err := v.Check(); err != nil {
		return nil, err
	}
	return &App{config: c, page: page, verifier: v, status: status}, nil
}

// Close ends what the application does in the background.
func (a *App) Close() error { return a.status.Close() }

// Handler serves the application.
func (a *App) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.home)
	mux.HandleFunc("GET /favicon.svg", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, "demo.svg")
	})
	mux.HandleFunc("GET /activities", a.activities)
	mux.HandleFunc("POST /login", a.login)
	mux.HandleFunc("GET /callback", a.callback)
	mux.HandleFunc("POST /logout", a.logout)
	mux.HandleFunc("POST /backchannel-logout", a.backchannelLogout)
	return http.NewCrossOriginProtection().Handler(mux)
}

func (a *App) home(w http.ResponseWriter, r *http.Request) {
	v := view{Issuer: a.config.Issuer, Owner: a.config.Owner, Nonce: rand.Text()}
	if _, err := r.Cookie("demo_app"); err == nil {
		v.User = a.user(r)
		v.Ended = v.User == nil
	}
	claims, err := a.verifier.VerifyRequest(r)
	switch {
	case err == nil:
		v.Cookie = &claims
	case errors.Is(err, session.ErrNoCookie):
		v.Reason = "This browser has no session cookie of the service."
	case errors.Is(err, session.ErrRevoked):
		v.Revoked, v.Reason = true, "There is a session cookie, and the service has revoked it."
	case errors.Is(err, session.ErrKeysUnavailable), errors.Is(err, session.ErrStatusUnavailable):
		v.Reason = "There is a session cookie, and the service does not answer: whether it still counts is not known."
	default:
		v.Reason = "There is a session cookie, and it was refused."
	}
	var b bytes.Buffer
	if err := a.page.Execute(&b, v); err != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	writePage(w, b.Bytes(), "script-src 'nonce-"+v.Nonce+"'; connect-src 'self'; img-src 'self'; ")
}

// writePage sends a page; policy has what its Content-Security-Policy allows besides inline styles.
func writePage(w http.ResponseWriter, page []byte, policy string) {
	policy = "default-src 'none'; style-src 'unsafe-inline'; " + policy + "base-uri 'none'; frame-ancestors 'none'"
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", policy)
	_, _ = w.Write(page)
}

// user returns who has signed in to the application itself, or nil.
func (a *App) user(r *http.Request) *user {
	c, err := r.Cookie("demo_app")
	if err != nil {
		return nil
	}
	u, _ := a.sessions.Load(c.Value)
	signedIn, _ := u.(*user)
	return signedIn
}

// activities shows the owner's activities, to the owner the private ones too.
func (a *App) activities(w http.ResponseWriter, r *http.Request) {
	if a.config.Activities == nil {
		http.NotFound(w, r)
		return
	}
	u := a.user(r)
	var b bytes.Buffer
	if err := a.config.Activities(&b, u != nil && u.Handle == a.config.Owner); err != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	writePage(w, b.Bytes(), "")
}

func setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// oauth discovers the provider once; a failure is tried again next time.
func (a *App) oauth(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.provider == nil {
		// The provider outlives the request: its keys are fetched later.
		p, err := oidc.NewProvider(context.WithoutCancel(ctx), a.config.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("discover: %w", err)
		}
		a.provider = p
	}
	return a.provider, &oauth2.Config{
		ClientID: a.config.ClientID, ClientSecret: a.config.ClientSecret,
		Endpoint: a.provider.Endpoint(), RedirectURL: a.config.URL + "/callback",
		Scopes: []string{oidc.ScopeOpenID, "profile", "email", "groups"},
	}, nil
}

func (a *App) login(w http.ResponseWriter, r *http.Request) {
	_, conf, err := a.oauth(r.Context())
	if err != nil {
		http.Error(w, "The service does not answer.", http.StatusBadGateway)
		return
	}
	const life = 10 * time.Minute
	state, l := rand.Text(), login{verifier: oauth2.GenerateVerifier(), nonce: rand.Text()}
	a.logins.Store(state, l)
	time.AfterFunc(life, func() { a.logins.Delete(state) })
	setCookie(w, "demo_login", state, int(life/time.Second))
	target := conf.AuthCodeURL(state, oauth2.S256ChallengeOption(l.verifier), oidc.Nonce(l.nonce))
	http.Redirect(w, r, target, http.StatusSeeOther)
}

func (a *App) callback(w http.ResponseWriter, r *http.Request) {
	state := r.URL.Query().Get("state")
	c, err := r.Cookie("demo_login")
	l, ok := a.logins.LoadAndDelete(state)
	if err != nil || c.Value != state || !ok {
		http.Error(w, "This sign-in was not started here. Go back to the start page.", http.StatusBadRequest)
		return
	}
	setCookie(w, "demo_login", "", -1)
	if !r.URL.Query().Has("error") {
		u, err := a.exchange(r.Context(), r.URL.Query().Get("code"), l.(login))
		if err != nil {
			http.Error(w, "The sign-in failed.", http.StatusBadGateway)
			return
		}
		secret := rand.Text()
		a.sessions.Store(secret, u)
		setCookie(w, "demo_app", secret, 86400)
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// exchange spends the code, verifies the ID token and asks for the profile.
func (a *App) exchange(ctx context.Context, code string, l login) (*user, error) {
	p, conf, err := a.oauth(ctx)
	if err != nil {
		return nil, err
	}
	token, err := conf.Exchange(ctx, code, oauth2.VerifierOption(l.verifier))
	if err != nil {
		return nil, fmt.Errorf("exchange the code: %w", err)
	}
	var u user
	u.IDToken, _ = token.Extra("id_token").(string)
	idToken, err := p.Verifier(&oidc.Config{ClientID: a.config.ClientID}).Verify(ctx, u.IDToken)
	if err != nil {
		return nil, fmt.Errorf("verify the ID token: %w", err)
	}
	if idToken.Nonce != l.nonce {
		return nil, errors.New("the ID token has another nonce")
	}
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, fmt.Errorf("userinfo: %w", err)
	}
	if info.Subject != idToken.Subject {
		return nil, errors.New("userinfo is of another user")
	}
	if err := errors.Join(idToken.Claims(&u), info.Claims(&u)); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	return &u, nil
}

// logout ends the application's own session and sends the browser on to end that
// at the service (OpenID Connect RP-Initiated Logout 1.0), whose cookie goes with it.
// Without an ID token the service asks first.
func (a *App) logout(w http.ResponseWriter, r *http.Request) {
	q := url.Values{"client_id": {a.config.ClientID}, "post_logout_redirect_uri": {a.config.URL + "/"}}
	if c, err := r.Cookie("demo_app"); err == nil {
		if u, ok := a.sessions.LoadAndDelete(c.Value); ok {
			q.Set("id_token_hint", u.(*user).IDToken)
		}
	}
	setCookie(w, "demo_app", "", -1)
	target := "/" // the service does not answer: signed out here at least
	if p, _, err := a.oauth(r.Context()); err == nil {
		var metadata struct {
			EndSession string `json:"end_session_endpoint"`
		}
		if p.Claims(&metadata) == nil && metadata.EndSession != "" {
			target = metadata.EndSession + "?" + q.Encode()
		}
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
}

// maxLogoutToken bounds the body of a back-channel logout request, in bytes.
const maxLogoutToken = 64 << 10

// backchannelLogout is told by the service that a session has ended (OpenID Connect
// Back-Channel Logout 1.0 section 2.5). A token that comes again finds nothing left to
// end.
func (a *App) backchannelLogout(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	p, _, err := a.oauth(r.Context())
	if err != nil {
		http.Error(w, "The service does not answer.", http.StatusServiceUnavailable)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLogoutToken)
	verifier := p.Verifier(&oidc.Config{ClientID: a.config.ClientID})
	token, err := verifier.VerifyLogout(r.Context(), r.PostFormValue("logout_token"))
	if err != nil {
		http.Error(w, "This is no logout token for this application.", http.StatusBadRequest)
		return
	}
	a.sessions.Range(func(secret, value any) bool {
		u := value.(*user)
		sameUser := token.Subject == "" || u.Subject == token.Subject
		sameSession := token.SessionID == "" || u.SessionID == token.SessionID
		if sameUser && sameSession {
			a.sessions.Delete(secret)
		}
		return true
	})
}

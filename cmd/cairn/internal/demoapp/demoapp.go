// Package demoapp is the application that the command demo runs beside the service: what
// the developers of other applications write. It is a relying party on go-oidc and
// x/oauth2 that takes back-channel logout, and, for applications on the same host, it
// verifies the session cookie with account/session and asks for the list of revoked
// sessions. It knows nothing else of Cairn.
package demoapp

import (
	"bytes"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/cairn-id/cairn/account/session"
)

//go:embed demo.html demo.svg
var demoFiles embed.FS

// Config is what the developer of an application is told, and its own address.
type Config struct{ Issuer, URL, ClientID, ClientSecret string }

// App is the application.
type App struct {
	config   Config
	page     *template.Template
	verifier *session.Verifier
	status   *session.RemoteStatusList // of verifier

	mu       sync.Mutex
	provider *oidc.Provider // discovered at the first sign-in
	pending  map[string]demoLogin
	sessions map[string]demoUser
}

// demoLogin waits for the callback; it is bound to the browser by a cookie.
type demoLogin struct {
	verifier, nonce string
	until           time.Time
}

type demoUser struct {
	Name, Handle, Subject, Email string
	Groups                       []string
	SessionID                    string // sid: logout tokens name it
	IDToken                      string // proves at sign-out who asks
}

// demoView is what demo.html shows.
type demoView struct {
	Issuer  string
	User    *demoUser
	Ended   bool // there was a user, until the service said otherwise
	Cookie  *session.Claims
	Revoked bool   // there is a cookie, and it was revoked
	Reason  string // why there is no cookie
	Nonce   string // of the page's script
}

// New returns the application; nothing is fetched before it is asked for a page.
func New(c Config) (*App, error) {
	page, err := template.ParseFS(demoFiles, "demo.html")
	if err != nil {
		return nil, fmt.Errorf("demo page: %w", err)
	}
	keys := session.NewRemoteKeySet(c.Issuer+"/.well-known/jwks.json", session.RemoteOptions{})
	status := session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: c.Issuer, Keys: keys})
	v := &session.Verifier{Issuer: c.Issuer, Keys: keys, Status: status}
	if err := v.Check(); err != nil {
		return nil, err
	}
	return &App{config: c, page: page, verifier: v, status: status, pending: map[string]demoLogin{}, sessions: map[string]demoUser{}}, nil
}

// Close ends what the application does in the background.
func (a *App) Close() error { return a.status.Close() }

// Handler serves the application.
func (a *App) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.home)
	mux.HandleFunc("GET /favicon.svg", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, demoFiles, "demo.svg") })
	mux.HandleFunc("POST /login", a.login)
	mux.HandleFunc("GET /callback", a.callback)
	mux.HandleFunc("POST /logout", a.logout)
	mux.HandleFunc("POST /backchannel-logout", a.backchannelLogout)
	return http.NewCrossOriginProtection().Handler(mux)
}

func (a *App) home(w http.ResponseWriter, r *http.Request) {
	view := demoView{Issuer: a.config.Issuer, Nonce: rand.Text()}
	if c, err := r.Cookie("demo_app"); err == nil {
		a.mu.Lock()
		u, ok := a.sessions[c.Value]
		a.mu.Unlock()
		if view.Ended = !ok; ok {
			view.User = &u
		}
	}
	claims, err := a.verifier.VerifyRequest(r)
	switch {
	case err == nil:
		view.Cookie = &claims
	case errors.Is(err, session.ErrNoCookie):
		view.Reason = "This browser has no session cookie of the service."
	case errors.Is(err, session.ErrRevoked):
		view.Revoked, view.Reason = true, "There is a session cookie, and the service has revoked it."
	case errors.Is(err, session.ErrKeysUnavailable), errors.Is(err, session.ErrStatusUnavailable):
		view.Reason = "There is a session cookie, and the service does not answer: nobody can say whether it still counts."
	default:
		view.Reason = "There is a session cookie, and it was refused."
	}
	var b bytes.Buffer
	if err := a.page.Execute(&b, view); err != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-"+view.Nonce+"'; connect-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'")
	_, _ = w.Write(b.Bytes())
}

// newSession keeps who has signed in, under a secret that the browser gets.
func (a *App) newSession(w http.ResponseWriter, u demoUser) {
	id := rand.Text()
	a.mu.Lock()
	a.sessions[id] = u
	a.mu.Unlock()
	demoCookie(w, "demo_app", id, 86400)
}

func demoCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account/session"
)

// The demo's application is what the developers of other applications write: a
// relying party on go-oidc and x/oauth2, and, for applications on the same
// host, the session cookie verified by account/session.

//go:embed demo.html
var demoPages embed.FS

type demoConfig struct{ Issuer, URL, ClientID, ClientSecret string }

type demoApp struct {
	config   demoConfig
	page     *template.Template
	verifier *session.Verifier

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
}

// demoView is what demo.html shows.
type demoView struct {
	Issuer string
	User   *demoUser
	Cookie *session.Claims
	Reason string // why there is no cookie
}

func newDemoApp(c demoConfig) (*demoApp, error) {
	page, err := template.ParseFS(demoPages, "demo.html")
	if err != nil {
		return nil, fmt.Errorf("demo page: %w", err)
	}
	v := &session.Verifier{Issuer: c.Issuer, Keys: session.NewRemoteKeySet(c.Issuer+"/.well-known/jwks.json", session.RemoteOptions{})}
	if err := v.Check(); err != nil {
		return nil, err
	}
	return &demoApp{config: c, page: page, verifier: v, pending: map[string]demoLogin{}, sessions: map[string]demoUser{}}, nil
}

func (a *demoApp) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.home)
	mux.HandleFunc("POST /login", a.login)
	mux.HandleFunc("GET /callback", a.callback)
	mux.HandleFunc("POST /logout", a.logout)
	return http.NewCrossOriginProtection().Handler(mux)
}

func (a *demoApp) home(w http.ResponseWriter, r *http.Request) {
	view := demoView{Issuer: a.config.Issuer}
	if c, err := r.Cookie("demo_app"); err == nil {
		a.mu.Lock()
		u, ok := a.sessions[c.Value]
		a.mu.Unlock()
		if ok {
			view.User = &u
		}
	}
	claims, err := a.verifier.VerifyRequest(r)
	switch {
	case err == nil:
		view.Cookie = &claims
	case errors.Is(err, session.ErrNoCookie):
		view.Reason = "This browser has no session cookie of the service."
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
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	_, _ = w.Write(b.Bytes())
}

// oauth discovers the provider once; a failure is tried again next time.
func (a *demoApp) oauth(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	a.mu.Lock()
	p := a.provider
	a.mu.Unlock()
	if p == nil {
		var err error
		// The provider outlives the request: its keys are fetched later.
		if p, err = oidc.NewProvider(context.WithoutCancel(ctx), a.config.Issuer); err != nil {
			return nil, nil, fmt.Errorf("discover: %w", err)
		}
		a.mu.Lock()
		a.provider = p
		a.mu.Unlock()
	}
	return p, &oauth2.Config{
		ClientID: a.config.ClientID, ClientSecret: a.config.ClientSecret, Endpoint: p.Endpoint(), RedirectURL: a.config.URL + "/callback",
		Scopes: []string{oidc.ScopeOpenID, "profile", "email", "groups"},
	}, nil
}

func (a *demoApp) login(w http.ResponseWriter, r *http.Request) {
	_, conf, err := a.oauth(r.Context())
	if err != nil {
		http.Error(w, "The service does not answer.", http.StatusBadGateway)
		return
	}
	state, l := rand.Text(), demoLogin{verifier: oauth2.GenerateVerifier(), nonce: rand.Text(), until: time.Now().Add(10 * time.Minute)}
	a.mu.Lock()
	for k, old := range a.pending {
		if time.Now().After(old.until) {
			delete(a.pending, k)
		}
	}
	a.pending[state] = l
	a.mu.Unlock()
	demoCookie(w, "demo_login", state, 600)
	http.Redirect(w, r, conf.AuthCodeURL(state, oauth2.S256ChallengeOption(l.verifier), oidc.Nonce(l.nonce)), http.StatusSeeOther)
}

func (a *demoApp) callback(w http.ResponseWriter, r *http.Request) {
	state := r.URL.Query().Get("state")
	c, err := r.Cookie("demo_login")
	a.mu.Lock()
	l, ok := a.pending[state]
	delete(a.pending, state)
	a.mu.Unlock()
	if err != nil || c.Value != state || !ok || time.Now().After(l.until) {
		http.Error(w, "This sign-in was not started here. Go back to the start page.", http.StatusBadRequest)
		return
	}
	demoCookie(w, "demo_login", "", -1)
	if e := r.URL.Query().Get("error"); e != "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	u, err := a.exchange(r.Context(), r.URL.Query().Get("code"), l)
	if err != nil {
		http.Error(w, "The sign-in failed.", http.StatusBadGateway)
		return
	}
	id := rand.Text()
	a.mu.Lock()
	a.sessions[id] = u
	a.mu.Unlock()
	demoCookie(w, "demo_app", id, 86400)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// exchange spends the code, verifies the ID token and asks for the profile.
func (a *demoApp) exchange(ctx context.Context, code string, l demoLogin) (demoUser, error) {
	var u demoUser
	p, conf, err := a.oauth(ctx)
	if err != nil {
		return u, err
	}
	token, err := conf.Exchange(ctx, code, oauth2.VerifierOption(l.verifier))
	if err != nil {
		return u, fmt.Errorf("exchange the code: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	idToken, err := p.Verifier(&oidc.Config{ClientID: a.config.ClientID}).Verify(ctx, raw)
	if err != nil {
		return u, fmt.Errorf("verify the ID token: %w", err)
	}
	if idToken.Nonce != l.nonce {
		return u, errors.New("the ID token has another nonce")
	}
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return u, fmt.Errorf("userinfo: %w", err)
	}
	if info.Subject != idToken.Subject {
		return u, errors.New("userinfo is of another user")
	}
	var claims struct {
		Name   string   `json:"name"`
		Handle string   `json:"preferred_username"`
		Groups []string `json:"groups"`
	}
	if err := info.Claims(&claims); err != nil {
		return u, fmt.Errorf("userinfo: %w", err)
	}
	return demoUser{Name: claims.Name, Handle: claims.Handle, Groups: claims.Groups, Subject: info.Subject, Email: info.Email}, nil
}

func (a *demoApp) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie("demo_app"); err == nil {
		a.mu.Lock()
		delete(a.sessions, c.Value)
		a.mu.Unlock()
	}
	demoCookie(w, "demo_app", "", -1)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func demoCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

package demoapp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// oauth discovers the provider once; a failure is tried again next time.
func (a *App) oauth(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
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

func (a *App) login(w http.ResponseWriter, r *http.Request) {
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

func (a *App) callback(w http.ResponseWriter, r *http.Request) {
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
	a.newSession(w, u)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// exchange spends the code, verifies the ID token and asks for the profile.
func (a *App) exchange(ctx context.Context, code string, l demoLogin) (demoUser, error) {
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
	var at struct {
		SessionID string `json:"sid"`
	}
	if err := idToken.Claims(&at); err != nil {
		return u, fmt.Errorf("ID token: %w", err)
	}
	return demoUser{Name: claims.Name, Handle: claims.Handle, Groups: claims.Groups, Subject: info.Subject, Email: info.Email, SessionID: at.SessionID, IDToken: raw}, nil
}

//go:build unix

package httpd

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/provider"
)

// autodetectApplication is a Go web application that does not say how it
// authenticates: x/oauth2 tries basic first, and after a refusal sends the same
// code again with the secret in the body.
type autodetectApplication struct {
	config   oauth2.Config
	provider *oidc.Provider
	verifier string
	state    string
	nonce    string
}

// ServeHTTP implements http.Handler.
func (a *autodetectApplication) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/callback" {
		a.verifier, a.state, a.nonce = oauth2.GenerateVerifier(), oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
		http.Redirect(w, r, a.config.AuthCodeURL(a.state, oauth2.S256ChallengeOption(a.verifier), oidc.Nonce(a.nonce)), http.StatusFound)
		return
	}
	saw, err := a.callback(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(saw)
}

func (a *autodetectApplication) callback(r *http.Request) (saw applicationSaw, err error) {
	if r.FormValue("state") != a.state {
		return saw, errors.New("the answer is for another request")
	}
	token, err := a.config.Exchange(r.Context(), r.FormValue("code"), oauth2.VerifierOption(a.verifier))
	if err != nil {
		return saw, err
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := a.provider.Verifier(&oidc.Config{ClientID: a.config.ClientID}).Verify(r.Context(), raw)
	if err != nil {
		return saw, err
	}
	if saw.Name, saw.Handle, err = a.person(r, token); err != nil {
		return saw, err
	}
	saw.Sub = id.Subject
	refreshed, err := a.config.TokenSource(r.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	if err != nil {
		return saw, err
	}
	raw, _ = refreshed.Extra("id_token").(string)
	if id, err = a.provider.Verifier(&oidc.Config{ClientID: a.config.ClientID}).Verify(r.Context(), raw); err != nil {
		return saw, err
	}
	saw.RefreshedSub, saw.Rotated = id.Subject, refreshed.RefreshToken != token.RefreshToken
	saw.RefreshedName, _, err = a.person(r, refreshed)
	return saw, err
}

func (a *autodetectApplication) person(r *http.Request, token *oauth2.Token) (name, handle string, err error) {
	info, err := a.provider.UserInfo(r.Context(), oauth2.StaticTokenSource(token))
	if err != nil {
		return "", "", err
	}
	var claims struct {
		Name   string `json:"name"`
		Handle string `json:"preferred_username"`
	}
	err = info.Claims(&claims)
	return claims.Name, claims.Handle, err
}

func TestGoOIDCNeverFailsWhileItDetectsTheAuthenticationMethod(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	u := s.addUser("ada")
	p, err := oidc.NewProvider(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{provider.AuthAny, provider.AuthBasic, provider.AuthPost, provider.AuthNone} {
		t.Run(method, func(t *testing.T) {
			app := &autodetectApplication{provider: p}
			listener := httptest.NewServer(app)
			t.Cleanup(listener.Close)
			here := registeredApp{URL: strings.Replace(listener.URL, "127.0.0.1", "localhost", 1)}
			secret := s.addClient("go-"+method, func(c *provider.Client) {
				c.AuthMethod, c.RedirectURIs = method, []string{here.URL + "/callback"}
			})
			app.config = oauth2.Config{
				ClientID: "go-" + method, ClientSecret: secret, Endpoint: p.Endpoint(), RedirectURL: here.URL + "/callback",
				Scopes: []string{"openid", "profile", "offline_access"},
			}
			app.config.Endpoint.AuthStyle = oauth2.AuthStyleAutoDetect
			want := applicationSaw{Sub: u.Sub, Name: "Ada", Handle: "ada", RefreshedSub: u.Sub, RefreshedName: "Ada", Rotated: true}
			if diff := cmp.Diff(want, here.seen(t, s.browser().visit(here.URL+"/", "ada"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

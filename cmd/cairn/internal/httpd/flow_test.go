package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/net/html"
	"golang.org/x/oauth2"
)

// relyingParty is somebody else's client code: go-oidc and x/oauth2.
type relyingParty struct {
	t        *testing.T
	provider *oidc.Provider
	config   oauth2.Config
	verifier string
	state    string
	nonce    string
}

func (s *service) relyingParty(id, secret string, scopes ...string) *relyingParty {
	s.t.Helper()
	p, err := oidc.NewProvider(s.t.Context(), s.URL)
	if err != nil {
		s.t.Fatalf("discovery: %v", err)
	}
	if scopes == nil {
		scopes = []string{"openid", "profile", "email", "groups", "offline_access"}
	}
	return &relyingParty{t: s.t, provider: p, verifier: oauth2.GenerateVerifier(), state: "state-0123456789", nonce: "nonce-0123456789", config: oauth2.Config{
		ClientID: id, ClientSecret: secret, Endpoint: p.Endpoint(), RedirectURL: callbackOf(id), Scopes: scopes,
	}}
}

// authURL is the authorization request with PKCE, state and nonce; more adds
// or replaces parameters, an empty value removes one.
func (rp *relyingParty) authURL(more ...string) string {
	u, err := url.Parse(rp.config.AuthCodeURL(rp.state, oauth2.S256ChallengeOption(rp.verifier), oidc.Nonce(rp.nonce)))
	if err != nil {
		rp.t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] == "" {
			q.Del(more[i])
			continue
		}
		q.Set(more[i], more[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// authorize plays the person: follows redirects, fills the sign-in form, allows
// on the consent page, until the answer for the client arrives.
func (b *browser) authorize(authURL, handle string) url.Values {
	b.t.Helper()
	got := b.get(authURL)
	for range 12 {
		switch {
		case got.StatusCode == http.StatusSeeOther:
			next := got.Header.Get("Location")
			if !strings.HasPrefix(next, "/") && !strings.HasPrefix(next, b.base+"/") {
				u, err := url.Parse(next)
				if err != nil {
					b.t.Fatal(err)
				}
				return u.Query()
			}
			got = b.get(next)
		case got.StatusCode != http.StatusOK:
			b.t.Fatalf("%s: %d %.400s", got.Request.URL.Path, got.StatusCode, got.Text)
		default:
			f := pageForm(b.t, got.Text)
			switch pageName(b.t, got.Text) {
			case "login":
				f.values.Set("handle", handle)
				f.values.Set("password", password)
			case "consent":
				f.values.Set("decision", "allow")
			default:
				b.t.Fatalf("unexpected page %q: %.600s", pageName(b.t, got.Text), got.Text)
			}
			got = b.postForm(f.action, f.values)
		}
	}
	b.t.Fatal("the authorization never ended")
	return nil
}

// exchange spends the code.
func (rp *relyingParty) exchange(code string) (*oauth2.Token, error) {
	return rp.config.Exchange(rp.t.Context(), code, oauth2.VerifierOption(rp.verifier))
}

// idToken verifies the ID token of an answer as the client would.
func (rp *relyingParty) idToken(token *oauth2.Token) *oidc.IDToken {
	rp.t.Helper()
	raw, _ := token.Extra("id_token").(string)
	t, err := rp.provider.Verifier(&oidc.Config{ClientID: rp.config.ClientID}).Verify(rp.t.Context(), raw)
	if err != nil {
		rp.t.Fatalf("ID token: %v", err)
	}
	return t
}

// signedInTokens is the whole way for a test that starts behind it.
func (s *service) signedInTokens(rp *relyingParty, handle string) (*browser, *oauth2.Token) {
	s.t.Helper()
	b := s.browser()
	answer := b.authorize(rp.authURL(), handle)
	token, err := rp.exchange(answer.Get("code"))
	if err != nil {
		s.t.Fatalf("exchange: %v", err)
	}
	return b, token
}

// form is the first form of a page that has fields.
type form struct {
	action string
	values url.Values
}

func pageForm(t *testing.T, page string) form {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	f := form{values: url.Values{}}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "form" && f.action == "" && attribute(n, "method") != "" {
			f.action = attribute(n, "action")
			for in := range n.Descendants() {
				if in.Type == html.ElementNode && in.Data == "input" && attribute(in, "name") != "" {
					f.values.Set(attribute(in, "name"), attribute(in, "value"))
				}
			}
		}
	}
	if f.action == "" {
		t.Fatalf("no form on the page: %.600s", page)
	}
	return f
}

// pageName is the data-page of the body.
func pageName(t *testing.T, page string) string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "body" {
			return attribute(n, "data-page")
		}
	}
	return ""
}

// mainOf is the part of a page that is not the same on all.
func mainOf(page string) string {
	_, rest, _ := strings.Cut(page, "<main")
	return rest
}

// elementByID is nil when the page has no such element.
func elementByID(t *testing.T, page, id string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && attribute(n, "id") == id {
			return n
		}
	}
	return nil
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

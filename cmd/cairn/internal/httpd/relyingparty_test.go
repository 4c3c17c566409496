package httpd

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	ua "github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/provider"
)

// relyingParty is somebody else's client code: go-oidc and x/oauth2.
type relyingParty struct {
	t        *testing.T
	service  *service
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
	return &relyingParty{t: s.t, service: s, provider: p, verifier: oauth2.GenerateVerifier(), state: "state-0123456789", nonce: "nonce-0123456789", config: oauth2.Config{
		ClientID: id, ClientSecret: secret, Endpoint: p.Endpoint(), RedirectURL: callbackOf(id), Scopes: scopes,
	}}
}

// app registers a client and is its relying party.
func (s *service) app(id string, change func(*provider.Client), scopes ...string) *relyingParty {
	s.t.Helper()
	return s.relyingParty(id, s.addClient(id, change), scopes...)
}

// authURL is the authorization request with PKCE, state and nonce; more adds
// or replaces parameters, an empty value removes one.
func (rp *relyingParty) authURL(more ...string) string {
	u, err := url.Parse(rp.config.AuthCodeURL(rp.state, oauth2.S256ChallengeOption(rp.verifier), oidc.Nonce(rp.nonce)))
	noError(rp.t, err)
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
	return answered(b.t, b.follow(b.get(authURL), handle))
}

// follow plays the person from an answer on: it signs in and allows, until
// something else than our own pages and redirects comes.
func (b *browser) follow(got response, handle string) response {
	b.t.Helper()
	return b.fill(12, got, answersOf(handle, "allow"))
}

// answersOf fills in the forms of the service: they sign in and decide; without a handle or decision they stop
// before it.
func answersOf(handle, decision string) func(string, *ua.Form) bool {
	return func(page string, f *ua.Form) bool {
		switch page {
		case "login":
			f.Values.Set("handle", handle)
			f.Values.Set("password", password)
		case "consent":
			f.Values.Set("decision", decision)
		}
		return page == "login" && handle != "" || page == "consent" && decision != ""
	}
}

// fill follows an answer over so many pages and redirects, whose forms somebody fills in.
func (b *browser) fill(pages int, got response, by func(string, *ua.Form) bool) response {
	b.t.Helper()
	_, ended := ua.Follow(got.answer(), pages, b.base, by, func(path string, form url.Values) ua.Answer {
		if form == nil {
			got = b.get(path)
		} else {
			got = b.postForm(path, form)
		}
		return got.answer()
	})
	if !ended {
		b.t.Fatal("the authorization never ended")
	}
	return got
}

// answerOf returns what the client gets: by redirect, in the query or the fragment, or by the form of form_post.
func answerOf(t *testing.T, got response) (target string, answer url.Values) {
	t.Helper()
	switch {
	case got.StatusCode == http.StatusSeeOther:
		target, query, inFragment := strings.Cut(got.Header.Get("Location"), "#")
		if !inFragment {
			target, query, _ = strings.Cut(target, "?")
		}
		answer, err := url.ParseQuery(query)
		noError(t, err)
		return target, answer
	case got.StatusCode == http.StatusOK && pageName(t, got.Text) == "form-post":
		f := pageForm(t, got.Text)
		return f.action, f.values
	}
	t.Fatalf("no answer for the client: %d %.300s", got.StatusCode, got.Text)
	return "", nil
}

// answered is the response that the client gets.
func answered(t *testing.T, got response) url.Values {
	t.Helper()
	_, answer := answerOf(t, got)
	return answer
}

// wantAnswer checks that an answer has a code, or the error, and never both.
func wantAnswer(t *testing.T, what string, answer url.Values, want string) {
	t.Helper()
	if want == "code" && answer.Get("code") == "" || want != "code" && (answer.Get("error") != want || answer.Has("code")) {
		t.Errorf("%s: %v, want %s", what, answer, want)
	}
}

// continuation is the sealed request in the address of our own page.
func continuationOf(t *testing.T, got response, path string) string {
	t.Helper()
	next, err := url.Parse(got.Header.Get("Location"))
	if err != nil || got.StatusCode != http.StatusSeeOther || next.Path != path || next.Host != "" {
		t.Fatalf("%d to %q, want %s", got.StatusCode, got.Header.Get("Location"), path)
	}
	return next.Query().Get("continue")
}

// consentPageOf is the page a request ends on, or nil when none is shown.
func consentPageOf(b *browser, authURL string) *response {
	b.t.Helper()
	got := b.get(authURL)
	if next := got.Header.Get("Location"); !strings.HasPrefix(next, "/") || !strings.Contains(next, "/oauth2/consent?") {
		return nil
	}
	got = b.get(got.Header.Get("Location"))
	return &got
}

// consentPage follows an authorization request of a signed-in browser to the page.
func (b *browser) consentPage(authURL string) response {
	b.t.Helper()
	return b.opened(authURL, "consent")
}

// decide sends the form of a consent page and returns where the browser is sent then.
func (b *browser) decide(page response, decision string) string {
	b.t.Helper()
	return b.send(page, "decision", decision).Header.Get("Location")
}

// allow sends the form of a consent page with these optional scopes alone.
func (b *browser) allow(page response, scopes ...string) response {
	b.t.Helper()
	f := pageForm(b.t, page.Text)
	f.values["decision"], f.values["scope"] = []string{"allow"}, scopes
	return b.postForm(f.action, f.values)
}

// codeForm is the exchange of a code as the client would do it.
func (rp *relyingParty) codeForm(code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {rp.config.RedirectURL}, "code_verifier": {rp.verifier}}
}

// exchange spends the code.
func (rp *relyingParty) exchange(code string) (*oauth2.Token, error) {
	return rp.config.Exchange(rp.t.Context(), code, oauth2.VerifierOption(rp.verifier))
}

// idToken verifies the ID token of an answer as the client would.
func (rp *relyingParty) idToken(token *oauth2.Token) *oidc.IDToken {
	rp.t.Helper()
	raw := rawIDToken(token)
	t, err := rp.provider.Verifier(&oidc.Config{ClientID: rp.config.ClientID}).Verify(rp.t.Context(), raw)
	if err != nil {
		rp.t.Fatalf("ID token: %v", err)
	}
	return t
}

// rawIDToken is the ID token of an answer, as it came.
func rawIDToken(token *oauth2.Token) string {
	raw, _ := token.Extra("id_token").(string)
	return raw
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

// clientPost posts a form to an endpoint for clients: with basic
// authentication, or with the id alone where there is no secret.
func (s *service) clientPost(endpoint, id, secret string, form url.Values, header ...string) response {
	s.t.Helper()
	sent := url.Values{}
	for name, values := range form {
		sent[name] = values
	}
	if secret != "" {
		r, _ := http.NewRequest(http.MethodPost, s.URL, nil)
		r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		header = append([]string{"Authorization", r.Header.Get("Authorization")}, header...)
	} else if id != "" {
		sent.Set("client_id", id)
	}
	return s.browser().do(http.MethodPost, "/oauth2/"+endpoint, "application/x-www-form-urlencoded", sent.Encode(), header...)
}

func (s *service) tokenRequest(id, secret string, form url.Values) response {
	s.t.Helper()
	return s.clientPost("token", id, secret, form)
}

func (s *service) refreshRequest(id, secret, token string) response {
	s.t.Helper()
	return s.tokenRequest(id, secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// post sends a form to an endpoint for clients as this client.
func (rp *relyingParty) post(endpoint string, form url.Values) response {
	rp.t.Helper()
	return rp.service.clientPost(endpoint, rp.config.ClientID, rp.config.ClientSecret, form)
}

func (rp *relyingParty) token(form url.Values) response { rp.t.Helper(); return rp.post("token", form) }

func (rp *relyingParty) redeem(code string) response {
	rp.t.Helper()
	return rp.token(rp.codeForm(code))
}

func (rp *relyingParty) refresh(token string) response {
	rp.t.Helper()
	return rp.service.refreshRequest(rp.config.ClientID, rp.config.ClientSecret, token)
}

func (rp *relyingParty) revoke(token string) response {
	rp.t.Helper()
	return rp.post("revoke", url.Values{"token": {token}})
}

func (rp *relyingParty) introspect(token string) map[string]any {
	rp.t.Helper()
	return rp.service.introspect(rp.config.ClientID, rp.config.ClientSecret, token)
}

func (s *service) introspect(id, secret, token string) map[string]any {
	s.t.Helper()
	got := s.clientPost("introspect", id, secret, url.Values{"token": {token}})
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("introspect: %d %v %s", got.StatusCode, got.Header, got.Text)
	}
	return got.JSON(s.t)
}

func (s *service) wantInactive(what string, answer map[string]any) {
	s.t.Helper()
	if diff := cmp.Diff(map[string]any{"active": false}, answer); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func wantRevoked(t *testing.T, what string, got response) {
	t.Helper()
	if got.StatusCode != http.StatusOK || got.Text != "{}\n" || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: %d %s, Cache-Control %q", what, got.StatusCode, got.Text, got.Header.Get("Cache-Control"))
	}
}

func wantOAuthError(t *testing.T, what string, got response, status int, name string) {
	t.Helper()
	if got.StatusCode != status || got.JSON(t)["error"] != name {
		t.Errorf("%s: %d %s, want %d %s", what, got.StatusCode, strings.TrimSpace(got.Text), status, name)
	}
	same(t, what+": Cache-Control", got.Header.Get("Cache-Control"), "no-store")
}

func wantUnavailable(t *testing.T, what string, got response) {
	t.Helper()
	wantOAuthError(t, what, got, http.StatusServiceUnavailable, "temporarily_unavailable")
	if got.Header.Get("Retry-After") == "" || got.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("%s: Retry-After %q, WWW-Authenticate %q", what, got.Header.Get("Retry-After"), got.Header.Get("WWW-Authenticate"))
	}
	if strings.Contains(got.Text, "disk on fire") || strings.Contains(got.Text, "closed") {
		t.Errorf("%s tells of the database: %s", what, got.Text)
	}
}

// wantInvalidGrant is the answer to a code or refresh token that is not good, or not any more.
func wantInvalidGrant(t *testing.T, what string, got response) {
	t.Helper()
	wantOAuthError(t, what, got, 400, "invalid_grant")
}

func (s *service) userinfoStatus(token string) int {
	s.t.Helper()
	return s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token).StatusCode
}

func (s *service) userinfo(token string) map[string]any {
	s.t.Helper()
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token)
	if got.StatusCode != http.StatusOK {
		s.t.Fatalf("userinfo: %d %s", got.StatusCode, got.Text)
	}
	return got.JSON(s.t)
}

func (s *service) wantUserinfo(what, token string, status int) {
	s.t.Helper()
	same(s.t, what+": userinfo", s.userinfoStatus(token), status)
}

func keysOf(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

package httpd

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/provider"
)

// scopesShown are those that the consent page asks for.
func scopesShown(t *testing.T, page string) (shown []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if s := attribute(n, "data-scope"); s != "" {
			shown = append(shown, s)
		}
	}
	return shown
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

// Consent is one person's, for one client, for named scopes: remembered for
// those and for nothing more.
func TestConsentNeverReachesFurtherThanItWasGiven(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addUser("bob")
	rp, other := s.relyingParty("app", s.addClient("app", nil)), s.relyingParty("other", s.addClient("other", nil))
	ada, bob := s.browser(), s.browser()
	ada.signIn("ada")
	bob.signIn("bob")
	first := consentPageOf(ada, rp.authURL("scope", "openid profile"))
	if first == nil || !slices.Equal(scopesShown(t, first.Text), []string{"openid", "profile"}) {
		t.Fatal("the first request shows no page, or other scopes")
	}
	ada.authorize(rp.authURL("scope", "openid profile"), "ada")
	for _, scope := range []string{"openid profile", "openid", "profile openid", "openid unknown"} {
		if consentPageOf(ada, rp.authURL("scope", scope)) != nil {
			t.Errorf("asked again for %q", scope)
		}
	}
	for scope, want := range map[string][]string{"openid email": {"email"}, "openid profile offline_access": {"offline_access"}} {
		page := consentPageOf(ada, rp.authURL("scope", scope))
		if page == nil || !slices.Equal(scopesShown(t, page.Text), want) {
			t.Errorf("%s: no page for %v alone", scope, want)
		}
	}
	if page := consentPageOf(ada, rp.authURL("scope", "openid profile", "prompt", "consent")); page == nil || len(scopesShown(t, page.Text)) != 2 {
		t.Error("prompt=consent does not ask for everything again")
	}
	if consentPageOf(bob, rp.authURL("scope", "openid")) == nil {
		t.Error("another person's consent counted")
	}
	if consentPageOf(ada, other.authURL("scope", "openid")) == nil {
		t.Error("consent to another client counted")
	}
	// What was refused is asked for again, and what was allowed before stays.
	page := consentPageOf(ada, rp.authURL("scope", "openid email"))
	f := pageForm(t, page.Text)
	f.values.Set("decision", "deny")
	if _, got := answerOf(t, ada.get(ada.postForm(f.action, f.values).Header.Get("Location"))); got.Get("error") != "access_denied" {
		t.Errorf("refused: %v", got)
	}
	if consentPageOf(ada, rp.authURL("scope", "openid email")) == nil || consentPageOf(ada, rp.authURL("scope", "openid profile")) != nil {
		t.Error("a refusal changed what was allowed before")
	}
	for _, decision := range []string{"", "ALLOW", "allow ", "yes", "1"} {
		f.values.Set("decision", decision)
		if _, got := answerOf(t, ada.get(ada.postForm(f.action, f.values).Header.Get("Location"))); got.Get("error") != "access_denied" {
			t.Errorf("decision %q: %v", decision, got)
		}
	}
}

// A decision is about one request: prompt=consent asks each time, whatever the
// same person has said to another request of the same client and session.
func TestDecisionDoesNotAnswerAnotherRequest(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.signIn("ada")
	ask := func(nonce, decision string) (sealed string, decided url.Values) {
		t.Helper()
		page := consentPageOf(b, rp.authURL("prompt", "consent", "nonce", nonce))
		if page == nil {
			t.Fatal("prompt=consent shows no page")
		}
		f := pageForm(t, page.Text)
		f.values.Set("decision", decision)
		next, err := url.Parse(b.postForm(f.action, f.values).Header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		return f.values.Get("continue"), next.Query()
	}
	_, allowed := ask("first", "allow")
	second, denied := ask("second", "deny")
	for name, decision := range map[string]string{"none": "", "that of the first": allowed.Get("decision"), "the first's continuation": allowed.Get("continue")} {
		got := b.get("/oauth2/authorize?" + url.Values{"continue": {second}, "decision": {decision}}.Encode())
		if !strings.Contains(got.Header.Get("Location"), "/oauth2/consent?") {
			t.Errorf("%s: %d to %s", name, got.StatusCode, got.Header.Get("Location"))
		}
	}
	got := b.get("/oauth2/authorize?" + url.Values{"continue": allowed["continue"], "decision": denied["decision"]}.Encode())
	if !strings.Contains(got.Header.Get("Location"), "/oauth2/consent?") {
		t.Errorf("the refusal of the second at the first: %d to %s", got.StatusCode, got.Header.Get("Location"))
	}
	if _, answer := answerOf(t, b.get("/oauth2/authorize?"+allowed.Encode())); answer.Get("code") == "" {
		t.Errorf("its own decision: %v", answer)
	}
}

// Pitfall 28: without offline_access allowed there is no refresh token, and no
// client gets more than its registration names.
func TestRefreshTokenIsNeverGivenUnasked(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	all := s.addClient("all", nil)
	few := s.addClient("few", func(c *provider.Client) { c.Scopes = []string{"openid", "profile"} })
	trusted := s.addClient("trusted", func(c *provider.Client) { c.Trusted = true })
	for _, c := range []struct {
		id, secret, scope string
		want              bool
	}{
		{"all", all, "openid", false}, {"all", all, "openid offline_access", true}, {"all", all, "openid offline", false}, {"few", few, "openid offline_access", false}, {"trusted", trusted, "openid", false}, {"trusted", trusted, "openid offline_access", true},
	} {
		rp := s.relyingParty(c.id, c.secret)
		answer := s.browser().authorize(rp.authURL("scope", c.scope), "ada")
		got := s.tokenRequest(c.id, c.secret, rp.codeForm(answer.Get("code"))).JSON(t)
		if _, there := got["refresh_token"]; there != c.want {
			t.Errorf("%s asking for %q: refresh token %v", c.id, c.scope, there)
		}
		if granted, _ := got["scope"].(string); strings.Contains(granted, "offline_access") != c.want {
			t.Errorf("%s: scope %q", c.id, granted)
		}
	}
}

// A signed-out browser loses what only the session carried and every code that
// waits, and keeps the tokens that the person allowed for the time away.
func TestSignOutNeverLeavesOnlineTokensAlive(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	access := func(scope string) (map[string]any, string) {
		code := b.authorize(rp.authURL("scope", scope), "ada").Get("code")
		pending := b.authorize(rp.authURL("scope", scope), "ada").Get("code")
		return s.tokenRequest("app", secret, rp.codeForm(code)).JSON(t), pending
	}
	offline, offlineCode := access("openid offline_access")
	online, onlineCode := access("openid")
	if err := statusOf(b.api("POST", "/api/auth/logout", nil), http.StatusOK); err != nil {
		t.Fatal(err)
	}
	if got := s.userinfoStatus(online["access_token"].(string)); got != http.StatusUnauthorized {
		t.Errorf("online access token: %d", got)
	}
	wantOAuthError(t, "online code", s.tokenRequest("app", secret, rp.codeForm(onlineCode)), http.StatusBadRequest, "invalid_grant")
	if got := s.userinfoStatus(offline["access_token"].(string)); got != http.StatusOK {
		t.Errorf("offline access token: %d", got)
	}
	if got := s.refreshRequest("app", secret, offline["refresh_token"].(string)); got.StatusCode != http.StatusOK {
		t.Errorf("offline refresh token: %d", got.StatusCode)
	}
	wantOAuthError(t, "offline code", s.tokenRequest("app", secret, rp.codeForm(offlineCode)), http.StatusBadRequest, "invalid_grant")
	if _, got := answerOf(t, b.get(rp.authURL("prompt", "none"))); got.Get("error") != "login_required" {
		t.Errorf("authorize: %v", got)
	}
}

// The person who started a request is not the one who finishes it: each step is
// bound to the session that takes it (login CSRF, consent fixation).
func TestRequestOfAnotherBrowserNeverCarriesItsConsent(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addUser("eve")
	rp := s.relyingParty("app", s.addClient("app", nil))
	eve, ada := s.browser(), s.browser()
	eve.signIn("eve")
	ada.signIn("ada")
	page := consentPageOf(eve, rp.authURL())
	f := pageForm(t, page.Text)
	f.values.Set("decision", "allow")
	decided := eve.postForm(f.action, f.values).Header.Get("Location")
	// Eve's decision in Ada's browser: Ada is asked herself.
	if got := ada.get(decided); !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/consent?") {
		t.Errorf("eve's decision for ada: %s", got.Header.Get("Location"))
	}
	// Nor in a browser where nobody is signed in.
	if got := s.browser().get(decided); !strings.HasPrefix(got.Header.Get("Location"), "/login/") {
		t.Errorf("eve's decision for nobody: %s", got.Header.Get("Location"))
	}
	// Eve's own, after she signed out and in again: another session.
	eve.api("POST", "/api/auth/logout", nil)
	eve.signIn("eve")
	next, _ := url.Parse(decided)
	bare := url.Values{"continue": next.Query()["continue"], "decision": {next.Query().Get("decision") + "x"}}
	if got := eve.get("/oauth2/authorize?" + bare.Encode()); !strings.Contains(got.Header.Get("Location"), "code=") {
		t.Errorf("stored consent, broken decision: %s", got.Header.Get("Location"))
	}
	if _, got := answerOf(t, ada.get(rp.authURL("prompt", "none"))); got.Get("error") != "consent_required" {
		t.Errorf("ada has consented: %v", got)
	}
	// A posted sign-in of another site is refused before it is read.
	got := ada.postForm("/login/", url.Values{"handle": {"eve"}, "password": {password}, "continue": next.Query()["continue"]}, "Sec-Fetch-Site", "cross-site")
	if got.StatusCode != http.StatusForbidden || len(got.Header.Values("Set-Cookie")) > 0 {
		t.Errorf("login CSRF: %d", got.StatusCode)
	}
}

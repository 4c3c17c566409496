package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// scopesShown are those that the consent page asks for.
func scopesShown(t *testing.T, page string) (shown []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	noError(t, err)
	for n := range doc.Descendants() {
		if s := attribute(n, "data-scope"); s != "" {
			shown = append(shown, s)
		}
	}
	return shown
}

// Consent is one person's, for one client, for named scopes: remembered for
// those and for nothing more.
func TestConsentReachesAsFarAsItWasGiven(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada", "bob")
	rp, other := s.app("app", nil), s.app("other", nil)
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
	const news = "Now it asks for more"
	if page := consentPageOf(ada, rp.authURL("scope", "profile openid", "prompt", "consent")); page == nil || strings.Contains(page.Text, news) || !slices.Equal(scopesShown(t, page.Text), []string{"openid", "profile"}) {
		t.Error("prompt=consent does not ask for everything again, names it in another order, or calls it new")
	}
	has(t, "what is new is not called so", consentPageOf(ada, rp.authURL("scope", "openid email")).Text, news)
	if consentPageOf(bob, rp.authURL("scope", "openid")) == nil {
		t.Error("another person's consent counted")
	}
	if consentPageOf(ada, other.authURL("scope", "openid")) == nil {
		t.Error("consent to another client counted")
	}
	// What was refused is asked for again, and what was allowed before stays.
	page := consentPageOf(ada, rp.authURL("scope", "openid email"))
	wantAnswer(t, "refused", answered(t, ada.get(ada.decide(*page, "deny"))), "access_denied")
	if consentPageOf(ada, rp.authURL("scope", "openid email")) == nil || consentPageOf(ada, rp.authURL("scope", "openid profile")) != nil {
		t.Error("a refusal changed what was allowed before")
	}
	for _, decision := range []string{"", "ALLOW", "allow ", "yes", "1"} {
		got := answered(t, ada.get(ada.decide(*page, decision)))
		same(t, fmt.Sprintf("decision %q: %v", decision, got), got.Get("error"), "access_denied")
	}
}

// A decision is about one request: prompt=consent asks each time, whatever the
// same person has said to another request of the same client and session.
func TestDecisionDoesNotAnswerAnotherRequest(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.signedIn("ada")
	ask := func(nonce, decision string) (sealed string, decided url.Values) {
		t.Helper()
		page := consentPageOf(b, rp.authURL("prompt", "consent", "nonce", nonce))
		if page == nil {
			t.Fatal("prompt=consent shows no page")
		}
		next, err := url.Parse(b.decide(*page, decision))
		noError(t, err)
		return pageForm(t, page.Text).values.Get("continue"), next.Query()
	}
	_, allowed := ask("first", "allow")
	second, denied := ask("second", "deny")
	for name, decision := range map[string]string{"none": "", "that of the first": allowed.Get("decision"), "the first's continuation": allowed.Get("continue")} {
		got := b.get("/oauth2/authorize?" + url.Values{"continue": {second}, "decision": {decision}}.Encode())
		has(t, fmt.Sprintf("%s: %d", name, got.StatusCode), got.Header.Get("Location"), "/oauth2/consent?")
	}
	got := b.get("/oauth2/authorize?" + url.Values{"continue": allowed["continue"], "decision": denied["decision"]}.Encode())
	has(t, fmt.Sprintf("the refusal of the second at the first: %d", got.StatusCode),
		got.Header.Get("Location"), "/oauth2/consent?")
	wantAnswer(t, "its own decision", answered(t, b.get("/oauth2/authorize?"+allowed.Encode())), "code")
}

// Attack 90: consent by GET, by parameter, with another user's form, or with a
// decision made for another request.
func TestConsentIsGivenByItsOwnForm(t *testing.T) {
	s := startService(t, serviceOptions{})
	ada := s.addUser("ada")
	s.addUser("eve")
	rp := s.app("app", nil)
	consentForm := func(handle string, change ...string) (*browser, form) {
		b := s.signedIn(handle)
		got := b.get(b.get(rp.authURL(change...)).Header.Get("Location"))
		if pageName(t, got.Text) != "consent" {
			t.Fatalf("page %q", pageName(t, got.Text))
		}
		return b, pageForm(t, got.Text)
	}
	victim, mine := consentForm("ada")
	_, hers := consentForm("eve")
	mine.values.Set("decision", "allow")
	if got := victim.get(mine.action + "?" + mine.values.Encode()); got.StatusCode == http.StatusSeeOther {
		t.Error("consent by GET")
	}
	lacks(t, "consent by a parameter", victim.get(rp.authURL("decision", "allow")).Header.Get("Location"), "code=")
	hers.values.Set("decision", "allow")
	wantStatus(t, "another user's form", victim.postForm(hers.action, hers.values), http.StatusForbidden)
	wantStatus(t, "cross-site", victim.postForm(mine.action, mine.values, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), http.StatusForbidden)
	had, err := s.store.ConsentedScopes(t.Context(), ada.Sub, "app")
	if err != nil || had != nil {
		t.Errorf("consent was stored: %v %v", had, err)
	}
	_, other := consentForm("ada", "scope", "openid")
	mixed := url.Values{"continue": other.values["continue"], "token": mine.values["token"], "decision": {"allow"}}
	wantStatus(t, "another request's form", victim.postForm(mine.action, mixed), http.StatusForbidden)
	// Denying is an answer for the client; allowing works once all is right.
	deny := url.Values{"continue": mine.values["continue"], "token": mine.values["token"], "decision": {"deny"}}
	got := victim.get(victim.postForm(mine.action, deny).Header.Get("Location"))
	has(t, "denied", got.Header.Get("Location"), "error=access_denied")
	has(t, "allowed",
		victim.get(victim.postForm(mine.action, mine.values).Header.Get("Location")).Header.Get("Location"), "code=")
}

// The person who started a request is not the one who finishes it: each step is
// bound to the session that takes it (login CSRF, consent fixation).
func TestConsentOfAnotherBrowserDoesNotCount(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada", "eve")
	rp := s.app("app", nil)
	eve, ada := s.browser(), s.browser()
	eve.signIn("eve")
	ada.signIn("ada")
	page := consentPageOf(eve, rp.authURL())
	decided := eve.decide(*page, "allow")
	// Eve's decision in Ada's browser: Ada is asked herself.
	if got := ada.get(decided); !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/consent?") {
		t.Errorf("eve's decision for ada: %s", got.Header.Get("Location"))
	}
	continuationOf(t, s.browser().get(page.Request.URL.RequestURI()), "/oauth2/authorize") // the page needs a session
	// Nor in a browser where nobody is signed in.
	if got := s.browser().get(decided); !strings.HasPrefix(got.Header.Get("Location"), "/login/") {
		t.Errorf("eve's decision for nobody: %s", got.Header.Get("Location"))
	}
	// Eve's own, after she signed out and in again: another session.
	eve.api("POST", "/api/auth/logout", nil)
	eve.signIn("eve")
	next, _ := url.Parse(decided)
	bare := url.Values{"continue": next.Query()["continue"], "decision": {next.Query().Get("decision") + "x"}}
	has(t, "stored consent, broken decision",
		eve.get("/oauth2/authorize?"+bare.Encode()).Header.Get("Location"), "code=")
	wantAnswer(t, "ada has consented", answered(t, ada.get(rp.authURL("prompt", "none"))), "consent_required")
	// A posted sign-in of another site is refused before it is read.
	got := ada.postForm("/login/", url.Values{"handle": {"eve"}, "password": {password}, "continue": next.Query()["continue"]}, "Sec-Fetch-Site", "cross-site")
	if got.StatusCode != http.StatusForbidden || len(got.Header.Values("Set-Cookie")) > 0 {
		t.Errorf("login CSRF: %d", got.StatusCode)
	}
}

// Pitfall 28: without offline_access allowed there is no refresh token, and no
// client gets more than its registration names.
func TestRefreshTokenNeedsOfflineAccess(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
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
		_, there := got["refresh_token"]
		same(t, fmt.Sprintf("%s asking for %q: refresh token", c.id, c.scope), there, c.want)
		granted, _ := got["scope"].(string)
		same(t, fmt.Sprintf("%s: scope %q", c.id, granted), strings.Contains(granted, "offline_access"), c.want)
	}
}

// The address that carries a decision stays in the browser's history. After the
// application was removed it must not let it in again: its tokens would stand in
// no list that the person sees.
func TestOldDecisionDoesNotLetARemovedApplicationIn(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.signedIn("ada")
	decided := b.decide(b.consentPage(rp.authURL()), "allow")
	wantAnswer(t, "allowed", answered(t, b.get(decided)), "code")
	needStatus(t, "remove", b.api("DELETE", "/api/me/apps/app", nil), http.StatusNoContent)
	if got := b.get(decided); !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/consent?") {
		t.Errorf("the old decision: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
	// A request without a scope that is known is agreed to once, and not asked for
	// again and again.
	wantAnswer(t, "consent to nothing", b.authorize(rp.authURL("scope", "unknown"), "ada"), "code")
}

// A signed-out browser loses what only the session carried and every code that
// waits, and keeps the tokens that the person allowed for the time away.
func TestSignOutEndsOnlineTokens(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.browser()
	access := func(scope string) (map[string]any, string) {
		code := b.authorize(rp.authURL("scope", scope), "ada").Get("code")
		pending := b.authorize(rp.authURL("scope", scope), "ada").Get("code")
		return rp.redeem(code).JSON(t), pending
	}
	offline, offlineCode := access("openid offline_access")
	online, onlineCode := access("openid")
	needStatus(t, "", b.api("POST", "/api/auth/logout", nil), http.StatusOK)
	s.wantUserinfo("online access token", online["access_token"].(string), http.StatusUnauthorized)
	wantInvalidGrant(t, "online code", rp.redeem(onlineCode))
	s.wantUserinfo("offline access token", offline["access_token"].(string), http.StatusOK)
	wantStatus(t, "offline refresh token", rp.refresh(offline["refresh_token"].(string)), http.StatusOK)
	wantInvalidGrant(t, "offline code", rp.redeem(offlineCode))
	wantAnswer(t, "authorize", answered(t, b.get(rp.authURL("prompt", "none"))), "login_required")
}

// The page shows the very values that the application would get.
func TestConsentShowsWhatIsGiven(t *testing.T) {
	s := startService(t, serviceOptions{}, "bob")
	s.addUser("ada", account.FlagAdmin, account.FlagActivity)
	b := s.signedIn("ada")
	b.api("PATCH", "/api/me", map[string]any{"display_name": "Ada Lovelace", "email": "ada@example.org", "birthdate": "1815-12-10"})
	plain := s.signedIn("bob")
	s.addClient("roles", func(c *provider.Client) { c.Groups = []string{account.FlagAdmin} })
	rp := s.app("app", nil, "openid", "profile", "email", "groups", "phone", "offline_access")
	for _, k := range []struct {
		name   string
		page   response
		scopes map[string]string
	}{
		{"ada", b.consentPage(rp.authURL()), map[string]string{
			"openid": "Sign you in", "profile": "Your name (Ada Lovelace)Also your user name (ada), birthday", "email": "Your email (ada@example.org)", "groups": "Your groups: activity",
			"phone": "Your phone number (none saved)", "offline_access": "Keep access while you are away",
		}},
		{"bob", plain.consentPage(rp.authURL()), map[string]string{"profile": "Your name (Bob)Also your user name (bob)", "email": "Your " +
			"email (none saved)", "groups": "Your groups: none"}},
		{"the client's own groups", b.consentPage(rp.authURL("client_id", "roles", "redirect_uri", callbackOf("roles"))), map[string]string{"groups": "Your groups: admin"}},
	} {
		got := map[string]string{}
		doc, err := html.Parse(strings.NewReader(k.page.Text))
		noError(t, err)
		for n := range doc.Descendants() {
			if scope := attribute(n, "data-scope"); scope != "" {
				got[scope] = elementText(n)
			}
		}
		for scope, want := range k.scopes {
			same(t, fmt.Sprintf("%s, %s", k.name, scope), got[scope], want)
		}
	}
	if page := b.consentPage(rp.authURL()).Text; strings.Contains(page, "Application id") ||
		!strings.Contains(page[strings.Index(page, `class="fine"`):], "<code>app</code>") {
		t.Errorf("the id is not in the small print: %s", mainOf(page))
	}
}

// Two forms sent at once (a double click): both decisions are taken, neither is
// an error.
func TestDoubleClickOnConsent(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.signedIn("ada")
	page := b.consentPage(rp.authURL())
	for _, got := range together(8, func(int) response { return b.follow(b.send(page, "decision", "allow"), "ada") }) {
		wantStatus(t, "exchange", rp.redeem(answered(t, got).Get("code")), http.StatusOK)
	}
}

// A refusal is one however late, also where another tab has allowed meanwhile.
func TestLateRefusalIsARefusal(t *testing.T) {
	s, rp, later := startWaiting(t, nil)
	b := s.signedIn("ada")
	request := rp.authURL("scope", "openid profile")
	page := b.consentPage(request)
	later(9 * time.Minute)
	wantAnswer(t, "other tab", answered(t, b.get(b.send(b.consentPage(request), "decision", "allow").Header.Get("Location"))), "code")
	later(2 * time.Minute)
	wantAnswer(t, "refused after 11 minutes", answered(t, b.follow(b.send(page, "decision", "deny"), "ada")), "access_denied")
}

// What the page did not show is not agreed to: the person is asked again, with all of it on the page.
func TestAllowIsForWhatThePageShowed(t *testing.T) {
	now, lateby := lateClock()
	s := startService(t, serviceOptions{Now: now})
	ada := s.addUser("ada")
	rp := s.app("app", nil, "openid")
	b := s.signedIn("ada")
	page := b.consentPage(rp.authURL())
	c, err := s.store.Client(t.Context(), "app")
	noError(t, err)
	c.Claims = []string{"born={birthdate}"}
	noError(t, s.store.UpdateClient(t.Context(), c, operator(account.UpdateClient, "app", "")))
	lateby()
	got := b.send(page, "decision", "allow")
	for range 3 {
		if got.StatusCode == http.StatusSeeOther {
			got = b.get(got.Header.Get("Location"))
		}
	}
	if stored, err := s.store.ConsentedScopes(t.Context(), ada.Sub, "app"); err != nil || len(stored) > 0 {
		t.Fatalf("consent to %v, %v", stored, err)
	}
	if shown := scopesShown(t, got.Text); !slices.Contains(shown, "{birthdate}") {
		t.Fatalf("%d, the page shows %v", got.StatusCode, shown)
	}
	wantAnswer(t, "with all on the page", answered(t, b.follow(got, "ada")), "code")
}

// An API of which every scope was left out is not consented to: a request by its URI asks.
func TestAPIWithoutItsScopesIsNotConsentedTo(t *testing.T) {
	s, _, _ := startAPIs(t, serviceOptions{})
	c, err := s.store.Client(t.Context(), "app")
	noError(t, err)
	c.OptionalScopes = []string{"maps"}
	noError(t, s.store.UpdateClient(t.Context(), c, operator(account.UpdateClient, "app", "")))
	rp, b := s.apiApp("app", "openid", "maps"), s.signedIn("ada")
	allowed := b.allow(b.consentPage(rp.authURL()))
	wantAnswer(t, "all of Maps left out", answered(t, b.get(allowed.Header.Get("Location"))), "code")
	wantAnswer(t, "the API by its URI", answered(t, b.get(rp.authURL("scope", "openid", "resource", maps3, "prompt", "none"))), "consent_required")
}

// An application may be for people with a verified address alone: others read what to do, and go on afterwards.
func TestClientRequiresAVerifiedEmail(t *testing.T) {
	s, db, rp := startDatabaseApp(t, func(c *provider.Client) { c.RequireVerifiedEmail = true })
	b := s.browser()
	b.signIn("ada")
	db.exec("UPDATE users SET email = 'ada@example.org', email_verified = 0")
	wantAnswer(t, "silently", answered(t, b.get(rp.authURL("prompt", "none"))), "access_denied")
	page := b.get(rp.authURL())
	text := mainOf(page.Text)
	if page.StatusCode != http.StatusForbidden || !strings.Contains(text, "only for people with a verified email address") ||
		!strings.Contains(text, "An administrator can verify it.") {
		t.Fatalf("%d %s", page.StatusCode, text)
	}
	link := func(id string) string {
		t.Helper()
		return attribute(elementByID(t, page.Text, id), "href")
	}
	again := link("access-denied-again")
	wantAnswer(t, "back", answered(t, b.get(link("access-denied-back"))), "access_denied")
	if got := b.get(again); got.StatusCode != http.StatusForbidden {
		t.Errorf("again: %d to %s", got.StatusCode, got.Header.Get("Location"))
	}
	db.exec("UPDATE users SET email_verified = 1")
	answer := answered(t, b.follow(b.get(again), "ada"))
	wantAnswer(t, "verified meanwhile", answer, "code")
	token, err := rp.exchange(answer.Get("code"))
	noError(t, err)
	db.exec("UPDATE users SET email_verified = 0")
	if got := rp.refresh(token.RefreshToken); got.StatusCode != http.StatusBadRequest {
		t.Errorf("refreshed without the address: %d %s", got.StatusCode, got.Text)
	}
}

// The consent page says what the application will find out: no address, or one that nobody has verified.
func TestConsentSaysThatAnAddressIsNotVerified(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	b := s.browser()
	b.signIn("ada")
	for sql, want := range map[string]string{
		"email = '', email_verified = 0":                "You have no email address here.",
		"email = 'ada@example.org', email_verified = 0": "Your email address is not verified.",
		"email = 'ada@example.org', email_verified = 1": "",
	} {
		db.exec("UPDATE users SET " + sql)
		note := elementByID(t, b.consentPage(rp.authURL("scope", "openid email")).Text, "consent-email")
		if want == "" != (note == nil) || note != nil && !strings.HasPrefix(strings.TrimSpace(elementText(note)), want) {
			t.Errorf("%s: not %q", sql, want)
		}
		if note := elementByID(t, b.consentPage(rp.authURL("scope", "openid profile")).Text, "consent-email"); note != nil {
			t.Errorf("%s: told without a request for it", sql)
		}
	}
}

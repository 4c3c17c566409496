package httpd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/cairn-id/cairn/provider"
)

const (
	afterLogout   = "https://app.example.org/signed-out"
	afterLogoutIn = "https://app.example.org/wp-login.php?loggedout=true&wp_lang={locale}&from=menu"
)

// logoutCase is a signed-in browser with tokens of a client.
type logoutCase struct {
	*service
	t       *testing.T
	rp      *relyingParty
	browser *browser
	hint    string
}

func newLogoutCase(t *testing.T) *logoutCase {
	t.Helper()
	s, rp := startApp(t, func(c *provider.Client) {
		c.PostLogoutRedirectURIs = []string{afterLogout, afterLogout + "?tenant=1", afterLogoutIn}
	})
	b, token := s.signedInTokens(rp, "ada")
	hint := rawIDToken(token)
	return &logoutCase{service: s, t: t, rp: rp, browser: b, hint: hint}
}

func (c *logoutCase) logout(pairs ...string) response {
	c.t.Helper()
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return c.browser.get("/oauth2/logout?" + q.Encode())
}

func (c *logoutCase) signedOut() bool {
	c.t.Helper()
	got := c.browser.authorize(c.rp.authURL("prompt", "none"), "ada")
	switch got.Get("error") {
	case "login_required":
		return true
	case "":
		return false
	}
	c.t.Fatalf("prompt=none: %v", got)
	return false
}

// confirm presses the button of the confirmation page.
func (c *logoutCase) confirm(got response) response {
	c.t.Helper()
	if pageName(c.t, got.Text) != "logout" {
		c.t.Fatalf("%d page %q", got.StatusCode, pageName(c.t, got.Text))
	}
	return c.browser.send(got)
}

// The modules of the RP-initiated logout plan.
func TestOPLogout(t *testing.T) {
	for name, c := range map[string]struct {
		request func(c *logoutCase) []string
		to      string // where the browser is sent; empty: the page that asks; "page": signed out at once
	}{
		"oidcc-rp-initiated-logout": {func(c *logoutCase) []string {
			return []string{"id_token_hint", c.hint, "post_logout_redirect_uri", afterLogout, "state", "s-0123456789 ~.-_"}
		}, afterLogout + "?" + url.Values{"state": {"s-0123456789 ~.-_"}}.Encode()},
		"client_id beside the hint": {func(c *logoutCase) []string {
			return []string{"id_token_hint", c.hint, "client_id", "app", "post_logout_redirect_uri", afterLogout}
		}, afterLogout},
		"no-state": {func(c *logoutCase) []string {
			return []string{"id_token_hint", c.hint, "post_logout_redirect_uri", afterLogout}
		}, afterLogout},
		"no-post-logout-redirect-uri": {func(c *logoutCase) []string { return []string{"id_token_hint", c.hint, "state", "x"} }, "page"},
		"bad-post-logout-redirect-uri": {func(c *logoutCase) []string {
			return []string{"id_token_hint", c.hint, "post_logout_redirect_uri", "https://evil.example/", "state", "x"}
		}, ""},
		"query-added-to-post-logout-redirect-uri": {func(c *logoutCase) []string {
			return []string{"id_token_hint", c.hint, "post_logout_redirect_uri", afterLogout + "?foo=bar"}
		}, ""},
		"modified-id-token-hint": {func(c *logoutCase) []string {
			return []string{"id_token_hint", unsigned(c.hint), "post_logout_redirect_uri", afterLogout}
		}, ""},
		"bad-id-token-hint": {func(c *logoutCase) []string {
			return []string{"id_token_hint", c.symmetric(), "post_logout_redirect_uri", afterLogout}
		}, ""},
		"no-id-token-hint": {func(*logoutCase) []string { return []string{"post_logout_redirect_uri", afterLogout} }, ""},
		"no-params":        {func(*logoutCase) []string { return nil }, ""},
		"only-state":       {func(*logoutCase) []string { return []string{"state", "x"} }, ""},
		"client_id alone": {func(*logoutCase) []string {
			return []string{"client_id", "app", "post_logout_redirect_uri", afterLogout}
		}, ""},
		"garbage": {func(*logoutCase) []string {
			return []string{"id_token_hint", "a.b.c", "post_logout_redirect_uri", "javascript:alert(1)"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := newLogoutCase(t)
			got := k.logout(c.request(k)...)
			if c.to == "" {
				if got.Header.Get("Location") != "" || k.signedOut() {
					t.Fatalf("without a word of the user: %d to %q", got.StatusCode, got.Header.Get("Location"))
				}
				got = k.confirm(got)
			}
			if c.to == "" || c.to == "page" {
				if got.StatusCode != http.StatusOK || pageName(t, got.Text) != "signed-out" {
					t.Errorf("%d page %q", got.StatusCode, pageName(t, got.Text))
				}
			} else if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != c.to {
				t.Errorf("%d to %s, want %s", got.StatusCode, got.Header.Get("Location"), c.to)
			}
			if !k.signedOut() || c.to != "" && k.browser.cookie("cairn_session") != "" {
				t.Error("still signed in")
			}
		})
	}
}

// What is invalid is said, with the choice to sign out here; without a session
// there is nothing to sign out of.
func TestInvalidLogoutRequestSaysWhatIsInvalid(t *testing.T) {
	c := newLogoutCase(t)
	for _, bad := range []struct{ says, hint, uri, clientID string }{
		{"id_token_hint", unsigned(c.hint), afterLogout, ""},
		{"id_token_hint", c.symmetric(), afterLogout, ""},
		{"id_token_hint", c.browser.cookie("cairn_session"), "", ""},
		{"post_logout_redirect_uri", c.hint, "https://evil.example/", ""},
		{"post_logout_redirect_uri", c.hint, afterLogout + "?foo=bar", ""},
		{"post_logout_redirect_uri", "", afterLogout + "/", "app"},
		{"post_logout_redirect_uri", "", "https://evil.example/", ""},
		{"client_id", c.hint, afterLogout, "other"},
		{"client_id", "", afterLogout, "unknown"},
	} {
		pairs := []string{"id_token_hint", bad.hint, "post_logout_redirect_uri", bad.uri, "client_id", bad.clientID, "state", "s"}
		here, nobody := c.logout(pairs...), logoutCase{t: t, browser: c.service.browser()}
		elsewhere := nobody.logout(pairs...)
		for _, got := range []response{here, elsewhere} {
			if got.StatusCode != http.StatusBadRequest || got.Header.Get("Location") != "" ||
				!strings.Contains(got.Text, `role="alert"`) || !strings.Contains(got.Text, bad.says) {
				t.Errorf("%.60s: %d: %s", fmt.Sprint(bad), got.StatusCode, mainOf(got.Text))
			}
		}
		if !strings.Contains(here.Text, "Sign out here") || !strings.Contains(elsewhere.Text, "You are not signed in") {
			t.Errorf("%.60s: no choice to sign out here, or one without a session", fmt.Sprint(bad))
		}
	}
	if c.signedOut() {
		t.Error("a request that is not valid has signed out")
	}
}

func TestLogoutWithoutASessionSaysSo(t *testing.T) {
	c := newLogoutCase(t)
	b := logoutCase{t: t, browser: c.service.browser()}
	for _, got := range []response{b.logout(), b.logout("state", "x"), b.logout("id_token_hint", c.hint), b.browser.postForm("/logout/", nil)} {
		if got.StatusCode != http.StatusOK || !strings.Contains(got.Text, "You are not signed in") {
			t.Errorf("%s: %d %s", got.Request.URL.Path, got.StatusCode, mainOf(got.Text))
		}
	}
	// A genuine hint and a registered address still lead back.
	if got := b.logout("id_token_hint", c.hint, "post_logout_redirect_uri", afterLogout, "state", "x"); got.Header.Get("Location") != afterLogout+"?state=x" {
		t.Errorf("%d to %q", got.StatusCode, got.Header.Get("Location"))
	}
}

// Without a hint a person confirms first; then the page names the application
// and leads to its registered address, with state, and nowhere else.
func TestConfirmedLogoutLeadsBackToTheApplication(t *testing.T) {
	for name, k := range map[string]struct {
		back, label string
		pairs       []string
	}{
		"client_id":       {afterLogout + "?state=a%26b", "Back to <bdi>App app</bdi>", []string{"client_id", "app", "post_logout_redirect_uri", afterLogout, "state", "a&b"}},
		"unregistered":    {"", "", []string{"client_id", "app", "post_logout_redirect_uri", "https://evil.example/"}},
		"nobody says who": {afterLogout + "?state=s", "Back to <bdi>App app</bdi>", []string{"post_logout_redirect_uri", afterLogout, "state", "s"}},
		"nothing":         {"", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLogoutCase(t)
			after := c.confirm(c.logout(k.pairs...))
			back := elementByID(t, after.Text, "signed-out-back")
			if (k.back == "") != (back == nil) || back != nil && attribute(back, "href") != k.back || !strings.Contains(after.Text, k.label) || !c.signedOut() {
				t.Errorf("want a way back to %q: %s", k.back, mainOf(after.Text))
			}
			same(t, "two buttons to sign in again, or none", strings.Count(after.Text, "Sign in again"), 1)
		})
	}
}

// WordPress sends the language of the person: that one value of the registered address may be any, and nothing else.
func TestOneValueOfAPostLogoutAddressIsALanguage(t *testing.T) {
	c := newLogoutCase(t)
	b := logoutCase{t: t, browser: c.service.browser()}
	for _, k := range []struct {
		locale string
		fits   bool
	}{
		{"de_DE", true}, {"pt-BR", true}, {"en", true}, {"e", false}, {"de_DE_formal", false}, {"", false}, {"{locale}", false},
		{"de&wp_lang=en", false}, {"de%20", false}, {"de#", false}, {"d3", false}, {"de\n", false},
	} {
		uri := strings.Replace(afterLogoutIn, "{locale}", k.locale, 1)
		got := b.logout("id_token_hint", c.hint, "post_logout_redirect_uri", uri)
		if to := got.Header.Get("Location"); k.fits && to != uri || !k.fits && (to != "" || got.StatusCode != http.StatusBadRequest) {
			t.Errorf("%q: %d to %q", k.locale, got.StatusCode, to)
		}
	}
	for _, uri := range []string{strings.Replace(afterLogoutIn, "{locale}&from=menu", "en", 1), "en&from=menu"} {
		wantStatus(t, uri, b.logout("id_token_hint", c.hint, "post_logout_redirect_uri", uri), http.StatusBadRequest)
	}
}

// An ID token lives an hour, a session 30 days: an expired hint is still one. A logout
// token is signed with the same key and is no hint.
func TestExpiredHintIsAHintAtLogout(t *testing.T) {
	c := newLogoutCase(t)
	claims := jwtPayload(t, c.hint)
	claims["iat"], claims["exp"] = time.Now().Add(-48*time.Hour).Unix(), time.Now().Add(-47*time.Hour).Unix()
	if got := c.logout("id_token_hint", signedAs(t, c.key, "", "logout+jwt", claims), "post_logout_redirect_uri",
		afterLogout); got.Header.Get("Location") != "" || c.signedOut() {
		t.Errorf("logout token as hint: %d", got.StatusCode)
	}
	if got := c.logout("id_token_hint", signedBy(t, c.key, "", claims), "post_logout_redirect_uri",
		afterLogout); got.Header.Get("Location") != afterLogout || !c.signedOut() {
		t.Errorf("expired hint: %d to %q", got.StatusCode, got.Header.Get("Location"))
	}
}

// Another person's hint must not sign this one out, nor lead the browser away.
func TestHintOfSomebodyElseSignsNobodyOut(t *testing.T) {
	c := newLogoutCase(t)
	c.addUser("eve")
	_, token := c.signedInTokens(c.rp, "eve")
	hint := rawIDToken(token)
	got := c.logout("id_token_hint", hint, "post_logout_redirect_uri", afterLogout)
	if got.Header.Get("Location") != "" || got.StatusCode != http.StatusBadRequest || !strings.Contains(got.Text, "a different account") || c.signedOut() {
		t.Errorf("%d to %q: %s", got.StatusCode, got.Header.Get("Location"), mainOf(got.Text))
	}
}

func TestLogoutFormOfAnotherSession(t *testing.T) {
	c := newLogoutCase(t)
	c.addUser("eve")
	eve := c.service.browser()
	eve.signIn("eve")
	if got := c.browser.send(eve.get("/oauth2/logout")); got.StatusCode != http.StatusForbidden || c.signedOut() {
		t.Errorf("another session's form: %d", got.StatusCode)
	}
	if got := c.service.browser().send(eve.get("/oauth2/logout")); got.StatusCode != http.StatusOK || !strings.Contains(got.Text, "You are not signed in") {
		t.Errorf("without a session: %d", got.StatusCode)
	}
	// A POST of another site reaches the confirmation page at most.
	got := c.browser.postForm("/oauth2/logout", url.Values{"state": {"x"}}, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")
	if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/logout?") || c.signedOut() {
		t.Errorf("cross-site POST: %d %q", got.StatusCode, got.Header.Get("Location"))
	}
	wantStatus(t, "a parameter twice", c.browser.get("/oauth2/logout?state=a&state=b"), http.StatusBadRequest)
}

// A form of another site arrives without the cookie (SameSite=Lax). An answer
// that clears the cookie would sign the person out all the same.
func TestForeignFormSignsNobodyOut(t *testing.T) {
	s := startService(t, serviceOptions{})
	for _, confirm := range []string{"1", "a.b"} {
		got := s.browser().postForm("/oauth2/logout", url.Values{"confirm": {confirm}}, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		if got.StatusCode != http.StatusOK && got.StatusCode != http.StatusForbidden {
			t.Errorf("confirm=%s: %d", confirm, got.StatusCode)
		}
		set := got.Header.Values("Set-Cookie")
		same(t, fmt.Sprintf("confirm=%s: a foreign form clears the cookie: %q", confirm, set), len(set), 0)
	}
}

// unsigned makes the token one of alg none.
func unsigned(token string) string {
	return reheaded(token[:strings.LastIndex(token, ".")+1], `{"alg":"none","typ":"JWT"}`)
}

// symmetric is a hint signed with the client's secret.
func (c *logoutCase) symmetric() string {
	return symmetricJWT(c.t, []byte(c.rp.config.ClientSecret), map[string]any{"iss": "app", "aud": c.URL, "sub": "ada", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
}

// receiver is a client's back-channel logout endpoint.
type receiver struct {
	*httptest.Server
	tokens chan string
	status atomic.Int32 // what it answers
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{tokens: make(chan string, 64)}
	r.status.Store(http.StatusOK)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := req.ParseForm(); err != nil || req.Method != http.MethodPost || len(req.PostForm) != 1 || req.URL.RawQuery != "" {
			t.Errorf("%s %s with %d fields: %v", req.Method, req.URL, len(req.PostForm), err)
		}
		same(t, "Content-Type", req.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
		w.WriteHeader(int(r.status.Load()))
		r.tokens <- req.PostForm.Get("logout_token")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) wait(t *testing.T) string {
	t.Helper()
	select {
	case token := <-r.tokens:
		return token
	case <-time.After(15 * time.Second):
		t.Fatal("no logout token arrived")
		return ""
	}
}

func (s *service) backchannelClient(id string, r *receiver) string {
	return s.addClient(id, func(c *provider.Client) {
		c.BackchannelLogoutURI, c.BackchannelPrivate = r.URL+"/backchannel", true
		c.PostLogoutRedirectURIs = []string{"https://" + id + ".example.org/signed-out"}
	})
}

// The module of the back-channel plan, and what a client checks of the token.
func TestOP_oidcc_backchannel_rp_initiated_logout(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	r := startReceiver(t)
	rp := s.relyingParty("app", s.backchannelClient("app", r))
	b, token := s.signedInTokens(rp, "ada")
	hint := rawIDToken(token)
	sid := jwtPayload(t, hint)["sid"]
	again := rp.refresh(token.RefreshToken).JSON(t)["id_token"].(string)
	same(t, "a refreshed ID token has the sid, the first", jwtPayload(t, again)["sid"], sid)
	got := b.get("/oauth2/logout?id_token_hint=" + hint + "&post_logout_redirect_uri=https://app.example.org/signed-out&state=xyz")
	if got.Header.Get("Location") != "https://app.example.org/signed-out?state=xyz" {
		t.Fatalf("%d to %q", got.StatusCode, got.Header.Get("Location"))
	}
	logoutToken := r.wait(t)
	s.log.wait(t, `"msg":"logout delivered"`)
	// Somebody else's verifier: signature by the published key, iss, aud, exp.
	if _, err := rp.provider.Verifier(&oidc.Config{ClientID: "app"}).Verify(t.Context(), logoutToken); err != nil {
		t.Errorf("logout token: %v", err)
	}
	claims := jwtPayload(t, logoutToken)
	events, _ := claims["events"].(map[string]any)
	event, ok := events["http://schemas.openid.net/event/backchannel-logout"].(map[string]any)
	if !ok || len(events) != 1 || len(event) != 0 || claims["nonce"] != nil || claims["jti"] == "" || claims["sub"] != u.Sub || claims["sid"] != sid || sid == nil {
		t.Errorf("claims %v, sid of the ID token %v", claims, sid)
	}
	same(t, "typ", jwtHeader(t, logoutToken)["typ"], "logout+jwt")
	meta := b.get("/.well-known/openid-configuration").JSON(t)
	if meta["backchannel_logout_supported"] != true || meta["backchannel_logout_session_supported"] != true || meta["end_session_endpoint"] != s.URL+"/oauth2/logout" {
		t.Errorf("metadata %v", meta)
	}
	wantAnswer(t, "prompt=none afterwards", b.authorize(rp.authURL("prompt", "none"), "ada"), "login_required")
}

// Every way in which a session ends reaches the clients of that session, and
// of no other.
func TestClientsAreToldOfAnEndedSession(t *testing.T) {
	s := startService(t, serviceOptions{}, "bob")
	s.addUser("keeper", "admin")
	keeper, r := s.signedIn("keeper"), startReceiver(t)
	rp := s.relyingParty("app", s.backchannelClient("app", r))
	s.signedInTokens(rp, "bob") // stays
	change := map[string]string{"current_password": password, "new_password": "a quite different one 8"}
	ended := map[any]string{} // users by session
	for name, end := range map[string]func(b *browser, handle string) response{
		"sign-out":   func(b *browser, _ string) response { return b.api("POST", "/api/auth/logout", nil) },
		"suspension": func(_ *browser, h string) response { return keeper.api("POST", "/api/admin/users/"+h+"/suspend", nil) },
		"deletion":   func(_ *browser, h string) response { return keeper.api("DELETE", "/api/admin/users/"+h, nil) },
		"end-others": func(_ *browser, h string) response {
			return s.signedIn(h).api("POST", "/api/me/sessions/end-others", nil)
		},
		"password": func(_ *browser, h string) response { return s.signedIn(h).api("PUT", "/api/me/password", change) },
		"own-deletion": func(b *browser, _ string) response {
			return b.api("DELETE", "/api/me", map[string]string{"password": password})
		},
	} {
		s.addUser(name)
		b, token := s.signedInTokens(rp, name)
		ended[jwtPayload(t, rawIDToken(token))["sid"]] = name
		if got := end(b, name); got.StatusCode/100 != 2 {
			t.Fatalf("%s: %d %s", name, got.StatusCode, got.Text)
		}
	}
	for range len(ended) {
		sid := jwtPayload(t, r.wait(t))["sid"]
		if ended[sid] == "" {
			t.Errorf("a logout token for sid %v, which has not ended, or a second one", sid)
		}
		delete(ended, sid)
	}
	if len(ended) > 0 || len(r.tokens) > 0 {
		t.Errorf("nobody was told of %v, %d tokens more", ended, len(r.tokens))
	}
}

// A client that is down or slow delays nobody, and gets its token later.
func TestFailedLogoutIsTriedAgain(t *testing.T) {
	var late atomic.Int64
	s := startService(t, serviceOptions{Now: func() time.Time { return time.Now().Add(time.Duration(late.Load())) }}, "ada")
	r := startReceiver(t)
	r.status.Store(http.StatusInternalServerError)
	rp := s.relyingParty("app", s.backchannelClient("app", r))
	b, _ := s.signedInTokens(rp, "ada")
	b.api("POST", "/api/auth/logout", nil)
	r.wait(t)
	r.status.Store(http.StatusNoContent)
	for end := time.Now().Add(15 * time.Second); len(r.tokens) == 0 &&
		time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		late.Add(int64(time.Minute))
	}
	r.wait(t) // the retry
	lacks(t, "the token is in the log", s.log.String(), "logout_token")
}

// A stop of the service waits for the answer of a client that has its token, and tells it no second time.
func TestLogoutThatIsOnItsWayIsNotCutByAStop(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{}, "ada")
	stopped := make(chan struct{})
	client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() { s.stopBackground(); close(stopped) }()
		select {
		case <-r.Context().Done(): // cut
		case <-time.After(300 * time.Millisecond): // or the stop has nothing to wait for
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(client.Close)
	b, _ := s.signedInTokens(s.relyingParty("app", s.backchannelClient("app", &receiver{Server: client})), "ada")
	b.api("POST", "/api/auth/logout", nil)
	<-stopped
	if n := db.count("SELECT count(*) FROM logout_outbox"); n > 0 || !strings.Contains(s.log.String(), "logout delivered") {
		t.Errorf("%d notices would be sent again: %s", n, s.log)
	}
}

// 400 is the client's last word: nobody asks again, and nothing is kept.
func TestRefusedLogoutIsNotTriedAgain(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{}, "ada")
	r := startReceiver(t)
	r.status.Store(http.StatusBadRequest)
	b, _ := s.signedInTokens(s.relyingParty("app", s.backchannelClient("app", r)), "ada")
	b.api("POST", "/api/auth/logout", nil)
	s.log.wait(t, `"msg":"logout refused"`)
	for end := time.Now().Add(15 * time.Second); db.count("SELECT count(*) FROM logout_outbox") > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the notice is kept")
		}
	}
	same(t, fmt.Sprintf("lines about it: %s", s.log), strings.Count(s.log.String(), `"msg":"logout `), 1)
}

// A client that is not reached for a day, or that has no address any more, is told nothing.
func TestLogoutIsGivenUp(t *testing.T) {
	for name, change := range map[string]string{
		"a day":      "UPDATE logout_outbox SET created_at = created_at - 86400",
		"no address": "UPDATE clients SET backchannel_logout_uri = ''",
	} {
		var late atomic.Int64
		s, db := startServiceWithDatabase(t, serviceOptions{Now: func() time.Time { return time.Now().Add(time.Duration(late.Load())) }}, "ada")
		r := startReceiver(t)
		r.status.Store(http.StatusInternalServerError)
		b, _ := s.signedInTokens(s.relyingParty("app", s.backchannelClient("app", r)), "ada")
		b.api("POST", "/api/auth/logout", nil)
		s.log.wait(t, `"msg":"logout not delivered"`)
		same(t, name, db.exec(change), 1)
		late.Store(int64(time.Minute))
		s.log.wait(t, `"msg":"logout given up"`)
	}
}

// What is reached is the registered address: a redirect would take the token
// elsewhere, past the rules of registration.
func TestLogoutTokenFollowsNoRedirect(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	elsewhere := startReceiver(t)
	door := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(door.Close)
	b, _ := s.signedInTokens(s.relyingParty("app", s.backchannelClient("app", &receiver{Server: door})), "ada")
	b.api("POST", "/api/auth/logout", nil)
	s.log.wait(t, `"msg":"logout `) // delivered or not
	if len(elsewhere.tokens) > 0 || !strings.Contains(s.log.String(), "the client answered 307") {
		t.Errorf("%d tokens were redirected: %s", len(elsewhere.tokens), s.log)
	}
}

// The guard: a client may not name an address inside the network unless the
// operator opens it, whatever its name resolves to.
func TestLogoutTokenGoesToNoPrivateAddress(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{}, "ada")
	r := startReceiver(t)
	secret := s.backchannelClient("app", r)
	db.exec("UPDATE clients SET backchannel_private = FALSE") // as a name that resolves to such an address
	b, _ := s.signedInTokens(s.relyingParty("app", secret), "ada")
	b.api("POST", "/api/auth/logout", nil)
	s.log.wait(t, "the address is private")
	if len(r.tokens) > 0 || strings.Contains(s.log.String(), r.URL) {
		t.Errorf("a token went to a loopback address, or its URL, which may have secrets, to the log: %s", s.log)
	}
}

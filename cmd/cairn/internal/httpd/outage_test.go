package httpd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// Pitfall 21, fact S22: a database that is away is 503 everywhere. A 401 or
// invalid_grant would make every client throw its session away.
func TestLostDatabaseIsNotAWrongCredential(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	secret, fresh := s.addClient("app", nil), s.addClient("fresh", nil)
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	consent := b.get(s.relyingParty("fresh", fresh).authURL()).Header.Get("Location")
	form := pageForm(t, b.get(consent).Text)
	s.tokenRequest("app", secret, rp.codeForm("x.y")) // the client is known now
	logout, choice := pageForm(t, b.get("/oauth2/logout").Text), url.Values{"continue": {continuationOf(t, b.get(rp.authURL("prompt", "select_account")), "/login/")}}
	noError(t, s.store.Close())
	wantUnavailable(t, "code", s.tokenRequest("app", secret, rp.codeForm(code)))
	wantUnavailable(t, "refresh", s.refreshRequest("app", secret, token.RefreshToken))
	wantUnavailable(t, "client that is not in memory", s.tokenRequest("strange", "secret", rp.codeForm(code)))
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken)
	wantUnavailable(t, "userinfo", got)
	for name, u := range map[string]string{"authorize": rp.authURL(), "prompt=none": rp.authURL("prompt", "none"), "unknown client": rp.authURL("client_id", "strange"), "consent page": consent, "logout": "/oauth2/logout"} {
		got := b.get(u)
		wantPage(t, name, got, http.StatusServiceUnavailable)
		if got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
	}
	for _, what := range []string{"token request", "authorize"} {
		has(t, "the log", s.log.String(), `"msg":"`+what+` failed"`)
	}
	form.values.Set("decision", "allow")
	wantPage(t, "consent", b.postForm(form.action, form.values), http.StatusServiceUnavailable)
	wantPage(t, "confirmed logout", b.postForm(logout.action, logout.values), http.StatusServiceUnavailable)
	wantPage(t, "choice of an account", b.postForm("/oauth2/select-account", choice), http.StatusServiceUnavailable)
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/jwks.json"} {
		wantStatus(t, path+" needs no database", b.get(path), http.StatusOK)
	}
}

// Attack 165: on PostgreSQL the counters of guesses are in the database. When it is away
// no password is compared, but what needs no database is answered, and what does
// says so in its own protocol.
func TestLostCountersCloseWhatNeedsThem(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		b := s.joined("ada")
		noError(t, s.store.Close())
		wantProblem(t, "sign-in", s.visitor().login("ada", password), http.StatusServiceUnavailable, "unavailable")
		wantProblem(t, "session", b.api("GET", "/api/me", nil), http.StatusServiceUnavailable, "unavailable")
		wantProblem(t, "reset", s.visitor().reset("ada", "0123456789ABCDEFGHJKMNPQRS", password+"!"), http.StatusServiceUnavailable, "unavailable")
		wantProblem(t, "registration", s.visitor().register("0123456789ABCDEF", "grace"), http.StatusServiceUnavailable, "unavailable")
		open := []string{"/healthz", "/schemas/activity-1.0.json"}
		if s.key != "" {
			open = append(open, "/.well-known/openid-configuration", "/.well-known/jwks.json")
			got := b.postForm("/oauth2/token", map[string][]string{"grant_type": {"authorization_code"}, "code": {"x.y"}, "client_id": {"app"}, "client_secret": {"x"}})
			if got.StatusCode != http.StatusServiceUnavailable || got.JSON(t)["error"] == nil {
				t.Errorf("token: %d %s", got.StatusCode, got.Text)
			}
		}
		for _, path := range open {
			wantStatus(t, path, b.do("GET", path, "", ""), http.StatusOK)
		}
	})
}

// A write that fails undoes the whole exchange: the same code and the same
// refresh token work when the database is back.
func TestFailedWriteSpendsNothing(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	b := s.browser()
	code := b.authorize(rp.authURL(), "ada").Get("code")
	for _, what := range []string{"UPDATE OF code_used_at ON grants", "INSERT ON tokens", "INSERT ON tokens WHEN NEW.kind = 'r'"} {
		mend := db.breaks(what)
		wantUnavailable(t, "code, "+what, rp.redeem(code))
		mend()
	}
	got := rp.redeem(code)
	if got.StatusCode != http.StatusOK {
		t.Fatalf("the code afterwards: %d %s", got.StatusCode, got.Text)
	}
	refresh := got.JSON(t)["refresh_token"].(string)
	for _, what := range []string{"UPDATE OF used_at ON tokens", "INSERT ON tokens", "INSERT ON tokens WHEN NEW.kind = 'r'"} {
		mend := db.breaks(what)
		wantUnavailable(t, "refresh, "+what, rp.refresh(refresh))
		mend()
	}
	wantStatus(t, "the refresh token afterwards", rp.refresh(refresh), http.StatusOK)
	mend := db.breaks("INSERT ON grants")
	wantPage(t, "authorize", b.get(rp.authURL()), http.StatusServiceUnavailable)
	mend()
	wantAnswer(t, "authorize afterwards", b.authorize(rp.authURL(), "ada"), "code")
}

// The oldest mistake of the library below: an error of the revocation dropped,
// the answer given as if all were well, and the tokens live on.
func TestFailedRevocationOfAReuseIsUnavailable(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	u := s.addUser("ada")
	rp := s.app("app", nil)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	tokens := rp.redeem(code).JSON(t)
	mend := db.breaks("UPDATE OF revoked_at ON grants")
	wantUnavailable(t, "replay that revokes nothing", rp.redeem(code))
	mend()
	wantInvalidGrant(t, "replay", rp.redeem(code))
	s.wantUserinfo("access token after the replay", tokens["access_token"].(string), http.StatusUnauthorized)
	_, token := s.signedInTokens(rp, "ada")
	needStatus(t, "refresh", rp.refresh(token.RefreshToken), http.StatusOK)
	mend = db.breaks("UPDATE OF revoked_at ON grants")
	wantUnavailable(t, "reuse that revokes nothing", rp.refresh(token.RefreshToken))
	// Nor does a failing write turn a suspended user's refresh into success.
	_, token = s.signedInTokens(rp, "ada")
	db.exec("UPDATE users SET suspended_at = 1 WHERE sub = ?", u.Sub)
	wantUnavailable(t, "refresh of a suspended user", rp.refresh(token.RefreshToken))
	mend()
	wantInvalidGrant(t, "refresh of a suspended user", rp.refresh(token.RefreshToken))
}

// Consent that could not be written was not given.
func TestConsentThatWasNotStoredGivesNoCode(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	b := s.signedIn("ada")
	page := b.consentPage(rp.authURL())
	mend := db.breaks("INSERT ON consents")
	wantPage(t, "allow", b.send(page, "decision", "allow"), http.StatusServiceUnavailable)
	mend()
	same(t, "grants", db.count("SELECT count(*) FROM grants"), 0)
	wantAnswer(t, "the same form afterwards", answered(t, b.follow(b.send(page, "decision", "allow"), "ada")), "code")
}

// A session that ends between the look at it and the code: the person signs in
// again, the client is not told of an error of ours.
func TestSessionEndingMidway(t *testing.T) {
	var db *rawDatabase
	var readings atomic.Int64 // of the clock, before the session ends
	s, raw := startServiceWithDatabase(t, serviceOptions{Now: func() time.Time {
		if readings.Add(-1) == 0 {
			db.exec("UPDATE sessions SET ended_at = 1")
		}
		return time.Now()
	}})
	db = raw
	s.addUser("ada", account.FlagActivity)
	rp := s.app("app", nil)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	// The clock is read before, while and after the session is looked at: it ends at
	// each of these times.
	for n := int64(1); readings.Load() <= 0; n++ {
		db.exec("UPDATE sessions SET ended_at = 0")
		readings.Store(n)
		if _, got := answerOf(t, b.get(rp.authURL("prompt", "none"))); got.Get("error") != "login_required" && got.Get("code") == "" {
			t.Errorf("reading %d, prompt=none: %v", n, got)
		}
	}
	readings.Store(0)
	for n := int64(1); readings.Load() <= 0; n++ {
		db.exec("UPDATE sessions SET ended_at = 0")
		readings.Store(n)
		if _, answer := answerOf(t, b.follow(b.get(rp.authURL()), "ada")); answer.Get("code") == "" {
			t.Errorf("reading %d: %v", n, answer)
		}
	}
	readings.Store(0) // what reads the clock at the end of the test ends nothing
	lacks(t, "the log calls it an error", s.log.String(), `"level":"ERROR"`)
}

// A panic anywhere in the provider is a 500 without its text, and the next
// request works: no lock, no transaction stays behind.
func TestPanicIsA500(t *testing.T) {
	var broken atomic.Bool
	s := startService(t, serviceOptions{Now: func() time.Time {
		// In a request alone: what runs beside them has the same clock, and so has the error page.
		if broken.Load() {
			stack := string(debug.Stack())
			caller := strings.Split(stack, "\n")[5] // the log line has the time of the request, too
			if strings.Contains(stack, "net/http.(*conn).serve") && !strings.Contains(stack, ".(*Service).Settings") &&
				!strings.Contains(caller, "(*middleware)") {
				panic("clock on fire")
			}
		}
		return time.Now()
	}})
	s.addUser("ada")
	rp := s.app("app", nil)
	b := s.browser()
	code := b.authorize(rp.authURL(), "ada").Get("code")
	broken.Store(true)
	for name, got := range map[string]response{
		"authorize": b.get(rp.authURL()), "token": rp.redeem(code), "continuation": b.get("/oauth2/authorize?continue=a.b"), "consent": b.get("/oauth2/consent?continue=a.b"),
	} {
		if got.StatusCode < 400 || got.Header.Get("Location") != "" || strings.Contains(got.Text, "on fire") ||
			strings.Contains(got.Text, "goroutine") || strings.Contains(got.Text, ".go:") {
			t.Errorf("%s: %d %.200s", name, got.StatusCode, got.Text)
		}
	}
	broken.Store(false)
	has(t, "the log does not say what happened", s.log.String(), "clock on fire")
	for range 10 {
		if got := b.authorize(rp.authURL(), "ada"); got.Get("code") == "" {
			t.Fatalf("afterwards: %v", got)
		}
	}
	_, token := s.signedInTokens(rp, "ada")
	wantStatus(t, "refresh afterwards", rp.refresh(token.RefreshToken), http.StatusOK)
}

// A client that hangs up is one line for who debugs, wherever it does so: anybody
// could fill the log with failures of the database.
func TestClientThatHangsUpIsOneLineAtDebugLevel(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st}, "ada")
		rp := s.app("app", func(c *provider.Client) { c.Trusted = true })
		secret := rp.config.ClientSecret
		b, token := s.signedInTokens(rp, "ada")
		code := b.authorize(rp.authURL(), "ada").Get("code")
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		form := func(path string, v url.Values) *http.Request {
			r := httptest.NewRequestWithContext(gone, "POST", path, strings.NewReader(v.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.SetBasicAuth("app", secret)
			return r
		}
		page := httptest.NewRequestWithContext(gone, "GET", strings.TrimPrefix(rp.authURL(), s.URL), nil)
		page.AddCookie(&http.Cookie{Name: "cairn_session", Value: b.cookie("cairn_session")})
		info := httptest.NewRequestWithContext(gone, "GET", "/oauth2/userinfo", nil)
		info.Header.Set("Authorization", "Bearer "+token.AccessToken)
		for what, r := range map[string]*http.Request{
			"authorize": page, "userinfo": info, "token": form("/oauth2/token", rp.codeForm(code)),
			"refresh":    form("/oauth2/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}}),
			"introspect": form("/oauth2/introspect", url.Values{"token": {token.AccessToken}}), "revoke": form("/oauth2/revoke", url.Values{"token": {token.AccessToken}}),
		} {
			before := len(s.log.String())
			w := httptest.NewRecorder()
			s.server.Config.Handler.ServeHTTP(w, r)
			lines := strings.Split(strings.TrimSpace(s.log.String()[before:]), "\n")
			if len(lines) != 1 || !strings.Contains(lines[0], `"level":"DEBUG","msg":"request"`) || w.Code != web.StatusClientGone {
				t.Errorf("%s: %d, want one line at debug level: %s", what, w.Code, strings.Join(lines, "\n"))
			}
		}
		// Nothing was spent.
		wantStatus(t, "the code afterwards", rp.redeem(code), http.StatusOK)
		wantStatus(t, "the refresh token afterwards", rp.refresh(token.RefreshToken), http.StatusOK)
	})
}

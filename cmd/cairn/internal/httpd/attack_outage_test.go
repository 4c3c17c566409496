package httpd

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

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

// Pitfall 21, fact S22: a database that is away is 503 everywhere. A 401 or
// invalid_grant would make every client throw its session away.
func TestAwayDatabaseIsNeverToldAsWrongCredentials(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret, fresh := s.addClient("app", nil), s.addClient("fresh", nil)
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	consent := b.get(s.relyingParty("fresh", fresh).authURL()).Header.Get("Location")
	form := pageForm(t, b.get(consent).Text)
	s.tokenRequest("app", secret, rp.codeForm("x.y")) // the client is known now
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	wantUnavailable(t, "code", s.tokenRequest("app", secret, rp.codeForm(code)))
	wantUnavailable(t, "refresh", s.refreshRequest("app", secret, token.RefreshToken))
	wantUnavailable(t, "client that is not in memory", s.tokenRequest("strange", "secret", rp.codeForm(code)))
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken)
	wantUnavailable(t, "userinfo", got)
	for name, u := range map[string]string{"authorize": rp.authURL(), "prompt=none": rp.authURL("prompt", "none"), "unknown client": rp.authURL("client_id", "strange"), "consent page": consent} {
		got := b.get(u)
		wantPage(t, name, got, http.StatusServiceUnavailable)
		if got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
	}
	form.values.Set("decision", "allow")
	wantPage(t, "consent", b.postForm(form.action, form.values), http.StatusServiceUnavailable)
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/jwks.json"} {
		if got := b.get(path); got.StatusCode != http.StatusOK {
			t.Errorf("%s needs no database: %d", path, got.StatusCode)
		}
	}
}

// A write that fails undoes the whole exchange: the same code and the same
// refresh token work when the database is back.
func TestFailedWriteNeverBurnsACodeOrARefreshToken(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	code := b.authorize(rp.authURL(), "ada").Get("code")
	for _, what := range []string{"UPDATE OF code_used_at ON grants", "INSERT ON tokens", "INSERT ON tokens WHEN NEW.kind = 'r'"} {
		mend := db.breaks(what)
		wantUnavailable(t, "code, "+what, s.tokenRequest("app", secret, rp.codeForm(code)))
		mend()
	}
	got := s.tokenRequest("app", secret, rp.codeForm(code))
	if got.StatusCode != http.StatusOK {
		t.Fatalf("the code afterwards: %d %s", got.StatusCode, got.Text)
	}
	refresh := got.JSON(t)["refresh_token"].(string)
	for _, what := range []string{"UPDATE OF used_at ON tokens", "INSERT ON tokens", "INSERT ON tokens WHEN NEW.kind = 'r'"} {
		mend := db.breaks(what)
		wantUnavailable(t, "refresh, "+what, s.refreshRequest("app", secret, refresh))
		mend()
	}
	if got := s.refreshRequest("app", secret, refresh); got.StatusCode != http.StatusOK {
		t.Errorf("the refresh token afterwards: %d %s", got.StatusCode, got.Text)
	}
	mend := db.breaks("INSERT ON grants")
	wantPage(t, "authorize", b.get(rp.authURL()), http.StatusServiceUnavailable)
	mend()
	if got := b.authorize(rp.authURL(), "ada"); got.Get("code") == "" {
		t.Errorf("authorize afterwards: %v", got)
	}
}

// The oldest mistake of the library below: an error of the revocation dropped,
// the answer given as if all were well, and the tokens live on.
func TestRevocationThatFailsIsNeverToldAsDone(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	u := s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	tokens := s.tokenRequest("app", secret, rp.codeForm(code)).JSON(t)
	mend := db.breaks("UPDATE OF revoked_at ON grants")
	wantUnavailable(t, "replay that takes nothing back", s.tokenRequest("app", secret, rp.codeForm(code)))
	mend()
	wantOAuthError(t, "replay", s.tokenRequest("app", secret, rp.codeForm(code)), http.StatusBadRequest, "invalid_grant")
	if got := s.userinfoStatus(tokens["access_token"].(string)); got != http.StatusUnauthorized {
		t.Errorf("access token after the replay: %d", got)
	}
	_, token := s.signedInTokens(rp, "ada")
	if got := s.refreshRequest("app", secret, token.RefreshToken); got.StatusCode != http.StatusOK {
		t.Fatalf("refresh: %d", got.StatusCode)
	}
	mend = db.breaks("UPDATE OF revoked_at ON grants")
	wantUnavailable(t, "reuse that takes nothing back", s.refreshRequest("app", secret, token.RefreshToken))
	// Nor does a failing write turn a suspended user's refresh into success.
	_, token = s.signedInTokens(rp, "ada")
	db.exec("UPDATE users SET suspended_at = 1 WHERE sub = ?", u.Sub)
	wantUnavailable(t, "refresh of a suspended user", s.refreshRequest("app", secret, token.RefreshToken))
	mend()
	wantOAuthError(t, "refresh of a suspended user", s.refreshRequest("app", secret, token.RefreshToken), http.StatusBadRequest, "invalid_grant")
}

// Consent that could not be written was not given.
func TestConsentThatWasNotStoredNeverGivesACode(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.signIn("ada")
	page := b.get(b.get(rp.authURL()).Header.Get("Location"))
	f := pageForm(t, page.Text)
	f.values.Set("decision", "allow")
	mend := db.breaks("INSERT ON consents")
	wantPage(t, "allow", b.postForm(f.action, f.values), http.StatusServiceUnavailable)
	mend()
	if n := db.count("SELECT count(*) FROM grants"); n != 0 {
		t.Errorf("%d grants", n)
	}
	if _, got := answerOf(t, b.follow(b.postForm(f.action, f.values), "ada")); got.Get("code") == "" {
		t.Errorf("the same form afterwards: %v", got)
	}
}

// A session that ends between the look at it and the code: the person signs in
// again, the client is not told of an error of ours.
func TestSessionEndingMidwayIsNeverAServerError(t *testing.T) {
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
	rp := s.relyingParty("app", s.addClient("app", nil))
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
	if strings.Contains(s.log.String(), `"level":"ERROR"`) {
		t.Error("the log calls it an error")
	}
}

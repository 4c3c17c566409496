package httpd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/provider"
)

const essentialACR = `{"id_token":{"acr":{"essential":true,"values":["2"]}}}`

// hasFactor makes a user somebody with a second factor, whose sessions are from before.
func (d *rawDatabase) hasFactor(handle string) {
	d.t.Helper()
	d.exec("UPDATE users SET second_factor = 1 WHERE handle = ?", handle)
}

// signInWith signs in anew, as with the methods; the sign-in itself is tested elsewhere.
func (b *browser) signInWith(d *rawDatabase, handle, amr string) {
	b.t.Helper()
	d.exec("UPDATE users SET second_factor = 0 WHERE handle = ?", handle)
	b.signIn(handle)
	token := jwtPayload(b.t, b.cookie("cairn_session"))
	d.exec("UPDATE sessions SET amr = ? WHERE id = ?", amr, token["sid"])
	d.hasFactor(handle)
}

func toLogin(got response) bool {
	return got.StatusCode == http.StatusSeeOther && strings.Contains(got.Header.Get("Location"), "/login/?") &&
		strings.Contains(got.Header.Get("Location"), "fresh=confirm")
}

func toSecurity(got response) bool {
	return got.StatusCode == http.StatusSeeOther && strings.HasSuffix(got.Header.Get("Location"), "/account/security")
}

func TestMethodsAndClassOfTheSignInAreTold(t *testing.T) {
	s, db, rp := startDatabaseApp(t, func(c *provider.Client) { c.Trusted = true })
	for name, c := range map[string]struct {
		amr  string
		more []string
		acr  any
	}{
		"password": {"pwd", nil, nil}, "two factors": {"pwd otp mfa", nil, "2"}, "two factors, one asked for": {"pwd otp mfa", []string{"acr_values", "1"}, "1"},
		"passkey": {"hwk user mfa", nil, "phr"}, "passkey, two factors asked for": {"swk user mfa", []string{"acr_values", "2 phr"}, "2"},
	} {
		b := s.browser()
		b.signInWith(db, "ada", c.amr)
		if c.amr == "pwd" { // with a factor it would be too little for offline_access
			db.exec("UPDATE users SET second_factor = 0 WHERE handle = 'ada'")
		}
		token, err := rp.exchange(answered(t, b.get(rp.authURL(append(c.more, "claims", `{"userinfo":{"acr":null,"amr":null}}`)...))).Get("code"))
		noError(t, err)
		db.exec("UPDATE sessions SET amr = 'pwd'") // what comes later does not change what was
		refreshed := rp.refresh(token.RefreshToken).JSON(t)
		class := c.acr
		if class == nil {
			class = "1"
		}
		amr := func(claims map[string]any) string {
			var list []string
			for _, m := range claims["amr"].([]any) {
				list = append(list, m.(string))
			}
			return strings.Join(list, " ")
		}
		for what, claims := range map[string]map[string]any{"ID token": jwtPayload(t, rawIDToken(token)), "refreshed": jwtPayload(t, refreshed["id_token"].(string))} {
			if claims["acr"] != c.acr || amr(claims) != c.amr {
				t.Errorf("%s, %s: %v %v", name, what, claims["acr"], claims["amr"])
			}
		}
		access := refreshed["access_token"].(string)
		for what, claims := range map[string]map[string]any{"userinfo": s.userinfo(access), "introspection": rp.introspect(access)} {
			if claims["acr"] != class || amr(claims) != c.amr {
				t.Errorf("%s, %s: %v", name, what, claims)
			}
		}
	}
	meta := s.browser().get("/.well-known/openid-configuration").JSON(t)
	if got := mustJSON(t, meta["acr_values_supported"]); got != `["1","2","phr"]` || !slices.Contains(meta["claims_supported"].([]any), any("amr")) {
		t.Errorf("%s %v", got, meta["claims_supported"])
	}
}

// A cookie of a password alone, from before there was a second factor, gets an application
// that insists on one nothing, by no parameter.
func TestStepUpIsNotPassedByAnOldCookie(t *testing.T) {
	s, db, rp := startDatabaseApp(t, func(c *provider.Client) { c.Trusted = true })
	b := s.browser()
	b.signIn("ada")
	old := b.cookie("cairn_session")
	db.hasFactor("ada")
	for _, more := range [][]string{nil, {"max_age", "100000"}, {"acr_values", "1"}, {"prompt", "consent"}, {"prompt", "login"}, {"max_age", "0"}, {"id_token_hint", ""}} {
		got := b.get(rp.authURL(append([]string{"claims", essentialACR}, more...)...))
		if !toLogin(got) {
			t.Fatalf("%v: %d %s", more, got.StatusCode, got.Header.Get("Location"))
		}
		// Nor by coming back without a sign-in.
		if again := b.get("/oauth2/authorize?continue=" + continuationOf(t, got, "/login/")); !toLogin(again) {
			t.Errorf("%v, came back: %d %s", more, again.StatusCode, again.Header.Get("Location"))
		}
	}
	wantAnswer(t, "silently", answered(t, b.get(rp.authURL("claims", essentialACR, "prompt", "none"))), "login_required")
	wantAnswer(t, "voluntary, silently", answered(t, b.get(rp.authURL("acr_values", "2", "prompt", "none", "scope", "openid"))), "code")
	got := b.get(rp.authURL("acr_values", "2"))
	if !toLogin(got) {
		t.Errorf("voluntary: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
	got = b.get(rp.authURL("claims", essentialACR))
	b.signInWith(db, "ada", "pwd otp mfa")
	answer := answered(t, b.get("/oauth2/authorize?continue="+continuationOf(t, got, "/login/")))
	wantAnswer(t, "after the second step", answer, "code")
	claims := jwtPayload(t, rp.redeem(answer.Get("code")).JSON(t)["id_token"].(string))
	same(t, claims, claims["acr"], "2")
	// The cookie of before has ended with it.
	thief := s.browser()
	wantAnswer(t, "the old cookie", answered(t, thief.get(rp.authURL("prompt", "none"), "Cookie", "cairn_session="+old)), "login_required")
}

func TestEssentialClassThatCannotBeMet(t *testing.T) {
	s, db, rp := startDatabaseApp(t, func(c *provider.Client) { c.Trusted = true })
	b := s.browser()
	const unmet = "unmet_authentication_requirements"
	wantAnswer(t, "nobody, silently", answered(t, b.get(rp.authURL("claims", essentialACR, "prompt", "none"))), "login_required")
	wantAnswer(t, "after the sign-in", b.authorize(rp.authURL("claims", essentialACR), "ada"), unmet)
	wantAnswer(t, "silently", answered(t, b.get(rp.authURL("claims", essentialACR, "prompt", "none"))), unmet)
	if e := s.explain(rp.authURL("claims", essentialACR), "ada"); e.Error != unmet || !strings.Contains(e.Why, "ada has no factor for a sign-in of the class") {
		t.Errorf("explained as %s: %s", e.Error, e.Why)
	}
	wantAnswer(t, "voluntary", b.authorize(rp.authURL("acr_values", "phr 2"), "ada"), "code")
	b.signInWith(db, "ada", "pwd otp mfa")
	for _, class := range []string{"phr", "urn:x"} {
		wantAnswer(t, class, answered(t, b.get(rp.authURL("claims", strings.ReplaceAll(essentialACR, `"2"`, `"`+class+`"`)))), unmet)
	}
}

// A passkey is there, and no second step chosen: an application that demands a class asks for it after the password, and
// sends nobody to set up a factor of their own. One that only wishes for a class asks for nothing.
func TestPasskeyIsAskedForWhereAClassIsDemanded(t *testing.T) {
	s, db, rp := startDatabaseApp(t, func(c *provider.Client) { c.Trusted = true }, "openid")
	u, err := s.store.UserByHandle(t.Context(), "ada")
	noError(t, err)
	key := []byte("way-in-0123456789")
	_, err = s.store.AddPasskey(t.Context(), account.Passkey{
		ID: key, Sub: u.Sub, PublicKey: []byte("x"), AAGUID: make([]byte, 16), Name: "Phone", CreatedAt: time.Now(),
	}, 10, account.NewFactor{WayIn: true, Now: time.Now(), Audit: operator(account.AddFactor, "ada", "")})
	noError(t, err)
	strict := s.app("strict", func(c *provider.Client) { c.Trusted, c.RequireACR = true, account.ACRPhishingResistant }, "openid", "offline_access")
	essential := rp.authURL("claims", strings.ReplaceAll(essentialACR, `"2"`, `"phr"`))

	b := s.visitor()
	wantAnswer(t, "wished for", b.authorize(rp.authURL("acr_values", "phr"), "ada"), "code")
	wantAnswer(t, "silently", answered(t, b.get(rp.authURL("acr_values", "phr", "prompt", "none"))), "code")
	wantAnswer(t, "no class", answered(t, b.get(rp.authURL())), "code")
	wantAnswer(t, "the password", s.visitor().authorize(rp.authURL("claims", strings.ReplaceAll(essentialACR, "2", "1")), "ada"), "code")
	for name, address := range map[string]string{"essential": essential, "essential, two factors": rp.authURL("claims", essentialACR), "required": strict.authURL()} {
		if got := b.follow(b.get(address), "ada"); got.StatusCode != http.StatusOK ||
			pageName(t, got.Text) != "second-factor" || !strings.Contains(got.Text, "passkey-form") {
			t.Errorf("%s: %d %.200s", name, got.StatusCode, got.Text)
		}
		if e := s.explain(address, "ada"); e.Answer != provider.AnswerCode || strings.Contains(strings.Join(e.Steps, "\n"), "set up a second factor") {
			t.Errorf("%s is explained as %+v", name, e)
		}
	}
	wantAnswer(t, "required, silently", answered(t, b.get(strict.authURL("prompt", "none"))), "login_required")

	db.exec("UPDATE sessions SET amr = 'swk user mfa', passkey = ?", key)
	wantAnswer(t, "by the passkey, essential", answered(t, b.get(essential)), "code")
	token, err := strict.exchange(answered(t, b.get(strict.authURL())).Get("code"))
	noError(t, err)
	if claims := jwtPayload(t, rawIDToken(token)); claims["acr"] != "phr" {
		t.Errorf("told %v", claims)
	}
	refreshed := strict.refresh(token.RefreshToken).JSON(t)
	db.exec("DELETE FROM passkeys")
	wantInvalidGrant(t, "without the passkey", strict.refresh(refreshed["refresh_token"].(string)))
	if got := b.get(strict.authURL()); !toSecurity(got) {
		t.Errorf("whoever has none sets one up: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
	has(t, "it does not say which", mainOf(b.get("/account/security").Text), "Add a passkey to continue to")
}

// Who has no second factor can help himself, and comes back.
func TestClientThatRequiresASecondFactor(t *testing.T) {
	var late atomic.Int64
	begin := time.Now().Add(-2 * time.Minute) // the service is never ahead of the real time
	s, db := startServiceWithDatabase(t, serviceOptions{Now: func() time.Time { return begin.Add(time.Duration(late.Load()) * time.Second) }}, "ada")
	rp := s.app("app", func(c *provider.Client) { c.Trusted = true })
	b, before := s.signedInTokens(rp, "ada")
	c, err := s.store.Client(t.Context(), "app")
	noError(t, err)
	c.RequireACR = "2"
	noError(t, s.store.UpdateClient(t.Context(), c, account.Operator().Audit(time.Now(), account.UpdateClient, "", "")))
	late.Add(60) // past what an instance remembers

	// The tokens of a sign-in with only the password are useless now.
	wantInvalidGrant(t, "refresh", rp.refresh(before.RefreshToken))
	s.wantUserinfo("userinfo", before.AccessToken, http.StatusUnauthorized)
	s.wantInactive("introspection", rp.introspect(before.AccessToken))

	wantAnswer(t, "silently", answered(t, b.get(rp.authURL("prompt", "none"))), "interaction_required")
	got := b.get(rp.authURL())
	if !toSecurity(got) || strings.Contains(got.Header.Get("Location"), "continue") {
		t.Fatalf("%d %s", got.StatusCode, got.Header.Get("Location"))
	}
	page := b.get(got.Header.Get("Location"))
	link := elementByID(t, page.Text, "demand-continue")
	if link == nil || !strings.Contains(elementText(link), "Continue to") || !strings.Contains(mainOf(page.Text), "Set up a second factor to continue to") {
		t.Fatal(mainOf(page.Text))
	}
	if again := b.get(attribute(link, "href")); !toSecurity(again) {
		t.Errorf("without having set one up: %d %s", again.StatusCode, again.Header.Get("Location"))
	}
	db.hasFactor("ada")
	page = b.get("/account/security")
	got = b.get(attribute(elementByID(t, page.Text, "demand-continue"), "href"))
	if !toLogin(got) {
		t.Fatalf("%d %s", got.StatusCode, got.Header.Get("Location"))
	}
	b.signInWith(db, "ada", "pwd otp mfa")
	got = b.get("/oauth2/authorize?continue=" + continuationOf(t, got, "/login/"))
	wantAnswer(t, "with a second factor", answered(t, got), "code")
	if page = b.get("/account/security"); elementByID(t, page.Text, "demand-continue") != nil {
		t.Error("the way back is still offered")
	}
	token, err := rp.exchange(answered(t, got).Get("code"))
	noError(t, err)
	if claims := jwtPayload(t, rp.refresh(token.RefreshToken).JSON(t)["id_token"].(string)); claims["acr"] != "2" {
		t.Errorf("refreshed: %v", claims)
	}
	for address, want := range map[string]string{"ada": provider.AnswerCode, "bob": provider.AnswerCode} {
		if address == "bob" {
			s.addUser("bob")
		}
		e := s.explain(rp.authURL(), address)
		if e.Answer != want || strings.Contains(strings.Join(e.Steps, "\n"), "set up a second factor") != (address == "bob") {
			t.Errorf("explained for %s: %+v", address, e)
		}
	}
}

// What an application got for the password alone is no longer of use once the settings demand
// a second factor of the user; that of others stays.
func TestDemandedFactorHoldsForGrantsOfBefore(t *testing.T) {
	s, _ := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("keeper", account.FlagAdmin)
	s.addUser("ada")
	rp := s.app("app", func(c *provider.Client) { c.Trusted = true })
	root, weak := s.signedInTokens(rp, "keeper")
	_, others := s.signedInTokens(rp, "ada")
	needStatus(t, "settings", root.api("PUT", "/api/admin/settings", `{"second_factor_flags":["admin"]}`), 200)
	wantInvalidGrant(t, "refresh", rp.refresh(weak.RefreshToken))
	s.wantUserinfo("userinfo", weak.AccessToken, http.StatusUnauthorized)
	s.wantInactive("introspection", rp.introspect(weak.AccessToken))
	s.wantUserinfo("of others", others.AccessToken, http.StatusOK)
	wantStatus(t, "of others", rp.refresh(others.RefreshToken), 200)
}

func TestHoldersOfAFlagNeedASecondFactor(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("keeper", account.FlagAdmin)
	s.addUser("ada")
	rp := s.app("app", func(c *provider.Client) { c.Trusted = true })
	root, ada := s.signedIn("keeper"), s.signedIn("ada")
	consent := root.consentPage(rp.authURL("prompt", "consent")).Request.URL.RequestURI()
	wantProblem(t, "unknown flag", root.api("PUT", "/api/admin/settings", `{"second_factor_flags":["captain"]}`), 400, "invalid_settings")
	needStatus(t, "settings", root.api("PUT", "/api/admin/settings", `{"second_factor_flags":["admin"]}`), 200)

	blocked := []struct{ method, path string }{
		{"GET", "/api/admin/users"}, {"PUT", "/api/admin/settings"}, {"PATCH", "/api/me"}, {"GET", "/api/me/export"}, {"POST", "/api/invites"}, {"PUT", "/api/me/password"}, {"DELETE", "/api/me"},
		{"GET", "/api/me/sessions"}, {"GET", "/api/me/factors/../sessions"},
	}
	for _, e := range blocked {
		if got := root.api(e.method, e.path, nil); got.StatusCode < 300 {
			t.Errorf("%s %s: %d", e.method, e.path, got.StatusCode)
		} else if !strings.Contains(e.path, "..") {
			wantProblem(t, e.path, got, 403, "second_factor_setup_required")
		}
	}
	pages := []string{"/account/", "/account/devices", "/account/data", "/admin/", "/admin/users/ada"}
	for _, path := range pages {
		if got := root.get(path, "Accept", "text/html"); !toSecurity(got) {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.Header.Get("Location"))
		}
	}
	page := root.get("/account/security")
	if elementByID(t, page.Text, "demand") == nil || !strings.Contains(mainOf(page.Text), "Set up a second factor to continue. Your account needs one.") {
		t.Error(mainOf(page.Text))
	}
	wantStatus(t, "me", root.api("GET", "/api/me", nil), 200)
	wantStatus(t, "sign-out page", root.get("/logout/"), 200)
	if got := root.get(rp.authURL()); !toSecurity(got) {
		t.Errorf("authorize: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
	wantAnswer(t, "silently", answered(t, root.get(rp.authURL("prompt", "none"))), "interaction_required")
	continuationOf(t, root.get(consent), "/oauth2/authorize")
	wantStatus(t, "others", ada.api("GET", "/api/me/sessions", nil), 200)
	wantAnswer(t, "others", answered(t, ada.get(rp.authURL())), "code")

	// A session from before the factor, which may be a thief's, is no better than none.
	db.hasFactor("keeper")
	for _, e := range append(blocked[:8:8], struct{ method, path string }{"POST", "/api/me/totp"}, struct{ method, path string }{"POST", "/api/me/recovery-codes"}) {
		if got := root.api(e.method, e.path, nil); got.StatusCode < 300 || got.StatusCode == 403 {
			t.Errorf("%s %s with the old session: %d %s", e.method, e.path, got.StatusCode, got.Text)
		}
	}
	for _, path := range pages {
		if got := root.get(path, "Accept", "text/html"); !toLogin(got) {
			t.Errorf("%s with the old session: %d %s", path, got.StatusCode, got.Header.Get("Location"))
		}
	}
	if got := root.get(rp.authURL()); !toLogin(got) {
		t.Errorf("authorize with the old session: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
	continuationOf(t, root.get(consent), "/oauth2/authorize")
	root.signInWith(db, "keeper", "pwd otp mfa")
	wantStatus(t, "with the factor", root.api("GET", "/api/admin/users", nil), 200)
	wantAnswer(t, "with the factor", answered(t, root.get(rp.authURL())), "code")
}

// An application that verifies the cookie on its own asks for a second factor, sends the person to
// the address that the documentation names, and lets them in afterwards.
func TestApplicationOfTheCookieAsksForASecondFactor(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	v := &session.Verifier{
		Issuer: s.URL, Keys: session.NewRemoteKeySet(s.URL+"/.well-known/jwks.json", session.RemoteOptions{}),
		RequireACR: session.ACRTwoFactors,
	}
	noError(t, v.Check())
	lead := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fails(t, "refused", session.FailureFromContext(r.Context()), session.ErrInsufficientAuthentication)
		http.Redirect(w, r, v.Issuer+"/login/?fresh=confirm", http.StatusSeeOther)
	})
	app := session.Middleware(v, lead)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := session.FromContext(r.Context())
		_, _ = io.WriteString(w, c.Handle+" "+c.ACR+" "+strings.Join(c.AMR, " "))
	}))
	b := s.signedIn("ada")
	visit := func() *httptest.ResponseRecorder {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.AddCookie(&http.Cookie{Name: "cairn_session", Value: b.cookie("cairn_session")})
		app.ServeHTTP(w, r)
		return w
	}
	claims := jwtPayload(t, b.cookie("cairn_session"))
	if got := mustJSON(t, claims["amr"]); claims["acr"] != "1" || got != `["pwd"]` {
		t.Errorf("acr %v, amr %s after the password", claims["acr"], got)
	}
	secret := s.signedIn("ada").addAuthenticatorApp()
	refused := visit()
	if refused.Code != http.StatusSeeOther {
		t.Fatalf("the password alone: %d %s", refused.Code, refused.Body)
	}

	page := needStatus(t, "sign-in page", b.get(refused.Header().Get("Location")), 200)
	step := needStatus(t, "password", b.send(page, "password", password), 303).Header.Get("Location")
	code, err := totp.GenerateCode(secret, time.Now().Add(30*time.Second)) // the one before has set the app up
	noError(t, err)
	needStatus(t, "code", b.send(needStatus(t, "second step", b.get(step), 200), "otp", code), 303)
	if got := visit(); got.Code != http.StatusOK || got.Body.String() != "ada 2 pwd otp mfa" {
		t.Errorf("after the second step: %d %s", got.Code, got.Body)
	}
}

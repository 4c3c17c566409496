package httpd

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// Attack 27: every claim of the ID token against what it must be, for a
// request with and without nonce, and after a refresh.
func TestClaimsOfTheIDToken(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	u := s.addUser("ada", "activity")
	rp := s.app("app", func(c *provider.Client) { c.IDTokenClaims = false })
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	db.exec("UPDATE sessions SET auth_time = auth_time - 100, created_at = created_at - 100")
	kid := b.get("/.well-known/jwks.json").JSON(t)["keys"].([]any)[0].(map[string]any)["kid"]
	check := func(name, nonce string, answer map[string]any) map[string]any {
		t.Helper()
		raw, _ := answer["id_token"].(string)
		access, _ := answer["access_token"].(string)
		header, c := jwtHeader(t, raw), jwtPayload(t, raw)
		if header["alg"] != "RS256" || header["kid"] != kid || header["typ"] != "JWT" || len(header) != 3 {
			t.Errorf("%s: header %v", name, header)
		}
		half := sha256.Sum256([]byte(access))
		if c["iss"] != s.URL || c["sub"] != u.Sub || c["aud"] != "app" || c["at_hash"] != base64.RawURLEncoding.EncodeToString(half[:16]) {
			t.Errorf("%s: %v", name, c)
		}
		if got, there := c["nonce"]; there != (nonce != "") || there && got != nonce {
			t.Errorf("%s: nonce %q, want %q", name, got, nonce)
		}
		now := float64(time.Now().Unix())
		for claim, want := range map[string]float64{"iat": now, "exp": now + 3600, "auth_time": now - 100} {
			got, ok := c[claim].(float64)
			if !ok || got != float64(int64(got)) || got > want+5 || got < want-15 {
				t.Errorf("%s: %s = %v, want about %v", name, claim, c[claim], want)
			}
		}
		want := []string{"amr", "at_hash", "aud", "auth_time", "exp", "iat", "iss", "jti", "nonce", "sub"}
		for claim := range c {
			if !slices.Contains(want, claim) && claim != "acr" {
				t.Errorf("%s: unexpected claim %s", name, claim)
			}
		}
		return c
	}
	tokens := func(change ...string) map[string]any {
		return rp.token(rp.codeForm(b.authorize(rp.authURL(change...), "ada").Get("code"))).JSON(t)
	}
	first := check("nonce", rp.nonce, tokens())
	check("no nonce", "", tokens("nonce", ""))
	check("short nonce", "1", tokens("nonce", "1"))
	check("odd nonce", `"\é<&`, tokens("nonce", `"\é<&`))
	check("long nonce", strings.Repeat("n", 1000), tokens("nonce", strings.Repeat("n", 1000)))
	answer := tokens()
	form := rp.codeForm("")
	form.Set("grant_type", "refresh_token")
	form.Set("refresh_token", answer["refresh_token"].(string))
	form.Set("nonce", "planted")
	again := check("refresh", "", rp.token(form).JSON(t))
	if again["sub"] != first["sub"] || again["auth_time"] != first["auth_time"] || again["jti"] == first["jti"] {
		t.Errorf("refreshed %v, first %v", again, first)
	}
	// Two clients: the same sub, each its own audience.
	other := s.app("other", func(c *provider.Client) { c.Trusted = true })
	token, err := other.exchange(b.authorize(other.authURL(), "ada").Get("code"))
	noError(t, err)
	raw := rawIDToken(token)
	if c := jwtPayload(t, raw); c["sub"] != u.Sub || c["aud"] != "other" {
		t.Errorf("other client: %v", c)
	}
}

func TestClaimsOfTokens(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagActivity)
	rp := s.app("app", func(c *provider.Client) { c.IDTokenClaims = false })
	b, token := s.signedInTokens(rp, "ada")
	raw := rawIDToken(token)
	golden(t, "id_token.json", shape(t, jwtPayload(t, raw)))
	golden(t, "session_token.json", shape(t, jwtPayload(t, b.cookie("cairn_session"))))
	with := s.app("full", nil)
	_, token = s.signedInTokens(with, "ada")
	raw = rawIDToken(token)
	golden(t, "id_token_with_claims.json", shape(t, jwtPayload(t, raw)))
}

// What makes somebody an administrator here is no business of an application
// unless the operator says so: not in any token, and not by the claims parameter. The
// session cookie speaks of this installation.
func TestAdministratorsAreNotToldToApplications(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagActivity, account.FlagAdmin)
	for id, c := range map[string]struct{ registered, want []string }{
		"default": {nil, []string{account.FlagActivity}},
		"admins":  {[]string{account.FlagAdmin}, []string{account.FlagAdmin}},
		"both":    {[]string{account.FlagAdmin, account.FlagActivity}, []string{account.FlagActivity, account.FlagAdmin}},
		"others":  {[]string{"captain"}, []string{}},
	} {
		rp := s.relyingParty(id, s.addClient(id, func(n *provider.Client) { n.Groups = c.registered }))
		b, token := s.signedInTokens(rp, "ada")
		var claims struct{ Groups []string }
		if err := rp.idToken(token).Claims(&claims); err != nil || !slices.Equal(claims.Groups, c.want) ||
			claims.Groups == nil {
			t.Errorf("%s: ID token: %q, %v", id, claims.Groups, err)
		}
		asked := s.relyingParty(id, rp.config.ClientSecret, "openid")
		answer := b.authorize(asked.authURL("claims", `{"userinfo":{"groups":null}}`), "ada")
		token, err := asked.exchange(answer.Get("code"))
		noError(t, err)
		info, err := asked.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		noError(t, err)
		claims.Groups = nil
		if err := info.Claims(&claims); err != nil || !slices.Equal(claims.Groups, c.want) {
			t.Errorf("%s: userinfo: %q, %v", id, claims.Groups, err)
		}
		if groups := jwtPayload(t, b.cookie("cairn_session"))["groups"]; !slices.Equal(groups.([]any), []any{"activity", "admin"}) {
			t.Errorf("session cookie: %v", groups)
		}
	}
}

// Attack 58: who comes after a deleted person has another sub, and none of the consents;
// the handle is not given again (TestDeletedMemberIsGone).
func TestSubIsNotGivenAgain(t *testing.T) {
	s, rp := startApp(t, nil)
	root := s.joined("root1", "admin")
	_, token := s.signedInTokens(rp, "ada")
	old := jwtPayload(t, rawIDToken(token))["sub"].(string)
	if old == "ada" || old == "app" || len(old) < 20 {
		t.Errorf("sub %q", old)
	}
	needStatus(t, "delete", root.api("DELETE", "/api/admin/users/ada", nil), http.StatusNoContent)
	fresh := s.visitor()
	needStatus(t, "register", fresh.register(root.invite(), "ada2"), http.StatusCreated)
	wantAnswer(t, "consent", answered(t, fresh.get(rp.authURL("prompt", "none"))), "consent_required")
	wantAnswer(t, "the deleted person's hint", fresh.authorize(rp.authURL("id_token_hint", rawIDToken(token), "prompt", "none"), "ada2"), "login_required")
	claims := jwtPayload(t, rp.redeem(fresh.authorize(rp.authURL(), "ada2").Get("code")).JSON(t)["id_token"].(string))
	if claims["sub"] == old {
		t.Error("the sub came back")
	}
}

// Nothing but an access token opens userinfo, in the header or the body of a form.
func TestUserinfoOpensForAnAccessTokenAlone(t *testing.T) {
	s, rp := startApp(t, nil)
	b, token := s.signedInTokens(rp, "ada")
	access := token.AccessToken
	form := url.Values{"access_token": {access}}
	const path = "/oauth2/userinfo"
	bearer := func(value string) response { return b.get(path, "Authorization", "Bearer "+value) }
	type answer struct {
		got  response
		want int
	}
	cases := map[string]answer{
		"empty header": {b.get(path, "Authorization", ""), 401}, "scheme alone": {b.get(path, "Authorization", "Bearer"), 401}, "scheme and blank": {bearer(""), 401}, "basic": {b.get(path, "Authorization", "Basic "+access), 401},
		"no scheme": {b.get(path, "Authorization", access), 401}, "two tokens": {bearer(access + " " + access), 401}, "joined": {bearer("x, Bearer " + access), 401},
		"9 kB": {bearer(strings.Repeat("x", 9000)), 400}, "other header": {b.get(path, "X-Access-Token", access), 401}, "in two places": {b.postForm(path, form, "Authorization", "Bearer "+access), 400},
		"query": {b.get(path + "?access_token=" + access), 400}, "query beside the header": {b.get(path+"?access_token="+access, "Authorization", "Bearer "+access), 400}, "query of a POST": {b.postForm(path+"?access_token="+access, url.Values{}), 400},
		"body of a GET": {b.do("GET", path, "application/x-www-form-urlencoded", form.Encode()), 401}, "JSON body": {b.do("POST", path, "application/json", `{"access_token":"`+access+`"}`), 401},
		"multipart": {b.do("POST", path, "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"access_token\"\r\n\r\n"+access+"\r\n--x--\r\n"), 401}, "100 kB": {b.postForm(path, url.Values{"x": {strings.Repeat("x", 100<<10)}}), 400},
	}
	for name, value := range map[string]string{
		"refresh token": token.RefreshToken, "code": b.authorize(rp.authURL(), "ada").Get("code"), "ID token": rawIDToken(token), "session cookie": b.cookie("cairn_session"), "garbage": "x", "SQL": "' OR 1=1 --",
	} {
		cases[name] = answer{bearer(value), 401}
	}
	for name, c := range cases {
		challenge := c.got.Header.Get("WWW-Authenticate")
		if c.got.StatusCode != c.want || !strings.HasPrefix(challenge, "Bearer ") || strings.Contains(c.got.Text, "ada") {
			t.Errorf("%s: %d %q %.200s", name, c.got.StatusCode, challenge, c.got.Text)
		}
	}
	if got := b.get(path); got.StatusCode != http.StatusUnauthorized || strings.Contains(got.Header.Get("WWW-Authenticate"), "error") {
		t.Errorf("nothing but the cookie: %d %q", got.StatusCode, got.Header.Get("WWW-Authenticate"))
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "TRACE"} {
		wantStatus(t, method, b.do(method, path, "", "", "Authorization", "Bearer "+access), http.StatusMethodNotAllowed)
	}
	for name, got := range map[string]response{
		"GET": b.get(path+"?x=1", "Authorization", "bearer "+access, "Origin", "https://any.example"), "POST body": b.postForm(path, form, "Origin", "https://any.example"),
		"POST header": b.do("POST", path, "application/x-www-form-urlencoded", "", "Authorization", "Bearer "+access, "Origin", "https://any.example"),
	} {
		h := got.Header
		if got.StatusCode != http.StatusOK || h.Get("Content-Type") != "application/json" ||
			h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "*" ||
			h.Get("Access-Control-Allow-Credentials") != "" || h.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %v", name, got.StatusCode, h)
		}
	}
}

func TestUserinfoNeedsTheOpenIDScope(t *testing.T) {
	s, rp := startApp(t, nil, "profile", "offline_access")
	_, token := s.signedInTokens(rp, "ada")
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken)
	if got.StatusCode != http.StatusForbidden || got.JSON(t)["error"] != "insufficient_scope" {
		t.Errorf("%d %s", got.StatusCode, got.Text)
	}
	if token.Extra("id_token") != nil {
		t.Error("an ID token without the openid scope")
	}
}

// claimsOfFlow authorizes with more parameters and returns what the client
// learns: the ID token's claims and userinfo's.
func (s *service) claimsOfFlow(
	rp *relyingParty, handle string, more ...string,
) (idToken, userinfo map[string]any, token *oauth2.Token) {
	s.t.Helper()
	answer := s.browser().authorize(rp.authURL(more...), handle)
	token, err := rp.exchange(answer.Get("code"))
	if err != nil {
		s.t.Fatalf("%v: %v", answer, err)
	}
	raw := rawIDToken(token)
	rp.idToken(token)
	return jwtPayload(s.t, raw), s.userinfo(token.AccessToken), token
}

// What the operator takes from a client is not told to it by a token that it has, either.
func TestScopeThatAClientLostTellsNothing(t *testing.T) {
	now, later := lateClock()
	s := startService(t, serviceOptions{Now: now})
	s.addUserWithEmail("ada")
	rp := s.app("app", nil, "openid", "profile", "email", "offline_access")
	_, info, token := s.claimsOfFlow(rp, "ada")
	if info["email"] == nil {
		t.Fatalf("userinfo: %v", info)
	}
	c, err := s.store.Client(t.Context(), "app")
	noError(t, err)
	c.Scopes = []string{"openid", "profile", "offline_access"}
	noError(t, s.store.UpdateClient(t.Context(), c, operator(account.UpdateClient, "app", "")))
	later()
	if info = s.userinfo(token.AccessToken); info["email"] != nil || info["name"] == nil {
		t.Errorf("userinfo: %v", info)
	}
	if got := s.introspect("app", rp.config.ClientSecret, token.AccessToken); got["scope"] != "openid profile offline_access" {
		t.Errorf("introspection: %v", got)
	}
	// A refresh goes on with what is left (RFC 6749 section 6), also of a client that names the scopes that it once got.
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}}
	const left = "openid profile offline_access"
	for named, want := range map[string]string{"": left, "openid profile email offline_access": left, "openid": "openid"} {
		if form.Del("scope"); named != "" {
			form.Set("scope", named)
		}
		fresh := rp.token(form).JSON(t)
		access, _ := fresh["access_token"].(string)
		if fresh["scope"] != want || access == "" {
			t.Fatalf("refresh for %q: %v", named, fresh)
		}
		if info := s.userinfo(access); info["email"] != nil || (info["name"] != nil) != (want == left) {
			t.Errorf("after the refresh: %v", info)
		}
		if id := jwtPayload(t, fresh["id_token"].(string)); id["email"] != nil || id["name"] == nil {
			t.Errorf("ID token of the refresh: %v", id)
		}
		form.Set("refresh_token", fresh["refresh_token"].(string))
	}
	c.Scopes = []string{"openid", "profile"}
	noError(t, s.store.UpdateClient(t.Context(), c, operator(account.UpdateClient, "app", "")))
	later()
	wantOAuthError(t, "without offline_access", rp.token(form), http.StatusBadRequest, "unauthorized_client")
}

func TestClaimsAreAskedForByName(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", "activity")
	rp := s.app("app", nil, "openid", "offline_access")
	plain, _, _ := s.claimsOfFlow(rp, "ada")
	id, info, token := s.claimsOfFlow(rp, "ada", "claims", `{"userinfo":{"name":{"essential":true},"password_hash":null},"id_token":{"preferred_username":null,"groups":{"value":"x"},"sid":null}}`)
	sameList(t, "userinfo", keysOf(info), []string{"name", "sub"})
	want := append(keysOf(plain), "groups", "preferred_username")
	slices.Sort(want)
	sameList(t, "ID token", keysOf(id), want)
	refreshed := rp.refresh(token.RefreshToken).JSON(t)
	sameList(t, "userinfo after the refresh",
		keysOf(s.userinfo(refreshed["access_token"].(string))), []string{"name", "sub"})
	if got := jwtPayload(t, refreshed["id_token"].(string)); got["preferred_username"] != "ada" {
		t.Errorf("ID token after the refresh: %v", keysOf(got))
	}
	// The next request is one of its own.
	if _, info, _ := s.claimsOfFlow(rp, "ada"); len(info) != 1 {
		t.Errorf("userinfo of a request without claims: %v", info)
	}
}

func TestClaimsParameterNeedsScopesAndConsent(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	email := "ada@example.org"
	if _, err := s.store.ChangeUser(context.Background(), u.Sub,
		func(u *account.User) error { u.Email = email; return nil }, u.UpdatedAt, nil); err != nil {
		t.Fatal(err)
	}
	const ask = `{"userinfo":{"email":null},"id_token":{"email":{"essential":true}}}`
	// A client that may not have the scope does not get its claims by name.
	narrow := s.app("narrow", func(c *provider.Client) { c.Scopes = []string{"openid", "profile"} }, "openid")
	id, info, _ := s.claimsOfFlow(narrow, "ada", "claims", ask)
	if info["email"] != nil || id["email"] != nil {
		t.Errorf("email for a client without that scope: %v %v", info, id)
	}
	// Others get them once the user has agreed to that, and not before.
	rp := s.app("app", nil, "openid")
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	wantAnswer(t, "without consent", b.authorize(rp.authURL("claims", ask, "prompt", "none"), "ada"), "consent_required")
	page := b.get(b.get(rp.authURL("claims", ask)).Header.Get("Location"))
	if pageName(t, page.Text) != "consent" || !strings.Contains(page.Text, "Your email") {
		t.Fatalf("page %q: %.600s", pageName(t, page.Text), page.Text)
	}
	wantAnswer(t, "after consent", answered(t, b.follow(page, "ada")), "code")
	if id, info, _ := s.claimsOfFlow(rp, "ada", "claims", ask); info["email"] != email || id["email"] != email {
		t.Errorf("with consent: %v %v", info, id)
	}
	// Plain OAuth has no claims.
	bare := s.app("bare", nil, "profile")
	code := s.browser().authorize(bare.authURL("claims", ask), "ada").Get("code")
	token, err := bare.exchange(code)
	noError(t, err)
	s.wantUserinfo("userinfo without openid", token.AccessToken, http.StatusForbidden)
}

// OpenID Connect Core section 5.5.1: no ID token of somebody else.
func TestSubThatTheClientExpects(t *testing.T) {
	s := startService(t, serviceOptions{})
	ada, bob := s.addUser("ada"), s.addUser("bob")
	rp := s.app("app", nil)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	want := func(sub string) string { return `{"id_token":{"sub":{"value":"` + sub + `"}}}` }
	for name, claims := range map[string]string{"value": want(bob.Sub), "unknown": want("x"), "empty": want(""), "values": `{"id_token":{"sub":{"values":["x","` + bob.Sub + `"]}}}`, "userinfo": `{"userinfo":{"sub":{"value":"` + bob.Sub + `"}}}`,
		"two wishes": `{"userinfo":{"sub":{"value":"` + bob.Sub + `"}},"id_token":{"sub":{"value":"` + ada.Sub + `"}}}`} {
		wantAnswer(t, name+", silently", b.authorize(rp.authURL("claims", claims, "prompt", "none"), "ada"), "login_required")
	}
	wantAnswer(t, "the right one", b.authorize(rp.authURL("claims", want(ada.Sub), "prompt", "none"), "ada"), "code")
	// With a page there is one chance to sign in as the other, not a loop.
	wantAnswer(t, "signed in as the wrong one", b.authorize(rp.authURL("claims", want(bob.Sub)), "ada"), "login_required")
	wantAnswer(t, "signed in as the right one", b.authorize(rp.authURL("claims", want(bob.Sub)), "bob"), "code")
}

func TestMalformedClaimsParameter(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	for _, claims := range []string{
		`{`, `null`, `[]`, `x`, `{"userinfo":[]}`, `{"userinfo":{"name":1}}`, `{"userinfo":{"name":{"essential":"yes"}}}`, `{"userinfo":{},"userinfo":{}}`, `{} {}`,
		strings.Repeat(`{"a":`, 20) + `1` + strings.Repeat(`}`, 20), `{"x":"` + strings.Repeat("a", 3072) + `"}`, "{\"\xff\":1}",
	} {
		got := b.authorize(rp.authURL("claims", claims), "ada")
		if got.Get("error") != "invalid_request" || got.Get("code") != "" || got.Get("state") != rp.state || got.Get("iss") != s.URL {
			t.Errorf("%.40s: %v", claims, got)
		}
	}
}

func TestACRIsSentWhenAskedFor(t *testing.T) {
	s, rp := startApp(t, nil)
	for name, c := range map[string]struct {
		more []string
		want any
	}{
		"not asked": {nil, nil}, "acr_values": {[]string{"acr_values", "1"}, "1"}, "several": {[]string{"acr_values", "2 1"}, "1"}, "another": {[]string{"acr_values", "urn:mace:incommon:iap:silver"}, "1"},
		"claims": {[]string{"claims", `{"id_token":{"acr":null}}`}, "1"}, "essential": {[]string{"claims", `{"id_token":{"acr":{"essential":true}}}`}, "1"}, "essential value": {[]string{"claims", `{"id_token":{"acr":{"essential":true,"values":["phr","1"]}}}`}, "1"},
	} {
		id, info, token := s.claimsOfFlow(rp, "ada", c.more...)
		if id["acr"] != c.want || info["acr"] != nil {
			t.Errorf("%s: acr %v, want %v", name, id["acr"], c.want)
		}
		refreshed := rp.refresh(token.RefreshToken).JSON(t)
		same(t, name+": acr, after the refresh", jwtPayload(t, refreshed["id_token"].(string))["acr"], c.want)
	}
}

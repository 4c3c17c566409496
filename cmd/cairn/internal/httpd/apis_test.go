package httpd

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/store/storetest"
)

const trails, maps3 = "https://trails.example.org", "https://maps.example.org/v1"

// addAPI registers an API and returns its id and secret for introspection.
func (s *service) addAPI(uri, name string, change func(*provider.API)) (id, secret string) {
	s.t.Helper()
	a, secret := provider.NewAPI(uri, name, time.Now())
	if change != nil {
		change(a)
	}
	noError(s.t, s.store.CreateAPI(context.Background(), a, account.Operator().Audit(time.Now(), account.RegisterAPI, "", "")))
	return a.ID, secret
}

// startAPIs is a service with two APIs: trails for the client app alone, with two scopes, maps for all.
func startAPIs(t *testing.T, o serviceOptions) (s *service, id, secret string) {
	t.Helper()
	files, _ := keyFiles(t, jose.ES256)
	settings := o.Settings
	o.Settings = func(c *config.Settings) {
		c.AdditionalKeyFiles = files
		if settings != nil {
			settings(c)
		}
	}
	s = startService(t, o)
	s.addUser("ada", "activity")
	s.addClient("app", nil)
	s.addClient("other", func(c *provider.Client) { c.ClientCredentials = true })
	id, secret = s.addAPI(trails, "Trails", func(a *provider.API) {
		a.Clients = []string{"app"}
		a.Scopes = []provider.APIScope{{Name: "trails.read", Sentence: "See your trails"}, {Name: "trails.write", Sentence: "Change your trails"}}
	})
	s.addAPI(maps3, "Maps", func(a *provider.API) {
		a.AllClients, a.Lifetime = true, 10*time.Minute
		a.Scopes = []provider.APIScope{{Name: "maps", Sentence: "See the maps"}}
	})
	return s, id, secret
}

func (s *service) apiApp(id string, scopes ...string) *relyingParty {
	return s.relyingParty(id, "secret-of-"+id+"-0123456789abcdefghij", scopes...)
}

func TestTokenForAnAPIIsAJWTThatItCanVerify(t *testing.T) {
	s, id, secret := startAPIs(t, serviceOptions{})
	otherID, otherSecret := s.addAPI("urn:example:other", "Other", nil)
	rp := s.apiApp("app", "openid", "groups", "trails.read")
	b := s.browser()
	b.signIn("ada")
	page := mainOf(b.consentPage(rp.authURL()).Text)
	for _, text := range []string{"Trails", "See your trails", "Sign you in"} {
		has(t, "the consent page lacks", page, text)
	}
	if strings.Contains(page, "Change your trails") || strings.Contains(page, "Maps") {
		t.Errorf("the consent page shows what was not asked for: %s", page)
	}
	token, err := rp.exchange(b.authorize(rp.authURL(), "ada").Get("code"))
	noError(t, err)
	header, claims := jwtHeader(t, token.AccessToken), jwtPayload(t, token.AccessToken)
	if header["typ"] != "at+jwt" || header["alg"] != "ES256" || header["kid"] == nil {
		t.Errorf("header %v", header)
	}
	golden(t, "access_token.json", shape(t, claims))
	idToken := rp.idToken(token)
	want := map[string]any{
		"iss": s.URL, "sub": idToken.Subject, "client_id": "app", "scope": "openid groups trails.read", "acr": "1", "amr": []any{"pwd"},
		"groups": []any{"activity"}, "aud": []any{trails, s.URL + "/oauth2/userinfo"},
	}
	for _, name := range []string{"iat", "exp", "auth_time", "jti", "status"} {
		if claims[name] == nil {
			t.Errorf("no %s", name)
		}
		delete(claims, name)
	}
	equal(t, "claims", claims, want)
	s.wantUserinfo("with openid", token.AccessToken, http.StatusOK)
	if s.revoked(token.AccessToken) {
		t.Error("it is revoked from the beginning")
	}
	same(t, "as a session cookie", s.as(token.AccessToken).StatusCode, http.StatusUnauthorized)

	about := s.introspect(id, secret, token.AccessToken)
	if fmt.Sprint(about["aud"]) != fmt.Sprint(want["aud"]) || about["active"] != true || about["client_id"] != "app" || about["username"] != "ada" || about["sub"] != idToken.Subject ||
		about["scope"] != "openid groups trails.read" || math.Abs(about["exp"].(float64)-about["iat"].(float64)-3600) > 1 {
		t.Errorf("to the API: %v", about)
	}
	equal(t, "to the client", rp.introspect(token.AccessToken), about)
	s.wantInactive("to another API", s.introspect(otherID, otherSecret, token.AccessToken))
	s.wantInactive("to another client", s.apiApp("other").introspect(token.AccessToken))
	wantOAuthError(t, "a wrong secret", s.clientPost("introspect", id, secret+"x", url.Values{"token": {token.AccessToken}}), 401, "invalid_client")
	wantOAuthError(t, "no token", s.clientPost("introspect", id, secret, url.Values{"token": {""}}), 400, "invalid_request")
	wantOAuthError(t, "an API at the token endpoint", s.tokenRequest(id, secret, url.Values{"grant_type": {"client_credentials"}}), 401, "invalid_client")
	has(t, "what the application sees", mainOf(b.get("/account/apps").Text), "Trails: See your trails")
	s.addUser("keeper", "admin")
	if page := mainOf(s.signedIn("keeper").get("/admin/applications").Text); !strings.Contains(page, trails) || !strings.Contains(page, "Change your trails") {
		t.Errorf("the administration does not show the API: %s", page)
	}
	for what, bad := range map[string]string{
		"a changed token": token.AccessToken[:len(token.AccessToken)-4] + "AAAA", "an ID token": rawIDToken(token), "a session": b.cookie("cairn_session"),
	} {
		s.wantInactive(what, s.introspect(id, secret, bad))
		s.wantUserinfo(what, bad, http.StatusUnauthorized)
	}
}

// The API that is open to all clients could use any token; it is told of those for itself alone.
func TestAPIIntrospectsTokensForItselfWithItsSecretsAlone(t *testing.T) {
	clock := accounttest.NewClock()
	s, id, secret := startAPIs(t, serviceOptions{Now: clock.Now})
	openID, openSecret := s.addAPI("urn:example:open", "Open", func(a *provider.API) { a.AllClients = true })
	_, token := s.signedInTokens(s.apiApp("app", "openid", "trails.read"), "ada")
	if about := s.introspect(id, secret, token.AccessToken); about["active"] != true {
		t.Fatalf("to its API: %v", about)
	}
	s.wantInactive("to an API for all clients", s.introspect(openID, openSecret, token.AccessToken))

	fresh, stored := provider.NewSecret(clock.Now())
	audit := account.Operator().Audit(clock.Now(), account.RenewAPI, trails, "")
	noError(t, s.store.RotateAPISecret(t.Context(), trails, stored, clock.Now().Add(20*time.Minute), false, audit))
	for _, c := range []struct {
		what, secret string
		after        time.Duration
		want         int
	}{
		{"the former one, before its end", secret, 10 * time.Minute, 200}, {"the new one", fresh, 10 * time.Minute, 200},
		{"the former one, after its end", secret, 20*time.Minute + time.Second, 401}, {"the new one, later", fresh, 21 * time.Minute, 200},
	} {
		clock.Advance(stored.CreatedAt.Add(c.after).Sub(clock.Now()))
		wantStatus(t, c.what, s.clientPost("introspect", id, c.secret, url.Values{"token": {token.AccessToken}}), c.want)
	}
}

// A grant is for the APIs that its user saw, whatever else the client may use.
func TestTokensAreForTheAPIsOfTheGrant(t *testing.T) {
	clock := accounttest.NewClock()
	s, _, _ := startAPIs(t, serviceOptions{Now: clock.Now})
	app := s.apiApp("app", "openid", "offline_access")
	b := s.browser()
	code := func(scope string) url.Values {
		return app.codeForm(b.authorize(app.authURL("scope", scope), "ada").Get("code"))
	}
	for _, scope := range []string{"openid trails.read offline_access", "openid"} {
		form := code(scope)
		form["resource"] = []string{maps3}
		wantOAuthError(t, "with the code", app.token(form), 400, "invalid_target")
	}
	got := app.token(code("openid trails.read offline_access")).JSON(t)
	more := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got["refresh_token"].(string)}, "resource": {maps3}}
	wantOAuthError(t, "at a refresh", app.token(more), 400, "invalid_target")
	more["resource"] = []string{trails}
	again := needStatus(t, "its own, after the refusal", app.token(more), 200)

	// What the service signed for another purpose is no access token, even if its claims are one's.
	claims := jwtPayload(t, got["access_token"].(string))
	signing := s.keys[slices.IndexFunc(s.keys, func(k jose.JSONWebKey) bool { return k.Algorithm == "ES256" })]
	for typ, want := range map[string]int{"at+jwt": 200, "JWT": 401, "logout+jwt": 401, "": 401, "of another issuer": 401} {
		if claims["iss"] = s.URL; want == 401 && strings.Contains(typ, "issuer") {
			typ, claims["iss"] = "at+jwt", s.URL+"/other"
		}
		options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ))
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: signing}, options)
		noError(t, err)
		forged, err := jwt.Signed(signer).Claims(claims).Serialize()
		noError(t, err)
		s.wantUserinfo("typ "+typ, forged, want)
	}

	// Its scope is another API's now; then the client may no longer use it.
	all, err := s.store.APIs(t.Context())
	noError(t, err)
	a := all[slices.IndexFunc(all, func(a *provider.API) bool { return a.URI == trails })]
	change := func(scopes []provider.APIScope, clients ...string) {
		a.Scopes, a.Clients = scopes, clients
		noError(t, s.store.UpdateAPI(t.Context(), a, operator(account.UpdateAPI, "", "")))
		clock.Advance(10 * time.Second) // registrations are kept for five
	}
	read := a.Scopes[:1]
	change(a.Scopes[1:], "app")
	s.addAPI("urn:example:heir", "Heir", func(a *provider.API) { a.AllClients, a.Scopes = true, read })
	more = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {again.text(t, "refresh_token")}, "scope": {"trails.read"}}
	again = needStatus(t, "the scope of another", app.token(more), 200)
	lacks(t, "a token for another", again.text(t, "access_token"), "eyJ")
	change(a.Scopes)
	wantInvalidGrant(t, "no longer its own", app.refresh(again.text(t, "refresh_token")))
}

// Whatever ends a grant is seen by an API that verifies tokens locally. A demand that is gone again gives none back.
func TestEndOfAGrantIsSeenByItsAPI(t *testing.T) {
	clock := accounttest.NewClock()
	s, id, secret := startAPIs(t, serviceOptions{Store: storetest.NewAt(t, clock.Now), Now: clock.Now})
	keeper := s.joined("keeper", "admin")
	rp := s.apiApp("app", "openid", "trails.read", "offline_access")
	app, err := s.store.Client(t.Context(), "app")
	noError(t, err)
	all, err := s.store.APIs(t.Context())
	noError(t, err)
	api := all[slices.IndexFunc(all, func(a *provider.API) bool { return a.URI == trails })]
	demanding := func(change func(*provider.Client), meanwhile ...func(user string)) func(*browser, string, string, *oauth2.Token) {
		return func(_ *browser, user, _ string, _ *oauth2.Token) {
			c := *app
			change(&c)
			noError(t, s.store.UpdateClient(t.Context(), &c, operator(account.UpdateClient, "app", "")))
			for _, do := range meanwhile {
				do(user)
			}
			noError(t, s.store.UpdateClient(t.Context(), app, operator(account.UpdateClient, "app", "")))
		}
	}
	flag := func(user string, state any) {
		needStatus(t, user, keeper.api("PUT", "/api/admin/users/"+user+"/flags", map[string]any{"activity": state}), http.StatusOK)
	}
	second := func(flags ...string) {
		needStatus(t, "", keeper.api("PUT", "/api/admin/settings", map[string]any{"second_factor_flags": append([]string{}, flags...)}), http.StatusOK)
	}
	either := func(c *provider.Client) { c.RequireFlags = []string{"admin", "activity"} }
	for what, end := range map[string]func(b *browser, user, code string, token *oauth2.Token){
		"sign-out": func(b *browser, _, _ string, _ *oauth2.Token) { b.api("POST", "/api/auth/logout", nil) },
		"suspension": func(_ *browser, user, _ string, _ *oauth2.Token) {
			needStatus(t, "", keeper.api("POST", "/api/admin/users/"+user+"/suspend", nil), http.StatusOK)
		},
		"removed consent": func(b *browser, _, _ string, _ *oauth2.Token) {
			needStatus(t, "", b.api("DELETE", "/api/me/apps/app", nil), http.StatusNoContent)
		},
		"demanded class": demanding(func(c *provider.Client) { c.RequireACR = "2" }),
		"demanded email": demanding(func(c *provider.Client) { c.RequireVerifiedEmail = true }),
		"demanded flag":  demanding(func(c *provider.Client) { c.RequireFlags = []string{"admin"} }),
		"demanded flags": demanding(func(c *provider.Client) { either(c); c.RequireAll = true }),
		"lost flag":      demanding(either, func(user string) { flag(user, false) }),
		"flag after its end": func(_ *browser, user, _ string, _ *oauth2.Token) {
			flag(user, clock.Now().Add(time.Minute).Format(time.RFC3339))
			demanding(either, func(string) {
				clock.Advance(2 * time.Minute)
				_, err := s.store.EndDue(t.Context())
				noError(t, err)
			})(nil, user, "", nil)
		},
		"flag with a demand": func(_ *browser, user, _ string, _ *oauth2.Token) {
			flag(user, false)
			second("activity")
			flag(user, true)
			second()
		},
		"demanded factor": func(*browser, string, string, *oauth2.Token) { second("activity"); second() },
		"closed to it": func(*browser, string, string, *oauth2.Token) {
			closed := *api
			closed.Clients = nil
			noError(t, s.store.UpdateAPI(t.Context(), &closed, operator(account.UpdateAPI, trails, "")))
			noError(t, s.store.UpdateAPI(t.Context(), api, operator(account.UpdateAPI, trails, "")))
		},
		"revocation":  func(_ *browser, _, _ string, token *oauth2.Token) { rp.revoke(token.AccessToken) },
		"reused code": func(_ *browser, _, code string, _ *oauth2.Token) { rp.redeem(code) },
		"reused token": func(_ *browser, _, _ string, token *oauth2.Token) {
			rp.refresh(token.RefreshToken)
			rp.refresh(token.RefreshToken)
		},
		"end of all sessions": func(_ *browser, user, _ string, _ *oauth2.Token) {
			needStatus(t, "", keeper.api("POST", "/api/admin/users/"+user+"/sessions/end-all", nil), http.StatusOK)
		},
	} {
		user := strings.ReplaceAll(what, " ", "-")
		s.addUser(user, "activity")
		b := s.browser()
		scopes := "openid trails.read"
		if what == "reused token" {
			scopes += " offline_access"
		}
		code := b.authorize(rp.authURL("scope", scopes), user).Get("code")
		token, err := rp.exchange(code)
		noError(t, err)
		if s.revoked(token.AccessToken) {
			t.Fatalf("%s: revoked before", what)
		}
		end(b, user, code, token)
		if !s.revoked(token.AccessToken) {
			t.Errorf("%s: the API does not see it", what)
		}
		s.wantInactive(what, s.introspect(id, secret, token.AccessToken))
		s.wantUserinfo(what, token.AccessToken, http.StatusUnauthorized)
	}
	s.addUser("last")
	_, token := s.signedInTokens(rp, "last")
	noError(t, s.store.RemoveAPI(t.Context(), trails, operator(account.RemoveAPI, trails, "")))
	if !s.revoked(token.AccessToken) {
		t.Error("removed API: the API does not see it")
	}
	_, token = s.signedInTokens(s.apiApp("app", "openid", "maps"), "last")
	noError(t, s.store.RemoveClient(t.Context(), "app", account.Operator().Audit(time.Now(), account.RemoveClient, "", "")))
	if !s.revoked(token.AccessToken) {
		t.Error("removed client: the API does not see it")
	}
}

func TestResourceIsOneThatTheClientMayUse(t *testing.T) {
	s, _, _ := startAPIs(t, serviceOptions{})
	const closed = "urn:example:closed"
	s.addAPI(closed, "Closed", nil)
	app, other := s.apiApp("app", "openid", "offline_access"), s.apiApp("other", "openid", "trails.read")
	b := s.browser()
	b.signIn("ada")
	for what, c := range map[string]struct {
		rp   *relyingParty
		uris []string
		want string
	}{
		"its own": {app, []string{trails}, "code"}, "two": {app, []string{trails, maps3}, "code"}, "unknown": {app, []string{"https://x.example.org"}, "invalid_target"},
		"with a slash": {app, []string{trails + "/"}, "invalid_target"}, "one of two": {app, []string{trails, "x"}, "invalid_target"},
		"of others": {other, []string{trails}, "invalid_target"}, "of nobody": {app, []string{closed}, "invalid_target"}, "for all": {other, []string{maps3}, "code"}, "empty": {app, []string{""}, "invalid_target"},
	} {
		more := url.Values{"resource": c.uris}.Encode()
		wantAnswer(t, what, b.authorize(c.rp.authURL()+"&"+more, "ada"), c.want)
		form := c.rp.pushed()
		form["resource"] = c.uris
		if pushed := c.rp.post("par", form); c.want == "code" && pushed.StatusCode != http.StatusCreated {
			t.Errorf("%s, pushed: %d %s", what, pushed.StatusCode, pushed.Text)
		} else if c.want != "code" {
			wantOAuthError(t, what+", pushed", pushed, 400, c.want)
		}
	}
	// The scope of an API that the client may not use is ignored like an unknown one.
	token, err := other.exchange(b.authorize(other.authURL(), "ada").Get("code"))
	noError(t, err)
	if strings.Contains(token.AccessToken, "eyJ") || token.Extra("scope") != "openid" {
		t.Errorf("%v", token.Extra("scope"))
	}

	exchange := func(more url.Values, uris ...string) response {
		form := app.codeForm(b.authorize(app.authURL("scope", "openid trails.read offline_access")+"&"+url.Values{"resource": {trails, maps3}}.Encode(), "ada").Get("code"))
		for name, v := range more {
			form[name] = v
		}
		form["resource"] = uris
		return app.token(form)
	}
	wantOAuthError(t, "at token, of others", exchange(nil, "https://x.example.org"), 400, "invalid_target")
	both := exchange(nil).JSON(t)
	claims := jwtPayload(t, both["access_token"].(string))
	if diff := cmp.Diff([]any{maps3, trails, s.URL + "/oauth2/userinfo"}, claims["aud"]); diff != "" || both["expires_in"] != 600.0 {
		t.Errorf("for both, the shorter lifetime: %v\n%s", both["expires_in"], diff)
	}
	one := exchange(nil, maps3).JSON(t)
	if got := jwtPayload(t, one["access_token"].(string)); one["scope"] != "openid offline_access" || got["scope"] != one["scope"] {
		t.Errorf("for one: %v", one)
	}
	refresh := func(scope string, uris ...string) response {
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {both["refresh_token"].(string)}, "resource": uris}
		if scope != "" {
			form.Set("scope", scope)
		}
		got := app.token(form)
		if fresh, ok := got.JSON(t)["refresh_token"].(string); ok {
			both["refresh_token"] = fresh
		}
		return got
	}
	narrow := refresh("trails.read").JSON(t)
	if got := jwtPayload(t, narrow["access_token"].(string)); got["aud"] != trails || got["scope"] != "trails.read" || narrow["scope"] != "trails.read" {
		t.Errorf("narrowed: %v %v", got, narrow)
	}
	s.wantUserinfo("without openid", narrow["access_token"].(string), http.StatusUnauthorized)
	wantOAuthError(t, "more than granted", refresh("trails.write"), 400, "invalid_scope")
	wantOAuthError(t, "another resource", refresh("", "https://x.example.org"), 400, "invalid_target")
	plain := refresh("openid").JSON(t)
	if token := plain["access_token"].(string); strings.HasPrefix(token, "eyJ") {
		t.Errorf("without a scope of an API: %s", token)
	} else {
		s.wantUserinfo("without an API", token, http.StatusOK)
	}
	whole := refresh("").JSON(t)
	if got := jwtPayload(t, whole["access_token"].(string)); got["scope"] != "openid trails.read offline_access" {
		t.Errorf("in full again: %v", got)
	}
}

func TestOpaqueTokenAndClientsOwnTokenForAnAPI(t *testing.T) {
	clock := accounttest.NewClock()
	s, _, _ := startAPIs(t, serviceOptions{Now: clock.Now})
	id, secret := s.addAPI("https://opaque.example.org", "Opaque", func(a *provider.API) {
		a.Opaque, a.AllClients, a.Scopes = true, true, []provider.APIScope{{Name: "dark", Sentence: "See nothing"}}
	})
	rp := s.apiApp("app", "openid", "dark")
	_, token := s.signedInTokens(rp, "ada")
	about := s.introspect(id, secret, token.AccessToken)
	if strings.HasPrefix(token.AccessToken, "eyJ") || about["active"] != true || about["scope"] != "openid dark" {
		t.Errorf("opaque: %v", about)
	}
	other := s.apiApp("other")
	own := func(form url.Values) response {
		form.Set("grant_type", "client_credentials")
		return other.post("token", form)
	}
	wantOAuthError(t, "of others", own(url.Values{"scope": {"trails.read"}}), 400, "invalid_scope")
	wantOAuthError(t, "resource of others", own(url.Values{"resource": {trails}}), 400, "invalid_target")
	answer := own(url.Values{"scope": {"maps"}}).JSON(t)
	jwt, _ := answer["access_token"].(string)
	claims := jwtPayload(t, jwt)
	if claims["sub"] != "other" || claims["client_id"] != "other" || claims["aud"] != maps3 || claims["auth_time"] != nil || answer["expires_in"] != 600.0 {
		t.Errorf("%v %v", claims, answer)
	}
	s.wantUserinfo("a client's own", jwt, http.StatusUnauthorized)
	if s.revoked(jwt) {
		t.Error("revoked from the beginning")
	}
	other.revoke(jwt)
	if !s.revoked(jwt) {
		t.Error("its revocation is not seen")
	}
	jwt = own(url.Values{"scope": {"maps"}}).text(t, "access_token")
	dark := own(url.Values{"scope": {"dark"}}).JSON(t)["access_token"].(string)
	if about := s.introspect(id, secret, dark); about["sub"] != "other" || about["active"] != true {
		t.Errorf("opaque, of a client: %v", about)
	}
	all, err := s.store.APIs(t.Context())
	noError(t, err)
	a := all[slices.IndexFunc(all, func(a *provider.API) bool { return a.ID == id })]
	for _, a := range []*provider.API{a, all[slices.IndexFunc(all, func(a *provider.API) bool { return a.URI == maps3 })]} {
		a.AllClients, a.Clients = false, []string{"app"}
		noError(t, s.store.UpdateAPI(t.Context(), a, account.Operator().Audit(time.Now(), account.UpdateAPI, "", "")))
	}
	if !s.revoked(jwt) {
		t.Error("of a client that may no longer use it: the API does not see it")
	}
	clock.Advance(10 * time.Second) // registrations are kept for five
	s.wantInactive("of a client that may no longer use it", s.introspect(id, secret, dark))
	if about := s.introspect(id, secret, token.AccessToken); about["active"] != true {
		t.Errorf("of one that still may: %v", about)
	}
	clock.Advance(time.Hour + time.Second)
	s.wantInactive("expired", s.introspect(id, secret, token.AccessToken))
}

// A repeated scope must not make the token, its row and the answer as long as the request.
func TestRefreshForAnAPINamesAScopeOnce(t *testing.T) {
	s, id, secret := startAPIs(t, serviceOptions{})
	app := s.apiApp("app", "openid", "offline_access")
	b := s.browser()
	b.signIn("ada")
	code := b.authorize(app.authURL("scope", "openid trails.read offline_access"), "ada").Get("code")
	whole := app.token(app.codeForm(code)).JSON(t)
	got := app.token(url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {whole["refresh_token"].(string)},
		"scope": {strings.Repeat("trails.read ", 4000) + "openid"},
	})
	if got.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", got.StatusCode, got.Text)
	}
	fresh := got.JSON(t)
	token := fresh["access_token"].(string)
	scope := jwtPayload(t, token)["scope"]
	if scope != "openid trails.read" || fresh["scope"] != scope || len(token) > 2<<10 {
		t.Errorf("%d bytes of token, scopes of %d bytes", len(token), len(fresh["scope"].(string)))
	}
	seen := s.clientPost("introspect", id, secret, url.Values{"token": {token}}).JSON(t)
	if seen["scope"] != "openid trails.read" {
		t.Errorf("introspection: scopes of %d bytes", len(seen["scope"].(string)))
	}
	s.wantUserinfo("after a long request", token, http.StatusOK)
}

// The groups in an access token are flags, also where offline_access outlives the session.
func TestLostFlagEndsTokensForAPIsWhenTheOptionIsOn(t *testing.T) {
	s, _, _ := startAPIs(t, serviceOptions{})
	keeper := s.joined("keeper", "admin")
	rp := s.apiApp("app", "openid", "offline_access")
	for _, on := range []bool{false, true} {
		option := map[string]any{"sign_out_on_flag_loss": on}
		needStatus(t, "", keeper.api("PUT", "/api/admin/settings", option), http.StatusOK)
		for user, scopes := range map[string]string{"online": "openid groups maps", "offline": "openid groups maps offline_access"} {
			user = fmt.Sprint(user, on)
			s.addUser(user, "activity")
			token, err := rp.exchange(s.browser().authorize(rp.authURL("scope", scopes), user).Get("code"))
			noError(t, err)
			lost := keeper.api("PUT", "/api/admin/users/"+user+"/flags", map[string]any{"activity": false})
			if needStatus(t, "", lost, http.StatusOK); s.revoked(token.AccessToken) != on {
				t.Errorf("%s: the token with the lost flag is revoked: %t", user, !on)
			}
		}
	}
}

// A scope of an API that the client marks as optional has a box on the consent page, and is not in the token without it. An API of which nothing
// is left is not in the audience.
func TestOptionalScopeOfAnAPIIsLeftOut(t *testing.T) {
	s, _, _ := startAPIs(t, serviceOptions{})
	c, err := s.store.Client(t.Context(), "app")
	noError(t, err)
	update := func(scopes ...string) error {
		c.OptionalScopes = scopes
		return s.store.UpdateClient(t.Context(), c, account.Operator().Audit(time.Now(), account.UpdateClient, "", ""))
	}
	if err := update("trails.delete"); err == nil || !strings.Contains(err.Error(), "no API has this scope") {
		t.Errorf("an optional scope of no API: %v", err)
	}
	noError(t, update("trails.write", "maps"))
	rp, b := s.apiApp("app", "openid", "trails.read", "trails.write", "maps"), s.signedIn("ada")
	answer := func(scopes ...string) map[string]any {
		t.Helper()
		page := b.consentPage(rp.authURL("prompt", "consent"))
		if shown := scopesShown(t, page.Text); !slices.Equal(shown, []string{"openid", "maps", "trails.read", "trails.write"}) || strings.Count(page.Text, `type="checkbox"`) != 2 {
			t.Fatalf("the page shows %v", shown)
		}
		return rp.redeem(answered(t, b.get(b.allow(page, scopes...).Header.Get("Location"))).Get("code")).JSON(t)
	}
	token := answer("trails.read", "email") // neither is a box of the page
	claims := jwtPayload(t, token["access_token"].(string))
	if token["scope"] != "openid trails.read" || claims["scope"] != token["scope"] || strings.Contains(fmt.Sprint(claims["aud"]), maps3) {
		t.Errorf("scope %v, claims %v", token["scope"], claims)
	}
	if consentPageOf(b, rp.authURL()) != nil {
		t.Error("asked again for what was left out")
	}
	same(t, "with both boxes", answer("trails.write", "maps")["scope"], "openid trails.read trails.write maps")
}

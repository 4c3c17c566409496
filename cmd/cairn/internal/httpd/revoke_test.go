package httpd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

func TestRevokedTokenIsDead(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	secret := s.addClient("app", nil)
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	for name, c := range map[string]struct {
		id, secret, hint string
		refresh          bool
	}{
		"access": {"app", secret, "", false}, "refresh": {"app", secret, "", true}, "access, right hint": {"app", secret, "access_token", false}, "refresh, right hint": {"app", secret, "refresh_token", true},
		"access, wrong hint": {"app", secret, "refresh_token", false}, "refresh, wrong hint": {"app", secret, "access_token", true}, "unknown hint": {"app", secret, "pat", true}, "public client": {"phone", "", "", true},
	} {
		_, token := s.signedInTokens(s.relyingParty(c.id, c.secret), "ada")
		form := url.Values{"token": {token.AccessToken}}
		if c.refresh {
			form.Set("token", token.RefreshToken)
		}
		if c.hint != "" {
			form.Set("token_type_hint", c.hint)
		}
		wantRevoked(t, name, s.clientPost("revoke", c.id, c.secret, form))
		s.wantUserinfo(name+": userinfo afterwards", token.AccessToken, http.StatusUnauthorized)
		wantInvalidGrant(t, name+": refresh afterwards", s.refreshRequest(c.id, c.secret, token.RefreshToken))
		wantRevoked(t, name+", again", s.clientPost("revoke", c.id, c.secret, form))
	}
}

// A client that signs out late presents what it still has.
func TestExpiredOrRotatedTokenRevokesItsGrant(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	_, token := s.signedInTokens(rp, "ada")
	db.exec("UPDATE tokens SET expires_at = 1 WHERE kind = 'a'")
	wantRevoked(t, "expired", rp.revoke(token.AccessToken))
	wantInvalidGrant(t, "refresh", rp.refresh(token.RefreshToken))
	_, token = s.signedInTokens(rp, "ada")
	second := rp.refresh(token.RefreshToken).JSON(t)
	wantRevoked(t, "rotated", rp.revoke(token.RefreshToken))
	s.wantUserinfo("userinfo of the successor", second["access_token"].(string), http.StatusUnauthorized)
}

// A token is revoked and described for its own client only, as it was given out; who
// else asks learns nothing, not even that it is one.
func TestTokenOfAnotherClientIsNeitherRevokedNorDescribed(t *testing.T) {
	s, rp := startApp(t, nil)
	evil, public := s.app("evil", nil), s.app("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	b, token := s.signedInTokens(rp, "ada")
	_, own := s.signedInTokens(public, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	for name, presented := range map[string]string{"access token": token.AccessToken, "refresh token": token.RefreshToken} {
		for _, hint := range []string{"", "access_token", "refresh_token", "bogus"} {
			form := url.Values{"token": {presented}, "token_type_hint": {hint}}
			wantRevoked(t, name+" at another client, hint "+hint, evil.post("revoke", form))
			s.wantInactive(name+" of another client, hint "+hint, evil.post("introspect", form).JSON(t))
		}
		wantRevoked(t, name+" at a public client", public.revoke(presented))
		for text, other := range spellings(presented) {
			wantRevoked(t, name+", "+text, rp.revoke(other))
			s.wantInactive(name+", "+text, rp.introspect(other))
		}
	}
	for name, presented := range map[string]string{"garbage": "x", "long": strings.Repeat("x", 20000), "SQL": "' OR 1=1 --", "code": code, "ID token": rawIDToken(token), "session cookie": b.cookie("cairn_session")} {
		wantRevoked(t, name, rp.revoke(presented))
		s.wantInactive(name, rp.introspect(presented))
	}
	// Whoever knows a public client's id could ask; a signed-in browser is nobody here.
	wantOAuthError(t, "public client", public.post("introspect", url.Values{"token": {own.AccessToken}}), http.StatusUnauthorized, "invalid_client")
	wantOAuthError(t, "browser", b.postForm("/oauth2/introspect", url.Values{"token": {token.AccessToken},
		"client_id": {"app"}}), http.StatusUnauthorized, "invalid_client")
	s.wantUserinfo("the owner's access token", token.AccessToken, http.StatusOK)
	wantStatus(t, "the owner's refresh token", rp.refresh(token.RefreshToken), http.StatusOK)
	wantStatus(t, "the code", rp.redeem(code), http.StatusOK)
}

func TestClientEndpointsRefuseStrangersAndOtherRequests(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	secret := s.addClient("app", nil)
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	_, token := s.signedInTokens(s.relyingParty("app", secret), "ada")
	form := url.Values{"token": {token.RefreshToken}}
	for _, endpoint := range []string{"revoke", "introspect", "par"} {
		for name, got := range map[string]response{
			"wrong secret": s.clientPost(endpoint, "app", "x", form), "no secret": s.clientPost(endpoint, "app", "", form), "unknown client": s.clientPost(endpoint, "nobody", "x", form),
			"nobody": s.clientPost(endpoint, "", "", form), "a secret for a public client": s.clientPost(endpoint, "phone", "x", form), "bearer": s.clientPost(endpoint, "", "", form, "Authorization", "Bearer "+token.AccessToken),
		} {
			wantOAuthError(t, endpoint+": "+name, got, http.StatusUnauthorized, "invalid_client")
			if !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s: %s: WWW-Authenticate %q", endpoint, name, got.Header.Get("WWW-Authenticate"))
			}
		}
		b, path := s.browser(), "/oauth2/"+endpoint
		r, _ := http.NewRequest(http.MethodPost, s.URL, nil)
		r.SetBasicAuth("app", secret)
		auth := r.Header.Get("Authorization")
		for name, got := range map[string]response{
			"no token": b.do("POST", path, "application/x-www-form-urlencoded", "x=y", "Authorization", auth), "empty token": b.do("POST", path, "application/x-www-form-urlencoded", "token=", "Authorization", auth),
			"twice": b.do("POST", path, "application/x-www-form-urlencoded", "token=a&token=b", "Authorization", auth), "JSON": b.do("POST", path, "application/json", `{"token":"a"}`, "Authorization", auth),
			"query": b.do("POST", path+"?token="+token.RefreshToken, "application/x-www-form-urlencoded", "", "Authorization", auth), "both": b.do("POST", path+"?token="+token.RefreshToken, "application/x-www-form-urlencoded", form.Encode(), "Authorization", auth),
			"bad escape": b.do("POST", path, "application/x-www-form-urlencoded", "token=%zz", "Authorization", auth), "no type": b.do("POST", path, "", form.Encode(), "Authorization", auth),
		} {
			wantOAuthError(t, endpoint+": "+name, got, http.StatusBadRequest, "invalid_request")
		}
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			got := b.do(method, path+"?token="+token.RefreshToken, "", "", "Authorization", auth)
			wantOAuthError(t, endpoint+": "+method, got, http.StatusMethodNotAllowed, "invalid_request")
			same(t, fmt.Sprintf("%s: %s: Allow", endpoint, method), got.Header.Get("Allow"), "POST")
		}
		wantOAuthError(t, endpoint+": large", b.do("POST", path, "application/x-www-form-urlencoded",
			"token="+strings.Repeat("a", 100<<10), "Authorization", auth), http.StatusRequestEntityTooLarge, "invalid_request")
	}
	s.wantUserinfo("the token after all that", token.AccessToken, http.StatusOK)
}

// A page of another site may revoke (RFC 7009 section 2: no cookie counts), introspect, push a request and start a
// device's sign-in, as a client.
func TestForeignPageActsAsAClientAlone(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	s.addClient("spa", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	_, token := s.signedInTokens(s.relyingParty("spa", ""), "ada")
	for _, endpoint := range []string{"revoke", "introspect", "par", "device_authorization"} {
		got := s.clientPost(endpoint, "spa", "", url.Values{"token": {token.AccessToken}}, "Origin", "https://spa.example.org", "Sec-Fetch-Site", "cross-site")
		if got.StatusCode == http.StatusForbidden || got.Header.Get("Access-Control-Allow-Origin") != "*" || got.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d, Access-Control-Allow-Origin %q", endpoint, got.StatusCode, got.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	s.wantUserinfo("after the revocation", token.AccessToken, http.StatusUnauthorized)
}

// RFC 7009 section 2.2.1: 200 would make the client forget a token that lives.
func TestFailedRevocationIsUnavailable(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{}, "ada")
	secret := s.addClient("app", nil)
	_, token := s.signedInTokens(s.relyingParty("app", secret), "ada")
	mend := db.breaks("UPDATE OF revoked_at ON grants")
	wantUnavailable(t, "revoke", s.clientPost("revoke", "app", secret, url.Values{"token": {token.RefreshToken}}))
	mend()
	s.wantUserinfo("the token lives", token.AccessToken, http.StatusOK)
	wantRevoked(t, "afterwards", s.clientPost("revoke", "app", secret, url.Values{"token": {token.RefreshToken}}))
	_, token = s.signedInTokens(s.relyingParty("app", secret), "ada")
	noError(t, s.store.Close())
	form := url.Values{"token": {token.RefreshToken}}
	wantUnavailable(t, "revoke", s.clientPost("revoke", "app", secret, form))
	wantUnavailable(t, "introspect", s.clientPost("introspect", "app", secret, form))
	wantUnavailable(t, "client that is not in memory", s.clientPost("introspect", "strange", "x", form))
}

func TestIntrospectionDescribesTheToken(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	secret := s.addClient("app", nil)
	before := time.Now().Unix()
	_, token := s.signedInTokens(s.relyingParty("app", secret, "openid", "profile", "offline_access"), "ada")
	for name, c := range map[string]struct {
		token string
		life  float64
		want  map[string]any
	}{
		"access":  {token.AccessToken, 3600, map[string]any{"token_type": "Bearer"}},
		"refresh": {token.RefreshToken, 30 * 24 * 3600, map[string]any{}},
	} {
		got := s.introspect("app", secret, c.token)
		exp, _ := got["exp"].(float64)
		iat, _ := got["iat"].(float64)
		if exp-iat != c.life || iat < float64(before)-1 || iat > float64(time.Now().Unix())+1 {
			t.Errorf("%s: iat %v, exp %v", name, got["iat"], got["exp"])
		}
		delete(got, "exp")
		delete(got, "iat")
		if at, _ := got["auth_time"].(float64); at < float64(before)-1 || at > iat {
			t.Errorf("%s: auth_time %v", name, got["auth_time"])
		}
		delete(got, "auth_time")
		want := map[string]any{"active": true, "client_id": "app", "sub": u.Sub, "username": "ada", "scope": "openid profile offline_access", "iss": s.URL, "acr": "1", "amr": []any{"pwd"}}
		for k, v := range c.want {
			want[k] = v
		}
		equal(t, name, got, want)
	}
	// Being asked about does not use a refresh token up.
	wantStatus(t, "refresh", s.refreshRequest("app", secret, token.RefreshToken), http.StatusOK)
}

func TestDeadTokenIsInactive(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	ada, bob := s.addUser("ada", "activity"), s.addUser("bob", "activity")
	rp := s.app("app", func(c *provider.Client) { c.RequireFlags = []string{"activity"} })
	b, token := s.signedInTokens(rp, "ada")
	idToken := rawIDToken(token)
	key, sig, _ := strings.Cut(token.AccessToken, ".")
	for name, presented := range map[string]string{
		"garbage": "x", "blank": " ", "long": strings.Repeat("x", 20000), "forged key half": strings.Repeat("A", len(key)) + "." + sig, "signature half": "." + sig,
		"code": b.authorize(rp.authURL(), "ada").Get("code"), "ID token": idToken, "session cookie": b.cookie("cairn_session"),
	} {
		s.wantInactive(name, rp.introspect(presented))
	}
	second := rp.refresh(token.RefreshToken).JSON(t)
	s.wantInactive("rotated refresh token", rp.introspect(token.RefreshToken))
	same(t, "asking about a rotated token ended its family",
		rp.introspect(second["access_token"].(string))["active"], true)
	rp.revoke(second["access_token"].(string))
	s.wantInactive("revoked", rp.introspect(second["access_token"].(string)))
	s.wantInactive("refresh token of a revoked grant", rp.introspect(second["refresh_token"].(string)))

	_, token = s.signedInTokens(rp, "ada")
	db.exec("UPDATE tokens SET expires_at = ?", time.Now().Unix())
	s.wantInactive("expired", rp.introspect(token.AccessToken))
	s.wantInactive("expired refresh token", rp.introspect(token.RefreshToken))

	_, token = s.signedInTokens(rp, "ada")
	_, err := s.store.SetFlagsOfAll(t.Context(), account.FlagChange{"activity": {On: false}}, time.Now(),
		map[string]account.Audit{ada.Sub: operator(account.SetFlags, "ada", "")})
	noError(t, err)
	s.wantInactive("user without the flag", rp.introspect(token.AccessToken))

	_, token = s.signedInTokens(rp, "bob")
	noError(t, s.store.SuspendAll(context.Background(), "", time.Now(), map[string]account.Audit{bob.Sub: operator(account.Suspend, "bob", "")}))
	// The grant went with the user; were it still there, the user alone counts.
	db.exec("UPDATE grants SET revoked_at = 0")
	s.wantInactive("suspended user", rp.introspect(token.AccessToken))
	s.wantInactive("suspended user's refresh token", rp.introspect(token.RefreshToken))
}

// Introspection says of a token what the token endpoint holds, by the lifetimes that its client has now.
func TestIntrospectionFollowsTheLifetimesOfTheClient(t *testing.T) {
	now, later := lateClock()
	s, db := startServiceWithDatabase(t, serviceOptions{Now: now}, "ada")
	rp := s.app("app", func(c *provider.Client) { c.AccessLifetime, c.RefreshLifetime = 24*time.Hour, 24*time.Hour }, "openid", "offline_access")
	tokens := rp.redeem(s.browser().authorize(rp.authURL(), "ada").Get("code"))
	lifetimes := func(access, refresh, chain time.Duration) {
		t.Helper()
		c, err := s.store.Client(t.Context(), "app")
		noError(t, err)
		c.AccessLifetime, c.RefreshLifetime, c.RefreshMaxLifetime = access, refresh, chain
		noError(t, s.store.UpdateClient(t.Context(), c, operator(account.UpdateClient, "app", "")))
		later()
	}
	lifetimes(0, 0, 0)
	got := rp.introspect(tokens.text(t, "access_token"))
	if issued, _ := got["iat"].(float64); got["active"] != true || issued > float64(time.Now().Unix()) {
		t.Errorf("an access token with a lifetime of before: %v", got)
	}
	lifetimes(0, 24*time.Hour, 24*time.Hour)
	db.exec("UPDATE grants SET created_at = created_at - 30 * 3600")
	if got := rp.introspect(tokens.text(t, "refresh_token")); got["active"] != false {
		t.Errorf("of a chain that has ended: %v", got)
	}
	wantInvalidGrant(t, "refresh", rp.refresh(tokens.text(t, "refresh_token")))
}

package httpd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/cairn-id/cairn/provider"
)

// Every way of a client to say who it is, but the right one.
func TestClientNeedsItsSecret(t *testing.T) {
	s, rp := startApp(t, nil)
	secret, other := rp.config.ClientSecret, s.addClient("other", nil)
	s.addClient("strict", func(c *provider.Client) { c.AuthMethod = provider.AuthBasic })
	s.addClient("post", func(c *provider.Client) { c.AuthMethod = provider.AuthPost })
	s.addClient("public", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	b64 := base64.StdEncoding.EncodeToString
	basic := func(id, secret string) []string { return []string{"Basic " + b64([]byte(id+":"+secret))} }
	good := b64([]byte("app:" + secret))
	send := func(form map[string]string, header ...string) response {
		t.Helper()
		values := rp.codeForm(code)
		for name, value := range form {
			values.Set(name, value)
		}
		var pairs []string
		for _, h := range header {
			pairs = append(pairs, "Authorization", h)
		}
		return s.browser().do("POST", "/oauth2/token", "application/x-www-form-urlencoded", values.Encode(), pairs...)
	}
	type form = map[string]string
	for name, c := range map[string]struct {
		form   form
		header []string
	}{
		"nothing": {nil, nil}, "id alone": {form{"client_id": "app"}, nil}, "blank secret": {form{"client_id": "app", "client_secret": ""}, nil}, "wrong secret": {form{"client_id": "app", "client_secret": "x"}, nil},
		"truncated": {form{"client_id": "app", "client_secret": secret[:len(secret)-1]}, nil}, "other case": {form{"client_id": "app", "client_secret": strings.ToUpper(secret)}, nil}, "NUL at the end": {form{"client_id": "app", "client_secret": secret + "\x00"}, nil},
		"assertion": {form{"client_id": "app", "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": "a.b.c"}, nil}, "post at a client for basic": {form{"client_id": "strict", "client_secret": "secret-of-strict-0123456789abcdefghij"}, nil},
		"basic blank": {nil, basic("app", "")}, "basic wrong": {nil, basic("app", "x")}, "another client's basic": {form{"client_id": "app"}, basic("other", other)}, "two methods": {form{"client_id": "app", "client_secret": secret}, basic("app", secret)},
		"unknown client": {nil, basic("nobody", secret)}, "bearer": {form{"client_id": "app"}, []string{"Bearer " + secret}}, "bad escape": {nil, basic("app", "100%zz")}, "basic at a client for post": {nil, basic("post", "secret-of-post-0123456789abcdefghij")},
		"empty header": {nil, []string{""}}, "scheme alone": {nil, []string{"Basic"}}, "scheme and blank": {nil, []string{"Basic "}}, "no base64": {nil, []string{"Basic %%%"}}, "no colon": {nil, []string{"Basic " + b64([]byte("app"))}}, "binary": {nil, basic("\x00\xff", "\xfe")},
		"20 kB": {nil, basic("app", strings.Repeat("x", 15000))}, "20 kB of id": {nil, basic(strings.Repeat("a", 15000), "x")}, "cut": {nil, []string{"Basic " + good[:len(good)-4]}}, "no scheme": {nil, []string{good}}, "twice": {nil, []string{"Basic " + good, "Basic " + good}},
		"with another": {nil, []string{"Basic " + good, "Bearer x"}}, "joined": {nil, []string{"Basic " + good + ", Basic " + good}}, "digest": {nil, []string{`Digest username="app"`}}, "id in upper case": {nil, basic("APP", secret)}, "blank before the id": {nil, basic(" app", secret)},
		"NUL after the secret": {nil, basic("app", secret+"\x00")}, "escaped NUL": {nil, basic("app%00", secret)}, "secret of a public client": {nil, basic("public", "x")}, "no id": {nil, basic("", secret)}, "secret twice": {nil, basic("app", secret+":"+secret)},
		"wildcard": {nil, basic("%25", secret)}, "SQL": {nil, basic("' OR '1'='1", "' OR '1'='1")},
	} {
		got := send(c.form, c.header...)
		wantOAuthError(t, name, got, http.StatusUnauthorized, "invalid_client")
		if !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: WWW-Authenticate %q", name, got.Header.Get("WWW-Authenticate"))
		}
	}
	wantStatus(t, "60 kB", send(nil, "Basic "+strings.Repeat("A", 60000)), http.StatusRequestHeaderFieldsTooLarge)
	for _, kind := range []string{"application/x-www-form-urlencoded; charset=utf-8", "Application/X-WWW-Form-Urlencoded"} {
		values := rp.codeForm("x")
		values.Set("client_id", "app")
		values.Set("client_secret", secret)
		wantInvalidGrant(t, kind, s.browser().do("POST", "/oauth2/token", kind, values.Encode()))
	}
	// After all that the honest client still gets its tokens, whatever the letters of the scheme.
	wantStatus(t, "the scheme in other letters", send(nil, "bAsIc "+good), http.StatusOK)
	code = s.browser().authorize(rp.authURL(), "ada").Get("code")
	wantStatus(t, "client_secret_post", send(form{"client_id": "app", "client_secret": secret}), http.StatusOK)
}

func TestTokenEndpointRefusesOtherRequests(t *testing.T) {
	s := startService(t, serviceOptions{})
	secret := s.addClient("app", nil)
	auth := "Basic " + base64.StdEncoding.EncodeToString([]byte("app:"+secret))
	b := s.browser()
	for _, grant := range []string{"password", "implicit", "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:grant-type:jwt-bearer", "authorization_code refresh_token", "AUTHORIZATION_CODE"} {
		got := b.do("POST", "/oauth2/token", "application/x-www-form-urlencoded",
			url.Values{"grant_type": {grant}, "username": {"ada"},
				"password": {password}}.Encode(), "Authorization", auth)
		wantOAuthError(t, grant, got, http.StatusBadRequest, "unsupported_grant_type")
	}
	for name, c := range map[string]struct{ method, kind, body string }{
		"GET":        {"GET", "", ""},
		"PUT":        {"PUT", "application/x-www-form-urlencoded", "grant_type=authorization_code"},
		"JSON":       {"POST", "application/json", `{"grant_type":"authorization_code"}`},
		"multipart":  {"POST", "multipart/form-data; boundary=x", "--x--"},
		"no type":    {"POST", "", "grant_type=authorization_code"},
		"empty":      {"POST", "application/x-www-form-urlencoded", ""},
		"duplicates": {"POST", "application/x-www-form-urlencoded", "grant_type=authorization_code&code=a&code=b"},
		"two grants": {"POST", "application/x-www-form-urlencoded", "grant_type=authorization_code&grant_type=refresh_token&code=a"},
		"bad escape": {"POST", "application/x-www-form-urlencoded", "grant_type=%zz"},
		"too large":  {"POST", "application/x-www-form-urlencoded", "grant_type=authorization_code&code=" + strings.Repeat("a", 3<<20)},
	} {
		got := b.do(c.method, "/oauth2/token", c.kind, c.body, "Authorization", auth)
		if got.StatusCode < 400 || got.StatusCode > 499 || got.JSON(t)["error"] != "invalid_request" {
			t.Errorf("%s: %d %.100s", name, got.StatusCode, got.Text)
		}
	}
}

// signingClient is a client with private_key_jwt and its key.
type signingClient struct {
	t      *testing.T
	id     string
	issuer string
	key    *ecdsa.PrivateKey
}

func (s *service) addSigningClient(id string, change func(*provider.Client)) *signingClient {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(s.t, err)
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k", Use: "sig", Algorithm: "ES256"}}})
	noError(s.t, err)
	if set, err = provider.CheckClientKeys(set); err != nil {
		s.t.Fatal(err)
	}
	s.addClient(id, func(c *provider.Client) {
		c.AuthMethod, c.JWKS = provider.AuthJWT, set
		if change != nil {
			change(c)
		}
	})
	return &signingClient{s.t, id, s.URL, key}
}

// assertion is a good one; change adds, replaces or (nil) removes claims.
func (c *signingClient) assertion(change ...any) string {
	c.t.Helper()
	claims := map[string]any{"iss": c.id, "sub": c.id, "aud": c.issuer + "/oauth2/token", "jti": rand.Text(), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	for i := 0; i+1 < len(change); i += 2 {
		if claims[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(claims, change[i].(string))
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: c.key, KeyID: "k"}}, nil)
	noError(c.t, err)
	out, err := jwt.Signed(signer).Claims(claims).Serialize()
	noError(c.t, err)
	return out
}

// signed adds an assertion to a form.
func signed(form url.Values, assertion string) url.Values {
	out := url.Values{"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {assertion}}
	for name, values := range form {
		out[name] = values
	}
	return out
}

func TestSigningClientNeedsNoSecret(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	c := s.addSigningClient("app", func(c *provider.Client) { c.ClientCredentials = true })
	rp := s.relyingParty("app", "")
	pushed := s.clientPost("par", "", "", signed(rp.pushed(), c.assertion("aud", s.URL)))
	if pushed.StatusCode != http.StatusCreated {
		t.Fatalf("push: %d %s", pushed.StatusCode, pushed.Text)
	}
	code := s.browser().authorize(s.pushedURL("app", pushed.JSON(t)["request_uri"].(string)), "ada").Get("code")
	got := s.clientPost("token", "", "", signed(rp.codeForm(code), c.assertion("aud", s.URL)))
	if got.StatusCode != http.StatusOK {
		t.Fatalf("token: %d %s", got.StatusCode, got.Text)
	}
	tokens := got.JSON(t)
	refreshed := s.clientPost("token", "", "",
		signed(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens["refresh_token"].(string)},
			"client_id": {"app"}}, c.assertion()))
	if refreshed.StatusCode != http.StatusOK {
		t.Fatalf("refresh: %d %s", refreshed.StatusCode, refreshed.Text)
	}
	access := url.Values{"token": {refreshed.JSON(t)["access_token"].(string)}}
	if got := s.clientPost("introspect", "", "", signed(access, c.assertion())); got.JSON(t)["active"] != true {
		t.Errorf("introspect: %d %s", got.StatusCode, got.Text)
	}
	wantRevoked(t, "revoke", s.clientPost("revoke", "", "", signed(access, c.assertion("aud", s.URL))))
	wantStatus(t, "client_credentials", s.clientPost("token", "", "", signed(url.Values{"grant_type": {"client_credentials"}}, c.assertion())), http.StatusOK)
}

// A client authenticates by its own method and no other. An assertion for several
// servers, or for an address that is not the service's name as a whole, could have come
// from elsewhere; one that is good for years is a secret.
func TestAssertionsThatAreRefused(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	c := s.addSigningClient("app", nil)
	left := "secret-of-app-0123456789abcdefghij" // left behind when the client changed to keys
	secret := s.addClient("plain", nil)
	withKeys := &signingClient{t, "keys", s.URL, c.key}
	s.addClient("keys", nil)
	db.exec("UPDATE clients SET jwks = (SELECT a.jwks FROM clients a WHERE a.id = 'app') WHERE id = 'keys'") // registration refuses it
	form, token, years := url.Values{"token": {"x"}}, s.URL+"/oauth2/token", time.Now().AddDate(9, 0, 0).Unix()
	for name, got := range map[string]response{
		"basic": s.clientPost("revoke", "app", left, form), "post": s.clientPost("revoke", "", "", url.Values{"client_id": {"app"}, "client_secret": {left}, "token": {"x"}}), "id alone": s.clientPost("revoke", "app", "", form),
		"assertion and basic": s.clientPost("revoke", "app", left, signed(form, c.assertion())), "assertion and another client's basic": s.clientPost("revoke", "plain", secret, signed(form, c.assertion())),
		"assertion for another client_id": s.clientPost("revoke", "plain", "", signed(form, c.assertion())), "assertion of a client with a secret": s.clientPost("revoke", "", "", signed(form, withKeys.assertion())),
		"type alone": s.clientPost("revoke", "app", "", url.Values{"client_assertion_type": {"x"}, "token": {"x"}}), "assertion alone": s.clientPost("revoke", "app", "", url.Values{"client_assertion": {c.assertion()}, "token": {"x"}}),
	} {
		wantOAuthError(t, name, got, http.StatusUnauthorized, "invalid_client")
	}
	for name, change := range map[string][]any{
		"of another": {"iss", "plain", "sub", "plain"}, "without exp": {"exp", nil}, "for another server": {"aud", "https://other.example"}, "an hour": {"exp", time.Now().Add(time.Hour).Unix()}, "the PAR address": {"aud", s.URL + "/oauth2/par"},
		"several": {"aud", []string{s.URL, token}}, "a list of one": {"aud", []string{token}}, "ours among foreign": {"aud", []string{token, "https://other.example"}}, "years": {"exp", years}, "years, without iat": {"exp", years, "iat", nil},
	} {
		wantOAuthError(t, name, s.clientPost("revoke", "", "", signed(form, c.assertion(change...))), http.StatusUnauthorized, "invalid_client")
	}
	wantOAuthError(t, "in the URL", s.browser().postForm("/oauth2/revoke?client_assertion="+c.assertion(), form), http.StatusBadRequest, "invalid_request")
	for _, aud := range []string{s.URL, token} {
		wantRevoked(t, "the method of its own, for "+aud, s.clientPost("revoke", "", "", signed(form, c.assertion("aud", aud))))
	}
	wantRevoked(t, "the other's own", s.clientPost("revoke", "keys", "secret-of-keys-0123456789abcdefghij", form))
}

func TestAssertionIsSpentOnce(t *testing.T) {
	s := startService(t, serviceOptions{})
	c, other := s.addSigningClient("app", nil), s.addSigningClient("other", nil)
	for range 3 {
		form := signed(url.Values{"token": {"x"}}, c.assertion())
		got := inParallel(16, func(i int) int { return s.clientPost([]string{"revoke", "introspect"}[i%2], "", "", form).StatusCode })
		if got[http.StatusOK] != 1 || got[http.StatusUnauthorized] != 15 {
			t.Errorf("one assertion, 16 times: %v", got)
		}
		wantOAuthError(t, "later", s.clientPost("revoke", "", "", form), http.StatusUnauthorized, "invalid_client")
	}
	// A jti counts for its client alone: nobody can use up another's.
	for _, signer := range []*signingClient{c, other} {
		wantRevoked(t, signer.id, s.clientPost("revoke", "", "", signed(url.Values{"token": {"x"}}, signer.assertion("jti", "the same"))))
	}
	wantOAuthError(t, "the same jti in another assertion",
		s.clientPost("revoke", "", "", signed(url.Values{"token": {"x"}}, c.assertion("jti", "the same", "exp",
			time.Now().Add(2*time.Minute).Unix()))), http.StatusUnauthorized, "invalid_client")
}

// 401 would make the client's operator look for a wrong key.
func TestLostDatabaseIsNotAWrongAssertion(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	c := s.addSigningClient("app", nil)
	form := url.Values{"token": {"x"}}
	assertion := c.assertion()
	mend := db.breaks("INSERT ON client_assertions")
	wantUnavailable(t, "spending", s.clientPost("revoke", "", "", signed(form, assertion)))
	mend()
	wantRevoked(t, "the same afterwards", s.clientPost("revoke", "", "", signed(form, assertion)))
	noError(t, s.store.Close())
	stranger := &signingClient{t, "strange", s.URL, c.key}
	wantUnavailable(t, "client that is not in memory", s.clientPost("revoke", "", "", signed(form, stranger.assertion())))
}

func TestClientTokenActsForNobody(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{}, "ada")
	secret := s.addClient("machine", func(c *provider.Client) { c.ClientCredentials = true })
	conf := clientcredentials.Config{ClientID: "machine", ClientSecret: secret, TokenURL: s.URL + "/oauth2/token", Scopes: []string{"profile", "groups"}}
	token, err := conf.Token(t.Context())
	noError(t, err)
	if token.RefreshToken != "" || token.Extra("id_token") != nil || token.Extra("scope") != "profile groups" ||
		token.TokenType != "Bearer" || token.Extra("expires_in") != float64(3600) {
		t.Errorf("%+v, scope %v", token, token.Extra("scope"))
	}
	got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken)
	wantOAuthError(t, "userinfo", got, http.StatusUnauthorized, "invalid_token")
	has(t, "WWW-Authenticate", got.Header.Get("WWW-Authenticate"), `error="invalid_token"`)
	// Also not when openid got into it some other way.
	db.exec("UPDATE client_tokens SET scope = 'openid profile'")
	wantOAuthError(t, "userinfo with openid", s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken), http.StatusUnauthorized, "invalid_token")
	wantStatus(t, "/api/me", s.browser().api("GET", "/api/me", nil, "Authorization", "Bearer "+token.AccessToken), http.StatusUnauthorized)
	wantInvalidGrant(t, "as a refresh token", s.refreshRequest("machine", secret, token.AccessToken))
	answer := s.introspect("machine", secret, token.AccessToken)
	delete(answer, "exp")
	delete(answer, "iat")
	want := map[string]any{"active": true, "client_id": "machine", "scope": "openid profile", "token_type": "Bearer", "iss": s.URL}
	equal(t, "introspection", answer, want)
}

func TestClientCredentialsGiveWhatIsRegistered(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	machine := s.addClient("machine", func(c *provider.Client) {
		c.ClientCredentials, c.Scopes = true, []string{"openid", "profile", "groups", "offline_access"}
	})
	app := s.addClient("app", nil)
	s.addClient("phone", func(c *provider.Client) { c.ClientCredentials = true })
	db.exec("UPDATE clients SET auth_method = 'none' WHERE id = 'phone'") // registration refuses it
	request := func(id, secret, scope string) response {
		return s.clientPost("token", id, secret, url.Values{"grant_type": {"client_credentials"}, "scope": {scope}})
	}
	for _, scope := range []string{"openid", "offline_access", "openid profile", "profile offline_access", "email", "admin", "profile admin", "*", "PROFILE"} {
		wantOAuthError(t, "scope "+scope, request("machine", machine, scope), http.StatusBadRequest, "invalid_scope")
	}
	wantOAuthError(t, "not registered for it", request("app", app, "profile"), http.StatusBadRequest, "unauthorized_client")
	wantOAuthError(t, "not registered for it, wrong scope", request("app", app, "admin"), http.StatusBadRequest, "unauthorized_client")
	wantOAuthError(t, "public", request("phone", "", "profile"), http.StatusBadRequest, "unauthorized_client")
	wantOAuthError(t, "wrong secret", request("machine", "x", ""), http.StatusUnauthorized, "invalid_client")
	wantOAuthError(t, "no secret", request("machine", "", ""), http.StatusUnauthorized, "invalid_client")
	wantOAuthError(t, "secret in the URL",
		s.browser().postForm("/oauth2/token?client_id=machine&client_secret="+machine,
			url.Values{"grant_type": {"client_credentials"}}), http.StatusBadRequest, "invalid_request")
	same(t, "tokens were made", db.count("SELECT count(*) FROM client_tokens"), 0)
	got := request("machine", machine, "")
	if answer := got.JSON(t); got.StatusCode != http.StatusOK || answer["scope"] != nil || answer["refresh_token"] != nil {
		t.Errorf("without a scope: %d %s", got.StatusCode, got.Text)
	}
	mend := db.breaks("INSERT ON client_tokens")
	wantUnavailable(t, "client_credentials", request("machine", machine, ""))
	mend()
}

func TestRevokedClientTokenLeavesTheOthers(t *testing.T) {
	s := startService(t, serviceOptions{})
	secret, evil := s.addClient("machine", func(c *provider.Client) { c.ClientCredentials = true }), s.addClient("evil", nil)
	token := func() string {
		return s.clientPost("token", "machine", secret, url.Values{"grant_type": {"client_credentials"}}).JSON(t)["access_token"].(string)
	}
	first, second := token(), token()
	wantRevoked(t, "at another client", s.clientPost("revoke", "evil", evil, url.Values{"token": {first}}))
	s.wantInactive("at another client", s.introspect("evil", evil, first))
	same(t, "another client ended it", s.introspect("machine", secret, first)["active"], true)
	wantRevoked(t, "own", s.clientPost("revoke", "machine", secret, url.Values{"token": {first}}))
	s.wantInactive("revoked", s.introspect("machine", secret, first))
	same(t, "the other token is gone too", s.introspect("machine", secret, second)["active"], true)
}

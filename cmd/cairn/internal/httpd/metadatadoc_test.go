package httpd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// agentHost is a web server with descriptions of clients.
type agentHost struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	fetched map[string]int
}

func startAgentHost(t *testing.T) *agentHost {
	t.Helper()
	h := &agentHost{answers: map[string]http.HandlerFunc{}, fetched: map[string]int{}}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.fetched[r.URL.Path]++
		answer := h.answers[r.URL.Path]
		h.mu.Unlock()
		if answer == nil {
			answer = http.NotFound
		}
		answer(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *agentHost) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(h.Certificate())
	return pool
}

func (h *agentHost) serve(path string, answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = answer
}

func (h *agentHost) count(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fetched[path]
}

// describe serves a good description at the path, with changes; it returns the client's id.
func (h *agentHost) describe(path string, change map[string]any, header ...string) (id string) {
	id = h.URL + path
	doc := map[string]any{"client_id": id, "client_name": "Notes Agent", "redirect_uris": []string{"http://127.0.0.1/callback"}, "token_endpoint_auth_method": "none"}
	maps.Copy(doc, change)
	maps.DeleteFunc(doc, func(_ string, v any) bool { return v == nil })
	body, _ := json.Marshal(doc)
	h.serve(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		_, _ = w.Write(body)
	})
	return id
}

func (s *service) allow(url string, apis ...string) {
	s.t.Helper()
	a := provider.Allowance{URL: url, Scopes: []string{"openid", "profile", "offline_access"}, APIs: apis, CreatedAt: time.Now()}
	noError(s.t, s.store.AllowClients(s.t.Context(), a, account.Operator().Audit(time.Now(), account.AllowClients, url, "")))
}

// startAgents is a service that allows what lies below /ok/ of a host, on a clock that the test can set forward.
func startAgents(t *testing.T) (*service, *agentHost, func(time.Duration)) {
	t.Helper()
	h := startAgentHost(t)
	var mu sync.Mutex
	ahead := time.Duration(0)
	s := startService(t, serviceOptions{DocumentRoots: h.roots(), Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(ahead)
	}})
	s.addUser("ada")
	s.allow(h.URL + "/ok/*")
	return s, h, func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		ahead += d
	}
}

func (s *service) agent(id, redirect string, scopes ...string) *relyingParty {
	s.t.Helper()
	rp := s.relyingParty(id, "", scopes...)
	rp.config.RedirectURL = redirect
	return rp
}

func TestAllowedClientSignsInByItsOwnDescription(t *testing.T) {
	s, h, forward := startAgents(t)
	id := h.describe("/ok/agent.json", nil)
	rp := s.agent(id, "http://127.0.0.1:49152/callback", "openid", "profile", "email", "offline_access")
	b := s.signedIn("ada")
	page := b.consentPage(rp.authURL())
	host := strings.TrimPrefix(h.URL, "https://")
	main := mainOf(page.Text)
	for _, want := range []string{"Allow <bdi>" + host + ": Notes Agent</bdi>?", "comes from <code>" + host, "a program on this device"} {
		has(t, "the consent page lacks", main, want)
	}
	same(t, "asks for : more than was allowed",
		strings.Join(scopesShown(t, page.Text), " "), "openid profile offline_access")
	if all, err := s.store.Clients(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("a request alone has stored %v, %v", all, err)
	}
	token, err := rp.exchange(b.authorize(rp.authURL(), "ada").Get("code"))
	noError(t, err)
	if got := rp.idToken(token); got.Audience[0] != id {
		t.Errorf("aud %v", got.Audience)
	}
	again := rp.refresh(token.RefreshToken)
	if again.StatusCode != http.StatusOK || consentPageOf(b, rp.authURL()) != nil || h.count("/ok/agent.json") != 1 {
		t.Errorf("refresh %d, or asked again, or %d fetches", again.StatusCode, h.count("/ok/agent.json"))
	}
	h.serve("/ok/agent.json", nil)
	forward(6 * time.Minute)
	s.wantUserinfo("a token of a client whose description is gone", again.text(t, "access_token"), http.StatusUnauthorized)
	h.describe("/ok/agent.json", nil)
	forward(2 * time.Minute)
	removed, err := s.store.DisallowClients(t.Context(), h.URL+"/ok/*", account.Operator().Audit(time.Now(), account.DisallowClients, "", ""))
	if err != nil || len(removed) != 1 || removed[0] != id {
		t.Fatalf("removed %v, %v", removed, err)
	}
	got := b.get("/oauth2/userinfo", "Authorization", "Bearer "+again.JSON(t)["access_token"].(string))
	same(t, "a token of a client that is allowed no longer", got.StatusCode, http.StatusUnauthorized)
}

// An API that is open to all clients was meant for those that the operator registered.
func TestClientWithADescriptionGetsTheAPIsItWasAllowedAlone(t *testing.T) {
	s, h, _ := startAgents(t)
	open := func(a *provider.API) {
		a.AllClients, a.Algorithm, a.Scopes = true, "RS256", []provider.APIScope{{Name: "maps", Sentence: "See the maps"}}
	}
	s.addAPI(maps3, "Maps", open)
	s.addAPI(trails, "Trails", func(a *provider.API) { a.Algorithm = "RS256" })
	s.allow(h.URL+"/granted/*", trails)
	b := s.signedIn("ada")
	for _, c := range []struct{ path, uri, want string }{
		{"/ok/agent.json", maps3, "invalid_target"}, {"/granted/agent.json", maps3, "invalid_target"}, {"/granted/agent.json", trails, "code"},
	} {
		rp := s.agent(h.describe(c.path, nil), "http://127.0.0.1:49152/callback", "openid")
		wantAnswer(t, c.path+" "+c.uri, b.authorize(rp.authURL("resource", c.uri), "ada"), c.want)
	}
	rp := s.agent(h.describe("/ok/agent.json", nil), "http://127.0.0.1:49152/callback", "openid")
	token, err := rp.exchange(b.authorize(rp.authURL("scope", "openid maps openid"), "ada").Get("code"))
	noError(t, err)
	if token.Extra("scope") != "openid" || strings.HasPrefix(token.AccessToken, "eyJ") {
		t.Errorf("a scope of that API: %v", token.Extra("scope"))
	}
}

// What is not allowed is an unknown client, and nothing is fetched.
func TestOnlyAllowedDescriptionsAreFetched(t *testing.T) {
	s, h, _ := startAgents(t)
	b := s.signedIn("ada")
	for _, path := range []string{"/other.json", "/ok", "/ok/", "/ok/../other.json", "/ok/%2e%2e/other.json", "/ok/%2E./x", "/ok/x?y=z", "/ok/x#y", "/ok/..%2fother.json", "/ok/..%5cother.json", "/OK/x"} {
		h.describe(path, nil)
		rp := s.agent(h.URL+path, "http://127.0.0.1/callback")
		if got := b.get(rp.authURL()); got.StatusCode != http.StatusBadRequest || got.Header.Get("Location") != "" {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	host := strings.TrimPrefix(h.URL, "https://")
	for _, id := range []string{"http://" + host + "/ok/x", "https://ada@" + host + "/ok/x", "https://" + strings.ReplaceAll(host, "127.0.0.1", "localhost") + "/ok/x", "https://" + host + ".evil.example/ok/x"} {
		same(t, id, b.get(s.agent(id, "http://127.0.0.1/callback").authURL()).StatusCode, http.StatusBadRequest)
	}
	got := s.browser().postForm("/oauth2/token", url.Values{"client_id": {h.describe("/ok/agent.json", nil)}, "scope": {"a", "b"}})
	wantOAuthError(t, "refused before its authentication", got, http.StatusBadRequest, "invalid_request")
	same(t, fmt.Sprintf("fetched %v", h.fetched), len(h.fetched), 0)
}

// Outside of tests nothing is fetched from private addresses, whatever is allowed.
func TestDescriptionOnAPrivateAddressIsNotFetched(t *testing.T) {
	h := startAgentHost(t)
	s := startService(t, serviceOptions{}, "ada")
	for _, base := range []string{h.URL, strings.Replace(h.URL, "127.0.0.1", "localhost", 1)} {
		s.allow(base + "/*")
		address := s.agent(base+"/agent.json", "http://127.0.0.1/callback").authURL()
		same(t, base, s.browser().get(address).StatusCode, http.StatusBadRequest)
		has(t, "Text", s.explain(address, "ada").Findings[0].Text, "private network")
	}
	same(t, fmt.Sprintf("fetched %v", h.fetched), len(h.fetched), 0)
}

func TestBadDescriptionIsRefusedWithTheReason(t *testing.T) {
	s, h, _ := startAgents(t)
	b := s.signedIn("ada")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	private := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: "k"}}}
	raw := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(strings.ReplaceAll(body, "ID", h.URL+r.URL.Path)))
		}
	}
	const good = `{"client_id": "ID", "redirect_uris": ["http://127.0.0.1/callback"]`
	for name, c := range map[string]struct {
		change map[string]any
		answer http.HandlerFunc
		why    string // empty: it is good
	}{
		"another id":           {map[string]any{"client_id": h.URL + "/ok/"}, nil, "is not its URL"},
		"no id":                {map[string]any{"client_id": nil}, nil, "is not its URL"},
		"a secret":             {map[string]any{"client_secret": "x"}, nil, "client_secret"},
		"a secret that ends":   {map[string]any{"client_secret_expires_at": 0}, nil, "client_secret"},
		"a secret as method":   {map[string]any{"token_endpoint_auth_method": "client_secret_basic"}, nil, "none or private_key_jwt"},
		"keys elsewhere":       {map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": h.URL + "/ok/keys"}, nil, "jwks_uri, which is not fetched"},
		"no keys":              {map[string]any{"token_endpoint_auth_method": "private_key_jwt"}, nil, "jwks"},
		"a private key":        {map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": private}, nil, "private"},
		"no redirect URI":      {map[string]any{"redirect_uris": nil}, nil, "redirect_uris"},
		"a script as redirect": {map[string]any{"redirect_uris": []string{"javascript:alert(1)"}}, nil, "redirect_uris"},
		"plain http":           {map[string]any{"redirect_uris": []string{"http://app.example.org/"}}, nil, "use https."},
		"names are no lists":   {map[string]any{"redirect_uris": "http://127.0.0.1/callback"}, nil, "RFC 7591"},
		"HTML":                 {nil, raw("text/html", good+"}"), "Content-Type"},
		"no JSON":              {nil, raw("application/json", "<"), "RFC 7591"},
		"twice the same":       {nil, raw("application/json", good+`, "client_id": "ID"}`), "RFC 7591"},
		"too long":             {nil, raw("application/json", good+`, "x": "`+strings.Repeat("x", 5<<10)+`"}`), "5 KiB"},
		"a redirect":           {nil, http.RedirectHandler(h.URL+"/ok/agent.json", http.StatusFound).ServeHTTP, "redirect, which is not followed"},
		"not found":            {nil, http.NotFound, "404"},
		"broken":               {nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "502"},
		"another binary":       {nil, raw("application/octet-stream", good+"}"), "Content-Type"},
		"a model in JSON":      {nil, raw("model/gltf+json", good+"}"), "Content-Type"},
		"a broken type":        {nil, raw("application/json; =", good+"}"), "Content-Type"},
		"hung up":              {nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "fetched: EOF"},
		"an editor's scheme":   {map[string]any{"redirect_uris": []string{"editor://cb", "http://127.0.0.1/callback"}}, nil, ""},
		"another JSON":         {nil, raw("application/ld+json; charset=utf-8", good+"}"), ""},
		"a name with controls": {map[string]any{"client_name": "a\u202eb"}, nil, ""},
		"a long name":          {map[string]any{"client_name": strings.Repeat("x", 300)}, nil, ""},
	} {
		path := "/ok/" + strings.ReplaceAll(name, " ", "-")
		id := h.describe(path, c.change)
		if c.answer != nil {
			h.serve(path, c.answer)
		}
		address := s.agent(id, "http://127.0.0.1/callback", "openid").authURL()
		got, why := b.get(address), s.explain(address, "ada").Findings[0]
		if c.why == "" && (got.StatusCode != http.StatusSeeOther || why.Verdict != provider.FindingGood) {
			t.Errorf("%s: %d, %s", name, got.StatusCode, why.Text)
		}
		if c.why != "" && (got.StatusCode != http.StatusBadRequest || !strings.Contains(why.Text, c.why)) {
			t.Errorf("%s: %d, %s", name, got.StatusCode, why.Text)
		}
		if b.get(address); h.count(path) != 2 { // the service once, explain once
			t.Errorf("%s: fetched %d times", name, h.count(path))
		}
	}
	if h.count("/ok/agent.json") > 0 || h.count("/ok/keys") > 0 {
		t.Error("what a description names was fetched")
	}
}

// However many strangers name however many descriptions, the service opens few connections for them.
func TestSixteenDescriptionsAreFetchedAtOnce(t *testing.T) {
	s, h, _ := startAgents(t)
	var all sync.WaitGroup
	var open, most atomic.Int64
	for i := range 24 {
		path := fmt.Sprintf("/ok/%d", i)
		h.serve(path, func(http.ResponseWriter, *http.Request) {
			for n, m := open.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(200 * time.Millisecond)
			open.Add(-1)
		})
		all.Go(func() { s.browser().get(s.agent(h.URL+path, "http://127.0.0.1/callback", "openid").authURL()) })
	}
	all.Wait()
	if n := most.Load(); n > 16 {
		t.Errorf("%d are fetched at once", n)
	}
}

func TestDescriptionIsKeptAsItsHeadersSay(t *testing.T) {
	s, h, forward := startAgents(t)
	for control, age := range map[string]time.Duration{"": 5 * time.Minute, "no-store": 5 * time.Minute, "max-age=1": 5 * time.Minute, "public, max-age=3600": time.Hour, "max-age=999999": 24 * time.Hour} {
		path := "/ok/" + age.String() + "-" + strings.Trim(control, "=, ")
		path = strings.NewReplacer(",", "", "=", "", " ", "").Replace(path)
		address := s.agent(h.describe(path, nil, "Cache-Control", control), "http://127.0.0.1/callback").authURL()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { s.browser().get(address) })
		}
		all.Wait()
		forward(age - 10*time.Second)
		s.browser().get(address)
		same(t, fmt.Sprintf("%q: fetched, times before its end", control), h.count(path), 1)
		forward(11 * time.Second)
		if s.browser().get(address); h.count(path) != 2 {
			t.Errorf("%q: fetched %d times after its end", control, h.count(path))
		}
		// A failure is remembered for a minute; one that may pass does not end the client.
		fault := http.StatusBadGateway
		if control == "no-store" {
			fault = http.StatusTooManyRequests
		}
		h.serve(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(fault) })
		forward(age)
		wanted := http.StatusSeeOther
		if age == 24*time.Hour {
			wanted = http.StatusBadRequest
		}
		if got := s.browser().get(address); got.StatusCode != wanted || h.count(path) != 3 {
			t.Errorf("%q: %d after a failure, fetched %d times", control, got.StatusCode, h.count(path))
		}
		h.serve(path, nil)
		forward(59 * time.Second)
		if s.browser().get(address); h.count(path) != 3 {
			t.Errorf("%q: a failure was not remembered", control)
		}
		forward(2 * time.Second)
		same(t, fmt.Sprintf("%q: a description that is gone", control),
			s.browser().get(address).StatusCode, http.StatusBadRequest)
	}
}

func TestOtherRedirectURIsAskForConsentAgain(t *testing.T) {
	s, h, forward := startAgents(t)
	id := h.describe("/ok/agent.json", nil)
	rp := s.agent(id, "http://127.0.0.1/callback", "openid")
	b := s.signedIn("ada")
	b.authorize(rp.authURL(), "ada")
	h.describe("/ok/agent.json", map[string]any{"client_name": "Other", "redirect_uris": []string{"http://127.0.0.1/callback", "http://127.0.0.1/callback"}})
	forward(6 * time.Minute)
	if consentPageOf(b, rp.authURL()) != nil {
		t.Error("asked again for a name")
	}
	h.describe("/ok/agent.json", map[string]any{"redirect_uris": []string{"http://127.0.0.1/callback", "https://evil.example/"}})
	forward(6 * time.Minute)
	if consentPageOf(b, rp.authURL()) == nil {
		t.Fatal("not asked again after a change of the redirect URIs")
	}
	e := s.explain(rp.authURL(), "ada")
	same(t, fmt.Sprintf("explain: consented to %v", e.User.Consented), len(e.User.Consented), 0)
	b.authorize(rp.authURL(), "ada")
	if consentPageOf(b, rp.authURL()) != nil {
		t.Error("asked again without a change")
	}
}

// A description that changes while the question is on the screen is not what was agreed to.
func TestConsentCoversTheRedirectURIsThatWereShown(t *testing.T) {
	s, h, forward := startAgents(t)
	const good, evil = "https://agent.example.org/cb", "https://evil.example/cb"
	id := h.describe("/ok/agent.json", map[string]any{"redirect_uris": []string{good}})
	b := s.signedIn("ada")
	page := b.consentPage(s.agent(id, good, "openid").authURL())
	h.describe("/ok/agent.json", map[string]any{"redirect_uris": []string{good, evil}})
	forward(6 * time.Minute)
	wantStatus(t, "the form of before", b.send(page, "decision", "allow"), http.StatusForbidden)
	if _, answer := answerOf(t, b.get(s.agent(id, evil, "openid").authURL("prompt", "none"))); answer.Get("code") != "" || answer.Get("error") == "" {
		t.Errorf("without a question the other address gets %v", answer)
	}
}

// A client id may have 512 bytes; a person can end the access of each.
func TestLongURLOfAClientWorksEverywhere(t *testing.T) {
	s, h, _ := startAgents(t)
	id := h.describe("/ok/"+strings.Repeat("a", 300)+".json", nil)
	rp := s.agent(id, "http://127.0.0.1:4444/callback", "openid", "offline_access")
	b, token := s.signedInTokens(rp, "ada")
	if got := b.get(s.pushedURL(id, s.push(id, "", rp.pushed()))); got.StatusCode != http.StatusSeeOther {
		t.Errorf("a pushed request: %d %s", got.StatusCode, mainOf(got.Text))
	}
	wantStatus(t, "its end", b.do("DELETE", "/api/me/apps/"+url.PathEscape(id), "", ""), http.StatusNoContent)
	wantInvalidGrant(t, "afterwards", rp.refresh(token.RefreshToken))
}

// The page names the scheme of a program, not a host that the program may write there.
func TestConsentNamesTheSchemeOfAProgram(t *testing.T) {
	s, h, _ := startAgents(t)
	const redirect = "org.example.agent://accounts.example.com/cb"
	id := h.describe("/ok/agent.json", map[string]any{"redirect_uris": []string{redirect}})
	page := mainOf(s.signedIn("ada").consentPage(s.agent(id, redirect, "openid").authURL()).Text)
	if strings.Contains(page, "accounts.example.com") || !strings.Contains(page, "org.example.agent:") {
		t.Error(page)
	}
}

func TestClientWithADescriptionMayHaveKeysAndPush(t *testing.T) {
	s, h, _ := startAgents(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k", Use: "sig", Algorithm: "ES256"}}}
	id := h.describe("/ok/agent.json", map[string]any{"token_endpoint_auth_method": "private_key_jwt", "jwks": set, "redirect_uris": []string{"https://agent.example.org/callback"}})
	c := &signingClient{t, id, s.URL, key}
	rp := s.agent(id, "https://agent.example.org/callback", "openid")
	b := s.signedIn("ada")
	pushed := b.postForm("/oauth2/par", signed(rp.pushed(), c.assertion()))
	if pushed.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", pushed.StatusCode, pushed.Text)
	}
	page := b.consentPage(rp.authURL())
	lacks(t, "warns of an answer that goes to a web site", page.Text, "consent-stays-here")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	same(t, "without its key", rp.token(rp.codeForm(code)).StatusCode, http.StatusUnauthorized)
	if got := b.postForm("/oauth2/token", signed(rp.codeForm(code), c.assertion())); got.StatusCode != http.StatusOK {
		t.Errorf("%d %s", got.StatusCode, got.Text)
	}
}

// Said only where something is allowed; and for an issuer with a path at both places (RFC 8414 section 3.1).
func TestMetadataOfDescriptionsAndOfAnIssuerWithAPath(t *testing.T) {
	var ahead atomic.Int64
	s := startService(t, serviceOptions{BasePath: "/id", Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	root := strings.TrimSuffix(s.URL, "/id")
	places := []string{s.URL + "/.well-known/openid-configuration", s.URL + "/.well-known/oauth-authorization-server", root + "/.well-known/oauth-authorization-server/id", root + "/.well-known/openid-configuration/id"}
	for _, allowed := range []bool{false, true} {
		if allowed {
			s.allow("https://agents.example.org/*")
			ahead.Store(int64(time.Minute))
		}
		for _, place := range places {
			got := s.browser().get(place)
			meta := got.JSON(t)
			if got.StatusCode != http.StatusOK || meta["issuer"] != s.URL || (meta["client_id_metadata_document_supported"] == true) != allowed {
				t.Errorf("%s: %d %v", place, got.StatusCode, meta)
			}
		}
	}
}

package httpd

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// fapiClient is a client that is held to FAPI 2.0, with the key of its proofs and its last nonce.
type fapiClient struct {
	*signingClient
	*relyingParty
	proofs *proofKey
	nonce  string
}

func startFAPI(t *testing.T, now func() time.Time) (*service, *rawDatabase, *fapiClient) {
	t.Helper()
	files, _ := keyFiles(t, jose.ES256)
	s, db := startServiceWithDatabase(t, serviceOptions{Now: now, Settings: func(c *config.Settings) { c.AdditionalKeyFiles = files }}, "ada")
	c := s.addSigningClient("bank", func(c *provider.Client) { c.Profile, c.IDTokenAlg = provider.ProfileFAPI2, "ES256" })
	return s, db, &fapiClient{c, s.relyingParty("bank", ""), s.proofKey(), ""}
}

// post sends a form with an assertion and a proof, and keeps the nonce of the answer.
func (c *fapiClient) post(endpoint string, form url.Values, change ...any) response {
	if c.nonce != "" {
		change = append([]any{"nonce", c.nonce}, change...)
	}
	got := c.service.clientPost(endpoint, "", "", signed(form, c.assertion("aud", c.service.URL)), "DPoP", c.proofs.proof(endpoint, change...))
	if next := got.Header.Get("DPoP-Nonce"); next != "" {
		c.nonce = next
	}
	return got
}

// request pushes a request with a proof that has a nonce and returns its address.
func (c *fapiClient) request(more ...string) string {
	c.service.t.Helper()
	if c.nonce == "" {
		c.post("token", url.Values{"grant_type": {"authorization_code"}, "code": {"x"}})
	}
	got := c.post("par", c.pushed(more...))
	wantStatus(c.service.t, "push", got, http.StatusCreated)
	return c.service.pushedURL("bank", got.JSON(c.service.t)["request_uri"].(string))
}

// What the modules of the OpenID suite for the profile check.
func TestClientOfFAPIIsHeldToIt(t *testing.T) {
	s, _, c := startFAPI(t, nil)
	b := s.browser()
	_, refused := answerOf(t, b.get(c.authURL()))
	if refused.Get("error") != "invalid_request" || refused.Get("code") != "" {
		t.Errorf("a request that is not pushed: %v", refused)
	}
	// A proof needs a nonce, which the refusal brings, and is not spent by the refusal.
	form := c.pushed()
	proof := c.proofs.proof("par")
	for range 2 {
		got := s.clientPost("par", "", "", signed(form, c.assertion("aud", s.URL)), "DPoP", proof)
		wantOAuthError(t, "no nonce", got, http.StatusBadRequest, "use_dpop_nonce")
		c.nonce = got.Header.Get("DPoP-Nonce")
	}
	for name, nonce := range map[string]string{"a nonce of somebody else": "x", "a damaged nonce": c.nonce + "x"} {
		wantOAuthError(t, name, c.post("par", form, "nonce", nonce), http.StatusBadRequest, "use_dpop_nonce")
	}
	for _, aud := range []any{s.URL + "/oauth2/token", s.URL + "/oauth2/par", []string{s.URL}} {
		got := s.clientPost("par", "", "", signed(form, c.assertion("aud", aud)), "DPoP", c.proofs.proof("par", "nonce", c.nonce))
		wantOAuthError(t, "aud", got, http.StatusUnauthorized, "invalid_client")
	}
	wantOAuthError(t, "no challenge", c.post("par", c.pushed("code_challenge", "", "code_challenge_method", "")), http.StatusBadRequest, "invalid_request")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	noError(t, err)
	for algorithm, code := range map[jose.SignatureAlgorithm]int{jose.RS256: http.StatusBadRequest,
		jose.PS256: http.StatusCreated} {
		k := &proofKey{t, algorithm, rsaKey, s.URL}
		got := s.clientPost("par", "", "", signed(form, c.assertion("aud", s.URL)), "DPoP", k.proof("par", "nonce", c.nonce))
		wantStatus(t, string(algorithm), got, code)
	}
	code := c.codeForm(b.authorize(c.request(), "ada").Get("code"))
	wantOAuthError(t, "no proof", s.clientPost("token", "", "", signed(code, c.assertion("aud", s.URL))), http.StatusBadRequest, "invalid_dpop_proof")
	other := *c
	other.proofs = s.proofKey()
	wantInvalidGrant(t, "a code that is bound to another key", other.post("token", code))
	got := c.post("token", code)
	wantStatus(t, "token", got, http.StatusOK)
	tokens := got.JSON(t)
	access, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)
	if tokens["token_type"] != "DPoP" || tokens["id_token"] == nil {
		t.Errorf("tokens: %v", tokens)
	}
	wantStatus(t, "userinfo", c.proofs.at(s, access, "nonce", c.nonce), http.StatusOK)
	noNonce := c.proofs.at(s, access)
	wantOAuthError(t, "userinfo without a nonce", noNonce, http.StatusUnauthorized, "use_dpop_nonce")
	if noNonce.Header.Get("DPoP-Nonce") == "" || !strings.HasPrefix(noNonce.Header.Get("WWW-Authenticate"), `DPoP realm="userinfo", error="use_dpop_nonce"`) {
		t.Errorf("userinfo without a nonce: %v", noNonce.Header)
	}

	// Refresh tokens stay the same, and work again.
	again := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}
	for range 3 {
		got := c.post("token", again)
		if wantStatus(t, "refresh", got, http.StatusOK); got.JSON(t)["refresh_token"] != refresh {
			t.Errorf("the refresh token was rotated: %s", got.Text)
		}
		wantStatus(t, "userinfo", c.proofs.at(s, got.JSON(t)["access_token"].(string), "nonce", c.nonce), http.StatusOK)
	}
	if got := inParallel(8, func(int) int {
		return s.clientPost("token", "", "", signed(again, c.assertion("aud", s.URL)), "DPoP", c.proofs.proof("token", "nonce", c.nonce)).StatusCode
	}); got[http.StatusOK] != 8 {
		t.Errorf("one refresh token, 8 times at once: %v", got)
	}
	wantRevoked(t, "revoke", s.clientPost("revoke", "", "", signed(url.Values{"token": {refresh}}, c.assertion("aud", s.URL))))
	wantInvalidGrant(t, "revoked", c.post("token", again))
	wantOAuthError(t, "its access token", c.proofs.at(s, access, "nonce", c.nonce), http.StatusUnauthorized, "invalid_token")
}

// A key without alg fits RS256 and PS256; the profile takes one of them.
func TestAssertionOfFAPIIsNotSignedWithRS256(t *testing.T) {
	s := startService(t, serviceOptions{})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	noError(t, err)
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k", Use: "sig"}}})
	noError(t, err)
	c := s.addSigningClient("app", func(c *provider.Client) { c.JWKS = set })
	for _, profile := range []string{"", provider.ProfileFAPI2} {
		if profile != "" {
			change := func(c *provider.Client) { c.JWKS, c.Profile, c.IDTokenAlg = set, profile, "ES256" }
			c = s.addSigningClient("bank", change)
		}
		for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.PS256} {
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
			noError(t, err)
			now := time.Now()
			assertion, err := jwt.Signed(signer).Claims(map[string]any{
				"iss": c.id, "sub": c.id, "aud": s.URL, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
			}).Serialize()
			noError(t, err)
			got := s.clientPost("revoke", "", "", signed(url.Values{"token": {"x"}}, assertion))
			if profile != "" && algorithm == jose.RS256 {
				wantOAuthError(t, "under the profile", got, http.StatusUnauthorized, "invalid_client")
				continue
			}
			wantRevoked(t, profile+string(algorithm), got)
		}
	}
}

// A nonce is worth nothing after five minutes; a refresh token lives on with each use.
func TestNonceAndRefreshTokenOfFAPIInTime(t *testing.T) {
	var later atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load()) * time.Second) }
	s, db, c := startFAPI(t, clock)
	got := c.post("token", c.codeForm(s.browser().authorize(c.request(), "ada").Get("code")))
	refresh := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.JSON(t)["refresh_token"].(string)}}
	db.exec("UPDATE tokens SET expires_at = expires_at - 1000 WHERE kind = 'r'")
	before := db.count("SELECT max(expires_at) FROM tokens WHERE kind = 'r'")
	wantStatus(t, "refresh", c.post("token", refresh), http.StatusOK)
	if after := db.count("SELECT max(expires_at) FROM tokens WHERE kind = 'r'"); after <= before {
		t.Errorf("the refresh token expires at %d as before", after)
	}
	later.Store(302)
	now := clock()
	form := signed(refresh, c.assertion("aud", s.URL, "iat", now.Unix(), "exp", now.Add(time.Minute).Unix()))
	late := s.clientPost("token", "", "", form, "DPoP", c.proofs.proof("token", "nonce", c.nonce, "iat", now.Unix()))
	wantOAuthError(t, "an old nonce", late, http.StatusBadRequest, "use_dpop_nonce")
}

// The setting demands of every client what the profile demands of one.
func TestAllRequestsCanBeRequiredToBePushed(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.RequirePushedRequests = true }}, "ada")
	rp := s.app("app", nil)
	same(t, "metadata",
		s.browser().get("/.well-known/openid-configuration").JSON(t)["require_pushed_authorization_requests"], true)
	_, answer := answerOf(t, s.browser().get(rp.authURL()))
	same(t, fmt.Sprintf("not pushed: %v", answer), answer.Get("error"), "invalid_request")
	uri := s.push("app", rp.config.ClientSecret, rp.pushed())
	if _, err := rp.exchange(s.browser().authorize(s.pushedURL("app", uri), "ada").Get("code")); err != nil {
		t.Errorf("pushed: %v", err)
	}
	s.addClient("tool", func(c *provider.Client) { c.AuthMethod, c.DeviceGrant, c.RedirectURIs = provider.AuthNone, true, nil })
	has(t, "a device's", s.browser().typed(s.startDevice("tool", "", nil).user, "ada", "allow").Text, `id="device-allowed"`)
}

// openid-client goes through the profile as its documentation shows it, and answers the demand for a nonce.
func TestOpenIDClientSpeaksFAPI(t *testing.T) {
	script := nodeScript(t, "openid_client_fapi.mjs", "openid-client")
	s, _, c := startFAPI(t, nil)
	key, err := json.Marshal(jose.JSONWebKey{Key: c.key, KeyID: "k"})
	noError(t, err)
	cmd := exec.CommandContext(t.Context(), script[0], script[1:]...)
	cmd.Env = append(os.Environ(), "ISSUER="+s.URL, "CLIENT_ID=bank", "KEY="+string(key))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("no address for the browser")
	}
	b := s.browser()
	_, err = fmt.Fprintln(in, b.follow(b.get(lines.Text()), "ada").Header.Get("Location"))
	noError(t, err)
	lines.Scan()
	same(t, "it saw", lines.Text(), "ada dpop true true")
	noError(t, cmd.Wait())
}

// explain reads a pushed request without using it up, and says of the parameters of one that they have to be pushed.
func TestExplainKnowsPushedRequestsAndTheProfile(t *testing.T) {
	s, _, c := startFAPI(t, nil)
	address := c.request()
	for name, x := range map[string]struct{ address, want string }{
		"pushed":     {address, "What follows is about the parameters that were pushed."},
		"profile":    {address, "bank (App bank), confidential, held to FAPI 2.0"},
		"parameters": {c.authURL(), "These parameters have to be pushed"},
	} {
		e := s.explain(x.address, "ada")
		told := func(f provider.Finding) bool { return strings.Contains(f.Text, x.want) }
		if e.Answer != provider.AnswerCode || !slices.ContainsFunc(e.Findings, told) {
			t.Errorf("%s: %s, %+v", name, e.Answer, e.Findings)
		}
	}
	if s.browser().authorize(address, "ada").Get("code") == "" {
		t.Error("explain used the request up")
	}
}

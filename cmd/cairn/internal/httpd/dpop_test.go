package httpd

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/store/storetest"
)

// proofKey is the key of a client that sends DPoP proofs.
type proofKey struct {
	t         *testing.T
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
	issuer    string
}

func (s *service) proofKey() *proofKey {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(s.t, err)
	return &proofKey{s.t, jose.ES256, key, s.URL}
}

func (k *proofKey) jkt() string {
	k.t.Helper()
	thumbprint, err := (&jose.JSONWebKey{Key: k.private.Public()}).Thumbprint(crypto.SHA256)
	noError(k.t, err)
	return base64.RawURLEncoding.EncodeToString(thumbprint)
}

// proof is a good one for a POST to the endpoint; change adds, replaces or (nil) removes claims. typ and
// jwk are those of the header.
func (k *proofKey) proof(endpoint string, change ...any) string {
	k.t.Helper()
	claims := map[string]any{"jti": rand.Text(), "htm": "POST", "htu": k.issuer + "/oauth2/" + endpoint, "iat": time.Now().Unix()}
	header := map[string]any{"typ": "dpop+jwt", "jwk": jose.JSONWebKey{Key: k.private.Public()}}
	for i := 0; i+1 < len(change); i += 2 {
		name, at := change[i].(string), claims
		if header[name] != nil {
			at = header
		}
		if at[name] = change[i+1]; change[i+1] == nil {
			delete(at, name)
		}
	}
	options := &jose.SignerOptions{}
	for name, value := range header {
		options.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.private}, options)
	noError(k.t, err)
	out, err := jwt.Signed(signer).Claims(claims).Serialize()
	noError(k.t, err)
	return out
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// at asks userinfo with a token and a proof for it.
func (k *proofKey) at(s *service, token string, change ...any) response {
	s.t.Helper()
	proof := k.proof("userinfo", append([]any{"htm", "GET", "ath", hashOf(token)}, change...)...)
	return s.browser().get("/oauth2/userinfo", "Authorization", "DPoP "+token, "DPoP", proof)
}

func (rp *relyingParty) provenRequest(form url.Values, proof string) response {
	rp.t.Helper()
	return rp.service.clientPost("token", rp.config.ClientID, rp.config.ClientSecret, form, "DPoP", proof)
}

func TestTokensAreBoundToTheKeyOfAProof(t *testing.T) {
	s, rp := startApp(t, nil)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	noError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	noError(t, err)
	k, other := s.proofKey(), s.proofKey()
	var token string
	for _, k := range []*proofKey{{t, jose.PS256, rsaKey, s.URL}, {t, jose.RS256, rsaKey, s.URL},
		{t, jose.EdDSA, edKey, s.URL}, k} {
		got := rp.provenRequest(rp.codeForm(s.browser().authorize(rp.authURL(), "ada").Get("code")), k.proof("token"))
		wantStatus(t, string(k.algorithm), got, http.StatusOK)
		tokens := got.JSON(t)
		if token, _ = tokens["access_token"].(string); tokens["token_type"] != "DPoP" {
			t.Errorf("%s: token_type %v", k.algorithm, tokens["token_type"])
		}
		wantStatus(t, string(k.algorithm), k.at(s, token), http.StatusOK)
		answer := rp.introspect(token)
		if cnf, _ := answer["cnf"].(map[string]any); cnf["jkt"] != k.jkt() || answer["token_type"] != "DPoP" {
			t.Errorf("%s: introspection %v", k.algorithm, answer)
		}
	}
	proof := k.proof("userinfo", "htm", "GET", "ath", hashOf(token))
	get := func(header ...string) response { return s.browser().get("/oauth2/userinfo", header...) }
	wantStatus(t, "first use of a proof", get("Authorization", "DPoP "+token, "DPoP", proof), http.StatusOK)
	unbound, err := rp.exchange(s.browser().authorize(rp.authURL(), "ada").Get("code"))
	noError(t, err)
	for name, c := range map[string]struct {
		got  response
		code string
	}{
		"as Bearer":                 {get("Authorization", "Bearer "+token), "invalid_token"},
		"as Bearer with a proof":    {get("Authorization", "Bearer "+token, "DPoP", k.proof("userinfo", "htm", "GET", "ath", hashOf(token))), "invalid_token"},
		"another key":               {other.at(s, token), "invalid_token"},
		"an unbound token":          {k.at(s, unbound.AccessToken), "invalid_token"},
		"no proof":                  {get("Authorization", "DPoP "+token), "invalid_dpop_proof"},
		"a proof used before":       {get("Authorization", "DPoP "+token, "DPoP", proof), "invalid_dpop_proof"},
		"no ath":                    {k.at(s, token, "ath", nil), "invalid_dpop_proof"},
		"ath of another token":      {k.at(s, token, "ath", hashOf("x")), "invalid_dpop_proof"},
		"htm of another method":     {k.at(s, token, "htm", "POST"), "invalid_dpop_proof"},
		"htu of the token endpoint": {k.at(s, token, "htu", s.URL+"/oauth2/token"), "invalid_dpop_proof"},
	} {
		wantOAuthError(t, name, c.got, http.StatusUnauthorized, c.code)
		challenge := c.got.Header.Get("WWW-Authenticate")
		if !strings.HasPrefix(challenge, "DPoP ") || !strings.Contains(challenge, `error="`+c.code+`"`) || !strings.Contains(challenge, "algs=") {
			t.Errorf("%s: WWW-Authenticate %q", name, challenge)
		}
	}
	body := s.browser().do("POST", "/oauth2/userinfo", "application/x-www-form-urlencoded", url.Values{"access_token": {token}}.Encode())
	wantOAuthError(t, "in the body", body, http.StatusUnauthorized, "invalid_token")
}

// A device that proves a key gets a token for an API that names the key, and a refresh token of no use without it.
func TestDevicesTokenForAnAPIIsBound(t *testing.T) {
	clock := accounttest.NewClock()
	s, apiID, apiSecret := startAPIs(t, serviceOptions{Now: clock.Now})
	s.addClient("tool", func(c *provider.Client) { c.AuthMethod, c.DeviceGrant, c.RedirectURIs = provider.AuthNone, true, nil })
	k, other := s.proofKey(), s.proofKey()
	d := s.startDevice("tool", "", url.Values{"scope": {"maps offline_access"}, "resource": {maps3}})
	wantStatus(t, "approval", s.browser().typed(d.user, "ada", "allow"), http.StatusOK)
	form := url.Values{"grant_type": {deviceGrant}, "device_code": {d.code}}
	got := s.clientPost("token", "tool", "", form, "DPoP", k.proof("token", "iat", clock.Now().Unix()))
	wantStatus(t, "poll", got, http.StatusOK)
	tokens := got.JSON(t)
	token, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)
	want := map[string]any{"jkt": k.jkt()}
	if diff := cmp.Diff(want, jwtPayload(t, token)["cnf"]); diff != "" || tokens["token_type"] != "DPoP" {
		t.Errorf("token_type %v, cnf %s", tokens["token_type"], diff)
	}
	s.wantInactive("to another API", s.introspect(apiID, apiSecret, token))
	again := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}
	for name, header := range map[string][]string{"no proof": nil, "another key": {"DPoP", other.proof("token", "iat", clock.Now().Unix())}} {
		if got := s.clientPost("token", "tool", "", again, header...); got.StatusCode != http.StatusBadRequest {
			t.Errorf("refresh with %s: %d %s", name, got.StatusCode, got.Text)
		}
	}
	wantStatus(t, "refresh", s.clientPost("token", "tool", "", again, "DPoP", k.proof("token", "iat", clock.Now().Unix())), http.StatusOK)
}

func TestProofsThatAreRefused(t *testing.T) {
	s, rp := startApp(t, func(c *provider.Client) { c.ClientCredentials = true })
	k, other := s.proofKey(), s.proofKey()
	form := url.Values{"grant_type": {"client_credentials"}}
	ask := func(header ...string) response {
		return s.clientPost("token", "app", rp.config.ClientSecret, form, header...)
	}
	now := time.Now().Unix()
	spent := k.proof("token")
	wantStatus(t, "first use", ask("DPoP", spent), http.StatusOK)
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // refused for its size
	noError(t, err)
	good := k.proof("token")
	for name, proof := range map[string]string{
		"used before": spent, "empty": "", "no token": "x", "cut": good[:len(good)-8], "unsigned": strings.Join(strings.Split(good, ".")[:2], ".") + ".",
		"typ": k.proof("token", "typ", "JWT"), "no typ": k.proof("token", "typ", nil), "no jwk": k.proof("token", "jwk", nil),
		"another key":      k.proof("token", "jwk", jose.JSONWebKey{Key: other.private.Public()}),
		"small RSA key":    (&proofKey{t, jose.RS256, small, s.URL}).proof("token"),
		"a private key":    k.proof("token", "jwk", jose.JSONWebKey{Key: k.private}),
		"no jti":           k.proof("token", "jti", nil),
		"long jti":         k.proof("token", "jti", strings.Repeat("x", 257)),
		"no iat":           k.proof("token", "iat", nil),
		"old":              k.proof("token", "iat", now-70),
		"ahead":            k.proof("token", "iat", now+30),
		"no htm":           k.proof("token", "htm", nil),
		"htm":              k.proof("token", "htm", "GET"),
		"htm in lower":     k.proof("token", "htm", "post"),
		"no htu":           k.proof("token", "htu", nil),
		"htu":              k.proof("par"),
		"htu of a host":    k.proof("token", "htu", "http://evil.example/oauth2/token"),
		"htu of a scheme":  k.proof("token", "htu", strings.Replace(s.URL, "http", "https", 1)+"/oauth2/token"),
		"htu with a user":  k.proof("token", "htu", strings.Replace(s.URL, "://", "://x@", 1)+"/oauth2/token"),
		"htu with a slash": k.proof("token/"),
		"expired":          k.proof("token", "exp", now-1),
		"nbf ahead":        k.proof("token", "nbf", now+60),
	} {
		wantOAuthError(t, name, ask("DPoP", proof), http.StatusBadRequest, "invalid_dpop_proof")
	}
	wantOAuthError(t, "two", ask("DPoP", k.proof("token"), "DPoP", k.proof("token")), http.StatusBadRequest, "invalid_dpop_proof")
	for name, proof := range map[string]string{
		"query and fragment": k.proof("token?a=b#c"), "upper case": k.proof("token", "htu", strings.Replace(s.URL, "http", "HTTP", 1)+"/oauth2/token"),
		"dot segments": k.proof("x/../token"), "10 s old": k.proof("token", "iat", now-10), "ahead a little": k.proof("token", "iat", now+9),
		"exp and nbf": k.proof("token", "exp", now+60, "nbf", now-1),
	} {
		got := ask("DPoP", proof)
		if wantStatus(t, name, got, http.StatusOK); got.JSON(t)["token_type"] != "DPoP" {
			t.Errorf("%s: %s", name, got.Text)
		}
	}
	if answer := ask().JSON(t); answer["token_type"] != "Bearer" {
		t.Errorf("without a proof: %v", answer)
	}
}

// A proof made ahead of the service's clock can be used for longest; it is refused as used until it is too old, also after a
// sweep. Another of the same age is accepted meanwhile.
func TestProofIsRememberedAsLongAsItCouldBeUsed(t *testing.T) {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load()) * time.Second) }
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "cairn.db"), store.Options{Log: slog.New(slog.DiscardHandler), Now: now})
	noError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	noError(t, db.Migrate(t.Context()))
	s := startService(t, serviceOptions{Store: db, Now: now})
	secret := s.addClient("app", func(c *provider.Client) { c.ClientCredentials = true })
	k, made := s.proofKey(), time.Now().Unix()+9
	ask := func(proof string) response {
		return s.clientPost("token", "app", secret, url.Values{"grant_type": {"client_credentials"}}, "DPoP", proof)
	}
	used, fresh := k.proof("token", "iat", made), k.proof("token", "iat", made)
	wantStatus(t, "first use", ask(used), http.StatusOK)
	ahead.Store(66)
	_, err = s.store.Sweep(t.Context(), now())
	noError(t, err)
	wantOAuthError(t, "again, after 66 s", ask(used), http.StatusBadRequest, "invalid_dpop_proof")
	wantStatus(t, "another of that age", ask(fresh), http.StatusOK)
}

// Each header is well signed by its key; the parts that go-jose does not look at are the service's to refuse.
func TestKeyOfAProofIsPublicAndForItsAlgorithm(t *testing.T) {
	s, rp := startApp(t, func(c *provider.Client) { c.ClientCredentials = true })
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	noError(t, err)
	plain, err := json.Marshal(jose.JSONWebKey{Key: &key.PublicKey})
	noError(t, err)
	k := &proofKey{t, jose.PS256, key, s.URL}
	for name, c := range map[string]struct {
		member string
		value  any
		want   int
	}{
		"as it is": {"", "", 200}, "of its algorithm": {"alg", "PS256", 200}, "for signatures": {"use", "sig", 200}, "to verify": {"key_ops", []string{"verify"}, 200},
		"a prime of the private key": {"p", base64.RawURLEncoding.EncodeToString(key.Primes[0].Bytes()), 400},
		"of another algorithm":       {"alg", "RS256", 400}, "for encryption": {"use", "enc", 400}, "to sign": {"key_ops", []string{"sign"}, 400},
	} {
		var jwk map[string]any
		noError(t, json.Unmarshal(plain, &jwk))
		if c.member != "" {
			jwk[c.member] = c.value
		}
		got := s.clientPost("token", "app", rp.config.ClientSecret, url.Values{"grant_type": {"client_credentials"}}, "DPoP", k.proof("token", "jwk", jwk))
		if wantStatus(t, name, got, c.want); c.want != 200 {
			wantOAuthError(t, name, got, c.want, "invalid_dpop_proof")
		}
	}
}

func TestCodesAndRefreshTokensAreBound(t *testing.T) {
	s, rp := startApp(t, func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	k, other := s.proofKey(), s.proofKey()
	b := s.browser()
	code := func(more ...string) url.Values {
		return rp.codeForm(b.authorize(rp.authURL(more...), "ada").Get("code"))
	}
	form := code("dpop_jkt", k.jkt())
	wantInvalidGrant(t, "another key", rp.provenRequest(form, other.proof("token")))
	wantInvalidGrant(t, "no proof", rp.token(form))
	got := rp.provenRequest(form, k.proof("token"))
	wantStatus(t, "dpop_jkt", got, http.StatusOK)
	refresh := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.JSON(t)["refresh_token"].(string)}}
	wantInvalidGrant(t, "refresh with another key", rp.provenRequest(refresh, other.proof("token")))
	wantInvalidGrant(t, "refresh without a proof", rp.token(refresh))
	got = rp.provenRequest(refresh, k.proof("token"))
	if wantStatus(t, "refresh", got, http.StatusOK); got.JSON(t)["token_type"] != "DPoP" {
		t.Errorf("refresh: %s", got.Text)
	}
	wantStatus(t, "userinfo", k.at(s, got.JSON(t)["access_token"].(string)), http.StatusOK)

	// The proof at the pushed request binds the code.
	push := func(k *proofKey, more ...string) response {
		return s.clientPost("par", "app", "", rp.pushed(more...), "DPoP", k.proof("par"))
	}
	wantOAuthError(t, "dpop_jkt of another key", push(other, "dpop_jkt", k.jkt()), http.StatusBadRequest, "invalid_dpop_proof")
	wantOAuthError(t, "no thumbprint", s.clientPost("par", "app", "", rp.pushed("dpop_jkt", "x")), http.StatusBadRequest, "invalid_request")
	for _, more := range [][]string{nil, {"dpop_jkt", k.jkt()}} {
		uri := push(k, more...).JSON(t)["request_uri"].(string)
		form = rp.codeForm(b.authorize(s.pushedURL("app", uri), "ada").Get("code"))
		wantInvalidGrant(t, "pushed: another key", rp.provenRequest(form, other.proof("token")))
		wantStatus(t, "pushed", rp.provenRequest(form, k.proof("token")), http.StatusOK)
	}

	bound := s.app("bound", func(c *provider.Client) { c.DPoPBound = true })
	form = bound.codeForm(b.authorize(bound.authURL(), "ada").Get("code"))
	wantOAuthError(t, "demanded", bound.token(form), http.StatusBadRequest, "invalid_dpop_proof")
	wantStatus(t, "demanded and sent", bound.provenRequest(form, k.proof("token")), http.StatusOK)
}

func TestProofIsUsedOnceUnderConcurrency(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.Store) {
		s := startService(t, serviceOptions{Store: db})
		secret := s.addClient("app", func(c *provider.Client) { c.ClientCredentials = true })
		proof := s.proofKey().proof("token")
		got := inParallel(16, func(int) int {
			return s.clientPost("token", "app", secret, url.Values{"grant_type": {"client_credentials"}}, "DPoP", proof).StatusCode
		})
		if got[http.StatusOK] != 1 || got[http.StatusBadRequest] != 15 {
			t.Errorf("one proof, 16 times: %v", got)
		}
	})
}

package httpd

import (
	"crypto/sha256"
	"crypto/sha512"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// keyFiles makes a key file for each algorithm and returns them with their kids.
func keyFiles(t *testing.T, algorithms ...jose.SignatureAlgorithm) (files, kids []string) {
	t.Helper()
	for _, a := range algorithms {
		file := filepath.Join(t.TempDir(), "key.pem")
		kid, err := config.GenerateKeyFor(a, file, 2048)
		noError(t, err)
		files, kids = append(files, file), append(kids, kid)
	}
	return files, kids
}

// A client gets ID tokens and logout tokens in the algorithm that it is registered for, by the first key of it; go-oidc
// verifies them. The session cookie and the status list stay RS256, and who verifies them is not disturbed by the others.
func TestClientsGetTokensOfTheirAlgorithm(t *testing.T) {
	files, kids := keyFiles(t, jose.ES256, jose.EdDSA, jose.ES256, jose.RS256)
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AdditionalKeyFiles = files }})
	u := s.addUser("ada")
	set := s.browser().get("/.well-known/jwks.json").JSON(t)["keys"].([]any)
	first := set[0].(map[string]any)["kid"].(string)
	for i, alg := range []string{"RS256", "ES256", "EdDSA", "ES256", "RS256"} {
		if k := set[i].(map[string]any); k["alg"] != alg || k["d"] != nil || k["kid"] != slices.Concat([]string{first}, kids)[i] {
			t.Errorf("key %d: %v", i, k)
		}
	}
	if got := mustJSON(t, s.browser().get("/.well-known/openid-configuration").JSON(t)["id_token_signing_alg_values_supported"]); got != `["RS256","ES256","EdDSA"]` {
		t.Errorf("discovery: %s", got)
	}
	for alg, kid := range map[string]string{"": first, "RS256": first, "ES256": kids[0], "EdDSA": kids[1]} {
		r := startReceiver(t)
		id := "app" + strings.ToLower(alg)
		rp := s.app(id, func(c *provider.Client) {
			c.IDTokenAlg, c.BackchannelLogoutURI, c.BackchannelPrivate = alg, r.URL, true
		})
		b, token := s.signedInTokens(rp, "ada")
		want := func(what, raw string) {
			t.Helper()
			if h := jwtHeader(t, raw); h["alg"] != set[slices.Index(slices.Concat([]string{first}, kids), kid)].(map[string]any)["alg"] || h["kid"] != kid {
				t.Errorf("%s for %q: header %v", what, alg, h)
			}
			if got, err := rp.provider.Verifier(&oidc.Config{ClientID: id}).Verify(t.Context(), raw); err != nil ||
				got.Subject != u.Sub {
				t.Errorf("%s for %q: %v", what, alg, err)
			}
		}
		// OpenID Connect Core section 3.1.3.6; of Ed25519 the hash is SHA-512.
		half := func(access string) string {
			if alg == "EdDSA" {
				sum := sha512.Sum512([]byte(access))
				return encode64(sum[:32])
			}
			sum := sha256.Sum256([]byte(access))
			return encode64(sum[:16])
		}
		raw := rawIDToken(token)
		want("ID token", raw)
		refreshed := needStatus(t, "refresh", rp.refresh(token.RefreshToken), http.StatusOK).JSON(t)
		want("refreshed ID token", refreshed["id_token"].(string))
		for access, idToken := range map[string]string{token.AccessToken: raw, refreshed["access_token"].(string): refreshed["id_token"].(string)} {
			if got := jwtPayload(t, idToken)["at_hash"]; got != half(access) {
				t.Errorf("%q: at_hash %v, want %s", alg, got, half(access))
			}
		}
		wantAnswer(t, "hint", b.authorize(rp.authURL("id_token_hint", raw, "prompt", "none"), "ada"), "code")
		cookie := b.cookie("cairn_session")
		verifier := &session.Verifier{Issuer: s.URL, Keys: session.NewRemoteKeySet(s.URL+"/.well-known/jwks.json", session.RemoteOptions{})}
		if claims, err := verifier.Verify(t.Context(), cookie); err != nil || claims.Subject != u.Sub || jwtHeader(t, cookie)["kid"] != first {
			t.Errorf("session cookie: %v", err)
		}
		list := b.get(jwtPayload(t, cookie)["status"].(map[string]any)["status_list"].(map[string]any)["uri"].(string))
		if h := jwtHeader(t, list.Text); h["alg"] != "RS256" || h["kid"] != first {
			t.Errorf("status list: %v", h)
		}
		needStatus(t, "sign out", b.api(http.MethodPost, "/api/auth/logout", nil), http.StatusOK)
		want("logout token", r.wait(t))
	}
}

// Without the key the client gets server_error and no code, and the log and explain say why. A code from before the key
// was lost is not spent.
func TestAlgorithmWithoutAKeyIsSaid(t *testing.T) {
	files, _ := keyFiles(t, jose.ES256)
	s, rp := startApp(t, func(c *provider.Client) { c.IDTokenAlg, c.DeviceGrant = "ES256", true })
	const why = "client app, ES256: no key for the algorithm of the client"
	refused := s.signedIn("ada").authorize(rp.authURL(), "ada")
	wantAnswer(t, "without the key", refused, "server_error")
	has(t, "the client is told", refused.Get("error_description"), "no key")
	s.log.wait(t, why)
	if e := s.explain(rp.authURL(), "ada"); e.Answer != provider.AnswerError || !strings.HasPrefix(e.Why, why) {
		t.Errorf("explain: %s %s", e.Answer, e.Why)
	}
	request, err := url.Parse(rp.authURL())
	noError(t, err)
	for _, endpoint := range []string{"par", "device_authorization"} {
		got := s.clientPost(endpoint, "app", rp.config.ClientSecret, request.Query())
		wantOAuthError(t, endpoint, got, http.StatusInternalServerError, "server_error")
	}
	loaded := startService(t,
		serviceOptions{Store: s.store, Settings: func(c *config.Settings) { c.AdditionalKeyFiles = files }})
	early := loaded.relyingParty("app", rp.config.ClientSecret)
	code := loaded.browser().authorize(early.authURL(), "ada").Get("code")
	wantOAuthError(t, "exchange", s.tokenRequest("app", rp.config.ClientSecret, early.codeForm(code)), http.StatusInternalServerError, "server_error")
	lacks(t, "the code is in the log", s.log.String(), code)
	needStatus(t, "exchange with the key", early.redeem(code), http.StatusOK)
	// Without openid there is no ID token to sign.
	plain := s.relyingParty("app", rp.config.ClientSecret, "profile")
	needStatus(t, "without openid", plain.redeem(s.browser().authorize(plain.authURL(), "ada").Get("code")), http.StatusOK)
}

// openid-client accepts the algorithms of the discovery document.
func TestOpenIDClientTakesOtherAlgorithms(t *testing.T) {
	command := rpPrograms["openid-client"].command(t)
	files, _ := keyFiles(t, jose.ES256, jose.EdDSA)
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AdditionalKeyFiles = files }})
	u := s.addUser("ada")
	for _, alg := range []string{"ES256", "EdDSA"} {
		app := s.registerApplication("app-"+alg, "/callback", func(c *provider.Client) { c.IDTokenAlg = alg })
		startProgram(t, app.Port, command, app.environment(s.URL)...)
		if got := app.seen(t, s.browser().visit(app.URL+"/", "ada")); got.Sub != u.Sub || got.RefreshedSub != u.Sub || !got.Rotated {
			t.Errorf("%s: %+v", alg, got)
		}
	}
}

package httpd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/provider"
)

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
	if err != nil {
		s.t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k", Use: "sig", Algorithm: "ES256"}}})
	if err != nil {
		s.t.Fatal(err)
	}
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
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		c.t.Fatal(err)
	}
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

func TestSigningClientNeverNeedsASecret(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
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
	refreshed := s.clientPost("token", "", "", signed(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens["refresh_token"].(string)}, "client_id": {"app"}}, c.assertion()))
	if refreshed.StatusCode != http.StatusOK {
		t.Fatalf("refresh: %d %s", refreshed.StatusCode, refreshed.Text)
	}
	access := url.Values{"token": {refreshed.JSON(t)["access_token"].(string)}}
	if got := s.clientPost("introspect", "", "", signed(access, c.assertion())); got.JSON(t)["active"] != true {
		t.Errorf("introspect: %d %s", got.StatusCode, got.Text)
	}
	wantRevoked(t, "revoke", s.clientPost("revoke", "", "", signed(access, c.assertion("aud", s.URL))))
	if got := s.clientPost("token", "", "", signed(url.Values{"grant_type": {"client_credentials"}}, c.assertion())); got.StatusCode != http.StatusOK {
		t.Errorf("client_credentials: %d %s", got.StatusCode, got.Text)
	}
}

// An assertion for several servers, or for an address that is not the
// service's name as a whole, could have come from elsewhere; one that is good for years is a secret.
func TestAssertionForMoreThanThisMomentAndServiceIsRefused(t *testing.T) {
	s := startService(t, serviceOptions{})
	c, rp := s.addSigningClient("app", nil), s.relyingParty("app", "")
	token := s.URL + "/oauth2/token"
	years := time.Now().AddDate(9, 0, 0).Unix()
	for name, change := range map[string][]any{
		"the PAR address": {"aud", s.URL + "/oauth2/par"}, "several": {"aud", []string{s.URL, token}}, "a list of one": {"aud", []string{token}},
		"ours among foreign": {"aud", []string{token, "https://other.example"}}, "years": {"exp", years}, "years, without iat": {"exp", years, "iat", nil},
	} {
		wantOAuthError(t, name, s.clientPost("par", "", "", signed(rp.pushed(), c.assertion(change...))), http.StatusUnauthorized, "invalid_client")
	}
	for _, aud := range []string{s.URL, token} {
		if got := s.clientPost("par", "", "", signed(rp.pushed(), c.assertion("aud", aud))); got.StatusCode != http.StatusCreated {
			t.Errorf("%s: %d %s", aud, got.StatusCode, got.Text)
		}
	}
}

func TestAssertionIsNeverSpentTwice(t *testing.T) {
	s := startService(t, serviceOptions{})
	c, other := s.addSigningClient("app", nil), s.addSigningClient("other", nil)
	for range 3 {
		form := signed(url.Values{"token": {"x"}}, c.assertion())
		won := make(chan int, 16)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() { won <- s.clientPost([]string{"revoke", "introspect"}[i%2], "", "", form).StatusCode })
		}
		wg.Wait()
		close(won)
		winners := 0
		for code := range won {
			switch code {
			case http.StatusOK:
				winners++
			case http.StatusUnauthorized:
			default:
				t.Errorf("parallel use: %d", code)
			}
		}
		if winners != 1 {
			t.Errorf("one assertion was taken %d times", winners)
		}
		wantOAuthError(t, "later", s.clientPost("revoke", "", "", form), http.StatusUnauthorized, "invalid_client")
	}
	// A jti counts for its client alone: nobody can use up another's.
	for _, signer := range []*signingClient{c, other} {
		wantRevoked(t, signer.id, s.clientPost("revoke", "", "", signed(url.Values{"token": {"x"}}, signer.assertion("jti", "the same"))))
	}
	wantOAuthError(t, "the same jti in another assertion", s.clientPost("revoke", "", "", signed(url.Values{"token": {"x"}}, c.assertion("jti", "the same", "exp", time.Now().Add(2*time.Minute).Unix()))), http.StatusUnauthorized, "invalid_client")
}

func TestClientNeverAuthenticatesByAnotherMethodThanItsOwn(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	// A secret that was left behind when the client changed to keys.
	c := s.addSigningClient("app", nil)
	left := "secret-of-app-0123456789abcdefghij"
	secret := s.addClient("plain", func(p *provider.Client) { p.JWKS = nil })
	withKeys := &signingClient{t, "keys", s.URL, c.key}
	s.addClient("keys", func(p *provider.Client) {
		found, err := s.store.Client(t.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		p.JWKS = found.JWKS
	})
	form := url.Values{"token": {"x"}}
	for name, got := range map[string]response{
		"basic": s.clientPost("revoke", "app", left, form), "post": s.clientPost("revoke", "", "", url.Values{"client_id": {"app"}, "client_secret": {left}, "token": {"x"}}), "id alone": s.clientPost("revoke", "app", "", form),
		"assertion and basic": s.clientPost("revoke", "app", left, signed(form, c.assertion())), "assertion and another client's basic": s.clientPost("revoke", "plain", secret, signed(form, c.assertion())),
		"assertion for another client_id": s.clientPost("revoke", "plain", "", signed(form, c.assertion())), "assertion of a client with a secret": s.clientPost("revoke", "", "", signed(form, withKeys.assertion())),
		"assertion of another": s.clientPost("revoke", "", "", signed(form, c.assertion("iss", "plain", "sub", "plain"))), "type alone": s.clientPost("revoke", "app", "", url.Values{"client_assertion_type": {"x"}, "token": {"x"}}), "assertion alone": s.clientPost("revoke", "app", "", url.Values{"client_assertion": {c.assertion()}, "token": {"x"}}),
		"without exp": s.clientPost("revoke", "", "", signed(form, c.assertion("exp", nil))), "for another server": s.clientPost("revoke", "", "", signed(form, c.assertion("aud", "https://other.example"))), "an hour": s.clientPost("revoke", "", "", signed(form, c.assertion("exp", time.Now().Add(time.Hour).Unix()))),
	} {
		wantOAuthError(t, name, got, http.StatusUnauthorized, "invalid_client")
	}
	wantOAuthError(t, "in the URL", s.browser().postForm("/oauth2/revoke?client_assertion="+c.assertion(), form), http.StatusBadRequest, "invalid_request")
	wantRevoked(t, "the method of its own", s.clientPost("revoke", "", "", signed(form, c.assertion())))
	wantRevoked(t, "the other's own", s.clientPost("revoke", "keys", "secret-of-keys-0123456789abcdefghij", form))
}

// 401 would make the client's operator look for a wrong key.
func TestAwayDatabaseIsNeverToldAsAWrongAssertion(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	c := s.addSigningClient("app", nil)
	form := url.Values{"token": {"x"}}
	assertion := c.assertion()
	mend := db.breaks("INSERT ON client_assertions")
	wantUnavailable(t, "spending", s.clientPost("revoke", "", "", signed(form, assertion)))
	mend()
	wantRevoked(t, "the same afterwards", s.clientPost("revoke", "", "", signed(form, assertion)))
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	stranger := &signingClient{t, "strange", s.URL, c.key}
	wantUnavailable(t, "client that is not in memory", s.clientPost("revoke", "", "", signed(form, stranger.assertion())))
}

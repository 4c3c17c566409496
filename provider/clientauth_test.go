package provider

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// assertionStorage gives the clients of a test and takes each assertion once; the other
// methods are not called.
type assertionStorage struct {
	Storage
	clients map[string]*Client
	mu      sync.Mutex
	seen    map[string]bool
}

func (s *assertionStorage) Client(_ context.Context, id string) (*Client, error) {
	if c := s.clients[id]; c != nil {
		return c, nil
	}
	return nil, ErrClientNotFound
}

func (s *assertionStorage) SpendAssertion(_ context.Context, clientID, jti string, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[clientID+" "+jti] {
		return ErrSpent
	}
	s.seen[clientID+" "+jti] = true
	return nil
}

const testIssuer = "https://id.example.org"

// assertionKeys are the private halves of the client "signer".
type assertionKeys struct {
	rsa, otherRSA *rsa.PrivateKey
	ec            *ecdsa.PrivateKey
	ed            ed25519.PrivateKey
}

var newAssertionKeys = sync.OnceValue(func() assertionKeys {
	must := func(k *rsa.PrivateKey, err error) *rsa.PrivateKey {
		if err != nil {
			panic(err)
		}
		return k
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return assertionKeys{must(rsa.GenerateKey(rand.Reader, 2048)), must(rsa.GenerateKey(rand.Reader, 2048)), ec, ed}
})

func keySet(t testing.TB, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	b, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	must(t, err)
	return b
}

// assertionProvider knows the client "signer" with an RSA, an EC and an Ed25519 key.
func assertionProvider(t testing.TB) (*Provider, assertionKeys) {
	t.Helper()
	k := newAssertionKeys()
	c := &Client{ID: "signer", AuthMethod: AuthJWT, JWKS: keySet(t,
		jose.JSONWebKey{Key: &k.rsa.PublicKey, KeyID: "r", Algorithm: "RS256", Use: "sig"}, jose.JSONWebKey{Key: &k.ec.PublicKey, KeyID: "e", Use: "sig"},
		jose.JSONWebKey{Key: k.ed.Public(), KeyID: "d", Algorithm: "EdDSA", Use: "sig"})}
	clock := func() time.Time { return noon }
	st := &assertionStorage{clients: map[string]*Client{"signer": c, "secret": {ID: "secret", AuthMethod: AuthAny, JWKS: c.JWKS}}, seen: map[string]bool{}}
	return &Provider{rules: newRules(Options{Storage: st, Issuer: testIssuer, Now: clock}, nil)}, k
}

// assertionClaims are good ones; change adds, replaces or (nil) removes some.
func assertionClaims(change ...any) map[string]any {
	c := map[string]any{
		"iss": "signer", "sub": "signer", "aud": testIssuer + "/oauth2/token", "jti": rand.Text(), "iat": noon.Unix(), "exp": noon.Add(time.Minute).Unix(),
	}
	for i := 0; i+1 < len(change); i += 2 {
		if c[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(c, change[i].(string))
		}
	}
	return c
}

// signJWT signs any payload with any header.
func signJWT(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, payload any, header ...string) string {
	t.Helper()
	o := &jose.SignerOptions{}
	if kid != "" {
		o.WithHeader("kid", kid)
	}
	for i := 0; i+1 < len(header); i += 2 {
		o.WithHeader(jose.HeaderKey(header[i]), header[i+1])
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	must(t, err)
	text, ok := payload.(string)
	if !ok {
		b, err := json.Marshal(payload)
		must(t, err)
		text = string(b)
	}
	signed, err := s.Sign([]byte(text))
	must(t, err)
	out, err := signed.CompactSerialize()
	must(t, err)
	return out
}

func (p *Provider) tryAssertion(endpoint, assertion string, more ...string) (*Client, error) {
	form := url.Values{"client_assertion_type": {assertionType}, "client_assertion": {assertion}}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, "/oauth2/"+endpoint, nil)
	return p.authenticateClient(r, form)
}

func TestGenuineAssertionAuthenticates(t *testing.T) {
	p, k := assertionProvider(t)
	for name, c := range map[string]struct {
		endpoint, assertion string
		form                []string
	}{
		"RS256":     {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims()), nil},
		"ES256":     {"token", signJWT(t, jose.ES256, k.ec, "e", assertionClaims()), nil},
		"EdDSA":     {"token", signJWT(t, jose.EdDSA, k.ed, "d", assertionClaims()), nil},
		"no kid":    {"token", signJWT(t, jose.ES256, k.ec, "", assertionClaims()), nil},
		"client_id": {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims()), []string{"client_id", "signer"}},
		// RFC 6749 section 3.2: a parameter without a value is not there.
		"empty parameters":    {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims()), []string{"client_id", "", "client_secret", ""}},
		"issuer":              {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims("aud", testIssuer)), nil},
		"at another endpoint": {"par", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims()), nil},
		"issuer at another":   {"revoke", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims("aud", testIssuer)), nil},
		"five minutes":        {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims("exp", noon.Add(5*time.Minute).Unix())), nil},
		"no iat":              {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims("iat", nil)), nil},
		"fraction":            {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims("exp", float64(noon.Add(time.Minute).Unix())+0.5)), nil},
		"nbf":                 {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims("nbf", noon.Unix())), nil},
		"clock a bit ahead":   {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims("iat", noon.Add(10*time.Second).Unix())), nil},
		"typ of RFC 7523bis":  {"token", signJWT(t, jose.RS256, k.rsa, "r", assertionClaims(), "typ", "client-authentication+jwt"), nil},
	} {
		if got, err := p.tryAssertion(c.endpoint, c.assertion, c.form...); err != nil || got.ID != "signer" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForgedOrStaleAssertionIsRefused(t *testing.T) {
	p, k := assertionProvider(t)
	rs := func(change ...any) string { return signJWT(t, jose.RS256, k.rsa, "r", assertionClaims(change...)) }
	good := rs()
	parts := strings.Split(good, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	publicPEM, _ := json.Marshal(jose.JSONWebKey{Key: &k.rsa.PublicKey})
	later := noon.Add(time.Hour).Unix()
	for name, c := range map[string]struct {
		assertion string
		form      []string
	}{
		"empty": {"", nil}, "garbage": {"a.b.c", nil}, "no signature": {parts[0] + "." + parts[1] + ".", nil}, "two parts": {parts[0] + "." + parts[1], nil}, "JSON form": {`{"payload":"` + parts[1] + `"}`, nil},
		"alg none": {b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", nil}, "alg None": {b64([]byte(`{"alg":"None"}`)) + "." + parts[1] + "." + parts[2], nil},
		"HS256 with the public key": {signJWT(t, jose.HS256, publicPEM, "r", assertionClaims()), nil}, "HS256 with the public modulus": {signJWT(t, jose.HS256, k.rsa.N.Bytes(), "r", assertionClaims()), nil},
		"foreign key": {signJWT(t, jose.RS256, k.otherRSA, "r", assertionClaims()), nil}, "key in the header": {embedded(t, k.otherRSA, assertionClaims()), nil},
		"alg of another key": {signJWT(t, jose.PS256, k.rsa, "r", assertionClaims()), nil}, "RS512": {signJWT(t, jose.RS512, k.rsa, "r", assertionClaims()), nil}, "unknown kid": {signJWT(t, jose.RS256, k.rsa, "x", assertionClaims()), nil}, "kid of another key": {signJWT(t, jose.RS256, k.rsa, "e", assertionClaims()), nil},
		"changed payload": {parts[0] + "." + b64([]byte(`{"iss":"signer","sub":"signer","jti":"x","exp":99999999999,"aud":"`+testIssuer+`"}`)) + "." + parts[2], nil},
		"crit":            {signJWT(t, jose.RS256, k.rsa, "r", assertionClaims(), "crit", "x"), nil},
		"no exp":          {rs("exp", nil), nil}, "exp over": {rs("exp", noon.Unix()), nil}, "exp an hour ahead": {rs("exp", later), nil}, "exp years ahead without iat": {rs("exp", noon.AddDate(9, 0, 0).Unix(), "iat", nil), nil}, "exp text": {rs("exp", "soon"), nil}, "exp endless": {rs("exp", 1e300), nil}, "exp null": {rs("exp", json.RawMessage("null")), nil},
		"no jti": {rs("jti", nil), nil}, "empty jti": {rs("jti", ""), nil}, "long jti": {rs("jti", strings.Repeat("x", 257)), nil}, "jti number": {rs("jti", 7), nil},
		"no iss": {rs("iss", nil), nil}, "no sub": {rs("sub", nil), nil}, "other sub": {rs("sub", "secret"), nil}, "other iss": {rs("iss", "secret"), nil}, "both of another client": {rs("iss", "secret", "sub", "secret"), nil}, "unknown client": {rs("iss", "nobody", "sub", "nobody"), nil}, "no client": {rs("iss", "", "sub", ""), nil},
		"no aud": {rs("aud", nil), nil}, "empty aud": {rs("aud", []string{}), nil}, "foreign aud": {rs("aud", "https://other.example"), nil}, "ours among foreign": {rs("aud", []string{testIssuer, "https://other.example"}), nil}, "aud with a slash": {rs("aud", testIssuer+"/"), nil}, "aud of another endpoint": {rs("aud", testIssuer+"/oauth2/revoke"), nil}, "a list of one": {rs("aud", []string{testIssuer}), nil}, "a list of ours": {rs("aud", []string{testIssuer, testIssuer + "/oauth2/token"}), nil}, "aud null": {rs("aud", json.RawMessage("null")), nil}, "aud number": {rs("aud", 1), nil}, "aud a prefix": {rs("aud", testIssuer+".evil.example"), nil},
		"nbf ahead": {rs("nbf", noon.Add(2*time.Minute).Unix()), nil}, "iat ahead": {rs("iat", noon.Add(2*time.Minute).Unix()), nil}, "long life nearly over": {rs("iat", noon.Add(-time.Hour).Unix()), nil}, "iat text": {rs("iat", "x"), nil},
		"claims twice":  {signJWT(t, jose.RS256, k.rsa, "r", `{"iss":"signer","sub":"signer","jti":"x","exp":`+jsonNumber(noon.Add(time.Minute))+`,"exp":1,"aud":"`+testIssuer+`"}`), nil},
		"not an object": {signJWT(t, jose.RS256, k.rsa, "r", `[]`), nil}, "too large": {rs("x", strings.Repeat("x", maxAssertion)), nil},
		"other client_id": {good, []string{"client_id", "secret"}}, "a secret beside it": {good, []string{"client_secret", "x"}},
		"other type": {good, []string{"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"}}, "no type": {good, []string{"client_assertion_type", ""}},
	} {
		if got, err := p.tryAssertion("token", c.assertion, c.form...); !errors.Is(err, errInvalidClient) || got != nil {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if _, err := p.tryAssertion("token", good); err != nil {
		t.Errorf("the genuine one afterwards: %v", err)
	}
	if _, err := p.tryAssertion("token", good); !errors.Is(err, errInvalidClient) {
		t.Errorf("the second use: %v", err)
	}
}

func jsonNumber(at time.Time) string {
	b, _ := json.Marshal(at.Unix())
	return string(b)
}

// embedded brings its own key in the header.
func embedded(t testing.TB, key *rsa.PrivateKey, payload any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, &jose.SignerOptions{EmbedJWK: true})
	must(t, err)
	b, err := json.Marshal(payload)
	must(t, err)
	signed, err := s.Sign(b)
	must(t, err)
	out, err := signed.CompactSerialize()
	must(t, err)
	return out
}

// assertionSeeds are genuine assertions, then near misses.
func assertionSeeds(t testing.TB, k assertionKeys) (genuine, wrong []string) {
	genuine = []string{
		signJWT(t, jose.RS256, k.rsa, "r", assertionClaims("jti", "1")), signJWT(t, jose.ES256, k.ec, "e", assertionClaims("jti", "2")), signJWT(t, jose.ES256, k.ec, "", assertionClaims("jti", "3", "aud", testIssuer)),
	}
	for _, g := range genuine {
		p := strings.Split(g, ".")
		wrong = append(wrong, p[0]+"."+p[1]+".", p[0]+"."+p[1], "."+p[1]+"."+p[2], p[0]+".e30."+p[2], "eyJhbGciOiJub25lIn0."+p[1]+".", g+"A", g[:len(g)-2], g+"\n")
	}
	wrong = append(wrong, "", "..", "a.b.c", "\x00", strings.Repeat("A", 10000), signJWT(t, jose.RS256, k.otherRSA, "r", assertionClaims("jti", "4")))
	return genuine, wrong
}

func TestAssertionSeedsAreAllThere(t *testing.T) {
	if genuine, wrong := assertionSeeds(t, newAssertionKeys()); len(genuine) != 3 || len(wrong) != 30 {
		t.Errorf("%d genuine and %d wrong assertions", len(genuine), len(wrong))
	}
}

// FuzzAssertion: an accepted assertion has a genuine one's signed claims.
func FuzzAssertion(f *testing.F) {
	p, k := assertionProvider(f)
	genuine, wrong := assertionSeeds(f, k)
	for _, a := range append(slices.Clone(genuine), wrong...) {
		f.Add(a)
	}
	signed := func(a string) string {
		parts := strings.Split(a, ".")
		header, _ := base64.RawURLEncoding.DecodeString(parts[0])
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		return string(header) + string(payload)
	}
	f.Fuzz(func(t *testing.T, assertion string) {
		p.storage.(*assertionStorage).seen = map[string]bool{}
		c, err := p.tryAssertion("token", assertion)
		if err != nil {
			if !errors.Is(err, errInvalidClient) {
				t.Fatal(err)
			}
			return
		}
		if c.ID != "signer" || !slices.ContainsFunc(genuine, func(g string) bool { return signed(g) == signed(assertion) }) {
			t.Fatalf("%q authenticated %s", assertion, c.ID)
		}
	})
}

func TestUnsuitableKeyIsNotRegistered(t *testing.T) {
	k := newAssertionKeys()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	must(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	one := func(key crypto.PublicKey, change func(*jose.JSONWebKey)) []byte {
		j := jose.JSONWebKey{Key: key, KeyID: "1"}
		if change != nil {
			change(&j)
		}
		return keySet(t, j)
	}
	// with puts a member of its own into the key's JSON.
	with := func(key crypto.PublicKey, name string, value any) []byte {
		b, err := json.Marshal(jose.JSONWebKey{Key: key})
		members := map[string]any{}
		if err == nil {
			err = json.Unmarshal(b, &members)
		}
		must(t, err)
		members[name] = value
		if b, err = json.Marshal(map[string]any{"keys": []any{members}}); err != nil {
			t.Fatal(err)
		}
		return b
	}
	many := make([]jose.JSONWebKey, maxClientKeys+1)
	for i := range many {
		many[i] = jose.JSONWebKey{Key: &k.ec.PublicKey, KeyID: rand.Text()}
	}
	for name, c := range map[string]struct {
		set  []byte
		want string
	}{
		"nothing": {nil, "not a key set"}, "a key": {[]byte(`{"kty":"RSA"}`), "not a key set"}, "no keys": {[]byte(`{"keys":[]}`), "not a key set"}, "text": {[]byte(`x`), "not a key set"}, "large": {make([]byte, maxClientKeySet+1), "32 KiB"},
		"private": {one(k.rsa, nil), "public half"}, "private EC": {one(k.ec, nil), "public half"}, "private Ed25519": {one(k.ed, nil), "public half"}, "symmetric": {one([]byte("0123456789abcdef0123456789abcdef"), nil), "public half"},
		"short": {one(&small.PublicKey, nil), "2048"}, "P-384": {one(&p384.PublicKey, nil), "P-256"}, "for encryption": {one(&k.rsa.PublicKey, func(j *jose.JSONWebKey) { j.Use = "enc" }), "use"},
		"RS512": {one(&k.rsa.PublicKey, func(j *jose.JSONWebKey) { j.Algorithm = "RS512" }), "alg"}, "HS256": {one(&k.rsa.PublicKey, func(j *jose.JSONWebKey) { j.Algorithm = "HS256" }), "alg"}, "ES256 on Ed25519": {one(k.ed.Public(), func(j *jose.JSONWebKey) { j.Algorithm = "ES256" }), "alg"},
		// With these, of small order, a signature without a key is right for one message of four or eight.
		"Ed25519 of zeros": {with(k.ed.Public(), "x", strings.Repeat("A", 43)), "can be read"}, "Ed25519 of order 8": {with(k.ed.Public(), "x", "xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA_o"), "can be read"},
		"RS256 on EC":      {one(&k.ec.PublicKey, func(j *jose.JSONWebKey) { j.Algorithm = "RS256" }), "alg"},
		"same kid":         {keySet(t, jose.JSONWebKey{Key: &k.rsa.PublicKey, KeyID: "1"}, jose.JSONWebKey{Key: &k.ec.PublicKey, KeyID: "1"}), "same kid"},
		"too many":         {keySet(t, many...), "more than 16"},
		"leftover prime":   {with(&k.rsa.PublicKey, "p", "AQAB"), "public half"},
		"exponent one":     {with(&k.rsa.PublicKey, "e", "AQ"), "RSA|can be read"},
		"even exponent":    {with(&k.rsa.PublicKey, "e", "AQAA"), "RSA"},
		"even modulus":     {with(&k.rsa.PublicKey, "n", strings.Repeat("_", 341)+"g"), "RSA"},
		"kid not in ASCII": {one(&k.ec.PublicKey, func(j *jose.JSONWebKey) { j.KeyID = "ü" }), "kid"},
		"off the curve":    {with(&k.ec.PublicKey, "y", strings.Repeat("A", 43)), "can be read"},
		"for decryption":   {with(&k.ec.PublicKey, "key_ops", []string{"decrypt"}), "key_ops"},
		"kid with a break": {one(&k.ec.PublicKey, func(j *jose.JSONWebKey) { j.KeyID = "a\nb" }), "kid"},
		"long kid":         {one(&k.ec.PublicKey, func(j *jose.JSONWebKey) { j.KeyID = strings.Repeat("k", maxKeyID+1) }), "kid"},
		"unreadable":       {[]byte(`{"keys":[{"kty":"RSA","n":"!","e":"AQAB"}]}`), "cannot be read|can be read"},
	} {
		_, err := CheckClientKeys(c.set)
		if err == nil || !slices.ContainsFunc(strings.Split(c.want, "|"), func(w string) bool { return strings.Contains(err.Error(), w) }) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := CheckClientKeys(keySet(t, many[:maxClientKeys]...)); err != nil {
		t.Errorf("%d keys: %v", maxClientKeys, err)
	}
	kept, err := CheckClientKeys(one(&k.ec.PublicKey, nil))
	if err != nil || !strings.Contains(string(kept), `"use":"sig"`) {
		t.Errorf("kept %s: %v", kept, err)
	}
}

// A key set that was kept by other means is held to the same rules when it is used.
func TestUnsuitableKeyDoesNotVerify(t *testing.T) {
	k := newAssertionKeys()
	rsaKey := jose.JSONWebKey{Key: &k.rsa.PublicKey}
	for name, c := range map[string]struct {
		set      []byte
		kid, alg string
		want     bool
	}{
		"fits": {keySet(t, rsaKey), "", "RS256", true}, "two fit": {keySet(t, rsaKey, jose.JSONWebKey{Key: &k.otherRSA.PublicKey}), "", "RS256", false}, "one of two by kid": {keySet(t, jose.JSONWebKey{Key: &k.rsa.PublicKey, KeyID: "a"}, jose.JSONWebKey{Key: &k.otherRSA.PublicKey, KeyID: "b"}), "b", "PS256", true},
		"Ed25519 by alg": {keySet(t, rsaKey, jose.JSONWebKey{Key: k.ed.Public()}), "", "EdDSA", true}, "one of two by alg": {keySet(t, rsaKey, jose.JSONWebKey{Key: &k.ec.PublicKey}), "", "ES256", true}, "private": {keySet(t, jose.JSONWebKey{Key: k.rsa}), "", "RS256", false}, "for encryption": {keySet(t, jose.JSONWebKey{Key: &k.rsa.PublicKey, Use: "enc"}), "", "RS256", false},
		"a kid that the key lacks": {keySet(t, rsaKey), "a", "RS256", false}, "unreadable beside it": {[]byte(strings.Replace(string(keySet(t, rsaKey)), `[`, `[{"kty":"X"},7,`, 1)), "", "RS256", true}, "no set": {nil, "", "RS256", false},
	} {
		_, ok := (&Client{JWKS: c.set}).keyFor(c.kid, c.alg)
		same(t, name, ok, c.want)
	}
}

// RFC 9449 section 4.3: htu is compared as RFC 3986 normalizes it.
func TestTargetOfAProofMayNameTheDefaultPort(t *testing.T) {
	for scheme, port := range map[string]string{"https": "443", "http": "80"} {
		for htu, want := range map[string]bool{
			"://id/t": true, "://ID:" + port + "/t": true, "://id:443/t": port == "443", "://id:80/t": port == "80", "://id:81/t": false, ":id/t": false,
		} {
			same(t, scheme+htu, sameTarget(scheme+htu, scheme+"://id/t"), want)
		}
	}
}

// changedStorage gives a client whose secret was rotated by another process, and takes
// its time when it is asked again.
type changedStorage struct {
	Storage
	secret string
	asked  int
}

func (s *changedStorage) Client(context.Context, string) (*Client, error) {
	c := &Client{ID: "app", AuthMethod: AuthAny, Secrets: []ClientSecret{{Hash: account.HashSecret(s.secret)}}}
	if s.asked++; s.asked > 1 {
		time.Sleep(time.Second)
	}
	return c, nil
}

// Nobody comes in with an old secret because somebody else is just reading the new one.
func TestEndedSecretIsRefusedWhileTheClientIsReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &changedStorage{secret: "first"}
		p := &Provider{rules: newRules(Options{Storage: st, Issuer: testIssuer, Now: time.Now,
			Log: slog.New(slog.DiscardHandler)}, nil)}
		endpoint := p.clientEndpoint(nil, func(http.ResponseWriter, *http.Request, *Client) error { return nil })
		status := func(secret string) int {
			r := httptest.NewRequest("POST", "/oauth2/token", strings.NewReader(url.Values{"client_id": {"app"}, "client_secret": {secret}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			endpoint(w, r)
			return w.Code
		}
		if got := status("first"); got != http.StatusOK {
			t.Fatalf("the secret before its rotation: %d", got)
		}
		st.secret = "second"
		time.Sleep(time.Hour)
		results := make(chan int, 2)
		go func() { results <- status("first") }()
		synctest.Wait() // it waits for the storage
		go func() { results <- status("first") }()
		for range 2 {
			same(t, "an hour after its end the secret gives", <-results, http.StatusUnauthorized)
		}
	})
}

var equal, fails, must = assert.Equal, assert.Fails, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

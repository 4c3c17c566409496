//go:build unix

package httpd

import (
	"bytes"
	"compress/zlib"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/config"
)

// evilIssuer publishes keys and status lists like the service, and signs
// whatever a test wants. It answers what the test sets for a path.
type evilIssuer struct {
	t      *testing.T
	URL    string
	now    time.Time // of the verifiers; tests add to it
	secret []byte
	key    jose.JSONWebKey // published
	other  jose.JSONWebKey // not published, another kid

	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by path
	asked   map[string]int              // by path, those without an answer too
}

// attackersKey is for everything that the issuer did not sign.
var attackersKey = sync.OnceValue(func() jose.JSONWebKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: "attacker", Use: "sig", Algorithm: "RS256"}
})

func startEvilIssuer(t *testing.T) *evilIssuer {
	t.Helper()
	keys, err := config.LoadSigningKeys(sharedKey(), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &evilIssuer{
		t: t, now: time.Now().Truncate(time.Second), secret: []byte("a-shared-secret-of-more-than-32-bytes"), key: keys[0], other: attackersKey(),
		answers: map[string]http.HandlerFunc{}, asked: map[string]int{},
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.URL = server.URL
	f.answer("/.well-known/jwks.json", f.publish(f.key))
	return f
}

// ServeHTTP counts before it answers.
func (f *evilIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked[r.URL.Path]++
	answer := f.answers[r.URL.Path]
	f.mu.Unlock()
	if answer == nil {
		answer = http.NotFound
	}
	answer(w, r)
}

func (f *evilIssuer) answer(path string, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[path] = h
}

// requests are those so far, by path.
func (f *evilIssuer) requests() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.asked)
}

// publish answers with a key set.
func (f *evilIssuer) publish(keys ...jose.JSONWebKey) http.HandlerFunc {
	set := jose.JSONWebKeySet{Keys: keys}
	for i := range keys {
		if public := keys[i].Public(); public.Valid() { // a secret has no public half and goes out as it is
			set.Keys[i] = public
		}
	}
	body, err := json.Marshal(set)
	if err != nil {
		f.t.Fatal(err)
	}
	return text(string(body))
}

// text answers with a body, and with 304 where the body is known.
func text(body string) http.HandlerFunc {
	etag := strconv.Quote(challengeOf(body))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte(body))
	}
}

// claims are those of a good cookie with a place in list 1; change spoils them.
func (f *evilIssuer) claims(change func(c map[string]any)) map[string]any {
	c := map[string]any{
		"iss": f.URL, "sub": "sub-of-ada", "aud": "activity", "iat": f.now.Unix() - 60, "exp": f.now.Unix() - 60 + 30*86400, "auth_time": f.now.Unix() - 60,
		"jti": "jti", "sid": "sid", "preferred_username": "ada", "name": "Ada", "groups": []string{"activity"}, "status": f.place(1, 7),
	}
	if change != nil {
		change(c)
	}
	return c
}

// place is the claim status.
func (f *evilIssuer) place(list int, index any) map[string]any {
	return map[string]any{"status_list": map[string]any{"idx": index, "uri": f.listURI(list)}}
}

func (f *evilIssuer) listURI(list int) string { return f.URL + "/oauth2/status/" + strconv.Itoa(list) }

// cookie is signed as Cairn does.
func (f *evilIssuer) cookie(change func(c map[string]any)) string {
	return f.sign(jose.RS256, f.key, "JWT", f.claims(change), nil)
}

// sign makes a token of any claims; header members are added to it.
func (f *evilIssuer) sign(alg jose.SignatureAlgorithm, key any, typ string, claims any, header map[jose.HeaderKey]any) string {
	f.t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{}}
	if typ != "" {
		options.WithType(jose.ContentType(typ))
	}
	maps.Copy(options.ExtraHeaders, header)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		f.t.Fatal(err)
	}
	payload, ok := claims.([]byte)
	if !ok {
		if payload, err = json.Marshal(claims); err != nil {
			f.t.Fatal(err)
		}
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		f.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		f.t.Fatal(err)
	}
	return token
}

// reheaded puts another header before a token, whose signature then fits no more
// or never did.
func reheaded(token, header string) string {
	_, rest, _ := strings.Cut(token, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + rest
}

// listClaims are those of a good status list of 1,024 sessions, good for 10
// minutes until its exp in two hours; change spoils them.
func (f *evilIssuer) listClaims(list int, revoked []int, change func(c map[string]any)) map[string]any {
	bits := make([]byte, 128)
	for _, i := range revoked {
		bits[i/8] |= 1 << (i % 8)
	}
	c := map[string]any{
		"sub": f.listURI(list), "iat": f.now.Unix(), "exp": f.now.Unix() + 7200, "ttl": 600,
		"status_list": map[string]any{"bits": 1, "lst": packed(bits)},
	}
	if change != nil {
		change(c)
	}
	return c
}

// packed is a lst: zlib and base64url.
func packed(bits []byte) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(bits) // a bytes.Buffer takes everything
	_ = z.Close()
	return base64.RawURLEncoding.EncodeToString(b.Bytes())
}

// serveList publishes a good list as Cairn does with a key.
func (f *evilIssuer) serveList(list int, revoked ...int) {
	f.answer("/oauth2/status/"+strconv.Itoa(list), text(f.sign(jose.RS256, f.key, "statuslist+jwt", f.listClaims(list, revoked, nil), nil)))
}
